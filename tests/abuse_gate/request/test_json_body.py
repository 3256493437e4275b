"""The JSON in a client's request: which faults are refused with which reason, and what a lenient parser finds."""

from __future__ import annotations

import json

import pytest

from lockgate.abuse_gate.request.json_body import (
    MAX_CONTAINERS,
    MAX_DIGITS,
    MAX_DOCUMENTS,
    REFUSALS,
    RefusedRequest,
    UnreadableRequest,
    read_json,
    read_leniently,
)
from lockgate.abuse_gate.request.payload_from_body import NormalizedRequest, normalize


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not-json"),
        ("[NaN]", "not-json"),
        ("1" * (MAX_DIGITS + 1), "not-json"),
        ('{"a": 1, "a": 2}', "duplicate-key"),
        ("[" * 65 + "]" * 65, "too-deep"),
        (f"[{'[],' * MAX_CONTAINERS}[]]", "too-many-values"),
        (f"[{'1,' * 500_001}1]", "too-many-values"),
    ],
)
def test_a_fault_of_the_json_has_its_reason(text: str, reason: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read_json(text)
    assert caught.value.refused == RefusedRequest(REFUSALS[reason], reason)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ('{"a": 1}\n{"b": 2}; [3],', [{"a": 1}, {"b": 2}, [3]]),
        ('{"a": "x\ty"} and so on', [{"a": "x\ty"}]),
        ("[Infinity]", [[float("inf")]]),
        (f"[{'9' * 5_000}]", [[0]]),
        ('{"a": 1} {"b": ', [{"a": 1}]),
        ("plain words", []),
    ],
)
def test_a_lenient_parser_finds_what_some_application_would(text: str, found: list[object]) -> None:
    assert read_leniently(text) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "duplicate-key"),
        ("[" * 65 + "]" * 65, "too-deep"),
        ("{}" * (MAX_DOCUMENTS + 1), "too-many-values"),
    ],
)
def test_a_lenient_parser_refuses_what_applications_disagree_about(text: str, reason: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read_leniently(text)
    assert caught.value.refused.reason == reason


@pytest.mark.parametrize("around", ["", " ", "\n\t \r", "\x0b", "\xa0", "\ufeff", "x", "{}", ",", "\x00"], ids=ascii)
@pytest.mark.parametrize("value", ['{"a": 1}', "[1]", "1", '"a"', "", "{", '{"a": 1'])
def test_json_is_what_the_standard_decoder_takes_for_it(value: str, around: str) -> None:
    for text in (value, around + value, value + around, around + value + around):
        try:
            expected = json.JSONDecoder().decode(text)
        except ValueError:
            with pytest.raises(UnreadableRequest):
                read_json(text)
        else:
            assert read_json(text) == expected


@pytest.mark.parametrize("opens", ["[", '{"a":'])
@pytest.mark.parametrize(("depth", "reads"), [(64, True), (65, False)])
def test_depth_is_counted_whatever_the_brackets(opens: str, depth: int, reads: bool) -> None:  # noqa: FBT001
    closes = {"[": "]", '{"a":': "}"}[opens]
    found = normalize_json((opens * depth + "1" + closes * depth).encode())
    assert (found == RefusedRequest(400, "too-deep")) is not reads


def test_brackets_that_are_no_depth_are_no_depth() -> None:
    assert isinstance(normalize_json(json.dumps([["["] * 40, [{}] * 40]).encode()), NormalizedRequest)


def normalize_json(body: bytes) -> NormalizedRequest | RefusedRequest:
    return normalize(body, "application/json")
