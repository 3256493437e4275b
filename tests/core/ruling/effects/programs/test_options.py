"""Options, their values, and the other arguments."""

from __future__ import annotations

from lockgate.core.ruling.effects.programs.options import has_option, program_after, split_options


def test_values_are_told_from_arguments() -> None:
    options, rest = split_options(["-xzf", "a.tar", "--dir=b", "--name", "c", "d", "--", "-e"], {"-f", "--name"})
    assert options == [("-x", ""), ("-z", ""), ("-f", "a.tar"), ("--dir", "b"), ("--name", "c")]
    assert rest == ["d", "-e"]


def test_a_value_may_be_joined_to_its_letter() -> None:
    assert split_options(["-ofile", "-o"], {"-o"}) == ([("-o", "file"), ("-o", "")], [])


def test_an_option_is_found_among_joined_letters() -> None:
    assert has_option(["-qi"], "-i")
    assert has_option(["--in-place=x"], "--in-place")
    assert not has_option(["--list", "i"], "-i")


def test_the_program_after_a_wrapper_keeps_its_own_options() -> None:
    assert program_after(["-n", "5", "make", "-n"], {"-n"}) == ["make", "-n"]
    assert program_after(["-k", "--", "-x"], frozenset()) == ["-x"]
