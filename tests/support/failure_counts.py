"""How many errors an edge has reported in this process."""

from __future__ import annotations

from lockgate.runtime import failures


def count_failures(edge: str) -> int:
    return sum(count for (name, _), count in tuple(failures._counts.items()) if name == edge)
