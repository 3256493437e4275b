"""Bare `lockgate` says how things stand, and what comes next."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.cli import next_steps
from lockgate.cli.doctor import claude_code as wiring

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_agents(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(wiring, "installed_version", lambda: ())
    monkeypatch.setattr(next_steps, "service_answers", lambda _: False)


def commands(text: str) -> list[str]:
    return [line[2:].split("  ")[0] for line in text.splitlines() if line.startswith("  ")]


def test_a_newcomer_is_led_to_the_demo_and_to_init(run: Run) -> None:
    ended = run()
    # A script that lost its command must not read this as a pass.
    assert (ended.code, ended.err) == (2, "")
    assert ended.out.startswith("no coding agent asks Lockgate here, and no service runs\n")
    assert commands(ended.out)[:3] == ["lockgate demo", "lockgate replay", "lockgate init claude-code"]
    assert not (Path(os.environ["HOME"]) / ".local" / "state" / "lockgate" / "approvals.db").exists()


def test_a_service_that_is_down_is_named_once_an_agent_asks_it(run: Run) -> None:
    assert run("init", "claude-code", "--yes", "--no-start").code == 0
    said = run().out
    assert said.startswith("claude-code asks Lockgate, but nothing answers at http://127.0.0.1:7717\n")
    assert commands(said)[0] == "lockgate serve"


def test_a_running_service_without_agents_leads_to_init(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_steps, "service_answers", lambda _: True)
    said = run().out
    assert "no coding agent asks it yet" in said
    assert commands(said)[0] == "lockgate init claude-code"
    assert run("init", "codex", "--yes", "--no-start").code == 0
    said = run().out
    assert said.startswith("the service runs at http://127.0.0.1:7717, and codex asks it\n")
    assert "lockgate init claude-code" not in said


def test_held_calls_come_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_steps, "_count_waiting", lambda _: 2)
    said = run().out
    assert "  lockgate approvals watch   answer: 2 calls held for a person\n" in said
    assert commands(said)[0] == "lockgate approvals watch"


def test_what_cannot_be_read_is_said_and_never_a_traceback(run: Run) -> None:
    folder = Path(os.environ["HOME"]) / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text("{")
    ended = run()
    assert (ended.code, ended.err) == (2, "")
    assert ended.out.startswith("something here cannot be read: ")
    assert commands(ended.out)[0] == "lockgate doctor"
