"""Replay traces through a gate: one ruling per call, as soon as its line was read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from errno import EISDIR
from itertools import chain
from typing import TextIO

from lockgate.bulk.trace_rulings import UnruledRest, lines_in, parse_lines, rule_on_events
from lockgate.core.errors import InvalidTrace, LockgateError
from lockgate.core.vocabulary import Decision
from lockgate.gate.gate import Gate
from lockgate.sessions.trace_format import CallEvent, Event

STDIN = "-"


@dataclass(frozen=True, slots=True)
class TraceRuling:
    """One call of a trace with the decision on it; sessions are numbered over all traces, calls in their session."""

    trace: str
    line: int
    session: int
    call: int
    goal: str
    event: CallEvent
    decision: Decision


def trace_sources(named: Sequence[str], stdin: TextIO) -> tuple[str, ...]:
    """Return the traces to read: those named, or standard input if it is not a terminal."""
    for name in named:
        # Checked before the rules are loaded and before earlier traces are ruled on.
        if name != STDIN and os.path.isdir(name):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), name)
        if name != STDIN:
            os.stat(name)
    if named:
        return tuple(named)
    if stdin.isatty():
        raise LockgateError("no trace given", hint="lockgate check FILE, or send one to standard input")
    return (STDIN,)


def replay_traces(gate: Gate, traces: Sequence[str]) -> Iterator[TraceRuling]:
    """Rule on every call of every trace, in order; a line that cannot be read ends it, after all rulings before it."""
    sessions = 0
    for trace in traces:
        name = "standard input" if trace == STDIN else trace
        calls = 0
        try:
            events = _read_events(trace)
            first = next(events, None)
            for ruling in rule_on_events([gate], chain((first,) if first else (), events), sessions=sessions):
                if isinstance(ruling, UnruledRest):
                    raise ruling.error
                calls += 1
                sessions = ruling.session
                yield TraceRuling(
                    name, ruling.line, ruling.session, ruling.call, ruling.goal, ruling.event, ruling.decisions[0]
                )
        except InvalidTrace as error:
            raise InvalidTrace(f"{name}: {error.message}", hint=error.hint) from None
        if calls == 0:
            # A check that checked nothing must not look like a pass.
            why = "no call in this trace" if first else "the trace is empty"
            raise InvalidTrace(f"{name}: {why}", hint="lockgate check --help shows a trace")


def _read_events(trace: str) -> Iterator[tuple[int, Event | InvalidTrace]]:
    with nullcontext(sys.stdin.buffer) if trace == STDIN else open(trace, "rb") as stream:
        yield from parse_lines(lines_in(stream))
