"""Carried texts in PostgreSQL: what an agent on one machine wrote is known to the sessions on another."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import cast

from lockgate.core.errors import LockgateError
from lockgate.gate.carried_sqlite import MAX_PRINTS, TABLES, SqliteCarriedTexts
from lockgate.runtime.postgres import Postgres

# Each version of the tables; see `runtime/schema_steps.py` for what a step may do.
STEPS = ((1, TABLES),)
# "lkgc": a writer holds this lock.
_LOCK = 0x6C6B6763


class PostgresCarriedTexts(SqliteCarriedTexts):
    """The same texts in the database that `conninfo` names: only how it is spoken to differs."""

    def __init__(self, conninfo: str, *, clock: Callable[[], float] = time, max_prints: int = MAX_PRINTS) -> None:
        super().__init__(Path("postgresql"), clock=clock, max_prints=max_prints)
        self._database = Postgres(conninfo, what="carried texts", error=LockgateError, steps=STEPS, lock=_LOCK)

    def close(self) -> None:
        """Close the connections; a later use opens others."""
        self._database.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._database.changing() as speaking:
            yield cast("sqlite3.Connection", speaking)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        with self._database.reading() as speaking:
            yield cast("sqlite3.Connection | None", speaking)
