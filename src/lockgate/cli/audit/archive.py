"""`lockgate audit archive`: records in Parquet files, verified before anything relies on them.

1. Look.    Which records the folder has already, by the heads of its files.
2. Write.   The next records of each shard, up to a signed head, to a new file: whole and on the disk, or not at all.
3. Verify.  All files of the folder together, from record 0, and their newest heads against the log. Every record's
            contents must be there, unless the user accepts that the log had deleted them before.
4. Only then the records count as archived, and `lockgate audit prune --archive` may delete them from the log.

If step 3 fails, the new files are removed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import NamedTuple

from lockgate.cli.audit.open_log import ReadableLog, log_from_args
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_visible
from lockgate.core.errors import JournalDamaged, LockgateError, quoted
from lockgate.journal import keys
from lockgate.journal.archive import ENDING, ArchivePiece, find_due_pieces, open_piece, shards_from_pieces, write_piece
from lockgate.journal.log import Snapshot, check_held_head
from lockgate.journal.log_audit import audit
from lockgate.journal.retention import DAY_MS
from lockgate.journal.signed_notes import PublicKey, parse_vkey
from lockgate.runtime.arrow import require_pyarrow
from lockgate.runtime.private_files import locked_file


class Archived(NamedTuple):
    """A verified archive: the files that are new, and by origin how many records of the log it holds."""

    new: list[Path]
    ends: dict[str, int]


def archive(args: argparse.Namespace) -> Exit:
    with archived_log(log_from_args(args), Path(args.out), args.days, accept_deleted=args.accept_deleted) as done:
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
def archived_log(
    log: ReadableLog, folder: Path, days: int | None, *, accept_deleted: bool = False
) -> Iterator[Archived]:
    """Archive what is older than so many days, or all, and verify it; no other process archives there meanwhile."""
    require_pyarrow()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with locked_file(folder / ".lock"):
        old_ms = None if days is None else int(time() * 1000) - days * DAY_MS
        new: list[Path] = []
        try:
            with log.reading() as view:
                if not (shards := view.shards()):
                    raise LockgateError("the log is empty")
                _extend(view, folder, old_ms, new)
            # Outside the snapshot: PostgreSQL ends one that waits while large files are read.
            newest = _verify(folder, parse_vkey(shards[0].vkey), accept_deleted=accept_deleted)  # 3.
            with log.reading() as view:
                for piece in newest:
                    check_held_head(view, piece.note, keys.verify)
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            raise
        yield Archived(new, {piece.head.origin: piece.head.size for piece in newest})


def _extend(view: Snapshot, folder: Path, old_ms: int | None, new: list[Path]) -> None:
    archived = {piece.head.origin: piece.head.size for piece in _open_pieces(folder)}  # 1.
    for due in find_due_pieces(view, archived, old_ms, keys.verify):
        path = folder / due.name
        if os.path.lexists(path):
            # A file that is no part of this archive: of another log, or not to be read.
            raise LockgateError(f"there is a file {quoted(path, 200)} already", hint="name another folder")
        new.append(path)
        write_piece(view, due, folder)  # 2.


def _open_pieces(folder: Path) -> list[ArchivePiece]:
    """Return the files of the archive, those of a shard in order."""
    return [open_piece(path) for path in sorted(folder.glob(f"*{ENDING}"))]


def _verify(folder: Path, key: PublicKey, *, accept_deleted: bool) -> Collection[ArchivePiece]:
    """Return the last file of each shard, once all files are verified."""
    pieces = _open_pieces(folder)
    if not pieces:
        return ()
    report = audit(shards_from_pieces(pieces), key, keys.verify, part=True, accept_deleted=accept_deleted)
    if not report.sound:
        raise JournalDamaged(
            f"the archive is not sound, so nothing was added: {report.faults[0].message}",
            hint="bring lost files back; --accept-deleted is for records that were deleted before they were archived"
            if report.absent
            else "lockgate audit verify, of the log and of the files, says more",
        )
    return {piece.head.origin: piece for piece in pieces}.values()
