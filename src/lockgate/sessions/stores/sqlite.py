"""Sessions in a file that several processes share.

One writer at a time, so that `seq` is the order in which entries can be read. A commit is in the hands of the system
when it is acknowledged: a killed process loses nothing, a power cut may lose the last moments, in which the agents
that this was about died as well. What has to outlive that is in the journal.

Connections are kept, because opening one costs more than a ruling.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from math import ceil
from pathlib import Path
from time import monotonic, time

from lockgate.core.errors import LockgateError, SessionsUnavailable
from lockgate.runtime.private_files import PrivateFileKind, wait_for_lock
from lockgate.runtime.sqlite_file import DatabaseKind, SharedSqliteFile
from lockgate.sessions.stores.grouped import GroupedSessions
from lockgate.sessions.stores.sql import TABLES, Database

_MAX_IDLE = 8
# "lkgs" identifies our files, to us and to tools that show it.
_KIND = DatabaseKind(
    private=PrivateFileKind(
        "the sessions", "rule on calls in your name, and read what your agents read", "sessions", secret=True
    ),
    title="the sessions in {}: the file",
    noun="a file of sessions",
    application_id=0x6C6B6773,
    version=2,
    tables=TABLES,
    pragmas=(
        ("synchronous", "NORMAL"),
        ("secure_delete", "ON"),
        ("trusted_schema", "OFF"),
        ("wal_autocheckpoint", 4096),
    ),
    # How long a thread waits to write, for the other threads and for other processes together.
    busy_s=5.0,
    error=SessionsUnavailable,
    damaged=SessionsUnavailable,
    start_over="move the file away to begin anew: the context of sessions that go on is then not known",
    replaced_hint="try again",
)


class SqliteSessions(GroupedSessions):
    """Sessions in one file, which is made with its folder when something is first kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A fork waits a second for readers.
        self._file = SharedSqliteFile(path, _KIND, max_idle=_MAX_IDLE, quiet_s=1.0)
        # The writer that was configured last, and how long it waits for other processes.
        self._configured: sqlite3.Connection | None = None
        self._patience_s = 0.0
        self._start_turns()

    def close(self) -> None:
        self._file.close()

    def test_write(self) -> None:
        with self._write_transaction() as db:
            # The same again: nothing changes, and a page is written all the same.
            db.execute(f"PRAGMA user_version = {_KIND.version}")

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        places = ", ".join("?" * len(values))
        return int(db.execute(f"INSERT INTO entries ({columns}) VALUES ({places})", values).lastrowid)  # noqa: S608

    # The file

    @property
    def _busy_s(self) -> float:
        return self._file.busy_s

    def _busy_error(self) -> LockgateError:
        return self._file.busy_error()

    def _write_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._timed_transaction(self._file.busy_s)

    @contextmanager
    def _timed_transaction(self, patience_s: float) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that excludes all other writers from its first read on; all or nothing is stored."""
        try:
            left_s = self._take_writer(patience_s)
            try:
                yield from self._transaction(left_s)
            finally:
                self._file.writing.release()
        except _FAILURES as error:
            raise self._file.error_from(error) from error

    def _transaction(self, patience_s: float) -> Iterator[sqlite3.Connection]:
        db = self._file.open_writer(self._create_file)
        if db is not self._configured:
            self._refuse_old_notes()
            self._configured, self._patience_s = db, 0.0
        # In tenths of a second: most callers wait about as long as the one before, and need no statement for it.
        patience_s = ceil(max(0.0, patience_s) * 10) / 10
        try:
            if patience_s != self._patience_s:
                db.execute(f"PRAGMA busy_timeout = {patience_s * 1000:.0f}")
                self._patience_s = patience_s
            db.execute("BEGIN IMMEDIATE")
            with ExitStack() as failed:
                failed.callback(db.execute, "ROLLBACK")
                yield db
                failed.pop_all()
            db.execute("COMMIT")
        except sqlite3.Error:
            # Closing rolls back what is open.
            self._file.close_writer()
            raise
        # Afterwards: an entry in a file that is gone must not be acknowledged.
        self._file.refuse_replaced()

    def _refuse_old_notes(self) -> None:
        """Raise SessionsUnavailable if an earlier version noted here that it lost texts which agents had read.

        Those sessions would look clean: this version keeps such marks in the file itself.
        """
        folder = self.path.with_name("sessions-doubted")
        try:
            notes = os.listdir(folder)
        except FileNotFoundError:
            return
        if notes:
            raise SessionsUnavailable(
                f"`{folder.name}` beside the session file holds notes of an earlier version about lost texts",
                hint="end the agents of that time, then remove the folder",
            )

    def _take_writer(self, patience_s: float) -> float:
        """Wait for the other threads; return how long the caller may still wait for other processes.

        If each thread waited the full time for other processes, threads in a queue would add up their waits.
        """
        if self._file.writing.acquire(blocking=False):
            return patience_s
        began = monotonic()
        if not self._file.writing.acquire(timeout=max(0.0, patience_s)):
            raise self._file.busy_error()
        return max(0.0, patience_s - (monotonic() - began))

    @contextmanager
    def _read_connection(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection for this reader; None while there is no file yet."""
        try:
            if not self._file.is_open and not os.path.lexists(self.path):
                yield None
                return
            with self._file.reader() as db:
                yield db
        except _FAILURES as error:
            raise self._file.error_from(error) from error

    @contextmanager
    def _quick_read_connection(self) -> Iterator[sqlite3.Connection | None]:
        """Yield the writer if it is free: it need not read its own writes from the disk again."""
        if not self._file.writing.acquire(blocking=False):
            with self._read_connection() as db:
                yield db
            return
        try:
            if self._file.writer is None:
                with self._read_connection() as db:
                    yield db
                return
            try:
                yield self._file.writer
            except sqlite3.Error as error:
                self._file.close_writer()
                raise self._file.error_from(error) from error
        finally:
            self._file.writing.release()

    def _create_file(self) -> None:
        if os.path.lexists(self.path):
            return
        # Numbers continue after those of a lost file, so that an old number never names a new row.
        first = int(time() * 1000)

        def prepare(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO sqlite_sequence VALUES ('sessions', ?), ('entries', ?)", (first, first))
            if not os.path.lexists(self.path):
                # Left from a file that was removed: SQLite would read them into this one.
                for ending in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

        with _folder_lock(self.path.parent):
            self._file.create(prepare)


_FAILURES = (sqlite3.Error, OSError, ValueError)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from creating a file of sessions in this folder."""
    if os.name == "nt":
        # A file in use cannot be removed there.
        yield
        return
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        wait_for_lock(handle, folder)
        yield
    finally:
        os.close(handle)
