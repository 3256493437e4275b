"""What is being passed on to agents just now: marks that every process of this machine sees at once.

Whoever passes a text on and keeps it afterwards says so here first; whoever rules in the same session in another
process waits until it is kept. A mark that a process left when it ended is turned into a doubt about the session: what
it had passed on may be kept nowhere.

One file of slots, which everybody maps. A process holds a lock on its slot for as long as it lives: that tells whether
it does. Where no mark can be made (another system, no slot left, a file that is not fit) there is None, and a text is
kept before it is passed on. A mark that cannot be read is no pass: whoever has to rule is told so.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import lru_cache
from math import inf
from mmap import mmap
from pathlib import Path
from threading import Lock
from time import monotonic, sleep

from lockgate.core.errors import LockgateError, SessionsUnavailable, quoted
from lockgate.runtime.forks import on_fork
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.sessions.stores.doubts import Doubts, mark_of

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, lockf
except ImportError:  # Windows
    _LOCKS = False
else:
    _LOCKS = True

# The first slot says what the file is, and how many of the others were ever used. In each of those: whose session, how
# many texts were begun to be passed on, and how many of them are kept.
_MAGIC = b"lkgpas/1"
_SLOT = 64
_SLOTS = 1_024
_SIZE = _SLOT * (1 + _SLOTS)
_USED = 1
_BEGUN, _KEPT = 2, 3
_WORDS = _SLOT // 8
_NOBODY = bytes(16)
_LOOK_EVERY_S = 0.0005
_TRIES, _TRY_EVERY_S = 20, 0.001
_SEE_EVERY_S = 0.5
_ANEW = "end everything that uses the sessions, and move the file away"
_FILE = PrivateFileKind("the marks", "hide what your agents are reading", "sessions", secret=True)


class Mark:
    """This process's mark on one session."""

    def __init__(self, file: MarkFile, slot: int, name: str) -> None:
        self._file = file
        self._slot = slot
        self._name = name
        self._begun, self._kept = slot * _WORDS + _BEGUN, slot * _WORDS + _KEPT
        # How many have been begun. What is begun after this was read is not kept by what is kept now.
        self.begun = 0
        self._done = 0
        # When the file was last seen where it belongs.
        self._seen_s = -inf
        # Owner: whoever changes either number.
        self._lock = Lock()

    def begin(self) -> bool:
        """Something is about to be passed on that is not kept yet; False where others could not see that."""
        with self._lock:
            # In the child of a fork, or in a file that was taken away, nobody would look for it. Whoever takes files
            # away under running processes can do so right after it was looked at as well: now and then is enough.
            if not self._file.mine(self._slot):
                return False
            now_s = monotonic()
            if not 0 <= now_s - self._seen_s < _SEE_EVERY_S:
                if self._file.id != _id_of(self._name):
                    return False
                self._seen_s = now_s
            self.begun += 1
            self._file.words[self._begun] = self.begun
        return True

    def kept(self, upto: int) -> None:
        """So many of them are kept, by the count of `begun`."""
        with self._lock:
            if upto > self._done and self._file.mine(self._slot):
                self._file.words[self._kept] = self._done = upto

    def close(self) -> None:
        """Nothing more is passed on; what is not kept by now stays in doubt."""
        with self._lock:
            self._file.let_go(self._slot)


class Passing:
    """The marks beside a store of sessions. The file is made with the first one."""

    def __init__(self, path: Path, doubts: Doubts) -> None:
        self._path = path
        self._name = str(path)
        self._doubts = doubts

    def mark(self, session: str) -> Mark | None:
        """A mark on this session, or None where there can be none."""
        if not _LOCKS:
            return None
        try:
            if not os.path.lexists(self._name):
                self._make()
            file = self._mapped()
            slot = None if file is None else file.claimed(_whose(session), self._doubts)
        except (OSError, ValueError, LockgateError):
            return None
        return None if file is None or slot is None else Mark(file, slot, self._name)

    def file(self) -> MarkFile | None:
        """The file as its name leads to it now; None where there is none, and so no mark."""
        try:
            return self._mapped() if _LOCKS else None
        except (OSError, LockgateError) as error:
            why = error.message if isinstance(error, LockgateError) else f"{quoted(self._name, 200)} cannot be used"
            raise SessionsUnavailable(f"what is passed on in this session cannot be told: {why}", hint=_ANEW) from error

    def wait(self, file: MarkFile, session: str, most_s: float) -> None:
        """Return once all that was passed on in this session before is kept, or is a doubt about it."""
        whose = _whose(session)
        # Only up to what was begun by now: where it never gets quiet, nobody waits for ever.
        waits = file.begun(whose)
        if not waits:
            return
        until = monotonic() + most_s
        try:
            while waits := [each for each in waits if not file.settled(whose, *each, self._doubts)]:
                if monotonic() > until:
                    raise SessionsUnavailable(
                        "another process has passed something on in this session, and does not keep it",
                        hint="try again; end the MCP servers of the session if this lasts",
                    )
                sleep(_LOOK_EVERY_S)
        except OSError as error:
            raise SessionsUnavailable("what is passed on in this session cannot be told", hint=_ANEW) from error

    def _mapped(self) -> MarkFile | None:
        """The file as its name leads to it now; None where there is none."""
        there = _id_of(self._name)
        if there is None:
            return None
        if there[2] != _SIZE:
            # Before anything is mapped: what is not there cannot be read.
            raise OSError(errno.EINVAL, "not a file of marks")
        return _files.get(there) or self._opened()

    def _opened(self) -> MarkFile:
        with _opening:
            _FILE.check(self._path.parent, folder=True)
            _FILE.check(self._path)
            fd = os.open(self._name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            status = os.fstat(fd)
            there = status.st_dev, status.st_ino, status.st_size
            if there in _files:
                # Not closed, nor ever: that would open every lock that this process has on the file.
                return _files[there]
            try:
                _FILE.check_status(self._path, status)
                if status.st_size != _SIZE:
                    raise OSError(errno.EINVAL, "not a file of marks")
                _files[there] = file = MarkFile(fd, there)
            except BaseException:
                os.close(fd)
                raise
            return file

    def _make(self) -> None:
        with suppress(FileExistsError), _FILE.create_whole(self._path) as new, new.open("wb") as file:
            # To the last byte, for a hole in a mapped file may find no room on the disk; and before it has its name.
            file.write(_MAGIC + bytes(_SIZE - len(_MAGIC)))
            file.flush()
            os.fsync(file.fileno())


class MarkFile:
    """The slots, as this process has them mapped."""

    def __init__(self, fd: int, id: tuple[int, int, int]) -> None:
        self.id = id
        self._fd = fd
        self._map = mmap(fd, _SIZE)
        if self._map[: len(_MAGIC)] != _MAGIC:
            raise OSError(errno.EINVAL, "not a file of marks")
        # Whole words, so that nobody reads half of a number.
        self.words = memoryview(self._map).cast("Q")
        self.forget()

    def forget(self) -> None:
        """Also in the child of a fork: a lock is its parent's alone."""
        self._lock = Lock()
        self._mine: set[int] = set()

    def mine(self, slot: int) -> bool:
        return slot in self._mine

    def claimed(self, whose: bytes, doubts: Doubts) -> int | None:
        with self._lock:
            # Somebody else may be at it, or was stopped there: they are not waited for long.
            for left in reversed(range(_TRIES)):
                if self._locked(0):
                    break
                if not left:
                    return None
                sleep(_TRY_EVERY_S)
            try:
                for slot in range(1, _SLOTS + 1):
                    if slot not in self._mine and self._locked(slot):
                        try:
                            self._bury(slot, doubts)
                        except BaseException:
                            lockf(self._fd, LOCK_UN, _SLOT, slot * _SLOT)
                            raise
                        self._map[slot * _SLOT : slot * _SLOT + 16] = whose
                        self.words[_USED] = max(self.words[_USED], slot)
                        self._mine.add(slot)
                        return slot
            finally:
                lockf(self._fd, LOCK_UN, _SLOT, 0)
        return None

    def let_go(self, slot: int) -> None:
        with self._lock:
            if slot in self._mine:
                if self.words[slot * _WORDS + _BEGUN] == self.words[slot * _WORDS + _KEPT]:
                    self._map[slot * _SLOT : (slot + 1) * _SLOT] = bytes(_SLOT)
                self._mine.discard(slot)
                lockf(self._fd, LOCK_UN, _SLOT, slot * _SLOT)

    def passes(self, session: str) -> bool:
        """Whether anything is passed on in this session just now."""
        return bool(self.begun(_whose(session)))

    def begun(self, whose: bytes) -> list[tuple[int, int]]:
        """The slots in which something is passed on in this session just now, and up to which count."""
        there = self._map[: (1 + min(self.words[_USED], _SLOTS)) * _SLOT]
        found = []
        at = there.find(whose, _SLOT)
        while at >= 0:
            slot, inside = divmod(at, _SLOT)
            begun = self.words[slot * _WORDS + _BEGUN]
            if not inside and begun != self.words[slot * _WORDS + _KEPT]:
                found.append((slot, begun))
            at = there.find(whose, at + 1)
        return found

    def settled(self, whose: bytes, slot: int, upto: int, doubts: Doubts) -> bool:
        """Whether so much is kept there; a process that is gone leaves a doubt instead."""
        begun, kept = self.words[slot * _WORDS + _BEGUN], self.words[slot * _WORDS + _KEPT]
        # One that begins anew was settled by whoever had it empty.
        if kept >= upto or begun < upto or self._map[slot * _SLOT : slot * _SLOT + 16] != whose:
            return True
        with self._lock:
            if slot in self._mine or not self._locked(slot):
                return False
            try:
                self._bury(slot, doubts)
            finally:
                lockf(self._fd, LOCK_UN, _SLOT, slot * _SLOT)
        return True

    def _bury(self, slot: int, doubts: Doubts) -> None:
        """Empty a slot that nobody holds; what it leaves unkept is a doubt first."""
        start = slot * _SLOT
        whose = self._map[start : start + 16]
        if whose != _NOBODY and self.words[slot * _WORDS + _BEGUN] != self.words[slot * _WORDS + _KEPT]:
            doubts.note_mark(whose.hex())
        self._map[start : start + _SLOT] = bytes(_SLOT)

    def _locked(self, slot: int) -> bool:
        try:
            lockf(self._fd, LOCK_EX | LOCK_NB, _SLOT, slot * _SLOT)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True


@lru_cache(1024)
def _whose(session: str) -> bytes:
    return bytes.fromhex(mark_of(session))


def _id_of(name: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(name)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_size


# By device and number, one each for this process: of two, closing one would open the other's locks.
_files: dict[tuple[int, int, int], MarkFile] = {}
_opening = Lock()


def _forked() -> None:
    global _opening
    _opening = Lock()
    for file in _files.values():
        file.forget()


on_fork(_forked)
