"""The gate's answers and headers, as values."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lockgate.abuse_gate.responses import (
    OWN_ANSWER,
    Stop,
    guardrail_headers,
    mode_from_standing,
    replay_body,
    send_with_headers,
    strip_guardrail_headers,
)
from lockgate.abuse_gate.shared_strikes import ClientStanding
from lockgate.core.requests.strikes import Standing

HTTP = {"type": "http", "method": "POST", "http_version": "1.1"}
BANNED = ClientStanding(Standing.FULL_QUARANTINE, 17, 5, degraded=False)


def test_a_stop_is_json_with_its_code_and_headers() -> None:
    start, body = Stop("quarantined", judged=BANNED, incident="01ABC").messages(HTTP, unread=True)
    headers = dict(start["headers"])
    assert start["status"] == 429
    assert headers[b"retry-after"] == b"17"
    assert headers[b"connection"] == b"close"
    assert headers[b"x-guardrail-mode"] == b"full_quarantine"
    assert headers[b"x-guardrail-incident-id"] == b"01ABC"
    assert json.loads(body["body"])["error"] == {
        "type": "guardrail",
        "code": "quarantined",
        "message": "after several unsafe requests, this client has to wait",
        "incident_id": "01ABC",
    }


@pytest.mark.parametrize(
    ("reason", "status", "told"), [("odd reason\n", 499, "unreadable"), ("not-json", 200, "not-json")]
)
def test_a_reason_of_the_parser_is_a_plain_word_and_an_error(reason: str, status: int, told: str) -> None:
    stop = Stop(reason, status=status)
    assert stop.reason == told
    assert 400 <= stop.told.status < 500


def test_a_standing_without_a_mode_has_none_unless_it_is_degraded() -> None:
    normal = ClientStanding(Standing.NORMAL, 0, 0, degraded=False)
    assert [mode_from_standing(each) for each in (None, normal, normal._replace(degraded=True), BANNED)] == [
        "",
        "",
        "degraded",
        "full_quarantine",
    ]
    assert guardrail_headers("allow", "") == [(b"x-guardrail-decision", b"allow")]


def test_a_client_s_own_guardrail_headers_are_removed() -> None:
    plain = {"headers": [(b"host", b"a")]}
    assert strip_guardrail_headers(plain) is plain
    forged = {"headers": [(b"host", b"a"), (b"X-Guardrail-Mode", b"x"), (b"x_guardrail_decision", b"allow")]}
    assert strip_guardrail_headers(forged)["headers"] == [(b"host", b"a")]


def test_the_gate_s_own_answer_keeps_its_headers() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    own = {
        "type": "http.response.start",
        "status": 502,
        "headers": [(b"x-guardrail-decision", b"deny")],
        OWN_ANSWER: True,
    }
    asyncio.run(send_with_headers(send, guardrail_headers("allow", ""))(own))  # type: ignore[arg-type]
    assert sent == [{"type": "http.response.start", "status": 502, "headers": [(b"x-guardrail-decision", b"deny")]}]


def test_a_body_is_replayed_once_and_then_the_server_is_asked() -> None:
    taken: list[bool] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def run() -> None:
        again = replay_body(b"text", receive, lambda: taken.append(True))
        assert await again() == {"type": "http.request", "body": b"text", "more_body": False}
        assert taken == [True]
        assert await again() == {"type": "http.disconnect"}

    asyncio.run(run())


@pytest.mark.parametrize("name", ["X-Guardrail-Decision", "x_guardrail_mode"])
def test_a_header_with_a_name_that_is_no_bytes_is_not_let_through(name: str) -> None:
    with pytest.raises(TypeError):
        strip_guardrail_headers({"headers": [(name, b"allow")]})

    async def send(_message: object) -> None:
        raise AssertionError("it went out")

    start = {"type": "http.response.start", "status": 200, "headers": [(name, b"allow")]}
    with pytest.raises(TypeError):
        asyncio.run(send_with_headers(send, ())(start))  # type: ignore[arg-type]
