"""Whether rulings can be kept and recorded now, found out by writing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from lockgate.core.errors import JournalUnavailable, LockgateError, printable
from lockgate.core.vocabulary import Decision, Reason
from lockgate.runtime.failures import report_failure
from lockgate.sessions.store import SessionStore

_ANSWER_LIFE_S = 1.0
# For so long after a ruling could not be recorded, the journal counts as one that cannot be written.
_UNRECORDED_S = 30.0


class Readiness(NamedTuple):
    """Whether the session store and the journal can be written; why not, where not."""

    sessions: bool
    journal: bool
    why: str = ""


class ReadinessCheck:
    """Finds out whether a ruling could be kept. `steady` is a clock that is never set."""

    def __init__(self, store: SessionStore, journal: object, steady: Callable[[], float]) -> None:
        self._store = store
        self._journal = journal
        self._steady = steady
        self._unrecorded_at = -inf
        self._latest = (-inf, Readiness(sessions=False, journal=False))

    def note_ruling(self, decision: Decision) -> None:
        """Remember whether the journal took the latest ruling."""
        if decision.reason is Reason.JOURNAL_UNAVAILABLE:
            self._unrecorded_at = self._steady()
        elif decision.receipt is not None:
            self._unrecorded_at = -inf

    def check(self) -> Readiness:
        """Write something, and return whether that worked. An answer counts for a second."""
        asked_at, found = self._latest
        if not 0 <= self._steady() - asked_at < _ANSWER_LIFE_S:
            found = self._try_both()
            self._latest = self._steady(), found
        return found

    def _try_both(self) -> Readiness:
        sessions = self._try(self._store.test_write)
        journal = self._try(self._try_journal)
        return Readiness(not sessions, not journal, "; ".join(why for why in (sessions, journal) if why))

    def _try_journal(self) -> None:
        _write_nothing(self._journal)
        if self._steady() - self._unrecorded_at < _UNRECORDED_S:
            raise JournalUnavailable("a ruling could not be recorded a moment ago")

    @staticmethod
    def _try(write: Callable[[], None]) -> str:
        """Return why a store cannot be written; empty where it can."""
        try:
            write()
        except Exception as error:  # noqa: BLE001  # an edge: the session store and the journal
            report_failure("readiness", error)
            return error_text(error)
        return ""


def _write_nothing(journal: Any) -> None:
    """Write to the journal without changing it; raise its error where it cannot be written."""
    if journal is None:
        return
    journal = journal.open_log() if callable(getattr(journal, "open_log", None)) else journal
    if hasattr(journal, "store"):
        with journal.store.writing(durable=False):
            pass
        return
    # A journal without a store refuses an empty batch, unless it cannot take anything at all.
    try:
        journal.enqueue([], durable=False)
    except JournalUnavailable:
        raise
    except LockgateError:
        pass


def error_text(error: BaseException) -> str:
    """Return an error's message and hint where it is ours; else its type, since a foreign message may hold anything."""
    if isinstance(error, LockgateError):
        return "; ".join(printable(part, 300) for part in (error.message, error.hint) if part)
    return f"the session store failed: {type(error).__name__}"
