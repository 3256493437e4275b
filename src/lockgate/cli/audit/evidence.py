"""`lockgate audit head`, `prove` and `export`: evidence for an outsider."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lockgate.cli.audit.maintain import open_journal
from lockgate.cli.audit.open_log import choose_shard, log_from_args, read_body, read_key, read_witness_key
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_visible
from lockgate.core.errors import InvalidNote, JournalDamaged, LockgateError, quoted
from lockgate.journal import keys
from lockgate.journal.exports import export_lines
from lockgate.journal.log import newest_head, prove_inclusion
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.record_search import read_rows
from lockgate.journal.signed_notes import parse_note, parse_proof, verify_proof, verify_signatures
from lockgate.runtime.private_files import open_replacement

if TYPE_CHECKING:
    from lockgate.journal.exports import ExportRow
    from lockgate.journal.log import Shard, Snapshot

_MOST_PROOF = 1 << 18
_HINT = "lockgate audit verify says more"


def head(args: argparse.Namespace) -> Exit:
    if args.sign:
        with open_journal(args) as (_, journal):
            journal.checkpoint()
    with log_from_args(args).reading() as view:
        note, _ = newest_head(view, choose_shard(view, args.shard), keys.verify)
    _write_pieces(args.out, [note])
    return Exit.CLEAR


def prove(args: argparse.Namespace) -> Exit:
    if args.check is not None:
        return _check_proof(args)
    if args.index is None:
        raise LockgateError("an INDEX is needed", hint="a ruling's receipt has it, and lockgate audit show")
    for name in ("key", "witness"):
        if getattr(args, name) is not None:
            raise LockgateError(f"--{name} has no effect without --check")
    with log_from_args(args).reading() as view:
        shard = choose_shard(view, args.shard)
        proof = prove_inclusion(view, args.index, origin=shard.origin, verify=keys.verify)
        if args.record is not None:
            _write_pieces(args.record, [_record_bytes(view, shard, args.index)])
    _write_pieces(args.out, [proof.to_bytes()])
    return Exit.CLEAR


def _record_bytes(view: Snapshot, shard: Shard, index: int) -> bytes:
    """Return the bytes of a proved record; raise if they do not match its leaf."""
    body = read_body(view, shard, index)
    if (index, leaf_hash(body)) != next(view.leaves(shard.number, index, index + 1), None):
        raise JournalDamaged(f"record {index} was changed: its bytes do not hash to its leaf", hint=_HINT)
    return body


def _check_proof(args: argparse.Namespace) -> Exit:
    if args.record is None or args.key is None:
        raise LockgateError("--check needs --record and --key", hint="the proof, the record and the key it is of")
    if args.index is not None or args.out is not None:
        raise LockgateError("--check takes no INDEX and writes nothing", hint="the index is in the proof")
    key = read_key(args.key)
    witness = None if args.witness is None else read_witness_key(args.witness)
    with open(args.check, "rb") as file, open(args.record, "rb") as record:
        data, body = file.read(_MOST_PROOF), record.read(_MOST_PROOF)
    try:
        proof = parse_proof(data)
        # A record is one line; an editor may have added a newline.
        found = verify_proof(proof, leaf_hash(body.removesuffix(b"\n")), key, keys.verify)
        if witness is not None and witness not in verify_signatures(
            parse_note(proof.checkpoint), [witness], keys.verify
        ):
            raise InvalidNote(f"the witness {quoted(witness.name)} has not cosigned it")
    except InvalidNote as error:
        print(f"not proved: {make_visible(error.message)}")
        return Exit.FLAGGED
    print(make_visible(f"proved: this is record {proof.index} of {found.size:,} in {found.origin}"))
    return Exit.CLEAR


def export(args: argparse.Namespace) -> Exit:
    with log_from_args(args).reading() as view:
        numbered = list(enumerate(view.shards(), 1))
        if args.shard:
            chosen = choose_shard(view, args.shard)
            numbered = [each for each in numbered if each[1] == chosen]
        if not numbered:
            raise LockgateError("the log is empty")
        if args.out is None:
            if len(numbered) > 1:
                names = ", ".join(quoted(shard.origin) for _, shard in numbered)
                raise LockgateError(
                    f"the log has {len(numbered)} shards, each of which is a file of its own",
                    hint=f"name a folder with --out, or one of {names} with --shard",
                )
            _refuse_changed(view, numbered[0][1])
            _write_pieces(None, _lines_of_export(view, numbered[0][1]))
            return Exit.CLEAR
        for _, shard in numbered:
            _refuse_changed(view, shard)
        os.makedirs(args.out, mode=0o700, exist_ok=True)
        for number, shard in numbered:
            name = os.path.join(args.out, f"{number:04}.export")
            lines = _write_pieces(name, _lines_of_export(view, shard))
            print(make_visible(f"{name}: {format_count(lines - 4, 'record')} of {shard.origin}"))
        print(make_visible(f"key: {view.shards()[0].vkey}"))
    return Exit.CLEAR


def _refuse_changed(view: Snapshot, shard: Shard) -> None:
    """Raise if the shard was changed, before a byte is written: half an export could be taken for the whole."""
    for _ in _lines_of_export(view, shard):
        pass


def _lines_of_export(view: Snapshot, shard: Shard) -> Iterator[bytes]:
    """Return the lines of an export up to the newest head, which signs them; later records are not verifiable yet."""
    note, covered = newest_head(view, shard, keys.verify)
    return export_lines(note, _check_rows(islice(read_rows(view, shard), covered.size), covered.size))


def _check_rows(found: Iterable[ExportRow], size: int) -> Iterator[ExportRow]:
    """Yield these rows; raise if one is missing or does not match its leaf."""
    count = 0
    for row in found:
        if row.at != count:
            raise JournalDamaged(f"record {count} is missing", hint=_HINT)
        if row.data is not None and leaf_hash(row.data) != row.leaf:
            raise JournalDamaged(f"record {count} was changed: its bytes do not hash to its leaf", hint=_HINT)
        yield row
        count += 1
    if count != size:
        raise JournalDamaged(f"record {count} is missing: the head says {size}", hint=_HINT)


def _write_pieces(name: str | None, pieces: Iterable[bytes]) -> int:
    """Write to a new file, whole or not at all, or to standard output; return the number of pieces."""
    count = 0

    def into(file: BinaryIO) -> None:
        nonlocal count
        for piece in pieces:
            file.write(piece)
            count += 1

    if name is None:
        sys.stdout.flush()
        into(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return count
    if os.path.lexists(name):
        raise LockgateError(f"there is a file {quoted(name, 200)} already", hint="name another, or move it away")
    with open_replacement(Path(name)) as file:
        into(file)
    return count
