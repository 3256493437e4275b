"""Places for connections: fair shares, refusals before anything is read, and the health check."""

from __future__ import annotations

import asyncio
from typing import Any

from lockgate.abuse_gate.proxy.server import (
    MAX_LINGERING,
    ConnectionLimits,
    OpenConnections,
    send_error,
    with_health_check,
)
from lockgate.abuse_gate.responses import OWN_ANSWER


class Transport:
    def __init__(self, address: str = "192.0.2.1") -> None:
        self.address = address
        self.written = b""
        self.ended = self.closed = False

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return (self.address, 1)

    def write(self, data: bytes) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True


def places(total: int = 8, per_network: int = 4) -> OpenConnections:
    return OpenConnections(ConnectionLimits(total, per_network, 10.0, lambda address: address == "10.0.0.1", b"{}"))


def test_a_network_gets_its_share_and_no_more_than_it_leaves_to_others() -> None:
    open_now, found = 0, []
    pool = places()
    for network in ["a"] * 5 + ["b"] * 3:
        taken = pool.take_place(network, open_now)
        open_now += taken
        found.append(taken)
    assert found == [True] * 4 + [False] + [True] * 2 + [False]
    pool.give_place_back("a")
    assert pool.take_place("c", open_now - 1)


def test_a_trusted_proxy_has_only_the_limit_of_all() -> None:
    pool = places()
    network = pool.network_of(Transport("10.0.0.1"))  # type: ignore[arg-type]
    assert network == ""
    assert [pool.take_place(network, number) for number in range(9)] == [True] * 8 + [False]


def test_all_networks_of_a_customer_are_one() -> None:
    pool = places()
    first, second = (pool.network_of(Transport(f"2001:db8:1:{n}::1")) for n in (1, 2))  # type: ignore[arg-type]
    assert first == second != pool.network_of(Transport("2001:db8:2:1::1"))  # type: ignore[arg-type]


def test_a_refused_connection_is_answered_and_lingers_unless_too_many_do() -> None:
    async def run() -> None:
        pool, loop = places(), asyncio.get_running_loop()
        refused = [Transport() for _ in range(MAX_LINGERING + 1)]
        for each in refused:
            pool.refuse(each, loop)  # type: ignore[arg-type]
        assert all(each.written.startswith(b"HTTP/1.1 503 ") and each.written.endswith(b"{}") for each in refused)
        assert (refused[0].ended, refused[0].closed) == (True, False)
        assert refused[-1].closed
        pool.forget_refused(refused[0])  # type: ignore[arg-type]
        last = Transport()
        pool.refuse(last, loop)  # type: ignore[arg-type]
        assert not last.closed

    asyncio.run(run())


def test_the_health_check_answers_204_and_all_else_goes_on() -> None:
    sent: list[Any] = []
    reached: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append(scope["path"])

    async def send(message: Any) -> None:
        sent.append(message)

    for path in ("/healthz", "/healthz/x"):
        scope = {"type": "http", "path": path, "method": "GET"}
        asyncio.run(with_health_check(app)(scope, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 204
    assert reached == ["/healthz/x"]


def test_an_error_is_marked_as_the_gate_s_own() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(send_error(send, 502, "upstream-down", "no", close=True))
    assert sent[0][OWN_ANSWER] is True
    assert (b"x-guardrail-decision", b"deny") in sent[0]["headers"]
    assert (b"connection", b"close") in sent[0]["headers"]
