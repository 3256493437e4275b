"""Files that SQLite has open when the process forks.

SQLite remembers per process which locks it holds. A child would inherit that memory and not the locks: so before a fork
every connection is closed. Where one could not be in time, a thread that is not in the child may hold a lock of
SQLite's own there: the child then uses none of the files.
"""

from __future__ import annotations

import os
import weakref
from threading import Lock
from typing import Protocol


class Forked(Protocol):
    def _quieten(self) -> bool:
        """Wait until nobody uses the file, close it, and keep everybody out; False if that did not come in time."""

    def _go_on(self) -> None:
        """In the parent, where it was quiet."""

    def _start_anew(self, *, quiet: bool) -> None:
        """In the child: no lock that was held is anybody's there, and no thread but one."""


_all: weakref.WeakSet[Forked] = weakref.WeakSet()
# Owner: whoever is forking.
_forking = Lock()
_quiet: list[Forked] = []


def minded(store: Forked) -> None:
    """From here on, forks are minded as long as there is this store."""
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
