"""Sessions in PostgreSQL, for several instances: any of them can answer for any session.

Every commit waits for the server's disk with every other writer kept out. So a thread that comes meanwhile leaves its
entries in a list, and the next thread to get its turn commits them all at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from threading import Lock
from time import monotonic

from lockgate.core.errors import SessionsUnavailable
from lockgate.core.sessions.session_entries import EntryPlace, SessionEntry
from lockgate.runtime.postgres import BUSY_S, Postgres
from lockgate.sessions.stores.sql import TABLES, Database, SqlSessions

_VERSION = 2
# "lkgs": a writer holds this lock.
_LOCK = 0x6C6B6773
_AT_ONCE = 64


class AppendJob:
    """Entries that a thread waits for to be kept."""

    def __init__(self, sessions: Sequence[int], entries: Sequence[SessionEntry]) -> None:
        self.sessions, self.entries = sessions, entries
        self.puts: list[EntryPlace] | None = None
        self.error: Exception | None = None
        self.done = False
        self.until = monotonic() + BUSY_S


class PostgresSessions(SqlSessions):
    """Sessions in the database that `conninfo` names."""

    _find = "strpos"

    def __init__(self, conninfo: str) -> None:
        self._database = Postgres(
            conninfo, what="sessions", error=SessionsUnavailable, tables=TABLES, version=_VERSION, lock=_LOCK
        )
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._waiting: list[AppendJob] = []
        # Held by the thread that commits.
        self._turn = Lock()

    def append(self, sessions: Sequence[int], entries: Sequence[SessionEntry]) -> list[EntryPlace] | None:
        if os.getpid() != self._process:
            # In a forked child: no thread here releases the lock, and the parent keeps what waits.
            self._reset()
        job = AppendJob(sessions, entries)
        self._waiting.append(job)
        while not job.done:
            if not self._turn.acquire(timeout=max(0.0, job.until - monotonic())):
                with suppress(ValueError):
                    self._waiting.remove(job)
                # Another thread may be keeping it just now: it counts as not kept, as where a connection breaks.
                raise self._database.busy_error()
            try:
                if not job.done:
                    # What is done to the list is one step each to every other thread.
                    self._waiting.remove(job)
                    jobs = [job]
                    with suppress(IndexError):
                        while len(jobs) < _AT_ONCE:
                            jobs.append(self._waiting.pop(0))
                    self._commit(jobs, job.until - monotonic())
            finally:
                self._turn.release()
        if job.error is not None:
            raise job.error
        return job.puts

    def _commit(self, jobs: list[AppendJob], patience_s: float) -> None:
        begun = written = False
        try:
            with self._database.changing(patience_s) as db:
                begun = True
                for job in jobs:
                    job.puts = self._append(db, job.sessions, job.entries)
                written = True
        except BaseException as error:
            own = isinstance(error, Exception)
            if own and begun and not written and len(jobs) > 1:
                # Nothing was committed, and one of them may be to blame: each by itself.
                for job in jobs:
                    self._commit([job], patience_s)
                return
            if not begun:
                # The threads that wait for the others try by themselves, as long as they still may.
                self._waiting[:0] = jobs[1:]
                del jobs[1:]
            for job in jobs:
                # The waiting thread gets an error, also when the committing thread was interrupted.
                job.error = error if isinstance(error, Exception) else SessionsUnavailable("keeping was interrupted")
            if not own:
                raise
        finally:
            for job in jobs:
                job.done = True

    def test_write(self) -> None:
        self._database.probe()

    def close(self) -> None:
        self._database.close()

    def _write_transaction(self) -> AbstractContextManager[Database]:
        return self._database.changing()

    def _read_connection(self) -> AbstractContextManager[Database | None]:
        return self._database.reading()

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        places = ", ".join("?" * len(values))
        # Under the lock: no other writer gets a number until this one can be read.
        found = db.execute(f"INSERT INTO entries ({columns}) VALUES ({places}) RETURNING seq", values)  # noqa: S608
        return int(found.fetchone()[0])
