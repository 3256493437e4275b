"""Streamable HTTP as the far side: what is sent in which protocol, and what comes of answers of every kind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from typing import Any

import pytest

pytest.importorskip("httpx2")

from lockgate.cli import mcp as command
from lockgate.core.errors import InvalidConfig
from lockgate.mcp import http as mcp_http
from lockgate.mcp import messages as wire
from lockgate.mcp.http import HttpServer

LIMIT_S = 20
META = {wire.VERSION: "2026-07-28", wire.CLIENT: {"name": "t", "version": "1"}, wire.CAPABILITIES: {}}


class Handler(BaseHTTPRequestHandler):
    """A server that does what its test says."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, dict[str, str], Any]]
    script: Callable[[Handler, Any], None]
    listening: threading.Event
    go_on: threading.Event

    def _noted(self) -> Any:
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size)
        said = json.loads(body) if body else None
        self.seen.append((self.command, {name.lower(): value for name, value in self.headers.items()}, said))
        return said

    def do_POST(self) -> None:
        said = self._noted()
        if isinstance(said, dict) and ("id" not in said or "method" not in said):
            self.answer(202, b"")
        else:
            type(self).script(self, said)

    def do_GET(self) -> None:
        self._noted()
        if self.headers.get("last-event-id") == "41":
            self.stream(b'id: 42\ndata: {"jsonrpc":"2.0","id":1,"result":{"resumed":true}}\n\n')
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b': hello\n\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
        self.wfile.flush()
        self.listening.set()
        self.go_on.wait(LIMIT_S)
        self.close_connection = True

    def do_DELETE(self) -> None:
        self._noted()
        self.answer(204, b"")

    def answer(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        for byte in (body[:3], body[3:]):
            self.wfile.write(byte)
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        return


class Rig:
    def __init__(self, server: ThreadingHTTPServer, handler: type[Handler]) -> None:
        self.handler = handler
        self.came: Queue[bytes] = Queue()
        self.url = f"http://127.0.0.1:{server.server_port}/mcp"
        self.remote = HttpServer(self.url, [("authorization", "Bearer key")], self.came.put)

    def send(self, method: str, id: object = None, **params: object) -> None:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        if id is not None:
            message["id"] = id
        self.remote.send(wire.line_of(message), message)

    def got(self) -> Any:
        line = self.came.get(timeout=LIMIT_S)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        return json.loads(line)

    def headers(self, method: str = "POST") -> dict[str, str]:
        return next(headers for how, headers, _ in reversed(self.handler.seen) if how == method)


@pytest.fixture
def rig() -> Iterator[Rig]:
    def default(handler: Handler, said: Any) -> None:
        handler.answer(200, json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": {}}).encode())

    made = {"seen": [], "listening": threading.Event(), "go_on": threading.Event(), "script": default}
    handler = type("Scripted", (Handler,), made)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    rig = Rig(server, handler)
    yield rig
    handler.go_on.set()
    rig.remote.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_session_of_the_handshake_era(rig: Rig) -> None:
    def script(handler: Handler, said: Any) -> None:
        body = {"jsonrpc": "2.0", "id": said["id"], "result": {"protocolVersion": "2025-11-25"}}
        handler.answer(200, json.dumps(body, indent=2).encode(), mcp_session_id="s-1")

    rig.handler.script = script
    rig.send("initialize", 1)
    assert rig.got()["result"]["protocolVersion"] == "2025-11-25"
    first = rig.headers()
    assert first["accept"] == "application/json, text/event-stream"
    assert first["authorization"] == "Bearer key"
    assert not {"mcp-session-id", "mcp-protocol-version", "mcp-method"} & set(first)
    rig.send("notifications/initialized")
    assert rig.handler.listening.wait(LIMIT_S)
    assert rig.got()["method"] == "notifications/x"
    rig.send("tools/list", "2")
    assert rig.got()["id"] == "2"
    assert rig.headers()["mcp-session-id"] == "s-1"
    assert rig.headers()["mcp-protocol-version"] == "2025-11-25"
    assert rig.headers("GET")["mcp-session-id"] == "s-1"
    rig.handler.go_on.set()
    rig.remote.close()
    assert rig.headers("DELETE")["mcp-session-id"] == "s-1"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("echo", "echo"),
        ("naïve", "=?base64?bmHDr3Zl?="),
        (" x", "=?base64?IHg=?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ],
    ids=["plain", "letters", "blank", "sentinel"],
)  # fmt: skip
def test_a_request_of_the_modern_era_says_it_in_headers_too(rig: Rig, name: str, sent: str) -> None:
    rig.send("tools/call", 1, name=name, arguments={}, _meta=META)
    assert rig.got()["id"] == 1
    headers = rig.headers()
    assert (headers["mcp-protocol-version"], headers["mcp-method"]) == ("2026-07-28", "tools/call")
    assert headers["mcp-name"] == sent


def test_arguments_that_a_schema_wants_in_headers_go_there(rig: Rig) -> None:
    schema = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "odd": {"x-mcp-header": "a\r\nb"}}}

    def script(handler: Handler, said: Any) -> None:
        tools = [{"name": "where", "inputSchema": schema}]
        handler.answer(200, json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": {"tools": tools}}).encode())

    rig.handler.script = script
    rig.send("tools/list", 1, _meta=META)
    rig.got()
    rig.send("tools/call", 2, name="where", arguments={"region": "eu\r\nx-evil: 1", "odd": "1"}, _meta=META)
    rig.got()
    assert rig.headers()["mcp-param-region"] == "=?base64?ZXUNCngtZXZpbDogMQ==?="
    assert "x-evil" not in rig.headers()


def test_a_stream_of_events(rig: Rig) -> None:
    events = (
        b"event: message\r\nid: 1\r\ndata:\r\n\r\n"
        b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
        b': a comment\ndata: {"jsonrpc":"2.0",\ndata: "id":1,"result":{"text":"\xe2\x80\xa8"}}\n\n'
    )
    rig.handler.script = lambda handler, _: handler.stream(events)
    rig.send("tools/call", 1, name="x")
    assert rig.got()["method"] == "notifications/progress"
    assert rig.got() == {"jsonrpc": "2.0", "id": 1, "result": {"text": "\u2028"}}


def test_a_stream_that_breaks_is_gone_on_with(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_http, "_RETRY_S", 0.01)
    rig.handler.script = lambda handler, _: handler.stream(b"id: 41\ndata:\n\n")
    rig.send("tools/call", 1, name="x")
    assert rig.got()["result"] == {"resumed": True}


def large(handler: Handler, said: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": {"text": "x" * 10_000_000}})
    handler.stream(f"data: {body}\n\n".encode())


def test_a_large_answer(rig: Rig) -> None:
    rig.handler.script = large
    rig.send("tools/call", 1, name="x")
    assert len(rig.got()["result"]["text"]) == 10_000_000


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda handler, _: handler.answer(401, b"no"), "refuses who asks"),
        (lambda handler, _: handler.answer(404, b"?"), "nothing at this address"),
        (lambda handler, _: handler.answer(500, b"<html>"), "HTTP 500"),
        (lambda handler, _: handler.answer(307, b"", location="http://127.0.0.1:1/other"), "not followed"),
        (lambda handler, _: handler.answer(202, b""), "answers nothing"),
        (lambda handler, _: handler.answer(200, b"hello", "text/html"), "text/html"),
        (lambda handler, _: handler.stream(b": nothing\n\n"), "without an answer"),
        (lambda handler, _: handler.answer(200, b'{"jsonrpc":"2.0","id":99,"result":{}}'), "no answer"),
    ],
    ids=["401", "404", "500", "redirect", "202", "html", "ended", "other-id"],
)  # fmt: skip
def test_a_request_always_gets_an_answer(rig: Rig, script: Callable[[Handler, Any], None], said: str) -> None:
    rig.handler.script = script
    rig.send("tools/call", 1, name="x")
    answers = [rig.got()]
    if answers[0].get("id") == 99:
        answers.append(rig.got())
    assert answers[-1]["id"] == 1
    assert said in answers[-1]["error"]["message"]
    assert len([how for how, _, _ in rig.handler.seen if how == "POST"]) == 1


def test_what_a_server_says_of_a_failure_reaches_the_client(rig: Rig) -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"another version","data":{"supported":["x"]}}}'
    rig.handler.script = lambda handler, _: handler.answer(400, body)
    rig.send("server/discover", "probe", _meta=META)
    answer = rig.got()
    assert (answer["id"], answer["error"]["code"]) == ("probe", -32022)
    assert answer["error"]["data"] == {"supported": ["x"]}


def test_a_server_that_does_not_listen(rig: Rig) -> None:
    remote = HttpServer("http://127.0.0.1:9/mcp", [], rig.came.put)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    remote.send(wire.line_of(message), message)
    assert "cannot be reached" in rig.got()["error"]["message"]
    remote.close()


def test_a_modern_request_is_given_up_by_closing_its_stream(rig: Rig) -> None:
    begun, gone = threading.Event(), threading.Event()

    def script(handler: Handler, _: Any) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b'data: {"jsonrpc":"2.0","method":"notifications/begun"}\n\n')
        handler.wfile.flush()
        begun.set()
        # Nothing more comes from a server that hangs up.
        with suppress(ConnectionError):
            assert handler.connection.recv(1) == b""
        gone.set()
        handler.close_connection = True

    rig.handler.script = script
    rig.send("tools/call", 1, name="x", _meta=META)
    assert rig.got()["method"] == "notifications/begun"
    assert begun.wait(LIMIT_S)
    rig.send("notifications/cancelled", requestId=1)
    assert gone.wait(LIMIT_S)
    assert [how for how, _, _ in rig.handler.seen] == ["POST"]
    with pytest.raises(Empty):
        rig.came.get(timeout=0.2)


# The command's part


def test_headers_take_their_secrets_from_the_environment() -> None:
    environ: Any = {"TOKEN": "s3cret"}
    assert command._parse_header("Authorization: Bearer $TOKEN", environ) == ("Authorization", "Bearer s3cret")
    assert command._parse_header("X: ${TOKEN}!", environ) == ("X", "s3cret!")
    for wrong in ("no colon", "bad name: x", "X: $MISSING", "X: a\nb", ": x", "X: é"):
        with pytest.raises(InvalidConfig):
            command._parse_header(wrong, environ)
    with pytest.raises(InvalidConfig, match="no header can have"):
        command._parse_header("X: $TOKEN", {"TOKEN": "a\r\nEvil: 1"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://a/b", "http://", "http://u:p@host/", "http://[::1", "file:///etc/passwd"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig):
        command._check_url(url, secret=False)


def test_secrets_are_not_sent_unencrypted_to_other_machines() -> None:
    assert command._check_url("http://127.0.0.1:8000/mcp", secret=True)
    assert command._check_url("http://mcp.example.com/mcp", secret=False)
    with pytest.raises(InvalidConfig):
        command._check_url("http://mcp.example.com/mcp", secret=True)
