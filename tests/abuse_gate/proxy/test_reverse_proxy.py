"""The proxy under its real server, in front of upstreams that do as a test says, byte by byte."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgi import ATTACK, HARMLESS, SECRET, chat, gated

from lockgate.abuse_gate.proxy.gateway_callouts import HeaderIdentity
from lockgate.abuse_gate.proxy.reverse_proxy import ReverseProxy, Upstream, parse_upstream
from lockgate.abuse_gate.proxy.server import make_server, with_health_check
from lockgate.core.errors import InvalidConfig
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.testing.loopback import _CERTIFICATE, _tls_context

# No test should get there.
LIMIT_S = 30
Handler = Callable[["Peer"], None]


class Peer:
    """One connection at the upstream."""

    def __init__(self, to: socket.socket) -> None:
        self.to = to
        self.unread = b""

    def until(self, end: bytes) -> bytes:
        while end not in self.unread:
            got = self.to.recv(65536)
            if not got:
                return b""
            self.unread += got
        head, _, self.unread = self.unread.partition(end)
        return head

    def request(self) -> tuple[bytes, bytes]:
        """A request's head and body, or two empty ones when there is no other."""
        head = self.until(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        assert len(lengths) < 2
        if b"\r\ntransfer-encoding: chunked" in head.lower():
            body = b""
            while size := int(self.until(b"\r\n"), 16):
                body += self.exactly(size)
                self.until(b"\r\n")
            self.until(b"\r\n")
            return head, body
        return head, self.exactly(int(lengths[0].split(b":")[1])) if lengths else b""

    def exactly(self, size: int) -> bytes:
        while len(self.unread) < size:
            got = self.to.recv(1 << 20)
            assert got
            self.unread += got
        body, self.unread = self.unread[:size], self.unread[size:]
        return body

    def say(self, *parts: bytes) -> None:
        self.to.sendall(b"".join(parts))

    def answer(self, body: bytes = b"{}", *headers: bytes) -> None:
        lines = b"".join(header + b"\r\n" for header in headers)
        self.say(b"HTTP/1.1 200 OK\r\n", lines, b"Content-Length: %d\r\n\r\n" % len(body), body)


class There:
    """An upstream: each connection is given to the handler, and what it asks for is kept."""

    def __init__(self, handler: Handler | None = None, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self._handler, self._context = handler or self.serve, context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def serve(self, peer: Peer) -> None:
        while (request := peer.request())[0]:
            self.requests.append(request)
            peer.answer(b"reached %d" % len(self.requests))

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                to, _ = self._listening.accept()
            except OSError:
                return
            to.settimeout(LIMIT_S)
            self.connections += 1
            threading.Thread(target=self._meet, args=(to,), daemon=True).start()

    def _meet(self, to: socket.socket) -> None:
        try:
            if self._context is not None:
                to = self._context.wrap_socket(to, server_side=True)
            self._handler(Peer(to))
        except OSError:
            pass
        finally:
            to.close()


@pytest.fixture
def upstream() -> Iterator[Callable[..., There]]:
    made: list[There] = []

    def start(handler: Handler | None = None, **more: Any) -> There:
        made.append(There(handler, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


Serve = Callable[..., int]


@pytest.fixture(scope="module")
def ending() -> Iterator[list[threading.Thread]]:
    """Servers that were told to end; the test does not wait for each."""
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


@pytest.fixture
def serve(ending: list[threading.Thread]) -> Iterator[Serve]:
    """The proxy to an upstream, behind a gate unless `bare`, on its own server; its port."""
    running: list[Any] = []

    def start(
        there: There | str,
        *,
        bare: bool = False,
        settings: AbuseSettings | None = None,
        head_s: float = 10.0,
        **more: Any,
    ) -> int:
        where = there if isinstance(there, str) else f"http://127.0.0.1:{there.port}"
        proxy = ReverseProxy(parse_upstream(where), **more)
        listening = socket.create_server(("127.0.0.1", 0))
        up = threading.Event()
        app = with_health_check(proxy if bare else gated(proxy, settings=settings))
        serving = make_server(app, head_s=head_s, ready=up.set)
        thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
        thread.start()
        running.append(serving)
        ending.append(thread)
        assert up.wait(LIMIT_S)
        return int(listening.getsockname()[1])

    yield start
    for serving in running:
        serving.should_exit = True


class Client:
    def __init__(self, port: int) -> None:
        self.to = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.got = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.to.close()

    def say(self, *parts: bytes) -> None:
        try:
            for part in parts:
                self.to.sendall(part)
        except OSError:
            pass  # it has heard enough

    def until(self, wanted: bytes) -> bytes:
        while wanted not in self.got:
            got = self.to.recv(65536)
            assert got, self.got
            self.got += got
        return self.got

    def rest(self) -> bytes:
        """All that comes until the end."""
        try:
            while got := self.to.recv(65536):
                self.got += got
        except ConnectionResetError:
            pass
        return self.got


def asked(target: str = "/v1/chat/completions", body: bytes = b"", *lines: str, method: str = "POST") -> bytes:
    given = ["Host: gate.example", "Content-Type: application/json", f"Content-Length: {len(body)}", *lines]
    head = "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", *given))
    return head.encode("latin-1") + b"\r\n" + body


def said(port: int, *parts: bytes) -> bytes:
    with Client(port) as client:
        client.say(*parts)
        return client.rest()


def once(target: str = "/v1/chat/completions", body: bytes = b"", *lines: str, method: str = "POST") -> bytes:
    return asked(target, body, "Connection: close", *lines, method=method)


def code(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"])


# --- what passes


def test_a_request_and_its_answer_pass_as_they_are(upstream: Callable[..., There], serve: Serve) -> None:
    def answer(peer: Peer) -> None:
        there.requests.append(peer.request())
        peer.say(
            b"HTTP/1.1 201 Made\r\nX-Mine: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Encoding: gzip\r\n",
            b'Alt-Svc: h3=":443"\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\n',
            b"X-Guardrail-Decision: deny\r\nX-Guardrail-Mode: normal\r\nContent-Length: 3\r\n\r\n\x1f\x8bz",
        )

    there = upstream(answer)
    port = serve(f"http://127.0.0.1:{there.port}/base")
    body = chat(HARMLESS)
    heard = said(
        port,
        once(
            "/v1/models/org%2Fname?x=%2e%2e&y=1",
            body,
            "Authorization: Bearer key",
            "Accept: text/event-stream",
            "Keep-Alive: timeout=5",
            "TE: trailers",
            "Upgrade: h2c",
            "X-Forwarded-For: 203.0.113.9",
            "X-Forwarded-Host: evil.example",
            "Forwarded: for=203.0.113.9",
            "X_Forwarded_For: 203.0.113.9",
            "X-Guardrail-Mode: normal",
        ),
    )
    ((head, arrived),) = there.requests
    line, *headers = head.split(b"\r\n")
    assert line == b"POST /base/v1/models/org%2Fname?x=%2e%2e&y=1 HTTP/1.1"
    assert arrived == body
    assert sorted(headers) == sorted(
        [
            b"host: 127.0.0.1:%d" % there.port,
            b"content-type: application/json",
            b"authorization: Bearer key",
            b"accept: text/event-stream",
            b"content-length: %d" % len(body),
        ]
    )
    start, _, content = heard.partition(b"\r\n\r\n")
    assert content == b"\x1f\x8bz"
    line, *headers = start.lower().split(b"\r\n")
    assert line.startswith(b"http/1.1 201 ")
    assert sorted(headers) == [
        b"connection: close",
        b"content-encoding: gzip",
        b"content-length: 3",
        b"set-cookie: a=1",
        b"set-cookie: b=2",
        b"x-guardrail-decision: allow",
        b"x-mine: 1",
    ]


def test_events_pass_one_by_one(upstream: Callable[..., There], serve: Serve) -> None:
    """Each is sent only when the one before has arrived: a proxy that waits for more would pass on nothing."""
    arrived = [threading.Event() for _ in range(3)]

    def answer(peer: Peer) -> None:
        peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number, event in enumerate(arrived):
            peer.say(b"9\r\ndata: %d\n\n\r\n" % number)
            assert event.wait(LIMIT_S)
        peer.say(b"0\r\n\r\n")

    port = serve(upstream(answer))
    with Client(port) as client:
        client.say(once(body=chat(HARMLESS, stream=True)))
        for number, event in enumerate(arrived):
            client.until(b"data: %d\n\n" % number)
            event.set()
        assert client.rest().endswith(b"\r\n0\r\n\r\n")
    assert b"\r\ntransfer-encoding: chunked" in client.got.lower()
    assert b"content-length" not in client.got.lower()


def test_a_body_passes_while_it_comes(upstream: Callable[..., There], serve: Serve) -> None:
    begun = threading.Event()

    def answer(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.until(b"first")
        begun.set()
        peer.until(b"last")
        peer.answer()

    port = serve(upstream(answer), bare=True)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Client(port) as client:
        client.say(head, b"5\r\nfirst\r\n")
        assert begun.wait(LIMIT_S)
        client.say(b"4\r\nlast\r\n0\r\n\r\n")
        assert client.rest().startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("how", ["bare", "gated"])
def test_10_mb_arrive_whole(upstream: Callable[..., There], serve: Serve, how: str) -> None:
    there = upstream()
    settings = AbuseSettings(max_body_bytes=16 << 20, read_total_s=LIMIT_S, on_unread="allow")
    port = serve(there, bare=how == "bare", settings=settings)
    body = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(10 * (1 << 20) // 32))
    head = asked(body=body, method="POST").partition(b"\r\n\r\n")[0].replace(b"application/json", b"image/png")
    assert said(port, head, b"\r\nConnection: close\r\n\r\n", body).startswith(b"HTTP/1.1 200 ")
    ((_, arrived),) = there.requests
    assert hashlib.sha256(arrived).digest() == hashlib.sha256(body).digest()


def test_a_connection_serves_one_request_after_the_other(upstream: Callable[..., There], serve: Serve) -> None:
    there = upstream()
    port = serve(there)
    with Client(port) as client:
        for number in (1, 2, 3):
            client.say(asked(body=chat(HARMLESS)))
            client.until(b"reached %d" % number)
    assert there.connections == 1


def test_answers_without_a_body(upstream: Callable[..., There], serve: Serve) -> None:
    def answer(peer: Peer) -> None:
        head, _ = peer.request()
        if head.startswith(b"HEAD"):
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        else:
            peer.say(b"HTTP/1.1 204 No Content\r\n\r\n")

    port = serve(upstream(answer))
    heard = said(port, b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert heard.endswith(b"\r\n\r\n")
    assert said(port, once(method="DELETE")).startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize(
    ("trusted", "told"), [([], b"127.0.0.1"), (["127.0.0.1"], b"203.0.113.9, 127.0.0.1")], ids=["client", "proxy"]
)
def test_the_client_s_address_is_told_only_on_request(
    upstream: Callable[..., There], serve: Serve, trusted: list[str], told: bytes
) -> None:
    there = upstream()
    port = serve(there, trusts=HeaderIdentity(SECRET, trusted).trusts)
    said(port, once("/", chat(HARMLESS), "X-Forwarded-For: 203.0.113.9"))
    lines = there.requests[0][0].split(b"\r\n")
    assert [line for line in lines if b"forwarded" in line] == [b"x-forwarded-for: " + told]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ("{origin}/base/v1/x?y", "/v1/x?y"),
        ("/base/v1/x", "/v1/x"),
        ("{origin}/other", "{origin}/other"),
        ("https://else.example/base/", "https://else.example/base/"),
        ("/base///evil.example", "/evil.example"),
        ("//evil.example", "//evil.example"),
    ],
)
def test_a_redirect_leads_here_again(upstream: Callable[..., There], serve: Serve, given: str, passed: str) -> None:
    there: There
    origin = ""

    def answer(peer: Peer) -> None:
        peer.request()
        peer.say(f"HTTP/1.1 307 X\r\nLocation: {given.format(origin=origin)}\r\nContent-Length: 0\r\n\r\n".encode())

    there = upstream(answer)
    origin = f"http://127.0.0.1:{there.port}"
    heard = said(serve(f"{origin}/base"), once(body=chat(HARMLESS)))
    assert f"location: {passed.format(origin=origin)}\r\n".encode() in heard


# --- what does not


def test_what_is_blocked_never_reaches_the_upstream(upstream: Callable[..., There], serve: Serve) -> None:
    there = upstream()
    port = serve(there)
    heard = said(port, once(body=chat(ATTACK)))
    assert heard.startswith(b"HTTP/1.1 403 ")
    assert code(heard) == "unsafe"
    assert b"\r\nx-guardrail-incident-id: " in heard
    assert there.connections == 0
    assert said(port, once(body=chat(HARMLESS))).startswith(b"HTTP/1.1 200 ")


def raw(*lines: str, body: bytes = b"") -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1") + body


SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
POST = "POST /v1/x HTTP/1.1"
TRICKS = {
    "length and chunks": raw(
        POST, "Host: x", "Content-Length: 4", "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED
    ),
    "chunks and length": raw(
        POST,
        "Host: x",
        "Transfer-Encoding: chunked",
        f"Content-Length: {5 + len(SMUGGLED)}",
        body=b"0\r\n\r\n" + SMUGGLED,
    ),
    "two lengths": raw(POST, "Host: x", "Content-Length: 0", f"Content-Length: {len(SMUGGLED)}", body=SMUGGLED),
    "a list of lengths": raw(POST, "Host: x", f"Content-Length: 0, {len(SMUGGLED)}", body=SMUGGLED),
    "a signed length": raw(POST, "Host: x", "Content-Length: +0", body=SMUGGLED),
    "a negative length": raw(POST, "Host: x", "Content-Length: -1", body=SMUGGLED),
    "a length in hex": raw(POST, "Host: x", "Content-Length: 0x4", body=b"abcd"),
    "another coding": raw(POST, "Host: x", "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n" + SMUGGLED),
    "chunks last of two": raw(POST, "Host: x", "Transfer-Encoding: identity", body=SMUGGLED),
    "nearly chunks": raw(POST, "Host: x", "Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + SMUGGLED),
    "chunks with a tab": raw(POST, "Host: x", "Transfer-Encoding:\x0bchunked", body=b"0\r\n\r\n" + SMUGGLED),
    "two codings": raw(
        POST, "Host: x", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED
    ),
    "a space before the colon": raw(POST, "Host: x", "Content-Length : 4", body=b"abcd" + SMUGGLED),
    "a chunk of a negative size": raw(POST, "Host: x", "Transfer-Encoding: chunked", body=b"-1\r\n" + SMUGGLED),
    "a chunk without its end": raw(POST, "Host: x", "Transfer-Encoding: chunked", body=b"1\r\nab\r\n0\r\n\r\n"),
    "two hosts": raw(POST, "Host: x", "Host: y", "Content-Length: 0"),
    "no host": raw(POST, "Content-Length: 0"),
    "a zero byte": raw(POST, "Host: x", "X-A: b\0c", "Content-Length: 0"),
    "a lone return": raw(POST, "Host: x", "X-A: b\rX-B: c", "Content-Length: 0"),
    "headers to be taken out": raw(POST, "Host: x", "Connection: close, content-type", "Content-Length: 0"),
    "an authorization to be taken out": raw(POST, "Host: x", "Connection: authorization", "Content-Length: 0"),
    "another host as the target": raw("GET http://evil.example/x HTTP/1.1", "Host: x"),
    "an address without a scheme": raw("GET //evil.example/x HTTP/1.1", "Host: x"),
    "an authority": raw("GET @evil.example/x HTTP/1.1", "Host: x"),
    "a tunnel": raw("CONNECT evil.example:443 HTTP/1.1", "Host: x"),
    "a trace": raw("TRACE / HTTP/1.1", "Host: x"),
    "the server itself": raw("OPTIONS * HTTP/1.1", "Host: x"),
    "no slash": raw("GET admin HTTP/1.1", "Host: x"),
    "a step up": raw("GET /v1/../admin HTTP/1.1", "Host: x"),
    "a step up at the end": raw("GET /v1/.. HTTP/1.1", "Host: x"),
    "an escaped step up": raw("GET /v1/%2e%2E/admin HTTP/1.1", "Host: x"),
    "a step up escaped twice": raw("GET /v1/%252e%252e/admin HTTP/1.1", "Host: x"),
    "an escaped slash and a step up": raw("GET /v1%2f..%2fadmin HTTP/1.1", "Host: x"),
    "a step up with a parameter": raw("GET /v1/..;x=1/admin HTTP/1.1", "Host: x"),
    "a backslash": raw("GET /v1/..\\admin HTTP/1.1", "Host: x"),
    "an escaped backslash": raw("GET /v1/..%5cadmin HTTP/1.1", "Host: x"),
    "an escaped line end": raw("GET /v1%0d%0aX: y HTTP/1.1", "Host: x"),
    "an escaped zero": raw("GET /v1%00 HTTP/1.1", "Host: x"),
    "a fragment": raw("GET /v1#x HTTP/1.1", "Host: x"),
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "the next version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.fixture(scope="module")
def tricked() -> Iterator[tuple[There, int]]:
    there = There()
    listening = socket.create_server(("127.0.0.1", 0))
    up = threading.Event()
    app = gated(ReverseProxy(parse_upstream(f"http://127.0.0.1:{there.port}/base")))
    serving = make_server(app, ready=up.set)
    thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
    thread.start()
    assert up.wait(LIMIT_S)
    yield there, int(listening.getsockname()[1])
    serving.should_exit = True
    thread.join(LIMIT_S)
    there.close()


@pytest.mark.parametrize("trick", TRICKS)
def test_a_request_that_can_be_read_in_two_ways_is_refused(tricked: tuple[There, int], trick: str) -> None:
    there, port = tricked
    with Client(port) as client:
        client.say(TRICKS[trick])
        # Refused, and the connection ended: nothing after it is a request either.
        heard = client.rest()
    assert there.requests == []
    assert heard.split(b" ")[1] in (b"400", b"501")
    assert heard.count(b"HTTP/1.1 ") == 1


def test_equal_lengths_are_one(upstream: Callable[..., There], serve: Serve) -> None:
    there = upstream()
    request = raw(
        POST, "Host: x", "Connection: close", "Content-Length: 2, 2", "Content-Length: 2", body=b"{}" + SMUGGLED
    )
    assert said(serve(there), request).count(b"HTTP/1.1 ") == 1
    ((head, body),) = there.requests
    assert body == b"{}"
    assert head.count(b"content-length: 2") == 1


def test_surplus_bytes_of_an_upstream_answer_no_other_client(upstream: Callable[..., There], serve: Serve) -> None:
    def answer(peer: Peer) -> None:
        while peer.request()[0]:
            peer.say(
                b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine",
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother",
            )

    there = upstream(answer)
    port = serve(there)
    for _ in range(3):
        assert said(port, once(body=chat(HARMLESS))).endswith(b"\r\n\r\nmine")
    assert there.connections == 3


# --- when something fails


def test_an_upstream_that_is_down(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    heard = said(serve(f"http://127.0.0.1:{port}"), once(body=chat(HARMLESS)))
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert code(heard) == "upstream-down"
    assert b"\r\nx-guardrail-decision: deny\r\n" in heard


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"",
    ],
)
def test_an_upstream_that_does_not_speak_http(upstream: Callable[..., There], serve: Serve, answer: bytes) -> None:
    def odd(peer: Peer) -> None:
        peer.request()
        peer.say(answer)

    heard = said(serve(upstream(odd)), once(body=chat(HARMLESS)))
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert code(heard) == "upstream-down"


@pytest.mark.parametrize("times", [{"idle_s": 1.0}, {"total_s": 1.0}], ids=["idle", "total"])
def test_an_upstream_that_says_nothing(upstream: Callable[..., There], serve: Serve, times: dict[str, float]) -> None:
    closed = threading.Event()

    def silent(peer: Peer) -> None:
        peer.request()
        assert peer.to.recv(1) == b""
        closed.set()

    heard = said(serve(upstream(silent), **times), once(body=chat(HARMLESS)))
    assert heard.startswith(b"HTTP/1.1 504 ")
    assert code(heard) == "upstream-slow"
    assert closed.wait(LIMIT_S)


CHUNKS, LENGTH = b"Transfer-Encoding: chunked", b"Content-Length: 1000"


@pytest.mark.parametrize(
    ("framing", "ends"), [(CHUNKS, "dies"), (LENGTH, "dies"), (CHUNKS, "stalls"), (LENGTH, "drips")]
)
def test_an_answer_that_is_cut_short_does_not_look_whole(
    upstream: Callable[..., There], serve: Serve, framing: bytes, ends: str
) -> None:
    def answer(peer: Peer) -> None:
        peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\n", framing, b"\r\n\r\n5\r\nhello\r\n")
        if ends == "stalls":
            peer.to.recv(1)
        # Never silent for long, and never done: only the limit on the whole ends it.
        while ends == "drips":
            peer.say(b"1\r\nx\r\n")
            time.sleep(0.05)

    times = {"stalls": {"idle_s": 1.0}, "drips": {"total_s": 1.0}}.get(ends, {})
    heard = said(serve(upstream(answer), **times), asked(body=chat(HARMLESS)))
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert b"hello" in heard
    assert not heard.endswith(b"\r\n0\r\n\r\n")
    assert heard.count(b"HTTP/1.1") == 1


def test_a_client_that_leaves_ends_the_work_at_the_upstream(upstream: Callable[..., There], serve: Serve) -> None:
    ended = threading.Event()

    def answer(peer: Peer) -> None:
        peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        assert peer.to.recv(1) == b""
        ended.set()

    port = serve(upstream(answer))
    with Client(port) as client:
        client.say(asked(body=chat(HARMLESS)))
        client.until(b"data: 1\n\n")
    assert ended.wait(LIMIT_S)


def test_a_client_that_leaves_before_any_answer_ends_it_too(upstream: Callable[..., There], serve: Serve) -> None:
    begun, ended = threading.Event(), threading.Event()

    def silent(peer: Peer) -> None:
        peer.request()
        begun.set()
        assert peer.to.recv(1) == b""
        ended.set()

    port = serve(upstream(silent))
    with Client(port) as client:
        client.say(asked(body=chat(HARMLESS)))
        assert begun.wait(LIMIT_S)
    assert ended.wait(LIMIT_S)


def test_heads_that_drip_are_cut_off_and_others_are_served(upstream: Callable[..., There], serve: Serve) -> None:
    """Each of these sends something all the time; the last sends nothing at all."""
    port = serve(upstream(), head_s=1.5)
    dripping = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) for _ in range(30)]
    for each in dripping[:-1]:
        each.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    try:
        left = dripping[:-1]
        ends = time.monotonic() + LIMIT_S
        while left and time.monotonic() < ends:
            assert said(port, once(body=chat(HARMLESS))).startswith(b"HTTP/1.1 200 ")
            for each in [*left]:
                try:
                    each.sendall(b"X: y\r\n")
                except OSError:
                    left.remove(each)
            time.sleep(0.1)
        assert left == []
        assert dripping[-1].recv(1) == b""
    finally:
        for each in dripping:
            each.close()


def test_a_head_without_an_end_is_cut_off_at_its_size(upstream: Callable[..., There], serve: Serve) -> None:
    there = upstream()
    heard = said(serve(there), b"GET / HTTP/1.1\r\nHost: x\r\n", *([b"X: " + b"y" * 4096 + b"\r\n"] * 40))
    assert there.connections == 0
    # The answer may be lost on a client that does not stop sending.
    assert heard == b"" or heard.startswith(b"HTTP/1.1 400 ")


def test_a_second_head_on_a_connection_has_its_time_as_well(upstream: Callable[..., There], serve: Serve) -> None:
    port = serve(upstream(), head_s=1.0)
    with Client(port) as client:
        client.say(asked(body=chat(HARMLESS)))
        client.until(b"reached 1")
        client.say(b"GET / HT")
        assert client.rest().endswith(b"reached 1")


def test_an_exchange_may_take_longer_than_a_head(upstream: Callable[..., There], serve: Serve) -> None:
    def slow(peer: Peer) -> None:
        peer.request()
        time.sleep(1.6)
        peer.answer(b"late")

    assert said(serve(upstream(slow), head_s=1.0), once(body=chat(HARMLESS))).endswith(b"late")


# --- TLS, health, settings


def test_an_upstream_with_an_unsigned_certificate_is_refused(upstream: Callable[..., There], serve: Serve) -> None:
    there = upstream(context=_tls_context())
    heard = said(serve(f"https://127.0.0.1:{there.port}"), once(body=chat(HARMLESS)))
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert there.requests == []


def test_an_authority_of_one_s_own_is_trusted(upstream: Callable[..., There], serve: Serve, tmp_path: Path) -> None:
    there = upstream(context=_tls_context())
    own = tmp_path / "own.pem"
    own.write_text(ssl.DER_cert_to_PEM_cert(b64decode(_CERTIFICATE)))
    heard = said(serve(f"https://127.0.0.1:{there.port}", ca_file=str(own)), once(body=chat(HARMLESS)))
    assert heard.startswith(b"HTTP/1.1 200 ")


def test_health_is_said_without_the_upstream(serve: Serve) -> None:
    port = serve("http://127.0.0.1:9")
    heard = said(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 204 ")
    # Only asked for, and only there: what has a body is not about our health.
    assert said(port, once("/healthz", chat(ATTACK))).startswith(b"HTTP/1.1 403 ")
    assert said(port, once("/healthz/x", chat(HARMLESS))).startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("https://api.example.com", Upstream("https://api.example.com", "api.example.com", "")),
        ("https://api.example.com:443/", Upstream("https://api.example.com", "api.example.com", "")),
        ("HTTPS://API.example.com:8443/v1/", Upstream("https://api.example.com:8443", "api.example.com:8443", "/v1")),
        ("http://[::1]:8000", Upstream("http://[::1]:8000", "[::1]:8000", "")),
        ("http://vllm:8000/openai", Upstream("http://vllm:8000", "vllm:8000", "/openai")),
    ],
)
def test_an_upstream_is_read(text: str, found: Upstream) -> None:
    assert parse_upstream(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "file:///etc/passwd",
        "https://",
        "https://user:pass@api.example.com",
        "https://@api.example.com",
        "https://api.example.com?key=1",
        "https://api.example.com/#x",
        "https://api.example.com/v1/..",
        "https://api.example.com/a b",
        "https://api.example.com:0",
        "https://api.example.com:99999",
        "https://api example.com",
        "https://[::1",
        "https://a\nb",
        "https://höst",
    ],
)
def test_what_is_no_upstream_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_upstream(text)
    assert "pass@" not in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("https://api.example.com", "hidden"),
        ("http://127.0.0.1:8000", "hidden"),
        ("http://[::1]:8000", "hidden"),
        ("http://localhost", "hidden"),
        ("http://10.0.0.7", "in clear"),
        ("http://localhost.example.com", "in clear"),
    ],
)
def test_what_goes_in_clear_is_known(text: str, how: str) -> None:
    assert parse_upstream(text).is_in_clear is (how == "in clear")
