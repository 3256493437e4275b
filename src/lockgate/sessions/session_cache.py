"""The sessions that a host has in memory, each built from the entries that the store has of it.

A block that could not be added may have been read by the agent all the same. The cache remembers this until the store
has it: until then, and from then on, the context of that session counts as unknown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from json import loads
from threading import Event, Lock, Thread
from weakref import ref

from lockgate.core.errors import InvalidCall, LockgateError, SessionsUnavailable
from lockgate.core.ruling.scope.border import combine_scopes
from lockgate.core.vocabulary import OBSERVE, Mode
from lockgate.gate.gate import Gate
from lockgate.gate.ruler import MAX_HISTORY, Ruler
from lockgate.runtime.accounts import Account
from lockgate.runtime.failures import report_failure
from lockgate.runtime.routines import Routine, ThreadWait
from lockgate.sessions.live_session import OPENED_BY, OPENER_ACCOUNT, HostedSession, LiveSession
from lockgate.sessions.lost_blocks import LostBlocks
from lockgate.sessions.session_entries import (
    EntryPlace,
    EntrySort,
    SessionEntry,
    SessionInfo,
    SessionRow,
    check_name,
)
from lockgate.sessions.store import SessionStore

# The sessions used longest ago leave memory first, by number and by the characters of all of them.
MAX_LIVE = 512
MAX_LIVE_SIZE = 128 * 1024 * 1024
# How many sessions a subagent's session can be inside of.
MAX_DEPTH = 8
_RETRY_EVERY_S = 1.0
# From the loosest to the strictest.
_MODES = ("", OBSERVE, Mode.DEFAULT.value, Mode.RESEARCH.value, Mode.PARANOID.value)


class SessionCache:
    """Sessions as far as this process has read them. `steady` is a clock that is never set."""

    def __init__(
        self,
        gate: Gate,
        store: SessionStore,
        *,
        clock: Callable[[], float],
        steady: Callable[[], float],
        max_live: int = 0,
    ) -> None:
        # Replaced as a whole when the policy changes: a session that another gate began is built anew.
        self.gate = gate
        self._store = store
        self._clock = clock
        self._steady = steady
        self._max_live = max_live
        self._live: OrderedDict[str, LiveSession] = OrderedDict()
        # The characters of all of them, or more.
        self._size = 0
        self.lost = LostBlocks()
        self._retrier: Thread | None = None
        # Owner of `_live` and `_retrier`.
        self._lock = Lock()
        self.closed = Event()

    def find(self, session: str) -> LiveSession | None:
        """Return the session as it stands in memory under the policy in force, without asking the store."""
        with self._lock:
            live = self._live.get(session)
        return live if live is not None and live.ruler.gate is self.gate else None

    def current(self, session: str, found: SessionInfo | None = None) -> LiveSession:
        """Return the session with everything that is new in the store; `found` is its row, if it was just read.

        A session that was never opened is created; its context counts as unknown.
        """
        while True:
            with self._lock:
                live = self._live.get(session)
                if live is not None:
                    self._live.move_to_end(session)
            lost = self.lost.latest(session)
            if live is None:
                live = self._build(session, found)
                found = None
                with self._lock:
                    live = self._live.setdefault(session, live)
            else:
                self.catch_up(live)
            if lost:
                self._keep_unknown(live, lost)
            live.used = self._steady()
            live.ruler.context_known = not (live.unknown_context or lost or self.lost.has_any(live.parent_ids))
            if not live.is_outdated and live.ruler.gate is self.gate:
                if live.has_grown:
                    self._make_room(live)
                return live
            self._drop(live)

    def current_if_kept(self, session: str) -> LiveSession | None:
        """Return the session as `current` does; None, with nothing created, where the store does not have it."""
        if not is_valid_name(session) or self._store.session(session) is None:
            return None
        return self.current(session)

    def catch_up(self, live: LiveSession) -> None:
        """Apply what the store has received for this session since it was last read."""
        with live.lock:
            if not live.is_outdated:
                live.apply(self._store.read_entries(live.chain, live.cursor))

    def appending_ruling(self, live: LiveSession, *entries: SessionEntry) -> Routine[list[EntryPlace]]:
        """Keep a ruling with what follows from it, as a routine; raise SessionsUnavailable where the store fails.

        No ruling is kept in a session that was deleted meanwhile.
        """
        places: list[EntryPlace] | None = yield ThreadWait(self._store.enqueue(live.chain, entries))
        if places is None:
            live.is_outdated = True
            raise SessionsUnavailable("the session was deleted while it was ruled on", hint="try again")
        return places

    def append(self, live: LiveSession, *entries: SessionEntry) -> list[EntryPlace]:
        """Keep the entries in the store; raise SessionsUnavailable where it fails.

        A session that was deleted meanwhile is created anew with an unknown context.
        """
        places = self._store.append(live.chain, entries)
        if places is None:
            live.is_outdated = True
            places = self._store.append(self.current(live.id).chain, entries)
        if places is None:
            raise SessionsUnavailable("the session is deleted as soon as it is made")
        return places

    def mark_known(self, live: LiveSession, *, known: bool) -> None:
        """Keep whether everything that the agent has read is in this session."""
        self.append(live, SessionEntry(EntrySort.MARK, self._clock(), detail="known" if known else "unknown"))

    def used_since(self, steady_s: float) -> set[str]:
        """Return the sessions in memory that were asked for since that time of the steady clock."""
        with self._lock:
            return {live.id for live in self._live.values() if live.used > steady_s}

    def forget(self, session: str) -> None:
        """Take a session out of memory; it is built again where it is needed."""
        with self._lock:
            self._live.pop(session, None)

    def close(self) -> None:
        """Take all sessions out of memory, and end the thread that retries."""
        self.closed.set()
        with self._lock:
            self._live.clear()

    # Lost blocks.

    def note_lost_block(self, session: str) -> None:
        """Remember that the agent may have read something that is not in this session, and keep that when possible."""
        self.lost.note(session)
        with self._lock:
            if self._retrier is None or not self._retrier.is_alive():
                self._retrier = Thread(target=_retry, args=(ref(self), self.closed), daemon=True)
                self._retrier.start()

    def try_to_read(self, edge: str, session: str) -> bool:
        """Read what is new in a session; return False, and report the failure of this edge, if the store fails."""
        try:
            self.current(session)
        except Exception as error:  # noqa: BLE001  # an edge: the session store; the cache tries again
            report_failure(edge, error)
            return False
        return True

    def retry(self) -> bool:
        """Try to keep what could not be kept; return whether nothing is left of it."""
        if not all(self.try_to_read("sessions-retry", session) for session in self.lost.sessions()):
            return False
        with self._lock:
            if self.lost.sessions():
                return False
            # The next failure starts another thread.
            self._retrier = None
        return True

    def _keep_unknown(self, live: LiveSession, lost: int) -> None:
        """Keep that the context is unknown, so that the cache need not remember it any more."""
        if not live.settling.acquire(blocking=False):
            # Another thread is doing it.
            return
        try:
            if live.chain[0] not in live.unknown_context:
                self.mark_known(live, known=False)
                self.catch_up(live)
            self.lost.forget(live.id, lost)
        finally:
            live.settling.release()

    # Building.

    def _build(self, session: str, found: SessionInfo | None) -> LiveSession:
        now = self._clock()
        info = found or self._store.session(session)
        if info is None:
            info = self._store.create(SessionInfo(session, created_at=now, seen_at=now, context_known=False))
        chain, unknown = read_chain(self._store, info)
        numbers = tuple(each.number for each in chain)
        rows = self._store.read_entries(numbers, 0, rulings_after=self._store.ruling_cursor(info.number, MAX_HISTORY))
        first = _first_open_step(rows)
        if first:
            # An open step is held to every call since it began.
            rows = self._store.read_entries(numbers, 0, rulings_after=first)
        live = LiveSession(info, begin_ruler(self.gate, chain, rows), numbers)
        live.steps_session = HostedSession(live.ruler, partial(self.catch_up, live))
        live.unknown_context = unknown
        live.parent_ids = tuple(each.id for each in chain[1:])
        live.ruler.people.is_crowded = partial(self._is_crowded, _opener_of(info))
        live.openers = tuple(each.meta[OPENER_ACCOUNT] for each in chain if OPENER_ACCOUNT in each.meta)
        if live.openers:
            live.ruler.files_from = (Account(int(live.openers[0])), "")
        with live.lock:
            live.apply([row for row in rows if row.sort != EntrySort.MODE])
            live.cursor = rows[-1].seq if rows else 0
        return live

    def _is_crowded(self, opener: tuple[str, str]) -> bool:
        """Return whether the sessions of one opener have as many open questions as one agent may have."""
        waiting = getattr(self.gate.approvals, "waiting", None)
        if not any(opener) or waiting is None:
            return False
        from lockgate.core.ruling.approvals import MAX_WAITING_PER_AGENT

        sessions = [each.session for each in waiting(self._clock())]
        infos = {id: self._store.session(id) for id in set(sessions)}
        return sum(_opener_of(infos[id]) == opener for id in sessions) >= MAX_WAITING_PER_AGENT

    def _drop(self, live: LiveSession) -> None:
        with self._lock:
            if self._live.get(live.id) is live:
                del self._live[live.id]

    def _make_room(self, newest: LiveSession) -> None:
        newest.has_grown = False
        with self._lock:
            most = self._max_live or MAX_LIVE
            # All are measured only now and then: the sum of what they grew by since is on the safe side.
            self._size += newest.size
            if self._size > MAX_LIVE_SIZE:
                self._size = sum(live.size for live in self._live.values())
            while len(self._live) > 1 and (len(self._live) > most or self._size > MAX_LIVE_SIZE):
                oldest = next(iter(self._live))
                if oldest == newest.id:
                    break
                self._size -= self._live.pop(oldest).size


def read_chain(store: SessionStore, info: SessionInfo) -> tuple[list[SessionInfo], set[int]]:
    """Return a session with those it is inside of, and which of them have an unknown context."""
    chain, at = [info], info
    unknown = set() if info.context_known else {info.number}
    while at.parent:
        above = store.session(at.parent)
        if above is None or above in chain or len(chain) > MAX_DEPTH:
            # What the session has read through its parent is not known any more.
            unknown.add(0)
            break
        if not above.context_known:
            unknown.add(above.number)
        chain.append(above)
        at = above
    return chain, unknown


def begin_ruler(gate: Gate, chain: Sequence[SessionInfo], rows: Iterable[SessionRow]) -> Ruler:
    """Return the ruler of the first session of a chain, in the mode that its entries lead to."""
    info = chain[0]
    # The latest change of mode counts, and no session is looser than those it is inside of.
    changes = [tuple(loads(row.detail)) for row in rows if row.sort == EntrySort.MODE and row.session == info.number]
    modes = [changes[-1] if changes else (info.mode, info.scope), *((each.mode, each.scope) for each in chain[1:])]
    try:
        mode, scope = reduce(strictest, modes)
        return gate.ruler(mode=mode or None, scope=scope, id=info.id, resumed=info.asked)
    except LockgateError:
        # The policy has changed since, and does not allow this mode: then the strictest one.
        return gate.ruler(mode=Mode.PARANOID, id=info.id, resumed=info.asked)


def _opener_of(info: SessionInfo | None) -> tuple[str, str]:
    """Return which client opened a session, and for which account; empty where neither is known."""
    return ("", "") if info is None else (info.meta.get(OPENED_BY, ""), info.meta.get(OPENER_ACCOUNT, ""))


def _retry(weak: ref[SessionCache], closed: Event) -> None:
    """Retry in a thread of its own, until everything is kept or the host is gone."""
    while not closed.wait(_RETRY_EVERY_S):
        cache = weak()
        if cache is None or cache.retry():
            return
        del cache


def strictest(one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str]:
    """Return the mode and the scope that hold where both do."""
    return max(one[0], other[0], key=_MODES.index), combine_scopes(one[1], other[1])


def is_valid_name(text: str) -> bool:
    """Return whether a session or a ruling can have this id."""
    try:
        check_name(text, "an id")
    except InvalidCall:
        return False
    return True


def _first_open_step(rows: Iterable[SessionRow]) -> int:
    """Return where the first step began, unless all steps are over; 0 where there is none."""
    first = begun = over = 0
    for row in rows:
        if row.sort == EntrySort.STEP:
            what, *detail = loads(row.detail)
            begun += what == "begin"
            over += what == "abandon" or detail[-1] == "finished"
            first = first or row.seq
    return first if begun > over else 0
