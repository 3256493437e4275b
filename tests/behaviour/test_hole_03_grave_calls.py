"""Hostile commands are held and read as grave, also if no reader knows the program or the text only describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hole_cases import (
    HOLDS,
    UNRELATED,
    Row,
    any_held,
    cases,
    cases_of,
    is_escalated,
    is_grave,
    ordinary_calls,
    play,
)

from lockgate import Mode, Policy

TABLE = "grave_calls.jsonl"


@pytest.mark.parametrize("case", cases(TABLE, "dictated"))
def test_a_call_that_the_text_dictates_is_held(case: Row, tmp_path: Path) -> None:
    assert HOLDS["dictated"](case, tmp_path)


@pytest.mark.parametrize("case", cases(TABLE, "described"))
def test_a_call_that_the_text_describes_is_held(case: Row, tmp_path: Path) -> None:
    assert HOLDS["described"](case, tmp_path)


@pytest.mark.parametrize("case", cases(TABLE, "severity"))
def test_the_call_is_read_as_grave(case: Row, tmp_path: Path) -> None:
    assert HOLDS["severity"](case, tmp_path)


@pytest.mark.parametrize(("case", "test"), cases_of(TABLE, "wide"))
def test_what_narrow_lets_pass_is_asked_about_in_wide(case: Row, test: str, tmp_path: Path) -> None:
    assert not is_escalated(case, test, tmp_path, Policy(escalate="narrow"))
    assert is_escalated(case, test, tmp_path, Policy(escalate="wide"))


@pytest.mark.parametrize(("case", "test"), cases_of(TABLE, "limit"))
def test_source_that_a_text_only_describes_is_asked_about_in_paranoid_mode(
    case: Row, test: str, tmp_path: Path
) -> None:
    assert is_grave(case["call"], tmp_path) is False
    assert is_escalated(case, test, tmp_path, Policy(mode=Mode.PARANOID))


@pytest.mark.parametrize(("goal", "calls"), ordinary_calls(3))
def test_ordinary_commands_pass(goal: str, calls: list[Any], tmp_path: Path) -> None:
    assert not any_held(play(calls, UNRELATED, tmp_path, goal))
