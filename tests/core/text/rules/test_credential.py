"""Keys, and commands that show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Scan = Callable[[str], set[str]]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("credential:dump-environment", "cat /proc/self/environ"),
        ("credential:service-key", "xoxb-1234567890-abcdef"),
    ],
)
def test_each_part_of_a_rule_with_several_finds_its_text(rule: str, text: str, scan: Scan) -> None:
    assert rule in scan(text)
