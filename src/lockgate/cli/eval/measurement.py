"""Replay labelled sessions through gates, in several processes, and keep what the report needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from lockgate.bulk.engines import LOCAL, run_pieces
from lockgate.cli.eval.gates import GateChoice, GateUnderTest, Ruled, build_gate, replay_session
from lockgate.core.errors import InvalidTrace, LockgateError, printable, quoted
from lockgate.sessions.detection_counts import DetectionCounts, count_session
from lockgate.sessions.labelled_sessions import LabelledSession
from lockgate.sessions.trace_format import CallEvent

# So few sessions are done before other processes are ready.
_FEW_SESSIONS = 50
_IN_PIECE = 4
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
    sessions: Sequence[LabelledSession], choices: Sequence[GateChoice], jobs: int | None, engine: str = LOCAL
) -> Iterator[list[list[Ruled]]]:
    """Yield the rulings of each gate on each session, in order."""
    if engine == LOCAL and len(sessions) <= _FEW_SESSIONS:
        jobs = 1
    pieces = [sessions[at : at + _IN_PIECE] for at in range(0, len(sessions), _IN_PIECE)]
    early: dict[int, list[list[list[Ruled]]]] = {}
    following = 0
    for number, rulings in run_pieces(pieces, partial(_make_work, tuple(choices)), engine=engine, jobs=jobs):
        early[number] = rulings
        while following in early:
            yield from early.pop(following)
            following += 1


def _make_work(choices: Sequence[GateChoice]) -> Callable[[Sequence[LabelledSession]], list[list[list[Ruled]]]]:
    gates = [build_gate(choice) for choice in choices]
    return lambda sessions: [_replay(session, gates) for session in sessions]


def _replay(session: LabelledSession, gates: Sequence[GateUnderTest]) -> list[list[Ruled]]:
    try:
        return [replay_session(session, gate) for gate in gates]
    except LockgateError as error:
        start = session.start
        raise InvalidTrace(f"{printable(start.part)}, {quoted(start.id)}: {error.message}", hint=error.hint) from None
