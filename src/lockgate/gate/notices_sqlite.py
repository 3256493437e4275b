"""Which notifications are still to be sent, in the database of the approvals: several processes share the work.

A notice is claimed before it is sent, by the time at which it would be tried again. So a process that dies, or a
receiver that fails, leads to another try and to nothing worse. The table is made by the first use of it.

An agent can ask faster than people read. So each target gets a few notices in a minute, then one that says how many
more wait; those stay due. A question that replaces another is told of a minute after that one at the soonest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from lockgate.core.ruling.approvals import Approval, ApprovalChange, parse_time

# The first retry comes after this long, each later one after twice as long: about 40 minutes in all.
RETRY_S = 10.0
MAX_TRIES = 8
_MOST_AT_ONCE = 32
MOST_PER_MINUTE = 20
_MINUTE_S = 60.0
_SENT = 1_000
_TABLE = """
CREATE TABLE IF NOT EXISTS notices (
    approval TEXT NOT NULL,
    target TEXT NOT NULL,
    tries INTEGER NOT NULL,
    next_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (approval, target)
)
"""
_CLAIM = (
    "INSERT INTO notices (approval, target, tries, next_s) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (approval, target) DO UPDATE SET tries = excluded.tries, next_s = excluded.next_s"
)


class DueNotice(NamedTuple):
    """A question that waits, and the target that has to hear of it now; `tries` counts this one too.

    With `more` it is not about one question: so many wait that are not told of in this minute.
    """

    approval: Approval
    target: str
    tries: int
    more: int = 0


class SqliteNotices:
    """The part of a store of approvals that knows who was told of a question."""

    def claim_notices(self, targets: Sequence[str], now_s: float, retry_s: float = RETRY_S) -> list[DueNotice]:
        """Return what is to be sent now. Unless `mark_sent` is called, each is returned again later, a few times."""
        now_s = parse_time(now_s)
        if not self._file_exists():
            return []
        with self._transaction(now_s) as (db, _):
            db.execute(_TABLE)
            db.execute("DELETE FROM notices WHERE approval NOT IN (SELECT id FROM approvals) AND approval <> ''")
            claims = _Claims(db, now_s, retry_s)
            for approval in self._select(db, "WHERE state = 'waiting'"):
                for target in targets:
                    claims.add(approval, target)
            return claims.finish()

    def mark_sent(self, notice: DueNotice, now_s: float) -> None:
        """Note that the target has it."""
        with self._transaction(parse_time(now_s)) as (db, _):
            db.execute(_CLAIM, (notice.approval.pending.id, notice.target, _SENT, now_s))

    # The store has them.

    def _file_exists(self) -> bool:
        raise NotImplementedError

    def _transaction(
        self, now_s: float, session: str = ""
    ) -> AbstractContextManager[tuple[sqlite3.Connection, list[ApprovalChange]]]:
        raise NotImplementedError

    @staticmethod
    def _select(db: sqlite3.Connection, where: str, *values: object) -> list[Approval]:
        raise NotImplementedError


class _Claims:
    """What one look finds due, within what each target gets in a minute.

    The row of a target without an approval holds how many it got, and when that minute is over.
    """

    def __init__(self, db: sqlite3.Connection, now_s: float, retry_s: float) -> None:
        self._db, self._now_s, self._retry_s = db, now_s, retry_s
        self._known: dict[tuple[str, str], tuple[int, float]] = {
            (id, name): (tries, at)
            for id, name, tries, at in db.execute("SELECT approval, target, tries, next_s FROM notices")
        }
        self._due: list[DueNotice] = []
        self._left: dict[str, list[Approval]] = {}

    def add(self, approval: Approval, target: str) -> None:
        """Claim a notice if it is due now."""
        id = approval.pending.id
        tries, next_s = self._known.get((id, target)) or self._begin(approval, target)
        if tries >= MAX_TRIES or next_s > self._now_s or len(self._due) >= _MOST_AT_ONCE:
            return
        sent, ends_s = self._minute(target)
        if sent >= MOST_PER_MINUTE:
            self._left.setdefault(target, []).append(approval)
            return
        self._write("", target, sent + 1, ends_s)
        self._write(id, target, tries + 1, self._now_s + self._retry_s * 2**tries)
        self._due.append(DueNotice(approval, target, tries + 1))

    def finish(self) -> list[DueNotice]:
        """Return what is claimed, with one notice about all that waits for its minute, for each target."""
        for target, left in self._left.items():
            sent, ends_s = self._minute(target)
            if sent == MOST_PER_MINUTE:
                self._write("", target, sent + 1, ends_s)
                self._due.append(DueNotice(left[0], target, 1, len(left)))
        return self._due

    def _begin(self, approval: Approval, target: str) -> tuple[int, float]:
        """Return no tries, and when the first may come: not at once if the question only replaces one just told."""
        replaced = approval.pending.shown.replaces
        tries, at_s = self._known.get((replaced, target), (0, 0.0)) if replaced else (0, 0.0)
        if 0 < tries < MAX_TRIES:
            # The receiver may have it already.
            at_s = self._now_s
        next_s = at_s if tries == 0 else at_s + _MINUTE_S
        if next_s > self._now_s:
            # Kept for a question that replaces this one in turn.
            self._write(approval.pending.id, target, 0, next_s)
        return 0, next_s

    def _minute(self, target: str) -> tuple[int, float]:
        sent, ends_s = self._known.get(("", target), (0, 0.0))
        # A clock that was set back must not silence a target.
        is_over = ends_s <= self._now_s or ends_s > self._now_s + _MINUTE_S
        return (0, self._now_s + _MINUTE_S) if is_over else (sent, ends_s)

    def _write(self, id: str, target: str, tries: int, at_s: float) -> None:
        self._known[id, target] = tries, at_s
        self._db.execute(_CLAIM, (id, target, tries, at_s))
