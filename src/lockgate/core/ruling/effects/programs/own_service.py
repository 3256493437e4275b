"""Programs that reach Lockgate's service, or type its commands into another terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.own_service import ASKS_SERVICE, find_own_service

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.program_io import Invocation
    from lockgate.core.ruling.effects.shell_walk import Walk

# by topic: what prints, searches or looks, and what starts another program that is read by itself.
_SAYS = frozenset(
    """
    echo printf print cat head tail less more grep egrep fgrep rgrep zgrep rg ag ack sed gsed awk gawk mawk nawk tr cut
    sort uniq wc jq yq diff test [ [[ export declare typeset local readonly set alias trap which git gh read
    ss netstat lsof lockgate find fd ls cp mv rm touch mkdir chmod tee code vim vi nano
    sh bash zsh dash ksh ash fish eval source . env command sudo doas su xargs gxargs parallel timeout gtimeout nohup
    nice ionice stdbuf setsid unbuffer time exec builtin watch script flock busybox toybox
    """.split()
)
_TYPING = frozenset(
    "tmux screen byobu zellij dtach kitty kitten wezterm xdotool ydotool dotool wtype osascript".split()
)
_KEYS = {"space": " ", "enter": "\n", "return": "\n", "c-m": "\n", "kp_enter": "\n", "minus": "-", "tab": "\t"}
_TYPED = re.compile(
    r"lockgate\b[^\n]*?[\s'\"](?:approvals?|approve|deny|grants?|revoke|trust|token|bans|init|--repin|--remove|--lift)\b"
)


def note_own_service(walk: Walk, call: Invocation) -> None:
    """Note an address of the service among a program's arguments, and a command of ours that it types elsewhere."""
    if call.name in _TYPING:
        keys = [_KEYS.get(argument.lower(), argument) for argument in map(walk.plain, call.arguments)]
        if any(_TYPED.search(typed.lower()) for typed in ("".join(keys), " ".join(keys))):
            walk.add("changes-own-guard", "lockgate")
    if call.name not in _SAYS:
        # An interpreter may get its program through its input.
        said = " ".join([*map(walk.plain, call.arguments), "\n", call.stdin.text])
        found = find_own_service(said, walk.project.service_port)
        if found:
            walk.add(ASKS_SERVICE, found)
