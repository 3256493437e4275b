"""Appends of several threads in one commit.

A commit keeps every other writer out, and costs more than what is in it. So entries are put into a list first, and the
next thread to get its turn commits all that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from threading import Lock
from time import monotonic

from lockgate.core.errors import LockgateError, SessionsUnavailable
from lockgate.runtime.forks import on_fork
from lockgate.sessions.session_entries import EntryPlace, SessionEntry
from lockgate.sessions.stores.sql import Database, SqlSessions

_AT_ONCE = 64


class AppendJob:
    """Entries that a thread waits for to be kept."""

    def __init__(self, sessions: Sequence[int], entries: Sequence[SessionEntry], until_s: float) -> None:
        self.sessions, self.entries, self.until_s = sessions, entries, until_s
        self.places: list[EntryPlace] | None = None
        # None once they are kept; until then, what the waiting thread gets if the committing one is interrupted.
        self.error: Exception | None = SessionsUnavailable("keeping was interrupted")
        self.done = False


class GroupedSessions(SqlSessions):
    """Sessions in tables whose commits are shared. A subclass calls `_start_turns` when it is made."""

    def _timed_transaction(self, patience_s: float) -> AbstractContextManager[Database]:
        """One transaction as `_write_transaction` gives it, which waits so long for other writers."""
        raise NotImplementedError

    @property
    def _busy_s(self) -> float:
        """How long a thread waits to write, for the other threads and for other processes together."""
        raise NotImplementedError

    def _busy_error(self) -> LockgateError:
        raise NotImplementedError

    def _start_turns(self) -> None:
        self._reset_turns()
        # In a forked child no thread releases the lock, and the parent keeps what waits.
        on_fork(self._reset_turns)

    def _reset_turns(self) -> None:
        self._waiting: list[AppendJob] = []
        # Held by the thread that commits.
        self._turn = Lock()

    def append(self, sessions: Sequence[int], entries: Sequence[SessionEntry]) -> list[EntryPlace] | None:
        return self.enqueue(sessions, entries)()

    def enqueue(
        self, sessions: Sequence[int], entries: Sequence[SessionEntry]
    ) -> Callable[[], list[EntryPlace] | None]:
        job = AppendJob(sessions, entries, monotonic() + self._busy_s)
        self._waiting.append(job)
        return partial(self._wait_until_kept, job)

    def _wait_until_kept(self, job: AppendJob) -> list[EntryPlace] | None:
        while not job.done:
            if not self._turn.acquire(timeout=max(0.0, job.until_s - monotonic())):
                with suppress(ValueError):
                    self._waiting.remove(job)
                # Another thread may be keeping it just now: it counts as not kept, as where a connection breaks.
                raise self._busy_error()
            try:
                if not job.done:
                    # What is done to the list is one step each to every other thread.
                    self._waiting.remove(job)
                    jobs = [job]
                    with suppress(IndexError):
                        while len(jobs) < _AT_ONCE:
                            jobs.append(self._waiting.pop(0))
                    self._commit(jobs, job.until_s - monotonic())
            finally:
                self._turn.release()
        if job.error is not None:
            raise job.error
        return job.places

    def _commit(self, jobs: list[AppendJob], patience_s: float) -> None:
        begun = written = False
        try:
            with self._timed_transaction(patience_s) as db:
                begun = True
                for job in jobs:
                    job.places = self._append(db, job.sessions, job.entries)
                written = True
            for job in jobs:
                job.error = None
        except BaseException as error:
            if isinstance(error, Exception) and begun and not written and len(jobs) > 1:
                # Nothing was committed, and one of them may be to blame: each by itself.
                for job in jobs:
                    self._commit([job], patience_s)
                return
            if not begun:
                # The threads that wait for the others try by themselves, as long as they still may.
                self._waiting[:0] = jobs[1:]
                del jobs[1:]
            if not isinstance(error, Exception):
                raise
            for job in jobs:
                job.error = error
        finally:
            for job in jobs:
                job.done = True
