"""Paths that Lockgate itself rests on: its tokens, its state, the host's settings; `protected_paths.txt` lists them.

What counts is where an access leads, not how it is spelled: the path is joined to the folder it starts from, `~`,
variables and detours are resolved, and patterns of the shell are compared name by name. A folder above a listed path
counts for what works on everything below it, such as `rm -r`, `grep -r` or an archive that is unpacked there.

A piece whose value is not known can be any name. It counts as a listed one only where a known piece beside it says so:
`~/.local/state/$X` and `~/.claude/$X` are ours, `$BUILD`, `~/$X`, `bin/$X` and `~/.config/$APP` are not. A value that
only the running shell knows can still lead here; the folder's permissions and the journal's proofs are left then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.ruling.effects.agent_programs import AGENT_PROGRAMS
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.lockgate_address import ASKS_SERVICE, may_name_service
from lockgate.core.ruling.effects.project import Project, normalize_path
from lockgate.core.tables import read_sections


class Access(StrEnum):
    """What is done with a path."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    RUN = "run"


class OwnPath(NamedTuple):
    """How a path relates to a listed one: the section of the list, and whether it is a folder above it."""

    section: str
    is_above: bool


OWN_KINDS = frozenset(("reads-own-token", "changes-own-state", "changes-own-guard", ASKS_SERVICE))


def own_access(path: str, access: Access, project: Project, *, folder: str = "", below: bool = False) -> Effect | None:
    """Return what an access does to Lockgate itself, or None; `below` says that it reaches all below the path."""
    if access is Access.RUN:
        return None
    for found in find_own(path, project, folder):
        if found.is_above and not below:
            continue
        if found.section == "secrets":
            return effect("reads-own-token" if access is Access.READ else "changes-own-state", path)
        if access is Access.WRITE or (access is Access.DELETE and found.section == "settings"):
            if found.section != "cache" or not found.is_above:
                return effect("changes-own-guard", path)
    return None


def find_own(path: str, project: Project, folder: str = "") -> tuple[OwnPath, ...]:
    """Return how a path relates to the listed ones; the host may know where its links lead."""
    if not path or len(path) > _MOST_PATH:
        return ()
    folder = folder or project.folder or project.root
    found = _find_own(path, folder, project.home, project.own_folders)
    # What asks is another process than the one that follows its links.
    if not found and project.follow is not None and not _OWN_PROCESS.fullmatch(path):
        there = project.follow(_join(path, folder))
        found = _find_own(there, "", project.home, project.own_folders) if there else ()
    return found


def may_lead_to_own(text: str, project: Project) -> bool:
    """Return after a quick look whether a call with these values can come near a listed path; most cannot."""
    low = text.lower()
    if any(sign in low for sign in _SIGNS) or _WIDE.search(low) or may_name_service(low, project.service_port):
        return True
    if any(str(port) in low for port in project.judge_servers):
        return True
    # A shell drops quotes inside a name.
    bare = low.translate(_DROPPED) if any(quote in low for quote in "'\"\\^") else low
    folders = (project.home, *project.own_folders) if project.home else project.own_folders
    if any(name in bare for name in _NEAR_NAMES) or any(_first_name(folder) in bare for folder in folders):
        return True
    return bool(project.folder and _find_own(project.folder, "", project.home, project.own_folders))


@lru_cache(maxsize=64)
def _first_name(folder: str) -> str:
    """Return the root and the first name of a path: every plain path that leads there begins with them."""
    first, _, rest = normalize_path(folder.replace("\\", "/")).casefold().lstrip("/").partition("/")
    return f"/{first}" if first[1:2] != ":" else rest.partition("/")[0]


def may_find_own(pattern: str, *, settings: bool = False) -> bool:
    """Return whether a search for names that fit this pattern can find a file of Lockgate's state, or of `settings`."""
    low = pattern.casefold()
    names = _STATE_NAMES + (_SETTINGS_NAMES if settings else ())
    lasts = [each.rstrip("/").rpartition("/")[2] for each in _expand_braces(low)]
    return "lockgate" in low or any(_fits(last, name, hidden=True) for last in lasts for name in names)


def _expand_braces(pattern: str) -> list[str]:
    """Return the patterns that `{a,b}` stands for; where those are many, some that fit more than they do."""
    expanded: list[str] = []
    pending = [pattern]
    while pending:
        each = pending.pop()
        found = _BRACES.search(each)
        if found is None or len(expanded) + len(pending) + found[1].count(",") > _MOST_CHOICES:
            expanded.append(_BRACES.sub("*", each))
        else:
            pending += [each[: found.start()] + choice + each[found.end() :] for choice in found[1].split(",")]
    return expanded


_MOST_PATH = 4096
_OWN_PROCESS = re.compile(r"/proc/(?:thread-)?self/(?!root|cwd)\w+(?:/\d*)?")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_CHOICES = 64
# Signs that a shell fills in a value.
_SIGNS = ("~", "$", "`", "\x00")
_DROPPED = str.maketrans("", "", "'\"\\^")
_LISTED = read_sections("lockgate.core.ruling.effects", "protected_paths.txt")
_NEAR_NAMES, _STATE_NAMES, _SETTINGS_NAMES = (
    tuple(" ".join(_LISTED.pop(section)).split()) for section in ("near names", "names of secrets", "names of settings")
)
# The root alone, a pattern right below it or a folder above (a plain sign comes first, for speed), a `cd` without a
# folder, and an archive that says itself which paths it writes.
_WIDE = re.compile(
    r"/(?<![^\s\"'=(:,]/)(?:[\s\"');|&,]|\Z|\w{0,6}[*?\[])|\.\.(?<![^\s\"'=(:,/]\.\.)(?:[\s\"');|&,/]|\Z)"
    r"|\bcd\s*(?:$|[;&|)\n])|tar\s[^|;&\n]{0,200}?(?:-p|-?\bx[a-z]*p|absolute-names)"
)


class _Listed(NamedTuple):
    section: str
    parts: tuple[str, ...]


_FROM_HOME: list[_Listed] = []
_FROM_ROOT: list[_Listed] = []
# By their first name: paths that count anywhere, with the sign that they begin with.
_ANYWHERE: dict[str, list[tuple[_Listed, str]]] = {}


def _read_list() -> None:
    for section, lines in _LISTED.items():
        for line in lines:
            start, _, rest = line.casefold().partition("/")
            entry = _Listed(section, tuple(rest.split("/")))
            if start in ("", "~"):
                (_FROM_HOME if start else _FROM_ROOT).append(entry)
            _ANYWHERE.setdefault(entry.parts[0], []).append((entry, start))


_read_list()

_FILE_URL = re.compile(r"file:(?://[^/\\]*)?", re.IGNORECASE)
_DEFAULT = r"\b(?::?[-=?][^}]*)?\}?"
_VARIABLES = tuple(
    (re.compile(spelled, re.IGNORECASE), value)
    for spelled, value in (
        (rf"\$\{{?HOME{_DEFAULT}|%(?:USERPROFILE|HOMEPATH)%|\$env:(?:USERPROFILE|HOME)\b", "~"),
        (rf"\$\{{?XDG_STATE_HOME{_DEFAULT}", "~/.local/state"),
        (rf"\$\{{?XDG_CACHE_HOME{_DEFAULT}", "~/.cache"),
        *((rf"\$\{{?{each.variable}{_DEFAULT}", f"~/{each.base}".rstrip("/")) for each in AGENT_PROGRAMS.values()),
    )
)
_UNKNOWN = re.compile(r"\$\{[^}]*\}|\$\(\)|\$\w+")
_ANY = "\x01"
_TILDE = re.compile(r"~[\w.-]*(?=/|$)")
_HOME = re.compile(r"(?:/(?:home|users)/[^/]+|/root|/var/root|[a-z]:/users/[^/]+)(?=/|$)")
_ABOVE_HOME = re.compile(r"/(?:home|users|\*+)?|[a-z]:/?(?:users)?")
# Names of listed paths that say nothing beside an unknown piece: so many other paths have them.
_COMMON = frozenset("~ .config .cache bin site-packages dist-packages projects tools".split())


def _join(path: str, folder: str) -> str:
    if path[:1] in ("/", "~", "$", "%") or not folder or _FILE_URL.match(path) or re.match(r"[A-Za-z]:[\\/]", path):
        return path
    return f"{folder}/{path}"


@lru_cache(maxsize=8192)
def _find_own(path: str, folder: str, home: str, own_folders: tuple[str, ...]) -> tuple[OwnPath, ...]:
    full = _resolve(path, folder, home)
    if _ABOVE_HOME.fullmatch(full):
        found = [OwnPath(entry.section, True) for entry in _FROM_HOME]
    else:
        parts = [part for part in full.split("/") if part]
        found = [*_find_anchored(full, parts), *_find_anywhere(parts, is_whole=full[:1] in ("/", "~"))]
        for own in own_folders if parts else ():
            entry = _Listed("secrets", tuple(part for part in _resolve(own, "", home).split("/") if part))
            if (above := _compare(parts, entry)) is not None:
                found.append(OwnPath("secrets", above))
    return tuple(dict.fromkeys(found))


def _find_anchored(full: str, parts: list[str]) -> Iterator[OwnPath]:
    is_home = parts[:1] == ["~"]
    for entry in _FROM_HOME if is_home else _FROM_ROOT if full[:1] == "/" else ():
        above = _compare(parts[1:] if is_home else parts, entry)
        if above is not None:
            yield OwnPath(entry.section, above)


def _find_anywhere(parts: list[str], *, is_whole: bool) -> Iterator[OwnPath]:
    for at, part in enumerate(parts):
        for entry, start in _ANYWHERE.get(part, ()):
            above = _compare(parts[at:], entry)
            # Where the folder is not known, a relative path may start from the home.
            if above is False or (above and (start == "**" or (start == "~" and at == 0 and not is_whole))):
                yield OwnPath(entry.section, above)


def _resolve(path: str, folder: str, home: str) -> str:
    """Return a path in one spelling: small letters, `/`, without detours, a home as `~`, an unknown piece as a mark."""
    text = path.strip()
    if (url := _FILE_URL.match(text)) is not None:
        text = unquote(text[url.end() :])
    text = _join(_expand(text), _expand(folder)).replace("\\", "/")
    # Windows takes what follows two colons for a part of the file, and ignores blanks and dots at the end of a name.
    text = _UNKNOWN.sub(_ANY, text.partition("::")[0].rstrip())
    # As a folder of its own, so that `~/..` is the folder of all homes.
    text = normalize_path(_TILDE.sub("/home/~", text, count=1) if text[:1] == "~" else text).casefold()
    return _shorten_home(text.rstrip(".") if re.search(r"\w\.+$", text) else text, home)


def _expand(text: str) -> str:
    if "$" in text or "%" in text:
        for variable, value in _VARIABLES:
            text = variable.sub(value, text)
    return text


def _shorten_home(text: str, home: str) -> str:
    """Return a path with a home in front as `~`; a folder above the known home as the root."""
    if home and home != "/":
        own = normalize_path(home.replace("\\", "/")).casefold()
        if text == own or text.startswith(f"{own}/"):
            return "~" + text[len(own) :]
        if text[:1] == "/" and own.startswith(f"{text.rstrip('/')}/"):
            return "/"
    if _HOME.match(text):
        return _HOME.sub("~", text, count=1)
    # `/h*/ana`: a pattern that can be the folder of all homes.
    first, _, rest = text[1:].partition("/")
    if text[:1] == "/" and rest and any(_fits(first, name) for name in ("home", "users")):
        return "/".join(["~", *rest.split("/")[1:]])
    return text


def _compare(parts: list[str], entry: _Listed) -> bool | None:
    """Return True if the path is a folder above the listed one, False if it is that one, None if it leads elsewhere."""
    has_unknown = tells = False
    for at, (part, listed) in enumerate(zip(parts, entry.parts, strict=False)):
        if part == "**":
            return None if entry.section != "secrets" or not may_find_own(parts[-1]) else False
        if not _fits(part, listed):
            return None
        if _ANY in part:
            has_unknown = True
            # `~/.$X` is a hidden folder of the home, as ours are.
            tells = tells or part[0] == "." or len(part.replace(_ANY, "")) > 2
        elif listed not in _COMMON and (at or listed[:1] == "." or "lockgate" in listed):
            # The first name of a path from the root, such as `/srv`, is that of many others.
            tells = True
    return None if has_unknown and not tells else len(parts) < len(entry.parts)


def _fits(part: str, listed: str, *, hidden: bool = False) -> bool:
    """Return whether one name of a path, which may be a pattern of the shell, can be a listed name."""
    if part == listed:
        return True
    if _ANY in part:
        return fnmatchcase(listed, part.replace("[", "[[]").replace(_ANY, "*"))
    if "*" in listed:
        return any(sign in part for sign in "*?[") or fnmatchcase(part, listed)
    if listed[:1] == "." and part[:1] != "." and not hidden:
        return False
    # Most names are no pattern. The time that one takes grows with its length, however many stars are in it.
    return any(sign in part for sign in "*?[") and fnmatchcase(listed, part)
