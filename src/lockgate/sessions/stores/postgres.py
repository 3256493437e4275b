"""Sessions in PostgreSQL, for several instances: any of them can answer for any session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from lockgate.core.errors import LockgateError, SessionsUnavailable
from lockgate.runtime.postgres import BUSY_S, Postgres
from lockgate.sessions.stores.grouped import GroupedSessions
from lockgate.sessions.stores.sql import TABLES, Database

# Each version of the tables; see `runtime/schema_steps.py` for what a step may do.
STEPS = ((2, TABLES),)
# "lkgs": a writer holds this lock.
_LOCK = 0x6C6B6773


class PostgresSessions(GroupedSessions):
    """Sessions in the database that `conninfo` names."""

    _find = "strpos"

    def __init__(self, conninfo: str) -> None:
        self._database = Postgres(conninfo, what="sessions", error=SessionsUnavailable, steps=STEPS, lock=_LOCK)
        self._start_turns()

    @property
    def _busy_s(self) -> float:
        return BUSY_S

    def _busy_error(self) -> LockgateError:
        return self._database.busy_error()

    def _timed_transaction(self, patience_s: float) -> AbstractContextManager[Database]:
        return self._database.changing(patience_s)

    def test_write(self) -> None:
        self._database.probe()

    def close(self) -> None:
        self._database.close()

    def _write_transaction(self) -> AbstractContextManager[Database]:
        return self._database.changing()

    def _read_connection(self) -> AbstractContextManager[Database | None]:
        return self._database.reading()

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        places = ", ".join("?" * len(values))
        # Under the lock: no other writer gets a number until this one can be read.
        found = db.execute(f"INSERT INTO entries ({columns}) VALUES ({places}) RETURNING seq", values)  # noqa: S608
        return int(found.fetchone()[0])
