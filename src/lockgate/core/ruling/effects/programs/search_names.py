"""The names that a search with `find` or `fd` is limited to, with what it says about them: not, or, brackets."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import takewhile

EXECUTES = frozenset("-exec -execdir -ok -okdir -x --exec -X --exec-batch".split())
NAMED_BY = frozenset("-name -iname -path -ipath -wholename -e --extension -g --glob".split())
_NOT, _OR = frozenset(("!", "-not")), frozenset(("-o", "-or", ","))


def find_searched_names(arguments: list[str], named_by: Set[str] = NAMED_BY) -> list[str]:
    """Return patterns of which everything found fits one; none where anything may be found.

    What stands behind `!` is exactly what is not found, and what is pruned is not searched.
    """
    return _read_alternatives(_without_commands(arguments), named_by) or []


def _without_commands(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments without the commands that run for each file: their brackets are their own."""
    rest = iter(arguments)
    for argument in rest:
        if argument in EXECUTES:
            for _ in takewhile(lambda part: part not in (";", "+"), rest):
                pass
        else:
            yield argument


def _read_alternatives(rest: Iterator[str], named_by: Set[str]) -> list[str] | None:
    """Read up to the end or a closing bracket: return the names of all alternatives, None where one has no name."""
    alternatives: list[list[str] | None] = []
    ended_by = "-o"
    while ended_by in _OR:
        found, ended_by = _read_alternative(rest, named_by)
        alternatives += found
    if not alternatives or None in alternatives:
        return None
    return [name for each in alternatives for name in each or ()]


def _read_alternative(rest: Iterator[str], named_by: Set[str]) -> tuple[list[list[str] | None], str]:
    """Return the names of one alternative, nothing if it is pruned, and the argument that ends it."""
    names: list[str] | None = None
    is_pruned = is_negated = False
    argument = ""
    for argument in rest:
        if argument == ")" or argument in _OR:
            break
        if argument in _NOT:
            is_negated = not is_negated
            continue
        if argument == "(" or argument in named_by:
            found = _read_alternatives(rest, named_by) if argument == "(" else [next(rest, "")]
            names = found if names is None and not is_negated else names
        is_pruned = is_pruned or argument == "-prune"
        is_negated = False
    else:
        argument = ""
    return [] if is_pruned else [names], argument
