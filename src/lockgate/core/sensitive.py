"""What counts as sensitive, and how the searches for it stay linear: from one mark in the text to the next."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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


class Found(NamedTuple):
    """One stretch of a text that must not leave; `said` is what it says when that is not what it spells."""

    kind: str
    start: int
    end: int
    said: str = ""


def lowered(text: str) -> str:
    """The text with its ASCII letters in lower case: lowering others can change their number."""
    return text.lower() if text.isascii() else re.sub("[A-Z]+", lambda run: run[0].lower(), text)


def places(low: str, words: Iterable[str]) -> list[int]:
    """Where any of some words begins, in order: a plain search for each is far faster than an alternation."""
    found = set()
    for word in words:
        at = low.find(word)
        while at >= 0:
            found.add(at)
            at = low.find(word, at + len(word))
    return sorted(found)
