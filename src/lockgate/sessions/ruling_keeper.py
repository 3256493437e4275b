"""Keeps each ruling of a hosted session in the store before it is returned.

1. Look.   Ask the store for what is new in the session.
2. Rule.   The caller rules.
3. Keep.   Keep the ruling. Where step 1 or 3 fails, a high-risk call pauses, as for the journal.
4. Late.   Refuse a CONTINUE that comes too late: its agent may have given up, or the world moved on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from lockgate.core.errors import InvalidBlock, InvalidCall, LockgateError, SessionsBusy
from lockgate.core.ruling.pipeline import decide_unrecorded, flatten_arguments
from lockgate.core.vocabulary import Action, Decision, ToolCall
from lockgate.journal.recorder import hash_arguments
from lockgate.runtime.failures import report_failure
from lockgate.runtime.routines import Routine, run_routine
from lockgate.sessions.live_session import NO_CALL, LiveSession
from lockgate.sessions.readiness import ReadinessCheck, error_text
from lockgate.sessions.session_cache import SessionCache
from lockgate.sessions.session_entries import (
    EntryPlace,
    EntrySort,
    SessionEntry,
    SessionInfo,
    StoredRuling,
    check_name,
    ruling_to_json,
    searchable_ruling,
)

# How long a call may take until its ruling is kept, without the time of the judges. With that, this is less than a hook
# waits for us.
MAX_WAIT_S = 10.0


class RulingStart(NamedTuple):
    """A session as it stands when a ruling begins; `why` says why the store could not tell, where it could not.

    `until_s` is when, by the steady clock, a CONTINUE would be too late; the judges' time is added to it.
    """

    live: LiveSession
    block_count: int
    until_s: float
    why: str = ""


class RulingKeeper:
    """Keeps the rulings of a host's sessions."""

    def __init__(
        self,
        cache: SessionCache,
        readiness: ReadinessCheck,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._readiness = readiness
        self._clock, self._steady = clock, steady

    def look(self, session: str, key: str = "", until_s: float | None = None) -> RulingStart:
        """1. Return the session with everything that is new in it."""
        until_s = self._steady() + MAX_WAIT_S if until_s is None else until_s
        check_name(session, "a session's id")
        if key:
            check_name(key, "a call's key")
        why = ""
        try:
            live = self._cache.current(session)
        except (InvalidCall, InvalidBlock):
            raise
        except Exception as error:  # noqa: BLE001  # an edge: without the store the context may be another one
            report_failure("sessions", error)
            why = error_text(error)
            live = self._cache.find(session) or self._unknown_session(session)
        return RulingStart(live, live.ruler.block_count, until_s, why)

    def _unknown_session(self, session: str) -> LiveSession:
        """Return a session with an unknown context. It is not cached: it would pass for the real one later."""
        ruler = self._cache.gate.ruler(id=session)
        ruler.context_known = False
        return LiveSession(SessionInfo(session), ruler, (0,))

    def keep(
        self, start: RulingStart, call: ToolCall, decision: Decision, *also: SessionEntry, called: bool = True
    ) -> StoredRuling:
        """3. Return the ruling once it is kept, with the other entries that follow from it.

        Where it cannot be kept, return what holds in its place. `called` is False for the end of a step.
        """
        return run_routine(self.keeping(start, call, decision, *also, called=called))

    def keeping(
        self, start: RulingStart, call: ToolCall, decision: Decision, *also: SessionEntry, called: bool = True
    ) -> Routine[StoredRuling]:
        """Do the same as a routine, which waits once the store has taken the ruling in."""
        kept = yield from self._keeping(start, call, decision, also, called=called)
        # 4. The store or the journal may have stood still. Nothing runs on the end of a step.
        if called:
            self.refuse_late(start, kept)
        return kept

    def refuse_late(self, start: RulingStart, kept: StoredRuling) -> None:
        """Raise SessionsBusy if a call would be let through after its time, without that of the judges."""
        judges_s = sum(ran.latency_us for ran in kept.decision.judged) / 1e6
        if kept.decision.action is Action.CONTINUE and self._steady() - judges_s > start.until_s:
            raise late_error()

    def _keeping(
        self, start: RulingStart, call: ToolCall, decision: Decision, also: tuple[SessionEntry, ...], *, called: bool
    ) -> Routine[StoredRuling]:
        live, why = start.live, start.why
        self._readiness.note_ruling(decision)
        stored = StoredRuling(
            id=f"d{os.urandom(8).hex()}",
            seq=0,
            session=live.id,
            host=live.host,
            number=0,
            at=self._clock(),
            key=call.key,
            tool=call.tool,
            arguments=dict(call.arguments),
            annotations=None if call.annotations is None else dict(call.annotations),
            decision=decision,
            context=start.block_count,
        )
        if not why:
            try:
                place = yield from self._append(live, stored, b"" if called else NO_CALL, also)
            except Exception as error:  # noqa: BLE001  # an edge: the ruling may not be kept
                report_failure("sessions", error)
                why = error_text(error)
            else:
                live.approval_open = live.approval_open or bool(decision.approval)
                return replace(stored, seq=place.seq, number=place.n)
        held = decide_unrecorded(decision, live.ruler.policy, why)
        if held.action is not decision.action:
            # The ruling is in the journal and does not count: what holds in its place has to follow it there.
            with suppress(LockgateError):
                held = live.ruler.record_ruling(call, held)
        return replace(stored, decision=held)

    def _append(
        self, live: LiveSession, ruling: StoredRuling, content: bytes, also: tuple[SessionEntry, ...]
    ) -> Routine[EntryPlace]:
        decision, arguments = ruling.decision, ruling.arguments
        detail = ruling_to_json(
            ruling.tool, arguments, ruling.annotations, decision, ruling.context, partial(_hash_or_empty, arguments)
        )
        columns = searchable_ruling(ruling.id, ruling.host, ruling.tool, decision, arguments)
        entry = SessionEntry(EntrySort.RULING, ruling.at, ruling.key, content, detail, columns)
        # Before another thread can read the entry: it must know that the ruling is applied here already.
        live.own_rulings.add(ruling.id)
        kept = False
        try:
            place, *more = yield from self._cache.appending_ruling(live, entry, *also)
            kept = True
        finally:
            if not kept:
                live.own_rulings.discard(ruling.id)
                # The store may have it all the same; then it is read like a ruling of another process.
                live.is_outdated = True
        with live.lock:
            if not more and place.last <= live.cursor < place.seq:
                live.cursor = place.seq
                live.own_rulings.discard(ruling.id)
        return place


def late_error() -> SessionsBusy:
    return SessionsBusy(
        f"the call waited {MAX_WAIT_S:g} seconds, and is not let through now", hint="ask again in a moment"
    )


def _hash_or_empty(arguments: Mapping[str, object]) -> str:
    """Return the hash of the arguments as the journal has it; empty where they cannot be hashed."""
    try:
        return hash_arguments(arguments, flatten_arguments(arguments)[0])
    except (LockgateError, TypeError, ValueError, RecursionError):
        return ""
