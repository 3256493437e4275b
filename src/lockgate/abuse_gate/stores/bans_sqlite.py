"""Bans in a SQLite file that the workers of one host share: they survive a restart, and a shared store that is down.

The file holds HMACs and times, nothing else. Its times are wall-clock times, because no other clock survives a reboot.
A ban never lasts longer than its cooldown, so neither a clock that was set back nor an edited date can make it last
for ever.

No connection stays open between two calls, so a fork, a thread or a replaced file is no special case.
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

# Ended bans are kept this long: a clock that was wrong for an hour must not erase bans.
_SPARED_S = 86_400.0
# Read at once: learning them blocks the event loop meanwhile.
PAGE = 1000
_KEY = re.compile(r"[0-9a-f]{32}")
# In place of the end of a quarantine: an operator lifted it, at the time in the lock's column.
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
    start_over="move the file away to start with a new one: its bans are forgotten when the workers restart",
)
_SELECT = "SELECT number, key, locked_until, quarantined_until FROM bans"


class BanPage(NamedTuple):
    """Bans in force and LIFTED ones, the number of the newest row seen, and whether there are more."""

    bans: tuple[tuple[Subject, SharedRecord], ...]
    number: int
    more: bool


class SqliteBans:
    """The banned principals, and until when. It creates the file at once, so that a bad place is found at the start.

    With `make=False`, for a caller that only looks, the file has to be there already.
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
        """Return the next page of bans in force that were written after that number; `now_s` is the wall clock."""
        with self._file.connection() as db:
            newest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'bans'").fetchone()
            if newest is None or newest[0] < number:
                number = 0  # another file has replaced this one, with numbers of its own
            rows = db.execute(f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?", (number, PAGE)).fetchall()
            bans = [(Subject(PRINCIPAL, row[1]), self._ban_from_row(row, now_s)) for row in rows]
        news = tuple((each, known) for each, known in bans if known != SharedRecord())
        return BanPage(news, rows[-1][0] if rows else number, len(rows) == PAGE)

    def keep(self, bans: Sequence[tuple[Subject, SharedRecord]], now_s: float) -> None:
        """Write the bans durably. A longer ban in the file stays as it is."""
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
        """Lift the ban of this principal for all workers; return whether there was one."""
        with self._file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            row = db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
            banned = row is not None and self._ban_from_row(row, now_s) not in (SharedRecord(), LIFTED)
            if banned:
                # Replaced, not deleted: the new number tells the workers, which have the ban in memory.
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
            # A worker that has not heard of the lift yet still reports the ban.
            known, there = self._begun_since(row[2], known, now_s), SharedRecord()
        longer = SharedRecord((), max(known.locked_s, there.locked_s), max(known.quarantined_s, there.quarantined_s))
        # Within a second it is the same ban, reported by another worker: writing it again would wake every worker.
        if longer.locked_s - there.locked_s < 1 and longer.quarantined_s - there.quarantined_s < 1:
            return
        # Replaced, not updated: the other workers look for new numbers.
        db.execute(
            "INSERT OR REPLACE INTO bans (key, locked_until, quarantined_until) VALUES (?, ?, ?)",
            (key, now_s + longer.locked_s, now_s + longer.quarantined_s),
        )

    def _begun_since(self, lifted_at: float, known: SharedRecord, now_s: float) -> SharedRecord:
        """Return the bans that began after that time; in doubt they did."""

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
            raise sqlite3.DatabaseError("a row is not a ban")
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
