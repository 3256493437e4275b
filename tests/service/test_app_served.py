"""The service as real processes: what a worker acknowledged outlives it, and the end is in good order."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from rule_cache import keep_rules

from lockgate import assemble
from lockgate.claude_code.hook_command import NotProved, ask_service
from lockgate.core.ruling.policy import Policy
from lockgate.gate.gate import shared_scanner
from lockgate.settings.config import Settings

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="workers are found through /proc")

WAIT_S = 120
ROOT = Path(__file__).resolve().parents[2]


class Service:
    """A `lockgate serve` in a home of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        # Compiled once for all tests of this process.
        keep_rules(shared_scanner(Policy()), home / "cache", home / "state")
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }
        command = [sys.executable, "-P", "-m", "lockgate", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(
            command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline() + self.process.stdout.readline()
        found = re.match(r"lockgate serve: http://127\.0\.0\.1:(\d+)", self.said)
        assert found, self.process.communicate(timeout=WAIT_S)
        self.port = int(found[1])
        self.token = (home / "state" / "lockgate" / "token").read_text().strip()

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def ask(self, client: http.client.HTTPConnection, method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        client.request(method, path, None if body is None else json.dumps(body), headers)
        reply = client.getresponse()
        data = reply.read()
        assert reply.status == 200, data
        return json.loads(data)

    def workers(self) -> list[int]:
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said


@pytest.fixture
def home(tmp_path: Path) -> Iterator[list[Service]]:
    started: list[Service] = []
    yield started
    for service in started:
        if service.process.poll() is None:
            service.process.kill()
            service.process.communicate(timeout=WAIT_S)


def test_a_killed_worker_and_the_end_lose_nothing_that_was_acknowledged(home: list[Service], tmp_path: Path) -> None:
    service = Service(tmp_path, "--workers", "2")
    home.append(service)
    assert "2 workers" in service.said
    assert "lgp_" not in service.said
    acknowledged: list[tuple[str, Any]] = []
    enough, ended = threading.Semaphore(0), threading.Event()

    def work(number: int) -> None:
        client = service.client()
        called = 0
        while not ended.is_set():
            called += 1
            body = {"tool": "read_file", "arguments": {"path": f"{number}-{called}.txt"}}
            try:
                found = service.ask(client, "POST", f"/v1/sessions/s{number}/checks", body)
            except (OSError, http.client.HTTPException):
                # The worker behind this connection is gone: what it had not answered counts for nothing.
                client.close()
                client = service.client()
                continue
            acknowledged.append((found["id"], found["receipt"]))
            enough.release()
            # The service has both cores to itself while it replaces its worker.
            time.sleep(0.1)
        client.close()

    def wait_for(count: int) -> None:
        for _ in range(count):
            assert enough.acquire(timeout=WAIT_S)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    wait_for(8)
    before = service.workers()
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)
    wait_for(16)
    ends = time.monotonic() + WAIT_S
    while before[0] in (now := service.workers()) or len(now) < 2:
        assert time.monotonic() < ends, "the killed worker was not replaced"
        time.sleep(0.1)
    # Told to end in the middle of it all.
    service.process.send_signal(signal.SIGTERM)
    _, said = service.process.communicate(timeout=WAIT_S)
    ended.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert service.process.returncode == 0, said
    assert "a worker ended and is replaced" in said
    assert "read_file" not in said
    assert len(acknowledged) >= 24
    host = assemble.host_from_settings(Settings(state_dir=tmp_path / "state" / "lockgate"))
    try:
        journal: Any = host.gate.journal
        log = journal.open_log()
        for id, receipt in acknowledged:
            kept = host.decision(id)
            assert kept is not None
            assert kept.decision.receipt is not None
            assert kept.decision.receipt.leaf_hash.hex() == receipt["leaf_hash"]
        # All that was ever recorded is under a head that the end has signed.
        for _, receipt in acknowledged[-3:]:
            assert log.prove(receipt["index"], origin=receipt["origin"]).index == receipt["index"]
    finally:
        host.close()


def test_one_process_serves_and_ends_its_streams(home: list[Service], tmp_path: Path) -> None:
    service = Service(tmp_path, "--print-url", "--open-metrics")
    home.append(service)
    address = re.search(r"http://127\.0\.0\.1:\d+/#code=(\S+)", service.said)
    assert address is not None
    assert service.token not in service.said
    assert (tmp_path / "state" / "lockgate" / "token").stat().st_mode & 0o077 == 0
    listener = service.client()
    listener.request("GET", "/v1/events", headers={"Authorization": f"Bearer {service.token}"})
    stream = listener.getresponse()
    assert stream.status == 200
    assert stream.readline() == b"retry: 2000\n"
    client = service.client()
    # What was printed opens the page once.
    for status in (200, 403):
        body = json.dumps({"code": address[1]})
        client.request("POST", "/v1/exchange", body, {"Content-Type": "application/json"})
        reply = client.getresponse()
        said = reply.read()
        assert reply.status == status
        assert (json.loads(said) == {"token": service.token}) == (status == 200)
    ruled = service.ask(client, "POST", "/v1/sessions/s1/checks", {"tool": "read_file", "arguments": {}})
    while not (line := stream.readline()).startswith(b"id: "):
        assert line
    assert int(line[4:]) == ruled["seq"]
    for path, status in (("/metrics", 200), ("/v1/decisions", 401), ("/healthz", 200), ("/readyz", 200)):
        client.request("GET", path)
        reply = client.getresponse()
        reply.read()
        assert reply.status == status
    # What the server itself refuses, before the application is asked.
    for sent in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"\0\r\n\r\n",
    ):
        raw = service.client()
        raw.connect()
        raw.sock.sendall(sent)
        assert raw.sock.recv(1 << 16)[9:12] in (b"400", b"403")
        raw.close()
    client.close()
    code, said = service.end()
    assert code == 0
    # On a slow machine it says that it is not ready yet, and nothing else.
    assert [line for line in said.splitlines() if not line.startswith("lockgate serve: getting ready")] == []
    with suppress(OSError, http.client.HTTPException):
        stream.read()
    listener.close()


def test_the_hook_believes_the_service_and_no_program_that_takes_its_port(tmp_path: Path) -> None:
    service = Service(tmp_path)
    url, told = f"http://127.0.0.1:{service.port}", {"XDG_STATE_HOME": str(tmp_path / "state")}
    start = b'{"session_id":"s1","hook_event_name":"SessionStart","source":"startup","cwd":"/"}'
    try:
        assert ask_service(url, start, told, time.monotonic() + WAIT_S) == b"{}"
        assert json.loads(ask_service(url, b"", told, time.monotonic() + WAIT_S, "/healthz")) == {"status": "ok"}
    finally:
        service.end()

    class Squatter(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", service.port), Squatter) as squatter:
        thread = threading.Thread(target=squatter.handle_request)
        thread.start()
        with pytest.raises(NotProved, match="another program listens"):
            ask_service(url, start, told, time.monotonic() + WAIT_S)
        thread.join()
