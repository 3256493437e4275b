"""Find and open a journal for reading: a log in a file or a database, or exports or an archive of one."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from enum import Enum, auto
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from lockgate.core.errors import InvalidConfig, InvalidNote, LockgateError, quoted
from lockgate.journal import keys
from lockgate.journal.archive import MAGIC, open_piece, shards_from_pieces
from lockgate.journal.exports import HEADER, read_export
from lockgate.journal.log import tree_at_head
from lockgate.journal.log_audit import AuditedShard as AuditedShard
from lockgate.journal.merkle import Frontier
from lockgate.journal.record_search import START, read_rows
from lockgate.journal.signed_notes import COSIGNATURE, parse_checkpoints, parse_vkey
from lockgate.journal.stores.read_only import LogFile, NotALog
from lockgate.settings.journal_paths import path_beside_log

if TYPE_CHECKING:
    from lockgate.journal.log import Shard, Snapshot
    from lockgate.journal.signed_notes import PublicKey

STDIN = "-"
POSTGRES = ("postgresql://", "postgres://")
_SQLITE = b"SQLite format 3\0"
# A record with its newline. A longer line is no record: it is cut, and the audit reports it.
_MOST_LINE = (1 << 16) + 2
MAX_HELD = 64 << 20
_MOST_KEY = 4_096


class ReadableLog(Protocol):
    """A log that can be read, any number of times."""

    def reading(self) -> AbstractContextManager[Snapshot]: ...


class LogPlace(NamedTuple):
    """The place of a journal: a path or a URL, and the file of its first key if that is known."""

    log: str
    key: Path | None

    @property
    def witnessed(self) -> Path | None:
        return None if self.key is None else self.key.with_suffix(".witnessed")


def place_from_args(args: argparse.Namespace) -> LogPlace:
    """Return the log named on the command line, without reading a configuration, or this installation's."""
    if args.log:
        refuse_password(args.log)
        key: Path | None = None
        # A copy of a log may have any name, also one without a key file beside it.
        with suppress(InvalidConfig):
            key = None if args.log.startswith(POSTGRES) else path_beside_log(Path(args.log), ".key")
        return LogPlace(args.log, key)
    # Late: an auditor who names a log needs neither a configuration nor the gate.
    from lockgate import assemble

    files = assemble.journal_files(assemble.settings_from_environment(args.config))
    return LogPlace(str(files.log), files.key)


def had_log(place: LogPlace, *, named: bool) -> bool:
    """Return whether a log was in this place before: then a missing or foreign file there is tampering."""
    if place.key is not None and os.path.lexists(place.key):
        return True
    return not named and os.path.lexists(place.log)


def refuse_password(log: str) -> None:
    """Raise if the URL holds a password: every user of the machine can read command lines."""
    user = log.partition("://")[2].rpartition("@")[0]
    if log.startswith(POSTGRES) and (user.partition(":")[2] or "password=" in log.lower()):
        raise LockgateError(
            "a password does not belong on a command line", hint="set PGPASSWORD, or name a file in PGPASSFILE"
        )


def log_from_args(args: argparse.Namespace) -> ReadableLog:
    return open_log(place_from_args(args).log)


def open_log(name: str) -> ReadableLog:
    """Return the log of this name, for reading only."""
    if name.startswith(POSTGRES):
        if find_spec("psycopg") is None:
            raise InvalidConfig(
                "a log in PostgreSQL needs the package `psycopg`", hint="pip install 'lockgate[postgres]'"
            )
        from lockgate.journal.stores.postgres import PostgresLog

        return PostgresLog(name)
    if not os.path.lexists(name):
        raise NotALog(
            f"there is no journal in {quoted(name, 200)}",
            hint="the first ruling of a gate that was made from a configuration begins it",
        )
    if find_source_kind(name) is not SourceKind.LOG:
        raise LockgateError(
            f"{quoted(name, 200)} is an export or an archive, and no log", hint="only `verify` reads those"
        )
    return LogFile(Path(name))


class SourceKind(Enum):
    """What a name on the command line of `verify` stands for."""

    LOG = auto()
    EXPORT = auto()
    ARCHIVE = auto()


_STARTS = {_SQLITE: SourceKind.LOG, HEADER: SourceKind.EXPORT, MAGIC: SourceKind.ARCHIVE}


def find_source_kind(name: str) -> SourceKind:
    """Return whether this is a log, an export or a file of an archive; raise if it is none of them."""
    if name == STDIN:
        return SourceKind.EXPORT
    if name.startswith(POSTGRES):
        return SourceKind.LOG
    mode = os.stat(name).st_mode
    if stat.S_ISDIR(mode):
        raise LockgateError(f"{quoted(name, 200)} is a folder", hint="name the log, or the exports in it")
    if not stat.S_ISREG(mode):
        raise LockgateError(f"{quoted(name, 200)} is no file", hint="an export can come from standard input, as -")
    with open(name, "rb") as file:
        start = file.read(max(map(len, _STARTS)))
    for magic, kind in _STARTS.items():
        if start.startswith(magic):
            return kind
    what = "neither a log nor an export or archive of one" if start else "empty"
    raise NotALog(f"{quoted(name, 200)} is {what}")


class OpenedShards(NamedTuple):
    """The shards of a log, an archive or exports, for one pass; the number of records claimed; the keys named."""

    shards: Sequence[AuditedShard]
    size: int
    vkeys: Sequence[str]


def shards_from_log(view: Snapshot, after: bytes = b"") -> OpenedShards:
    """Return the shards of a log; with `after`, a head that was kept elsewhere, only what the log has since then."""
    shards, start = view.shards(), Frontier()
    if after:
        first, start = tree_at_head(view, after, keys.verify)
        shards = [shard for shard in shards if shard.number >= first.number]
    return OpenedShards(
        [_audited_shard(view, shard, Frontier() if number else start) for number, shard in enumerate(shards)],
        sum(shard.size for shard in shards) - start.size,
        [shard.vkey for shard in shards],
    )


def _audited_shard(view: Snapshot, shard: Shard, start: Frontier) -> AuditedShard:
    since = start.size or START
    return AuditedShard(
        read_rows(view, shard, since),
        (head.note for head in view.heads(shard.number) if head.size >= since),
        shard.edge,
        shard.vkey,
        shard.signed_edge,
        shard.pruned,
        (head.size for head in view.heads(shard.number) if head.size >= since),
        start if start.size else None,
    )


def shards_from_archive(names: Sequence[str]) -> OpenedShards:
    """Open the files of an archive, in any order within a shard."""
    pieces = [open_piece(Path(name)) for name in names]
    ends = {piece.head.origin: piece.head.size for piece in sorted(pieces, key=lambda piece: piece.head.size)}
    keys_by_origin = {piece.head.origin: piece.vkey for piece in pieces}
    return OpenedShards(shards_from_pieces(pieces), sum(ends.values()), list(keys_by_origin.values()))


def shards_from_exports(names: Sequence[str], stack: ExitStack) -> OpenedShards:
    """Open exports, the oldest first; the stack closes their files."""
    shards: list[AuditedShard] = []
    total = 0
    for name in names:
        file = sys.stdin.buffer if name == STDIN else stack.enter_context(open(name, "rb"))  # noqa: SIM115
        try:
            head, found = read_export(_bounded_lines(file))
        except InvalidNote as error:
            raise LockgateError(f"{quoted(name, 200)}: {error.message}", hint=error.hint) from None
        total += _claimed_size(head)
        shards.append(AuditedShard(found, [head]))
    return OpenedShards(shards, total, ())


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines no longer than a record may be; the rest of a longer line comes as the next."""
    while line := file.readline(_MOST_LINE):
        yield line


def _claimed_size(head: bytes) -> int:
    lines = head.split(b"\n", 2)
    return int(lines[1]) if len(lines) > 1 and lines[1].isdigit() and len(lines[1]) < 19 else 0


def choose_shard(view: Snapshot, origin: str) -> Shard:
    """Return the shard of this name, or the newest; raise if there is none."""
    shards = view.shards()
    found = next((each for each in reversed(shards) if origin in ("", each.origin)), None)
    if found is None:
        names = ", ".join(quoted(each.origin) for each in shards)
        raise LockgateError(
            f"the log has no shard {quoted(origin)}" if origin else "the log is empty",
            hint=f"it has {names}" if names else "",
        )
    return found


def read_body(view: Snapshot, shard: Shard, index: int) -> bytes:
    """Return the bytes of one record; raise if it was deleted or never written."""
    at, data = next(view.bodies(shard.number, index, index + 1), (-1, b""))
    if at == index:
        return data
    gone = next(view.leaves(shard.number, index, index + 1), None) is not None
    raise LockgateError(
        f"record {index} was deleted" if gone else f"there is no record {index} in {quoted(shard.origin)}",
        hint="its hash is still there, and can be proved" if gone else "",
    )


def read_key(given: str) -> PublicKey:
    """Return a public key that was given as text or as a file."""
    if "+" in given and not os.path.exists(given):
        return parse_vkey(given)
    with open(given, "rb") as file:
        text = file.read(_MOST_KEY).decode("utf-8", "replace").strip()
    if text.startswith("PRIVATE+KEY+"):
        return keys.load(Path(given)).key
    return parse_vkey(text)


def read_witness_key(text: str) -> PublicKey:
    """Return the public key of a witness; raise for a log's key, which matches no cosignature."""
    key = read_key(text)
    if key.kind != COSIGNATURE:
        raise LockgateError(
            f"{quoted(key.name)} is the key of a log, and not of a witness",
            hint="a witness prints its own when it starts",
        )
    return key


def read_held_heads(name: str) -> tuple[list[bytes], str]:
    """Return the heads in a file that a person or an anchor kept, and what is wrong with the file."""
    with open(name, "rb") as file:
        return parse_held_heads(name, file.read(MAX_HELD + 1))


def parse_held_heads(name: str, data: bytes) -> tuple[list[bytes], str]:
    """Return the heads in the content of the file `name`, and what is wrong with it."""
    if len(data) > MAX_HELD:
        raise LockgateError(f"{quoted(name, 200)} is too large for a file of heads", hint="keep its end only")
    found = parse_checkpoints(data)
    if not found:
        return [], f"{quoted(name, 200)} holds no head"
    # Only a head at the end, cut off by a crash, may be ignored.
    whole = data.startswith(b"\n".join(found))
    return found, "" if whole else f"{quoted(name, 200)} holds something that is no head"
