"""Recorded sessions from traces: our own format (`bench/corpus`), or the header-indexed `lockgate-trace/1`."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from pathlib import Path

from lockgate.core.errors import InvalidTrace, quoted
from lockgate.core.sessions.trace_format import BlockEvent, CallEvent, SessionStart, TraceHeader, parse_line

HEADER_INDEXED = "lockgate-trace/1"


@dataclass(frozen=True, slots=True)
class Block:
    content: str
    source: str
    trust: str = "untrusted"
    id: str = ""
    poisoned: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: Mapping[str, object]
    label: str = ""
    effect: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded session; `task` finds the clean session of the same task, `pair` the clean twin."""

    id: str
    goal: str
    events: tuple[Block | Call, ...]
    pair: str = ""
    task: tuple[str, ...] = ()
    # Whether injected text was put into it, whatever the agent then did.
    attacked: bool = False

    def blocks(self) -> list[Block]:
        return [event for event in self.events if isinstance(event, Block)]

    def attack_calls(self) -> list[Call]:
        return [event for event in self.events if isinstance(event, Call) and event.label == "attack"]


# First or last word of the names of tools that only look; an attack's first half may be "look it up".
_LOOKS = frozenset("get list read search find view show lookup".split())


def has_effect(tool: str) -> bool:
    """Whether a call of this tool does something, for traces that do not say; independent of the gate's own opinion."""
    bare = tool.rpartition("__")[2]
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", bare).lower())
    return not words or (words[0] not in _LOOKS and words[-1] not in _LOOKS)


def load(path: Path) -> list[Run]:
    """The sessions of a trace file; InvalidTrace names what is wrong with it."""
    try:
        with _open(path) as lines:
            first = next(lines, "")
            if '"format"' in first[:200]:
                return _header_indexed(first, lines)
            return _own(_chained(first, lines))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidTrace(f"{quoted(str(path))} cannot be read: {error}") from None


@contextmanager
def _open(path: Path) -> Iterator[Iterator[str]]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with gzip.open(raw, "rt", encoding="utf-8") if packed else TextIOWrapper(raw, encoding="utf-8") as lines:
            yield iter(lines)


def _chained(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


@dataclass(slots=True)
class _Draft:
    goal: str
    id: str
    pair: str
    events: list[Block | Call] = field(default_factory=list)


def _own(lines: Iterable[str]) -> list[Run]:
    drafts: list[_Draft] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        event, names = _own_line(line, number)
        if isinstance(event, TraceHeader):
            continue
        if isinstance(event, SessionStart):
            drafts.append(_Draft(event.goal, names.get("id", f"session {len(drafts) + 1}"), names.get("pair", "")))
            continue
        if not drafts:
            drafts.append(_Draft("", "session 1", ""))
        if isinstance(event, BlockEvent):
            trust = event.trust.word if event.trust is not None else "untrusted"
            drafts[-1].events.append(Block(event.content, event.source, trust, event.id or ""))
        elif isinstance(event, CallEvent):
            drafts[-1].events.append(Call(event.tool, event.arguments, event.label, has_effect(event.tool)))
    runs = [Run(d.id, d.goal, tuple(d.events), d.pair) for d in drafts]
    if not any(run.events for run in runs):
        raise InvalidTrace("the trace holds no blocks and no calls", hint="see docs/reference/trace.md")
    runs = [replace(run, attacked=bool(run.attack_calls())) for run in runs]
    twins = {run.pair: run for run in runs if run.pair and not run.attacked}
    return [_marked(run, twins[run.pair]) if run.attacked and run.pair in twins else run for run in runs]


def _own_line(line: str, number: int) -> tuple[object, dict[str, str]]:
    """An event as `lockgate check` reads it; the names of a session (`id`, `pair`) are the bench's own."""
    names: dict[str, str] = {}
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and isinstance(value.get("session"), dict):
        body = value["session"]
        names = {key: str(body.pop(key)) for key in ("id", "pair") if key in body}
        line = json.dumps(value)
    return parse_line(line, number), names


def _marked(run: Run, twin: Run) -> Run:
    """The attacked session with its poisoned blocks marked: those that the clean twin has otherwise or not at all."""
    clean = {block.id: block.content for block in twin.blocks()}
    events = tuple(
        replace(event, poisoned=clean.get(event.id) != event.content) if isinstance(event, Block) else event
        for event in run.events
    )
    return replace(run, events=events)


def _header_indexed(first: str, lines: Iterable[str]) -> list[Run]:
    head = _object(first, 1)
    if head.get("format") != HEADER_INDEXED:
        raise InvalidTrace(f"line 1: unknown format {quoted(str(head.get('format')))}", hint=f"use `{HEADER_INDEXED}`")
    listed = head.get("blocks")
    if not isinstance(listed, list):
        raise InvalidTrace("line 1: `blocks` must be a list")
    blocks = [_indexed_block(entry, at) for at, entry in enumerate(listed)]
    return [_indexed_run(_object(line, number), number, blocks) for number, line in enumerate(lines, 2) if line.strip()]


def _object(line: str, number: int) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidTrace(f"line {number}: not JSON: {error}"[:200]) from None
    if not isinstance(value, dict):
        raise InvalidTrace(f"line {number}: not an object")
    return value


def _indexed_block(entry: object, at: int) -> Block:
    match entry:
        case [str(trust), str(source), str(content), int(poisoned)]:
            return Block(content, source, trust, str(at), bool(poisoned))
    raise InvalidTrace(f"line 1: block {at} is not [trust, source, content, poisoned]")


def _indexed_run(body: dict[str, object], number: int, blocks: Sequence[Block]) -> Run:
    events: list[Block | Call] = []
    listed, goal = body.get("events"), body.get("goal")
    if not isinstance(listed, list) or not isinstance(goal, str):
        raise InvalidTrace(f"line {number}: a session needs `goal` and `events`")
    for event in listed:
        match event:
            case {"b": int(at)} if 0 <= at < len(blocks):
                events.append(blocks[at])
            case {"call": {"tool": str(tool), "args": dict(arguments), "label": str(label), "risk": str(risk)}}:
                label = {"benign": "ordinary", "unknown": ""}.get(label, label)
                events.append(Call(tool, arguments, label, risk != "read"))
            case _:
                raise InvalidTrace(f"line {number}: neither a block of the header nor a call: {str(event)[:80]}")
    task = tuple(str(body.get(key)) for key in ("dataset", "suite", "user_task"))
    attacked = body.get("attack") != "none"
    return Run(str(body.get("id")), goal, tuple(events), "", task, attacked)
