"""A log file opened for reading only: by an auditor, on a read-only disk, as another user, while others write it.

Nothing is changed or repaired, and nothing is trusted: an attacker may have made the file. Only plain tables are read.
Values of a wrong type are passed on as bytes, so that the audit reports them. The writing code of the journal is used
only to say which schema the file must have.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from time import sleep

from lockgate.core.errors import JournalDamaged, JournalUnavailable, quoted
from lockgate.journal.log import Head, Shard
from lockgate.journal.merkle import HASH, Frontier, Tile
from lockgate.journal.stores import sqlite as log_sqlite
from lockgate.runtime.sqlite_file import FILES_OF_LOCKGATE, SWAPPED

_APPLICATION = 0x6C6B676A
_TABLES = ("bodies", "heads", "leaves", "shards", "tiles")
# Records and heads have at most 64 KiB. Larger values are no part of a log, and need not fit into memory.
_MOST_BYTES = 1 << 20
_BUSY_S = 5.0
# Below and above every possible number.
_START, _END = -(2**63), 2**63 - 1
# A process that closes the log removes the files beside it, perhaps while we open them: how often to retry, and the
# pause.
_TRIES = 10
_PAUSE_S = 0.05


class NotALog(JournalUnavailable):
    """The file is no log of lockgate."""


class WrittenMeanwhile(JournalUnavailable):
    """The log was changed while it was read without locks, so the result is worthless."""


class LogFileView:
    """The log as it was when reading began."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @property
    def schema_changes(self) -> list[str]:
        """What the file contains besides our schema, and what it lacks of it: the journal refuses both."""
        return [f"the log {wrong}" for wrong in log_sqlite.find_schema_changes(self._db)]

    @property
    def oddities(self) -> list[str]:
        """The schema's changes and stray rows, which the audit of the records would not meet. Reads the whole log."""
        return self.schema_changes or [f"the log {wrong}" for wrong in self._find_stray_rows()]

    def _find_stray_rows(self) -> Iterator[str]:
        shards = {shard.number for shard in self.shards()}
        for table in ("bodies", "heads", "leaves", "tiles"):
            select, last = f"SELECT min(shard) FROM {table} WHERE shard > ?", _START  # noqa: S608
            while (found := self._db.execute(select, (last,)).fetchone()[0]) is not None:
                if found not in shards:
                    yield f"has rows in {table} for a shard that is not there"
                    break
                last = found
        for shard in sorted(shards):
            if not self._do_tiles_fit(shard):
                yield f"has hashes of subtrees in shard {shard} that are not those of its records"

    def _do_tiles_fit(self, shard: int) -> bool:
        select = "SELECT hash FROM tiles WHERE shard = ? AND level = ? AND number = ?"
        frontier, count = Frontier(), 0
        for index, leaf in self.leaves(shard, _START, _END):
            if index != frontier.size or len(leaf) != HASH:
                # The audit reports what is wrong with these.
                return True
            made: list[Tile] = []
            frontier.append(leaf, made)
            for level, at, hash in made:
                if self._db.execute(select, (shard, level, at)).fetchone() != (hash,):
                    return False
                count += 1
        kept: int = self._db.execute("SELECT count(*) FROM tiles WHERE shard = ?", (shard,)).fetchone()[0]
        return kept == count

    def shards(self) -> list[Shard]:
        """Return all shards, oldest first."""
        rows = self._db.execute("SELECT number, vkey, edge, signed_edge, pruned, seal FROM shards ORDER BY number")
        return [
            Shard(
                _integer(number),
                _bytes(vkey).decode("utf-8", "replace"),
                _bytes(edge),
                _bytes(signed),
                _integer(gone),
                _bytes(seal),
            )
            for number, vkey, edge, signed, gone, seal in rows
        ]

    def current(self) -> Shard | None:
        return next(reversed(self.shards()), None)

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._select_numbered("SELECT number, hash FROM leaves", shard, start, stop)

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield the stored hashes. They only save time: their reader compares what they add up to with a root."""
        return self._select_numbered("SELECT number, hash FROM tiles", shard, start, stop, f"level = {level:d} AND")

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._select_numbered("SELECT number, body FROM bodies", shard, start, stop)

    def _select_numbered(
        self, select: str, shard: int, start: int, stop: int, more: str = ""
    ) -> Iterator[tuple[int, bytes]]:
        rows = self._db.execute(
            f"{select} WHERE {more} shard = ? AND number >= ? AND number < ? ORDER BY number", (shard, start, stop)
        )
        for number, data in rows:
            yield _integer(number), _bytes(data)

    def heads(self, shard: int) -> Iterator[Head]:
        """Yield all heads of a shard, smallest first."""
        for size, note, at_ms in self._db.execute(
            "SELECT size, note, at_ms FROM heads WHERE shard = ? ORDER BY size", (shard,)
        ):
            yield Head(_integer(size), _bytes(note), _integer(at_ms))

    def newest(self, shard: int) -> Head | None:
        row = self._db.execute(
            "SELECT size, note, at_ms FROM heads WHERE shard = ? ORDER BY size DESC LIMIT 1", (shard,)
        ).fetchone()
        return None if row is None else Head(_integer(row[0]), _bytes(row[1]), _integer(row[2]))


class LogFile:
    """A log's file, of any owner: JournalUnavailable if it cannot be read, JournalDamaged if it is broken."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[LogFileView]:
        try:
            db, before = self._open()
        except sqlite3.Error as error:
            raise self._explain_failure(error) from error
        try:
            with closing(db):
                self._check_is_log(db)
                yield LogFileView(db)
        except (sqlite3.Error, JournalDamaged) as error:
            # A half-finished change by another process looks like damage.
            self._refuse_changed(before)
            if isinstance(error, JournalDamaged):
                raise
            raise self._explain_failure(error) from error
        self._refuse_changed(before)

    def _refuse_changed(self, before: tuple[int, ...] | None) -> None:
        if before is not None and before != self._shape():
            said = f"the log {quoted(self.path, 200)} was written to while it was read"
            raise WrittenMeanwhile(said, hint="try again")

    def _open(self) -> tuple[sqlite3.Connection, tuple[int, ...] | None]:
        """Open the file; also return its state before, if only that can tell whether it changed meanwhile."""
        self._check_is_file()
        for left in reversed(range(_TRIES)):
            before = self._shape()
            how = self._open_mode()
            try:
                return self._connect(how), None
            except sqlite3.OperationalError as error:
                name = getattr(error, "sqlite_errorname", "")
                if not name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR")):
                    raise
                if how != "mode=ro" and self._open_mode() == how and not self._has_write_ahead_log():
                    # The folder is not writable, and there is no unfinished change.
                    return self._connect("mode=ro&immutable=1"), before
                if not left:
                    raise self._refusal(
                        "was not closed, and cannot be looked at where it is",
                        hint="copy it, with the files beside it that begin with its name, to a folder you can write",
                    ) from None
            sleep(_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    def _open_mode(self) -> str:
        if self._exists_beside("-wal") and self._exists_beside("-shm"):
            # A process has the log open, or was killed with it open. With a read-only index we leave nothing behind.
            return "mode=ro&readonly_shm=1"
        if self._has_write_ahead_log() or self._exists_beside("-journal"):
            # Mostly a copy. The write-ahead log must be read, since it holds records; and reading must not merge it
            # into the file.
            return "mode=ro"
        # Read and write, like the log's writers: only then can SQLite remove its lock files again. We write nothing.
        return "mode=rw"

    def _check_is_file(self) -> None:
        """Raise a clearer error than SQLite's. The file must not be opened here: closing it would release the locks
        that this process has on its own log."""
        try:
            mode = os.stat(self.path).st_mode
            if not stat.S_ISREG(mode):
                raise self._refusal(f"cannot be read: is {'a directory' if stat.S_ISDIR(mode) else 'no file'}")
            if not os.access(self.path, os.R_OK):
                raise self._refusal("cannot be read: permission denied")
            for beside in (f"{self.path}{ending}" for ending in ("-wal", "-shm", "-journal")):
                # SQLite would wait for a writer to a named pipe. The log's own writers only put files there.
                with suppress(FileNotFoundError):
                    if not stat.S_ISREG(os.stat(beside).st_mode):
                        raise JournalDamaged(f"{quoted(beside, 200)} is not a regular file")
        except (OSError, ValueError) as error:
            said = str(getattr(error, "strerror", None) or error).lower()
            raise self._refusal(f"cannot be read: {said}") from None

    def _shape(self) -> tuple[int, ...]:
        try:
            status = os.stat(self.path)
        except OSError:
            return (-1,)
        shape = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return (*shape, self._has_write_ahead_log(), self._exists_beside("-journal"))

    def _connect(self, how: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?{how}"
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        with ExitStack() as failed:
            failed.callback(db.close)
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            for name, value in (("trusted_schema", "OFF"), ("query_only", "ON"), ("cell_size_check", "ON")):
                db.execute(f"PRAGMA {name} = {value}")
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            failed.pop_all()
        return db

    def _check_is_log(self, db: sqlite3.Connection) -> None:
        mark = db.execute("PRAGMA application_id").fetchone()[0]
        if mark != _APPLICATION:
            other = FILES_OF_LOCKGATE.get(mark)
            said = f"is {other}, and not" if other else "is not"
            raise NotALog(f"the log {quoted(self.path, 200)} {said} a log of lockgate's", hint=SWAPPED if other else "")
        # A view with the name of a table could yield rows for ever.
        plain = {
            str(name)
            for name, made in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
            if str(made).upper().startswith("CREATE TABLE")
        }
        if not plain.issuperset(_TABLES):
            raise JournalDamaged(f"the log {quoted(self.path, 200)} has lost a table, or another took its place")

    def _exists_beside(self, ending: str) -> bool:
        return os.path.lexists(f"{self.path}{ending}")

    def _has_write_ahead_log(self) -> bool:
        try:
            return os.stat(f"{self.path}-wal").st_size > 0
        except FileNotFoundError:
            return False

    def _refusal(self, why: str, *, hint: str = "") -> JournalUnavailable:
        return JournalUnavailable(f"the log {quoted(self.path, 200)} {why}", hint=hint)

    def _explain_failure(self, error: sqlite3.Error) -> JournalUnavailable:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self._refusal(f"was busy for {_BUSY_S:.0f} seconds", hint="try again")
        if name == "SQLITE_NOTADB":
            return NotALog(f"the log {quoted(self.path, 200)} is not a log of lockgate's")
        if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_AUTH")):
            return self._refusal(f"cannot be read: {str(error).lower()}")
        return JournalDamaged(f"the log {quoted(self.path, 200)} is in pieces: {quoted(str(error).lower())}")


# A column of SQLite can hold a value of any type.


def _integer(value: object) -> int:
    return value if isinstance(value, int) else -1


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
