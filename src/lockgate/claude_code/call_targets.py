"""Where a call of Claude Code really leads: its paths as the file system sees them, its addresses as we know ours.

What a call does to which path is read from the call (`core/ruling/effects/`). A link, a folder that is called otherwise
or a second name of a file leads elsewhere than it says, so each of those paths is looked up here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from functools import cached_property

import lockgate
from lockgate.claude_code import context_files
from lockgate.claude_code.local_packages import brings_lockgate
from lockgate.core.ruling.arguments import Leaf, flatten_arguments
from lockgate.core.ruling.effects.effects_of_call import own_effects_of
from lockgate.core.ruling.effects.own_paths import AGENT_PROGRAMS
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import is_content
from lockgate.core.ruling.self_protection import findings_from_effects
from lockgate.core.ruling.tool_risk import tool_risk
from lockgate.core.vocabulary import Finding, Risk, ToolCall
from lockgate.gate.ruler import protect
from lockgate.runtime.accounts import Account
from lockgate.runtime.loopback import is_loopback
from lockgate.sessions import Host

# Questions to the file system for a whole call.
MAX_STEPS = 8192
_MAX_PATH = 4096
_PATTERN = re.compile(r"[*?\[]")
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?", re.IGNORECASE)
# Files that say which servers a host starts: ours stand there as `lockgate mcp`.
_SERVERS = (".mcp.json", ".claude.json", "claude_desktop_config.json")
_PACKAGE = os.path.dirname(os.path.realpath(lockgate.__file__))
_MAX_SERVERS_BYTES = 4 * 1024 * 1024


def find_protected_targets(
    host: Host, tool: str, arguments: Mapping[str, object], cwd: str, headers: Mapping[str, str], account: Account
) -> tuple[Finding, ...]:
    """What is found in a call once its paths and addresses are looked up; what it says itself is found elsewhere.

    `account` is the one that wants to call: a file is read only if that account may read it.
    """
    leaves = flatten_arguments(arguments)[0]
    looks = tool_risk(tool, additional=host.gate.policy.high_risk_tools) is Risk.LOW
    names = _PathLookup(cwd)
    name, _, port = headers.get("host", "").rpartition(":")
    project = protect(Project(folder=cwd, home=os.path.expanduser("~"), follow=names.follow), host.gate)
    # Behind a proxy the port is that of another machine, or of another program.
    if port.isdecimal() and is_loopback(name):
        project = replace(project, service_port=int(port))
    if account.is_own:
        project = replace(project, brings_lockgate=brings_lockgate)
    found = findings_from_effects(own_effects_of(ToolCall(tool, arguments), project, leaves=leaves))
    if names.steps < 0:
        found.append(Finding("cap:arguments", "arguments", 0, 0))
    if port.isdecimal():
        ours = re.compile(rf":{port}/(?:v1|hooks)/")
        found += [Finding("execution:own-approval", leaf.argument, 0, 0) for leaf in leaves if ours.search(leaf.text)]
    if not looks and _removes_checkpoint(leaves, cwd, account):
        found.append(Finding("execution:own-guard", "arguments", 0, 0))
    return tuple({each.rule: each for each in found}.values())


class _PathLookup:
    """The paths of one call, each looked up once; past MAX_STEPS no more is looked up, and `steps` is below zero."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._known: dict[str, str] = {}
        self.steps = MAX_STEPS

    @cached_property
    def _folders(self) -> list[tuple[str, str]]:
        # Most calls come near none of these, and following their links is the larger part of a lookup.
        return list(_protected_folders())

    def follow(self, name: str) -> str:
        """Return where a path leads, spelled as the rules know it if that is a place of ours or above one."""
        if not name or "\0" in name or len(name) > _MAX_PATH:
            return ""
        there = self._known.get(name)
        if there is None:
            # The file system is asked once for each folder on the way.
            self.steps -= 1 + name.count("/") + name.count("\\")
            there = "" if self.steps < 0 else self._look_up(name)
            self._known[name] = there
        return there

    def _look_up(self, name: str) -> str:
        path = os.path.expanduser(os.path.expandvars(_FILE_URL.sub("", name, count=1)))
        try:
            real = self._fill_pattern(os.path.realpath(os.path.join(self._cwd or "/", path)))
            if (known := _find_protected_twin(real, self._cwd)) is not None:
                return known
        except (OSError, ValueError):
            return ""
        plain = real.casefold()
        if plain.startswith(_PACKAGE.casefold() + os.sep):
            # The code that this runs from, wherever it was installed; folders above it are ordinary ones.
            return "/site-packages/lockgate" + real[len(_PACKAGE) :]
        for folder, spelled in self._folders:
            own = folder.casefold()
            if plain == own or plain.startswith(own.rstrip(os.sep) + os.sep):
                return spelled + real[len(folder) :]
            if own.startswith(plain.rstrip(os.sep) + os.sep):
                # As many folders above ours as the path is, but no further than the home.
                above = own[len(plain) :].strip(os.sep).count(os.sep) + 1
                return "/".join(spelled.split("/")[:-above]) or "~"
        return real

    def _fill_pattern(self, real: str) -> str:
        """Return a path with a pattern of the shell in it as the place of ours that it can match."""
        if _PATTERN.search(real) is None:
            return real
        parts = real.split(os.sep)
        for folder, _ in self._folders:
            own = folder.split(os.sep)
            if all(_fits_pattern(part, name) for part, name in zip(parts, own, strict=False)):
                return os.sep.join([*own[: len(parts)], *parts[len(own) :]])
        return real


def _fits_pattern(part: str, name: str) -> bool:
    return part == name or (_PATTERN.search(part) is not None and fnmatch(name, part))


def _protected_folders() -> Iterator[tuple[str, str]]:
    """Yield the folders that are ours or the host's, and how the rules know them."""
    home = os.path.expanduser("~")
    for name, usual, of_home in (
        ("XDG_STATE_HOME", "~/.local/state/lockgate", ".local/state"),
        ("XDG_CONFIG_HOME", "~/.config/lockgate", ".config"),
        ("XDG_CACHE_HOME", "~/.cache/lockgate", ".cache"),
    ):
        folder = os.environ.get(name) or os.path.join(home, of_home)
        yield os.path.realpath(os.path.join(folder, "lockgate")), usual
    for agent in AGENT_PROGRAMS.values():
        for folder in {agent.settings_folder(os.environ), agent.usual_folder}:
            yield os.path.realpath(os.path.expanduser(folder)), agent.usual_folder


def _find_protected_twin(real: str, cwd: str) -> str | None:
    """Return what this file is under its usual name: settings, or a file of our state."""
    status = os.stat(real) if os.path.exists(real) else None
    if status is None or status.st_nlink < 2 or os.path.isdir(real):
        return None
    for folder, spelled in (*_protected_folders(), (os.path.join(cwd, ".claude"), "~/.claude")):
        for below in ("", "hooks", "plugin", "plugins"):
            there = os.path.join(folder, below)
            for name in os.listdir(there) if os.path.isdir(there) else ():
                path = os.path.join(there, name)
                if os.path.exists(path) and os.path.samestat(status, os.stat(path)):
                    return "/".join(part for part in (spelled, below, name) if part)
    return None


def _removes_checkpoint(leaves: list[Leaf], cwd: str, account: Account) -> bool:
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
        return _count_checkpoints(old or [_read_text(path, account)]) > _count_checkpoints(new)
    return False


def _read_text(path: str, account: Account) -> str:
    try:
        return context_files.read_content(path, account, _MAX_SERVERS_BYTES).decode("utf-8", "replace")
    except PermissionError:
        return ""


def _count_checkpoints(texts: list[str]) -> int:
    return sum(text.count("lockgate") for text in texts)
