"""Files that only their owner can have written, or read where they are secret, and files replaced as a whole.

Lockgate acts on the content of such a file, so its owner and mode are checked first. It is created as a whole or not at
all, because several processes may start at once.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging import getLogger
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO, NamedTuple
from uuid import uuid4

from lockgate.core.errors import LockgateError, quoted

# How long a process waits for a lock without a word, and how often it tries.
_SILENT_S = 2.0
_POLL_S = 0.05


class PrivateFileKind(NamedTuple):
    """One kind of private file: what it is, what another user could do with it, and what it belongs to."""

    what: str
    danger: str
    owner_noun: str
    error: type[LockgateError] = LockgateError
    # Whether other users may not read it either.
    secret: bool = False

    def check(self, path: Path, *, folder: bool = False) -> os.stat_result:
        """Return the status of a file or folder that is safe to use; raise `error` for one that is not, or a link."""
        status = os.lstat(path)
        self.check_status(path, status, folder=folder)
        return status

    def check_status(self, path: Path, status: os.stat_result, *, folder: bool = False) -> None:
        named = quoted(path, 200)
        if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
            raise self.error(
                f"{named} is no {'folder' if folder else 'file'}, or a link, where {self.what} should be",
                hint="move it away, or name another place",
            )
        if os.name != "posix":
            return
        if status.st_uid != os.geteuid():
            raise self.error(
                f"{named} belongs to another user, who could {self.danger}",
                hint=f"run this as the user whose {self.owner_noun} it is",
            )
        if self.secret and not folder and status.st_mode & 0o044:
            raise self.error(
                f"{named} can be read by others, who could {self.danger}",
                hint=f"chmod 600 {path}, and make a new one if another user may have read it",
            )
        if status.st_mode & 0o022:
            raise self.error(
                f"{named} can be written by others, who could {self.danger}",
                hint=f"look at what is in it, then: chmod go-w {path}",
            )

    def read(self, path: Path, most: int) -> bytes:
        """Return up to so many bytes of a file that is safe to use; raise `error` for one that is not, or OSError."""
        # Without O_NONBLOCK a named pipe in the file's place would hang us until another process writes to it.
        flags = os.O_RDONLY
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        handle = os.open(path, flags)
        try:
            self.check_status(path, os.fstat(handle))
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(handle)

    def check_database(self, path: Path) -> os.stat_result:
        """Check an SQLite file with its folder and the files beside it; return its status."""
        self.check(path.parent, folder=True)
        status = self.check(path)
        for ending in ("-wal", "-shm", "-journal"):
            # These files are part of the database: their content counts as much as the file's own.
            with suppress(FileNotFoundError):
                self.check(path.with_name(path.name + ending))
        return status

    def replace(self, path: Path, data: bytes) -> None:
        """Put a file with this content in the place of `path`, in a folder that is made if missing, and checked."""
        self._make_folder(path.parent)
        replace_file(path, data)

    def _make_folder(self, folder: Path) -> None:
        # A file in the folder's place is reported by the check.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check(folder, folder=True)

    @contextmanager
    def create_whole(self, path: Path) -> Iterator[Path]:
        """Yield an empty file that gets the name `path` when the block ends; other processes see all of it or nothing.

        Raise FileExistsError if `path` exists by then; the existing file stays as it is.
        """
        # In the same folder, because a link cannot cross to another disk.
        new = path.with_name(f"{path.name}.{uuid4().hex}.new")
        self._make_folder(path.parent)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600))
        try:
            yield new
            _link_or_replace(new, path)
        finally:
            new.unlink(missing_ok=True)
        # The name has to survive a power cut as well as what it names.
        for folder in (path.parent, path.parent.parent):
            sync_folder(folder)


@contextmanager
def open_replacement(
    path: Path, *, mode: int = 0o600, exact_mode: int | None = None, durable: bool = True
) -> Iterator[BinaryIO]:
    """Yield a new file that takes the place of `path` when the block ends; readers see the old one or the new one.

    If the block raises, the old file stays. The process's umask narrows `mode`, and not `exact_mode`. `durable` means
    that the new file survives a power cut.
    """
    new = path.with_name(f"{path.name}.{uuid4().hex}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(new, flags, mode), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if exact_mode is not None:
            new.chmod(exact_mode)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold a lock on this file, which is made if need be: one process at a time, where the system has such locks."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        wait_for_lock(lock, path)
        yield
    finally:
        os.close(lock)


def open_locked(path: Path) -> BinaryIO | None:
    """Open and lock a file, which is made if need be; None if another process has it. Closing the file unlocks it."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600), "r+b")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            from fcntl import LOCK_EX, LOCK_NB, flock

            flock(file, LOCK_EX | LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def wait_for_lock(handle: int, path: Path) -> None:
    """Wait until the lock of an open file is ours, where the system has such locks; say so if that takes long."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return
    silent_until_s = monotonic() + _SILENT_S
    while True:
        with suppress(BlockingIOError):
            flock(handle, LOCK_EX | LOCK_NB)
            return
        if monotonic() >= silent_until_s:
            break
        sleep(_POLL_S)
    holder = _lock_holder(os.fstat(handle).st_ino)
    held = f", which process {holder} holds" if holder else ""
    getLogger("lockgate").warning("waiting for the lock of %s%s", quoted(path, 200), held)
    flock(handle, LOCK_EX)


def _lock_holder(inode: int) -> str:
    """Return the process that holds a lock on the file with this number; empty where the system does not say."""
    with suppress(OSError, IndexError):
        # Number, sort, `ADVISORY`, `WRITE`, process, device and file; one that waits has `->` after the number.
        rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        return next((row[4] for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")), "")
    return ""


def replace_file(
    path: Path, data: bytes, *, mode: int = 0o600, exact_mode: int | None = None, durable: bool = True
) -> None:
    """Put a file with this content in the place of `path`; see `open_replacement`."""
    with open_replacement(path, mode=mode, exact_mode=exact_mode, durable=durable) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Make the names in this folder survive a power cut, as far as the system can."""
    if os.name != "posix":
        return  # Windows cannot open folders
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # a folder that we may write and not read
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot sync folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def writable_by_others(mode: int, owner: int, me: int) -> str:
    """Return how a user other than root and `me` could write a file with this mode and owner; empty if none could."""
    if owner not in (0, me):
        return "belongs to another user"
    if mode & stat.S_IWOTH:
        return "can be written by any user"
    return "can be written by its group" if mode & stat.S_IWGRP else ""


def _link_or_replace(new: Path, place: Path) -> None:
    try:
        os.link(new, place)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links. The process that creates the empty file may replace it. Others find it empty
        # until then: better refused for a moment than replacing a file that another process already uses.
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(new, place)
