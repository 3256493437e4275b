"""Request bodies in memory: all networks share one pool, and no network can take it from the others.

An attacker could fill the pool with many bodies that stop just before their end. So:

1. A network may hold as much as it leaves free: one alone half of the pool, two a third each. The next network always
   finds room. All IPv6 networks of one customer count as one.
2. If there is still no room, the pool ends the largest unfinished body of the network that holds most. It never ends a
   body of a network that holds less than the newcomer's.
"""

from __future__ import annotations

from lockgate.abuse_gate.identity import customer_key
from lockgate.abuse_gate.responses import Stop
from lockgate.runtime.asgi import (
    BodyInterrupted,
    BodyLimits,
    BodyReader,
    BodyTooLarge,
    BodyTooSlow,
    Receive,
    UnexpectedMessage,
)

# Of all bodies together.
MAX_HELD_BYTES = 256 << 20


class HeldBody:
    """A body as far as it has arrived. `network` is the key of the network that sends it, `tenant` whose it is."""

    __slots__ = ("data", "network", "reader", "size", "tenant", "whole")

    def __init__(self) -> None:
        self.data = b""
        self.size = 0
        self.whole = False
        self.network = ""
        self.tenant = ""
        self.reader: BodyReader | None = None


class BodyPool:
    """All bodies in memory, for one event loop. Each body must be released, however it ends; twice does no harm."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self.held = 0
        # Bytes held by each network, and by each customer (see `customer_key`); who holds nothing has no entry.
        self._by_network: dict[str, int] = {}
        self._by_customer: dict[str, int] = {}
        # Unfinished bodies, oldest first.
        self._unfinished: dict[HeldBody, None] = {}

    async def read(self, receive: Receive, body: HeldBody) -> None:
        """Read all of the body, or raise Stop. If the client leaves, the body stays not `whole`."""
        body.reader = BodyReader(receive, self._limits)
        self._unfinished[body] = None
        try:
            data = await body.reader.read(lambda size: self._reserve(body, size))
        except BodyTooLarge:
            raise Stop("body-too-large") from None
        except BodyTooSlow:
            raise Stop("body-too-slow") from None
        except BodyInterrupted:
            raise Stop("busy") from None
        except UnexpectedMessage:
            raise Stop("not-http") from None
        finally:
            self._unfinished.pop(body, None)
        if data is not None:
            body.data, body.whole = data, True

    def release(self, body: HeldBody) -> None:
        """Forget the body's bytes."""
        size, body.size, body.data = body.size, 0, b""
        if size:
            self.held -= size
            _subtract(self._by_network, body.network, size)
            _subtract(self._by_customer, customer_key(body.network), size)

    def _reserve(self, body: HeldBody, size: int) -> None:
        if not size:
            return
        body.size += size
        self.held += size
        network, customer = body.network, customer_key(body.network)
        self._by_network[network] = self._by_network.get(network, 0) + size
        self._by_customer[customer] = self._by_customer.get(customer, 0) + size
        while self._by_customer[customer] > MAX_HELD_BYTES - self.held:
            self._evict_largest(body)

    def _evict_largest(self, newcomer: HeldBody) -> None:
        """End the body that has to make room for the newcomer; raise Stop if there is none."""
        waiting = [body for body in self._unfinished if body.reader is not None and body.reader.is_waiting]
        largest = max(waiting, key=self._held_rank, default=newcomer)
        if largest.reader is None or self._held_rank(largest) <= self._held_rank(newcomer):
            raise Stop("busy")
        del self._unfinished[largest]
        self.release(largest)
        largest.reader.interrupt()

    def _held_rank(self, body: HeldBody) -> tuple[int, int, int]:
        return self._by_customer.get(customer_key(body.network), 0), self._by_network.get(body.network, 0), body.size


def _subtract(counts: dict[str, int], key: str, size: int) -> None:
    left = counts[key] - size
    if left:
        counts[key] = left
    else:
        del counts[key]
