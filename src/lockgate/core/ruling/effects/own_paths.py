"""Rule 1: paths that Lockgate itself rests on (`own.tbl`), however they are spelled.

What counts is where an access leads: `~`, variables and detours are resolved, and patterns of the shell are compared
name by name. A folder above a listed path counts for what works on everything below it, and so does a search below it
(`~/**/name`) for a name that a file of ours may have. A piece that only the running shell knows can be any name: it is
ours only where a known piece beside it says so (`~/.local/state/$X`; not `$BUILD`, `~/$X`, `~/.config/$APP`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.ruling.effects.agent_programs import AGENT_PROGRAMS
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.own_address import ASKS_SERVICE, may_name_service
from lockgate.core.ruling.effects.project import Project, normalize_path
from lockgate.core.tables import read_table


class Access(StrEnum):
    """What is done with a path."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    RUN = "run"


class OwnPath(NamedTuple):
    """How a path relates to a listed one: what that one is, and whether the path is a folder above it."""

    section: str
    is_above: bool


class _Listed(NamedTuple):
    section: str
    start: str
    parts: tuple[str, ...]


OWN_KINDS = frozenset(("reads-own-token", "changes-own-state", "changes-own-guard", ASKS_SERVICE))
OWN_WORDS = {
    name: frozenset(words.split()) for name, words in read_table(__package__, "own.tbl", "words", ("list", "words"))
}
_MOST_PATH = 4096
_LISTED = [
    _Listed(what, path.partition("/")[0], tuple(path.casefold().partition("/")[2].split("/")))
    for path, what in read_table(__package__, "own.tbl", "paths", ("path", "what"))
]
_OWN_PROCESS = re.compile(r"/proc/(?:thread-)?self/(?!root|cwd)\w+(?:/\d*)?")
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:env:)?\{?(\w+)\b(?::?[-=?][^}]*)?\}?|%(\w+)%|\$\{[^}]*\}|\$\(\)", re.IGNORECASE)
_VARIABLES = {
    **dict.fromkeys(("HOME", "USERPROFILE", "HOMEPATH"), "~"),
    "XDG_STATE_HOME": "~/.local/state",
    "XDG_CACHE_HOME": "~/.cache",
    **{agent.variable: f"~/{agent.base}".rstrip("/") for agent in AGENT_PROGRAMS.values()},
}
_ANY = "\x01"
_WHOLE = re.compile(r"[/~$%]|file:|[A-Za-z]:[\\/]", re.IGNORECASE)
_HOME = re.compile(r"(?:/(?:home|users)/[^/]+|/root|/var/root|[a-z]:/users/[^/]+)(?=/|$)")
_ABOVE_HOME = re.compile(r"/(?:home|users|\*+)?|[a-z]:/?(?:users)?")
# Names of listed paths that say nothing beside an unknown piece: so many other paths have them.
_COMMON = frozenset("~ .config .cache bin site-packages dist-packages projects tools".split())
# Values that only the shell knows, a home, the root alone or with a pattern, a folder above, a `cd` without a folder,
# and an archive that says itself which paths it writes; and names of listed paths and of programs that reach us.
_NEAR = re.compile(
    r"[$`\x00]|~(?<!\w~)|[/\\](?:(?:home|root|users)(?:[/\\][\w.@-]+)?[/\\]?)?(?:[\s\"');|&,:]|\Z)"
    r"|/(?<![^\s\"'=(:,]/)\w{0,6}[*?\[{]|\.\.(?<!\.\.\.)(?:[\s\"');|&,/\\]|\Z)"
)
_NEAR_COMMAND = re.compile(r"\bcd\s*(?:$|[;&|)\n])|tar\s[^|;&\n]{0,200}?(?:-p|-?\bx[a-z]*p|absolute-names)")
_PATTERNS = re.compile(r"[*?\[{]|/\.?/")
_HOMES = re.compile("home|users|/root")
_QUOTE = re.compile("['\"\\\\^]")


def own_access(path: str, access: Access, project: Project, *, folder: str = "", below: bool = False) -> Effect | None:
    """Return what an access does to Lockgate itself, or None; `below` says that it reaches all below the path."""
    for section, is_above in find_own(path, project, folder) if access is not Access.RUN else ():
        if is_above and (not below or section == "cache"):
            continue
        if section == "secret":
            return effect("reads-own-token" if access is Access.READ else "changes-own-state", path)
        if access is Access.WRITE or (access is Access.DELETE and section == "setting"):
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
        target = project.follow(_join(path, folder))
        found = _find_own(target, "", project.home, project.own_folders) if target else ()
    return found


def may_lead_to_own(text: str, project: Project) -> bool:
    """Return after a quick look whether a call with these values can come near a listed path; most cannot."""
    low = text.lower()
    # A shell drops quotes inside a name.
    bare = _QUOTE.sub("", low)
    return (
        any(map(bare.__contains__, _near_names(project.home, *project.own_folders)))
        or any(str(port) in bare for port in project.judge_servers)
        or may_name_service(low, project.service_port)
        or any(map(_NEAR.search, {low, bare}))
        or (("cd" in low or "tar" in low) and _NEAR_COMMAND.search(low) is not None)
        or (_PATTERNS.search(low) is not None and _HOMES.search(bare) is not None)
        or bool(project.folder and _find_own(project.folder, "", project.home, project.own_folders))
    )


@lru_cache(maxsize=64)
def _near_names(*folders: str) -> tuple[str, ...]:
    """Return names of which a plain path to anything of ours has one: from the root, or below a home."""
    paths = [normalize_path(folder.replace("\\", "/")).casefold() for folder in folders]
    below = [_HOME.sub("", path, count=1) if _HOME.match(path) else path for path in paths]
    firsts = [path.strip("/").rpartition(":/")[2].partition("/")[0] for path in below]
    return (*OWN_WORDS["near"], *filter(None, firsts))


@lru_cache(maxsize=1024)
def may_find_own(pattern: str, *, settings: bool = False) -> bool:
    """Return whether a search for names that fit this pattern can find a file of Lockgate's state, or of `settings`."""
    last = pattern.casefold().rstrip("/").rpartition("/")[2]
    try:
        fits = re.compile(translate(last[:200]).replace(r"\{", "(?:").replace(r"\}", ")").replace(",", "|"))
    except re.error:
        return True
    names = OWN_WORDS["secret names"] | (OWN_WORDS["setting names"] if settings else frozenset())
    return "lockgate" in pattern.casefold() or any(map(fits.match, names))


def _join(path: str, folder: str) -> str:
    return path if not folder or _WHOLE.match(path) else f"{folder}/{path}"


@lru_cache(maxsize=8192)
def _find_own(path: str, folder: str, home: str, own_folders: tuple[str, ...]) -> tuple[OwnPath, ...]:
    full = _resolve(path, folder, home)
    start, is_search, name = full.partition("/**/")
    if is_search:
        sections = {above.section for above in _find_own(start or "/", "", "", own_folders)} - {"cache"}
        found = (section for section in sorted(sections) if may_find_own(name, settings=section == "setting"))
        return tuple(OwnPath(section, False) for section in found)
    parts = [part for part in full.split("/") if part]
    listed = [
        *_LISTED,
        *(_Listed("secret", "", tuple(_resolve(own, "", home).strip("/").split("/"))) for own in own_folders),
    ]
    if _ABOVE_HOME.fullmatch(full):
        return tuple(dict.fromkeys(OwnPath(each.section, True) for each in listed if each.start in ("~", "")))
    anchor = full[: full.startswith(("/", "~"))]
    return tuple(
        dict.fromkeys(OwnPath(each.section, above) for each in listed for above in _relations(parts, anchor, each))
    )


def _relations(parts: list[str], anchor: str, entry: _Listed) -> Iterator[bool]:
    """Yield True for each way in which a path is a folder above the listed one, False where it leads there."""
    root = int(anchor == "~")
    starts = {at for at, part in enumerate(parts) if part == entry.parts[0]}
    for at in starts | {root} if anchor == (entry.start or "/") else starts:
        # Where the folder is not known, a relative path may start from the home.
        is_start = entry.start == "**" or (at == root and entry.start == (anchor or "~").strip("/"))
        if (above := _compare(parts[at:], entry)) is False or (above and is_start):
            yield above


def _resolve(path: str, folder: str, home: str) -> str:
    """Return a path in one spelling: small letters, `/`, without detours, a home as `~`, an unknown piece as a mark."""
    text = path.strip()
    if (url := _FILE_URL.match(text)) is not None:
        text = unquote(text[url.end() :])
    text = _join(_VARIABLE.sub(_value, text), _VARIABLE.sub(_value, folder)).replace("\\", "/")
    # Windows takes what follows two colons for a part of the file, and ignores blanks and dots at the end of a name.
    text = text.partition("::")[0].rstrip()
    # As a folder of its own, so that `~/..` is the folder of all homes.
    text = re.sub(r"^~[\w.-]*(?=/|$)", "/home/~", text)
    text = normalize_path(text).casefold()
    text = text.rstrip(".") if re.search(r"\w\.+$", text) else text
    own = normalize_path(home.replace("\\", "/")).casefold() if home != "/" else ""
    if own and (text == own or text.startswith(f"{own}/")):
        return "~" + text[len(own) :]
    if own and text[:1] == "/" and own.startswith(f"{text.rstrip('/')}/"):
        return "/"
    # `/h*/ana`: a pattern that can be the folder of all homes.
    first, _, rest = text[1:].partition("/")
    if text[:1] == "/" and rest and first != "**" and _fits(first, "home"):
        return "/".join(["~", *rest.split("/")[1:]])
    return _HOME.sub("~", text, count=1) if _HOME.match(text) else text


def _value(match: re.Match[str]) -> str:
    name = (match[1] or match[2] or "").upper()
    return _VARIABLES.get(name, match[0] if match[2] else _ANY)


def _compare(parts: list[str], entry: _Listed) -> bool | None:
    """Return True if the path is a folder above the listed one, False if it is that one, None if it leads elsewhere."""
    has_unknown = tells = False
    for at, (part, listed) in enumerate(zip(parts, entry.parts, strict=False)):
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


def _fits(part: str, listed: str) -> bool:
    """Return whether one name of a path, which may be a pattern of the shell, can be a listed name."""
    if part == listed or _ANY in part:
        return part == listed or fnmatchcase(listed, part.replace("[", "[[]").replace(_ANY, "*"))
    is_pattern = any(sign in part for sign in "*?[")
    if "*" in listed:
        return is_pattern or fnmatchcase(part, listed)
    return is_pattern and (listed[:1] != "." or part[:1] == ".") and fnmatchcase(listed, part)
