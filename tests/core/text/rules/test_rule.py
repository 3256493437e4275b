"""What a rule is made of."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from lockgate.core.text.rules.rule import Rule, Scope


def test_a_rule_cannot_be_changed_and_is_plain_unless_it_says_otherwise() -> None:
    rule = Rule("tool:x", "tool", "x", Scope.ARGUMENTS, "what", "why", "x", "y", "LLM01:2026")
    assert not any((rule.phrase, rule.utf8, rule.dotall, rule.on_demand, rule.beyond_ascii))
    with pytest.raises(FrozenInstanceError):
        rule.pattern = ".*"  # type: ignore[misc]


def test_the_words_for_scopes_stay_as_they_are_written_out() -> None:
    assert [scope.value for scope in Scope] == ["agent", "related", "arguments"]
