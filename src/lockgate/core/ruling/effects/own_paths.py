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
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project, normalize_path
from lockgate.core.tables import read_patterns, read_table

_COLUMNS = ("agent", "program", "package", "variable", "base", "folder", "hooks", "switches")
_RUNNERS = frozenset("node bun deno npx bunx pnpx uvx pipx npm pnpm yarn".split())


class AgentProgram(NamedTuple):
    """A coding agent: its settings are in `folder` below what `variable` names, or below `base` of the user's home.

    The hooks are in the file `hooks` there. `switches` are options and variables that start the program without them.
    """

    program: str
    package: str
    variable: str
    base: str
    folder: str
    hooks: str
    switches: str

    @property
    def usual_folder(self) -> str:
        """The folder of the settings where no variable is set, as the rules know it."""
        return "/".join(part for part in ("~", self.base, self.folder) if part)

    def settings_folder(self, environ: Mapping[str, str]) -> str:
        """Return the folder of the settings; one in the user's home begins with `~`."""
        base = environ.get(self.variable, "").rstrip("/")
        return f"{base}/{self.folder}".rstrip("/") if base else self.usual_folder

    def is_started_by(self, program: str, arguments: Sequence[str]) -> bool:
        """Return whether a command starts this agent, by itself or through a program that runs packages."""
        if program not in _RUNNERS:
            return program == self.program
        named = re.compile(rf"(?:.*[/=@])?(?:{self.program}|{self.package})(?:[@/.].*)?")
        return any(map(named.fullmatch, arguments))

    def hooks_left_out(self, arguments: Sequence[str], assigned: Collection[str]) -> str:
        """Return the option or variable by which this agent starts without its hooks; empty if there is none."""
        line = " ".join(" ".join(arguments).replace("=", " ").split())
        switches = filter(None, self.switches.split(", "))
        return next((switch for switch in switches if switch in assigned or switch in line), "")


AGENT_PROGRAMS: Mapping[str, AgentProgram] = {
    agent: AgentProgram(*("" if cell == "-" else cell for cell in cells))
    for agent, *cells in read_table(__package__, "own.tbl", "agents", _COLUMNS)
}


class Access(StrEnum):
    """What is done with a path."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    RUN = "run"


class _Listed(NamedTuple):
    section: str
    start: str
    names: list[str]


ASKS_SERVICE = "asks-own-service"
OWN_KINDS = frozenset(("reads-own-token", "changes-own-state", "changes-own-guard", ASKS_SERVICE))
OWN_WORDS = {
    name: frozenset(words.split()) for name, words in read_table(__package__, "own.tbl", "words", ("list", "words"))
}
_P = read_patterns(__package__, "own.tbl")
_MOST_PATH, _MOST_KEPT = 4096, 1000
# Stands for a piece of a path that is not known.
_ANY = "\x01"
_LISTED = [
    _Listed(section, path.partition("/")[0], path.casefold().split("/")[1:])
    for path, section in read_table(__package__, "own.tbl", "paths", ("path", "what"))
]
_NAMES = frozenset(name for entry in _LISTED for name in entry.names)
_SIGNS = re.compile(rf"[*?\[{_ANY}]")
_VARIABLES = {
    **dict.fromkeys(("HOME", "USERPROFILE", "HOMEPATH"), "~"),
    "XDG_STATE_HOME": "~/.local/state",
    "XDG_CACHE_HOME": "~/.cache",
    **{agent.variable: f"~/{agent.base}".rstrip("/") for agent in AGENT_PROGRAMS.values()},
}


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
    places = _find_own(path, folder, project.home, project.own_folders)
    # What asks is another process than the one that follows its links; only the host knows where they lead.
    if not places and project.follow is not None and not _P["process itself"].fullmatch(path):
        target = project.follow(_join(path, folder))
        places = _find_own(target, "", project.home, project.own_folders) if target else ()
    return places


def may_lead_to_own(text: str, project: Project) -> bool:
    """Return after a quick look whether a call with these values can come near a listed path; most cannot."""
    if project.folder and _find_own(project.folder, "", project.home, project.own_folders):
        return True
    # A shell drops quotes inside a name.
    texts = [text, text.translate(_QUOTES)] if _P["inner quote"].search(text) else [text]
    return any(words_lead_to_own(reading, project) for reading in texts)


def words_lead_to_own(text: str, project: Project) -> bool:
    """Return whether expanded words can come near a listed path."""
    # Agents repeat themselves, and one call is read more than once.
    leads = _leads_to_own if len(text) <= _MOST_KEPT else _leads_to_own.__wrapped__
    return leads(text, project.home, project.own_folders, project.own_ports)


@lru_cache(maxsize=1024)
def _leads_to_own(text: str, home: str, own_folders: tuple[str, ...], ports: tuple[int, ...]) -> bool:
    names = _near_names(home, own_folders, ports)
    # Looking for one name after the other is faster than for all at once.
    return any(any(map(low.__contains__, names)) or _P["near"].search(low) for low in _readings(text.lower()))


@lru_cache(maxsize=64)
def _near_names(home: str, own_folders: tuple[str, ...], ports: tuple[int, ...]) -> frozenset[str]:
    """Return what a text that leads to anything of ours has, if no pattern: a name on the way to it, or a port."""
    names = {*OWN_WORDS["near"], *map(str, ports)}
    for folder in (home, *own_folders):
        path = _P["home"].sub("", normalize_path(folder.replace("\\", "/")).casefold(), count=1)
        names.add(path.strip("/").rpartition(":/")[2].partition("/")[0])
    return frozenset(filter(None, names))


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
    return path if not folder or _P["whole"].match(path) else f"{folder}/{path}"


@lru_cache(maxsize=8192)
def _find_own(path: str, folder: str, home: str, own_folders: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    full = _resolve(path, folder, home)
    if "/**/" in full:
        return _find_by_name(full, own_folders)
    own = [_Listed("secret", "", _resolve(folder, "", home).strip("/").split("/")) for folder in own_folders]
    listed = [*_LISTED, *own]
    if _P["above home"].fullmatch(full):
        return tuple(dict.fromkeys((entry.section, True) for entry in listed if entry.start in ("~", "")))
    anchor, parts = full[: full.startswith(("/", "~"))], list(filter(None, full.split("/")))
    if full not in ("~", "") and _NAMES.isdisjoint(parts) and not _SIGNS.search(full):
        listed = own
    near = filter(lambda entry: anchor == (entry.start or "/") or entry.names[0] in parts, listed)
    places = dict.fromkeys((entry.section, _relation(parts, anchor, entry)) for entry in near)
    return tuple((section, is_above) for section, is_above in places if is_above is not None)


def _find_by_name(full: str, own_folders: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """Return the sections that a search of everything below a folder can find by this name."""
    start, _, name = full.partition("/**/")
    sections = {section for section, _ in _find_own(start or "/", "", "", own_folders)} - {"cache"}
    return tuple((section, False) for section in sorted(sections) if may_find_own(name, settings=section == "setting"))


def _relation(parts: list[str], anchor: str, entry: _Listed) -> bool | None:
    """Return False if a path leads to a listed one, True if it is a folder above, None if it leads elsewhere."""
    root, is_above = int(anchor == "~"), None
    is_rooted = anchor == (entry.start or "/")
    for at in range(len(parts)):
        if parts[at] == entry.names[0] or (at == root and is_rooted):
            # Where the folder is not known, a relative path may start from the home.
            is_start = entry.start == "**" or (at == root and entry.start == (anchor or "~").strip("/"))
            relation = _compare(parts[at:], entry.names)
            if relation is False:
                return False
            is_above = is_above or (relation and is_start) or None
    return True if not parts[root:] and is_rooted else is_above


def _compare(parts: list[str], names: list[str]) -> bool | None:
    """Return the relation of a path to a listed one that begins at the same folder."""
    has_unknown = tells = False
    for at, (part, name) in enumerate(zip(parts, names, strict=False)):
        if not _fits(part, name):
            return None
        if _ANY in part:
            has_unknown = True
            # `~/.$X` is a hidden folder of the home, as ours are.
            tells = tells or part[0] == "." or len(part.replace(_ANY, "")) > 2
        elif name not in OWN_WORDS["common names"] and (at or name[:1] == "." or "lockgate" in name):
            # The first name of a path from the root, such as `/srv`, is that of many others.
            tells = True
    return None if has_unknown and not tells else len(parts) < len(names)


def _fits(part: str, name: str) -> bool:
    """Return whether one name of a path, which may be a pattern of the shell, can be a listed name."""
    if part == name or not _SIGNS.search(part):
        return part == name or ("*" in name and fnmatchcase(part, name))
    if _ANY in part:
        return fnmatchcase(name, part.replace("[", "[[]").replace(_ANY, "*"))
    return "*" in name or ((name[:1] != "." or part[:1] == ".") and fnmatchcase(name, part))


def _resolve(path: str, folder: str, home: str) -> str:
    """Return a path in one spelling: small letters, `/`, without detours, a home as `~`, an unknown piece as a mark."""
    text = path.strip()
    if (url := _P["file url"].match(text)) is not None:
        text = unquote(text[url.end() :])
    text = _join(_P["variable"].sub(_value, text), _P["variable"].sub(_value, folder)).replace("\\", "/")
    # Windows takes what follows two colons for a part of the file, and ignores blanks and dots at the end of a name.
    text = text.partition("::")[0].rstrip()
    # As a folder of its own, so that `~/..` is the folder of all homes.
    text = _P["last dots"].sub("", normalize_path(_P["any home"].sub("/home/~", text)).casefold())
    own = normalize_path(home.replace("\\", "/")).casefold() if home != "/" else ""
    if own and f"{text}/".startswith(f"{own}/"):
        return "~" + text[len(own) :]
    if own and text[:1] == "/" and own.startswith(f"{text.rstrip('/')}/"):
        return "/"
    # `/h*/ana`: a pattern that can be the folder of all homes.
    first, _, rest = text[1:].partition("/")
    if text[:1] == "/" and rest and first != "**" and _fits(first, "home"):
        return "/".join(["~", *rest.split("/")[1:]])
    return _P["home"].sub("~", text, count=1)


def _value(match: re.Match[str]) -> str:
    name = (match[1] or match[2] or "").upper()
    return _VARIABLES.get(name, match[0] if match[2] else _ANY)


# 2. The service, and the servers of judges

# An agent may ask whether the service runs.
_HEALTH = r"/(?:healthz|readyz)(?:[\s\"'`;|&)]|$)"
_QUOTES = str.maketrans("", "", "'\"\\^")
# Browsers leave the first three out wherever they stand in an address, and take the others for dots.
_PLAIN = str.maketrans("。．｡", "...", "\t\r\n")


def find_own_service(text: str, port: int) -> str:
    """Return the host and port in a text that lead to the service; empty if none do."""
    return next(filter(None, (_find_address(reading, str(port)) for reading in _readings(text))), "")


def _readings(text: str) -> list[str]:
    """Return a text as it stands, and as browsers read it where that may be another."""
    if text.isascii() and text.isprintable() and "%" not in text:
        return [text]
    return [text, unicodedata.normalize("NFKC", unquote(unquote(text))).translate(_PLAIN)]


def _find_address(text: str, port: str) -> str:
    """Return an address where a text has the port, and this machine anywhere beside it."""
    if port not in text or not re.search(rf"(?<!\d)0{{0,8}}{port}(?!\d|{_HEALTH})", text):
        return ""
    words = (word.removesuffix(":") for word in _P["hosts"].findall(re.sub(rf"(?<!\d)0{{0,8}}{port}(?!\d)", " ", text)))
    return next((f"{word}:{port}" for word in words if is_this_machine(word)), "")


def find_model_change(text: str, ports: Iterable[int]) -> str:
    """Return the host and port of a judge's server where a text also names a route that changes its models."""
    addresses = (find_own_service(text, port) for port in ports if _P["model route"].search(unquote(text)))
    return next(filter(None, addresses), "")


def is_this_machine(host: str) -> bool:
    """Return whether a program could take a written host for the machine that it runs on."""
    bare = host.strip("[]").rstrip(".").lower()
    if bare in OWN_WORDS["this machine"] or bare.endswith(".localhost"):
        return True
    _, colon, last = bare.rpartition(":")
    try:
        if colon:
            ip = IPv6Address(bare.partition("%")[0])
            return (ip.ipv4_mapped or ip).is_loopback or (ip.ipv4_mapped or ip).is_unspecified or is_this_machine(last)
        numbers = [int(part, 16 if part[:2] == "0x" else 8 if part[:1] == "0" else 10) for part in bare[:64].split(".")]
    except ValueError:
        # The last of several fields.
        return colon != "" and is_this_machine(last)
    first = numbers[0] if len(numbers) > 1 else numbers[0] % 2**32 >> 24
    return first == 127 or not any(numbers)
