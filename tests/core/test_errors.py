from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core import errors
from lockgate.core.errors import LockgateError, printable, quoted, suggest_closest

ERRORS = [
    "InvalidBlock",
    "InvalidCall",
    "InvalidConfig",
    "InvalidNote",
    "InvalidPattern",
    "InvalidPayload",
    "InvalidRecord",
    "InvalidTrace",
    "JournalDamaged",
    "JournalUnavailable",
    "JournalUncosigned",
    "SessionsBusy",
    "SessionsUnavailable",
]


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_can_be_caught_as_one(name: str) -> None:
    with pytest.raises(LockgateError):
        raise getattr(errors, name)("something was wrong")


def test_every_error_is_known_here() -> None:
    defined = {
        name for name, each in vars(errors).items() if isinstance(each, type) and each.__module__ == errors.__name__
    }
    assert defined == {"LockgateError", *ERRORS}


def test_an_error_without_a_hint_is_one_line() -> None:
    error = LockgateError("the goal is missing")
    assert str(error) == "the goal is missing"
    assert error.hint == ""


def test_a_hint_stands_on_a_line_of_its_own() -> None:
    error = LockgateError("the goal is missing", hint="give one")
    assert str(error) == "the goal is missing\nhint: give one"
    assert (error.message, error.hint) == ("the goal is missing", "give one")


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_crosses_a_process_boundary_whole(name: str) -> None:
    sent = getattr(errors, name)("what was wrong", hint="what to do")
    came = pickle.loads(pickle.dumps(sent))
    assert type(came) is type(sent)
    assert str(came) == str(sent)


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain", "`plain`"),
        ("", "``"),
        (12, "`12`"),
        (None, "`None`"),
        ("two\nlines", r"`two\nlines`"),
        ("\ttab\r\n", r"`\ttab\r\n`"),
        ("a" * 30 + "\n" * 30, "`" + "a" * 30 + r"\n" * 15 + "…`"),
        ("\x1b[31mred", "`\ufffd[31mred`"),
        ("right\u202eleft", "`right\ufffdleft`"),
        ("zero\u200bwidth", "`zero\ufffdwidth`"),
        ("half \ud800", "`half \ufffd`"),
        ("größe 大", "`größe 大`"),
        ("x" * 60, f"`{'x' * 60}`"),
        ("x" * 61, f"`{'x' * 60}…`"),
    ],
)
def test_user_input_is_quoted_short_and_printable(given_text: object, shown: str) -> None:
    assert quoted(given_text) == shown


@given(st.text(alphabet=st.characters(), max_size=200), st.integers(1, 80))
def test_nothing_a_terminal_would_obey_survives_quoting(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit + 1
    assert quoted(text, limit) == f"`{shown}`"


def test_a_huge_text_is_cut_before_it_is_looked_at() -> None:
    assert quoted("\n" * 50_000_000, 5) == r"`\n\n\…`"


def test_the_closest_known_word_is_suggested() -> None:
    assert suggest_closest("cal", ["call", "block"]) == "did you mean `call`?"
    assert suggest_closest("zzz", ["call", "block"]) == ""


def test_a_very_long_word_is_not_compared_at_length() -> None:
    assert suggest_closest("x" * 10_000_000, ["call"]) == ""
