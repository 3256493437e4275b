"""Hostile commands are held and read as grave, also if no reader knows the program or the text only describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hole_cases import HOLDS, UNRELATED, Row, any_held, cases, ordinary_calls, play

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


@pytest.mark.parametrize(("goal", "calls"), ordinary_calls(3))
def test_ordinary_commands_pass(goal: str, calls: list[Any], tmp_path: Path) -> None:
    assert not any_held(play(calls, UNRELATED, tmp_path, goal))
