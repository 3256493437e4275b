"""`lockgate.abuse_gate` is the one place to import the abuse gate from."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lockgate
from lockgate import abuse_gate

ROOT = Path(__file__).resolve().parents[1]
NAMES = [
    "AbuseGateMiddleware",
    "AbuseSettings",
    "FetchVerdict",
    "Identity",
    "Inspector",
    "Ladder",
    "Request",
    "TenantPolicy",
]


def test_the_public_names_are_these() -> None:
    assert abuse_gate.__all__ == NAMES
    assert dir(abuse_gate) == NAMES
    assert all(getattr(abuse_gate, name) is not None for name in NAMES)
    assert abuse_gate.AbuseGateMiddleware is lockgate.AbuseGateMiddleware


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'middelware'"):
        abuse_gate.middelware  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_no_part_of_it() -> None:
    program = "import sys, lockgate.abuse_gate; print([m for m in sys.modules if m.startswith('lockgate.abuse_gate.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("folder", ["docs", "examples", "README.md"])
def test_docs_and_examples_import_from_the_package_only(folder: str) -> None:
    place = ROOT / folder
    for page in [place] if place.is_file() else [*place.rglob("*.md"), *place.rglob("*.py")]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?:from|import) lockgate\.(?:abuse_gate\.\w|settings\.abuse_gate)", text), page
