"""Bodies as they arrive: counted, timed, and kept in one pot of memory that all networks share.

Whoever sends many bodies that stop just before their end would else fill it, and nobody else's would be read. So:

1. A network may hold as much as it leaves free: one alone half of the pot, two a third each, and whoever comes next
   finds room. Networks of IPv6 that one customer has are one.
2. Where there is no room all the same, the largest body still on its way gives way of those who hold most, and never
   one of somebody who holds less than whoever comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from functools import partial
from types import CoroutineType, coroutine
from typing import Any

from lockgate.abuse_gate.identity import customer_key
from lockgate.abuse_gate.responses import Message, Receive, Stop

# Of all bodies together.
MAX_HELD_BYTES = 256 << 20
# A body of single bytes would take fifty times its size.
_MANY_PARTS = 256


class HeldBody:
    """A body as far as it has arrived, and the network it comes from, by its key (see `wide`).

    `waited` is False where all of it was there when it was asked for: nothing can have happened in the meantime.
    """

    __slots__ = ("clock", "data", "network", "pushed_out", "size", "waited", "whole")

    def __init__(self) -> None:
        self.data = b""
        self.size = 0
        self.whole = self.waited = False
        self.network = ""
        self.clock: asyncio.Timeout | None = None
        self.pushed_out = False


class BodyPool:
    """All that are held, for one event loop. `let_go` is called for each, however it ends, and may be called twice."""

    def __init__(self, *, max_bytes: int, idle_s: float, total_s: float) -> None:
        self._max_bytes, self._idle_s, self._total_s = max_bytes, idle_s, total_s
        self.held = 0
        # By network, and by what it is a part of; whoever holds nothing is in neither.
        self._of: dict[str, int] = {}
        self._of_wide: dict[str, int] = {}
        # Those whose next part has yet to come, in the order they began to wait.
        self._waiting: dict[HeldBody, None] = {}

    async def read(self, receive: Receive, body: HeldBody) -> None:
        """All of it, or Stop. A client that leaves leaves a body that is not whole."""
        ends: float | None = None
        parts: list[bytes] = []
        more = True
        while more:
            coming: Awaitable[Message] = receive()
            message: Message | None = None
            if type(coming) is CoroutineType:
                # Most bodies are here already. A clock for what does not wait costs more than all the rest of this.
                try:
                    coming = _resumed(coming, coming.send(None))
                except StopIteration as done:
                    message = done.value
            if message is None:
                now = asyncio.get_running_loop().time()
                # From the first wait on: until then no time has passed.
                ends = now + self._total_s if ends is None else ends
                message = await self._wait(coming, body, min(ends, now + self._idle_s))
            kind = message["type"]
            if kind != "http.request":
                if kind == "http.disconnect":
                    return
                raise Stop("not-http")
            part = message.get("body", b"")
            more = bool(message.get("more_body", False))
            if part:
                self._reserve(body, len(part))
            parts.append(part)
            if len(parts) > _MANY_PARTS:
                parts = [b"".join(parts)]
        body.data = parts[0] if len(parts) == 1 else b"".join(parts)
        body.whole = True

    def release(self, body: HeldBody) -> None:
        size, body.size, body.data = body.size, 0, b""
        if size:
            self.held -= size
            _subtract(self._of, body.network, size)
            _subtract(self._of_wide, customer_key(body.network), size)

    async def _wait(self, coming: Awaitable[Message], body: HeldBody, ends: float) -> Message:
        body.waited = True
        try:
            async with asyncio.timeout_at(ends) as body.clock:
                self._waiting[body] = None
                message = await coming
            if body.pushed_out:
                # Its next part came in the same moment.
                raise Stop("busy")
            return message
        except TimeoutError:
            raise Stop("busy" if body.pushed_out else "body-too-slow") from None
        finally:
            body.clock = None
            self._waiting.pop(body, None)

    def _reserve(self, body: HeldBody, size: int) -> None:
        body.size += size
        self.held += size
        network, crowd = body.network, customer_key(body.network)
        self._of[network] = self._of.get(network, 0) + size
        self._of_wide[crowd] = self._of_wide.get(crowd, 0) + size
        if body.size > self._max_bytes:
            raise Stop("body-too-large")
        while self._of_wide[crowd] > MAX_HELD_BYTES - self.held:
            self._evict_largest(body)

    def _evict_largest(self, newcomer: HeldBody) -> None:
        """End the body that is first to give way to this one; Stop where there is none."""
        mine = self._held_rank(newcomer)
        largest = max(self._waiting, key=self._held_rank, default=newcomer)
        if largest.clock is None or self._held_rank(largest) <= mine:
            raise Stop("busy")
        del self._waiting[largest]
        largest.pushed_out = True
        self.release(largest)
        largest.clock.reschedule(asyncio.get_running_loop().time())

    def _held_rank(self, body: HeldBody) -> tuple[int, int, int]:
        return self._of_wide.get(customer_key(body.network), 0), self._of.get(body.network, 0), body.size


def _subtract(counts: dict[str, int], key: str, size: int) -> None:
    left = counts[key] - size
    if left:
        counts[key] = left
    else:
        del counts[key]


@coroutine
def _resumed(coming: CoroutineType[Any, Any, Message], waits_for: Any) -> Generator[Any, Any, Message]:
    """What `await coming` does after its first step, which was `coming.send(None)` and gave `waits_for`."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:  # noqa: BLE001 - also a cancellation: whatever it is, it is not for us
            step = partial(coming.throw, error)
        else:
            step = partial(coming.send, sent)
        try:
            waits_for = step()
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
