"""The contract of adapters: one that passes every adapter would prove nothing."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from provider_http import NONCE, post

from lockgate.core.questions import Verdict
from lockgate.testing import ScriptedVerifier, check_adapter, contract


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
