"""The table of programs, `programs.tbl`: its rows, and the one that a command line uses.

A row says by roles what a program's operands and options are, and what the program does with them. `programs.tbl`
explains the columns; the roles are functions, and `engine.py` looks them up once for each row that is used.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lockgate.core.tables import read_patterns, read_table

PACKAGE, TABLE = "lockgate.core.ruling.effects.programs", "programs.tbl"
PROGRAMS, NAMES, OPTIONS = "programs", "names", "options"
PROGRAM_COLUMNS = ("names", "command words", "operands", "options by role", "effect")
NAME_COLUMNS = ("effect", "operands", "programs")
OPTION_COLUMNS = ("programs", "options by role")
FORMS = read_patterns(PACKAGE, "patterns.tbl")
# Roles of programs that only look, or that run what the project has: without a list of all their options.
LOOSE = frozenset("look task text site label".split())
WORDS = {name: frozenset(words.split()) for name, words in read_table(PACKAGE, TABLE, "words", ("list", "words"))}
# Roles that take all that follows: a program that is started, a script with its arguments.
TAKES_REST = frozenset(
    "program tool-program project-program package-program container-program docker-program elsewhere words"
    " root environment script repeated".split()
)


@dataclass(slots=True)
class ProgramRow:
    """What a program does: roles of its operands and options, and the effect of the whole.

    Operands from number `rest_at` on are one: a command, say. `loose` is how the row reads what it does not list.
    """

    loose: str
    operands: tuple[str, ...]
    options: dict[str, str]
    effect: str
    target: str
    rest_at: int
    # Command words that look like options: `pacman -S`.
    dashed: frozenset[str]
    # The options that take the next argument.
    valued: frozenset[str] = field(init=False)
    # Its functions, which `engine.py` looks up when the row is first used.
    plan: Any = None

    def __post_init__(self) -> None:
        """Tell the options that take the next argument from switches."""
        self.valued = frozenset(option for option, role in self.options.items() if role[0] not in "+?")


class Program(NamedTuple):
    """The rows of one program: by command words, for any other command word, and for no command word at all."""

    by_words: dict[str, ProgramRow]
    other: ProgramRow | None
    alone: ProgramRow | None
    # The options before a command word that take a value, and the number of words in the longest command.
    valued: frozenset[str]
    longest: int


def find_row(name: str, arguments: list[str]) -> tuple[ProgramRow | None, int]:
    """Return the row that a command line uses and how many command words it has; None for an unknown program."""
    program = ALL_PROGRAMS.get(name)
    if program is None:
        return None, 0
    if not program.longest:
        return program.alone, 0
    words = _command_words(arguments, program)
    for count in range(len(words), 0, -1):
        row = program.by_words.get(" ".join(words[:count]) if count > 1 else words[0])
        if row is not None:
            return row, count
    return (program.other if words else program.alone), 0


def _command_words(arguments: list[str], program: Program) -> list[str]:
    """Return the first arguments that are no options, or an option that is a command itself: `pacman -S`."""
    words: list[str] = []
    skips = False
    for argument in arguments:
        if skips:
            skips = False
        elif argument[:1] != "-" or (not words and argument in program.by_words):
            # `cargo +nightly fmt`. A toolchain can be a path as well, which is a program of its own.
            if words or argument[:1] != "+" or "/" in argument:
                words.append(argument)
                if len(words) == program.longest:
                    break
        elif argument in program.valued:
            skips = True
    return words


def commands_of_program(name: str) -> Collection[str] | None:
    """Return the commands that a program has rows for; None for an unknown program."""
    return ALL_PROGRAMS[name].by_words if name in ALL_PROGRAMS else None


def is_task(name: str) -> bool:
    """Return whether a program is one that projects are built and checked with."""
    row = ALL_PROGRAMS[name].alone if name in ALL_PROGRAMS else None
    return row is not None and row.effect == "runs-project-task"


_OPTION_ROLE = re.compile(r"([+?]?[a-z-]+(?:\.[\w-]+)?):(\S+)")
_EFFECT = re.compile(r"([a-z-]+)(?:\((first|last|all|name|part|decoded|documents)\))?")


def make_row(words: str, operands: str, options: str, effect: str) -> ProgramRow:
    """Return the row that these columns describe; ValueError where they do not say what is expected."""
    loose, roles = "", tuple(operands.split())
    if roles[0] in LOOSE:
        loose, roles = roles[0], roles[1:] or ("-",)
    by_option: dict[str, str] = {}
    for entry in () if options == "-" else options.split():
        match = _OPTION_ROLE.fullmatch(entry)
        if match is None:
            raise ValueError(f"`{entry}` in `{TABLE}` is no role with its options")
        by_option.update(dict.fromkeys(match.group(2).split(","), match.group(1)))
    match = _EFFECT.fullmatch(effect)
    if match is None:
        raise ValueError(f"`{effect}` in `{TABLE}` is no effect")
    rest_at = next((at for at, role in enumerate(roles) if role.partition(".")[0] in TAKES_REST), -1)
    dashed = frozenset(word for entry in words.split(",") for word in entry.split() if word[:1] == "-" != word)
    return ProgramRow(loose, roles, by_option, match.group(1), match.group(2) or "", rest_at, dashed)


# A program or a command word that no row has.
_UNKNOWN = make_row("-", "skip", "-", "unknown")


def _read_programs() -> dict[str, Program]:
    rows: dict[str, dict[str, ProgramRow]] = {}
    for effect, operands, programs in read_table(PACKAGE, TABLE, NAMES, NAME_COLUMNS):
        row = make_row("-", operands, "-", effect)
        for entry in programs.split(", "):
            name, _, words = entry.partition(" ")
            rows.setdefault(name, {})[words] = row
    for by_words in rows.values():
        if "" in by_words:
            by_words.setdefault("*", by_words[""])
    for names, words, operands, options, effect in read_table(PACKAGE, TABLE, PROGRAMS, PROGRAM_COLUMNS):
        row = make_row(words, operands, options, effect)
        for name in names.split():
            for entry in [""] if words == "-" else words.split(","):
                rows.setdefault(name, {})[entry] = row
    for programs, options in read_table(PACKAGE, TABLE, OPTIONS, OPTION_COLUMNS):
        more = make_row("-", "-", options, "-")
        for entry in programs.split(", "):
            name, _, words = entry.partition(" ")
            by_words = rows.setdefault(name, {"": _UNKNOWN})
            for key in [words] if words else list(by_words):
                by_words[key] = _with_options(by_words[key], more)
    return {name: _program(by_words) for name, by_words in rows.items()}


def _program(rows: dict[str, ProgramRow]) -> Program:
    alone = rows.pop("", None)
    if alone is not None and alone.options and rows:
        # What stands before the command words may stand behind them too.
        rows = {words: _with_options(row, alone) for words, row in rows.items()}
    other = rows.pop("*", None)
    if other is None and rows:
        other = _with_options(_UNKNOWN, alone) if alone is not None else _UNKNOWN
    longest = max((words.count(" ") + 1 for words in rows), default=1 if other is not None else 0)
    return Program(rows, other, alone, alone.valued if alone is not None else frozenset(), longest)


def _with_options(row: ProgramRow, alone: ProgramRow) -> ProgramRow:
    return replace(row, options=alone.options | row.options)


ALL_PROGRAMS = _read_programs()
# Programs with the command words of another.
ALL_PROGRAMS["podman"] = ALL_PROGRAMS["nerdctl"] = ALL_PROGRAMS["docker"]
ANYWHERE = ALL_PROGRAMS["*"].alone or make_row("-", "-", "-", "-")
