"""Rule on the calls of traces, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from lockgate.core.errors import InvalidTrace, LockgateError
from lockgate.core.vocabulary import Decision
from lockgate.gate.gate import Gate
from lockgate.gate.ruler import Ruler
from lockgate.gate.session import Session
from lockgate.sessions.trace_format import (
    MAX_LINE_BYTES,
    BlockEvent,
    CallEvent,
    Event,
    SessionStart,
    TraceHeader,
    decode_line,
    parse_line,
)


@dataclass(frozen=True, slots=True)
class EventRuling:
    """One call with the decision of each gate; sessions are numbered in their trace, calls in their session."""

    line: int
    session: int
    call: int
    goal: str
    event: CallEvent
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class UnruledRest:
    """A fault in a session: from this line to the next session, no call was ruled on."""

    line: int
    session: int
    error: InvalidTrace


def parse_lines(lines: Iterable[bytes], before: int = 0) -> Iterator[tuple[int, Event | InvalidTrace]]:
    """Yield the events of a trace with their line numbers; for a line that cannot be read, the error that says why."""
    number = before
    try:
        for number, data in enumerate(lines, before + 1):
            try:
                if len(data.rstrip(b"\r\n")) > MAX_LINE_BYTES:
                    raise InvalidTrace(f"line {number}: longer than {MAX_LINE_BYTES:,} bytes", hint="is this a trace?")
                text = decode_line(data, number)
                if text.strip():
                    yield number, parse_line(text, number)
            except InvalidTrace as error:
                yield number, error
    except InvalidTrace as error:
        # The file itself is damaged here: a packed one that ends too early.
        yield number + 1, error


def lines_in(stream: BinaryIO, end: int | None = None) -> Iterator[bytes]:
    """Yield lines up to the offset; one that is too long is cut, for the reader to refuse it."""
    return (data for begins, data in line_parts(stream, end) if begins)


def line_parts(stream: BinaryIO, end: int | None) -> Iterator[tuple[bool, bytes]]:
    """Yield lines up to the offset, those that are too long in parts, and with each whether a line begins there."""
    begins = True
    while (end is None or stream.tell() < end) and (data := stream.readline(MAX_LINE_BYTES + 2)):
        yield begins, data
        begins = data.endswith(b"\n")


def rule_on_events(
    gates: Sequence[Gate], events: Iterable[tuple[int, Event | InvalidTrace]], *, sessions: int = 0
) -> Iterator[EventRuling | UnruledRest]:
    """Yield a ruling for each call, as soon as its line was read; `sessions` came before these events.

    After an event that cannot be read, or that no session takes, it goes on with the next session.
    """
    running: list[Session] = []
    lost = False
    call = 0
    goal = ""
    for number, event in events:
        try:
            if isinstance(event, InvalidTrace):
                raise event
            if isinstance(event, SessionStart) or not (running or lost or isinstance(event, TraceHeader)):
                start = event if isinstance(event, SessionStart) else SessionStart()
                sessions, call, goal, lost = sessions + 1, 0, start.goal, False
                running = _begin_sessions(gates, start)
            if isinstance(event, BlockEvent):
                for session in running:
                    add_block(session, event)
            if running and isinstance(event, CallEvent):
                call += 1
                decisions = [
                    session.check(event.tool, event.arguments, annotations=event.annotations) for session in running
                ]
                yield EventRuling(number, sessions, call, goal, event, tuple(decisions))
        except LockgateError as error:
            if not lost:
                yield UnruledRest(number, sessions, _named_by_line(error, number))
            running, lost = [], True


def _begin_sessions(gates: Sequence[Gate], start: SessionStart) -> list[Session]:
    return [gate.session(goal=start.goal, mode=start.mode, scope=start.scope) for gate in gates]


def _named_by_line(error: LockgateError, number: int) -> InvalidTrace:
    if isinstance(error, InvalidTrace):
        return error
    return InvalidTrace(f"line {number}: {error.message}", hint=error.hint)


def add_block(session: Session | Ruler, event: BlockEvent) -> None:
    """Add a block of a trace to a session."""
    session.add(
        event.content,
        source=event.source,
        trust=event.trust,
        kind=event.kind,
        mutable=event.mutable,
        tainted_by=event.tainted_by,
        id=event.id,
    )
