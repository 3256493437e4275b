"""Work for the tests of engines, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from lockgate.core.errors import LockgateError


def make_square() -> Callable[[int], int]:
    return lambda number: number * number


def make_failing() -> Callable[[int], int]:
    def work(number: int) -> int:
        if number == 3:
            raise LockgateError("three is too much")
        return number

    return work


def make_killed() -> Callable[[int], int]:
    """Return work that kills its process at the third piece."""

    def work(number: int) -> int:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return work


def make_once_killed(folder: str) -> Callable[[int], int]:
    """Return work that kills its process once, at the fifth piece, and works when asked again."""

    def work(number: int) -> int:
        time.sleep(0.01)
        mark = Path(folder) / "killed"
        if number == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    return work


def make_endless(folder: str) -> Callable[[int], int]:
    """Return work that never ends but for the first piece, and notes its process."""

    def work(number: int) -> int:
        (Path(folder) / str(os.getpid())).touch()
        while number:
            time.sleep(1)
        return number

    return work
