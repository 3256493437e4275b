"""The table of programs: its examples, and what it refuses."""

from __future__ import annotations

from collections import Counter

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.programs.program_rows import (
    NAME_COLUMNS,
    NAMES,
    PACKAGE,
    PROGRAM_COLUMNS,
    PROGRAMS,
    TABLE,
    find_row,
    make_row,
)
from lockgate.core.tables import Example, read_examples, read_table

EXAMPLES = [
    *read_examples(PACKAGE, TABLE, PROGRAMS, PROGRAM_COLUMNS),
    *read_examples(PACKAGE, TABLE, NAMES, NAME_COLUMNS),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text)
def test_a_row_reads_its_examples(example: Example) -> None:
    line, _, effect = example.text.rpartition(" => ")
    kind, _, target = effect.partition(" ")
    effects = read_line(line)
    if not example.hit:
        assert kind not in {kind for kind, _ in effects}
    elif target:
        assert (kind, target) in effects
    else:
        assert kind in {kind for kind, _ in effects}


def test_the_longest_command_words_count() -> None:
    row, used = find_row("pip", ["config", "set", "global.index-url", "https://x.example"])
    assert row is not None
    assert (row.operands, used) == (("skip", "src"), 2)


def test_a_word_that_no_row_has_is_unknown() -> None:
    row, used = find_row("uv", ["unheard-of"])
    assert row is not None
    assert (row.effect, used) == ("unknown", 0)
    assert read_line("cargo +/tmp/x build") == {("runs-program", "cargo")}
    assert find_row("unheard-of", []) == (None, 0)


def test_no_program_stands_in_two_places() -> None:
    names = [
        entry for _, _, programs in read_table(PACKAGE, TABLE, NAMES, NAME_COLUMNS) for entry in programs.split(", ")
    ]
    rows = [
        f"{name} {entry}".removesuffix(" -")
        for names, words, *_ in read_table(PACKAGE, TABLE, PROGRAMS, PROGRAM_COLUMNS)
        for name in names.split()
        for entry in words.split(",")
    ]
    assert [entry for entry, count in Counter([*names, *rows]).items() if count > 1] == []


@pytest.mark.parametrize(
    ("options", "effect"), [("write -o", "-"), ("write:", "-"), ("-", "Prints"), ("-", "prints(third)")]
)
def test_a_row_that_cannot_be_read_stops_the_start(options: str, effect: str) -> None:
    with pytest.raises(ValueError, match=r"programs\.tbl"):
        make_row("-", "read", options, effect)
