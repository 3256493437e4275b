"""`lockgate replay` on many files: in pieces, on all cores or on Ray, with results that can be continued."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import lockgate
from lockgate.bulk.call_rows import Row, make_error_row, make_row, parquet_from_rows
from lockgate.bulk.engines import LOCAL, check_engine, run_pieces
from lockgate.bulk.pieces import PACKED, PARQUET, InputPiece, cut_trace, read_events, read_row_group, whole_file
from lockgate.bulk.results import ResultsFolder
from lockgate.bulk.trace_rulings import parse_trace, rule_on_events
from lockgate.cli.replay import ReplayedCall, ReplayReport, is_trace, make_gate, replay_transcript, show_progress
from lockgate.core.errors import InvalidTrace, quoted
from lockgate.core.sessions.trace_format import Event
from lockgate.gate.gate import Gate


@dataclass(slots=True)
class BulkOptions:
    """How to work: the engine, the number of processes, and the folder for the results, if any."""

    engine: str = LOCAL
    jobs: int | None = None
    out: str | None = None


@dataclass(slots=True)
class PieceResult:
    """What came of one piece: the report on it, and a Parquet file with a row for each ruling where these are kept."""

    report: ReplayReport
    table: bytes = b""


def replay_in_bulk(
    files: Sequence[str],
    policies: Sequence[str | None],
    report: ReplayReport,
    options: BulkOptions,
    *,
    ask: bool,
    most_held: int | None,
) -> None:
    """Replay the files into the report, piece by piece; with a folder, only what is not done in it yet."""
    engine = check_engine(options.engine)
    pieces = [piece for file in files for piece in _cut(file, report)]
    gates = [make_gate(path, ask=ask) for path in policies]
    results = None
    left = pieces
    if options.out is not None:
        about = {"version": lockgate.__version__, "policy": [gate.policy.hash for gate in gates], "ask": ask}
        results = ResultsFolder(options.out, about)
        left = results.unfinished(pieces)
    make_work = partial(_make_work, tuple(policies), report.policies, ask=ask, keep_rows=results is not None)
    sizes = {str(number): piece.size for number, piece in enumerate(left)}
    try:
        with show_progress(sizes, "replaying") as advance:
            for number, result in run_pieces(left, make_work, engine=engine, jobs=options.jobs) if left else ():
                if results is not None:
                    results.add(left[number], result.table, counts_of(result.report))
                else:
                    report.merge(result.report, most_held)
                advance(str(number))
        report.complete = True
    finally:
        if results is not None:
            for counts in results.counts():
                add_counts(report, counts)


def _cut(file: str, report: ReplayReport) -> Iterator[InputPiece]:
    try:
        yield from cut_trace(file) if _holds_traces(file) else [whole_file(file)]
    except OSError as error:
        report.skipped.append(f"{file}: {(error.strerror or 'cannot be read').lower()}")
    except InvalidTrace as error:
        report.skipped.append(f"{file}: {error.message}")


def _holds_traces(file: str) -> bool:
    return file.endswith((PARQUET, PACKED)) or is_trace(file)


def _make_work(
    policies: Sequence[str | None], names: tuple[str, ...], *, ask: bool, keep_rows: bool
) -> Callable[[InputPiece], PieceResult]:
    gates = [make_gate(path, ask=ask) for path in policies]
    return partial(_replay_piece, gates, names, keep_rows=keep_rows)


def _replay_piece(gates: Sequence[Gate], names: tuple[str, ...], piece: InputPiece, *, keep_rows: bool) -> PieceResult:
    report = ReplayReport(names)
    rows: list[Row] = []
    try:
        for ruled in _replay(piece, gates, report):
            report.add(ruled)
            if keep_rows:
                rows += _rows(ruled, report)
    except (InvalidTrace, OSError) as error:
        why = error.message if isinstance(error, InvalidTrace) else (error.strerror or "cannot be read").lower()
        report.skipped.append(f"{piece.path}: {why}")
        rows.append(make_error_row(piece.path, why))
    if not keep_rows:
        return PieceResult(report)
    # All calls are in the rows. Only the sums cross to the first process, which has to keep up with every worker.
    report.held, report.differ, report.outcomes = [], [], {}
    return PieceResult(report, parquet_from_rows(rows))


def _rows(ruled: ReplayedCall, report: ReplayReport) -> Iterator[Row]:
    for name, decision in zip(report.policies, ruled.decisions, strict=True):
        yield make_row(
            decision,
            file=ruled.file,
            session=ruled.session,
            agent=ruled.agent,
            call=ruled.number,
            id=ruled.id,
            at=ruled.at,
            tool=ruled.tool,
            arguments=ruled.arguments,
            ran=report.outcome_of(ruled),
            policy=name,
        )


def _replay(piece: InputPiece, gates: Sequence[Gate], report: ReplayReport) -> Iterator[ReplayedCall]:
    if piece.path.endswith(PARQUET):
        yield from _replay_row_group(piece, gates, report)
    elif _holds_traces(piece.path):
        # Read once for each policy: a piece is small, and its events are plain values.
        yield from _rule_on_trace(
            piece.path, os.path.basename(piece.path), [*read_events(piece)], gates, report, piece.session
        )
    else:
        yield from replay_transcript(piece.path, gates, report)


def _replay_row_group(piece: InputPiece, gates: Sequence[Gate], report: ReplayReport) -> Iterator[ReplayedCall]:
    """Rule on the sessions of a Parquet file; one that cannot be read is reported, and the others go on."""
    for session, trace in read_row_group(piece):
        try:
            if not isinstance(trace, str):
                raise InvalidTrace("the trace is no text")
            yield from _rule_on_trace(piece.path, session, [*parse_trace(trace)], gates, report, 0)
        except InvalidTrace as error:
            report.skipped.append(f"{piece.path}: {quoted(session)}: {error.message}")


def _rule_on_trace(
    file: str, name: str, events: list[tuple[int, Event]], gates: Sequence[Gate], report: ReplayReport, before: int
) -> Iterator[ReplayedCall]:
    seen: set[int] = set()
    for rulings in zip(*(rule_on_events(gate, events, sessions=before) for gate in gates), strict=True):
        first = rulings[0]
        if first.session not in seen:
            seen.add(first.session)
            report.sessions += 1
        decisions = tuple(each.decision for each in rulings)
        session = f"{name}#{first.session}"
        yield ReplayedCall(file, session, "", first.call, "", None, first.event.tool, first.event.arguments, decisions)


def counts_of(report: ReplayReport) -> dict[str, Any]:
    """Return what a manifest keeps of a report: all its sums."""
    return {
        "sessions": report.sessions,
        "calls": report.calls,
        "held": report.held_count,
        "differ": report.differ_count,
        "unreadable": report.unreadable,
        "skipped": report.skipped,
        "tiers": [{str(tier): count for tier, count in tiers.items()} for tiers in report.tiers],
        "actions": [dict(actions) for actions in report.actions],
        "rules": [dict(rules) for rules in report.rules],
    }


def add_counts(report: ReplayReport, counts: dict[str, Any]) -> None:
    """Add the sums of a manifest to a report."""
    report.sessions += counts["sessions"]
    report.calls += counts["calls"]
    report.held_count += counts["held"]
    report.differ_count += counts["differ"]
    report.unreadable += counts["unreadable"]
    report.skipped += counts["skipped"]
    for place in range(len(report.policies)):
        report.tiers[place].update({int(tier): count for tier, count in counts["tiers"][place].items()})
        report.actions[place].update(Counter(counts["actions"][place]))
        report.rules[place].update(Counter(counts["rules"][place]))
