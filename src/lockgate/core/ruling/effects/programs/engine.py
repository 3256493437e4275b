"""One engine for all programs: what the options and operands of a command line do, by the roles of its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import KINDS, Certainty
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs import (
    program_exceptions,
    roles,
    run_roles,
    service_roles,
    whole_commands,
)
from lockgate.core.ruling.effects.programs.options import plain_words, split_letters
from lockgate.core.ruling.effects.programs.program_rows import ProgramRow
from lockgate.core.ruling.effects.programs.roles import (
    NO_TARGET,
    Use,
    last_word,
    named,
    note_kind,
    note_loose,
    note_sent,
)

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_MODULES = (roles, run_roles, whole_commands, service_roles, program_exceptions)
_FUNCTIONS = {name: value for module in _MODULES for name, value in vars(module).items()}
ROLES: dict[str, Callable[[Use, str], None]] = named(_FUNCTIONS, "role_")
REST_ROLES: dict[str, Callable[[Use, list[str]], Output]] = named(_FUNCTIONS, "rest_")
FINISHES: dict[str, Callable[[Use], Output]] = named(_FUNCTIONS, "finish_")


def apply_row(walk: Walk, call: Invocation, row: ProgramRow, used: int) -> Output:
    """Note what a command line does by its row; `used` is how many of its arguments are command words."""
    if row.operands[0] == "raw":
        # Its arguments are a language of their own.
        return FINISHES[row.effect](Use(walk, call, row, [], call.arguments, []))
    if row.loose:
        note_loose(walk, call.name, row.loose, call.arguments, row.options)
        if row.operands == ("-",) and not row.options and row.effect == "-":
            return UNKNOWN_OUTPUT
    use = Use(walk, call, row, *split_arguments(call.arguments, row, used))
    output = _read_use(use, row)
    if use.folder is not None:
        walk.folder = use.folder
    return output


def _read_use(use: Use, row: ProgramRow) -> Output:
    """Let the roles of a row read a command, and then its effect."""
    operands, rest = use.operands, use.rest
    for option, value in use.options:
        role = row.options.get(option)
        if role is not None:
            _take_option(use, role, value, option)
    if "looks" in use.modes:
        return UNKNOWN_OUTPUT
    if row.operands[0] != "-":
        count = len(operands) + bool(rest)
        for index, word in enumerate(operands):
            _take(use, row.role_at(index, count), word, "")
        if row.rest_at >= 0:
            rest_role, _, use.detail = row.operands[row.rest_at].partition(".")
            return REST_ROLES[rest_role](use, rest)
    return _finish(use, row)


def split_arguments(
    arguments: list[str], row: ProgramRow, used: int
) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Return the options with their values, the operands, and what follows them where the row takes the rest as one.

    Letters may be joined (`-xzf name`); the first `used` arguments that are no options are command words.
    """
    options: list[tuple[str, str]] = []
    operands: list[str] = []
    first = used + row.rest_at if row.rest_at >= 0 else -1
    wants, ended = "", False
    arguments = _as_options(arguments, row, used)
    for index, argument in enumerate(arguments):
        if wants:
            options.append((wants, argument))
            wants = ""
        elif ended or len(argument) < 2 or argument[0] != "-" or (len(operands) < used and argument in row.dashed):
            if len(operands) == first:
                return options, operands[used:], arguments[index:]
            setting, equals, value = argument.partition("=")
            if equals and setting + equals in row.options:
                # An option in the form of a setting: `if=FILE`.
                options.append((setting + equals, value))
            else:
                operands.append(argument)
        elif argument == "--":
            ended = True
            options += [("--", "")] if "--" in row.options else []
        else:
            wants = _split_option(argument, row, options)
    if wants:
        options.append((wants, ""))
    return options, operands[used:], []


def _as_options(arguments: list[str], row: ProgramRow, used: int) -> list[str]:
    """Return arguments without a toolchain before the command word, and with a dash before the letters of `tar xzf`."""
    if used and arguments[0][:1] == "+":
        return arguments[1:]
    if row.operands[0] == "letters" and arguments and arguments[0].isalpha():
        return ["-" + arguments[0], *arguments[1:]]
    return arguments


def _split_option(argument: str, row: ProgramRow, options: list[tuple[str, str]]) -> str:
    """Add an option, or several joined letters; return the one that takes the next argument, if any."""
    if argument in row.valued:
        return argument
    name, _, value = argument.partition("=")
    if argument in row.options:
        options.append((argument, ""))
    elif argument[1] == "-" or name in row.options:
        options.append((name, value))
    elif row.loose and argument[:2] not in row.valued:
        # Without a list of all options, what follows the first letter may be its value: `-DCMAKE_C=x`.
        options += [(f"-{letter}", "") for letter in argument[1:] if f"-{letter}" not in row.valued]
    else:
        return split_letters(argument, row.valued, options)
    return ""


def _take_option(use: Use, role: str, value: str, option: str) -> None:
    if role[0] == "?":
        # `--dry-run=none` is none.
        if value not in ("none", "false"):
            use.modes.add(role[1:])
    elif role[0] == "+":
        kind = role[1:]
        # A check that is switched off is called by the option that does it.
        last = [use.call.name, *use.operands][-1]
        shown = " ".join([use.call.name, *plain_words(use.call.arguments)[:1]])
        targets = {"disables-check": option, "changes-service": last, "reads-secret": shown}
        note_kind(use.walk, kind, targets.get(kind) or use.first())
    else:
        _take(use, role, value, option)


def _take(use: Use, role: str, value: str, option: str) -> None:
    """Let the role of an option's value or of an operand note what it means."""
    name, _, use.detail = role.partition(".")
    if name in run_roles.SIMPLE_ROLES:
        run_roles.SIMPLE_ROLES[name](use.walk, value)
    elif name in ROLES:
        use.option = option
        ROLES[name](use, value)
    elif name in KINDS:
        note_kind(use.walk, name, value)
    else:
        use.keep(name, value)


# Kinds by which what streams in leaves the machine.
_SENDS = frozenset("sends-message sends-data publishes".split())


def _finish(use: Use, row: ProgramRow) -> Output:
    """Note the effect of the whole command."""
    effect, walk = row.effect, use.walk
    if effect == "-":
        return use.output
    if effect == "reads-secret":
        use.output = Output(Source.SECRET, target=walk.plain(_targets(use, row)[-1]))
    if effect in FINISHES:
        return FINISHES[effect](use)
    if effect in _SENDS:
        note_sent(walk, use.call.stdin)
    for target in _targets(use, row):
        walk.add(effect, walk.plain(target), Certainty.GUESS if effect == "runs-program" else Certainty.SURE)
    return use.output


def _targets(use: Use, row: ProgramRow) -> list[str]:
    """Return what a command is aimed at: by default its last operand, or the program itself."""
    name, operands = use.call.name, use.operands
    if row.effect in NO_TARGET:
        return [""]
    if not operands or row.target == "name" or (not row.target and row.effect.startswith("runs-")):
        return [name]
    if not row.target:
        return [last_word(use.call.arguments, operands) or name]
    return operands if row.target == "all" else operands[:1] if row.target == "first" else operands[-1:]
