from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effect import KINDS, Severity
from lockgate.core.ruling.explanations import (
    ENTRIES,
    entry_for,
    find_entry,
)
from lockgate.core.text.rules import RULES
from lockgate.core.text.scanner import Scanner


def test_every_entry_is_found_by_its_own_id_and_explains_itself() -> None:
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        assert find_entry(entry.id) == entry
        assert entry.what
        assert entry.why
        assert entry.owasp


def test_the_example_of_hidden_text_is_found_and_the_ordinary_one_is_not(scanner: Scanner) -> None:
    assert any(part.encoded for part in scanner.scan(entry_for("encoded:READING").hit).parts)
    assert not any(part.encoded for part in scanner.scan(entry_for("encoded:READING").miss).parts)


def test_a_pattern_of_the_installation_has_an_entry_too() -> None:
    assert entry_for("custom:3").family == "custom"


@pytest.mark.parametrize(
    ("rule", "entry"),
    [
        ("encoded:base64>hex", "encoded:READING"),
        ("cap:readings", "cap:LIMIT"),
        ("cap:values", "cap:values"),
        ("scope:host", "scope:CROSSING"),
    ],
)
def test_an_id_of_a_finding_has_the_entry_of_its_family(rule: str, entry: str) -> None:
    assert entry_for(rule).id == entry


def test_every_rule_is_in_the_table_with_its_own_words() -> None:
    for rule in RULES:
        entry = entry_for(rule.id)
        assert (entry.what, entry.why, entry.hit, entry.miss) == (rule.what, rule.why, rule.hit, rule.miss)


def test_every_kind_that_reaches_out_is_in_the_table() -> None:
    for name, kind in KINDS.items():
        assert (find_entry(f"effect:{name}") is not None) is (kind.severity >= Severity.REACHES_OUT)


@pytest.mark.parametrize("rule", ["", "seed", "seed:", "encoded", "no-such:rule"])
def test_an_id_that_no_finding_has_is_not_found(rule: str) -> None:
    assert find_entry(rule) is None
