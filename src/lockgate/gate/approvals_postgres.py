"""Approvals in PostgreSQL: the host that asks and the person who answers may be on different machines."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from lockgate.core.errors import LockgateError
from lockgate.core.ruling.approvals import ApprovalChange, RecordChanges
from lockgate.gate.approvals_sqlite import START_OVER, TABLES, SqliteApprovals, expire_old, is_not_ended
from lockgate.runtime.postgres import Postgres

# Each version of the tables; see `runtime/schema_steps.py` for what a step may do.
STEPS = ((1, TABLES),)
# "lkga": a writer holds this lock.
_LOCK = 0x6C6B6761


class PostgresApprovals(SqliteApprovals):
    """The same questions in the database that `conninfo` names: only how it is spoken to differs."""

    def __init__(
        self, conninfo: str, *, record: RecordChanges | None = None, ended: Callable[[str], bool] = is_not_ended
    ) -> None:
        super().__init__(Path("postgresql"), record=record, ended=ended)
        self._database = Postgres(conninfo, what="approvals", error=LockgateError, steps=STEPS, lock=_LOCK)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _transaction(
        self, now_s: float, session: str = ""
    ) -> Iterator[tuple[sqlite3.Connection, list[ApprovalChange]]]:
        with self._report_damage(), self._database.changing() as speaking:
            db = cast("sqlite3.Connection", speaking)
            changed = expire_old(db, now_s, session)
            yield db, changed
            if changed and self._record is not None:
                self._record(changed)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._report_damage(), self._database.reading() as speaking:
            if speaking is None:
                raise LockgateError("the database of the approvals holds none")
            yield cast("sqlite3.Connection", speaking)

    @contextmanager
    def _report_damage(self) -> Iterator[None]:
        """Turn the error about a damaged row into ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise LockgateError("the database of the approvals is damaged", hint=START_OVER) from error

    def _file_exists(self) -> bool:
        with self._database.reading() as speaking:
            return speaking is not None

    def _create_file(self) -> None:
        """The tables are made by the first change."""
