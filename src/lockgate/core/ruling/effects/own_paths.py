"""Rules 1 and 2: paths that Lockgate rests on (`own.tbl`), and addresses of its service, however they are spelled.

What counts is where an access leads: `~`, variables and detours are resolved, and patterns of the shell are compared
name by name. A folder above a listed path counts for what works on everything below it, and so does a search below it
(`~/**/name`) for a name that a file of ours may have. A piece that only the running shell knows can be any name: it is
ours only where a known piece beside it says so (`~/.local/state/$X`; not `$BUILD`, `~/$X`, `~/.config/$APP`).

The page and the API of the service answer for a person: an agent that opens them could answer its own question there.
Only the routes that say whether the service runs are left out. A judge's server may be asked, but not changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.ruling.effects.agent_programs import AGENT_PROGRAMS
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project, normalize_path
from lockgate.core.tables import read_table


class Access(StrEnum):
    """What is done with a path."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    RUN = "run"


class _Listed(NamedTuple):
    section: str
    start: str
    parts: tuple[str, ...]


ASKS_SERVICE = "asks-own-service"
OWN_KINDS = frozenset(("reads-own-token", "changes-own-state", "changes-own-guard", ASKS_SERVICE))
OWN_WORDS = {
    name: frozenset(words.split()) for name, words in read_table(__package__, "own.tbl", "words", ("list", "words"))
}
_MOST_PATH = 4096
_ANY = "\x01"
_LISTED = [
    _Listed(what, path.partition("/")[0], tuple(path.casefold().partition("/")[2].split("/")))
    for path, what in read_table(__package__, "own.tbl", "paths", ("path", "what"))
]
_PATTERN = re.compile(rf"[*?\[{_ANY}]")
# Where in the list the paths are that begin with an anchor, or with a name.
_PLACES: dict[str, list[int]] = defaultdict(list)
for _at, _entry in enumerate(_LISTED):
    _PLACES[_entry.start or "/"].append(_at)
    _PLACES[_entry.parts[0]].append(_at)
_OWN_PROCESS = re.compile(r"/proc/(?:thread-)?self/(?!root|cwd)\w+(?:/\d*)?")
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:env:)?\{?(\w+)\b(?::?[-=?][^}]*)?\}?|%(\w+)%|\$\{[^}]*\}|\$\(\)", re.IGNORECASE)
_VARIABLES = {
    **dict.fromkeys(("HOME", "USERPROFILE", "HOMEPATH"), "~"),
    "XDG_STATE_HOME": "~/.local/state",
    "XDG_CACHE_HOME": "~/.cache",
    **{agent.variable: f"~/{agent.base}".rstrip("/") for agent in AGENT_PROGRAMS.values()},
}
# A name that is no pattern and no detour.
_NAME = re.compile(r"[\w.-]*\w")
_VARIES = re.compile(r"[$%]")
_ANY_HOME, _LAST_DOTS = re.compile(r"^~[\w.-]*(?=/|$)"), re.compile(r"(?<=\w)\.+$")
_WHOLE = re.compile(r"[/~$%]|file:|[A-Za-z]:[\\/]", re.IGNORECASE)
_HOME = re.compile(r"(?:/(?:home|users)/[^/]+|/root|/var/root|[a-z]:/users/[^/]+)(?=/|$)")
_ABOVE_HOME = re.compile(r"/(?:home|users|\*+)?|[a-z]:/?(?:users)?")
# Values that only the shell knows, a home, the root alone or with a pattern, a folder above, a `cd` without a folder,
# and an archive that says itself which paths it writes.
_NEAR = re.compile(
    r"[$`\x00]|~(?<!\w~)|[/\\](?:(?:home|root|users)(?:[/\\][\w.@-]+)?[/\\]?)?(?:[\s\"');|&,:]|\Z)"
    r"|/(?<![^\s\"'=(:,]/)\w{0,6}[*?\[{]|\.\.(?<!\.\.\.)(?:[\s\"');|&,/\\]|\Z)"
    r"|\bcd\s*(?:$|[;&|)\n])|\btar\s[^|;&\n]{0,200}?(?:-p|-?\bx[a-z]*p|absolute-names)"
)
_PATTERNS, _HOMES = re.compile(r"[*?\[{]|/\.?/"), re.compile("home|users|/root")
_QUOTES = str.maketrans("", "", "'\"\\^")


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


def find_own(path: str, project: Project, folder: str = "") -> tuple[tuple[str, bool], ...]:
    """Return the sections of listed paths that a path leads to, and for each whether it is only a folder above."""
    if not path or len(path) > _MOST_PATH:
        return ()
    folder = folder or project.folder or project.root
    is_far = _NAME.fullmatch(path) and path.casefold() not in _PLACES and _is_far(folder, project.home)
    if not project.own_folders and is_far:
        places: tuple[tuple[str, bool], ...] = ()
    else:
        places = _find_own(path, folder, project.home, project.own_folders)
    # What asks is another process than the one that follows its links; only the host knows where they lead.
    if not places and project.follow is not None and not _OWN_PROCESS.fullmatch(path):
        target = project.follow(_join(path, folder))
        places = _find_own(target, "", project.home, project.own_folders) if target else ()
    return places


def may_lead_to_own(text: str, project: Project) -> bool:
    """Return after a quick look whether a call with these values can come near a listed path; most cannot."""
    low = text.lower()
    # A shell drops quotes inside a name.
    bare = low.translate(_QUOTES)
    return (
        any(map(bare.__contains__, _near_names(project.home, *project.own_folders)))
        or any(str(port) in bare for port in project.judge_servers)
        or any(name in low for name in ("/v1/", "/hooks/", "/links/"))
        or any(str(project.service_port) in reading for reading in _readings(low))
        or any(map(_NEAR.search, {low, bare}))
        or (_PATTERNS.search(low) is not None and _HOMES.search(bare) is not None)
        or bool(project.folder and _find_own(project.folder, "", project.home, project.own_folders))
    )


@lru_cache(maxsize=64)
def _near_names(*folders: str) -> tuple[str, ...]:
    """Return names of which a plain path to anything of ours has one: from the root, or below a home."""
    paths = [_HOME.sub("", normalize_path(folder.replace("\\", "/")).casefold(), count=1) for folder in folders]
    firsts = [path.strip("/").rpartition(":/")[2].partition("/")[0] for path in paths]
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


@lru_cache(maxsize=64)
def _is_far(folder: str, home: str) -> bool:
    """Return whether no listed path has a name in common with a folder, so that one more name decides."""
    full = _resolve(folder, "", home)
    parts = [part for part in full.split("/") if part]
    return full[:1] == "/" and not _ABOVE_HOME.fullmatch(full) and not _listed_near(parts, "/")


@lru_cache(maxsize=8192)
def _find_own(path: str, folder: str, home: str, own_folders: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    full = _resolve(path, folder, home)
    start, is_search, name = full.partition("/**/")
    if is_search:
        sections = {section for section, _ in _find_own(start or "/", "", "", own_folders)} - {"cache"}
        return tuple(
            (section, False) for section in sorted(sections) if may_find_own(name, settings=section == "setting")
        )
    own = (_Listed("secret", "", tuple(_resolve(own, "", home).strip("/").split("/"))) for own in own_folders)
    listed = [*_LISTED, *own]
    if _ABOVE_HOME.fullmatch(full):
        return tuple(dict.fromkeys((entry.section, True) for entry in listed if entry.start in ("~", "")))
    parts, anchor = [part for part in full.split("/") if part], full[: full.startswith(("/", "~"))]
    entries = [*_listed_near(parts, anchor), *listed[len(_LISTED) :]]
    return tuple(
        dict.fromkeys((entry.section, above) for entry in entries for above in _relations(parts, anchor, entry))
    )


def _listed_near(parts: list[str], anchor: str) -> list[_Listed]:
    """Return the listed paths that have a name in common with a path, or any where its first name is a pattern."""
    first = parts[int(anchor == "~") :][:1]
    names = {*parts} if first and not _PATTERN.search(first[0]) else {anchor, *parts}
    return [_LISTED[at] for at in sorted({at for name in names for at in _PLACES.get(name, ())})]


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
    if _VARIES.search(text + folder):
        text, folder = _VARIABLE.sub(_value, text), _VARIABLE.sub(_value, folder)
    text = _join(text, folder).replace("\\", "/")
    # Windows takes what follows two colons for a part of the file, and ignores blanks and dots at the end of a name.
    text = text.partition("::")[0].rstrip()
    # As a folder of its own, so that `~/..` is the folder of all homes.
    text = _LAST_DOTS.sub("", normalize_path(_ANY_HOME.sub("/home/~", text)).casefold())
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
        elif listed not in OWN_WORDS["common names"] and (at or listed[:1] == "." or "lockgate" in listed):
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


# 2. The service, and the servers of judges

# An agent may ask whether the service runs.
_HEALTH = r"/(?:healthz|readyz)(?:[\s\"'`;|&)]|$)"
_HOSTS = re.compile(r"\[[^\s\[\]]*\]|[^\s/\\?#\"'<>|`,;&()=@\[\]]+")
# Browsers leave the first three out wherever they stand in an address, and take the others for dots.
_PLAIN = str.maketrans("。．｡", "...", "\t\r\n")
# The routes of Ollama, LM Studio, llama.cpp and vLLM that replace, load or remove a model.
_MODEL_ROUTE = re.compile(
    r"/+api/+(?:create|delete|pull|copy|v\d/+models/+(?:un)?load)\b|/models/+(?:un)?load\b|/v1/+(?:un)?load_lora|/lora-adapters"
)


def find_own_service(text: str, port: int) -> str:
    """Return the host and port in a text that lead to the service; empty if none do."""
    return next(filter(None, (_find_address(reading, port) for reading in _readings(text))), "")


def _readings(text: str) -> list[str]:
    """Return a text as it stands, and as browsers read it where that may be another."""
    if text.isascii() and text.isprintable() and "%" not in text:
        return [text]
    return [text, unicodedata.normalize("NFKC", unquote(unquote(text))).translate(_PLAIN)]


def _find_address(text: str, port: int) -> str:
    """Return an address where a text has the port, and this machine anywhere beside it."""
    if str(port) not in text or not re.search(rf"(?<!\d)0{{0,8}}{port}(?!\d|{_HEALTH})", text):
        return ""
    words = (word.removesuffix(":") for word in _HOSTS.findall(re.sub(rf"(?<!\d)0{{0,8}}{port}(?!\d)", " ", text)))
    return next((f"{word}:{port}" for word in words if is_this_machine(word)), "")


def find_model_change(text: str, ports: Iterable[int]) -> str:
    """Return the host and port of a judge's server where a text also names a route that changes its models."""
    addresses = (find_own_service(text, port) for port in ports if _MODEL_ROUTE.search(unquote(text)))
    return next(filter(None, addresses), "")


def is_this_machine(host: str) -> bool:
    """Return whether a program could take a written host for the machine that it runs on."""
    bare = host.strip("[]").rstrip(".").lower()
    if bare in OWN_WORDS["this machine"] or bare.endswith(".localhost"):
        return True
    try:
        if ":" in bare:
            address = IPv6Address(bare.partition("%")[0])
            mapped = address.ipv4_mapped or address
            return mapped.is_loopback or mapped.is_unspecified or is_this_machine(bare.rpartition(":")[2])
        numbers = [int(part, 16 if part[:2] == "0x" else 8 if part[:1] == "0" else 10) for part in bare[:64].split(".")]
    except ValueError:
        # The last of several fields.
        return ":" in bare and is_this_machine(bare.rpartition(":")[2])
    first = numbers[0] if len(numbers) > 1 else numbers[0] % 2**32 >> 24
    return first == 127 or not any(numbers)
