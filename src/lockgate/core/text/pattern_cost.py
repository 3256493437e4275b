"""What compiling a pattern can cost, counted from its text: the engine cannot be stopped once it has begun.

A configuration may come with a repository, and a short pattern can keep the engine busy for minutes: by many steps and
links between them (a repeat writes its body down as often as it may match, `(?:a?b?){0,99}`), and where no two fixed
characters stand in a row (`a.*b`), by one automaton for all such patterns, which grows with the square of their steps.
The count is never below the true one; a plain word costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.tables import read_patterns

# Of all patterns together. At the limit of the cost the engine is busy for some seconds.
MAX_CHARACTERS = 50_000
MAX_COST = 5_000
# What a step costs in a pattern without two fixed characters in a row.
UNFIXED_STEP = 15
# In a pattern beyond ASCII a class stands for several sequences of bytes, and a Unicode property for very many.
_WIDE = {"set": 3, "property": 60}
_MAX_GROUPS = 200

_P = read_patterns(__package__, "patterns.tbl")


class _Piece(NamedTuple):
    """A piece of a pattern: how many steps can begin and end it, whether it may be empty, its steps and their links.

    `fixed` is 2 if two fixed characters in a row are in every match of it, 1 if it ends with one.
    """

    first: int = 0
    last: int = 0
    empty: bool = True
    steps: int = 0
    links: int = 0
    fixed: int = 0


def check_budget(patterns: Sequence[str]) -> None:
    """Raise InvalidConfig, with the worst pattern, if these are too large or too expensive together."""
    for pattern in patterns:
        if _P["hides"].search(pattern):
            raise InvalidConfig(
                f"pattern {quoted(pattern)} has \\Q, \\E or the option x, which are not taken",
                hint="write a backslash before each sign that stands for itself, and no comments",
            )
    if (characters := sum(map(len, patterns))) > MAX_CHARACTERS:
        raise InvalidConfig(
            f"the patterns have {characters:,} characters, the limit is {MAX_CHARACTERS:,}; "
            f"the longest is {quoted(max(patterns, key=len))}",
            hint="write fewer or shorter ones",
        )
    costs = {pattern: pattern_cost(pattern) for pattern in patterns}
    if (cost := sum(costs[pattern] for pattern in patterns)) > MAX_COST:
        worst = max(costs, key=costs.__getitem__)
        raise InvalidConfig(
            f"the patterns cost {cost:,} to compile, the limit is {MAX_COST:,}; "
            f"the most expensive is {quoted(worst)} with {costs[worst]:,}",
            hint="let it repeat less often, and give it two fixed characters in a row",
        )


def pattern_cost(pattern: str) -> int:
    """Return what compiling this pattern costs, in links; 0 for a plain word of at least two characters."""
    if pattern.count("(") > _MAX_GROUPS:
        return MAX_COST + 1
    tokens = [*_P["token"].finditer(pattern)]
    piece = _read_group(iter(tokens), is_wide=not pattern.isascii() or pattern.startswith("(*"))
    # A plain word links each step with the next, which is no more than its text.
    written = sum(token.lastgroup in ("one", *_WIDE) for token in tokens)
    return max(0, piece.links - written) + (0 if piece.fixed == 2 else UNFIXED_STEP * piece.steps)


def _read_group(tokens: Iterator[re.Match[str]], *, is_wide: bool) -> _Piece:
    """Return a group read up to its closing bracket; the engine itself refuses a pattern with one too many."""
    alternatives: list[list[_Piece]] = [[]]
    for token in tokens:
        kind, pieces = token.lastgroup, alternatives[-1]
        if kind == "close":
            break
        if kind == "open":
            group = _read_group(tokens, is_wide=is_wide)
            pieces.append(group._replace(fixed=group.fixed // 2 * 2))
        elif kind == "either":
            alternatives.append([])
        elif kind == "repeat" and pieces:
            pieces[-1] = _repeat(pieces[-1], token)
        elif kind == "place":
            pieces.append(_Piece())
        elif kind != "nothing":
            count = _WIDE.get(str(kind), 1) if is_wide else 1
            pieces.append(_Piece(count, count, False, count, 0, int(kind not in _WIDE)))
    return reduce(_either, [reduce(_join, pieces, _Piece()) for pieces in alternatives])


def _join(a: _Piece, b: _Piece) -> _Piece:
    if not (a.steps and b.steps):
        return a if a.steps else b
    first, last = a.first + (b.first if a.empty else 0), b.last + (a.last if b.empty else 0)
    links = a.links + b.links + a.last * b.first
    fixed = 2 if 2 in (a.fixed, b.fixed) or a.fixed + b.fixed == 2 else b.fixed
    return _Piece(first, last, a.empty and b.empty, a.steps + b.steps, links, fixed)


def _either(a: _Piece, b: _Piece) -> _Piece:
    first, last, steps, links = a.first + b.first, a.last + b.last, a.steps + b.steps, a.links + b.links
    return _Piece(first, last, a.empty or b.empty, steps, links, min(a.fixed, b.fixed))


def _repeat(piece: _Piece, repeat: re.Match[str]) -> _Piece:
    least = int(repeat["least"] or repeat["sign"] == "+")
    most = int(repeat["most"] or 0) if repeat["open_ended"] else 1 if repeat["sign"] == "?" else least
    endless = repeat["sign"] in ("*", "+") or repeat["open_ended"] == ","
    copies = max(least, 1) if endless else most
    ends = 1 if endless else max(most - max(least, 1) + 1, 1)
    # A copy that may be empty lets each before it be followed by each after it.
    pairs = copies * (copies - 1) // 2 if piece.empty else max(copies - 1, 0)
    first, last = piece.first * (copies if piece.empty else 1), piece.last * (copies if piece.empty else ends)
    links = piece.links * copies + piece.last * piece.first * (pairs + endless)
    fixed = 2 if piece.fixed and least > 1 else piece.fixed if least else 0
    return _Piece(first, last, piece.empty or least == 0, piece.steps * copies, links, fixed)
