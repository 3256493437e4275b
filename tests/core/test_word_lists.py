"""The word lists of the core: how they are read, and that each of them keeps to the format."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockgate.core
from lockgate.core.word_lists import read_sections, read_words

CORE = Path(lockgate.core.__file__).parent
LISTS = sorted(CORE.rglob("*.txt"))
# A list that begins so is not sorted: its order means something, or its lines stand beside what they belong to.
UNSORTED = ("# order matters", "# by topic")


def is_section(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")


def groups(path: Path) -> list[list[str]]:
    """The entries between two empty lines, comments or section lines."""
    found: list[list[str]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#") or is_section(line):
            found.append([])
        else:
            found[-1].append(line)
    return [group for group in found if group]


def sections(path: Path) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if is_section(line):
            found.append([])
        elif line and not line.startswith("#"):
            found[-1].append(line)
    return found


def test_there_are_lists() -> None:
    assert LISTS


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_a_list_is_plain_lines_of_utf8(path: Path) -> None:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert b"\r" not in data
    lines = data.decode("utf-8").split("\n")[:-1]
    assert all(line == line.strip() and line.isprintable() for line in lines)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_a_section_of_a_list_has_entries_and_none_of_them_twice(path: Path) -> None:
    first, *rest = sections(path)
    assert first or rest
    for entries in ([first] if first else []) + rest:
        assert entries
        assert len(set(entries)) == len(entries)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_the_groups_of_a_list_are_sorted_unless_it_says_otherwise(path: Path) -> None:
    if path.read_text(encoding="utf-8").startswith(UNSORTED):
        return
    for group in groups(path):
        assert group == sorted(group)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "some_lists"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "plain.txt").write_text("# a comment\nbe\nsee\n\nsea cow\n", encoding="utf-8")
    (folder / "sections.txt").write_text("[one]\na\n# why\nb\n\n[two]\nc\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "some_lists"


def test_words_are_read_in_the_order_of_the_file_without_comments_and_empty_lines(package: str) -> None:
    assert read_words(package, "plain.txt") == ("be", "see", "sea cow")


def test_sections_are_read_by_their_names(package: str) -> None:
    assert read_sections(package, "sections.txt") == {"one": ("a", "b"), "two": ("c",)}


def test_a_list_that_is_missing_is_an_error(package: str) -> None:
    with pytest.raises(FileNotFoundError):
        read_words(package, "none.txt")
