"""What a program does to Lockgate's service without ending its process.

It reaches the service, types our commands into another terminal, takes the port, or has the system stop the service.
Any program can listen on a port. So each one that is given the service's port counts, except those that are known to
ask, to look, or to start another program, which is read by itself.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.lockgate_address import ASKS_SERVICE, find_own_service
from lockgate.core.ruling.effects.program_io import Invocation
from lockgate.core.ruling.effects.programs.lockgate_processes import STATE_VARIABLES
from lockgate.core.ruling.effects.programs.options import has_option, plain_words

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# by topic
_NEVER_LISTENS = frozenset(
    # Clients, and what looks at ports and processes.
    "curl wget http https xh telnet ping nmap lsof fuser netstat ps pgrep pkill kill open xdg-open "
    # Text and files: the number is a line, a count or a word.
    "echo printf cat head tail grep egrep fgrep rg ag sed awk gawk cut sort uniq wc tr jq yq diff comm seq sleep date "
    "expr test [ [[ let read true false ls cd cp mv rm mkdir touch find fd tee git gh glab jira dd split truncate "
    # What starts another program, and the shells.
    "sh bash zsh dash ksh eval source . env sudo doas nohup setsid timeout nice ionice stdbuf time xargs watch exec "
    "command builtin export declare local set alias lockgate claude".split()
)
_MANAGERS = frozenset("systemctl service launchctl sc sc.exe schtasks net rc-service sv supervisorctl loginctl".split())
_LOOKING_VERBS = frozenset(
    "status show cat is-active is-enabled is-failed list-units list-unit-files list-timers list-dependencies list "
    "print query qc help start restart session-status list-sessions user-status /query".split()
)
# These end or change every service of the user at once.
_FOR_ALL = frozenset("exit isolate halt poweroff reboot kexec bootout terminate-user kill-user".split())
_ENVIRONMENT_VERBS = frozenset("set-environment unset-environment import-environment setenv unsetenv".split())
_STEERS = re.compile(r"LOCKGATE_\w*|PYTHON\w*|LD_\w*|DYLD_\w*|PATH")

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
    """Note a program that reaches the service, types our commands elsewhere, takes its port or has it stopped."""
    _note_typed(walk, call)
    _note_reached(walk, call)
    if call.name in _MANAGERS:
        _note_managed(walk, call)
    elif call.name == "ss":
        _note_port(walk, call, listens=has_option(call.arguments, "-K", "--kill"))
    elif call.name in ("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"):
        _note_port(walk, call, listens=has_option(call.arguments, "-l", "--listen"))
    else:
        _note_port(walk, call, listens=call.name not in _NEVER_LISTENS)


def _note_typed(walk: Walk, call: Invocation) -> None:
    if call.name in _TYPING:
        keys = [_KEYS.get(argument.lower(), argument) for argument in map(walk.plain, call.arguments)]
        if any(_TYPED.search(typed.lower()) for typed in ("".join(keys), " ".join(keys))):
            walk.add("changes-own-guard", "lockgate")


def _note_reached(walk: Walk, call: Invocation) -> None:
    if call.name not in _SAYS:
        # An interpreter may get its program through its input.
        said = " ".join([*map(walk.plain, call.arguments), "\n", call.stdin.text])
        found = find_own_service(said, walk.project.service_port)
        if found:
            walk.add(ASKS_SERVICE, found)


def _note_port(walk: Walk, call: Invocation, *, listens: bool) -> None:
    if not listens:
        return
    port = str(walk.project.service_port)
    given = [*call.arguments, *call.environment.values(), walk.variables.get("PORT", "")]
    if any(port in each and re.search(rf"(?<![\w.#-]){port}(?![\w.-])", walk.plain(each)) for each in given):
        walk.add("changes-own-guard", port)


def _note_managed(walk: Walk, call: Invocation) -> None:
    words = [walk.plain(word) for word in plain_words(call.arguments)]
    if _ENVIRONMENT_VERBS.intersection(words):
        if _steers_service(words):
            walk.add("changes-own-guard", call.name)
        return
    named = [word for word in words if "lockgate" in word.lower() or _fits_unit(word)]
    if (named and not _LOOKING_VERBS.intersection(words)) or (_FOR_ALL.intersection(words) and len(words) < 3):
        walk.add("changes-own-guard", named[0] if named else call.name)


def _steers_service(words: list[str]) -> bool:
    """Return whether this changes a variable that steers the service; without a name, all variables are changed."""
    names = {word.partition("=")[0] for word in words}
    return len(words) == 1 or any(name in STATE_VARIABLES or _STEERS.fullmatch(name) for name in names)


def _fits_unit(word: str) -> bool:
    """Return whether a pattern, or a name that is not known, can mean the service."""
    return "$" in word or (
        not word.isalnum() and any(fnmatchcase(each, word) for each in ("lockgate", "lockgate.service"))
    )
