"""What a host does besides: it forgets old sessions, and says whether it can keep anything."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

from lockgate.core.errors import JournalUnavailable, LockgateError, SessionsUnavailable, printable
from lockgate.sessions.session_cache import Memory

_PRUNE_EVERY_S = 3_600.0
_PRUNED_AT_ONCE = 10
_DAY_S = 86_400.0
_READY_S = 1.0
# For so long after a ruling could not be recorded the journal counts as one that cannot be written.
_UNRECORDED_S = 30.0


class Readiness(NamedTuple):
    """Whether what has to be kept can be; why not, where not."""

    sessions: bool
    journal: bool
    why: str = ""


class Upkeep(Memory):
    """Sessions that are forgotten in time."""

    _pruned_at = 0.0
    # What the two clocks said when sessions were first forgotten.
    _since: tuple[float, float] | None = None
    # When the journal last failed, and what was last found of whether all can be written.
    _unrecorded_at = -inf
    _ready = (-inf, Readiness(sessions=False, journal=False))

    def prune(self, keep_days: float) -> int:
        """Forget sessions that were last heard of so many days ago; how many those were."""
        gone = 0
        # A few at a time: whoever rules meanwhile waits for each of these.
        while keep_days > 0 and (some := self._forget_some(keep_days)):
            gone += some
        return gone

    def _forget_some(self, keep_days: float) -> int:
        """A clock that somebody has set is believed by a day: else one wrong moment would forget everything."""
        now, ticks = self._clock(), self._steady()
        if self._since is None:
            newest = self.store.last_seen_at()
            self._since = (min(now, newest + _DAY_S) if newest else now), ticks
        began, first = self._since
        keep_s = keep_days * _DAY_S
        with self._lock:
            used = {live.id for live in self._live.values() if live.used > ticks - keep_s}
        return self.store.prune(min(now, began + ticks - first + _DAY_S) - keep_s, _PRUNED_AT_ONCE, used)

    def ready(self) -> Readiness:
        """Whether a ruling could be kept now: something is really written. Asked often, it answers for a second."""
        now = self._steady()
        asked_at, found = self._ready
        if not 0 <= now - asked_at < _READY_S:
            found = self._tried()
            self._ready = self._steady(), found
        return found

    def _tried(self) -> Readiness:
        why: list[str] = []
        sessions = journal = True
        try:
            self.store.test_write()
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing can be kept
            sessions = False
            why.append(error_text(error))
        try:
            _try_writing(self.gate.journal)
            if self._steady() - self._unrecorded_at < _UNRECORDED_S:
                raise JournalUnavailable("a ruling could not be recorded a moment ago")
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing can be recorded
            journal = False
            why.append(error_text(error))
        return Readiness(sessions, journal, "; ".join(why))

    def _prune_now_and_then(self, now: float) -> None:
        if self._keep_days <= 0 or abs(now - self._pruned_at) < _PRUNE_EVERY_S:
            return
        self._pruned_at = now
        # Somebody waits: who comes next goes on with it.
        with suppress(SessionsUnavailable):
            if self._forget_some(self._keep_days) == _PRUNED_AT_ONCE:
                self._pruned_at = now - _PRUNE_EVERY_S


def _try_writing(journal: Any) -> None:
    """A change of the journal that changes nothing; where it cannot be used, its error."""
    if journal is None:
        return
    journal = journal.open_log() if callable(getattr(journal, "open_log", None)) else journal
    if hasattr(journal, "store"):
        with journal.store.writing(durable=False):
            pass
        return
    # One without files: it refuses to take nothing, unless nothing can be taken at all.
    try:
        journal.enqueue([], durable=False)
    except JournalUnavailable:
        raise
    except LockgateError:
        pass


def error_text(error: BaseException) -> str:
    if isinstance(error, LockgateError):
        return "; ".join(printable(part, 300) for part in (error.message, error.hint) if part)
    return f"the sessions failed: {type(error).__name__}"
