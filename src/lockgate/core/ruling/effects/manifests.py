"""A project's own files to the names in them: packages, images, tasks, programs, hosts, and its repository's remotes.

`manifests.tbl` says which files. A file that is broken names nothing: a name that is missed is merely unknown. Where a
host gives no folder, a manifest that a call reads is the only way to know what the project names.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.effects.project import Place, Project, package_name, site_of_url
from lockgate.core.ruling.tool_risk import canonical_tool
from lockgate.core.tables import read_patterns, read_table

_P = read_patterns(__package__, "manifests.tbl")
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


def is_manifest(name: str, folder: str = "") -> bool:
    """Return whether a file of this name, in a folder of that name, says what the project uses."""
    reader = _reader_of(name, folder)
    if reader is _read_images:
        return _P["image file"].fullmatch(name) is not None or folder in _IMAGE_FOLDERS
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
        if section := _P["remote"].match(line):
            name = section[2] or "" if section[1].lower() == "remote" else ""
        elif name and (url := _P["remote url"].match(line)):
            remotes.setdefault(name, re.sub(r"(?<=://)[^/@]*@", "", url[1]))
    return remotes


_Reader = Callable[[str], ManifestNames]


def _reader_of(name: str, folder: str) -> _Reader | None:
    if name in _READERS:
        return _READERS[name]
    for pattern, reader in _PATTERN_READERS.items():
        if fnmatchcase(f"{folder}/{name}" if "/" in pattern else name, pattern):
            return reader
    return _read_images if name.endswith((".yml", ".yaml")) or _P["image file"].fullmatch(name) else None


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
    short = (name for name in islice(names, _MAX_NAMES) if 0 < len(name) <= _MAX_NAME)
    return (name for name in short if _P["plain name"].fullmatch(name))


def _urls(text: str) -> Iterator[str]:
    return (match[0] for match in _P["url"].finditer(text))


def _read_tree(registry: str, text: str, *, is_toml: bool) -> ManifestNames:
    """Read TOML or JSON: packages below keys that say so, and scripts below theirs.

    The project's own name is no package that it uses: in a public registry it may be an attacker's. The scripts of some
    keys have no program of their own: a runner takes their names.
    """
    if is_toml and (len(text) > _MAX_TOML or _P["long key"].search(text)):
        return NO_NAMES
    only_tasks = ("tasks",) if is_toml else ("tasks", "scripts")
    packages, tasks, programs = list[str](), list[str](), list[str]()
    pending: list[tuple[object, int]] = [(tomllib.loads(text) if is_toml else json.loads(text), 0)]
    while pending:
        value, depth = pending.pop()
        for key, inner in value.items() if isinstance(value, dict) and depth <= _MAX_DEPTH else ():
            if _P["dependency key"].fullmatch(key):
                packages += _dependencies(inner)
            elif key in ("scripts", "tasks", "gui-scripts", "bin") and isinstance(inner, dict):
                tasks += inner
                programs += inner if key not in only_tasks else ()
            pending.append((inner, depth + 1))
    return _collect(registry, packages, tasks=tasks, programs=programs, urls=_urls(text))


def _dependencies(value: object) -> Iterator[str]:
    if isinstance(value, list):
        matches = [_P["requirement"].match(item) for item in value if isinstance(item, str)]
        yield from (match[1] for match in matches if match)
    for name, inner in value.items() if isinstance(value, dict) else ():
        # A group of requirements; elsewhere the key is the package and the value says which.
        is_group = isinstance(inner, list) and any(isinstance(item, str) for item in inner)
        yield from _dependencies(inner) if is_group else (name,)


def _read_setup(text: str) -> ManifestNames:
    names: list[str] = []
    for block in _P["setup block"].finditer(text):
        names += _P["setup name"].findall(re.split(r"\n(?=\S)", block[1], maxsplit=1)[0])
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


def _read_images(text: str) -> ManifestNames:
    """Read the images and actions that have an owner or a host in their names; a new tag is the same name."""
    named = dict.fromkeys((match["uses"], match["name"].lower()) for match in _P["image"].finditer(text))
    others = [(uses, name) for uses, name in named if not _P["curated"].match(name)]
    # Others may publish an image where a host is named, or the name has two parts, unlike a path.
    images = _collect("image", (name for uses, name in others if not uses and _P["public image"].match(name)))
    # An action may lie in a folder of its repository.
    actions = dict.fromkeys("/".join(name.split("/")[:2]) for uses, name in others if uses)
    return ManifestNames((*images.packages, *_collect("action", actions).packages))


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
    is_numbered = len(_P["numbered"].findall(content)) * 10 >= (content.count("\n") + 1) * 9
    text = _P["numbered"].sub("", content) if is_numbered else content
    packages = frozenset(read_manifest(name, text, folder.rpartition("/")[2]).packages) - project.packages
    if not packages or len(packages) + len(project.packages) > _MAX_NAMES:
        return project
    return replace(project, packages=project.packages | packages)


def _local_path(tool: str, asked: str) -> str:
    """Return the one path that a local tool reads, as far as its arguments tell."""
    seed = canonical_tool(tool)
    is_local = seed == "read" or (seed == "bash" and _P["prints"].match(asked) is not None)
    paths = {path for path in _P["read path"].findall(asked) if path.strip("./\\")} if is_local else set()
    return paths.pop() if len(paths) == 1 and not _P["more than one"].search(asked) else ""
