"""What the table of the gate's cost is made of: its clients count what a server really answered."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

# The bench is a folder of scripts, not a package.
import ingress
from ingress import Round, Slice
from lockgate.core.questions import ModelText
from lockgate.core.requests.combined_verdict import build_assess_question, parse_verdict
from lockgate.core.requests.payload import Payload
from lockgate.runtime.http_post import HttpReply
from lockgate.verifiers.providers.compatible import Compatible


def test_bodies_are_distinct_chats_of_two_kilobytes() -> None:
    bodies = ingress.chat_bodies(16)
    assert len(set(bodies)) == 16
    assert all(1900 <= len(body) <= 2300 for body in bodies)
    assert [message["role"] for message in json.loads(bodies[0])["messages"]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-le", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\na: b\r\n\r\nab", False),
        (b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 3\r\n\r\nabc", True),
    ],
)
def test_an_answer_counts_when_all_of_it_is_there(data: bytes, whole: bool) -> None:  # noqa: FBT001
    assert ingress._is_whole(data) is whole


def test_a_connection_that_ends_is_no_answer() -> None:
    with pytest.raises(RuntimeError, match="closed"):
        ingress._is_whole(b"")


def test_ratios_are_of_the_same_round() -> None:
    before = [Slice(1.0, [0.1] * count) for count in (10, 100, 1000)]
    after = [Slice(1.0, [0.1] * count) for count in (5, 50, 900)]
    assert ingress._of_rounds(lambda one: one.rate, after, before) == (100, 50, 0.5)


def test_clients_keep_their_connections_and_see_every_answer() -> None:
    with ingress.served("model") as to:
        clients = ingress.Clients(to, "plain", ingress.chat_bodies(4), 3)
        try:
            first, second = clients.load(0.05), clients.load(0.05)
        finally:
            clients.close()
        lost = ingress.Clients(to, "nowhere", ingress.chat_bodies(4), 1)
        try:
            with pytest.raises(RuntimeError, match=r"answered with HTTP.* 500"):
                lost.load(0)
        finally:
            lost.close()
    assert len(first.waits) >= 3
    assert len(second.waits) >= 3
    assert (first.unclear, second.unclear) == (0, 0)
    assert second.cpu_s >= 0
    assert to.process.returncode == 0


def rounds(*, rate: int = 100, wait: float = 0.01, end: float = 0.01, unclear: int = 0) -> list[Round]:
    """Rounds of one second in which others had so many answers; `end` is what the last few of them took."""
    alone, during = Slice(1.0, [0.01] * 100), Slice(1.0, [wait] * rate)
    whole = Slice(1.5, [wait] * rate + [end] * 10)
    return [Round(alone, during, whole, Slice(0.5, [0.5] * 16, unclear))] * 3


@pytest.mark.parametrize(
    ("silent", "answered", "kept"),
    [
        # Both slow others by half: that is the asking.
        ({"rate": 50, "wait": 0.04}, {"rate": 50, "wait": 0.04}, [True, True]),
        ({"rate": 50}, {"rate": 100}, [False, True]),
        ({"wait": 0.02}, {}, [True, False]),
        # Waiting goes unnoticed; giving up does not.
        ({"end": 0.1}, {}, [True, False]),
        # It answered nothing that counted, so it shows nothing.
        ({"rate": 50}, {"rate": 50, "unclear": 16}, [False, False]),
    ],
    ids=["alike", "fewer", "later", "later at the end", "unheard"],
)
def test_waiting_is_held_against_a_provider_that_answers(
    silent: dict[str, float], answered: dict[str, float], kept: list[bool]
) -> None:
    rows = ingress._beside({"remote": rounds(**silent), "answered": rounds(**answered), "own": rounds()})
    checks = [{check.bound: check.ok for check in row.checks} for row in rows]
    assert checks[0] == {"gate, deadline": True, **dict(zip(("gate, waiting", "gate, waiting p99"), kept, strict=True))}
    assert checks[1:] == [{}, {"gate, deadline": True, "gate, others": True}]


def test_the_provider_that_answers_is_understood() -> None:
    nonce = "0123456789abcdef" * 2
    question, _ = build_assess_question(Payload("What does the blue mug cost?"), [], [], nonce)
    with ingress.served("model") as model:
        provider = Compatible("none", f"http://127.0.0.1:{model.port}/v1")
        asked = provider.request(question, "")
        connection = HTTPConnection("127.0.0.1", model.port, timeout=30)
        try:
            connection.request("POST", urlsplit(asked.url).path, asked.body, dict(asked.headers))
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            answer = provider.answer(question, HttpReply(reply.status, headers, reply.read()))
        finally:
            connection.close()
    assert isinstance(answer, ModelText)
    assert parse_verdict(answer.text, nonce) == "safe"
