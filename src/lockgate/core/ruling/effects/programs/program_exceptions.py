"""Programs that no row of `programs.tbl` can describe: what they are given is a language of its own."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs import packages
from lockgate.core.ruling.effects.programs.protected_files import note_search
from lockgate.core.ruling.effects.programs.roles import Use
from lockgate.core.ruling.effects.programs.search_names import EXECUTES, Search, read_search
from lockgate.core.ruling.effects.programs.url_hosts import host_of

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Folders times names that one search may look for.
MOST_SEARCHED = 256


def finish_finds(use: Use) -> Output:
    """What `find` and `fd` run, delete and write."""
    walk, arguments = use.walk, use.call.arguments
    starts = list(takewhile(lambda argument: argument[:1] not in ("-", "(", "!"), arguments)) or ["."]
    search = read_search(arguments, _FIND_NAMES)
    if len(starts) * (len(search.wanted) + 1) > MOST_SEARCHED:
        walk.add_unreadable()
        return UNKNOWN_OUTPUT
    patterns = [_search_pattern(walk, start, search) for start in starts]
    found = patterns[0]
    note_search(walk, arguments, found)
    skip = 0
    for index, argument in enumerate(arguments):
        if index < skip:
            continue
        if argument in EXECUTES:
            inner = list(takewhile(lambda part: part not in (";", "+"), arguments[index + 1 :]))
            skip = index + 1 + len(inner)
            for pattern in patterns if inner else ():
                walk.run_program([part.replace("{}", pattern) for part in inner], NO_OUTPUT)
        elif argument == "-delete":
            for start, pattern in zip(starts, patterns, strict=True):
                walk.access(start if start == "/" else pattern, Access.DELETE)
        elif argument in ("-fprint", "-fprintf", "-fls"):
            walk.access([*arguments, ""][index + 1], Access.WRITE)
    return Output(Source.NONE, target=found)


def finish_locates(use: Use) -> Output:
    """Names anywhere on the machine that hold a text."""
    walk, words = use.walk, use.operands
    found = f"/{[*words, 'found'][0].lstrip('/')}"
    named = [part for word in words for part in ("-name", f"*{word}*")]
    return Output(Source.NONE, target=found) if note_search(walk, ["/", *named], found) else UNKNOWN_OUTPUT


_FIND_NAMES = frozenset(("-name", "-iname", "-path"))


def _search_pattern(walk: Walk, start: str, search: Search) -> str:
    """Return a path that stands for those that a search finds: its first folder, and the one pattern it looks for."""
    if is_secret(walk.plain(start), walk.folder):
        return start
    below = f"{start.rstrip('/')}/found"
    wanted = [f"{start.rstrip('/')}/{name.lstrip('/')}" for name in search.wanted]
    special = next((path for path in wanted if _is_special(walk, path, below)), "")
    if special or (search.is_limited and len(wanted) == 1):
        return special or wanted[0]
    deletes = read_access(walk.plain(below), Access.DELETE, walk.project, folder=walk.folder)
    is_elsewhere = start[:1] == "/" and deletes.kind == "deletes-outside"
    return start if start == "/" or is_elsewhere else below


def _is_special(walk: Walk, path: str, other: str) -> bool:
    """Return whether a path holds a secret, or writing it does more than writing another file of the folder."""
    if is_secret(walk.plain(path), walk.folder):
        return True
    written, usual = (
        read_access(walk.plain(each), Access.WRITE, walk.project, folder=walk.folder) for each in (path, other)
    )
    return written.kind != usual.kind and written.severity >= usual.severity


_SCHEME = re.compile(r"(?:https?|file|data|blob|npm|jsr):", re.IGNORECASE)


def role_module_address(use: Use, value: str) -> None:
    """What `deno` runs or loads: a file, a package, or an address whose code runs at once."""
    walk, scheme = use.walk, _SCHEME.match(value)
    if scheme is None:
        walk.run_program(["node", value], use.call.stdin)
    elif scheme[0] in ("npm:", "jsr:"):
        packages.note_package(walk, value[4:], "npm" if scheme[0] == "npm:" else "")
    else:
        walk.add("runs-download", host_of(value) if "://" in value else scheme[0])


def role_late_address(use: Use, value: str) -> None:
    """An option that is not known here may have taken the program's name as its value."""
    if _SCHEME.match(value):
        use.walk.add("requests", host_of(value))
