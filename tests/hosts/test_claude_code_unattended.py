"""Claude Code without a person: a run that was stopped says so, and a script fails on it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from claude_machine import HIJACK, MISSING, POISON, Machine, Model, bash

if MISSING:
    pytest.skip(MISSING, allow_module_level=True)

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "ci.md"


def ci_script() -> str:
    """The script of the guide, as it stands there."""
    found = re.search(r"```sh\n(#!/bin/sh\n.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def run_ci(machine: Machine, model: Model) -> subprocess.CompletedProcess[str]:
    machine.models.append(model)
    script = machine.home / "ci.sh"
    script.write_text(ci_script())
    return subprocess.run(
        ["sh", str(script), "Say how long the build takes"],
        env=machine.env(ANTHROPIC_BASE_URL=f"http://127.0.0.1:{model.port}"),
        cwd=machine.work, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["http", "command"])
def test_a_held_run_says_so_on_stderr_and_fails_a_ci_script(bare: Machine, form: str) -> None:
    bare.serve()
    bare.init(f"--{form}")
    ordinary = run_ci(bare, Model(bash("touch ordinary")))
    assert ordinary.returncode == 0, ordinary.stderr
    assert bare.has("ordinary")
    assert "Lockgate" not in ordinary.stderr

    bare.work.joinpath("README.md").write_text(POISON)
    held = run_ci(bare, Model(("Read", {"file_path": str(bare.work / "README.md")}), bash(HIJACK), bash("ls")))
    assert not bare.has("pwned")
    assert held.returncode == 3
    assert "Lockgate stopped this run: 1 call is held for a person" in held.stderr
    assert "held for a person: 1 call" in held.stdout
    session = re.search(r"--session ([0-9a-f-]{36})`", held.stderr)
    assert session is not None
    (transcript,) = (bare.home / ".claude" / "projects").glob(f"*/{session[1]}.jsonl")
    assert "Lockgate stopped this call" in transcript.read_text()
