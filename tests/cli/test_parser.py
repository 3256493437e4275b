"""Errors of the command line look like all others."""

from __future__ import annotations

import argparse

import pytest

from lockgate.cli.parser import Parser, parse_whole_number
from lockgate.core.errors import LockgateError


def test_an_error_is_raised_with_a_hint_and_a_prefix_is_no_option() -> None:
    parser = Parser(prog="lockgate try")
    parser.add_argument("--number", type=int)
    assert parser.parse_args(["--number", "3"]).number == 3
    with pytest.raises(LockgateError) as caught:
        parser.parse_args(["--num", "3"])
    assert caught.value.hint == "lockgate try --help lists the options"


@pytest.mark.parametrize("text", ["", "-1", "6", "1.5", "٣", "9" * 30])
def test_a_number_out_of_bounds_is_refused(text: str) -> None:
    assert parse_whole_number("5", 0, 5) == 5
    with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 5"):
        parse_whole_number(text, 0, 5)


def test_help_is_wrapped_to_the_terminal_and_examples_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    example = "  $ lockgate try --one-option --another-option --and-a-third"
    text = f"{words}\nthirteen.\nExit code 0: done.\n\nexample:\n{example}\n\n  LONG   {words}\n"
    parser = Parser(prog="lockgate try", usage="lockgate try", description=text)
    monkeypatch.setenv("COLUMNS", "42")
    lines = parser.format_help().splitlines()
    assert all(len(line) <= 40 for line in lines if line != example)
    assert example in lines
    assert "Exit code 0: done." in lines
    assert "eight nine ten eleven twelve thirteen." in " ".join(lines)
    beside = lines[lines.index("  LONG   one two three four five six") + 1 :][:2]
    assert beside == [" " * 9 + "seven eight nine ten eleven", " " * 9 + "twelve"]
    monkeypatch.setenv("COLUMNS", "400")
    assert max(map(len, parser.format_help().splitlines())) <= 118
