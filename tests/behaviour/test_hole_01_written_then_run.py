"""An act that is held in one call must not pass in two: written to a file first, then run, also by a later session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hole_cases import HOLDS, UNRELATED, Row, any_held, cases, ordinary_calls, play

TABLE = "written_then_run.jsonl"


@pytest.mark.parametrize("case", cases(TABLE, "one"))
def test_the_act_is_held_in_one_call(case: Row, tmp_path: Path) -> None:
    assert HOLDS["one"](case, tmp_path)


@pytest.mark.parametrize("case", cases(TABLE, "two"))
def test_the_same_act_is_held_when_it_is_written_first(case: Row, tmp_path: Path) -> None:
    assert HOLDS["two"](case, tmp_path)


@pytest.mark.parametrize(("goal", "calls"), ordinary_calls(1))
def test_what_the_user_asks_to_write_and_run_passes(goal: str, calls: list[Any], tmp_path: Path) -> None:
    assert not any_held(play(calls, UNRELATED, tmp_path, goal))
