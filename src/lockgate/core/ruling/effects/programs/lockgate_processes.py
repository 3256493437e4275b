"""What a program does to Lockgate's own processes: it ends or enters them, or starts them or their host otherwise.

A program that ends processes chooses them: by a pattern, by a port, or by a list that another program printed and a
filter narrowed. What counts is whether that choice can hold the service, not how the command is spelled. A number is
any process: `kill 4312` is ordinary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.agent_programs import AGENT_PROGRAMS
from lockgate.core.ruling.effects.program_io import MARK, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option, split_options

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Programs that run code of others, which may write any file they are given.
RUNNERS = frozenset("npx bunx pnpx uvx pipx".split())
# Variables by which a program finds its home and its settings.
HOME_VARIABLES = frozenset(("HOME", "USERPROFILE", *(agent.variable for agent in AGENT_PROGRAMS.values())))
STATE_VARIABLES = HOME_VARIABLES | {"XDG_STATE_HOME", "XDG_CACHE_HOME"}
_GUARDS = frozenset("serve hook mcp".split())
_KILL_VALUED = frozenset("-u -U -g -G -P -s -t -o -y -Z --signal --euid --uid --user --group --parent".split())
_OF_A_USER = frozenset("-u -U --euid --uid --user".split())
# These look into a process and read its memory, or take its resources away.
_ATTACHERS = frozenset(
    "gdb lldb gcore strace ltrace dtruss perf bpftrace py-spy pyrasite reptyr rr nsenter prlimit renice taskset chrt "
    "ionice cgexec".split()
)
_KILLERS = frozenset("killall pkill skill slay kill killall5 taskkill".split())

# The service as a list of processes shows it: what a hook or the system starts, and what a person does.
_NAMES = ("python", "python3", *(f"python3.{minor}" for minor in range(11, 16)), "lockgate")
_PACKAGE = "/home/user/.local/lib/{}/site-packages/lockgate/__main__.py serve --host 127.0.0.1 --port {}"
# The output of a program that lists processes, as long as no filter has taken the service out of it. It begins with a
# digit: `/proc/0-every-process/environ` is a path like that of any number.
_PROCESSES = "0-every-process"


def note_own_processes(walk: Walk, call: Invocation) -> None:
    """Note a program that ends or enters Lockgate's processes, or starts them or an agent away from our settings."""
    if call.name in _KILLERS:
        _note_killed(walk, call)
    elif _enters_process(walk, call):
        walk.add("reads-own-token", call.name)
    elif call.name == "fuser" and has_option(call.arguments, "-k", "--kill"):
        if _selects_service(walk, call):
            walk.add("changes-own-guard", "fuser")
    else:
        _note_moved(walk, call)


def _note_killed(walk: Walk, call: Invocation) -> None:
    """Note what ends processes by a pattern that fits ours, by a list that may hold them, or all of a user's."""
    if call.name in ("kill", "killall5"):
        listed = any(_PROCESSES in walk.plain(argument) for argument in (*call.arguments, call.stdin.target))
        # `kill -9 -1`: all that the user may end.
        if listed or "-1" in call.arguments[1:] or call.name == "killall5":
            walk.add("changes-own-guard", call.name)
        return
    if call.name == "taskkill":
        chosen = any(name.lower().removesuffix(".exe").rstrip("*") in ("", *_NAMES) for name in call.arguments)
    elif call.name == "killall" and not has_option(call.arguments, "-r", "--regexp"):
        options, words = split_options(call.arguments, _KILL_VALUED)
        chosen = _has_exact_name(walk, words) or (not words and any(name in _OF_A_USER for name, _ in options))
    else:
        chosen = _pattern_selects(walk, call)
    if chosen:
        walk.add("changes-own-guard", walk.plain(" ".join(call.arguments))[:100])


def _enters_process(walk: Walk, call: Invocation) -> bool:
    """Return whether a program is given the service's process to look into: its memory holds the tokens."""
    return call.name in _ATTACHERS and any(_PROCESSES in walk.plain(argument) for argument in call.arguments)


def _has_exact_name(walk: Walk, words: Iterable[str]) -> bool:
    return any(MARK in word or walk.plain(word).lower().rpartition("/")[2] in _NAMES for word in words)


def _pattern_selects(walk: Walk, call: Invocation) -> bool:
    """Return whether the pattern of `pkill`, `pgrep` and their like fits the service, or they have none."""
    options, words = split_options(call.arguments, _KILL_VALUED)
    names = {name for name, _ in options}
    if not words:
        return bool(names & _OF_A_USER)
    # Without `-f` only the name counts; it is also a part of the whole line, so both are compared.
    texts = [*_NAMES, *_command_lines(walk)] if names & {"-f", "--full"} else _NAMES
    return bool(names & {"-v", "--inverse"}) or any(may_fit(_as_pattern(word), texts) for word in words)


# Lists of processes


def follow_processes(walk: Walk, call: Invocation, output: Output) -> Output:
    """Return a program's output, marked where it is a list of processes that may hold the service."""
    if call.name in _SELECTORS:
        return Output(Source.NONE, target=_PROCESSES) if _selects_service(walk, call) else output
    if call.stdin.target != _PROCESSES:
        return output
    if call.name in ("read", "mapfile", "readarray"):
        for name in split_options(call.arguments)[1]:
            walk.variables[name] = walk.mark(call.stdin)
    pattern = _kept_lines(call)
    if pattern and not may_fit(pattern, [*_command_lines(walk), f"tcp 127.0.0.1:{walk.project.service_port} python3"]):
        return UNKNOWN_OUTPUT if output.target == _PROCESSES else output
    return call.stdin if output.source in (Source.EMPTY, Source.NONE) else output


def _kept_lines(call: Invocation) -> str:
    """Return the pattern of the lines that a filter keeps; empty where it may keep any."""
    if call.name in ("awk", "gawk", "mawk", "sed"):
        found = re.search(r"(?<![!~\w])/((?:[^/\\]|\\.)+)/(?!\s*d)", " ".join(call.arguments))
        return found[1] if found else ""
    if "grep" not in call.name and call.name not in ("rg", "ag"):
        return ""
    options, words = split_options(call.arguments, frozenset("-e -A -B -C -m --regexp".split()))
    names = {name for name, _ in options}
    given = [value for name, value in options if name in ("-e", "--regexp")] or words[:1]
    if names & {"-v", "--invert-match", "-f", "--file"} or not given:
        return ""
    if names & {"-F", "--fixed-strings"} or call.name == "fgrep":
        return "|".join(map(re.escape, given))
    return "|".join(_as_pattern(each).replace("\\|", "|") for each in given)


def _selects_service(walk: Walk, call: Invocation) -> bool:
    """Return whether a program that lists or finds processes may name the service."""
    if call.name in ("pgrep", "pidof"):
        return _pattern_selects(walk, call) if call.name == "pgrep" else _has_exact_name(walk, call.arguments)
    options, words = split_options(call.arguments, _SELECTORS[call.name])
    values = dict(options)
    if call.name == "ps":
        if "-C" in values:
            return _has_exact_name(walk, [values["-C"]])
        return not values.keys() & {"-p", "-q", "--pid", "--ppid"}
    if call.name in ("ss", "netstat"):
        return True
    said = walk.plain(" ".join([*words, *values.values()]))
    if "$" in said:
        return True
    ports = re.findall(r"(?:^|[:\s,])(\d+)(?:-(\d+))?(?=/|,|\s|$)", said)
    if call.name == "lsof" and "-c" in values:
        return may_fit(values["-c"], _NAMES)
    if not ports:
        # A file or a folder; or, without any, all that is open.
        return not words and call.name == "lsof"
    own = walk.project.service_port
    return any(int(first[:6]) <= own <= int((last or first)[:6]) for first, last in ports)


# With the options that take a value.
_SELECTORS: dict[str, frozenset[str]] = {
    "pgrep": _KILL_VALUED,
    "pidof": frozenset(("-o",)),
    "ps": frozenset("-C -p -q -o -u -U -t --pid --ppid --sort --format".split()),
    "lsof": frozenset("-i -c -p -u -g -d -s".split()),
    "fuser": frozenset(("-n", "--namespace")),
    "ss": frozenset(),
    "netstat": frozenset(),
}


# Patterns


def _command_lines(walk: Walk) -> list[str]:
    lines = [f"{python} -P -m lockgate serve" for python in _NAMES[:-1]]
    for python in _NAMES[:-1]:
        lines.append(f"{python} -I {_PACKAGE.format(python, walk.project.service_port)}")
        lines.append(f"/home/user/.venv/bin/{python} /home/user/.venv/bin/lockgate serve")
    return lines


def _as_pattern(word: str) -> str:
    """Return a word as a pattern in which what is not known fits anything."""
    parts = word.split(MARK)
    parts[1::2] = [".*"] * len(parts[1::2])
    return re.sub(r"\\[<>]", r"\\b", "".join(parts)) if "\\" in word else "".join(parts)


# What Python reads in another way, or may need more than linear time for.
_ODD = re.compile(r"\(\?|\[[\[:.=^]*\[|\)\s*[*+{?]|[*+?}]{2}|\\[1-9A-Za-z]|\{")
_MOST_PATTERN = 300


def may_fit(pattern: str, texts: Iterable[str]) -> bool:
    """Return whether an extended regular expression may fit one of these texts; True where that cannot be told."""
    if _ODD.search(pattern.replace("\\b", "")) or len(pattern) > _MOST_PATTERN:
        return True
    try:
        # Pieces between `.*` are looked for one after the other, each from where the one before began: more may fit
        # than does, and no pattern costs more than a few passes.
        choices = [re.split(r"\.[*+]", each) for each in (pattern.split("|") if "(" not in pattern else [pattern])]
        if any(len(re.findall(r"[*+]", piece)) > 1 for pieces in choices for piece in pieces):
            return True
        compiled = [[re.compile(piece, re.IGNORECASE) for piece in pieces] for pieces in choices]
    except (re.error, RecursionError, OverflowError):
        return True
    return any(_fits_in_turn(pieces, text) for pieces in compiled for text in texts)


def _fits_in_turn(pieces: list[re.Pattern[str]], text: str) -> bool:
    at = 0
    for piece in pieces:
        found = piece.search(text, at)
        if found is None:
            return False
        at = found.start()
    return True


# Started elsewhere


def _note_moved(walk: Walk, call: Invocation) -> None:
    """Note a coding agent or a Lockgate that is started with another home: no hook and no token of ours is there."""
    name = call.name.rpartition("/")[2].removesuffix(".exe")
    first = call.arguments[:8]
    if name == "lockgate" or any("lockgate" in argument for argument in first[:3]):
        _note_moved_guard(walk, call)
    words = [walk.plain(word) for word in call.arguments]
    for agent in AGENT_PROGRAMS.values():
        if not agent.is_started_by(name, words):
            continue
        moved = min(HOME_VARIABLES & walk.assigned, default="sudo" if walk.as_root else "")
        if found := moved or agent.hooks_left_out(words, walk.assigned):
            walk.add("changes-own-guard", found)


def _note_moved_guard(walk: Walk, call: Invocation) -> None:
    first = call.arguments[:8]
    moved = {each for each in walk.assigned if each in STATE_VARIABLES or each.startswith("LOCKGATE_")}
    if "serve" in first and has_option(call.arguments, "--config"):
        moved.add("--config")
    if moved and _GUARDS.intersection(first):
        walk.add("changes-own-guard", min(moved))
