"""What several host tests need: a machine with Claude Code, and LiteLLM in an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_machine import Machine, make_machine

# Another version may describe requests in another way: it is changed on purpose, and looked at.
LITELLM = "litellm[proxy]==1.106.2"
INSTALL_S = 200


@pytest.fixture(scope="session")
def claude_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")


@pytest.fixture
def bare(tmp_path: Path, claude_cache: Path) -> Iterator[Machine]:
    """A machine with Claude Code and Lockgate, and neither knows of the other; shell commands need no permission."""
    machine = make_machine(tmp_path, claude_cache)
    yield machine
    machine.close()


@pytest.fixture
def machine(bare: Machine) -> Machine:
    """The same with the service running and the hooks in place."""
    # In this order: `init` writes into the configuration, and a running service would change its policy in mid-test.
    bare.init()
    bare.serve()
    return bare


@pytest.fixture(scope="session")
def litellm() -> Path:
    """LiteLLM's command, installed once; its pins conflict with ours."""
    folder = Path(sys.prefix) / "litellm"
    stamp = folder / "installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != LITELLM:
        shutil.rmtree(folder, ignore_errors=True)
        ends = time.monotonic() + INSTALL_S
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_S)
        python = folder / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", LITELLM]
        subprocess.run(install, check=True, timeout=ends - time.monotonic())
        stamp.write_text(LITELLM, encoding="utf-8")
    return folder / "bin" / "litellm"
