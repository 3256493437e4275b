"""One program of a command line: its arguments, what it reads, and what it prints."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

# Stands around the number of an unknown piece in a value. Shells cannot hold this character, so no input has it.
MARK = "\x00"

# Paths by which a program opens what streams into it.
STANDARD_INPUT = frozenset(("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/$$/fd/0", "/proc/0/fd/0"))


class Source(IntEnum):
    """Where a value or output comes from, the more telling the higher. `NONE` is not known, `EMPTY` has no content."""

    EMPTY = 0
    NONE = 1
    TEXT = 2
    VARIABLE = 3
    FILE = 4
    DOWNLOAD = 5
    DECODED = 6
    SECRET = 7
    ENVIRONMENT = 8


class Output(NamedTuple):
    """What a program prints: its text when it is known, otherwise what it comes from (a host, a path, a variable)."""

    source: Source = Source.NONE
    text: str = ""
    target: str = ""


NO_OUTPUT = Output(Source.EMPTY)
UNKNOWN_OUTPUT = Output(Source.NONE)
# What a program prints for the shell to run as its own setting up: `ssh-agent -s`, `pyenv init -`.
SETUP = Output(Source.NONE, "setup")


class Invocation(NamedTuple):
    """One program with its arguments, what it reads, and the variables set for it alone.

    Arguments are expanded; a piece whose value is not known is a mark, see `Walk.pieces_in`.
    """

    name: str
    arguments: list[str]
    stdin: Output
    environment: dict[str, str]
