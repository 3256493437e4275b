"""The pool of request bodies: fair shares of memory, evictions, and what is left after each body."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lockgate.abuse_gate import body_pool
from lockgate.abuse_gate.body_pool import BodyPool, HeldBody
from lockgate.abuse_gate.responses import Stop
from lockgate.runtime.asgi import BodyLimits


def test_a_network_that_holds_nothing_has_no_entry() -> None:
    pool = BodyPool(BodyLimits(4_000, 60, 60))

    async def run() -> None:
        for number in range(200):
            body = HeldBody()
            body.network = f"{number:016x}{number:016x}"
            parts = [b"", b"x" * (number % 2), b""]

            async def receive(parts: list[bytes] = parts) -> dict[str, Any]:
                return {"type": "http.request", "body": parts.pop(), "more_body": bool(parts)}

            await pool.read(receive, body)
            assert pool.held == number % 2
            pool.release(body)
        assert (pool.held, pool._by_network, pool._by_customer) == (0, {}, {})

    asyncio.run(run())


def test_a_network_holds_as_much_as_it_leaves_free_even_if_no_body_is_ever_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 10_000)
    pool = BodyPool(BodyLimits(4_000, 60, 60))

    async def whole(network: str, size: int) -> str:
        body = HeldBody()
        body.network = network

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"x" * size, "more_body": False}

        try:
            await pool.read(receive, body)
        except Stop as stop:
            pool.release(body)
            return stop.reason
        return "held"

    async def run() -> None:
        # Whole bodies cannot be evicted: the application never reads them.
        assert [await whole("crowd", 1_000) for _ in range(7)] == ["held"] * 5 + ["busy"] * 2
        assert [await whole("other", 1_000) for _ in range(4)] == ["held"] * 2 + ["busy"] * 2
        # However many networks do so, the next one finds room.
        assert [await whole(f"third-{n}", 200) for n in range(5)] == ["held"] * 5

    asyncio.run(run())


def test_an_evicted_body_stays_evicted_if_its_end_arrives_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 10_000)
    pool = BodyPool(BodyLimits(6_000, 60, 60))

    async def run() -> None:
        end: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        parts = [{"type": "http.request", "body": b"x" * 5_000, "more_body": True}]

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else await end

        first, second = HeldBody(), HeldBody()
        first.network, second.network = "one", "two"
        reading = asyncio.ensure_future(pool.read(receive, first))
        await asyncio.sleep(0.01)
        end.set_result({"type": "http.request", "body": b"x" * 1_000, "more_body": False})

        async def whole() -> dict[str, Any]:
            return {"type": "http.request", "body": b"x" * 3_000, "more_body": False}

        await pool.read(whole, second)
        with pytest.raises(Stop):
            await reading
        assert (first.whole, first.size, pool.held) == (False, 0, 3_000)

    asyncio.run(run())


def test_a_body_in_pieces_is_joined_and_a_cancelled_read_leaves_nothing_behind() -> None:
    pool = BodyPool(BodyLimits(1 << 20, 60, 60))
    coming: asyncio.Queue[dict[str, Any]]

    async def run() -> None:
        nonlocal coming
        coming = asyncio.Queue()
        body = HeldBody()
        reading = asyncio.ensure_future(pool.read(lambda: coming.get(), body))
        for part in (b"a", b"", b"bc"):
            await asyncio.sleep(0)
            coming.put_nowait({"type": "http.request", "body": part, "more_body": True})
        await asyncio.sleep(0)
        coming.put_nowait({"type": "http.request", "body": b"d", "more_body": False})
        await reading
        assert (body.data, body.whole, pool.held) == (b"abcd", True, 4)
        pool.release(body)
        left = HeldBody()
        cancelled = asyncio.ensure_future(pool.read(lambda: coming.get(), left))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (pool.held, pool._unfinished, left.whole) == (0, {}, False)

    asyncio.run(run())


@pytest.mark.parametrize("late", [0, 1])
def test_an_error_of_the_server_is_raised_also_after_a_wait(late: int) -> None:
    pool = BodyPool(BodyLimits(100, 60, 60))

    async def receive() -> dict[str, Any]:
        for _ in range(late):
            await asyncio.sleep(0)
        raise ConnectionResetError

    async def run() -> None:
        with pytest.raises(ConnectionResetError):
            await pool.read(receive, HeldBody())

    asyncio.run(run())
