"""The rules in one database, for the tests of the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockgate.core.text.readings import TRIGGERS
from lockgate.core.text.rules import RULES
from lockgate.core.text.scanner import PatternDatabase, rule_expressions

Scan = Callable[[str], set[str]]


@pytest.fixture(scope="session")
def scan() -> Scan:
    """All rules in one database, as the scanner will have them: that they compile together is part of the test."""
    database = PatternDatabase(dict(enumerate(rule_expressions(RULES)[len(TRIGGERS) :])), None)
    return lambda text: {RULES[number].id for number, _ in database.find_in(text.encode())}
