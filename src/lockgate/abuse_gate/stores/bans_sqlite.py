"""Bans in a file that the workers of one host share: they outlive a restart, and a shared store that is down.

The file holds HMACs and times, nothing else. Its times are the wall clock's, for no other outlives a reboot; what is
handed out is how long a ban lasts still, and never longer than its cooldown: a clock that was put back, or a hand that
wrote a date of its own, cannot make one last for ever.

Nothing is held open between two calls: a fork, a thread or a file that was put in its place is then no special case.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lockgate.core.requests.strikes import LIFTED, PRINCIPAL, LadderSettings, SharedRecord, Standing, Subject
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.sqlite_file import DatabaseKind, SqliteFile

# A clock that was wrong for an hour must not have erased what it thought was over.
_SPARED_S = 86_400.0
# Read at once: whoever takes them in holds up an event loop meanwhile.
PAGE = 1000
_KEY = re.compile(r"[0-9a-f]{32}")
# In place of the end of a quarantine: a person has lifted it, at the time that is the lock's end.
_LIFTED = -1.0

_TABLES = """
CREATE TABLE bans (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    locked_until REAL NOT NULL,
    quarantined_until REAL NOT NULL
);
"""
# "lkgb" identifies our files, to us and to tools that show it.
_KIND = DatabaseKind(
    private=PrivateFileKind("the file of bans", "lift a ban, or make one", "gate"),
    title="the file of bans {}",
    noun="a file of bans",
    application_id=0x6C6B6762,
    version=1,
    tables=_TABLES,
    pragmas=(("synchronous", "FULL"), ("trusted_schema", "OFF")),
    # A request waits for this, and the write of another worker takes a millisecond or two.
    busy_s=0.5,
    start_over="move the file away to begin anew: the bans in it are then forgotten when the workers restart",
)
_SELECT = "SELECT number, key, locked_until, quarantined_until FROM bans"


class BanPage(NamedTuple):
    """Bans in force and those that were LIFTED, the number of the newest row seen, which is where to go on from, and
    whether there are more."""

    bans: tuple[tuple[Subject, SharedRecord], ...]
    number: int
    more: bool


class SqliteBans:
    """Who is banned, and until when. The file is made at once: a place that will not do is found at the start.

    Not by whoever only wants to look (`make` is False): the file of a gate is there already, or is another.
    """

    def __init__(self, path: Path, settings: LadderSettings, *, make: bool = True) -> None:
        self.path = path
        self._settings = settings
        self._file = SqliteFile(path, _KIND)
        if make:
            self._file.create()
        with self._file.connection():
            pass

    def since(self, number: int, now_s: float) -> BanPage:
        """The next bans in force that were written after that number; `now_s` is the wall clock."""
        with self._file.connection() as db:
            newest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'bans'").fetchone()
            if newest is None or newest[0] < number:
                number = 0  # a file that was put in this one's place, with numbers of its own
            rows = db.execute(f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?", (number, PAGE)).fetchall()
            bans = [(Subject(PRINCIPAL, row[1]), self._ban_from_row(row, now_s)) for row in rows]
        news = tuple((each, known) for each, known in bans if known != SharedRecord())
        return BanPage(news, rows[-1][0] if rows else number, len(rows) == PAGE)

    def keep(self, bans: Sequence[tuple[Subject, SharedRecord]], now_s: float) -> None:
        """Have them on disk when this returns. A ban that is there and lasts longer stays as it is."""
        with self._file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                for subject, known in bans:
                    self._keep_one(db, subject.key, known, now_s)
                db.execute("DELETE FROM bans WHERE max(locked_until, quarantined_until) < ?", (now_s - _SPARED_S,))
                db.execute(
                    "DELETE FROM bans WHERE number IN (SELECT number FROM bans "
                    "ORDER BY max(locked_until, quarantined_until) DESC LIMIT -1 OFFSET ?)",
                    (self._settings.max_subjects,),
                )
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def lift(self, key: str, now_s: float) -> bool:
        """Whether there was a ban of this principal, which then is none any more: to all who look from now on."""
        with self._file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            row = db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
            banned = row is not None and self._ban_from_row(row, now_s) not in (SharedRecord(), LIFTED)
            if banned:
                # Replaced, not deleted: its number tells the workers, which have it in their memories.
                db.execute(
                    "INSERT OR REPLACE INTO bans (key, locked_until, quarantined_until) VALUES (?, ?, ?)",
                    (key, now_s, _LIFTED),
                )
            db.execute("COMMIT")
        return banned

    def _keep_one(self, db: sqlite3.Connection, key: str, known: SharedRecord, now_s: float) -> None:
        row = db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
        there = self._ban_from_row(row, now_s) if row else SharedRecord()
        if there == LIFTED:
            # Who has not heard yet that a ban was lifted tells of it still.
            known, there = self._begun_since(row[2], known, now_s), SharedRecord()
        longer = SharedRecord((), max(known.locked_s, there.locked_s), max(known.quarantined_s, there.quarantined_s))
        # Within a second it is the same ban, heard of from another side: writing it again would wake every worker.
        if longer.locked_s - there.locked_s < 1 and longer.quarantined_s - there.quarantined_s < 1:
            return
        # Replaced, not updated: a new number is what the others look for.
        db.execute(
            "INSERT OR REPLACE INTO bans (key, locked_until, quarantined_until) VALUES (?, ?, ?)",
            (key, now_s + longer.locked_s, now_s + longer.quarantined_s),
        )

    def _begun_since(self, lifted_at: float, known: SharedRecord, now_s: float) -> SharedRecord:
        """Of these bans those that began after that time; when in doubt they did."""

        def left(seconds: float, mode: Standing) -> float:
            tiers = (
                (self._settings.tier1_mode, self._settings.tier1_cooldown_s),
                (self._settings.tier2_mode, self._settings.tier2_cooldown_s),
            )
            shortest = min((cooldown_s for each, cooldown_s in tiers if each is mode), default=0.0)
            return seconds if now_s + seconds - shortest > lifted_at else 0.0

        return SharedRecord(
            (), left(known.locked_s, Standing.EXECUTE_LOCKED), left(known.quarantined_s, Standing.FULL_QUARANTINE)
        )

    def _ban_from_row(self, row: tuple[object, ...], now_s: float) -> SharedRecord:
        number, key, locked_until, quarantined_until = row
        if (
            not isinstance(number, int)
            or not isinstance(key, str)
            or not _KEY.fullmatch(key)
            or not isinstance(locked_until, float)
            or not isinstance(quarantined_until, float)
        ):
            raise sqlite3.DatabaseError("a row that is no ban")
        if quarantined_until == _LIFTED:
            return LIFTED
        locked_s, quarantined_s = (
            min(max(0.0, until - now_s), self._settings.cooldown_s(mode))
            for until, mode in (
                (locked_until, Standing.EXECUTE_LOCKED),
                (quarantined_until, Standing.FULL_QUARANTINE),
            )
        )
        return SharedRecord((), locked_s, quarantined_s)
