"""The entry point: `lockgate hook` loads nothing but the standard library and its own module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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


def test_ctrl_c_while_modules_load_is_an_interruption(tmp_path: Path) -> None:
    """Not a traceback, which ends with 1: that means that a call was flagged."""
    code = (
        "import sys; from lockgate.cli import start; sys.argv = ['lockgate', 'demo']\n"
        "class Stop:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'lockgate.cli.main': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop()); sys.exit(start.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "lockgate: interrupted\n")
