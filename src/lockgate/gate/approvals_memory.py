"""Approvals for one process: gone when it ends, and with nothing on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from weakref import finalize

from lockgate.core.errors import LockgateError
from lockgate.core.ruling.approvals import RecordChanges
from lockgate.gate.approvals_sqlite import TABLES, SqliteApprovals
from lockgate.runtime.forks import watch_forks

# How long a fork waits for the thread that uses a store.
_QUIET_S = 1.0
# Connections of a parent process, kept so that nothing closes them.
_ABANDONED: list[sqlite3.Connection] = []


class MemoryApprovals(SqliteApprovals):
    """Questions to a person, answered by the program that holds this object. Safe for several threads.

    `record` gets every change before it takes effect; where it raises, the change is taken back. A forked process goes
    on with a copy.
    """

    # No mark is forgotten: the sessions do not outlive this object.
    _marked_s = float("inf")

    def __init__(self, *, record: RecordChanges | None = None) -> None:
        super().__init__(Path(":memory:"), record=record)
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.executescript(TABLES)
        self._closing = finalize(self, self._db.close)
        self._is_usable = True
        self._lock = Lock()
        watch_forks(self)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if not self._is_usable:
                raise LockgateError("these approvals were in use when this process was forked: make others here")
            try:
                yield self._db
            except sqlite3.Error as error:
                raise self._file.error_from(error) from error
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def _file_exists(self) -> bool:
        return True

    def _create_file(self) -> None:
        """The tables are there from the start."""

    # Forks; see `runtime/forks.py`.

    def _quieten(self) -> bool:
        return self._lock.acquire(timeout=_QUIET_S)

    def _go_on(self) -> None:
        self._lock.release()

    def _start_anew(self, *, quiet: bool) -> None:
        self._lock = Lock()
        if not quiet:
            # A thread that is gone may hold one of SQLite's own locks, for which closing would wait as well.
            self._is_usable = False
            self._closing.detach()
            _ABANDONED.append(self._db)
