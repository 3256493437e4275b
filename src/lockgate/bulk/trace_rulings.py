"""Rule on the calls of traces, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lockgate.core.errors import InvalidTrace, LockgateError
from lockgate.core.sessions.trace_format import BlockEvent, CallEvent, Event, SessionStart, parse_line
from lockgate.core.vocabulary import Decision
from lockgate.gate.gate import Gate
from lockgate.gate.ruler import Ruler
from lockgate.gate.session import Session


@dataclass(frozen=True, slots=True)
class EventRuling:
    """One call with the decision on it; sessions are numbered in their trace, calls in their session."""

    line: int
    session: int
    call: int
    goal: str
    event: CallEvent
    decision: Decision


def parse_trace(trace: str) -> Iterator[tuple[int, Event]]:
    """Yield the events of a trace given as one text, with their line numbers."""
    # Not `splitlines`: it also splits at characters that JSON texts may hold as they are.
    for number, line in enumerate(trace.split("\n"), 1):
        if line.strip():
            yield number, parse_line(line, number)


def rule_on_events(gate: Gate, events: Iterable[tuple[int, Event]], *, sessions: int = 0) -> Iterator[EventRuling]:
    """Yield a ruling for each call, as soon as its line was read; `sessions` came before these events.

    Raise InvalidTrace, which names the line, for an event that no session takes.
    """
    session: Session | None = None
    call = 0
    goal = ""
    for number, event in events:
        try:
            if isinstance(event, SessionStart) or (session is None and isinstance(event, BlockEvent | CallEvent)):
                start = event if isinstance(event, SessionStart) else SessionStart()
                session = gate.session(goal=start.goal, mode=start.mode, scope=start.scope)
                sessions, call, goal = sessions + 1, 0, start.goal
            if session is not None and isinstance(event, BlockEvent):
                add_block(session, event)
            if session is not None and isinstance(event, CallEvent):
                call += 1
                decision = session.check(event.tool, event.arguments, annotations=event.annotations)
                yield EventRuling(number, sessions, call, goal, event, decision)
        except LockgateError as error:
            raise InvalidTrace(f"line {number}: {error.message}", hint=error.hint) from None


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
