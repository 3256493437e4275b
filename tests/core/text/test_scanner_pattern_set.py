"""Searches that are left out because of one quick look would have found nothing."""

from __future__ import annotations

import re
import threading
from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.redaction import personal_data as personal
from lockgate.core.redaction import redact as redaction
from lockgate.core.redaction import secrets
from lockgate.core.redaction.redact import redact
from lockgate.core.redaction.secrets import SHAPES, lowercase_same_length
from lockgate.core.text.scanner import COMPILE_AFTER, SHORT_TEXT, PatternSet

WORDS = secrets.MARKS | personal.MARKS
FILLER = "So it goes on for a while, as letters do. "
LONG = FILLER * (SHORT_TEXT // len(FILLER) + 1)
LOOK = redaction._MARKS


@pytest.fixture(autouse=True)
def _ready() -> None:
    """As in a process that has seen texts enough."""
    LOOK.make_ready()


SECRETS = (
    "sk-proj-aB3dE5fG7hK9mN1pQ2sT4",
    "password=hunter2",
    "Пароль: qwerty12",
    "123456789:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr",
    "aB3dE5fG7hK9mN1pQ2sT4uV6",
    "4111 1111 1111 1111",
    "4111 \u2013 1111 \u2013 1111 \u2013 1111",
    "3782_822463_10005",
    "DE89 3704 0044 0532 0130 00",
    "de89.3704.0044.0532.0130.00",
    "078-05-1120",
    "AB123456C",
    "ABCPE1234F",
    "S1234567D",
    "X1234567L",
    "RSSMRA85T10A562S",
    "call me at (212) 555-0199",
    "0049 30 1234567",
    "someone [at] mail [dot] example",
    "a.b@example.org",
    "born 12.03.1985, mrn 12345678, aged 93, 10.0.0.1",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij",
    "Authorization: Basic dXNlcjpwYXNz",
    "Cookie: session=abcdef123456",
    "mysql -phunter22 -u root:toor",
    "cGFzc3dvcmQ9aHVudGVyMjIyMg==",
    "p%61ssword=hunter2 &amp; \\u0070assword=x1y2z3",
)
PIECES = st.sampled_from(
    [
        *SECRETS,
        *sorted(WORDS),
        FILLER,
        "\n",
        "\r\n> ",
        " \\\n",
        '"\n + "',
        "' + '",
        "\ud800",
        "\u0130",
        "K",
        "1",
        "-",
        " ",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=24).map("".join)


@given(TEXTS)
@settings(max_examples=75, deadline=None)
def test_a_word_is_seen_where_it_is_and_nowhere_else(text: str) -> None:
    low = lowercase_same_length(text + LONG)
    assert LOOK.find_in(low) & WORDS == {word for word in WORDS if word in low}


SLOW = {
    secrets._RUN_SHAPE: [SHAPES["run"]],
    personal._IBAN_SHAPE: [SHAPES["account"], SHAPES["joined account"]],
    personal._CARD_SHAPE: [SHAPES["card"], SHAPES["card in groups"]],
}
assert SLOW.keys() == secrets.ENGINE_SHAPES.keys() | personal.ENGINE_SHAPES.keys()
BY_PATTERN = [(shape, pattern) for shape, patterns in SLOW.items() for pattern in patterns]


@pytest.mark.parametrize(("shape", "pattern"), BY_PATTERN, ids="run iban joined-iban card groups".split())
def test_a_shape_is_seen_in_all_that_the_slower_search_finds(shape: str, pattern: re.Pattern[str]) -> None:
    @given(st.from_regex(pattern), TEXTS)
    @settings(max_examples=40, deadline=None)
    def is_seen(text: str, around: str) -> None:
        assert pattern.search(text)
        for whole in (text + LONG, LONG + text, LONG + text + around):
            if pattern.search(whole):
                assert shape in LOOK.find_in(lowercase_same_length(whole))

    is_seen()


@pytest.mark.parametrize("shape", SLOW, ids=str)
def test_prose_has_no_shape(shape: str) -> None:
    assert shape not in LOOK.find_in(LONG)


@given(TEXTS, st.sampled_from(["default", "hipaa", "ferpa", "secrets"]))
@settings(max_examples=75, deadline=None)
def test_what_is_removed_is_what_all_searches_would_remove(text: str, ruleset: str) -> None:
    text = f"{LONG}{text}{LONG}"
    with (
        patch.object(PatternSet, "find_in", lambda self, _text: self.all_names),
    ):
        every = redact(text, ruleset)
    assert redact(text, ruleset) == every


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_goes_from_a_long_text_as_from_a_short_one(secret: str) -> None:
    short, long = redact(secret, "hipaa"), redact(f"{LONG}\n\n{secret}\n\n{LONG}", "hipaa")
    assert short.removed == long.removed != ()


def test_threads_do_not_get_in_each_others_way() -> None:
    look = PatternSet(["needle", "pin"], {"digits": "[0-9]{9}"})
    look._characters_seen = COMPILE_AFTER
    texts = [LONG + "needle", LONG + "pin 123456789", LONG]
    expected = [{"needle"}, {"pin", "digits"}, set[str]()]
    wrong: list[object] = []

    def work(at: int) -> None:
        for _ in range(200):
            seen = look.find_in(texts[at])
            if seen != expected[at]:
                wrong.append(seen)

    threads = [threading.Thread(target=partial(work, number % 3)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_engine_is_made_ready_once_it_is_worth_it() -> None:
    look = PatternSet(["needle"], {})
    for _ in range(COMPILE_AFTER // len(LONG)):
        assert look.find_in(LONG) == {"needle"}
        assert not look._database.is_ready
    assert look.find_in(LONG) == set()
    assert look.find_in(LONG) == set()


def test_in_a_short_text_everything_is_searched_for_before_the_engine_is_compiled() -> None:
    assert PatternSet(["needle"], {"digits": "[0-9]"}).find_in("x" * (SHORT_TEXT - 1)) == {"needle", "digits"}


def test_in_a_short_text_a_compiled_engine_searches() -> None:
    look = PatternSet(["needle"], {"digits": "[0-9]"})
    look.make_ready()
    assert look.find_in("a needle") == {"needle"}
