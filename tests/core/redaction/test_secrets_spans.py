"""What all searches for sensitive spans share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.redaction.secrets import (
    KINDS,
    PLACEHOLDER,
    find_places,
    is_pronounceable,
    lowercase_same_length,
    replace_half_pairs,
)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_lowercase_keeps_the_length_and_half_pairs_can_be_sent(text: str) -> None:
    assert len(lowercase_same_length(text)) == len(text)
    whole = replace_half_pairs(text)
    assert len(whole) == len(text)
    whole.encode("utf-8")


def test_every_kind_has_its_placeholder() -> None:
    assert all(PLACEHOLDER.fullmatch(f"[redacted:{kind}]") for kind in KINDS)
    assert PLACEHOLDER.fullmatch("[redacted:other]") is None


def test_places_are_found_in_order() -> None:
    assert find_places("a key, a token, a key", ("token", "key")) == [2, 9, 18]


def test_words_are_pronounceable_and_random_letters_are_not() -> None:
    assert is_pronounceable("the morning report")
    assert not is_pronounceable("xkqzv wbtrg")
