"""Bans in a file that the workers of one host share: they outlive a restart, and a shared store that is down.

The file holds HMACs and times, nothing else. Its times are the wall clock's, for no other outlives a reboot; what is
handed out is how long a ban lasts still, and never longer than its cooldown: a clock that was put back, or a hand that
wrote a date of its own, cannot make one last for ever.

Nothing is held open between two calls: a fork, a thread or a file that was put in its place is then no special case.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from lockgate.core.errors import LockgateError, quoted
from lockgate.core.requests.strikes import LIFTED, PRINCIPAL, LadderSettings, SharedRecord, Standing, Subject
from lockgate.runtime.private_files import writable_by_others

# "lkgb": other programs' databases are refused, and ours is known to tools that look.
_APPLICATION = 0x6C6B6762
_VERSION = 1
# A request waits for this: somebody else's write takes a millisecond or two.
_BUSY_S = 0.5
# A clock that was wrong for an hour must not have erased what it thought was over.
_SPARED_S = 86_400.0
# Read at once: whoever takes them in holds up an event loop meanwhile.
PAGE = 1000
_KEY = re.compile(r"[0-9a-f]{32}")
# In place of the end of a quarantine: a person has lifted it, at the time that is the lock's end.
_LIFTED = -1.0

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE bans (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    locked_until REAL NOT NULL,
    quarantined_until REAL NOT NULL
);
"""
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
        if make:
            self._create_file()
        with self._connect():
            pass

    def since(self, number: int, now_s: float) -> BanPage:
        """The next bans in force that were written after that number; `now_s` is the wall clock."""
        with self._connect() as db:
            newest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'bans'").fetchone()
            if newest is None or newest[0] < number:
                number = 0  # a file that was put in this one's place, with numbers of its own
            rows = db.execute(f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?", (number, PAGE)).fetchall()
            bans = [(Subject(PRINCIPAL, row[1]), self._ban_from_row(row, now_s)) for row in rows]
        news = tuple((each, known) for each, known in bans if known != SharedRecord())
        return BanPage(news, rows[-1][0] if rows else number, len(rows) == PAGE)

    def keep(self, bans: Sequence[tuple[Subject, SharedRecord]], now_s: float) -> None:
        """Have them on disk when this returns. A ban that is there and lasts longer stays as it is."""
        with self._connect() as db:
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
        with self._connect() as db:
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

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            before = self._check_file()
            with closing(sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("PRAGMA trusted_schema = OFF")
                marks = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
                # What SQLite has opened by name has to be what was looked at.
                if not os.path.samestat(before, self._check_file()):
                    raise self._refusal("was replaced while it was opened")
                if marks != [_APPLICATION, _VERSION]:
                    raise self._refusal("is not a file of bans of this version", hint=_START_OVER)
                yield db
        except sqlite3.Error as error:
            raise self._sqlite_failure(error) from error
        except OSError as error:
            raise self._refusal(f"cannot be used: {(error.strerror or type(error).__name__).lower()}") from error

    def _check_file(self) -> os.stat_result:
        """The file's status, if nobody else can have written it: whoever can write it can lift a ban, or make one."""
        self._check_private(self.path.parent, stat.S_ISDIR)
        status = self._check_private(self.path, stat.S_ISREG)
        for ending in ("-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                self._check_private(self.path.with_name(self.path.name + ending), stat.S_ISREG)
        return status

    def _check_private(self, path: Path, is_kind: Callable[[int], bool]) -> os.stat_result:
        status = os.lstat(path)
        if not is_kind(status.st_mode):
            raise self._refusal("is not a plain file in a plain folder", hint="move it away, or name another place")
        if os.name == "posix":
            why = writable_by_others(status.st_mode, status.st_uid, os.getuid())
            if why:
                raise self._refusal(
                    f"cannot be trusted: {quoted(path, 200)} {why}, who could lift a ban",
                    hint=f"look at what is in it, then: chmod go-w {path}",
                )
        return status

    def _create_file(self) -> None:
        """The file with its table, put in place whole: another worker sees either none of it or all of it."""
        made = self.path.with_name(f"{self.path.name}.{uuid4().hex}.new")
        try:
            if os.path.lexists(self.path):
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_private(self.path.parent, stat.S_ISDIR)
            os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600))
            try:
                with closing(sqlite3.connect(made, isolation_level=None)) as db:
                    db.execute("PRAGMA synchronous = FULL")
                    db.execute("PRAGMA journal_mode = WAL")
                    db.executescript(_SCHEMA)
                _link_into_place(made, self.path)
            finally:
                made.unlink(missing_ok=True)
        except sqlite3.Error as error:
            raise self._sqlite_failure(error) from error
        except (OSError, ValueError) as error:
            said = str(getattr(error, "strerror", None) or error).lower()
            raise self._refusal(f"cannot be made: {said}") from error

    def _refusal(self, why: str, *, hint: str = "") -> LockgateError:
        return LockgateError(f"the file of bans {quoted(self.path, 200)} {why}", hint=hint)

    def _sqlite_failure(self, error: sqlite3.Error) -> LockgateError:
        said = str(error).lower()
        if "locked" in said or "busy" in said:
            return self._refusal(f"was busy for {_BUSY_S} seconds", hint="try again")
        if type(error) is sqlite3.DatabaseError:
            return self._refusal("is damaged, or no file of bans", hint=_START_OVER)
        return self._refusal(f"cannot be used: {said}")


def _link_into_place(made: Path, place: Path) -> None:
    """Give the file its name unless somebody was quicker; theirs is as good."""
    with suppress(FileExistsError):
        try:
            os.link(made, place)
        except FileExistsError:
            raise
        except OSError:
            # A file system without links, where two workers that start at this moment could each have their own.
            if not place.exists():
                os.replace(made, place)


_START_OVER = "move the file away to begin anew: the bans in it are then forgotten when the workers restart"
