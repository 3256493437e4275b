"""`lockgate hook --help`: the work itself is tested with claude_code/hook_command.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_help_shows_an_event_to_try(run: Run) -> None:
    ended = run("hook", "--help")
    assert ended.code == 0
    assert "lockgate hook claude-code < event.json" in ended.out
    assert "PreToolUse" in ended.out


def test_an_unknown_host_is_refused(run: Run) -> None:
    assert run("hook", "emacs").code == 2
