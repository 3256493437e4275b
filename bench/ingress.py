"""What the abuse gate costs an API: the same application with and without it, under the same load, in one run.

Two servers (uvicorn) stand side by side on loopback, one with bare applications and one with the same behind the gate,
each in a process of its own. This process is the clients: it keeps its connections open and sends the next request when
it has the answer to the last. Every pair has its slices of every round, the two in a new order, and figures are medians
of the rounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import cycle
from math import nan
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import texts
from tables import Check, Row, Table, time_text, times

if TYPE_CHECKING:
    # Brings Lockgate along, of which the bare server has nothing.
    from speed import Effort, Tick

CONNECTIONS = (1, 32)
# What a verifier that never answers is given.
DEADLINE_S = 0.5
PATIENCE_S = 10.0
# Those whose verifier never answers, while others are measured: sent at the same moment, once in every round.
HANGING = 16


# --- the servers, in a process of their own


def _plain() -> Any:
    """The least an application can do: take the body in, answer with something fixed."""
    answer = b'{"choices":[]}'
    start = _start(answer)

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body", False):
            pass
        await send(start)
        await send({"type": "http.response.body", "body": answer})

    return app


def _start(answer: bytes) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _safe() -> Any:
    """A provider that calls everything safe, at once. Its word counts only with the nonce of the question."""

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        [nonce, *_] = re.findall(rb"nonce ([0-9a-f]{32})", body)
        answer = json.dumps(_completion(json.dumps({"verdict": "safe", "nonce": nonce.decode()}))).encode()
        await send(_start(answer))
        await send({"type": "http.response.body", "body": answer})

    return app


def _starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def chat(request: Request) -> JSONResponse:
        return JSONResponse(_reply((await request.json())["messages"]))

    return Starlette(routes=[Route("/starlette", chat, methods=["POST"])])


def _fastapi() -> Any:
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/fastapi")
    async def chat(request: _chat()) -> dict[str, Any]:
        return _reply([message.model_dump() for message in request.messages])

    return app


def _asking() -> Any:
    """What an LLM API does: it checks the request and asks a model, over HTTP. This model answers at once."""
    import httpx2
    from fastapi import FastAPI

    app = FastAPI()
    client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{os.environ['BENCH_MODEL_PORT']}")

    @app.post("/asking")
    async def chat(request: _chat()) -> dict[str, Any]:
        answer = await client.post("/plain", json=request.model_dump())
        return {**_reply([message.model_dump() for message in request.messages]), "usage": answer.json()}

    return app


@cache
def _chat() -> Any:
    from pydantic import create_model

    message = create_model("Message", role=str, content=str)
    return create_model("Chat", model=str, messages=list[message], temperature=(float, 1.0), max_tokens=(int, 256))


def _reply(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return _completion(
        f"Your {len(messages)} messages have {sum(len(each['content']) for each in messages)} characters."
    )


def _completion(said: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": said}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


APPS: Mapping[str, Callable[[], Any]] = {
    "asking": _asking,
    "fastapi": _fastapi,
    "starlette": _starlette,
    "plain": _plain,
}
# It answers so many times fewer requests: of a hundred or two there is no 99th of a hundred worth the name.
SLOWER = 5
SHOWN = {"asking": "FastAPI, asks a model", "fastapi": "FastAPI", "starlette": "Starlette", "plain": "plain ASGI"}


def _gated() -> Mapping[str, Any]:
    from lockgate.abuse_gate.middleware import AbuseGateMiddleware
    from lockgate.assemble import cached_scanner
    from lockgate.core.text.rules import RULES
    from lockgate.gate.gate import Gate
    from lockgate.runtime.sealed_cache import SealedCache
    from lockgate.settings.abuse_gate import AbuseSettings
    from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter
    from lockgate.verifiers.client import Client
    from lockgate.verifiers.providers.compatible import Compatible

    class NoKey:
        instant = True

        def key(self, tenant: str) -> str:  # noqa: ARG002
            return ""

    async def never(_request: object) -> Any:
        await asyncio.Event().wait()

    settings = AbuseSettings()
    # Compiled anew unless a folder with compiled rules is named: nothing here measures that.
    folder = os.environ.get("BENCH_RULES")
    cache = SealedCache(Path(folder), Path(folder)) if folder else None
    scanner, plain = cached_scanner(RULES, cache), cached_scanner((), cache)
    gate = partial(AbuseGateMiddleware, settings=settings, journal=False, gate=Gate(scanner=scanner))
    made = {name: gate(app(), adapter=LocalRuleAdapter(scanner=plain)) for name, app in APPS.items()}

    def asking(port: int) -> Any:
        # Its circuit never opens: then it would be asked no more.
        client = Client(timeout_ms=int(DEADLINE_S * 1000), max_retries=0, failures=1_000_000)
        provider = Compatible("none", f"http://127.0.0.1:{port}/v1")
        return gate(_plain(), adapter=RemoteAdapter(provider, client, NoKey(), key_needed=False, scanner=plain))

    # It takes connections and never says a word.
    silent = socket.create_server(("127.0.0.1", 0), backlog=256)
    made["remote"] = asking(silent.getsockname()[1])
    # In a process of its own, so that its work is not this server's.
    made["answered"] = asking(int(os.environ["BENCH_MODEL_PORT"]))
    patient = replace(settings, verdict_timeout_s=DEADLINE_S)
    made["own"] = gate(_plain(), settings=patient, fetch_verdict=never)
    return {**made, "kept open": silent}


def serve(which: str) -> None:
    """Serve until standard input ends; a line there is answered with the CPU time so far."""
    import logging

    import uvicorn

    logging.disable(logging.CRITICAL)
    if which == "model":
        apps: Mapping[str, Any] = {"plain": _plain(), "v1/chat/completions": _safe()}
    else:
        apps = _gated() if which == "gated" else {name: app() for name, app in APPS.items()}

    async def by_path(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await apps[scope["path"][1:]](scope, receive, send)

    # With its protocol named: asyncio turns off the waiting for fuller packets only where it knows that this is TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(256)
    server = uvicorn.Server(
        uvicorn.Config(by_path, log_level="critical", access_log=False, lifespan="off", timeout_keep_alive=600)
    )

    def tell() -> None:
        print(listening.getsockname()[1], flush=True)
        for _ in sys.stdin:
            print(process_time(), flush=True)
        os._exit(0)

    threading.Thread(target=tell, daemon=True).start()
    server.run([listening])


class Served(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    # Two threads may ask at once.
    asking: threading.Lock

    def cpu_s(self) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self.asking:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())


@contextmanager
def served(which: str, model_port: int = 0) -> Iterator[Served]:
    command = [sys.executable, str(Path(__file__).resolve()), which]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environ["BENCH_MODEL_PORT"] = str(model_port)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline()
            if not port:
                raise RuntimeError(f"the {which} server did not start")
            yield Served(process, int(port), threading.Lock())
        finally:
            process.stdin.close()
            process.wait(30)


# --- the clients


class Slice(NamedTuple):
    """What some seconds of load gave: answers, how long each took, and how many were `unclear`."""

    seconds: float
    waits: list[float]
    unclear: int = 0
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.waits) / self.seconds

    @property
    def p99(self) -> float:
        return quantiles(self.waits, n=100)[98] if len(self.waits) > 1 else self.waits[0]


class Clients:
    """So many connections to one path of one server, kept open. Sockets and nothing else: clients have a share in
    every figure, the same on both sides, and the smaller it is the more a difference shows.
    """

    def __init__(self, to: Served, path: str, bodies: Sequence[bytes], count: int) -> None:
        self.to = to
        self._requests = cycle([_request(path, body) for body in bodies])
        self._sockets = [socket.create_connection(("127.0.0.1", to.port)) for _ in range(count)]
        self._ready = selectors.DefaultSelector()
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ready.register(each, selectors.EVENT_READ)

    def close(self) -> None:
        self._ready.close()
        for each in self._sockets:
            each.close()

    def load(self, seconds: float) -> Slice:
        """Keep every connection busy for so long, and wait for the last answers."""
        sent: dict[Any, float] = {}
        heard: dict[Any, bytes] = {}
        waits: list[float] = []
        unclear = 0
        cpu = self.to.cpu_s()
        began = perf_counter()
        ends = began + seconds
        for each in self._sockets:
            sent[each] = perf_counter()
            each.sendall(next(self._requests))
        while sent:
            ready = self._ready.select(PATIENCE_S)
            if not ready:
                raise RuntimeError("the server does not answer any more")
            for key, _ in ready:
                each: Any = key.fileobj
                data = heard.pop(each, b"") + each.recv(65536)
                if not _is_whole(data):
                    heard[each] = data
                    continue
                now = perf_counter()
                waits.append(now - sent.pop(each))
                unclear += b"x-guardrail-decision: unclear" in data
                if now < ends:
                    sent[each] = perf_counter()
                    each.sendall(next(self._requests))
        return Slice(perf_counter() - began, waits, unclear, self.to.cpu_s() - cpu)


def _request(path: str, body: bytes) -> bytes:
    head = f"POST /{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n"
    return head.encode() + b"user-agent: bench\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _is_whole(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        if not data:
            raise RuntimeError("the server has closed the connection")
        return False
    if b" 200 " not in head[:16]:
        # Whatever is measured then, it is not the application.
        raise RuntimeError(f"a request was answered with {head[:40].decode('latin-1').splitlines()[0]}")
    at = head.lower().index(b"content-length:") + len(b"content-length:")
    return len(body) >= int(head[at : head.find(b"\r", at) if b"\r" in head[at:] else None])


def chat_bodies(count: int, size: int = 2048) -> list[bytes]:
    """Distinct requests of about this size: four messages of ordinary English."""

    def body(text: str) -> bytes:
        half = len(text) // 2
        turns = (
            ("system", "You are a helpful assistant for a small shop. Answer briefly."),
            ("user", text[:half]),
            ("assistant", "Certainly. Which of the two do you mean?"),
            ("user", text[half:]),
        )
        messages = [{"role": role, "content": content} for role, content in turns]
        return json.dumps({"model": "m-1", "messages": messages, "temperature": 0.2, "max_tokens": 256}).encode()

    return [body(text) for text in texts.blocks("English", size - len(body("")) - size // 50, count)]


def _passing(bodies: Sequence[bytes]) -> list[bytes]:
    """Those that the rules let through: a manual may have lines in it that they do not, and a 403 costs less."""
    from lockgate.verifiers.adapters import LocalRuleAdapter

    adapter = LocalRuleAdapter()

    def passes(body: bytes) -> bool:
        text = "\n\n".join(message["content"] for message in json.loads(body)["messages"])
        return adapter.assess({"prompt_text": text}) != "unsafe"

    return [body for body in bodies if passes(body)]


# --- the tables


def tables_of(effort: Effort, tick: Tick) -> list[Table]:
    bodies = _passing(chat_bodies(256))
    with ExitStack() as stack:
        tick("three servers")
        model = stack.enter_context(served("model"))
        bare, gated = (stack.enter_context(served(which, model.port)) for which in ("bare", "gated"))
        return [_cost(bare, gated, bodies, effort, tick), _hanging(gated, bodies, effort, tick)]


def _cost(bare: Served, gated: Served, bodies: Sequence[bytes], effort: Effort, tick: Tick) -> Table:
    pairs = [(app, count) for app in APPS for count in CONNECTIONS]
    chance = random.Random(3)
    rows: list[Row] = []
    unclear = total = 0
    with ExitStack() as stack:
        clients = {(app, count, to): Clients(to, app, bodies, count) for app, count in pairs for to in (bare, gated)}
        for each in clients.values():
            stack.callback(each.close)
            each.load(min(0.05, effort.ingress_slice_s))
        taken: dict[tuple[str, int, Served], list[Slice]] = {key: [] for key in clients}
        for number in range(effort.ingress_rounds):
            tick(f"requests, round {number + 1}")
            chance.shuffle(pairs)
            for app, count in pairs:
                seconds = effort.ingress_slice_s * (SLOWER if app == "asking" else 1)
                for to in chance.sample((bare, gated), 2):
                    taken[app, count, to].append(clients[app, count, to].load(seconds))
    for app in APPS:
        for count in CONNECTIONS:
            without, with_ = taken[app, count, bare], taken[app, count, gated]
            unclear += sum(each.unclear for each in with_)
            total += sum(len(each.waits) for each in with_)
            rate = _of_rounds(lambda one: one.rate, with_, without)
            p50 = _of_rounds(lambda one: median(one.waits), with_, without)
            p99 = _of_rounds(lambda one: one.p99, with_, without)
            cpu = _of_rounds(lambda one: one.cpu_s / len(one.waits), with_, without)
            checks = (Check("gate, requests", 100 * rate.ratio), Check("gate, p99", p99.ratio))
            rows.append(
                Row(
                    {
                        "application": SHOWN[app],
                        "connections": str(count),
                        "requests/s": f"{rate.without:,.0f} → {rate.with_:,.0f}",
                        "of bare": f"{100 * rate.ratio:.0f} %",
                        "p50": f"{time_text(p50.without)} → {time_text(p50.with_)}",
                        "p99": f"{time_text(p99.without)} → {time_text(p99.with_)}",
                        "p99 of bare": times(p99.ratio),
                        "CPU each": f"{time_text(cpu.without)} → {time_text(cpu.with_)}",
                    },
                    checks if app == "asking" else (),
                    {
                        "rate_bare": rate.without,
                        "rate_gated": rate.with_,
                        "rate_ratio": rate.ratio,
                        "p99_bare_s": p99.without,
                        "p99_gated_s": p99.with_,
                        "p99_ratio": p99.ratio,
                        "cpu_bare_s": cpu.without,
                        "cpu_gated_s": cpu.with_,
                    },
                )
            )
    return Table(
        "Gate 1. Chat bodies of 2 KB through uvicorn, without the abuse gate → with it (local rules)",
        ("application", "connections", "requests/s", "of bare", "p50", "p99", "p99 of bare", "CPU each"),
        rows,
        f"by the clock on the wall, CPU of the server alone; {_parser()}; FastAPI and Starlette parse the body and "
        "answer with JSON, plain ASGI answers something fixed, the model is a server of its own that answers at once; "
        f"of {total:,} requests through the gate {unclear:,} were unclear to it, and passed",
        names=2,
    )


class Compared(NamedTuple):
    """Medians of the rounds on both sides, and the median of their ratios, each round by itself."""

    without: float
    with_: float
    ratio: float


def _of_rounds(figure: Callable[[Slice], float], with_: Sequence[Slice], without: Sequence[Slice]) -> Compared:
    after, before = [figure(each) for each in with_], [figure(each) for each in without]
    return Compared(median(before), median(after), median(a / b for a, b in zip(after, before, strict=True)))


def _parser() -> str:
    try:
        import httptools  # noqa: F401
    except ImportError:
        return "HTTP parsed by h11"
    return "HTTP parsed by httptools"


BESIDE = {
    "remote": "a provider that never answers",
    "answered": "a provider that answers at once",
    "own": "a fetch_verdict that never returns",
}


class Round(NamedTuple):
    """Others in the same server: alone, while those beside them wait, and past their deadline, too."""

    alone: Slice
    during: Slice
    whole: Slice
    # Those beside them.
    asking: Slice


def _hanging(gated: Served, bodies: Sequence[bytes], effort: Effort, tick: Tick) -> Table:
    """Requests whose verifier never answers, and others in the same server, with and without those beside them."""
    chance = random.Random(4)
    taken: dict[str, list[Round]] = {path: [] for path in BESIDE}
    with ExitStack() as stack:
        others = Clients(gated, "fastapi", bodies, 8)
        asking = {path: Clients(gated, path, bodies, HANGING) for path in BESIDE}
        for each in (others, *asking.values()):
            stack.callback(each.close)
        for number in range(effort.ingress_hanging_rounds):
            for path in chance.sample(list(BESIDE), len(BESIDE)):
                tick(f"{BESIDE[path]}, round {number + 1}")
                got: list[Slice] = []
                # For no time: every connection sends one request, so those who are answered at once ask no more often.
                waiting = threading.Thread(target=lambda to=asking[path], got=got: got.append(to.load(0)), daemon=True)
                waiting.start()
                during, after = others.load(DEADLINE_S * 0.8), others.load(DEADLINE_S * 0.4)
                waiting.join(PATIENCE_S)
                whole = Slice(during.seconds + after.seconds, during.waits + after.waits)
                taken[path].append(Round(others.load(DEADLINE_S * 0.8), during, whole, got[0]))
    return Table(
        f"Gate 2. {HANGING} requests whose verifier hangs, deadline {time_text(DEADLINE_S)}, and others meanwhile",
        ("verifier", "its requests take", "others/s", "of alone", "others' p99", "p99 of alone", "of answering"),
        _beside(taken),
        "others: 8 connections, FastAPI, local rules, in the same server and on the same loop; before a provider is "
        "asked a text is redacted, which is work, and not waiting: what waiting adds is the last column, measured "
        "past the deadline",
    )


def _beside(taken: Mapping[str, Sequence[Round]]) -> list[Row]:
    rows: list[Row] = []
    for path, rounds in taken.items():
        alone, during = [each.alone for each in rounds], [each.during for each in rounds]
        late = [wait for each in rounds for wait in each.asking.waits]
        rate = _of_rounds(lambda one: one.rate, during, alone)
        p99 = _of_rounds(lambda one: one.p99, during, alone)
        checks = [Check("gate, deadline", max(late) / DEADLINE_S)] if path != "answered" else []
        if path == "own":
            checks.append(Check("gate, others", 100 * rate.ratio))
        added = ""
        if path == "remote":
            more, later = _waiting_adds(rounds, taken["answered"])
            checks += [Check("gate, waiting", more), Check("gate, waiting p99", later)]
            added = f"{times(more)}, p99 {times(later)}"
        rows.append(
            Row(
                {
                    "verifier": BESIDE[path],
                    "its requests take": f"{time_text(median(late))}, at most {time_text(max(late))}",
                    "others/s": f"{rate.without:,.0f} → {rate.with_:,.0f}",
                    "of alone": f"{100 * rate.ratio:.0f} %",
                    "others' p99": f"{time_text(p99.without)} → {time_text(p99.with_)}",
                    "p99 of alone": times(p99.ratio),
                    "of answering": added,
                },
                tuple(checks),
                {"worst_s": max(late), "deadline_s": DEADLINE_S, "rate": rate.ratio, "p99": p99.ratio},
            )
        )
    return rows


def _waiting_adds(silent: Sequence[Round], answered: Sequence[Round]) -> tuple[float, float]:
    """Others' requests per second and p99 beside a silent provider, of those beside one that answers."""
    # One whose answers did not count, or came too late, is a second silent one, and nothing to compare with.
    if 2 * sum(each.asking.unclear for each in answered) >= sum(len(each.asking.waits) for each in answered):
        return nan, nan
    with_, without = [each.whole for each in silent], [each.whole for each in answered]
    rate = _of_rounds(lambda one: one.rate, with_, without)
    return rate.ratio, _of_rounds(lambda one: one.p99, with_, without).ratio


if __name__ == "__main__":
    serve(sys.argv[1])
