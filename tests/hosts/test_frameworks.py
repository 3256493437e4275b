"""The plugs for agent frameworks and the recipes for others, each against the real package in its own environment.

`LOCKGATE_NEWEST_FRAMEWORKS=1` installs the newest versions instead of the pinned ones.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from ast import literal_eval
from hashlib import sha256
from pathlib import Path

import pytest
from page_programs import program_of_page
from running_service import RunningService

ROOT = Path(__file__).parents[2]


def driver_of(pins: Path) -> Path:
    """Return where the driver of a recipe for `guard_tool` is; the frameworks with a plug have none."""
    return Path(__file__).parent / "recipes" / f"{pins.stem.replace('-', '_')}_driver.py"


PINNED = sorted((ROOT / "requirements" / "frameworks").glob("*.txt"))
DAFT = ROOT / "requirements" / "frameworks" / "daft.txt"
PLUGS = [pins for pins in PINNED if not driver_of(pins).exists() and pins != DAFT]
# Ray is no agent framework, and needs an environment of its own for the same reasons.
OTHER_TESTS = {
    "ray": [
        "tests/bulk",
        "tests/bench/test_bulk.py",
        "tests/cli/eval/test_trace_files.py",
        "tests/cli/test_replay_bulk.py",
        "tests/journal/test_archive.py",
        "tests/cli/audit/test_archive.py",
    ]
}
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
TABLE = re.compile(r"<!-- one attack in all frameworks -->\n\n(.*?)\n<!-- end -->", re.DOTALL)
NEWEST = os.environ.get("LOCKGATE_NEWEST_FRAMEWORKS") == "1"


@pytest.mark.parametrize("pins", PLUGS, ids=lambda pins: pins.stem)
def test_a_plug_against_the_real_framework(pins: Path) -> None:
    python = environment_of(pins)
    tests = OTHER_TESTS.get(pins.stem) or [f"tests/integrations/test_{pins.stem.replace('-', '_')}.py"]
    # The bench has a module that is called like a package of some frameworks, so it is not there for those.
    paths = [ROOT / "src", *([ROOT / "bench"] if pins.stem in OTHER_TESTS else [])]
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
            *tests,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "LOCKGATE_FRAMEWORK": pins.stem},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-6_000:] + run.stderr[-2_000:]
    assert "skipped" not in run.stdout, run.stdout[-2_000:]


def test_a_plug_asks_a_running_service_which_records_the_calls(tmp_path: Path) -> None:
    """Play the program of a page with a plug that asks a service; one framework stands for all."""
    pins = ROOT / "requirements" / "frameworks" / "agent-framework.txt"
    service = RunningService(tmp_path)
    try:
        plug = f'LockgateLayer(Plug("agent-framework", url="http://127.0.0.1:{service.port}"))'
        program = program_of_page("agent-framework").replace("LockgateLayer()", plug)
        run = subprocess.run(
            [environment_of(pins), "-P", "-c", f"from lockgate.integrations.plug import Plug\n{program}"],
            cwd=tmp_path,
            env=service.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-4_000:]
        assert f"on the page of http://127.0.0.1:{service.port}, then let the run go on" in run.stdout
        (shown,) = service.ask("GET", "/v1/sessions")["sessions"]
        assert (shown["id"], shown["host"]) == ("chat-7", "framework-agent-framework")
    finally:
        service.end()
    records = subprocess.run(
        [sys.executable, "-P", "-m", "lockgate", "audit", "show", "--kind", "ruling", "--json"],
        cwd=tmp_path,
        env=service.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    rulings = [json.loads(line)["record"] for line in records.stdout.splitlines()]
    found = [(each["session"], each["tool"], each["action"]) for each in rulings]
    assert found == [("chat-7", "read_page", "CONTINUE"), ("chat-7", "send_email", "PAUSE")]


@pytest.mark.parametrize("pins", [pins for pins in PINNED if driver_of(pins).exists()], ids=lambda pins: pins.stem)
def test_a_recipe_holds_the_hijacked_call(pins: Path, tmp_path: Path) -> None:
    folders = {f"XDG_{name}_HOME": str(tmp_path) for name in ("STATE", "CACHE", "CONFIG")}
    run = subprocess.run(
        [environment_of(pins), driver_of(pins).with_name("play_recipe.py"), pins.stem],
        cwd=tmp_path,
        env={**os.environ, **folders, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-4_000:]


def test_the_audit_over_a_dataframe_of_daft_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "bulk.md").read_text(encoding="utf-8")
    (program,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "import daft" in each]
    # Daft's own threads can abort the interpreter at its end, on a busy machine: once in some twenty runs.
    for _ in range(3):
        run = subprocess.run(
            [environment_of(DAFT), "-P", "-c", program],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path), "DO_NOT_TRACK": "1", "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if run.returncode != -signal.SIGABRT:
            break
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-4_000:]
    held, damaged = literal_eval(run.stdout.splitlines()[-1])
    assert held == {"file": "monday", "tool": "send_email", "action": "PAUSE", "error": ""}
    assert (damaged["file"], damaged["action"]) == ("tuesday", "")
    assert damaged["error"].startswith("line 1: not JSON")


@pytest.mark.skipif(NEWEST, reason="the table is about the pinned versions")
def test_the_same_attack_ends_the_same_in_all_frameworks() -> None:
    """Hold the table on the page against a run; `LOCKGATE_WRITE_TABLE=1` writes it."""
    rows = {pins.stem: attack_row(environment_of(pins), pins) for pins in PLUGS if pins.stem not in OTHER_TESTS}
    text = PAGE.read_text(encoding="utf-8")
    found = TABLE.search(text)
    assert found is not None
    if os.environ.get("LOCKGATE_WRITE_TABLE") == "1":
        PAGE.write_text(f"{text[: found.start(1)]}{table_of(rows)}{text[found.end(1) :]}", encoding="utf-8")
    else:
        assert found[1] == table_of(rows)


def attack_row(python: Path, pins: Path) -> dict[str, str]:
    """Play the attack in one framework, and return what became of it."""
    package = next(each for each in pins.with_suffix(".in").read_text().split() if "==" in each).partition("==")[0]
    run = subprocess.run(
        [python, ROOT / "tests" / "support" / "attack_row.py", pins.stem.replace("-", "_"), package],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-4_000:]
    cells: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return {"framework": f"[{package}]({pins.stem}.md)", **cells}


def table_of(rows: dict[str, dict[str, str]]) -> str:
    """Return the rows as a table."""
    titles = list(next(iter(rows.values())))
    lines = [titles, ["---"] * len(titles), *(list(rows[name].values()) for name in sorted(rows))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def environment_of(pins: Path) -> Path:
    """Install what is pinned, once, and return the environment's Python."""
    wanted = pins.with_suffix(".in") if NEWEST else pins
    digest = sha256(wanted.read_bytes()).hexdigest()
    place = ROOT / "build" / "frameworks" / (f"{pins.stem}-newest" if NEWEST else pins.stem)
    python, stamp = place / ("Scripts" if os.name == "nt" else "bin") / "python", place / "installed"
    if not stamp.exists() or stamp.read_text() != digest:
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True, timeout=120)
        # The pins are complete. Bytecode is made of what is imported, which is a small part of most frameworks.
        given = _newest(wanted) if NEWEST else ["--require-hashes", "--no-deps", "--no-compile", "-r", str(pins)]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *given]
        subprocess.run(pip, check=True, timeout=900, cwd=ROOT)
        stamp.write_text(digest)
    return python


def _newest(wanted: Path) -> list[str]:
    """Return the packages without their pins, and Lockgate for what it needs itself."""
    lines = wanted.read_text(encoding="utf-8").split()
    return [str(ROOT), *(line.partition("==")[0] for line in lines)]
