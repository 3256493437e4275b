"""Recorded sessions with labels, to measure a gate on: our own trace format, or the header-indexed `lockgate-trace/1`.

A header-indexed file has all blocks in its first line, and then one session per line, whose events number the blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lockgate.core.errors import InvalidTrace, quoted, suggest_closest
from lockgate.core.vocabulary import Trust
from lockgate.sessions.trace_format import (
    LABELS,
    SESSION_NAMES,
    BlockEvent,
    CallEvent,
    SessionStart,
    TraceHeader,
    TraceLineParser,
    parse_line,
)

HEADER_INDEXED = "lockgate-trace/1"
# First or last word of the names of tools that only look; an attack's first half may be "look it up".
_LOOKING = frozenset("get list read search find view show lookup".split())
_TRUSTS = {trust.word: trust for trust in Trust}


@dataclass(frozen=True, slots=True)
class LabelledSession:
    """One recorded session, in the order in which it happened."""

    start: SessionStart
    events: tuple[BlockEvent | CallEvent, ...]

    @property
    def blocks(self) -> list[BlockEvent]:
        return [event for event in self.events if isinstance(event, BlockEvent)]

    @property
    def calls(self) -> list[CallEvent]:
        return [event for event in self.events if isinstance(event, CallEvent)]

    @property
    def attack_calls(self) -> list[CallEvent]:
        return [call for call in self.calls if call.label == "attack"]

    @property
    def is_attacked(self) -> bool:
        """Whether injected text was put into it, whatever the agent then did."""
        if self.start.attack:
            return self.start.attack != "none"
        return bool(self.attack_calls) or any(block.poisoned for block in self.blocks)


def has_effect(call: CallEvent) -> bool:
    """Return whether a call does something: what the trace says, else the tool's name; the gate is not asked."""
    if call.effect is not None:
        return call.effect
    bare = call.tool.rpartition("__")[2]
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", bare).lower())
    return not words or (words[0] not in _LOOKING and words[-1] not in _LOOKING)


def sessions_from_lines(lines: Iterable[str], part: str) -> list[LabelledSession]:
    """Return the sessions of a trace in either format; raise InvalidTrace. `part` names those that have no part."""
    rest = iter(lines)
    first = next(rest, "")
    if '"format"' in first[:200]:
        found = list(_read_header_indexed(first, rest))
    else:
        found = _read_own_format(chain([first], rest))
    if not any(session.calls for session in found):
        raise InvalidTrace("no call in this trace", hint="`lockgate help trace` describes the format")
    return [_fill_names(session, number, part) for number, session in enumerate(found, 1)]


def _fill_names(session: LabelledSession, number: int, part: str) -> LabelledSession:
    """Give a session the names that the trace left out, so that each can be grouped by."""
    start = session.start
    named = start.part or part
    attack = start.attack or ("unnamed" if session.is_attacked else "none")
    family = "twin" if start.pair and not session.is_attacked else attack
    start = replace(
        start,
        id=start.id or f"session {number}",
        part=named,
        dataset=start.dataset or named,
        suite=start.suite or named,
        family=start.family or family,
        attack=attack,
    )
    return replace(session, start=start)


# --- our own format


def _read_own_format(lines: Iterable[str]) -> list[LabelledSession]:
    found: list[tuple[SessionStart, list[BlockEvent | CallEvent]]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        event = parse_line(line, number)
        if isinstance(event, SessionStart):
            found.append((event, []))
        elif not isinstance(event, TraceHeader):
            if not found:
                found.append((SessionStart(), []))
            found[-1][1].append(event)
    sessions = [LabelledSession(start, tuple(events)) for start, events in found]
    twins = {each.start.pair: each for each in sessions if each.start.pair and not each.is_attacked}
    return [_mark_poisoned(each, twins[each.start.pair]) if each.start.pair in twins else each for each in sessions]


def _mark_poisoned(session: LabelledSession, twin: LabelledSession) -> LabelledSession:
    """Mark the blocks of an attacked session that its clean twin does not have in the same words under the same id."""
    if not session.is_attacked or any(block.poisoned for block in session.blocks):
        return session
    clean = {block.id: block.content for block in twin.blocks}
    events = tuple(
        replace(event, poisoned=clean.get(event.id) != event.content) if isinstance(event, BlockEvent) else event
        for event in session.events
    )
    return replace(session, events=events)


# --- the header-indexed format


def _read_header_indexed(first: str, lines: Iterable[str]) -> Iterator[LabelledSession]:
    head = _read_object(first, 1)
    if head.get("format") != HEADER_INDEXED:
        raise InvalidTrace(
            f"line 1: unknown format {quoted(head.get('format'))}",
            hint=f"eval reads `{HEADER_INDEXED}` and the format of `lockgate help trace`",
        )
    listed = head.get("blocks")
    if not isinstance(listed, list):
        raise InvalidTrace("line 1: `blocks` must be a list")
    blocks = [_block_from_entry(entry, at) for at, entry in enumerate(listed)]
    part = head.get("part")
    for number, line in enumerate(lines, 2):
        if line.strip():
            body = {"part": part, **_read_object(line, number)}
            yield _session_from_object(body, number, blocks)


def _read_object(line: str, number: int) -> dict[str, object]:
    value = TraceLineParser(number).read_json(line)
    if not isinstance(value, dict):
        raise InvalidTrace(f"line {number}: not an object")
    return value


def _block_from_entry(entry: object, at: int) -> BlockEvent:
    match entry:
        case [str(trust), str(source), str(content), int(poisoned)] if trust in _TRUSTS:
            return BlockEvent(content, source, _TRUSTS[trust], poisoned=bool(poisoned))
    raise InvalidTrace(f"line 1: block {at} is not [trust, source, content, poisoned]")


def _session_from_object(body: dict[str, object], number: int, blocks: Sequence[BlockEvent]) -> LabelledSession:
    listed, goal = body.get("events"), body.get("goal")
    if not isinstance(listed, list) or not isinstance(goal, str):
        raise InvalidTrace(f"line {number}: a session needs `goal` and `events`")
    events = tuple(_event_from_object(event, number, blocks) for event in listed)
    names = {key: value for key in SESSION_NAMES if isinstance(value := body.get(key), str)}
    if body.get("user_task") is not None:
        names["task"] = "/".join(str(body.get(key)) for key in ("dataset", "suite", "user_task"))
    return LabelledSession(SessionStart(goal, mode=None, scope="", **names), events)


def _event_from_object(event: object, number: int, blocks: Sequence[BlockEvent]) -> BlockEvent | CallEvent:
    match event:
        case {"b": int(at)} if 0 <= at < len(blocks):
            return blocks[at]
        case {"call": {"tool": str(tool), "args": dict(arguments), "label": str(label), **rest}}:
            if label not in LABELS:
                hint = suggest_closest(label, LABELS) or f"use {', '.join(LABELS)}"
                raise InvalidTrace(f"line {number}: unknown label {quoted(label)}", hint=hint)
            risk = rest.get("risk")
            return CallEvent(tool, arguments, None, LABELS[label], None if risk is None else risk != "read")
    raise InvalidTrace(f"line {number}: neither a block of the header nor a call: {quoted(event)}")
