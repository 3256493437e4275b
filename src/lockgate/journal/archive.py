"""The journal's archive: Parquet files from which the records, and every proof, can still be verified.

A file is a piece of one shard: rows that follow each other, with the columns

    index   int64        the record's number in its shard
    leaf    binary (32)  the hash of its leaf
    record  binary       the exact bytes that were hashed; null if retention had deleted them before

and two entries in its metadata: `lockgate.head`, the signed head whose last record is the last row, and
`lockgate.vkey`, the shard's public key. The pieces of a shard, in order, hold it from record 0 to the head of the last.
An archive is verified as a log is, by the same steps: all pieces together, from record 0, against the signed heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lockgate.core.errors import InvalidNote, JournalDamaged, quoted
from lockgate.journal.exports import ExportRow
from lockgate.journal.log_audit import AuditedShard
from lockgate.journal.merkle import HASH
from lockgate.journal.record import MAX_RECORD
from lockgate.journal.record_search import read_rows
from lockgate.journal.retention import find_old_records
from lockgate.journal.signed_notes import parse_checkpoint, parse_note
from lockgate.runtime.arrow import require_pyarrow
from lockgate.runtime.private_files import open_replacement

if TYPE_CHECKING:
    from lockgate.journal.log import Head, Shard, Snapshot
    from lockgate.journal.signed_notes import Checkpoint, Verify

MAGIC = b"PAR1"
ENDING = ".parquet"
_HEAD, _VKEY = b"lockgate.head", b"lockgate.vkey"
# Some 10 MB of records: what is in memory at a time.
_ROWS_AT_ONCE = 16_384
# A stranger's records may all be of the largest size.
_ROWS_READ_AT_ONCE = 256
# With these, what a column unpacks to is as large as it says: no value stands for many rows.
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"}


class ArchivePiece(NamedTuple):
    """One file of an archive: the head in it, what the head claims, and the key that it names. Nothing is checked."""

    path: Path
    note: bytes
    head: Checkpoint
    vkey: str


class DuePiece(NamedTuple):
    """What is to be archived next of a shard: the records from `first` up to a stored head."""

    shard: Shard
    first: int
    head: Head

    @property
    def name(self) -> str:
        return f"{self.shard.number:04}-{self.first:012}{ENDING}"


def open_piece(path: Path) -> ArchivePiece:
    """Return what the metadata of an archive's file says; raise JournalDamaged if it is none."""
    with _refuse_damaged(path), _open_parquet(path) as file:
        about = file.schema_arrow.metadata or {}
        columns = file.schema_arrow.remove_metadata()
    try:
        note = about[_HEAD]
        head, vkey = parse_checkpoint(parse_note(note).text), about[_VKEY].decode("utf-8")
    except (KeyError, UnicodeDecodeError, InvalidNote):
        raise JournalDamaged(f"the archive {quoted(path, 200)} holds no signed head") from None
    if columns != _schema():
        raise JournalDamaged(f"the archive {quoted(path, 200)} has other columns than an archive of a journal")
    return ArchivePiece(path, note, head, vkey)


def shards_from_pieces(pieces: Sequence[ArchivePiece]) -> list[AuditedShard]:
    """Return the shards of an archive for one audit, in the order in which their first pieces were given."""
    by_origin: dict[str, list[ArchivePiece]] = {}
    for piece in pieces:
        by_origin.setdefault(piece.head.origin, []).append(piece)
    shards = []
    for found in by_origin.values():
        found.sort(key=lambda piece: piece.head.size)
        rows = chain.from_iterable(_read_rows(piece.path) for piece in found)
        shards.append(AuditedShard(rows, [piece.note for piece in found], vkey=found[0].vkey))
    return shards


def find_due_pieces(
    log: Snapshot, archived: Mapping[str, int], old_ms: int | None, verify: Verify
) -> Iterator[DuePiece]:
    """Yield what is older than this and not yet archived, oldest first; None is for all records that are signed.

    `archived` has the number of archived records by origin. A piece ends with a stored head, so that a signature
    covers it: up to a second of older records wait for the next piece. Records that were deleted before they were
    archived are explained only by a prune record, which is younger: then everything is archived.
    """
    shards = log.shards()
    if any(shard.pruned > archived.get(shard.origin, 0) for shard in shards):
        old_ms = None
    old = {} if old_ms is None else find_old_records(log, old_ms, verify)
    for shard in shards:
        end, done = shard.size if old_ms is None else old.get(shard.number, 0), archived.get(shard.origin, 0)
        # Only the newest one that fits: heads are many.
        head = None
        for each in log.heads(shard.number):
            if each.size > end:
                break
            head = each
        if head is not None and head.size > done:
            yield DuePiece(shard, done, head)
        if max(done, head.size if head else 0) < shard.size:
            # The archive of a shard proves nothing unless the one before it is whole.
            return


def write_piece(log: Snapshot, due: DuePiece, folder: Path) -> Path:
    """Write a piece to a new file, whole or not at all; return its path. It survives a power cut from then on."""
    pyarrow = require_pyarrow()
    from pyarrow import parquet

    schema = _schema().with_metadata({_HEAD: due.head.note, _VKEY: due.shard.vkey.encode()})
    path = folder / due.name
    rows = read_rows(log, due.shard, due.first, due.head.size)
    with (
        open_replacement(path) as file,
        parquet.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=False,
            column_encoding={"index": "DELTA_BINARY_PACKED"},
            store_schema=True,
        ) as writer,
    ):
        while batch := list(islice(rows, _ROWS_AT_ONCE)):
            # A row without a leaf of 32 bytes is damage, which the audit of the piece reports.
            leaves = [row.leaf if len(row.leaf) == HASH else None for row in batch]
            columns = ([row.at for row in batch], leaves, [row.data for row in batch])
            arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(arrays, schema=schema))
    return path


def _read_rows(path: Path) -> Iterator[ExportRow]:
    with _refuse_damaged(path), _open_parquet(path) as file:
        _refuse_bomb(path, file.metadata)
        for batch in file.iter_batches(batch_size=_ROWS_READ_AT_ONCE):
            yield from _rows_of_columns(*(batch.column(name).to_pylist() for name in _schema().names))


def _refuse_bomb(path: Path, about: Any) -> None:
    """Raise JournalDamaged for a file that says it unpacks to more than its rows can hold."""
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            # A page of few rows has a head of its own.
            most = (group.num_rows + 1) * (MAX_RECORD + 64)
            if column.total_uncompressed_size > most or not _ENCODINGS.issuperset(column.encodings):
                raise JournalDamaged(f"the archive {quoted(path, 200)} unpacks to more than its records can hold")


def _rows_of_columns(
    indexes: Iterable[int | None], leaves: Iterable[bytes | None], records: Iterable[bytes | None]
) -> Iterator[ExportRow]:
    for at, leaf, data in zip(indexes, leaves, records, strict=True):
        # What is null in a forged file cannot match anything: the audit reports it.
        yield ExportRow(-1 if at is None else at, leaf or b"", data)


def _open_parquet(path: Path) -> Any:
    require_pyarrow()
    from pyarrow import parquet

    return parquet.ParquetFile(path, memory_map=False, pre_buffer=False)


def _schema() -> Any:
    pyarrow = require_pyarrow()
    return pyarrow.schema([("index", pyarrow.int64()), ("leaf", pyarrow.binary(HASH)), ("record", pyarrow.binary())])


@contextmanager
def _refuse_damaged(path: Path) -> Iterator[None]:
    pyarrow = require_pyarrow()
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise JournalDamaged(f"the archive {quoted(path, 200)} cannot be read: {quoted(said.lower(), 120)}") from error
