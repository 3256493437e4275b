"""What happens, as it happens: one look at the store for everybody who listens, whichever worker made the ruling.

Decisions come in the order of their `seq`, each once, and a listener who comes back with the last one it has seen
misses none: what the looks do not reach back to is read from the store. What else changes (questions to people,
sessions, the journal's head) is said as it stands now, and is not numbered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lockgate.core.errors import LockgateError
from lockgate.runtime.asgi import json_bytes
from lockgate.service import journal_proofs, views
from lockgate.service.http import Problem

if TYPE_CHECKING:
    from lockgate.service.app import Api
    from lockgate.sessions import StoredRuling

LOOK_S = 0.25
HEARTBEAT_S = 15.0
MAX_LISTENERS = 64
_PAGE = 200
# So many looks between two at what seldom changes.
_SELDOM = 8


class EventStream:
    """The listeners of one process, and the task that polls the store for them while there are any."""

    def __init__(
        self,
        api: Api,
        *,
        stopping: Callable[[], bool],
        look_s: float = LOOK_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._api, self._stopping = api, stopping
        self._look_s, self._heartbeat_s = look_s, heartbeat_s
        self._listeners = 0
        self._looking: asyncio.Task[None] | None = None
        self._joining = asyncio.Lock()
        self._begin()

    def _begin(self) -> None:
        # Everything after `_floor` and up to `_last` is in `_recent`.
        self._floor = self._last = 0
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=1_000)
        self._notices: deque[tuple[int, bytes]] = deque(maxlen=256)
        self._noticed = 0
        self._questions: set[str] | None = None
        self._fresh: list[bytes] = []
        self._sessions: dict[str, float] | None = None
        self._head: object = None
        self._changed = asyncio.Event()
        self._ended = False

    async def follow(self, after: int | None, counts: Callable[[], bool] = lambda: True) -> Listener:
        """What a listener is sent: everything after this ruling; without one, everything from now on.

        `counts` is whether the token still does: a listener whose token was changed hears no more.
        """
        if self._listeners >= MAX_LISTENERS:
            raise Problem(503, "busy", "too many are listening already", headers=((b"retry-after", b"10"),))
        self._listeners += 1
        try:
            async with self._joining:
                if self._looking is None or self._looking.done():
                    self._begin()
                    self._floor = self._last = await self._api.run_heavy(self._newest_number)
                    await self._api.run_heavy(self._poll_sessions_and_heads)
                    self._looking = asyncio.create_task(self._poll_store())
        except BaseException:
            self.leave()
            raise
        return Listener(self, self._yield_events(self._last if after is None else after, counts))

    async def _yield_events(self, seen: int, counts: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        notices = self._noticed
        yield f"retry: 2000\n: after {seen}\n\n".encode("ascii")
        while not self._ended and counts():
            changed = self._changed
            if seen < self._floor:
                page = await self._api.run_heavy(partial(self._events_after, seen))
                for seq, event in page:
                    seen = seq
                    yield event
                if page:
                    continue
                seen = max(seen, self._floor)
            for seq, event in tuple(self._recent):
                if seq > seen:
                    seen = seq
                    yield event
            for number, event in tuple(self._notices):
                if number > notices:
                    notices = number
                    yield event
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await changed.wait()
            except TimeoutError:
                yield b": still here\n\n"

    def leave(self) -> None:
        self._listeners -= 1
        if not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def close(self) -> None:
        self._end()
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    def _end(self) -> None:
        self._ended = True
        self._changed.set()

    async def _poll_store(self) -> None:
        looks = 0
        found: list[tuple[int, bytes]] = []
        try:
            while not self._stopping():
                # Where one look did not reach the end, the next follows at once.
                await asyncio.sleep(0 if len(found) == _PAGE else self._look_s)
                looks += 1
                found = []
                # A store that fails may be back at the next look, and nothing is skipped.
                with suppress(LockgateError, Problem):
                    found = await self._api.run_heavy(partial(self._events_after, self._last))
                    await self._api.run_heavy(
                        self._poll_sessions_and_heads if looks % _SELDOM == 0 else self._poll_approvals
                    )
                self._publish(found)
        finally:
            # However this ended, listeners must not wait for a task that is gone: they reconnect.
            self._end()

    def _publish(self, found: list[tuple[int, bytes]]) -> None:
        for seq, event in found:
            if len(self._recent) == self._recent.maxlen:
                self._floor = self._recent[0][0]
            self._recent.append((seq, event))
            self._last = seq
        fresh, self._fresh = self._fresh, []
        for event in fresh:
            self._noticed += 1
            self._notices.append((self._noticed, event))
        if found or fresh:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    # Off the loop, one after another.

    def _newest_number(self) -> int:
        newest = self._api.host.decisions(limit=1)
        return newest[0].seq if newest else 0

    def _events_after(self, seen: int) -> list[tuple[int, bytes]]:
        # After 0 would be after nothing in particular, and the newest first.
        found: list[StoredRuling] = sorted(
            self._api.host.decisions(after=seen or -1, limit=_PAGE), key=lambda kept: kept.seq
        )
        return [(kept.seq, _encode_event("decision", views.summary_view(kept), kept.seq)) for kept in found]

    def _poll_approvals(self) -> None:
        now_s = self._api.clock()
        try:
            people = self._api.approval_desk
        except Problem:
            return
        waiting = {pending.id for pending in people.waiting(now_s)}
        before = waiting if self._questions is None else self._questions
        told = [(name, "waiting") for name in waiting - before]
        for name in before - waiting:
            ended = people.get(name, now_s)
            told.append((name, "unknown" if ended is None else ended.state.value))
        self._questions = waiting
        self._fresh += [_encode_event("approval", {"id": name, "state": state}) for name, state in told]

    def _poll_sessions_and_heads(self) -> None:
        self._poll_approvals()
        sessions = {info.id: info.ended_at for info in self._api.host.sessions(limit=50)}
        before = sessions if self._sessions is None else self._sessions
        self._sessions = sessions
        self._fresh += [
            _encode_event("session", {"id": name, "ended": ended > 0})
            for name, ended in sessions.items()
            if before.get(name) != ended
        ]
        standing = journal_proofs.journal_state(self._api.host.gate)
        head = {name: standing[name] for name in ("state", "size", "origin")}
        known, self._head = self._head, head
        if known not in (None, head):
            self._fresh.append(_encode_event("journal", head))


class Listener:
    """One who listens, until closed; closing one that never began counts as well."""

    def __init__(self, events: EventStream, parts: AsyncGenerator[bytes, None]) -> None:
        self._events, self._parts, self._gone = events, parts, False

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._parts)

    async def aclose(self) -> None:
        await self._parts.aclose()
        if not self._gone:
            self._gone = True
            self._events.leave()


def _encode_event(name: str, value: dict[str, Any], seq: int | None = None) -> bytes:
    # JSON in ASCII is one line, whatever stands in it.
    numbered = b"" if seq is None else b"id: %d\n" % seq
    return b"event: %s\n%sdata: %s\n\n" % (name.encode("ascii"), numbered, json_bytes(value))
