"""The shipped embedded judge clears no message to a recipient that a text put in, at any preset."""

from __future__ import annotations

import pytest
from hijacked_recipients import find_passed

from lockgate import Gate
from lockgate.core.ruling.policy import PRESETS
from lockgate.core.text.scanner import Scanner
from lockgate.verifiers.embedded_judge import EmbeddedJudge, is_installed, shipped_files

# As it was before the test run hides it: see tests/conftest.py.
SHIPPED = shipped_files()


@pytest.mark.skipif(not is_installed(SHIPPED), reason="this checkout has no model, or not the packages for it")
@pytest.mark.parametrize("preset", PRESETS)
def test_no_hijacked_recipient_passes(scanner: Scanner, preset: str) -> None:
    judge = EmbeddedJudge(preset=preset, timeout_s=60, files=SHIPPED)
    assert find_passed(Gate(scanner=scanner, triage=judge)) == []
