"""What a fork does to open files, locks and threads.

`on_fork` resets an object or a module in each forked child. There the other threads are gone, and a lock that one of
them held never opens again.

Stores in SQLite files need more (`watch_forks`). SQLite remembers per process which locks it holds, and a child would
inherit that memory without the locks. So every connection is closed before a fork. If one could not be closed in time,
a vanished thread may hold one of SQLite's own locks: then the child uses none of the files.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from threading import Lock
from types import MethodType
from typing import Protocol

from lockgate.runtime.failures import report_failure

# In the order of registration. A dead object's entry removes itself.
_resets: dict[int, Callable[[], Callable[[], object] | None]] = {}
_numbers = count()


def on_fork(reset: Callable[[], object]) -> None:
    """Call `reset` in every forked child. A bound method is held weakly, so its object can still be collected."""
    number = next(_numbers)
    if isinstance(reset, MethodType):
        # Not a WeakMethod, which prints an error where its object outlives this module at the interpreter's end.
        forget = _resets.pop
        owner = weakref.ref(reset.__self__, lambda _: forget(number, None))
        _resets[number] = partial(_bind, owner, reset.__func__)
    else:
        _resets[number] = lambda: reset


def _bind(owner: weakref.ref[object], function: Callable[..., object]) -> Callable[[], object] | None:
    found = owner()
    return None if found is None else MethodType(function, found)


def _reset_all() -> None:
    for find in list(_resets.values()):
        reset = find()
        try:
            if reset is not None:
                reset()
        except Exception as error:  # noqa: BLE001 - one failed reset must not leave the others undone
            report_failure("fork", error)


class Forked(Protocol):
    def _quieten(self) -> bool:
        """Wait until no thread uses the file, close it, and lock all threads out; False if that took too long."""

    def _go_on(self) -> None:
        """Let the parent's threads in again; called only after `_quieten` returned True."""

    def _start_anew(self, *, quiet: bool) -> None:
        """Begin again in the child, with new locks; `quiet` says whether all stores were closed before the fork."""


_all: weakref.WeakSet[Forked] = weakref.WeakSet()
# Held from before a fork until after it, in the parent.
_forking = Lock()
_quiet: list[Forked] = []


def watch_forks(store: Forked) -> None:
    """Close this store's file before each fork, for as long as the store exists."""
    _all.add(store)


def _before() -> None:
    _forking.acquire()
    _quiet.extend(each for each in list(_all) if each._quieten())


def _in_parent() -> None:
    while _quiet:
        _quiet.pop()._go_on()
    _forking.release()


def _in_child() -> None:
    global _forking
    _forking = Lock()
    stores = list(_all)
    for each in stores:
        each._start_anew(quiet=len(_quiet) == len(stores))
    _quiet.clear()
    _reset_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
