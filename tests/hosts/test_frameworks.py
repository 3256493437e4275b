"""The plugs for agent frameworks, each against the real package in an environment of its own.

`LOCKGATE_NEWEST_FRAMEWORKS=1` installs the newest versions instead of the pinned ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = sorted((ROOT / "requirements" / "frameworks").glob("*.txt"))
NEWEST = os.environ.get("LOCKGATE_NEWEST_FRAMEWORKS") == "1"


@pytest.mark.parametrize("pins", PINNED, ids=lambda pins: pins.stem)
def test_a_plug_against_the_real_framework(pins: Path) -> None:
    python = environment_of(pins)
    test = f"tests/integrations/test_{pins.stem.replace('-', '_')}.py"
    # Without the conftest, which needs what only the environment of the other tests has.
    options = ["-q", "-rs", "--noconftest", "--import-mode=importlib", "-p", "no:cacheprovider"]
    run = subprocess.run(
        # What a framework leaves open when it ends is its own matter.
        [
            python,
            "-W",
            "default",
            "-m",
            "pytest",
            "-o",
            f"addopts={' '.join(options)}",
            "-o",
            "filterwarnings=default",
            test,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LOCKGATE_FRAMEWORK": pins.stem},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout[-6_000:] + run.stderr[-2_000:]
    assert "skipped" not in run.stdout, run.stdout[-2_000:]


def environment_of(pins: Path) -> Path:
    """Install what is pinned, once, and return the environment's Python."""
    wanted = pins.with_suffix(".in") if NEWEST else pins
    digest = sha256(wanted.read_bytes()).hexdigest()
    place = ROOT / "build" / "frameworks" / (f"{pins.stem}-newest" if NEWEST else pins.stem)
    python, stamp = place / ("Scripts" if os.name == "nt" else "bin") / "python", place / "installed"
    if not stamp.exists() or stamp.read_text() != digest:
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True, timeout=120)
        given = _newest(wanted) if NEWEST else ["--require-hashes", "-r", str(pins)]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *given]
        subprocess.run(pip, check=True, timeout=900, cwd=ROOT)
        stamp.write_text(digest)
    return python


def _newest(wanted: Path) -> list[str]:
    """Return the packages without their pins, and Lockgate for what it needs itself."""
    lines = wanted.read_text(encoding="utf-8").split()
    return [str(ROOT), *(line.partition("==")[0] for line in lines)]
