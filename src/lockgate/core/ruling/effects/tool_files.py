"""Tools that work on files to their effects: which path, in which direction, and what the written text does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import (
    ROLES,
    has_role,
    is_content,
    is_path_name,
    leaf_name,
    roles_of,
    roles_of_all,
)
from lockgate.core.ruling.effects.written import read_written_file
from lockgate.core.ruling.targets import find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.tool_risk import WORDS, ToolName

_MOVES, _TRANSFORMS = WORDS["moves file"], WORDS["transforms file"]
_COPIES, _ADDS = _MOVES | {"copy", "duplicate", "link", "symlink"}, frozenset(("append", "insert", "a", "add"))
# What holds a whole file.
_WHOLE = frozenset(("content", "contents", "file_text"))
_VIEWS = frozenset(Leaf("command", word) for word in ("view", "read", "list"))
_WRITING = frozenset("write edit append save touch".split())
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


def read_file_tool(name: ToolName, leaves: Sequence[Leaf], project: Project) -> list[Effect] | None:
    """Return what a tool does to the files it names; None for a tool that works on no path of this machine."""
    effects = list(_read_patches(leaves, project)) if name.common == "write" else []
    if effects or (effects := _read_files(name, leaves, project)):
        return effects
    return [effect("unknown-act", certainty=Certainty.GUESS)] if name.common == "write" else None


def _read_files(name: ToolName, leaves: Sequence[Leaf], project: Project) -> list[Effect]:
    access = _direction(name, leaves)
    if access is None:
        return []
    named = _find_paths(name, leaves)
    paths = [leaf for leaf in named if _is_path(leaf.text)]
    effects = list(_read_elsewhere(name, access, leaves)) if name.kind != "looks" or access is Access.READ else []
    if not paths:
        return effects
    here = [_access(leaf, _access_of(leaf, access, name), project) for leaf in paths]
    is_elsewhere = any(map(is_other_host, leaves))
    effects += (entry for entry in here if not is_elsewhere or entry.kind in _DOORS_ANYWHERE)
    if access is Access.WRITE:
        others = [leaf for leaf in leaves if leaf not in named]
        is_download = name.verb == "download"
        effects += _read_download(paths, others) if is_download else _read_contents(paths, others, project)
        _note_changes(name, paths, others, project)
    return effects


def _read_download(paths: Sequence[Leaf], others: Sequence[Leaf]) -> Iterator[Effect]:
    yield from (effect("downloads-file", leaf.text, argument=leaf.argument) for leaf in paths)
    yield from (effect("requests", seen.target) for leaf in others for seen in find_hosts(leaf.text))


def is_other_host(leaf: Leaf) -> bool:
    """Return whether a value says that a tool works on another machine."""
    return "elsewhere" in roles_of(leaf.argument) and not is_local_host(leaf.text)


def _read_elsewhere(name: ToolName, access: Access, leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield what goes to or comes from another machine: by an address, a bucket beside a key, or a host."""
    for leaf in leaves:
        host = _host_of(leaf.text.strip()) if is_path_name(leaf.argument) else ""
        if "elsewhere" in roles_of(leaf.argument):
            host = leaf.text.strip()
        if host and not is_local_host(host.partition(":")[0]):
            is_read = _access_of(leaf, access, name) is Access.READ
            kind = "requests" if is_read else "deletes-record" if access is Access.DELETE else "sends-data"
            yield effect(kind, host_from_value(leaf.text) or host, argument=leaf.argument, span=(0, len(leaf.text)))


def _host_of(path: str) -> str:
    """Return the machine or bucket that a path is on, if it is not this machine: by its address, or behind a host."""
    if match := _SHARE.match(path) or _BEHIND_HOST.match(path):
        return match[1]
    return next((seen.target for seen in find_hosts(path)), "") if "://" in path[:_MAX_ADDRESS] else ""


def _find_paths(name: ToolName, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the arguments that name files: `new` is a text where a text is replaced, and else a path to write."""
    acts = {leaf.text.lower() for leaf in leaves if has_role(leaf.argument, "action")} | {name.verb}
    is_edit = acts.isdisjoint(_MOVES | _TRANSFORMS) and any(leaf_name(leaf) in ROLES["old text"] for leaf in leaves)
    texts = ROLES["new text"] if is_edit else frozenset[str]()
    # `to` is a place where a file is packed or unpacked to, and a target may be a person or a thing as well.
    places = ROLES["copied to"] if _transforms(name) else frozenset[str]()
    paths = list[Leaf]()
    for leaf in leaves:
        own = leaf_name(leaf)
        is_named = is_path_name(leaf.argument) and own not in texts and not ("target" in own and leaf.text.isalnum())
        paths += [leaf] if is_named or (own in places and "/" in leaf.text) else []
    return paths


def _access_of(leaf: Leaf, access: Access, name: ToolName) -> Access:
    """Return what is done with one path: a tool that reads one file may write another."""
    transforms = _transforms(name)
    if access is not Access.READ and not transforms:
        return access
    roles = roles_of(leaf.argument)
    is_output = "output" in roles or (transforms and "copied to" in roles) or name.verb == "download"
    return Access.WRITE if is_output else Access.READ


def _transforms(name: ToolName) -> bool:
    # In `extract_archive` the archive is a thing.
    return name.verb in _TRANSFORMS or (name.verb == "archive" and not _TRANSFORMS.isdisjoint(name.words))


def _direction(name: ToolName, leaves: Sequence[Leaf]) -> Access | None:
    saves = name.has("saves what it shows") or _transforms(name)
    if name.common in ("read", "glob", "grep") or (name.kind == "looks" and not saves):
        return Access.READ
    if saves or name.common == "write":
        return Access.WRITE if _VIEWS.isdisjoint(leaves) else Access.READ
    if name.verb in WORDS["deletes file"]:
        return Access.DELETE if name.has("file") and not _is_in_mail(name, leaves) else None
    writes = name.has("file") and name.verb in WORDS["writes file"] | _MOVES
    return Access.WRITE if writes or _edits_by_arguments(name, leaves) else None


def _is_in_mail(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    # The folders of a mail tool are full of mail.
    return name.has("mail folder") and not any(leaf.text.startswith(("/", "~")) for leaf in leaves)


def _edits_by_arguments(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    """Return whether a tool gets a path with a verb that writes, or with what is replaced there, and by what.

    A tool that also gets a recipient or an address may send the change there, and a path may be a place among settings.
    """
    roles = roles_of_all(leaves)
    if "edited" not in roles or name.has("setting"):
        return False
    is_sent = any(sink_from_argument(leaf.argument) == "url" for leaf in leaves)
    is_exchange = roles >= {"old text", "new text"} and roles.isdisjoint(("recipient", "elsewhere"))
    return name.verb in _WRITING or name.words == {"chmod"} or (is_exchange and not is_sent)


def _is_path(text: str) -> bool:
    # A shared folder is a path as well, outside the project.
    return 0 < len(text) < 4096 and "\n" not in text and "://" not in text and not _BEHIND_HOST.match(text)


def _access(leaf: Leaf, access: Access, project: Project) -> Effect:
    return read_access(leaf.text, access, project)._replace(argument=leaf.argument, start=0, end=len(leaf.text))


def _read_contents(paths: Sequence[Leaf], leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield what the written text does, and a push where the file is written into a hosted repository."""
    replaced = "\n".join(leaf.text for leaf in leaves if has_role(leaf.argument, "old text"))
    beside = {_place(leaf): leaf.text for leaf in paths}
    for leaf in leaves:
        if roles_of(leaf.argument).isdisjoint(("old text", "no content")):
            path = beside.get(_place(leaf), paths[0].text)
            yield from read_written_file(path, leaf.text, replaced, leaf.argument, project)
    named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo", "repository")}
    if repository := named.get("repo") or named.get("repository"):
        yield effect("pushes", f"{named['owner']}/{repository}" if "owner" in named else repository, argument="repo")


def _note_changes(name: ToolName, paths: Sequence[Leaf], leaves: Sequence[Leaf], project: Project) -> None:
    """Note what a tool writes to files, for later calls that run them."""
    if project.changes is None:
        return
    adds = not (name.words | {leaf.text[:_MAX_ADDRESS].lower() for leaf in leaves}).isdisjoint(_ADDS)
    old = {_place(leaf): leaf.text for leaf in leaves if has_role(leaf.argument, "old text")}
    beside = {_place(leaf): leaf.text for leaf in paths}
    for leaf in leaves:
        if is_content(leaf) and not has_role(leaf.argument, "old text"):
            is_whole, place = leaf_name(leaf) in _WHOLE and not adds, _place(leaf)
            text = leaf.text if is_whole or place in old else f"\n{leaf.text}"
            project.note_change(beside.get(place, paths[0].text), text, is_whole=is_whole, replaced=old.get(place, ""))
    if len(paths) == 2 and not name.words.isdisjoint(_COPIES):
        # What is moved is found at its new place.
        project.note_change(paths[1].text, None, link=paths[0].text)


def _place(leaf: Leaf) -> str:
    """Return what a value stands beside: the arguments of a call, or one of the edits in a list."""
    return leaf.argument.rpartition(".")[0]


def find_secret_files(leaves: Sequence[Leaf], project: Project, *, sends: bool) -> Iterator[Effect]:
    """Yield the files that a tool takes along and that hold secrets."""
    for leaf in leaves:
        if has_role(leaf.argument, "path") and _is_path(leaf.text):
            secret = _access(leaf, Access.READ, project)
            if secret.kind == "reads-secret":
                kind = "sends-secret" if sends else secret.kind
                yield effect(kind, secret.target, argument=leaf.argument, span=(0, len(leaf.text)))


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
            is_new = match["act"] == "Add"
            project.note_change(path, added if is_new else f"\n{added}", is_whole=is_new)
            for entry in read_written_file(path, added, removed, leaf.argument, project):
                yield entry._replace(start=start, end=end)
