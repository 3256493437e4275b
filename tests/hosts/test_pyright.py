"""The examples, and the programs in README and pages, under pyright: what users of our annotations see."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages whose programs need a framework, or go on from each other, are left out.
FRAMEWORKS = {"bulk", "guard-tool", *(path.stem for path in (ROOT / "requirements" / "frameworks").glob("*.in"))}
PAGES = [
    ROOT / "README.md",
    *(DOCS / "tutorial").glob("*.md"),
    *(path for path in (DOCS / "how-to").glob("*.md") if path.stem not in FRAMEWORKS),
    DOCS / "reference" / "library.md",
    DOCS / "reference" / "verifiers.md",
]


def check(folder: Path) -> list[str]:
    """What pyright finds: examples and README in strict mode, the rest in its standard one."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run pyright with")
    spec = importlib.util.find_spec("pyright")
    assert spec is not None
    assert spec.origin is not None
    config = {"typeCheckingMode": "standard", "strict": ["examples", "README"], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    program = Path(spec.origin).parent / "dist" / "index.js"
    words = [node, str(program), "--project", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    # As a user's: Lockgate is among the installed packages.
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(words, capture_output=True, timeout=300, check=False, env=environ)
    found = json.loads(ended.stdout)
    assert found["summary"]["filesAnalyzed"] == len(list(folder.rglob("*.py")))
    return [
        f"{Path(each['file']).relative_to(folder)}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in found["generalDiagnostics"]
    ]


def test_examples_and_pages_pass(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for page in PAGES:
        programs = re.findall(r"^```py(?:thon)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for number, program in enumerate(programs):
            place = tmp_path / page.stem / f"block_{number}.py"
            place.parent.mkdir(exist_ok=True)
            place.write_text(program, encoding="utf-8")
    assert (tmp_path / "README" / "block_0.py").exists()
    assert check(tmp_path) == []


def test_a_misuse_is_found(tmp_path: Path) -> None:
    """Else a library that pyright cannot find would pass."""
    wrong = "from lockgate import Gate\n\nGate().session(goal=1).check('a', {}).nothing\n"
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    found = "\n".join(check(tmp_path))
    assert '"goal"' in found
    assert '"nothing"' in found
