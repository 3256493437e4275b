"""Runs the complete program that a page about a framework shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
# What a page may show: more is no example that is read.
MOST_LINES = 40


def program_of_page(name: str) -> str:
    """Return the first Python block of a page."""
    found = re.search(r"```python\n(.*?)```", (PAGES / f"{name}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def run_page(name: str, home: Path) -> str:
    """Run the program of a page in an empty home, and return what it prints."""
    program = program_of_page(name)
    assert len([line for line in program.splitlines() if line.strip()]) <= MOST_LINES
    env = {
        **os.environ,
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=home,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-4_000:]
    return run.stdout
