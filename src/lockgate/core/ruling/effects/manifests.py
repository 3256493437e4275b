"""A project's own files to the names in them: packages, images, tasks, programs, hosts, and its repository's remotes.

`manifests.tbl` says which files. A file that is broken names nothing: a name that is missed is merely unknown. Where a
host gives no folder, a manifest that a call reads is the only way to know what the project names.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.effects.project import Place, Project, package_name, site_of_url
from lockgate.core.ruling.tool_risk import canonical_tool
from lockgate.core.tables import read_table

_MAX_NAME = 160
# Names that one file may give, of each sort.
_MAX_NAMES = 10_000
_MAX_DEPTH = 12
# TOML takes long to read, and quadratic time for a key of many parts.
_MAX_TOML = 64 * 1024
_LONG_KEY = re.compile(r"(?m)^(?:[^.=\n]*\.){13}")


class ManifestNames(NamedTuple):
    """What one file names; `packages` are `registry:name`, `hosts` as `site_of_url` writes them."""

    packages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


NO_NAMES = ManifestNames()


def is_manifest(name: str, folder: str = "") -> bool:
    """Return whether a file of this name, in a folder of that name, says what the project uses."""
    reader = _reader_of(name, folder)
    if reader is _read_images:
        return _IMAGE_FILE.fullmatch(name) is not None or folder in _IMAGE_FOLDERS
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
    if reader is None or "\0" in text:
        return NO_NAMES
    try:
        return reader(text)
    except (ValueError, RecursionError):
        return NO_NAMES


def read_git_remotes(text: str) -> dict[str, str]:
    """Return the remotes in a repository's configuration, without the user or token in their addresses."""
    remotes: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if section := re.match(r'[ \t]*\[([a-z]+)(?: "([^"\n]{1,160})")?\]', line, re.IGNORECASE):
            name = section[2] or "" if section[1].lower() == "remote" else ""
        elif name and (url := re.match(r"[ \t]*(?:push)?url[ \t]*=[ \t]*(\S{1,500})", line, re.IGNORECASE)):
            remotes.setdefault(name, re.sub(r"(?<=://)[^/@]*@", "", url[1]))
    return remotes


_Reader = Callable[[str], ManifestNames]


def _reader_of(name: str, folder: str) -> _Reader | None:
    if name in _READERS:
        return _READERS[name]
    for pattern, reader in _PATTERN_READERS.items():
        if fnmatchcase(f"{folder}/{name}" if "/" in pattern else name, pattern):
            return reader
    return _read_images if name.endswith((".yml", ".yaml")) or _IMAGE_FILE.fullmatch(name) else None


def _collect(
    registry: str,
    packages: Iterable[str] = (),
    *,
    tasks: Iterable[str] = (),
    programs: Iterable[str] = (),
    urls: Iterable[str] = (),
) -> ManifestNames:
    return ManifestNames(
        tuple(f"{registry}:{package_name(name)}" for name in _plain_names(packages)),
        tuple(_plain_names(tasks)),
        tuple(_plain_names(programs)),
        tuple(dict.fromkeys(site for url in islice(urls, _MAX_NAMES) if (site := site_of_url(url)))),
    )


def _plain_names(names: Iterable[str]) -> Iterator[str]:
    for name in islice(names, _MAX_NAMES):
        if 0 < len(name) <= _MAX_NAME and _PLAIN_NAME.fullmatch(name):
            yield name


_PLAIN_NAME = re.compile(r"[\w@.][\w@./:+-]*")
_URL = re.compile(r"(?:https?|ssh|git\+https?|git\+ssh)://[^\s\"'<>,;)\]}]{3,400}")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)")


def _urls(text: str) -> Iterator[str]:
    return (found[0] for found in _URL.finditer(text))


# Manifests that have a structure: TOML and JSON.


class _Walk:
    """One walk through a manifest: names of packages below keys that say so, and of scripts below theirs.

    The project's own name is no package that it uses: in a public registry it may be an attacker's. `only_tasks` are
    the keys whose scripts have no program of their own: a runner takes their names.
    """

    def __init__(self, only_tasks: Sequence[str]) -> None:
        self.only_tasks = only_tasks
        self.packages: list[str] = []
        self.tasks: list[str] = []
        self.programs: list[str] = []

    def visit(self, value: object, depth: int = 0) -> None:
        if not isinstance(value, dict) or depth > _MAX_DEPTH:
            return
        for key, inner in value.items():
            if _DEPENDENCY_KEYS.fullmatch(key):
                self._add_dependencies(inner)
            elif key in ("scripts", "tasks", "gui-scripts", "bin") and isinstance(inner, dict):
                self.tasks.extend(inner)
                self.programs.extend(inner if key not in self.only_tasks else ())
            self.visit(inner, depth + 1)

    def _add_dependencies(self, value: object) -> None:
        if isinstance(value, list):
            found = [_REQUIREMENT.match(item) for item in value if isinstance(item, str)]
            self.packages += [match[1] for match in found if match]
            return
        for name, inner in value.items() if isinstance(value, dict) else ():
            # A group of requirements; elsewhere the key is the package and the value says which.
            if isinstance(inner, list) and any(isinstance(each, str) for each in inner):
                self._add_dependencies(inner)
            else:
                self.packages.append(name)


_DEPENDENCY_KEYS = re.compile(
    r"(?:[a-z-]*-)?dependencies|[a-z]*Dependencies|dependency-groups|requires|(?:dev-)?packages|require(?:-dev)?"
)


def _read_tree(registry: str, text: str, *, is_toml: bool) -> ManifestNames:
    if is_toml and (len(text) > _MAX_TOML or _LONG_KEY.search(text)):
        return NO_NAMES
    walk = _Walk(("tasks",) if is_toml else ("tasks", "scripts"))
    walk.visit(tomllib.loads(text) if is_toml else json.loads(text))
    return _collect(registry, walk.packages, tasks=walk.tasks, programs=walk.programs, urls=_urls(text))


# Manifests that have lines.


def _read_setup(text: str) -> ManifestNames:
    """Read `setup.cfg` and `setup.py`: what stands in or below a key that ends in `_requires` or `requires`."""
    names: list[str] = []
    for block in re.finditer(r"requires?[ \t]*=[ \t]*(.{0,8000})", text, re.DOTALL):
        lines = re.split(r"\n(?=\S)", block[1], maxsplit=1)[0]
        names.extend(re.findall(r"(?:^|[\"'\n])[ \t]*([A-Za-z0-9][\w.-]*)[ \t]*(?=[<>=!~\[;\"'\n]|$)", lines))
        if len(names) > _MAX_NAMES:
            break
    return _collect("pypi", names, urls=_urls(text))


def _read_lines(
    registry: str, reader: str, packages: re.Pattern[str], tasks: re.Pattern[str], urls: re.Pattern[str], text: str
) -> ManifestNames:
    names = [":".join(match.groups()) for match in packages.finditer(text)]
    if registry == "maven":
        names += [name.partition(":")[2] for name in names]
    found = _collect(
        registry,
        names,
        tasks=(name for match in tasks.finditer(text) for name in re.split(r"[\s,]+", match[1])),
        urls=_urls(text) if reader == "text" else (match[1] for match in urls.finditer(text)),
    )
    # The owners on a shared host are as many as the packages, and no registry of the project's own.
    return found if reader == "text" else found._replace(hosts=tuple(site for site in found.hosts if "/" not in site))


# Files that name the images or the actions that are run. Those on a curated registry, or of a forge's own, are no news:
# no stranger can publish there.
_IMAGE_FILE = re.compile(
    r"(?i)(?:.{0,80}[.-])?(?:dockerfile|containerfile)(?:[.-].{0,80})?"
    r"|(?:(?:docker-)?compose|values)[\w.-]{0,80}\.ya?ml|action\.ya?ml"
)
_IMAGE_FOLDERS = frozenset("workflows k8s kubernetes manifests deploy deployments".split())
_IMAGE = re.compile(
    r"(?mi)^[ \t]*(?:FROM[ \t]+(?:--\S{1,80}[ \t]+)?|ARG[ \t]+\w{1,80}=|(?:COPY|ADD)[ \t][^\n]{0,200}?--from="
    r"|(?:-[ \t]+)?[\"']?(?:image|repository|container|newName|(?P<uses>uses))[\"']?:[ \t]*)"
    r"[\"']?(?:docker://)?(?P<name>[a-z0-9][\w.-]{0,100}(?::\d{1,5}(?=/))?(?:/[\w.-]{1,100}){1,8})"
)
_CURATED = re.compile(
    r"(?:docker\.io/)?library/|public\.ecr\.aws/docker/library/|mcr\.microsoft\.com/|registry\.k8s\.io/|gcr\.io/distroless/"
)


def _read_images(text: str) -> ManifestNames:
    """Read the images and actions that have an owner or a host in their names; a new tag is the same name."""
    found = dict.fromkeys((match["uses"], match["name"].lower()) for match in _IMAGE.finditer(text))
    images = (name for uses, name in found if not uses and _is_public(name) and not _CURATED.match(name))
    # An action may lie in a folder of its repository.
    actions = ("/".join(name.split("/")[:2]) for uses, name in found if uses)
    packages = (
        *_collect("image", images).packages,
        *_collect("action", (name for name in dict.fromkeys(actions) if not name.startswith(_OWN_ACTIONS))).packages,
    )
    return ManifestNames(packages)


def _is_public(image: str) -> bool:
    """Return whether others may publish this: where no host is named, such a name has two parts, unlike a path."""
    host, *parts = image.split("/")
    return len(parts) == 1 or "." in host or ":" in host


_OWN_ACTIONS = ("actions/", "github/")


_STANDS_FOR = (
    ("{url}", r"((?:https?|ssh)://[^\s\"'<>,;)\]}]{3,400})"),
    ("{npm}", r"(?:@[\w.-]{1,100}/)?[\w.-]{1,100}"),
    ("{name}", r'"([^"\n]{1,160})"'),
)


def _pattern(cell: str) -> re.Pattern[str]:
    for word, pattern in _STANDS_FOR:
        cell = cell.replace(word, pattern)
    return re.compile(cell if cell != "-" else r"(?!)", re.MULTILINE)


def _reader(registry: str, reader: str, packages: str, tasks: str, urls: str) -> _Reader:
    if reader in ("toml", "json"):
        return partial(_read_tree, registry, is_toml=reader == "toml")
    return partial(_read_lines, registry.strip("-"), reader, _pattern(packages), _pattern(tasks), _pattern(urls))


_ROWS = read_table(
    __package__, "manifests.tbl", "manifests", ("names", "registry", "reader", "packages", "tasks", "urls")
)
_LOCK_FILES = frozenset(name for names, _, reader, *_ in _ROWS if reader == "lock" for name in names.split())
_READERS: dict[str, _Reader] = {
    **{name: _reader(*cells) for names, *cells in _ROWS for name in names.split()},
    **dict.fromkeys(("setup.cfg", "setup.py"), _read_setup),
}
_PATTERN_READERS = {name: reader for name, reader in _READERS.items() if "*" in name}


# What an agent learns by reading a manifest.

_MAX_MANIFEST = 512 * 1024
_MAX_PACKAGES = 10_000
# A command that does more than print one file may print anything beside it.
_MORE_THAN_ONE = re.compile(r"[;|&<>$`\n]|://")
# A file on another machine is not the project's, whatever its name.
_PRINTS = re.compile(r"(?:cat|head|less|more|bat|type)\s")
_READ_PATH = re.compile(r"[\w@~./\\-]*[./\\][\w@./\\-]*")
# File tools put the number of a line before it.
_NUMBERED = re.compile(r"(?m)^[ \t]*\d+(?:\u2192|\t|[ ]{1,2}(?=\S|$)|:)")


def learn_from_reading(project: Project, tool: str, asked: str, content: str, written: Collection[str]) -> Project:
    """Return the project with the packages of the one manifest that a call read; unchanged for every other call.

    It counts when a local tool read that file of the project and nothing else, and no earlier call wrote it.
    """
    if len(content) > _MAX_MANIFEST or _MORE_THAN_ONE.search(asked) or not _reads_local_file(tool, asked):
        return project
    paths = {path for path in _READ_PATH.findall(asked) if path.strip("./\\")}
    if len(paths) != 1:
        return project
    path = paths.pop()
    folder, _, name = path.replace("\\", "/").rpartition("/")
    # Which images and actions a project runs is read from its folder alone: any file can say `image:`.
    is_packages = is_manifest(name) and not may_name_images(name)
    if not is_packages or project.locate(path) is not Place.INSIDE or _is_among(path, written):
        return project
    lines = content.count("\n") + 1
    is_numbered = len(_NUMBERED.findall(content)) * 10 >= lines * 9
    names = read_manifest(name, _NUMBERED.sub("", content) if is_numbered else content, folder.rpartition("/")[2])
    packages = frozenset(names.packages) - project.packages
    if not packages or len(packages) + len(project.packages) > _MAX_PACKAGES:
        return project
    return replace(project, packages=project.packages | packages)


def _reads_local_file(tool: str, asked: str) -> bool:
    seed = canonical_tool(tool)
    return seed == "read" or (seed == "bash" and _PRINTS.match(asked) is not None)


def _is_among(path: str, written: Collection[str]) -> bool:
    """Return whether a path was written, as either side may spell it from another folder."""
    return any(path.endswith(each) or each.endswith(path) for each in written if each)
