"""The names that a search with `find` or `fd` looks for, with what it says about them: not, or, brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
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


@dataclass(slots=True)
class _Alternative:
    """What stands between two `-o`, without brackets."""

    names: list[str] = field(default_factory=list)
    is_limited: bool = False
    acts: bool = False
    is_pruned: bool = False

    def note(self, argument: str, value: str, *, is_wanted: bool) -> None:
        if is_wanted:
            self.names.append(value)
            # An action that stands before a name is done with any file.
            self.is_limited |= not self.acts
        self.acts |= argument in _ACTS
        self.is_pruned |= argument == "-prune"


def read_search(arguments: list[str], named_by: Set[str] = NAMED_BY) -> Search:
    """Return what a search looks for, read without its brackets: each alternative needs a name.

    Brackets behind `!` limit nothing, and any name in such a search may be wanted.
    """
    is_turned = any(first in _NOT and second == "(" for first, second in pairwise(arguments))
    alternatives = [_Alternative()]
    for argument, value, is_negated in _read_arguments(arguments):
        if argument in _OR:
            alternatives.append(_Alternative())
        is_wanted = argument in named_by and (is_turned or not is_negated)
        alternatives[-1].note(argument, value, is_wanted=is_wanted)
    if "(" not in arguments:
        alternatives = _without_pruned(alternatives)
    names = [name for each in alternatives for name in each.names]
    return Search(names, not is_turned and all(each.is_limited for each in alternatives))


def _without_pruned(alternatives: list[_Alternative]) -> list[_Alternative]:
    """Return what is acted on; without any action, `find` prints what it prunes too."""
    acts = any(each.acts for each in alternatives)
    return [each for each in alternatives if each.acts or not each.is_pruned] if acts else alternatives


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
