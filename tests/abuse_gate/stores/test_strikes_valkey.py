"""Shared strikes against servers that do not do what they should; a real one is in tests/hosts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes
from lockgate.core.errors import InvalidConfig
from lockgate.core.requests.strikes import (
    NETWORK,
    PRINCIPAL,
    LadderSettings,
    SharedRecord,
    SharedStrikes,
    StrikeReport,
    Subject,
)
from lockgate.runtime.circuit_breaker import CircuitLimits

SETTINGS = LadderSettings()
ANN, HOME = Subject(PRINCIPAL, "a" * 32), Subject(NETWORK, "1" * 32)
ABOUT = (StrikeReport(ANN), StrikeReport(HOME))
# Longer than any reply takes here, for those that should come; and for those that should not.
ENOUGH_S, SHORT_S = 30.0, 0.1

Reply = Callable[[str, asyncio.StreamWriter], Awaitable[bytes]]


def resp(value: object) -> bytes:
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(resp, value))
    if isinstance(value, int):
        return b":%d\r\n" % value
    if value is None:
        return b"$-1\r\n"
    text = str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(text), text)


def answer(nonce: str, name: str = "one", known: object = None, bans: object = None, top: str = "0") -> list[Any]:
    return [nonce, name, [[0, 0], [0, 0]] if known is None else known, bans or [], top, top]


class Fake:
    """A server on the loopback that answers the script with whatever a test gives it."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.connections = self.asked = 0
        self.questions: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while line := await reader.readline():
                words = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2].decode())
                if words[0] == "EVALSHA":
                    self.asked += 1
                    self.questions.append(json.loads(words[-2]))
                    writer.write(await self.reply(words[-1], writer))
                else:
                    writer.write(b"+OK\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self, **more: Any) -> AsyncIterator[ValkeyStrikes]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        store = ValkeyStrikes(f"valkey://127.0.0.1:{port}/0", SETTINGS, **{"deadline_s": ENOUGH_S} | more)
        try:
            yield store
        finally:
            await store.close()
            server.close()


def replying(*replies: bytes | Callable[[str], bytes]) -> Reply:
    left = list(replies)

    async def reply(nonce: str, writer: asyncio.StreamWriter) -> bytes:
        one = left.pop(0) if len(left) > 1 else left[0]
        return one if isinstance(one, bytes) else one(nonce)

    return reply


def test_what_it_hears_and_tells() -> None:
    known = [[1500, 0, 250, 0], [0, 0]]
    bans = [["b" * 32, "q", 60_000], ["c" * 32, "l", -5]]
    fake = Fake(replying(lambda nonce: resp(answer(nonce, known=known, bans=bans, top="77"))))

    async def ask() -> SharedStrikes | None:
        async with fake.running() as store:
            await store.exchange([StrikeReport(ANN, (("id", 1.25),), 2.5, 0.0), StrikeReport(HOME)])
            return await store.exchange(ABOUT)

    heard = asyncio.run(ask())
    assert heard == SharedStrikes(
        (SharedRecord((0.25, 0.0), 1.5, 0.0), SharedRecord()),
        (
            (Subject(PRINCIPAL, "b" * 32), SharedRecord((), 0, 60)),
            (Subject(PRINCIPAL, "c" * 32), SharedRecord()),
        ),
    )
    first, second = fake.questions
    assert first["told"][0] == {
        "key": ANN.key,
        "principal": True,
        "strikes": [["id", 1250]],
        "left": {"l": 2500, "q": 0},
    }
    assert (first["cursor"], second["cursor"]) == ("0", "77")
    assert (first["window"], first["most"]) == (600_000, {"l": 900_000, "q": 3_600_000})


@pytest.mark.parametrize(
    "reply",
    [
        b"-ERR no\r\n",
        b"-OOM command not allowed when used memory > 'maxmemory'\r\n",
        b"-NOAUTH Authentication required.\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
        b"-MOVED 1 127.0.0.1:1\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"\x00\xff\xfe\r\n",
        b"+OK\r\n",
        b":1\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        lambda nonce: resp([]),
        lambda nonce: resp(answer("another")),
        lambda nonce: resp(answer(nonce, known=[])),
        lambda nonce: resp(answer(nonce, known=[[0, 0]])),
        lambda nonce: resp(answer(nonce, known=[[0], [0, 0]])),
        lambda nonce: resp(answer(nonce, known=[["x", 0], [0, 0]])),
        lambda nonce: resp(answer(nonce, known=[None, None])),
        lambda nonce: resp(answer(nonce, bans=[["a" * 32, "z", 1]])),
        lambda nonce: resp(answer(nonce, bans=["odd"])),
        lambda nonce: resp(answer(nonce)[:4]),
        lambda nonce: resp([*answer(nonce), "more"]),
        lambda nonce: resp(answer(nonce, top="soon")),
    ],
)
def test_whatever_else_it_answers_is_no_answer(reply: bytes | Callable[[str], bytes]) -> None:
    async def ask() -> SharedStrikes | None:
        async with Fake(replying(reply)).running(deadline_s=5.0) as store:
            return await store.exchange(ABOUT)

    assert asyncio.run(ask()) is None


async def _nothing(nonce: str, writer: asyncio.StreamWriter) -> bytes:
    await asyncio.sleep(60)
    return b""


async def _drip(nonce: str, writer: asyncio.StreamWriter) -> bytes:
    # Each byte is in time, counted from the one before.
    for byte in resp(answer(nonce)):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(SHORT_S / 2)
    return b""


async def _hang_up(nonce: str, writer: asyncio.StreamWriter) -> bytes:
    writer.transport.abort()
    return b""


@pytest.mark.parametrize("reply", [_nothing, _drip, _hang_up])
def test_the_deadline_is_for_all_of_it(reply: Reply) -> None:
    async def ask() -> SharedStrikes | None:
        async with Fake(reply).running(deadline_s=SHORT_S) as store:
            return await store.exchange(ABOUT)

    began = time.monotonic()
    assert asyncio.run(ask()) is None
    assert time.monotonic() - began < 5


def test_a_server_that_is_not_there_is_no_answer() -> None:
    async def ask() -> SharedStrikes | None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        store = ValkeyStrikes(f"valkey://127.0.0.1:{port}", SETTINGS, deadline_s=5.0)
        try:
            return await store.exchange(ABOUT)
        finally:
            await store.close()

    assert asyncio.run(ask()) is None


def test_after_three_failures_no_request_waits_and_one_tries_again_later() -> None:
    now = [0.0]
    fake = Fake(replying(b"-ERR no\r\n", b"-ERR no\r\n", b"-ERR no\r\n", lambda nonce: resp(answer(nonce))))

    async def ask() -> list[bool]:
        async with fake.running(clock=lambda: now[0], limits=CircuitLimits(3, 1.0, 5.0)) as store:
            heard = [await store.exchange(ABOUT) for _ in range(20)]
            assert fake.asked == 3
            now[0] = 1.0
            heard += await asyncio.gather(*(store.exchange(ABOUT) for _ in range(20)))
            assert fake.asked == 4
            heard.append(await store.exchange(ABOUT))
            return [each is not None for each in heard]

    answered = asyncio.run(ask())
    assert answered.count(True) == 2
    assert answered[-1]


def test_a_reply_that_comes_too_late_is_never_taken_for_the_next_one() -> None:
    """The mistake that has shown people each other's data elsewhere: a connection left in the middle of a reply."""
    slow, began = asyncio.Event(), asyncio.Event()

    async def reply(nonce: str, writer: asyncio.StreamWriter) -> bytes:
        if not began.is_set():
            began.set()
            await slow.wait()
            return resp(answer(nonce, known=[[900_000, 3_600_000], [0, 0]]))
        slow.set()
        return resp(answer(nonce))

    async def ask() -> list[SharedStrikes | None]:
        async with Fake(reply).running() as store:
            first = asyncio.ensure_future(store.exchange(ABOUT))
            await began.wait()
            first.cancel()
            await asyncio.wait({first})
            return [await store.exchange(ABOUT) for _ in range(5)]

    assert asyncio.run(ask()) == [SharedStrikes((SharedRecord(), SharedRecord()))] * 5


def test_a_cancelled_request_says_nothing_about_the_server() -> None:
    async def ask() -> bool:
        async with Fake(_nothing).running() as store:
            for _ in range(10):
                task = asyncio.ensure_future(store.exchange(ABOUT))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
            return store._circuit.open_until is None

    assert asyncio.run(ask())


def test_a_server_that_lost_its_data_is_noticed() -> None:
    replies = [
        lambda nonce: resp(answer(nonce, top="9")),
        lambda nonce: resp(answer(nonce, top="8")),  # a list that is shorter than it was
        lambda nonce: resp(answer(nonce, top="8")),
        lambda nonce: resp(answer(nonce, "two", top="8")),  # another server under the same address
        lambda nonce: resp(answer(nonce, "two", top="8")),
    ]
    fake = Fake(replying(*replies))

    async def ask() -> list[bool]:
        async with fake.running() as store:
            heard = [await store.exchange(ABOUT) for _ in replies]
            return [each is not None and each.has_forgotten for each in heard]

    assert asyncio.run(ask()) == [False, True, False, True, False]
    # From the beginning of the list after each loss: nothing on it may be missed.
    assert [question["cursor"] for question in fake.questions] == ["0", "9", "0", "8", "0"]


def test_many_at_once_share_few_connections() -> None:
    fake = Fake(replying(lambda nonce: resp(answer(nonce))))

    async def ask() -> list[SharedStrikes | None]:
        async with fake.running() as store:
            return await asyncio.gather(*(store.exchange(ABOUT) for _ in range(200)))

    assert all(heard is not None for heard in asyncio.run(ask()))
    assert fake.connections <= 16


def test_it_follows_its_caller_to_another_event_loop() -> None:
    fake = Fake(replying(lambda nonce: resp(answer(nonce))))
    store: list[ValkeyStrikes] = []

    async def ask() -> SharedStrikes | None:
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
        url = f"valkey://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        if not store:
            store.append(ValkeyStrikes(url, SETTINGS, deadline_s=ENOUGH_S))
        store[0]._url = url
        try:
            return await store[0].exchange(ABOUT)
        finally:
            await store[0].close()
            server.close()

    assert asyncio.run(ask()) is not None
    assert asyncio.run(ask()) is not None


@pytest.mark.parametrize("url", ["", "http://127.0.0.1", "127.0.0.1:6379", "valkey://:s3cret@host:port"])
def test_an_address_that_cannot_be_read_does_not_start_and_shows_no_password(url: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        ValkeyStrikes(url, SETTINGS)
    assert "s3cret" not in str(refused.value)
    assert refused.value.hint
