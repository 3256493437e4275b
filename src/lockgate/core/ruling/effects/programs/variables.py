"""Variables that make programs run, load or ask something: `PAGER`, `NODE_OPTIONS`, `HTTPS_PROXY`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import MARK
from lockgate.core.ruling.effects.programs.roles import is_foreign, run_command
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import Place
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def note_variable(walk: Walk, name: str, value: str) -> None:
    """Note what setting a variable makes later programs load, run or ask."""
    if name == "PATH":
        _note_path(walk, value)
    elif name in ("LD_LIBRARY_PATH", "LD_PRELOAD") and _may_load_libraries(walk, name, value):
        return
    elif name.rstrip("0123456789") in _KINDS:
        _note_kind(walk, name.rstrip("0123456789"), value)
    elif name in _LOADS:
        _note_loads(walk, name, value)
    elif name.startswith(("GIT_TRACE", "GIT_REDIRECT")) and "/" in value:
        walk.access(value, Access.WRITE)
    elif value:
        _note_command(walk, name, value)


def _note_path(walk: Walk, value: str) -> None:
    for folder in value.split(":"):
        if folder[:1] not in ("", MARK, '"', "'", "$") and walk.place(folder) is Place.SCRATCH:
            walk.add("unreadable", folder, Certainty.GUESS)


def _may_load_libraries(walk: Walk, name: str, value: str) -> bool:
    """Return whether folders of libraries are the system's, or those of a build that the line does nothing but run.

    A single library is put into every program: only a sanitizer's may be.
    A line that also changes the folder, unpacks or downloads something would make the folders another's.
    """
    if walk.downloads or walk.activity.downloaded or walk.activity.is_full:
        return False
    if name == "LD_PRELOAD":
        return _SANITIZER.fullmatch(value) is not None
    folders = value.split(":")
    if all(_SYSTEM_FOLDER.fullmatch(folder) for folder in folders):
        return _PLAIN_LINE.fullmatch(walk.line) is not None
    is_build = all(_BUILD_FOLDER.fullmatch(folder) and walk.place(folder) is Place.INSIDE for folder in folders)
    return is_build and _RUNS_BUILD.fullmatch(walk.line) is not None


# On some systems `/usr/tmp` is the scratch folder.
_SYSTEM_FOLDER = re.compile(r"/(?:usr(?!/tmp\b)|lib(?:32|64)?|opt)(?:/\w[\w.+-]*)*/?")
_BUILD_FOLDER = re.compile(r"(?:\./)?(?:_?build|out|dist|target)(?:/\w[\w.+-]*)*/?")
_SANITIZER = re.compile(r"/(?:usr/)?lib(?:64)?/(?:\w[\w.+-]*/)*lib(?:clang_rt\.)?\w{1,4}san[\w-]*\.so[\d.]*")
_PLAIN_LINE = re.compile(r"(?!.*\b(?:sudo|doas)\b)[\w ./=:,+-]{1,1000}")
# A program by its path: one by its name may be `env -C`.
_RUNS_BUILD = re.compile(r"LD_LIBRARY_PATH=[\w./:+-]+ (?:\./)?\w[\w.-]*/\w[\w./-]*(?: [\w./=:,+-]+)*")


def _note_kind(walk: Walk, name: str, value: str) -> None:
    kind = _KINDS[name]
    host = host_of(value)
    if kind == "source":
        if host and not walk.project.has_host(host):
            walk.add("uses-package-source", host)
    elif kind == "sends-data":
        if host and "://" in value and not value.startswith(("unix:", "npipe:")) and not is_local(host):
            walk.add(kind, host)
    elif kind == "tls":
        # Two of them switch a check on, one switches it off.
        if (value in ("0", "false", "no")) is not (name == "GIT_SSL_NO_VERIFY"):
            walk.add("disables-check", "TLS")
    elif kind == "disables-check":
        walk.add(kind, name)
    elif value and value not in _HARMLESS_VALUES:
        walk.add(kind, value)


def _note_command(walk: Walk, name: str, value: str) -> None:
    """Note a command that other programs start by themselves, as often as they like."""
    is_named = name in _COMMANDS or _NAMED_FOR_COMMAND.search(name) is not None
    if (is_named or name[:4] == "GIT_") and _is_strange(walk, value):
        walk.add("installs-hook", walk.plain(value))
    elif name in _COMMANDS or (is_named and _IS_COMMAND.search(value)):
        run_command(walk, value)


def _is_strange(walk: Walk, value: str) -> bool:
    """Return whether a value is a program where texts from outside put theirs: a scratch folder, or a download."""
    path = value.partition(" ")[0]
    if "/" not in path or "://" in path:
        return False
    return walk.place(path) is Place.SCRATCH or bool(walk.download_of(walk.full_path(path)))


_LOADED_TEXT = re.compile(
    r"-(?:tool)?exec=|\bdata:|--eval\b|\$\(shell|^\s*[:!]|(?:^|[\s;|&])(?:/bin/)?(?:ba|z|da)?sh\s+-c\b"
)
_PIECES = re.compile(r"[\s:=,;@'\"]+")


def _note_loads(walk: Walk, name: str, value: str) -> None:
    own = (Place.HOME,) if name == "KUBECONFIG" else ()
    if _LOADED_TEXT.search(value):
        walk.add_unreadable()
    for url in re.findall(r"https?://\S+", value):
        walk.add("runs-download", host_of(url))
    for piece in _PIECES.split(re.sub(r"https?://\S+|-[DL]\S+|-X(?!boot)\S+|-I/usr\S+", " ", value)):
        if "/" in piece and is_foreign(walk, piece) and walk.place(piece) not in own:
            walk.run_path(piece)


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
_HARMLESS_VALUES = frozenset("true false 0 1 cat less : vi vim nano".split())
