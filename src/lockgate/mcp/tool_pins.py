"""What a server said its tools were when they were first seen, kept: a tool that changes afterwards is found out.

One file per server, which is its name and the command or address it is reached by, so that another command is another
server. The file holds what the user lets the server offer: it is read only if no other user can have written it.

1. Seen first.  A tool's name, title, description, schemas and annotations are pinned as they are. One whose name
                can be taken for that of another waits for a person from the beginning.
2. Changed.     The new form waits beside the pinned one, and calls of the tool go to a person until one accepts it,
                whatever the server lists meanwhile: one that goes back to what was pinned has changed twice.
3. Accepted.    The form listed last takes the pin's place. From then on its description counts as vetted.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import LockgateError, quoted
from lockgate.core.text.readings import LOOKALIKES
from lockgate.runtime.private_files import PrivateFileKind, locked_file, replace_file

_PINS = PrivateFileKind("a server's pinned tools", "have a changed tool pass as the one that was pinned", "agent")
_SCHEMA = "lockgate mcp pins/1"
_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
# More and longer ones than any server has: a server must not be able to fill the disk.
MAX_TOOLS = 2_000
MAX_TOOL = 1 << 18
_MAX_FILE = 1 << 26
_LONG_NAME = 32
# Forms of one tool that are kept to be shown: the last of them is the one that can be accepted.
_MAX_FORMS = 4


class McpTool(NamedTuple):
    """A tool as its server describes it, cut to what decides what it is."""

    name: str
    fields: Mapping[str, object]
    digest: str


def tool_from(said: object) -> McpTool | None:
    """A tool out of a server's list; None for what is none."""
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(name, str) or not name:
        return None
    fields = {field: said[field] for field in _FIELDS if said.get(field) is not None}
    return McpTool(name, fields, sha256(_text(fields).encode("ascii")).hexdigest())


def appearance_of(name: str) -> str:
    """A name as it looks and as lenient servers read it: without case, marks, breaks, and what does not show."""
    parts = (LOOKALIKES.get(ch, ch) for ch in unicodedata.normalize("NFKD", name[:_MAX_NAME]))
    return "".join(ch for part in parts for ch in part.casefold() if ch.isalnum())


_MAX_NAME = 1_000


def _text(fields: object) -> str:
    return json.dumps(fields, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


class ToolPin(NamedTuple):
    """What was pinned of a tool, and whether a person has looked at it; `waiting`: what it was listed as since."""

    tool: McpTool
    accepted: bool = False
    waiting: tuple[McpTool, ...] = ()

    @property
    def latest(self) -> McpTool:
        """What a person can accept."""
        return self.waiting[-1] if self.waiting else self.tool


class SeenTool(NamedTuple):
    """A tool just listed, and how it stands: pinned like this, or changed; and whether a person has accepted it."""

    tool: McpTool
    changed: bool
    accepted: bool


def server_file(folder: Path, name: str, reached_by: Sequence[str]) -> Path:
    """Where a server's pins are. Of the command only a hash is kept: there may be secrets in it."""
    return folder / f"{sha256(_text([name, *reached_by]).encode('ascii')).hexdigest()[:32]}.json"


class ToolPins:
    """The pins of one server, in a file; several processes may use it at once. Without a file, for this run only."""

    def __init__(self, path: Path | None, server: str) -> None:
        self._path = path
        self._server = server
        self._held: dict[str, ToolPin] = {}
        # What was listed in this run, last; and how the names look that a person has to look at first.
        self._listed: dict[str, McpTool] = {}
        self._unaccepted: set[str] = set()
        self._unreadable = ""
        self._read()
        self._find_unaccepted()

    @property
    def unreadable(self) -> str:
        """Why there is nothing to compare with, where there should be."""
        return self._unreadable

    def record_listing(self, listed: Sequence[object]) -> list[SeenTool]:
        """Take a list of tools in: pin those that are new, note those that have changed."""
        tools = [tool for tool in map(tool_from, listed) if tool is not None]
        with self._lock_file():
            self._read()
            before = dict(self._held)
            looks = {appearance_of(name) for name in self._held}
            for tool in tools:
                self._pin(tool, looks)
            if self._held != before and not self._unreadable:
                self._write()
            self._find_unaccepted()
        return [SeenTool(tool, self._needs_review(tool), self._is_accepted(tool)) for tool in tools]

    def _pin(self, tool: McpTool, looks: set[str]) -> None:
        self._listed[tool.name] = tool
        if len(_text(tool.fields)) > MAX_TOOL:
            # Its place is kept, so that it does not pass for a new one once it is shorter.
            said = {"name": tool.name[:_MAX_NAME], "description": f"too long to be kept: {tool.digest}"}
            tool = tool_from(said) or tool
        pin = self._held.get(tool.name)
        if pin is not None:
            if pin.latest.digest != tool.digest:
                self._held[tool.name] = pin._replace(waiting=(*pin.waiting, tool)[-_MAX_FORMS:])
        elif not self._unreadable and len(self._held) < MAX_TOOLS:
            look = appearance_of(tool.name)
            # One that can be taken for another, or whose name does not show whole.
            doubtful = look in looks or not tool.name.isprintable()
            self._held[tool.name] = ToolPin(tool, waiting=(tool,) if doubtful else ())
            looks.add(look)

    def _find_unaccepted(self) -> None:
        self._unaccepted.update(appearance_of(pin.tool.name) for pin in self._held.values() if pin.waiting)
        self._unaccepted.update(appearance_of(name) for name, tool in self._listed.items() if self._needs_review(tool))

    def _needs_review(self, tool: McpTool) -> bool:
        pin = self._held.get(tool.name)
        return pin is None or bool(pin.waiting) or pin.tool.digest != tool.digest

    def _is_accepted(self, tool: McpTool) -> bool:
        pin = self._held.get(tool.name)
        return pin is not None and pin.accepted and pin.tool.digest == tool.digest

    def has_changed(self, name: str) -> bool:
        """Return whether this tool, or one it could be taken for, differs from its pin, not accepted by a person."""
        if not self._unaccepted:
            return False
        look = appearance_of(name)
        if look not in self._unaccepted:
            return False
        # A person may have accepted it meanwhile.
        self._read()
        self._unaccepted.clear()
        self._find_unaccepted()
        return look in self._unaccepted

    def waiting(self) -> list[ToolPin]:
        """The tools whose new form waits for a person."""
        return [pin for pin in self._held.values() if pin.waiting]

    def list_pins(self) -> list[ToolPin]:
        return list(self._held.values())

    def accept(self, digests: Mapping[str, str]) -> list[str]:
        """Pin these tools, by name, in the form that was shown; returns those that it counted for."""
        with self._lock_file():
            self._read()
            done: list[str] = []
            for name, digest in digests.items():
                pin = self._held.get(name)
                if pin is not None and pin.latest.digest == digest:
                    self._held[name] = ToolPin(pin.latest, accepted=True)
                    done.append(name)
            self._write()
        return done

    def withdraw(self) -> None:
        """Take back that a person has accepted these tools: they stay pinned, and their descriptions are untrusted."""
        with self._lock_file():
            self._read()
            if not self._unreadable:
                self._held = {name: pin._replace(accepted=False) for name, pin in self._held.items()}
                self._write()

    def forget(self) -> None:
        """Begin anew: what is listed next is pinned as it is then."""
        with self._lock_file():
            if self._path is not None:
                self._path.unlink(missing_ok=True)
            self._held, self._unreadable = {}, ""

    def _read(self) -> None:
        if self._path is None:
            return
        self._held, self._unreadable = {}, ""
        try:
            if not os.path.lexists(self._path):
                return
            _PINS.check(self._path.parent, folder=True)
            _PINS.check(self._path)
            with self._path.open("rb") as file:
                self._held = _parse_pins(file.read(_MAX_FILE))
        except LockgateError as error:
            self._unreadable = error.message
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            said = getattr(error, "strerror", None) or "it is not what was written there"
            self._unreadable = f"{quoted(self._path, 200)} cannot be read: {said.lower()}"

    def _write(self) -> None:
        if self._path is None:
            return
        tools = {
            name: {
                "digest": pin.tool.digest,
                "tool": pin.tool.fields,
                "accepted": pin.accepted,
                "waiting": [tool.fields for tool in pin.waiting],
            }
            for name, pin in self._held.items()
        }
        text = json.dumps({"schema": _SCHEMA, "server": self._server, "tools": tools}, ensure_ascii=True)
        replace_file(self._path, text.encode("ascii"))

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        """One process at a time: two that begin together must not each write what the other has not seen."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _PINS.check(self._path.parent, folder=True)
        with locked_file(self._path.with_suffix(".lock")):
            yield


def _parse_pins(data: bytes) -> dict[str, ToolPin]:
    """What was written, whole and unchanged, or an error."""
    kept = json.loads(data)
    if kept["schema"] != _SCHEMA:
        raise ValueError("another kind of file")
    pins: dict[str, ToolPin] = {}
    for name, each in kept["tools"].items():
        tool, waiting = tool_from(each["tool"]), list(each["waiting"])
        if tool is None or tool.name != name or tool.digest != each["digest"]:
            raise ValueError("a pin that does not fit its tool")
        forms = tuple(form for form in map(tool_from, waiting) if form is not None)
        if len(forms) != len(waiting):
            raise ValueError("what waits is no tool")
        pins[name] = ToolPin(tool, each["accepted"] is True, forms)
    return pins


def pinned_servers(folder: Path) -> list[tuple[Path, str]]:
    """The servers that something is pinned of: each file, and the server's name in it, empty if it cannot be read."""
    found = []
    for path in sorted(folder.glob("*.json")):
        name = ""
        with suppress(OSError, ValueError, KeyError, TypeError):
            name = str(json.loads(path.read_bytes()[:_MAX_FILE])["server"])
        found.append((path, name))
    return found


def description_text(tool: McpTool) -> str:
    """Return what a tool's description says to a model: titles and descriptions, also those inside its schemas."""
    return "\n".join(text for field, text in _strings(tool.fields) if field in ("title", "description"))


def schema_text(tools: Sequence[McpTool]) -> str:
    """What else stands in tools' schemas: defaults, examples, choices. No prose, so no sentence of it gives orders."""
    said = (each for tool in tools for each in _strings(tool.fields))
    # What only says how a schema is built, as far as it does.
    built = ("name", "type", "format", "$schema", "$ref", "required")
    return "\n".join(
        dict.fromkeys(
            text
            for field, text in said
            if field not in ("title", "description") and not (field in built and _BUILT.fullmatch(text))
        )
    )


_BUILT = re.compile(r"[\w-]{1,64}|#[\w/$-]{0,200}|https?://json-schema\.org/[\w/-]{1,60}#?")


def unpinned_fields(said: object) -> object:
    """What is in a tool besides what is pinned, and everything that is no tool: text like any other."""
    if tool_from(said) is None or not isinstance(said, dict):
        return said
    return {field: value for field, value in said.items() if field not in _FIELDS}


def _strings(fields: object) -> Iterator[tuple[str, str]]:
    pending: list[tuple[str, object]] = [("", fields)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, dict):
            # A property may be called `description`: what it holds is a schema, and is looked at as one.
            pending += [(key, each) for key, each in reversed(value.items())]
            # The name of a property can hold a sentence as well.
            pending += [("", key) for key in value if len(key) > _LONG_NAME or " " in key]
        elif isinstance(value, list):
            pending += [(name, each) for each in reversed(value)]


def server_name(name: str, reached_by: Sequence[str]) -> str:
    """What a server is called in the names of its tools: as its user calls it, or after its command or host.

    `mcp__SERVER__TOOL` is read up to the second pair of underscores, so a server's own name has none.
    """
    if not name:
        words = [word for word in reached_by if not word.startswith("-")]
        first = words[0] if words else ""
        if "://" in first:
            name = first.partition("://")[2].partition("/")[0]
        else:
            # `npx -y @scope/server-x` and `python -m x` are called after x.
            runner = first.rpartition("/")[2].lower() in _RUNNERS and len(words) > 1
            name = (words[1] if runner else first).rstrip("/").rpartition("/")[2]
    plain = re.sub("_{2,}", "_", re.sub(r"[^A-Za-z0-9_.-]", "_", name)).strip("_.-")
    return plain[:60] or "server"


_RUNNERS = frozenset("npx npm bunx pnpm yarn node deno bun uvx uv pipx python python3 docker podman sh bash".split())
