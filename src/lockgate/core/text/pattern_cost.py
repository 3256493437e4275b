"""What compiling a pattern can cost, counted from its text: the engine cannot be stopped once it has begun.

A configuration may come with a repository, and a short pattern can keep the engine busy for minutes. Two things make it
slow:

1. Steps, one for each character that a match may take, and the links between them. A repeat writes its body down as
   often as it may match, and optional steps in a row are linked each with each: `(?:a?b?){0,99}`.
2. Patterns without two fixed characters in a row, like `a.*b`. The engine first looks for such characters; the others
   it merges into one automaton, which grows with the square of their steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import pairwise
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

_HIDES = re.compile(r"(?<!\\)(?:\\\\)*\\[QE]|\(\?[a-zA-Z^-]*x")
# Escapes that stand for a class of characters, or for a place.
_CLASS_ESCAPES = frozenset("dDwWsShHvVNRXC")
_PLACE_ESCAPES = frozenset("bBAzZGQEK")
# A group begins with a name, flags, or a kind that the engine refuses; a comment or flags alone are `nothing`.
_TOKEN = re.compile(
    r"(?P<nothing>\((?:\?#[^)]*|\*[^)]*|\?[a-zA-Z^-]*)\))|"
    r"(?P<open>\((?:\?P?<[^>=!]*>|\?P?'[^']*'|\?[a-zA-Z^-]*:|\?[=!>|]|\?<[=!])?)|(?P<close>\))|(?P<either>\|)|"
    r"(?P<set>\[\^?\]?(?:\\.|\[:\^?\w*:\]|[^\]\\])*\]?)|"
    r"\\(?P<escape>x\{[^}]*\}|x[0-9a-fA-F]{0,2}|[pP]\{[^}]*\}|[pP].|c.|[0-7]{1,3}|o\{[^}]*\}|.)|"
    r"(?P<repeat>(?:(?P<sign>[?*+])|\{(?P<least>\d+)(?P<open_ended>,(?P<most>\d*))?\})[?+]?)|(?P<one>.)",
    re.DOTALL,
)


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
    piece = reader.read_group(0)
    return min(TOO_DEEP, max(0, piece.links - reader.written) + (0 if piece.fixed else UNFIXED_STEP * piece.steps))


class _Reader:
    """Reads a pattern once, from left to right; what it cannot read counts as a character."""

    def __init__(self, pattern: str) -> None:
        self._tokens = _TOKEN.finditer(pattern)
        self._beyond_ascii = not pattern.isascii() or pattern.startswith("(*")
        # How many steps are in the text itself: a plain word links each with the next.
        self.written = 0

    def read_group(self, depth: int) -> _Piece:
        alternatives: list[list[_Piece]] = [[]]
        for token in self._tokens:
            kind, pieces = token.lastgroup, alternatives[-1]
            if kind == "repeat" and pieces:
                pieces[-1] = _repeat(pieces[-1], *_bounds(token))
            elif kind == "open":
                if depth == _MAX_DEPTH:
                    return _Piece(steps=TOO_DEEP)
                pieces.append(self.read_group(depth + 1)._replace(character=False))
            elif kind == "either":
                alternatives.append([])
            elif kind == "close" and depth:
                break
            elif kind not in ("close", "nothing"):
                pieces.append(self._step(token))
        return reduce(_either, map(_join_all, alternatives))

    def _step(self, token: re.Match[str]) -> _Piece:
        escape, is_wide = token["escape"] or "", token[0] == "." or token["set"]
        if escape in _PLACE_ESCAPES or token[0] in ("^", "$"):
            return _Piece()
        is_property = escape[:1] in ("p", "P")
        is_character = not is_wide and not is_property and escape not in _CLASS_ESCAPES
        self.written += 1
        count = (1 if is_character else _PROPERTY if is_property else _WIDE_CLASS) if self._beyond_ascii else 1
        return _Piece(count, count, False, count, 0, character=is_character)


def _bounds(repeat: re.Match[str]) -> tuple[int, int | None]:
    if sign := repeat["sign"]:
        return int(sign == "+"), (1 if sign == "?" else None)
    least = int(repeat["least"])
    return least, (int(repeat["most"]) if repeat["most"] else None if repeat["open_ended"] else least)


def _join_all(pieces: Sequence[_Piece]) -> _Piece:
    """Return a sequence of pieces as one; two fixed characters in a row are fixed, whatever empty ones are between."""
    solid = [piece for piece in pieces if piece.steps]
    fixed = any(one.character and other.character for one, other in pairwise(solid))
    joined = reduce(_join, pieces, _Piece())
    return joined._replace(fixed=joined.fixed or fixed)


def _join(a: _Piece, b: _Piece) -> _Piece:
    first, last = a.first + (b.first if a.empty else 0), b.last + (a.last if b.empty else 0)
    links = a.links + b.links + a.last * b.first
    return _Piece(first, last, a.empty and b.empty, a.steps + b.steps, links, a.fixed or b.fixed)


def _either(a: _Piece, b: _Piece) -> _Piece:
    first, last, steps, links = a.first + b.first, a.last + b.last, a.steps + b.steps, a.links + b.links
    return _Piece(first, last, a.empty or b.empty, steps, links, a.fixed and b.fixed)


def _repeat(piece: _Piece, least: int, most: int | None) -> _Piece:
    copies = max(least, 1) if most is None else most
    ends = 1 if most is None else max(most - max(least, 1) + 1, 1)
    # A copy that may be empty lets each before it be followed by each after it.
    pairs = copies * (copies - 1) // 2 if piece.empty else max(copies - 1, 0)
    first, last = piece.first * (copies if piece.empty else 1), piece.last * (copies if piece.empty else ends)
    links = piece.links * copies + piece.last * piece.first * (pairs + (most is None))
    fixed = least > 0 and (piece.fixed or (piece.character and least > 1))
    is_character = piece.character and least > 0
    return _Piece(first, last, piece.empty or least == 0, piece.steps * copies, links, fixed, is_character)
