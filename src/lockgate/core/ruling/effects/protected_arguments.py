"""What a tool does to Lockgate's own files and service by its arguments, whatever the tool is called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect
from lockgate.core.ruling.effects.lockgate_address import read_service_arguments
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.protected_paths import Access, may_find_own, may_lead_to_own, own_access
from lockgate.core.ruling.effects.tool_arguments import is_place, leaf_name, names_place
from lockgate.core.ruling.effects.tool_names import ToolName

# Tools that work on a folder with everything in it.
_TAKES_AWAY = frozenset("delete remove unlink erase trash wipe move rename".split())
_TAKES_ALONG = frozenset("copy duplicate compress zip archive upload backup sync share attach extract unzip".split())
# What finds a token by its first letters, also as a pattern.
_TOKEN = re.compile(r"lg[pa.\[(]", re.IGNORECASE)
_FEW_PLACES = 16
_FILTERS = frozenset("glob include type file_pattern include_pattern".split())
_BETWEEN_FILTERS = re.compile(r"[\s,|]+(?![^{]*\})")


def read_own_arguments(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield what a tool does to Lockgate's own files and service by the places that it is given."""
    access, below = _access_of(name, seed, leaves)
    places = [leaf for leaf in leaves if is_place(leaf)]
    for leaf in places if _may_hold_own(places, project) else ():
        found = own_access(leaf.text, access, project, below=below)
        if found is not None:
            yield found._replace(argument=leaf.argument, start=0, end=len(leaf.text))
    if below and seed == "grep" and not any(map(names_place, places)):
        found = own_access(".", access, project, below=True)
        if found is not None:
            yield found
    yield from read_service_arguments(name, seed, leaves, project)


def _may_hold_own(places: Sequence[Leaf], project: Project) -> bool:
    """Return whether a closer look at each place is worth it; at many of them, one glance comes first."""
    if len(places) <= _FEW_PLACES or project.follow is not None:
        return True
    return may_lead_to_own("\n".join([leaf.text for leaf in places]), project)


def _access_of(name: ToolName, seed: str, leaves: Sequence[Leaf]) -> tuple[Access, bool]:
    """Return what a tool does with a place, and whether it reaches everything below it."""
    if name.verb in _TAKES_AWAY:
        return Access.DELETE, True
    if name.verb in _TAKES_ALONG:
        return Access.WRITE, True
    if seed in ("read", "glob", "grep", "web_fetch") or name.kind == "looks":
        searches = seed == "grep" or any(_TOKEN.search(leaf.text) for leaf in leaves)
        return Access.READ, searches and _may_search_secrets(leaves)
    return Access.WRITE, False


def _may_search_secrets(leaves: Sequence[Leaf]) -> bool:
    wanted = [leaf for leaf in leaves if leaf_name(leaf) in _FILTERS]
    # A `type` is a language, such as `py`: none of our files is in one.
    return not wanted or any(leaf_name(leaf) != "type" and _lets_own_through(leaf.text) for leaf in wanted)


def _lets_own_through(globs: str) -> bool:
    """Return whether a filter of names, or one of several, can leave a file of ours in; `!` takes out what it names."""
    return any(glob[:1] == "!" or may_find_own(glob) for glob in _BETWEEN_FILTERS.split(globs.strip()))
