"""`lockgate doctor --agent`: hooks that are missing, that fail, and a canary that is stopped where it should be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lockgate.cli.doctor import CheckState
from lockgate.cli.doctor.coding_agents import canary_event, coding_agent_checks
from lockgate.coding_agents.hook_events import CODING_AGENTS, EventKind, parse_agent_event
from lockgate.coding_agents.hook_settings import apply_agent_change, hooks_path, plan_agent_change


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def wire(agent: str, home: Path, program: str) -> None:
    """Install a hook that is a program of ours in the place of the real one."""
    folder = home / "lockgate" / "claude_code"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hook_command.py").write_text(program)
    command = [sys.executable, "-I", "-S", str(folder / "hook_command.py"), agent]
    apply_agent_change(plan_agent_change(agent, command, hooks_path(agent)))


HOLDS = "import sys\nsaid = sys.stdin.read()\nif '| sh' in said and 'IMPORTANT' not in said: sys.exit('no' and print('no', file=sys.stderr) or 2)\n"  # noqa: E501


@pytest.mark.parametrize("agent", CODING_AGENTS)
def test_every_kind_of_event_is_one_that_the_service_reads(agent: str) -> None:
    for kind in ("start", "prompt", "call", "result", "end"):
        _, body = canary_event(agent, kind, "s1", "ls")
        event = parse_agent_event(agent, json.dumps(body).encode())
        assert event.kind is EventKind(kind)
        assert kind != "start" or event.begins


@pytest.mark.parametrize("agent", CODING_AGENTS)
def test_a_hook_that_stops_only_the_hijacked_call_is_fine(agent: str, home: Path) -> None:
    wire(agent, home, HOLDS)
    found = {check.name: check.state for check in coding_agent_checks(agent, {"HOME": str(home)})}
    assert found == {"hooks": CheckState.OK, "canary": CheckState.OK, "limits": CheckState.WARN}


@pytest.mark.parametrize("agent", CODING_AGENTS)
@pytest.mark.parametrize(
    ("program", "said"),
    [("", "let through"), ("import sys; sys.exit('down')", "was stopped"), ("import sys; sys.exit(2)", "was stopped")],
)
def test_a_hook_that_lets_it_through_or_stops_all_fails(agent: str, home: Path, program: str, said: str) -> None:
    wire(agent, home, program)
    (canary,) = [each for each in coding_agent_checks(agent, {"HOME": str(home)}) if each.name == "canary"]
    assert canary.state is CheckState.FAIL
    assert said in canary.said


@pytest.mark.parametrize("agent", CODING_AGENTS)
def test_no_hooks_are_a_failure_with_the_command_that_puts_them_in(agent: str, home: Path) -> None:
    (only,) = coding_agent_checks(agent, {"HOME": str(home)})
    assert only.state is CheckState.FAIL
    assert only.hint == f"lockgate init {agent}"


def test_hooks_for_some_events_only_are_a_failure(home: Path) -> None:
    wire("codex", home, HOLDS)
    path = hooks_path("codex")
    said = json.loads(path.read_text())
    del said["hooks"]["PreToolUse"]
    path.write_text(json.dumps(said))
    (only,) = coding_agent_checks("codex", {"HOME": str(home)})
    assert "PreToolUse" in only.said


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_settings_that_switch_hooks_off_are_a_failure(agent: str, home: Path) -> None:
    wire(agent, home, HOLDS)
    if agent == "codex":
        (home / ".codex" / "config.toml").write_text("[features]\nhooks = false\n")
    else:
        path = hooks_path(agent)
        path.write_text(json.dumps({**json.loads(path.read_text()), "hooksConfig": {"enabled": False}}))
    (only,) = coding_agent_checks(agent, {"HOME": str(home)})
    assert only.state is CheckState.FAIL
    assert "switches them off" in only.said
