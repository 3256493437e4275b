"""The ledger: every ruling counted on a line of a file that several processes share, for `lockgate stats`.

Not an audit: here a call that Tier 1 lets pass costs a microsecond or two, and what a killed process may lose is
bounded and said. A ruling that reached a higher tier is written at once. Tier 1 passes wait for company: until there
are `BATCH` of them, until one comes a second after the last write, or until the process ends.
"""

from __future__ import annotations

import os
import stat
import weakref
from atexit import register
from collections import deque
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING

from lockgate.gate.ledger_lines import (
    LedgerEntry,
    LedgerPass,
    entry_from_decision,
    format_lines,
    pass_from_decision,
)
from lockgate.runtime.forks import on_fork

if TYPE_CHECKING:
    from lockgate.core.vocabulary import Decision

# A process that is killed loses fewer Tier 1 passes than this, all of one second, and nothing else.
BATCH = 128
FLUSH_S = 1.0
# The file is put aside when it is larger, in place of the one put aside before: two of them is all the room it takes.
MAX_BYTES = 64 * 1024 * 1024
# What may wait while the disk does not answer.
_MAX_WAITING = 4096


class FileLedger:
    """Notes rulings in one file. Never raises and never stops a ruling: what cannot be written is counted in `lost`.

    Nothing is open between two writes, so a fork, a rotation or a file that was put in its place is no special case.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.lost = 0
        # Why the last write failed; empty when it did not.
        self.problem = ""
        self._max_bytes = max_bytes
        self._waiting: deque[LedgerEntry | LedgerPass] = deque(maxlen=_MAX_WAITING)
        self._writing = Lock()
        self._wrote_s = 0.0
        _ledgers.add(self)
        on_fork(self._reset_after_fork)

    def note(self, session: str, number: int, tool: str, decision: Decision) -> None:
        """Take a ruling in; what it was about stays out."""
        try:
            now_s = time()
            waiting = self._waiting
            self.lost += len(waiting) == _MAX_WAITING
            cheap = pass_from_decision(now_s, session, decision)
            waiting.append(entry_from_decision(now_s, session, number, tool, decision) if cheap is None else cheap)
            # A clock that was put back has nothing to say about how long ago the last write was.
            if cheap is None or len(waiting) >= BATCH or not 0 <= now_s - self._wrote_s < FLUSH_S:
                self.flush()
        except Exception as error:  # noqa: BLE001  # counting must not decide whether a call may run
            self.lost += 1
            self.problem = type(error).__name__

    def flush(self) -> None:
        """Write what waits. A thread that finds another one writing leaves its entries to it."""
        while self._waiting and self._writing.acquire(blocking=False):
            batch: list[LedgerEntry | LedgerPass] = []
            try:
                with suppress(IndexError):
                    while True:
                        batch.append(self._waiting.popleft())
                self._append_lines(format_lines(batch).encode("ascii"))
                self.problem = ""
            except (OSError, ValueError) as error:
                self.lost += len(batch)
                self.problem = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
            finally:
                self._wrote_s = time()
                self._writing.release()

    def files(self) -> tuple[Path, ...]:
        """Where the entries are, oldest first, as far as there are any."""
        return tuple(each for each in (self._rotated_path, self.path) if each.is_file())

    @property
    def _rotated_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.1")

    def _append_lines(self, data: bytes) -> None:
        """Add lines with one write, which the system keeps in one piece beside other processes' writes."""
        handle = self._open_file()
        try:
            status = os.fstat(handle)
            _refuse_unsafe_file(status)
            # A machine that went down, or a full disk, may have left half a line: ours must not be glued to it.
            if _PREAD and status.st_size and os.pread(handle, 1, status.st_size - 1) != b"\n":
                data = b"\n" + data
            if os.write(handle, data) != len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            if status.st_size + len(data) > self._max_bytes:
                self._rotate(handle)
        finally:
            os.close(handle)

    def _open_file(self) -> int:
        # Without O_NONBLOCK a named pipe in its place would block us until another process reads from it.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self.path, flags, 0o600)

    def _rotate(self, handle: int) -> None:
        """Make room for a new file. The lock is the full file itself: a second process finds another file in its place.

        No process waits for the lock: one that was stopped while it held the lock must not stop the others.
        """
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            full, named = os.fstat(handle), os.stat(self.path)
            if (full.st_dev, full.st_ino) == (named.st_dev, named.st_ino):
                os.replace(self.path, self._rotated_path)

    def _reset_after_fork(self) -> None:
        """Drop what waits: the parent writes it. Replace the lock, which a thread of the parent may hold."""
        self._waiting.clear()
        self._writing = Lock()

    def __del__(self) -> None:
        # A gate that is made for one call and dropped has made its rulings all the same.
        with suppress(Exception):
            self.flush()


def _refuse_unsafe_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        raise OSError("can be written by others")


_PREAD = hasattr(os, "pread")
try:
    import fcntl
except ImportError:  # Windows, where a file that others have open cannot be put aside anyway
    fcntl = None  # type: ignore[assignment]

_ledgers: weakref.WeakSet[FileLedger] = weakref.WeakSet()


def _flush_all() -> None:
    for ledger in list(_ledgers):
        ledger.flush()


register(_flush_all)
