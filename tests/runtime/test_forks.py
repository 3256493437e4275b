from __future__ import annotations

import gc
import os
from collections.abc import Callable

import pytest

from lockgate.runtime import forks
from lockgate.runtime.forks import on_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def exit_code_of_child(check: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Counted:
    def __init__(self) -> None:
        self.pid = os.getpid()
        on_fork(self.reset)

    def reset(self) -> None:
        self.pid = os.getpid()


def test_a_method_is_called_in_the_child_and_not_in_the_parent() -> None:
    counted, parent = Counted(), os.getpid()
    assert exit_code_of_child(lambda: counted.pid == os.getpid()) == 0
    assert counted.pid == parent


def test_a_function_is_called_in_the_child() -> None:
    seen: list[int] = []
    on_fork(lambda: seen.append(os.getpid()))
    assert exit_code_of_child(lambda: seen == [os.getpid()]) == 0
    assert seen == []


def test_a_registered_object_can_be_collected() -> None:
    # By name and not by count: threads of earlier tests may drop their own while this one runs.
    before = set(forks._resets)
    counted = Counted()
    (number,) = set(forks._resets) - before
    del counted
    gc.collect()
    assert number not in forks._resets


def test_a_reset_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_resets", {})

    def fail() -> None:
        raise OSError

    on_fork(fail)
    counted = Counted()
    assert exit_code_of_child(lambda: counted.pid == os.getpid()) == 0
