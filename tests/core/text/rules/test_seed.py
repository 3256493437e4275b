"""The oldest patterns, as they were given."""

from __future__ import annotations

from collections.abc import Callable

from lockgate.core.text.rules import RULES, RULES_BY_ID, Scope

Scan = Callable[[str], set[str]]


SEED = {
    "seed:ignore-previous": r"ignore.*(previous|above|prior).*instruction",
    "seed:new-task": r"new (instruction|directive|task)",
    "seed:forget": r"forget.*(previous|everything)",
    "seed:call-syntax": r"(execute|run|call).*\(",
    "seed:pipe-to-shell": r"curl.*\|.*bash",
    "seed:credential-word": r"(api[_-]?key|password|token|secret)",
}


def test_the_seed_patterns_are_in_force_word_for_word() -> None:
    assert {rule.id: rule.pattern for rule in RULES if rule.id.startswith("seed:")} == SEED


def test_the_seed_patterns_stop_at_the_end_of_a_line(scan: Scan) -> None:
    assert not any(RULES_BY_ID[name].dotall for name in SEED)
    assert "seed:ignore-previous" not in scan("ignore all previous\ninstructions")


def test_the_two_broad_seed_patterns_count_in_blocks_only_when_related() -> None:
    broad = {name for name in SEED if RULES_BY_ID[name].scope is Scope.RELATED}
    assert broad == {"seed:call-syntax", "seed:credential-word"}
    assert all(RULES_BY_ID[name].scope is Scope.AGENT for name in SEED.keys() - broad)
