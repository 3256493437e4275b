"""The names that a search with `find` or `fd` looks for, with what it says about them: not, or, brackets."""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import NamedTuple

EXECUTES = frozenset("-exec -execdir -ok -okdir -x --exec -X --exec-batch".split())
_NAMED_BY = frozenset("-name -iname -path -ipath -wholename -e --extension -g --glob".split())
_NOT, _OR = frozenset(("!", "-not")), frozenset(("-o", "-or", ","))
_ACTS = EXECUTES | frozenset("-print -print0 -printf -ls -delete -fprint -fprint0 -fprintf -fls".split())


class Search(NamedTuple):
    """Every pattern that a search looks for, and whether everything that it finds fits one of them."""

    wanted: list[str]
    is_limited: bool


def read_search(arguments: list[str]) -> Search:
    """Return what a search looks for, read without its brackets: each alternative needs a name before it acts.

    Behind `!` before a bracket any name may be wanted, and nothing is limited.
    """
    words = _without_pruned(_without_commands(arguments))
    is_turned = any(first in _NOT and (second == "(" or second in _NOT) for first, second in pairwise(words))
    names: list[str] = []
    is_limited, has_name, acts = True, False, False
    for before, word, value in zip(["", *words], [*words, "-o"], [*words[1:], "", ""], strict=False):
        if word in _NAMED_BY and (is_turned or before not in _NOT):
            names.append(value)
            has_name |= not acts
        elif word in _OR:
            is_limited, has_name, acts = is_limited and has_name, False, False
        acts |= word in _ACTS
    return Search(names, is_limited and not is_turned)


def _without_commands(arguments: list[str]) -> list[str]:
    """Return the arguments without those of the commands that the search runs."""
    rest, words = iter(arguments), list[str]()
    for argument in rest:
        words.append(argument)
        if argument in EXECUTES:
            list(takewhile(lambda part: part not in (";", "+"), rest))
    return words


def _without_pruned(words: list[str]) -> list[str]:
    """Return what stands behind the last `-prune -o`, where nothing but that is acted on."""
    ends = [at for at, pair in enumerate(pairwise(words)) if pair[0] == "-prune" and pair[1] in _OR]
    if not ends or "(" in words or not _ACTS.isdisjoint(words[: ends[-1]]) or _ACTS.isdisjoint(words):
        return words
    return words[ends[-1] + 2 :]
