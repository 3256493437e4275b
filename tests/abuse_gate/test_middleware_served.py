"""The gate under a real server, in the example application, and under whatever hypothesis and schemathesis think of."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from asgi import ATTACK, HARMLESS, Handler, call, chat, gated, post, scope
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate import assemble
from lockgate.abuse_gate.request.payload_from_body import REFUSALS
from lockgate.abuse_gate.responses import DECISIONS, MODES
from lockgate.core.ruling.policy import Policy
from lockgate.gate.gate import shared_scanner
from lockgate.settings.abuse_gate import AbuseSettings

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "fastapi_app.py"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example as a new user runs it, without any configuration."""
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "c"), ("XDG_CACHE_HOME", "k"), ("XDG_STATE_HOME", "s")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    spec = importlib.util.spec_from_file_location("fastapi_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Pydantic looks the annotations up in the module.
    monkeypatch.setitem(sys.modules, "fastapi_example", module)
    spec.loader.exec_module(module)
    return module.app


Serve = Callable[[Any], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an application on loopback until the test ends; its port."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(app: Any) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        running.append((server, thread))
        ends = time.monotonic() + 60
        while not server.started and time.monotonic() < ends:
            time.sleep(0.01)
        assert server.started
        return int(listening.getsockname()[1])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(30)


def said(port: int, head: bytes, *parts: bytes) -> bytes:
    """All that a server says to these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as to:
        to.sendall(head)
        for part in parts:
            try:
                to.sendall(part)
            except OSError:
                break  # it has heard enough
        answer = b""
        while True:
            try:
                got = to.recv(65536)
            except ConnectionResetError:
                return answer
            if not got:
                return answer
            answer += got


def head(body: bytes | None, **headers: str) -> bytes:
    given = {"Host": "x", "Connection": "close", **headers}
    if body is not None:
        given["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"POST /v1/chat/completions HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


# --- a real server


def test_the_example_answers_blocks_locks_and_quarantines(example: Any, serve: Serve) -> None:
    port = serve(example)

    def ask(body: bytes, key: str = "alice-key") -> tuple[int, dict[str, str], bytes]:
        asked = head(body, Authorization=f"Bearer {key}", **{"Content-Type": "application/json"})
        status, _, rest = said(port, asked + body).partition(b"\r\n")
        headers, _, content = rest.partition(b"\r\n\r\n")
        lines = (line.partition(": ") for line in headers.decode("latin-1").split("\r\n"))
        return int(status.split()[1]), {name.lower(): value for name, _, value in lines}, content

    assert ask(chat(HARMLESS), "unknown-key")[0] == 401
    status, headers, content = ask(chat(HARMLESS))
    assert (status, headers["x-guardrail-decision"]) == (200, "allow")
    assert b"characters." in content
    _, headers, content = ask(chat(HARMLESS, stream=True))
    assert headers["content-type"].startswith("text/event-stream")
    assert content.count(b"data: ") == 6
    replies = [ask(chat(ATTACK)) for _ in range(6)]
    assert [status for status, _, _ in replies] == [403] * 5 + [429]
    assert [headers.get("x-guardrail-mode") for _, headers, _ in replies] == [
        None,
        None,
        "execute_locked",
        "execute_locked",
        "full_quarantine",
        "full_quarantine",
    ]
    assert int(replies[-1][1]["retry-after"]) > 0
    # The same network, another principal: slowed at most, and never locked.
    status, headers, _ = ask(chat(HARMLESS, tools=[{"type": "function"}]), "bob-key")
    assert (status, headers.get("x-guardrail-mode")) == (200, "slowed")


def test_100_mb_in_chunks_are_cut_off_at_the_limit(serve: Serve) -> None:
    handler = Handler()
    port = serve(gated(handler))
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    answer = said(port, head(None, **{"Transfer-Encoding": "chunked"}), *([chunk] * 1600))
    assert handler.bodies == []
    # The answer may be lost on a client that does not stop sending; where it is not, it is this one.
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413 ")


def test_clients_that_drip_are_cut_off_and_others_are_served_meanwhile(serve: Serve) -> None:
    port = serve(gated(Handler(), settings=AbuseSettings(read_idle_s=1.0, read_total_s=2.0)))
    dripping = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(50)]
    try:
        for each in dripping:
            each.sendall(head(None, **{"Content-Length": "1000"}) + b"{")
        body = chat(HARMLESS)
        for _ in range(10):
            assert said(port, head(body) + body).startswith(b"HTTP/1.1 200 ")
        for each in dripping:
            answer = b""
            while got := each.recv(65536):
                answer += got
            assert answer.startswith(b"HTTP/1.1 408 ")
    finally:
        for each in dripping:
            each.close()


def test_what_is_left_of_a_refused_body_is_not_the_next_request(serve: Serve) -> None:
    handler = Handler()
    port = serve(gated(handler, settings=AbuseSettings(max_body_bytes=1024)))
    smuggled = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
    asked = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {2000 + len(smuggled)}\r\n\r\n".encode()
    answer = said(port, asked, b"x" * 2000, smuggled)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert handler.scopes == []


def test_headers_with_line_ends_are_refused(serve: Serve) -> None:
    handler = Handler()
    port = serve(gated(handler))
    body = chat("x\r\nX-Guardrail-Decision: allow")
    answer = said(port, head(body, **{"X-Guardrail-Decision": "allow", "X_Guardrail_Mode": "normal"}) + body)
    assert answer.lower().count(b"x-guardrail-decision") == 1
    assert not any(b"guardrail" in name.lower() for name, _ in handler.scopes[0]["headers"])


def test_a_document_with_hidden_orders_is_blocked_and_its_bearer_is_not_locked(serve: Serve) -> None:
    """The real inspector, with processes of its own, which end with the server."""
    handler = Handler()
    gate = gated(handler, inspector=None, settings=AbuseSettings(verdict_timeout_s=30))
    port = serve(gate)

    def upload(page: str) -> bytes:
        parts = (
            b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nSummarise this page\r\n',
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="page.html"\r\n',
            b"Content-Type: text/html\r\n\r\n" + page.encode() + b"\r\n--b--\r\n",
        )
        body = b"".join(parts)
        return said(port, head(body, **{"Content-Type": "multipart/form-data; boundary=b"}) + body)

    ordinary = "<html><body><h1>Opening hours</h1><p>We open at nine every day of the week.</p></body></html>"
    assert b"x-guardrail-decision: allow" in upload(ordinary)
    hidden = ordinary.replace("</h1>", f'</h1><div style="display:none">{ATTACK}</div>')
    assert upload(hidden).startswith(b"HTTP/1.1 403 ")
    assert len(handler.bodies) == 1
    asyncio.run(gate._inspector.close())


# --- whatever a client could send

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.just(ATTACK),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=12), inside, max_size=4),
    max_leaves=12,
)
_chats = st.fixed_dictionaries(
    {"messages": st.lists(st.fixed_dictionaries({"role": st.text(max_size=9), "content": _values}), max_size=4)},
    optional={"tools": _values, "stream": _values, "tool_calls": _values, "input": _values, "prompt": _values},
)
_bodies = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(max_size=100).map(lambda text: text.encode("utf-16", "surrogatepass")),
    (_values | _chats).map(lambda value: json.dumps(value).encode()),
    st.lists(st.binary(max_size=60), max_size=4).map(
        lambda parts: b"--x\r\n" + b"\r\n--x\r\n".join(parts) + b"\r\n--x--"
    ),
)
_types = st.one_of(
    st.sampled_from(
        [
            b"",
            b"application/json",
            b"application/json; charset=utf-16",
            b"text/plain; charset=nonsense",
            b"multipart/form-data; boundary=x",
            b"multipart/form-data",
            b"application/x-www-form-urlencoded",
            b"application/pdf",
        ]
    ),
    st.binary(max_size=40),
)


class Unread:
    """An inspector for whom every document is one that it could not read."""

    async def inspect(self, uploads: Any, *, whom: str) -> list[Any]:
        return []

    async def close(self) -> None:
        return


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=_bodies,
    kind=_types,
    query=st.binary(max_size=60),
    path=st.text(max_size=40),
    chunk=st.integers(0, 50),
    method=st.sampled_from(["POST", "GET", "PUT", "HEAD", "DELETE"]),
)
def test_no_request_is_answered_otherwise_than_it_may_be(
    body: bytes, kind: bytes, query: bytes, path: str, chunk: int, method: str
) -> None:
    handler = Handler()
    gate = gated(handler, inspector=Unread())
    about: dict[str, Any] = {"headers": [(b"content-type", kind)], "query": query, "path": path, "method": method}
    reply = asyncio.run(post(gate, body, chunk=chunk, **about))
    assert reply.status in {200, 403, 422, *REFUSALS.values()}
    assert reply.decision in DECISIONS
    assert reply.mode in ("", *MODES)
    assert (reply.status == 200) == (handler.bodies == [body])
    assert (reply.status == 200) == (reply.decision in ("allow", "unclear"))
    assert gate._bodies.held == 0


def test_schemathesis_finds_no_way_to_break_the_example(example: Any) -> None:
    import schemathesis

    statuses: set[int] = set()
    for operation in schemathesis.openapi.from_asgi("/openapi.json", example).get_all_operations():

        @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.ok().as_strategy())
        def probe(case: Any) -> None:
            response = case.call(headers={"authorization": "Bearer alice-key"})
            statuses.add(response.status_code)
            assert response.status_code < 500
            assert response.headers["x-guardrail-decision"] in ([value] for value in DECISIONS)

        probe()
    assert 200 in statuses


def test_the_example_s_websockets_have_a_principal_too(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABUSE_WEBSOCKETS", "unsafe_allow")
    extended = {"websocket.http.response": {}}

    def opened(key: bytes, path: str = "/v1/chat/completions") -> Any:
        asked = scope(path, kind="websocket", headers=[(b"authorization", key)], extensions=extended)
        return asyncio.run(call(example, asked, []))

    assert opened(b"Bearer wrong").messages == [{"type": "websocket.close", "code": 1008}]
    eve = [(b"authorization", b"Bearer alice-key"), (b"content-type", b"application/json")]
    for _ in range(5):
        assert asyncio.run(post(example, chat(ATTACK), headers=eve)).status == 403
    assert (opened(b"Bearer alice-key").status, opened(b"Bearer alice-key").code) == (429, "quarantined")
