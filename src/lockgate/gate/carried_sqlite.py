"""What agents wrote from untrusted text, in a file of the state folder that all sessions share.

Only hashes, sources and paths are kept, within a bound, and for a while after a text was last seen. Where there is no
room, the source with the most prints gives way with its oldest text: a page that fills the store pushes out itself.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heapify, heappop, heapreplace
from pathlib import Path
from threading import Lock
from time import time

from lockgate.core.ruling.carried_text import MAX_PRINTS_OF_ONE, CarriedHit, DerivedText, PrintKind
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.sqlite_file import DatabaseKind, SharedSqliteFile

# Prints of all texts together; a text has at most a few hundred. The file has about 20 MB then.
MAX_PRINTS = 200_000
LIFE_S = 90 * 86_400.0
# A text that is read again is marked as seen at most so often.
_SEEN_EVERY_S = 86_400.0
_AT_ONCE = 900

# PostgreSQL has the same ones, under other names for some types.
TABLES = """
CREATE TABLE carried (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    origin TEXT NOT NULL,
    path TEXT NOT NULL,
    session TEXT NOT NULL,
    size INTEGER NOT NULL,
    seen_s REAL NOT NULL
);
CREATE TABLE prints (
    print BIGINT NOT NULL,
    number BIGINT NOT NULL,
    kind INTEGER NOT NULL,
    word BLOB NOT NULL,
    PRIMARY KEY (print, number)
) WITHOUT ROWID;
CREATE INDEX prints_by_number ON prints (number);
"""
_KIND = DatabaseKind(
    private=PrivateFileKind("the store of carried texts", "make an agent believe them", "store"),
    title="the store of carried texts {}",
    noun="a store of carried texts",
    application_id=0x6C6B6763,
    version=1,
    tables=TABLES,
    pragmas=(("synchronous", "NORMAL"), ("trusted_schema", "OFF")),
    busy_s=5.0,
    start_over="move the file away to begin anew: what agents wrote until now then counts as any other text",
    replaced_hint="try again",
)


class SqliteCarriedTexts:
    """Carried texts in one file, which is made when the first is kept. Safe for several threads and processes."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time, max_prints: int = MAX_PRINTS) -> None:
        self._path = path
        self._file = SharedSqliteFile(path, _KIND, max_idle=4, quiet_s=1.0)
        self._clock = clock
        # Room is made now and then, so less is kept than fits: what comes in between must fit as well.
        self._room_every = max(1, max_prints // (16 * MAX_PRINTS_OF_ONE))
        self._max_prints = max_prints - self._room_every * MAX_PRINTS_OF_ONE
        # The words of all texts up to this number.
        self._lock = Lock()
        self._words: frozenset[bytes] = frozenset()
        self._newest = 0

    def keep(self, derived: DerivedText) -> None:
        """Remember a text; one that is known already counts as seen now."""
        now_s = self._clock()
        with self._changing() as db:
            known = db.execute("SELECT number FROM carried WHERE digest = ?", (derived.digest,)).fetchone()
            if known is not None:
                db.execute("UPDATE carried SET seen_s = ? WHERE number = ?", (now_s, known[0]))
                return
            db.execute(
                "INSERT INTO carried (digest, source, origin, path, session, size, seen_s) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (derived.digest, *derived[1:], len(derived.prints), now_s),
            )
            (number,) = db.execute("SELECT number FROM carried WHERE digest = ?", (derived.digest,)).fetchone()
            for each in derived.prints:
                db.execute(
                    "INSERT INTO prints (print, number, kind, word) VALUES (?, ?, ?, ?)",
                    (each.hash, number, int(each.kind), each.word),
                )
            if number % self._room_every == 0:
                self._make_room(db, now_s)

    def words(self) -> frozenset[bytes]:
        """Return the words by which texts are looked for; empty where nothing was kept."""
        with self._reading() as db:
            if db is None:
                return frozenset()
            newest = db.execute("SELECT max(number) FROM carried").fetchone()[0] or 0
            with self._lock:
                if newest != self._newest:
                    # Since most blocks have none of them, they are kept in memory; texts only come, or time out.
                    # Too many by now, or a file that begins anew: all of them are read again.
                    goes_on = len(self._words) <= 2 * self._max_prints and newest > self._newest
                    since, old = (self._newest, self._words) if goes_on else (0, frozenset[bytes]())
                    rows = db.execute("SELECT DISTINCT word FROM prints WHERE number > ?", (since,)).fetchall()
                    self._words, self._newest = old.union(bytes(row[0]) for row in rows), newest
                return self._words

    def find(self, hashes: Sequence[int]) -> list[CarriedHit]:
        """Return the texts that share prints with a text with these hashes."""
        now_s = self._clock()
        shared: dict[int, set[PrintKind]] = {}
        with self._reading() as db:
            if db is None:
                return []
            for start in range(0, len(hashes), _AT_ONCE):
                some = hashes[start : start + _AT_ONCE]
                places = ", ".join("?" * len(some))
                for number, kind in db.execute(f"SELECT number, kind FROM prints WHERE print IN ({places})", some):  # noqa: S608
                    shared.setdefault(number, set()).add(PrintKind(kind))
            rows: list[tuple[int, str, str, str, str, float]] = [
                (number, *row)
                for number in shared
                for row in db.execute(
                    "SELECT source, origin, path, session, seen_s FROM carried WHERE number = ? AND seen_s > ?",
                    (number, now_s - LIFE_S),
                ).fetchall()
            ]
        self._mark_seen([row[0] for row in rows if row[5] < now_s - _SEEN_EVERY_S], now_s)
        return [CarriedHit(*row[1:6], shared[row[0]]) for row in rows]

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        self._file.close()

    def _mark_seen(self, numbers: Sequence[int], now_s: float) -> None:
        if numbers:
            with self._changing() as db:
                for number in numbers:
                    db.execute("UPDATE carried SET seen_s = ? WHERE number = ?", (now_s, number))

    def _make_room(self, db: sqlite3.Connection, now_s: float) -> None:
        """Delete what has not been seen for long, then what there is too much of."""
        rows = db.execute("SELECT number, source, size, seen_s FROM carried ORDER BY seen_s, number").fetchall()
        gone = [row[0] for row in rows if row[3] <= now_s - LIFE_S]
        rows = rows[len(gone) :]
        total = sum(row[2] for row in rows)
        if total > self._max_prints:
            gone += _choose_victims(rows, total - self._max_prints * 19 // 20)
        for number in gone:
            db.execute("DELETE FROM prints WHERE number = ?", (number,))
            db.execute("DELETE FROM carried WHERE number = ?", (number,))

    # The file

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that excludes all other writers; all or nothing is stored."""
        try:
            if not self._file.writing.acquire(timeout=self._file.busy_s):
                raise self._file.busy_error()
            try:
                db = self._file.open_writer(self._create)
                with ExitStack() as failed:
                    # Closing rolls back what is open.
                    failed.callback(self._file.close_writer)
                    db.execute("BEGIN IMMEDIATE")
                    yield db
                    db.execute("COMMIT")
                    failed.pop_all()
            finally:
                self._file.writing.release()
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self._file.error_from(error) from error

    def _create(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file.create()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        try:
            if not self._file.is_open and not os.path.lexists(self._path):
                yield None
                return
            with self._file.reader() as db:
                yield db
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self._file.error_from(error) from error


def _choose_victims(rows: Sequence[tuple[int, str, int, float]], excess: int) -> list[int]:
    """Return the texts that give way, until so many prints are gone: the oldest ones of the largest sources."""
    by_source: dict[str, deque[tuple[int, int]]] = {}
    for number, source, size, _ in rows:
        by_source.setdefault(source, deque()).append((number, size))
    largest = [(-sum(size for _, size in texts), source) for source, texts in by_source.items()]
    heapify(largest)
    gone: list[int] = []
    while excess > 0 and largest:
        total, source = largest[0]
        number, size = by_source[source].popleft()
        gone.append(number)
        excess -= size
        if by_source[source]:
            heapreplace(largest, (total + size, source))
        else:
            heappop(largest)
    return gone
