"""Replay labelled sessions through gates, in several processes, and keep what the report needs."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread

from lockgate.cli.eval.gates import GateChoice, GateUnderTest, Ruled, build_gate, replay_session
from lockgate.core.errors import InvalidTrace, LockgateError, printable, quoted
from lockgate.core.sessions.detection_counts import DetectionCounts, count_session
from lockgate.core.sessions.labelled_sessions import LabelledSession
from lockgate.core.sessions.trace_format import CallEvent

# So few sessions are done before other processes are ready.
_FEW_SESSIONS = 50
TIER_1, JUDGED = "tier 1", "judged"


@dataclass(slots=True)
class CallCase:
    """A call that the gate got wrong, and in how many sessions the very same was seen."""

    session: LabelledSession
    number: int
    call: CallEvent
    ruled: Ruled
    times: int = 1


@dataclass(slots=True)
class Measurement:
    """What came out for one gate: counts by stage and group, and the calls it got wrong at its last stage."""

    choice: GateChoice
    counts: dict[str, dict[str, DetectionCounts]] = field(default_factory=dict)
    disturbed: dict[object, CallCase] = field(default_factory=dict)
    missed: dict[object, CallCase] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        return (TIER_1, JUDGED) if self.choice.judge else (TIER_1,)

    def total(self, stage: str) -> DetectionCounts:
        return sum(self.counts.get(stage, {}).values(), DetectionCounts())

    def add(self, session: LabelledSession, group: str, ruled: Sequence[Ruled]) -> None:
        """Count one session."""
        for stage in self.stages:
            groups = self.counts.setdefault(stage, {})
            counted = count_session(session, [_is_flagged(each, stage) for each in ruled])
            groups[group] = groups.get(group, DetectionCounts()) + counted
        for number, (call, each) in enumerate(zip(session.calls, ruled, strict=True), 1):
            flagged = _is_flagged(each, self.stages[-1])
            if call.label == "ordinary" and flagged:
                _add_case(self.disturbed, CallCase(session, number, call, each))
                for rule in each.rules:
                    self.rules[rule] = self.rules.get(rule, 0) + 1
            elif call.label == "attack" and not flagged:
                _add_case(self.missed, CallCase(session, number, call, each))


def _is_flagged(ruled: Ruled, stage: str) -> bool:
    return ruled.escalated if stage == TIER_1 else ruled.stopped


def _add_case(cases: dict[object, CallCase], case: CallCase) -> None:
    key = (case.session.start.part, case.call.tool, repr(case.call.arguments), case.ruled)
    if key in cases:
        cases[key].times += 1
    else:
        cases[key] = case


# --- processes


def replay_sessions(
    sessions: Sequence[LabelledSession], choices: Sequence[GateChoice], jobs: int
) -> Iterator[list[list[Ruled]]]:
    """Yield the rulings of each gate on each session, in order."""
    if jobs == 1 or len(sessions) <= _FEW_SESSIONS:
        gates = [build_gate(choice) for choice in choices]
        for session in sessions:
            yield _replay(session, gates)
        return
    # Not forked: a lock or a thread of this process must not be copied half-way.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(choices,)) as pool:
        try:
            with _without_interrupts():
                rulings = pool.map(_replay_in_worker, sessions, chunksize=4)
            yield from rulings
        except BrokenProcessPool:
            raise LockgateError("a process of the measurement was killed", hint="try --jobs 1") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: in the middle of starting its processes the pool would wait for them for ever."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker_gates: list[GateUnderTest] = []


def _start_worker(choices: Sequence[GateChoice]) -> None:
    # Ctrl-C reaches all processes of a terminal; the parent prints what was counted so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _worker_gates.extend(build_gate(choice) for choice in choices)


def _end_with_parent() -> None:
    """End this process when the parent is gone: a killed parent cannot tell its workers to stop."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _replay_in_worker(session: LabelledSession) -> list[list[Ruled]]:
    return _replay(session, _worker_gates)


def _replay(session: LabelledSession, gates: Sequence[GateUnderTest]) -> list[list[Ruled]]:
    try:
        return [replay_session(session, gate) for gate in gates]
    except LockgateError as error:
        start = session.start
        raise InvalidTrace(f"{printable(start.part)}, {quoted(start.id)}: {error.message}", hint=error.hint) from None
