"""`lockgate audit verify`: whether a log was changed, and what the answer does not prove."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from lockgate.cli.audit.open_log import (
    MAX_HELD,
    POSTGRES,
    STDIN,
    LogPlace,
    SourceKind,
    find_source_kind,
    had_log,
    open_log,
    parse_held_heads,
    place_from_args,
    read_held_heads,
    read_key,
    read_witness_key,
    shards_from_archive,
    shards_from_exports,
    shards_from_log,
)
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_console, make_visible
from lockgate.cli.times import format_time
from lockgate.core.errors import InvalidNote, JournalDamaged, LockgateError, quoted
from lockgate.core.vocabulary import Receipt
from lockgate.journal import keys
from lockgate.journal.archive import open_piece
from lockgate.journal.log_audit import AuditReport, FaultKind, audit
from lockgate.journal.merkle import HASH
from lockgate.journal.signed_notes import parse_checkpoint, parse_note, parse_vkey
from lockgate.journal.signing import Seal
from lockgate.journal.stores.read_only import NotALog, WrittenMeanwhile
from lockgate.settings.files import read_regular
from lockgate.settings.journal_paths import list_key_files

if TYPE_CHECKING:
    from lockgate.cli.audit.open_log import OpenedShards
    from lockgate.journal.exports import ExportRow
    from lockgate.journal.log import Snapshot
    from lockgate.journal.log_audit import AuditedShard as AuditedShard
    from lockgate.journal.signed_notes import PublicKey

# How often to read a log again that another process writes to while no lock keeps it still.
_TRIES = 5
_LOOK_S = 0.3
_MOST_FAULTS = 25
_LABEL = 11


class _Expectations(NamedTuple):
    """What a log is compared with. `key` is None only if the log was too damaged to name one.

    `kept_elsewhere`: the user gave heads or receipts. `beside`: cosigned heads found beside the log. `after`: the kept
    head after which verification begins.
    """

    held: list[bytes]
    receipts: list[Receipt]
    witnesses: list[PublicKey]
    kept_elsewhere: bool
    key: PublicKey | None = None
    key_from: str = ""
    beside: Sequence[bytes] = ()
    after: bytes = b""


def verify(args: argparse.Namespace) -> Exit:
    held, wrong = _read_held_files(args.held)
    asked = _Expectations(
        held,
        [_parse_receipt(text) for text in args.receipt],
        [read_witness_key(text) for text in args.witness],
        bool(args.held or args.receipt or args.after),
        after=_read_start(args),
    )
    args.log = ""
    place = LogPlace("", None)
    report = AuditReport()
    try:
        logs, exports, archive = _sort_names(args)
        args.log = logs[0] if logs else ""
        if exports or (archive and not logs):
            asked, report = _audit_files(args, exports, archive, asked)
        else:
            place = place_from_args(args)
            asked, report = _audit_log(args, place, asked, archive)
    except NotALog as error:
        # If a log was here before, its loss is tampering. Otherwise the user named the wrong file.
        args.log = args.log or (args.names[0] if args.names else "")
        place = place if place.log or not args.names else place_from_args(args)
        if not asked.kept_elsewhere and not had_log(place, named=bool(args.names)):
            raise
        report.add_fault(1, FaultKind.MISSING, f"the log is gone, or something else is in its place: {error.message}")
    except JournalDamaged as error:
        # The sound records before the damage do not make the log sound.
        report.add_fault(2, FaultKind.CHANGED, f"verification ended early: {error.message}")
    for said in wrong:
        report.add_fault(5, FaultKind.BAD_HELD_HEAD, said)
    return _print_report(report, asked, as_json=args.json)


def _read_held_files(names: Iterable[str]) -> tuple[list[bytes], list[str]]:
    """Return the heads in these files, and what is wrong with the files."""
    found = [read_held_heads(name) for name in names]
    return [note for notes, _ in found for note in notes], [wrong for _, wrong in found if wrong]


def _read_start(args: argparse.Namespace) -> bytes:
    """Return the newest head in the file of --after; empty without one."""
    if not args.after:
        return b""
    if args.held or args.receipt:
        raise LockgateError(
            "--after cannot be combined with --held or --receipt", hint="a whole verification compares those"
        )
    heads, wrong = read_held_heads(args.after)
    if wrong:
        raise LockgateError(wrong)
    return heads[-1]


def _sort_names(args: argparse.Namespace) -> tuple[list[str], list[str], list[str]]:
    """Return the logs, the exports and the files of an archive among the names; raise if they do not go together."""
    found: dict[SourceKind, list[str]] = {kind: [] for kind in SourceKind}
    for name in args.names:
        is_there = name == STDIN or name.startswith(POSTGRES) or os.path.lexists(name)
        found[find_source_kind(name) if is_there else SourceKind.LOG].append(name)
    logs, exports, archive = found.values()
    if len(logs) > 1 or (exports and (logs or archive)):
        raise LockgateError(
            "one log, an archive and its log, or exports of one log are verified at a time",
            hint="a log holds all its shards",
        )
    if args.after and (exports or archive):
        raise LockgateError("--after is for a log alone")
    return logs, exports, archive


def _audit_files(
    args: argparse.Namespace, exports: Sequence[str], archive: Sequence[str], asked: _Expectations
) -> tuple[_Expectations, AuditReport]:
    """Audit exports of one log, the oldest first, or an archive of one."""
    with ExitStack() as stack:
        opened = shards_from_archive(archive) if archive else shards_from_exports(exports, stack)
        key, key_from = _choose_key(args, None, opened)
        asked = asked._replace(key=key, key_from=key_from)
        return asked, _run_audit(opened, asked, key, part=bool(archive))


def _audit_log(
    args: argparse.Namespace, place: LogPlace, asked: _Expectations, archive: Sequence[str] = ()
) -> tuple[_Expectations, AuditReport]:
    """Audit a log, and begin again while another process writes to a file that no lock protects."""
    for left in reversed(range(_TRIES)):
        try:
            return _audit_log_once(args, place, asked, archive)
        except WrittenMeanwhile:
            if not left:
                raise
            sleep(_LOOK_S)
    raise AssertionError("the last try returns or raises")


def _audit_log_once(
    args: argparse.Namespace, place: LogPlace, asked: _Expectations, archive: Sequence[str]
) -> tuple[_Expectations, AuditReport]:
    """Audit a log once, with the cosigned head beside it, and with its archive."""
    notes, wrong, remark = ([], [], []) if asked.after else _read_cosigned_head(place)
    after = [asked.after] if asked.after else []
    pieces = [open_piece(Path(name)) for name in archive]
    if pieces:
        asked = asked._replace(kept_elsewhere=True)
    asked = asked._replace(held=[*asked.held, *notes, *after, *(piece.note for piece in pieces)], beside=notes)
    with open_log(place.log).reading() as view:
        opened = shards_from_log(view, asked.after)
        beside = None if asked.after and opened.vkeys[0] != view.shards()[0].vkey else place.key
        key, key_from = _choose_key(args, beside, opened)
        asked = asked._replace(key=key, key_from=key_from)
        odd = getattr(view, "schema_changes" if asked.after else "oddities", ())
        report = _run_audit(opened, asked, key, live=True, odd=odd)
        if unsealed := _seal_fault(place, view):
            report.add_fault(2, FaultKind.UNSIGNED, unsealed)
    if writable := _writable_fault(place):
        report.add_fault(1, FaultKind.WRITABLE, writable)
    if pieces:
        # Outside the snapshot: PostgreSQL ends one that waits while large files are read.
        alone = asked._replace(held=[], receipts=[], witnesses=[])
        _join_archive(report, _run_audit(shards_from_archive(archive), alone, key, part=True))
    for said in wrong:
        report.add_fault(5, FaultKind.BAD_HELD_HEAD, said)
    report.remarks += [*remark, *_old_spool_remarks(place)]
    return asked, report


def _join_archive(report: AuditReport, archived: AuditReport) -> None:
    """Add what is wrong with the archive of a log. Its heads were held against the log, so the two agree on them."""
    for fault in archived.faults:
        report.add_fault(fault.step, fault.what, f"in the archive: {fault.message}", fault.first, fault.last)
    report.cut += archived.cut
    ends = {head.origin: head.size for head in archived.heads}
    for origin, first, end in report.absent:
        if end > (start := max(first, ends.get(origin, 0))):
            said = f"records {start}–{end - 1} of {quoted(origin)} deleted, and in no archive given here"
            report.add_fault(8, FaultKind.DELETED, said, start, end - 1)
    report.remarks.append(f"the archive holds {format_count(archived.records, 'record')} of this log")


def _old_spool_remarks(place: LogPlace) -> Iterator[str]:
    """Name a folder in which an earlier version kept rulings before it stored them; this version does not read it."""
    folder = f"{place.log}-waiting"
    if os.path.isdir(folder):
        yield (
            f"the folder {quoted(folder, 200)} is from an earlier version: it may hold rulings that were never stored, "
            "and this version does not read it"
        )


def _read_cosigned_head(place: LogPlace) -> tuple[list[bytes], list[str], list[str]]:
    """Return the newest cosigned head, which the journal keeps beside the log: a log without it was rolled back.

    An attacker can replace or remove this file, so it can show that records are missing, never that none are.
    """
    path = place.witnessed
    if path is None or not os.path.lexists(path):
        return [], [], []
    try:
        notes, wrong = parse_held_heads(str(path), read_regular(path, MAX_HELD))
    except PermissionError:
        return [], [], ["the head beside the log that a witness has cosigned may not be read by this user"]
    except OSError as error:
        return [], [f"{quoted(path, 200)} cannot be read: {(error.strerror or type(error).__name__).lower()}"], []
    return notes, [wrong] if wrong else [], []


def _seal_fault(place: LogPlace, view: Snapshot) -> str:
    """Return why the end of the log was not written with the private key, where that key can be read."""
    shards = view.shards()
    for path in list_key_files(place.key) if place.key is not None and shards else ():
        try:
            signer = keys.load(path)
        except LockgateError:
            continue
        if signer.key.vkey == shards[-1].vkey:
            try:
                Seal(signer, keys.verify).check_shards(shards)
            except JournalDamaged as error:
                return error.message
    return ""


def _writable_fault(place: LogPlace) -> str:
    """Return that others may write to the file of a log: they can remove its end, and the key beside it signs anew."""
    if os.name != "posix" or not os.path.exists(place.log) or not os.stat(place.log).st_mode & 0o022:
        return ""
    return f"other accounts may write to {quoted(place.log, 200)}; hint: chmod 600"


def _choose_key(args: argparse.Namespace, beside: Path | None, opened: OpenedShards) -> tuple[PublicKey, str]:
    """Return the key to verify with, and where it came from."""
    if args.key:
        key = read_key(args.key)
        if args.after and key.vkey != opened.vkeys[0]:
            raise LockgateError(
                f"the head of --after is not signed by {quoted(key.name)}", hint="give the key of that head's shard"
            )
        if key.vkey in opened.vkeys[1:]:
            raise LockgateError(
                f"{quoted(key.name)} is a later key of this log", hint="verification begins with the first one"
            )
        return key, "given"
    if beside is not None and os.path.exists(beside):
        try:
            return keys.load(beside).key, "beside"
        except LockgateError:
            # Another user's private key cannot be read, and need not be: the log names its public half.
            pass
    if not opened.vkeys:
        raise LockgateError(
            "the public key is needed", hint="give it with --key; lockgate audit keys prints it where the log is"
        )
    try:
        return parse_vkey(opened.vkeys[0]), "log"
    except InvalidNote as error:
        raise JournalDamaged(f"the log names no key: {error.message}") from error


def _parse_receipt(text: str) -> Receipt:
    origin, _, rest = text.rpartition(":")
    origin, _, index = origin.rpartition(":")
    try:
        leaf = bytes.fromhex(rest)
    except ValueError:
        leaf = b""
    if len(leaf) != HASH or not index.isascii() or not index.isdigit() or len(index) > 18:
        raise LockgateError(
            f"{quoted(text, 120)} is no receipt", hint="write INDEX:HASH, with 64 hexadecimal digits of the leaf hash"
        )
    return Receipt(origin, int(index), leaf)


def _run_audit(
    opened: OpenedShards,
    asked: _Expectations,
    key: PublicKey,
    *,
    live: bool = False,
    part: bool = False,
    odd: Sequence[str] = (),
) -> AuditReport:
    with _show_progress(opened) as shards:
        return audit(
            shards,
            key,
            keys.verify,
            held=asked.held,
            receipts=asked.receipts,
            witnesses=asked.witnesses,
            live=live,
            part=part,
            odd=odd,
        )


@contextmanager
def _show_progress(opened: OpenedShards) -> Iterator[Sequence[AuditedShard]]:
    """Yield the shards, with a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield opened.shards
        return
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=opened.size)

        def counted(rows: Iterable[ExportRow]) -> Iterator[ExportRow]:
            for number, row in enumerate(rows, 1):
                yield row
                if number % 1000 == 0:
                    bar.advance(task, 1000)

        yield [shard._replace(rows=counted(shard.rows)) for shard in opened.shards]


def _print_report(report: AuditReport, asked: _Expectations, *, as_json: bool) -> Exit:
    limits = [*_skipped_claims(report, asked), *_unproved_claims(report, asked)]
    code = Exit.CLEAR if report.sound else Exit.FLAGGED
    if as_json:
        value = {
            "sound": report.sound,
            "records": report.records,
            "skipped": report.skipped,
            "deleted": max(0, report.records - sum(report.kinds.values())) if report.sound else None,
            "kinds": report.kinds,
            "heads": [{"origin": each.origin, "size": each.size, "root": each.root.hex()} for each in report.heads],
            "faults": [
                {"step": each.step, "what": each.what.value, "message": each.message}
                | ({"first": each.first, "last": each.last} if each.first >= 0 else {})
                for each in report.faults
            ],
            "faults_left_out": report.cut,
            "remarks": report.remarks,
            "cosigned": [each._asdict() for each in report.cosigned],
            "not_shown": limits,
            "key": asked.key.vkey if asked.key else "",
            "key_from": asked.key_from,
        }
        print(json.dumps(value, ensure_ascii=True, indent=2))
        return code
    _draw(report, asked, limits)
    return code


def _draw(report: AuditReport, asked: _Expectations, limits: Sequence[str]) -> None:
    screen = make_console()

    def say(label: str, style: str, text: str, after: str = "") -> None:
        """Print text after our own label, so that text from the log cannot begin a line."""
        line = Text.assemble(make_visible(text), (f"  {after}" if after else "", "dim"))
        for at, piece in enumerate(line.wrap(screen, max(20, screen.width - _LABEL), overflow="fold")):
            piece.rstrip()
            screen.print(Text.assemble((f"{'' if at else label:<{_LABEL}}", style), piece), soft_wrap=True)

    if report.sound:
        # An unreadable record is a fault, so in a sound log a record without a kind was deleted.
        gone = report.records - sum(report.kinds.values())
        deleted = f"; the contents of {gone:,} were deleted, as they say" if gone else ""
        waiting = report.records + report.skipped - sum(head.size for head in report.heads)
        signed = f"all but the last {waiting:,}" if waiting else "all of them"
        count = format_count(report.records, "record") + (f" after the first {report.skipped:,}" * bool(asked.after))
        say("sound", "bold green", f"{count}, {signed} as they were signed{deleted}")
    else:
        faults = format_count(len(report.faults) + report.cut, "fault")
        say("broken", "bold red", f"{faults} in {format_count(report.records, 'record')}")
    for fault in report.faults[:_MOST_FAULTS]:
        say("fault", "red", fault.message, f"({fault.what.value}, step {fault.step})")
    if (rest := len(report.faults) + report.cut - _MOST_FAULTS) > 0:
        say("", "", f"and {rest:,} more; --json has the first {len(report.faults)}")
    for head in report.heads:
        say("head", "dim", f"{head.origin}, {format_count(head.size, 'record')}, root {head.root.hex()[:16]}…")
    for each in report.cosigned:
        covers = f"{format_count(each.size, 'record')} of {each.origin} at {format_time(each.time_s * 1000)}"
        say("witness", "dim", f"{each.witness} cosigned {covers}")
    if asked.key is not None:
        # On one line, so that it can be copied.
        screen.print(Text.assemble((f"{'key':<{_LABEL}}", "dim"), make_visible(asked.key.vkey)), soft_wrap=True)
    if report.kinds:
        say("kinds", "dim", ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.kinds.items())))
    for each_said in _cosigned_head_lines(asked):
        say("beside", "dim", each_said)
    for remark in report.remarks:
        say("note", "yellow", remark)
    for at, limit in enumerate(limits):
        say("" if at else "not shown", "yellow", limit)


def _cosigned_head_lines(asked: _Expectations) -> Iterator[str]:
    """Yield a line for each cosigned head that was found beside the log."""
    for note in asked.beside:
        head = parse_checkpoint(parse_note(note).text)
        yield f"a cosigned head of {format_count(head.size, 'record')} of {head.origin}, held against the log" + (
            "" if asked.witnesses else "; --witness checks whose it is"
        )


def _skipped_claims(report: AuditReport, asked: _Expectations) -> Iterator[str]:
    """Yield what a verification after a kept head leaves out."""
    if asked.after:
        yield (
            f"that the first {report.skipped:,} records are still there and unchanged: they were not read, "
            "and only a whole verification does that"
        )


def _unproved_claims(report: AuditReport, asked: _Expectations) -> list[str]:
    """Return what a sound log still does not prove, given what it was compared with."""
    limits: list[str] = []
    if asked.key_from == "beside":
        limits.append("that the key is the right one: it was read from beside the log, where both could be replaced")
    elif asked.key_from == "log":
        limits.append("that the key is the right one: the log itself named it, and so would a forged one; use --key")
    newest = report.heads[-1] if report.heads else None
    if newest is None:
        return limits
    sizes = [0, *(each.index + 1 for each in asked.receipts if each.origin in ("", newest.origin))]
    for note in asked.held:
        try:
            head = parse_checkpoint(parse_note(note).text)
        except InvalidNote:
            continue
        sizes += [head.size] if head.origin == newest.origin else []
    if asked.beside and not asked.kept_elsewhere and asked.witnesses:
        limits.append(
            "that nothing was cut off since the witness cosigned: its head was read from beside the log, "
            "where an older one could have been put"
        )
    elif not asked.kept_elsewhere:
        limits.append(
            "that the holder of the key has not written another history, or cut off the end: "
            "that takes a head kept elsewhere; use --held or --witness"
        )
    if not asked.kept_elsewhere and not asked.witnesses:
        return limits
    if (most := max(sizes)) < newest.size:
        limits.append(
            f"that the holder of the key has not rewritten or cut off {newest.origin} from record {most:,} on: "
            "what was kept elsewhere is older"
        )
    return limits
