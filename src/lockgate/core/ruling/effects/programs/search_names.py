"""The names that a search with `find` or `fd` looks for, with what it says about them: not, or, brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import takewhile
from typing import NamedTuple

EXECUTES = frozenset("-exec -execdir -ok -okdir -x --exec -X --exec-batch".split())
NAMED_BY = frozenset("-name -iname -path -ipath -wholename -e --extension -g --glob".split())
_NOT, _OR = frozenset(("!", "-not")), frozenset(("-o", "-or", ","))
_ACTS = EXECUTES | frozenset("-print -print0 -printf -ls -delete -fprint -fprint0 -fprintf -fls".split())
# Options of `find` whose value is no operator, whatever it looks like.
_VALUED = re.compile(
    r"-(?:i?regex|regextype|i?lname|iwholename|[acmB]?newer\w*|user|group|[ug]id|size|x?type|perm|[acmB](?:time|min)|links"
    r"|inum|samefile|fstype|context|used|maxdepth|mindepth|printf|fprint[0f]?|fls|files0-from|flags|xattrname)"
)


class _Alternative(NamedTuple):
    """What stands between two `-o`, or in a bracket."""

    names: list[str]
    is_limited: bool
    acts: bool
    is_pruned: bool


def find_searched_names(arguments: list[str], named_by: Set[str] = NAMED_BY) -> list[str]:
    """Return patterns of which everything found fits one; none where anything may be found."""
    search = _read_search(arguments, named_by)
    return search.names if search.is_limited else []


def find_wanted_names(arguments: list[str], named_by: Set[str] = NAMED_BY) -> list[str]:
    """Return every pattern that is looked for, even where other files are found as well."""
    return _read_search(arguments, named_by).names


def _read_search(arguments: list[str], named_by: Set[str]) -> _Alternative:
    rest = _read_arguments(arguments)
    alternatives: list[_Alternative] = []
    ended_by = "-o"
    while ended_by:
        found, ended_by = _read_alternative(rest, named_by)
        alternatives.append(found)
    if any(each.acts for each in alternatives):
        # Without any action, `find` prints what it prunes too; a bracket's action may follow the bracket.
        alternatives = [each for each in alternatives if each.acts or not each.is_pruned]
    return _join_alternatives(alternatives)


def _read_arguments(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each argument with its value, and without the command that it runs for each file."""
    rest = iter(arguments)
    for argument in rest:
        value = next(rest, "") if argument in NAMED_BY or _VALUED.fullmatch(argument) else ""
        if argument == "-fprintf":
            next(rest, "")
        if argument in EXECUTES:
            for _ in takewhile(lambda part: part not in (";", "+"), rest):
                pass
        yield argument, value


def _read_bracket(rest: Iterator[tuple[str, str]], named_by: Set[str], *, flips: bool) -> _Alternative:
    alternatives: list[_Alternative] = []
    ended_by = "-o"
    while ended_by in _OR:
        found, ended_by = _read_alternative(rest, named_by, flips=flips)
        alternatives.append(found)
    return _join_alternatives(alternatives)


def _join_alternatives(alternatives: list[_Alternative]) -> _Alternative:
    return _Alternative(
        [name for each in alternatives for name in each.names],
        all(each.is_limited for each in alternatives),
        any(each.acts for each in alternatives),
        any(each.is_pruned for each in alternatives),
    )


def _read_alternative(
    rest: Iterator[tuple[str, str]], named_by: Set[str], *, flips: bool = False
) -> tuple[_Alternative, str]:
    """Return one alternative and the argument that ends it; within `! ( … )`, `flips`, a name behind `!` is wanted."""
    names: list[str] = []
    is_limited = acts = is_pruned = is_negated = False
    ended_by = ""
    for argument, value in rest:
        if argument == ")" or argument in _OR:
            ended_by = argument
            break
        if argument in _NOT:
            is_negated = not is_negated
            continue
        if argument == "(":
            inner = _read_bracket(rest, named_by, flips=flips != is_negated)
            names += inner.names
            is_limited = is_limited or (inner.is_limited and not is_negated)
            acts, is_pruned = acts or inner.acts, is_pruned or inner.is_pruned
        elif argument in named_by and is_negated == flips:
            names.append(value)
            is_limited = True
        acts = acts or argument in _ACTS
        is_pruned = is_pruned or argument == "-prune"
        is_negated = False
    return _Alternative(names, is_limited, acts, is_pruned), ended_by
