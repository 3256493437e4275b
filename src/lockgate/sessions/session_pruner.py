"""Deletes sessions that are older than the operator wants to keep them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from lockgate.core.errors import SessionsUnavailable
from lockgate.sessions.session_cache import SessionCache
from lockgate.sessions.store import SessionStore

_PRUNE_EVERY_S = 3_600.0
# A few at a time: every ruling of other callers waits for one such deletion.
_PRUNED_AT_ONCE = 10
_DAY_S = 86_400.0


class SessionPruner:
    """Deletes old sessions. `steady` is a clock that is never set."""

    def __init__(
        self,
        store: SessionStore,
        cache: SessionCache,
        *,
        keep_days: float,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._store = store
        self._cache = cache
        self._keep_days = keep_days
        self._clock = clock
        self._steady = steady
        self._pruned_at = 0.0
        # What the two clocks said when sessions were first deleted.
        self._since: tuple[float, float] | None = None

    def prune(self, keep_days: float) -> int:
        """Delete the sessions that were last seen so many days ago; return how many those were."""
        gone = 0
        while keep_days > 0 and (some := self._prune_some(keep_days)):
            gone += some
        return gone

    def prune_hourly(self, now: float) -> None:
        """Delete a few old sessions where the last time is an hour ago."""
        if self._keep_days <= 0 or abs(now - self._pruned_at) < _PRUNE_EVERY_S:
            return
        self._pruned_at = now
        with suppress(SessionsUnavailable):
            if self._prune_some(self._keep_days) == _PRUNED_AT_ONCE:
                # There may be more: the next caller goes on.
                self._pruned_at = now - _PRUNE_EVERY_S

    def _prune_some(self, keep_days: float) -> int:
        # The clock may have been set wrong: it is believed by a day, or one wrong moment would delete everything.
        now, ticks = self._clock(), self._steady()
        if self._since is None:
            newest = self._store.last_seen_at()
            self._since = (min(now, newest + _DAY_S) if newest else now), ticks
        began, first = self._since
        keep_s = keep_days * _DAY_S
        before = min(now, began + ticks - first + _DAY_S) - keep_s
        return self._store.prune(before, _PRUNED_AT_ONCE, self._cache.used_since(ticks - keep_s))
