"""Programs without a reader of their own: a row of `programs.tbl`, or a program that shows files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.engine import apply_row
from lockgate.core.ruling.effects.programs.program_rows import find_row, option_values
from lockgate.core.ruling.effects.programs.roles import last_word, note_loose
from lockgate.core.ruling.effects.programs.text_filters import print_files
from lockgate.core.ruling.effects.programs.whole_commands import note_unknown
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_PRINTS = frozenset(
    entry
    for line in read_sections("lockgate.core.ruling.effects.programs", "programs.txt")["prints"]
    for entry in line.split(", ")
)
# Programs that show a file and take an address for one.
_VISITS = frozenset("exiftool ffprobe glow identify mdcat xmllint xsltproc".split())


def read_row(walk: Walk, call: Invocation, *, of_project: bool = False) -> Output:
    """Note what the row of a program says."""
    row, used = find_row(call.name, call.arguments)
    if row is not None:
        return apply_row(walk, call, row, used)
    if call.name in _PRINTS:
        if call.name in _VISITS:
            note_loose(walk, call.name, "look", call.arguments, ())
        return print_files(walk, call)
    note_unknown(walk, call.name, of_project=of_project)
    return UNKNOWN_OUTPUT


def target_of(call: Invocation, words: list[str]) -> str:
    """Return what a command is aimed at: its last argument that is no option, no option's value and no command word."""
    return last_word(call.arguments, words) or call.name


def is_listed(call: Invocation) -> bool:
    """Return whether the table says what this program does."""
    return call.name in _PRINTS or find_row(call.name, call.arguments)[0] is not None


def command_words(call: Invocation) -> list[str]:
    """Return the arguments that are no options; the first ones say what the program shall do."""
    valued = option_values(call.name)
    words: list[str] = []
    skips = False
    for argument in call.arguments:
        if skips:
            skips = False
        elif argument[:1] != "-":
            words.append(argument)
        elif argument in valued:
            skips = True
    return words
