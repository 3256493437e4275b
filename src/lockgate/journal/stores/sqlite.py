"""The journal's log in a SQLite file that several processes share.

An attacker who can write the file can write a log, so it is used only if its owner alone can write the file and its
folder. The triggers prevent accidents, not attacks: heads and seals reveal those. Foreign triggers or views could
change what we write, so a file with more or less in it than our schema is refused.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from lockgate.core.errors import JournalDamaged, JournalUnavailable, quoted
from lockgate.journal.log import Head, LogRow, Shard
from lockgate.journal.merkle import HASH, Frontier, Tile
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.sqlite_file import DatabaseKind, SharedSqliteFile

# Beyond this much, `tidy` moves the write-ahead log into the file; at four times that, an append does.
_TIDY_BYTES = 1 << 20
_TIDY_PAGES = 1024

_TABLES = f"""
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
        # One cursor, row by row: most appends have one record, and every call waits for this. Python first looks for
        # an adapter for `bytes`, but not for a `bytearray`.
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
                raise JournalDamaged("the log lost a row it just wrote", hint=_KIND.start_over)
        for tile in tiles:
            run("INSERT INTO tiles VALUES (?, ?, ?, ?)", (number, *tile))
        return True

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        if self._db.execute("INSERT INTO heads VALUES (?, ?, ?, ?)", (shard, *head)).rowcount != 1:
            raise JournalDamaged("the log lost a row it just wrote", hint=_KIND.start_over)
        self._change("UPDATE shards SET signed_edge = ? WHERE number = ?", edge, shard)

    def prune(self, shard: int, before: int, seal: bytes) -> None:
        self._change("UPDATE shards SET pruned = max(pruned, ?), seal = ? WHERE number = ?", before, seal, shard)

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        statement = "DELETE FROM bodies WHERE shard = ? AND number = ?"
        self._db.executemany(statement, [(shard, index) for index in indexes])

    def _change(self, statement: str, *values: object) -> None:
        if self._db.execute(statement, values).rowcount != 1:
            raise JournalDamaged("the shard that was written to is gone, or closed")


# "lkgj" identifies our files, to us and to tools that show it.
_KIND = DatabaseKind(
    private=PrivateFileKind("the log", "write anything into it", "log", JournalUnavailable),
    title="the log {}",
    noun="a log of lockgate's",
    application_id=0x6C6B676A,
    version=2,
    tables=_TABLES,
    pragmas=(
        ("synchronous", "FULL"),
        ("secure_delete", "ON"),
        ("trusted_schema", "OFF"),
        ("wal_autocheckpoint", 4 * _TIDY_PAGES),
        # Without these a sync on macOS ends in the disk's own memory.
        *((("fullfsync", "ON"), ("checkpoint_fullfsync", "ON")) if sys.platform == "darwin" else ()),
    ),
    busy_s=5.0,
    error=JournalUnavailable,
    damaged=JournalDamaged,
    start_over="keep the file as it is, and look at it with `lockgate audit verify`; a new log needs another place",
)


class SqliteLog:
    """A log in one file. The first write creates the file and its folder.

    A durable transaction is synced to the disk before it is acknowledged (`synchronous = FULL`), and with it all that
    was written before. Other transactions are in the hands of the system (`NORMAL`): a killed process loses none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SharedSqliteFile(path, _KIND, verify=self._check_opened)
        # The connection that was configured last, and its level of synchronisation.
        self._configured: sqlite3.Connection | None = None
        self._synchronous = ""
        # A sync has failed: the system may have dropped what it could not write, and reports that only once.
        self._suspect = False

    def _check_opened(self, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raise self._file.damage("is not in the mode it was made in")
        # Reading the schema opens the files beside the database, so that they are checked afterwards.
        if wrong := find_schema_changes(db):
            raise self._file.damage(wrong[0])

    @contextmanager
    def reading(self) -> Iterator[SqliteLogReader]:
        try:
            with self._file.reader() as db:
                db.execute("BEGIN")
                yield SqliteLogReader(db)
        except _FAILURES as error:
            raise self._file.error_from(error) from error

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[SqliteLogWriter]:
        with self._file.writing:
            try:
                db = self._prepare_writer(durable=durable)
                db.execute("BEGIN IMMEDIATE")
                with ExitStack() as failed:
                    failed.push(self._note_failed_sync)
                    failed.callback(self._roll_back, db)
                    yield SqliteLogWriter(db)
                    db.execute("COMMIT")
                    failed.pop_all()
                self._file.refuse_replaced()
            except _FAILURES as error:
                raise self._file.error_from(error) from error

    def tidy(self) -> None:
        with suppress(OSError, sqlite3.Error, JournalUnavailable):
            if os.stat(f"{self.path}-wal").st_size > _TIDY_BYTES:
                with self._file.reader() as db:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        self._file.close()

    def _prepare_writer(self, *, durable: bool) -> sqlite3.Connection:
        db = self._file.open_writer(self._file.create)
        if db is not self._configured:
            self._configured, self._synchronous = db, ""
        if self._suspect:
            # The write-ahead log is still complete in memory: move it to a file whose sync has not failed.
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if busy:
                raise self._file.error("had an input/output error, and is in use: it cannot be made safe")
            self._suspect = False
        level = "FULL" if durable else "NORMAL"
        if self._synchronous != level:
            db.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level
        return db

    def _note_failed_sync(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self._suspect = self._suspect or "IOERR" in getattr(error, "sqlite_errorname", "")

    def _roll_back(self, db: sqlite3.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self._file.close_writer()


_FAILURES = (sqlite3.Error, OSError, ValueError)
_OURS = ("shards", "leaves", "tiles", "bodies", "heads")


def find_schema_changes(db: sqlite3.Connection) -> list[str]:
    """Return what the file contains besides our schema, and what it lacks of it: a trigger could drop what we write."""
    found, made = _schema(db), _expected_schema()
    names = {part[1] for part in found}
    return [
        # Counted: of two parts with one name, each would hide the other.
        *(f"holds something that is not ours: {quoted(str(part[1]))}" for part in found - made),
        *(f"has lost a part: {quoted(str(part[1]))}" for part in made if part[1] not in names),
    ]


def _schema(db: sqlite3.Connection) -> Counter[tuple[object, ...]]:
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")
    return Counter(row for row in rows if not _is_made_by_sqlite(*row))


def _is_made_by_sqlite(kind: object, name: object, table: object, made: object) -> bool:
    """Return whether SQLite made this part itself. Its name alone proves nothing: an attacker can use it too."""
    if kind == "index":
        return (
            made is None and table in _OURS and re.fullmatch(rf"sqlite_autoindex_{table}_[0-9]+", str(name)) is not None
        )
    plain = str(made).startswith(f"CREATE TABLE {name}(")
    return kind == "table" and plain and re.fullmatch("sqlite_(sequence|stat[0-9])", str(name)) is not None


@cache
def _expected_schema() -> Counter[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_TABLES)
        return _schema(db)


def _shard(row: tuple[object, ...]) -> Shard:
    number, vkey, edge, signed_edge, pruned, seal = row
    if not isinstance(vkey, str):
        raise JournalDamaged("the log's key is no text")
    return Shard(_integer(number), vkey, _bytes(edge), _bytes(signed_edge), _integer(pruned), _bytes(seal))


def _head(row: tuple[object, ...]) -> Head:
    size, note, at_ms = row
    return Head(_integer(size), _bytes(note), _integer(at_ms))


# A column of SQLite can hold a value of any type.


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise JournalDamaged("the log has something else where a number should be")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise JournalDamaged("the log has something else where bytes should be")
    return value
