"""What a program does to Lockgate's service and to the agents that its hooks stand in.

It ends or enters the service's process, reaches the service or takes its port, has the system stop it, types our
commands into another terminal, or starts Lockgate or an agent away from our settings. A model server of this machine
that judges is protected like the service, except that any program may ask it: only its models may not be changed.

A program that ends processes chooses them: by number, by a pattern, by a port, or by a list that another program
printed and a filter narrowed. What counts is whether that choice can hold the service. The host says the service's
number and port; a number or pattern that is not known is any process, so `kill $SERVER_PID` is ordinary.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.agent_programs import AGENT_PROGRAMS
from lockgate.core.ruling.effects.lockgate_address import ASKS_SERVICE, find_model_change, find_own_service
from lockgate.core.ruling.effects.program_io import MARK, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.lockgate_commands import PROGRAMS, QUIET
from lockgate.core.ruling.effects.programs.options import has_option, plain_words, split_options

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Programs that run code of others, which may write any file they are given.
RUNNERS = frozenset("npx bunx pnpx uvx pipx".split())
# Variables by which a program finds its home and its settings.
HOME_VARIABLES = frozenset(("HOME", "USERPROFILE", *(agent.variable for agent in AGENT_PROGRAMS.values())))
_STEERS = re.compile("|".join((*HOME_VARIABLES, r"XDG_(?:STATE|CACHE)_HOME|LOCKGATE_\w*")))
_STEERS_SERVICE = re.compile(rf"{_STEERS.pattern}|PYTHON\w*|LD_\w*|DYLD_\w*|PATH")
_GUARDS = frozenset("init serve hook mcp".split())
_KILL_VALUED = frozenset("-u -U -g -G -P -s -t -o -y -Z --signal --euid --uid --user --group --parent".split())
_KILLERS = frozenset("kill killall pkill skill slay tskill killall5 taskkill".split())
_LISTENS = re.compile(r"port|listen|bind|addr|serv|socket|http|publish|url", re.IGNORECASE)
_ENDS = re.compile(rf"\b(?:{'|'.join(_KILLERS)})\b")
_OF_A_USER = frozenset("-u -U --euid --uid --user".split())
_PYTHONS = ("python", "python3", *(f"python3.{minor}" for minor in range(11, 16)))
_NAMES = (*_PYTHONS, "lockgate")
_MODEL_SERVERS = tuple(PROGRAMS["model servers"])
_MODEL_VERBS = frozenset("rm create cp pull".split())
# A URL, or a host with a port where nothing says that a program listens: the address of a client.
_URL = re.compile(r"\w+://\S+")
_BINDS = re.compile(r"listen|bind|publish|serve\b|runserver|(?<!\S)-[abDLpS]\b", re.IGNORECASE)
# The output of a program that lists processes, as long as no filter has taken the service out of it. It begins with a
# digit: `/proc/1-every-process/environ` is a path like that of any number.
_PROCESSES = "1-every-process"
_RANGE = re.compile(r"\{\d+\.\.\d")
_PROC = re.compile(r"/proc/?(?:[\[*?].*)?")
_CLIENTS, _TYPING, _MANAGERS, _LOOKING_VERBS, _FOR_ALL, _ENVIRONMENT_VERBS, _ATTACHERS = (
    frozenset(" ".join(PROGRAMS[section]).split())
    for section in (
        *("clients", "typing", "managers", "looking verbs", "verbs for all", "environment verbs"),
        "attachers",
    )
)
_MANAGERS |= set(PROGRAMS["manager commands"])
_KEYS = {"space": " ", "enter": "\n", "return": "\n", "c-m": "\n", "kp_enter": "\n", "minus": "-", "tab": "\t"}
_TYPED = re.compile(
    r"lockgate\b[^\n]*?[\s'\"](?:approvals?|approve|deny|grants?|revoke|trust|token|bans|init|--repin|--remove|--lift)\b"
)


def note_own_processes(walk: Walk, call: Invocation) -> None:
    """Note what a program does to the service, or to Lockgate or an agent that it starts."""
    name, words = call.name, [walk.plain(word) for word in call.arguments]
    if _ends_service(walk, call, words):
        walk.add("changes-own-guard", " ".join([name, *words])[:100])
    elif name in _ATTACHERS and any(_is_one_of(walk.project.service_pids, word) for word in words):
        # Its memory holds the tokens.
        walk.add("reads-own-token", name)
    elif name in _TYPING:
        keys = [_KEYS.get(word.lower(), word) for word in words]
        if any(_TYPED.search(typed.lower()) for typed in ("".join(keys), " ".join(keys))):
            walk.add("changes-own-guard", "lockgate")
    elif not _MANAGERS.isdisjoint((name, " ".join([name, *plain_words(words)[:1]]))):
        _note_managed(walk, name, plain_words(words))
    _note_moved(walk, call, words)
    if name not in QUIET:
        # An interpreter may get its program through its input.
        text = " ".join([*words, "\n", call.stdin.text])
        if found := find_own_service(text, walk.project.service_port):
            walk.add(ASKS_SERVICE, found)
        _note_changed_model(walk, call, text)
        _note_port(walk, call, words)
    elif name == "ss" and has_option(words, "-K", "--kill"):
        _note_port(walk, call, words)


def _is_one_of(pids: Collection[int], word: str) -> bool:
    """Return whether a word is one of these processes, its group of processes, or a list that may hold it."""
    if _PROCESSES in word or _RANGE.search(word):
        return True
    number = word.lstrip("-+").rpartition("=")[2].lstrip("0")
    return number.isdecimal() and int(number[:12]) in pids


def note_own_number(walk: Walk) -> None:
    """Note a line that has the service's number and ends processes: a shell knows more ways to hand a number on."""
    # A number of one or two digits is also a signal, seconds or a line.
    numbers = re.findall(r"(?<![\w.%/-])\d{3,10}(?!\d)", walk.line) if _ENDS.search(walk.line) else ()
    if numbers and not walk.project.own_pids().isdisjoint(map(int, numbers)):
        walk.add("changes-own-guard", "lockgate")


def _ends_service(walk: Walk, call: Invocation, words: list[str]) -> bool:
    """Return whether a program ends processes, and those that it chooses may hold the service."""
    name = call.name
    if name not in _KILLERS:
        return name == "fuser" and has_option(words, "-k", "--kill") and _selects_service(walk, call)
    own = walk.project.own_pids()
    # `kill -9 -1`: all that the user may end.
    if "-1" in words[1:] or any(_is_one_of(own, word) for word in (*words, call.stdin.target)):
        return True
    if name == "taskkill":
        return any(word.lower().removesuffix(".exe").rstrip("*") in ("", *_names(walk)) for word in words)
    if name == "killall" and not has_option(words, "-r", "--regexp"):
        options, exact = split_options(call.arguments, _KILL_VALUED)
        return _has_exact_name(walk, exact) if exact else any(option in _OF_A_USER for option, _ in options)
    return name == "killall5" or (name != "kill" and _pattern_selects(walk, call))


def _names(walk: Walk) -> tuple[str, ...]:
    return (*_NAMES, *_MODEL_SERVERS) if walk.project.judge_servers else _NAMES


def _note_changed_model(walk: Walk, call: Invocation, text: str) -> None:
    """Note a request that changes the models of a judge's server, and an Ollama that changes the judge's, or may."""
    if found := find_model_change(text, walk.project.judge_servers):
        walk.add("changes-own-guard", found)
    verb, *words = [*plain_words([walk.plain(word) for word in call.arguments]), ""]
    judges = {_last_name(judge) for names in walk.project.judge_servers.values() for judge in names}
    if judges and call.name == "ollama" and verb in _MODEL_VERBS:
        # A name that is not known may be any.
        if changed := next((word for word in words if "$" in word or _last_name(word) in judges), ""):
            walk.add("changes-own-guard", changed)


def _last_name(model: str) -> str:
    return model.lower().rpartition("/")[2].removesuffix(":latest")


def _has_exact_name(walk: Walk, words: Iterable[str]) -> bool:
    return any(word.lower().rpartition("/")[2] in _names(walk) or _fits_unit(word) for word in map(walk.plain, words))


def _pattern_selects(walk: Walk, call: Invocation) -> bool:
    """Return whether the pattern of `pkill`, `pgrep` and their like fits the service, or they have none."""
    options, words = split_options(call.arguments, _KILL_VALUED)
    names = {name for name, _ in options}
    if not words:
        return bool(names & _OF_A_USER)
    # Without `-f` only the name counts; it is also a part of the whole line, so both are compared.
    texts = (*_names(walk), *(_service_lines(walk, "process lines") if names & {"-f", "--full"} else ()))
    return bool(names & {"-v", "--inverse"}) or any(_may_fit_known(word, texts) for word in words)


def _service_lines(walk: Walk, *sections: str) -> list[str]:
    pid, ports = min(walk.project.service_pids, default=4312), walk.project.own_ports
    sections += ("model server lines",) if walk.project.judge_servers else ()
    lines = [line for section in sections for line in PROGRAMS[section]]
    return [line.format(python=python, port=port, pid=pid) for line in lines for python in _PYTHONS for port in ports]


# Lists of processes


def follow_processes(walk: Walk, call: Invocation, output: Output) -> Output:
    """Return a program's output, marked where it is a list of processes that may hold the service."""
    if call.name in _SELECTORS:
        return Output(Source.NONE, target=_PROCESSES) if _selects_service(walk, call) else output
    if any(_PROC.fullmatch(walk.plain(word)) for word in call.arguments):
        return Output(Source.NONE, target=_PROCESSES)
    if call.stdin.target != _PROCESSES:
        return output
    if call.name in ("read", "mapfile", "readarray"):
        for name in split_options(call.arguments)[1]:
            walk.variables[name] = walk.mark(call.stdin)
    pattern = _kept_lines(call)
    if pattern and not may_fit(pattern, _service_lines(walk, "process lines", "port lines")):
        return UNKNOWN_OUTPUT if output.target == _PROCESSES else output
    return call.stdin if output.source in (Source.EMPTY, Source.NONE) else output


def _kept_lines(call: Invocation) -> str:
    """Return the pattern of the lines that a filter keeps; empty where it may keep any."""
    if call.name in ("awk", "gawk", "mawk"):
        found = re.search(r"(?<![!~\w])\s*/((?:[^/\\]|\\.)+)/", " ".join(call.arguments))
        # A field begins and ends within the line.
        return found[1].strip("^$") if found else ""
    if "grep" not in call.name and call.name not in ("rg", "ag"):
        return ""
    options, words = split_options(call.arguments, frozenset("-e -A -B -C -m --regexp".split()))
    patterns = [value for name, value in options if name in ("-e", "--regexp")] or words[:1]
    if has_option(call.arguments, "-v", "--invert-match", "-f", "--file") or MARK in "".join(patterns):
        return ""
    if has_option(call.arguments, "-F", "--fixed-strings") or call.name == "fgrep":
        return "|".join(map(re.escape, patterns))
    return "|".join(_as_pattern(pattern).replace("\\|", "|") for pattern in patterns)


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
    said = walk.plain(" ".join([*words, *values.values()]))
    ports = re.findall(r"(?:^|[:\s,])(\d+)(?:-(\d+))?(?=/|,|\s|$)", said)
    if call.name == "lsof" and "-c" in values:
        return may_fit(values["-c"], _names(walk))
    if not ports:
        # A file, a folder or a port that is not known; or, without any, all that is open.
        return call.name in ("ss", "netstat") or (not words and call.name == "lsof" and "$" not in said)
    spans = [(int(first[:6]), int((last or first)[:6])) for first, last in ports]
    return any(first <= port <= last for first, last in spans for port in walk.project.own_ports)


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


def _may_fit_known(word: str, texts: Iterable[str]) -> bool:
    """Return whether a pattern may fit; one of which nothing is known may be that of any program."""
    return (MARK not in word or len("".join(word.split(MARK)[::2]).strip()) > 1) and may_fit(_as_pattern(word), texts)


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
        choices = [re.split(r"\.[*+]", choice) for choice in (pattern.split("|") if "(" not in pattern else [pattern])]
        if any(len(re.findall(r"[*+]", piece)) > 1 for pieces in choices for piece in pieces):
            return True
        compiled = [[re.compile(piece, re.IGNORECASE) for piece in pieces] for pieces in choices]
    except (re.error, RecursionError, OverflowError):
        return True
    return any(_fits_in_turn(pieces, text) for pieces in compiled for text in texts)


def _fits_in_turn(pieces: list[re.Pattern[str]], text: str) -> bool:
    at = 0
    for piece in pieces:
        match = piece.search(text, at)
        if match is None:
            return False
        at = match.start()
    return True


# The service's port and unit, and what is started elsewhere


def _note_port(walk: Walk, call: Invocation, words: list[str]) -> None:
    """Note a program that is given the service's port: any can listen on one, except those that are known to ask."""
    if call.name in _CLIENTS and not ("nc" in call.name and has_option(words, "-l", "--listen")):
        return
    variables = [f"{name}={walk.plain(value)}" for name, value in call.environment.items()]
    given = " ".join([*words, *variables, walk.plain(walk.variables.get("PORT", ""))])
    for port in map(str, walk.project.own_ports):
        if port in given and int(port) in walk.project.judge_servers:
            given = _URL.sub("", given)
            given = given if _BINDS.search(given) else re.sub(rf"[\w.\]-]+:{port}\b", "", given)
        names = re.findall(rf"(--[\w-]+[= ]|\w+ ?= ?)?(?<![\w.#-]){port}(?![\w.-])", given) if port in given else []
        # With a name before it, such as `--seed 7717`, it is a port where something says so.
        if "" in names or (names and _LISTENS.search(given)):
            walk.add("changes-own-guard", port)


def _note_managed(walk: Walk, name: str, words: list[str]) -> None:
    if _ENVIRONMENT_VERBS.intersection(words):
        # Without a name, all variables are changed.
        if len(words) == 1 or any(_STEERS_SERVICE.fullmatch(word.partition("=")[0]) for word in words):
            walk.add("changes-own-guard", name)
        return
    own = ("lockgate", *(_MODEL_SERVERS if walk.project.judge_servers else ()))
    named = [word for word in words if any(name in word.lower() for name in own) or _fits_unit(word)]
    if (named and not _LOOKING_VERBS.intersection(words)) or (_FOR_ALL.intersection(words) and len(words) < 3):
        walk.add("changes-own-guard", named[0] if named else name)


def _fits_unit(word: str) -> bool:
    """Return whether a pattern can mean the service; of a name that is not known, a part must say so."""
    pattern = re.sub(r"\$\(\)|\$\w+", "*", word)
    is_known = pattern == word or pattern.strip("*") != ""
    return (
        is_known and not word.isalnum() and any(fnmatchcase(unit, pattern) for unit in ("lockgate", "lockgate.service"))
    )


def _note_moved(walk: Walk, call: Invocation, words: list[str]) -> None:
    """Note a coding agent or a Lockgate that is started with another home: no hook and no token of ours is there."""
    name = call.name.rpartition("/")[2].removesuffix(".exe")
    if _GUARDS.intersection(words[:8]) and (name == "lockgate" or any("lockgate" in word for word in words[:3])):
        if moved := [variable for variable in walk.assigned if _STEERS.fullmatch(variable)]:
            walk.add("changes-own-guard", min(moved))
    for agent in AGENT_PROGRAMS.values():
        if not agent.is_started_by(name, words):
            continue
        moved_home = min(HOME_VARIABLES & walk.assigned, default="sudo" if walk.as_root else "")
        if found := moved_home or agent.hooks_left_out(words, walk.assigned):
            walk.add("changes-own-guard", found)
