"""What is known about the project an agent works in: its folder, and what its own files name.

A value that the project's manifests, lock files, remotes or scripts name is no news to the project: an agent that uses
it needs no untrusted text to have it from. The values here are pure; reading them from a folder is the runtime's work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lockgate.core.ruling.effects.activity import Change
from lockgate.core.tables import read_patterns, read_table


class Place(StrEnum):
    """Where a path lies, as seen from the project."""

    INSIDE = "inside"
    SCRATCH = "scratch"
    HOME = "home"
    SYSTEM = "system"
    OUTSIDE = "outside"


# Where packages of one name can differ.
REGISTRIES = ("pypi", "npm", "cargo", "go", "gem", "composer", "maven", "conda")

_P = read_patterns(__package__, "project.tbl")
_SHARED = {
    host: sort
    for sort, hosts in read_table(__package__, "project.tbl", "shared hosts", ("sort", "hosts"))
    for host in hosts.split()
}


@dataclass(frozen=True, slots=True)
class Project:
    """A project's folder and what its own files name; every part may be unknown.

    `root` is the absolute path of its folder, `folder` the one the agent works in, `home` the user's. `packages` are
    normalized with `package_name` and may name their registry (`npm:express`). `hosts` are as `site_of_url` writes
    them. `remotes` are the repository's remotes by name, `tasks` the names of its scripts and make targets, `programs`
    the names of programs it brings along (`.venv/bin`). `follow` says where a path really leads if that is a place of
    Lockgate's own (`own_paths.py`): only a host can look at links, nothing here does. `brings_lockgate` says
    whether what is installed from a path would take Lockgate's place. `service_port` is where Lockgate's service
    listens, `service_pids` are the processes that rule and their parent, and `own_folders` is where its files lie
    besides the usual places. `judge_servers` are the names of the judges that this machine serves, by port, and
    `judge_pids` looks up which processes listen there. `effect_rows` are the operator's own rows. `named` collects the
    files that a call surely runs or loads, for a caller that wants them; an empty path says that its arguments run.
    `changes` collects what it writes to files. `show` reads the text of a file as it is now, where the host can.
    """

    root: str = ""
    folder: str = ""
    home: str = ""
    packages: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    remotes: Mapping[str, str] = field(default_factory=dict)
    tasks: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    follow: Callable[[str], str] | None = field(default=None, compare=False, repr=False)
    brings_lockgate: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)
    service_port: int = field(default=7717, compare=False, repr=False)
    service_pids: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    own_folders: tuple[str, ...] = field(default=(), compare=False, repr=False)
    judge_servers: Mapping[int, Sequence[str]] = field(default_factory=dict, compare=False, repr=False)
    judge_pids: Callable[[], frozenset[int]] = field(default=frozenset, compare=False, repr=False)
    effect_rows: Sequence[str] = field(default=(), compare=False, repr=False)
    named: list[str] | None = field(default=None, compare=False, repr=False)
    changes: list[Change] | None = field(default=None, compare=False, repr=False)
    show: Callable[[str], str | None] | None = field(default=None, compare=False, repr=False)

    @property
    def own_ports(self) -> tuple[int, ...]:
        """The ports that the service and the judges of this machine listen on."""
        return (self.service_port, *self.judge_servers)

    def own_pids(self) -> frozenset[int]:
        """Return the processes that rule or serve a judge."""
        return self.service_pids | self.judge_pids()

    def has_package(self, name: str, registry: str = "") -> bool:
        """Return whether a manifest or lock file names this package; in `registry` where the caller knows it.

        A name that a project uses in one registry may belong to an attacker in another.
        """
        wanted = package_name(name)
        if wanted in self.packages:
            return True
        return any(f"{each}:{wanted}" in self.packages for each in ((registry,) if registry else REGISTRIES))

    def has_host(self, host: str, path: str = "") -> bool:
        """Return whether the project's own files name this host.

        Anyone can publish on a shared host: one counts only with the `path` of a URL whose owner the project names.
        """
        host, _, rest = host.partition("/")
        site = _site(host, path or rest)
        return bool(site) and site in self.hosts

    def has_url(self, url: str) -> bool:
        """Return the same for a whole URL or git address."""
        return bool(site := site_of_url(url)) and site in self.hosts

    def apart(self) -> Project:
        """Return the same project for a reading of which nothing is collected."""
        return replace(self, named=None, changes=None)

    def at(self, folder: str) -> Project:
        """Return the same project with another working folder; a folder that is not absolute changes nothing."""
        folder = folder.replace("\\", "/") if _P["windows"].match(folder) else folder
        return replace(self, folder=normalize_path(folder)) if _is_absolute(folder) else self

    def full_path(self, path: str, folder: str = "") -> str:
        """Return a path in the form in which paths are compared; `folder` is what a relative one starts from."""
        path = path.replace("\\", "/") if _P["windows"].match(path) else path
        start = "" if path[:1] == "~" or _is_absolute(path) else folder or self.folder or self.root
        full = normalize_path(f"{start}/{path}" if start else path)
        return self.home + full[1:] if self.home and f"{full}/".startswith("~/") else full

    def note_change(
        self, path: str, text: str | None, *, is_whole: bool = True, replaced: str = "", link: str = ""
    ) -> None:
        """Note what is written to a file, for a caller that wants it."""
        if self.changes is not None:
            self.changes.append(Change(self.full_path(path), text, is_whole, replaced, link and self.full_path(link)))

    def locate(self, path: str, folder: str = "") -> Place:
        """Return where a path lies; `folder` is what a relative path starts from, the working folder when empty."""
        path = path.replace("\\", "/") if _P["windows"].match(path) else path
        if path.startswith(("~", "$HOME", "${HOME}", "%USERPROFILE%")):
            return Place.HOME
        start = folder or self.folder or self.root
        full = path if _is_absolute(path) else f"{start}/{path}" if start else path
        full = normalize_path(full)
        if not _is_absolute(full):
            return Place.OUTSIDE if full.startswith("..") else Place.INSIDE
        if self.root and _is_below(full, self.root):
            return Place.INSIDE
        if not self.root and not _P["system"].match(full) and not _P["scratch"].match(full):
            # The folder is unknown: a project can lie anywhere but among the system's files and a user's settings.
            return Place.HOME if _P["home settings"].match(full) else Place.INSIDE
        return self._locate_outside(full)

    def _locate_outside(self, full: str) -> Place:
        if _P["scratch"].match(full):
            return Place.SCRATCH
        if (self.home and _is_below(full, self.home)) or _P["home"].match(full):
            return Place.HOME
        return Place.SYSTEM if _P["system"].match(full) else Place.OUTSIDE


NO_PROJECT = Project()


def package_name(name: str) -> str:
    """Return a package's name in the form in which all its spellings are equal."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0].strip()).lower()


def site_of_url(url: str) -> str:
    """Return the host of a URL or of a git address, with the owner where the host is a shared one; or nothing.

    A user's name or token in it is left out.
    """
    found = _P["url"].match(url.strip())
    return _site(found[1], found[2] or "") if found else ""


def is_shared_host(host: str) -> bool:
    """Return whether anyone can publish on this host, so that its name says little about who is reached."""
    return host.lower().rstrip(".") in _SHARED


def _site(host: str, path: str) -> str:
    host = host.lower().rstrip(".")
    if _SHARED.get(host) != "owned":
        return "" if host in _SHARED else host
    owner = path.lstrip("/:").partition("/")[0].lower()
    return f"{host}/{owner}" if owner else ""


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
    return _P["absolute"].match(path) is not None


def _is_below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")
