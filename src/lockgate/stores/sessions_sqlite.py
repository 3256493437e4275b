"""Sessions in a file that several processes share.

One writer at a time, so that `seq` is the order in which entries can be read. A commit is in the hands of the system
when it is acknowledged: a killed process loses nothing, a power cut may lose the last moments, in which the agents
that this was about died as well. What has to outlive that is in the journal.

Connections are kept, because opening one costs more than a ruling. SQLite remembers per process which locks it holds,
and a child would inherit that memory and not the locks: so before a fork every connection is closed.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock

from lockgate.core.errors import SessionsUnavailable, quoted
from lockgate.private_files import Private
from lockgate.stores.sessions_sql import TABLES, Database, SqlSessions

# "lkgs": other programs' databases are refused, and ours is known to tools that look.
_APPLICATION = 0x6C6B6773
_VERSION = 1
_BUSY_S = 5.0
_MAX_IDLE = 8
_FILE = Private("the sessions", "rule on calls in your name, and read what your agents read", "sessions", secret=True)

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
        _all.add(self)

    def _forget(self) -> None:
        # Owner: whoever writes; of the connections, whoever has taken one out of the list.
        self._writing = Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._counting = Lock()
        self._busy = 0
        self._file: tuple[int, int] | None = None

    def close(self) -> None:
        with self._writing:
            self._let_go()

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        places = ", ".join("?" * len(values))
        return int(db.execute(f"INSERT INTO entries ({columns}) VALUES ({places})", values).lastrowid)  # noqa: S608

    # The file

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One change, whole or not at all, with every other writer kept out from the first read on."""
        with self._failing(), self._writing:
            db = self._writer
            if db is None:
                self._make()
                db = self._writer = self._connected()
            try:
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

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection of one's own; None while there is no file yet."""
        with self._failing(), self._counted():
            try:
                db: sqlite3.Connection | None = self._idle.pop()
            except IndexError:
                db = None
            if db is None:
                if not os.path.lexists(self._name):
                    yield None
                    return
                db = self._connected()
            try:
                yield db
            except BaseException:
                _close(db)
                raise
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(db)
            else:
                _close(db)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._counting:
            self._busy += 1
        try:
            yield
        finally:
            with self._counting:
                self._busy -= 1

    def _connected(self) -> sqlite3.Connection:
        if self._unfit:
            raise self._refused(
                "was in use by the process this one was forked from", hint="fork before, or start another process"
            )
        before = _FILE.check_database(self.path)
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            for name, value in _PRAGMAS:
                db.execute(f"PRAGMA {name} = {value}")
            marks = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if marks[0] != _APPLICATION:
                raise self._refused("is not a file of sessions", hint=_ANEW)
            if marks[1] != _VERSION:
                raise self._refused("was made by another version of lockgate", hint=_ANEW)
            # What SQLite has opened by name has to be what was looked at.
            if not os.path.samestat(before, _FILE.check_database(self.path)):
                raise self._refused("was replaced while it was opened")
            self._file = before.st_dev, before.st_ino
        except BaseException:
            db.close()
            raise
        return db

    def _refuse_replaced(self) -> None:
        """What is kept in a file that was moved away would be acknowledged and lost."""
        status = os.stat(self._name)
        if (status.st_dev, status.st_ino) != self._file:
            # Not closed, ever: that would remove the new file's write-ahead log, which has the same name.
            _abandoned.extend((self._writer, *self._idle))
            self._writer, self._idle = None, []
            raise self._refused("was moved or replaced while it was in use", hint="try again")

    def _make(self) -> None:
        """The file with its tables, put in place whole: another process sees either none of it or all of it."""
        if os.path.lexists(self._name):
            return
        with (
            suppress(FileExistsError),
            _FILE.made(self.path) as new,
            closing(sqlite3.connect(new, isolation_level=None)) as db,
        ):
            db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise self._refused("cannot be made with a write-ahead log on this disk")

    def _let_go(self) -> None:
        connections, self._writer, self._idle = [self._writer, *self._idle], None, []
        for db in connections:
            if db is not None:
                _close(db)

    def _quieten(self) -> bool:
        """Before a fork: wait until nobody uses the file, and close it. False if that did not come about in time."""
        if not self._writing.acquire(timeout=_BUSY_S):
            return False
        self._counting.acquire()
        if self._busy:
            self._go_on()
            return False
        self._let_go()
        return True

    def _go_on(self) -> None:
        self._counting.release()
        self._writing.release()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What goes wrong, in our words."""
        try:
            yield
        except sqlite3.Error as error:
            name, said = getattr(error, "sqlite_errorname", ""), str(error).lower()
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise self._refused(f"was busy for {_BUSY_S:.0f} seconds", hint="try again") from error
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or type(error) is sqlite3.DatabaseError:
                raise self._refused("is damaged, or no file of sessions", hint=_ANEW) from error
            raise self._refused(f"cannot be used: {said}") from error
        except (OSError, ValueError) as error:
            said = str(getattr(error, "strerror", None) or error).lower()
            raise self._refused(f"cannot be used: {said}") from error

    def _refused(self, why: str, *, hint: str = "") -> SessionsUnavailable:
        return SessionsUnavailable(f"the sessions in {quoted(self.path, 200)}: the file {why}", hint=hint)


_ANEW = "move the file away to begin anew: the context of sessions that go on is then not known"


def _close(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        db.close()


_all: weakref.WeakSet[SqliteSessions] = weakref.WeakSet()
_abandoned: list[object] = []
# Owner: whoever is forking.
_forking = Lock()
_quiet: list[SqliteSessions] = []


def _before_fork() -> None:
    _forking.acquire()
    _quiet.extend(each for each in list(_all) if each._quieten())


def _in_parent() -> None:
    while _quiet:
        _quiet.pop()._go_on()
    _forking.release()


def _in_child() -> None:
    global _forking
    _forking = Lock()
    for each in list(_all):
        if each not in _quiet:
            each._unfit = True
            _abandoned.extend((each._writer, *each._idle))
        each._forget()
    _quiet.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
