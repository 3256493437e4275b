"""The server under `lockgate gate`: uvicorn, with a limit on what it leaves unlimited, and `/healthz`.

Needs the extra `server`, when it is to serve.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from socket import socket
from typing import TYPE_CHECKING, Any

from lockgate.abuse_gate.identity import customer_network, network_from_address
from lockgate.abuse_gate.responses import OWN_ANSWER, App, Receive, Scope, Send, guardrail_headers
from lockgate.core.errors import InvalidConfig

if TYPE_CHECKING:
    import uvicorn

_TOO_MANY_BODY = json.dumps(
    {
        "type": "error",
        "error": {"type": "guardrail", "code": "busy", "message": "too many connections"},
    },
    separators=(",", ":"),
).encode("ascii")
_TOO_MANY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"x-guardrail-decision: deny\r\nretry-after: 1\r\nconnection: close\r\n\r\n%s"
)


# How long, and how many, refused connections are read from: a client that is still sending would not see the answer.
LINGER_S, MAX_LINGERING = 1.0, 64


def with_health_check(app: App) -> App:
    """The application, and `/healthz` in front of it: 204 to whoever asks.

    Not 200, which is what Envoy takes for leave: a gateway that is set up wrongly must not find it here.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/healthz" and scope["method"] in ("GET", "HEAD"):
            await send({"type": "http.response.start", "status": 204, "headers": [(b"cache-control", b"no-store")]})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await app(scope, receive, send)

    return answer


async def send_error(send: Send, status: int, code: str, message: str, *, close: bool = False) -> None:
    """An answer of ours in the gate's own shape; `close` where more of the request may come that nobody will read."""
    error = {"type": "guardrail", "code": code, "message": message}
    content = json.dumps({"type": "error", "error": error}, separators=(",", ":")).encode("ascii")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
        *guardrail_headers("deny", ""),
        *([(b"connection", b"close")] if close else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers, OWN_ANSWER: True})
    await send({"type": "http.response.body", "body": content, "more_body": False})


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
    """A server that calls `ready` when it listens; `.run(sockets=[…])` serves until a signal comes.

    `head_s` is how long a client may take to send a request's head, `head_bytes` how large that may be before anybody
    has looked at it, `connections` how many may be open, and `each` how many of them from one network (a quarter, if
    nothing else is said; of IPv6 all of a /48 are one). Nor does a network have more than it leaves to others, so that
    whoever comes next finds a place. Proxies that `trusts` knows bring everybody's, and have no limit but that of all.
    Whoever finds no place is told `too_many`.
    """
    most = max(1, connections // 4) if each is None else each
    open_now: Counter[str] = Counter()
    lingering: set[asyncio.Transport] = set()
    try:
        import uvicorn
        from uvicorn.protocols.http.h11_impl import H11Protocol
    except ImportError:
        raise InvalidConfig(
            "`lockgate gate` needs the package `uvicorn`", hint="pip install 'lockgate[server]'"
        ) from None

    class Punctual(H11Protocol):
        """The library waits for the end of a head for as long as the client likes, which is how few keep out many."""

        _late: asyncio.TimerHandle | None = None
        _network = ""
        _refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            peer = transport.get_extra_info("peername")
            address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
            self._network = "" if trusts(address) else customer_network(network_from_address(address))
            free = connections - len(self.connections)
            # One that may have all of them is everybody's.
            share = min(most, free) if most < connections else most
            if free <= 0 or (self._network and open_now[self._network] >= share):
                # Told at once and before anything is read: reading is what they would keep others from.
                self._refused = True
                transport.write(_TOO_MANY_ANSWER % (len(too_many), too_many))
                if len(lingering) >= MAX_LINGERING or not transport.can_write_eof():
                    transport.close()
                    return
                self.transport = transport
                lingering.add(transport)
                transport.write_eof()
                self.loop.call_later(LINGER_S, transport.close)
                return
            open_now[self._network] += 1
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            super().data_received(data)
            self._expect()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._refused:
                lingering.discard(self.transport)
                return
            open_now[self._network] -= 1
            if not open_now[self._network]:
                del open_now[self._network]
            self._forget()
            super().connection_lost(exc)

        def eof_received(self) -> None:
            if not self._refused:
                super().eof_received()

        def _expect(self) -> None:
            cycle: Any = self.cycle  # none before the first request, whatever the library's types say
            if cycle is not None and not cycle.response_complete:
                self._forget()
            elif self._late is None and not self.transport.is_closing():
                # Once for each head, and not again with each byte of it.
                self._late = self.loop.call_later(head_s, self.transport.close)

        def _forget(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    # It warns of every odd request with words of its own, and of every answer that was cut short.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    options: dict[str, Any] = {
        "http": Punctual,  # never the other parser, which lets more pass
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,  # who the client is, is for the gate to find out
        "server_header": False,
        "date_header": False,
        "h11_max_incomplete_event_size": head_bytes,
        "timeout_keep_alive": 5,
        "timeout_graceful_shutdown": 5,
    }
    return Announced(uvicorn.Config(app, **options))
