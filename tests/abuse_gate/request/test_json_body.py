"""The JSON in a client's request: which faults are refused with which reason, and what a lenient parser finds."""

from __future__ import annotations

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
