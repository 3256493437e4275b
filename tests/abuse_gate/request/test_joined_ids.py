"""The ids that join a request with rulings: chosen by the client, so strict about their form and of a fixed size."""

from __future__ import annotations

import pytest

from lockgate.abuse_gate.request.joined_ids import CONVERSATION_HEADERS, MAX_CONVERSATION, ids_from_request
from lockgate.journal.record import sha256_hex

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = (b"TraceParent", f"00-{TRACE}-00f067aa0ba902b7-01".encode())


def test_a_request_without_ids_has_none() -> None:
    assert ids_from_request([(b"accept", b"*/*")], "") == {"trace": "", "conversation_sha256": ""}


def test_a_header_names_the_conversation_and_else_the_body() -> None:
    assert ids_from_request([PARENT], "conv_1") == {"trace": TRACE, "conversation_sha256": sha256_hex("conv_1")}
    for name in CONVERSATION_HEADERS:
        found = ids_from_request([(name.title(), b"s-1")], "conv_1")
        assert found["conversation_sha256"] == sha256_hex("s-1")


@pytest.mark.parametrize("text", ["x" * (MAX_CONVERSATION + 1), ""])
def test_an_id_that_is_too_long_is_none(text: str) -> None:
    assert ids_from_request([], text)["conversation_sha256"] == ""


def test_two_different_headers_of_one_name_are_none() -> None:
    other = (b"traceparent", f"00-{'1' * 32}-00f067aa0ba902b7-01".encode())
    two = [(b"x-session-id", b"a"), (b"x-session-id", b"b")]
    assert ids_from_request([PARENT, other, *two], "") == {"trace": "", "conversation_sha256": ""}
    assert ids_from_request([PARENT, PARENT], "")["trace"] == TRACE
