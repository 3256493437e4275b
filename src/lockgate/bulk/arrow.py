"""`audit`: rulings on recorded sessions as a pure function over Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from lockgate.bulk.call_rows import Row, make_error_row, make_row, table_from_rows
from lockgate.bulk.trace_rulings import UnruledRest, parse_lines, rule_on_events
from lockgate.core.errors import LockgateError
from lockgate.gate.gate import Gate

if TYPE_CHECKING:
    import pyarrow

INPUT_COLUMNS = ("session", "trace")


def audit(batch: pyarrow.RecordBatch | pyarrow.Table, gate: Gate | None = None) -> pyarrow.Table:
    """Rule on every call of every session in the batch, and return one row for each call.

    The batch has two columns of text: `session`, a name, and `trace`, the session's events as JSON Lines
    (`lockgate help trace`). The result depends on the batch and the gate alone, whatever the order of the batches, so
    any engine can call it. Without a gate it is the default one, made once for each process. A line that cannot be
    read gives a row with `error`, after the rows of the calls before it; the rest of its session is not ruled on.
    """
    for name in INPUT_COLUMNS:
        if name not in batch.schema.names:
            raise LockgateError(
                f"the batch has no column `{name}`", hint="a row is one session: the columns `session` and `trace`"
            )
    used = gate or _default_gate()
    names, traces = (batch.column(name).to_pylist() for name in INPUT_COLUMNS)
    return table_from_rows([row for name, trace in zip(names, traces, strict=True) for row in _rows(used, name, trace)])


@cache
def _default_gate() -> Gate:
    return Gate()


def _rows(gate: Gate, name: object, trace: object) -> Iterator[Row]:
    session = name if isinstance(name, str) else str(name)
    if not isinstance(trace, str):
        yield make_error_row(session, "the trace is no text")
        return
    rows = 0
    # Not `splitlines`: it also splits at characters that JSON texts may hold as they are.
    for ruled in rule_on_events([gate], parse_lines(trace.encode("utf-8", "surrogatepass").split(b"\n"))):
        rows += 1
        if isinstance(ruled, UnruledRest):
            yield make_error_row(session, ruled.error.message, f"{session}#{ruled.session}")
        else:
            yield make_row(
                ruled.decisions[0],
                file=session,
                session=f"{session}#{ruled.session}",
                call=ruled.call,
                tool=ruled.event.tool,
                arguments=ruled.event.arguments,
            )
    if not rows:
        yield make_error_row(session, "no call in this trace")
