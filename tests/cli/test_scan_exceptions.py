"""Comments and baselines that settle findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.cli.scan_exceptions import Baseline, blank_lines, ignored_lines, read_baseline
from lockgate.core.errors import LockgateError


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a  # lockgate: ignore", {1: set()}),
        ("a\nb // lockgate: ignore[x:y, z:w]\n", {2: {"x:y", "z:w"}}),
        ("  <!-- lockgate: ignore -->\nb", {2: set()}),
        ("/* lockgate: ignore */ b", {2: set()}),
        ("lockgate: ignore", {}),
        ("# lockgate: ignored", {}),
        ("# Lockgate: Ignore", {}),
        ("# lockgate:\u200b ignore", {}),
    ],
)
def test_comments_name_their_line(text: str, lines: dict[int, set[str]]) -> None:
    assert ignored_lines(text) == lines


def test_blanks_leave_every_other_place_as_it_was() -> None:
    text = "one\ntwo\r\nthree"
    assert blank_lines(text, [2]) == "one\n    \nthree"


def test_a_baseline_is_bound_to_file_rule_and_content(tmp_path: Path) -> None:
    made = Baseline(tmp_path)
    made.add(str(tmp_path / "docs" / "a.md"), "text", ["seed:forget"])
    made.write(str(tmp_path / "known.json"))
    read = read_baseline(str(tmp_path / "known.json"))
    assert list(json.loads((tmp_path / "known.json").read_text())["files"]) == ["docs/a.md"]
    assert read.has(str(tmp_path / "docs" / "a.md"), "text", "seed:forget")
    assert not read.has(str(tmp_path / "docs" / "a.md"), "text and more", "seed:forget")
    assert not read.has(str(tmp_path / "docs" / "a.md"), "text", "seed:new-task")
    assert not read.has(str(tmp_path / "a.md"), "text", "seed:forget")


def test_a_baseline_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LockgateError, match="cannot read"):
        read_baseline(str(tmp_path / "none.json"))


def test_a_baseline_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "known.json").symlink_to(tmp_path / "mine")
    Baseline(tmp_path).write(str(tmp_path / "known.json"))
    assert (tmp_path / "mine").read_text() == "precious"
    assert read_baseline(str(tmp_path / "known.json")).files == {}
