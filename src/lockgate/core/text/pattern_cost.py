"""What compiling a pattern can cost, counted from its text: the engine cannot be stopped once it has begun.

A configuration may come with a repository, and a short pattern can keep the engine busy for minutes. Two things make it
slow, and both can be counted:

1. Steps, one for each character that a match may take, and the links between them. A repeat writes its body down as
   often as it may match, and optional steps after each other are linked each with each: `(?:a?b?){0,99}`.
2. Patterns in which no two fixed characters in a row are sure to be in a match, like `a.*b`. The engine first looks for
   such characters. Without them it merges the patterns into one automaton, which grows with the square of their steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted

# Of all patterns together. At the limit of the cost the engine is busy for some seconds.
MAX_CHARACTERS = 50_000
MAX_COST = 5_000
# What a step costs in a pattern without two fixed characters in a row.
UNFIXED_STEP = 15
# In a pattern beyond ASCII a class stands for several sequences of bytes, and a Unicode property for very many.
_WIDE_CLASS = 3
_PROPERTY = 60
_MAX_DEPTH = 50
# More than any pattern may cost.
TOO_DEEP = 1_000_000_000

_ESCAPE = re.compile(r"\\(?:x\{[^}]*\}|x[0-9a-fA-F]{0,2}|[pP]\{[^}]*\}|[pP].|c.|[0-7]{1,3}|o\{[^}]*\}|.)", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w*:\]|[^\]\\])*\]?", re.DOTALL)
_REPEAT = re.compile(r"(?:([?*+])|\{(\d+)(?:(,)(\d*))?\})[?+]?")
# What a group begins with: a name, flags, or a kind that the engine refuses.
_GROUP = re.compile(r"\((?:\?#[^)]*\)|\*[^)]*\)|\?P?<[^>=!]*>|\?P?'[^']*'|\?([a-zA-Z^-]*)(\)|:)|\?[=!>|]|\?<[=!])?")
_HIDES = re.compile(r"(?<!\\)(?:\\\\)*\\[QE]|\(\?[a-zA-Z^-]*x")
# Escapes that stand for a class of characters, or for a place.
_CLASS_ESCAPES = frozenset("dDwWsShHvVNRXC")
_PLACE_ESCAPES = frozenset("bBAzZGQEK")


class _Piece(NamedTuple):
    """A piece of a pattern: how many steps can begin and end it, whether it may be empty, its steps and their links."""

    first: int = 0
    last: int = 0
    empty: bool = True
    steps: int = 0
    links: int = 0
    # Two fixed characters in a row are in every match of it; it is one fixed character.
    fixed: bool = False
    character: bool = False


def check_budget(patterns: Sequence[str]) -> None:
    """Raise InvalidConfig, with the worst pattern, if these are too large or too expensive together."""
    for pattern in patterns:
        # In a quoted part or a comment a bracket means something else, and what it costs could not be counted.
        if _HIDES.search(pattern):
            raise InvalidConfig(
                f"pattern {quoted(pattern)} has \\Q, \\E or the option x, which are not taken",
                hint="write a backslash before each sign that stands for itself, and no comments",
            )
    characters = sum(map(len, patterns))
    if characters > MAX_CHARACTERS:
        raise InvalidConfig(
            f"the patterns have {characters:,} characters, the limit is {MAX_CHARACTERS:,}; "
            f"the longest is {quoted(max(patterns, key=len))}",
            hint="write fewer or shorter ones",
        )
    cost = sum(map(pattern_cost, patterns))
    if cost > MAX_COST:
        worst = max(patterns, key=pattern_cost)
        raise InvalidConfig(
            f"the patterns cost {cost:,} to compile, the limit is {MAX_COST:,}; "
            f"the most expensive is {quoted(worst)} with {pattern_cost(worst):,}",
            hint="let it repeat less often, and give it two fixed characters in a row",
        )


@lru_cache(maxsize=2048)
def pattern_cost(pattern: str) -> int:
    """Return what compiling this pattern costs, in links; 0 for a plain word of at least two characters."""
    reader = _Reader(pattern)
    piece = reader.read_alternatives(0)
    while reader.at < len(pattern):
        # A bracket that nothing opened: the engine will refuse it.
        reader.at += 1
        piece = _join(piece, reader.read_alternatives(0))
    fixed = piece.fixed and not reader.ignores_spaces
    return min(TOO_DEEP, max(0, piece.links - reader.written) + (0 if fixed else UNFIXED_STEP * piece.steps))


class _Reader:
    """Reads a pattern once, from left to right; what it cannot read counts as a character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        # How many steps stand in the text itself: a plain word links each with the next.
        self.written = 0
        # In this mode a part of the text is a comment, and no fixed characters can be seen.
        self.ignores_spaces = False
        self._beyond_ascii = not pattern.isascii() or pattern.startswith("(*")

    def read_alternatives(self, depth: int) -> _Piece:
        found = self._read_sequence(depth)
        while self.pattern.startswith("|", self.at):
            self.at += 1
            found = _either(found, self._read_sequence(depth))
        return found

    def _read_sequence(self, depth: int) -> _Piece:
        found = _Piece()
        before_is_character = False
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            piece = self._read_one(depth)
            while repeat := self._take(_REPEAT):
                piece = _repeat(piece, *_bounds(repeat))
            pair = before_is_character and piece.character
            found = _join(found, piece._replace(fixed=piece.fixed or pair))
            if piece.steps:
                before_is_character = piece.character
        return found

    def _read_one(self, depth: int) -> _Piece:
        begins = self.pattern[self.at]
        if begins == "(" and (found := self._take(_GROUP)):
            return self._read_group(found, depth)
        if begins == "[" and self._take(_CLASS):
            return self._step(_WIDE_CLASS)
        if begins == "\\" and (found := self._take(_ESCAPE)):
            return self._read_escape(found[0][1])
        self.at += 1
        if begins in "^$":
            return _Piece()
        return self._step(_WIDE_CLASS) if begins == "." else self._step(1, character=True)

    def _read_escape(self, kind: str) -> _Piece:
        if kind in _PLACE_ESCAPES:
            return _Piece()
        if kind in "pP":
            return self._step(_PROPERTY)
        return self._step(_WIDE_CLASS) if kind in _CLASS_ESCAPES else self._step(1, character=True)

    def _read_group(self, found: re.Match[str], depth: int) -> _Piece:
        self.ignores_spaces |= "x" in (found[1] or "")
        if found[0].endswith(")"):
            return _Piece()
        if depth == _MAX_DEPTH:
            self.at = len(self.pattern)
            return _Piece(steps=TOO_DEEP)
        inside = self.read_alternatives(depth + 1)
        self.at += 1
        return inside._replace(character=False)

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self.pattern, self.at)
        self.at = found.end() if found else self.at
        return found

    def _step(self, beyond_ascii: int, *, character: bool = False) -> _Piece:
        count = beyond_ascii if self._beyond_ascii else 1
        self.written += 1
        return _Piece(count, count, False, count, 0, character=character)


def _bounds(repeat: re.Match[str]) -> tuple[int, int | None]:
    sign, least, comma, most = repeat.groups()
    if sign is not None:
        return (1 if sign == "+" else 0), (1 if sign == "?" else None)
    return int(least), (int(most) if most else None if comma else int(least))


def _join(a: _Piece, b: _Piece) -> _Piece:
    return _Piece(
        a.first + (b.first if a.empty else 0),
        b.last + (a.last if b.empty else 0),
        a.empty and b.empty,
        a.steps + b.steps,
        a.links + b.links + a.last * b.first,
        a.fixed or b.fixed,
    )


def _either(a: _Piece, b: _Piece) -> _Piece:
    return _Piece(
        a.first + b.first,
        a.last + b.last,
        a.empty or b.empty,
        a.steps + b.steps,
        a.links + b.links,
        a.fixed and b.fixed,
    )


def _repeat(piece: _Piece, least: int, most: int | None) -> _Piece:
    copies = max(least, 1) if most is None else most
    ends = 1 if most is None else max(most - max(least, 1) + 1, 1)
    # A copy that may be empty lets each before it be followed by each after it.
    pairs = copies * (copies - 1) // 2 if piece.empty else max(copies - 1, 0)
    spread = copies if piece.empty else 1
    return _Piece(
        piece.first * spread,
        piece.last * (copies if piece.empty else ends),
        piece.empty or least == 0,
        piece.steps * copies,
        piece.links * copies + piece.last * piece.first * (pairs + (most is None)),
        least > 0 and (piece.fixed or (piece.character and least > 1)),
        piece.character and least > 0,
    )
