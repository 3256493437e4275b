"""How many hijacked calls are stopped and how many ordinary ones are disturbed, replayed without any model.

Sessions are replayed and counted by the code of `lockgate eval`. The control and the bounds are this bench's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lockgate.cli.eval.gates import GateUnderTest, LockgateGate, SeedGate, replay_session
from lockgate.cli.eval.trace_files import load_sessions
from lockgate.gate.gate import Gate
from lockgate.sessions.detection_counts import DetectionCounts, Share, count_session
from lockgate.sessions.labelled_sessions import LabelledSession
from lockgate.sessions.trace_format import BlockEvent
from tables import Check, Row, Table, percent, share

Tick = Callable[[str], None]


def gates_under_test(gate: Gate) -> dict[str, GateUnderTest]:
    without = Gate(replace(gate.policy, unsafe_disable_phrase_rules=True), scanner=gate.scanner)
    return {
        "Lockgate": LockgateGate(gate),
        "Lockgate, phrase rules off": LockgateGate(without),
        "seed as written": SeedGate(listed_tools=True),
        "seed, our high-risk tools": SeedGate(listed_tools=False),
    }


# --- counting


@dataclass(slots=True)
class Tally:
    """The counts over sessions, and of the control; `rules` escalated ordinary calls of clean sessions."""

    counts: DetectionCounts = field(default_factory=DetectionCounts)
    control: Share = field(default_factory=Share)
    missed: list[str] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.counts += other.counts
        self.control += other.control
        self.missed += other.missed
        self.rules += other.rules


def play(session: LabelledSession, gate: GateUnderTest) -> Tally:
    ruled = replay_session(session, gate)
    tally = Tally(count_session(session, [each.escalated for each in ruled]))
    stopped = tally.counts.attacks_in_time
    if stopped.part < stopped.whole:
        tally.missed.append(session.start.id)
    for call, each in zip(session.calls, ruled, strict=True):
        if call.label == "ordinary" and each.escalated and not session.is_attacked:
            tally.rules.update(each.rules)
    return tally


def control(attacked: Sequence[LabelledSession], clean: LabelledSession, gate: GateUnderTest) -> Share:
    """The attack calls of sessions asked with the tool results of the clean one: what a call gives away by itself.

    A twin's blocks carry the same ids, so there each call is asked at its own place; elsewhere all results are there.
    """
    flags: list[bool] = []
    gate.begin(clean.start)
    twin = {block.id: block for block in clean.blocks} if clean.start.pair else {}
    if not clean.start.pair:
        for block in clean.blocks:
            gate.add(block)
    for event in (event for session in attacked for event in session.events):
        if isinstance(event, BlockEvent):
            if event.id in twin:
                gate.add(twin[event.id])
        elif event.label == "attack":
            flags.append(gate.check(event).escalated)
    return Share(sum(flags), len(flags))


def count(
    sessions: Sequence[LabelledSession], gate: GateUnderTest, everything: Sequence[LabelledSession] = ()
) -> Tally:
    """All sessions of a file; clean sessions for the control may stand in any of the files given."""
    total = Tally()
    clean: dict[str, LabelledSession] = {}
    for session in (*sessions, *everything):
        if not session.is_attacked and _task_of(session):
            clean.setdefault(_task_of(session), session)
    held: dict[str, list[LabelledSession]] = {}
    for session in sessions:
        total.add(play(session, gate))
        if session.attack_calls and _task_of(session) in clean:
            held.setdefault(_task_of(session), []).append(session)
    for task, attacked in held.items():
        total.control += control(attacked, clean[task], gate)
    return total


def _task_of(session: LabelledSession) -> str:
    return session.start.pair or session.start.task


COLUMNS = ("file", "gate", "sessions", "attacks stopped", "ordinary, clean", "ordinary, poisoned", "control")


def tally_row(file: str, gate: str, tally: Tally, *, bounded: bool) -> Row:
    counts = tally.counts
    figures = {
        "attacks": counts.attacks_in_time,
        "ordinary, clean": counts.ordinary_calls,
        "ordinary, poisoned": counts.after_poison,
        "control": tally.control,
    }
    cells = {"file": file, "gate": gate, "sessions": str(counts.sessions)}
    cells |= {
        "attacks stopped" if name == "attacks" else name: share(each.part, each.whole) for name, each in figures.items()
    }
    percents = {name: percent(each.part, each.whole) for name, each in figures.items() if each.whole}
    checks = tuple(Check(name, value) for name, value in percents.items() if bounded)
    return Row(cells, checks, percents)


def tables_of(
    title: str, files: Mapping[str, Sequence[LabelledSession]], gate: Gate, tick: Tick, *, bounded: bool = False
) -> list[Table]:
    """One row per file and gate, and the sum over the files; the bounds are for Lockgate over all files."""
    gates = gates_under_test(gate)
    everything = [session for sessions in files.values() for session in sessions]
    totals = {name: Tally() for name in gates}
    rows: list[Row] = []
    for file, sessions in files.items():
        for name, each in gates.items():
            tick(f"detection: {file}, {name}")
            tally = count(sessions, each, everything)
            totals[name].add(tally)
            rows.append(tally_row(file, name, tally, bounded=False))
    rows += [tally_row("all", name, total, bounded=bounded and name == "Lockgate") for name, total in totals.items()]
    # Ids of a user's own traces stay out of our published tables.
    missed = [] if bounded else sorted(totals["Lockgate"].missed)
    counted = Table(
        title,
        COLUMNS,
        rows,
        "stopped: escalated at or before the first attack call with an effect; poisoned: ordinary calls after the "
        "poisoned block; control: the attack calls asked with the clean session's results"
        + (f"; not stopped by Lockgate: {', '.join(missed)}" if missed else ""),
        names=2,
    )
    why = totals["Lockgate"].rules.most_common(10)
    return [
        counted,
        Table(
            f"{title}: what escalated ordinary calls of clean sessions",
            ("rule", "calls"),
            [Row({"rule": rule, "calls": str(calls)}, (), {"calls": calls}) for rule, calls in why],
        ),
    ]


def corpus(folder: Path) -> dict[str, list[LabelledSession]]:
    return {file.stem: load_sessions(file) for file in sorted(folder.glob("*.jsonl"))}
