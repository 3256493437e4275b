"""Offline verification of a journal. It needs only the rows, the signed heads and the first shard's public key.

1. Head.      Each stored head is signed by the shard's key and names the shard; the newest head gives the size.
2. Rows.      Indexes run from 0 without a gap or a duplicate, up to the size in the newest head.
3. Leaves.    Each record's bytes hash to the leaf stored beside them.
4. Roots.     The leaves hash to the root of every stored head.
5. Held.      They match every head and every receipt that was kept elsewhere. This is the only step that an attacker
              with the log's key cannot pass with another history.
6. Records.   Each is canonical, and of a known kind with exactly its fields.
7. Sequence.  In each run the numbers rise from 1 without a hole or a duplicate, except those in a `gap` record.
8. Deleted.   A `prune` record covers every record without bytes, and everything that the store allows to be deleted.
              An archive has the bytes of every record: it is the copy that records are deleted for.
9. Shards.    A shard ends with the rotation to the next shard's key, and the next shard opens with its signed head.
              After a rotation there is a next shard.

A failed step is a fault, which says what was done to the log. A remark is only worth knowing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from typing import NamedTuple

from lockgate.core.errors import InvalidNote, InvalidRecord, quoted
from lockgate.core.vocabulary import Receipt
from lockgate.journal.exports import ExportRow
from lockgate.journal.merkle import HASH, Frontier, leaf_hash
from lockgate.journal.record import parse_record
from lockgate.journal.signed_notes import (
    Checkpoint,
    PublicKey,
    Verify,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    verify_signatures,
)

# In a log that was replaced as a whole, every record is a fault.
MAX_FAULTS = 100
# The clocks of several hosts differ, and clocks are adjusted: less than this is not worth a remark.
CLOCK_BACK_MS = 2_000
_MOST_CHANGED = 10_000


class FaultKind(StrEnum):
    """The kind of a fault; other programs may rely on these words."""

    BAD_HEAD = "bad-head"
    MISSING = "missing"
    OUT_OF_ORDER = "out-of-order"
    UNSIGNED = "unsigned"
    CHANGED = "changed"
    EXCHANGED = "exchanged"
    REWRITTEN = "rewritten"
    ROLLED_BACK = "rolled-back"
    BAD_HELD_HEAD = "bad-held-head"
    NOT_A_RECORD = "not-a-record"
    REPEATED = "repeated"
    HOLE = "hole"
    DELETED = "deleted"
    SHARD = "shard"
    WRITABLE = "writable"


class Fault(NamedTuple):
    """One fault: the step that found it, its kind and message, and the records concerned, if they are known."""

    step: int
    what: FaultKind
    message: str
    first: int = -1
    last: int = -1


class AuditedShard(NamedTuple):
    """One shard as it is stored: its rows in order, and its signed heads, smallest first; one head is enough.

    Both are read once, side by side: a log need not fit into memory. The other fields are the store's claims, which
    the audit checks: `edge` and `signed_edge`, the tree of all records and that of the newest head
    (`Frontier.to_bytes`); `vkey`, the shard's key; `pruned`, below which records may be deleted; `sizes` of the heads.

    With `start`, the tree of the first records, the rows and the heads begin there: what came before was verified when
    its head was taken. The caller must have compared the tree with the root of that head.
    """

    rows: Iterable[ExportRow]
    heads: Iterable[bytes]
    edge: bytes = b""
    vkey: str = ""
    signed_edge: bytes = b""
    pruned: int = 0
    sizes: Iterable[int] | None = None
    start: Frontier | None = None

    @property
    def first(self) -> int:
        """The index at which the rows begin."""
        return self.start.size if self.start else 0


class Cosigned(NamedTuple):
    """A head that a witness has cosigned: at that time it knew no larger head and no other history."""

    witness: str
    origin: str
    size: int
    time_s: int


@dataclass(slots=True)
class AuditReport:
    """The result of an audit. A log is `sound` if it has a signed head and no fault.

    `heads` are the newest of each shard, `kinds` counts the records by kind, `cut` counts the faults beyond the limit.
    `cosigned` has the newest head that each given witness has signed. `skipped` counts the records before `start`.
    `absent` has the ranges of records without bytes: the shard's origin, the first index, and the end.
    """

    faults: list[Fault] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    heads: list[Checkpoint] = field(default_factory=list)
    cosigned: list[Cosigned] = field(default_factory=list)
    records: int = 0
    skipped: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    absent: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return bool(self.heads) and not self.faults

    def add_fault(self, step: int, what: FaultKind, message: str, first: int = -1, last: int = -1) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(step, what, message, first, last))
        else:
            self.cut += 1


def audit(
    shards: Sequence[AuditedShard],
    key: PublicKey,
    verify: Verify,
    *,
    held: Sequence[bytes] = (),
    receipts: Sequence[Receipt] = (),
    witnesses: Sequence[PublicKey] = (),
    live: bool = False,
    part: bool = False,
    accept_deleted: bool = False,
    odd: Sequence[str] = (),
) -> AuditReport:
    """Verify a journal by the steps above. `shards` are oldest first, and `key` is the key of the first shard.

    `held` are signed heads that were kept elsewhere, `receipts` likewise; a receipt with an empty origin is for the
    last shard. Each of the `witnesses` must have cosigned one of the held heads. A `live` log, which can still be
    written to, may contain records that its next head will cover; an export may not. An archive is the first `part` of
    a log: it may end before a shard that it names, and has the bytes of every record unless `accept_deleted`. `odd`
    lists what is wrong with the store itself.
    """
    found = AuditReport()
    for said in odd:
        found.add_fault(2, FaultKind.CHANGED, said)
    log = _LogAudit(found, verify, held, receipts)
    log.check_shards(shards, key, live=live)  # 1 to 4, 6, and what 5, 7 and 9 need of a single shard
    log.check_end(shards, part=part)  # 9.
    log.check_unmatched()  # 5.
    _find_cosigned(found, held, witnesses, verify)  # 5.
    log.check_deleted(whole=part and not accept_deleted)  # 8.
    log.check_sequence(live=live)  # 7.
    found.faults.sort(key=lambda fault: fault.step)
    return found


class _LogAudit:
    """The audit of all shards; what concerns several shards is collected here."""

    def __init__(self, found: AuditReport, verify: Verify, held: Sequence[bytes], receipts: Sequence[Receipt]) -> None:
        self._found, self._verify = found, verify
        self._runs = _AllRuns()
        # By origin, the index below which signed prune records, or any prune records, say that records are deleted.
        self._pruned: dict[str, int] = {}
        self._pruned_unsigned: dict[str, int] = {}
        # The index below which the store allows deletion, with the first index.
        self._allowed: list[tuple[str, int, int]] = []
        self._held = [(_claimed_origin(note), note) for note in held]
        self._receipts = list(receipts)
        self._last: _ShardAudit | None = None
        self._next_key: PublicKey | None = None

    def check_shards(self, shards: Sequence[AuditedShard], key: PublicKey, *, live: bool) -> None:
        trusted: PublicKey | None = key
        for number, shard in enumerate(shards):
            if trusted is None:
                said = f"shard {number - 1} names no key for the next, so shard {number} proves nothing"
                self._found.add_fault(9, FaultKind.SHARD, said)
                return
            trusted = self._check_shard(shard, trusted, live=live, newest=number == len(shards) - 1)
        self._next_key = trusted

    def _check_shard(self, shard: AuditedShard, key: PublicKey, *, live: bool, newest: bool) -> PublicKey | None:
        """Check one shard; return the key of the next one, if this one names it."""
        one = _ShardAudit(self._found, key, self._verify, self._runs, self._last)
        heads = [note for origin, note in self._held if origin == key.name]
        self._held = [each for each in self._held if each[0] != key.name]
        names = {key.name, ""} if newest else {key.name}
        receipts = [receipt for receipt in self._receipts if receipt.origin in names]
        self._receipts = [receipt for receipt in self._receipts if receipt.origin not in names]
        one.check(shard, heads, receipts, live=live and newest)
        for origin, end, at in one.pruned:
            self._pruned_unsigned[origin] = max(end, self._pruned_unsigned.get(origin, 0))
            # Records are deleted only after the prune record is signed. An attacker could append an unsigned one.
            if at < one.signed:
                self._pruned[origin] = max(end, self._pruned.get(origin, 0))
        self._found.absent += [(key.name, first, end) for first, end in one.absent]
        self._allowed.append((key.name, shard.pruned, shard.first))
        self._last = one
        return one.next_key

    def check_end(self, shards: Sequence[AuditedShard], *, part: bool) -> None:
        if not shards:
            self._found.add_fault(1, FaultKind.BAD_HEAD, "there is no log")
        elif self._next_key is not None and part:
            self._found.remarks.append(f"the log goes on as {quoted(self._next_key.name)}, of which nothing is here")
        elif self._next_key is not None:
            named = quoted(self._next_key.name)
            said = f"the log goes on as {named}, and that shard is missing: it was taken away, or not given"
            self._found.add_fault(9, FaultKind.SHARD, said)

    def check_unmatched(self) -> None:
        """Report held heads and receipts of logs that were not given."""
        for origin, _ in self._held:
            said = f"a held head is of no log given here, but of {quoted(origin)}"
            self._found.add_fault(5, FaultKind.BAD_HELD_HEAD, said)
        for origin in dict.fromkeys(receipt.origin for receipt in self._receipts):
            said = f"a receipt is of no log given here, but of {quoted(origin)}"
            self._found.add_fault(5, FaultKind.BAD_HELD_HEAD, said)

    def check_deleted(self, *, whole: bool) -> None:
        """Report deletions without a prune record, after all shards: the record may be in a later shard.

        Where the bytes of the `whole` log must be here, report all.
        """
        for origin, first, end in self._found.absent:
            bare = max(first, self._pruned.get(origin, 0))
            if bare < end:
                said = f"{_records_text(bare, end - 1)} of {quoted(origin)} deleted, and no signed prune record says so"
                self._found.add_fault(8, FaultKind.DELETED, said, bare, end - 1)
            elif whole:
                # The prune record excuses the log. Here the bytes were never written, or taken out.
                said = f"the contents of {_records_text(first, end - 1)} of {quoted(origin)} are not in the archive"
                self._found.add_fault(8, FaultKind.DELETED, said, first, end - 1)
        for origin, end, first in self._allowed:
            # A prune record comes after the records that it names: none that was not read allows more than `first`.
            if not 0 <= end <= max(first, self._pruned_unsigned.get(origin, 0)):
                said = (
                    f"the store lets the records of {quoted(origin)} below {end} be deleted, "
                    "and no prune record says so"
                )
                self._found.add_fault(8, FaultKind.CHANGED, said)

    def check_sequence(self, *, live: bool) -> None:
        """Report numbers that are missing in a run, after all shards: a run may continue in a later shard."""
        for fault in self._runs.holes():
            if live and self._last is not None and fault.first >= self._last.signed:
                # Two threads may be a moment apart: the missing number can be the next to come.
                self._found.remarks.append(fault.message)
            else:
                self._found.add_fault(*fault)


class _ShardAudit:
    """The audit of one shard; it adds faults to the report as it finds them."""

    def __init__(
        self, found: AuditReport, key: PublicKey, verify: Verify, runs: _AllRuns, before: _ShardAudit | None
    ) -> None:
        self._found, self._key, self._verify, self._runs, self._before = found, key, verify, runs, before
        self.head: Checkpoint | None = None
        self.next_key: PublicKey | None = None
        # Prune records: the shard's origin, the index, and the record that says it.
        self.pruned: list[tuple[str, int, int]] = []
        self.absent: list[tuple[int, int]] = []
        self._count = 0
        self._whole = True
        # The size of the last stored head that matches. After one that does not match, later heads are not compared.
        self._good = 0
        self._bad = False
        self._edge = self._signed_edge = b""
        self._told: set[str] = set()
        self._rotated = -1
        self._clock = 0
        # How often the clock went back, the first record at which it did, and the largest step.
        self._back = self._back_at = self._back_ms = 0

    @property
    def signed(self) -> int:
        return self.head.size if self.head else 0

    def check(self, shard: AuditedShard, held: Sequence[bytes], receipts: Sequence[Receipt], *, live: bool) -> None:
        kept = [head for note in held if (head := self._open_head(note, 5, FaultKind.BAD_HELD_HEAD, "a held head"))]
        wanted: dict[int, list[bytes]] = {}
        for each in receipts:
            wanted.setdefault(each.index, []).append(each.leaf_hash)
        roots = self._walk(shard, {each.size for each in kept}, wanted)
        if self.head is not None:
            self._found.heads.append(self.head)
        self._compare_end(live=live)
        self._compare_held(kept, roots)
        for at in sorted(wanted):
            if at >= self._count:
                said = (
                    f"a receipt is for record {at}, the log has {self._count}: {_records_text(self._count, at)} missing"
                )
                self._found.add_fault(5, FaultKind.ROLLED_BACK, said, self._count, at)
                break
        if shard.vkey and shard.vkey != self._key.vkey:
            said = f"the store names {quoted(shard.vkey, 120)} as the key of {quoted(self._key.name)}, which is another"
            self._found.add_fault(1, FaultKind.CHANGED, said)
        if not self._found.faults:
            # Only if nothing else is wrong: any other fault would explain this one.
            for edge, made in ((shard.edge, self._edge), (shard.signed_edge, self._signed_edge)):
                if edge and edge != made:
                    said = f"the log says {int.from_bytes(edge[:8], 'big')} records, and they do not add up to it"
                    self._found.add_fault(2, FaultKind.CHANGED, said)
        if self._back:
            self._found.remarks.append(
                f"the clock went back by {self._back_ms / 1000:.1f} s at most, first at record {self._back_at} "
                f"({self._back} in all)"
            )

    def _open_stored_heads(self, notes: Iterable[bytes], sizes: Iterable[int] | None) -> Iterator[Checkpoint]:
        # 1. Head.
        count = 0
        kept = zip(notes, repeat(None) if sizes is None else sizes, strict=False)
        for count, (note, size) in enumerate(kept, 1):  # noqa: B007
            head = self._open_head(note, 1, FaultKind.BAD_HEAD, "a stored head")
            if head is None:
                continue
            if size is not None and size != head.size:
                said = f"the stored head of {head.size} is kept as one of {size}"
                self._found.add_fault(1, FaultKind.BAD_HEAD, said)
            if self.head is not None and head.size < self.head.size:
                said = f"the stored head of {head.size} stands behind that of {self.head.size}"
                self._found.add_fault(1, FaultKind.BAD_HEAD, said)
                continue
            self.head = head
            yield head
        if not count:
            self._found.add_fault(1, FaultKind.BAD_HEAD, f"the log {quoted(self._key.name)} has no signed head")

    def _open_head(self, note: bytes, step: int, what: FaultKind, named: str) -> Checkpoint | None:
        try:
            return open_checkpoint(note, self._key, self._verify)
        except InvalidNote as error:
            said = f"{named} cannot be trusted: {error.message}"
            # In a log under another key, every head is wrong in the same way: report it once.
            if said not in self._told:
                self._told.add(said)
                self._found.add_fault(step, what, said)
            return None

    def _walk(self, shard: AuditedShard, sizes: set[int], receipts: Mapping[int, Sequence[bytes]]) -> dict[int, bytes]:
        """Take steps 1 to 4 and 6 for every row; return the roots at the given sizes."""
        frontier = self._begin(shard)
        roots = {frontier.size: frontier.root()}
        changed: dict[int, tuple[bytes, bytes]] = {}
        heads = self._open_stored_heads(shard.heads, shard.sizes)
        head = self._compare_stored(next(heads, None), heads, frontier)
        for row in shard.rows:
            if not self._check_index(row.at):
                continue
            # 3. Leaves. The tree is built from the stored hashes, so that changed bytes can be told from other faults.
            leaf = row.leaf if row.data is None else leaf_hash(row.data)
            if leaf != row.leaf and len(changed) < _MOST_CHANGED:
                changed[row.at] = leaf, row.leaf
            frontier.append(row.leaf if len(row.leaf) == HASH else leaf[:HASH].ljust(HASH, b"\0"))
            if frontier.size in sizes:
                roots[frontier.size] = frontier.root()
            if head is not None and head.size <= self._count:
                head = self._compare_stored(head, heads, frontier)
            # 5. Held, as far as receipts show.
            if any(kept != row.leaf for kept in receipts.get(row.at, ())):
                said = f"record {row.at} is not the one that its receipt is for: it was rewritten"
                self._found.add_fault(5, FaultKind.REWRITTEN, said, row.at, row.at)
            if row.data is None:
                self._note_absent(row.at)
            else:
                self._read(row.at, row.data)
        self._edge = frontier.to_bytes()
        # Read the heads beyond the rows: the last one says how many records there should be.
        for _ in heads:
            pass
        self._tell_changed(changed)
        return roots

    def _begin(self, shard: AuditedShard) -> Frontier:
        """Return the tree to which the rows are added."""
        if shard.start is None:
            return Frontier()
        self._count = self._good = shard.first
        self._found.skipped += shard.first
        self._runs.note_unreadable()
        return shard.start.copy()

    def _check_index(self, at: int) -> bool:
        """2. Rows. Return False for a row that must be skipped."""
        if at < self._count:
            self._whole = False
            said = f"record {at} stands a second time, or behind record {self._count - 1}"
            self._found.add_fault(2, FaultKind.OUT_OF_ORDER, said, at, at)
            return False
        if at > self._count:
            self._whole = False
            said = f"{_records_text(self._count, at - 1)} missing: record {at} follows on {self._count - 1}"
            self._found.add_fault(2, FaultKind.MISSING, said, self._count, at - 1)
        self._count = at + 1
        self._found.records += 1
        return True

    def _note_absent(self, at: int) -> None:
        if self.absent and self.absent[-1][1] == at:
            self.absent[-1] = self.absent[-1][0], at + 1
        else:
            self.absent.append((at, at + 1))
            self._runs.note_unreadable()

    def _tell_changed(self, changed: Mapping[int, tuple[bytes, bytes]]) -> None:
        places = {stored: at for at, (_, stored) in changed.items()}
        for at, (leaf, _) in changed.items():
            other = places.get(leaf)
            if other is None:
                said = f"record {at} was changed: its bytes do not hash to its leaf"
                self._found.add_fault(3, FaultKind.CHANGED, said, at, at)
            else:
                said = f"record {at} holds the bytes of record {other}: they were exchanged"
                self._found.add_fault(3, FaultKind.EXCHANGED, said, at, at)

    def _read(self, at: int, data: bytes) -> None:
        # 6. Records.
        try:
            fields = parse_record(data)
        except InvalidRecord as error:
            self._found.add_fault(6, FaultKind.NOT_A_RECORD, f"record {at} cannot be read: {error.message}", at, at)
            self._runs.note_unreadable()
            return
        kind, ts_ms = str(fields["kind"]), _require_int(fields["ts_ms"])
        self._found.kinds[kind] = self._found.kinds.get(kind, 0) + 1
        if ts_ms < self._clock - CLOCK_BACK_MS:
            self._back += 1
            self._back_at = self._back_at or at
            self._back_ms = max(self._back_ms, self._clock - ts_ms)
        # The opening and the settings are written on behalf of the record behind them, which took its time first.
        if kind not in ("opening", "configuration"):
            self._clock = max(self._clock, ts_ms)
        # 9. Shards, as far as one record shows.
        if self._rotated >= 0:
            said = f"record {at} stands behind the rotation in record {self._rotated}, which ended the shard"
            self._found.add_fault(9, FaultKind.SHARD, said, at, at)
        if kind == "opening":
            self._open(at, fields)
        elif at == 0:
            self._found.add_fault(9, FaultKind.SHARD, "record 0 does not open the shard", 0, 0)
        elif kind == "rotation":
            self._rotate(at, fields)
        elif kind == "prune":
            self.pruned.append((str(fields["origin"]), _require_int(fields["before"]), at))
        # 7. Sequence.
        run = str(fields["run"])
        if kind == "gap":
            self._runs.excuse(
                run, _require_int(fields["first"]), min(_require_int(fields["last"]), _require_int(fields["seq"]) - 1)
            )
        if not self._runs.note_number(run, _require_int(fields["seq"]), at):
            said = f"record {at} holds number {fields['seq']} of run {run} a second time"
            self._found.add_fault(7, FaultKind.REPEATED, said, at, at)

    def _open(self, at: int, fields: Mapping[str, object]) -> None:
        previous = str(fields["previous"])
        wrong = ""
        if at != 0 or fields["origin"] != self._key.name:
            wrong = f"record {at} opens another shard, {quoted(fields['origin'])}"
        elif self._before is None:
            if previous:
                self._runs.note_unreadable()
                self._found.remarks.append(f"the shards before {quoted(self._key.name)} were not given")
        else:
            try:
                wrong = self._differs(open_checkpoint(previous.encode(), self._before._key, self._verify))
            except InvalidNote as error:
                wrong = f"record 0 opens the shard with a head that cannot be trusted: {error.message}"
        if wrong:
            self._found.add_fault(9, FaultKind.SHARD, wrong, at, at)

    def _differs(self, said: Checkpoint) -> str:
        head = self._before.head if self._before else None
        if head == said:
            return ""
        return (
            f"the shard goes on from {said.size} records of {quoted(said.origin)}, which ends with {head and head.size}"
        )

    def _rotate(self, at: int, fields: Mapping[str, object]) -> None:
        self._rotated = at
        try:
            self.next_key = parse_vkey(str(fields["next_vkey"]))
        except InvalidNote as error:
            self._found.add_fault(9, FaultKind.SHARD, f"record {at} rotates to no key: {error.message}", at, at)

    def _compare_stored(
        self, head: Checkpoint | None, heads: Iterator[Checkpoint], frontier: Frontier
    ) -> Checkpoint | None:
        """4. Roots: compare the heads that cover no more than has been read; return the first that covers more."""
        while head is not None and head.size <= self._count:
            # The last head that matches tells where the change begins.
            if self._whole and not self._bad:
                self._bad = frontier.root() != head.root
                if self._bad:
                    said = (
                        f"the records do not hash to the root of the signed head of {head.size}: "
                        f"something in {_records_text(self._good, head.size - 1)} was changed, put in or taken out"
                    )
                    self._found.add_fault(4, FaultKind.REWRITTEN, said, self._good, head.size - 1)
                self._good = head.size
            self._signed_edge = frontier.to_bytes()
            head = next(heads, None)
        return head

    def _compare_end(self, *, live: bool) -> None:
        # 2. Rows: the end.
        if self.head is None:
            return
        size, count = self.head.size, self._count
        if size > count:
            # If a number or a root is wrong before the end, more than the end is missing.
            end_only = self._whole and not self._bad and not any(self._runs.holes())
            gone = _records_text(count, size - 1) if end_only else f"{size - count} of the records"
            said = f"{gone} missing: the checkpoint says {size}, the log has {count}"
            self._found.add_fault(2, FaultKind.MISSING, said, count, size - 1)
        elif count > size and live:
            self._found.remarks.append(
                f"{_records_text(size, count - 1)} not yet under a signed head ({count - size} in all), so that "
                "nothing proves them: in a log in use that takes a second, after a crash the next ruling does it, "
                "and `lockgate audit head --sign` at once"
            )
        elif count > size:
            behind = f"{_records_text(size, count - 1)} not covered by the signed head of {size}"
            said = f"{behind}: put in behind it, or never signed"
            self._found.add_fault(2, FaultKind.UNSIGNED, said, size, count - 1)

    def _compare_held(self, held: Sequence[Checkpoint], roots: Mapping[int, bytes]) -> None:
        # 5. Held.
        good = 0
        for head in sorted(held, key=lambda each: each.size):
            if head.size < min(roots):
                said = f"the held head of {head.size} is older than where verification began, and was not compared"
                self._found.add_fault(5, FaultKind.BAD_HELD_HEAD, said)
                continue
            has = self._count if self.head is None else min(self.head.size, self._count)
            if head.size > has:
                said = f"{_records_text(has, head.size - 1)} missing: a held head says {head.size}, the log has {has}"
                self._found.add_fault(5, FaultKind.ROLLED_BACK, f"the log was rolled back, {said}", has, head.size - 1)
            if head.size > self._count or not self._whole:
                continue
            if roots[head.size] != head.root:
                said = (
                    f"something in {_records_text(good, head.size - 1)} was rewritten: "
                    f"the held head of {head.size} was signed over other records"
                )
                self._found.add_fault(5, FaultKind.REWRITTEN, said, good, head.size - 1)
                break
            good = head.size


class _RunNumbers:
    """The numbers of one run so far: all from `first` below `next`, and those `ahead`, each with its record."""

    __slots__ = ("ahead", "early", "excused", "first", "next", "sight")

    def __init__(self, first: int, sight: int) -> None:
        self.first = self.next = first
        self.sight = sight
        # There is one object per session, so the rarely needed set is created on demand.
        self.ahead: dict[int, int] = {}
        self.early: set[int] | None = None
        self.excused: tuple[tuple[int, int], ...] = ()

    def up_to(self, last: int) -> None:
        self.next = last + 1
        while self.ahead and self.ahead.pop(self.next, None) is not None:
            self.next += 1

    def excuse(self, first: int, last: int) -> None:
        """Accept that these numbers are missing; a record with one of them may still appear once."""
        self.excused = (*self.excused, (max(first, self.next), last))
        if first <= self.next <= last:
            self.early = (self.early or set()) | {seq for seq in self.ahead if seq <= last}
            self.ahead = {seq: at for seq, at in self.ahead.items() if seq > last}
            self.up_to(last)

    def late(self, seq: int) -> bool:
        """Return whether a number below `next` is new: from before the readable part, or excused."""
        self.early = set() if self.early is None else self.early
        new = seq not in self.early and (seq < self.first or any(one <= seq <= end for one, end in self.excused))
        self.early.add(seq)
        return new


class _AllRuns:
    """7. Sequence. Records of one run may be out of order, since several threads write them; none may be missing."""

    def __init__(self) -> None:
        # Most runs have every number in order: of those only the next one is kept. A log may hold millions of sessions.
        self._in_order: dict[str, int] = {}
        self._runs: dict[str, _RunNumbers] = {}
        self._sight = 0

    def note_unreadable(self) -> None:
        """Note a record that cannot be read: it may hold any number that is missing around it."""
        self._sight += 1

    def _run(self, name: str, seq: int) -> _RunNumbers:
        run = self._runs.get(name)
        if run is None and (number := self._in_order.pop(name, 0)):
            run = self._runs[name] = _RunNumbers(1, 0)
            run.next = number
        if run is None:
            run = self._runs[name] = _RunNumbers(seq if self._sight else 1, self._sight)
        elif run.sight != self._sight:
            run.sight = self._sight
            if seq > run.next and not run.ahead:
                run.first = run.next = seq
        return run

    def note_number(self, name: str, seq: int, at: int) -> bool:
        """Note a number; return whether it is new."""
        if not self._sight and name not in self._runs and seq == self._in_order.get(name, 1):
            self._in_order[name] = seq + 1
            return True
        run = self._run(name, seq)
        if seq == run.next:
            run.up_to(seq)
            return True
        if seq > run.next:
            new = seq not in run.ahead
            run.ahead[seq] = at
            return new
        return run.late(seq)

    def excuse(self, name: str, first: int, last: int) -> None:
        if first <= last:
            self._run(name, first).excuse(first, last)

    def holes(self) -> Iterator[Fault]:
        for name, run in self._runs.items():
            missing = run.next
            for seq in sorted(run.ahead):
                for first, last in _subtract_ranges(missing, seq - 1, run.excused):
                    at = run.ahead[seq]
                    gone = f"{_numbers_text(first, last)} of run {name} missing"
                    said = f"{gone}: taken out before record {at}, or never recorded"
                    yield Fault(7, FaultKind.HOLE, said, at, at)
                missing = seq + 1


def _subtract_ranges(first: int, last: int, excused: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of these numbers that are not excused."""
    for start, end in sorted(excused):
        if first < start <= last:
            yield first, start - 1
        if start <= first <= end or first < start <= last:
            first = end + 1
    if first <= last:
        yield first, last


def _find_cosigned(found: AuditReport, held: Sequence[bytes], witnesses: Sequence[PublicKey], verify: Verify) -> None:
    """5. Held, by witnesses: an attacker with the log's key cannot forge a witness's line."""
    newest: dict[PublicKey, Cosigned] = {}
    for note in held:
        try:
            parsed = parse_note(note)
            checkpoint = parse_checkpoint(parsed.text)
        except InvalidNote:
            continue  # reported already: it is of no log
        try:
            times = verify_signatures(parsed, witnesses, verify)
        except InvalidNote as error:
            found.add_fault(5, FaultKind.BAD_HELD_HEAD, f"a held head cannot be trusted: {error.message}")
            continue
        for key, time_s in times.items():
            made = Cosigned(key.name, checkpoint.origin, checkpoint.size, time_s)
            if key not in newest or newest[key].time_s <= time_s:
                newest[key] = made
    for key in witnesses:
        if key not in newest:
            said = f"no held head was cosigned by the witness {quoted(key.name)}"
            found.add_fault(5, FaultKind.BAD_HELD_HEAD, said)
    found.cosigned += newest.values()


def _claimed_origin(note: bytes) -> str:
    """Return the log that a head claims to be of. The claim is used only to find the key that must have signed it."""
    try:
        return parse_checkpoint(parse_note(note).text).origin
    except InvalidNote:
        return ""


def _records_text(first: int, last: int) -> str:
    return f"record {first}" if first == last else f"records {first}–{last}"


def _numbers_text(first: int, last: int) -> str:
    return f"number {first}" if first == last else f"numbers {first}–{last}"


def _require_int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("a number that the schema let pass is none")
    return value
