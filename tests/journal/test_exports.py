from __future__ import annotations

from base64 import b64encode

import pytest
from tamperings import GENUINE, body

from lockgate.core.errors import InvalidNote
from lockgate.journal.exports import HEADER, ExportRow, export_lines, read_export
from lockgate.journal.merkle import leaf_hash

NEWEST = GENUINE.heads[-1]


def file_of(rows: tuple[ExportRow, ...]) -> list[bytes]:
    return b"".join(export_lines(NEWEST, rows)).splitlines(keepends=True)


def test_a_shard_comes_back_from_its_file() -> None:
    rows = (*GENUINE.rows[:5], GENUINE.rows[5]._replace(data=None), *GENUINE.rows[6:])
    checkpoint, found = read_export(file_of(rows))
    assert checkpoint == NEWEST
    assert tuple(found) == rows


def test_a_line_is_exactly_what_was_hashed() -> None:
    lines = file_of(GENUINE.rows)
    first = lines.index(body(0) + b"\n")
    assert leaf_hash(lines[first + 14].removesuffix(b"\n")) == GENUINE.rows[14].leaf


def test_a_line_that_is_no_record_is_a_row_for_the_audit_to_judge() -> None:
    leaf = b64encode(GENUINE.rows[0].leaf)
    odd = [
        b"xx" + leaf + b"\n",
        b"-" + leaf + b"\n",
        b"\n",
        b"- AAAA\n",
        b"- " + b"A" * 44 + b"\n",
        b"- " + b"A" * 100 + b"\n",
        b"{}\n",
        b"cut off",
    ]
    _, rows = read_export([HEADER, b"\n", *NEWEST.splitlines(keepends=True), b"\n", *odd])
    found = list(rows)
    assert [row.at for row in found] == list(range(8))
    assert [row.data for row in found] == [
        b"xx" + leaf,
        b"-" + leaf,
        b"",
        b"- AAAA",
        b"- " + b"A" * 44,
        b"- " + b"A" * 100,
        b"{}",
        b"cut off\0",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b""],
        [HEADER],
        [HEADER, b"{}\n"],
        [b"another file\n", b"\n"],
        [HEADER, b"\n", b"{}\n"],
        [HEADER, b"\n", *NEWEST.splitlines(keepends=True)],
        [HEADER, b"\n", b"x" * 70_000],
    ],
)
def test_what_is_no_export_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(InvalidNote):
        read_export(lines)
