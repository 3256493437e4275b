"""A private SQLite file: created whole, opened only if its owner alone can have written it, refused once replaced.

`SqliteFile` opens a connection per use. `SharedSqliteFile` keeps connections open, because opening one costs more than
a write. It therefore also handles forks, and files that were moved or replaced while they were open.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Condition, Lock
from time import time_ns
from typing import NamedTuple

from lockgate.core.errors import LockgateError, quoted
from lockgate.runtime.forks import watch_forks
from lockgate.runtime.private_files import PrivateFileKind

# Some file systems count time in steps of two seconds: a younger change of a folder may hide another one.
_TICK_NS = 5_000_000_000


# What each of our database files is, by the mark in it.
FILES_OF_LOCKGATE = {
    0x6C6B6761: "a store of approvals",
    0x6C6B6762: "a file of bans",
    0x6C6B6763: "a store of carried texts",
    0x6C6B676A: "a log of lockgate's",
    0x6C6B6773: "a file of sessions",
}
SWAPPED = "it stands in the place of another file: put each back under its own name, and delete neither"


class DatabaseKind(NamedTuple):
    """One kind of database file: how it is recognised, made and checked, and how its errors read.

    `title` begins every error text, with the path in place of `{}`; `noun` completes "is not …".
    """

    private: PrivateFileKind
    title: str
    noun: str
    application_id: int
    version: int
    tables: str
    pragmas: tuple[tuple[str, object], ...]
    busy_s: float
    error: type[LockgateError] = LockgateError
    damaged: type[LockgateError] = LockgateError
    # What to do about a damaged or foreign file, and about one that was replaced.
    start_over: str = ""
    replaced_hint: str = ""

    @property
    def schema(self) -> str:
        """The statements that make the file."""
        marks = f"PRAGMA application_id = {self.application_id};\nPRAGMA user_version = {self.version};\n"
        return marks + self.tables


class SqliteFile:
    """A private database file that is opened for each use."""

    def __init__(
        self, path: Path, kind: DatabaseKind, *, verify: Callable[[sqlite3.Connection], None] = lambda _: None
    ) -> None:
        self.path = path
        self.kind = kind
        # The store's own check of a file that was opened.
        self._verify = verify
        # How long to wait for other processes.
        self.busy_s = kind.busy_s

    def exists(self) -> bool:
        """Return whether there is something at the path."""
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            raise self.error_from(error) from None
        return True

    def create(self, prepare: Callable[[sqlite3.Connection], None] = lambda _: None) -> None:
        """Create the file with its tables if it does not exist. Other processes see none of it or all of it."""
        if os.path.lexists(self.path):
            return
        try:
            # If another process is faster, its file is as good as ours.
            with (
                suppress(FileExistsError),
                self.kind.private.create_whole(self.path) as new,
                closing(sqlite3.connect(new, isolation_level=None)) as db,
            ):
                db.execute("PRAGMA synchronous = FULL")
                db.executescript(f"BEGIN; {self.kind.schema} COMMIT;")
                prepare(db)
                # Last: in this mode the tables would be in a second file until the connection closes, which may fail
                # silently. The statement returns the mode, and does not fail where it could not be set.
                if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                    raise self.error("cannot be made with a write-ahead log on this disk")
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self.error_from(error, "cannot be made") from error

    def check(self) -> os.stat_result:
        """Return the file's status; raise unless its owner alone can have written the file and its folder."""
        try:
            return self.kind.private.check_database(self.path)
        except FileNotFoundError:
            raise self.error("is not there") from None

    def connect(self) -> sqlite3.Connection:
        """Open the file, which must be ours, of this version, and pass the store's check."""
        before = self.check()
        with ExitStack() as failed:
            db = sqlite3.connect(self.path, timeout=self.busy_s, isolation_level=None, check_same_thread=False)
            failed.callback(db.close)
            for name, value in self.kind.pragmas:
                db.execute(f"PRAGMA {name} = {value}")
            application_id, version = (
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            if application_id != self.kind.application_id:
                other = FILES_OF_LOCKGATE.get(application_id, "")
                if other:
                    raise self.damage(f"is {other}, and not {self.kind.noun}", hint=SWAPPED)
                raise self.damage(f"is not {self.kind.noun}")
            if version != self.kind.version:
                raise self.error("was made by another version of lockgate", hint=self.kind.start_over)
            self._verify(db)
            # SQLite opens files by name: they must be those that were checked.
            if not os.path.samestat(before, self.check()):
                raise self.damage("was replaced while it was opened")
            failed.pop_all()
        return db

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one use; raise `kind.error` for errors of SQLite and of the system."""
        try:
            with closing(self.connect()) as db:
                yield db
        except (sqlite3.Error, OSError) as error:
            raise self.error_from(error) from error

    def error(self, why: str, *, hint: str = "") -> LockgateError:
        """Return an error about this file."""
        return self.kind.error(f"{self.kind.title.format(quoted(self.path, 200))} {why}", hint=hint)

    def damage(self, why: str, *, hint: str = "") -> LockgateError:
        """Return an error about a file that is damaged or not ours."""
        said = f"{self.kind.title.format(quoted(self.path, 200))} {why}"
        return self.kind.damaged(said, hint=hint or self.kind.start_over)

    def busy_error(self) -> LockgateError:
        """Return the error for a file that other processes use for too long."""
        return self.error(f"was busy for {self.busy_s:g} seconds", hint="try again")

    def error_from(self, error: Exception, what: str = "cannot be used") -> LockgateError:
        """Return our error for one of SQLite or of the system."""
        said, name = str(getattr(error, "strerror", None) or error).lower(), getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self.busy_error()
        if name.startswith("SQLITE_CONSTRAINT") and self.kind.damaged is not self.kind.error:
            return self.damage(f"does not take what comes next: {said}")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or type(error) is sqlite3.DatabaseError:
            return self.damage(f"is damaged, or not {self.kind.noun}")
        return self.error(f"{what}: {said}")


class SharedSqliteFile(SqliteFile):
    """A private database file with connections that stay open: one that writes, and up to `max_idle` that read.

    Hold `writing` while you use the writer.
    """

    def __init__(
        self,
        path: Path,
        kind: DatabaseKind,
        *,
        verify: Callable[[sqlite3.Connection], None] = lambda _: None,
        max_idle: int = 0,
        quiet_s: float | None = None,
    ) -> None:
        super().__init__(path, kind, verify=verify)
        # As text, once: every write looks at these names.
        self._names = tuple(f"{path}{ending}" for ending in ("", "-wal", "-shm"))
        self._folder = str(path.parent)
        self._max_idle = max_idle
        # How long a fork waits for readers; by default as long as for other processes.
        self.quiet_s = quiet_s
        # In a forked child, if the parent could not close the file: what SQLite remembers of its locks is wrong there.
        self._unusable = False
        self._abandoned = False
        self._reset()
        watch_forks(self)

    def _reset(self) -> None:
        # Held by the thread that writes.
        self.writing = Lock()
        self.writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._reading = Condition(Lock())
        self._readers = 0
        # The files that the connections belong to, and the folder's state when they were last compared.
        self._files: tuple[tuple[int, int], ...] = ()
        self._quiet: tuple[int, ...] = ()

    def connect(self) -> sqlite3.Connection:
        """Open the file, unless this process is a fork that must not use it."""
        if self._unusable:
            raise self.error(
                "was in use by the process this one was forked from", hint="fork before, or start another process"
            )
        return super().connect()

    @property
    def is_open(self) -> bool:
        """Whether a connection is open."""
        return self.writer is not None or bool(self._idle)

    def open_writer(self, create: Callable[[], None]) -> sqlite3.Connection:
        """Return the connection that writes; if none is open, `create` is called first. Hold `writing`."""
        if self.writer is None:
            create()
            self.writer = self.connect()
            self._files, self._quiet = self._identities(), ()
        self.refuse_replaced()
        return self.writer

    def close_writer(self) -> None:
        """Close the connection that writes, which rolls back an open transaction. Hold `writing`."""
        db, self.writer = self.writer, None
        if db is not None:
            _close(db)

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for one reader; keep it for the next one unless the block raises."""
        with self._reading:
            self._readers += 1
        try:
            with ExitStack() as failed:
                try:
                    db = self._idle.pop()
                except IndexError:
                    db = self.connect()
                failed.callback(_close, db)
                yield db
                if len(self._idle) < self._max_idle:
                    failed.pop_all()
                    self._idle.append(db)
        finally:
            with self._reading:
                self._readers -= 1
                self._reading.notify_all()

    def refuse_replaced(self) -> None:
        """Raise if the file was moved or replaced: a write to it would be acknowledged and lost."""
        try:
            # A folder's times change when a name in it comes, goes, or leads to another file. As long as they are the
            # same, one look is enough. A change within the clock's tick would not show, so it must be older.
            folder = os.stat(self._folder)
            changed = (folder.st_mtime_ns, folder.st_ctime_ns, folder.st_ino, folder.st_dev)
            if changed == self._quiet:
                return
            same = self._identities() == self._files
            self._quiet = changed if same and time_ns() - max(changed[:2]) > _TICK_NS else ()
        except FileNotFoundError:
            same = False
        if not same:
            self._abandon_all()
            raise self.damage("was moved or replaced while it was in use", hint=self.kind.replaced_hint)

    def close(self) -> None:
        """Close all connections. A later use opens new ones."""
        with self.writing:
            self._close_all()

    def _identities(self) -> tuple[tuple[int, int], ...]:
        return tuple((each.st_dev, each.st_ino) for each in map(os.lstat, self._names))

    def _close_all(self) -> None:
        if self.writer is not None:
            try:
                same = self._identities() == self._files
            except OSError:
                same = False
            if not same:
                self._abandon_all()
        self.close_writer()
        idle, self._idle = self._idle, []
        for db in idle:
            _close(db)

    def _abandon_all(self) -> None:
        """Give up all connections without ever closing them, not even when the process ends.

        The last connection that closes removes the write-ahead log *by name*: after the file was replaced, that would
        be the new file's.
        """
        connections, self.writer, self._idle = [self.writer, *self._idle], None, []
        for db in connections:
            if db is not None:
                from ctypes import py_object, pythonapi

                pythonapi.Py_IncRef(py_object(db))
                self._abandoned = True

    # Forks, see `forks.watch_forks`

    def _quieten(self) -> bool:
        # A thread may hold the lock and wait for the fork: then this fails, and the child is refused.
        if not self.writing.acquire(timeout=self.busy_s):
            return False
        self._reading.acquire()
        quiet = False
        try:
            quiet = self._reading.wait_for(
                lambda: not self._readers, self.busy_s if self.quiet_s is None else self.quiet_s
            )
            if quiet:
                self._close_all()
        finally:
            if not quiet:
                self._go_on()
        return quiet

    def _go_on(self) -> None:
        self._reading.release()
        self.writing.release()

    def _start_anew(self, *, quiet: bool) -> None:
        if not quiet or self._abandoned:
            self._unusable = True
            self._abandon_all()
        self._reset()


def _close(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        db.close()
