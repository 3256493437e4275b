"""The versions of one store's tables in PostgreSQL, and the step from each to the next.

A store lists `(version, statements)`; the first makes its tables. A later step only adds: a table, an index, a column
with a constant default. So instances of the version before go on while those of the new version start, one by one.
They stop when the tables are two versions ahead: what is written by then may be nothing that they understand.

No step rewrites a table: to a transaction that began before, a rewritten table looks empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.core.errors import LockgateError

if TYPE_CHECKING:
    from lockgate.runtime.limited_connection import LimitedConnection

    Steps = tuple[tuple[int, str], ...]

# For one step. Writers wait all the while, and get "busy", so an operator should hear of a step that never ends.
MAX_STEP_S = 1_800.0


class SchemaSteps:
    """The steps of one store: `mark` is the table with its version, `lock` the advisory lock of its writers.

    `refuse` makes the store's error from a reason and a hint.
    """

    def __init__(self, mark: str, lock: int, steps: Steps, refuse: Callable[..., LockgateError]) -> None:
        self._mark, self._lock, self._steps, self._refuse = mark, lock, steps, refuse
        self.known = steps[-1][0]

    def read_version(self, db: LimitedConnection) -> int:
        """Return the version of the tables; 0 where there are none."""
        # Not `to_regclass`: it caches the answer "no", and a process that waited would create the tables again.
        found = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = %s"
        if db.execute(found, (self._mark,)).fetchone() is None:
            return 0
        row = db.execute(f"SELECT version FROM {self._mark}".encode()).fetchone()  # noqa: S608
        if row is None:
            raise self._refuse("has lost the version of its tables", hint="bring it back from a copy")
        return int(row[0])

    def check_version(self, version: int, *, running: bool = False) -> None:
        """Raise if the tables are too new for this program; a `running` one goes on for one version more."""
        if version > self.known + running:
            why = f"has tables of a newer lockgate: version {version}, and this one knows {self.known}"
            raise self._refuse(why, hint="upgrade lockgate here; tables never go back: `lockgate help teams`")

    def check_again(self, row: tuple[int] | None, *, running: bool = True) -> None:
        """Raise if the row of a transaction's version is not one that this process began with, nor one ahead."""
        if row is None or row[0] < self.known:
            raise self._refuse("was replaced by an older copy", hint="try again")
        self.check_version(row[0], running=running)

    def bring_forward(self, db: LimitedConnection) -> None:
        """Make the tables, or apply the steps that they lack, all or none. Close the connection if this raises."""
        db.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        # Several instances may start at once: the first does it, and the others find it done.
        db.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock,))
        version = self.read_version(db)
        if version:
            # The log's writers wait for this row, not for the advisory lock.
            version = int(db.execute(f"SELECT version FROM {self._mark} FOR UPDATE".encode()).fetchone()[0])  # type: ignore[index]  # noqa: S608
        else:
            db.execute(f"CREATE TABLE {self._mark} (version integer PRIMARY KEY)".encode())
            db.execute(f"INSERT INTO {self._mark} VALUES (0)".encode())  # noqa: S608
        self.check_version(version)
        if 0 < version < self._steps[0][0]:
            why = f"has tables of an older lockgate: version {version}, and this one knows none before "
            raise self._refuse(f"{why}{self._steps[0][0]}", hint="begin with an empty database")
        # An index over many rows takes its time; to wait for a lock has a limit of its own.
        db.execute(f"SET LOCAL statement_timeout = {int(MAX_STEP_S * 1000)}".encode())
        # The server's limit comes first, because it says more.
        limit_s, db.limit_s = db.limit_s, MAX_STEP_S + db.limit_s
        for number, statements in self._steps:
            if number > version:
                self._apply(db, statements)
        db.limit_s = limit_s
        db.execute(f"UPDATE {self._mark} SET version = %s".encode(), (self.known,))  # noqa: S608
        db.execute("COMMIT")

    def _apply(self, db: LimitedConnection, statements: str) -> None:
        from psycopg.errors import LockNotAvailable, QueryCanceled

        try:
            db.execute(statements.encode())
        except (LockNotAvailable, QueryCanceled) as error:
            took = f"it took more than {MAX_STEP_S / 60:g} minutes"
            why = took if isinstance(error, QueryCanceled) else "another transaction holds them"
            hint = "nothing was changed: end long transactions, such as a dump of the database, and start again"
            raise self._refuse(f"has tables that cannot be brought forward to {self.known}: {why}", hint=hint) from None
