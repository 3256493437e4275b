"""A shard of the journal as one text file: its signed head, then one record on each line.

    lockgate journal export/1

    ORIGIN, SIZE and ROOT, an empty line, and the lines of signatures

    {"action":"CONTINUE",…}
    - BASE64 OF A LEAF'S HASH

The n-th line after the head is record n, counted from 0. A record that retention has deleted is written as `- ` and
the hash of its leaf. Records contain no raw newline, so a line is exactly the bytes that were hashed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lockgate.core.errors import InvalidNote
from lockgate.journal.merkle import HASH, leaf_hash
from lockgate.journal.signed_notes import MAX_NOTE

HEADER = b"lockgate journal export/1\n"


class ExportRow(NamedTuple):
    """One record as it is stored: its index, the hash of its leaf, and its bytes unless they were deleted."""

    at: int
    leaf: bytes
    data: bytes | None


def export_lines(checkpoint: bytes, rows: Iterable[ExportRow]) -> Iterator[bytes]:
    """Yield the lines of the export file. `rows` are all rows that the checkpoint covers, from index 0."""
    yield HEADER
    yield b"\n"
    yield checkpoint
    yield b"\n"
    for row in rows:
        yield b"- " + b64encode(row.leaf) + b"\n" if row.data is None else row.data + b"\n"


def read_export(lines: Iterable[bytes]) -> tuple[bytes, Iterator[ExportRow]]:
    """Return the signed head and the rows of an export file. Pass lines with their newlines, as a binary file has them.

    Raise InvalidNote for a file that is no export. A line that is no record becomes a row that does not verify: the
    audit reports it.
    """
    found = iter(lines)
    if next(found, b"") != HEADER or next(found, b"") != b"\n":
        raise InvalidNote("not an export of a journal", hint=f"its first line is `{HEADER.decode().strip()}`")
    head: list[bytes] = []
    gaps, size = 0, 0
    for line in found:
        gaps += line == b"\n"
        size += len(line)
        if gaps == 2 or size > MAX_NOTE:
            break
        head.append(line)
    if gaps != 2:
        raise InvalidNote("an export of a journal begins with its signed head")
    return b"".join(head), _rows(found)


def _rows(lines: Iterator[bytes]) -> Iterator[ExportRow]:
    for at, line in enumerate(lines):
        # A last line without a newline was cut off, and so is a line that the caller found too long.
        data = line[:-1] if line.endswith(b"\n") else line + b"\x00"
        leaf = _deleted_leaf(data)
        yield ExportRow(at, leaf_hash(data), data) if leaf is None else ExportRow(at, leaf, None)


def _deleted_leaf(data: bytes) -> bytes | None:
    if not data.startswith(b"- ") or len(data) > 64:
        return None
    try:
        leaf = b64decode(data[2:], validate=True)
    except (Base64Error, ValueError):
        return None
    return leaf if len(leaf) == HASH and b64encode(leaf) == data[2:] else None
