"""The door to effects."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.reading import effects_of
from lockgate.core.ruling.tool_call import ToolCall


def test_the_gravest_effect_comes_first() -> None:
    found = effects_of(ToolCall("update_settings", {"two_factor": False, "theme": "dark"}))
    assert [each.severity for each in found] == sorted((each.severity for each in found), reverse=True)
    assert found[0].kind == "disables-check"


@pytest.mark.parametrize(
    "tool", ["", "_", "Bash", "Write", "get_order", "frobnicate", "\u202e", "WebFetch", "Task", "python"]
)
@pytest.mark.parametrize(
    "arguments", [{}, {"a": None}, {"command": {"x": [1, True]}}, {"path": ""}, {"": "x"}, {"to": [[]]}]
)
def test_there_is_always_an_effect(tool: str, arguments: dict[str, object]) -> None:
    assert effects_of(ToolCall(tool, arguments))
