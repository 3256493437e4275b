"""The client in virtual time: outages of every kind, callers who are cancelled at any moment, hours in a second.

Everything is the real thing except the clock, the threads and the network: the client runs on a loop whose time passes
only when no task can run, so that a seed gives the same history every time. In half of the histories it is
asked through adapters, whose texts and keys take their time. `soak.py` runs more of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import selectors
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

import httpx2
import pytest

from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, Question
from lockgate.core.requests.combined_verdict import RulesView
from lockgate.core.text.scanner import Scanner, rules_from_patterns
from lockgate.runtime import circuit_breaker as breaker
from lockgate.runtime.circuit_breaker import CallResult, Circuit, CircuitLimits, Circuits, Ticket
from lockgate.runtime.http_post import HttpReply, HttpRequest
from lockgate.runtime.metrics import Metrics
from lockgate.runtime.worker_pool import PoolJob, run_job
from lockgate.verifiers import client as client_module
from lockgate.verifiers.adapters import RemoteAdapter
from lockgate.verifiers.client import GRACE_S, Client, Outcome

TIMEOUT_S = 1.5
OPEN_S = 5.0
RETRY_AFTER_S = 15.0
TENANTS = ("", "a", "b")
# The time after which a provider that is well again must be used again: the longest a circuit can have been opened
# for, a lost probe's lease, and some callers, of whom every other may be cancelled.
RECOVERY_S = max(OPEN_S, RETRY_AFTER_S) + TIMEOUT_S + 5.0 + 40.0
SECONDS = 600
SEEDS = 10
QUESTION = Question("system", "user", "text")
NONCE = "0123456789abcdef0123456789abcdef"
# How long it takes to read a text, and to fetch a key. Slow ones take up to more than all the time there is.
QUICK, SLOW = (0.0, 0.001, 0.1), (0.0, 0.1, 0.4, 0.8, 1.45, 2.0)


class _NoFiles(selectors.SelectSelector):
    """Waits by moving the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("all tasks wait, and no timer is set")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._nothing = _NoFiles()
        super().__init__(self._nothing)

    def time(self) -> float:
        return self._nothing.now

    def _write_to_self(self) -> None:
        pass


class _Inline:
    """The client's loop is the simulation's own."""

    alive = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[..., object], *args: object) -> bool:
        self._loop.call_soon(function, *args)
        return True

    def stop(self, wait_s: float = 0.0) -> None:
        pass


@dataclass
class Report:
    violations: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    outages: int = 0
    cancelled: int = 0
    probes: int = 0
    seconds: float = 0.0


class _Provider:
    name = "compatible"
    model = "m"

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant

    def request(self, question: Question, key: str) -> HttpRequest:
        return HttpRequest(f"http://provider/{self._tenant}", (("authorization", key),), b"{}")

    def answer(self, question: Question, reply: HttpReply) -> Answer:
        if reply.status == 429:
            return NoAnswer(NoAnswerReason.RATE_LIMITED, float(reply.headers.get("retry-after", "0")) or None)
        if reply.status >= 500:
            return NoAnswer(NoAnswerReason.SERVER_ERROR)
        if reply.status >= 400:
            return NoAnswer(NoAnswerReason.CLIENT_ERROR)
        said = ModelText(f'{{"verdict": "safe", "nonce": "{NONCE}"}}')
        return said if reply.body == b"good" else NoAnswer(NoAnswerReason.MALFORMED_REPLY)


class _Threads:
    """A worker pool whose threads take virtual time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random, takes_s: Sequence[float]) -> None:
        self._loop, self._dice, self._takes_s = loop, dice, takes_s

    def submit(self, work: Callable[[], object], client: str = "") -> Future[Callable[[], object]]:
        future: Future[Callable[[], object]] = Future()

        def end() -> None:
            if future.set_running_or_notify_cancel():
                future.set_result(run_job(work))

        self._loop.call_later(self._dice.choice(self._takes_s), end)
        return future

    async def run_async(self, work: Callable[[], object], client: str = "") -> object:
        return (await asyncio.wrap_future(self.submit(work, client)))()


class _Key:
    def key(self, tenant: str) -> str:
        return "key"


class _Adapter(RemoteAdapter):
    """An adapter that finds nothing in any text."""

    def __init__(self, client: Client, tenant: str, loop: VirtualLoop, threads: _Threads) -> None:
        super().__init__(_Provider(tenant), client, _Key(), scanner=few_rules(), metrics=Metrics())
        self._clock = loop.time
        self._threads = self._fetching = cast(Any, threads)

    def _read_steps(self, payload: Any, seen: Any, driver: Any) -> Any:
        def work() -> RulesView:
            seen.view, seen.asked = RulesView("safe"), (QUESTION, True, NONCE)
            return cast(RulesView, seen.view)

        return (yield PoolJob(self._threads, work, self._seconds_left(seen), seen.client))


@cache
def few_rules() -> Scanner:
    return Scanner(rules_from_patterns(["falcon"]))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, parts: list[bytes], gap_s: float = 0.0) -> None:
        self._parts = parts
        self._gap_s = gap_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if self._gap_s:
                await asyncio.sleep(self._gap_s)
            yield part


class Provider(httpx2.AsyncBaseTransport):
    """The providers' side: one for each tenant, well or in an outage of some kind."""

    def __init__(self, dice: random.Random, report: Report) -> None:
        self.dice = dice
        self.report = report
        self.ill: dict[str, str] = {}
        self.well_since = dict.fromkeys(TENANTS, 0.0)
        self.probing: Counter[str] = Counter()
        self.watch: Watched | None = None
        self.under_way = self.asked = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        tenant = request.url.path.strip("/")
        assert self.watch is not None
        probe = self.watch.is_open(tenant)
        await request.extensions["trace"]("http11.send_request_headers.started", {})
        self.probing[tenant] += probe
        if self.probing[tenant] > 1:
            self.report.violations.append(f"{self.probing[tenant]} probes at the provider of {tenant!r}")
        self.under_way += 1
        self.asked += 1
        try:
            return await self._reply(self.ill.get(tenant, "well"))
        finally:
            self.under_way -= 1
            self.probing[tenant] -= probe

    async def _reply(self, state: str) -> httpx2.Response:
        await asyncio.sleep(self.dice.choice([0.0, 0.01, 0.2, 0.5]))
        if state == "flaky":  # some fail at once while others, asked before them, are still going to succeed
            state = self.dice.choice(["refused", "5xx", "late"])
        if state == "late":
            await asyncio.sleep(0.35)
        if state == "hang":
            await asyncio.sleep(3_600)
        if state == "slow":
            await asyncio.sleep(self.dice.uniform(0.5, 2.0))
        if state == "refused":
            raise httpx2.ConnectError("refused")
        if state == "reset":
            raise httpx2.ReadError("reset")
        if state == "5xx":
            return httpx2.Response(503, stream=_Body([b""]))
        if state == "limited":
            after = self.dice.choice(["0", "0.5", str(RETRY_AFTER_S), "-3"])
            return httpx2.Response(429, headers={"retry-after": after}, stream=_Body([b""]))
        if state == "unauthorized":
            return httpx2.Response(401, stream=_Body([b""]))
        if state == "drip":
            return httpx2.Response(200, stream=_Body([b"x"] * 1_000, gap_s=0.3))
        if state == "endless":
            return httpx2.Response(200, stream=_Body([b"x" * 8_192] * 100))
        if state == "garbage":
            return httpx2.Response(200, stream=_Body([b"<html>"]))
        return httpx2.Response(200, stream=_Body([b"go", b"od"], gap_s=self.dice.choice([0.0, 0.05])))


ILLNESSES = "hang slow refused reset 5xx limited unauthorized drip endless garbage flaky".split()


class Watched(Circuits):
    """The circuits, and a second pair of eyes on every ticket."""

    def __init__(self, limits: CircuitLimits, report: Report) -> None:
        super().__init__(limits)
        self.report = report
        self.out: Counter[tuple[Hashable, Ticket]] = Counter()
        self.probe_began: dict[Hashable, float] = {}
        self.keys = {
            client_module._hashed_id("compatible", "m", f"http://provider/{tenant}", "key"): tenant
            for tenant in TENANTS
        }
        self.by_tenant = {tenant: key for key, tenant in self.keys.items()}

    def is_open(self, tenant: str) -> bool:
        return self.get(self.by_tenant[tenant]).open_until is not None

    def is_probed(self, tenant: str, now: float) -> bool:
        """Whether a probe is under way that still has its time."""
        key = self.by_tenant[tenant]
        is_out = any(held.probe for other, held in self.out if other == key)
        return is_out and now - self.probe_began[key] <= TIMEOUT_S + GRACE_S

    def admit(self, key: Hashable, now: float) -> Ticket | None:
        before = self.get(key)
        ticket = super().admit(key, now)
        if ticket is not None:
            self.out[key, ticket] += 1
            if before.open_until is not None and now < before.open_until:
                self.report.violations.append("a question was let through an open circuit")
            if ticket.probe:
                self.report.probes += 1
                self.probe_began[key] = now
                if sum(count for (other, held), count in self.out.items() if other == key and held.probe) > 1:
                    self.report.violations.append("two probes are out")
        return ticket

    def settle(self, key: Hashable, ticket: Ticket, result: CallResult, now: float, *, hold_s: float = 0.0) -> None:
        before = self.get(key)
        super().settle(key, ticket, result, now, hold_s=hold_s)
        self.out[key, ticket] -= 1
        if not self.out[key, ticket]:
            del self.out[key, ticket]
        closed_it = before.open_until is not None and self.get(key).open_until is None
        if closed_it and not (ticket.probe and ticket.generation == before.generation and result is CallResult.SUCCESS):
            self.report.violations.append("a circuit was closed by something else than its probe")


def simulate(seed: int, seconds: float) -> Report:
    """One history. An empty list of violations is what it is all about."""
    dice = random.Random(seed)
    report = Report(seconds=seconds)
    loop = VirtualLoop()
    try:
        loop.run_until_complete(_history(loop, dice, report))
    finally:
        loop.close()
    return report


async def _history(loop: VirtualLoop, dice: random.Random, report: Report) -> None:
    server = Provider(dice, report)
    client = Client(
        timeout_ms=int(TIMEOUT_S * 1000),
        max_retries=dice.choice([0, 1, 1, 2]),
        circuit_open_s=OPEN_S,
        in_flight=24,
        transport=lambda: server,
        background=cast(Any, lambda ending, ended: _Inline(loop)),
        clock=loop.time,
        chance=dice.random,
    )
    dispatcher = client._dispatcher
    dispatcher.circuits = server.watch = Watched(dispatcher.circuits.limits, report)
    end = loop.time() + report.seconds
    rate_s = dice.choice([0.5, 1.0, 2.0])
    impatience = dice.choice([0.1, 0.3, 0.5])
    ask, slow = _asked(loop, dice, client)
    weather = asyncio.create_task(_weather(loop, dice, server, report, end))
    callers: set[asyncio.Task[None]] = set()
    while loop.time() < end:
        tenant = dice.choice(TENANTS)
        for _ in range(20 if dice.random() < 0.03 else 1):
            caller = asyncio.create_task(_call(loop, ask, server, tenant, report, slow=slow))
            callers.add(caller)
            caller.add_done_callback(callers.discard)
            if dice.random() < impatience:
                # At once, before anything has started, or at any moment of the call, or just around its deadline.
                around = TIMEOUT_S + dice.uniform(-0.01, GRACE_S)
                after = dice.choice([0.0, 0.0, dice.uniform(0, 0.5), dice.uniform(0, TIMEOUT_S), TIMEOUT_S, around])
                loop.call_later(after, caller.cancel)
        await asyncio.sleep(dice.expovariate(1 / rate_s))
    await asyncio.gather(*callers, return_exceptions=True)
    weather.cancel()
    await asyncio.sleep(5)  # what was taken back has ended by now
    left = len(dispatcher._loop.questions) if dispatcher._loop is not None else 0
    if left or server.under_way or dispatcher.circuits.out:  # type: ignore[attr-defined]
        report.violations.append(f"left behind: {left} questions, {server.under_way} requests, or a ticket")
    if len(asyncio.all_tasks()) > 2:
        report.violations.append("left behind: tasks")


async def _weather(loop: VirtualLoop, dice: random.Random, server: Provider, report: Report, end: float) -> None:
    while loop.time() < end:
        await asyncio.sleep(dice.expovariate(1 / 30))
        tenants = dice.sample(TENANTS, dice.choice([1, 2, len(TENANTS)]))
        for tenant in tenants:
            server.ill[tenant] = dice.choice(ILLNESSES)
        report.outages += len(tenants)
        await asyncio.sleep(dice.choice([0.1, 10.0, 30.0, 60.0]))
        for tenant in tenants:
            server.ill.pop(tenant)
            server.well_since[tenant] = loop.time()
        if dice.random() < 0.5:
            await asyncio.sleep(RECOVERY_S + 20)


def _asked(loop: VirtualLoop, dice: random.Random, client: Client) -> tuple[Ask, bool]:
    """How the callers ask, and whether they may run out of time by themselves."""

    async def directly(tenant: str) -> NoAnswerReason | None:
        outcome: Outcome = await client.ask_async(_Provider(tenant), QUESTION, "key", tenant=tenant)
        return outcome.answer.why if isinstance(outcome.answer, NoAnswer) else None

    async def through_an_adapter(tenant: str) -> NoAnswerReason | None:
        found = await each[tenant].examine_async({"prompt_text": "hello"}, tenant=tenant)
        return None if found[:3] == ("safe", "compatible", "provider") else NoAnswerReason(found.reason)

    if dice.random() < 0.5:
        return directly, False
    takes_s = dice.choice([QUICK, SLOW])
    each = {tenant: _Adapter(client, tenant, loop, _Threads(loop, dice, takes_s)) for tenant in TENANTS}
    return through_an_adapter, takes_s is SLOW


Ask = Callable[[str], Coroutine[Any, Any, NoAnswerReason | None]]


async def _call(loop: VirtualLoop, ask: Ask, server: Provider, tenant: str, report: Report, *, slow: bool) -> None:
    began = loop.time()
    try:
        why = await ask(tenant)
    except asyncio.CancelledError:
        report.cancelled += 1
        raise
    except BaseException as error:
        report.violations.append(f"raised {error!r}")
        raise
    if loop.time() - began > TIMEOUT_S + GRACE_S + 1e-6:
        report.violations.append(f"answered after {loop.time() - began:.3f} s")
    report.answers[str(why or "answer")] += 1
    if why is NoAnswerReason.INTERNAL:
        report.violations.append("an internal error")
    recovered = tenant not in server.ill and began - server.well_since[tenant] > RECOVERY_S
    # A text that took too long is its sender's misfortune, and must not be held against the provider. Where all texts
    # and keys may take too long, the first caller with time to ask can come late: the others wait for its probe.
    assert server.watch is not None
    awaits_probe = why is NoAnswerReason.CIRCUIT_OPEN and server.watch.is_probed(tenant, loop.time())
    excused = slow and (why is NoAnswerReason.DEADLINE or awaits_probe)
    if recovered and why not in (None, NoAnswerReason.BUSY) and not excused:
        report.violations.append(f"still {why} {began - server.well_since[tenant]:.0f} s after the provider was well")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "lockgate.verifier")


def test_outages_and_cancelled_callers_never_wedge_the_client() -> None:
    # So many seeds find every broken breaker below; `make soak` goes on from there.
    total = Report()
    for seed in range(SEEDS):
        report = simulate(seed, seconds=SECONDS)
        assert report.violations == [], f"seed {seed}"
        total = replace(
            total,
            outages=total.outages + report.outages,
            cancelled=total.cancelled + report.cancelled,
            probes=total.probes + report.probes,
        )
        total.answers.update(report.answers)
    # Without these it would have shown nothing.
    assert total.outages > 50
    assert total.cancelled > 400
    assert total.probes > 50
    seen = {
        NoAnswerReason.CIRCUIT_OPEN,
        NoAnswerReason.BUSY,
        NoAnswerReason.DEADLINE,
        NoAnswerReason.NETWORK,
        NoAnswerReason.SERVER_ERROR,
        NoAnswerReason.RATE_LIMITED,
    }
    assert {"answer", *seen} <= set(total.answers)


def test_a_seed_gives_the_same_history_every_time() -> None:
    for seed in range(6):
        assert simulate(seed, seconds=60) == simulate(seed, seconds=60)


def test_a_circuit_that_no_caller_had_time_to_probe_is_not_stuck() -> None:
    """In this history all callers of 118 s were cancelled or late by themselves; the next one probed and closed it."""
    assert simulate(1_000_651, seconds=SECONDS).violations == []


@pytest.mark.parametrize(("key_s", "asked"), [(0.0, 5), (0.08, 5), (0.6, 5), (0.9, 40), (2.0, 0)])
def test_a_provider_that_hangs_is_left_alone_however_long_keys_take(key_s: float, asked: int) -> None:
    """Unless it never had a fair time to answer in."""

    async def history() -> None:
        server = Provider(random.Random(0), Report())
        server.ill[""] = "hang"
        client = Client(
            timeout_ms=int(TIMEOUT_S * 1000),
            circuit_open_s=1_000,
            transport=lambda: server,
            background=cast(Any, lambda ending, ended: _Inline(loop)),
            clock=loop.time,
        )
        client._dispatcher.circuits = server.watch = Watched(client._dispatcher.circuits.limits, server.report)
        adapter = _Adapter(client, "", loop, _Threads(loop, random.Random(0), (key_s / 2,)))
        sent = 0
        for _ in range(40):
            before = loop.time()
            found = await adapter.examine_async({"prompt_text": "hello"})
            assert found.reason in ("deadline", "circuit-open")
            assert loop.time() - before <= TIMEOUT_S + GRACE_S + 1e-6
            sent += found.reason == "deadline"
        assert sent == (asked or 40)
        assert server.asked == asked

    loop = VirtualLoop()
    try:
        loop.run_until_complete(history())
    finally:
        loop.close()


# --- the simulation finds what it is there to find


def _keeps_a_cancelled_probe(circuit: Circuit, ticket: Ticket, result: CallResult, *rest: Any, **hold: Any) -> Circuit:
    if ticket.probe and result is CallResult.NEUTRAL:
        return circuit
    return _settle(circuit, ticket, result, *rest, **hold)


def _closes_on_any_success(circuit: Circuit, ticket: Ticket, result: CallResult, *rest: Any, **hold: Any) -> Circuit:
    return Circuit() if result is CallResult.SUCCESS else _settle(circuit, ticket, result, *rest, **hold)


def _lets_all_probe(circuit: Circuit, now: float, limits: CircuitLimits) -> tuple[Circuit, Ticket | None]:
    return _admit(replace(circuit, probe_until=None), now, limits)


def _has_endless_leases(circuit: Circuit, now: float, limits: CircuitLimits) -> tuple[Circuit, Ticket | None]:
    return _admit(circuit, now, limits._replace(lease_s=1e9))


_settle, _admit = breaker.settle, breaker.admit
_refuses = breaker.is_refusing


@contextmanager
def _broken(**parts: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, part in parts.items():
            patch.setattr(breaker, name, part)
        yield


@pytest.mark.parametrize(
    "parts",
    [
        {"settle": _keeps_a_cancelled_probe, "admit": _has_endless_leases},
        {"settle": _closes_on_any_success},
        {"admit": _lets_all_probe, "is_refusing": lambda c, now: _refuses(replace(c, probe_until=None), now)},
    ],
    ids=["stuck half open", "stale success", "many probes"],
)
def test_the_simulation_finds_a_broken_breaker(parts: dict[str, Any]) -> None:
    with _broken(**parts):
        assert any(simulate(seed, seconds=SECONDS).violations for seed in range(SEEDS))


def test_the_simulation_finds_a_lost_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Watched, key: Hashable, ticket: Ticket, result: CallResult, now: float, **hold: float) -> None:
        if result is not CallResult.NEUTRAL:
            honest(self, key, ticket, result, now, **hold)

    honest = Watched.settle
    monkeypatch.setattr(Watched, "settle", forgetful)
    assert any(simulate(seed, seconds=120).violations for seed in range(10))
