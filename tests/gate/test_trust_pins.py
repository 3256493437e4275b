"""Pins as values: what makes two texts the same, and what a stored list may hold."""

from __future__ import annotations

import json

import pytest

from lockgate.core.errors import LockgateError
from lockgate.gate.trust_pins import MAX_KEPT, digest_of, pin_text, pins_from_json, pins_to_json


def test_line_ends_make_no_difference_and_a_letter_does() -> None:
    assert digest_of("one\ntwo") == digest_of("one\r\ntwo\n\n")
    assert digest_of("one\ntwo") != digest_of("one\ntwo ")
    assert digest_of("one\ntwo") != digest_of("one\n\ntwo")
    assert digest_of("half \ud800 a pair")


def test_a_pin_keeps_the_text_unless_it_is_long() -> None:
    pin = pin_text("file:/a", "text", who="ana", at_s=1.0, note="ours")
    assert (pin.kept, pin.note, len(pin.id)) == ("text", "ours", 12)
    assert pin_text("file:/a", "x" * (MAX_KEPT + 1), who="ana", at_s=1.0).kept == ""
    assert pin.id != pin_text("file:/b", "text", who="ana", at_s=1.0).id


def test_what_is_stored_comes_back() -> None:
    pins = (pin_text("file:/a", "é\x1b", who="ana", at_s=1.5), pin_text("web:https://x.example", "t", who="", at_s=2))
    assert pins_from_json(pins_to_json(pins)) == pins


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 2, "pins": []}',
        b'{"version": 1, "pins": {}}',
        b'{"version": 1, "pins": [1]}',
        b'{"version": 1, "pins": [{"source": "file:/a"}]}',
        json.dumps({"version": 1, "pins": [pin_text("file:/a", "t", who="", at_s=1)._asdict() | {"who": 3}]}).encode(),
        json.dumps(
            {"version": 1, "pins": [pin_text("file:/a", "t", who="", at_s=1)._asdict() | {"at_s": "x"}]}
        ).encode(),
    ],
)
def test_anything_else_is_an_error(data: bytes) -> None:
    with pytest.raises(LockgateError):
        pins_from_json(data)
