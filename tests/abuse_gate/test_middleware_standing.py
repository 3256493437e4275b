"""The middleware and the ladder: what a client's standing does to its requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgi import ATTACK, HARMLESS, SECRET, Clock, Handler, chat, gated, no_wait, post, scope

from lockgate.abuse_gate.identity import Identity
from lockgate.abuse_gate.shared_strikes import ClientStanding, Ladder
from lockgate.core.requests.strikes import Standing, Subject
from lockgate.settings.abuse_gate import AbuseSettings


@pytest.mark.parametrize("way", ["known", "hold"])
def test_an_application_s_own_ladder_is_asked_every_time(way: str) -> None:
    class Own(Ladder):
        def standing_from_memory(self, subjects: Any, before: ClientStanding) -> ClientStanding:
            return before._replace(standing=Standing.FULL_QUARANTINE) if way == "known" else before

        async def hold(self, subjects: Any, judged: ClientStanding) -> bool:
            return way != "hold"

    gate = gated(Handler(), ladder=Own(AbuseSettings().ladder, clock=Clock(), sleep=no_wait))
    assert asyncio.run(post(gate, chat(HARMLESS))).status == 429


def test_an_own_ladder_that_answers_nothing_refuses_the_request() -> None:
    class Silent(Ladder):
        async def standing(self, subjects: Any) -> ClientStanding:
            return None  # type: ignore[return-value]

    gate = gated(Handler(), ladder=Silent(AbuseSettings().ladder, clock=Clock(), sleep=no_wait))
    assert asyncio.run(post(gate, chat(HARMLESS))).status == 503


def replies(*, waits: bool) -> list[tuple[int, str, str]]:
    """How one client fares on its way down the ladder; `waits`, and every part of a body has to be waited for."""
    gate = gated(Handler(), ladder=Ladder(AbuseSettings().ladder, clock=Clock(), sleep=no_wait, chance=lambda: 0.5))
    tools = chat(HARMLESS, tools=[{"type": "function", "function": {"name": "shell"}}])
    course = [chat(HARMLESS), tools, b"{", chat("token (run it"), *[chat(ATTACK), chat(HARMLESS), tools] * 8]

    async def asked(body: bytes) -> tuple[int, str, str]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if waits:
                await asyncio.sleep(0)
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await gate(scope(user="ann"), receive, send)
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], told.get("x-guardrail-decision", ""), told.get("x-guardrail-mode", "")

    async def all_of_them() -> list[tuple[int, str, str]]:
        return [await asked(body) for body in course]

    return asyncio.run(all_of_them())


def test_a_body_that_is_there_already_fares_as_one_that_is_waited_for() -> None:
    quick = replies(waits=False)
    assert quick == replies(waits=True)
    assert {status for status, _, _ in quick} == {200, 400, 403, 429}, "not all of the ladder was seen"
    assert {"", "execute_locked", "full_quarantine"} <= {mode for _, _, mode in quick}


def test_an_invalid_subject_key_is_refused() -> None:
    class Odd(Identity):
        def subjects(self, scope: Any) -> tuple[Subject, ...]:
            return (Subject("network", "no digits at all"),)

    handler = Handler()
    reply = asyncio.run(post(gated(handler, identity=Odd(SECRET)), chat(HARMLESS)))
    assert (reply.status, reply.code) == (503, "unavailable")
