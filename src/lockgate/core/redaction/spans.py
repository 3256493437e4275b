"""What counts as sensitive, and how the searches for it stay linear: from one mark in the text to the next."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from lockgate.core.text.confusables import is_wordlike

# The most telling first: where two overlap, the first names what was removed.
KINDS = (
    "private-key",
    "api-key",
    "jwt",
    "token",
    "cookie",
    "url-credentials",
    "secret",
    "card",
    "iban",
    "national-number",
    "record-number",
    "birth-date",
    "personal-detail",
    "email",
    "phone",
    "ip-address",
    "media",
    "custom",
)
PLACEHOLDER = re.compile(rf"\[redacted:(?:{'|'.join(KINDS)})\]")
DIGIT = re.compile("[0-9]")


class SensitiveSpan(NamedTuple):
    """One stretch of a text that must not leave; `said` is what it says when that is not what it spells."""

    kind: str
    start: int
    end: int
    said: str = ""


LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_half_pairs(text: str) -> str:
    """The text with a sign for every half of a surrogate pair, which has no bytes to be sent as; one for one."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # In parts: one replacement after the other in a megabyte would keep every other thread waiting.
        parts = [text[i : i + 65_536] for i in range(0, len(text), 65_536)]
        return "".join([LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", part) for part in parts])
    return text


def lowercase_same_length(text: str) -> str:
    """The text in lower case, with as many characters: only one letter there is becomes two."""
    return text.replace("\u0130", "i").lower()


# A word by its humps: `getUserId`, `HTTPServer`.
HUMP = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What hardly a word has in it: five consonants in a row, a q without its u, a letter three times over.
_UNSPOKEN = re.compile(
    r"[bcdfghjklmnpqrstvwxz]{5}|[aeiou]{4}|q(?!u)|[jvwz][bcdfgjkmpqtvwxz]|x[bdfgjkmqvwxz]|[bcdfghjklmnpqstvwxz]{2}[jqvxz]|(.)\1\1"
)


def is_pronounceable(letters: str) -> bool:
    """Whether letters could be words, and not drawn at random: of sixteen random ones one row in a hundred could."""
    return is_wordlike(letters) and _UNSPOKEN.search(letters.lower()) is None


def mark_limit(text: str) -> int:
    """More marks than this are no ordinary text: nobody has the time to look at each of them."""
    return 64 + len(text) // 16


def find_places(low: str, words: Iterable[str]) -> list[int]:
    """Where any of some words begins, in order: a plain search for each is far faster than an alternation."""
    found = set()
    for word in words:
        at = low.find(word)
        while at >= 0:
            found.add(at)
            at = low.find(word, at + len(word))
    return sorted(found)
