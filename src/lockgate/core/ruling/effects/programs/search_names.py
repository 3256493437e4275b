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


class Search(NamedTuple):
    """Every pattern that a search looks for, and whether everything that it finds fits one of them."""

    wanted: list[str]
    is_limited: bool


class _Alternative(NamedTuple):
    """What stands between two `-o` that are in no bracket."""

    names: list[str]
    is_limited: bool
    acts: bool
    is_pruned: bool


def read_search(arguments: list[str], named_by: Set[str] = NAMED_BY) -> Search:
    """Return what a search looks for."""
    alternatives = list(_read_alternatives(arguments, named_by))
    if any(each.acts for each in alternatives):
        # Without any action, `find` prints what it prunes too.
        alternatives = [each for each in alternatives if each.acts or not each.is_pruned]
    names = [name for each in alternatives for name in each.names]
    return Search(names, all(each.is_limited for each in alternatives))


def _read_alternatives(arguments: list[str], named_by: Set[str]) -> Iterator[_Alternative]:
    """Yield the alternatives, read without their brackets.

    What fits `a ( b -o c ) d` fits all of `a b` or all of `a c d`, so that each of these needs a name. Only `! ( … )`
    turns this round: it limits nothing, and in it a name behind another `!` is wanted.
    """
    # Of each open bracket, whether a name stands before it, and whether names in it are excluded.
    opened = [(False, False)]
    names: list[str] = []
    acts = is_pruned = has_name = False
    is_limited = True
    for argument, value, is_negated in _read_arguments(arguments):
        if argument == "(":
            is_limited = is_limited and not is_negated
            opened.append((has_name, opened[-1][1] != is_negated))
        elif argument == ")" and len(opened) > 1:
            opened.pop()
        elif argument in _OR:
            is_limited, has_name = is_limited and has_name, opened[-1][0]
            if len(opened) == 1:
                yield _Alternative(names, is_limited, acts, is_pruned)
                names, is_limited, acts, is_pruned = [], True, False, False
        elif argument in named_by and is_negated == opened[-1][1]:
            names.append(value)
            # An action that stands before a name is done with any file.
            has_name = has_name or not acts
        acts = acts or argument in _ACTS
        is_pruned = is_pruned or argument == "-prune"
    yield _Alternative(names, is_limited and has_name, acts, is_pruned)


def _read_arguments(arguments: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield each argument with its value and whether `!` stands before it, without the command that it runs."""
    rest = iter(arguments)
    is_negated = False
    for argument in rest:
        if argument in _NOT:
            is_negated = not is_negated
            continue
        value = next(rest, "") if argument in NAMED_BY or _VALUED.fullmatch(argument) else ""
        if argument == "-fprintf":
            next(rest, "")
        if argument in EXECUTES:
            for _ in takewhile(lambda part: part not in (";", "+"), rest):
                pass
        yield argument, value, is_negated
        is_negated = False
