"""Every way a provider can misbehave, by name. None of them may ever become `safe`."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lockgate.testing.formats import (
    AZURE,
    CHAT,
    MESSAGES,
    MODERATIONS,
    Dialect,
    Json,
    error_reply,
    nonce_from_request,
    verdict_object,
)

MAX_REPLY_BYTES: Final = 64 << 20
DRIP_S: Final = 0.02


class Exchange:
    """One request on one connection, and all ways in which a fault may answer it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.dialect: Dialect = CHAT
        self.asked: Json = {}
        self.path = ""
        self.headers: Mapping[str, str] = {}
        self.root = ""
        self.good: Json = {}

    @property
    def nonce(self) -> str:
        return nonce_from_request(self.asked)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def wait(self) -> None:
        """Wait until the client closes the connection."""
        while await self.reader.read(1 << 16):
            pass

    async def drip(self, first: bytes, drop: bytes) -> None:
        """Send `drop` one byte at a time until the client closes the connection."""
        await self.send(first)
        gone = asyncio.ensure_future(self.wait())
        try:
            while not gone.done():
                for byte in drop:
                    await self.send(bytes([byte]))
                    await asyncio.sleep(DRIP_S)
        finally:
            gone.cancel()

    async def flood(self, first: bytes, wave: bytes) -> None:
        """Send `wave` again and again until the client closes the connection or the cap is reached."""
        await self.send(first)
        for _ in range(MAX_REPLY_BYTES // len(wave)):
            await self.send(wave)

    async def reply(self, body: bytes | Json, status: int = 200, **headers: str) -> None:
        await self.send(_response(body, status, **headers))

    def reset(self) -> None:
        """Close with a reset instead of an end."""
        # Windows wants two shorts here, other systems two ints.
        linger = struct.pack("hh" if hasattr(socket, "SO_EXCLUSIVEADDRUSE") else "ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


def _head(status: int | str = 200, **headers: str) -> bytes:
    fields = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    lines = [f"HTTP/1.1 {status} Loopback", *(f"{name}: {text}" for name, text in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _response(body: bytes | Json, status: int | str = 200, **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _head(status, content_length=str(len(data)), **headers) + data


Act = Callable[[Exchange], Awaitable[None]]


class ProviderFault(NamedTuple):
    what: str
    act: Act
    at_once: bool = False  # before the request has been read
    url: str = ""  # where a client has to be pointed to meet it, when that is not the provider itself


FAULT_TABLE: dict[str, ProviderFault] = {}


def _named_fault(what: str, *, at_once: bool = False, url: str = "") -> Callable[[Act], Act]:
    """Register the fault under the function's own name."""

    def keep(act: Act) -> Act:
        FAULT_TABLE[act.__name__.replace("_", "-")] = ProviderFault(what, act, at_once, url)
        return act

    return keep


def _add_response(name: str, what: str, data: bytes | Callable[[Exchange], bytes]) -> None:
    async def act(exchange: Exchange) -> None:
        await exchange.send(data(exchange) if callable(data) else data)

    FAULT_TABLE[name] = ProviderFault(what, act)


def _add_bent_reply(name: str, what: str, bend: Callable[[Exchange], object]) -> None:
    """Register a good reply, status 200, that `bend` has changed."""

    async def act(exchange: Exchange) -> None:
        bend(exchange)
        await exchange.reply(exchange.good)

    FAULT_TABLE[name] = ProviderFault(what, act)


async def _never(_: Exchange) -> None:
    raise AssertionError("this fault is met before any connection is made")


PLAIN_PORT: Final = "https://127.0.0.1:{plain}"

FAULT_TABLE["dns-failure"] = ProviderFault("a host name that does not resolve", _never, url="https://loopback.invalid")
FAULT_TABLE["refused"] = ProviderFault("a port without a listener", _never, url="http://127.0.0.1:{closed}")
FAULT_TABLE["never-accepted"] = ProviderFault("a listener whose queue is full", _never, url="http://127.0.0.1:{full}")


@_named_fault("a certificate for the right name that no authority signed", url="https://127.0.0.1:{tls}")
async def tls_self_signed(exchange: Exchange) -> None:
    await exchange.reply(exchange.good)


@_named_fault("plain HTTP on a port asked for TLS", at_once=True, url=PLAIN_PORT)
async def tls_plain(exchange: Exchange) -> None:
    await exchange.reply(error_reply(None, 400), 400, connection="close")


@_named_fault("a handshake ended by an alert", at_once=True, url=PLAIN_PORT)
async def tls_alert(exchange: Exchange) -> None:
    await exchange.send(bytes.fromhex("15030300020228"))


@_named_fault("a handshake without an answer", at_once=True, url=PLAIN_PORT)
async def tls_hang(exchange: Exchange) -> None:
    await exchange.wait()


@_named_fault("a reset in answer to the handshake", at_once=True, url=PLAIN_PORT)
async def tls_reset(exchange: Exchange) -> None:
    await exchange.reader.read(1)
    exchange.reset()


@_named_fault("a handshake answered a byte at a time", at_once=True, url=PLAIN_PORT)
async def tls_drip(exchange: Exchange) -> None:
    await exchange.drip(bytes.fromhex("1603034000"), bytes.fromhex("02003ffc0303"))


@_named_fault("closes without reading", at_once=True)
async def close_at_once(_: Exchange) -> None:
    pass


@_named_fault("resets without reading", at_once=True)
async def reset_at_once(exchange: Exchange) -> None:
    exchange.reset()


@_named_fault("accepts and never answers, whatever comes", at_once=True)
async def hang_at_once(exchange: Exchange) -> None:
    await exchange.wait()


@_named_fault("answers before it is asked, then hangs", at_once=True)
async def talks_first(exchange: Exchange) -> None:
    await exchange.send(b"220 loopback ESMTP\r\n")
    await exchange.wait()


@_named_fault("reads the request and never answers")
async def hang(exchange: Exchange) -> None:
    await exchange.wait()


@_named_fault("stops in the middle of the status line")
async def hang_in_status(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 2")
    await exchange.wait()


@_named_fault("stops in the middle of the headers")
async def hang_in_headers(exchange: Exchange) -> None:
    await exchange.send(_response(exchange.good)[:40])
    await exchange.wait()


@_named_fault("sends the headers and no body")
async def hang_after_headers(exchange: Exchange) -> None:
    await exchange.send(_head(content_length="400"))
    await exchange.wait()


@_named_fault("stops one byte before the end of the body")
async def hang_in_body(exchange: Exchange) -> None:
    await exchange.send(_response(exchange.good)[:-1])
    await exchange.wait()


@_named_fault("sends the whole body in chunks, and never the last, empty one")
async def hang_after_chunks(exchange: Exchange) -> None:
    await exchange.send(_chunk_body(exchange.good).removesuffix(b"0\r\n\r\n"))
    await exchange.wait()


@_named_fault("announces one byte more than it sends, and waits")
async def hang_at_length(exchange: Exchange) -> None:
    body = json.dumps(exchange.good).encode()
    await exchange.send(_head(content_length=str(len(body) + 1)) + body)
    await exchange.wait()


@_named_fault("a status line a byte at a time, without end")
async def status_drip(exchange: Exchange) -> None:
    await exchange.drip(b"HTTP/1.1 200 ", b"O")


@_named_fault("headers a byte at a time, without end")
async def header_drip(exchange: Exchange) -> None:
    await exchange.drip(b"HTTP/1.1 200 OK\r\n", b"x-drip: drop\r\n")


@_named_fault("a body a byte at a time, without end")
async def body_drip(exchange: Exchange) -> None:
    await exchange.drip(_head(content_length="60000"), b" ")


@_named_fault("one-byte chunks, slowly, without end")
async def chunk_drip(exchange: Exchange) -> None:
    await exchange.drip(_head(transfer_encoding="chunked"), b"1\r\n \r\n")


@_named_fault("reads the request and resets")
async def reset(exchange: Exchange) -> None:
    exchange.reset()


@_named_fault("resets in the middle of the headers")
async def reset_in_headers(exchange: Exchange) -> None:
    await exchange.send(_response(exchange.good)[:40])
    await asyncio.sleep(DRIP_S)
    exchange.reset()


@_named_fault("resets between headers and body")
async def reset_after_headers(exchange: Exchange) -> None:
    await exchange.send(_head(content_length="400"))
    await asyncio.sleep(DRIP_S)
    exchange.reset()


@_named_fault("resets one byte before the end of the body")
async def reset_in_body(exchange: Exchange) -> None:
    await exchange.send(_response(exchange.good)[:-1])
    await asyncio.sleep(DRIP_S)
    exchange.reset()


@_named_fault("a body without length and without end")
async def endless_body(exchange: Exchange) -> None:
    await exchange.flood(_head(connection="close"), b" " * (1 << 16))


@_named_fault("a body of a hundred gigabytes, announced")
async def endless_length(exchange: Exchange) -> None:
    await exchange.flood(_head(content_length="107374182400"), b" " * (1 << 16))


@_named_fault("tiny chunks without end")
async def endless_chunks(exchange: Exchange) -> None:
    await exchange.flood(_head(transfer_encoding="chunked"), b"1\r\n \r\n" * 1000)


@_named_fault("a chunk whose extension never ends")
async def endless_extension(exchange: Exchange) -> None:
    await exchange.flood(_head(transfer_encoding="chunked") + b"1;x=", b"y" * (1 << 16))


@_named_fault("trailers without end after the whole body")
async def endless_trailers(exchange: Exchange) -> None:
    await exchange.flood(_chunk_body(exchange.good)[:-2], b"x-trailer: more\r\n" * 1000)


@_named_fault("headers without end")
async def endless_headers(exchange: Exchange) -> None:
    await exchange.flood(b"HTTP/1.1 200 OK\r\n", b"x-flood: more\r\n" * 1000)


@_named_fault("a status line without end")
async def endless_status(exchange: Exchange) -> None:
    await exchange.flood(b"HTTP/1.1 200 ", b"O" * (1 << 16))


@_named_fault("`103 Early Hints` without end")
async def early_hints_flood(exchange: Exchange) -> None:
    await exchange.flood(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 500)


@_named_fault("`102 Processing` now and then, without end")
async def processing_drip(exchange: Exchange) -> None:
    await exchange.drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n")


@_named_fault("401, and back comes every header that was sent, the key among them")
async def echo(exchange: Exchange) -> None:
    sent = {f"x-sent-{name}": text for name, text in exchange.headers.items()}
    challenge = f'Bearer error="{exchange.headers.get("authorization", "")}"'
    await exchange.reply(error_reply(exchange.dialect, 401), 401, **sent, www_authenticate=challenge)


@_named_fault("a perfect answer, and behind it a second one for the next question")
async def second_reply(exchange: Exchange) -> None:
    await exchange.send(_response(exchange.good) * 2)
    await exchange.wait()


def _chunk_body(body: Json) -> bytes:
    data = json.dumps(body).encode()
    return _head(transfer_encoding="chunked") + f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"


def _framing_faults() -> None:
    def good(exchange: Exchange) -> bytes:
        return json.dumps(exchange.good).encode()

    def length(exchange: Exchange, shown: str | Callable[[int], str]) -> bytes:
        body = good(exchange)
        return _head(content_length=shown(len(body)) if callable(shown) else shown) + body

    def half(exchange: Exchange) -> bytes:
        return good(exchange)[: len(good(exchange)) // 2]

    _add_response("half-body", "half of the announced body, then the end", lambda x: _response(x.good)[: -len(half(x))])
    _add_response(
        "half-body-unannounced", "half a body without a length", lambda x: _head(connection="close") + half(x)
    )
    _add_response("length-too-short", "announces fewer bytes than it sends", lambda x: length(x, lambda n: str(n - 9)))
    _add_response("length-too-long", "announces more bytes than it sends", lambda x: length(x, lambda n: str(n + 9)))
    _add_response("length-zero", "announces an empty body and sends one", lambda x: length(x, "0"))
    _add_response("length-negative", "announces a negative length", lambda x: length(x, lambda n: f"-{n}"))
    _add_response("length-word", "announces a length that is no number", lambda x: length(x, "plenty"))
    _add_response("length-huge", "announces a length of 400 digits", lambda x: length(x, "9" * 400))
    _add_response(
        "two-lengths", "announces two lengths", lambda x: length(x, lambda n: f"{n}\r\ncontent-length: {n - 9}")
    )
    _add_response("chunk-cut", "the whole body in chunks, without the last one", lambda x: _chunk_body(x.good)[:-5])
    _add_response("chunk-garbage", "a chunk size that is no number", _head(transfer_encoding="chunked") + b"zz\r\n{}")
    _add_response(
        "chunk-huge",
        "a chunk size beyond every integer",
        lambda x: _head(transfer_encoding="chunked") + b"f" * 40 + b"\r\n" + good(x),
    )
    _add_response("coding-unknown", "an unknown transfer coding", lambda x: _head(transfer_encoding="rot13") + good(x))
    _add_response("empty", "an end where an answer should be", b"")
    _add_response("garbage", "bytes that are not HTTP", bytes(range(256)) * 4)
    _add_response("http-0.9", "a bare body, without status line or headers", good)
    _add_response(
        "http-9", "a version of HTTP that does not exist", lambda x: _response(x.good).replace(b"/1.1", b"/9.9")
    )
    _add_response("http-2", "HTTP/2 frames without an upgrade", bytes.fromhex("000000040000000000") * 8)
    _add_response("status-word", "a status that is no number", lambda x: _response(x.good, "fine"))
    _add_response("status-four-digits", "a status of four digits", lambda x: _response(x.good, 2000))
    _add_response("header-without-colon", "a header line without a colon", b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n")
    _add_response("header-nul", "a NUL in a header", lambda x: _response(x.good, x_odd="a\x00b"))
    _add_response("huge-header", "one header of a mebibyte", lambda x: _response(x.good, x_big="y" * (1 << 20)))
    _add_response(
        "many-headers",
        "20,000 headers",
        lambda x: _response(x.good).replace(b"\r\n", b"\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(20_000)), 1),
    )
    _add_response("gzip", "gzip although identity was asked for", lambda x: _encode(gzip.compress(good(x)), "gzip"))
    _add_response("gzip-unannounced", "gzip that is not announced", lambda x: _response(gzip.compress(good(x))))
    _add_response("gzip-bomb", "8 MiB of blanks in 8 KiB of gzip", lambda _: _encode(_gzip_bomb(), "gzip"))
    _add_response("gzip-broken", "announces gzip and sends none", lambda x: _encode(good(x), "gzip"))
    _add_response("deflate", "announces deflate and sends plain text", lambda x: _encode(good(x), "deflate"))
    _add_response("brotli", "announces brotli and sends plain text", lambda x: _encode(good(x), "br"))
    _add_response(
        "gzip-twice", "announces two encodings", lambda x: _encode(gzip.compress(gzip.compress(good(x))), "gzip, gzip")
    )
    _add_response("switching", "101 Switching Protocols", b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n")


def _encode(body: bytes, coding: str) -> bytes:
    return _response(body, content_encoding=coding)


@cache
def _gzip_bomb() -> bytes:
    return gzip.compress(b" " * (8 << 20))


def _status_faults() -> None:
    def status(name: str, what: str, code: int, **headers: str) -> None:
        _add_response(name, what, lambda x: _response(error_reply(x.dialect, code), code, **headers))

    for code in (400, 401, 402, 403, 404, 405, 408, 409, 413, 418, 422, 451, 500, 501, 502, 503, 504, 520, 529, 599):
        status(f"status-{code}", f"status {code}", code)
    status("429", "429 without Retry-After", 429)
    status("429-retry-after", "429 with `Retry-After: 2`", 429, retry_after="2")
    status("429-huge", "429 with a Retry-After of thirty years", 429, retry_after="946080000")
    status("429-digits", "429 with a Retry-After of 5,000 digits", 429, retry_after="9" * 5000)
    status("429-negative", "429 with a negative Retry-After", 429, retry_after="-5")
    status("429-nan", "429 with `Retry-After: nan`", 429, retry_after="nan")
    status("429-word", "429 with `Retry-After: soon`", 429, retry_after="soon")
    status(
        "429-date",
        "429 with a Retry-After that is a date",
        429,
        date="Thu, 01 Jan 2026 00:00:00 GMT",
        retry_after="Thu, 01 Jan 2026 00:00:03 GMT",
    )
    status("429-ms", "429 with `retry-after-ms: 1500`", 429, retry_after_ms="1500")
    status("503-retry-after", "503 with `Retry-After: 2`", 503, retry_after="2")
    for code in (403, 500, 503):
        _add_response(f"forged-{code}", f"a perfect answer with status {code}", lambda x, c=code: _response(x.good, c))  # type: ignore[misc]
    _add_response("status-206", "a perfect answer said to be only a part", lambda x: _response(x.good, 206))
    _add_response("status-204", "204, and so no body", b"HTTP/1.1 204 No Content\r\n\r\n")
    _add_response("status-304", "304, as if something were cached", b"HTTP/1.1 304 Not Modified\r\n\r\n")
    # The trap answers well and counts in `trapped`: a client that follows sends its key there.
    for code in (301, 302, 303, 307, 308):
        _add_response(
            f"redirect-{code}",
            f"{code} to a trap on another host name",
            lambda x, c=code: _response(b"", c, location=f"{x.root}/trap{x.path}"),  # type: ignore[misc]
        )
    _add_response(
        "redirect-body",
        "302 to the trap with a perfect answer as its body",
        lambda x: _response(x.good, 302, location=f"{x.root}/trap{x.path}"),
    )
    _add_response("redirect-nowhere", "307 without a Location", _response(b"", 307))


FILTERED: Final = {
    "error": {
        "message": "The response was filtered due to the prompt triggering the content management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {
                "hate": {"filtered": False, "severity": "safe"},
                "jailbreak": {"filtered": True, "detected": True},
                "self_harm": {"filtered": False, "severity": "safe"},
                "sexual": {"filtered": False, "severity": "safe"},
                "violence": {"filtered": False, "severity": "safe"},
            },
        },
    }
}


def _body_faults() -> None:
    page = b"<!doctype html><title>Sign in</title><p>safe</p>"
    _add_response("html", "a sign-in page with status 200", _response(page, content_type="text/html"))
    _add_response("html-as-json", "a sign-in page that says it is JSON", _response(page))
    _add_response("no-body", "200 and an empty body", _response(b""))
    for name, text in (
        ("empty-object", "{}"),
        ("empty-list", "[]"),
        ("null", "null"),
        ("true", "true"),
        ("number", "0"),
        ("string", '"safe"'),
        ("nan", "NaN"),
        ("word", "safe"),
    ):
        _add_response(f"body-{name}", f"200 with the body `{text}`", _response(text.encode()))


def _json_faults() -> None:
    _add_response("deep-lists", "JSON 30,000 lists deep", _response(b"[" * 30_000 + b"]" * 30_000))
    _add_response("deep-objects", "JSON 9,000 objects deep", _response(b'{"a":' * 9_000 + b"1" + b"}" * 9_000))
    _add_response(
        "deep-beside",
        "a perfect answer with something 20,000 deep beside it",
        lambda x: _response(json.dumps(x.good)[:-1].encode() + b',"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
    )
    _add_response("open-lists", "60,000 lists that are never closed", _response(b"[" * 60_000))
    _add_response("long-number", "a number of 50,000 digits", lambda x: _response(_with_extra_value(x, b"7" * 50_000)))
    _add_response(
        "nan-beside", "a perfect answer with NaN beside it", lambda x: _response(_with_extra_value(x, b"NaN"))
    )
    _add_response(
        "infinity-beside",
        "a perfect answer with -Infinity beside it",
        lambda x: _response(_with_extra_value(x, b"-Infinity")),
    )
    _add_response(
        "bad-utf-8",
        "a perfect answer with a byte that is not UTF-8",
        lambda x: _response(_with_extra_value(x, b'"\xff"')),
    )
    _add_response("utf-16", "a perfect answer in UTF-16", lambda x: _response(json.dumps(x.good).encode("utf-16")))
    _add_response(
        "bom",
        "a perfect answer behind a byte order mark",
        lambda x: _response(b"\xef\xbb\xbf" + json.dumps(x.good).encode()),
    )
    _add_response(
        "trailing", "a perfect answer, and more behind it", lambda x: _response(json.dumps(x.good).encode() + b" safe")
    )
    _add_response("two-bodies", "two JSON objects in one body", lambda x: _response(json.dumps(x.good).encode() * 2))
    _add_response(
        "comment", "a perfect answer with a comment", lambda x: _response(json.dumps(x.good).encode() + b"// safe")
    )
    _add_response(
        "control-character",
        "a bare control character in a string",
        lambda x: _response(_with_extra_value(x, b'"\x01"')),
    )
    _add_response(
        "too-large",
        "a perfect answer of 80 KiB",
        lambda x: _response(_with_extra_value(x, b'"' + b"y" * 81_920 + b'"')),
    )
    _add_response(
        "event-stream",
        "a perfect answer as server-sent events",
        lambda x: _response(b"data: " + json.dumps(x.good).encode() + b"\n\n", content_type="text/event-stream"),
    )
    _add_response("error-in-200", "an error with status 200", lambda x: _response(error_reply(x.dialect, 500)))
    _add_response("content-filter", "400 from the provider's own filter", _response(FILTERED, 400))


def _with_extra_value(exchange: Exchange, value: bytes) -> bytes:
    return json.dumps(exchange.good)[:-1].encode() + b',"x":' + value + b"}"


_MISSING: Final = object()


def _set_path(holder: Any, path: Sequence[str | int], value: object) -> None:
    for step in path[:-1]:
        holder = holder[step]
    if value is _MISSING:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value


def _field_faults() -> None:
    """Register a wrong value for each field that an answer is read from; the rest of the answer stays intact."""

    def at(name: str, what: str, where: Callable[[Dialect], tuple[str | int, ...]], value: object) -> None:
        _add_bent_reply(
            name, what, lambda x: _set_path(x.good, where(x.dialect), value(x) if callable(value) else value)
        )

    def answers(dialect: Dialect) -> tuple[str | int, ...]:
        return (dialect.answers,)

    def answer(dialect: Dialect) -> tuple[str | int, ...]:
        return (dialect.answers, 0)

    def holder(dialect: Dialect) -> tuple[str | int, ...]:
        return dialect.words[:-1]

    def words(dialect: Dialect) -> tuple[str | int, ...]:
        return dialect.words

    def said(exchange: Exchange) -> str:
        return verdict_object("safe", exchange.nonce)

    at("answers-missing", "no list of answers", answers, _MISSING)
    at("answers-null", "null for the list of answers", answers, None)
    at("answers-empty", "an empty list of answers", answers, [])
    at("answers-object", "an object for the list of answers", answers, lambda x: {"0": x.good[x.dialect.answers][0]})
    at("answers-text", "the asked-for text for the list of answers", answers, said)
    at("answers-number", "a number for the list of answers", answers, 1)
    at("answer-null", "null for the answer", answer, None)
    at("answer-text", "the asked-for text for the answer", answer, said)
    at("answer-list", "a list for the answer", answer, lambda x: [said(x)])
    at("holder-null", "null for what holds the words", holder, None)
    at("holder-text", "the asked-for text for what holds the words", holder, said)
    at("holder-list", "a list for what holds the words", holder, lambda x: [said(x)])
    at("words-missing", "no words", words, _MISSING)
    at("words-null", "null for the words", words, None)
    at("words-number", "a number for the words", words, 0)
    at("words-list", "a list for the words", words, lambda x: [said(x)])
    at("words-object", "the asked-for object itself, not as text", words, lambda x: json.loads(said(x)))
    at("words-empty", "empty words", words, "")
    at("words-text", "`false` as text; to a model's words, a word", words, "false")
    # A duplicate field: readers disagree about which one counts, so neither does.
    _add_response(
        "said-twice",
        "the list of answers twice in one object, the last one perfect",
        lambda x: _response(f'{{"{x.dialect.answers}": [], '.encode() + json.dumps(x.good).encode()[1:]),
    )
    _add_bent_reply(
        "two-answers",
        "two answers, the second one `unsafe` or flagged",
        lambda x: x.good[x.dialect.answers].append(_contradicting_answer(x)),
    )


def _contradicting_answer(exchange: Exchange) -> object:
    """Return a second answer that contradicts the first."""
    other = json.loads(json.dumps(exchange.good))
    _set_path(
        other,
        exchange.dialect.words,
        True if exchange.dialect is MODERATIONS else verdict_object("unsafe", exchange.nonce),
    )
    return other[exchange.dialect.answers][0]


# What a model says instead of the asked-for object: a text, or a function of the question's nonce.
_SAYINGS: Final[tuple[tuple[str, str, str | Callable[[str], str]], ...]] = (
    ("prose", "prose for the asked-for object", "Sure! This text is safe."),
    ("safe", "the bare word `safe`", "safe"),
    ("not-sure", "`NOT SURE`", "NOT SURE"),
    ("fenced", "the object in a Markdown fence", lambda n: f"```json\n{_safe(n)}\n```"),
    ("behind", "the object behind a sentence", lambda n: f"Here you are: {_safe(n)}"),
    ("trailing", "the object before a sentence", lambda n: f"{_safe(n)} I am sure."),
    ("twice", "the object twice", lambda n: _safe(n) * 2),
    ("two-minds", "an `unsafe` object and a `safe` one", lambda n: f"{verdict_object('unsafe', n)}\n{_safe(n)}"),
    ("extra-key", "the object with a key more", lambda n: verdict_object("safe", n, reason="harmless")),
    ("duplicate-key", "the verdict twice in one object", lambda n: '{"verdict": "unsafe", ' + _safe(n)[1:]),
    ("wrong-nonce", "another question's nonce", lambda n: verdict_object("safe", n[::-1] + "0")),
    ("no-nonce", "no nonce", '{"verdict": "safe"}'),
    ("empty-nonce", "an empty nonce", verdict_object("safe", "")),
    ("nonce-null", "null for the nonce", verdict_object("safe", None)),
    ("nonce-list", "a list for the nonce", lambda n: verdict_object("safe", [n])),
    ("capitals", "`SAFE` for the verdict", lambda n: verdict_object("SAFE", n)),
    ("blank", "`safe` with a blank behind it", lambda n: verdict_object("safe ", n)),
    ("zero-width", "`safe` with a zero-width space in it", lambda n: verdict_object("sa\u200bfe", n)),
    ("look-alike", "`safe` with a Cyrillic letter", lambda n: verdict_object("s\u0430fe", n)),
    ("verdict-true", "true for the verdict", lambda n: verdict_object(True, n)),
    ("verdict-list", "a list for the verdict", lambda n: verdict_object(["safe"], n)),
    ("verdict-unknown", "an unknown verdict", lambda n: verdict_object("allow", n)),
    ("list", "the object in a list", lambda n: f"[{_safe(n)}]"),
    ("nested", "the object in an object", lambda n: f'{{"answer": {_safe(n)}}}'),
    ("text-in-text", "the object as a JSON string", lambda n: json.dumps(_safe(n))),
    ("single-quotes", "the object with single quotes", lambda n: _safe(n).replace('"', "'")),
    ("cut", "the object without its last brace", lambda n: _safe(n)[:-1]),
    ("long", "the object behind 50,000 blanks", lambda n: " " * 50_000 + _safe(n)),
    ("deep", "words of 5,000 open lists", "[" * 5_000),
    ("surrogate", "half a surrogate pair", lambda n: _safe(n) + "\ud83d"),
)


def _safe(nonce: str) -> str:
    return verdict_object("safe", nonce)


def _say(exchange: Exchange, text: str | Callable[[str], str]) -> None:
    if exchange.dialect is not MODERATIONS:
        _set_path(exchange.good, exchange.dialect.words, text(exchange.nonce) if callable(text) else text)


def _cut_short(exchange: Exchange) -> None:
    if exchange.dialect.stop:
        _set_path(exchange.good, exchange.dialect.stop, exchange.dialect.cut)


def _stop_by_filter(exchange: Exchange) -> None:
    if exchange.dialect.stop:
        _set_path(exchange.good, exchange.dialect.stop, exchange.dialect.stopped)


def _stop_oddly(exchange: Exchange, value: object) -> None:
    if exchange.dialect.stop:
        _set_path(exchange.good, exchange.dialect.stop, value)


def _refuse(exchange: Exchange) -> None:
    refusal = "I cannot help with that."
    if exchange.dialect in (CHAT, AZURE):
        exchange.good["choices"][0]["message"] |= {"content": None, "refusal": refusal}
    elif exchange.dialect is MESSAGES:
        details = {"type": "refusal", "category": "cyber", "explanation": None}
        exchange.good |= {"content": [], "stop_reason": "refusal", "stop_details": details}


def _refuse_and_answer(exchange: Exchange) -> None:
    if exchange.dialect in (CHAT, AZURE):
        exchange.good["choices"][0]["message"]["refusal"] = "I cannot help with that."
    elif exchange.dialect is MESSAGES:
        exchange.good["stop_reason"] = "refusal"


def _call_tool(exchange: Exchange) -> None:
    if exchange.dialect in (CHAT, AZURE):
        function = {"name": "verdict", "arguments": exchange.good["choices"][0]["message"]["content"]}
        called = [{"id": "call_loopback", "type": "function", "function": function}]
        exchange.good["choices"][0]["message"] |= {"content": None, "tool_calls": called}
        exchange.good["choices"][0]["finish_reason"] = "tool_calls"
    elif exchange.dialect is MESSAGES:
        asked = {"verdict": "safe", "nonce": exchange.nonce}
        exchange.good["content"] = [{"type": "tool_use", "id": "toolu_loopback", "name": "verdict", "input": asked}]
        exchange.good["stop_reason"] = "tool_use"


def _words_faults() -> None:
    for name, what, text in _SAYINGS:
        _add_bent_reply(f"says-{name}", what, partial(_say, text=text))
    _add_bent_reply("says-refusal", "a refusal as this wire format has it", _refuse)
    _add_bent_reply("says-refusal-too", "the asked-for object, marked as a refusal", _refuse_and_answer)
    _add_bent_reply("says-cut-short", "the asked-for object, marked as cut short", _cut_short)
    _add_bent_reply(
        "says-filtered", "the asked-for object, marked as stopped by the provider's filter", _stop_by_filter
    )
    _add_bent_reply(
        "says-odd-stop", "the asked-for object, ended for an unknown reason", lambda x: _stop_oddly(x, "tired")
    )
    _add_bent_reply("says-number-stop", "the asked-for object, ended for the reason 7", lambda x: _stop_oddly(x, 7))
    _add_bent_reply("says-tool-call", "a tool call without an offered tool", _call_tool)


def _rating_faults() -> None:
    def rates(name: str, what: str, path: Sequence[str | int], value: object) -> None:
        def bend(exchange: Exchange) -> None:
            if exchange.dialect is MODERATIONS:
                _set_path(exchange.good, ("results", 0, *path), value)

        _add_bent_reply(f"rates-{name}", what, bend)

    score = ("category_scores", "violence")
    rates("nan", "a score that is not a number", score, float("nan"))
    rates("infinity", "an infinite score", score, float("inf"))
    rates("above-one", "a score of 17", score, 17)
    rates("negative", "a negative score", score, -0.5)
    rates("text", "a score as text", score, "0.0001")
    rates("null", "null for a score", score, None)
    rates("true", "true for a score", score, True)
    rates("nothing", "no scores", ("category_scores",), _MISSING)
    rates("none", "an empty object of scores", ("category_scores",), {})
    rates("list", "a list of scores", ("category_scores",), [0.0001])
    rates("against-itself", "not flagged, with a score of 0.99", score, 0.99)
    rates("flag-yes", "`yes` for the flag", ("flagged",), "yes")


_framing_faults()
_status_faults()
_body_faults()
_json_faults()
_field_faults()
_words_faults()
_rating_faults()

FAULTS: Final[Mapping[str, str]] = MappingProxyType({name: fault.what for name, fault in FAULT_TABLE.items()})
"""Every way a `LoopbackProvider` can misbehave, and what it does. None of them may ever become `safe`.

`says-...` bends what a model says and `rates-...` what a rating endpoint says: on the other kind of endpoint they
change nothing. All others are met on every endpoint."""
