"""Rules 1 and 2 for structured tools: what the places among their arguments lead to, whatever the tool is called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.own_address import (
    ASKS_SERVICE,
    find_model_change,
    find_own_service,
    is_this_machine,
    names_own_route,
)
from lockgate.core.ruling.effects.own_paths import Access, may_find_own, own_access
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import is_place, leaf_name, names_place
from lockgate.core.ruling.tool_risk import ToolName

# Tools that work on a folder with everything in it.
_TAKES_AWAY = frozenset("delete remove unlink erase trash wipe move rename".split())
_TAKES_ALONG = frozenset("copy duplicate compress zip archive upload backup sync share attach extract unzip".split())
# What finds a token by its first letters, also as a pattern.
_TOKEN = re.compile(r"lg[pa.\[(]", re.IGNORECASE)
_FILTERS = frozenset("glob include type file_pattern include_pattern".split())
_PAGES = frozenset("browser puppeteer playwright page webpage tab selenium chrome devtools".split())
_CODE = frozenset("python javascript js node jupyter repl code interpreter evaluate eval snippet script".split())
# Tools that work on files or run a shell, which is read by itself; and values that are only searched for.
_OTHER_SEEDS = frozenset("read write glob grep bash".split())
_SEARCHED = frozenset("query pattern q regex search prompt".split())
_BETWEEN_FILTERS = re.compile(r"[\s,|]+(?![^{]*\})")


def read_own_arguments(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield what a tool does to Lockgate's own files and service by the places that it is given."""
    access, below = _access_of(name, seed, leaves)
    places = [leaf for leaf in leaves if is_place(leaf)]
    for leaf in places:
        found = own_access(leaf.text, access, project, below=below)
        if found is not None:
            yield found._replace(argument=leaf.argument, start=0, end=len(leaf.text))
    if below and seed == "grep" and not any(map(names_place, places)):
        found = own_access(".", access, project, below=True)
        if found is not None:
            yield found
    if seed not in _OTHER_SEEDS:
        yield from _read_service_arguments(name, leaves, project)


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


def _read_service_arguments(name: ToolName, leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield an effect for each value by which a tool reaches the service: an address, a route, a host and a port."""
    port, is_page = project.service_port, not _PAGES.isdisjoint(name.words)
    reads_all = is_page or not _CODE.isdisjoint(name.words)
    places = [leaf for leaf in leaves if _may_be_address(leaf, reads_all=reads_all)]
    for leaf in places:
        found = find_own_service(leaf.text, port) or (names_own_route(leaf.text) if is_page else "")
        if not found and leaf_name(leaf).endswith("port") and leaf.text.strip().lstrip("0") == str(port):
            found = next((other.text for other in places if is_this_machine(other.text.strip()[:300])), "")
        if found:
            yield effect(ASKS_SERVICE, found, argument=leaf.argument, span=(0, len(leaf.text)))
        if changed := find_model_change(leaf.text, project.judge_servers):
            yield effect("changes-own-guard", changed, argument=leaf.argument, span=(0, len(leaf.text)))


def _may_be_address(leaf: Leaf, *, reads_all: bool) -> bool:
    """Return whether a tool may go where a value says: it is one word, is called an address, or is code or a page's."""
    name = leaf_name(leaf)
    if name in _SEARCHED:
        return False
    return reads_all or name.endswith(("url", "uri")) or not re.search(r"\s", leaf.text.strip())
