"""A reverse proxy to one upstream, for `lockgate gate`: requests that the gate lets through go there only.

1. The operator sets the upstream at the start. A client chooses the path below it and the query, in characters that
   every server reads alike; never the host, and never a way out of the upstream's own path.
2. The proxy writes the framing of a request anew. It refuses a request with two possible lengths, so that a body never
   contains a second request.
3. Bodies pass as they come, both ways: the proxy does not unpack them, follow redirects or keep cookies.
4. An answer that ends early ends early for the client as well. It never looks complete.

Needs the extra `server`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import httpx2

from lockgate.abuse_gate.proxy.server import send_error
from lockgate.core.errors import InvalidConfig, quoted
from lockgate.journal.record import label
from lockgate.runtime.asgi import Header, Receive, Scope, Send, run_lifespan
from lockgate.runtime.http_post import read_surplus, tls_context

LOG = logging.getLogger("lockgate.proxy")

# Hop-by-hop headers, which hold for one connection only.
_HOP: Final = frozenset(
    b"connection http2-settings keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
# The server has answered `expect` already. The others claim who the client is, and the client wrote them.
_NOT_PASSED_ON: Final = _HOP | {b"host", b"content-length", b"expect", b"forwarded", b"x-real-ip"}
# Would send the client to the upstream directly, around the gate.
_NOT_PASSED_BACK: Final = _HOP | {b"alt-svc"}
_VISIBLE = re.compile(rb"[!-~]*")
_METHOD = re.compile("[A-Z][A-Z-]{0,31}")
_ERRORS: Final = {
    code: (status, code, message)
    for code, status, message in (
        ("bad-target", 400, "the path or the method cannot be passed on"),
        ("websocket", 403, "websockets are not passed on"),
        ("bad-framing", 400, "the headers give the length or the host of the request in two ways"),
        ("upstream-down", 502, "the upstream cannot be reached, or does not speak HTTP"),
        ("upstream-slow", 504, "the upstream did not answer in time"),
    )
}


class Upstream(NamedTuple):
    """The one target: `origin` with scheme and port, `host` for the header, `base` in front of each path."""

    origin: str
    host: str
    base: str

    @property
    def is_in_clear(self) -> bool:
        """Whether keys and prompts travel unencrypted to another machine."""
        if self.origin.startswith("https:"):
            return False
        name = urlsplit(self.origin).hostname or ""
        with suppress(ValueError):
            return not ip_address(name).is_loopback
        return name != "localhost"


def parse_upstream(text: str) -> Upstream:
    """Return the upstream that a URL names, or raise InvalidConfig."""
    try:
        # urlsplit removes line ends silently.
        parts = urlsplit(text if _VISIBLE.fullmatch(text.encode("utf-8", "replace")) else "")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    name = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", name) or port == 0:
        # The text is not quoted: it may hold a password before an @.
        raise InvalidConfig("the upstream is not the URL of a server", hint="for example https://api.example.com")
    if parts.username is not None or parts.query or parts.fragment or "?" in text or "#" in text:
        raise InvalidConfig(
            "the upstream's URL may have a host, a port and a path, and nothing else",
            hint="clients send their own keys, which are passed on",
        )
    base = parts.path.rstrip("/")
    if base and not _is_plain_path(base.encode("utf-8")):
        raise InvalidConfig(f"the upstream's path {quoted(base)} cannot be passed on", hint="for example /v1")
    name = f"[{name}]" if ":" in name else name
    host = name if port in (None, 443 if parts.scheme == "https" else 80) else f"{name}:{port}"
    return Upstream(f"{parts.scheme}://{host}", host, base)


class ReverseProxy:
    """An ASGI application that forwards each request to the upstream.

    `idle_s` is how long the upstream may be silent, `total_s` how long an exchange may take altogether, so a client
    that reads slowly ends too. With `trusts`, which knows the trusted proxies, the upstream gets the client's address
    in X-Forwarded-For.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        connect_s: float = 10.0,
        idle_s: float = 120.0,
        total_s: float = 900.0,
        ca_file: str = "",
        trusts: Callable[[Scope], bool] | None = None,
    ) -> None:
        self._upstream, self._total_s, self._trusts = upstream, total_s, trusts
        self._timeouts = {"connect": connect_s, "read": idle_s, "write": idle_s, "pool": connect_s}
        # The transport and not the client of httpx: it keeps no cookies, follows no redirects, reads no proxy from the
        # environment and unpacks nothing. The server in front limits the number of exchanges.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)
        self._transport = httpx2.AsyncHTTPTransport(
            verify=tls_context(ca_file), trust_env=False, http2=False, retries=0, limits=limits
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await run_lifespan(receive, send, self._transport.aclose)
        elif scope["type"] == "http":
            await self._forward(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": ""})

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        target, headers = self._upstream_target(scope), self._upstream_headers(scope)
        if target is None or headers is None or _is_upgrade(scope["headers"]):
            code = "bad-target" if target is None else "bad-framing" if headers is None else "websocket"
            await send_error(send, *_ERRORS[code], close=True)
            return
        outgoing = _RequestBody(receive)
        answer = _UpstreamAnswer(send, self._upstream)
        exchange = asyncio.ensure_future(self._exchange(scope, target, headers, outgoing, answer))
        left = asyncio.ensure_future(outgoing.wait_until_client_leaves())
        try:
            done, _ = await asyncio.wait({exchange, left}, timeout=self._total_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also if the server cancels us: the upstream must not work on for a client that has left.
            for task in (exchange, left):
                task.cancel()
            await asyncio.gather(exchange, left, return_exceptions=True)
        failed = _failure_code(exchange.exception()) if exchange in done else "" if left in done else "upstream-slow"
        if failed:
            LOG.warning("%s: started=%s", failed, answer.started)
            if not answer.started:
                await send_error(send, *_ERRORS[failed])
        # An answer that has started stays unfinished; the server then closes the connection.

    async def _exchange(
        self, scope: Scope, target: bytes, headers: list[Header], outgoing: _RequestBody, answer: _UpstreamAnswer
    ) -> None:
        length = await outgoing.read_first_part()
        if length is not None:
            if length or scope["method"] not in ("GET", "HEAD", "OPTIONS", "DELETE"):
                headers.append((b"content-length", b"%d" % length))
        else:
            given = next((value for name, value in scope["headers"] if name == b"content-length"), None)
            headers.append((b"transfer-encoding", b"chunked") if given is None else (b"content-length", given))
        request = httpx2.Request(
            scope["method"],
            self._upstream.origin,
            headers=headers,
            stream=outgoing,
            # The connection goes to the origin above, whatever the target says.
            extensions={"timeout": self._timeouts, "target": target},
        )
        response = await self._transport.handle_async_request(request)
        try:
            await answer.pass_on(response)
            connection = response.extensions.get("network_stream")
            if connection is not None and read_surplus(response) != b"":
                # Bytes after an answer would become the answer to the next request, of another client.
                await connection.aclose()
        finally:
            await response.aclose()

    def _upstream_target(self, scope: Scope) -> bytes | None:
        """Return the request target for the upstream; None if it cannot be passed on."""
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
        query: bytes = scope.get("query_string", b"")
        if not _METHOD.fullmatch(scope["method"]) or scope["method"] in ("CONNECT", "TRACE"):
            return None
        if not _is_plain_path(raw) or not _VISIBLE.fullmatch(query) or b"#" in query:
            return None
        return self._upstream.base.encode("ascii") + raw + (b"?" + query if query else b"")

    def _upstream_headers(self, scope: Scope) -> list[Header] | None:
        """Return the headers for the upstream, without those about the body; None if they contradict each other."""
        given = [(name.lower(), value) for name, value in scope["headers"]]
        if not _has_one_framing(given):
            return None
        kept = [(b"host", self._upstream.host.encode("ascii"))]
        kept += [
            (name, value)
            for name, value in given
            # Some upstreams read an underscore as a dash: then `Content_Length` is a second length.
            if name not in _NOT_PASSED_ON and not name.startswith(b"x-forwarded-") and b"_" not in name
        ]
        client = scope.get("client")
        if self._trusts is not None and client:
            before = [value for name, value in given if name == b"x-forwarded-for"] if self._trusts(scope) else []
            kept.append((b"x-forwarded-for", b", ".join([*before, str(client[0]).encode("ascii", "replace")])))
        return kept


class _ClientLeft(Exception):
    """The client has left before the end of its request."""


class _RequestBody(httpx2.AsyncByteStream):
    """The client's body on its way, and then a watch on whether the client is still there."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._part, self._more = b"", True
        self._sent = asyncio.Event()

    async def read_first_part(self) -> int | None:
        """Read the first part; return the body's length if that is all of it, else None."""
        await self._read_next()
        return None if self._more else len(self._part)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            if self._part:
                yield self._part
            if not self._more:
                break
            await self._read_next()
        self._part = b""
        self._sent.set()

    async def _read_next(self) -> None:
        message = await self._receive()
        if message["type"] != "http.request":
            raise _ClientLeft
        self._part, self._more = message.get("body", b""), bool(message.get("more_body", False))

    async def wait_until_client_leaves(self) -> None:
        """Return when the client has left."""
        await self._sent.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class _UpstreamAnswer:
    """The upstream's answer on its way to the client."""

    def __init__(self, send: Send, upstream: Upstream) -> None:
        self._send, self._upstream = send, upstream
        self.started = False

    async def pass_on(self, response: httpx2.Response) -> None:
        version = response.extensions.get("http_version", b"HTTP/1.1")
        if response.status_code < 200 or version not in (b"HTTP/1.1", b"HTTP/1.0"):
            raise httpx2.RemoteProtocolError("not a final HTTP/1 answer")
        self.started = True
        headers = self._client_headers([(name.lower(), value) for name, value in response.headers.raw])
        await self._send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        stream: Any = response.stream
        async for chunk in stream:
            if chunk:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _client_headers(self, given: list[Header]) -> list[Header]:
        dropped = _NOT_PASSED_BACK | set(_connection_options(given))
        if any(name == b"transfer-encoding" for name, _ in given):
            # With a transfer encoding, the length does not count.
            dropped |= {b"content-length"}
        return [
            (name, self._local_location(value) if name == b"location" else value)
            for name, value in given
            if name not in dropped
        ]

    def _local_location(self, location: bytes) -> bytes:
        """Return a location at the upstream as one at the gate, so that the client does not go around the gate."""
        for start in (f"{self._upstream.origin}{self._upstream.base}/", f"{self._upstream.base}/"):
            if location.startswith(start.encode("ascii")) and not location.startswith(b"//"):
                return b"/" + location[len(start) :].lstrip(b"/\\")
        return location


def _is_plain_path(path: bytes) -> bool:
    """Return whether every server reads a path alike: no part of it goes up, or starts a new one."""
    if not path.startswith(b"/") or path.startswith(b"//") or not _VISIBLE.fullmatch(path) or re.search(rb"[?#]", path):
        return False
    text = path.decode("ascii")
    # Some servers decode more than once.
    for _ in range(3):
        steps = (part.partition(";")[0] for part in text.split("/"))
        if re.search(r"[\\\x00-\x1f\x7f]", text) or any(step in (".", "..") for step in steps):
            return False
        text = unquote(text)
    return True


def _has_one_framing(given: Iterable[Header]) -> bool:
    """Return whether there is one host, and one way to find the end of the body."""
    listed = list(given)
    hosts, lengths, codings = (
        [value for name, value in listed if name == wanted]
        for wanted in (b"host", b"content-length", b"transfer-encoding")
    )
    if len(hosts) > 1 or len(lengths) + len(codings) > 1:
        return False
    if any(not re.fullmatch(rb"[0-9]{1,18}", value) for value in lengths):
        return False
    if any(value.strip().lower() != b"chunked" for value in codings):
        return False
    # `Connection` could name other headers, which the next server would remove: the gate judged another request.
    return all(option in _HOP or option in (b"close", b"") for option in _connection_options(listed))


def _is_upgrade(given: Iterable[Header]) -> bool:
    """Return whether the client asks for a websocket, which the proxy does not forward."""
    return any(name.lower() == b"upgrade" and b"websocket" in value.lower() for name, value in given)


def _connection_options(given: Iterable[Header]) -> list[bytes]:
    """Return the options in the Connection headers."""
    return [
        option.strip(b" \t").lower() for name, value in given if name == b"connection" for option in value.split(b",")
    ]


def _failure_code(error: BaseException | None) -> str:
    if error is None or isinstance(error, _ClientLeft):
        return ""
    # The type only: the error's message may quote what the client sent.
    LOG.info("an exchange failed: error=%s", label(type(error).__name__))
    return "upstream-slow" if isinstance(error, httpx2.TimeoutException) else "upstream-down"
