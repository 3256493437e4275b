"""Approvals for one process: gone when it ends, and with nothing on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from weakref import finalize

from lockgate.core.ruling.approvals import RecordChanges
from lockgate.gate.approvals_sqlite import TABLES, SqliteApprovals


class MemoryApprovals(SqliteApprovals):
    """Questions to a person, answered by the program that holds this object. Safe for several threads.

    `record` gets every change before it takes effect; where it raises, the change is taken back.
    """

    # No mark is forgotten: the sessions do not outlive this object.
    _marked_s = float("inf")

    def __init__(self, *, record: RecordChanges | None = None) -> None:
        super().__init__(Path(":memory:"), record=record)
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.executescript(TABLES)
        self._lock = Lock()
        finalize(self, self._db.close)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
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
