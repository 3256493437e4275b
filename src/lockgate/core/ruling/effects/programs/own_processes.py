"""What a program does to Lockgate's own processes: it ends them, or starts them or their host with other settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.options import split_options

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.program_io import Invocation
    from lockgate.core.ruling.effects.shell_walk import Walk

# Programs that run code of others, which may write any file they are given.
RUNNERS = frozenset("npx bunx pnpx uvx pipx".split())
# Variables by which a program finds its home and its settings.
HOME_VARIABLES = frozenset("HOME USERPROFILE CLAUDE_CONFIG_DIR XDG_CONFIG_HOME".split())
_STATE_VARIABLES = HOME_VARIABLES | {"XDG_STATE_HOME", "XDG_CACHE_HOME"}
_GUARDS = frozenset("serve hook mcp".split())
_KILL_VALUED = frozenset("-u -U -g -G -P -s -t -o -y -Z --signal --euid --uid --user --group --parent".split())
_OF_A_USER = frozenset("-u -U --euid --uid --user".split())
_SIGNS = re.compile(r"[^a-z0-9 _/-]")
_INTERPRETER = re.compile(r"(?:/\S*/)?python\d*")
_COMMAND = "lockgate serve"
_SHORTEST = 3


def note_own_processes(walk: Walk, call: Invocation) -> None:
    """Note a program that ends Lockgate's processes, or starts them or Claude Code where our settings are not found."""
    if call.name in ("killall", "pkill", "skill", "slay", "kill", "killall5"):
        _note_killed(walk, call)
    else:
        _note_moved(walk, call)


def _note_killed(walk: Walk, call: Invocation) -> None:
    """Note what ends processes by a name that ours can have, or all of a user's. One by its number is any process."""
    if call.name in ("kill", "killall5"):
        # `kill -9 -1`: all that the user may end.
        if "-1" in call.arguments[1:] or call.name == "killall5":
            walk.add("changes-own-guard", call.name)
        return
    options, words = split_options(call.arguments, _KILL_VALUED)
    if not words and any(option in _OF_A_USER for option, _ in options):
        walk.add("changes-own-guard", call.name)
    for word in words:
        # The interpreter is the name of a process of ours, and a pattern of signs alone fits every name.
        name = _SIGNS.sub("", walk.plain(word).lower()).strip()
        part = call.name != "killall" and len(name) >= _SHORTEST and name in _COMMAND
        if not name or part or _INTERPRETER.fullmatch(name):
            walk.add("changes-own-guard", walk.plain(word))


def _note_moved(walk: Walk, call: Invocation) -> None:
    """Note a Claude Code or a Lockgate that is started with another home: no hook and no token of ours is there."""
    name = call.name.rpartition("/")[2].removesuffix(".exe")
    if name == "lockgate" or "lockgate" in call.arguments[:3]:
        variables = {each for each in walk.assigned if each in _STATE_VARIABLES or each.startswith("LOCKGATE_")}
        if variables and _GUARDS.intersection(call.arguments[:8]):
            walk.add("changes-own-guard", min(variables))
    if name != "claude" and not any("claude-code" in argument for argument in call.arguments[:8]):
        return
    if name not in ("claude", "node", "bun", *RUNNERS):
        return
    moved = HOME_VARIABLES & walk.assigned
    if moved or walk.as_root:
        walk.add("changes-own-guard", min(moved) if moved else "sudo")
