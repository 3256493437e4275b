"""Reads what the files of a project's folder name.

The folder may be an attacker's: everything is bounded, no link is followed, only plain files are opened, and nothing
is run. What cannot be read is unknown, which is never an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from time import monotonic

from lockgate.core.ruling.effects.project import (
    Project,
    is_lock_file,
    is_manifest,
    may_name_images,
    normalize_path,
    read_git_remotes,
    read_manifest,
    site_of_url,
)

MAX_FILES = 200
MAX_FOLDERS = 96
MAX_MANIFEST_BYTES = 512 * 1024
MAX_LOCK_BYTES = 4 * 1024 * 1024
MAX_TOTAL_BYTES = 12 * 1024 * 1024
MAX_PACKAGES = 10_000
MAX_NAMES = 2_000
# No file is begun after this time: a session waits for it, once.
MAX_SECONDS = 1.0
_MAX_ENTRIES = 5_000
_MAX_PARENTS = 16
_MAX_PATH = 4_000
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
# Folders of a repository that hold several projects, and folders that hold what others wrote.
_GROUPS = frozenset({"packages", "apps", "crates", "libs", "modules", "plugins", "services"})
_FOREIGN = frozenset(
    "node_modules vendor third_party third-party external deps target dist build out venv env site-packages "
    "bower_components fixtures testdata".split()
)
# No project is one of these folders as a whole: what lies in them starts by itself, or belongs to everyone.
_NO_ROOT = re.compile(
    r"/?|[A-Za-z]:/?|/(?:home|Users)/[^/]*|[A-Za-z]:/Users/[^/]*"
    r"|/(?:home|Library|Applications|media|mnt|opt|private|root|run|srv|tmp|Users|usr(?:/local)?|var(?:/tmp)?)"
    r"|/(?:bin|boot|dev|etc|lib(?:32|64)?|proc|sbin|sys|System|usr/s?bin|usr/lib|usr/local/s?bin)(?:/.*)?"
    r"|[A-Za-z]:/(?:Windows|Program Files)(?:/.*)?",
    re.IGNORECASE,
)
_PROGRAM_FOLDERS = (".venv/bin", ".venv/Scripts", "venv/bin", "venv/Scripts", "node_modules/.bin", "vendor/bin")
_PROGRAM = re.compile(r"([A-Za-z0-9][\w+-]*(?:\.[\w+-]+)*?)(?:\.(?:exe|cmd|bat|ps1))?")


def read_project(folder: str, *, home: str | None = None, names: bool = True) -> Project:
    """Return what is known of the project that a folder belongs to; never raise for what lies in it.

    Its root is the nearest folder upwards with a repository, else with a manifest, below the user's `home`. With
    `names` False only the places are read: for a session that may have changed the files already.
    """
    home = os.path.expanduser("~") if home is None else home
    if not folder or len(folder) > _MAX_PATH or "\0" in folder or not os.path.isabs(folder):
        return Project(home=_plain_path(home))
    folder = os.path.abspath(folder)
    root = _find_root(folder, os.path.abspath(home))
    places = Project(root=_plain_path(root), folder=_plain_path(folder), home=_plain_path(home))
    return _FolderReader(root, folder).read(places) if root and names else places


def _plain_path(path: str) -> str:
    return normalize_path(path.replace("\\", "/") if os.sep == "\\" else path)


def _find_root(folder: str, home: str) -> str:
    """Return the folder of the project; empty for a folder that holds more than a project, or does not exist."""
    candidates = [each for each in folders_upwards(folder) if _may_be_root(each, home)]
    if not candidates or not os.path.isdir(folder):
        return ""
    for has_mark in (_has_repository, _has_manifest):
        for each in candidates:
            if has_mark(each):
                return each
    return folder if folder in candidates else ""


def folders_upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, the nearest first, as far as a project may reach."""
    for _ in range(_MAX_PARENTS):
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _may_be_root(folder: str, home: str) -> bool:
    # The user's home holds settings that run at every start, also where it is a repository.
    above, name = os.path.split(folder)
    holds_home = f"{home.rstrip(os.sep)}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")
    is_setting = above == home and name.startswith(".")
    return not holds_home and not is_setting and not _NO_ROOT.fullmatch(_plain_path(folder))


def _has_repository(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, ".git"))


def _has_manifest(folder: str) -> bool:
    # A file that names images may stand above several projects and their data.
    return any(is_manifest(name) and not may_name_images(name) for name, _ in _entries(folder))


def _entries(folder: str) -> list[tuple[str, bool]]:
    """Return the names in a folder in their order, each with whether it is a folder and no link."""
    try:
        with os.scandir(folder) as found:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(found, _MAX_ENTRIES))
    except OSError:
        return []


class _FolderReader:
    """One reading of a project's files, within one budget of files, folders and bytes."""

    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._folder = folder
        self._files = MAX_FILES
        self._bytes = MAX_TOTAL_BYTES
        self._until = monotonic() + MAX_SECONDS
        self._packages: dict[str, None] = {}
        self._tasks: dict[str, None] = {}
        self._programs: dict[str, None] = {}
        self._hosts: dict[str, None] = {}

    def read(self, places: Project) -> Project:
        remotes = self._read_remotes()
        found = [path for folder in islice(self._folders(), MAX_FOLDERS) for path in self._manifests(folder)]
        # Manifests come first: a lock file that is too large must not take their place.
        for path in sorted(found, key=lambda path: is_lock_file(os.path.basename(path))):
            self._read_manifest(path)
        for names in _PROGRAM_FOLDERS:
            self._read_programs(os.path.join(self._root, *names.split("/")))
        self._hosts.update(dict.fromkeys(site for url in remotes.values() if (site := site_of_url(url))))
        return Project(
            places.root,
            places.folder,
            places.home,
            frozenset(islice(self._packages, MAX_PACKAGES)),
            frozenset(islice(self._hosts, MAX_NAMES)),
            remotes,
            frozenset(islice(self._tasks, MAX_NAMES)),
            frozenset(islice(self._programs, MAX_NAMES)),
        )

    def _folders(self) -> Iterator[str]:
        """Yield the root, its workflows, the folders down to the working one, and one level of projects inside."""
        yield self._root
        yield os.path.join(self._root, ".github", "workflows")
        for each in folders_upwards(self._folder):
            if len(each) > len(self._root):
                yield each
        for name in _subfolders(self._root):
            inner = os.path.join(self._root, name)
            yield inner
            if name in _GROUPS:
                yield from (os.path.join(inner, each) for each in _subfolders(inner))

    def _manifests(self, folder: str) -> Iterator[str]:
        above = os.path.basename(folder)
        return (
            os.path.join(folder, name)
            for name, is_folder in _entries(folder)
            if not is_folder and is_manifest(name, above)
        )

    def _read_manifest(self, path: str) -> None:
        folder, name = os.path.split(path)
        text = self._read_text(path, MAX_LOCK_BYTES if is_lock_file(name) else MAX_MANIFEST_BYTES)
        found = read_manifest(name, text, os.path.basename(folder)) if text else None
        if found is not None:
            self._packages.update(dict.fromkeys(found.packages))
            self._tasks.update(dict.fromkeys(found.tasks))
            self._programs.update(dict.fromkeys(found.programs))
            self._hosts.update(dict.fromkeys(found.hosts))

    def _read_remotes(self) -> dict[str, str]:
        """Return the repository's remotes; a work tree's or submodule's `.git` is a file that says where they are."""
        git = os.path.join(self._root, ".git")
        pointer = re.match(r"gitdir: ([^\n\0]{1,4000})", self._read_text(git, 4_096))
        if pointer:
            git = os.path.join(self._root, pointer[1].rstrip())
            common = self._read_text(os.path.join(git, "commondir"), 4_096).strip()
            git = os.path.join(git, common) if common else git
        return dict(
            islice(read_git_remotes(self._read_text(os.path.join(git, "config"), MAX_MANIFEST_BYTES)).items(), 64)
        )

    def _read_programs(self, folder: str) -> None:
        if os.path.realpath(folder) == os.path.join(os.path.realpath(self._root), os.path.relpath(folder, self._root)):
            for name, _ in _entries(folder):
                if plain := _PROGRAM.fullmatch(name):
                    self._programs[plain[1]] = None

    def _read_text(self, path: str, most: int) -> str:
        """Return a plain file's text; empty where there is none, where it is too large, or no UTF-8."""
        if self._files <= 0 or monotonic() > self._until:
            return ""
        try:
            handle = os.open(path, _OPEN_FLAGS)
        except (OSError, ValueError):
            return ""
        self._files -= 1
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= min(most, self._bytes):
                return ""
            data = _read_bytes(handle, status.st_size)
            self._bytes -= len(data)
            return data.decode("utf-8-sig")
        except (OSError, ValueError):
            return ""
        finally:
            os.close(handle)


def _read_bytes(handle: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(handle, most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _subfolders(folder: str) -> list[str]:
    return [
        name for name, is_folder in _entries(folder) if is_folder and not name.startswith(".") and name not in _FOREIGN
    ]
