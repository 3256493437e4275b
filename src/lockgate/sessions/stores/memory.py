"""Sessions in memory, for an agent in this process: nothing is written to a file, and they end with the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from weakref import finalize

from lockgate.core.errors import SessionsUnavailable
from lockgate.runtime.forks import on_fork
from lockgate.sessions.session_entries import SessionInfo
from lockgate.sessions.stores.sql import TABLES, Database, SqlSessions

# More sessions than these, and those that nothing was kept in for so long, are deleted. What goes on with a deleted
# session has an unknown context.
MAX_SESSIONS = 5_000
MAX_IDLE_S = 86_400.0
_DELETED_AT_ONCE = 20
# Connections of a parent process, kept so that nothing closes them.
_ABANDONED: list[sqlite3.Connection] = []


class MemorySessions(SqlSessions):
    """Sessions of this process. A forked process must open its own: it gets an error here."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._db: sqlite3.Connection | None = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._db.executescript(TABLES)
        self._closing = finalize(self, self._db.close)
        self._closed_because = "these sessions were kept in memory, and are closed"
        on_fork(self._forget_parent)

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def create(self, info: SessionInfo) -> SessionInfo:
        self.prune(info.created_at - MAX_IDLE_S, _DELETED_AT_ONCE)
        with self._read_connection() as db:
            (kept,) = db.execute("SELECT count(*) FROM sessions").fetchone()
        if kept >= MAX_SESSIONS:
            # The longest idle ones, whenever that was.
            self.prune(float("inf"), _DELETED_AT_ONCE, {info.id})
        return super().create(info)

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
                raise SessionsUnavailable(self._closed_because)
            try:
                yield self._db
            except sqlite3.Error as error:
                raise SessionsUnavailable(f"the sessions in memory failed: {type(error).__name__}") from error

    def _forget_parent(self) -> None:
        # A fork may have happened in the middle of a write: SQLite's own lock may then be held for ever, so that even
        # closing could wait for it.
        if self._db is not None:
            self._closing.detach()
            _ABANDONED.append(self._db)
        self._lock = RLock()
        self._db = None
        self._closed_because = "these sessions are in the memory of the process that forked this one: open others here"
