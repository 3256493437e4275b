"""What is known about the project an agent works in: its folder, and what its own files name.

A value that the project's manifests, lock files, remotes or scripts name is no news to the project: an agent that uses
it needs no untrusted text to have it from. The values here are pure; reading them from a folder is the runtime's work.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.effects.activity import Change
from lockgate.core.ruling.tool_risk import canonical_tool
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

_P, _M = read_patterns(__package__, "project.tbl"), read_patterns(__package__, "manifests.tbl")
_SHARED = {
    host: sort
    for sort, hosts in read_table(__package__, "project.tbl", "shared hosts", ("sort", "hosts"))
    for host in hosts.split()
}


@dataclass(frozen=True, slots=True)
class Project:
    """A project's folder and what its own files name; every part may be unknown.

    `root` is the absolute path of its folder, `folder` where the agent works, `home` the user's. `packages` are written
    by `package_name`, perhaps with a registry (`npm:express`), `hosts` by `site_of_url`. `tasks` are scripts and make
    targets, `programs` what it brings along (`.venv/bin`). `follow` says where a path really leads if that is a place
    of Lockgate's own (only a host can look at links), `brings_lockgate` whether what is installed from a path takes
    Lockgate's place. `service_pids` are the processes that rule and their parent, `own_folders` further places of its
    files, `judge_servers` the judges that this machine serves, by port, and `judge_pids` looks up who listens there.
    `effect_rows` are the operator's. `named` collects the files that a call surely runs or loads (an empty path: its
    arguments), `changes` what it writes to files. `show` reads the text of a file as it is now, where the host can.
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
        wanted, registries = package_name(name), (registry,) if registry else REGISTRIES
        return wanted in self.packages or any(f"{each}:{wanted}" in self.packages for each in registries)

    def has_host(self, host: str, path: str = "") -> bool:
        """Return whether the project's own files name this host.

        Anyone can publish on a shared host: one counts only with the `path` of a URL whose owner the project names.
        """
        host, _, rest = host.partition("/")
        return (_site(host, path or rest) or None) in self.hosts

    def has_url(self, url: str) -> bool:
        """Return the same for a whole URL or git address."""
        return (site_of_url(url) or None) in self.hosts

    def apart(self) -> Project:
        """Return the same project for a reading of which nothing is collected."""
        return replace(self, named=None, changes=None)

    def at(self, folder: str) -> Project:
        """Return the same project with another working folder; a folder that is not absolute changes nothing."""
        folder = normalize_path(_with_slashes(folder))
        return replace(self, folder=folder) if _is_absolute(folder) else self

    def full_path(self, path: str, folder: str = "") -> str:
        """Return a path in the form in which paths are compared; `folder` is what a relative one starts from."""
        full = self._join(path, folder) if path[:1] != "~" else normalize_path(path)
        return self.home + full[1:] if self.home and f"{full}/".startswith("~/") else full

    def _join(self, path: str, folder: str) -> str:
        path, start = _with_slashes(path), folder or self.folder or self.root
        return normalize_path(f"{start}/{path}" if start and not _is_absolute(path) else path)

    def note_change(
        self, path: str, text: str | None, *, is_whole: bool = True, replaced: str = "", link: str = ""
    ) -> None:
        """Note what is written to a file, for a caller that wants it."""
        if self.changes is not None:
            self.changes.append(Change(self.full_path(path), text, is_whole, replaced, link and self.full_path(link)))

    def locate(self, path: str, folder: str = "") -> Place:
        """Return where a path lies; `folder` is what a relative path starts from, the working folder when empty."""
        if path.startswith(("~", "$HOME", "${HOME}", "%USERPROFILE%")):
            return Place.HOME
        full = self._join(path, folder)
        if not _is_absolute(full):
            return Place.OUTSIDE if full.startswith("..") else Place.INSIDE
        if self.root and _is_below(full, self.root):
            return Place.INSIDE
        if not self.root and not _P["system"].match(full) and not _P["scratch"].match(full):
            # The folder is unknown: a project can lie anywhere but among the system's files and a user's settings.
            return Place.HOME if _P["home settings"].match(full) else Place.INSIDE
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


@lru_cache(maxsize=4096)
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


def _with_slashes(path: str) -> str:
    return path.replace("\\", "/") if _P["windows"].match(path) else path


def _is_absolute(path: str) -> bool:
    return _P["absolute"].match(path) is not None


def _is_below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")


# What the files of a project name, by `manifests.tbl`. A file that is broken names nothing: a name that is missed is
# merely unknown. Where a host gives no folder, a manifest that a call reads is the only way to know it.

# Names that one file may give, of each sort; how long a name, a file of TOML and a manifest that is read may be.
_MAX_NAMES, _MAX_NAME, _MAX_TOML, _MAX_MANIFEST = 10_000, 160, 64 * 1024, 512 * 1024
_MAX_DEPTH = 12
_IMAGE_FOLDERS = frozenset("workflows k8s kubernetes manifests deploy deployments".split())


class ManifestNames(NamedTuple):
    """What one file names; `packages` are `registry:name`, `hosts` as `site_of_url` writes them."""

    packages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


NO_NAMES = ManifestNames()
_Reader = Callable[[str], ManifestNames]


def is_manifest(name: str, folder: str = "") -> bool:
    """Return whether a file of this name, in a folder of that name, says what the project uses."""
    reader = _reader_of(name, folder)
    if reader is _read_images:
        return _M["image file"].fullmatch(name) is not None or folder in _IMAGE_FOLDERS
    return reader is not None


def may_name_images(name: str) -> bool:
    """Return whether a file of this name may say which images and actions are run, whatever else it says."""
    return _reader_of(name, "") is _read_images


def is_lock_file(name: str) -> bool:
    """Return whether a file of this name lists everything that a tool has resolved, so that it may be large."""
    return name in _LOCK_FILES


def read_manifest(name: str, text: str, folder: str = "") -> ManifestNames:
    """Return what a file of this name names, in a folder of that name; nothing where it cannot be read."""
    reader = _reader_of(name, folder)
    try:
        return reader(text) if reader is not None and "\0" not in text else NO_NAMES
    except (ValueError, RecursionError):
        return NO_NAMES


def read_git_remotes(text: str) -> dict[str, str]:
    """Return the remotes in a repository's configuration, without the user or token in their addresses."""
    remotes: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if section := _M["remote"].match(line):
            name = section[2] or "" if section[1].lower() == "remote" else ""
        elif name and (url := _M["remote url"].match(line)):
            remotes.setdefault(name, re.sub(r"(?<=://)[^/@]*@", "", url[1]))
    return remotes


def _reader_of(name: str, folder: str) -> _Reader | None:
    """Return what reads a file by its name, or by a pattern; other files of YAML may name images."""
    globs = (glob for glob in _GLOBS if fnmatchcase(f"{folder}/{name}" if "/" in glob else name, glob))
    reader = _READERS.get(name) or _READERS.get(next(globs, ""))
    is_other = reader is None and (name.endswith((".yml", ".yaml")) or _M["image file"].fullmatch(name))
    return _read_images if is_other else reader


def _collect(registry: str, packages: Iterable[str], *names: Iterable[str], urls: Iterable[str] = ()) -> ManifestNames:
    tasks, programs, *_ = *names, (), ()
    return ManifestNames(
        tuple(f"{registry}:{package_name(name)}" for name in _plain_names(packages)),
        tuple(_plain_names(tasks)),
        tuple(_plain_names(programs)),
        tuple(dict.fromkeys(site for url in islice(urls, _MAX_NAMES) if (site := site_of_url(url)))),
    )


def _plain_names(names: Iterable[str]) -> Iterator[str]:
    short = (name for name in islice(names, _MAX_NAMES) if 0 < len(name) <= _MAX_NAME)
    return (name for name in short if _M["plain name"].fullmatch(name))


def _read_tree(registry: str, is_toml: bool, text: str) -> ManifestNames:  # noqa: FBT001 - a cell of the table
    """Read TOML or JSON: packages below keys that say so, and scripts below theirs.

    The project's own name is no package that it uses: in a public registry it may be an attacker's. The scripts of some
    keys have no program of their own: a runner takes their names.
    """
    if is_toml and (len(text) > _MAX_TOML or _M["long key"].search(text)):
        return NO_NAMES
    only_tasks = ("tasks",) if is_toml else ("tasks", "scripts")
    packages, tasks, programs = list[str](), list[str](), list[str]()
    pending: list[tuple[object, int]] = [(tomllib.loads(text) if is_toml else json.loads(text), 0)]
    while pending:
        value, depth = pending.pop()
        for key, inner in value.items() if isinstance(value, dict) and depth <= _MAX_DEPTH else ():
            if _M["dependency key"].fullmatch(key):
                packages += _dependencies(inner)
            elif key in ("scripts", "tasks", "gui-scripts", "bin") and isinstance(inner, dict):
                tasks += inner
                programs += inner if key not in only_tasks else ()
            pending.append((inner, depth + 1))
    return _collect(registry, packages, tasks, programs, urls=_M["url"].findall(text))


def _dependencies(value: object) -> Iterator[str]:
    if isinstance(value, list):
        matches = [_M["requirement"].match(item) for item in value if isinstance(item, str)]
        yield from (match[1] for match in matches if match)
    for name, inner in value.items() if isinstance(value, dict) else ():
        # A group of requirements; elsewhere the key is the package and the value says which.
        is_group = isinstance(inner, list) and any(isinstance(item, str) for item in inner)
        yield from _dependencies(inner) if is_group else (name,)


def _read_setup(text: str) -> ManifestNames:
    blocks = (re.split(r"\n(?=\S)", block[1], maxsplit=1)[0] for block in _M["setup block"].finditer(text))
    names = (name for block in islice(blocks, _MAX_NAMES) for name in _M["setup name"].findall(block))
    return _collect("pypi", names, urls=_M["url"].findall(text))


def _read_lines(
    registry: str, reader: str, packages: re.Pattern[str], tasks: re.Pattern[str], urls: re.Pattern[str], text: str
) -> ManifestNames:
    names = [":".join(match.groups()) for match in packages.finditer(text)]
    if registry == "maven":
        names += [name.partition(":")[2] for name in names]
    task_names = (name for match in tasks.finditer(text) for name in re.split(r"[\s,]+", match[1]))
    addresses = _M["url"].findall(text) if reader == "text" else [match[1] for match in urls.finditer(text)]
    found = _collect(registry, names, task_names, urls=addresses)
    # The owners on a shared host are as many as the packages, and no registry of the project's own.
    return found if reader == "text" else found._replace(hosts=tuple(site for site in found.hosts if "/" not in site))


def _read_images(text: str) -> ManifestNames:
    """Read the images and actions that have an owner or a host in their names; a new tag is the same name."""
    named = dict.fromkeys((match["uses"], match["name"].lower()) for match in _M["image"].finditer(text))
    others = [(uses, name) for uses, name in named if not _M["curated"].match(name)]
    # Others may publish an image where a host is named, or the name has two parts, unlike a path.
    images = _collect("image", (name for uses, name in others if not uses and _M["public image"].match(name)))
    # An action may lie in a folder of its repository.
    actions = dict.fromkeys("/".join(name.split("/")[:2]) for uses, name in others if uses)
    return ManifestNames((*images.packages, *_collect("action", actions).packages))


def _reader(registry: str, reader: str, *cells: str) -> _Reader:
    """Return what reads the files of a row of the table."""
    if reader in ("toml", "json"):
        return partial(_read_tree, registry, reader == "toml")
    packages, tasks, urls = (re.compile(cell if cell != "-" else r"(?!)", re.MULTILINE) for cell in cells)
    return partial(_read_lines, registry.strip("-"), reader, packages, tasks, urls)


_ROWS = read_table(
    __package__, "manifests.tbl", "manifests", ("names", "registry", "reader", "packages", "tasks", "urls")
)
_LOCK_FILES = frozenset(name for names, _, reader, *_ in _ROWS if reader == "lock" for name in names.split())
_READERS: dict[str, _Reader] = {
    **{name: _reader(*cells) for names, *cells in _ROWS for name in names.split()},
    **dict.fromkeys(("setup.cfg", "setup.py"), _read_setup),
}
_GLOBS = [name for name in _READERS if "*" in name]


def learn_from_reading(project: Project, tool: str, asked: str, content: str, written: Collection[str]) -> Project:
    """Return the project with the packages of the one manifest that a call read; unchanged for every other call.

    It counts when a local tool read that file of the project and nothing else, and no earlier call wrote it.
    """
    path = _local_path(tool, asked) if len(content) <= _MAX_MANIFEST else ""
    folder, _, name = path.replace("\\", "/").rpartition("/")
    # Which images and actions a project runs is read from its folder alone: any file can say `image:`.
    is_packages = is_manifest(name) and not may_name_images(name)
    # Either side may spell a path from another folder.
    is_written = any(path.endswith(other) or other.endswith(path) for other in written if other)
    if not is_packages or is_written or project.locate(path) is not Place.INSIDE:
        return project
    is_numbered = len(_M["numbered"].findall(content)) * 10 >= (content.count("\n") + 1) * 9
    text = _M["numbered"].sub("", content) if is_numbered else content
    packages = project.packages.union(read_manifest(name, text, folder.rpartition("/")[2]).packages)
    return replace(project, packages=packages) if len(packages) <= _MAX_NAMES else project


def _local_path(tool: str, asked: str) -> str:
    """Return the one path that a local tool reads, as far as its arguments tell."""
    seed = canonical_tool(tool)
    is_local = seed == "read" or (seed == "bash" and _M["prints"].match(asked) is not None)
    paths = {path for path in _M["read path"].findall(asked) if path.strip("./\\")} if is_local else set()
    return paths.pop() if len(paths) == 1 and not _M["more than one"].search(asked) else ""
