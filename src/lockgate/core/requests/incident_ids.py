"""Incident ids (the ULID form): 26 characters that sort by time, 48 bits of milliseconds and 80 random ones.

A client that has seen one cannot guess another.
"""

from __future__ import annotations

import re
from functools import reduce

RANDOM = 10
# Crockford's: no I, L, O or U, which are misread.
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# 26 characters hold 130 bits; the first holds three of them.
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)


def incident_id(now_ms: int, randomness: bytes) -> str:
    """The id made at this time with these 10 random bytes. A clock beyond the form's range is cut to its ends."""
    if len(randomness) != RANDOM:
        raise ValueError(f"an incident id needs {RANDOM} random bytes")
    number = min(max(now_ms, 0), (1 << 48) - 1) << 80 | int.from_bytes(randomness, "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def is_incident_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def incident_time_ms(id: str) -> int:
    """The time in an id, in milliseconds since 1970."""
    return reduce(lambda number, letter: number << 5 | _ALPHABET.index(letter), id[:10], 0)
