"""Options and arguments that make a program do more than its name says: `man -P CMD`, `uniq IN OUT`.

The list is `option_uses.txt`. It is asked about every program, before what reads the program itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import Invocation
from lockgate.core.ruling.effects.programs.roles import SHELL_NAME, run_command
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_SECTIONS = read_sections("lockgate.core.ruling.effects.programs", "option_uses.txt")
_USES = ("runs", "runs-file", "runs-code", "binds", "debugs", "writes", "reads", "sends")


def _uses() -> dict[str, dict[str, dict[str, str]]]:
    """Return, by program and command word (or nothing), what is done with the value of an option."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for use in _USES:
        for line in _SECTIONS[use]:
            names, _, options = line.partition(": ")
            for entry in names.split(" "):
                name, _, verb = entry.partition(".")
                found.setdefault(name, {}).setdefault(verb, {}).update(dict.fromkeys(options.split(), use))
    return found


_BY_PROGRAM = _uses()


def _patterns(section: str, flags: int = 0) -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(pattern, flags)
        for line in _SECTIONS[section]
        for names, _, pattern in [line.partition(": ")]
        for name in names.split(" ")
    }


_SHOWS_SECRETS = _patterns("shows-secrets", re.IGNORECASE)
_CHANGES = _patterns("changes-service")


_EXPRESSIONS = _patterns("expressions")


def note_option_uses(walk: Walk, call: Invocation) -> None:
    """Note what the options of a program run, write or read besides."""
    _note_patterns(walk, call)
    if call.name in _EVALUATES:
        _note_evaluated(walk, call)
    if call.name in ("mapfile", "readarray"):
        walk.show(call.stdin)
    elif call.name in _TYPED:
        _note_typed(walk, call)
    elif call.name in _SETTINGS:
        _note_settings(walk, call)
    by_verb = _BY_PROGRAM.get(call.name)
    if by_verb is None or not call.arguments:
        return
    for verb, uses in by_verb.items():
        if not verb or verb in call.arguments[:6]:
            _note_uses(walk, call.arguments, uses)


MOST_LINE = 4_000


def _note_patterns(walk: Walk, call: Invocation) -> None:
    """Note command lines that show secrets, and those that change the machine."""
    shows, changes, expressions = (table.get(call.name) for table in (_SHOWS_SECRETS, _CHANGES, _EXPRESSIONS))
    if shows is None and changes is None and expressions is None:
        return
    line = " ".join(call.arguments[:40])
    if expressions is not None and expressions.search(line[:MOST_LINE]):
        walk.add_unreadable()
    if shows is not None and shows.match(line):
        walk.add("reads-secret", " ".join([call.name, *call.arguments[:1]]))
    if changes is not None and changes.match(line):
        walk.add("changes-service", [call.name, *(each for each in call.arguments if each[:1] != "-")][-1])


# Programs that take what a person would type: after `+` on the command line, or line by line.
_TYPED = frozenset("less more most pager view man ed ex".split())


def _note_typed(walk: Walk, call: Invocation) -> None:
    """Read commands for a pager or a line editor that start a shell or write a file: `less '+!cmd'`, `w FILE`."""
    lines = [argument.lstrip("+") for argument in call.arguments if argument[:1] == "+"]
    if call.name in ("ed", "ex"):
        lines += call.stdin.text.splitlines()
    for line in lines:
        typed = re.match(r"[\w,.$%/]{0,40}?\s*(?:([!|])|[wW]q?!?\s+(!?)(\S.*))", line)
        if typed is None:
            continue
        if typed.group(1) or typed.group(2):
            run_command(walk, line[line.find(typed.group(1) or "!") + 1 :])
        elif typed.group(3):
            walk.access(typed.group(3), Access.WRITE)


# What the shell itself evaluates once more: numbers, names with an index, lists of words.
_EVALUATES = frozenset("let unset read compgen complete test [".split())


def _note_evaluated(walk: Walk, call: Invocation) -> None:
    """Note a command inside a text that the shell evaluates: `let 'a[$(cmd)]'`, `test -v 'a[$(cmd)]'`."""
    if call.name in ("test", "[") and "-v" not in call.arguments:
        return
    if any("$(" in argument or "`" in argument for argument in call.arguments):
        walk.add_unreadable()


# Command words by which a program keeps a setting for later runs.
_SETTINGS = {
    "go": re.compile(r"env\b.*\s-w\b"),
    "poetry": re.compile(r"config\b"),
    "bundle": re.compile(r"config\b"),
}
_UNSAFE_GO = frozenset("GOINSECURE GONOSUMDB GONOSUMCHECK GOSUMDB GONOPROXY GOPRIVATE".split())


def _note_settings(walk: Walk, call: Invocation) -> None:
    if not _SETTINGS[call.name].match(" ".join(call.arguments[:12])):
        return
    if call.name == "go":
        _note_go_settings(walk, call.arguments)
    else:
        for url in [argument for argument in call.arguments if _URL.match(argument)][-1:]:
            if not walk.project.has_url(url):
                walk.add("uses-package-source", host_of(url))


def _note_go_settings(walk: Walk, arguments: list[str]) -> None:
    for name, equals, value in (argument.partition("=") for argument in arguments):
        if equals and name in _UNSAFE_GO:
            walk.add("disables-check", name)
        elif equals:
            walk.assign(name, value)
            walk.add("changes-service", name)


def _note_uses(walk: Walk, arguments: list[str], uses: dict[str, str]) -> None:
    plain: list[str] = []
    skip = False
    for index, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument[:1] != "-" or len(argument) == 1:
            plain.append(argument)
        else:
            name, equals, value = argument.partition("=")
            if name in uses and not equals:
                skip = True
                value = arguments[index + 1] if index + 1 < len(arguments) else ""
            elif name not in uses:
                name, value = argument[:2], argument[2:]
            if value and name in uses:
                _note_use(walk, uses[name], value)
    for place, use in uses.items():
        number = _number(place, len(plain))
        if 0 < number <= len(plain):
            _note_use(walk, use, plain[number - 1])


def _number(place: str, count: int) -> int:
    """Return which of the arguments a place means, or 0; a single argument is no last one."""
    if place[0] != "#":
        return 0
    return int(place[1:]) if place != "#last" else count if count > 1 else 0


def _note_use(walk: Walk, use: str, value: str) -> None:
    if use == "runs":
        run_command(walk, value)
    elif use == "runs-file":
        walk.run_path(value)
    elif use == "runs-code":
        for found in read_code(walk.plain(value), walk.argument, walk.project):
            walk.add(found.kind, found.target, found.certainty)
    elif use == "binds":
        run_command(walk, value.partition(":")[2] or value)
    elif use == "debugs":
        _note_debugging(walk, value)
    elif use == "reads":
        walk.print_file(value)
    elif use == "sends":
        if not is_local(value):
            walk.add("sends-data", walk.plain(value))
    elif value not in ("-", "/dev/null", "/dev/stdout", "/dev/stderr"):
        walk.access(value, Access.WRITE)


def is_shell(value: str) -> bool:
    """Return whether a value is no more than the name of a shell."""
    return SHELL_NAME.fullmatch(value.strip()) is not None


_DEBUGGER_RUNS = re.compile(r"\s*(?:shell|!|platform\s+shell|pipe)\s*(.*)", re.DOTALL)
_DEBUGGER_LOADS = re.compile(
    r"\s*(?:python|py|pi|source|script|command\s+(?:script|source)|guile|gu|make|call|print.*\bsystem|expr)\b"
)


def _note_debugging(walk: Walk, value: str) -> None:
    """Read a command of a debugger: some start a shell or load code."""
    runs = _DEBUGGER_RUNS.match(value)
    if runs is not None and runs.group(1):
        walk.read_text(runs.group(1))
    elif _DEBUGGER_LOADS.match(value) or runs is not None:
        walk.add_unreadable()


_URL = re.compile(r"(?:https?|ftp|git|git\+\w+|ssh)://", re.IGNORECASE)
