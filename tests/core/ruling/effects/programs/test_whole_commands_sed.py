"""What a script of `sed` runs and writes. What is said to run here does, in GNU sed."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.ruling.effects.programs.whole_commands import files_of_sed


@pytest.mark.parametrize(
    "script",
    [
        "e id",
        "etouch x",
        "1eid",
        "$!e id",
        "/x/,/y/e id",
        "1,+ 1s/.*/id/e",
        "1 ~ 1s/.*/id/e",
        "0~3e id",
        "/[^/]/s/.*/id/e",
        "/h/ Is/.*/id/e",
        "\\x[x]x!s/.*/id/e",
        "s\\.*\\id\\e",
        "/h\\\n*/s/.*/id/e",
        "s/.*/id/ e",
        "s/[^/]*/id/e",
        "s1a1id1ge",
        "p;{s/a/id/e}",
        "s/x/y/\ne id",
        "e\\\nid",
        "s/a/b",
        "?",
    ],
)
def test_this_runs_a_command_or_cannot_be_read(script: str) -> None:
    assert files_of_sed(script) is None


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ("w /etc/x", "/etc/x"),
        ("1wfoo/../x", "foo/../x"),
        ("s/a/b/gw out", "out"),
        ("s/a/b/g w out", "out"),
        ("s/[/]/x/w /etc/cron.d/x", "/etc/cron.d/x"),
        ("/[^/]/w .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("s/a/b;w .x/;w /etc/cron.d/x", "/etc/cron.d/x"),
    ],
)
def test_this_writes_to_a_file(script: str, path: str) -> None:
    assert path in (files_of_sed(script) or ())


@pytest.mark.parametrize(
    "script",
    [
        "s/Tested on Python and 3.7, 3.8/Tested on 3.9, some/",
        "s/;e /x/;s/{e}/x/",
        "/^export default/,$p",
        "0,/^import/s##import { serve }#",
        '16s|cd "${path%/\\*}"|& \\|\\| return|; 22s|cd|&|',
        "y/abc/def/",
        "1i\\hello; we are",
        "/a/{N;d}",
        ":a;N;$!ba;s/\\n/ /g",
        "$a\\\ne is a letter",
        "# e id\np",
        "",
    ],
)
def test_this_does_neither(script: str) -> None:
    assert files_of_sed(script) == frozenset()


@given(st.text(alphabet="se/w[]\\ \n;{}!1$,+~ab|", max_size=40))
def test_every_text_is_read_or_refused(script: str) -> None:
    assert isinstance(files_of_sed(script), frozenset | None)


@pytest.mark.parametrize("text", ["\n", " ", "s", "[", "/[", "\\", ";s一", "1,", "!", "{", "/[:", "/[.a"])
def test_the_time_is_linear(text: str) -> None:
    def seconds() -> float:
        began = process_time()
        files_of_sed(text * (4000 // len(text)))
        files_of_sed("/" + text * (3999 // len(text)))
        files_of_sed("/" + "[" * 200 + text * (3799 // len(text)))
        return process_time() - began

    # What is slow once and not again was the machine.
    assert min(seconds() for _ in range(3)) < 0.2
