"""Read the texts of files and folders; each file is read, or counted with the reason why not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lockgate.core.errors import LockgateError, quoted

# A text longer than this is cut by the scanner; a file of that size is data, and is counted instead.
MAX_BYTES = 16 * 1024 * 1024
_SNIFFED = 8192


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file, link or folder that was not read; `failed` if it should have been."""

    path: str
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files of a folder to read: a glob matches a file's name, or its path below that folder."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def refusal(self, below: str) -> str:
        if _matches(below, self.exclude):
            return "excluded"
        return "not included" if self.include and not _matches(below, self.include) else ""

    def folder_refusal(self, below: str) -> str:
        if below.rpartition("/")[2] == ".git":
            return ".git folder"
        return "excluded" if _matches(below, self.exclude) else ""


def walk_files(paths: Sequence[str], chosen: FileFilter) -> Iterator[str | SkippedFile]:
    """Yield every file under the paths, in a stable order; links in folders are not followed, so none can loop."""
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise LockgateError(f"cannot read {quoted(path)}: {(error.strerror or 'unknown error').lower()}") from None
        if stat.S_ISDIR(mode):
            yield from _walk_folder(path, chosen)
        else:
            yield path


def _walk_folder(top: str, chosen: FileFilter) -> Iterator[str | SkippedFile]:
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            yield SkippedFile(folder, (error.strerror or "cannot be listed").lower(), failed=True)
            continue
        folders: list[str] = []
        for entry in entries:
            below = Path(entry.path).relative_to(top).as_posix()
            if entry.is_symlink():
                yield SkippedFile(entry.path, "symbolic link")
            elif entry.is_dir(follow_symlinks=False):
                reason = chosen.folder_refusal(below)
                if reason:
                    yield SkippedFile(entry.path, reason)
                else:
                    folders.append(entry.path)
            elif reason := chosen.refusal(below):
                yield SkippedFile(entry.path, reason)
            else:
                yield entry.path
        pending.extend(reversed(folders))


def read_text(path: str, max_bytes: int, *, named: bool = False) -> str | SkippedFile:
    """Return a file's text, or why it was not read. Bytes that are not UTF-8 are replaced.

    A file that the user `named` is read as text, or counts as failed: skipping it would call it clean.
    """
    try:
        # Opening a pipe or a device can block for ever, or have side effects.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return SkippedFile(path, "not a regular file", failed=named)
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        return SkippedFile(path, (error.strerror or "cannot be read").lower(), failed=True)
    if len(data) > max_bytes:
        return SkippedFile(path, f"larger than {max_bytes:,} bytes", failed=named)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_SNIFFED] and not named:
        return SkippedFile(path, "binary")
    return data.decode("utf-8-sig", "replace")


def _matches(below: str, globs: Sequence[str]) -> bool:
    name = below.rpartition("/")[2]
    return any(fnmatchcase(below, glob) or fnmatchcase(name, glob) for glob in globs)
