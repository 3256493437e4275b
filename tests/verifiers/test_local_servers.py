"""What answers on ports of this machine is listed, and never trusted or asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from lockgate import assemble
from lockgate.core.errors import InvalidConfig
from lockgate.settings.config import Settings
from lockgate.settings.model_names import resolve_model
from lockgate.settings.verifiers import settings_for_model
from lockgate.verifiers.local_servers import LocalServer, find_local_servers


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def listing(*ids: object) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": each} for each in ids]}).encode()


def test_a_server_is_listed_with_the_models_that_stay_on_this_machine() -> None:
    ids = ("qwen3:8b", "org/model name", "big:cloud", "big-cloud", "a\x1b[2J", "", "x" * 300, 7)
    with answering(listing(*ids)) as (port, asked):
        found = find_local_servers([("Ollama", port), ("vLLM", 1)])
    names = (f"local:{port}/qwen3:8b", f"local:{port}/org/model name", f"local:{port}/7")
    assert found == [LocalServer("Ollama", port, names)]
    assert str(found[0]) == f"Ollama seems to answer on port {port}"
    assert asked == ["/v1/models"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (listing("m"), 404),
        (listing(), 200),
        (b"<html>", 200),
        (b"[]", 200),
        (b'{"data": 7}', 200),
        (b'{"data": [7]}', 200),
        (b"[" * 100_000, 200),
        (b" " * (1 << 18) + listing("m"), 200),
    ],
)
def test_what_is_no_list_of_models_is_no_server(body: bytes, status: int) -> None:
    with answering(body, status) as (port, _):
        assert find_local_servers([("Ollama", port)]) == []


def test_a_local_name_is_a_server_of_this_machine_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = resolve_model("local:11434/qwen3:8b")
    assert named == ("compatible", "qwen3:8b", "http://127.0.0.1:11434/v1")
    environ = {"VERIFIER_BASE_URL": "https://elsewhere.example/v1", "VERIFIER_API_KEY": "sk-canary"}
    found = settings_for_model(*named, environ)
    assert (found.endpoint, found.keys.key()) == ("http://127.0.0.1:11434/v1", "")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    judge = assemble.named_judge(Settings(), "local:11434/qwen3:8b")
    assert judge.identity == ("compatible", "qwen3:8b", "http://127.0.0.1:11434/v1", "")
    assert assemble.judge_settings(Settings(), "local:11434/qwen3:8b").timeout_ms == assemble.LOCAL_TIMEOUT_MS


@pytest.mark.parametrize("name", ["local:/m", "local:0/m", "local:11434", "local:11434/", "local:x/m", "local:1/a\nb"])
def test_what_is_no_local_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig):
        resolve_model(name)


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidConfig):
        assemble.judge_settings(Settings(), "local:99999/m")
