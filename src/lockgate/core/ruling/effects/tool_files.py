"""Tools that work on files to their effects: which path, in which direction, and what the written text does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import ROLES, has_role, is_path_name, leaf_name, name_parts
from lockgate.core.ruling.effects.written import read_written_file
from lockgate.core.ruling.targets import find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.tool_risk import WORDS, ToolName

_MOVES, _TRANSFORMS, _DELETES = WORDS["moves file"], WORDS["transforms file"], WORDS["deletes file"]
_OLD, _NEW = ROLES["old text"], ROLES["new text"]
_EDITED = frozenset("path filename filepath".split())
_VIEWS = frozenset(Leaf("command", word) for word in ("view", "read", "list"))
_NOT_CONTENT = frozenset("description instruction instructions explanation title".split())
# On another machine a path is outside no project, and a key is a key.
_DOORS_ANYWHERE = frozenset(
    kind for kind, row in KINDS.items() if row.severity is Severity.OPENS_A_DOOR and not kind.endswith("s-outside")
)
_MAX_PATCHED, _MAX_ADDRESS = 200, 400
_PATCHED = re.compile(
    r"(?m)^(?:\*\*\* (?P<act>Add|Update|Delete) File: |\*\*\* Move to: |(?P<diff>\+\+\+|---) (?:[ab]/)?)"
    r"(?P<path>[^\t\r\n]+)"
)
# A shared folder, and a path behind a host.
_SHARE, _BEHIND_HOST = re.compile(r"[\\/]{2}([\w.-]+)[\\/]"), re.compile(r"[\w.-]+@([\w.-]+):")


def read_file_tool(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> list[Effect] | None:
    """Return what a tool does to the files it names; None for a tool that works on no path of this machine."""
    if seed != "write":
        return _read_files(name, seed, leaves, project) or None
    effects = list(_read_patches(leaves, project)) or _read_files(name, seed, leaves, project)
    return effects or [effect("unknown-act", certainty=Certainty.GUESS)]


def _read_files(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> list[Effect]:
    named = _find_paths(name, leaves)
    paths = [leaf for leaf in named if _is_path(leaf.text)]
    access = _direction(name, seed, leaves)
    effects = list(_read_elsewhere(name, access, leaves))
    if access is None or not paths:
        return effects
    here = (_access(leaf, _access_of(leaf, access, name), project) for leaf in paths)
    is_elsewhere = any(map(is_other_host, leaves))
    effects += (found for found in here if not is_elsewhere or found.kind in _DOORS_ANYWHERE)
    if access is Access.WRITE:
        others = [leaf for leaf in leaves if leaf not in named]
        effects += _read_contents(paths, others, project)
        effects += _read_repository(others)
        effects += _read_download(paths, others) if name.verb == "download" else ()
    return effects


def may_be_no_path(leaf: Leaf) -> bool:
    """Return whether a value that counts as a path may be a person or a thing as well: `target_name`."""
    parts = name_parts(leaf.argument)
    return "target" in parts and parts.isdisjoint((ROLES["path"] | ROLES["output"]) - {"target"})


def _read_download(paths: Sequence[Leaf], others: Sequence[Leaf]) -> Iterator[Effect]:
    yield from (effect("downloads-file", leaf.text, argument=leaf.argument) for leaf in paths)
    yield from (effect("requests", seen.target) for leaf in others for seen in find_hosts(leaf.text))


def is_other_host(leaf: Leaf) -> bool:
    """Return whether a value says that a tool works on another machine."""
    return has_role(leaf.argument, "elsewhere") and not is_local_host(leaf.text)


def _read_elsewhere(name: ToolName, access: Access | None, leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield what goes to or comes from another machine: by an address, a bucket beside a key, or a host."""
    if access is None or (name.kind == "looks" and access is not Access.READ):
        return
    for leaf in leaves:
        host = _host_of(leaf.text.strip()) if is_path_name(leaf.argument) else ""
        if has_role(leaf.argument, "elsewhere"):
            host = leaf.text.strip()
        if host and not is_local_host(host.partition(":")[0]):
            is_read = _access_of(leaf, access, name) is Access.READ
            kind = "requests" if is_read else "deletes-record" if access is Access.DELETE else "sends-data"
            yield effect(kind, host_from_value(leaf.text) or host, argument=leaf.argument, span=(0, len(leaf.text)))


def _host_of(path: str) -> str:
    """Return the machine or bucket that a path is on, if it is not this machine: by its address, or behind a host."""
    match = _SHARE.match(path) or _BEHIND_HOST.match(path)
    if match:
        return match[1]
    return next((seen.target for seen in find_hosts(path)), "") if "://" in path[:_MAX_ADDRESS] else ""


def _find_paths(name: ToolName, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the arguments that name files: `new` is a text where a text is replaced, and else a path to write."""
    acts = {leaf.text.lower() for leaf in leaves if has_role(leaf.argument, "action")} | {name.verb}
    is_edit = acts.isdisjoint(_MOVES | _TRANSFORMS) and any(leaf_name(leaf) in _OLD for leaf in leaves)
    named = [leaf for leaf in leaves if is_path_name(leaf.argument) and not (is_edit and leaf_name(leaf) in _NEW)]
    # `to` is a place where a file is packed or unpacked to.
    places = ROLES["copied to"] if _transforms(name) and named else frozenset[str]()
    return named + [leaf for leaf in leaves if leaf_name(leaf) in places and "/" in leaf.text and leaf not in named]


def _access_of(leaf: Leaf, access: Access, name: ToolName) -> Access:
    """Return what is done with one path: a tool that reads one file may write another."""
    transforms = _transforms(name)
    outputs = ROLES["output"] | (ROLES["copied to"] if transforms else frozenset())
    is_output = not name_parts(leaf.argument).isdisjoint(outputs)
    if access is Access.READ or transforms:
        return Access.WRITE if is_output or name.verb == "download" else Access.READ
    return access


def _transforms(name: ToolName) -> bool:
    # In `extract_archive` the archive is a thing.
    return name.verb in _TRANSFORMS or (name.verb == "archive" and not _TRANSFORMS.isdisjoint(name.words))


def _direction(name: ToolName, seed: str, leaves: Sequence[Leaf]) -> Access | None:
    is_view = seed == "write" and not _VIEWS.isdisjoint(leaves)
    is_shot = name.has("saves what it shows")
    if seed in ("read", "glob", "grep") or (name.kind == "looks" and not is_shot) or is_view:
        return Access.READ
    if seed == "write" or is_shot or _transforms(name):
        return Access.WRITE
    on_file = not WORDS["file"].isdisjoint(name.words)
    if name.verb in _DELETES:
        # The folders of a mail tool are full of mail.
        is_mail = not WORDS["mail folder"].isdisjoint(name.words)
        is_mail = is_mail and not any(leaf.text.startswith(("/", "~")) for leaf in leaves)
        return Access.DELETE if on_file and not is_mail else None
    writes = on_file and name.verb in WORDS["writes file"] | _MOVES
    return Access.WRITE if writes or _edits_by_arguments(name, leaves) else None


def _edits_by_arguments(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    """Return whether a tool gets a path with a verb that writes, or with what is replaced there, by what, and no more.

    A tool that also gets a recipient or an address may send the change there.
    """
    named = [name_parts(leaf.argument) for leaf in leaves if not leaf.text.isdigit()]
    parts = frozenset[str]().union(*named)
    # The path of such a thing is a place among settings, not a file.
    if parts.isdisjoint(_EDITED) or not WORDS["setting"].isdisjoint(name.words):
        return False
    is_exchange = not parts.isdisjoint(_OLD) and not parts.isdisjoint(_NEW)
    known = _EDITED | _OLD | _NEW | _NOT_CONTENT
    writes = name.verb in ("write", "edit", "append", "save", "touch") or name.words == {"chmod"}
    return writes or (is_exchange and not any(map(known.isdisjoint, named)))


def _is_path(text: str) -> bool:
    # A shared folder is a path as well, outside the project.
    return 0 < len(text) < 4096 and "\n" not in text and "://" not in text and not _BEHIND_HOST.match(text)


def _access(leaf: Leaf, access: Access, project: Project) -> Effect:
    return read_access(leaf.text, access, project)._replace(argument=leaf.argument, start=0, end=len(leaf.text))


def _read_contents(paths: Sequence[Leaf], leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    replaced = "\n".join(leaf.text for leaf in leaves if not name_parts(leaf.argument).isdisjoint(_OLD))
    beside = {leaf.argument.rpartition(".")[0]: leaf.text for leaf in paths}
    for leaf in leaves:
        if name_parts(leaf.argument).isdisjoint(_OLD | _NOT_CONTENT):
            path = beside.get(leaf.argument.rpartition(".")[0], paths[0].text)
            yield from read_written_file(path, leaf.text, replaced, leaf.argument, project)


def find_secret_files(leaves: Sequence[Leaf], project: Project, *, sends: bool) -> Iterator[Effect]:
    """Yield the files that a tool takes along and that hold secrets."""
    for leaf in leaves:
        if has_role(leaf.argument, "path") and _is_path(leaf.text):
            secret = _access(leaf, Access.READ, project)
            if secret.kind == "reads-secret":
                kind = "sends-secret" if sends else secret.kind
                yield effect(kind, secret.target, argument=leaf.argument, span=(0, len(leaf.text)))


def _read_repository(leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield a push where the file is written into a hosted repository."""
    named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo", "repository")}
    repository = named.get("repo") or named.get("repository")
    if repository:
        yield effect("pushes", f"{named['owner']}/{repository}" if "owner" in named else repository, argument="repo")


def _read_patches(leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield what patches among the values do to the files that they name."""
    for leaf in leaves:
        matches = list(_PATCHED.finditer(leaf.text))
        if len(matches) > _MAX_PATCHED:
            yield effect("unreadable", certainty=Certainty.GUESS, argument=leaf.argument)
            continue
        for at, match in enumerate(matches):
            path = match["path"].strip()
            if match["diff"] == "---" or path == "/dev/null":
                continue
            start, end = match.span("path")
            access = Access.DELETE if match["act"] == "Delete" else Access.WRITE
            yield read_access(path, access, project)._replace(argument=leaf.argument, start=start, end=end)
            end = matches[at + 1].start() if at + 1 < len(matches) else len(leaf.text)
            lines = leaf.text[match.end() : end].splitlines()
            added = "\n".join(line[1:] for line in lines if line.startswith("+"))
            removed = "\n".join(line[1:] for line in lines if not line.startswith("+"))
            for found in read_written_file(path, added, removed, leaf.argument, project):
                yield found._replace(start=start, end=end)
