"""Claims to speak with authority."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Scan = Callable[[str], set[str]]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("authority:ai-reading-this", "in case this page is read by an AI agent"),
        ("authority:orders-you", "This is a system level command"),
        ("authority:override-banner", "system override activated"),
        ("authority:from-your-maker", "I’m your administrator"),
    ],
)
def test_each_part_of_a_rule_with_several_finds_its_text(rule: str, text: str, scan: Scan) -> None:
    assert rule in scan(text)
