"""`lockgate audit archive`: records in Parquet files, verified before anything relies on them.

1. Look.    Which records the folder has already, by the heads of its files.
2. Write.   The next records of each shard, up to a signed head, to a new file: whole and on the disk, or not at all.
3. Verify.  All files of the folder together, from record 0, and their newest heads against the log.
4. Only then the records count as archived, and `lockgate audit prune --archive` may delete them from the log.

If step 3 fails, the new files are removed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import NamedTuple

from lockgate.cli.audit.open_log import ReadableLog, log_from_args
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_visible
from lockgate.core.errors import JournalDamaged, LockgateError, quoted
from lockgate.core.journal.log_audit import audit
from lockgate.core.journal.signed_notes import parse_vkey
from lockgate.journal import keys
from lockgate.journal.archive import ENDING, ArchivePiece, find_due_pieces, open_piece, shards_from_pieces, write_piece
from lockgate.journal.log import Snapshot, check_held_head
from lockgate.journal.retention import DAY_MS
from lockgate.runtime.arrow import require_pyarrow
from lockgate.runtime.private_files import locked_file


class Archived(NamedTuple):
    """A verified archive: the files that are new, and by origin how many records of the log it holds."""

    new: list[Path]
    ends: dict[str, int]


def archive(args: argparse.Namespace) -> Exit:
    with archived_log(log_from_args(args), Path(args.out), args.days) as done:
        pass
    if args.json:
        print(json.dumps({"new": [str(path) for path in done.new], "archived": done.ends}, ensure_ascii=True))
        return Exit.CLEAR
    for path in done.new:
        print(make_visible(str(path)))
    print("verified:" if done.new else "nothing new to archive; verified:")
    for origin, end in done.ends.items():
        print(make_visible(f"  the first {format_count(end, 'record')} of {origin}"))
    return Exit.CLEAR


@contextmanager
def archived_log(log: ReadableLog, folder: Path, days: int | None) -> Iterator[Archived]:
    """Archive what is older than so many days, or all, and verify it; no other process archives there meanwhile."""
    require_pyarrow()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with locked_file(folder / ".lock"):
        with log.reading() as view:
            if not view.shards():
                raise LockgateError("the log is empty")
            done = _extend(view, folder, None if days is None else int(time() * 1000) - days * DAY_MS)
        yield done


def _extend(view: Snapshot, folder: Path, old_ms: int | None) -> Archived:
    archived = {piece.head.origin: piece.head.size for piece in _open_pieces(folder)}  # 1.
    new: list[Path] = []
    try:
        for due in find_due_pieces(view, archived, old_ms, keys.verify):
            path = folder / due.name
            if os.path.lexists(path):
                # A file that is no part of this archive: of another log, or not to be read.
                raise LockgateError(f"there is a file {quoted(path, 200)} already", hint="name another folder")
            new.append(path)
            write_piece(view, due, folder)  # 2.
        return Archived(new, _verified_ends(view, folder))  # 3.
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise


def _open_pieces(folder: Path) -> list[ArchivePiece]:
    """Return the files of the archive, those of a shard in order."""
    return [open_piece(path) for path in sorted(folder.glob(f"*{ENDING}"))]


def _verified_ends(view: Snapshot, folder: Path) -> dict[str, int]:
    pieces = _open_pieces(folder)
    if not pieces:
        return {}
    report = audit(shards_from_pieces(pieces), parse_vkey(view.shards()[0].vkey), keys.verify, part=True)
    if not report.sound:
        raise JournalDamaged(
            f"the archive is not sound, so nothing was added: {report.faults[0].message}",
            hint="lockgate audit verify, of the log and of the files, says more",
        )
    newest = {piece.head.origin: piece for piece in pieces}
    for piece in newest.values():
        check_held_head(view, piece.note, keys.verify)
    return {origin: piece.head.size for origin, piece in newest.items()}
