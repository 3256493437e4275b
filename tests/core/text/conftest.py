"""The rules in one database, for the tests of the table and of each family."""

from __future__ import annotations

from collections.abc import Callable

import hyperscan
import pytest

from lockgate.core.text import scanner as scanner_module
from lockgate.core.text.rules import RULES, Rule

Scan = Callable[[str], set[str]]


def engine_flags(rule: Rule) -> int:
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
    if rule.dotall:
        flags |= hyperscan.HS_FLAG_DOTALL
    if rule.utf8:
        flags |= hyperscan.HS_FLAG_UTF8 | hyperscan.HS_FLAG_UCP
    return flags


@pytest.fixture(scope="session")
def scan() -> Scan:
    """All rules in one database, as the scanner will have them: that they compile together is part of the test."""
    database = scanner_module._compile(
        {number: (rule.pattern, engine_flags(rule)) for number, rule in enumerate(RULES)}
    )

    scratch = hyperscan.Scratch(database)

    def found(text: str) -> set[str]:
        ids: set[str] = set()
        database.scan(text.encode(), match_event_handler=lambda rule, *_: ids.add(RULES[rule].id), scratch=scratch)
        return ids

    return found
