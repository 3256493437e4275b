"""One ruling as a row of a table: the columns of every bulk result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockgate.core.vocabulary import Action, Decision
from lockgate.runtime.arrow import require_pyarrow

if TYPE_CHECKING:
    import pyarrow

# What a row holds, by column; `error` is set, and no ruling, where the rest of a session could not be read.
COLUMNS = (
    "file",
    "session",
    "agent",
    "call",
    "id",
    "at",
    "tool",
    "arguments",
    "ran",
    "policy",
    "action",
    "tier",
    "reason",
    "risk",
    "rules",
    "explanation",
    "error",
)
_NUMBERS = ("call", "tier")

Row = dict[str, Any]


def make_row(
    decision: Decision,
    *,
    file: str,
    session: str,
    call: int,
    tool: str,
    arguments: Mapping[str, object],
    agent: str = "",
    id: str = "",
    at: float | None = None,
    ran: str = "",
    policy: str = "",
) -> Row:
    """Return the row of one ruling. Only a call that would not have run keeps its arguments."""
    held = decision.action is not Action.CONTINUE
    return {
        "file": file,
        "session": session,
        "agent": agent,
        "call": call,
        "id": id,
        "at": at,
        "tool": tool,
        "arguments": json.dumps(arguments, ensure_ascii=False, sort_keys=True) if held else "",
        "ran": ran,
        "policy": policy,
        "action": decision.action.value,
        "tier": decision.tier,
        "reason": decision.reason.value,
        "risk": decision.risk.value,
        "rules": sorted({found.rule for found in decision.findings}),
        "explanation": decision.explanation,
        "error": "",
    }


def make_error_row(file: str, error: str, session: str = "") -> Row:
    """Return the row that says why no further call of a session, or of a whole file, was ruled on."""
    row: Row = dict.fromkeys(COLUMNS, "")
    return row | {"file": file, "session": session, "call": 0, "tier": 0, "at": None, "rules": [], "error": error}


def table_from_rows(rows: Sequence[Row]) -> pyarrow.Table:
    """Return the rows as an Arrow table, always with the same columns and types."""
    arrow = require_pyarrow()
    types = {"at": arrow.float64(), "rules": arrow.list_(arrow.string()), **dict.fromkeys(_NUMBERS, arrow.int64())}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in COLUMNS])
    return arrow.Table.from_pylist([{name: storable(value) for name, value in row.items()} for row in rows], schema)


def parquet_from_rows(rows: Sequence[Row]) -> bytes:
    """Return the rows as a Parquet file; equal rows give equal bytes."""
    arrow = require_pyarrow()
    from pyarrow import parquet

    sink = arrow.BufferOutputStream()
    parquet.write_table(table_from_rows(rows), sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def storable(value: Any) -> Any:
    """Return a value of a row as Arrow takes it: half of a surrogate pair is spelled out, as in `\\ud800`."""
    if isinstance(value, list):
        return [storable(each) for each in value]
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value
