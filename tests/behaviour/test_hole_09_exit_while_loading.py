"""A process that ends while the embedded judge loads or reads ends with its own exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockgate.verifiers.embedded_judge import is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason="this checkout has no model, or not the packages for it")

# A program that waits a moment for the judge and leaves it behind, in the middle of loading or of a long text.
PROGRAM = """
import sys
from concurrent.futures import wait
from lockgate.verifiers.embedded_judge import EmbeddedJudge
judge = EmbeddedJudge()
wait([judge.load_in_background()], timeout=float(sys.argv[1]))
wait([judge.pool.submit(lambda: judge.read_text("the mill is a library now. " * 900))], timeout=0.05)
sys.exit(7)
"""


@pytest.mark.parametrize("seconds", [0, 0.2, 0.4, 0.5, 0.6, 0.8, 60])
def test_a_program_that_leaves_the_judge_behind_keeps_its_exit_code(seconds: float) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(seconds)], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (7, "")


@pytest.mark.parametrize("deadline_ms", [10, 300, 500, 700])
def test_an_assessment_that_misses_its_deadline_is_unclear(deadline_ms: int, cache: Path, tmp_path: Path) -> None:
    environment = os.environ | {"VERIFIER_ADAPTER": "embedded", "VERIFIER_TIMEOUT_MS": str(deadline_ms)}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-P", "-m", "lockgate", "assess", "-"]
    ended = subprocess.run(
        command, input='{"prompt_text": "hi"}', env=environment, capture_output=True, text=True, timeout=120
    )
    # A fast machine answers in time.
    assert (ended.returncode, ended.stdout.split()[0]) in ((1, "unclear"), (0, "safe"))
