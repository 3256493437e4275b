"""The tables of the core: text files beside the modules that use them, read once when such a module is imported.

This is the only module of the core that reads a file. It reads data of this package and nothing else, as importing a
module does. All tables have one syntax:

    # A comment. Sections begin with their name, and say which columns their rows have.
    [rules] id | severity | words
    send-secrets | high | send …
      + a text that the row must find
      - its neighbour, which the row must leave alone

Columns are separated by ` | `, and a literal one is written ` \\| `. Indented lines belong to the row above them: after
`| ` stands one more value of it, after `+ ` and `- ` an example. One test runs all examples. What does not fit this
stops the start, because a row that is skipped protects no one.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Sequence
from typing import NamedTuple


class Example(NamedTuple):
    """A text, or a call, that a row must find (`hit`) or leave alone."""

    row: tuple[str, ...]
    text: str
    hit: bool


class TableRow(NamedTuple):
    """One row as it is written, with its further values, its examples, and the place to name when it is wrong."""

    cells: tuple[str, ...]
    place: str
    values: list[str]
    examples: list[Example]


def read_table(package: str, name: str, section: str, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of one section; raise ValueError where the table does not have exactly these columns."""
    return [row.cells for row in read_rows(package, name, section, columns)]


def read_rows(package: str, name: str, section: str, columns: Sequence[str]) -> list[TableRow]:
    """Return the rows of one section with what stands below each."""
    rows = parse_rows(_text(package, name), name, section, columns)
    if not rows:
        raise ValueError(f"`{name}` has no section `{section}`, or an empty one")
    return rows


def parse_rows(text: str, name: str, section: str, columns: Sequence[str]) -> list[TableRow]:
    """Return the rows of one section of a table that was given as text; `name` is what its errors call it."""
    rows: list[TableRow] = []
    current = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line[0] == "#" or (current != section and line[0] != "["):
            continue
        place = f"line {number} of `{name}`"
        if line[0] == "[":
            current, _, titles = line[1:].partition("]")
            if current == section and _cells(titles) != tuple(columns):
                raise ValueError(f"{place}: the columns are {titles.strip()}, and should be {' | '.join(columns)}")
        elif line[0] == " ":
            mark, content = line.strip()[:2], line.strip()[2:].strip()
            if not rows or mark not in ("| ", "+ ", "- "):
                raise ValueError(f"{place}: a line below a row begins with `| `, `+ ` or `- `")
            if mark == "| ":
                rows[-1].values.append(content)
            else:
                rows[-1].examples.append(Example(rows[-1].cells, content, mark == "+ "))
        elif len(cells := _cells(line)) == len(columns):
            rows.append(TableRow(cells, place, [], []))
        else:
            raise ValueError(f"{place}: {len(cells)} columns instead of {len(columns)}")
    return rows


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("\\|", "|") for cell in f" {line} ".split(" | "))


def read_patterns(package: str, name: str, section: str = "patterns") -> dict[str, re.Pattern[str]]:
    """Return the patterns of a table by their names; `{name}` in one stands for the rows of that name above it."""
    texts: dict[str, str] = {}
    flags: dict[str, str] = {}
    for title, flag, pattern in read_table(package, name, section, ("name", "flags", "pattern")):
        for earlier, text in texts.items():
            pattern = pattern.replace(f"{{{earlier}}}", f"(?:{text})")
        texts[title] = f"{texts[title]}|{pattern}" if title in texts else pattern
        flags.setdefault(title, f"(?{flag})".replace("(?-)", ""))
    return {title: re.compile(flags[title] + text) for title, text in texts.items()}


def read_byte_patterns(package: str, name: str) -> dict[str, re.Pattern[bytes]]:
    """Return the patterns of a table that are matched against bytes."""
    patterns = read_patterns(package, name, "byte patterns")
    return {title: re.compile(pattern.pattern.encode()) for title, pattern in patterns.items()}


def read_words(package: str, name: str) -> tuple[str, ...]:
    """Return the entries of one list of a package, in the order of the file."""
    return tuple(_lines(package, name))


def read_sections(package: str, name: str) -> dict[str, tuple[str, ...]]:
    """Return the entries of a list by its sections, each of which begins with a line `[name]`."""
    sections: dict[str, list[str]] = {}
    entries: list[str] = []
    for line in _lines(package, name):
        if line[0] == "[" and line[-1] == "]":
            entries = sections[line[1:-1]] = []
        else:
            entries.append(line)
    return {section: tuple(words) for section, words in sections.items()}


def read_texts(package: str, name: str) -> dict[str, str]:
    """Return the texts of a file by their sections; a backslash at the end of a line joins it with the next one."""
    parts = _text(package, name).partition("\n[")[2].removesuffix("\n").split("\n[")
    return {section: text.replace("\\\n", "") for section, _, text in (part.partition("]\n") for part in parts)}


def _lines(package: str, name: str) -> list[str]:
    return [line for line in _text(package, name).splitlines() if line and line[0] != "#"]


def _text(package: str, name: str) -> str:
    data = pkgutil.get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"the table `{name}` of `{package}` cannot be read")
    return data.decode("utf-8")
