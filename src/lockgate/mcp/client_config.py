"""A client's list of MCP servers, with `lockgate mcp` put in front of each, and taken away again.

Clients keep the same list under different names: `mcpServers` (Claude Desktop, Claude Code, Cursor, Windsurf),
`servers` (VS Code), `context_servers` (Zed). Only the entries themselves are written anew; every other byte stays,
comments too. What an entry was is kept in the state folder, so that taking us out restores it to the letter; an entry
that was changed since is taken apart instead, and means the same as before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from lockgate.core.errors import LockgateError, quoted
from lockgate.mcp.tool_pins import server_name
from lockgate.runtime import json_edit as json_text
from lockgate.runtime.private_files import PrivateFileKind, replace_file

_KEPT = PrivateFileKind(
    "what a client's servers were", "have another command run in a server's place", "configuration", secret=True
)
_LISTS = (("mcpServers",), ("servers",), ("context_servers",), ("mcp", "servers"), ("mcp", "mcpServers"))
_ADDRESSES = ("url", "serverUrl", "httpUrl")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_VALUE = "LOCKGATE_HEADER_"
_MAX_FILE = 16 * 1024 * 1024
_SECRET = 6
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

ServerEntry = dict[str, object]


@dataclass(frozen=True)
class ClientConfigPlan:
    """What would change in a file. `changes` and `skipped` are lines for people."""

    path: Path
    before: bytes
    after: bytes
    diff: str
    changes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    # What is to be remembered: the text of an entry as it will be, to what it was.
    kept: Mapping[str, str] = field(default_factory=dict)
    state: Path | None = None

    @property
    def empty(self) -> bool:
        return self.before == self.after


def plan_change(
    path: Path,
    *,
    servers: Sequence[str] = (),
    remove: bool = False,
    state: Path | None = None,
    command: Sequence[str] = (),
) -> ClientConfigPlan:
    """What putting us in front of these servers (or of all) would change, or taking us out again."""
    path = path.resolve()
    before = _read(path)
    text = _decode_text(before)
    shown, secrets = text, set[str]()
    if state is None:
        from lockgate.assemble import settings_from_environment

        state = settings_from_environment().state_dir
    originals = _read_originals(state, path) if remove else {}
    changes, skipped, kept, found = [], [], dict[str, str](), set[str]()
    # From the end, so that the places of those before stay as they are.
    for place in sorted(_entries(text), key=lambda each: each.start, reverse=True):
        if servers and place.name not in servers:
            continue
        found.add(place.name)
        was, entry = text[place.start : place.end], place.entry
        secrets |= _secrets(entry)
        named = quoted(place.name)
        if is_wrapped(entry) is not remove:
            skipped.append(f"{named}: {'has no lockgate in front of it' if remove else 'is behind lockgate already'}")
            continue
        if remove:
            now = originals.get(was) or _format_entry(unwrap_entry(entry), text, place.start)
            changes.append(f"{named}: lockgate taken out")
        else:
            fit = wrap_entry(place.name, entry, command or lockgate_command())
            if isinstance(fit, str):
                skipped.append(f"{named}: left as it is, {fit}")
                continue
            now = _format_entry(fit, text, place.start)
            kept[now] = was
            changes.append(f"{named}: behind lockgate")
        shown = shown[: place.start] + now + shown[place.end :]
    _refuse_missing(path, servers, found)
    after = shown.encode("utf-8")
    if before.startswith(b"\xef\xbb\xbf"):
        after = b"\xef\xbb\xbf" + after
    return ClientConfigPlan(
        path,
        before,
        after,
        _diff(text, shown, secrets),
        tuple(reversed(changes)),
        tuple(reversed(skipped)),
        kept,
        state,
    )


def _refuse_missing(path: Path, servers: Sequence[str], found: set[str]) -> None:
    missing = [name for name in servers if name not in found]
    if missing:
        raise LockgateError(
            f"{quoted(path, 200)} has no server {quoted(missing[0])}", hint="names count as they are written"
        )
    if not found:
        raise LockgateError(
            f"{quoted(path, 200)} names no MCP server",
            hint=f"looked for {', '.join('.'.join(each) for each in _LISTS)}",
        )


def apply_plan(plan: ClientConfigPlan) -> None:
    """Change the file as planned, all of it or nothing; LockgateError where it is not what the plan was made for."""
    if plan.empty:
        return
    if _read(plan.path) != plan.before:
        raise LockgateError(f"{quoted(plan.path, 200)} has changed meanwhile", hint="run it again")
    if plan.kept and plan.state is not None:
        _write_originals(plan.state, plan.path, plan.kept)
    replace_file(plan.path, plan.after, exact_mode=stat.S_IMODE(os.stat(plan.path).st_mode))


def lockgate_command() -> list[str]:
    """How a client starts us: by our whole path, since programs with windows often know no other."""
    script = "lockgate.exe" if os.name == "nt" else "lockgate"
    # Beside Python first: on Windows a search would find a program of this name in the current folder.
    for own in (Path(sys.argv[0]), Path(sys.executable).with_name(script)):
        if own.name in ("lockgate", "lockgate.exe") and own.is_file():
            return [str(own.absolute())]
    return [shutil.which("lockgate") or "lockgate"]


def is_wrapped(entry: Mapping[str, object]) -> bool:
    command, arguments = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    name = re.split(r"[\\/]", command)[-1]
    return name.removesuffix(".exe") == "lockgate" and arguments[:1] == ["mcp"]


def wrap_entry(name: str, entry: Mapping[str, object], ours: Sequence[str]) -> ServerEntry | str:
    """The entry with us in front of its server; or why that cannot be."""
    front = ["mcp", "--name", server_name(name, [name])]
    arguments = entry.get("args", [])
    if isinstance(entry.get("command"), str):
        if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
            return "its args are no list of texts"
        held: ServerEntry = {}
        for key, value in entry.items():
            if key == "command":
                held["command"], held["args"] = ours[0], [*ours[1:], *front, "--", value, *arguments]
            elif key != "args":
                held[key] = value
        return held
    address = next((key for key in _ADDRESSES if isinstance(entry.get(key), str)), "")
    if not address:
        return "it has neither a command nor a url"
    url = str(entry[address])
    if entry.get("type", "http") not in _HTTP or url.partition("?")[0].endswith("/sse"):
        return "it speaks the older transport (SSE), which lockgate mcp does not"
    if any(key in entry for key in ("oauth", "auth", "authorization")):
        return "its client signs in to it, which lockgate mcp cannot do"
    headers, environment = entry.get("headers", {}), entry.get("env", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        return "its headers are not texts"
    if not isinstance(environment, dict):
        return "its env is no object"
    sent: list[str] = []
    # A value may be a secret, and every user of the machine can read the arguments of a process.
    values = {f"{_VALUE}{number}": value for number, value in enumerate(headers.values(), 1)}
    for variable, header in zip(values, headers, strict=True):
        sent += ["--header", f"{header}: ${variable}"]
    held = {"type": "stdio"} if "type" in entry else {}
    held |= {"command": ours[0], "args": [*ours[1:], *front, "--url", url, *sent]}
    if environment or values:
        held["env"] = {**environment, **values}
    rest = {key: value for key, value in entry.items() if key not in (address, "type", "headers", "env")}
    return {**held, **rest}


def unwrap_entry(entry: Mapping[str, object]) -> ServerEntry:
    """The entry without us: what it meant before, if not in the very same words."""
    given = entry.get("args")
    arguments = [str(each) for each in given] if isinstance(given, list) else []
    if "--" in arguments:
        server = arguments[arguments.index("--") + 1 :]
        if not server:
            raise LockgateError("an entry has no server behind lockgate", hint="write its command back by hand")
        held = {"command": server[0], "args": server[1:]} if server[1:] else {"command": server[0]}
        return {**held, **{key: value for key, value in entry.items() if key not in ("command", "args")}}
    if "--url" not in arguments[:-1]:
        raise LockgateError("an entry has no server behind lockgate", hint="write its command or url back by hand")
    env = entry.get("env")
    environment = dict(env) if isinstance(env, dict) else {}
    headers: dict[str, object] = {}
    for flag, text in pairwise(arguments):
        if flag == "--header":
            header, _, value = text.partition(": ")
            variable = value.removeprefix("$")
            headers[header] = environment.pop(variable) if variable in environment else value
    held = {"type": "http"} if "type" in entry else {}
    held |= {"url": arguments[arguments.index("--url") + 1]}
    held |= ({"headers": headers} if headers else {}) | ({"env": environment} if environment else {})
    rest = {key: value for key, value in entry.items() if key not in ("type", "command", "args", "env")}
    return {**held, **rest}


# The file


@dataclass(frozen=True)
class ServerEntryPlace:
    name: str
    entry: ServerEntry
    start: int
    end: int


def _read(path: Path) -> bytes:
    try:
        # A named pipe in the place of the file must not hold up the command.
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LockgateError(f"{quoted(path, 200)} is not a file")
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise LockgateError(f"{quoted(path, 200)} cannot be read: {(error.strerror or 'unknown').lower()}") from error
    if len(data) > _MAX_FILE:
        raise LockgateError(f"{quoted(path, 200)} is too large for a list of servers")
    return data


def _decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LockgateError("this is not UTF-8", hint="save it as UTF-8") from None


def _entries(text: str) -> Iterator[ServerEntryPlace]:
    """Every server that the file names, and where."""
    plain = blank_comments(text)
    value = json_text.parse_json_object(plain)
    lists = [*_LISTS]
    projects = value.get("projects")
    if isinstance(projects, dict):
        # Claude Code keeps some of its servers by folder.
        lists += [("projects", folder, "mcpServers") for folder in projects]
    for way in lists:
        place = json_text.value_start(plain)
        inner: object = value
        for key in way:
            member = json_text.find_member(plain, place, key) if isinstance(inner, dict) else None
            if member is None or not isinstance(inner, dict):
                break
            place, inner = member.value, inner[key]
        else:
            if not isinstance(inner, dict):
                continue
            for item in json_text.iterate_items(plain, place):
                entry = inner[item.key]
                if isinstance(entry, dict):
                    yield ServerEntryPlace(item.key, entry, item.value, item.end)


def blank_comments(text: str) -> str:
    """The text with blanks in the place of comments and of commas before an end: JSON, with everything where it was."""
    out = list(text)
    comma = -1
    for found in _TOKEN.finditer(text):
        said = found.group()
        if said.startswith(("//", "/*")):
            out[found.start() : found.end()] = [ch if ch in "\r\n" else " " for ch in said]
        elif said == ",":
            comma = found.start()
        elif said in "}]" and comma >= 0:
            out[comma] = " "
            comma = -1
        else:
            comma = -1
    return "".join(out)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|[^\s]', re.DOTALL)


def _format_entry(entry: ServerEntry, text: str, at: int) -> str:
    """An entry as the rest of the file is written: with its indentation and its line ends."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if "\n" not in text.strip():
        return json.dumps(entry, ensure_ascii=False)
    found = re.search(r"\n([ \t]+)\S", text)
    said = json.dumps(entry, ensure_ascii=False, indent=found.group(1) if found else "  ").replace("\n", f"\n{indent}")
    return said.replace("\n", "\r\n") if "\r\n" in text else said


def _secrets(entry: Mapping[str, object]) -> set[str]:
    return {
        value
        for key in ("env", "headers")
        if isinstance(inner := entry.get(key), dict)
        for value in inner.values()
        if isinstance(value, str) and len(value) >= _SECRET
    }


def _diff(before: str, after: str, secrets: set[str]) -> str:
    """What changes, for people to read: a screen is no place for keys."""
    for secret in sorted(secrets, key=len, reverse=True):
        said = json.dumps(secret, ensure_ascii=False)[1:-1]
        before, after = before.replace(said, "•••"), after.replace(said, "•••")
    return "\n".join(unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm=""))


# What entries were


def _file(state: Path, path: Path) -> Path:
    return state / "mcp-clients" / f"{sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def _read_originals(state: Path | None, path: Path) -> dict[str, str]:
    """What the entries of this file were before us, by what they are now; nothing where that is not to be had."""
    if state is None:
        return {}
    kept = _file(state, path)
    try:
        _KEPT.check(kept.parent, folder=True)
        _KEPT.check(kept)
        found = json.loads(kept.read_bytes()[:_MAX_FILE])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return {}
    return {now: was for now, was in found.items() if isinstance(was, str)} if isinstance(found, dict) else {}


def _write_originals(state: Path, path: Path, kept: Mapping[str, str]) -> None:
    place = _file(state, path)
    held = {**_read_originals(state, path), **kept}
    _KEPT.replace(place, json.dumps(held).encode("ascii"))
