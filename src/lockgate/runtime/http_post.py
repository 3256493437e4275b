"""One POST within caps: what is sent besides the request, how a reply is read, and what an error means.

A reply is never followed elsewhere, never decompressed, and never larger than the caps; nothing is read from the
environment, and nothing is kept from one reply for the next request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import HttpReply, HttpRequest, NoAnswer, NoAnswerReason

if TYPE_CHECKING:
    import httpx2

MAX_REPLY = 64 * 1024
# A reply in pieces of a byte each would keep the loop that all questions share busy for seconds.
MAX_PIECES = 2_000
MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
# Everything a server sends for one request, interim replies and framing included: those have no cap of their own.
MAX_RECEIVED = MAX_REPLY + 2 * MAX_HEADER_BYTES
# Read in slices, between which others have their turn: what arrived together is parsed without a pause.
SLICE = 4096

# Ours to set: another encoding would let a server compress, another length would end the request elsewhere.
_RESERVED_HEADERS = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})

_SENDABLE = re.compile(r"[!-~](?:[\t -~]*[!-~])?")

_log = logging.getLogger("lockgate.verifier")

# What the library tells of when it has a connection, and is about to send the question.
_CONNECTED = "http11.send_request_headers.started"


async def post(
    transport: httpx2.AsyncBaseTransport, request: HttpRequest, left_s: float, connected: Callable[[], None]
) -> HttpReply | NoAnswer:
    """Send a request and read its reply; raises what the library raises, for `why` to name.

    There is no time limit in here: one on each read would let a server drip its reply out for ever, so whoever
    waits has to give up on the whole. `connected` is called when the question is about to be sent, `left_s` is what
    the server is told about our patience.
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
    # The library refuses these too, and then logs the value, which is the key.
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
    # Any digit passes for a version in the library; one nobody has defined frames its body nobody knows how.
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
    # What a status alone says is still heard when the body cannot be: a busy proxy compresses its 503 all the same.
    good = 200 <= status < 300
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        return NoAnswer(NoAnswerReason.MALFORMED_REPLY) if good else HttpReply(status, headers, b"")
    body = bytearray()
    # The raw stream: the library would decode what it finds, and there is no cap in front of its decoders.
    async with aclosing(cast("AsyncGenerator[bytes]", aiter(cast("AsyncIterable[bytes]", response.stream)))) as chunks:
        pieces = 0
        async for chunk in chunks:
            body += chunk
            pieces += 1
            if pieces % 64 == 0:  # those that arrived together come without a pause, and no timer would be heard
                await asyncio.sleep(0)
            if len(body) > MAX_REPLY or pieces > MAX_PIECES:
                return NoAnswer(NoAnswerReason.REPLY_TOO_LARGE) if good else HttpReply(status, headers, b"")
    connection = response.extensions.get("network_stream")
    if connection is not None and (surplus := read_surplus(response)) != b"":
        # The library would take it for the reply to the next question on this connection, which may be a tenant's
        # who has nothing to do with this one.
        await connection.aclose()
        if surplus is not None:
            return NoAnswer(NoAnswerReason.MALFORMED_REPLY)
    return HttpReply(status, headers, bytes(body))


# Set in the tasks that ask for us, and nowhere else.
_posting: ContextVar[bool] = ContextVar("posting", default=False)


class _LibraryLogMute(logging.Filter):
    """The library logs every header that comes back, and some servers send back what they were sent: the key."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not _posting.get()


_LIBRARY_LOG_MUTE = _LibraryLogMute()


def _mute_library_logs() -> None:
    # Each one: a logger's filter is not asked about what the loggers below it say.
    for name in tuple(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("httpcore2", "httpx2"):
            logging.getLogger(name).addFilter(_LIBRARY_LOG_MUTE)


def read_surplus(response: httpx2.Response) -> bytes | None:
    """What a server sent after the end of its reply; None when the library hides it."""
    try:
        return cast(bytes, cast(Any, response.stream)._httpcore_stream._stream._connection._h11_state.trailing_data[0])
    except AttributeError:
        return None


def why_from_error(error: Exception) -> NoAnswerReason:
    """The reason for an error of `post`; the error itself may quote what was sent, and goes no further."""
    import httpx2

    if isinstance(error, _ReplyTooLarge):
        return NoAnswerReason.REPLY_TOO_LARGE
    if isinstance(error, httpx2.ConnectError) and _handshake_failed(error):
        return NoAnswerReason.TLS
    if isinstance(error, httpx2.RemoteProtocolError):
        # The library has one error for a lost connection and for bytes that are not HTTP; only its words differ.
        lost = str(error).startswith(("Server disconnected", "peer closed connection"))
        return NoAnswerReason.NETWORK if lost else NoAnswerReason.MALFORMED_REPLY
    if isinstance(error, (httpx2.TransportError, OSError)) and not isinstance(
        error, (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol)
    ):
        return NoAnswerReason.NETWORK
    _log.warning("a request could not be sent: %s", type(error).__name__)
    return NoAnswerReason.INTERNAL


def _handshake_failed(error: BaseException | None) -> bool:
    """Whether the handshake failed by what was said in it. A connection that just ended in it is the network's."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLError):
            return not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        error = error.__cause__ or error.__context__
    return False


def open_transport(in_flight: int, ca_file: str = "") -> httpx2.AsyncBaseTransport:
    """Below the library's client: no cookies from one tenant's reply to another's, no proxies, no redirects."""
    import httpx2

    _mute_library_logs()
    # No limit on connections: the errands are limited, and a limit here would only be one more queue to be stuck in.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=in_flight, keepalive_expiry=30.0)
    transport = httpx2.AsyncHTTPTransport(
        verify=tls_context(ca_file), trust_env=False, http2=False, retries=0, limits=limits
    )
    pool: Any = transport._pool
    pool._network_backend = _MeteredBackend(pool._network_backend)
    return transport


class _MeteredBackend:
    """The library's connections to the world, each with a meter."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *args: Any, **options: Any) -> _MeteredStream:
        return _MeteredStream(await self._backend.connect_tcp(*args, **options))


class _MeteredStream:
    """A connection on which a request may be followed by so many bytes and no more."""

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
    """Once per process: reading the certificates takes longer than many a deadline.

    With `ca_file`, the authorities in it are trusted, and no others: whoever has one of their own needs nobody else's.
    """
    try:
        import httpx2
    except ImportError:
        raise InvalidConfig(
            "asking a model provider needs the package `httpx2`", hint="pip install 'lockgate[providers]'"
        ) from None
    # The library loads what it needs for asyncio with the first request, which would be the slowest by far.
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
