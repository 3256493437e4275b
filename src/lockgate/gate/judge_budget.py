"""How many questions a session and a day may put to a judge, and what they may cost.

A page can provoke questions without end, and each costs the user's money or quota. Past the budget no question is
asked, so that the call pauses; only a person raises it. The counts are on disk: a restart gives no new budget.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from lockgate.runtime.failures import report_failure

SESSION_QUESTIONS, DAY_QUESTIONS = 200, 1_000
_KEPT_DAYS = 31
_WAIT_S = 2.0
_TABLE = (
    "CREATE TABLE IF NOT EXISTS asked (day TEXT, session TEXT, questions INTEGER, usd REAL, PRIMARY KEY (day, session))"
)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


class JudgeBudget:
    """The budget of one installation; 0 US dollars a day is no limit on the price. Safe for several processes."""

    def __init__(
        self,
        path: Path,
        *,
        per_session: int = SESSION_QUESTIONS,
        per_day: int = DAY_QUESTIONS,
        usd_per_day: float = 0.0,
        today: Callable[[], str] = _today,
    ) -> None:
        self._path = path
        self._per_session, self._per_day, self._usd_per_day = per_session, per_day, usd_per_day
        self._today = today
        self._lock = Lock()

    def take(self, session: str) -> bool:
        """Count one question; return whether it may be asked. A count that cannot be kept is a spent budget."""
        day = self._today()
        try:
            with self._lock, closing(self._open()) as database, database:
                database.execute(_TABLE)
                database.execute("BEGIN IMMEDIATE")
                count = "SELECT total(questions), total(usd) FROM asked WHERE"
                of_session, _ = database.execute(f"{count} session = ?", (session,)).fetchone()
                of_day, usd = database.execute(f"{count} day = ?", (day,)).fetchone()
                is_dear = self._usd_per_day > 0 and usd >= self._usd_per_day
                if of_session >= self._per_session or of_day >= self._per_day or is_dear:
                    return False
                self._add(database, day, session, 1, 0.0)
                return True
        except (sqlite3.Error, OSError) as error:
            report_failure("judge-budget", error)
            return False

    def spend(self, session: str, usd: float) -> None:
        """Add the price of an answer to the day's."""
        try:
            with self._lock, closing(self._open()) as database, database:
                database.execute(_TABLE)
                self._add(database, self._today(), session, 0, usd)
        except (sqlite3.Error, OSError) as error:
            report_failure("judge-budget", error)

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return sqlite3.connect(self._path, timeout=_WAIT_S)

    def _add(self, database: sqlite3.Connection, day: str, session: str, questions: int, usd: float) -> None:
        database.execute(
            "INSERT INTO asked VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET questions = questions + excluded.questions, usd = usd + excluded.usd",
            (day, session, questions, usd),
        )
        database.execute("DELETE FROM asked WHERE day < date(?, ?)", (day, f"-{_KEPT_DAYS} days"))
