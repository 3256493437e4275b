"""One engine for all programs: which row a command uses, and what its options and operands do by the row's roles."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from lockgate.core.ruling.effects.effect import KINDS, Certainty
from lockgate.core.ruling.effects.operator_rows import kinds_of_program
from lockgate.core.ruling.effects.own_acts import follow_processes, note_own_acts
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs import packages, roles, run_roles, services, whole_commands
from lockgate.core.ruling.effects.programs.loaded_files import note_loaded_files
from lockgate.core.ruling.effects.programs.options import plain_words, split_arguments
from lockgate.core.ruling.effects.programs.program_rows import WORDS, ProgramRow, acts_by_words, find_row
from lockgate.core.ruling.effects.programs.roles import NO_TARGET, Use, last_word, note_kind, note_loose, note_sent
from lockgate.core.ruling.effects.programs.run_roles import note_unknown, run_file
from lockgate.core.ruling.effects.project import Place

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_MODULES = (roles, packages, run_roles, whole_commands, services)
_FUNCTIONS = {name: value for module in _MODULES for name, value in vars(module).items()}


def _named(prefix: str) -> dict[str, Any]:
    """Return the functions whose names begin with a prefix, by the rest of the name as the table has it."""
    names = (name for name in _FUNCTIONS if name.startswith(prefix))
    return {name.removeprefix(prefix).replace("_", "-"): _FUNCTIONS[name] for name in names}


ROLES: dict[str, Callable[[Use, str], object]] = _named("role_")
REST_ROLES: dict[str, Callable[[Use, list[str]], Output]] = _named("rest_")
FINISHES: dict[str, Callable[[Use], Output]] = _named("finish_")

_SYSTEM_BIN = re.compile(r"/(?:usr/)?(?:local/)?s?bin/([^/]+)|/opt/(?:homebrew|local)/s?bin/([^/]+)")
_PROJECT_BIN = re.compile(
    r"(?:.*/)?(?:\.?v?env[^/]*|[^/]*venv[^/]*|\.tox/[^/]+|\.nox/[^/]+|\.?(?:v|virtual)?envs?/[^/]+|conda[^/]*)/(?:bin|Scripts)/([^/]+)"
    r"|(?:.*/)?(?:node_modules/\.bin|vendor/bin|\.cargo/bin)/([^/]+)"
)
_VERSIONED = re.compile(r"(python|pip|node|ruby|php|perl|lua|pypy|clang|gcc|java)-?\d[\d.]*t?")


def read_program(walk: Walk, call: Invocation) -> Output:
    """Note what a program does with these arguments; return what it prints, as far as that is known."""
    name, arguments, of_project = call.name, call.arguments, False
    if walk.project.effect_rows:
        for kind in kinds_of_program(walk.project.effect_rows, name, list(map(walk.plain, arguments))):
            walk.add(kind, name)
    if "/" in name:
        match = _SYSTEM_BIN.fullmatch(name) or _PROJECT_BIN.fullmatch(name)
        if match is None or walk.download_of(walk.full_path(name)):
            note_own_acts(walk, call, name, is_known=False)
            run_file(walk, name, arguments)
            return UNKNOWN_OUTPUT
        of_project = match.re is _PROJECT_BIN and walk.place(name) is Place.INSIDE
        name = match.group(1) or match.group(2)
    row, used = find_row(name, arguments)
    if row is None:
        name = _plain_name(name)
        row, used = find_row(name, arguments)
    if len(arguments) == 1 and _asks_about(name, arguments[0]):
        return UNKNOWN_OUTPUT
    started = call if name == call.name else call._replace(name=name)
    note_own_acts(walk, call, name, is_known=row is not None and row.effect != "unknown")
    return follow_processes(walk, started, _read_known(walk, started, row, used, of_project=of_project))


def _read_known(walk: Walk, call: Invocation, row: ProgramRow | None, used: int, *, of_project: bool) -> Output:
    if row is None:
        note_unknown(walk, call.name, of_project=of_project)
        return UNKNOWN_OUTPUT
    output = _apply_row(walk, call, row, used)
    note_loaded_files(walk, call)
    return output


def _asks_about(name: str, argument: str) -> bool:
    """Return whether a program's only argument asks for its help or version; `-v` alone can also mean to say more."""
    asks = argument in WORDS["ask about a program"] and name not in WORDS["act without a question"]
    return asks or (argument == "-v" and acts_by_words(name))


def _plain_name(name: str) -> str:
    """Return a program's name without its version and without the ending of Windows: `python3.12`, `cmd.exe`."""
    if name.endswith((".exe", ".cmd", ".bat")):
        name = name.rsplit(".", 1)[0].lower()
    versioned = _VERSIONED.fullmatch(name) if name[-1:].isdigit() else None
    return versioned.group(1) if versioned else name


# A function that reads one value, with what stands behind the dot of its role.
Take = tuple[Callable[[Use, str], object], str]


class Plan(NamedTuple):
    """The functions of a row: of its options, of its operands in order, of the rest, and of the whole command.

    With `repeats` the first is that of all operands but the last. A row without any of them does nothing.
    """

    options: dict[str, Take]
    operands: list[Take]
    repeats: bool
    rest: Callable[[Use, list[str]], Output] | None
    detail: str
    finish: Callable[[Use], Output] | None
    is_idle: bool


# Words in the column of operands that are no role.
_NO_ROLES = ("raw", "-", "letters")


def _plan(row: ProgramRow) -> Plan:
    """Look the functions of a row up, once for all commands that use it."""
    takes = {option: take for option, role in row.options.items() if (take := _take(role)) is not _SKIP}
    names = row.operands if row.rest_at < 0 else row.operands[: row.rest_at]
    operands = [_take(name.rstrip("*")) for name in names if name not in _NO_ROLES]
    if all(take is _SKIP for take in operands):
        operands = []
    rest, _, detail = row.operands[row.rest_at].partition(".") if row.rest_at >= 0 else ("", "", "")
    finish = None if row.effect == "-" else FINISHES.get(row.effect, _finish_kind)
    is_idle = not (finish or takes or operands or rest)
    return Plan(takes, operands, row.operands[0][-1] == "*", REST_ROLES.get(rest), detail, finish, is_idle)


def _take(role: str) -> Take:
    if role[0] == "?":
        return _set_mode, role[1:]
    if role[0] == "+":
        return _note_switch, role[1:]
    name, _, detail = role.partition(".")
    if name == "skip":
        return _SKIP
    if name in ROLES:
        return ROLES[name], detail
    if name in run_roles.SIMPLE_ROLES:
        simple = run_roles.SIMPLE_ROLES[name]
        return lambda use, value: simple(use.walk, value), detail
    return (_note_value, name) if name in KINDS else (_keep, name)


_SKIP: Take = (lambda use, value: None, "")  # noqa: ARG005 - all roles have one signature


def _set_mode(use: Use, value: str) -> None:
    # `--dry-run=none` is none.
    if value not in ("none", "false"):
        use.modes.add(use.detail)


def _note_switch(use: Use, _value: str) -> None:
    """Note the kind of an option that has no value; a check that is switched off is called by its option."""
    shown = " ".join([use.call.name, *plain_words(use.call.arguments)[:1]])
    targets = {"disables-check": use.option, "reads-secret": shown}
    note_kind(use.walk, use.detail, targets.get(use.detail) or use.first())


def _note_value(use: Use, value: str) -> None:
    note_kind(use.walk, use.detail, value)


def _keep(use: Use, value: str) -> None:
    use.values.setdefault(use.detail, []).append(value)


# Reading a command


def _apply_row(walk: Walk, call: Invocation, row: ProgramRow, used: int) -> Output:
    """Note what a command line does by its row; `used` is how many of its arguments are command words."""
    plan: Plan = row.plan or _plan(row)
    row.plan = plan
    if row.loose:
        note_loose(walk, call.name, row.loose, call.arguments, row.options)
    if plan.is_idle:
        return UNKNOWN_OUTPUT
    if row.operands[0] == "raw":
        # Its arguments are a language of their own.
        return FINISHES[row.effect](Use(walk, call, row, [], [], []))
    if call.stdin.source is Source.DOWNLOAD and call.name in WORDS["obey their input"]:
        walk.add("runs-download", call.stdin.target)
    arguments = call.arguments
    if used and arguments[0][:1] == "+":
        # A toolchain before the command word.
        arguments = arguments[1:]
    elif row.operands[0] == "letters" and arguments and arguments[0].isalpha():
        # `tar xzf`.
        arguments = ["-" + arguments[0], *arguments[1:]]
    most = used + row.rest_at if row.rest_at >= 0 else -1
    options, words, rest = split_arguments(
        arguments, row.valued, row.options, most=most, dashed=(row.dashed, used), is_loose=row.loose != ""
    )
    use = Use(walk, call, row, options, words[used:] if used else words, rest)
    output = _read_use(use, plan)
    if use.folder is not None:
        walk.folder = use.folder
    return output


def _read_use(use: Use, plan: Plan) -> Output:
    """Let the roles of a row read a command, and then its effect."""
    for option, value in use.options:
        take = plan.options.get(option)
        if take is not None:
            use.option = option
            use.detail = take[1]
            take[0](use, value)
    if "looks" in use.modes:
        return UNKNOWN_OUTPUT
    use.option = ""
    if plan.operands:
        last = len(use.operands) + bool(use.rest) - 1
        for index, word in enumerate(use.operands):
            take = plan.operands[int(index == last) if plan.repeats else min(index, len(plan.operands) - 1)]
            use.detail = take[1]
            take[0](use, word)
    if plan.rest is not None:
        use.detail = plan.detail
        return plan.rest(use, use.rest)
    return plan.finish(use) if plan.finish is not None else use.output


# Kinds by which what streams in leaves the machine.
_SENDS = frozenset("sends-message sends-data publishes".split())


def _finish_kind(use: Use) -> Output:
    """Note the kind of effect that the whole command has, for each of its targets."""
    effect, walk, row, operands = use.row.effect, use.walk, use.row, use.operands
    if effect in NO_TARGET:
        targets = [""]
    elif not operands or row.target == "name" or (not row.target and effect.startswith("runs-")):
        targets = [use.call.name]
    elif not row.target:
        targets = [last_word(use.call.arguments, operands) or use.call.name]
    else:
        targets = operands if row.target == "all" else operands[:1] if row.target == "first" else operands[-1:]
    if effect == "reads-secret":
        use.output = Output(Source.SECRET, target=walk.plain(targets[-1]))
    if effect in _SENDS:
        note_sent(walk, use.call.stdin)
    for target in targets:
        walk.add(effect, target, Certainty.GUESS if effect == "runs-program" else Certainty.SURE)
    return use.output
