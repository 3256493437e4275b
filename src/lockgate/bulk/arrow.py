"""`audit`: rulings on recorded sessions as a pure function over Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from lockgate.bulk.call_rows import Row, make_error_row, make_row, table_from_rows
from lockgate.bulk.trace_rulings import UnruledRest, lines_in, parse_lines, rule_on_events
from lockgate.core.errors import InvalidTrace
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
    check_columns(batch.schema.names)
    used = gate or _default_gate()
    return table_from_rows([row for name, trace in sessions_in(batch) for row in _rows(used, name, trace)])


def check_columns(names: Sequence[str]) -> None:
    """Raise InvalidTrace unless there is one column for each part of a session."""
    for name in INPUT_COLUMNS:
        if names.count(name) != 1:
            many = "several columns" if name in names else "no column"
            raise InvalidTrace(f"{many} `{name}`", hint="a row is one session: the columns `session` and `trace`")


def sessions_in(batch: pyarrow.RecordBatch | pyarrow.Table) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name and the trace of each row; a trace that is no text is None, and bytes may be no UTF-8.

    Raise InvalidTrace for a name that is no text: the rows of such sessions could not be told apart.
    """
    for name, trace in zip(*(batch.column(each) for each in INPUT_COLUMNS), strict=True):
        named = _bytes_of(name)
        if named is None:
            raise InvalidTrace(f"the column `session` holds a name that is no text ({name.type})")
        yield named.decode("utf-8", "replace"), _bytes_of(trace)


def _bytes_of(scalar: Any) -> bytes | None:
    """Return the bytes of a text as they are; in a column that lists each text once, those that the row points to."""
    if hasattr(scalar, "dictionary"):
        scalar = scalar.value
    held = scalar.as_buffer() if hasattr(scalar, "as_buffer") else None
    return None if held is None else bytes(held)


@cache
def _default_gate() -> Gate:
    return Gate()


def _rows(gate: Gate, session: str, trace: bytes | None) -> Iterator[Row]:
    if trace is None:
        yield make_error_row(session, "the trace is no text")
        return
    rows = 0
    for ruled in rule_on_events([gate], parse_lines(lines_in(BytesIO(trace)))):
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
