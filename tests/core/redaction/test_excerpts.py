"""Excerpts for a judge: without secrets, within their budget, around the findings."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.redaction.excerpts import (
    LINE_OVERHEAD,
    cut_to_budget,
    quote,
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
