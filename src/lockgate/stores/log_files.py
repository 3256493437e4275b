"""A log in a file, only looked at: by an auditor, on a read-only disk, as another user, while others write it.

Nothing is made, locked or mended, and nothing is believed. The file may be anybody's work, so that only plain tables
are read, values that are none of ours are handed on as bytes for the audit to stumble over, and the journal's own code
for this file has no part in it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lockgate.core.errors import JournalDamaged, JournalUnavailable, quoted
from lockgate.log import Head, Shard

_APPLICATION = 0x6C6B676A
_TABLES = ("bodies", "heads", "leaves", "shards")
# Records and heads have at most 64 KiB: what is larger is no part of a log, and need not fit into memory.
_MOST_BYTES = 1 << 20
_BUSY_S = 5.0


class View:
    """The log as it was when the look began."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def shards(self) -> list[Shard]:
        """Oldest first."""
        rows = self._db.execute("SELECT number, vkey, edge, signed_edge, pruned FROM shards ORDER BY number")
        return [
            Shard(
                _integer(number), _bytes(vkey).decode("utf-8", "replace"), _bytes(edge), _bytes(signed), _integer(gone)
            )
            for number, vkey, edge, signed, gone in rows
        ]

    def current(self) -> Shard | None:
        return next(reversed(self.shards()), None)

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._numbered("SELECT number, hash FROM leaves", shard, start, stop)

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """None: they save time, and this is no time to believe them."""
        del shard, level, start, stop
        return iter(())

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._numbered("SELECT number, body FROM bodies", shard, start, stop)

    def _numbered(self, select: str, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        rows = self._db.execute(
            f"{select} WHERE shard = ? AND number >= ? AND number < ? ORDER BY number", (shard, start, stop)
        )
        for number, data in rows:
            yield _integer(number), _bytes(data)

    def heads(self, shard: int) -> Iterator[Head]:
        """Smallest first."""
        for size, note, at_ms in self._db.execute(
            "SELECT size, note, at_ms FROM heads WHERE shard = ? ORDER BY size", (shard,)
        ):
            yield Head(_integer(size), _bytes(note), _integer(at_ms))

    def newest(self, shard: int) -> Head | None:
        row = self._db.execute(
            "SELECT size, note, at_ms FROM heads WHERE shard = ? ORDER BY size DESC LIMIT 1", (shard,)
        ).fetchone()
        return None if row is None else Head(_integer(row[0]), _bytes(row[1]), _integer(row[2]))

    def older(self, shard: int, at_ms: int) -> int:
        size = 0
        for head in self.heads(shard):
            if head.at_ms >= at_ms:
                break
            size = head.size
        return size


class LogFile:
    """A log's file, whoever it belongs to: JournalUnavailable if it cannot be read, JournalDamaged if it is broken."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[View]:
        try:
            db, alone = self._opened()
            with closing(db):
                self._check_is_log(db)
                yield View(db)
            if alone and self._written_ahead():
                raise self._refused("was written to while it was read", hint="try again")
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _opened(self) -> tuple[sqlite3.Connection, bool]:
        """A connection, and whether it trusts that nobody writes meanwhile."""
        try:
            # SQLite would say no more than that it cannot open it.
            with open(self.path, "rb"):
                pass
        except (OSError, ValueError) as error:
            said = str(getattr(error, "strerror", None) or error).lower()
            raise self._refused(f"cannot be read: {said}") from None
        if self._beside("-wal") and self._beside("-shm"):
            # Somebody has the log open, or was killed with it. Without leave to write the file that writers and
            # readers meet in, nothing of ours is left behind.
            return self._connected("mode=ro&readonly_shm=1"), False
        if not self._written_ahead():
            return self._connected("mode=ro&immutable=1"), True
        # A copy, mostly. What was written ahead must not be passed over: nobody would miss it.
        try:
            return self._connected("mode=ro"), False
        except sqlite3.OperationalError:
            raise self._refused(
                "was not closed, and cannot be looked at where it is",
                hint="copy it, with the files beside it that begin with its name, to a folder you can write",
            ) from None

    def _connected(self, how: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?{how}"
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            for name, value in (("trusted_schema", "OFF"), ("query_only", "ON"), ("cell_size_check", "ON")):
                db.execute(f"PRAGMA {name} = {value}")
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    def _check_is_log(self, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise self._refused("is not a log of lockgate's")
        # A view by the name of a table could go on for ever.
        plain = {
            str(name)
            for name, made in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
            if str(made).upper().startswith("CREATE TABLE")
        }
        if not plain.issuperset(_TABLES):
            raise JournalDamaged(f"the log {quoted(self.path, 200)} has lost a table, or another took its place")

    def _beside(self, ending: str) -> bool:
        return os.path.lexists(f"{self.path}{ending}")

    def _written_ahead(self) -> bool:
        try:
            return os.stat(f"{self.path}-wal").st_size > 0
        except FileNotFoundError:
            return False

    def _refused(self, why: str, *, hint: str = "") -> JournalUnavailable:
        return JournalUnavailable(f"the log {quoted(self.path, 200)} {why}", hint=hint)

    def _failed(self, error: sqlite3.Error) -> JournalUnavailable:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self._refused(f"was busy for {_BUSY_S:.0f} seconds", hint="try again")
        if name == "SQLITE_NOTADB":
            return self._refused("is not a log of lockgate's")
        if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_AUTH")):
            return self._refused(f"cannot be read: {str(error).lower()}")
        return JournalDamaged(f"the log {quoted(self.path, 200)} is in pieces: {quoted(str(error).lower())}")


# SQLite keeps in any column whatever somebody writes there.


def _integer(value: object) -> int:
    return value if isinstance(value, int) else -1


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
