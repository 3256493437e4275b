"""The hooks in each host's settings: put in once, taken out whole, other entries untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.claude_code.hook_command import DEADLINE_S
from lockgate.coding_agents.hook_events import CODING_AGENTS
from lockgate.coding_agents.hook_settings import (
    apply_agent_change,
    hooks_path,
    plan_agent_change,
    switched_off_in,
    wired_commands,
)
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


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n"),
        ("codex", ".codex/config.toml", "features = { hooks=false }"),
        ("gemini", ".gemini/settings.json", '{"hooksConfig": {"enabled": false}}'),
        ("gemini", ".gemini/settings.json", '{"hooksConfig": {"disabled": ["x"]}}'),
        ("copilot", ".github/copilot/settings.json", '{"disableAllHooks": true}'),
        ("copilot", ".claude/settings.local.json", '{"disableAllHooks":true}'),
    ],
)
def test_settings_of_a_folder_that_switch_hooks_off_are_found(agent: str, name: str, text: str, tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path / "c"), "GEMINI_CLI_HOME": str(tmp_path / "g")}
    (path := tmp_path / "work" / name).parent.mkdir(parents=True)
    path.write_text(text.replace("false", "true") if agent == "codex" else '{"hooksConfig": {"disabled": []}}')
    assert switched_off_in(agent, tmp_path / "work" / "sub", environ) is None
    path.write_text(text)
    assert switched_off_in(agent, tmp_path / "work" / "sub", environ) == path


def test_a_link_as_settings_is_kept_as_a_link_or_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for agent in CODING_AGENTS:
        path, real = tmp_path / "home" / f"{agent}.json", tmp_path / f"elsewhere-{agent}"
        real.write_text('{"lockgate": 1}' if agent in ("copilot", "opencode") else "{}")
        path.symlink_to(real)
        with pytest.raises(LockgateError, match="is a link"):
            install(agent, path)
        assert path.is_symlink()


@pytest.mark.parametrize("agent", ["codex", "gemini"])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OTHERS, indent=2) + "\n",
        '{\n\t"theme" : "dark",\n\t"hooks":{"BeforeTool": [ {"hooks": [] } ], "PreToolUse":[{"hooks":[1]}]}}',
        '{"a": "\\u00e9 \u00e9"}\r\n',
        '{\r\n  "a": 1.0\r\n}\r\n',
        "{}",
    ],
)
def test_removing_gives_back_the_very_bytes(agent: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(text.encode())
    assert install(agent, path)
    assert install(agent, path, remove=True)
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("agent", CODING_AGENTS)
def test_odd_names_reach_the_hook_as_they_are(agent: str, tmp_path: Path) -> None:
    odd = [
        *COMMAND[:3],
        '/opt/it\'s a "home" `x` $Y/lockgate/claude_code/hook_command.py',
        agent,
        "--url",
        "http://[::1]:1",
    ]
    path = tmp_path / "h.json"
    apply_agent_change(plan_agent_change(agent, odd, path))
    assert next(iter(wired_commands(agent, path).values())) == odd
