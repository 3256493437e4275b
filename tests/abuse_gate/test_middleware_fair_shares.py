"""What one network may take of what all share: memory, turns and connections; and what each request may cost."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgi import HANG, HARMLESS, SECRET, Handler, call, chat, gated, post, scope

from lockgate.abuse_gate import body_pool
from lockgate.abuse_gate.proxy.gateway_callouts import HeaderIdentity, allow_all
from lockgate.abuse_gate.proxy.reverse_proxy import ReverseProxy, parse_upstream
from lockgate.abuse_gate.proxy.server import make_server, with_health_check
from lockgate.abuse_gate.request.json_body import MAX_CONTAINERS, MAX_DOCUMENTS
from lockgate.abuse_gate.request.payload_from_body import NormalizedRequest, RefusedRequest, normalize
from lockgate.runtime.worker_pool import Full, WorkerPool
from lockgate.settings.abuse_gate import AbuseSettings

LIMIT_S = 30.0


def half_sent(size: int) -> list[dict[str, Any]]:
    return [{"type": "http.request", "body": b"x" * size, "more_body": True}, HANG]


# --- memory


async def until(gate: Any, held: int) -> None:
    """A few turns of the loop, until so much is held."""
    for _ in range(1000):
        if gate._bodies.held >= held:
            return
        await asyncio.sleep(0)
    raise AssertionError


def test_bodies_that_are_held_back_make_room_for_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 10_000)
    gate = gated(Handler(), settings=AbuseSettings(read_idle_s=60, read_total_s=60))

    async def run() -> None:
        held = [asyncio.ensure_future(call(gate, scope(client=(f"192.0.2.{n}", 1)), half_sent(900))) for n in range(10)]
        await until(gate, 9 * 900)
        innocent = [await post(gate, chat(HARMLESS + " word" * 99), client=(f"203.0.113.{n}", 1)) for n in range(20)]
        assert {each.status for each in innocent} == {200}
        done, waiting = await asyncio.wait(held, timeout=0)
        assert {each.result().code for each in done} == {"busy"}
        assert waiting
        for each in waiting:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    asyncio.run(run())
    assert gate._bodies.held == 0
    assert not gate._bodies._by_network
    assert not gate._bodies._unfinished


def test_behind_one_address_a_small_body_goes_before_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 10_000)
    gate = gated(Handler(), settings=AbuseSettings(read_idle_s=60, read_total_s=60))

    async def run() -> None:
        held = [asyncio.ensure_future(call(gate, scope(), half_sent(2_450))) for _ in range(2)]
        await until(gate, 4_900)
        assert (await post(gate, chat(HARMLESS + " word" * 100))).status == 200
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    asyncio.run(run())


def test_where_those_who_hold_most_cannot_give_way_the_next_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 100_000)
    asked = asyncio.Event()

    async def fetch(_: object) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "safe"

    gate = gated(Handler(), fetch=fetch, settings=AbuseSettings(verdict_timeout_s=60, read_idle_s=60, read_total_s=60))
    quick = gated(Handler())
    quick._bodies = gate._bodies

    async def run() -> None:
        whole = chat("word " * 9_000)
        held = [asyncio.ensure_future(post(gate, whole, client=("192.0.2.1", 1)))]
        await asked.wait()
        for n in range(20):
            coming = asyncio.ensure_future(call(gate, scope(client=(f"192.0.2.{2 + n % 5}", 1)), half_sent(9_000)))
            held.append(coming)
            await asyncio.sleep(0.001)
        innocent = [
            await post(quick, chat("word " * 1_500), client=(f"203.0.113.{n}", 1), user=f"u{n}") for n in range(8)
        ]
        assert [each.status for each in innocent] == [200] * 8
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    asyncio.run(run())
    assert (gate._bodies.held, gate._bodies._by_network, gate._bodies._by_customer) == (0, {}, {})


def test_all_networks_of_one_customer_have_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 64_000)
    gate = gated(Handler(), settings=AbuseSettings(read_idle_s=60, read_total_s=60))

    async def run() -> None:
        held = [
            asyncio.ensure_future(call(gate, scope(client=(f"2001:db8:7:{n:x}::1", 1)), half_sent(1_000)))
            for n in range(64)
        ]
        await until(gate, 32_000)
        await asyncio.sleep(0)
        assert gate._bodies.held == 32_000
        assert len(gate._bodies._by_network) == 32
        assert len(gate._bodies._by_customer) == 1
        # A body that is larger than each of theirs.
        assert (await post(gate, chat("word " * 3_000), client=("2001:db8:8::1", 1))).status == 200
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    asyncio.run(run())


def test_a_body_that_stops_is_given_up_in_time() -> None:
    gate = gated(Handler(), settings=AbuseSettings(read_idle_s=0.1, read_total_s=60))
    reply = asyncio.run(call(gate, scope(), half_sent(10)))
    assert (reply.status, reply.code) == (408, "body-too-slow")


# --- turns


def test_names_that_are_made_up_are_no_more_turns() -> None:
    lane, go = WorkerPool(1, max_jobs=64), threading.Event()
    order: list[str] = []
    first = lane.submit(lambda: go.wait(LIMIT_S), "crowd/0")
    later = [lane.submit(lambda n=n: order.append(f"crowd/{n}"), f"crowd/{n}") for n in range(20)]
    later += [lane.submit(lambda n=n: order.append(f"other/{n}"), f"other/{n}") for n in range(2)]
    later += [lane.submit(lambda: order.append("alone"), "alone")]
    go.set()
    for future in (first, *later):
        future.result(LIMIT_S)()
    assert order[:5] == ["crowd/0", "other/0", "alone", "crowd/1", "other/1"]
    assert len(order) == 23


def test_where_there_is_no_room_the_network_with_most_gives_way_whatever_names_it_has() -> None:
    lane, go = WorkerPool(1, max_jobs=10), threading.Event()
    first = lane.submit(lambda: go.wait(LIMIT_S), "crowd/x")
    crowd = [lane.submit(lambda: None, f"crowd/{n}") for n in range(9)]
    other = lane.submit(lambda: "mine", "other/1")
    with pytest.raises(Full):
        lane.submit(lambda: None, "crowd/new")
    go.set()
    assert other.result(LIMIT_S)() == "mine"
    first.result(LIMIT_S)
    outcomes = [future.result(LIMIT_S) for future in crowd]
    refused = 0
    for outcome in outcomes:
        try:
            outcome()
        except Full:
            refused += 1
    assert refused == 1


def test_a_piece_of_work_that_is_given_up_leaves_no_place_taken() -> None:
    lane, go = WorkerPool(1, max_jobs=4), threading.Event()
    first = lane.submit(lambda: go.wait(LIMIT_S), "a/1")
    for _ in range(100):
        lane.submit(lambda: None, "b/1").cancel()
    last = lane.submit(lambda: "done", "b/2")
    go.set()
    first.result(LIMIT_S)
    assert last.result(LIMIT_S)() == "done"
    assert lane._waiting == {}


def test_an_unverified_key_takes_turns_within_its_network() -> None:
    asked: list[str] = []

    async def fetch(request: Any) -> str:
        asked.append(request.whom)
        return "safe"

    gate = gated(Handler(), fetch=fetch, identity=HeaderIdentity(SECRET, key_header="x-key"))
    json_type = (b"content-type", b"application/json")
    for key in (b"one", b"two"):
        asyncio.run(post(gate, chat(HARMLESS), headers=[json_type, (b"x-key", key)]))
    (one, first), (other, second) = (each.split("/") for each in asked)
    assert one == other
    assert first != second


def test_the_networks_of_one_customer_have_one_turn_and_each_theirs_in_it() -> None:
    asked: list[str] = []

    async def fetch(request: Any) -> str:
        asked.append(request.whom)
        return "safe"

    gate = gated(Handler(), fetch=fetch)
    for address in (
        "2001:db8:7:1::1",
        "2001:db8:7:1::2",
        "2001:db8:7:2::1",
        "2001:db8:8:1::1",
        "192.0.2.1",
        "192.0.2.2",
    ):
        asyncio.run(post(gate, chat(HARMLESS), client=(address, 1)))
    turns = [each.split("/")[0] for each in asked]
    assert asked[0] == asked[1] != asked[2]
    assert turns[0] == turns[1] == turns[2]
    assert len(set(turns)) == 4


# --- what one request may cost


@pytest.mark.parametrize(
    "body",
    [
        json.dumps([{"a": "b"}] * (MAX_CONTAINERS + 1)).encode(),
        b'{"a":[' + b",".join([b"[]"] * (MAX_CONTAINERS + 1)) + b"]}",
    ],
    ids=["objects", "lists"],
)
def test_too_many_small_objects_are_not_read(body: bytes) -> None:
    assert normalize(body, "application/json") == RefusedRequest(413, "too-many-values")


def test_brackets_in_words_are_no_objects() -> None:
    code = "{}[]" * (MAX_CONTAINERS * 2)
    assert isinstance(normalize(chat(code), "application/json"), NormalizedRequest)


def test_too_many_documents_in_one_text_are_not_read() -> None:
    lines = b'{"a":1}\n' * (MAX_DOCUMENTS + 1)
    assert normalize(lines, "application/x-ndjson") == RefusedRequest(413, "too-many-values")


# --- connections


@pytest.fixture
def listening() -> Iterator[Any]:
    running: list[Any] = []
    threads: list[threading.Thread] = []
    places: list[socket.socket] = []

    def start(app: Any, **more: Any) -> int:
        place, up = socket.create_server(("127.0.0.1", 0)), threading.Event()
        serving = make_server(with_health_check(app), ready=up.set, **more)
        thread = threading.Thread(target=serving.run, args=([place],), daemon=True)
        thread.start()
        running.append(serving)
        threads.append(thread)
        places.append(place)
        assert up.wait(LIMIT_S)
        return int(place.getsockname()[1])

    yield start
    for serving in running:
        serving.should_exit = True
    for thread in threads:
        thread.join(LIMIT_S)
    for place in places:
        place.close()


def ask(to: socket.socket, head: bytes = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n") -> bytes:
    to.sendall(head)
    heard = b""
    while b"\r\n\r\n" not in heard and (part := to.recv(65536)):
        heard += part
    return heard


def idle(port: int, address: str = "127.0.0.1") -> socket.socket:
    to = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S, source_address=(address, 0))
    try:
        assert ask(to).startswith(b"HTTP/1.1 204 ")
    except BaseException:
        to.close()
        raise
    return to


def test_one_network_has_no_more_connections_than_its_share(listening: Any) -> None:
    port = listening(allow_all, connections=100, each=3)
    held = [idle(port) for _ in range(3)]
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as refused:
        heard = b""
        while part := refused.recv(65536):
            heard += part
    assert heard.startswith(b"HTTP/1.1 503 ")
    assert b"x-guardrail-decision: deny" in heard
    assert json.loads(heard.partition(b"\r\n\r\n")[2])["error"]["code"] == "busy"
    assert ask(held[1]).startswith(b"HTTP/1.1 204 ")
    held.pop().close()
    # The server hears of the end a moment later.
    for _ in range(1000):
        try:
            held.append(idle(port))
            break
        except (AssertionError, ConnectionError):
            threading.Event().wait(0.01)
    assert len(held) == 3
    for each in held:
        each.close()


def test_the_next_network_finds_a_place_and_a_refused_client_is_told_why(listening: Any) -> None:
    port = listening(allow_all, connections=8, each=7)
    held = [idle(port) for _ in range(4)]
    # Half of them: as many as it leaves to others.
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as refused:
        # Also to a client that is still sending.
        refused.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n" + b"x" * 50_000)
        assert b"x-guardrail-decision: deny" in ask(refused, b"x" * 50_000)
    others = [idle(port, "127.0.0.2"), idle(port, "127.0.0.3"), idle(port, "127.0.0.4")]
    for each in (*held, *others):
        each.close()


def test_where_all_places_are_taken_the_answer_is_the_gates_own(listening: Any) -> None:
    port = listening(allow_all, connections=2, trusts=lambda _: True)
    held = [idle(port), idle(port)]
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as refused:
        heard = ask(refused)
    assert heard.startswith(b"HTTP/1.1 503 ")
    assert b"x-guardrail-decision: deny" in heard
    for each in held:
        each.close()


def test_a_trusted_proxy_has_no_limit_of_its_own(listening: Any) -> None:
    port = listening(allow_all, connections=100, each=1, trusts=lambda address: address == "127.0.0.1")
    held = [idle(port) for _ in range(5)]
    for each in held:
        each.close()


# --- the proxy's own answers


def nowhere() -> str:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


def test_an_upstream_that_is_down_has_allowed_nothing() -> None:
    reply = asyncio.run(post(gated(ReverseProxy(parse_upstream(nowhere()))), chat(HARMLESS)))
    assert (reply.status, reply.code, reply.decision) == (502, "upstream-down", "deny")
    assert "lockgate.own" not in reply.messages[0]


def test_an_application_cannot_claim_that_the_gate_denied() -> None:
    reply = asyncio.run(post(gated(Handler([(b"x-guardrail-decision", b"deny")])), chat(HARMLESS)))
    assert (reply.status, reply.decision) == (200, "allow")


@pytest.mark.parametrize("value", [b"websocket", b"WebSocket", b"h2c, websocket"])
def test_a_websocket_is_refused_and_not_passed_on_as_something_else(value: bytes) -> None:
    headers = [(b"connection", b"Upgrade"), (b"upgrade", value), (b"sec-websocket-key", b"x")]
    reply = asyncio.run(post(gated(ReverseProxy(parse_upstream(nowhere()))), method="GET", headers=headers))
    assert (reply.status, reply.code, reply.decision) == (403, "websocket", "deny")


def test_a_gate_that_no_lifespan_reaches_can_be_closed() -> None:
    class Part:
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    gate, part = gated(Handler()), Part()
    asyncio.run(gate.close())
    gate._to_close.append(part)  # type: ignore[arg-type]
    asyncio.run(gate.close())
    assert part.closed == 1
