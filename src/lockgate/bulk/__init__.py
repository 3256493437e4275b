"""Audit many recorded sessions: in pieces, on all cores or on Ray, to be continued after an interruption.

`audit` is a pure function over Arrow batches, for notebooks and for engines of one's own.
"""

from __future__ import annotations

from lockgate.bulk.arrow import audit

__all__ = ["audit"]
