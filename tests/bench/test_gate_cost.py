"""What the table of the gate's cost is made of: its clients count what a server really answered."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

# The bench is a folder of scripts, not a package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import ingress
from ingress import Slice


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
