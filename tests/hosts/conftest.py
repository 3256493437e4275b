"""A machine with Claude Code for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_machine import Machine, make_machine


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
    bare.serve()
    bare.init()
    return bare
