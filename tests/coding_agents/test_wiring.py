"""The hooks in each host's settings: put in once, taken out whole, other entries untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.claude_code.hook_command import DEADLINE_S
from lockgate.coding_agents.hook_events import CODING_AGENTS
from lockgate.coding_agents.wiring import apply_agent_change, hooks_path, plan_agent_change
from lockgate.core.errors import LockgateError

COMMAND = ["/usr/bin/python3", "-I", "-S", "/opt/my lib/lockgate/claude_code/hook_command.py"]
OTHERS = {"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "mine"}]}]}, "theme": "dark"}


def install(agent: str, path: Path, *, remove: bool = False) -> bool:
    change = plan_agent_change(agent, None if remove else [*COMMAND, agent, "--url", "http://127.0.0.1:7717"], path)
    apply_agent_change(change)
    return not change.is_empty


@pytest.mark.parametrize("agent", CODING_AGENTS)
def test_they_come_once_and_go_whole(agent: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / hooks_path(agent).name
    assert install(agent, path)
    assert "hook_command.py" in path.read_text()
    assert not install(agent, path)
    assert install(agent, path, remove=True)
    assert not path.exists() or json.loads(path.read_text()) == {}
    assert not install(agent, path, remove=True)


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_other_hooks_stay_as_they_are(agent: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(OTHERS, indent=2))
    assert install(agent, path)
    said = json.loads(path.read_text())
    assert said["theme"] == "dark"
    assert OTHERS["hooks"]["BeforeTool"][0] in said["hooks"]["BeforeTool"]  # type: ignore[index]
    assert install(agent, path, remove=True)
    assert json.loads(path.read_text()) == OTHERS


@pytest.mark.parametrize(("agent", "in_seconds"), [("codex", 1), ("gemini", 1000)])
def test_the_host_waits_longer_than_the_hook(agent: str, in_seconds: int, tmp_path: Path) -> None:
    install(agent, tmp_path / "hooks.json")
    groups = json.loads((tmp_path / "hooks.json").read_text())["hooks"].values()
    assert all(hook["timeout"] > DEADLINE_S * in_seconds for (group,) in groups for hook in group["hooks"])


@pytest.mark.parametrize("agent", ["copilot", "opencode"])
def test_a_file_that_is_not_ours_is_not_overwritten(agent: str, tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text("someone's own")
    with pytest.raises(LockgateError, match="is not ours"):
        install(agent, path)
    assert path.read_text() == "someone's own"


def test_a_file_that_changed_meanwhile_is_left(tmp_path: Path) -> None:
    path = tmp_path / "lockgate.js"
    change = plan_agent_change("opencode", COMMAND, path)
    path.write_text("lockgate, but another")
    with pytest.raises(LockgateError, match="changed meanwhile"):
        apply_agent_change(change)


def test_each_host_s_variable_moves_its_folder() -> None:
    assert hooks_path("codex", {"CODEX_HOME": "/c"}) == Path("/c/hooks.json")
    assert hooks_path("copilot", {"COPILOT_HOME": "/c"}) == Path("/c/hooks/lockgate.json")
    assert hooks_path("opencode", {"XDG_CONFIG_HOME": "/c"}) == Path("/c/opencode/plugin/lockgate.js")
