"""The optional package `pyarrow`, which reads and writes Parquet files."""

from __future__ import annotations

from typing import Any

from lockgate.core.errors import LockgateError


def require_pyarrow() -> Any:
    """Return the module `pyarrow`, or raise with the line that installs it."""
    try:
        import pyarrow
    except ImportError:
        raise LockgateError(
            "Parquet files and Arrow tables need the package pyarrow", hint="pip install pyarrow"
        ) from None
    return pyarrow
