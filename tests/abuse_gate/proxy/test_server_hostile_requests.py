"""Requests that two readers could read differently, or that have no end: refused, or read as the standard says.

Behind each of them on the connection comes a last, ordinary request. A refused request takes it along.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from lockgate.abuse_gate.proxy.server import make_server
from lockgate.runtime.asgi import BodyLimits, BodyReader, run_lifespan, send_response

LIMIT_S = 30.0
HEAD_BYTES = 1 << 14
# More than the server reads at once, so that what it has read so far is not the whole.
FLOOD = 1 << 20
GET, HOST = b"GET /first HTTP/1.1\r\n", b"Host: a\r\n"
POST = b"POST /first HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


class Seen(NamedTuple):
    """A request that reached the application."""

    path: str
    body: bytes = b""
    names: tuple[bytes, ...] = ()


class Server(NamedTuple):
    port: int
    seen: list[Seen]

    def ask(self, sent: bytes) -> tuple[list[bytes], list[Seen]]:
        """Send these bytes and the last request; return the status of each answer, and what the application saw."""
        self.seen.clear()
        heard = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as to:
            # A server that has heard enough closes, and then the rest cannot be sent, and its answer may be lost.
            try:
                to.sendall(sent + LAST)
                while part := to.recv(1 << 16):
                    heard += part
            except (BrokenPipeError, ConnectionResetError):
                pass
        statuses = [part[:3] for part in heard.split(b"HTTP/1.1 ")[1:]]
        return statuses, [*self.seen]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    seen: list[Seen] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await run_lifespan(receive, send)
            return
        body = await BodyReader(receive, BodyLimits(FLOOD, LIMIT_S, LIMIT_S)).read()
        if body is not None:
            names = tuple(name for name, _ in scope["headers"] if name in (b"authorization", b"host"))
            seen.append(Seen(scope["path"], body, names))
            await send_response(send, 200, b"", [(b"content-length", b"0")])

    listening = socket.create_server(("127.0.0.1", 0))
    up = threading.Event()
    serving = make_server(app, head_bytes=HEAD_BYTES, ready=up.set)
    thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
    thread.start()
    assert up.wait(LIMIT_S)
    yield Server(int(listening.getsockname()[1]), seen)
    serving.should_exit = True
    thread.join(LIMIT_S)


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        pytest.param(GET + HOST + b"\r\n", b"", id="no body"),
        pytest.param(POST + b"Content-Length: 3\r\n\r\nabc", b"abc", id="a length"),
        pytest.param(POST + b"Content-Length: 3 \r\n\r\nabc", b"abc", id="a space behind the length"),
        pytest.param(POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", b"abc", id="one length twice"),
        pytest.param(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"abc", id="chunks"),
        pytest.param(CHUNKED + b"3;a=b\r\nabc\r\n0\r\n\r\n", b"abc", id="a chunk with an extension"),
        pytest.param(
            CHUNKED + b"3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\nHost: evil\r\n\r\n", b"abc", id="trailers"
        ),
        pytest.param(GET + HOST + b"X: y\r\n z\r\n\r\n", b"", id="a folded header"),
        pytest.param(GET + HOST + UPGRADE + b"\r\n", b"", id="an offer to upgrade"),
        pytest.param(POST + UPGRADE + b"Content-Length: 3\r\n\r\nabc", b"abc", id="an offer to upgrade with a body"),
        pytest.param(
            POST + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"abc",
            id="an offer to upgrade with chunks",
        ),
    ],
)
def test_what_is_read_has_its_whole_body_and_leaves_the_next_request_whole(
    server: Server, sent: bytes, body: bytes
) -> None:
    statuses, seen = server.ask(sent)
    # Trailers are no headers: a token or a host in them would come too late to be checked.
    assert seen == [Seen("/first", body, (b"host",)), Seen("/last", b"", (b"host",))]
    assert statuses == [b"200", b"200"]


@pytest.mark.parametrize(
    "sent",
    [
        # Two lengths.
        pytest.param(POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", id="two lengths"),
        pytest.param(POST + b"Content-Length: 3, 4\r\n\r\nabcd", id="a list of lengths"),
        pytest.param(
            POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + LAST, id="length, chunks"
        ),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", id="chunks, length"),
        pytest.param(
            POST + b"Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", id="length, folded chunks"
        ),
        # Lengths that are none.
        *(
            pytest.param(POST + b"Content-Length: " + length + b"\r\n\r\nabc", id=f"length `{length.decode()}`")
            for length in (b"", b"+3", b"-3", b"0x3", b"3_0", b"3 0", b"3;a", b"9" * 40)
        ),
        # Other encodings than the one that we read, and odd spellings of it.
        *(
            pytest.param(
                POST + b"Transfer-Encoding" + given + b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n", id=f"encoding `{given!r}`"
            )
            for given in (
                b": gzip, chunked",
                b": gzip\r\nTransfer-Encoding: chunked",
                b": chunked\r\nTransfer-Encoding: chunked",
                b": chunked, identity",
                b": identity",
                b": xchunked",
                b': "chunked"',
                b": \x0bchunked",
                b" : chunked",
            )
        ),
        # Chunks.
        *(
            pytest.param(CHUNKED + size + b"\r\nabc\r\n0\r\n\r\n", id=f"chunk `{size!r}`")
            for size in (b"-3", b"+3", b"0x3", b"zz", b"", b" 3", b"3\0", b"3;a\nb")
        ),
        pytest.param(CHUNKED + b"3\r\nabcXX0\r\n\r\n", id="a chunk longer than it says"),
        pytest.param(CHUNKED + b"3;" + b"a" * FLOOD, id="an extension without an end"),
        pytest.param(CHUNKED + b"3\r\nabc\r\n0\r\n" + b"a: b\r\n" * (FLOOD // 6), id="trailers without an end"),
        # Heads.
        pytest.param(GET + b"\r\n", id="no host"),
        pytest.param(GET + HOST + b"Host: b\r\n\r\n", id="two hosts"),
        pytest.param(GET + HOST + HOST + b"\r\n", id="one host twice"),
        pytest.param(GET + b"Host : a\r\n\r\n", id="a space before the colon"),
        pytest.param(GET + b" Host: a\r\n\r\n", id="a fold of nothing"),
        pytest.param(GET + HOST + b"X\r\n\r\n", id="no colon"),
        pytest.param(GET + HOST + b": y\r\n\r\n", id="no name"),
        pytest.param(GET + HOST + b"X: y\rZ: a\r\n\r\n", id="a bare CR"),
        pytest.param(GET + HOST + b"X: y\0\r\n\r\n", id="a NUL"),
        pytest.param(GET + HOST + b"X: " + b"a" * FLOOD, id="a header without an end"),
        pytest.param(GET + HOST + b"a:b\r\n" * (FLOOD // 5), id="headers without an end"),
        pytest.param(b"GET /" + b"a" * FLOOD, id="a target without an end"),
        # Request lines.
        *(
            pytest.param(line + b"\r\n" + HOST + b"\r\n", id=f"line `{line!r}`")
            for line in (
                b"GET /first",
                b"GET /first http/1.1",
                b"GET /first RTSP/1.0",
                b"GET  /first HTTP/1.1",
                b"GET\t/first HTTP/1.1",
                b"GET /first second HTTP/1.1",
                b"GET /\x01 HTTP/1.1",
                b"GET /\xc3\xa9 HTTP/1.1",
                b" GET /first HTTP/1.1",
                b"G(T /first HTTP/1.1",
                b"\x16\x03\x01\x02\x00",
            )
        ),
    ],
)
def test_what_two_readers_could_read_differently_ends_the_connection(server: Server, sent: bytes) -> None:
    statuses, seen = server.ask(sent)
    assert seen == []
    assert statuses in ([b"400"], [])
    # A small request is read whole, so its answer arrives.
    assert statuses or len(sent) > HEAD_BYTES


def test_a_whole_address_as_the_target_is_no_path(server: Server) -> None:
    for target in ("http://evil.example/first", "/first#part", "//evil.example/first"):
        _, seen = server.ask(b"GET " + target.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        assert seen[0].path == target


def test_requests_sent_ahead_are_answered_in_turn(server: Server) -> None:
    ahead = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(50))
    statuses, seen = server.ask(ahead + POST + b"Content-Length: 3\r\n\r\nabc")
    assert [each.path for each in seen] == [*(f"/{number}" for number in range(50)), "/first", "/last"]
    assert seen[-2].body == b"abc"
    assert statuses == [b"200"] * 52


def test_the_answer_comes_before_the_refusal_of_what_follows(server: Server) -> None:
    statuses, seen = server.ask(GET + HOST + b"\r\n\0\0\r\n\r\n")
    assert [each.path for each in seen] == ["/first"]
    assert statuses == [b"200", b"400"]


def test_nothing_is_read_after_a_request_that_ends_the_connection(server: Server) -> None:
    for first in (GET + HOST + b"Connection: close\r\n\r\n", b"GET /first HTTP/1.0\r\n" + HOST + b"\r\n"):
        statuses, seen = server.ask(first)
        assert [each.path for each in seen] == ["/first"]
        assert statuses == [b"200"]
