"""Cut the inputs of a bulk audit into pieces: the unit of work, of progress, and of what is done already."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from lockgate.bulk.arrow import check_columns, sessions_in
from lockgate.bulk.trace_rulings import line_parts, lines_in, parse_lines
from lockgate.coding_agents.opencode_database import is_database
from lockgate.core.errors import InvalidTrace, LockgateError
from lockgate.runtime.arrow import require_pyarrow
from lockgate.sessions.trace_format import Event, SessionStart, TraceHeader

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

PARQUET = ".parquet"
PACKED = ".gz"
# Large enough that handing a piece over costs nothing beside ruling on it, small enough that little is done twice.
_SESSIONS_IN_PIECE = 100
# What a packed file may unpack to: its events are in memory together, and a few kilobytes can hold gigabytes.
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
# What the event of a short line takes there.
_LEAST_EVENT_BYTES = 256
# What a Parquet file may hold for each byte of it, and at least: every row can name the same long trace.
_MOST_TIMES = 200
_LEAST_HELD_BYTES = 64 * 1024 * 1024
_ROWS_AT_ONCE = 16
# What may be the start of a session: JSON can spell out a letter of the key.
_SESSION_LINE = re.compile(rb'\s*\{\s*"(?:session"|[^"]{0,99}\\)')


def log_beside(path: str) -> str:
    """Return where SQLite keeps what it has not yet written into the database of this path."""
    return f"{path}-wal"


class InputPiece(NamedTuple):
    """A part of one input that can be audited alone.

    `start` and `end` are offsets in bytes, or of a row group in Parquet; `session` and `line` count what came before.
    `digest` is of the content, so that a changed input is not taken for one that is done.
    """

    path: str
    digest: str
    size: int
    start: int = 0
    end: int = 0
    session: int = 0
    line: int = 0

    @property
    def name(self) -> str:
        """Return what the piece is called in the manifest."""
        return f"{self.path}:{self.start}-{self.end}:{self.digest}"


def whole_file(path: str) -> InputPiece:
    """Return a file as one piece; the log beside a database is part of it, since it holds what was written last."""
    digest, size = sha256(), 0
    log = log_beside(path)
    # Nothing else of that name is opened: a pipe or a link to a device never ends.
    for each in (path, log) if is_database(path) and os.path.isfile(log) else (path,):
        with open(each, "rb") as stream:
            while data := stream.read(1 << 20):
                digest.update(data)
            size += stream.tell()
    return InputPiece(path, digest.hexdigest()[:32], size, end=size)


class InputChanged(LockgateError):
    """An input is not what it was when the audit began: what was read of it stands for nothing."""


def check_unchanged(piece: InputPiece, digest: str | None = None) -> None:
    """Raise InputChanged unless what was read of a piece, or its whole file now, is what was cut."""
    if (digest or whole_file(piece.path).digest) != piece.digest:
        raise InputChanged("changed while it was read")


def cut_trace(path: str, sessions: int = _SESSIONS_IN_PIECE) -> Iterator[InputPiece]:
    """Yield pieces of so many sessions each; every piece but the first begins with the start of a session."""
    if path.endswith(PARQUET):
        yield from _cut_parquet(path)
        return
    if path.endswith(PACKED):
        yield whole_file(path)
        return
    with open(path, "rb") as stream:
        digest, start, first_session, first_line = sha256(), 0, 0, 0
        seen, line, at, has_begun = 0, 0, 0, False
        for begins, data in line_parts(stream, None):
            if begins and (not has_begun or _SESSION_LINE.match(data)):
                event = _event_in(data, line)
                is_start = isinstance(event, SessionStart)
                if is_start and seen and seen % sessions == 0:
                    yield InputPiece(path, digest.hexdigest()[:32], at - start, start, at, first_session, first_line)
                    digest, start, first_session, first_line = sha256(), at, seen, line
                # As `rule_on_events` counts: a trace may begin with a session that has no line of its own.
                seen += is_start or not (has_begun or isinstance(event, TraceHeader | InvalidTrace | None))
                has_begun = has_begun or not isinstance(event, TraceHeader | None)
            digest.update(data)
            line += begins
            at += len(data)
        if at > start or not at:
            yield InputPiece(path, digest.hexdigest()[:32], at - start, start, at, first_session, first_line)


def _event_in(data: bytes, before: int) -> Event | InvalidTrace | None:
    return next((event for _, event in parse_lines([data], before)), None)


def _cut_parquet(path: str) -> Iterator[InputPiece]:
    require_pyarrow()
    from pyarrow import parquet

    with _refuse_damaged(), parquet.ParquetFile(path) as file:
        sessions = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).total_byte_size
            piece = InputPiece(path, "damaged", size, group, group + 1, sessions)
            digest = sha256()
            with suppress(InvalidTrace):
                # Its reader will say what is wrong with it.
                for row in _stored_rows(piece):
                    _add_row(digest, row)
                piece = piece._replace(digest=digest.hexdigest()[:32])
            yield piece
            sessions += file.metadata.row_group(group).num_rows


def read_events(piece: InputPiece) -> Iterator[tuple[int, Event | InvalidTrace]]:
    """Yield the events of a piece of a trace with their numbers in the whole file, as `parse_lines` does.

    Raise InputChanged at the end if they are not those that were cut.
    """
    return parse_lines(_lines(piece), piece.line)


def _lines(piece: InputPiece) -> Iterator[bytes]:
    with open(piece.path, "rb") as raw:
        if piece.path.endswith(PACKED):
            yield from unpacked_lines(raw)
            check_unchanged(piece)
            return
        digest = sha256()
        raw.seek(piece.start)
        for begins, data in line_parts(raw, piece.end):
            digest.update(data)
            if begins:
                yield data
        check_unchanged(piece, digest.hexdigest()[:32])


def unpacked_lines(raw: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a gzipped file; raise InvalidTrace where it is damaged, or unpacks to more than fits."""
    left = MAX_UNPACKED_BYTES
    try:
        for data in lines_in(cast(BinaryIO, gzip.GzipFile(fileobj=raw))):
            left -= max(len(data), _LEAST_EVENT_BYTES)
            if left < 0:
                raise InvalidTrace(
                    f"the packed file unpacks to more than {MAX_UNPACKED_BYTES:,} bytes",
                    hint="unpack it, or pack its sessions into several files",
                )
            yield data
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InvalidTrace("the packed file is damaged, or ends too early") from None


@contextmanager
def _refuse_damaged() -> Iterator[None]:
    try:
        yield
    except (require_pyarrow().ArrowException, OSError) as error:
        # Arrow's own have no number.
        if getattr(error, "errno", None) is not None:
            raise
        raise InvalidTrace("no Parquet file, or a damaged one") from None


def read_row_group(piece: InputPiece) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name and the trace of each session in a piece of a Parquet file; at the end as `read_events`."""
    digest = sha256()
    for row in _stored_rows(piece):
        _add_row(digest, row)
        yield row
    check_unchanged(piece, digest.hexdigest()[:32])


def _add_row(digest: Hash, row: tuple[str, bytes | None]) -> None:
    session, trace = row
    for part in (session.encode("utf-8", "surrogatepass"), trace):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)


def _stored_rows(piece: InputPiece) -> Iterator[tuple[str, bytes | None]]:
    require_pyarrow()
    from pyarrow import parquet

    with _refuse_damaged(), parquet.ParquetFile(piece.path) as file:
        check_columns(file.schema_arrow.names)
        left = max(_LEAST_HELD_BYTES, _MOST_TIMES * os.path.getsize(piece.path))
        size = file.metadata.row_group(piece.start).total_byte_size
        _check_held(left - size, piece)
        # Each of these rows may be as large as all that is stored.
        rows = min(_ROWS_AT_ONCE, _LEAST_HELD_BYTES // max(1, size)) or 1
        for batch in file.iter_batches(rows, row_groups=[piece.start], columns=["session", "trace"]):
            for session, trace in sessions_in(batch):
                left -= len(trace or b"")
                _check_held(left, piece)
                yield session, trace


def _check_held(left: int, piece: InputPiece) -> None:
    if left < 0:
        raise InvalidTrace(
            f"row group {piece.start + 1} expands to far more than its file holds",
            hint=f"a file may expand to {_MOST_TIMES} times its size",
        )
