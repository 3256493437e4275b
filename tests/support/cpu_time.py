"""CPU time of the calling thread, measured so that one garbage collection or a busy machine fails no test."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

TRIES = 3


def spent(work: Callable[[], object]) -> float:
    """Return the CPU seconds that this work took."""
    began = thread_time()
    work()
    return thread_time() - began


def takes_less(limit_s: float, work: Callable[[], object]) -> bool:
    """Return whether the work stays below a limit in one of some tries: what is too slow is so in all of them."""
    return any(spent(work) < limit_s for _ in range(TRIES))


def takes_at_most_times(times: float, work: Callable[[], object], other: Callable[[], object], floor_s: float) -> bool:
    """Return whether the work takes at most so many times as long as the other, or the floor, in one of some tries."""
    return any(
        (taken := spent(work)) < floor_s or taken < times * min(spent(other) for _ in range(TRIES))
        for _ in range(TRIES)
    )
