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
