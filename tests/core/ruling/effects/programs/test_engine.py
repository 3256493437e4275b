"""The engine that reads a command line by the roles of its row."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.effects.programs.engine import FINISHES, REST_ROLES, ROLES
from lockgate.core.ruling.effects.programs.options import split_arguments
from lockgate.core.ruling.effects.programs.program_rows import ALL_PROGRAMS, make_row


@pytest.mark.parametrize(
    ("line", "options", "operands"),
    [
        ("-xo out a", [("-x", ""), ("-o", "out")], ["a"]),
        ("-oout a", [("-o", "out")], ["a"]),
        ("--out=b a -- -x", [("--out", "b")], ["a", "-x"]),
        ("--out b", [("--out", "b")], []),
        ("a if=b", [("if=", "b")], ["a"]),
        ("a -o", [("-o", "")], ["a"]),
    ],
)
def test_options_are_split_from_operands(line: str, options: list[tuple[str, str]], operands: list[str]) -> None:
    row = make_row("-", "read", "out:-o,--out read:if= ?mode:-x", "-")
    assert split_arguments(line.split(), row.valued, row.options) == (options, operands, [])


def test_the_options_of_a_program_that_is_started_are_its_own() -> None:
    row = make_row("-", "skip program", "skip:-s", "-")
    options, words, rest = split_arguments("-s 1 -v 5 rm -s x".split(), row.valued, row.options, row.rest_at)
    assert (options, words, rest) == ([("-s", "1"), ("-v", "")], ["5"], ["rm", "-s", "x"])


def test_each_role_effect_and_kind_of_the_table_exists() -> None:
    modes: set[str] = set()
    kept: set[str] = set()
    programs = ALL_PROGRAMS.values()
    rows = [row for program in programs for row in (*program.by_words.values(), program.other, program.alone)]
    for row in filter(None, rows):
        for role in (*row.operands, *row.options.values()):
            name = role.lstrip("+").rstrip("*").partition(".")[0]
            if role[0] == "?":
                modes.add(role[1:])
            elif name not in ROLES and name not in REST_ROLES and name not in KINDS:
                kept.add(name)
        assert row.effect in FINISHES or row.effect in KINDS or row.effect == "-"
    assert kept <= {"-", "raw", "letters", *_KEPT}
    assert modes <= _MODES


# Roles whose values only the end of the command reads, and the modes that some end asks about.
_KEPT = frozenset(
    "url out into archive from port door module verb form file statement statements database text sign format code "
    "raw pattern script text carry bind serve served replaced method skip".split()
)
_MODES = frozenset(
    "looks folders extract create whole stdout named get head listen scan delete looks-up decode public "
    "unset forced deletes prunes dry hides quiet inverted in-place input text module clean brief".split()
)
