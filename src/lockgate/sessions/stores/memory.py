"""Sessions in memory, for an agent in this process: nothing is written to a file, and they end with the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

from lockgate.core.errors import SessionsUnavailable
from lockgate.runtime.forks import on_fork
from lockgate.sessions.stores.sql import TABLES, Database, SqlSessions

# Connections of a parent process, kept so that nothing closes them.
_ABANDONED: list[sqlite3.Connection] = []


class MemorySessions(SqlSessions):
    """Sessions of this process. A forked process must open its own: it gets an error here."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._db: sqlite3.Connection | None = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._db.executescript(TABLES)
        on_fork(self._forget_parent)

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def test_write(self) -> None:
        with self._write_transaction():
            pass

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        places = ", ".join("?" * len(values))
        return int(db.execute(f"INSERT INTO entries ({columns}) VALUES ({places})", values).lastrowid)  # noqa: S608

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            db.execute("BEGIN")
            done = False
            try:
                yield db
                done = True
            finally:
                db.execute("COMMIT" if done else "ROLLBACK")

    @contextmanager
    def _read_connection(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            yield db

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._db is None:
                raise SessionsUnavailable("these sessions were kept in memory, and are closed")
            try:
                yield self._db
            except sqlite3.Error as error:
                raise SessionsUnavailable(f"the sessions in memory failed: {type(error).__name__}") from error

    def _forget_parent(self) -> None:
        # A fork may have happened in the middle of a write: SQLite's own lock may then be held for ever, so that even
        # closing could wait for it.
        if self._db is not None:
            _ABANDONED.append(self._db)
        self._lock = RLock()
        self._db = None
