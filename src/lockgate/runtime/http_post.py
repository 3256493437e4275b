"""One POST with caps: which headers are added, how a reply is read, and what an error means.

Redirects are not followed, replies are not decompressed and never exceed the caps. Nothing is read from the
environment, and nothing of one reply is used for the next request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import aclosing, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import NoAnswer, NoAnswerReason

if TYPE_CHECKING:
    import httpx2

MAX_REPLY = 64 * 1024
# A reply in one-byte pieces would keep the shared loop busy for seconds.
MAX_PIECES = 2_000
MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
# All bytes of one request, with interim replies and framing, which have no cap of their own.
MAX_RECEIVED = MAX_REPLY + 2 * MAX_HEADER_BYTES
# Bytes that arrived together are parsed without a pause: in slices, so that other tasks run in between.
SLICE = 4096

# Never taken from a provider: another encoding would let servers compress, another length would end the request early.
_RESERVED_HEADERS = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})

_SENDABLE = re.compile(r"[!-~](?:[\t -~]*[!-~])?")

_log = logging.getLogger("lockgate.verifier")

# The library reports this event when it is connected and about to send the question.
_CONNECTED = "http11.send_request_headers.started"


class HttpRequest(NamedTuple):
    """A complete POST. Never log it: the headers hold the key."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpRequest(url={self.url!r}, body={len(self.body)} bytes)"


class HttpReply(NamedTuple):
    """A server's reply within the size limits; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def post(
    transport: httpx2.AsyncBaseTransport, request: HttpRequest, left_s: float, connected: Callable[[], None]
) -> HttpReply | NoAnswer:
    """Send a request and read its reply; raise the library's errors, which `why_from_error` turns into reasons.

    The caller must set the deadline: a limit on each read would let a server drip its reply for ever. `connected` is
    called when the question is about to be sent. `left_s` is sent to the server as our deadline.
    """
    import httpx2

    async def trace(event: str, _: object) -> None:
        if event == _CONNECTED:
            connected()

    _posting.set(True)
    headers = [(name, value) for name, value in request.headers if name.lower() not in _RESERVED_HEADERS]
    headers += [("accept-encoding", "identity"), ("x-lockgate-deadline-ms", str(max(1, int(left_s * 1000))))]
    if not any(name.lower() == "user-agent" for name, _ in headers):
        headers.append(("user-agent", "lockgate"))
    # The library refuses such headers too, but then logs the value, which is the key.
    if not all(_SENDABLE.fullmatch(value) and _SENDABLE.fullmatch(name) for name, value in headers):
        _log.warning("a request could not be sent: a header has characters that no header can have")
        return NoAnswer(NoAnswerReason.INTERNAL)
    response = await transport.handle_async_request(
        httpx2.Request("POST", request.url, headers=headers, content=request.body, extensions={"trace": trace})
    )
    try:
        return await _read_reply(response)
    finally:
        await response.aclose()


async def _read_reply(response: httpx2.Response) -> HttpReply | NoAnswer:
    status = response.status_code
    # The library accepts any digit as a version; an undefined version may frame its body in an unknown way.
    if response.extensions.get("http_version", b"HTTP/1.1") not in (b"HTTP/1.1", b"HTTP/1.0"):
        return NoAnswer(NoAnswerReason.MALFORMED_REPLY)
    if 300 <= status < 400:
        return NoAnswer(NoAnswerReason.REDIRECT)
    raw = response.headers.raw
    if len(raw) > MAX_HEADERS or sum(len(name) + len(value) for name, value in raw) > MAX_HEADER_BYTES:
        return NoAnswer(NoAnswerReason.REPLY_TOO_LARGE)
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    # The status of an error counts even if the body cannot be read: a busy proxy may compress its 503.
    good = 200 <= status < 300
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        return NoAnswer(NoAnswerReason.MALFORMED_REPLY) if good else HttpReply(status, headers, b"")
    body = bytearray()
    # The raw stream: the library would decompress, and its decoders have no cap.
    async with aclosing(cast("AsyncGenerator[bytes]", aiter(cast("AsyncIterable[bytes]", response.stream)))) as chunks:
        pieces = 0
        async for chunk in chunks:
            body += chunk
            pieces += 1
            if pieces % 64 == 0:  # pieces that arrived together come without a pause, and would hold up all timers
                await asyncio.sleep(0)
            if len(body) > MAX_REPLY or pieces > MAX_PIECES:
                return NoAnswer(NoAnswerReason.REPLY_TOO_LARGE) if good else HttpReply(status, headers, b"")
    connection = response.extensions.get("network_stream")
    if connection is not None and (surplus := read_surplus(response)) != b"":
        # The library would take the surplus for the reply to the next question here, which may be another tenant's.
        await connection.aclose()
        if surplus is not None:
            return NoAnswer(NoAnswerReason.MALFORMED_REPLY)
    return HttpReply(status, headers, bytes(body))


# Set only in tasks that send our questions.
_posting: ContextVar[bool] = ContextVar("posting", default=False)


class _LibraryLogMute(logging.Filter):
    """Mute the library: it logs every reply header, and some servers send the key back in one."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not _posting.get()


_LIBRARY_LOG_MUTE = _LibraryLogMute()


def _mute_library_logs() -> None:
    # Each logger: a filter does not apply to the loggers below.
    for name in tuple(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("httpcore2", "httpx2"):
            logging.getLogger(name).addFilter(_LIBRARY_LOG_MUTE)


def read_surplus(response: httpx2.Response) -> bytes | None:
    """Return what a server sent after the end of its reply; None if the library hides it."""
    try:
        return cast(bytes, cast(Any, response.stream)._httpcore_stream._stream._connection._h11_state.trailing_data[0])
    except AttributeError:
        return None


def why_from_error(error: Exception) -> NoAnswerReason:
    """Return the reason for an error of `post`; the error itself may quote the question and must not be logged."""
    import httpx2

    if isinstance(error, _ReplyTooLarge):
        return NoAnswerReason.REPLY_TOO_LARGE
    if isinstance(error, httpx2.ConnectError) and _handshake_failed(error):
        return NoAnswerReason.TLS
    if isinstance(error, httpx2.RemoteProtocolError):
        # The library has one error for a lost connection and for bytes that are not HTTP; only the message differs.
        lost = str(error).startswith(("Server disconnected", "peer closed connection"))
        return NoAnswerReason.NETWORK if lost else NoAnswerReason.MALFORMED_REPLY
    if isinstance(error, (httpx2.TransportError, OSError)) and not isinstance(
        error, (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol)
    ):
        return NoAnswerReason.NETWORK
    _log.warning("a request could not be sent: %s", type(error).__name__)
    return NoAnswerReason.INTERNAL


def _handshake_failed(error: BaseException | None) -> bool:
    """Return whether TLS refused the handshake; a connection that ended during it is a network error."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLError):
            return not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        error = error.__cause__ or error.__context__
    return False


def open_transport(in_flight: int, ca_file: str = "") -> httpx2.AsyncBaseTransport:
    """Return a bare transport: without cookies (which one tenant could pass to another), proxies and redirects."""
    import httpx2

    _mute_library_logs()
    # No limit on connections: the questions are limited already, and this would be one more queue.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=in_flight, keepalive_expiry=30.0)
    transport = httpx2.AsyncHTTPTransport(
        verify=tls_context(ca_file), trust_env=False, http2=False, retries=0, limits=limits
    )
    pool: Any = transport._pool
    pool._network_backend = _MeteredBackend(pool._network_backend)
    return transport


class _MeteredBackend:
    """The library's network backend, with a byte limit on each connection."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *args: Any, **options: Any) -> _MeteredStream:
        return _MeteredStream(await self._backend.connect_tcp(*args, **options))


class _MeteredStream:
    """A connection that accepts at most MAX_RECEIVED bytes after each request."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._received = 0

    async def read(self, max_bytes: int, **options: Any) -> bytes:
        data: bytes = await self._stream.read(min(max_bytes, SLICE), **options)
        self._received += len(data)
        if self._received > MAX_RECEIVED:
            raise _ReplyTooLarge
        return data

    async def write(self, buffer: bytes, **options: Any) -> None:
        self._received = 0
        await self._stream.write(buffer, **options)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **options: Any) -> _MeteredStream:
        return _MeteredStream(await self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _ReplyTooLarge(Exception):
    pass


@cache
def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return the TLS context, made once per process: reading the certificates can take longer than a deadline.

    With `ca_file`, only the authorities in that file are trusted.
    """
    try:
        import httpx2
    except ImportError:
        raise InvalidConfig(
            "asking a model provider needs the package `httpx2`", hint="pip install 'lockgate[providers]'"
        ) from None
    # The library imports its asyncio backend with the first request, which would then be slow.
    with suppress(ImportError):
        import anyio._backends._asyncio  # noqa: F401
    if not ca_file:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError):  # an SSLError is an OSError
        raise InvalidConfig(
            f"ca_file {quoted(ca_file)} holds no certificates that can be used", hint="name a file in PEM form"
        ) from None
