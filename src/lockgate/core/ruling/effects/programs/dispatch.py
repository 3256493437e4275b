"""Which program a command starts, and what reads it: a reader of its own, or a row of the table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.operator_rows import kinds_of_program
from lockgate.core.ruling.effects.own_acts import follow_processes, note_own_acts
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.engine import apply_row
from lockgate.core.ruling.effects.programs.loaded_files import note_loaded_files
from lockgate.core.ruling.effects.programs.program_rows import WORDS, acts_by_words, find_row
from lockgate.core.ruling.effects.programs.run_roles import run_file
from lockgate.core.ruling.effects.programs.whole_commands import note_unknown
from lockgate.core.ruling.effects.project import Place

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_SYSTEM_BIN = re.compile(r"/(?:usr/)?(?:local/)?s?bin/([^/]+)|/opt/(?:homebrew|local)/s?bin/([^/]+)")
_PROJECT_BIN = re.compile(
    r"(?:.*/)?(?:\.?v?env[^/]*|[^/]*venv[^/]*|\.tox/[^/]+|\.nox/[^/]+|\.?(?:v|virtual)?envs?/[^/]+|conda[^/]*)/(?:bin|Scripts)/([^/]+)"
    r"|(?:.*/)?(?:node_modules/\.bin|vendor/bin|\.cargo/bin)/([^/]+)"
)
_VERSIONED = re.compile(r"(python|pip|node|ruby|php|perl|lua|pypy|clang|gcc|java)-?\d[\d.]*t?")


def read_program(walk: Walk, call: Invocation) -> Output:
    """Note what a program does with these arguments; return what it prints, as far as that is known."""
    name, started = call.name, call
    if walk.project.effect_rows:
        for kind in kinds_of_program(walk.project.effect_rows, name, list(map(walk.plain, call.arguments))):
            walk.add(kind, name)
    of_project = False
    if "/" in name:
        match = _SYSTEM_BIN.fullmatch(name) or _PROJECT_BIN.fullmatch(name)
        if match is None or walk.download_of(walk.full_path(name)):
            if walk.is_near_own:
                note_own_acts(walk, call, name, is_known=False)
            run_file(walk, name, call.arguments)
            return UNKNOWN_OUTPUT
        of_project = match.re is _PROJECT_BIN and walk.place(name) is Place.INSIDE
        name = match.group(1) or match.group(2)
    row, used = find_row(name, call.arguments)
    if row is None:
        name = _plain_name(name)
        row, used = find_row(name, call.arguments)
    if name != call.name:
        call = call._replace(name=name)
    if len(call.arguments) == 1 and _asks_about(name, call.arguments[0]):
        return UNKNOWN_OUTPUT
    if walk.is_near_own:
        note_own_acts(walk, started, name, is_known=row is not None and row.effect != "unknown")
    output = UNKNOWN_OUTPUT
    if row is None:
        note_unknown(walk, name, of_project=of_project)
    else:
        output = apply_row(walk, call, row, used)
        note_loaded_files(walk, call)
    return follow_processes(walk, call, output) if walk.is_near_own else output


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
