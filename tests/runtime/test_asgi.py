"""The shared body reader: its caps on size and time, clients that leave, and reads that another part ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from lockgate.runtime.asgi import (
    BodyInterrupted,
    BodyLimits,
    BodyReader,
    BodyTooLarge,
    BodyTooSlow,
    UnexpectedMessage,
    json_bytes,
    json_headers,
    run_lifespan,
    send_response,
)

LIMITS = BodyLimits(max_bytes=100, idle_s=30.0, total_s=60.0)
GONE = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def reader_of(messages: Iterable[dict[str, Any]], limits: BodyLimits = LIMITS) -> BodyReader:
    """A reader of these messages; after the last one the client is silent."""
    pending = list(messages)

    async def receive() -> dict[str, Any]:
        if not pending:
            await asyncio.Event().wait()
        return pending.pop(0)

    return BodyReader(receive, limits)


def test_parts_are_joined_in_their_order() -> None:
    sizes: list[int] = []
    reader = reader_of([part(b"ab"), part(b""), part(b"c", more=False)])
    assert asyncio.run(reader.read(sizes.append)) == b"abc"
    assert sizes == [2, 0, 1]


def test_many_small_parts_are_one_body() -> None:
    limits = LIMITS._replace(max_bytes=1000)
    reader = reader_of([*[part(b"x")] * 999, part(b"y", more=False)], limits)
    assert asyncio.run(reader.read()) == b"x" * 999 + b"y"


def test_a_body_over_its_limit_is_refused_before_it_is_kept() -> None:
    sizes: list[int] = []
    with pytest.raises(BodyTooLarge):
        asyncio.run(reader_of([part(b"x" * 60), part(b"x" * 41)]).read(sizes.append))
    assert sizes == [60]


@pytest.mark.parametrize("limits", [LIMITS._replace(idle_s=0.0), LIMITS._replace(total_s=0.0)], ids=["idle", "total"])
def test_a_silent_client_is_given_up(limits: BodyLimits) -> None:
    with pytest.raises(BodyTooSlow):
        asyncio.run(reader_of([part(b"x")], limits).read())


def test_a_client_that_leaves_has_no_body() -> None:
    assert asyncio.run(reader_of([part(b"x"), GONE]).read()) is None


def test_a_message_of_another_protocol_is_refused() -> None:
    with pytest.raises(UnexpectedMessage):
        asyncio.run(reader_of([{"type": "websocket.receive"}]).read())


def test_the_caller_may_refuse_a_part() -> None:
    def refuse(_size: int) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        asyncio.run(reader_of([part(b"x")]).read(refuse))


def test_an_interrupted_read_ends_while_it_waits() -> None:
    async def interrupted() -> None:
        reader = reader_of([part(b"x")])
        reading = asyncio.ensure_future(reader.read())
        assert not reader.is_waiting
        await asyncio.sleep(0)
        assert reader.is_waiting
        reader.interrupt()
        with pytest.raises(BodyInterrupted):
            await reading
        assert not reader.is_waiting

    asyncio.run(interrupted())


def test_an_interruption_counts_when_the_next_part_arrives_at_the_same_time() -> None:
    async def interrupted() -> None:
        arrived = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await arrived.wait()
            return part(b"x", more=False)

        reader = BodyReader(receive, LIMITS)
        reading = asyncio.ensure_future(reader.read())
        await asyncio.sleep(0)
        arrived.set()
        reader.interrupt()
        with pytest.raises(BodyInterrupted):
            await reading

    asyncio.run(interrupted())


def test_json_is_ascii_and_its_headers_say_how_long_it_is() -> None:
    body = json_bytes({"text": "\ud800é"})
    assert json.loads(body) == {"text": "\ud800é"}
    assert dict(json_headers(body)) == {b"content-type": b"application/json", b"content-length": b"%d" % len(body)}
    with pytest.raises(ValueError, match="JSON"):
        json_bytes(float("nan"))


def test_an_answer_is_a_start_and_one_body() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(send_response(send, 204, headers=[(b"a", b"b")]))
    assert sent == [
        {"type": "http.response.start", "status": 204, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]


def test_a_lifespan_is_confirmed_after_what_has_to_be_closed_is_closed() -> None:
    events: list[str] = []
    pending = ["lifespan.startup", "lifespan.shutdown"]

    async def receive() -> dict[str, Any]:
        return {"type": pending.pop(0)}

    async def send(message: Any) -> None:
        events.append(message["type"])

    async def close() -> None:
        events.append("closed")

    asyncio.run(run_lifespan(receive, send, close))
    assert events == ["lifespan.startup.complete", "closed", "lifespan.shutdown.complete"]
