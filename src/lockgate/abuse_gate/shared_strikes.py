"""Shares strikes and bans between threads, workers and hosts; `core/requests/strikes.py` counts them and sets bans.

1. This process counts always, and can judge alone.
2. The bans file, if there is one: read before the first request is judged, and again every second.
3. The shared store, if there is one: asked with every request, within its deadline.

Every strike and ban is first known in 1, without waiting. It stays on a list until 2 and 3 have it, so a cancelled
request, a full disk or a store that is down loses nothing. Each of the three learns what the others know, and none
forgets a ban before its end. Only an operator lifts one, in 2 and 3 (`lockgate gate bans --lift`); every process that
hears of it forgets the subject.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import islice
from secrets import token_hex
from typing import NamedTuple, Protocol, cast

from lockgate.abuse_gate.stores.strikes_memory import NO_RECORD, MemoryStrikes
from lockgate.core.requests.strikes import (
    LIFTED,
    NETWORK,
    NEVER,
    PRINCIPAL,
    LadderSettings,
    SharedRecord,
    SharedStrikes,
    Standing,
    StrikeRecord,
    StrikeReport,
    Subject,
    add_strike,
    merge_shared,
    recent_strikes,
    remaining_s,
    retry_after_s,
    standing_from_record,
)
from lockgate.runtime.failures import report_failure
from lockgate.runtime.worker_pool import Full, JobResult, WorkerPool

# How often this process reads the bans of other workers from the file.
POLL_S = 1.0
# How long a request waits for the file: for the first load of all bans; for a ban to be on disk; for other reads.
LOAD_S, KEEP_S, READ_S = 2.0, 0.5, 0.05
# After this time the thread that reads the file counts as lost.
LOST_S = 30.0
# How many news of other requests one request carries to the store.
MAX_NEWS = 30
# How many subjects' strikes wait for a store that is down; bans wait in any case.
MAX_UNSHARED = 10_000
# How many unauthenticated requests of slowed networks wait at one time, of one network and altogether. Each costs a
# connection.
MAX_HELD_EACH, MAX_HELD = 32, 2_000
# Two ends of bans that differ by less are one ban, reported on two ways.
SAME_BAN_S = 1.0
_SyncResult = tuple[Sequence[tuple[Subject, SharedRecord]], int, bool, float]
_RANK = {standing: rank for rank, standing in enumerate(Standing)}


class SharedStrikeStore(Protocol):
    """The store that workers share. `exchange` keeps its own deadline, returns None if it fails, and never raises.

    When it has answered, all workers can learn what was reported. Reporting the same twice changes nothing.
    """

    async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None: ...

    async def close(self) -> None: ...


class BanFile(Protocol):
    """Bans on disk; called in a thread. When `keep` returns they are durable.

    `since` returns the bans written after a number, the number to go on from, and whether there are more.
    """

    def keep(self, bans: Sequence[tuple[Subject, SharedRecord]], now_s: float) -> None: ...

    def since(self, number: int, now_s: float) -> tuple[Sequence[tuple[Subject, SharedRecord]], int, bool]: ...


class ClientStanding(NamedTuple):
    """The standing of a request's sender. `degraded`: this process judged alone, because the store or file failed.

    `delay_s` is how long the request has to wait (see `hold`), also in addition to a standing.
    """

    standing: Standing
    retry_after_s: int
    strikes: int
    degraded: bool
    delay_s: float = 0.0


GOOD_STANDING, _GOOD_DEGRADED = (
    ClientStanding(Standing.NORMAL, 0, 0, False),
    ClientStanding(Standing.NORMAL, 0, 0, True),
)


class Ladder:
    """Strikes and what follows from them, for one event loop at a time.

    It calls `count` with `evicted` and `evicted-ban` (forgotten early, for lack of room), `store-error`, `bans-error`,
    and `unshared` (a strike that only this process will ever know).
    """

    def __init__(
        self,
        settings: LadderSettings,
        store: SharedStrikeStore | None = None,
        *,
        bans: BanFile | None = None,
        count: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings, self._store, self._bans, self._count = settings, store, bans, count
        self._clock, self._wall, self._chance, self._sleep = clock, wall, chance, sleep
        self._table = MemoryStrikes(settings, count)
        self._shares = True
        self._asked_at = NEVER
        # News for the store and for the file.
        self._unshared: dict[Subject, dict[str, float]] = {}
        self._untold: dict[Subject, None] = {}
        self._unkept: dict[Subject, None] = {}
        self._lane = WorkerPool(1, max_jobs=2)
        self._syncing: Future[JobResult] | None = None
        self._writing: tuple[Subject, ...] = ()
        self._number = 0
        self._synced_at: float | None = None
        self._loaded = bans is None
        self._bans_fail = False
        self._held: Counter[Subject] = Counter()

    async def standing(self, subjects: Sequence[Subject]) -> ClientStanding:
        """Return how these subjects stand. Ask before any other work on their request."""
        if not self._settings.enabled:
            return ClientStanding(Standing.NORMAL, 0, 0, False)
        kept = self._bans is None or await self._sync_ban_file(READ_S)
        judged = self._judge(subjects, degraded=not (kept and self._shares))
        if self._store is None:
            return judged
        if judged.standing is Standing.FULL_QUARANTINE and self._clock() - self._asked_at < POLL_S:
            # Only an operator can have lifted it, which can wait: a banned client must not cost a call to the store.
            return judged
        shared = await self._exchange(subjects)
        return self._judge(subjects, degraded=not (kept and shared))

    @property
    def has_bans(self) -> bool:
        """Whether this process knows of any ban."""
        return self._table.has_bans

    def standing_from_memory(self, subjects: Sequence[Subject], before: ClientStanding) -> ClientStanding:
        """Return how they stand by what this process has learned since `before`; no store and no file is asked.

        Only bans matter by then: a request is not delayed twice.
        """
        if not self._settings.enabled or not self._table.has_bans:
            return before
        for subject in subjects:
            if self._table.get(subject).ends() != NEVER:
                return self._judge(subjects, degraded=before.degraded)
        return before

    async def record_unsafe(self, subjects: Sequence[Subject]) -> ClientStanding:
        """Count a strike against each subject, and return how they stand now. It counts even if this is cancelled."""
        if not self._settings.enabled:
            return ClientStanding(Standing.NORMAL, 0, 0, False)
        now, id = self._clock(), token_hex(8)
        for subject in subjects:
            self._store_record(subject, add_strike(self._table.get(subject), subject.kind, now, self._settings), now)
            if self._store is not None:
                self._queue_strike(subject, id, now)
        shared = await self._exchange(subjects)
        kept = await self._sync_ban_file(KEEP_S)
        return self._judge(subjects, degraded=not (kept and shared))

    async def hold(self, subjects: Sequence[Subject], judged: ClientStanding) -> bool:
        """Wait as long as a slowed network has to; return False at once if too many of its requests wait already.

        An authenticated client waits as well, but is never turned away: another client at its address could fill all
        places otherwise, and lock it out.
        """
        if judged.delay_s <= 0:
            return True
        network = next((each for each in subjects if each.kind == NETWORK), None)
        if network is None or any(each.is_authenticated for each in subjects):
            await self._sleep(judged.delay_s)
            return True
        if self._held[network] >= MAX_HELD_EACH or self._held.total() >= MAX_HELD:
            return False
        self._held[network] += 1
        try:
            await self._sleep(judged.delay_s)
        finally:
            self._held[network] -= 1
            if not self._held[network]:
                del self._held[network]
        return True

    async def close(self) -> None:
        """Report the remaining news to the store and the file, as far as they answer, and close the store."""
        if self._untold or self._unshared:
            await self._exchange(())
        if self._unkept:
            await self._sync_ban_file(KEEP_S)
        if self._store is not None:
            await self._store.close()

    def _judge(self, subjects: Sequence[Subject], *, degraded: bool) -> ClientStanding:
        if all(self._table.get(subject) is NO_RECORD for subject in subjects):
            return _GOOD_DEGRADED if degraded else GOOD_STANDING
        now = self._clock()
        worst, left, delay_s = Standing.NORMAL, 0.0, 0.0
        strikes = {PRINCIPAL: 0, NETWORK: 0}
        for subject in subjects:
            record = self._table.get(subject)
            standing, seconds = standing_from_record(record, subject.kind, now, self._settings)
            strikes[subject.kind] = max(strikes[subject.kind], len(recent_strikes(record, now, self._settings)))
            if standing is Standing.SLOWED:
                delay_s = max(delay_s, seconds)
            if (_RANK[standing], seconds) > (_RANK[worst], left):
                worst, left = standing, seconds
        named = any(subject.kind == PRINCIPAL for subject in subjects)
        return ClientStanding(
            worst,
            0 if worst is Standing.NORMAL else retry_after_s(left, self._chance()),
            strikes[PRINCIPAL if named else NETWORK],
            degraded,
            delay_s,
        )

    def _store_record(
        self, subject: Subject, record: StrikeRecord, now: float, *, told: bool = False, kept: bool = False
    ) -> None:
        """Store a subject's record, and list it as news for the store and the file, except for its source."""
        before = self._table.get(subject)
        if record == before:
            return
        self._table.put(subject, record, now)
        if (
            record.locked_until - max(before.locked_until, now) > SAME_BAN_S
            or record.quarantined_until - max(before.quarantined_until, now) > SAME_BAN_S
        ):
            if self._store is not None and not told:
                self._add_waiting(self._untold, subject)
            if self._bans is not None and not kept:
                self._add_waiting(self._unkept, subject)

    def _add_waiting(self, waiting: dict[Subject, None], subject: Subject) -> None:
        waiting[subject] = None
        if len(waiting) > self._settings.max_subjects:
            del waiting[next(iter(waiting))]

    def _learn(
        self, heard: Iterable[tuple[Subject, SharedRecord]], now: float, *, told: bool = False, kept: bool = False
    ) -> None:
        for subject, known in heard:
            if known == LIFTED:
                self._forget(subject, now)
            elif known != SharedRecord():
                record = merge_shared(self._table.get(subject), known, now, self._settings)
                self._store_record(subject, record, now, told=told, kept=kept)

    def _forget(self, subject: Subject, now: float) -> None:
        self._table.put(subject, NO_RECORD, now)
        for waiting in (self._untold, self._unkept, self._unshared):
            waiting.pop(subject, None)

    # --- the shared store

    def _queue_strike(self, subject: Subject, id: str, now: float) -> None:
        waiting = self._unshared.get(subject)
        if waiting is None:
            if len(self._unshared) >= MAX_UNSHARED:
                del self._unshared[next(iter(self._unshared))]
                self._count("unshared")
            waiting = self._unshared[subject] = {}
        waiting[id] = now
        if len(waiting) > self._settings.kept_strikes:
            del waiting[next(iter(waiting))]

    async def _exchange(self, subjects: Sequence[Subject]) -> bool:
        """Report the news to the store and learn what it knows; return whether it answered."""
        if self._store is None:
            return True
        now = self._clock()
        others = (*islice(self._untold, MAX_NEWS), *islice(self._unshared, MAX_NEWS))
        about = tuple(dict.fromkeys((*subjects, *others)))
        told = [self._report_on(subject, now) for subject in about]
        # Removed before the call: what is added during the call is news again.
        news = [subject for subject in about if subject in self._untold]
        for subject in news:
            del self._untold[subject]
        heard: SharedStrikes | None = None
        self._asked_at = now
        try:
            heard = await self._store.exchange(told)
        except Exception as error:  # noqa: BLE001 - the edge to the store: one that raises counts as down
            report_failure("abuse_gate.store", error)
        finally:
            if heard is None or len(heard.known) != len(told):
                heard = None
                self._untold.update(dict.fromkeys(news))
        self._shares = heard is not None
        if heard is None:
            self._count("store-error")
            return False
        now = self._clock()
        for each in told:
            self._drop_shared_strikes(each)
        self._learn(zip(about, heard.known, strict=True), now, told=True)
        self._learn(heard.bans, now, told=True)
        if heard.has_forgotten:
            self._untold.update(dict.fromkeys(subject for subject, _ in self._table.bans(now)))
        return True

    def _report_on(self, subject: Subject, now: float) -> StrikeReport:
        window_s = self._settings.window_s
        strikes = tuple((id, now - at) for id, at in self._unshared.get(subject, {}).items() if now - at < window_s)
        return StrikeReport(subject, strikes, *remaining_s(self._table.get(subject), now))

    def _drop_shared_strikes(self, told: StrikeReport) -> None:
        waiting = self._unshared.get(told.subject)
        if waiting is None:
            return
        for id, _ in told.strikes:
            waiting.pop(id, None)
        oldest = self._clock() - self._settings.window_s
        if not any(at > oldest for at in waiting.values()):
            del self._unshared[told.subject]

    # --- the bans file

    async def _sync_ban_file(self, wait_s: float) -> bool:
        """Exchange bans with the file, if that is due; return whether the file works."""
        if self._bans is None:
            return True
        self._finish_sync()
        # More than once: the running exchange may have begun before this ban, and at the start there are many pages.
        while self._syncing is not None or self._start_sync():
            # Measured from its start: a hanging disk delays the first requests only.
            left = (wait_s if self._loaded else LOAD_S) - (self._clock() - (self._synced_at or 0.0))
            if self._syncing is None or left <= 0:
                break
            done, _ = await asyncio.wait({asyncio.wrap_future(self._syncing)}, timeout=left)
            self._finish_sync()
            if not done:
                break
        return self._loaded and self._syncing is None and not self._bans_fail

    def _start_sync(self) -> bool:
        """Start an exchange in the thread, if there is something to write or it is time to read."""
        now, bans = self._clock(), self._bans
        due = self._synced_at is None or now - self._synced_at >= POLL_S
        # After a failure even a ban waits for the next poll: a full disk is not tried with every request.
        if bans is None or not (due or (self._unkept and not self._bans_fail)):
            return False
        self._synced_at = now
        now_s, number = self._wall(), self._number
        writing = tuple(self._unkept)
        rows = [(each, SharedRecord((), *remaining_s(self._table.get(each), now))) for each in writing]

        def turn() -> _SyncResult:
            if rows:
                bans.keep(rows, now_s)
            return *bans.since(number, self._wall()), self._clock()

        try:
            self._syncing = self._lane.submit(turn)
        except Full:
            self._count_sync_failure()
            return False
        self._writing = writing
        self._unkept.clear()
        return True

    def _finish_sync(self) -> None:
        """Learn the bans that the thread has read, if it is done or lost."""
        turn, writing = self._syncing, self._writing
        if turn is None or not (turn.done() or self._clock() - (self._synced_at or 0.0) >= LOST_S):
            return
        self._syncing, self._writing = None, ()
        try:
            # The result of a lost thread is never used, even if it comes.
            found, number, more, at = cast(_SyncResult, turn.result(timeout=0)())
        except Exception as error:  # noqa: BLE001 - the edge to the file: if it fails, this process judges alone
            report_failure("abuse_gate.bans_file", error)
            self._unkept.update(dict.fromkeys(writing))
            self._count_sync_failure()
            return
        self._number, self._bans_fail = number, False
        self._learn(found, at, kept=True)
        if more:
            self._synced_at = None
        else:
            self._loaded = True

    def _count_sync_failure(self) -> None:
        self._bans_fail = True
        self._count("bans-error")
