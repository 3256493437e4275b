"""The door to the shell's readings: caps, and work that grows with the text."""

from __future__ import annotations

import pytest
from cpu_time import takes_at_most_times, takes_less

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.effect import Certainty, Severity
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.ruling.effects.shell_walk import MOST_CHARACTERS, read_command


def test_an_effect_names_its_argument_and_its_command() -> None:
    (found,) = read_command("ls; rm -rf /etc/x", "cmd", NO_PROJECT, NO_ACTIVITY)
    assert (found.kind, found.argument, found.start, found.end) == ("deletes-outside", "cmd", 4, 17)


def test_a_command_that_does_nothing_only_looks() -> None:
    assert [each.kind for each in read_command("ls", "cmd", NO_PROJECT, NO_ACTIVITY)] == ["looks"]
    assert [each.kind for each in read_command("", "cmd", NO_PROJECT, NO_ACTIVITY)] == ["looks"]


def test_a_text_beyond_the_limit_cannot_be_read() -> None:
    (found,) = read_command("a" * (MOST_CHARACTERS + 1), "cmd", NO_PROJECT, NO_ACTIVITY)
    assert (found.kind, found.severity, found.certainty) == ("unreadable", Severity.OPENS_A_DOOR, Certainty.GUESS)


def test_an_effect_is_listed_once() -> None:
    assert len(read_command("rm /etc/x; rm /etc/x", "cmd", NO_PROJECT, NO_ACTIVITY)) == 1


HOSTILE = [
    *'a;| <<A |$(( |${a:-|$(|`|"|{a,b}|\\|((|[[ |case a in b) |f() { f; }; f; |x=a; |$x |<('.split("|"),
    *"bash -c \"|eval |'a' | 2>&1| > x |xargs |env |sudo |rm x; |a/../|$'\\x41'|${x//a/b} |x=$x$x; ".split("|"),
    *"curl https://h.example/a; |find . -exec |pip install a |sed 's/a/b/' ; |awk '{a}' ; ".split("|"),
    *"python3 -c 'exec('; |psql -c 'copy '; |psql -c 'alter table a '; ".split("|"),
    "a\n",
    "a | ",
    "cat <<A\nA\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    def read(size: int) -> None:
        read_command((piece * (size // len(piece) + 1))[:size], "cmd", NO_PROJECT, NO_ACTIVITY)

    # Below the floor the clock's own grain decides.
    assert takes_less(0.06, lambda: read(60_000)) or (
        takes_at_most_times(3.5, lambda: read(60_000), lambda: read(30_000), floor_s=0)
        and takes_less(1.0, lambda: read(60_000))
    )
