"""A judge's own hooks: with the token of a running judge nothing passes or is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running_service import ROOT, RunningService

HOOK = ROOT / "src" / "lockgate" / "claude_code" / "hook_command.py"
# Asks through the hook of each agent what it was told to, then clears the case.
JUDGE = """
import json, os, subprocess, sys
text, place = sys.stdin.read(), {place!r}
ran = []
for agent in ("claude-code", "codex"):
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse"):
        said = {{"hook_event_name": event, "session_id": "inner", "cwd": "/", "source": "startup", "prompt": "Judge",
                "tool_name": "Bash", "tool_input": {{"command": "ls"}}, "tool_use_id": "t"}}
        words = [sys.executable, {hook!r}, agent, "--url", "http://127.0.0.1:" + open(place + "/port").read()]
        own = {{**os.environ, "XDG_STATE_HOME": place + "/state"}}
        ended = subprocess.run(words, input=json.dumps(said), env=own, capture_output=True, text=True)
        ran.append([agent, event, ended.returncode, ended.stdout + ended.stderr])
open(place + "/ran", "w").write(json.dumps(ran))
print(json.dumps({{"suspicious": False, "nonce": text.rpartition("the nonce ")[2].split(".")[0]}}))
"""


def tell(service: RunningService, home: Path, agent: str, name: str, **said: object) -> int:
    event = {"hook_event_name": name, "session_id": "outer", "cwd": str(home), **said}
    return subprocess.run(
        [sys.executable, str(HOOK), agent, "--url", f"http://127.0.0.1:{service.port}"],
        input=json.dumps(event).encode(),
        env={**service.environment, "LOCKGATE_JUDGE": "0" * 32},
        capture_output=True,
        timeout=60,
    ).returncode


@pytest.mark.skipif(os.name != "posix", reason="programs judge on POSIX systems")
def test_a_judges_hooks_are_denied_and_leave_no_trace(tmp_path: Path) -> None:
    program = tmp_path / "judge.py"
    program.write_text(f"#!{sys.executable} -IS\n" + JUDGE.format(place=str(tmp_path), hook=str(HOOK)))
    program.chmod(0o700)
    (tmp_path / "config" / "lockgate").mkdir(parents=True)
    (tmp_path / "config" / "lockgate" / "config.toml").write_text(
        f'[security]\nmode = "paranoid"\n[security.verification]\ntriage_model = "command:{program}"\n'
    )
    service = RunningService(tmp_path)
    try:
        (tmp_path / "port").write_text(str(service.port))
        # A token that no judge has: an ordinary session.
        assert tell(service, tmp_path, "codex", "SessionStart", source="startup") == 0
        assert tell(service, tmp_path, "codex", "UserPromptSubmit", prompt="List the files") == 0
        call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
        tell(service, tmp_path, "codex", "PreToolUse", **call)
        ran = json.loads((tmp_path / "ran").read_text())
        assert [(event, code) for _, event, code, _ in ran] == [
            ("SessionStart", 0), ("UserPromptSubmit", 0), ("PreToolUse", 2),
        ] * 2  # fmt: skip
        assert all("calls no tools meanwhile" in said for _, event, _, said in ran if event == "PreToolUse")
        decisions = service.ask("GET", "/v1/decisions?limit=50")["decisions"]
        assert [each["session"] for each in decisions] == ["outer"]
        assert [each["id"] for each in service.ask("GET", "/v1/sessions")["sessions"]] == ["outer"]
        assert service.ask("GET", "/v1/policy")["triage"] == f"command:{program}"
    finally:
        service.end()
