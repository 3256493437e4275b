"""The same requests through a FastAPI application, the proxy, Envoy and LiteLLM get the same verdicts."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest
from rule_cache import keep_rules

import lockgate
from lockgate.core.text.scanner import Scanner

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LIMIT_S = 60
# Ordinary requests and attacks, 300 together.
TAKEN = {"ordinary": 180, "attacks": 120}
GATE_TOKEN, MASTER_KEY = (f"sk-{secrets.token_urlsafe(32)}" for _ in range(2))
APP = """
from fastapi import FastAPI
from lockgate import AbuseGateMiddleware

app = FastAPI()
app.add_middleware(AbuseGateMiddleware)  # settings from the environment or TOML


@app.post("/v1/chat/completions")
async def chat(request: dict) -> dict:
    return {"choices": []}
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="neither Envoy nor LiteLLM runs there")


class Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible server with one thing to say."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        choice = {"index": 0, "message": {"role": "assistant", "content": "At nine."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        told = {"id": "1", "created": 1, "model": "my-model", "object": "chat.completion", "choices": [choice]}
        content = json.dumps({**told, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


class Road(NamedTuple):
    """One way to the model: where requests go, and with which header."""

    name: str
    port: int
    authorization: str = ""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def model() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Started(NamedTuple):
    process: subprocess.Popen[bytes]
    log: Path
    answers: Callable[[], bool]

    def wait(self) -> None:
        """Return as soon as it answers."""
        ends = time.monotonic() + LIMIT_S
        while not self.answers():
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")[-2000:]
            assert time.monotonic() < ends, self.log.read_text(encoding="utf-8")[-2000:]
            time.sleep(0.2)


@contextmanager
def started(command: Sequence[object], folder: Path, answers: Callable[[], bool], **environ: str) -> Iterator[Started]:
    log = folder / f"log-{time.monotonic_ns()}"
    with log.open("wb") as output:
        words = [str(word) for word in command]
        process = subprocess.Popen(words, env=environ, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Started(process, log, answers)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_up(port: int, path: str = "/healthz", status: int = 204) -> bool:
    try:
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", path)
            return connection.getresponse().status == status
    except OSError:
        return False


def put_in(text: str, *places: tuple[str, str]) -> str:
    for shown, used in places:
        assert text.count(shown) == 1, shown
        text = text.replace(shown, used)
    return text


@pytest.fixture(scope="module")
def roads(scanner: Scanner, litellm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Road]]:
    """All four roads to the same model, each with a gate of its own and the same settings."""
    folder = tmp_path_factory.mktemp("roads")
    keep_rules(scanner, folder / "cache", folder / "state")
    (folder / "fastapi_app.py").write_text(APP, encoding="utf-8")
    home = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    gate_environ = {
        **home,
        "PYTHONPATH": str(Path(lockgate.__file__).parents[1]),
        # A verdict shows as the answer's code, and no client is locked or slowed.
        "ABUSE_ON_UNCLEAR": "block",
        **dict.fromkeys(("ABUSE_TIER1_THRESHOLD", "ABUSE_TIER2_THRESHOLD", "ABUSE_NETWORK_THRESHOLD"), "100"),
        # On a busy machine a request may take long.
        "VERIFIER_TIMEOUT_MS": "40000",
        "ABUSE_VERDICT_TIMEOUT_MS": "40000",
        "ABUSE_TRUSTED_PROXIES": "127.0.0.1",
        "LOCKGATE_GATE_TOKEN": GATE_TOKEN,
    }
    app, proxy, envoy, behind_litellm, for_envoy, for_litellm = (free_port() for _ in range(6))
    gate = [sys.executable, "-P", "-m", "lockgate", "gate", "--port"]
    with ExitStack() as stack:
        at = stack.enter_context(model())
        uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", folder, "fastapi_app:app", "--port", app]
        start = partial(started, folder=folder)
        running = [
            stack.enter_context(start(uvicorn, answers=partial(is_up, app, "/openapi.json", 200), **gate_environ))
        ]
        for port, options in (
            (proxy, ["--upstream", f"http://127.0.0.1:{at}"]),
            (for_envoy, ["--envoy"]),
            (for_litellm, ["--litellm"]),
        ):
            command = [*gate, port, *options]
            running.append(stack.enter_context(start(command, answers=partial(is_up, port), **gate_environ)))
        config = folder / "envoy.yaml"
        ports = {10000: envoy, 8080: for_envoy, 8000: at}
        config.write_text(
            put_in(
                (ROOT / "examples" / "envoy.yaml").read_text(encoding="utf-8"),
                *((f"port_value: {shown} ", f"port_value: {used} ") for shown, used in ports.items()),
                ("timeout: 7s", "timeout: 45s"),
            ),
            encoding="utf-8",
        )
        options = ["--config-path", config, "--use-dynamic-base-id", "--concurrency", 1, "--log-level", "error"]
        # Envoy asks the gate about every path, so this is answered by the model, which knows no GET.
        reached = partial(is_up, envoy, "/", 501)
        running.append(stack.enter_context(start([BIN / "envoy", *options], answers=reached, **home)))
        config = folder / "litellm.yaml"
        config.write_text(
            put_in(
                (ROOT / "examples" / "litellm.yaml").read_text(encoding="utf-8"),
                ("http://127.0.0.1:8080\n      api_key", f"http://127.0.0.1:{for_litellm}\n      api_key"),
                ("http://127.0.0.1:8000/v1", f"http://127.0.0.1:{at}/v1"),
                ("timeout: 7\n", "timeout: 45\n"),
            ),
            encoding="utf-8",
        )
        settings = {
            "LOCKGATE_GATE_TOKEN": GATE_TOKEN,
            "LITELLM_MASTER_KEY": MASTER_KEY,
            "UPSTREAM_API_KEY": "none",
            # Neither prices from elsewhere nor telemetry.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_PROXY": "*",
        }
        options = ["--config", config, "--host", "127.0.0.1", "--port", behind_litellm, "--telemetry", "False"]
        lively = partial(is_up, behind_litellm, "/health/liveliness", 200)
        running.append(stack.enter_context(start([litellm, *options], answers=lively, **home, **settings)))
        for each in running:
            each.wait()
        yield [
            Road("FastAPI", app),
            Road("proxy", proxy),
            Road("Envoy", envoy),
            Road("LiteLLM", behind_litellm, f"Bearer {MASTER_KEY}"),
        ]


def texts() -> list[str]:
    """Requests from all over each file of the corpus, so that every kind comes up."""
    found: list[str] = []
    for name, count in TAKEN.items():
        lines = (ROOT / "bench" / "requests" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        listed = [json.loads(line)["text"] for line in lines]
        found += [listed[number * len(listed) // count] for number in range(count)]
    return found


def ask(road: Road, text: str) -> tuple[str, float]:
    """The verdict on a request, by the answer to its client, and how long it took."""
    body = json.dumps({"model": "my-model", "messages": [{"role": "user", "content": text}]})
    headers = {"content-type": "application/json"}
    if road.authorization:
        headers["authorization"] = road.authorization
    began = time.perf_counter()
    with closing(HTTPConnection("127.0.0.1", road.port, timeout=LIMIT_S)) as connection:
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        told = answer.read()
    took = time.perf_counter() - began
    if answer.status == 200:
        return "safe", took
    error = json.loads(told)["error"]
    # LiteLLM has an error of its own, with our code in its message.
    named = re.search(r"\((unsafe|unclear), incident ", error["message"]) if road.name == "LiteLLM" else None
    return (named[1] if named else error["code"]), took


def test_three_hundred_requests_get_the_same_verdict_on_all_roads(roads: list[Road]) -> None:
    asked = texts()
    assert len(set(asked)) == 300
    verdicts: dict[str, list[str]] = {}
    with ThreadPoolExecutor(6) as pool:
        for road in roads:
            first = ask(road, asked[0])
            answers = [first, *pool.map(partial(ask, road), asked[1:])]
            verdicts[road.name] = [verdict for verdict, _ in answers]
            if road.name in ("FastAPI", "proxy"):
                # What takes long was done before it was ready; the clock on the wall of a busy machine is patient.
                assert first[1] < 1 + 10 * median(took for _, took in answers[1:])
    different = {text: said for text, *said in zip(asked, *verdicts.values(), strict=True) if len(set(said)) > 1}
    assert not different, tuple(verdicts)
    counted = Counter(verdicts["FastAPI"])
    assert set(counted) == {"safe", "unclear", "unsafe"}
    assert counted["safe"] >= TAKEN["ordinary"] * 0.9
