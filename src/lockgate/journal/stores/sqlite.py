"""The journal's log in a file that several processes share.

One connection is kept for writing, because opening one costs more than an append; so what the file's name leads to is
looked at before and after each transaction. An append to a file that was moved away would be acknowledged and lost.

Whoever can write the file can write a log, so it is used only where nobody but its owner can write it or its folder.
The triggers stop accidents, not people: those are found by the heads and the seals. What else somebody has put into the
file could change what we write on its way, so that a file with more or less in it than we made is refused.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Condition, Lock
from time import time_ns

from lockgate.core.errors import JournalDamaged, JournalUnavailable, quoted
from lockgate.core.journal.merkle import HASH, Frontier, Tile
from lockgate.journal.log import Head, LogRow, Shard
from lockgate.runtime.forks import watch_forks
from lockgate.runtime.private_files import PrivateFileKind

# "lkgj": other programs' databases are refused, and ours is known to tools that look.
_APPLICATION = 0x6C6B676A
_VERSION = 2
_BUSY_S = 5.0
_FILE = PrivateFileKind("the log", "write anything into it", "log", JournalUnavailable)
# Beyond this much, what is in the write-ahead log is moved into the file by `tidy`; at four times that, by an append.
_TIDY_BYTES = 1 << 20
_TIDY_PAGES = 1024
# Some file systems count in steps of two seconds.
_TICK_NS = 5_000_000_000

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE shards (
    number INTEGER PRIMARY KEY,
    vkey TEXT NOT NULL UNIQUE,
    edge BLOB NOT NULL,
    signed_edge BLOB NOT NULL,
    pruned INTEGER NOT NULL DEFAULT 0,
    seal BLOB NOT NULL
);
CREATE TABLE leaves (
    shard INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = {HASH}),
    PRIMARY KEY (shard, number)
) WITHOUT ROWID;
CREATE TABLE tiles (
    shard INTEGER NOT NULL,
    level INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = {HASH}),
    PRIMARY KEY (shard, level, number)
) WITHOUT ROWID;
CREATE TABLE bodies (
    shard INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (shard, number)
) WITHOUT ROWID;
CREATE TABLE heads (
    shard INTEGER NOT NULL,
    size INTEGER NOT NULL,
    note BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (shard, size)
) WITHOUT ROWID;
CREATE TRIGGER shards_stay BEFORE DELETE ON shards BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER shards_grow BEFORE UPDATE OF edge ON shards WHEN substr(NEW.edge, 1, 8) <= substr(OLD.edge, 1, 8)
BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER shards_keep BEFORE UPDATE OF number, vkey, signed_edge, pruned ON shards
WHEN NEW.number <> OLD.number OR NEW.vkey <> OLD.vkey OR NEW.pruned < OLD.pruned
    OR (NEW.signed_edge <> OLD.signed_edge AND substr(NEW.signed_edge, 1, 8) <= substr(OLD.signed_edge, 1, 8))
BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER leaves_stay BEFORE DELETE ON leaves BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER leaves_keep BEFORE UPDATE ON leaves BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER tiles_stay BEFORE DELETE ON tiles BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER tiles_keep BEFORE UPDATE ON tiles BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER bodies_stay BEFORE DELETE ON bodies
WHEN OLD.number >= (SELECT pruned FROM shards WHERE number = OLD.shard)
BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER bodies_keep BEFORE UPDATE ON bodies BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER heads_stay BEFORE DELETE ON heads BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER heads_keep BEFORE UPDATE ON heads BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
"""  # noqa: S608
_SHARD = "SELECT number, vkey, edge, signed_edge, pruned, seal FROM shards"


class SqliteLogReader:
    """The log as one transaction sees it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def shards(self) -> list[Shard]:
        return [_shard(row) for row in self._db.execute(f"{_SHARD} ORDER BY number")]

    def current(self) -> Shard | None:
        row = self._db.execute(f"{_SHARD} ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else _shard(row)

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._select_numbered("SELECT number, hash FROM leaves WHERE shard = ?", (shard,), start, stop)

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        select = "SELECT number, hash FROM tiles WHERE shard = ? AND level = ?"
        return self._select_numbered(select, (shard, level), start, stop)

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._select_numbered("SELECT number, body FROM bodies WHERE shard = ?", (shard,), start, stop)

    def _select_numbered(self, select: str, of: tuple[int, ...], start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        rows = self._db.execute(f"{select} AND number >= ? AND number < ? ORDER BY number", (*of, start, stop))
        for number, data in rows:
            yield _integer(number), _bytes(data)

    def newest(self, shard: int) -> Head | None:
        row = self._db.execute(
            "SELECT size, note, at_ms FROM heads WHERE shard = ? ORDER BY size DESC LIMIT 1", (shard,)
        ).fetchone()
        return None if row is None else _head(row)

    def heads(self, shard: int) -> Iterator[Head]:
        for row in self._db.execute("SELECT size, note, at_ms FROM heads WHERE shard = ? ORDER BY size", (shard,)):
            yield _head(row)


class SqliteLogWriter(SqliteLogReader):
    def open_shard(self, vkey: str) -> Shard:
        newest = self.current()
        empty = Frontier().to_bytes()
        shard = Shard(newest.number + 1 if newest else 1, vkey, empty, empty, 0)
        self._db.execute("INSERT INTO shards VALUES (?, ?, ?, ?, ?, ?)", shard)
        return shard

    def append(self, shard: Shard, rows: Sequence[LogRow], edge: bytes, tiles: Sequence[Tile], seal: bytes) -> bool:
        # One cursor, and row by row: most appends are of one record, and this is in the way of every call. Python looks
        # in several places for what bytes might have to be turned into first, but not for a bytearray.
        run, number = self._db.cursor().execute, shard.number
        changed = run(
            "UPDATE shards SET edge = ?, seal = ? "
            "WHERE number = ? AND edge = ? AND number = (SELECT max(number) FROM shards)",
            (bytearray(edge), bytearray(seal), number, bytearray(shard.edge)),
        )
        if changed.rowcount != 1:
            return False
        for at, row in enumerate(rows, shard.size):
            kept = run("INSERT INTO leaves VALUES (?, ?, ?)", (number, at, bytearray(row.leaf))).rowcount
            kept += run("INSERT INTO bodies VALUES (?, ?, ?)", (number, at, bytearray(row.body))).rowcount
            if kept != 2:
                raise JournalDamaged("the log does not keep what is put into it", hint=_ANEW)
        for tile in tiles:
            run("INSERT INTO tiles VALUES (?, ?, ?, ?)", (number, *tile))
        return True

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        if self._db.execute("INSERT INTO heads VALUES (?, ?, ?, ?)", (shard, *head)).rowcount != 1:
            raise JournalDamaged("the log does not keep what is put into it", hint=_ANEW)
        self._change("UPDATE shards SET signed_edge = ? WHERE number = ?", edge, shard)

    def prune(self, shard: int, before: int, seal: bytes) -> None:
        self._change("UPDATE shards SET pruned = max(pruned, ?), seal = ? WHERE number = ?", before, seal, shard)

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        statement = "DELETE FROM bodies WHERE shard = ? AND number = ?"
        self._db.executemany(statement, [(shard, index) for index in indexes])

    def _change(self, statement: str, *values: object) -> None:
        if self._db.execute(statement, values).rowcount != 1:
            raise JournalDamaged("the shard that was written to is gone, or closed")


class SqliteLog:
    """A log in one file. The file and its folder are made when something is first written.

    A durable transaction is synced to the disk before it is acknowledged (`synchronous = FULL`), and with it all that
    was written before. Others are in the hands of the system (`NORMAL`): a killed process loses none of them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # As text, once: this is looked at twice in every append.
        self._names = tuple(f"{path}{ending}" for ending in ("", "-wal", "-shm"))
        self._folder = str(path.parent)
        # What SQLite remembers of the file is its parent's: a forked child must not touch it.
        self._unfit = False
        self._abandoned = False
        self._forget()
        watch_forks(self)

    def _forget(self) -> None:
        # Owner: whoever is in a transaction of this process.
        self._lock = Lock()
        # How many connections there are besides that one.
        self._others = 0
        self._looking = Condition()
        self._db: sqlite3.Connection | None = None
        self._files: tuple[tuple[int, int], ...] = ()
        self._quiet: tuple[int, ...] = ()
        self._synchronous = ""
        # A sync has failed: the system may have dropped what it could not write, and says so only once.
        self._suspect = False

    @contextmanager
    def reading(self) -> Iterator[SqliteLogReader]:
        try:
            with self._other() as db:
                db.execute("BEGIN")
                yield SqliteLogReader(db)
        except _FAILURES as error:
            raise self._failed(error) from error

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[SqliteLogWriter]:
        with self._lock:
            try:
                db = self._ready(durable=durable)
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield SqliteLogWriter(db)
                    db.execute("COMMIT")
                except BaseException as error:
                    self._suspect = self._suspect or "IOERR" in getattr(error, "sqlite_errorname", "")
                    self._roll_back(db)
                    raise
                self._refuse_replaced()
            except _FAILURES as error:
                raise self._failed(error) from error

    def tidy(self) -> None:
        with suppress(OSError, sqlite3.Error, JournalUnavailable):
            if self._beside("-wal").stat().st_size > _TIDY_BYTES:
                with self._other() as db:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        db, self._db = self._db, None
        if db is None:
            return
        try:
            same = self._identities() == self._files
        except OSError:
            same = False
        if same:
            with suppress(sqlite3.Error):
                db.close()
        else:
            self._abandon(db)

    def _abandon(self, db: sqlite3.Connection) -> None:
        """Never close it, not even when the process ends.

        The last one to close a database removes the write-ahead log *by name*: after the file was replaced, that of
        the new one.
        """
        from ctypes import py_object, pythonapi

        pythonapi.Py_IncRef(py_object(db))
        self._abandoned = True

    @contextmanager
    def _other(self) -> Iterator[sqlite3.Connection]:
        """A connection besides the one that is kept."""
        with self._looking:
            self._others += 1
        try:
            with closing(self._connected()) as db:
                yield db
        finally:
            with self._looking:
                self._others -= 1
                self._looking.notify_all()

    def _quieten(self) -> bool:
        # It may not come about: by somebody who waits for the fork, say.
        if not self._lock.acquire(timeout=_BUSY_S):
            return False
        self._looking.acquire()
        quiet = False
        try:
            quiet = self._looking.wait_for(lambda: not self._others, _BUSY_S)
            if quiet:
                self._let_go()
        finally:
            if not quiet:
                self._go_on()
        return quiet

    def _go_on(self) -> None:
        self._looking.release()
        self._lock.release()

    def _start_anew(self, *, quiet: bool) -> None:
        if not quiet or self._abandoned:
            self._unfit = True
            if self._db is not None:
                self._abandon(self._db)
        self._forget()

    def _ready(self, *, durable: bool) -> sqlite3.Connection:
        if self._db is None:
            self._make()
            db = self._connected()
            self._db, self._files, self._quiet, self._synchronous = db, self._identities(), (), ""
        self._refuse_replaced()
        db = self._db
        if self._suspect:
            # Everything the write-ahead log holds is read from memory still: put it where no sync has failed.
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if busy:
                raise self._refused("had an input/output error, and is in use: it cannot be made safe")
            self._suspect = False
        level = "FULL" if durable else "NORMAL"
        if self._synchronous != level:
            db.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level
        return db

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file that was looked at, with nobody else's database behind it."""
        if self._unfit:
            raise self._refused(
                "was in use by the process this one was forked from", hint="fork before, or start another process"
            )
        before = self._checked()
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            for name, value in (
                ("synchronous", "FULL"),
                ("secure_delete", "ON"),
                ("trusted_schema", "OFF"),
                ("wal_autocheckpoint", 4 * _TIDY_PAGES),
                # Without these a sync on macOS ends in the disk's own memory.
                *((("fullfsync", "ON"), ("checkpoint_fullfsync", "ON")) if sys.platform == "darwin" else ()),
            ):
                db.execute(f"PRAGMA {name} = {value}")
            marks = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if marks[0] != _APPLICATION:
                raise self._broken("is not a log of lockgate's")
            if marks[1] != _VERSION:
                raise self._refused("was made by another version of lockgate", hint=_ANEW)
            if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                raise self._broken("is not in the mode it was made in")
            # Opens the files beside it, so that they can be looked at.
            if wrong := find_schema_changes(db):
                raise self._broken(wrong[0])
            # What SQLite has opened by name has to be what was looked at.
            if not os.path.samestat(before, self._checked()):
                raise self._broken("was replaced while it was opened")
        except BaseException:
            db.close()
            raise
        return db

    def _refuse_replaced(self) -> None:
        try:
            # A folder notes when a name in it came, went, or was given to another file: while it has not, one look at
            # it is enough. Within the same tick of its clock it could not tell, so that has to be long over.
            folder = os.stat(self._folder)
            changed = (folder.st_mtime_ns, folder.st_ctime_ns, folder.st_ino, folder.st_dev)
            if changed == self._quiet:
                return
            same = self._identities() == self._files
            self._quiet = changed if same and time_ns() - max(changed[:2]) > _TICK_NS else ()
        except FileNotFoundError:
            same = False
        if not same:
            db, self._db = self._db, None
            if db is not None:
                self._abandon(db)
            raise self._broken("was moved or replaced while it was in use")

    def _identities(self) -> tuple[tuple[int, int], ...]:
        return tuple((each.st_dev, each.st_ino) for each in map(os.lstat, self._names))

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _roll_back(self, db: sqlite3.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            # Closing takes back what is open.
            self._db = None
            with suppress(sqlite3.Error):
                db.close()

    def _checked(self) -> os.stat_result:
        """The file's status, if nobody else can have written it or put it there."""
        try:
            return _FILE.check_database(self.path)
        except FileNotFoundError:
            raise self._refused("is not there") from None

    def _make(self) -> None:
        """The file with its tables, put in place whole: another process sees either none of it or all of it."""
        if os.path.lexists(self.path):
            return
        # Whoever was quicker made as good a one.
        with (
            suppress(FileExistsError),
            _FILE.create_whole(self.path) as new,
            closing(sqlite3.connect(new, isolation_level=None)) as db,
        ):
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            # Last, or the tables would be in a file beside this one until it is closed, which may fail unheard.
            # It says what it did, and does not fail where it could not.
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise self._refused("cannot be made with a write-ahead log on this disk")

    def _refused(self, why: str, *, hint: str = "") -> JournalUnavailable:
        return JournalUnavailable(f"the log {quoted(self.path, 200)} {why}", hint=hint)

    def _broken(self, why: str) -> JournalDamaged:
        return JournalDamaged(f"the log {quoted(self.path, 200)} {why}", hint=_ANEW)

    def _failed(self, error: Exception) -> JournalUnavailable:
        """What went wrong, in our words."""
        said, name = str(getattr(error, "strerror", None) or error).lower(), getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self._refused(f"was busy for {_BUSY_S:.0f} seconds", hint="try again")
        if name.startswith("SQLITE_CONSTRAINT"):
            return self._broken(f"does not take what comes next: {said}")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or type(error) is sqlite3.DatabaseError:
            return self._broken("is damaged, or no log")
        return self._refused(f"cannot be used: {said}")


_FAILURES = (sqlite3.Error, OSError, ValueError)
_OURS = ("shards", "leaves", "tiles", "bodies", "heads")
_ANEW = "keep the file as it is, and look at it with `lockgate audit verify`; a new log needs another place"


def find_schema_changes(db: sqlite3.Connection) -> list[str]:
    """What is in the file besides what we made, and what is not; a trigger could eat what we write."""
    found, made = _schema(db), _expected_schema()
    names = {part[1] for part in found}
    return [
        # Counted: of two by one name, each would hide the other.
        *(f"holds something that is not ours: {quoted(str(part[1]))}" for part in found - made),
        *(f"has lost a part: {quoted(str(part[1]))}" for part in made if part[1] not in names),
    ]


def _schema(db: sqlite3.Connection) -> Counter[tuple[object, ...]]:
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")
    return Counter(row for row in rows if not _is_made_by_sqlite(*row))


def _is_made_by_sqlite(kind: object, name: object, table: object, made: object) -> bool:
    """Whether SQLite made this for itself. Its names alone say nothing: who can write the file can use them too."""
    if kind == "index":
        return (
            made is None and table in _OURS and re.fullmatch(rf"sqlite_autoindex_{table}_[0-9]+", str(name)) is not None
        )
    plain = str(made).startswith(f"CREATE TABLE {name}(")
    return kind == "table" and plain and re.fullmatch("sqlite_(sequence|stat[0-9])", str(name)) is not None


@cache
def _expected_schema() -> Counter[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA)
        return _schema(db)


def _shard(row: tuple[object, ...]) -> Shard:
    number, vkey, edge, signed_edge, pruned, seal = row
    if not isinstance(vkey, str):
        raise JournalDamaged("the log's key is no text")
    return Shard(_integer(number), vkey, _bytes(edge), _bytes(signed_edge), _integer(pruned), _bytes(seal))


def _head(row: tuple[object, ...]) -> Head:
    size, note, at_ms = row
    return Head(_integer(size), _bytes(note), _integer(at_ms))


# SQLite keeps in any column whatever somebody writes there.


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise JournalDamaged("the log has something else where a number should be")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise JournalDamaged("the log has something else where bytes should be")
    return value
