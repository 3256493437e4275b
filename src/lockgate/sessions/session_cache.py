"""The sessions that a host has in memory: each as its store has it, or in doubt.

What could not be added to a session may have been read by its agent all the same. That it is in doubt is remembered
here until the store has kept it: whoever goes on with the session, anywhere, then knows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial, reduce
from json import loads
from logging import getLogger
from threading import Event, Lock, Thread
from time import monotonic, time
from weakref import ref

from lockgate.core.errors import LockgateError, SessionsUnavailable
from lockgate.core.ruling.scope.border import combine_scopes
from lockgate.core.sessions.session_entries import (
    EntryPlace,
    EntrySort,
    SessionEntry,
    SessionInfo,
    SessionRow,
)
from lockgate.core.vocabulary import Mode
from lockgate.gate.gate import MAX_HISTORY, Gate, Session
from lockgate.sessions.live_session import HostedSession, LiveSession
from lockgate.sessions.store import SessionStore

_log = getLogger("lockgate.hosting")

# Sessions that are kept in memory, and the characters of all of them: those used longest ago go first.
MAX_LIVE = 512
MAX_LIVE_SIZE = 128 * 1024 * 1024
# How many sessions a subagent's can be inside of.
MAX_DEPTH = 8
_MAX_UNSURE = 10_000
_MEND_EVERY_S = 1.0
# From the loosest to the strictest.
_MODES = ("", Mode.DEFAULT.value, Mode.RESEARCH.value, Mode.PARANOID.value)


class Memory:
    """Sessions as far as they were read, and what is still to be kept of them.

    `steady` is a clock that nobody sets, and `most_live` how many sessions are kept in memory.
    """

    def __init__(
        self,
        gate: Gate,
        store: SessionStore,
        *,
        clock: Callable[[], float] = time,
        steady: Callable[[], float] = monotonic,
        keep_days: float = 0,
        most_live: int = 0,
    ) -> None:
        self.gate = gate
        self.store = store
        self._clock = clock
        self._steady = steady
        self._keep_days = keep_days
        self._most_live = most_live
        self._live: OrderedDict[str, LiveSession] = OrderedDict()
        # Sessions that somebody could not add to, by the number of the latest such failure: whatever that was, the
        # agent may have read it. Kept here until the store has it; where there are too many, all of them are.
        self._unsure: dict[str, int] = {}
        self._misses = 0
        self._all_unsure = False
        self._mender: Thread | None = None
        self._lock = Lock()
        self._closed = Event()

    def _know(self, live: LiveSession, *, known: bool) -> None:
        self._put(live, SessionEntry(EntrySort.MARK, self._clock(), detail="known" if known else "unknown"))

    def _current(self, session: str) -> LiveSession:
        """1. The session with all that is new in it; one that nobody opened is made as such."""
        while True:
            with self._lock:
                live = self._live.get(session)
                if live is not None:
                    self._live.move_to_end(session)
                unsure = self._unsure.get(session, 0)
            if live is None:
                live = self._built(session)
                with self._lock:
                    live = self._live.setdefault(session, live)
            else:
                self._catch_up(live)
            if unsure:
                self._settle(live, unsure)
            live.used = self._steady()
            doubted = unsure or any(each in self._unsure for each in live.parent_ids)
            live.session.context_known = not (live.unknown_context or doubted or self._all_unsure)
            if not live.is_outdated:
                if live.has_grown:
                    self._make_room(live)
                return live
            with self._lock:
                if self._live.get(session) is live:
                    del self._live[session]

    def _built(self, session: str) -> LiveSession:
        now = self._clock()
        info = self.store.session(session)
        if info is None:
            info = self.store.create(SessionInfo(session, created_at=now, seen_at=now, context_known=False))
        chain, unknown, at = [info], {info.number} if not info.context_known else set(), info
        while at.parent:
            above = self.store.session(at.parent)
            if above is None or above in chain or len(chain) > MAX_DEPTH:
                # What it has read through its parent is not known any more.
                unknown.add(0)
                break
            if not above.context_known:
                unknown.add(above.number)
            chain.append(above)
            at = above
        numbers = tuple(each.number for each in chain)
        rows = self.store.read_entries(numbers, 0, rulings_after=self.store.ruling_cursor(info.number, MAX_HISTORY))
        first = _first_open_step(rows)
        if first:
            # It is held to every call since it began.
            rows = self.store.read_entries(numbers, 0, rulings_after=first)
        # What was changed meanwhile counts; and inside a session nothing is looser than in it.
        modes = [tuple(loads(row.detail)) for row in rows if row.sort == EntrySort.MODE and row.session == info.number]
        stand = [modes[-1] if modes else (info.mode, info.scope), *((each.mode, each.scope) for each in chain[1:])]
        live = LiveSession(info, self._opened(info, stand), numbers)
        live.run = HostedSession(live.session, partial(self._catch_up, live))
        live.unknown_context = unknown
        live.parent_ids = tuple(each.id for each in chain[1:])
        with live.lock:
            live.catch_up([row for row in rows if row.sort != EntrySort.MODE])
            live.cursor = rows[-1].seq if rows else 0
        return live

    def _catch_up(self, live: LiveSession) -> None:
        with live.lock:
            if live.is_outdated:
                return
            live.catch_up(self.store.read_entries(live.chain, live.cursor))

    def _opened(self, info: SessionInfo, stand: Iterable[tuple[str, str]]) -> Session:
        try:
            mode, scope = reduce(strictest, stand)
            return self.gate.session(mode=mode or None, scope=scope, id=info.id, resumed=info.asked)
        except LockgateError:
            # The policy has changed, and has no room for it: then the strictest one.
            return self.gate.session(mode=Mode.PARANOID, id=info.id, resumed=info.asked)

    def _settle(self, live: LiveSession, unsure: int) -> None:
        """Keep that the context is not known, so that it need not be remembered here any more."""
        if not live.settling.acquire(blocking=False):
            # Somebody is at it.
            return
        try:
            if live.chain[0] not in live.unknown_context:
                self._know(live, known=False)
                self._catch_up(live)
            with self._lock:
                if self._unsure.get(live.id) == unsure:
                    del self._unsure[live.id]
        finally:
            live.settling.release()

    def _put(self, live: LiveSession, *entries: SessionEntry, ruling: bool = False) -> list[EntryPlace]:
        puts = self.store.append(live.chain, entries)
        if puts is None:
            # Forgotten meanwhile, or its file lost: it goes on as one whose context is not known.
            live.is_outdated = True
            if ruling:
                raise SessionsUnavailable("the session was forgotten while it was ruled on", hint="try again")
            puts = self.store.append(self._current(live.id).chain, entries)
        if puts is None:
            raise SessionsUnavailable("the session is forgotten as soon as it is made")
        return puts

    def _make_room(self, newest: LiveSession) -> None:
        newest.has_grown = False
        with self._lock:
            size = sum(live.size for live in self._live.values())
            most = self._most_live or MAX_LIVE
            while len(self._live) > 1 and (len(self._live) > most or size > MAX_LIVE_SIZE):
                oldest = next(iter(self._live))
                if oldest == newest.id:
                    break
                size -= self._live.pop(oldest).size

    def _miss(self, session: str) -> None:
        with self._lock:
            self._misses += 1
            if session in self._unsure or len(self._unsure) < _MAX_UNSURE:
                self._unsure[session] = self._misses
            else:
                self._all_unsure = True
            if self._mender is None or not self._mender.is_alive():
                self._mender = Thread(target=_mend, args=(ref(self), self._closed), daemon=True)
                self._mender.start()

    def _mend(self) -> bool:
        """Try to keep what could not be; whether there is nothing left of it."""
        for session in list(self._unsure):
            try:
                self._current(session)
            except Exception:  # noqa: BLE001  # later, then
                return False
        with self._lock:
            if self._unsure:
                return False
            # Whoever comes next starts another.
            self._mender = None
        return True


def _mend(weak: ref[Memory], closed: Event) -> None:
    """In a thread of its own, until all is kept or nobody uses the host any more."""
    while not closed.wait(_MEND_EVERY_S):
        host = weak()
        if host is None or host._mend():
            return
        del host


def strictest(one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str]:
    """Of two modes with their scopes what holds where both do."""
    return max(one[0], other[0], key=_MODES.index), combine_scopes(one[1], other[1])


def _first_open_step(rows: Iterable[SessionRow]) -> int:
    """Where the first step began, unless all are over; 0 where there is none."""
    first = begun = over = 0
    for row in rows:
        if row.sort == EntrySort.STEP:
            what, *told = loads(row.detail)
            begun += what == "begin"
            over += what == "abandon" or told[-1] == "finished"
            first = first or row.seq
    return first if begun > over else 0
