"""Open the labelled traces and the tool list that a user names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from lockgate.bulk.pieces import PARQUET, cut_trace, read_row_group, unpacked_lines
from lockgate.bulk.trace_rulings import lines_in
from lockgate.cli.replay import choose_files
from lockgate.core.errors import InvalidTrace, LockgateError, printable, quoted
from lockgate.sessions.labelled_sessions import LabelledSession, sessions_from_lines
from lockgate.sessions.trace_format import MAX_LINE_BYTES, decode_line

_TRACES = ("*.jsonl", "*.jsonl.gz", f"*{PARQUET}")
# What a tool configuration may call a tool; all but the first make it high-risk.
TOOL_RISKS = ("read", "write", "egress")


def list_files(named: Sequence[str]) -> list[Path]:
    """Return the files to read; a folder stands for the traces below it, and a name may be a glob."""
    files, skipped = choose_files(named, None, include=_TRACES)
    if skipped:
        raise LockgateError(f"cannot read {printable(skipped[0], 300)}", hint="name other traces, or other folders")
    return [Path(file) for file in files]


def load_sessions(path: Path) -> list[LabelledSession]:
    """Return the sessions of one file, plain, gzipped or Parquet; raise InvalidTrace, which names the file."""
    part = path.name.removesuffix(".gz").removesuffix(".jsonl")
    try:
        if path.suffix == PARQUET:
            return [*_sessions_in_rows(str(path), path.stem)]
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            return sessions_from_lines(_read_lines(unpacked_lines(raw) if is_packed else lines_in(raw)), part)
    except InvalidTrace as error:
        raise InvalidTrace(f"{quoted(path, 200)}: {error.message}", hint=error.hint) from None
    except OSError as error:
        raise InvalidTrace(f"{quoted(path, 200)} cannot be read: {error}") from None


def _sessions_in_rows(path: str, part: str) -> Iterator[LabelledSession]:
    for piece in cut_trace(path):
        for name, trace in read_row_group(piece):
            try:
                found = sessions_from_lines(_read_lines(lines_in(BytesIO(trace or b""))), part)
            except InvalidTrace as error:
                raise InvalidTrace(f"{quoted(name)}: {error.message}", hint=error.hint) from None
            for session in found:
                yield replace(session, start=replace(session.start, id=f"{name}, {session.start.id}"))


def _read_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines as text; raise for one that is too long, of which only the beginning was read."""
    for number, data in enumerate(lines, 1):
        if len(data) > MAX_LINE_BYTES + 1:
            raise InvalidTrace(f"line {number}: longer than {MAX_LINE_BYTES:,} bytes", hint="is this a trace?")
        yield decode_line(data, number)


def load_high_risk_tools(path: str | None) -> Mapping[str, tuple[str, ...]]:
    """Return a deployment's high-risk tools by dataset; those of every dataset are under the empty name.

    The file is `{dataset: {tool: risk}}` or `{tool: risk}`, with the risks `read`, `write` and `egress`.
    """
    if path is None:
        return {}
    try:
        value = json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise LockgateError(f"{quoted(path, 200)} is not JSON: {error}"[:300]) from None
    if isinstance(value, dict) and all(isinstance(risk, str) for risk in value.values()):
        value = {"": value}
    if not isinstance(value, dict) or not all(_is_tool_list(tools) for tools in value.values()):
        raise LockgateError(
            f"{quoted(path, 200)} is no tool configuration",
            hint='use {"tool": "read|write|egress"}, or {"dataset": {"tool": "read|write|egress"}}',
        )
    return {dataset: _high_risk_in(tools) for dataset, tools in value.items()}


def _high_risk_in(tools: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(tool for tool, risk in tools.items() if risk != TOOL_RISKS[0])


def _is_tool_list(value: object) -> bool:
    return isinstance(value, dict) and all(tool and risk in TOOL_RISKS for tool, risk in value.items())
