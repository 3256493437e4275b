"""The entry point: `lockgate hook` loads nothing but the standard library and its own module."""

from __future__ import annotations

import subprocess
import sys


def loaded_by(*argv: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-P", "-m", "lockgate", *argv]
    done = subprocess.run(command, input="", capture_output=True, check=False, text=True, timeout=60)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_the_hook_loads_no_command() -> None:
    loaded = loaded_by("hook", "claude-code")
    assert "lockgate.claude_code.hook_command" in loaded
    others = loaded - {"lockgate.cli.start"}
    assert not [name for name in others if name.startswith(("lockgate.cli.", "lockgate.core", "lockgate.settings"))]


def test_help_of_the_hook_is_a_command_s() -> None:
    assert "lockgate.cli.main" in loaded_by("hook", "--help")
