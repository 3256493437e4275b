"""Rows of an operator's own table: each says that a program or a tool has one more effect, so a row only adds severity.

A policy holds each row as one text, which is how the digest of the table is a part of the policy's hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.ruling.effects.effect import KINDS, Severity
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.tables import parse_rows

_COLUMNS = {"programs": ("program", "command words", "kind"), "tools": ("tool", "kind")}
_KINDS = [kind for kind, row in KINDS.items() if row.severity >= Severity.REACHES_OUT and kind not in OWN_KINDS]
_HINT = "a right table: `[programs] program | command words | kind`, then rows such as `deployctl | prod | publishes`"


def parse_operator_rows(text: str, name: str) -> tuple[str, ...]:
    """Return the rows of a table as texts; raise InvalidConfig with the line for what is not right."""
    section, rows = "", []
    for number, line in enumerate(text.splitlines(), 1):
        section = line[1:].partition("]")[0] if line[:1] == "[" else section
        if line.strip() and line[0] != "#" and section not in _COLUMNS:
            what = f"section {quoted(section)} is unknown" if section else "a row before any section"
            raise InvalidConfig(f"line {number} of `{name}`: {what}", hint=_HINT)
    for section, columns in _COLUMNS.items():
        try:
            table = parse_rows(text, name, section, columns)
        except ValueError as error:
            raise InvalidConfig(str(error), hint=_HINT) from None
        for row in table:
            rows.append(" | ".join((section, *row.cells, *row.values)))
            try:
                check_row(rows[-1])
            except InvalidConfig as error:
                raise InvalidConfig(f"{row.place}: {error.message}", hint=error.hint) from None
            for example in row.examples:
                tool, *words = example.text.split()
                if example.hit is not bool(
                    [*kinds_of_tool(rows[-1:], tool), *kinds_of_program(rows[-1:], tool, words)]
                ):
                    raise InvalidConfig(f"{row.place}: the row does not do what its example says: {example.text}")
    return tuple(rows)


def check_row(row: str) -> None:
    """Raise InvalidConfig for a text that is no row."""
    section, *cells = row.split(" | ")
    if len(cells) != len(_COLUMNS.get(section, ())) or not all(cells):
        raise InvalidConfig(f"{quoted(row)} has an empty column, or one too many", hint=_HINT)
    if cells[-1] not in _KINDS:
        hint = f"a kind of severity 2 or 3: {', '.join(_KINDS)}"
        raise InvalidConfig(f"{quoted(cells[-1])} is no kind that a row may add", hint=hint)


def kinds_of_program(rows: Sequence[str], name: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the kinds that rows add to a program with these arguments, wherever its command words stand."""
    words = [*words] if rows else []
    for section, *cells in (row.split(" | ") for row in rows):
        if section == "programs" and fnmatchcase(name.replace("\\", "/").rpartition("/")[2], cells[0]):
            # A word that only the running shell knows may be any.
            is_open = cells[1] == "-" or any("$" in word for word in words)
            if is_open or any({*entry.split()} <= {*words} for entry in cells[1].split(",")):
                yield cells[2]


def kinds_of_tool(rows: Sequence[str], tool: str) -> Iterator[str]:
    """Yield the kinds that rows add to a tool of this name; `*` in a row stands for anything."""
    for section, *cells in (row.split(" | ") for row in rows):
        if section == "tools" and fnmatchcase(tool.casefold(), cells[0].casefold()):
            yield cells[1]
