"""`lockgate replay` on many files: in pieces, on all cores or on Ray, with results that can be continued."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

import lockgate
from lockgate.bulk.call_rows import Row, make_error_row, make_row, parquet_from_rows
from lockgate.bulk.engines import LOCAL, check_engine, run_pieces
from lockgate.bulk.pieces import (
    PACKED,
    PARQUET,
    InputChanged,
    InputPiece,
    check_unchanged,
    cut_trace,
    read_events,
    read_row_group,
    whole_file,
)
from lockgate.bulk.results import ResultsFolder
from lockgate.bulk.trace_rulings import lines_in, parse_lines
from lockgate.cli.replay import (
    ReplayedCall,
    ReplayGate,
    ReplayReport,
    UnreadSession,
    choose_gate,
    is_trace,
    make_gate,
    replay_events,
    replay_transcript,
    show_progress,
)
from lockgate.core.errors import InvalidTrace
from lockgate.gate.gate import Gate


@dataclass(slots=True)
class BulkOptions:
    """How to work: the engine, the number of processes, and the folder for the results, if any."""

    engine: str = LOCAL
    jobs: int | None = None
    out: str | None = None


@dataclass(slots=True)
class PieceResult:
    """What came of one piece: the report on it, and a Parquet file with a row for each ruling where these are kept.

    Without that file the piece is not done.
    """

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
    # Read here, once: a worker on another machine may have another configuration.
    chosen = tuple(choose_gate(path, ask=ask) for path in policies)
    results, left = None, pieces
    if options.out is not None:
        about = {"version": lockgate.__version__, "policy": [each.settings.policy.hash for each in chosen], "ask": ask}
        about["judge"] = [each.judged for each in chosen]
        results = ResultsFolder(options.out, about)
    try:
        if results is not None:
            left = results.unfinished(pieces)
        make_work = partial(_make_work, chosen, report.policies, keep_rows=results is not None)
        sizes = {str(number): piece.size for number, piece in enumerate(left)}
        with show_progress(sizes, "replaying") as advance:
            for number, result in run_pieces(left, make_work, engine=engine, jobs=options.jobs) if left else ():
                if results is not None and result.table:
                    results.add(left[number], result.table, counts_of(result.report))
                else:
                    report.merge(result.report, most_held)
                advance(str(number))
        report.complete = True
    finally:
        if results is not None:
            results.close()
            for counts in results.counts():
                report.merge(report_from_counts(report.policies, counts))


def _cut(file: str, report: ReplayReport) -> Iterator[InputPiece]:
    try:
        yield from cut_trace(file) if _holds_traces(file) else [whole_file(file)]
    except OSError as error:
        report.skip(f"{file}: {(error.strerror or 'cannot be read').lower()}")
    except InvalidTrace as error:
        report.skip(f"{file}: {error.message}")


def _holds_traces(file: str) -> bool:
    return file.endswith((PARQUET, PACKED)) or is_trace(file)


def _make_work(
    chosen: Sequence[ReplayGate], names: tuple[str, ...], *, keep_rows: bool
) -> Callable[[InputPiece], PieceResult]:
    gates = [make_gate(each) for each in chosen]
    return partial(_replay_piece, gates, names, keep_rows=keep_rows)


def _replay_piece(gates: Sequence[Gate], names: tuple[str, ...], piece: InputPiece, *, keep_rows: bool) -> PieceResult:
    report = ReplayReport(names)
    rows: list[Row] = []
    try:
        for ruled in _replay(piece, gates, report):
            report.add(ruled)
            if keep_rows:
                rows += _rows(ruled, report)
    except InvalidTrace as error:
        report.skip(f"{piece.path}: {error.message}")
        rows.append(make_error_row(piece.path, error.message))
    except (InputChanged, OSError) as error:
        why = error.message if isinstance(error, InputChanged) else (error.strerror or "cannot be read").lower()
        if keep_rows:
            # Nothing of it is kept, and the same command does it again.
            report, keep_rows = ReplayReport(names), False
        report.skip(f"{piece.path}: {why}")
    if not keep_rows:
        return PieceResult(report)
    # All calls are in the rows. Only the sums cross to the first process, which has to keep up with every worker.
    report.held, report.differ, report.outcomes = [], [], {}
    return PieceResult(report, parquet_from_rows(rows))


def _rows(ruled: ReplayedCall | UnreadSession, report: ReplayReport) -> Iterator[Row]:
    if isinstance(ruled, UnreadSession):
        yield make_error_row(ruled.file, ruled.why, ruled.session)
        return
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


def _replay(piece: InputPiece, gates: Sequence[Gate], report: ReplayReport) -> Iterator[ReplayedCall | UnreadSession]:
    file = piece.path
    if file.endswith(PARQUET):
        for session, trace in read_row_group(piece):
            yield from _replay_row(file, session, trace, gates, report)
    elif _holds_traces(file):
        yield from replay_events(file, os.path.basename(file), read_events(piece), gates, report, piece.session)
    else:
        yield from replay_transcript(file, gates, report)
        check_unchanged(piece)


def _replay_row(
    file: str, session: str, trace: bytes | None, gates: Sequence[Gate], report: ReplayReport
) -> Iterator[ReplayedCall | UnreadSession]:
    """Rule on the session in a row of a Parquet file; without a call it is reported, as a trace that was lost."""
    if trace is None:
        yield UnreadSession(file, session, "the trace is no text")
        return
    ruled = None
    for ruled in replay_events(file, session, parse_lines(lines_in(BytesIO(trace))), gates, report):
        yield ruled
    if ruled is None:
        yield UnreadSession(file, session, "no call in this trace")


def counts_of(report: ReplayReport) -> dict[str, Any]:
    """Return what a manifest keeps of a report: all its sums."""
    return {
        "sessions": report.sessions,
        "calls": report.calls,
        "held": report.held_count,
        "differ": report.differ_count,
        "unreadable": report.unreadable,
        "skipped": report.skipped,
        "skipped_count": report.skipped_count,
        "tiers": [{str(tier): count for tier, count in tiers.items()} for tiers in report.tiers],
        "actions": [dict(actions) for actions in report.actions],
        "rules": [dict(rules) for rules in report.rules],
    }


def report_from_counts(policies: tuple[str, ...], counts: Mapping[str, Any]) -> ReplayReport:
    """Return the report whose sums a manifest kept."""
    return ReplayReport(
        policies,
        sessions=counts["sessions"],
        calls=counts["calls"],
        unreadable=counts["unreadable"],
        skipped=counts["skipped"],
        skipped_count=counts["skipped_count"],
        tiers=[Counter({int(tier): count for tier, count in tiers.items()}) for tiers in counts["tiers"]],
        actions=[Counter(actions) for actions in counts["actions"]],
        rules=[Counter(rules) for rules in counts["rules"]],
        held_count=counts["held"],
        differ_count=counts["differ"],
    )
