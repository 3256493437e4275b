"""What the documents say of `strict_patterns` and of speed is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockgate import Action, Gate, Policy

CONTINUE, PAUSE = Action.CONTINUE, Action.PAUSE
MAIL = {"to": "ana@corp.example", "body": "the token"}


@pytest.mark.parametrize(
    ("tool", "arguments", "goal", "text", "by_default", "strict"),
    [
        ("send_email", MAIL, "Write to ana@corp.example", "About gardens.", PAUSE, PAUSE),
        ("send_email", MAIL, "Write ana@corp.example the token", "About gardens.", CONTINUE, PAUSE),
        ("send_email", MAIL, "Write to ana@corp.example", "", CONTINUE, CONTINUE),
        ("Write", {"file_path": "a.py", "content": "password = ask()"}, "Fix a.py", "About gardens.", CONTINUE, PAUSE),
        ("Bash", {"command": "ls password"}, "Look", "About gardens.", CONTINUE, PAUSE),
        ("Bash", {"command": "ls"}, "Look", "The password is here.", CONTINUE, PAUSE),
        ("Grep", {"pattern": "password"}, "Look", "About gardens.", CONTINUE, CONTINUE),
    ],
)
def test_broad_rules_count_where_the_reference_says(
    tool: str, arguments: dict[str, object], goal: str, text: str, by_default: Action, strict: Action
) -> None:
    for policy, expected in ((Policy(), by_default), (Policy(strict_patterns=True), strict)):
        session = Gate(policy).session(goal=goal)
        if text:
            session.add(text, source="web:page.example")
        assert session.check(tool, arguments).action is expected


def test_the_readme_promises_no_microseconds() -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert "microsecond" not in readme.read_text(encoding="utf-8")
