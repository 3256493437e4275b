"""Open the labelled traces and the tool list that a user names."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from lockgate.bulk.pieces import unpacked_lines
from lockgate.core.errors import InvalidTrace, LockgateError, quoted
from lockgate.core.sessions.labelled_sessions import LabelledSession, sessions_from_lines
from lockgate.core.sessions.trace_format import MAX_LINE_BYTES, decode_line

_SUFFIXES = (".jsonl", ".jsonl.gz")
# What a tool configuration may call a tool; all but the first make it high-risk.
TOOL_RISKS = ("read", "write", "egress")


def list_files(named: Sequence[str]) -> list[Path]:
    """Return the files to read; a folder stands for the traces in it."""
    files: list[Path] = []
    for name in named:
        path = Path(name)
        if not path.is_dir():
            # A pipe has no end to wait for, and cannot be read from its beginning again.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise LockgateError(f"{quoted(name, 200)} is no regular file", hint="save the trace to a file first")
            files.append(path)
            continue
        found = sorted(each for each in path.iterdir() if each.name.endswith(_SUFFIXES) and each.is_file())
        if not found:
            raise LockgateError(f"no trace in {quoted(name, 200)}", hint="a trace's name ends in .jsonl or .jsonl.gz")
        files += found
    return files


def load_sessions(path: Path) -> list[LabelledSession]:
    """Return the sessions of one file, plain or gzipped; raise InvalidTrace, which names the file."""
    part = path.name.removesuffix(".gz").removesuffix(".jsonl")
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            return sessions_from_lines(_read_lines(unpacked_lines(raw) if is_packed else _lines(raw)), part)
    except InvalidTrace as error:
        raise InvalidTrace(f"{quoted(path, 200)}: {error.message}", hint=error.hint) from None
    except OSError as error:
        raise InvalidTrace(f"{quoted(path, 200)} cannot be read: {error}") from None


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while data := stream.readline(MAX_LINE_BYTES + 2):
        yield data


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
