"""One engine for all programs: which row a command uses, and what its options and operands do by the row's roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lockgate.core.ruling.effects.effect import KINDS, Certainty
from lockgate.core.ruling.effects.operator_rows import kinds_of_program
from lockgate.core.ruling.effects.own_acts import follow_processes, note_own_acts
from lockgate.core.ruling.effects.programs import roles, run_roles, shared_effects, whole_commands
from lockgate.core.ruling.effects.programs.loaded_files import note_loaded_files
from lockgate.core.ruling.effects.programs.options import plain_words, split_arguments
from lockgate.core.ruling.effects.programs.program_rows import ALL_PROGRAMS, FORMS, WORDS, ProgramRow, find_row
from lockgate.core.ruling.effects.programs.roles import NO_TARGET, Use, note_kind, note_loose, note_sent
from lockgate.core.ruling.effects.programs.run_roles import note_unknown, run_file
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.shell_syntax import UNKNOWN_OUTPUT, Invocation, Output, Source

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_FUNCTIONS = {**vars(roles), **vars(run_roles), **vars(shared_effects), **vars(whole_commands)}


def _named(prefix: str) -> dict[str, Any]:
    """Return the functions whose names begin with a prefix, by the rest of the name as the table has it."""
    names = (name for name in _FUNCTIONS if name.startswith(prefix))
    return {name.removeprefix(prefix).replace("_", "-"): _FUNCTIONS[name] for name in names}


ROLES: dict[str, Callable[[Use, str], object]] = _named("role_") | run_roles.ROLES
REST_ROLES: dict[str, Callable[[Use, list[str]], Output]] = _named("rest_")
FINISHES: dict[str, Callable[[Use], Output]] = _named("finish_") | run_roles.FINISHES


def read_program(walk: Walk, call: Invocation) -> Output:
    """Note what a program does with these arguments; return what it prints, as far as that is known."""
    name, arguments, of_project = call.name, call.arguments, False
    if walk.project.effect_rows:
        for kind in kinds_of_program(walk.project.effect_rows, name, list(map(walk.plain, arguments))):
            walk.add(kind, name)
    if "/" in name:
        match = FORMS["system program"].fullmatch(name) or FORMS["project program"].fullmatch(name)
        if match is None or walk.download_of(walk.full_path(name)):
            note_own_acts(walk, call, name, is_known=False)
            run_file(walk, name, arguments)
            return UNKNOWN_OUTPUT
        of_project = match.re is FORMS["project program"] and walk.place(name) is Place.INSIDE
        name = match.group(1) or match.group(2)
    row, used = find_row(name, arguments)
    if row is None:
        name = _plain_name(name)
        row, used = find_row(name, arguments)
    if len(arguments) == 1 and _asks_about(name, arguments[0]):
        return UNKNOWN_OUTPUT
    started = call if name == call.name else call._replace(name=name)
    note_own_acts(walk, call, name, is_known=row is not None and row.effect != "unknown")
    if row is None:
        note_unknown(walk, name, of_project=of_project)
        return follow_processes(walk, started, UNKNOWN_OUTPUT)
    output = _apply_row(walk, started, row, used)
    note_loaded_files(walk, started)
    return follow_processes(walk, started, output)


def _asks_about(name: str, argument: str) -> bool:
    """Return whether a program's only argument asks for its help or version; `-v` alone can also mean to say more."""
    if argument == "-v":
        return name in ALL_PROGRAMS and ALL_PROGRAMS[name].longest > 0
    return argument in WORDS["ask about a program"] and name not in WORDS["act without a question"]


def _plain_name(name: str) -> str:
    """Return a program's name without its version and without the ending of Windows: `python3.12`, `cmd.exe`."""
    if name.endswith((".exe", ".cmd", ".bat")):
        name = name.rsplit(".", 1)[0].lower()
    versioned = FORMS["versioned"].fullmatch(name) if name[-1:].isdigit() else None
    return versioned.group(1) if versioned else name


# A function that reads one value, with what stands behind the dot of its role; nothing for a value that is skipped.
Take = tuple[Callable[[Use, str], object], str] | None


class Plan:
    """The functions of a row: of its options, of its operands in order, of the rest, and of the whole command.

    With `repeats` the first is that of all operands but the last. An idle row has none.
    """

    def __init__(self, row: ProgramRow) -> None:
        self.options = {option: take for option, role in row.options.items() if (take := _take(role))}
        words = row.operands if row.rest_at < 0 else row.operands[: row.rest_at]
        takes = [_take(word.rstrip("*")) for word in words if word not in ("raw", "letters", "-")]
        self.operands = takes if any(takes) else []
        self.repeats = row.operands[0][-1] == "*"
        rest, _, self.detail = row.operands[row.rest_at].partition(".") if row.rest_at >= 0 else ("", "", "")
        self.rest = REST_ROLES[rest] if rest else None
        self.finish = None if row.effect == "-" else FINISHES.get(row.effect, _finish_kind)
        self.is_raw, self.has_letters = row.operands[0] == "raw", row.operands[0] == "letters"
        self.is_idle = not (self.options or self.operands or rest or self.finish)


def _take(role: str) -> Take:
    name, _, detail = role.partition(".")
    if name in ROLES:
        return ROLES[name], detail
    if role[0] in "?+":
        return _set_mode if role[0] == "?" else _note_switch, role[1:]
    return None if name == "skip" else (_note_value if name in KINDS else _keep, name)


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
    use.keep(use.detail, value)


# Reading a command


def _apply_row(walk: Walk, call: Invocation, row: ProgramRow, used: int) -> Output:
    """Note what a command line does by its row; `used` is how many of its arguments are command words."""
    plan: Plan | None = row.plan
    if plan is None:
        plan = row.plan = Plan(row)
    arguments = call.arguments
    if row.loose:
        note_loose(walk, call.name, row.loose, arguments, row.options)
    if plan.is_idle:
        return UNKNOWN_OUTPUT
    if plan.is_raw:
        # Its arguments are a language of their own.
        return FINISHES[row.effect](Use(walk, call, row, [], [], []))
    if call.stdin.source is Source.DOWNLOAD and call.name in WORDS["obey their input"]:
        walk.add("runs-download", call.stdin.target)
    if used and arguments[0][:1] == "+":
        # A toolchain before the command word.
        arguments = arguments[1:]
    elif plan.has_letters and arguments and arguments[0].isalpha():
        # `tar xzf`.
        arguments = ["-" + arguments[0], *arguments[1:]]
    most = used + row.rest_at if row.rest_at >= 0 else -1
    options, words, rest = split_arguments(
        arguments, row.valued, row.options, most, row.dashed, used, is_loose=row.loose != ""
    )
    use = Use(walk, call, row, options, words[used:] if used else words, rest)
    output = _read_use(use, plan)
    if use.folder is not None:
        walk.folder = use.folder
    return output


def _read_use(use: Use, plan: Plan) -> Output:
    """Let the roles of a row read a command, and then its effect."""
    if plan.options:
        for option, value in use.options:
            if take := plan.options.get(option):
                use.option, use.detail = option, take[1]
                take[0](use, value)
        if "looks" in use.modes:
            return UNKNOWN_OUTPUT
        use.option = ""
    if plan.operands:
        last = len(use.operands) + bool(use.rest) - 1
        final = len(plan.operands) - 1
        for index, word in enumerate(use.operands):
            if take := plan.operands[index == last if plan.repeats else min(index, final)]:
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
    effect, walk, shown, operands = use.row.effect, use.walk, use.row.target, use.operands
    if effect in NO_TARGET:
        targets = [""]
    elif not operands or shown == "name" or (not shown and effect.startswith("runs-")):
        targets = [use.call.name]
    elif not shown:
        targets = [use.last_word()]
    else:
        targets = operands if shown == "all" else operands[:1] if shown == "first" else operands[-1:]
    if effect == "reads-secret":
        use.output = Output(Source.SECRET, target=walk.plain(targets[-1]))
    if effect in _SENDS:
        note_sent(walk, use.call.stdin)
    for target in targets:
        walk.add(effect, target, Certainty.GUESS if effect == "runs-program" else Certainty.SURE)
    return use.output
