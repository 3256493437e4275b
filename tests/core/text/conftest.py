"""The rules in one database, for the tests of the table and of each family."""

from __future__ import annotations

from collections.abc import Callable

import hyperscan
import pytest

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
    database = hyperscan.Database()
    database.compile(
        expressions=[rule.pattern.encode() for rule in RULES],
        ids=list(range(len(RULES))),
        flags=[engine_flags(rule) for rule in RULES],
    )

    def found(text: str) -> set[str]:
        ids: set[str] = set()
        database.scan(text.encode(), match_event_handler=lambda rule, *_: ids.add(RULES[rule].id))
        return ids

    return found
