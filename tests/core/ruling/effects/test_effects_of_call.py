"""The door to effects."""

from __future__ import annotations

import pytest

from lockgate import Action, Gate
from lockgate.core.ruling.effects import effects_of_call
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.vocabulary import ToolCall


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


def test_a_call_that_breaks_a_reader_opens_a_door(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(effects_of_call, "_read_call", break_down)
    session = Gate().session(goal="Use Bash to list the files")
    session.add("a page", source="tool:web_fetch")
    decision = session.check("Bash", {"command": "ls"})
    assert [found.kind for found in decision.effects] == ["unreadable"]
    assert decision.action is Action.PAUSE


def test_a_call_near_our_own_files_that_breaks_a_reader_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(effects_of_call, "_read_call", break_down)
    decision = Gate().session(goal="tidy up").check("Bash", {"command": "rm ~/.lockgate/x"})
    assert decision.action is Action.PAUSE
    assert "execution:own-state" in {finding.rule for finding in decision.findings}
