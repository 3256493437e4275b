"""What agents wrote from untrusted text, in a file of the state folder that all sessions share.

Only hashes, sources and paths are kept, within a bound, and for a while after a text was last seen. Where there is no
room, the site with the most prints gives way. First its texts are kept by fewer prints, by which they are still known
whole. Then texts are evicted, and each leaves a mark: the file it was written to is untrusted from then on, and where
there was no file, every note of an agent is. So a page that fills the store makes more untrusted, and nothing trusted.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heapify, heappop, heapreplace
from logging import getLogger
from pathlib import Path
from threading import Lock
from time import time
from typing import NamedTuple

from lockgate.core.ruling.carried_text import (
    MAX_PRINTS_OF_ONE,
    ORDERED_KINDS,
    CarriedHit,
    DerivedText,
    FingerprintKind,
    mark_file,
)
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.sqlite_file import DatabaseKind, SharedSqliteFile

# Prints of all texts together; a text has at most a few hundred. The file has about 20 MB then.
MAX_PRINTS = 200_000
# A text is kept by so many before one is evicted. Marks are a share of all prints; of more, folders are marked whole.
_FEWEST, _SHARE_OF_MARKS = 8, 20
LIFE_S = 90 * 86_400.0
# A text that is read again is marked as seen at most so often.
_SEEN_EVERY_S = 86_400.0
_AT_ONCE = 900
# In place of a digest: the row that counts evicted texts.
_EVICTED = "evicted"
_log = getLogger(__name__)

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


class CarriedCounts(NamedTuple):
    """How much is kept: texts, their prints, and the files and folders that count as untrusted whole.

    `evicted`: texts that gave way, and left only a mark.
    """

    texts: int
    prints: int
    files: int
    evicted: int


class _KeptText(NamedTuple):
    """A kept text, as far as it matters when room is made."""

    number: int
    source: str
    path: str
    size: int
    seen_s: float
    is_mark: bool
    is_ordered: bool

    @property
    def site(self) -> str:
        """The host of a page, so that its many pages are one source."""
        return "/".join(self.source.split("/", 3)[:3])


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
        self._words: set[bytes] = set()
        self._newest = 0

    def keep(self, derived: DerivedText) -> None:
        """Remember a text; one that is known already counts as seen now."""
        now_s = self._clock()
        with self._changing() as db:
            number = _insert(db, derived, now_s)
            if number is not None and number % self._room_every == 0:
                self._make_room(db, now_s)

    def counts(self) -> CarriedCounts:
        """Return how much is kept, and how much gave way."""
        with self._reading() as db:
            if db is None:
                return CarriedCounts(0, 0, 0, 0)
            texts, files, prints, evicted = db.execute(
                "SELECT count(*), coalesce(sum(CASE WHEN origin = '' THEN 1 ELSE 0 END), 0), coalesce(sum(size), 0), "
                "coalesce((SELECT size FROM carried WHERE digest = ?), 0) FROM carried WHERE digest <> ?",
                (_EVICTED, _EVICTED),
            ).fetchone()
        return CarriedCounts(texts - files, prints, files, evicted)

    def words(self) -> set[bytes] | frozenset[bytes]:
        """Return the words by which texts are looked for; empty where nothing was kept. They grow later on."""
        with self._reading() as db:
            if db is None:
                return frozenset[bytes]()
            newest = db.execute("SELECT max(number) FROM carried").fetchone()[0] or 0
            with self._lock:
                if newest != self._newest:
                    # Since most blocks have none of them, they are kept in memory; texts only come, or time out.
                    # Too many by now, or a file that begins anew: all of them are read again.
                    goes_on = len(self._words) <= 2 * self._max_prints and newest > self._newest
                    since = self._newest if goes_on else 0
                    rows = db.execute("SELECT DISTINCT word FROM prints WHERE number > ?", (since,)).fetchall()
                    self._words = self._words if goes_on else set()
                    self._words.update(bytes(row[0]) for row in rows)
                    self._newest = newest
                return self._words

    def find(self, hashes: Sequence[int]) -> list[CarriedHit]:
        """Return the texts that share prints with a text with these hashes."""
        now_s = self._clock()
        shared: dict[int, set[FingerprintKind]] = {}
        with self._reading() as db:
            if db is None:
                return []
            for start in range(0, len(hashes), _AT_ONCE):
                some = hashes[start : start + _AT_ONCE]
                places = ", ".join("?" * len(some))
                for number, kind in db.execute(f"SELECT number, kind FROM prints WHERE print IN ({places})", some):  # noqa: S608
                    shared.setdefault(number, set()).add(FingerprintKind(kind))
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
        """Delete what has not been seen for long; shorten, then evict what there is too much of."""
        gone = db.execute("SELECT number FROM carried WHERE seen_s <= ?", (now_s - LIFE_S,)).fetchall()
        for (number,) in gone:
            _delete(db, number)
        total, marks = db.execute(
            "SELECT sum(size), sum(CASE WHEN origin = '' THEN 1 ELSE 0 END) FROM carried WHERE digest <> ?", (_EVICTED,)
        ).fetchone()
        if total > self._max_prints:
            _evict(db, total - self._max_prints * 19 // 20, now_s)
        if marks > self._max_prints // _SHARE_OF_MARKS:
            _merge_marks(db, self._max_prints // _SHARE_OF_MARKS)

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


def _insert(db: sqlite3.Connection, derived: DerivedText, now_s: float) -> int | None:
    """Store a text; return its number, or None for one that is known: it counts as seen now."""
    known = db.execute("SELECT number FROM carried WHERE digest = ?", (derived.digest,)).fetchone()
    if known is not None:
        db.execute("UPDATE carried SET seen_s = ? WHERE number = ?", (now_s, known[0]))
        for each in derived.prints if derived.is_mark else ():
            db.execute("UPDATE prints SET kind = ? WHERE number = ? AND kind < ?", (each.kind, known[0], each.kind))
        return None
    db.execute(
        "INSERT INTO carried (digest, source, origin, path, session, size, seen_s) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (derived.digest, *derived[1:], len(derived.prints), now_s),
    )
    number: int = db.execute("SELECT number FROM carried WHERE digest = ?", (derived.digest,)).fetchone()[0]
    for each in derived.prints:
        db.execute(
            "INSERT INTO prints (print, number, kind, word) VALUES (?, ?, ?, ?)",
            (each.hash, number, int(each.kind), each.word),
        )
    return number


def _delete(db: sqlite3.Connection, number: int) -> None:
    db.execute("DELETE FROM prints WHERE number = ?", (number,))
    db.execute("DELETE FROM carried WHERE number = ?", (number,))


def _shorten(db: sqlite3.Connection, number: int) -> None:
    """Keep a few prints of a text: half of them the gravest, the others passages, each with the smallest hashes."""
    rows = db.execute("SELECT print, kind FROM prints WHERE number = ? ORDER BY print", (number,)).fetchall()
    passages = [row[0] for row in rows if row[1] == FingerprintKind.PASSAGE]
    others = [row[0] for row in sorted(rows, key=lambda row: -row[1]) if row[1] != FingerprintKind.PASSAGE]
    kept = others[: max(_FEWEST // 2, _FEWEST - len(passages))]
    kept += passages[: _FEWEST - len(kept)]
    for each, _ in rows:
        if each not in kept:
            db.execute("DELETE FROM prints WHERE print = ? AND number = ?", (each, number))
    db.execute("UPDATE carried SET size = ? WHERE number = ?", (len(kept), number))


def _evict(db: sqlite3.Connection, excess: int, now_s: float) -> None:
    """Shorten texts until so many prints are gone; if that is not enough, put marks in the place of texts."""
    texts = _list_texts(db)
    shortened, excess = _choose(texts, excess, spared=_FEWEST)
    for text in shortened:
        _shorten(db, text.number)
    if excess <= 0:
        return
    evicted, _ = _choose([text._replace(size=min(text.size, _FEWEST)) for text in texts if not text.is_mark], excess)
    for text in evicted:
        _delete(db, text.number)
        _insert(db, mark_file(text.path, text.source, is_ordered=text.is_ordered), text.seen_s)
    _count_evicted(db, len(evicted), now_s)
    _log.warning("carried texts: evicted=%d, their files count as untrusted", len(evicted))


def _count_evicted(db: sqlite3.Connection, count: int, now_s: float) -> None:
    """Add to the number of evicted texts, which is kept as a row of its own."""
    db.execute(
        "INSERT INTO carried (digest, source, origin, path, session, size, seen_s) VALUES (?, '', '', '', '', 0, ?) "
        "ON CONFLICT (digest) DO NOTHING",
        (_EVICTED, now_s),
    )
    db.execute("UPDATE carried SET size = size + ?, seen_s = ? WHERE digest = ?", (count, now_s, _EVICTED))


def _list_texts(db: sqlite3.Connection) -> list[_KeptText]:
    ordered = {
        row[0]
        for kind in sorted(ORDERED_KINDS)
        for row in db.execute("SELECT DISTINCT number FROM prints WHERE kind = ?", (int(kind),)).fetchall()
    }
    rows = db.execute(
        "SELECT number, source, path, size, seen_s, origin FROM carried WHERE digest <> ?", (_EVICTED,)
    ).fetchall()
    return [
        _KeptText(number, source, path, size, seen_s, not origin, number in ordered)
        for number, source, path, size, seen_s, origin in rows
    ]


def _choose(texts: Sequence[_KeptText], excess: int, *, spared: int = 0) -> tuple[list[_KeptText], int]:
    """Return the texts that give way until the excess is gone, and what is left of it; each keeps `spared` prints.

    Always of the site with the most prints: first what no order named, then what a mark can stand for, then the oldest.
    """
    by_site: dict[str, deque[_KeptText]] = {}
    for text in sorted(texts, key=lambda each: (each.is_ordered, not each.path, each.seen_s, each.number)):
        if text.size > spared:
            by_site.setdefault(text.site, deque()).append(text)
    largest = [(-sum(text.size for text in found), site) for site, found in by_site.items()]
    heapify(largest)
    chosen: list[_KeptText] = []
    while excess > 0 and largest:
        total, site = largest[0]
        chosen.append(text := by_site[site].popleft())
        excess -= text.size - spared
        if by_site[site]:
            heapreplace(largest, (total + text.size - spared, site))
        else:
            heappop(largest)
    return chosen, excess


def _merge_marks(db: sqlite3.Connection, most: int) -> None:
    """Where there are too many marks, mark the folder that has the most of them instead."""
    marks = [text for text in _list_texts(db) if text.is_mark and text.path]
    while len(marks) > most:
        folder = _fullest_folder([mark.path for mark in marks])
        inside = [mark for mark in marks if folder == "/" or f"{mark.path}/".startswith(f"{folder}/")]
        for mark in inside:
            _delete(db, mark.number)
        is_ordered = any(mark.is_ordered for mark in inside)
        _insert(db, mark_file(folder, inside[-1].source, is_ordered=is_ordered), max(mark.seen_s for mark in inside))
        gone = {mark.number for mark in inside}
        marks = [mark for mark in marks if mark.number not in gone]


def _fullest_folder(paths: Sequence[str]) -> str:
    """Return the folder with the most of these paths: that of each, or one near the root; else the root."""
    parents = [path.rpartition("/")[0] for path in paths]
    for named in (parents, *(["/".join(path.split("/")[:depth]) for path in paths] for depth in (3, 2))):
        folder, count = Counter(named).most_common(1)[0]
        if count > 1 and folder:
            return folder
    return "/"
