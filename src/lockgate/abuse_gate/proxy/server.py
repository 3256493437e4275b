"""The server under `lockgate gate`: uvicorn with the limits that it lacks, and `/healthz`.

Serving needs the extra `server`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from socket import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from lockgate.abuse_gate.identity import customer_network, network_from_address
from lockgate.abuse_gate.responses import OWN_ANSWER, error_body, guardrail_headers
from lockgate.core.errors import InvalidConfig
from lockgate.runtime.asgi import App, Receive, Scope, Send, json_headers, response_messages, send_response

if TYPE_CHECKING:
    import h11
    import uvicorn

_TOO_MANY_BODY = error_body("busy", "too many connections")
_TOO_MANY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"x-guardrail-decision: deny\r\nretry-after: 1\r\nconnection: close\r\n\r\n%s"
)
# How long, and from how many, refused connections are still read: a client that is sending would miss the answer.
LINGER_S, MAX_LINGERING = 1.0, 64


def with_health_check(app: App) -> App:
    """Return the application with `/healthz` in front of it, which answers 204 to every caller.

    Not 200, which means leave to Envoy: a gateway with a wrong address must not find it here.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/healthz" and scope["method"] in ("GET", "HEAD"):
            await send_response(send, 204, headers=[(b"cache-control", b"no-store")])
        else:
            await app(scope, receive, send)

    return answer


async def send_error(send: Send, status: int, code: str, message: str, *, close: bool = False) -> None:
    """Send an error in the gate's own shape; `close` ends the connection, if more of the request may come unread."""
    content = error_body(code, message)
    headers = [
        *json_headers(content),
        (b"cache-control", b"no-store"),
        *guardrail_headers("deny", ""),
        *([(b"connection", b"close")] if close else []),
    ]
    start, body = response_messages(status, content, headers)
    await send({**start, OWN_ANSWER: True})
    await send(body)


class ConnectionLimits(NamedTuple):
    """How many connections may be open, how many of one network, and how long a client may take for a head.

    All networks of an IPv6 /48 are one. No network has more connections than it leaves to others, so the next client
    always finds a place. Proxies that `trusts` knows carry the connections of all clients, and have only the limit of
    all. A client without a place gets `too_many`.
    """

    total: int
    per_network: int
    head_s: float
    trusts: Callable[[str], bool]
    too_many: bytes


class OpenConnections:
    """Counts the open connections of each network, and the refused ones that are still read."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_network: Counter[str] = Counter()
        self._lingering: set[asyncio.Transport] = set()

    def network_of(self, transport: asyncio.Transport) -> str:
        """Return the network that a connection counts for; an empty text for a trusted proxy."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        return "" if self._limits.trusts(address) else customer_network(network_from_address(address))

    def take_place(self, network: str, open_now: int) -> bool:
        """Count a connection of this network; return False if there is no place for it."""
        total, most = self._limits.total, self._limits.per_network
        free = total - open_now
        # A network that may have all connections need not leave any free.
        share = min(most, free) if most < total else most
        if free <= 0 or (network and self._by_network[network] >= share):
            return False
        self._by_network[network] += 1
        return True

    def give_place_back(self, network: str) -> None:
        """Count one connection of this network less."""
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]

    def refuse(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Answer 503 before anything is read: reading is the work that a crowd would keep others from."""
        body = self._limits.too_many
        transport.write(_TOO_MANY_ANSWER % (len(body), body))
        if len(self._lingering) >= MAX_LINGERING or not transport.can_write_eof():
            transport.close()
            return
        self._lingering.add(transport)
        transport.write_eof()
        loop.call_later(LINGER_S, transport.close)

    def forget_refused(self, transport: asyncio.Transport) -> None:
        """Forget a refused connection that is closed."""
        self._lingering.discard(transport)


def make_server(
    app: App,
    *,
    connections: int = 1000,
    each: int | None = None,
    trusts: Callable[[str], bool] = lambda _address: False,
    head_bytes: int = 1 << 17,
    head_s: float = 10.0,
    ready: Callable[[], None],
    too_many: bytes = _TOO_MANY_BODY,
) -> uvicorn.Server:
    """Return a server that calls `ready` when it listens; `.run(sockets=[…])` serves until a signal comes.

    `head_bytes` is how large a request's head may be before the gate sees it. `each` is how many connections one
    network may have, by default a quarter. See ConnectionLimits for the others.
    """
    try:
        import uvicorn
    except ImportError:
        raise InvalidConfig("`lockgate gate` needs the package `uvicorn`", hint="pip install 'lockgate[api]'") from None

    class ReadyServer(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    per_network = max(1, connections // 4) if each is None else each
    limits = ConnectionLimits(connections, per_network, head_s, trusts, too_many)
    # uvicorn warns about each odd request and each cut answer, and quotes what the client sent.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    options: dict[str, Any] = {
        # Not httptools: it takes 0.2 ms less, but drops the body of a request that offers an upgrade, puts trailers
        # among the headers, has no limit for a head, and accepts two hosts and encodings that are not decoded.
        "http": _limited_protocol(limits, head_bytes),
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,  # the gate itself finds out who the client is
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 5,
        "timeout_graceful_shutdown": 5,
    }
    return ReadyServer(uvicorn.Config(app, **options))


def _one_length_parser() -> type[h11.Connection]:
    """Return h11's parser, for requests with one length. It is made here because h11 may not be installed."""
    import h11

    class OneLength(h11.Connection):
        """Refuses a request that gives its length twice: a proxy in front may go by the other one.

        Then what the proxy took for a body would be a request of its own here, which the proxy has not seen.
        """

        def next_event(self) -> Any:
            event = super().next_event()
            if isinstance(event, h11.Request):
                names = [name for name, _ in event.headers]
                if b"transfer-encoding" in names and b"content-length" in names:
                    raise h11.RemoteProtocolError("content-length and transfer-encoding")
            return event

    return OneLength


def _limited_protocol(limits: ConnectionLimits, head_bytes: int) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with these limits. It is made here because uvicorn may not be installed."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    places, parser = OpenConnections(limits), _one_length_parser()

    class LimitedProtocol(H11Protocol):
        """uvicorn waits for the end of a head without a limit, so a few slow clients could keep out all others."""

        _head_timer: asyncio.TimerHandle | None = None
        _network = ""
        _refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._network = places.network_of(transport)
            if not places.take_place(self._network, len(self.connections)):
                self._refused = True
                self.transport = transport
                places.refuse(transport, self.loop)
                return
            super().connection_made(transport)
            self.conn = parser(self.conn.our_role, head_bytes)
            self._watch_head()

        def data_received(self, data: bytes) -> None:
            if not self._refused:
                super().data_received(data)
                self._watch_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch_head()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._refused:
                places.forget_refused(self.transport)
                return
            places.give_place_back(self._network)
            self._stop_watching()
            super().connection_lost(exc)

        def eof_received(self) -> None:
            if not self._refused:
                super().eof_received()

        def _watch_head(self) -> None:
            cycle: Any = self.cycle  # None before the first request, whatever uvicorn's types say
            if cycle is not None and not cycle.response_complete:
                self._stop_watching()
            elif self._head_timer is None and not self.transport.is_closing():
                # Once for each head, and not again with each byte of it.
                self._head_timer = self.loop.call_later(limits.head_s, self.transport.close)

        def _stop_watching(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return LimitedProtocol
