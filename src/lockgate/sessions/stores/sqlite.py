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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Condition, Lock
from time import monotonic, time

from lockgate.core.errors import SessionsUnavailable, quoted
from lockgate.runtime.forks import watch_forks
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.sessions.stores.sql import TABLES, Database, SqlSessions

# "lkgs": other programs' databases are refused, and ours is known to tools that look.
_APPLICATION = 0x6C6B6773
_VERSION = 2
# How long anybody waits to write, in the queue of this process and for other processes together.
_BUSY_S = 5.0
_MAX_IDLE = 8
# How long a fork waits for those who read.
_QUIET_S = 1.0
_FILE = PrivateFileKind(
    "the sessions", "rule on calls in your name, and read what your agents read", "sessions", secret=True
)

_PRAGMAS = (("synchronous", "NORMAL"), ("secure_delete", "ON"), ("trusted_schema", "OFF"), ("wal_autocheckpoint", 4096))

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
{TABLES}"""


class SqliteSessions(SqlSessions):
    """Sessions in one file, which is made with its folder when something is first kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._unfit = False
        self._forget()
        watch_forks(self)

    def _forget(self) -> None:
        # Owner: whoever writes; of the connections, whoever has taken one out of the list.
        self._writing = Lock()
        self._writer: sqlite3.Connection | None = None
        # How long the writer's connection waits for other processes.
        self._patience_s = 0.0
        self._idle: list[sqlite3.Connection] = []
        self._counting = Condition(Lock())
        self._busy = 0
        self._file: tuple[int, int] | None = None

    def close(self) -> None:
        with self._writing:
            self._close_connections()

    def test_write(self) -> None:
        with self._write_transaction() as db:
            # The same again: nothing changes, and a page is written all the same.
            db.execute(f"PRAGMA user_version = {_VERSION}")

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        places = ", ".join("?" * len(values))
        return int(db.execute(f"INSERT INTO entries ({columns}) VALUES ({places})", values).lastrowid)  # noqa: S608

    # The file

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        """One change, whole or not at all, with every other writer kept out from the first read on."""
        try:
            patience_s = self._take_turn()
            try:
                yield from self._transaction(patience_s)
            finally:
                self._writing.release()
        except _FAILURES as error:
            raise self._error_from(error) from error

    def _transaction(self, patience_s: float) -> Iterator[sqlite3.Connection]:
        db = self._writer
        if db is None:
            self._create_file()
            db = self._writer = self._connect()
            self._patience_s = 0.0
        try:
            if patience_s != self._patience_s:
                db.execute(f"PRAGMA busy_timeout = {patience_s * 1000:.0f}")
                self._patience_s = patience_s
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
        except sqlite3.Error:
            # Closing takes back what is open.
            self._writer = None
            _close(db)
            raise
        # Afterwards: what was kept in a file that is gone is not acknowledged.
        self._refuse_replaced()

    def _take_turn(self) -> float:
        """One's turn among this process's threads; how long one may still wait for other processes.

        While somebody else holds the file all would wait in a row, each as long as the first and after it.
        """
        if self._writing.acquire(blocking=False):
            return _BUSY_S
        began = monotonic()
        if not self._writing.acquire(timeout=_BUSY_S):
            raise self._busy_error()
        return max(0.0, _BUSY_S - (monotonic() - began))

    @contextmanager
    def _read_connection(self) -> Iterator[sqlite3.Connection | None]:
        """A connection of one's own; None while there is no file yet."""
        with self._counting:
            self._busy += 1
        try:
            try:
                db: sqlite3.Connection | None = self._idle.pop()
            except IndexError:
                db = None
            if db is None:
                if not os.path.lexists(self._name):
                    yield None
                    return
                db = self._connect()
            try:
                yield db
            except BaseException:
                _close(db)
                raise
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(db)
            else:
                _close(db)
        except _FAILURES as error:
            raise self._error_from(error) from error
        finally:
            with self._counting:
                self._busy -= 1
                self._counting.notify_all()

    @contextmanager
    def _quick_read_connection(self) -> Iterator[sqlite3.Connection | None]:
        """By the writer's connection where that is free: what it wrote itself it need not read from the disk again."""
        if not self._writing.acquire(blocking=False):
            with self._read_connection() as db:
                yield db
            return
        try:
            if self._writer is None:
                with self._read_connection() as db:
                    yield db
                return
            try:
                yield self._writer
            except sqlite3.Error as error:
                db, self._writer = self._writer, None
                if db is not None:
                    _close(db)
                raise self._error_from(error) from error
        finally:
            self._writing.release()

    def _connect(self) -> sqlite3.Connection:
        if self._unfit:
            raise self._error(
                "was in use by the process this one was forked from", hint="fork before, or start another process"
            )
        before = _FILE.check_database(self.path)
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            for name, value in _PRAGMAS:
                db.execute(f"PRAGMA {name} = {value}")
            marks = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if marks[0] != _APPLICATION:
                raise self._error("is not a file of sessions", hint=_ANEW)
            if marks[1] != _VERSION:
                raise self._error("was made by another version of lockgate", hint=_ANEW)
            # What SQLite has opened by name has to be what was looked at.
            if not os.path.samestat(before, _FILE.check_database(self.path)):
                raise self._error("was replaced while it was opened")
            self._file = before.st_dev, before.st_ino
        except BaseException:
            db.close()
            raise
        return db

    def _refuse_replaced(self) -> None:
        """What is kept in a file that was moved away would be acknowledged and lost."""
        try:
            status = os.stat(self._name)
            there = status.st_dev, status.st_ino
        except FileNotFoundError:
            there = None
        if there is None or there != self._file:
            # Not closed, ever: that would remove the new file's write-ahead log, which has the same name.
            _abandoned.extend((self._writer, *self._idle))
            self._writer, self._idle = None, []
            raise self._error("was moved or replaced while it was in use", hint="try again")

    def _create_file(self) -> None:
        """The file with its tables, put in place whole: another process sees either none of it or all of it."""
        if os.path.lexists(self._name):
            return
        # What is numbered after a file was lost must not be taken for what had the number in it.
        first = int(time() * 1000)
        with (
            suppress(FileExistsError),
            _folder_lock(self.path.parent),
            _FILE.create_whole(self.path) as new,
            closing(sqlite3.connect(new, isolation_level=None)) as db,
        ):
            db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            db.execute("INSERT INTO sqlite_sequence VALUES ('sessions', ?), ('entries', ?)", (first, first))
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise self._error("cannot be made with a write-ahead log on this disk")
            if not os.path.lexists(self._name):
                # Left by a file that was removed: SQLite would read it into this one.
                for ending in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def _close_connections(self) -> None:
        connections, self._writer, self._idle = [self._writer, *self._idle], None, []
        for db in connections:
            if db is not None:
                _close(db)

    def _quieten(self) -> bool:
        if not self._writing.acquire(timeout=_BUSY_S):
            return False
        self._counting.acquire()
        if not self._counting.wait_for(lambda: not self._busy, _QUIET_S):
            self._go_on()
            return False
        self._close_connections()
        return True

    def _go_on(self) -> None:
        self._counting.release()
        self._writing.release()

    def _start_anew(self, *, quiet: bool) -> None:
        if not quiet:
            self._unfit = True
            _abandoned.extend((self._writer, *self._idle))
        self._forget()

    def _error_from(self, error: Exception) -> SessionsUnavailable:
        """What went wrong, in our words."""
        name, said = getattr(error, "sqlite_errorname", ""), str(getattr(error, "strerror", None) or error).lower()
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self._busy_error()
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or type(error) is sqlite3.DatabaseError:
            return self._error("is damaged, or no file of sessions", hint=_ANEW)
        return self._error(f"cannot be used: {said}")

    def _busy_error(self) -> SessionsUnavailable:
        return self._error(f"was busy for {_BUSY_S:.0f} seconds", hint="try again")

    def _error(self, why: str, *, hint: str = "") -> SessionsUnavailable:
        return SessionsUnavailable(f"the sessions in {quoted(self.path, 200)}: the file {why}", hint=hint)


_FAILURES = (sqlite3.Error, OSError, ValueError)
_ANEW = "move the file away to begin anew: the context of sessions that go on is then not known"


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Nobody else makes a file of sessions there meanwhile."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        # Windows, where what is in use cannot be removed.
        yield
        return
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        flock(handle, LOCK_EX)
        yield
    finally:
        os.close(handle)


def _close(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        db.close()


_abandoned: list[object] = []
