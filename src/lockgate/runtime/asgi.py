"""What every ASGI application here needs: the types, one body reader with caps, JSON answers and the lifespan.

A client announces lengths and sends at a speed of its own choice. `BodyReader` believes neither: it counts the bytes
that arrive, and it gives up on a client that is silent for too long or takes too long altogether.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, NamedTuple

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

# A body that arrives in single bytes would take fifty times its size, so many parts are joined early.
_MANY_PARTS: Final = 256


class BodyTooLarge(Exception):
    """The body has more bytes than its limit."""


class BodyTooSlow(Exception):
    """The client was silent for too long, or the body took too long altogether."""


class BodyInterrupted(Exception):
    """`BodyReader.interrupt` ended the read."""


class UnexpectedMessage(Exception):
    """The server sent a message that is no part of an HTTP request."""


class BodyLimits(NamedTuple):
    """How large a body may be, how long a client may be silent in it, and how long the whole may take."""

    max_bytes: int
    idle_s: float
    total_s: float


class BodyReader:
    """Reads one request body, once."""

    def __init__(self, receive: Receive, limits: BodyLimits) -> None:
        self._receive, self._limits = receive, limits
        self._timeout: asyncio.Timeout | None = None
        self._interrupted = False

    @property
    def is_waiting(self) -> bool:
        """Whether the reader is waiting for the next part."""
        return self._timeout is not None

    async def read(self, on_part: Callable[[int], None] = lambda _size: None) -> bytes | None:
        """Return the whole body, or None if the client leaves before its end.

        `on_part` gets the size of each part before the part is kept, and may raise to refuse it.
        """
        now = asyncio.get_running_loop().time
        ends = now() + self._limits.total_s
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await self._next_message(min(ends, now() + self._limits.idle_s))
            if message["type"] == "http.disconnect":
                return None
            if message["type"] != "http.request":
                raise UnexpectedMessage
            part = message.get("body", b"")
            more = bool(message.get("more_body", False))
            size += len(part)
            if size > self._limits.max_bytes:
                raise BodyTooLarge
            on_part(len(part))
            parts.append(part)
            if len(parts) > _MANY_PARTS:
                parts = [b"".join(parts)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def interrupt(self) -> None:
        """Make a waiting `read` raise BodyInterrupted."""
        self._interrupted = True
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def _next_message(self, deadline: float) -> Message:
        try:
            async with asyncio.timeout_at(deadline) as self._timeout:
                message = await self._receive()
        except TimeoutError:
            raise (BodyInterrupted if self._interrupted else BodyTooSlow) from None
        finally:
            self._timeout = None
        if self._interrupted:
            # The next part arrived in the same turn of the loop as the interruption.
            raise BodyInterrupted
        return message


def json_bytes(value: object) -> bytes:
    """Return a value as JSON in ASCII: half of a surrogate pair cannot be sent as UTF-8, but as an escape."""
    return _to_json(value).encode("ascii")


# One for all: making an encoder takes a quarter of the time of an ordinary answer.
_to_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode


def response_messages(
    status: int, body: bytes, headers: Sequence[Header], *, kind: str = "http.response"
) -> tuple[Message, Message]:
    """Return the two messages of a whole answer."""
    return (
        {"type": f"{kind}.start", "status": status, "headers": list(headers)},
        {"type": f"{kind}.body", "body": body, "more_body": False},
    )


def json_headers(body: bytes) -> list[Header]:
    """Return the headers that say what a JSON body is and how long it is."""
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]


async def send_response(send: Send, status: int, body: bytes = b"", headers: Sequence[Header] = ()) -> None:
    """Send a whole answer."""
    for message in response_messages(status, body, headers):
        await send(message)


async def run_lifespan(receive: Receive, send: Send, on_shutdown: Callable[[], Awaitable[None]] | None = None) -> None:
    """Confirm the server's start and stop; call `on_shutdown` before the stop is confirmed."""
    while True:
        message = await receive()
        stops = message["type"] == "lifespan.shutdown"
        if stops and on_shutdown is not None:
            await on_shutdown()
        await send({"type": f"{message['type']}.complete"})
        if stops:
            return
