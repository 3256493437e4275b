"""Tools that work on files to their effects: which path, in which direction, and what the written text does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import ROLES, has_role, is_path_name, leaf_name, name_parts
from lockgate.core.ruling.effects.tool_names import ToolName
from lockgate.core.ruling.effects.written_content import read_written_file

_FILE_WORDS = frozenset("file directory folder dir notebook path mkdir pdf csv xlsx docx archive".split())
_WRITES = frozenset(
    "write create edit append save update put make mkdir touch insert replace patch modify overwrite push".split()
)
_SURELY_WRITES = frozenset("write edit append save touch".split())
# The path of such a thing is a place among settings, not a file.
_SETTINGS = frozenset(
    "secret config setting settings policy record key value registry dns redirect redirects route routing proxy "
    "upstream endpoint nameserver gateway".split()
)
_MOVES = frozenset("move rename".split())
_TRANSFORMS = frozenset(
    "convert extract compress zip unzip parse render resize split merge download compile copy duplicate".split()
)
_DELETES = frozenset("delete remove unlink erase trash wipe".split())
# The folders of such a tool are full of mail.
_MAIL_WORDS = frozenset("mail email gmail outlook imap mailbox inbox".split())
_LOOKING_COMMANDS = frozenset("view read list".split())
_OLD = frozenset("old_string old_str old_text oldtext search old replaced".split())
_NEW = frozenset("new_string new_str new_text newtext replace new replacement".split())
_EDITED = frozenset("path filename filepath".split())
_NOT_CONTENT = frozenset("description instruction instructions explanation title".split())
_MAX_PATCHED = 200
_PATCHED = re.compile(
    r"(?m)^(?:\*\*\* (?P<act>Add|Update|Delete) File: |\*\*\* Move to: |(?P<diff>\+\+\+|---) (?:[ab]/)?)"
    r"(?P<path>[^\t\r\n]+)"
)


def read_file_tool(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> list[Effect] | None:
    """Return what a tool does to the files it names; None for a tool that works on no path."""
    if seed == "write":
        patched = list(read_patches(leaves, project))
        if patched:
            return patched
    named = _find_paths(name, leaves)
    paths = [leaf for leaf in named if _is_path(leaf.text)]
    access = _direction(name, seed, leaves)
    if access is None or not paths:
        return [effect("unknown-act", certainty=Certainty.GUESS)] if seed == "write" else None
    found = [_access(leaf, _access_of(leaf, access, name), project) for leaf in paths]
    if access is Access.WRITE:
        others = [leaf for leaf in leaves if leaf not in named]
        found += _read_written(name, paths, others, project)
    return found


def _read_written(name: ToolName, paths: Sequence[Leaf], others: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    yield from _read_contents(paths, others, project)
    if name.verb == "download":
        yield from (effect("downloads-file", leaf.text, argument=leaf.argument) for leaf in paths)
    yield from _read_repository(others)


def _find_paths(name: ToolName, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the arguments that name files: `new` is a text where a text is replaced, and else a path to write."""
    acts = {leaf.text.lower() for leaf in leaves if has_role(leaf.argument, "action")} | {name.verb}
    is_edit = acts.isdisjoint(_MOVES | _TRANSFORMS) and any(leaf_name(leaf) in _OLD for leaf in leaves)
    return [leaf for leaf in leaves if is_path_name(leaf.argument) and not (is_edit and leaf_name(leaf) in _NEW)]


def _access_of(leaf: Leaf, access: Access, name: ToolName) -> Access:
    """Return what is done with one path: a tool that reads one file may write another."""
    is_output = not name_parts(leaf.argument).isdisjoint(ROLES["output"])
    if access is Access.READ or name.verb in _TRANSFORMS:
        return Access.WRITE if is_output or name.verb == "download" else Access.READ
    return access


def _direction(name: ToolName, seed: str, leaves: Sequence[Leaf]) -> Access | None:
    if seed in ("read", "glob", "grep") or name.kind == "looks":
        return Access.READ
    if seed == "write":
        is_view = any(leaf.argument == "command" and leaf.text in _LOOKING_COMMANDS for leaf in leaves)
        return Access.READ if is_view else Access.WRITE
    if name.verb in _TRANSFORMS:
        return Access.WRITE
    if _deletes_mail(name, leaves):
        return None
    if not _FILE_WORDS.isdisjoint(name.words):
        return Access.DELETE if name.verb in _DELETES else Access.WRITE if name.verb in _WRITES | _MOVES else None
    return Access.WRITE if _edits_by_arguments(name, leaves) else None


def _deletes_mail(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    is_mail = name.verb in _DELETES and not _MAIL_WORDS.isdisjoint(name.words)
    return is_mail and not any(leaf.text.startswith(("/", "~")) for leaf in leaves)


def _edits_by_arguments(name: ToolName, leaves: Sequence[Leaf]) -> bool:
    """Return whether a tool gets a path with a verb that writes, or with what is replaced there, by what, and no more.

    A tool that also gets a recipient or an address may send the change there.
    """
    named = [name_parts(leaf.argument) for leaf in leaves if not leaf.text.isdigit()]
    parts = frozenset().union(*named)
    if parts.isdisjoint(_EDITED) or not _SETTINGS.isdisjoint(name.words):
        return False
    is_exchange = not parts.isdisjoint(_OLD) and not parts.isdisjoint(_NEW)
    known = _EDITED | _OLD | _NEW | _NOT_CONTENT
    return name.verb in _SURELY_WRITES or (is_exchange and not any(map(known.isdisjoint, named)))


def _is_path(text: str) -> bool:
    return 0 < len(text) < 4096 and "\n" not in text and "://" not in text


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
            found = read_access(leaf.text, Access.READ, project)
            if found.kind == "reads-secret":
                kind = "sends-secret" if sends else found.kind
                yield effect(kind, found.target, argument=leaf.argument, span=(0, len(leaf.text)))


def _read_repository(leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield a push where the file is written into a hosted repository."""
    named = {leaf.argument: leaf.text for leaf in leaves if leaf.argument in ("owner", "repo", "repository")}
    if named.get("repo") or named.get("repository"):
        repository = named.get("repo") or named["repository"]
        yield effect("pushes", f"{named['owner']}/{repository}" if "owner" in named else repository, argument="repo")


def read_patches(leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
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
            access = Access.DELETE if match["act"] == "Delete" else Access.WRITE
            found = read_access(path, access, project)
            yield found._replace(argument=leaf.argument, start=match.start("path"), end=match.end("path"))
            end = matches[at + 1].start() if at + 1 < len(matches) else len(leaf.text)
            lines = leaf.text[match.end() : end].splitlines()
            added = "\n".join(line[1:] for line in lines if line.startswith("+"))
            removed = "\n".join(line[1:] for line in lines if not line.startswith("+"))
            for each in read_written_file(path, added, removed, leaf.argument, project):
                yield each._replace(start=match.start("path"), end=end)
