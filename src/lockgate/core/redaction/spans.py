"""Sensitive spans of a text, and the parts that all searches for them share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from lockgate.core.text.confusables import is_wordlike

# The most specific first: where two spans overlap, the earlier kind names the placeholder.
KINDS = (
    *"private-key api-key jwt token cookie url-credentials secret card iban national-number record-number".split(),
    *"birth-date personal-detail email phone ip-address date address url name media custom".split(),
)
PLACEHOLDER = re.compile(rf"\[redacted:(?:{'|'.join(KINDS)})\]")
DIGIT = re.compile("[0-9]")


class SensitiveSpan(NamedTuple):
    """A stretch of a text that must not leave the process; `said` is its decoded text where it is encoded."""

    kind: str
    start: int
    end: int
    said: str = ""


LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_half_pairs(text: str) -> str:
    """Return the text with U+FFFD for every half of a surrogate pair, which cannot be sent as UTF-8."""
    return text if text.isascii() else LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def lowercase_same_length(text: str) -> str:
    """Return the text in lower case with as many characters as before; only `İ` would become two."""
    return text.replace("\u0130", "i").lower()


# The parts of a name in code: `getUserId`, `HTTPServer`.
HUMP = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What hardly any word has: five consonants in a row, a q without its u, a letter three times over.
_UNSPOKEN = re.compile(
    r"[bcdfghjklmnpqrstvwxz]{5}|[aeiou]{4}|q(?!u)|[jvwz][bcdfgjkmpqtvwxz]|x[bdfgjkmqvwxz]|[bcdfghjklmnpqstvwxz]{2}[jqvxz]|(.)\1\1"
)


def is_pronounceable(letters: str) -> bool:
    """Return whether letters could be words; of rows of sixteen random letters, one in a hundred could."""
    return is_wordlike(letters) and _UNSPOKEN.search(letters.lower()) is None


def mark_limit(text: str) -> int:
    """Return how many marks an ordinary text may have; looking at each of more would take too long."""
    return 64 + len(text) // 16


def find_places(low: str, words: Iterable[str]) -> list[int]:
    """Return where any of the words begins, in order; one plain search each is far faster than an alternation."""
    found = set()
    for word in words:
        at = low.find(word)
        while at >= 0:
            found.add(at)
            at = low.find(word, at + len(word))
    return sorted(found)
