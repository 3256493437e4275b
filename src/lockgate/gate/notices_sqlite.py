"""Which notifications are still to be sent, in the database of the approvals: several processes share the work.

A notice is claimed before it is sent, by the time at which it would be tried again. So a process that dies, or a
receiver that fails, leads to another try and to nothing worse. The table is made by the first use of it.
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
    """A question that waits, and the target that has to hear of it now; `tries` counts this one too."""

    approval: Approval
    target: str
    tries: int


class SqliteNotices:
    """The part of a store of approvals that knows who was told of a question."""

    def claim_notices(self, targets: Sequence[str], now_s: float, retry_s: float = RETRY_S) -> list[DueNotice]:
        """Return what is to be sent now. Unless `mark_sent` is called, each is returned again later, a few times."""
        now_s = parse_time(now_s)
        if not self._file_exists():
            return []
        due: list[DueNotice] = []
        with self._transaction(now_s) as (db, _):
            db.execute(_TABLE)
            db.execute("DELETE FROM notices WHERE approval NOT IN (SELECT id FROM approvals)")
            known = {(id, name): (tries, at) for id, name, tries, at in db.execute("SELECT * FROM notices")}
            for approval in self._select(db, "WHERE state = 'waiting'"):
                for target in targets:
                    tries, next_s = known.get((approval.pending.id, target), (0, 0.0))
                    if tries < MAX_TRIES and next_s <= now_s and len(due) < _MOST_AT_ONCE:
                        db.execute(_CLAIM, (approval.pending.id, target, tries + 1, now_s + retry_s * 2**tries))
                        due.append(DueNotice(approval, target, tries + 1))
        return due

    def mark_sent(self, notice: DueNotice, now_s: float) -> None:
        """Note that the target has it."""
        with self._transaction(parse_time(now_s)) as (db, _):
            db.execute(_CLAIM, (notice.approval.pending.id, notice.target, _SENT, 0.0))

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
