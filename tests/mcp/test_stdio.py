"""The pump as processes: a client's pipes, `lockgate mcp`, and a server that does what it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from paths import SUPPORT
from rule_cache import keep_key

import lockgate
from lockgate import assemble
from lockgate.journal.record import parse_record
from lockgate.mcp import stdio as mcp_stdio
from lockgate.mcp.stdio import MessagePipe, MessageTooLong, client_session, read_lines
from lockgate.settings.config import load_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes as POSIX has them")

SERVER = str(SUPPORT / "scripted_mcp.py")
HIJACKED = {"to": "desk@clearance.example", "attachments": ["customers.csv"]}
LIMIT_S = 60


@pytest.fixture(scope="session")
def environment(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home of its own, and the compiled rules."""
    home = tmp_path_factory.mktemp("home")
    keep_key(home / "state")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CACHE_HOME": str(cache),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(Path(lockgate.__file__).parents[1]),
    }


class Pumped:
    """A server behind `lockgate mcp`, as its client sees it."""

    def __init__(self, environment: dict[str, str], *options: str, how: str = "") -> None:
        command = [sys.executable, "-P", "-m", "lockgate", "mcp", *options, "--", sys.executable, "-S", SERVER, how]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self.said = b""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._watch = threading.Timer(LIMIT_S, self.process.kill)
        self._watch.start()
        self.ids = 0

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), (line[:200], self.process.wait(), self.said)
        return json.loads(line)

    def ask(self, method: str, **params: object) -> Any:
        self.ids += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}).encode() + b"\n")
        while True:
            answer = self.receive()
            if answer.get("id") == self.ids:
                return answer

    def call(self, name: str, **arguments: object) -> str:
        return str(self.ask("tools/call", name=name, arguments=arguments)["result"]["content"][0]["text"])

    def end(self) -> int:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(LIMIT_S)

    def close(self) -> None:
        self._watch.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reading.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with suppress(OSError):
                stream.close()


Start = Callable[..., Pumped]


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    started: list[Pumped] = []

    def make(*options: str, how: str = "") -> Pumped:
        started.append(Pumped(environment, *options, how=how))
        return started[-1]

    yield make
    for each in started:
        each.close()


def test_calls_results_and_rulings_through_pipes(start: Start, environment: dict[str, str]) -> None:
    """One long session, since each process costs its start: transparent, large, hostile, and what is left behind."""
    server = start("--name", "mail", "--session", "pipes")
    assert server.ask("initialize", capabilities={})["result"]["protocolVersion"] == "2025-06-18"
    assert server.ask("vendor/unheard-of", a=1)["result"]["method"] == "vendor/unheard-of"
    assert server.call("read_inbox", folder="x") == 'did read_inbox {"folder": "x"}'
    # Results and arguments that no line reader with a default limit survives.
    assert len(server.call("read_big", size=3_000_000)) == 3_000_000
    assert server.ask("vendor/large", text="y" * 2_000_000)["result"]["size"] > 2_000_000
    assert server.call("send_email", **HIJACKED).startswith("did send_email")
    assert server.call("read_poison")
    assert "stands in the result of mail:read_poison and not in your words" in server.call("send_email", **HIJACKED)
    server.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}\n')
    assert server.receive()["error"]["code"] == -32700
    # Many at once: each is answered once, and under its own id.
    many = [{"jsonrpc": "2.0", "id": f"m{n}", "method": "tools/call", "params": {"name": "read_x"}} for n in range(200)]
    server.send(b"".join(json.dumps(each).encode() + b"\n" for each in many))
    assert [server.receive()["id"] for _ in many] == [each["id"] for each in many]
    assert server.end() == 0
    assert b"scripted: started" in server.said
    assert b"Traceback" not in server.said
    host = assemble.host_from_settings(
        load_settings(environ=environment, cwd=Path(environment["HOME"]), check_pattern=assemble.check_pattern)
    )
    kept = host.decisions(session="pipes", limit=300)
    assert [each.tool for each in kept].count("mcp__mail__send_email") == 2
    assert [each.decision.action.value for each in kept if each.tool == "mcp__mail__send_email"] == [
        "PAUSE",
        "CONTINUE",
    ]
    assert all(each.decision.receipt is not None for each in kept)
    assert {each.ran for each in kept if each.decision.action.value == "CONTINUE"} == {"ran"}
    host.close()


def test_what_the_environment_says_to_us_is_not_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCKGATE_TOKEN", "LOCKGATE_AGENT_TOKEN", "LOCKGATE_CONFIG", "lockgate_gate_token"):
        monkeypatch.setenv(name, "lga_secret")
    monkeypatch.setenv("TRACKER_TOKEN", "its own")
    child = mcp_stdio.start_server([sys.executable, "-S", "-c", "import os, json; print(json.dumps(dict(os.environ)))"])
    said, _ = child.communicate(timeout=LIMIT_S)
    assert json.loads(said)["TRACKER_TOKEN"] == "its own"
    assert "lga_secret" not in said.decode()


def test_the_servers_exit_is_ours(start: Start) -> None:
    coded, killed, ended = start(how="code"), start(how="signal"), start()
    assert coded.process.wait(LIMIT_S) == 7
    assert killed.process.wait(LIMIT_S) == -signal.SIGKILL
    ended.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_end","arguments":{"code":3}}}\n')
    assert ended.process.wait(LIMIT_S) == 3


def test_signals_are_passed_on(start: Start) -> None:
    server = start(how="told")
    assert server.ask("ping")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(LIMIT_S) == 23


def test_stray_output_of_a_server_is_not_passed_on(start: Start) -> None:
    server = start(how="noise")
    assert server.receive() == {"half": True}
    assert server.ask("ping")
    assert server.end() == 0
    assert b"is not passed on" in server.said


def test_a_server_that_does_not_listen_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_stdio, "GRACE_S", 0.2)
    child = mcp_stdio.start_server([sys.executable, "-S", SERVER, "deaf"])
    assert child.stdin is not None
    assert child.stdout is not None
    reader, writer = os.pipe()
    to_server = MessagePipe(os.dup(child.stdin.fileno()))
    child.stdin.close()
    stuck, ready = threading.Event(), threading.Event()

    def take(line: bytes) -> None:
        stuck.set()
        to_server(line)

    def go() -> None:
        # More than any pipe holds: we are in the middle of a message when the client goes.
        os.write(writer, b"y" * 30_000 + b"\n")
        stuck.wait(LIMIT_S)
        ready.wait(LIMIT_S)
        os.close(writer)

    client = threading.Thread(target=go)
    client.start()
    code = mcp_stdio.pump_messages(
        child,
        reader,
        to_server=to_server,
        to_client=MessagePipe(os.open(os.devnull, os.O_WRONLY)),
        from_client=lambda line: take(line * 100),
        from_server=lambda _: ready.set(),
    )
    client.join()
    child.stdout.close()
    assert code == -signal.SIGKILL


def test_a_killed_pump_takes_its_server_along(start: Start) -> None:
    server = start(how="log")
    assert server.ask("ping")
    server.process.kill()
    server.process.wait()
    # Standard error is the server's too: it is closed when the server has gone.
    server._reading.join(LIMIT_S)
    assert not server._reading.is_alive()


def test_a_call_that_was_passed_on_is_on_record_even_if_the_pump_is_killed_right_then(
    start: Start, environment: dict[str, str]
) -> None:
    settings = load_settings(environ=environment, cwd=Path(environment["HOME"]), check_pattern=assemble.check_pattern)
    server = start("--name", "mail", "--session", "killed")
    # Each is stored before its call is forwarded.
    assert server.call("read_inbox", folder="x")
    server.send(
        b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"read_and_kill","arguments":{"n":1}}}\n'
    )
    assert server.process.wait(LIMIT_S) == -signal.SIGKILL
    server._reading.join(LIMIT_S)
    assert b"scripted: killed" in server.said
    with assemble.log_from_settings(settings) as log:
        log.checkpoint()
        with log.store.reading() as view:
            bodies = [
                parse_record(body) for each in view.shards() for _, body in view.bodies(each.number, 0, each.size)
            ]
    tools = [each["tool"] for each in bodies if each.get("session") == "killed"]
    assert tools == ["mcp__mail__read_inbox", "mcp__mail__read_and_kill"]


def test_a_configuration_that_must_not_start_ends_everything(start: Start, tmp_path: Path) -> None:
    config = tmp_path / "lockgate.toml"
    config.write_text("[security]\nunheard_of = 1\n", encoding="utf-8")
    server = start("--config", str(config))
    assert server.process.wait(LIMIT_S) == 2
    server._reading.join(LIMIT_S)
    assert b"lockgate: error" in server.said


def test_a_server_that_cannot_be_started_is_an_error(environment: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "lockgate", "mcp", "--", "/nowhere/at-all"]
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=LIMIT_S, check=False)
    assert ended.returncode == 2
    assert b"cannot be started" in ended.stderr
    assert ended.stdout == b""


# The parts


def test_lines_keep_their_ends_and_have_a_limit() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a\n\nbc\r\nlast")
    os.close(writer)
    assert list(read_lines(reader)) == [b"a\n", b"\n", b"bc\r\n", b"last"]
    os.close(reader)
    reader, writer = os.pipe()
    os.write(writer, b"x" * 100)
    os.close(writer)
    with pytest.raises(MessageTooLong):
        list(read_lines(reader, limit=50))
    os.close(reader)


def test_a_sink_whose_reader_has_gone_says_so() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = MessagePipe(writer)
    sink(b"hello\n")
    assert sink.broken
    sink(b"again\n")
    sink.close()
    sink.close()


def test_the_servers_of_one_client_share_a_session() -> None:
    said = "from lockgate.mcp import stdio; print(stdio.client_session())"
    run = [sys.executable, "-c", said]
    environment = {**os.environ, "PYTHONPATH": str(Path(lockgate.__file__).parents[1])}
    both = {subprocess.run(run, capture_output=True, env=environment, check=True).stdout for _ in range(2)}
    assert len(both) == 1
    assert client_session().encode() not in both
