"""Variables that make programs run, load or ask something: `PAGER`, `NODE_OPTIONS`, `HTTPS_PROXY`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import MARK
from lockgate.core.ruling.effects.programs.options import host_of, is_local
from lockgate.core.ruling.effects.programs.roles import is_foreign, run_command
from lockgate.core.ruling.effects.project import Place
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_LISTED = {
    section: frozenset(" ".join(lines).split())
    for section, lines in read_sections("lockgate.core.ruling.effects.programs", "variables.txt").items()
}
_COMMANDS, _LOADS = _LISTED.pop("commands"), _LISTED.pop("loads")
_KINDS = {name: kind for kind, names in _LISTED.items() for name in names}
# Ends of names that say that the value is a program, and values that are more than a word.
_NAMED_FOR_COMMAND = re.compile(
    r"(?i)(?:pager|editor|browser|askpass|(?:^|_)(?:command|cmd|exec|wrapper|hook|diff|difftool|mergetool|launcher|runner"
    r"|filter|helper|program|opener|viewer|rsh|ssh|shell))$"
)
_IS_COMMAND = re.compile(
    r"[;|&`]|\$\(|^\s*(?:\S*/)?(?:(?:ba|z|da|k)?sh|python[\d.]*|perl|ruby|node|php|curl|wget|nc|env|eval)\s"
)
_HARMLESS_VALUES = frozenset(("", *"true false 0 1 cat less : vi vim nano".split()))
_TLS, _OFF = frozenset("NODE_TLS_REJECT_UNAUTHORIZED GIT_SSL_NO_VERIFY PYTHONHTTPSVERIFY".split()), ("0", "false", "no")
_LOADED_TEXT = re.compile(
    r"-(?:tool)?exec=|\bdata:|--eval\b|\$\(shell|^\s*[:!]|(?:^|[\s;|&])(?:/bin/)?(?:ba|z|da)?sh\s+-c\b"
)
_PIECES = re.compile(r"[\s:=,;@'\"]+")
_SANITIZER = re.compile(r"/(?:usr/)?lib(?:64)?/(?:\w[\w.+-]*/)*lib(?:clang_rt\.)?\w{1,4}san[\w-]*\.so[\d.]*")
# Folders that only the administrator writes. On some systems `/usr/tmp` is the scratch folder.
_SYSTEM_FOLDER = re.compile(r"/(?:usr(?!/tmp\b)|lib(?:32|64)?|opt)(?:/\w[\w.+-]*)*/?")
# A build in the project with its own libraries, started by its path: by its name it may be `env -C`.
_RUNS_BUILD = re.compile(
    r"LD_LIBRARY_PATH=(?::?(?:\./)?(?:_?build|out|dist|target)(?:/\w[\w.+-]*)*/?)+"
    r" (?:\./)?\w[\w.-]*/\w[\w./-]*(?: [\w./=:,+-]+)*"
)


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
        is_address = "://" in value and not value.startswith(("unix:", "npipe:"))
        if host and not is_local(host) and not walk.project.has_host(host) and (is_address or kind != "sends-data"):
            walk.add(kind, host)
    elif kind == "disables-check":
        # Two of the checks of certificates are switched off, one is not done.
        if name not in _TLS or (value in _OFF) is not (name == "GIT_SSL_NO_VERIFY"):
            walk.add(kind, name)
    elif value not in _HARMLESS_VALUES and not (name[:3] == "LD_" and _may_load(walk, name, value)):
        walk.add(kind, value)


def _may_load(walk: Walk, name: str, value: str) -> bool:
    """Return whether libraries are the system's, a sanitizer's, or those of a build that the line only runs."""
    if name == "LD_PRELOAD":
        return _SANITIZER.fullmatch(value) is not None
    if all(map(_SYSTEM_FOLDER.fullmatch, value.split(":"))):
        return True
    is_clean = not (walk.downloads or walk.activity.downloaded or walk.activity.is_full)
    is_build = f"LD_LIBRARY_PATH={value} " in walk.line and _RUNS_BUILD.fullmatch(walk.line) is not None
    return is_clean and is_build and walk.place("build") is Place.INSIDE


def _note_command(walk: Walk, name: str, value: str) -> None:
    """Note a command that other programs start by themselves, as often as they like."""
    is_named = name in _COMMANDS or _NAMED_FOR_COMMAND.search(name) is not None
    path = value.partition(" ")[0]
    # Texts from outside put their programs into a scratch folder.
    is_strange = "/" in path and "://" not in path and (is_foreign(walk, path) and walk.place(path) is Place.SCRATCH)
    if (is_named or name[:4] == "GIT_") and (is_strange or walk.download_of(walk.full_path(path))):
        walk.add("installs-hook", walk.plain(value))
    elif name in _COMMANDS or (is_named and _IS_COMMAND.search(value)):
        run_command(walk, value)


def _note_loads(walk: Walk, value: str, *, may_be_home: bool) -> None:
    """Note options and paths from which code is loaded."""
    if _LOADED_TEXT.search(value):
        walk.add_unreadable()
    for url in re.findall(r"https?://\S+", value):
        walk.add("runs-download", host_of(url))
    for piece in _PIECES.split(re.sub(r"https?://\S+|-[DL]\S+|-X(?!boot)\S+|-I/usr\S+", " ", value)):
        if "/" in piece and is_foreign(walk, piece) and not (may_be_home and walk.place(piece) is Place.HOME):
            walk.run_path(piece)
