"""The fault matrix: every way a provider can misbehave, through every wire format, from a thread and on a loop.

No exception, never `safe`, and in time: within the deadline and a tenth of a second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import pytest

from lockgate.core.text.scanner import Scanner
from lockgate.runtime.metrics import Metrics
from lockgate.testing import FAULTS, LoopbackProvider, check_adapter
from lockgate.testing.contract import ESSENTIAL_FAULTS, TIMEOUTS
from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter
from lockgate.verifiers.client import Client, Provider
from lockgate.verifiers.providers.anthropic import Anthropic
from lockgate.verifiers.providers.azure import Azure
from lockgate.verifiers.providers.compatible import Compatible
from lockgate.verifiers.providers.openai import OpenAI

DEADLINE_S = 0.4
SLACK_S = 0.1
TRIES = 10
CALM = {"prompt_text": "Please summarise the minutes of Tuesday.", "modalities": ["text"]}
RATING = "openai moderation"
PROVIDERS: Mapping[str, Callable[[str], Provider]] = {
    "openai": lambda url: OpenAI("judge-1", f"{url}/v1"),
    RATING: lambda url: OpenAI("omni-moderation-latest", f"{url}/v1"),
    "anthropic": lambda url: Anthropic("judge-1", url),
    "azure": lambda url: Azure(url, "judge"),
    "compatible": lambda url: Compatible("judge-1", f"{url}/v1"),
}

# What the provider says outright, however it says it: a signal, not an outage.
UNSAFE = {"content-filter", "rates-against-itself"}


class Key(NamedTuple):
    text: str = "sk-loopback-000000000000000000000000"
    instant: bool = True

    def key(self, tenant: str) -> str:
        return self.text + tenant.encode().hex()


class Run(NamedTuple):
    verdict: str
    reason: str
    late_s: float


@pytest.fixture
def client() -> Iterator[Client]:
    """A fresh one per test: its budget for retries is whole, and its first connection is as slow as it ever is.

    It has time to spare: only the adapters that are to meet a deadline have one.
    """
    client = Client(timeout_ms=10_000)
    yield client
    client.close()


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(len(PROVIDERS)) as threads:
        yield threads


@pytest.fixture
def adapters(client: Client, scanner: Scanner) -> Callable[..., dict[str, RemoteAdapter]]:
    """An adapter for each provider, all of them at one address."""

    def adapters(url: str, client: Client = client, **more: Any) -> dict[str, RemoteAdapter]:
        return {
            name: RemoteAdapter(make(url), client, Key(), scanner=scanner, **more) for name, make in PROVIDERS.items()
        }

    return adapters


@pytest.fixture
def hasty(adapters: Any) -> Iterator[Callable[[str], dict[str, RemoteAdapter]]]:
    """The same, with a deadline that can be waited for."""
    client = Client(timeout_ms=int(DEADLINE_S * 1000))
    yield lambda url: adapters(url, client)
    client.close()


def met(fault: str, name: str) -> bool:
    """Whether this provider's wire format has the place where the fault is."""
    return not fault.startswith("says-" if name == RATING else "rates-")


def run_all(fault: str, turn: int, adapters: Any, threads: ThreadPoolExecutor) -> list[tuple[str, Run]]:
    """Every provider, from a thread and on a loop, all at once. Whatever is raised is raised here."""

    # A tenant has its own key, and so its own circuit: one call does not hide behind another.
    def in_a_thread(adapter: RemoteAdapter) -> Run:
        began = time.perf_counter()
        got = adapter.examine(CALM, tenant=f"in a thread, {turn}")
        return Run(got.verdict, got.reason, time.perf_counter() - began - DEADLINE_S)

    async def on_a_loop(adapter: RemoteAdapter) -> Run:
        began = time.perf_counter()
        got = await adapter.examine_async(CALM, tenant=f"on a loop, {turn}")
        return Run(got.verdict, got.reason, time.perf_counter() - began - DEADLINE_S)

    async def all_on_a_loop() -> list[Run]:
        return await asyncio.gather(*map(on_a_loop, every.values()))

    with LoopbackProvider(fault=fault) as provider:
        every = adapters(provider.url)
        waiting = [threads.submit(in_a_thread, adapter) for adapter in every.values()]
        runs = [*zip(every, asyncio.run(all_on_a_loop()), strict=True)]
        runs += zip(every, [run.result() for run in waiting], strict=True)
        assert provider.trapped == 0
    return runs


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_is_taken_for_an_answer(
    fault: str, hasty: Any, threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    late: list[tuple[str, Run]] = []
    # A wrong verdict is wrong once and for all. Lateness can be the machine's, so it has to show every time.
    for turn in range(TRIES):
        runs = run_all(fault, turn, hasty, threads)
        assert len(runs) == 2 * len(PROVIDERS)
        assert [(name, run) for name, run in runs if run.verdict == "safe" and met(fault, name)] == []
        assert [(name, run) for name, run in runs if run.verdict == "unsafe" and fault not in UNSAFE] == []
        late = [
            (name, run)
            for name, run in runs
            if run.late_s > SLACK_S or (run.verdict != "safe" and not met(fault, name))
        ]
        if not late:
            break
    assert late == []


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_that_behaves_is_believed(name: str, adapters: Any) -> None:
    """Without this the matrix would prove nothing: an adapter that always shrugs passes it."""
    with LoopbackProvider() as provider:
        adapter = adapters(provider.url)[name]
        assert adapter.assess(CALM) == "safe"
        provider.say, provider.flagged = "unsafe", True
        assert adapter.assess(CALM) == "unsafe"
        assert asyncio.run(adapter.assess_async(CALM)) == "unsafe"
        provider.say, provider.flagged, provider.scores = "unclear", False, {"violence": 0.4}
        assert adapter.assess(CALM) == "unclear"
        assert len(provider.requests) == 4


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_fault_that_passes_is_tried_again(name: str, adapters: Any) -> None:
    with LoopbackProvider() as provider:
        adapter = adapters(provider.url)[name]
        for fault in ("status-500", "reset", "half-body"):
            provider.fault = [fault, None]
            assert adapter.assess(CALM, tenant=fault) == "safe", fault


def test_a_429_is_not_tried_again(adapters: Any) -> None:
    with LoopbackProvider() as provider:
        for name, adapter in adapters(provider.url).items():
            provider.fault = ["429-retry-after", None]
            before = len(provider.requests)
            got = adapter.examine(CALM, tenant="429")
            assert (got.verdict, got.reason) == ("unclear", "rate-limited"), name
            again = adapter.examine(CALM, tenant="429")
            assert (again.verdict, again.reason) == ("unclear", "circuit-open"), name
            assert len(provider.requests) == before + 1


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_answer_to_one_question_is_not_taken_for_the_next(name: str, adapters: Any) -> None:
    """A rating has no nonce: only the connection says which question it answers."""
    with LoopbackProvider(fault=["second-reply", None]) as provider:
        adapter = adapters(provider.url)[name]
        assert adapter.assess(CALM) == "unclear"
        provider.say, provider.flagged = "unsafe", True
        assert adapter.assess(CALM) == "unsafe"


@pytest.mark.parametrize("fault", ["endless-chunks", "early-hints-flood", "endless-body", "endless-headers", "hang"])
def test_one_provider_that_misbehaves_does_not_hold_up_another(
    fault: str, adapters: Any, threads: ThreadPoolExecutor
) -> None:
    with LoopbackProvider(fault=fault) as bad, LoopbackProvider() as good:
        flooded = adapters(bad.url, timeout_ms=int(DEADLINE_S * 1000))["openai"]
        calm = adapters(good.url)["openai"]
        assert calm.assess(CALM) == "safe"
        call = threads.submit(flooded.assess, CALM, tenant="flood")
        waits = []
        while not call.done():
            began = time.perf_counter()
            assert calm.assess(CALM) == "safe"
            waits.append(time.perf_counter() - began)
        assert call.result() == "unclear"
        assert median(waits or [0.0]) < SLACK_S


def test_a_kept_connection_answers_without_a_pause(adapters: Any) -> None:
    """Two small writes and a delayed acknowledgement cost 40 ms a question, unless the socket says otherwise."""
    with LoopbackProvider() as provider:
        adapter = adapters(provider.url)["openai"]
        took = []
        for _ in range(30):
            began = time.perf_counter()
            assert adapter.assess(CALM) == "safe"
            took.append(time.perf_counter() - began)
        assert provider.connections == 1
        assert min(took[1:]) < 0.03


# --- the contract, for our own adapters


def test_the_local_adapter_keeps_the_contract(scanner: Scanner) -> None:
    check_adapter(lambda: LocalRuleAdapter(scanner=scanner, metrics=Metrics()))


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_remote_adapters_keep_the_contract(name: str, scanner: Scanner, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    metrics = Metrics()

    deadline_s = 1.0
    # Waiting for deadlines is the same code for all of them, and the matrix above does it for each.
    faults = [fault for fault in ESSENTIAL_FAULTS if name in ("openai", RATING) or fault not in TIMEOUTS]

    def remote(url: str) -> RemoteAdapter:
        client = Client(timeout_ms=int(deadline_s * 1000))
        return RemoteAdapter(PROVIDERS[name](url), client, Key(), scanner=scanner, metrics=metrics)

    with LoopbackProvider() as provider:
        check_adapter(
            lambda: remote(provider.url),
            remote=remote,
            deadline_s=deadline_s,
            slack_s=1.0,  # the matrix above is what measures
            faults=faults,
            errors=lambda: sum(float(sample.rpartition(" ")[2]) for sample in metrics.errors.samples()),
            secret=Key().text,
        )
