"""Destroyed work and data, records changed for an address in the text, open servers: held where a text orders them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hole_cases import HOLDS, UNRELATED, Row, any_held, cases, ordinary_calls, play


@pytest.mark.parametrize("case", cases("local_destruction.jsonl", "ordered"))
def test_destruction_that_a_text_orders_is_held(case: Row, tmp_path: Path) -> None:
    assert HOLDS["ordered"](case, tmp_path)


@pytest.mark.parametrize(("goal", "calls"), ordinary_calls(8))
def test_what_the_user_asks_to_remove_or_serve_passes(goal: str, calls: list[Any], tmp_path: Path) -> None:
    assert not any_held(play(calls, UNRELATED, tmp_path, goal))
