"""Orders of a few words, and goals with a word that sounds like the act: held unless the user asked for the act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hole_cases import HOLDS, UNRELATED, Row, any_held, cases, ordinary_calls, play


@pytest.mark.parametrize("case", cases("short_orders.jsonl", "unasked"))
def test_an_act_that_only_the_text_asks_for_is_held(case: Row, tmp_path: Path) -> None:
    assert HOLDS["unasked"](case, tmp_path)


@pytest.mark.parametrize(("goal", "calls"), ordinary_calls(11))
def test_messages_and_payments_that_the_user_asks_for_pass(goal: str, calls: list[Any], tmp_path: Path) -> None:
    assert not any_held(play(calls, UNRELATED, tmp_path, goal))
