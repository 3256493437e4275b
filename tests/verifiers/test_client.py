from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating
from lockgate.runtime import http_post as post_module
from lockgate.runtime.http_post import MAX_REPLY, HttpReply, HttpRequest
from lockgate.testing import LoopbackProvider
from lockgate.testing.loopback import _CERTIFICATE
from lockgate.verifiers import client as client_module
from lockgate.verifiers.client import MAX_HOLD_S, Client, Outcome

# What is promised: an answer this long after the deadline, at the latest.
LATE_MS = 100
QUESTION = Question("system", "user", "text")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsafe"


class Words:
    """A provider whose replies are plain text."""

    name = "compatible"
    model = "m"

    def __init__(self, url: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.url = url
        self.headers = headers

    def request(self, question: Question, key: str) -> HttpRequest:
        return HttpRequest(self.url, (("authorization", f"Bearer {key}"), *self.headers), b'{"input":1}')

    def answer(self, question: Question, reply: HttpReply) -> Answer:
        if reply.status == 401:
            return NoAnswer(NoAnswerReason.UNAUTHORIZED)
        if reply.status == 429:
            after = reply.headers.get("retry-after")
            return NoAnswer(NoAnswerReason.RATE_LIMITED, None if after is None else float(after))
        if reply.status >= 500:
            return NoAnswer(NoAnswerReason.SERVER_ERROR)
        if reply.status >= 400:
            return NoAnswer(NoAnswerReason.CLIENT_ERROR)
        return ModelText(reply.body.decode()) if reply.body else NoAnswer(NoAnswerReason.MALFORMED_REPLY)


class Server:
    """A real server on a loopback port that does with each request what `handle` says; False hangs up."""

    def __init__(self, handle: Callable[[Server, socket.socket, bytes], object] | None = None) -> None:
        self.handle = handle or (lambda server, connection, request: connection.sendall(OK))
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = 0
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/ask"
        self._spawn(self._listen)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(0.05)
            waiting = b""
            while not self.over.is_set():
                try:
                    received = connection.recv(65536)
                except TimeoutError:
                    continue
                if not received:
                    break
                waiting += received
                head, found, body = waiting.partition(b"\r\n\r\n")
                if found and len(body) >= 11:
                    waiting = b""
                    self.requests.append(head + found + body)
                    connection.settimeout(5)
                    if self.handle(self, connection, head) is False:
                        break
                    connection.settimeout(0.05)
        self.closed += 1

    def wait_until_closed(self) -> None:
        assert soon(lambda: self.closed == self.connections)


def hang(server: Server, connection: socket.socket, request: bytes) -> None:
    while not server.over.is_set():
        ready = connection.recv(1, socket.MSG_DONTWAIT) if _readable(connection) else None
        if ready == b"":
            return


def _readable(connection: socket.socket) -> bool:
    import select

    return bool(select.select([connection], [], [], 0.02)[0])


def drip(first: bytes, drop: bytes) -> Callable[[Server, socket.socket, bytes], object]:
    def dripping(server: Server, connection: socket.socket, request: bytes) -> object:
        connection.sendall(first)
        while not server.over.wait(0.02):
            connection.sendall(drop)
        return False

    return dripping


def reply(status: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def says(*replies: bytes) -> Callable[[Server, socket.socket, bytes], object]:
    """The replies in turn, the last one for ever."""

    def saying(server: Server, connection: socket.socket, request: bytes) -> object:
        connection.sendall(replies[min(len(server.requests), len(replies)) - 1])
        return None

    return saying


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    """The same question in both ways."""

    def asked(client: Client, provider: object, key: str = "key", **options: Any) -> Outcome:
        if request.param == "sync":
            return client.ask(cast(Words, provider), QUESTION, key, **options)
        return asyncio.run(client.ask_async(cast(Words, provider), QUESTION, key, **options))

    return asked


@pytest.fixture
def client() -> Iterator[Client]:
    """One with time to spare: what hangs on an answer must not hang on how busy the machine is."""
    made = Client(timeout_ms=10_000)
    yield made
    made.close()


@pytest.fixture
def hasty() -> Iterator[Client]:
    """One for those who wait for its deadline, as often as they like."""
    made = Client(timeout_ms=400, failures=1_000)
    yield made
    made.close()


def soon(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not true() and time.monotonic() < until:
        time.sleep(0.005)
    return true()


def later(client: Client, seconds: float) -> None:
    """As if so much time had gone by for every open circuit."""
    kept = client._dispatcher.circuits._kept
    for name, circuit in kept.items():
        if circuit.open_until is not None:
            kept[name] = replace(circuit, open_until=circuit.open_until - seconds)


def threads() -> list[str]:
    # A journal's threads, left by other tests of the same process, are not the client's.
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith(("lockgate-verifier", "lockgate-lookup"))
    ]


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def why(outcome: Outcome) -> NoAnswerReason | None:
    return outcome.answer.why if isinstance(outcome.answer, NoAnswer) else None


TRIES = 10


def in_time(
    asked: Callable[[], Outcome], limit_ms: float, reason: NoAnswerReason, attempts: int | None = None
) -> Outcome:
    """An outcome that came in time. Lateness can be the machine's, so it has to show every time.

    So can the number of attempts: a machine that stops for a moment stops in the middle of connecting, too.
    """
    for _ in range(TRIES):
        outcome = asked()
        assert why(outcome) is reason
        if outcome.latency_ms < limit_ms and attempts in (None, outcome.attempts):
            break
    assert outcome.latency_ms < limit_ms
    assert attempts in (None, outcome.attempts)
    return outcome


def run(script: str, *arguments: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT + script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
        timeout=timeout_s,
        check=False,
    )


SCRIPT = """
import asyncio, os, sys, threading, time
from lockgate.core.questions import NoAnswer, Question, ModelText
from lockgate.runtime.http_post import HttpRequest
from lockgate.verifiers.client import Client
class Words:
    name, model = "compatible", "m"
    def __init__(self, url): self.url = url
    def request(self, question, key): return HttpRequest(self.url, (), b'{"input":1}')
    def answer(self, question, reply): return ModelText(reply.body.decode())
def ask(client, url): return client.ask(Words(url), Question("", "", ""), "key").answer
def later(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
"""


# --- a question and its answer


def test_a_question_is_answered(client: Client, ask: Callable[..., Outcome]) -> None:
    with Server() as server:
        outcome = ask(client, Words(server.url))
    assert outcome.answer == ModelText("safe")
    assert outcome.attempts == 1
    assert 0 < outcome.latency_ms < 10_000


def test_every_kind_of_answer_comes_back_as_it_is(client: Client, ask: Callable[..., Outcome]) -> None:
    class Fixed(Words):
        def answer(self, question: Question, reply: HttpReply) -> Answer:
            return kinds[0]

    with Server() as server:
        for kind in (
            ModelText("x", 1, 2),
            Rating(False, (("a", 0.5),)),
            ProviderBlock("jailbreak"),
            NoAnswer(NoAnswerReason.REFUSED),
        ):
            kinds = [kind]
            assert ask(client, Fixed(server.url)).answer == kind


def test_what_is_sent(client: Client) -> None:
    headers = (("Accept-Encoding", "gzip"), ("Content-Length", "99"), ("x-own", "1"), ("Host", "elsewhere"))
    with Server() as server:
        client.ask(Words(server.url, headers), QUESTION, "secret-key")
    head, body = server.requests[0].split(b"\r\n\r\n")
    first, *lines = head.decode().splitlines()
    sent = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(sent) == len(lines)
    assert first == "POST /v1/ask HTTP/1.1"
    assert body == b'{"input":1}'
    assert 0 < int(sent.pop("x-lockgate-deadline-ms")) <= 10_000
    assert sent == {
        "host": f"127.0.0.1:{server.port}",
        "authorization": "Bearer secret-key",
        "accept-encoding": "identity",
        "content-length": "11",
        "user-agent": "lockgate",
        "x-own": "1",
    }


def test_a_connection_is_used_again_and_requests_do_not_wait_for_fuller_packets(client: Client) -> None:
    with Server() as server:
        for _ in range(TRIES):
            took = sorted(client.ask(Words(server.url), QUESTION, "key").latency_ms for _ in range(21))
            if took[10] < 35:
                break
        assert server.connections == 1
    assert took[10] < 35, "40 ms and more would be Nagle's algorithm waiting for an acknowledgement"


def test_nothing_is_remembered_from_a_reply(client: Client) -> None:
    with Server(says(reply(200, "set-cookie: tenant=a", body=b"safe"))) as server:
        client.ask(Words(server.url), QUESTION, "key", tenant="a")
        client.ask(Words(server.url), QUESTION, "key", tenant="b")
    assert len(server.requests) == 2
    assert b"cookie" not in server.requests[1].lower()


def test_a_surplus_reply_is_not_the_next_question_s_answer(client: Client, ask: Callable[..., Outcome]) -> None:
    def twice(server: Server, connection: socket.socket, request: bytes) -> object:
        connection.sendall(reply(200, body=b"unsafe") + OK)
        return None

    with Server(twice) as server:
        assert why(ask(client, Words(server.url))) is NoAnswerReason.MALFORMED_REPLY
        server.handle = says(reply(200, body=b"unsafe"))
        assert ask(client, Words(server.url)).answer == ModelText("unsafe")


def test_surplus_bytes_close_the_connection_even_when_the_library_hides_them(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_module, "read_surplus", lambda response: None)
    with Server() as server:
        for _ in range(3):
            assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
        assert server.connections == 3


def test_no_proxy_is_taken_from_the_environment(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as server, Server() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        fresh = Client(timeout_ms=10_000)
        assert fresh.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
        fresh.close()
        assert proxy.connections == 0


# --- the deadline is the total


TLS_HANG = "tls"
SLOW: dict[str, Callable[[Server, socket.socket, bytes], object]] = {
    "hang": hang,
    "status drip": drip(b"HTTP/1.1 200", b"K"),
    "header drip": drip(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "body drip": drip(b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n", b"x"),
    "chunk drip": drip(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "1xx drip": drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 50),
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_a_slow_server_costs_the_deadline_and_no_more(
    hasty: Client, ask: Callable[..., Outcome], slow: Callable[[Server, socket.socket, bytes], object]
) -> None:
    with Server(slow) as server:
        # One attempt: it has been asked, and has had all the time there was.
        outcome = in_time(lambda: ask(hasty, Words(server.url)), 400 + LATE_MS, NoAnswerReason.DEADLINE, attempts=1)
        assert outcome.latency_ms > 350


@pytest.mark.parametrize("share", [0.3, 0.75])
def test_a_server_that_takes_most_of_the_time_every_time_is_heard_every_time(
    ask: Callable[..., Outcome], share: float
) -> None:
    client = Client(timeout_ms=2_400)

    def steady(server: Server, connection: socket.socket, request: bytes) -> object:
        time.sleep(2.4 * share)
        connection.sendall(OK)
        return None

    with Server(steady) as server, ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: ask(client, Words(server.url)), range(8)))
        assert [(outcome.answer, outcome.attempts) for outcome in outcomes] == [(ModelText("safe"), 1)] * 8
        assert len(server.requests) == 8
    client.close()


def test_a_refused_connection_is_tried_again(hasty: Client, ask: Callable[..., Outcome]) -> None:
    """A connection is not a question: the first one has a share of the time only."""
    with LoopbackProvider(fault="never-accepted") as provider:
        in_time(lambda: ask(hasty, Words(provider.url)), 400 + LATE_MS, NoAnswerReason.DEADLINE, attempts=2)


# --- less time than usual


def test_with_less_time_the_answer_comes_in_less_time(hasty: Client, ask: Callable[..., Outcome]) -> None:
    with Server(hang) as server:
        words = Words(server.url)
        in_time(lambda: ask(hasty, words, timeout_s=0.1), 100 + LATE_MS, NoAnswerReason.DEADLINE, attempts=1)
        # It cannot be made more.
        in_time(lambda: ask(hasty, words, timeout_s=10.0), 400 + LATE_MS, NoAnswerReason.DEADLINE)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("-inf")])
def test_without_any_time_no_provider_is_asked(client: Client, ask: Callable[..., Outcome], timeout_s: float) -> None:
    with Server() as server:
        for _ in range(6):
            outcome = ask(client, Words(server.url), timeout_s=timeout_s)
            assert (why(outcome), outcome.attempts) == (NoAnswerReason.DEADLINE, 0)
        assert ask(client, Words(server.url)).answer == ModelText("safe")
        assert len(server.requests) == 1


def test_a_timeout_counts_against_a_provider_that_had_a_fair_time(ask: Callable[..., Outcome]) -> None:
    client = Client(timeout_ms=200)
    with Server(hang) as server:
        for _ in range(7):
            assert why(ask(client, Words(server.url), timeout_s=0.08)) is NoAnswerReason.DEADLINE
        reasons = [why(ask(client, Words(server.url), timeout_s=0.12)) for _ in range(10)]
        # On a slow machine a caller leaves before its timeout is counted, and one more is let in.
        assert NoAnswerReason.CIRCUIT_OPEN in reasons
        assert reasons[:5] == [NoAnswerReason.DEADLINE] * 5
    client.close()


@needs_proc
def test_a_handshake_that_never_comes_costs_the_deadline_and_leaves_no_file(
    hasty: Client, ask: Callable[..., Outcome]
) -> None:
    # The client does not read: the greeting is not a request, so the server just waits.
    with Server() as server:
        provider = Words(server.url.replace("http:", "https:"))
        ask(hasty, provider)
        gc.collect()
        server.wait_until_closed()
        before, first = files(), server.connections
        gc.disable()  # closed because it was let go of, not because it was found later
        try:
            for _ in range(2):
                in_time(lambda: ask(hasty, provider), 400 + LATE_MS, NoAnswerReason.DEADLINE, attempts=2)
            assert soon(lambda: server.connections >= first + 4)
            server.wait_until_closed()
            assert soon(lambda: files() <= before)
        finally:
            gc.enable()


def test_a_resolver_that_hangs_costs_the_deadline(
    hasty: Client, ask: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    real = socket.getaddrinfo
    asked = Counter[str]()

    def stuck(host: Any, *args: Any, **options: Any) -> Any:
        if "invalid" not in str(host):
            return real(host, *args, **options)
        asked["name.invalid"] += 1
        done.wait(60)
        raise socket.gaierror("never heard of it")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    try:
        in_time(lambda: ask(hasty, Words("http://name.invalid/")), 400 + LATE_MS, NoAnswerReason.DEADLINE)
        # However many ask, and however long it takes, one thread waits for a name.
        for _ in range(2):
            ask(hasty, Words("http://name.invalid/"))
        assert asked["name.invalid"] == 1
        assert threads().count("lockgate-lookup") == 1
    finally:
        done.set()
    assert soon(lambda: "lockgate-lookup" not in threads())


def test_a_resolver_that_answers_late_serves_all_waiting_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    asked = Counter[str]()

    def slow(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if "invalid" in str(host):
            asked["name.invalid"] += 1
            time.sleep(0.2)
            host = "127.0.0.1"
        return real(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    client = Client(timeout_ms=10_000)
    with Server() as server, ThreadPoolExecutor(8) as pool:
        url = server.url.replace("127.0.0.1", "name.invalid")
        outcomes = list(pool.map(lambda _: client.ask(Words(url), QUESTION, "key"), range(8)))
    client.close()
    assert [outcome.answer for outcome in outcomes] == [ModelText("safe")] * 8
    assert asked["name.invalid"] < 8


def test_an_unknown_name_is_a_network_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **options: Any) -> Any:
        raise socket.gaierror("never heard of it")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    outcome = client.ask(Words("http://name.invalid/"), QUESTION, "key")
    assert (why(outcome), outcome.attempts) == (NoAnswerReason.NETWORK, 2)


def test_a_provider_that_takes_for_ever_does_not_hold_its_caller(client: Client, ask: Callable[..., Outcome]) -> None:
    done = threading.Event()

    class Slow(Words):
        def answer(self, question: Question, reply: HttpReply) -> Answer:
            done.wait(60)
            return ModelText("late")

    with Server() as server:
        try:
            in_time(lambda: ask(client, Slow(server.url), timeout_s=0.4), 400 + LATE_MS, NoAnswerReason.DEADLINE)
        finally:
            done.set()
        assert ask(client, Words(server.url)).answer == ModelText("safe")


# --- retries


def test_a_5xx_is_tried_again(client: Client, ask: Callable[..., Outcome]) -> None:
    with Server(says(reply(503), OK)) as server:
        outcome = ask(client, Words(server.url))
    assert (outcome.answer, outcome.attempts) == (ModelText("safe"), 2)


def test_a_lost_connection_is_tried_again(client: Client, ask: Callable[..., Outcome]) -> None:
    def lost(server: Server, connection: socket.socket, request: bytes) -> object:
        if len(server.requests) == 1:
            return False
        connection.sendall(OK)
        return None

    with Server(lost) as server:
        outcome = ask(client, Words(server.url))
    assert (outcome.answer, outcome.attempts) == (ModelText("safe"), 2)


def test_half_a_reply_is_tried_again(client: Client) -> None:
    def half(server: Server, connection: socket.socket, request: bytes) -> object:
        connection.sendall(OK[:-2])
        return False

    with Server(half) as server:
        outcome = client.ask(Words(server.url), QUESTION, "key")
    assert (why(outcome), outcome.attempts) == (NoAnswerReason.NETWORK, 2)


def test_a_refused_connection_is_a_network_error(client: Client) -> None:
    with Server() as server:
        pass
    outcome = client.ask(Words(server.url), QUESTION, "key")
    assert (why(outcome), outcome.attempts) == (NoAnswerReason.NETWORK, 2)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (reply(429), NoAnswerReason.RATE_LIMITED),
        (reply(429, "retry-after: 0"), NoAnswerReason.RATE_LIMITED),
        (reply(401), NoAnswerReason.UNAUTHORIZED),
        (reply(400), NoAnswerReason.CLIENT_ERROR),
        (reply(200), NoAnswerReason.MALFORMED_REPLY),
        (b"nonsense\r\n\r\n", NoAnswerReason.MALFORMED_REPLY),
        (OK.replace(b"HTTP/1.1", b"HTTP/9.9"), NoAnswerReason.MALFORMED_REPLY),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nsafe", NoAnswerReason.MALFORMED_REPLY),
        (reply(302, "location: /"), NoAnswerReason.REDIRECT),
    ],
)
def test_nothing_else_is_tried_again(client: Client, raw: bytes, reason: NoAnswerReason) -> None:
    with Server(says(raw)) as server:
        outcome = client.ask(Words(server.url), QUESTION, "key")
        assert (why(outcome), outcome.attempts) == (reason, 1)


NO_SCHEMAS = reply(400, body=b"`response_format` is not supported")


class PickyWords(Words):
    """The same with a body that says whether a schema was asked for; both bodies are of one length."""

    def request(self, question: Question, key: str) -> HttpRequest:
        return super().request(question, key)._replace(body=b'{"input":1}' if question.schema else b'{"plain":1}')


def test_a_server_that_refuses_a_schema_is_asked_without_and_remembered(client: Client) -> None:
    def picky(server: Server, connection: socket.socket, request: bytes) -> object:
        return connection.sendall(OK if server.requests[-1].endswith(b'{"plain":1}') else NO_SCHEMAS)

    asked = QUESTION._replace(schema={"type": "object"})
    with Server(picky) as server:
        first, second = (client.ask(PickyWords(server.url), asked, "key") for _ in range(2))
        other = client.ask(PickyWords(server.url), asked, "another-key")
    assert [(each.answer, each.attempts) for each in (first, second, other)] == [
        (ModelText("safe"), 2),
        (ModelText("safe"), 1),
        (ModelText("safe"), 2),
    ]


def test_a_server_that_refuses_both_is_asked_twice_and_not_remembered(client: Client) -> None:
    asked = QUESTION._replace(schema={"type": "object"})
    with Server(says(NO_SCHEMAS)) as server:
        for _ in range(2):
            outcome = client.ask(PickyWords(server.url), asked, "key")
            assert (why(outcome), outcome.attempts) == (NoAnswerReason.CLIENT_ERROR, 2)


def test_a_server_that_refuses_a_schema_and_hangs_up_has_answered() -> None:
    def rude(server: Server, connection: socket.socket, request: bytes) -> object:
        if server.requests[-1].endswith(b'{"plain":1}'):
            return connection.close()
        return connection.sendall(NO_SCHEMAS)

    asked = QUESTION._replace(schema={"type": "object"})
    with Server(rude) as server:
        client = Client(timeout_ms=10_000, max_retries=0)
        outcome = client.ask(PickyWords(server.url), asked, "key")
        client.close()
    assert (why(outcome), outcome.attempts) == (NoAnswerReason.CLIENT_ERROR, 2)


def test_a_wrong_certificate_or_none_is_not_tried_again(client: Client) -> None:
    def plain(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: plain(listener.accept()[0]))
        thread.start()
        outcome = client.ask(Words(f"https://127.0.0.1:{listener.getsockname()[1]}/"), QUESTION, "key")
        thread.join()
    assert (why(outcome), outcome.attempts) == (NoAnswerReason.TLS, 1)


def test_as_many_retries_as_asked_for() -> None:
    for retries in (0, 3):
        client = Client(timeout_ms=10_000, max_retries=retries)
        with Server(says(reply(500))) as server:
            outcome = client.ask(Words(server.url), QUESTION, "key")
            assert (outcome.attempts, len(server.requests)) == (retries + 1, retries + 1)
        client.close()


def test_without_retries_one_try_has_all_the_time() -> None:
    client = Client(timeout_ms=2_000, max_retries=0)

    def slow(server: Server, connection: socket.socket, request: bytes) -> object:
        time.sleep(1.4)
        connection.sendall(OK)
        return None

    with Server(slow) as server:
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
    client.close()


@pytest.mark.parametrize(("after_s", "tries"), [(0.2, 2), (1.35, 1)])
def test_there_is_no_retry_without_time_for_it(after_s: float, tries: int) -> None:
    def late(server: Server, connection: socket.socket, request: bytes) -> object:
        time.sleep(after_s if len(server.requests) == 1 else 0.0)
        connection.sendall(reply(500))
        return None

    # A retry needs a quarter of a second: of 1.5 s, 0.15 s are left after the later reply, whatever the jitter.
    # On a slow machine that reply is too late, which is no retry either.
    client = Client(timeout_ms=1_500, max_retries=1)
    with Server(late) as server:
        outcome = client.ask(Words(server.url), QUESTION, "key")
        assert (outcome.attempts, len(server.requests)) == (tries, tries)
        assert why(outcome) in (
            (NoAnswerReason.SERVER_ERROR,) if tries == 2 else (NoAnswerReason.SERVER_ERROR, NoAnswerReason.DEADLINE)
        )
    client.close()


def test_retries_add_a_tenth_to_the_load_and_a_few_spare_ones() -> None:
    client = Client(timeout_ms=10_000, failures=1_000)
    with Server(says(reply(500))) as server:
        for _ in range(60):
            client.ask(Words(server.url), QUESTION, "key")
        assert 60 + 10 <= len(server.requests) <= 60 + 17
    client.close()


# --- the circuit


def opened(client: Client, server: Server, key: str = "key") -> None:
    for _ in range(5):
        assert why(client.ask(Words(server.url), QUESTION, key)) is NoAnswerReason.SERVER_ERROR


def test_five_failures_open_the_circuit_and_no_caller_waits(client: Client, ask: Callable[..., Outcome]) -> None:
    with Server(says(reply(500))) as server:
        opened(client, server)
        sent = len(server.requests)
        outcomes = [ask(client, Words(server.url)) for _ in range(10)]
        assert len(server.requests) == sent
    assert {(why(outcome), outcome.attempts) for outcome in outcomes} == {(NoAnswerReason.CIRCUIT_OPEN, 0)}
    assert sorted(outcome.latency_ms for outcome in outcomes)[5] < 50


def test_keys_models_endpoints_and_providers_have_circuits_of_their_own(client: Client) -> None:
    with Server(says(reply(500))) as server, Server() as other:
        opened(client, server, "a")
        assert why(client.ask(Words(server.url), QUESTION, "a")) is NoAnswerReason.CIRCUIT_OPEN
        server.handle = says(OK)
        assert client.ask(Words(server.url), QUESTION, "b").answer == ModelText("safe")
        assert client.ask(Words(other.url), QUESTION, "a").answer == ModelText("safe")
        for name, value in (("model", "n"), ("name", "openai")):
            provider = Words(server.url)
            setattr(provider, name, value)
            assert client.ask(provider, QUESTION, "a").answer == ModelText("safe")


def test_tenants_who_share_a_key_share_its_circuit(client: Client, ask: Callable[..., Outcome]) -> None:
    """Else a new tenant name would be a way round what a provider asked for."""
    with Server(says(reply(429, "retry-after: 30"))) as server:
        reasons = Counter(why(ask(client, Words(server.url), tenant=f"tenant {number}")) for number in range(20))
        assert reasons == {NoAnswerReason.RATE_LIMITED: 1, NoAnswerReason.CIRCUIT_OPEN: 19}
        assert len(server.requests) == 1


def test_nothing_of_a_key_is_kept_with_its_circuit(client: Client) -> None:
    with Server(says(reply(500))) as server:
        opened(client, server, "sk-canary-5d41402abc4b2a76")
        kept = [*client._dispatcher.circuits._kept]
    assert len(kept) == 1
    assert "canary" not in repr(kept)
    parts = ("compatible", "m", server.url, "sk-canary-5d41402abc4b2a76")
    code = f"from lockgate.verifiers.client import _hashed_id; print(_hashed_id(*{parts!r}).hex())"
    assert run(code).stdout.strip() not in ("", kept[0].hex()), "it is another one in every process"


def test_parts_of_a_circuit_s_name_cannot_be_shifted() -> None:
    key = client_module._hashed_id
    assert key("ab", "c") != key("a", "bc") != key("a", "b", "c")
    assert len(key("x" * 1_000_000, "\udc80")) == 16


def test_an_open_circuit_closes_with_the_first_probe_that_succeeds() -> None:
    client = Client(timeout_ms=10_000, circuit_open_s=60)
    with Server(says(reply(500))) as server:
        opened(client, server)
        later(client, 61)
        sent = len(server.requests)
        outcome = client.ask(Words(server.url), QUESTION, "key")
        assert (why(outcome), outcome.attempts) == (NoAnswerReason.SERVER_ERROR, 1), "a probe is one try"
        assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.CIRCUIT_OPEN
        assert len(server.requests) == sent + 1
        later(client, 61)
        server.handle = says(OK)
        for _ in range(3):
            assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
    client.close()


def test_of_many_callers_one_probes() -> None:
    client = Client(timeout_ms=1_500, circuit_open_s=60)
    with Server(says(reply(500))) as server:
        opened(client, server)
        later(client, 61)
        sent = len(server.requests)
        server.handle = hang
        with ThreadPoolExecutor(20) as pool:
            reasons = Counter(pool.map(lambda _: why(client.ask(Words(server.url), QUESTION, "key")), range(20)))
        assert len(server.requests) == sent + 1
    assert reasons == {NoAnswerReason.DEADLINE: 1, NoAnswerReason.CIRCUIT_OPEN: 19}
    client.close()


def test_a_cancelled_probe_leaves_the_probe_to_the_next() -> None:
    client = Client(timeout_ms=10_000, circuit_open_s=60)

    async def cancelled(url: str) -> None:
        asking = asyncio.create_task(client.ask_async(Words(url), QUESTION, "key"))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    with Server(says(reply(500))) as server:
        opened(client, server)
        later(client, 61)
        server.handle = hang
        asyncio.run(cancelled(server.url))
        server.handle = says(OK)
        until = time.monotonic() + 10
        while why(outcome := client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.CIRCUIT_OPEN:
            assert time.monotonic() < until
        assert outcome.answer == ModelText("safe")
    client.close()


@pytest.mark.parametrize("raw", [reply(400), reply(401), reply(404)])
def test_a_provider_that_says_no_is_up(client: Client, raw: bytes) -> None:
    with Server(says(raw)) as server:
        for _ in range(12):
            assert why(client.ask(Words(server.url), QUESTION, "key")) in (
                NoAnswerReason.CLIENT_ERROR,
                NoAnswerReason.UNAUTHORIZED,
            )


@pytest.mark.parametrize(
    "raw", [reply(200), reply(302), reply(429), b"nonsense\r\n\r\n", reply(200, body=b"x" * 70_000)]
)
def test_a_provider_that_says_nothing_of_use_is_down(client: Client, raw: bytes) -> None:
    with Server(says(raw)) as server:
        reasons = [why(client.ask(Words(server.url), QUESTION, "key")) for _ in range(6)]
    assert reasons.index(NoAnswerReason.CIRCUIT_OPEN) == 5


def test_a_rate_limit_opens_the_circuit_for_the_time_it_names(client: Client, ask: Callable[..., Outcome]) -> None:
    with Server(says(reply(429, "retry-after: 30"))) as server:
        assert why(ask(client, Words(server.url), "a")) is NoAnswerReason.RATE_LIMITED
        assert why(ask(client, Words(server.url), "a")) is NoAnswerReason.CIRCUIT_OPEN
        assert why(ask(client, Words(server.url), "b")) is NoAnswerReason.RATE_LIMITED
        server.handle = says(OK)
        later(client, 25)
        assert why(ask(client, Words(server.url), "a")) is NoAnswerReason.CIRCUIT_OPEN
        later(client, 6)
        assert ask(client, Words(server.url), "a").answer == ModelText("safe")


@pytest.mark.parametrize("after", ["1e300", "inf", "nan", "-5", "31536000"])
def test_no_server_can_send_us_away_for_good(client: Client, after: str) -> None:
    with Server(says(reply(429, f"retry-after: {after}"))) as server:
        assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.RATE_LIMITED
        circuit = client._dispatcher.circuits.get(client_module._hashed_id("compatible", "m", server.url, "key"))
        assert (circuit.open_until or 0) <= time.monotonic() + MAX_HOLD_S


def test_there_is_no_retry_when_the_circuit_opened_meanwhile() -> None:
    client = Client(timeout_ms=20_000, failures=1)
    first, second = threading.Event(), threading.Event()

    def handle(server: Server, connection: socket.socket, request: bytes) -> object:
        if len(server.requests) == 1:
            first.set()
            second.wait(10)
            connection.sendall(reply(500))
        else:
            connection.sendall(reply(429, "retry-after: 30"))
        return None

    with Server(handle) as server, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.ask, Words(server.url), QUESTION, "key")
        assert first.wait(10)
        assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.RATE_LIMITED
        second.set()
        assert (why(slow.result()), slow.result().attempts) == (NoAnswerReason.SERVER_ERROR, 1)
        assert len(server.requests) == 2
    client.close()


def test_invented_tenants_cost_bounded_memory(client: Client) -> None:
    with Server(says(reply(400))) as server:
        for number in range(50):
            client.ask(Words(server.url), QUESTION, "key", tenant=f"{number}" * 10_000)
    assert len(client._dispatcher.circuits) == 0


# --- caps


def test_a_reply_may_be_as_large_as_the_cap_and_no_larger(client: Client, ask: Callable[..., Outcome]) -> None:
    with Server(says(reply(200, body=b"x" * MAX_REPLY), reply(200, body=b"x" * (MAX_REPLY + 1)))) as server:
        assert ask(client, Words(server.url)).answer == ModelText("x" * MAX_REPLY)
        assert why(ask(client, Words(server.url))) is NoAnswerReason.REPLY_TOO_LARGE


ENDLESS = {
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, NoAnswerReason.REPLY_TOO_LARGE),
    "chunks": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n" * 9_000,
        NoAnswerReason.REPLY_TOO_LARGE,
    ),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 9_000, NoAnswerReason.MALFORMED_REPLY),
    "one header": (b"HTTP/1.1 200 OK\r\na: ", b"x" * 65536, NoAnswerReason.MALFORMED_REPLY),
    "1xx": (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000, NoAnswerReason.REPLY_TOO_LARGE),
    "chunk extensions": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"1;" + b"e" * 2_000 + b"\r\nx\r\n",
        NoAnswerReason.REPLY_TOO_LARGE,
    ),
}


@pytest.mark.parametrize(("first", "more", "reason"), ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_not_read_to_it(first: bytes, more: bytes, reason: NoAnswerReason) -> None:
    client = Client(timeout_ms=10_000)  # time enough to see that it is a cap that ends it, and not the deadline

    def endless(server: Server, connection: socket.socket, request: bytes) -> object:
        connection.sendall(first)
        while not server.over.is_set():
            connection.sendall(more)
        return False

    with Server(endless) as server:
        outcome = client.ask(Words(server.url), QUESTION, "key")
        assert (why(outcome), outcome.attempts) == (reason, 1)
    client.close()


def test_headers_have_a_cap_of_their_own(client: Client) -> None:
    many = [f"x-{number}: 1" for number in range(101)]
    with Server(says(reply(200, *many, body=b"safe"), reply(200, f"x: {'y' * 40_000}", body=b"safe"))) as server:
        for _ in range(2):
            assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.REPLY_TOO_LARGE


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip", "x"])
def test_a_compressed_reply_is_refused_unread(client: Client, encoding: str) -> None:
    bomb = gzip.compress(b"safe" + bytes(10_000_000))
    with Server(says(reply(200, f"content-encoding: {encoding}", body=bomb))) as server:
        assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.MALFORMED_REPLY


def test_a_plain_reply_may_say_so(client: Client) -> None:
    with Server(says(reply(200, "content-encoding: Identity", body=b"safe"))) as server:
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")


@pytest.mark.parametrize("headers", [("content-encoding: gzip",), ()])
def test_a_status_counts_without_its_body(client: Client, headers: tuple[str, ...]) -> None:
    with Server(says(reply(503, *headers, body=b"x" * 70_000), OK)) as server:
        outcome = client.ask(Words(server.url), QUESTION, "key")
    assert (outcome.answer, outcome.attempts) == (ModelText("safe"), 2)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304, 399])
def test_no_redirect_is_followed(client: Client, status: int) -> None:
    with Server() as trap, Server(says(reply(status, f"location: {trap.url}"))) as server:
        assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.REDIRECT
        assert trap.connections == 0


# --- nothing is raised


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError, RecursionError])
@pytest.mark.parametrize("part", ["request", "answer"])
def test_a_provider_that_raises_is_no_answer_and_no_harm(
    client: Client,
    ask: Callable[..., Outcome],
    part: str,
    error: type[BaseException],
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Words):
        pass

    def broken(*args: object) -> None:
        raise error("with the key in it: s3cret")

    setattr(Broken, part, broken)
    with Server() as server, caplog.at_level(logging.DEBUG, "lockgate"):
        for _ in range(6):
            assert why(ask(client, Broken(server.url))) is NoAnswerReason.INTERNAL
        assert ask(client, Words(server.url)).answer == ModelText("safe")
    assert "s3cret" not in caplog.text
    assert error.__name__ in caplog.text


@pytest.mark.parametrize("junk", [None, "safe", 5, ("safe",), HttpRequest("", (), b"")])
def test_a_provider_that_returns_junk_is_no_answer(client: Client, ask: Callable[..., Outcome], junk: object) -> None:
    class Junk(Words):
        def answer(self, question: Question, reply: HttpReply) -> Answer:
            return cast(Answer, junk)

    class Other(Words):
        def request(self, question: Question, key: str) -> HttpRequest:
            return cast(HttpRequest, "POST /")

    with Server() as server:
        assert why(ask(client, Junk(server.url))) is NoAnswerReason.INTERNAL
        assert why(ask(client, Other(server.url))) is NoAnswerReason.INTERNAL


@pytest.mark.parametrize("key", ["a\r\nx-evil: 1", "a\n", "schlüssel", "\udc80", "\0"])
def test_a_key_that_cannot_be_sent_is_no_answer_and_is_not_shown(
    client: Client, ask: Callable[..., Outcome], key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server() as server, caplog.at_level(logging.DEBUG):
        assert why(ask(client, Words(server.url), f"s3cret{key}")) is NoAnswerReason.INTERNAL
        assert server.requests == []
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://127.0.0.1/", "http://", "http://[::1", "http://127.0.0.1:99999/"]
)
def test_an_address_that_is_none_is_no_answer(client: Client, ask: Callable[..., Outcome], url: str) -> None:
    assert why(ask(client, Words(url))) in (NoAnswerReason.INTERNAL, NoAnswerReason.NETWORK)


@pytest.mark.parametrize("tenant", ["", "\udc80", "x" * 1_000_000, None, 5])
def test_any_tenant_gets_an_answer(client: Client, ask: Callable[..., Outcome], tenant: Any) -> None:
    with Server() as server:
        answer = ask(client, Words(server.url), tenant=tenant).answer
    assert answer == (ModelText("safe") if isinstance(tenant, str) else NoAnswer(NoAnswerReason.INTERNAL))


def test_on_a_running_loop_the_sync_form_answers_at_once(client: Client) -> None:
    async def inside() -> Outcome:
        return client.ask(Words("http://127.0.0.1:1/"), QUESTION, "key")

    in_time(lambda: asyncio.run(inside()), 20, NoAnswerReason.CALLED_IN_LOOP)


def test_outside_any_loop_the_async_form_answers_too(client: Client) -> None:
    asking = client.ask_async(Words("http://127.0.0.1:1/"), QUESTION, "key")
    with pytest.raises(StopIteration) as stopped:
        asking.send(None)
    assert why(stopped.value.value) is NoAnswerReason.INTERNAL


@pytest.mark.parametrize(
    "setting",
    [
        {"timeout_ms": 0},
        {"timeout_ms": 1.5},
        {"timeout_ms": True},
        {"timeout_ms": 600_001},
        {"max_retries": -1},
        {"max_retries": 11},
        {"circuit_open_s": 0},
        {"circuit_open_s": float("nan")},
        {"circuit_open_s": float("inf")},
        {"circuit_open_s": "60"},
        {"circuit_open_s": True},
        {"in_flight": 0},
        {"failures": 0},
    ],
)
def test_a_client_refuses_to_start_with_nonsense(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig) as refused:
        Client(**setting)
    assert next(iter(setting)) in str(refused.value)
    assert refused.value.hint


def test_without_its_package_a_client_refuses_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    post_module.tls_context.cache_clear()
    with pytest.raises(InvalidConfig, match="pip install 'lockgate\\[providers\\]'"):
        Client()


def test_the_module_can_be_imported_without_its_package() -> None:
    ran = run("print(sorted(name for name in sys.modules if name.split('.')[0] in ('httpx2', 'httpcore2', 'anyio')))")
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


# --- many at a time


def test_the_bulkhead_turns_the_rest_away_at_once_and_is_free_again_afterwards(ask: Callable[..., Outcome]) -> None:
    client = Client(timeout_ms=1_000, in_flight=8, failures=1_000)

    async def many(url: str) -> list[Outcome]:
        return await asyncio.gather(*(client.ask_async(Words(url), QUESTION, "key") for _ in range(100)))

    with Server(hang) as server:
        late: list[bool] = []
        while len(late) < 2 or (all(late) and len(late) < TRIES):  # lateness can be the machine's
            outcomes = asyncio.run(many(server.url))
            busy = [outcome for outcome in outcomes if why(outcome) is NoAnswerReason.BUSY]
            assert len(busy) == 92
            turned_away = max(outcome.latency_ms for outcome in busy)
            late.append(turned_away > LATE_MS or max(outcome.latency_ms for outcome in outcomes) > 1_000 + LATE_MS)
        assert not all(late)
        server.handle = says(OK)
        assert ask(client, Words(server.url)).answer == ModelText("safe")
    client.close()


def test_a_tenant_that_takes_every_place_leaves_half_of_them_to_the_others(ask: Callable[..., Outcome]) -> None:
    client = Client(timeout_ms=20_000, in_flight=8)
    answers = threading.Event()

    def waits(server: Server, connection: socket.socket, request: bytes) -> None:
        answers.wait(10)
        connection.sendall(OK)

    async def crowd(url: str) -> Counter[NoAnswerReason | None]:
        outcomes = await asyncio.gather(
            *(client.ask_async(Words(url), QUESTION, "key", tenant="crowd") for _ in range(20))
        )
        return Counter(why(outcome) for outcome in outcomes)

    with Server(waits) as busy, Server() as idle, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(asyncio.run, crowd(busy.url))
        assert soon(lambda: len(busy.requests) == 4)
        for tenant in ("quiet", ""):
            assert ask(client, Words(idle.url), tenant=tenant).answer == ModelText("safe")
        assert why(ask(client, Words(idle.url), tenant="crowd")) is NoAnswerReason.BUSY
        answers.set()
        assert waiting.result() == {None: 4, NoAnswerReason.BUSY: 16}
    client.close()


# --- logs


def test_the_library_does_not_log_what_a_server_sends_back(
    client: Client, ask: Callable[..., Outcome], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-canary-5d41402abc4b2a76"

    def echo(server: Server, connection: socket.socket, request: bytes) -> None:
        sent = [line for line in request.decode().split("\r\n") if line.startswith("authorization")]
        connection.sendall(reply(401, *(f"x-echo: {line}" for line in sent)))

    with Server(echo) as server:
        assert why(ask(client, Words(server.url), key)) is NoAnswerReason.UNAUTHORIZED
        assert key.encode() in server.requests[0]
    assert key not in caplog.text
    assert [record for record in caplog.records if record.name.startswith("httpcore2")] == []


def test_what_the_library_logs_for_others_is_left_alone(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    import httpx2

    caplog.set_level(logging.DEBUG)
    with Server() as server:
        client.ask(Words(server.url), QUESTION, "key")
        assert "httpcore2" not in {record.name.partition(".")[0] for record in caplog.records}
        with httpx2.Client(trust_env=False) as theirs:
            theirs.post(server.url, content=b'{"input":1}')
    assert any("receive_response_headers" in record.getMessage() for record in caplog.records)


# --- certificates


def test_an_authority_of_one_s_own_is_trusted_and_no_other(tmp_path: Path, ask: Callable[..., Outcome]) -> None:
    own = tmp_path / "own.pem"
    own.write_text(ssl.DER_cert_to_PEM_cert(base64.b64decode(_CERTIFICATE)))
    with LoopbackProvider(fault="tls-self-signed") as provider:
        # Its certificate vouches for itself.
        for file, reason in ((str(own), None), ("", NoAnswerReason.TLS)):
            client = Client(timeout_ms=10_000, ca_file=file)
            assert why(ask(client, Words(f"{provider.url}/v1/chat/completions"))) is reason
            client.close()
    assert post_module.tls_context(str(own)).cert_store_stats()["x509"] == 1


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_file_without_certificates_refuses_to_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidConfig, match="holds no certificates"):
        Client(ca_file=str(file))


@needs_proc
def test_two_hundred_threads_leave_nothing_behind() -> None:
    client = Client(timeout_ms=700, failures=1_000_000)
    with Server() as server:
        client.ask(Words(server.url), QUESTION, "key")
    gc.collect()
    before = files()
    for _ in range(TRIES):
        with Server(hang) as server, ThreadPoolExecutor(200) as pool:
            outcomes = list(pool.map(lambda _: client.ask(Words(server.url), QUESTION, "key"), range(200)))
            server.wait_until_closed()
        assert {why(outcome) for outcome in outcomes} <= {NoAnswerReason.DEADLINE, NoAnswerReason.BUSY}
        # Two hundred threads take turns here: the one that is told last is told by the machine's leave.
        most = sorted(outcome.latency_ms for outcome in outcomes)[180]
        if most < 700 + LATE_MS:
            break
    assert most < 700 + LATE_MS
    line = client._dispatcher._loop
    assert line is not None
    assert soon(lambda: line.questions == {})
    assert threads() == ["lockgate-verifier"]
    assert soon(lambda: files() <= before)
    client.close()
    assert soon(lambda: threads() == [])


def test_a_hanging_server_does_not_slow_down_the_caller_s_loop() -> None:
    client = Client(timeout_ms=800, in_flight=64)

    async def lag(during: float) -> float:
        # In the time this process used: other processes on the machine stop this one for longer than that.
        loop, worst = asyncio.get_running_loop(), 0.0
        until = loop.time() + during
        while loop.time() < until:
            before, used = loop.time(), time.process_time()
            await asyncio.sleep(0.005)
            worst = max(worst, min(loop.time() - before - 0.005, time.process_time() - used))
        return worst

    async def measured(url: str) -> tuple[float, float, list[Outcome]]:
        # The first call starts the thread and loads what the library loads late: once in a process.
        await client.ask_async(Words("http://127.0.0.1:1/"), QUESTION, "key")
        idle = await lag(0.9)
        watching = asyncio.create_task(lag(0.9))
        outcomes = await asyncio.gather(*(client.ask_async(Words(url), QUESTION, "key") for _ in range(64)))
        return idle, await watching, outcomes

    def silent(listener: socket.socket) -> None:
        # A thread for each connection would be the test slowing down its own loop.
        kept = []
        with suppress(OSError):
            while True:
                kept.append(listener.accept()[0])
        for connection in kept:
            connection.close()

    lags = []
    for _ in range(TRIES):
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            thread = threading.Thread(target=silent, args=(listener,))
            thread.start()
            idle, busy, outcomes = asyncio.run(measured(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        assert {why(outcome) for outcome in outcomes} == {NoAnswerReason.DEADLINE}
        lags.append(busy - idle)
        if lags[-1] < 0.05:
            break
    client.close()
    assert min(lags) < 0.05


@pytest.mark.parametrize("flood", ["1xx", "chunks", "body", "headers"])
def test_a_server_that_floods_does_not_hold_up_the_others(flood: str) -> None:
    client = Client(timeout_ms=4_000)
    first, more, _ = ENDLESS[flood]

    def endless(server: Server, connection: socket.socket, request: bytes) -> object:
        connection.sendall(first)
        while not server.over.is_set():
            connection.sendall(more)
        return False

    with Server(endless) as server, Server() as calm, ThreadPoolExecutor(4) as pool:
        client.ask(Words(calm.url), QUESTION, "key")
        floods = [pool.submit(client.ask, Words(server.url), QUESTION, "key") for _ in range(4)]
        took = []
        while not all(each.done() for each in floods):
            outcome = client.ask(Words(calm.url), QUESTION, "key")
            assert outcome.answer == ModelText("safe")
            took.append(outcome.latency_ms)
    # The slowest but one: a machine may stop once for longer than that.
    assert sorted(took, reverse=True)[1:2] < [1_000]
    client.close()


# --- cancelled callers


def test_a_cancelled_caller_is_cancelled_and_everything_stays_well() -> None:
    # No caller here waits for an answer or a place, however slow the machine.
    client = Client(timeout_ms=20_000, in_flight=200)

    async def impatient(url: str, after: float) -> None:
        asking = asyncio.create_task(client.ask_async(Words(url), QUESTION, "key"))
        await asyncio.sleep(after)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def all_of_them(url: str) -> None:
        for _ in range(3):
            await asyncio.gather(*(impatient(url, 0.002 * number) for number in range(1, 30)))

    with Server(hang) as server:
        asyncio.run(all_of_them(server.url))
        server.wait_until_closed()
        server.handle = says(OK)
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
    line = client._dispatcher._loop
    assert line is not None
    assert soon(lambda: line.questions == {})
    assert len(client._dispatcher.circuits) == 0
    client.close()


def test_a_caller_s_own_shorter_timeout_works(client: Client) -> None:
    async def short(url: str) -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.ask_async(Words(url), QUESTION, "key")
        return time.monotonic() - began

    with Server(hang) as server:
        limit_s = 0.05 + LATE_MS / 1000
        assert any(asyncio.run(short(server.url)) < limit_s for _ in range(TRIES))


# --- several loops


def test_any_number_of_loops_one_after_the_other_and_at_the_same_time(client: Client) -> None:
    async def few(url: str) -> list[Answer]:
        outcomes = await asyncio.gather(*(client.ask_async(Words(url), QUESTION, "key") for _ in range(3)))
        return [outcome.answer for outcome in outcomes]

    with Server() as server:
        for _ in range(3):
            assert asyncio.run(few(server.url)) == [ModelText("safe")] * 3
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: asyncio.run(few(server.url)), range(6)))
    assert answers == [[ModelText("safe")] * 3] * 6


def test_a_loop_that_is_closed_with_a_call_in_flight_does_no_harm(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(hang) as server:
        loop = asyncio.new_event_loop()
        asking = loop.create_task(client.ask_async(Words(server.url), QUESTION, "key", timeout_s=0.4))
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
        time.sleep(0.5)  # past the deadline: the answer finds no caller
        server.handle = says(OK)
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
        asking.cancel = lambda *_: False  # type: ignore[method-assign,assignment]
        asking._log_destroy_pending = False  # type: ignore[attr-defined]
        asking.get_coro().close()  # type: ignore[union-attr]
    assert caplog.text == ""


# --- an end


@needs_proc
def test_close_ends_the_thread_and_the_connections_and_answers_who_waits(ask: Callable[..., Outcome]) -> None:
    before = files()
    client = Client(timeout_ms=60_000)
    with Server(hang) as server, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ask, client, Words(server.url)) for _ in range(4)]
        assert soon(lambda: len(server.requests) == 4)
        client.close()
        outcomes = [each.result() for each in waiting]
    assert {why(outcome) for outcome in outcomes} == {NoAnswerReason.INTERNAL}
    assert max(outcome.latency_ms for outcome in outcomes) < 30_000
    assert soon(lambda: threads() == [])
    assert soon(lambda: files() <= before)
    assert why(ask(client, Words(server.url))) is NoAnswerReason.INTERNAL
    client.close()
    assert threads() == []


@needs_proc
def test_an_unused_client_is_gone_with_its_thread() -> None:
    before = files()
    with Server() as server:
        for _ in range(5):
            Client(timeout_ms=400).ask(Words(server.url), QUESTION, "key")
        gc.collect()
        assert soon(lambda: threads() == [])
    assert soon(lambda: files() <= before)


def test_a_client_that_was_never_used_has_no_thread() -> None:
    client = Client()
    assert threads() == []
    client.close()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_dead_loop_is_replaced_and_no_caller_waits_for_it(client: Client, error: type[BaseException]) -> None:
    def die() -> None:
        raise error

    with Server(hang) as server, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.ask, Words(server.url), QUESTION, "key") for _ in range(2)]
        assert soon(lambda: len(server.requests) == 2)
        line = client._dispatcher._loop
        assert line is not None
        assert line.background is not None
        line.background.call(die)
        assert {why(each.result()) for each in waiting} == {NoAnswerReason.INTERNAL}
        server.handle = says(OK)
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
        assert client._dispatcher._loop is not line
    assert soon(lambda: threads() == ["lockgate-verifier"])


def test_no_thread_to_be_had_is_no_answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Server() as server:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", none_left)
            assert why(client.ask(Words(server.url), QUESTION, "key")) is NoAnswerReason.INTERNAL
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")


@pytest.mark.parametrize("error", [ValueError("no"), LookupError("no"), MemoryError()], ids=repr)
def test_a_loop_of_the_application_that_cannot_be_opened_is_no_answer(error: Exception) -> None:
    def background(*_: object) -> Any:
        raise error

    with closing(Client(background=background)) as client:
        assert why(client.ask(Words("http://127.0.0.1:9/"), QUESTION, "key")) is NoAnswerReason.INTERNAL
        asked = asyncio.run(client.ask_async(Words("http://127.0.0.1:9/"), QUESTION, "key"))
        assert why(asked) is NoAnswerReason.INTERNAL


@needs_fork
@needs_proc
def test_a_forked_child_has_a_client_that_works_and_none_of_the_parent_s_connections() -> None:
    script = """
url, slow = sys.argv[1:]
client = Client(timeout_ms=20000)
print(ask(client, url).text)
waiting = later(lambda: client.ask(Words(slow), Question("", "", ""), "key", timeout_s=2))
time.sleep(0.2)
client._dispatcher._lock.acquire()  # another thread could hold it at this moment
child = os.fork()
if child == 0:
    kept = [link for link in map(os.readlink, [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")[:-1]])]
    kept = [link for link in kept if "socket" in link or "eventpoll" in link]
    print("child", kept, ask(client, url).text, ask(client, url).text, threading.active_count(), flush=True)
    grandchild = os.fork()
    if grandchild == 0:
        print("grandchild", ask(client, url).text, flush=True)
        os._exit(0)
    os.waitpid(grandchild, 0)
    sys.exit(0)
client._dispatcher._lock.release()
print("parent", ask(client, url).text, os.waitpid(child, 0)[1], flush=True)
waiting.join(20)
print(waiting.is_alive(), ask(client, url).text)
"""
    with Server() as server, Server(hang) as slow:
        ran = run(script, server.url, slow.url)
    assert ran.stderr == ""
    assert sorted(ran.stdout.splitlines()) == sorted(
        ["safe", "child [] safe safe 2", "grandchild safe", "parent safe 0", "False safe"]
    )
    assert ran.returncode == 0


@needs_fork
def test_workers_of_a_pool_that_forks_have_clients_that_work() -> None:
    script = """
import multiprocessing
url = sys.argv[1]
client = Client(timeout_ms=20000)
def work(_): return ask(client, url).text
print(work(0))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(4)))
print(work(0))
"""
    with Server() as server:
        ran = run(script, server.url)
    assert (ran.stdout, ran.stderr) == ("safe\n['safe', 'safe', 'safe', 'safe']\nsafe\n", "")


# `flying` waits until the server has so many requests, which the test says by a file.
EXITS = {
    "thread": "later(lambda: ask(client, url)); flying()",
    "three clients": "\nfor _ in range(3):\n    later(lambda: ask(Client(timeout_ms=60000), url))\nflying()",
    "async": """
async def leave():
    asyncio.create_task(client.ask_async(Words(url), Question("", "", ""), "key"))
    await asyncio.to_thread(flying)
asyncio.run(leave())
""",
    "resolver": """
import socket
asked = threading.Event()
socket.getaddrinfo = lambda *a, **k: (asked.set(), time.sleep(60))
later(lambda: ask(client, "http://name.invalid/")); asked.wait()
""",
    "error": "later(lambda: ask(client, url)); flying(); sys.exit(3)",
    "unused": "",
}
LEAVING = """
url = sys.argv[1]
client = Client(timeout_ms=60000)
def flying():
    while not os.path.exists(sys.argv[2]): time.sleep(0.01)
"""


@pytest.mark.parametrize("leaving", EXITS.values(), ids=EXITS)
def test_an_exit_with_a_call_in_flight_is_quick_and_quiet(leaving: str, tmp_path: Path) -> None:
    def held(server: Server, connection: socket.socket, request: bytes) -> None:
        if len(server.requests) >= (3 if "range(3)" in leaving else 1):
            (tmp_path / "all").touch()
        hang(server, connection, request)

    with Server(held) as server:
        ran = run(f"{LEAVING}{leaving}\n", server.url, str(tmp_path / "all"))
    assert (ran.stdout, ran.stderr) == ("", "")
    assert ran.returncode == (3 if "exit(3)" in leaving else 0)


def test_a_loop_that_is_stuck_is_replaced_a_few_times(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "STUCK_S", 0.1)
    done, stuck = threading.Event(), threading.Event()

    class Stuck(Words):
        def answer(self, question: Question, reply: HttpReply) -> Answer:
            stuck.set()
            done.wait(60)
            return ModelText("late")

    with Server() as server:
        for round_ in range(client_module.MAX_STUCK + 1):
            stuck.clear()
            assert why(client.ask(Stuck(server.url), QUESTION, "key", timeout_s=0.4)) is NoAnswerReason.DEADLINE
            assert stuck.wait(10) or round_ == client_module.MAX_STUCK
            time.sleep(0.2)
            last = round_ == client_module.MAX_STUCK
            outcome = client.ask(Words(server.url), QUESTION, "key", timeout_s=0.4 if last else None)
            assert why(outcome) is (NoAnswerReason.DEADLINE if last else None)
        assert len(threads()) == client_module.MAX_STUCK + 1
        done.set()
        assert soon(lambda: len(threads()) == 1)
        assert client.ask(Words(server.url), QUESTION, "key").answer == ModelText("safe")
    assert len(threads()) == 1
