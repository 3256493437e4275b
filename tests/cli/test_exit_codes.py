"""Scripts rely on these numbers."""

from __future__ import annotations

from lockgate.cli.exit_codes import Exit


def test_each_code_has_its_number() -> None:
    assert {code.name: code.value for code in Exit} == {
        "CLEAR": 0,
        "FLAGGED": 1,
        "INVALID": 2,
        "HELD": 3,
        "BROKEN": 70,
        "INTERRUPTED": 130,
        "UNREAD": 141,
    }
