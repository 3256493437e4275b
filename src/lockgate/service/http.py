"""One request and its answer as values: how a body is read, what JSON is taken, and what an error looks like."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple, Protocol

from lockgate.runtime.asgi import (
    BodyLimits,
    BodyReader,
    BodyTooLarge,
    BodyTooSlow,
    Header,
    Receive,
    Scope,
    UnexpectedMessage,
    json_bytes,
)
from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonLimits, JsonReader

JSON = "application/json"
# Of all bodies under way in one process together: many that stop just before their end would else fill the memory.
MAX_HELD = 256 << 20
# How long a client may be silent in the middle of a body, and how long the whole may take.
IDLE_S = 10.0
TOTAL_S = 60.0


class Caller(IntEnum):
    """Who may use a route; a caller with more rights has all lesser ones too."""

    WITHOUT_TOKEN = 0
    AGENT = 1
    PERSON = 2


class Problem(Exception):
    """An answer that is an error. The message is ours; other people's text is in it only as `quoted` gives it."""

    def __init__(self, status: int, code: str, message: str, *, hint: str = "", headers: tuple[Header, ...] = ()):
        super().__init__(message)
        self.status, self.code, self.message, self.hint, self.headers = status, code, message, hint, headers

    @property
    def answer(self) -> Answer:
        error = {"code": self.code, "message": self.message, "hint": self.hint}
        return Answer(json_bytes({"error": error}), self.status, headers=self.headers)


class Answer(NamedTuple):
    """A whole answer. Nothing of it is kept by a browser unless its headers say so."""

    body: bytes
    status: int = 200
    kind: str = JSON
    headers: tuple[Header, ...] = ()


class StreamParts(Protocol):
    """What a stream is made of; closed in any case, also before its first part."""

    def __aiter__(self) -> StreamParts: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None: ...


class Stream(NamedTuple):
    """An answer that comes in parts, until the client leaves or the parts end."""

    parts: StreamParts
    kind: str


@dataclass(slots=True)
class Request:
    """What a route is asked: its path's names, its query, its body as JSON, and who asks."""

    params: Mapping[str, str]
    query: Mapping[str, Any]
    who: Caller
    body: Mapping[str, Any] = field(default_factory=dict)
    # The body as it came, for handlers that parse it themselves.
    data: bytes = b""
    # How many bytes of it are counted as held.
    held: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    # The addresses of the client and of this service, as the connection has them.
    ends: tuple[object, object] = (None, None)
    # Whether the token that it came with still counts: for an answer that goes on.
    counts: Callable[[], bool] = lambda: True
    # The person that the token stands for; `named` where it is that person's own.
    person: str = ""
    named: bool = False
    # The client's address; empty if the server does not know it.
    address: str = ""
    # Until when, by the monotonic clock, a call may wait for its turn to be ruled on.
    until_s: float = inf


def client_address(scope: Scope) -> str:
    """Return the client's address without its port; empty if the server does not know it."""
    return str((scope.get("client") or ("",))[0])


class BodyBudget:
    """Bodies on their way in, counted while they come: what a client announces is never believed.

    A body counts until its handler releases it: many that wait to be read fill the memory as well.
    """

    def __init__(self, *, idle_s: float = IDLE_S, total_s: float = TOTAL_S, most_held: int = MAX_HELD) -> None:
        self._idle_s, self._total_s, self._most_held = idle_s, total_s, most_held
        self.held = 0

    async def read(self, receive: Receive, most: int) -> bytes | None:
        """Return the whole body, which counts until `release`; None if the client leaves before its end."""
        size = 0

        def count(part: int) -> None:
            nonlocal size
            size += part
            self.held += part
            if self.held > self._most_held:
                raise busy_problem()

        data: bytes | None = None
        try:
            data = await BodyReader(receive, BodyLimits(most, self._idle_s, self._total_s)).read(count)
        except BodyTooSlow:
            raise Problem(408, "body-too-slow", "the body took too long to arrive") from None
        except BodyTooLarge:
            raise Problem(413, "body-too-large", f"the body has more than {most:,} bytes") from None
        except UnexpectedMessage:
            data = None
        finally:
            if data is None:
                self.held -= size
        return data

    def release(self, size: int) -> None:
        """Give back the share of a body of this size."""
        self.held -= size


def busy_problem(*, by_caller: bool = False) -> Problem:
    """Return the refusal of a request that found no room; `by_caller` says that the caller's own requests fill it."""
    retry = ((b"retry-after", b"1"),)
    if by_caller:
        said = "too many requests of this agent are waiting"
        return Problem(429, "too-many-requests", said, hint="wait for their answers", headers=retry)
    return Problem(503, "busy", "too much is under way", hint="try again in a moment", headers=retry)


_READER = JsonReader(limits=JsonLimits(depth=64, containers=20_000, values=500_000), max_digits=64)
_REFUSALS = {
    JsonFault.DUPLICATE_KEY: (
        "duplicate-key",
        "a key stands twice in one object: readers disagree on which one counts",
    ),
    JsonFault.BAD_NUMBER: ("not-json", "a number is too large"),
    JsonFault.TOO_DEEP: ("too-deep", "the body is nested too deeply"),
    JsonFault.TOO_MANY_VALUES: ("too-many-values", "the body has too many values"),
}


def read_object(data: bytes, halves: Collection[str] = ()) -> dict[str, Any]:
    """The JSON object that a body is, or a Problem: for what is none, and for what two readers might read otherwise.

    The texts under `halves` may hold half of a surrogate pair.
    """
    if not data.strip():
        return {}
    try:
        value = _READER.read(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Problem(400, "not-utf-8", "the body is not UTF-8 text") from None
    except InvalidJson as error:
        raise Problem(400, *_REFUSALS.get(error.fault, ("not-json", "the body is not JSON"))) from None
    if not isinstance(value, dict):
        raise Problem(400, "not-an-object", "the body must be a JSON object", hint='for example {"goal": "…"}')
    # Value by value, and not by a look for odd spellings: a pattern over a large body keeps every other thread waiting.
    _refuse_odd({name: each for name, each in value.items() if not (name in halves and isinstance(each, str))})
    return value


def _refuse_odd(value: object) -> None:
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if not is_text(item):
                raise Problem(400, "bad-text", "a text holds half of a surrogate pair, which is no character")
        elif isinstance(item, list):
            left += item
        elif isinstance(item, dict):
            left += [*item, *item.values()]


def is_text(text: str) -> bool:
    """Whether every character of it is one."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
