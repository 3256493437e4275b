"""Variables that make programs run, load or ask something: `PAGER`, `NODE_OPTIONS`, `HTTPS_PROXY`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.programs.options import host_of, is_local
from lockgate.core.ruling.effects.programs.program_rows import FORMS
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.shell_syntax import MARK
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_LISTED = {
    section: frozenset(" ".join(lines).split())
    for section, lines in read_sections("lockgate.core.ruling.effects.programs", "variables.txt").items()
}
_COMMANDS, _LOADS = _LISTED.pop("commands"), _LISTED.pop("loads")
_KINDS = {name: kind for kind, names in _LISTED.items() for name in names}


def is_foreign(walk: Walk, path: str) -> bool:
    """Return whether an attacker could have put code at a path: it is neither the project's nor the system's."""
    if path[:1] not in ("/", "~") and not (walk.project.root and ".." in path):
        return False
    if path.startswith(("/dev/null", "/dev/std")) or any(letter in path for letter in " \n("):
        return False
    full = walk.full_path(path)
    return walk.place(path) in (Place.SCRATCH, Place.HOME, Place.OUTSIDE) or bool(walk.download_of(full))


def run_command(walk: Walk, value: str) -> None:
    """Read a value that a program runs as a command; a bare shell would run what the program gives it."""
    if FORMS["shell"].fullmatch(value.strip()):
        walk.add_unreadable()
    else:
        walk.read_text(value)


def note_variable(walk: Walk, name: str, value: str) -> None:
    """Note that a variable is set, and what that makes later programs load, run or ask."""
    walk.assigned.add(name)
    kind = _KINDS.get(name.rstrip("0123456789"))
    if name == "PATH":
        for folder in value.split(":"):
            if folder[:1] not in ("", MARK, '"', "'", "$") and walk.place(folder) is Place.SCRATCH:
                walk.add("unreadable", folder, Certainty.GUESS)
    elif kind is not None:
        _note_kind(walk, kind, name, value)
    elif name in _LOADS:
        _note_loads(walk, value, may_be_home=name == "KUBECONFIG")
    elif name.startswith(("GIT_TRACE", "GIT_REDIRECT")) and "/" in value:
        walk.access(value, Access.WRITE)
    elif value:
        _note_command(walk, name, value)


def _note_kind(walk: Walk, kind: str, name: str, value: str) -> None:
    if kind in ("uses-package-source", "sends-data"):
        host = host_of(value)
        is_address = kind != "sends-data" or ("://" in value and not value.startswith(("unix:", "npipe:")))
        if host and is_address and not is_local(host) and not walk.project.has_host(host):
            walk.add(kind, host)
    elif kind == "disables-check":
        if not FORMS["check stays on"].fullmatch(f"{name}={value}"):
            walk.add(kind, name)
    elif not FORMS["harmless value"].fullmatch(value) and not (name[:3] == "LD_" and _may_load(walk, name, value)):
        walk.add(kind, value)


def _may_load(walk: Walk, name: str, value: str) -> bool:
    """Return whether libraries are the system's, a sanitizer's, or those of a build that the line only runs."""
    if name == "LD_PRELOAD":
        return FORMS["sanitizer"].fullmatch(value) is not None
    if all(map(FORMS["system folder"].fullmatch, value.split(":"))):
        return FORMS["as another user"].search(walk.line) is None
    is_clean = not (walk.downloads or walk.activity.downloaded or walk.activity.is_full)
    is_build = f"LD_LIBRARY_PATH={value} " in walk.line and FORMS["runs build"].fullmatch(walk.line) is not None
    return is_clean and is_build and walk.place("build") is Place.INSIDE


def _note_command(walk: Walk, name: str, value: str) -> None:
    """Note a command that other programs start by themselves, as often as they like."""
    is_named = name in _COMMANDS or FORMS["named for a command"].search(name) is not None
    path = value.partition(" ")[0]
    # Texts from outside put their programs into a scratch folder.
    is_strange = "/" in path and "://" not in path and (is_foreign(walk, path) and walk.place(path) is Place.SCRATCH)
    if (is_named or name[:4] == "GIT_") and (is_strange or walk.download_of(walk.full_path(path))):
        walk.add("installs-hook", walk.plain(value))
    elif name in _COMMANDS or (is_named and FORMS["command"].search(value)):
        run_command(walk, value)


def _note_loads(walk: Walk, value: str, *, may_be_home: bool) -> None:
    """Note options and paths from which code is loaded."""
    if FORMS["loaded text"].search(value):
        walk.add_unreadable()
    for url in re.findall(r"https?://\S+", value):
        walk.add("runs-download", host_of(url))
    for piece in FORMS["pieces"].split(re.sub(r"https?://\S+|-[DL]\S+|-X(?!boot)\S+|-I/usr\S+", " ", value)):
        if "/" in piece and is_foreign(walk, piece) and not (may_be_home and walk.place(piece) is Place.HOME):
            walk.run_path(piece)
