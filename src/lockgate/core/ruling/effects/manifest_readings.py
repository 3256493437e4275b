"""What an agent learns about a project by reading its manifest in a session.

Where a host gives no folder, a manifest that a call reads is the only way to know what the project names. It counts
when a local tool read that file of the project and nothing else, and no earlier call of the session wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from lockgate.core.ruling.effects.manifests import is_manifest, may_name_images, read_manifest
from lockgate.core.ruling.effects.project import Place, Project
from lockgate.core.ruling.tool_risk import canonical_tool

_MAX_MANIFEST = 512 * 1024
_MAX_PACKAGES = 10_000
# A command that does more than print one file may print anything beside it.
_MORE_THAN_ONE = re.compile(r"[;|&<>$`\n]|://")
# A file on another machine is not the project's, whatever its name.
_PRINTS = re.compile(r"(?:cat|head|less|more|bat|type)\s")
_PATH = re.compile(r"[\w@~./\\-]*[./\\][\w@./\\-]*")
# File tools put the number of a line before it.
_NUMBERED = re.compile(r"(?m)^[ \t]*\d+(?:\u2192|\t|[ ]{1,2}(?=\S|$)|:)")


def learn_from_reading(project: Project, tool: str, asked: str, content: str, written: Collection[str]) -> Project:
    """Return the project with the packages of the one manifest that a call read; unchanged for every other call."""
    if len(content) > _MAX_MANIFEST or _MORE_THAN_ONE.search(asked) or not _reads_local_file(tool, asked):
        return project
    paths = {path for path in _PATH.findall(asked) if path.strip("./\\")}
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
    found = read_manifest(name, _NUMBERED.sub("", content) if is_numbered else content, folder.rpartition("/")[2])
    packages = frozenset(found.packages) - project.packages
    if not packages or len(packages) + len(project.packages) > _MAX_PACKAGES:
        return project
    return replace(project, packages=project.packages | packages)


def _reads_local_file(tool: str, asked: str) -> bool:
    seed = canonical_tool(tool)
    return seed == "read" or (seed == "bash" and _PRINTS.match(asked) is not None)


def _is_among(path: str, written: Collection[str]) -> bool:
    """Return whether a path was written, as either side may spell it from another folder."""
    return any(path.endswith(each) or each.endswith(path) for each in written if each)
