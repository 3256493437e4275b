"""The loopback provider: it answers in every format, and leaves nothing behind."""

from __future__ import annotations

import gc
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from provider_http import ASKED, EXACT, MODERATIONS, NONCE, PATHS, post, raw_reply, soon

from lockgate.testing import LoopbackProvider


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
