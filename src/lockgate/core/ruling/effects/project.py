"""What is known about the project an agent works in: its folder, and what its own files name.

A value that the project's manifests, lock files, remotes or scripts name is no news to the project: an agent that uses
it needs no untrusted text to have it from. The values here are pure; reading them from a folder is the runtime's work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Place(StrEnum):
    """Where a path lies, as seen from the project."""

    INSIDE = "inside"
    SCRATCH = "scratch"
    HOME = "home"
    SYSTEM = "system"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Project:
    """A project's folder and what its own files name; every part may be unknown.

    `root` is the absolute path of its folder, `folder` the one the agent works in, `home` the user's. `packages` are
    normalized with `package_name`, `hosts` are lower case. `remotes` are the repository's remotes by name, `tasks` the
    names of its scripts and make targets, `programs` the names of programs it brings along (`.venv/bin`).
    """

    root: str = ""
    folder: str = ""
    home: str = ""
    packages: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    remotes: Mapping[str, str] = field(default_factory=dict)
    tasks: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()

    def has_package(self, name: str) -> bool:
        """Return whether a manifest or lock file names this package."""
        return package_name(name) in self.packages

    def has_host(self, host: str) -> bool:
        """Return whether the project's own files name this host."""
        return host.lower().rstrip(".") in self.hosts

    def locate(self, path: str, folder: str = "") -> Place:
        """Return where a path lies; `folder` is what a relative path starts from, the working folder when empty."""
        path = path.replace("\\", "/") if re.match(r"[A-Za-z]:\\|\\\\", path) else path
        if path.startswith(("~", "$HOME", "${HOME}", "%USERPROFILE%")):
            return Place.HOME
        start = folder or self.folder or self.root
        full = path if _is_absolute(path) else f"{start}/{path}" if start else path
        full = normalize_path(full)
        if not _is_absolute(full):
            return Place.OUTSIDE if full.startswith("..") else Place.INSIDE
        if self.root:
            if _is_below(full, self.root):
                return Place.INSIDE
        elif not _SYSTEM.match(full) and not _SCRATCH.match(full):
            # The folder is unknown: a project can lie anywhere but among the system's files and a user's settings.
            return Place.HOME if _HOME_SETTINGS.match(full) else Place.INSIDE
        if _SCRATCH.match(full):
            return Place.SCRATCH
        if (self.home and _is_below(full, self.home)) or _HOME.match(full):
            return Place.HOME
        return Place.SYSTEM if _SYSTEM.match(full) else Place.OUTSIDE


NO_PROJECT = Project()

_SYSTEM = re.compile(
    r"/(?:bin|boot|dev|etc|lib(?:32|64)?|opt|proc|root|run|sbin|sys|usr|var|System|Library|Applications|private)(?:/|$)"
    r"|/$|[a-zA-Z]:/(?:$|windows|program)",
    re.IGNORECASE,
)
_SCRATCH = re.compile(r"/(?:tmp|var/tmp|dev/(?:null|shm|stdin|stdout|stderr|fd|tty)|var/folders|private/tmp)(?:/|$)")
_HOME = re.compile(r"/(?:home|Users)/[^/]+(?:/|$)|/root(?:/|$)|[a-zA-Z]:/users/", re.IGNORECASE)
_HOME_SETTINGS = re.compile(
    r"/(?:home|Users)/[^/]+(?:/?$|/\.)|[a-zA-Z]:/users/[^/]+(?:/?$|/\.|/appdata)", re.IGNORECASE
)


def package_name(name: str) -> str:
    """Return a package's name in the form in which all its spellings are equal."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def normalize_path(path: str) -> str:
    """Return a path without `.`, `..` and doubled slashes; leading `..` of a relative path stay."""
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not path.startswith("/"):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or re.match(r"[A-Za-z]:/", path) is not None


def _is_below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")
