"""Twenty-three ways in which an abuse gate was seen to fail, and how this one does not.

The gate that they were found in is another project's, written to the same contract. Each test here does what was done
there, and is named for the fault. `FAULTS` says what was seen; a test at the end holds it against the tests there are.
"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from asgi import ATTACK, HARMLESS, SECRET, Clock, Handler, chat, gated, ladder, no_wait, post, scope

from lockgate import assemble
from lockgate.abuse_gate import middleware as abuse_gate
from lockgate.abuse_gate.identity import Identity
from lockgate.abuse_gate.middleware import AbuseGateMiddleware, Request
from lockgate.abuse_gate.shared_strikes import Ladder
from lockgate.core.requests.strikes import LadderSettings, incident_id
from lockgate.core.ruling.policy import Policy
from lockgate.gate.gate import shared_scanner
from lockgate.runtime.circuit_breaker import CallResult, Circuit, CircuitLimits, admit, is_refusing, settle
from lockgate.runtime.metrics import Metrics
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.settings.verifiers import verifier_settings_from_env
from lockgate.testing import LoopbackProvider

FAULTS = {
    0: "the middleware is wired nowhere, and every adapter turns out to be the local rules",
    1: "unsafe requests 1 to 4 reach the handler, with a header that says deny",
    2: "a new X-Forwarded-For for each request is a new client each time",
    3: "a random X-API-Key for each request is a new client each time",
    4: "a forged X-Forwarded-For locks another client out",
    5: "chats, lists, nested parts, forms, UTF-16, GET, equal keys, zero-width letters are not read",
    6: "an organisation called x and a session called x are one client",
    7: "Retry-After is 0 in the last second",
    8: "a clock that is put back a day makes a ban last 30 hours",
    9: "a banned client's 30 MB are read first, and what is known of clients never shrinks",
    10: "execute_locked has no effect",
    11: "incident ids of 24 bits: 9 of 20,000 are the same",
    12: "an adapter that waits holds up the loop: five calls of a second take five",
    13: "a budget of 2 s takes 6",
    14: "of 50 calls after an outage 50 are the single trial",
    15: "a failed trial needs five more to open the circuit again",
    16: "the key of the cache of verdicts differs in each process",
    17: "the same key collides: a cached `safe` is served for another text",
    18: "a timeout, an error, an open circuit: allow",
    19: "a model's words get into a header: 500, or a dropped connection",
    20: "only Content-Length is looked at: 13 MB in chunks pass a limit of 1,000 bytes",
    21: "the limiter is made anew for each request, and clients without a name are not limited",
    22: "blocking calls on the loop, a public pepper, the User-Agent as identity",
}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
JSON = (b"content-type", b"application/json")


def remote(url: str, **more: str) -> Any:
    environ = {
        "VERIFIER_ADAPTER": "compatible",
        "VERIFIER_MODEL": "m",
        "VERIFIER_BASE_URL": url,
        "VERIFIER_MAX_RETRIES": "0",
        **more,
    }
    return assemble.adapter_from_settings(verifier_settings_from_env(environ), shared_scanner(Policy()))


def test_b0_the_gate_is_wired_by_one_line_and_asks_whom_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    monkeypatch.chdir(tmp_path)
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "c"), ("XDG_CACHE_HOME", "k"), ("XDG_STATE_HOME", "s")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    with LoopbackProvider(say="unsafe") as provider:
        for name, value in {
            "VERIFIER_ADAPTER": "compatible",
            "VERIFIER_MODEL": "m",
            "VERIFIER_BASE_URL": provider.url,
            "VERIFIER_TIMEOUT_MS": "20000",
        }.items():
            monkeypatch.setenv(name, value)
        app = Starlette(routes=[Route("/chat", lambda _: PlainTextResponse("reached"), methods=["POST"])])
        app.add_middleware(AbuseGateMiddleware)  # type: ignore[arg-type]
        reply = asyncio.run(post(app, chat(HARMLESS), path="/chat"))
        # The rules find nothing in it: only the model says so.
        assert (reply.status, reply.decision) == (403, "deny")
        assert len(provider.requests) == 1


def test_b1_no_unsafe_request_reaches_the_handler() -> None:
    handler = Handler()
    gate = gated(handler)

    async def run() -> None:
        for _ in range(8):
            reply = await post(gate, chat(ATTACK), user="eve")
            assert (reply.status, reply.decision) in {(403, "deny"), (429, "deny")}

    asyncio.run(run())
    assert handler.bodies == []


def test_b2_a_forwarded_address_of_its_own_making_gives_a_client_no_new_start() -> None:
    gate = gated(Handler())

    async def run() -> None:
        replies = [
            await post(gate, chat(ATTACK), headers=[JSON, (b"x-forwarded-for", b"203.0.113.%d" % number)])
            for number in range(50)
        ]
        assert all(reply.status == 403 for reply in replies)
        assert {reply.mode for reply in replies[5:]} == {"slowed"}

    asyncio.run(run())


def test_b3_a_random_key_gives_a_client_no_new_start() -> None:
    gate = gated(Handler())

    async def run() -> None:
        replies = [
            await post(gate, chat(ATTACK), user="eve", headers=[JSON, (b"x-api-key", b"key-%d" % number)])
            for number in range(50)
        ]
        assert [reply.status for reply in replies] == [403] * 5 + [429] * 45

    asyncio.run(run())


def test_b4_a_forged_address_locks_no_other_client_out() -> None:
    gate = gated(Handler())
    victim = ("203.0.113.9", 1)

    async def run() -> None:
        for _ in range(50):
            forged = [JSON, (b"x-forwarded-for", b"203.0.113.9"), (b"forwarded", b"for=203.0.113.9")]
            await post(gate, chat(ATTACK), headers=[*forged, (b"x-real-ip", b"203.0.113.9")])
        reply = await post(gate, chat(HARMLESS, **TOOLS), client=victim)
        assert (reply.status, reply.decision, reply.mode) == (200, "allow", "")

    asyncio.run(run())


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


FORM = b"application/x-www-form-urlencoded"
SHAPES: dict[str, tuple[bytes, bytes, bytes]] = {
    "messages": (_encoded({"messages": [{"role": "user", "content": ATTACK}]}), b"application/json", b""),
    "list": (_encoded([{"prompt": "a"}, {"prompt": ATTACK}]), b"application/json", b""),
    "list-of-prompts": (_encoded({"prompt": ["a", ATTACK]}), b"application/json", b""),
    "nested": (_encoded({"a": {"b": [{"c": {"d": ATTACK}}]}}), b"application/json", b""),
    "content-parts": (
        _encoded({"messages": [{"role": "user", "content": [{"type": "text", "text": ATTACK}]}]}),
        b"application/json",
        b"",
    ),
    "unknown-key": (_encoded({"frobnicate": ATTACK}), b"application/json", b""),
    "as-a-key": (_encoded({ATTACK: 1}), b"application/json", b""),
    "form": (b"prompt=" + ATTACK.replace(" ", "+").encode(), FORM, b""),
    "multipart": (
        b'--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n' + ATTACK.encode() + b"\r\n--x--\r\n",
        b"multipart/form-data; boundary=x",
        b"",
    ),
    "utf-16": (_encoded({"prompt": ATTACK}).decode().encode("utf-16"), b"application/json", b""),
    "plain-text": (ATTACK.encode(), b"text/plain", b""),
    "no-type": (_encoded({"prompt": ATTACK}), b"", b""),
    "query": (b"", b"", b"q=" + ATTACK.replace(" ", "%20").encode()),
    "equal-keys": (b'{"prompt": "hello", "prompt": ' + _encoded(ATTACK) + b"}", b"application/json", b""),
    "deep": (b"[" * 5000 + _encoded(ATTACK) + b"]" * 5000, b"application/json", b""),
    "blank-prompt": (_encoded({"prompt": "", "input": ATTACK}), b"application/json", b""),
    "zero-width": (_encoded({"prompt": ATTACK.replace("o", "o\u200b")}), b"application/json", b""),
    "two-spaces": (_encoded({"prompt": ATTACK.replace(" ", "  ")}), b"application/json", b""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_b5_an_attack_is_read_in_whatever_shape_it_comes(shape: str) -> None:
    body, kind, query = SHAPES[shape]
    handler = Handler()
    headers = [(b"content-type", kind)] if kind else []
    reply = asyncio.run(post(gated(handler), body, headers=headers, query=query, method="POST" if body else "GET"))
    assert reply.status == (400 if shape in ("equal-keys", "deep") else 403)
    assert handler.bodies == []


def test_b6_what_is_called_alike_is_not_the_same_client() -> None:
    identity = Identity(SECRET)
    named = identity.subjects(scope(user="198.51.100.7"))
    assert len({subject.key for subject in named}) == 2
    assert {subject.kind for subject in named} == {"principal", "network"}
    assert identity.subjects(scope())[0] == named[1]


def quarantined(clock: Clock, **parts: Any) -> AbuseGateMiddleware:
    settings = ladder(tier1_threshold=1, tier1_mode="full_quarantine", tier1_cooldown_s=100)
    gate = gated(Handler(), settings=settings, clock=clock, **parts)
    asyncio.run(post(gate, chat(ATTACK), user="eve"))
    return gate


def test_b7_retry_after_is_never_zero() -> None:
    clock = Clock()
    gate = quarantined(clock)
    for left in (100.0, 1.0, 0.5, 0.001):
        clock.now = 1100.0 - left
        reply = asyncio.run(post(gate, chat(HARMLESS), user="eve"))
        assert reply.status == 429
        assert max(1, left) <= int(reply.headers["retry-after"]) <= max(1, left * 1.1 + 1)


def test_b8_a_wall_clock_that_is_put_back_changes_no_ban() -> None:
    settings = LadderSettings(tier1_threshold=1, tier1_mode="full_quarantine", tier1_cooldown_s=100)  # type: ignore[arg-type]
    clock, wall = Clock(), Clock()
    gate = quarantined(clock, ladder=Ladder(settings, clock=clock, wall=wall, sleep=no_wait))
    wall.now -= 86_400
    clock.now += 50
    reply = asyncio.run(post(gate, chat(HARMLESS), user="eve"))
    assert 50 <= int(reply.headers["retry-after"]) <= 55
    clock.now += 51
    assert asyncio.run(post(gate, chat(HARMLESS), user="eve")).status == 200


def test_b9_nothing_of_a_banned_client_is_read_and_what_is_known_is_bounded() -> None:
    gate = quarantined(Clock())
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(gate(scope(user="eve", headers=[JSON, (b"content-length", b"31457280")]), receive, send))
    assert (sent[0]["status"], read) == (429, 0)

    async def many() -> None:
        small = gated(Handler(), settings=ladder(max_subjects=100), fetch=unsafe)
        for number in range(600):
            about: dict[str, Any] = {"user": f"user-{number}", "client": (f"10.0.{number // 256}.{number % 256}", 1)}
            await post(small, b"{}", **about)
        assert len(small._ladder._table) <= 200

    asyncio.run(many())


async def unsafe(_: Request) -> str:
    return "unsafe"


def test_b10_a_locked_client_gets_no_tools() -> None:
    handler = Handler()
    gate = gated(handler)

    async def run() -> None:
        for _ in range(3):
            await post(gate, chat(ATTACK), user="eve")
        for offered in (TOOLS, {"functions": [{"name": "f"}]}, {"tool_choice": "auto", **TOOLS}):
            reply = await post(gate, chat(HARMLESS, **offered), user="eve")
            assert (reply.status, reply.code, reply.mode) == (403, "tools-locked", "execute_locked")

    asyncio.run(run())
    assert handler.bodies == []


def test_b11_no_two_incidents_have_one_id() -> None:
    ids = {abuse_gate._new_incident_id() for _ in range(20_000)}
    assert len(ids) == 20_000
    # Not by time: in one and the same millisecond only the random part tells them apart.
    from os import urandom

    assert len({incident_id(1, urandom(10)) for _ in range(20_000)}) == 20_000


def test_b12_adapters_that_wait_do_so_at_the_same_time() -> None:
    together = threading.Barrier(6, timeout=20)

    class Slow:
        def assess(self, _: object) -> str:
            together.wait()  # none goes on before all five are here
            return "safe"

    gate = gated(Handler(), adapter=Slow(), settings=AbuseSettings(verdict_timeout_s=20))

    async def run() -> list[str]:
        asked = [asyncio.ensure_future(post(gate, chat(HARMLESS))) for _ in range(5)]
        await asyncio.to_thread(together.wait)
        return [(await each).decision for each in asked]

    assert asyncio.run(run()) == ["allow"] * 5


def test_b13_the_budget_is_the_whole_of_it_retries_included() -> None:
    with LoopbackProvider(fault="hang") as provider:
        adapter = remote(provider.url, VERIFIER_TIMEOUT_MS="500", VERIFIER_MAX_RETRIES="5")

        async def run() -> float:
            began = asyncio.get_running_loop().time()
            reply = await post(gated(Handler(), adapter=adapter), chat(HARMLESS))
            assert reply.decision == "unclear"
            return asyncio.get_running_loop().time() - began

        # Six tries of half a second each would be three.
        assert asyncio.run(run()) < 2.5
        adapter.close()


def opened() -> tuple[Circuit, CircuitLimits]:
    limits, circuit = CircuitLimits(), Circuit()
    for _ in range(limits.failures):
        circuit, ticket = admit(circuit, 0.0, limits)
        assert ticket is not None
        circuit = settle(circuit, ticket, CallResult.FAILURE, 0.0, limits)
    assert is_refusing(circuit, 1.0)
    return circuit, limits


def test_b14_after_an_outage_one_call_tries() -> None:
    circuit, limits = opened()
    tried = 0
    for _ in range(50):
        circuit, ticket = admit(circuit, limits.open_s + 1, limits)
        tried += ticket is not None
    assert tried == 1


def test_b15_one_failed_trial_opens_the_circuit_again() -> None:
    circuit, limits = opened()
    now = limits.open_s + 1
    circuit, ticket = admit(circuit, now, limits)
    assert ticket is not None
    circuit = settle(circuit, ticket, CallResult.FAILURE, now, limits)
    assert is_refusing(circuit, now + 1)
    assert admit(circuit, now + 1, limits)[1] is None


def counted() -> tuple[list[str], Any]:
    asked: list[str] = []

    async def fetch(request: Request) -> str:
        asked.append(request.payload["prompt_text"])
        return "unsafe" if "bad" in asked[-1] else "safe"

    return asked, fetch


def test_b16_no_verdict_is_kept_for_later() -> None:
    asked, fetch = counted()
    gate = gated(Handler(), fetch=fetch)
    for _ in range(3):
        assert asyncio.run(post(gate, chat(HARMLESS))).decision == "allow"
    assert len(asked) == 3


def test_b17_no_text_gets_the_verdict_of_another() -> None:
    asked, fetch = counted()
    gate = gated(Handler(), fetch=fetch)

    async def run() -> None:
        texts = [f"{'bad' if number % 2 else 'good'} {number}" for number in range(200)]
        replies = await asyncio.gather(
            *(post(gate, chat(text), user=f"user-{number}") for number, text in enumerate(texts))
        )
        assert [reply.status for reply in replies] == [200, 403] * 100

    asyncio.run(run())
    assert len(asked) == 200


@pytest.mark.parametrize(("fault", "times"), [("hang", 1), ("status-500", 1), ("refused", 1), ("status-503", 7)])
def test_b18_no_answer_is_never_an_approval(fault: str, times: int) -> None:
    """The last one often enough to open the circuit."""
    with LoopbackProvider(fault=fault) as provider:
        adapter = remote(provider.url, VERIFIER_TIMEOUT_MS="400")
        handler = Handler()
        gate = gated(handler, adapter=adapter, settings=AbuseSettings(on_unclear="block"))
        for _ in range(times):
            reply = asyncio.run(post(gate, chat(HARMLESS)))
            assert (reply.status, reply.code) == (403, "unclear")
        assert handler.bodies == []
        # By default the API stays up, and says that the request is unclear.
        open_gate = gated(handler, adapter=adapter)
        assert asyncio.run(post(open_gate, chat(HARMLESS))).decision == "unclear"
        # What the rules call unsafe stays unsafe, whatever is down.
        assert asyncio.run(post(open_gate, chat(ATTACK))).status == 403
        adapter.close()


def test_b19_a_model_s_words_get_into_no_header() -> None:
    for said in ("“no”", "no\r\nX-Evil: 1", "é", "x" * 10_000):
        with LoopbackProvider(say=said) as provider:
            adapter = remote(provider.url, VERIFIER_TIMEOUT_MS="20000")
            reply = asyncio.run(post(gated(Handler(), adapter=adapter), chat(HARMLESS)))
            assert (reply.status, reply.decision) == (200, "unclear")
            assert set(reply.headers) == {"x-app", "x-guardrail-decision"}
            adapter.close()


def test_b20_a_limit_holds_however_the_body_comes() -> None:
    handler = Handler()
    gate = gated(handler, settings=AbuseSettings(max_body_bytes=1024))
    about: dict[str, Any]
    for about in (
        {},
        {"headers": [JSON, (b"content-length", b"10")]},
        {"headers": [(b"transfer-encoding", b"chunked")]},
    ):
        reply = asyncio.run(post(gate, b"x" * 13_000_000, chunk=65_536, **about))
        assert (reply.status, reply.code) == (413, "body-too-large")
    assert handler.bodies == []


def test_b21_there_is_one_ladder_and_no_client_is_outside_it() -> None:
    metrics = Metrics()
    gate = gated(Handler(), fetch=unsafe, metrics=metrics)
    first = gate._ladder

    async def run() -> None:
        replies = [await post(gate, b"{}", client=None) for _ in range(8)]
        assert {reply.status for reply in replies} == {403}
        assert replies[-1].mode == "slowed"
        for number in range(500):
            await post(gate, b"{}", user=f"user-{number}", client=(f"10.1.{number % 250}.1", 1))

    asyncio.run(run())
    assert gate._ladder is first
    assert len(list(metrics.gated.samples())) <= 12


def test_b22_nothing_blocks_the_loop_and_no_secret_is_public() -> None:
    released = threading.Event()

    class Stuck:
        """A journal on a disk that hangs."""

        def enqueue(self, records: Any, *, durable: bool) -> Any:
            released.wait(20)
            raise OSError

    gate = gated(Handler(), journal=Stuck(), settings=AbuseSettings(verdict_timeout_s=20))
    free = gated(Handler())

    async def run() -> None:
        stuck = asyncio.ensure_future(post(gate, chat(HARMLESS)))
        assert [(await post(free, chat(HARMLESS))).decision for _ in range(5)] == ["allow"] * 5
        assert not stuck.done()
        released.set()
        assert (await stuck).decision == "unclear"

    asyncio.run(run())
    # Every process makes a secret of its own where none is set.
    gates = [gated(Handler(), identity=None) for _ in range(2)]
    assert gates[0]._identity.subjects(scope()) != gates[1]._identity.subjects(scope())
    identity = Identity(SECRET)
    agents = [scope(headers=[(b"user-agent", name)]) for name in (b"a", b"b")]
    assert identity.subjects(agents[0]) == identity.subjects(agents[1])


def test_every_fault_has_its_test() -> None:
    numbers = {int(name.split("_")[1][1:]) for name in globals() if name.startswith("test_b")}
    assert numbers == set(FAULTS) == set(range(23))
