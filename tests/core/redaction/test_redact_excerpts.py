"""Excerpts for a judge: without secrets, within their budget, around the findings."""

from __future__ import annotations

import json

from canaries import Maker, plain
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.redaction.redact import (
    LINE_OVERHEAD,
    Redacted,
    ShownParts,
    cut_excerpts,
    cut_to_budget,
    quote,
    redact,
    remove_secrets_from_value,
    share_budget,
    written_size,
)


def test_a_value_under_the_name_of_a_secret_is_removed() -> None:
    assert remove_secrets_from_value("login.password", "swordfish").text == "[redacted:secret]"
    assert remove_secrets_from_value("title", "swordfish").text == "swordfish"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(120, 900))
@settings(max_examples=100, deadline=None)
def test_what_is_shown_stays_in_its_budget(text: str, budget: int) -> None:
    shown = cut_to_budget(text * 5, [(3, 9)], budget)
    assert sum(written_size(piece) + LINE_OVERHEAD for piece in shown.pieces) <= budget
    assert shown.written_size <= budget


def test_a_quotation_is_cut_at_a_word() -> None:
    assert json.loads(quote("one two three", limit=9)) == "one two […]"
    assert json.loads(quote('say "hi"')) == 'say "hi"'


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 9)), min_size=1, max_size=9), st.integers(0, 2_000))
def test_shares_never_exceed_the_budget_or_the_need(parts: list[tuple[int, int]], budget: int) -> None:
    needs, worth = [need for need, _ in parts], [value for _, value in parts]
    shares = share_budget(needs, worth, budget)
    assert sum(shares) <= budget
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))


def test_a_text_that_fits_is_shown_whole() -> None:
    assert cut_excerpts(redact("short"), [(0, 2)]) == ShownParts(("short",), True)
    assert cut_excerpts(redact(""), []) == ShownParts(("",), True)
    assert cut_excerpts(redact("x" * 8000), []).whole
    assert not cut_excerpts(redact("x" * 8001), []).whole


def test_a_long_text_shows_its_head_its_tail_and_its_finds() -> None:
    text = "HEAD" + "." * 20_000 + "FIND" + "," * 20_000 + "TAIL"
    at = text.index("FIND")
    shown = cut_excerpts(redact(text), [(at, at + 4)])
    assert not shown.whole
    assert len(shown.pieces) == 3
    assert shown.pieces[0].startswith("HEAD")
    assert "FIND" in shown.pieces[1]
    assert shown.pieces[2].endswith("TAIL")
    assert sum(map(len, shown.pieces)) <= 8000


@given(
    st.integers(0, 30_000),
    st.lists(st.tuples(st.integers(-5, 31_000), st.integers(0, 5_000)), max_size=60),
    st.integers(40, 9_000),
)
@settings(max_examples=100, deadline=None)
def test_excerpts_stay_in_their_budget_and_are_parts_of_the_text(
    size: int, finds: list[tuple[int, int]], budget: int
) -> None:
    text = "".join(f"{i:06d}," for i in range(size // 7 + 1))[:size]
    shown = cut_excerpts(Redacted(text, ()), [(start, start + length) for start, length in finds], budget=budget)
    assert sum(map(len, shown.pieces)) <= budget
    assert shown.whole == (len(text) <= budget)
    assert "".join(shown.pieces) == text if shown.whole else True
    at = 0
    for piece in shown.pieces:
        at = text.index(piece, at) + len(piece)


def test_no_border_of_an_excerpt_leaves_half_a_secret() -> None:
    """The secret slides over the ends of head, window and tail, one character at a time."""
    maker = Maker(12)
    for kind in ("openai", "jwt", "card", "iban", "email", "private-key"):
        secret = maker.kinds[kind]()
        for offset in range(70, 130):
            text = f"{'.' * offset} {secret} {'.' * 600} marker {'.' * 700} {secret} {'.' * (130 - offset)}"
            shown = cut_excerpts(redact(text), [(text.index("marker"), text.index("marker") + 6)], budget=400)
            left = plain("".join(shown.pieces))
            hidden = plain(secret)
            assert not any(hidden[i : i + 8] in left for i in range(len(hidden) - 7)), (kind, offset)
