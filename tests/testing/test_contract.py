"""The tools for tests, tested: an idle fault, or a contract that passes every adapter, would prove nothing."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lockgate.core.questions import ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating, Verdict
from lockgate.testing import FAULTS, LoopbackProvider, ScriptedVerifier, check_adapter, contract

NONCE = "0123456789abcdef0123456789abcdef"
EXACT = f'{{"verdict": "safe", "nonce": "{NONCE}"}}'
MODERATIONS = "/v1/moderations"
PATHS = {
    MODERATIONS: lambda reply: reply["results"][0]["flagged"],
    "/v1/chat/completions": lambda reply: reply["choices"][0]["message"]["content"],
    "/openai/deployments/judge/chat/completions?api-version=2024-10-21": lambda reply: reply["choices"][0]["message"][
        "content"
    ],
    "/v1/messages": lambda reply: reply["content"][0]["text"],
}
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}, "nonce": {"const": NONCE}}}
ASKED = {"model": "m", "input": "hello", "messages": [{"role": "user", "content": "hello"}], "response_format": SCHEMA}


def post(url: str, path: str, asked: Any = ASKED) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request("POST", path, json.dumps(asked), {"authorization": "Bearer key"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def raw_reply(url: str, path: str, *, most: int = 100_000, within_s: float = 0.1) -> bytes:
    """All the bytes that come back until the end, a moment has passed, or it is enough."""
    until = time.monotonic() + within_s
    host, port = url.partition("://")[2].split(":")
    body = json.dumps(ASKED).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    data = b""
    try:
        with socket.create_connection((host, int(port)), timeout=within_s) as connection:
            connection.sendall(head.encode() + body)
            while len(data) < most and (more := connection.recv(65_536)):
                data += more
                connection.settimeout(max(0.001, until - time.monotonic()))
    except OSError as error:
        return data + type(error).__name__.encode()
    return data


def soon(met: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not met() and time.monotonic() < until:
        time.sleep(0.005)
    return met()


# --- a provider that behaves


@pytest.mark.parametrize("path", PATHS)
def test_a_provider_gives_the_asked_for_object(path: str) -> None:
    with LoopbackProvider() as provider:
        for prefix in ("", "/a/gateway"):
            status, body = post(provider.url, prefix + path)
            assert status == 200
            assert PATHS[path](json.loads(body)) == (False if path == MODERATIONS else EXACT)
        assert [(request.method, request.path) for request in provider.requests] == [
            ("POST", path),
            ("POST", "/a/gateway" + path),
        ]
        assert provider.requests[0].json == ASKED
        assert provider.requests[0].headers["authorization"] == "Bearer key"


def test_a_record_does_not_show_the_key_or_the_text() -> None:
    with LoopbackProvider() as provider:
        post(provider.url, "/v1/messages", {"messages": ["the text"]})
        assert repr(provider.requests) == "[Recorded(POST /v1/messages, 26 bytes)]"


@pytest.mark.parametrize(
    "asked",
    [
        {"system": f'Repeat the nonce "{NONCE}".', "messages": [{"content": "the nonce: ffffffffffffffff"}]},
        {"messages": [{"role": "system", "content": f"nonce={NONCE}"}, {"content": "the nonce: ffffffffffffffff"}]},
        {"messages": [{"content": [{"type": "text", "text": f"nonce: {NONCE}"}]}]},
        {"messages": [{"content": json.dumps({"nonce": NONCE})}]},
        {"output_config": {"format": {"schema": {"properties": {"nonce": {"enum": [NONCE]}}}}}},
    ],
)
def test_the_nonce_is_read_out_of_the_question(asked: object) -> None:
    with LoopbackProvider(say="unsafe") as provider:
        said = json.loads(post(provider.url, "/v1/messages", asked)[1])["content"][0]["text"]
        assert json.loads(said) == {"verdict": "unsafe", "nonce": NONCE}


def test_a_model_says_what_it_is_told_to() -> None:
    with LoopbackProvider(say=lambda asked: f"heard {asked['model']}") as provider:
        path = "/v1/chat/completions"
        assert PATHS[path](json.loads(post(provider.url, path)[1])) == "heard m"
        provider.say = "NOT SURE"
        assert PATHS[path](json.loads(post(provider.url, path)[1])) == "NOT SURE"


def test_a_rating_is_what_it_is_told_to_be() -> None:
    with LoopbackProvider(flagged=True, scores={"violence": 0.9}) as provider:
        (rating,) = json.loads(post(provider.url, MODERATIONS)[1])["results"]
        assert rating["flagged"] is True
        assert rating["categories"]["violence"] is True
        assert rating["category_scores"]["violence"] == 0.9
        assert len(json.loads(post(provider.url, MODERATIONS, {"input": ["a", "b"]})[1])["results"]) == 2


def test_an_error_in_say_is_raised_where_it_was_written() -> None:
    with pytest.raises(KeyError), LoopbackProvider(say=lambda asked: str(asked["nothing"])) as provider:
        assert post(provider.url, "/v1/messages")[0] == 500


def test_what_is_not_a_question_is_refused() -> None:
    with LoopbackProvider() as provider:
        assert post(provider.url, "/elsewhere")[0] == 404
        assert post(provider.url, "/v1/messages", ["a list"])[0] == 400
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
        for method, path, body, headers, status in (
            ("GET", "/v1/messages", None, {}, 404),
            ("POST", "/v1/messages", b"[" * 100_000, {}, 400),
            ("POST", "/v1/messages", b"", {"content-length": str(1 << 40)}, 413),
        ):
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            assert (reply.status, bool(reply.read())) == (status, True)
        connection.close()


# --- a provider that does not


def test_there_are_many_faults_and_each_says_what_it_does() -> None:
    assert len(FAULTS) >= 40
    assert all(name == name.lower() and name.replace("-", "").replace(".", "").isalnum() for name in FAULTS)
    assert len(set(FAULTS.values())) == len(FAULTS)
    with pytest.raises(TypeError):
        FAULTS["mine"] = "x"  # type: ignore[index]


def test_each_fault_is_met_where_it_says() -> None:
    with LoopbackProvider() as provider, ThreadPoolExecutor(len(PATHS)) as threads:
        good = [raw_reply(provider.url, path, within_s=10) for path in PATHS]
        for fault in FAULTS:
            provider.fault = fault
            place = provider.url
            if place.startswith("https:"):
                continue
            usual = [fault.startswith("says-" if path == MODERATIONS else "rates-") for path in PATHS]
            # A usual reply ends by itself; for the others a moment is enough to see that they are not.
            within_s = [10.0 if each else 0.1 for each in usual]
            met = list(
                threads.map(lambda path, most_s, place=place: raw_reply(place, path, within_s=most_s), PATHS, within_s)  # type: ignore[misc]
            )
            assert [reply == each for reply, each in zip(met, good, strict=True)] == usual, fault


def test_the_faults_in_a_place_are_met_there() -> None:
    with LoopbackProvider() as provider:
        provider.fault = "refused"
        assert raw_reply(provider.url, "/v1/messages") == b"ConnectionRefusedError"
        provider.fault = "never-accepted"
        if sys.platform == "linux":
            assert raw_reply(provider.url, "/v1/messages") == b"TimeoutError"
        provider.fault = "dns-failure"
        assert provider.url == "https://loopback.invalid"
        for fault, error in (
            ("tls-self-signed", ssl.SSLCertVerificationError),
            ("tls-plain", ssl.SSLError),
            ("tls-alert", ssl.SSLError),
            ("tls-hang", TimeoutError),
            ("tls-drip", TimeoutError),
            ("tls-reset", ConnectionResetError),
        ):
            provider.fault = fault
            place = provider.url.removeprefix("https://")
            connection = http.client.HTTPSConnection(place, timeout=0.2, context=ssl.create_default_context())
            with pytest.raises(error):
                connection.request("POST", "/v1/messages", json.dumps(ASKED))
            connection.close()


def test_only_verification_stands_between_a_client_and_the_self_signed_server() -> None:
    with LoopbackProvider(fault="tls-self-signed") as provider:
        careless = ssl.create_default_context()
        careless.check_hostname = False
        careless.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(provider.url.removeprefix("https://"), timeout=5, context=careless)
        connection.request("POST", "/v1/messages", json.dumps(ASKED))
        assert json.loads(connection.getresponse().read())["content"][0]["text"] == EXACT
        connection.close()


def test_faults_can_be_met_in_turn() -> None:
    with LoopbackProvider(fault=["status-500", "reset-at-once", None]) as provider:
        assert provider.fault == "status-500"
        assert post(provider.url, "/v1/messages")[0] == 500
        with pytest.raises(ConnectionError):
            post(provider.url, "/v1/messages")
        assert [post(provider.url, "/v1/messages")[0] for _ in range(3)] == [200] * 3


def test_a_fault_can_come_over_an_open_connection() -> None:
    with LoopbackProvider() as provider:
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)

        def ask() -> int:
            connection.request("POST", "/v1/messages", json.dumps(ASKED))
            reply = connection.getresponse()
            return reply.status if reply.read() else 0

        assert [ask(), ask()] == [200, 200]
        provider.fault = "reset-at-once"
        with pytest.raises(ConnectionError):
            ask()
        connection.close()
        assert provider.connections == 1


def test_an_echo_sends_back_what_it_was_sent() -> None:
    with LoopbackProvider(fault="echo") as provider:
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(ASKED), {"authorization": "Bearer key", "x-api-key": "k"})
        reply = connection.getresponse()
        connection.close()
    assert reply.status == 401
    assert (reply.headers["x-sent-authorization"], reply.headers["x-sent-x-api-key"]) == ("Bearer key", "k")


def test_a_client_that_follows_a_redirect_is_caught() -> None:
    with LoopbackProvider(fault="redirect-307") as provider:
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(ASKED))
        reply = connection.getresponse()
        location = reply.headers["location"]
        connection.close()
        assert (reply.status, provider.trapped) == (307, 0)
        place, _, path = location.removeprefix("http://").partition("/")
        assert place == provider.url.removeprefix("http://").replace("127.0.0.1", "localhost")
        status, body = post(provider.url, "/" + path)
        assert (status, provider.trapped) == (200, 1)
        assert json.loads(body)["content"][0]["text"] == EXACT


@pytest.mark.parametrize("fault", ["no such fault", "", [], ["hang", "x\n"]])
def test_an_unknown_fault_is_refused(fault: Any) -> None:
    with pytest.raises(
        ValueError, match=r"there is no fault called `.*`\nhint: lockgate.testing.FAULTS lists them all"
    ):
        LoopbackProvider(fault=fault)


# --- a provider that ends


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files as Linux shows them")
def test_nothing_is_left_of_a_provider() -> None:
    threads, files = set(threading.enumerate()), open_files()
    for fault in (None, "hang", "body-drip", "endless-body", "hang-at-once", "tls-hang", "tls-self-signed"):
        clients = []
        with LoopbackProvider(fault=fault) as provider:
            port = int(provider.url.rpartition(":")[2])
            for _ in range(5):
                client = socket.create_connection(("127.0.0.1", port), timeout=5)
                client.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
                clients.append(client)
            assert provider.connections <= 5
        for client in clients:
            client.close()
        assert provider.open_connections == 0
    assert set(threading.enumerate()) <= threads
    assert open_files() <= files


@pytest.mark.parametrize(
    "fault", ["hang", "hang-at-once", "body-drip", "header-drip", "endless-body", "endless-chunks"]
)
def test_a_connection_ends_when_its_client_goes_away(fault: str) -> None:
    with LoopbackProvider(fault=fault) as provider:
        raw_reply(provider.url, "/v1/messages", most=1000)
        assert soon(lambda: provider.open_connections == 0)


@pytest.mark.parametrize("fault", ["hang", "body-drip", "endless-body"])
def test_a_connection_ends_when_patience_does(fault: str) -> None:
    with LoopbackProvider(fault=fault, patience_s=0.1) as provider:
        client = socket.create_connection(("127.0.0.1", int(provider.url.rpartition(":")[2])), timeout=5)
        client.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        assert soon(lambda: provider.connections == 1 and provider.open_connections == 0)
        client.close()


def test_a_forgotten_provider_ends_by_itself() -> None:
    provider = LoopbackProvider(lifetime_s=0.05).start()
    address = ("127.0.0.1", int(provider.url.rpartition(":")[2]))

    def refused() -> bool:
        with socket.socket() as client:
            return client.connect_ex(address) != 0

    assert soon(refused)
    provider.close()
    provider.close()


def test_a_provider_runs_once() -> None:
    provider = LoopbackProvider()
    with pytest.raises(RuntimeError, match="not running"):
        _ = provider.url
    provider.close()
    with provider, pytest.raises(RuntimeError, match="started before"):
        provider.start()


# --- what it needs


BARE = """
import sys
sys.modules["pytest"] = sys.modules["httpx2"] = None
import lockgate.testing
from lockgate.core.questions import Question
print(lockgate.testing.ScriptedVerifier("safe").assess({}))
print(sorted({"hyperscan", "rich", "lockgate.verifiers.adapters", "lockgate.verifiers.client"} & set(sys.modules)))
"""


def test_it_needs_neither_pytest_nor_an_http_library() -> None:
    run = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stderr, run.stdout) == ("", "safe\n[]\n")


# --- scripted verifiers


def test_a_script_is_played_in_turn_and_then_for_ever() -> None:
    verifier = ScriptedVerifier(
        "safe", "unsafe", ProviderBlock("hate"), NoAnswer(NoAnswerReason.DEADLINE), then="unclear"
    )
    payload = {"prompt_text": "hello"}
    verdicts = [verifier.assess(payload, tenant="a") for _ in range(6)]
    assert verdicts == ["safe", "unsafe", "unsafe", "unclear", "unclear", "unclear"]
    assert verifier.payloads == [payload] * 6
    assert verifier.tenants == ["a"] * 6


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Rating(flagged=True, scores=()), "unsafe"),
        (Rating(flagged=False, scores=()), "safe"),
        (ModelText("safe"), "unclear"),
        (ModelText(EXACT), "unclear"),
    ],
)
def test_an_answer_stands_for_a_verdict(answer: ModelText | Rating, verdict: str) -> None:
    assert asyncio.run(ScriptedVerifier(then=answer).assess_async({})) == verdict


def test_a_scripted_client_echoes_the_nonce_of_the_question() -> None:
    verifier = ScriptedVerifier("safe", NoAnswer(NoAnswerReason.BUSY), ModelText("odd"))
    question = Question("", "hello", "hello", SCHEMA)

    async def ask() -> object:
        return (await verifier.ask_async(None, question, "key", tenant="a")).answer  # type: ignore[arg-type]

    assert [asyncio.run(ask()) for _ in range(3)] == [ModelText(EXACT), NoAnswer(NoAnswerReason.BUSY), ModelText("odd")]
    assert verifier.questions == [question] * 3


# --- the contract


class Shrug:
    """Keeps the contract as far as it can without asking a provider."""

    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        return "unclear"

    async def assess_async(self, payload: Mapping[str, Any]) -> Verdict:
        return self.assess(payload)


class Raises(Shrug):
    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        return "safe" if payload["prompt_text"] else "unclear"


class Shouts(Shrug):
    def assess(self, payload: Mapping[str, Any]) -> Any:
        return "SAFE"


class Clears(Shrug):
    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        return "safe"


class ClearsLater(Shrug):
    async def assess_async(self, payload: Mapping[str, Any]) -> Verdict:
        return "safe"


class Changes(Shrug):
    def assess(self, payload: Any) -> Verdict:
        if isinstance(payload, dict):
            payload["seen"] = True
        return "unclear"


class Dawdles(Shrug):
    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        time.sleep(0.12)
        return "unclear"


class Wavers(Shrug):
    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        return "unsafe" if threading.current_thread() is threading.main_thread() else "unclear"


class Boasts(Shrug):
    def __repr__(self) -> str:
        return "Boasts(key='hunter2')"


@pytest.mark.parametrize(
    ("adapter", "complaint"),
    [
        (Raises, "assess raised KeyError: {}"),
        (Shouts, "neither safe nor unsafe nor unclear: str, for {'prompt_text': 'Please summarise"),
        (Clears, "{} is no payload and was cleared as safe"),
        (ClearsLater, "assess said unclear, assess_async safe: {'prompt_text'"),
        (Changes, "the payload was changed: {'prompt_text'"),
        (Dawdles, "answered after "),
        (Wavers, "one thread got unsafe, several at once got ['unclear']"),
        (Boasts, "the key is in the adapter's repr"),
    ],
)
def test_the_contract_names_what_was_broken(adapter: Callable[[], Shrug], complaint: str) -> None:
    with pytest.raises(AssertionError) as broken:
        check_adapter(adapter, deadline_s=0.01 if adapter is Dawdles else 1.5, secret="hunter2")
    assert str(broken.value).startswith(complaint)


def test_an_adapter_that_changes_its_payloads_changes_no_others() -> None:
    before = repr((contract.PAYLOADS, contract.CALM))
    with pytest.raises(AssertionError, match="the payload was changed"):
        check_adapter(Changes)
    assert repr((contract.PAYLOADS, contract.CALM)) == before
    check_adapter(Shrug)


def test_an_adapter_that_keeps_the_contract_passes() -> None:
    check_adapter(Shrug, secret="hunter2")
    check_adapter(lambda: ScriptedVerifier(then="unclear"))


class Naive:
    """What one writes first: it asks, and believes whatever comes back. Each subclass mends one thing more."""

    def __init__(self, url: str) -> None:
        self.url = url

    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        try:
            asked = {"messages": [{"content": f"nonce: {NONCE}"}, {"content": payload["prompt_text"]}]}
            status, body = self.post(asked)
            return self.read(status, json.loads(body))
        except Exception:  # noqa: BLE001
            return "unclear"

    def post(self, asked: object) -> tuple[int, bytes]:
        return post(self.url, "/v1/messages", asked)

    def read(self, status: int, reply: Any) -> Verdict:
        return json.loads(reply["content"][0]["text"])["verdict"]  # type: ignore[no-any-return]


class ReadsTheStatus(Naive):
    def read(self, status: int, reply: Any) -> Verdict:
        return super().read(status, reply) if status == 200 else "unclear"


class TimesOut(ReadsTheStatus):
    """With a timeout per read, as most HTTP libraries have it."""

    def post(self, asked: object) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.url.partition("://")[2], timeout=0.6)
        try:
            connection.request("POST", "/v1/messages", json.dumps(asked))
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()


@pytest.mark.parametrize(
    ("adapter", "faults", "complaint"),
    [
        (Shrug, [], "the provider cleared an ordinary text, the adapter said unclear"),
        (Naive, ["forged-500"], "cleared as safe: forged-500"),
        (Naive, ["hang"], "answered after"),
        (ReadsTheStatus, ["forged-500", "says-wrong-nonce"], "cleared as safe: says-wrong-nonce"),
        (TimesOut, ["forged-500", "status-401", "hang", "body-drip"], "answered after"),
        (TimesOut, ["hang"], "assess held a running event loop for "),
    ],
)
def test_the_contract_catches_what_one_writes_first(adapter: Any, faults: list[str], complaint: str) -> None:
    remote = (lambda url: adapter()) if adapter is Shrug else adapter
    # Time enough for who answers, also on a busy machine, and too little for who waits per read.
    slack_s = 3.0 if "event loop" in complaint else 0.1
    with pytest.raises(AssertionError) as broken:
        check_adapter(Shrug, remote=remote, deadline_s=1.0, slack_s=slack_s, faults=faults)
    assert str(broken.value).startswith(complaint)


def test_an_uncounted_error_is_noticed() -> None:
    with pytest.raises(AssertionError, match="an error was not counted: status-401"):
        check_adapter(Shrug, remote=TimesOut, deadline_s=1.0, faults=["status-401"], errors=lambda: 7.0)
