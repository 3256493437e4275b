"""The optional package for Parquet: its absence is an error that says how to mend it."""

from __future__ import annotations

import sys

import pytest

from lockgate.core.errors import LockgateError
from lockgate.runtime.arrow import require_pyarrow


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LockgateError) as caught:
        require_pyarrow()
    assert caught.value.hint == "pip install pyarrow"


def test_with_the_package_it_is_the_module() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    assert require_pyarrow() is pyarrow
