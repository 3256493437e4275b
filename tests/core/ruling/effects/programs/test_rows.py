"""The table of programs."""

from __future__ import annotations

from command_effects import read_line

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.word_lists import read_sections


def test_every_section_is_a_kind_or_says_what_happens_to_the_input() -> None:
    sections = read_sections("lockgate.core.ruling.effects.programs", "programs.txt")
    assert set(sections) <= {*KINDS, "passes", "prints"}


def test_the_longest_row_that_fits_counts() -> None:
    assert read_line("npm audit") == {("looks", "")}
    assert read_line("npm audit fix") == {("runs-project-task", "npm")}
    assert read_line("kubectl -n web get pods") == {("looks", "")}
    assert read_line("kubectl -n web scale deploy/a") == {("changes-service", "deploy/a")}


def test_a_program_that_no_row_names_is_a_guess() -> None:
    assert read_line("frobnicate all") == {("runs-program", "frobnicate")}
