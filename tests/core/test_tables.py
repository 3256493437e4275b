"""The tables of the core: how they are read, and that each of them keeps to the format."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from table_examples import read_examples

import lockgate.core
from lockgate.core.tables import Example, read_sections, read_table, read_texts, read_words

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
    monkeypatch.delitem(sys.modules, "some_lists", raising=False)
    return "some_lists"


def test_words_are_read_in_the_order_of_the_file_without_comments_and_empty_lines(package: str) -> None:
    assert read_words(package, "plain.txt") == ("be", "see", "sea cow")


def test_sections_are_read_by_their_names(package: str) -> None:
    assert read_sections(package, "sections.txt") == {"one": ("a", "b"), "two": ("c",)}


def test_a_list_that_is_missing_is_an_error(package: str) -> None:
    with pytest.raises(FileNotFoundError):
        read_words(package, "none.txt")


TABLE = """# Things.

[one] name | words
a | x \\| y
  + hit me
  - leave me
b | -
[two] name
c
"""


@pytest.fixture
def table(package: str, tmp_path: Path) -> Path:
    path = tmp_path / package / "things.tbl"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_rows_are_read_by_section_with_their_examples(package: str, table: Path) -> None:
    columns = ("name", "words")
    assert read_table(package, table.name, "one", columns) == [("a", "x | y"), ("b", "-")]
    assert read_table(package, table.name, "two", ["name"]) == [("c",)]
    row = ("a", "x | y")
    examples = [Example(row, "hit me", True), Example(row, "leave me", False)]
    assert read_examples(package, table.name, "one", columns) == examples


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[one] name\na\n", "the columns are name, and should be name | words"),
        ("[one] name | words\na | b | c\n", "3 columns instead of 2"),
        ("[one] name | words\na|b\n", "1 columns instead of 2"),
        ("[one] name | words\n  + too early\n", "a line below a row begins with"),
        ("[one] name | words\na | b\n  no sign\n", "a line below a row begins with"),
        ("[two] name | words\na | b\n", "no section `one`"),
        ("[one] name | words\n", "an empty one"),
    ],
)
def test_what_does_not_fit_stops_the_start(package: str, table: Path, text: str, error: str) -> None:
    table.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(error)):
        read_table(package, table.name, "one", ("name", "words"))


def test_texts_keep_their_lines_and_what_is_joined(package: str) -> None:
    folder = Path(sys.path[0]) / package
    (folder / "texts.md").write_text("# why\n[one]\na \\\nb\n\n- c\n[two]\n\nd {e}\n", encoding="utf-8")
    assert read_texts(package, "texts.md") == {"one": "a b\n\n- c", "two": "\nd {e}"}


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4 misread `(?:…)*+` (gh-106052), which an atomic group `(?>(?:…)*)` says as well."""
    repeated = re.compile(r"(?<!\()\)(?:[*+?]|\{\d+(?:,\d*)?\})\+")
    files = [
        path for path in Path(lockgate.__file__).parent.rglob("*") if path.suffix in (".tbl", ".txt", ".py", ".md")
    ]
    assert {str(path) for path in files if repeated.search(path.read_text(encoding="utf-8"))} == set()
