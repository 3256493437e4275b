"""What flows from one program of a command line into the next."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

# Stands around the number of an unknown piece in a value. Shells cannot hold this character, so no input has it.
MARK = "\x00"


class Origin(IntEnum):
    """Where a value or a stream comes from, the more telling the higher."""

    NONE = 0
    TEXT = 1
    VARIABLE = 2
    FILE = 3
    DOWNLOAD = 4
    DECODED = 5
    SECRET = 6
    ENVIRONMENT = 7


class Stream(NamedTuple):
    """What a program prints: its text when it is known, otherwise what it comes from (a host, a path, a variable)."""

    origin: Origin = Origin.NONE
    text: str = ""
    target: str = ""


EMPTY = Stream()


class Invocation(NamedTuple):
    """One program with its arguments, what flows into it, and the variables set for it alone.

    Arguments are expanded; a piece whose value is not known is a mark, see `Walk.pieces_in`.
    """

    name: str
    arguments: list[str]
    stdin: Stream
    environment: dict[str, str]
