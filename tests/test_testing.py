"""What `lockgate.testing` offers, and what importing it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lockgate import testing


def test_every_name_is_there_and_no_other() -> None:
    assert all(callable(getattr(testing, name)) for name in testing.__all__ if name != "FAULTS")
    with pytest.raises(AttributeError):
        _ = testing.check_everything


def test_the_rules_are_loaded_for_the_suite_of_plugs_alone() -> None:
    code = "import sys, lockgate.testing; assert 'hyperscan' not in sys.modules; lockgate.testing.check_plug"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'lockgate.gate.gate' in sys.modules"], check=True)
