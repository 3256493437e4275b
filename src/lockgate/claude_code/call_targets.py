"""Where a call of Claude Code really leads: its paths as the file system sees them, its addresses as we know ours.

The self-protection rules read what a call says. A link, a folder that is called otherwise, a
name relative to where the agent stands say something else than they do, so they are looked up and read once more.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence

from lockgate.claude_code import context_files
from lockgate.core.ruling.arguments import Leaf, flatten_arguments
from lockgate.core.ruling.self_protection import find_tampering, is_content
from lockgate.core.ruling.tool_risk import tool_risk
from lockgate.core.vocabulary import Finding, Risk
from lockgate.sessions import Host

# Names of one value that are looked up, and questions to the file system for a whole call.
_MAX_NAMES = 128
MAX_STEPS = 8192
_MAX_PATH = 4096
_WORD = re.compile(r"[^\s\"'`;|&<>()=,]{1,4096}")
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?", re.IGNORECASE)
_SETTINGS = ("settings.json", "settings.local.json")
# Files that say which servers a host starts: ours stand there as `lockgate mcp`.
_SERVERS = (".mcp.json", ".claude.json", "claude_desktop_config.json")


def find_protected_targets(
    host: Host, tool: str, arguments: Mapping[str, object], cwd: str, headers: Mapping[str, str]
) -> tuple[Finding, ...]:
    """What is found in a call once its paths and addresses are looked up; what it says itself is found elsewhere."""
    leaves = flatten_arguments(arguments)[0]
    looks = tool_risk(tool, additional=host.gate.policy.high_risk_tools) is Risk.LOW
    names = _PathLookup(cwd)
    real = [
        Leaf(leaf.argument, text) for leaf in leaves if not is_content(leaf) and (text := names.resolve_path(leaf.text))
    ]
    found = find_tampering(real, host.gate.scanner, looks=looks) if real else []
    if names.steps < 0:
        found.append(Finding("cap:arguments", "arguments", 0, 0))
    port = headers.get("host", "").rpartition(":")[2]
    if port.isdecimal():
        ours = re.compile(rf":{port}/(?:v1|hooks)/")
        found += [Finding("execution:own-approval", leaf.argument, 0, 0) for leaf in leaves if ours.search(leaf.text)]
    if not looks and _removes_checkpoint(leaves, cwd):
        found.append(Finding("execution:own-guard", "arguments", 0, 0))
    return tuple({each.rule: each for each in found}.values())


class _PathLookup:
    """The names in one call, each looked up once; past MAX_STEPS no more is looked up, and `steps` is below zero."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._known: dict[str, str] = {}
        self._folders = list(_protected_folders())
        self.steps = MAX_STEPS

    def resolve_path(self, text: str) -> str:
        """A text with its paths as they are, if any of them leads where it does not say; else nothing."""
        if len(text) <= _MAX_PATH and "\n" not in text and (there := self._follow_link(text.strip())):
            return there
        changed, last, parts = False, 0, []
        for number, word in enumerate(_WORD.finditer(text)):
            if number >= _MAX_NAMES or self.steps < 0:
                break
            if there := self._follow_link(word[0]):
                parts += [text[last : word.start()], there]
                last, changed = word.end(), True
        return "".join([*parts, text[last:]]) if changed else ""

    def _follow_link(self, name: str) -> str:
        if not name or "\0" in name or len(name) > _MAX_PATH:
            return ""
        there = self._known.get(name)
        if there is None:
            # The file system is asked once for each folder on the way.
            self.steps -= 1 + name.count("/") + name.count("\\")
            there = "" if self.steps < 0 else _follow_link(name, self._cwd, self._folders)
            self._known[name] = there
        return there


def _follow_link(name: str, cwd: str, folders: Sequence[tuple[str, str]]) -> str:
    """Where a name leads, if that is a folder of ours or of the host; spelled as the rules know it."""
    path = os.path.expanduser(os.path.expandvars(_FILE_URL.sub("", name, count=1)))
    full = os.path.join(cwd or "/", path)
    try:
        if "/" not in path and "\\" not in path and ".claude" not in cwd.lower() and not _has_two_names(full):
            return ""
        real = os.path.realpath(full)
        if (known := _find_protected_twin(real, cwd)) is not None:
            return known
    except (OSError, ValueError):
        return ""
    for folder, spelled in folders:
        if real.casefold() == folder.casefold() or real.casefold().startswith(folder.casefold() + os.sep):
            return re.sub(r"\s", "_", spelled + real[len(folder) :])
    return re.sub(r"\s", "_", real) if f"{os.sep}.claude{os.sep}" in real.casefold() else ""


def _has_two_names(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1)


def _protected_folders() -> Iterator[tuple[str, str]]:
    for folder in context_files.config_folders():
        yield folder, "~/.claude"
    home = os.path.expanduser("~")
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    yield os.path.realpath(os.path.join(state, "lockgate")), "~/.local/state/lockgate"
    yield os.path.realpath(os.path.join(config, "lockgate")), "~/.config/lockgate"


def _find_protected_twin(real: str, cwd: str) -> str | None:
    """The settings that this file is, under another name."""
    status = os.stat(real) if os.path.exists(real) else None
    if status is None or status.st_nlink < 2:
        return None
    for folder in (*context_files.config_folders(), os.path.join(cwd, ".claude")):
        for name in _SETTINGS:
            path = os.path.join(folder, name)
            if os.path.exists(path) and os.path.samestat(status, os.stat(path)):
                return f"~/.claude/{name}"
    return None


def _removes_checkpoint(leaves: list[Leaf], cwd: str) -> bool:
    """Whether a call takes our checkpoint out of a list of servers: it is in the file, and not in what is to be."""
    held = [leaf for leaf in leaves if is_content(leaf)]
    if not held:
        return False
    for leaf in leaves:
        path = os.path.join(cwd or "/", os.path.expanduser(leaf.text)) if len(leaf.text) < _MAX_PATH else ""
        if is_content(leaf) or os.path.basename(os.path.realpath(path) if "\0" not in path else "") not in _SERVERS:
            continue
        old = [leaf.text for leaf in held if "old" in leaf.argument.lower()]
        new = [leaf.text for leaf in held if "old" not in leaf.argument.lower()]
        try:
            with open(path, "rb") as file:
                before = old or [file.read(1 << 22).decode("utf-8", "replace")]
        except OSError:
            before = old
        return _count_checkpoints(before) > _count_checkpoints(new)
    return False


def _count_checkpoints(texts: list[str]) -> int:
    return sum(text.count("lockgate") for text in texts)
