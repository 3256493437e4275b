"""Records that wait to be stored in the log: in a file of this process's own, which outlives it.

A process holds a lock on its file for as long as it lives. Whoever finds a file that nobody holds stores what waits
there, and then removes it: so what was promised is kept by whoever comes next. What a file says is not believed for
standing there; that is for whoever reads it to find out.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from mmap import mmap
from pathlib import Path
from stat import S_ISREG
from time import monotonic

from lockgate.core.errors import JournalUnavailable
from lockgate.runtime.forks import on_fork
from lockgate.runtime.private_files import PrivateFileKind

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    _LOCKS = False
else:
    _LOCKS = True

_WAITING, _NEW, _UNREAD = ".waiting", ".new", ".unreadable"
# Of all that waits in one process at once. What follows the last is zeros.
_ROOM = 256 << 10
_END = bytes(4)
_UNFIT = 256
_SEE_EVERY_S = 0.5
_FILE = PrivateFileKind("waiting records", "write anything into the log", "log", JournalUnavailable)


class FileSpool:
    """Files in this folder, which is made with the first one. Not safe for several threads.

    A file is mapped, so that what is put there is in the hands of the system without asking it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # How often not to try, after it has failed.
        self._unfit = 0
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        self._fd: int | None = None
        self._map: mmap | None = None
        self._name = ""
        self._size = 0
        # When it was last seen where it belongs.
        self._seen_s = -inf

    @property
    def empty(self) -> bool:
        return not self._size

    def put(self, data: bytes) -> None:
        """There for others when this returns; OSError, or JournalUnavailable, where it is not.

        It begins with four bytes that are not zero.
        """
        if self._map is None and self._unfit:
            self._unfit -= 1
            raise OSError(errno.ENOSYS, "records cannot wait here")
        room = self._map or self._made()
        start, end = self._size, self._size + len(data)
        if end + len(_END) > _ROOM:
            raise OSError(errno.EFBIG, "too many records wait")
        # Whoever takes it away can do so right after it was looked at as well: now and then is enough.
        now_s = monotonic()
        if not 0 <= now_s - self._seen_s < _SEE_EVERY_S:
            status = os.fstat(self._fd or 0)
            if not status.st_nlink or status.st_size != _ROOM:
                # Nobody would find it, or there is nothing behind what is mapped.
                self.close(remove=False)
                raise OSError(errno.ENOENT, "the waiting records were taken away")
            self._seen_s = now_s
        # Its beginning last: until then this is the end.
        room[start + len(_END) : end] = data[len(_END) :]
        room[end : end + len(_END)] = _END
        room[start : start + len(_END)] = data[: len(_END)]
        self._size = end

    def clear(self) -> None:
        """All of it is stored."""
        if self._map is not None:
            self._map[: len(_END)] = _END
        self._size = 0

    def close(self, *, remove: bool) -> None:
        """Let go of the file: what is left in it is somebody else's to store."""
        fd, room, name = self._fd, self._map, self._name
        self._forget()
        if remove and name:
            with suppress(OSError):
                os.unlink(name)
        if room is not None:
            room.close()
        if fd is not None:
            os.close(fd)

    def _made(self) -> mmap:
        self._unfit = _UNFIT
        if not _LOCKS:
            raise OSError(errno.ENOSYS, "no locks here")
        with suppress(FileExistsError):
            os.makedirs(self._folder, mode=0o700)
        _FILE.check(self._folder, folder=True)
        name = f"{self._folder}/{os.urandom(8).hex()}"
        fd = os.open(name + _NEW, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # To the last byte, for a hole in a mapped file may find no room on the disk.
            if os.write(fd, bytes(_ROOM)) != _ROOM:
                raise OSError(errno.ENOSPC, "no room for waiting records")
            room = mmap(fd, _ROOM)
            # Before it has a name that anybody looks for.
            flock(fd, LOCK_EX | LOCK_NB)
            os.rename(name + _NEW, name + _WAITING)
        except BaseException:
            os.close(fd)
            with suppress(OSError):
                os.unlink(name + _NEW)
            raise
        self._fd, self._map, self._name, self._size, self._unfit = fd, room, name + _WAITING, 0, 0
        return room

    def take_over(self, take: Callable[[bytes], bool]) -> list[str]:
        """Hand over what processes that are gone have left, file by file, and remove each that was taken.

        One that `take` cannot read is set aside; the names of those, and of what cannot be used, are returned.
        """
        aside: list[str] = []
        for name in self._left():
            try:
                with _held(name) as data:
                    if data is None:
                        continue
                    if take(data):
                        os.unlink(name)
                    else:
                        os.rename(name, name.removesuffix(_WAITING) + _UNREAD)
                        aside.append(name.removesuffix(_WAITING) + _UNREAD)
            except OSError:
                # One must not keep anybody from the others.
                aside.append(name)
        return aside

    def _left(self) -> list[str]:
        if not _LOCKS:
            return []
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        paths = [f"{self._folder}/{name}" for name in sorted(names) if name.endswith(_WAITING)]
        return [path for path in paths if path != self._name]


def folder_of(log: Path) -> Path:
    return log.with_name(f"{log.name}-waiting")


def beside(log: Path) -> tuple[list[str], list[str]]:
    """The files beside a log in which something waits, and those that were set aside; as far as they can be seen."""
    folder = folder_of(log)
    with suppress(OSError):
        names = sorted(os.listdir(folder))
        waiting = [each for each in names if each.endswith(_WAITING) and _begins(folder / each)]
        return waiting, [each for each in names if each.endswith(_UNREAD)]
    return [], []


def _begins(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return any(file.read(len(_END)))
    return False


@contextmanager
def _held(name: str) -> Iterator[bytes | None]:
    """What is in a file whose process is gone, with everybody else kept from it; None for any other."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        # Somebody was quicker.
        yield None
        return
    try:
        try:
            flock(fd, LOCK_EX | LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            yield None
            return
        status = os.fstat(fd)
        # Somebody may have stored and removed it just before.
        if not status.st_nlink or not S_ISREG(status.st_mode):
            yield None
            return
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(_ROOM)
        yield data
    finally:
        os.close(fd)


_all: weakref.WeakSet[FileSpool] = weakref.WeakSet()


def _forked() -> None:
    """In a child: the file is its parent's, and so is the lock, which the child must not keep."""
    for each in list(_all):
        each.close(remove=False)


on_fork(_forked)
