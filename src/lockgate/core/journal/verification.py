"""Verification of a journal, offline: only its rows, its signed heads and the public key of its first shard are needed.

1. Head.      Each stored head is signed by the shard's key and names the shard; the newest one says how much there is.
2. Rows.      Indexes run from 0 without a gap or a double, up to what the newest head says.
3. Leaves.    Each record's bytes hash to the leaf stored beside them.
4. Roots.     The leaves hash to the root of every stored head.
5. Held.      They hash to the root of every head, and to every receipt, that was kept elsewhere: the only step that a
              holder of the key cannot pass with another history.
6. Records.   Each is canonical, and of a known kind with exactly its fields.
7. Sequence.  In each run the numbers go up from 1 without a hole or a double, save those a `gap` record owns up to.
8. Deleted.   A record without bytes is covered by a `prune` record, and so is what the store lets be deleted.
9. Shards.    A shard ends with the rotation to the next one's key, and the next opens with the signed head of the last.
              After a rotation there is a next one.

What fails is a fault, told as what was done to the log. What is merely worth knowing is a remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from typing import NamedTuple

from lockgate.core.errors import InvalidNote, InvalidRecord, quoted
from lockgate.core.journal.exports import ExportRow
from lockgate.core.journal.merkle import HASH, Frontier, leaf_hash
from lockgate.core.journal.record import parse_record
from lockgate.core.journal.signed_notes import (
    Checkpoint,
    PublicKey,
    Verify,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    verify_signatures,
)
from lockgate.core.vocabulary import Receipt

# A log that was replaced whole would otherwise be told record by record.
MAX_FAULTS = 100
# Clocks of several hosts differ, and are set: less than this is not worth a remark.
CLOCK_BACK_MS = 2_000
_MOST_CHANGED = 10_000


class FaultKind(StrEnum):
    """What is wrong, in one word that other programs may rely on."""

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


class Fault(NamedTuple):
    """One thing that is wrong: the step that found it, what was done, and to which records where that is known."""

    step: int
    what: FaultKind
    message: str
    first: int = -1
    last: int = -1


class AuditedShard(NamedTuple):
    """One shard as it is stored: its rows in their order and its signed heads, smallest first; one head is enough.

    Both are read once, side by side: a log need not fit into memory. What a store says of them besides is held against
    them: `edge` and `signed_edge`, the tree of all records and that of the newest head (`Frontier.to_bytes`); `vkey`,
    the shard's key; below which index records may be deleted (`pruned`); and the `sizes` of the heads.
    """

    rows: Iterable[ExportRow]
    heads: Iterable[bytes]
    edge: bytes = b""
    vkey: str = ""
    signed_edge: bytes = b""
    pruned: int = 0
    sizes: Iterable[int] | None = None


class Cosigned(NamedTuple):
    """A head that a witness has seen: as of then it knew of no larger one, and of no other history."""

    witness: str
    origin: str
    size: int
    time_s: int


@dataclass(slots=True)
class AuditReport:
    """What an audit found. Only a log with a signed head and without a fault is `sound`.

    `heads` are the newest of each shard, `kinds` counts the records by kind, `cut` the faults that had no room;
    `cosigned` has the newest head that each witness asked for has signed.
    """

    faults: list[Fault] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    heads: list[Checkpoint] = field(default_factory=list)
    cosigned: list[Cosigned] = field(default_factory=list)
    records: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    cut: int = 0

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
    odd: Sequence[str] = (),
) -> AuditReport:
    """Verify a journal: its shards oldest first, and the key of the first of them.

    `held` are signed heads that were kept elsewhere; so are `receipts`, whose origin may be empty for the last shard.
    Each of the `witnesses` must have cosigned one of the held heads. A `live` log, which can still be written to, may
    hold records that its next head will cover; in an export there is no reason for one. `odd` is what is wrong with the
    store itself.
    """
    found = AuditReport()
    for said in odd:
        found.add_fault(2, FaultKind.CHANGED, said)
    runs = _AllRuns()
    pruned: dict[str, int] = {}
    said_so: dict[str, int] = {}
    absent: list[tuple[str, int, int]] = []
    allowed: list[tuple[str, int]] = []
    unmatched = [(_claimed_origin(note), note) for note in held]
    unclaimed = list(receipts)
    before: _ShardAudit | None = None
    trusted: PublicKey | None = key
    for number, shard in enumerate(shards):
        if trusted is None:
            found.add_fault(
                9, FaultKind.SHARD, f"shard {number - 1} names no key for the next, so shard {number} proves nothing"
            )
            break
        newest = number == len(shards) - 1
        one = _ShardAudit(found, trusted, verify, runs, before)
        mine = [note for origin, note in unmatched if origin == trusted.name]
        unmatched = [each for each in unmatched if each[0] != trusted.name]
        known = {trusted.name, ""} if newest else {trusted.name}
        kept = [receipt for receipt in unclaimed if receipt.origin in known]
        unclaimed = [receipt for receipt in unclaimed if receipt.origin not in known]
        one.check(shard, mine, kept, live=live and newest)
        for origin, end, at in one.pruned:
            said_so[origin] = max(end, said_so.get(origin, 0))
            # It is signed before anything is deleted: anybody could put one behind the newest head.
            if at < one.signed:
                pruned[origin] = max(end, pruned.get(origin, 0))
        absent += [(trusted.name, first, end) for first, end in one.absent]
        allowed.append((trusted.name, shard.pruned))
        before, trusted = one, one.next_key
    if not shards:
        found.add_fault(1, FaultKind.BAD_HEAD, "there is no log")
    elif trusted is not None:
        said = f"the log goes on as {quoted(trusted.name)}, and that shard is missing: it was taken away, or not given"
        found.add_fault(9, FaultKind.SHARD, said)
    for origin, _ in unmatched:
        found.add_fault(5, FaultKind.BAD_HELD_HEAD, f"a held head is of no log given here, but of {quoted(origin)}")
    for origin in dict.fromkeys(receipt.origin for receipt in unclaimed):
        found.add_fault(5, FaultKind.BAD_HELD_HEAD, f"a receipt is of no log given here, but of {quoted(origin)}")
    _find_cosigned(found, held, witnesses, verify)
    # 8. Deleted. Only now, for the record that owns up to it may stand in a later shard.
    for origin, first, end in absent:
        bare = max(first, pruned.get(origin, 0))
        if bare < end:
            said = f"{_records_text(bare, end - 1)} of {quoted(origin)} deleted, and no signed prune record says so"
            found.add_fault(8, FaultKind.DELETED, said, bare, end - 1)
    for origin, end in allowed:
        if not 0 <= end <= said_so.get(origin, 0):
            said = f"the store lets the records of {quoted(origin)} below {end} be deleted, and no prune record says so"
            found.add_fault(8, FaultKind.CHANGED, said)
    # 7. Sequence, where all shards have been seen.
    for fault in runs.holes():
        if live and before is not None and fault.first >= before.signed:
            # Two threads may be a moment apart: the number that is missing can be the next to come.
            found.remarks.append(fault.message)
        else:
            found.add_fault(*fault)
    found.faults.sort(key=lambda fault: fault.step)
    return found


class _ShardAudit:
    """The audit of one shard; what it found goes into the report as it is found."""

    def __init__(
        self, found: AuditReport, key: PublicKey, verify: Verify, runs: _AllRuns, before: _ShardAudit | None
    ) -> None:
        self._found, self._key, self._verify, self._runs, self._before = found, key, verify, runs, before
        self.head: Checkpoint | None = None
        self.next_key: PublicKey | None = None
        # Which shard, below which index, and which record says so.
        self.pruned: list[tuple[str, int, int]] = []
        self.absent: list[tuple[int, int]] = []
        self._count = 0
        self._whole = True
        # What the last stored head that holds covers; after one that does not, there is no use in the later ones.
        self._good = 0
        self._bad = False
        self._edge = self._signed_edge = b""
        self._told: set[str] = set()
        self._rotated = -1
        self._clock = 0
        # How often the clock went back, first at which record, and by how much at most.
        self._back = self._back_at = self._back_ms = 0

    @property
    def signed(self) -> int:
        return self.head.size if self.head else 0

    def check(self, shard: AuditedShard, held: Sequence[bytes], receipts: Sequence[Receipt], *, live: bool) -> None:
        kept = [head for note in held if (head := self._opened(note, 5, FaultKind.BAD_HELD_HEAD, "a held head"))]
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
            # Where something else is wrong, that is why.
            for edge, made in ((shard.edge, self._edge), (shard.signed_edge, self._signed_edge)):
                if edge and edge != made:
                    said = f"the log says {int.from_bytes(edge[:8], 'big')} records, and they do not add up to it"
                    self._found.add_fault(2, FaultKind.CHANGED, said)
        if self._back:
            self._found.remarks.append(
                f"the clock went back {self._back} times, by {self._back_ms / 1000:.1f} s at most, "
                f"first at record {self._back_at}"
            )

    def _stored(self, notes: Iterable[bytes], sizes: Iterable[int] | None) -> Iterator[Checkpoint]:
        # 1. Head.
        count = 0
        kept = zip(notes, repeat(None) if sizes is None else sizes, strict=False)
        for count, (note, size) in enumerate(kept, 1):  # noqa: B007
            head = self._opened(note, 1, FaultKind.BAD_HEAD, "a stored head")
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

    def _opened(self, note: bytes, step: int, what: FaultKind, named: str) -> Checkpoint | None:
        try:
            return open_checkpoint(note, self._key, self._verify)
        except InvalidNote as error:
            said = f"{named} cannot be trusted: {error.message}"
            # Of a log under another key, every head is wrong in the same way.
            if said not in self._told:
                self._told.add(said)
                self._found.add_fault(step, what, said)
            return None

    def _walk(self, shard: AuditedShard, sizes: set[int], receipts: Mapping[int, Sequence[bytes]]) -> dict[int, bytes]:
        """Steps 1 to 4 and 6 for every row, once; returns the roots at the sizes asked for."""
        frontier = Frontier()
        roots = {0: frontier.root()}
        changed: dict[int, tuple[bytes, bytes]] = {}
        heads = self._stored(shard.heads, shard.sizes)
        head = self._compare_stored(next(heads, None), heads, frontier)
        for row in shard.rows:
            # 2. Rows.
            if row.at != self._count:
                self._whole = False
                if row.at < self._count:
                    said = f"record {row.at} stands a second time, or behind record {self._count - 1}"
                    self._found.add_fault(2, FaultKind.OUT_OF_ORDER, said, row.at, row.at)
                    continue
                said = f"{_records_text(self._count, row.at - 1)} missing: record {row.at} follows on {self._count - 1}"
                self._found.add_fault(2, FaultKind.MISSING, said, self._count, row.at - 1)
            self._count = row.at + 1
            self._found.records += 1
            # 3. Leaves. The tree is made of the stored hashes, so that changed bytes are told apart from the rest.
            leaf = row.leaf if row.data is None else leaf_hash(row.data)
            if leaf != row.leaf and len(changed) < _MOST_CHANGED:
                changed[row.at] = leaf, row.leaf
            frontier.append(row.leaf if len(row.leaf) == HASH else leaf[:HASH].ljust(HASH, b"\0"))
            if frontier.size in sizes:
                roots[frontier.size] = frontier.root()
            if head is not None and head.size <= self._count:
                head = self._compare_stored(head, heads, frontier)
            if any(kept != row.leaf for kept in receipts.get(row.at, ())):
                said = f"record {row.at} is not the one that its receipt is for: it was rewritten"
                self._found.add_fault(5, FaultKind.REWRITTEN, said, row.at, row.at)
            if row.data is not None:
                self._read(row.at, row.data)
            elif self.absent and self.absent[-1][1] == row.at:
                self.absent[-1] = self.absent[-1][0], row.at + 1
            else:
                self.absent.append((row.at, row.at + 1))
                self._runs.note_unreadable()
        self._edge = frontier.to_bytes()
        # Heads beyond the rows: the last of them says how much there should be.
        for _ in heads:
            pass
        self._tell_changed(changed)
        return roots

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
            self._found.add_fault(6, FaultKind.NOT_A_RECORD, f"record {at} is none: {error.message}", at, at)
            self._runs.note_unreadable()
            return
        kind, ts_ms = str(fields["kind"]), _require_int(fields["ts_ms"])
        self._found.kinds[kind] = self._found.kinds.get(kind, 0) + 1
        if ts_ms < self._clock - CLOCK_BACK_MS:
            self._back += 1
            self._back_at = self._back_at or at
            self._back_ms = max(self._back_ms, self._clock - ts_ms)
        self._clock = max(self._clock, ts_ms)
        # 9. Shards, as far as one record tells.
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
        """4. Roots, of the heads that cover no more than has been read; the first that covers more."""
        while head is not None and head.size <= self._count:
            # The last head that still holds says where to look.
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
        # 2. Rows, the end of them.
        if self.head is None:
            return
        size, count = self.head.size, self._count
        if size > count:
            # Where a number or a root is wrong before the end, it is not simply the end that is missing.
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
    """The numbers of one run seen so far: all from `first` below `next`, and those `ahead` with the record of each."""

    __slots__ = ("ahead", "early", "excused", "first", "next", "sight")

    def __init__(self, first: int, sight: int) -> None:
        self.first = self.next = first
        self.sight = sight
        # One for each session: what hardly any of them needs is made when one does.
        self.ahead: dict[int, int] = {}
        self.early: set[int] | None = None
        self.excused: tuple[tuple[int, int], ...] = ()

    def up_to(self, last: int) -> None:
        self.next = last + 1
        while self.ahead and self.ahead.pop(self.next, None) is not None:
            self.next += 1

    def excuse(self, first: int, last: int) -> None:
        """Nobody need have recorded these; whoever did all the same may come once."""
        self.excused = (*self.excused, (max(first, self.next), last))
        if first <= self.next <= last:
            self.early = (self.early or set()) | {seq for seq in self.ahead if seq <= last}
            self.ahead = {seq: at for seq, at in self.ahead.items() if seq > last}
            self.up_to(last)

    def late(self, seq: int) -> bool:
        """Whether a number below `next` is new: from before what can be read, or excused."""
        self.early = set() if self.early is None else self.early
        new = seq not in self.early and (seq < self.first or any(one <= seq <= end for one, end in self.excused))
        self.early.add(seq)
        return new


class _AllRuns:
    """7. Sequence. Threads of one run may be recorded in another order than they were numbered; none may be lost."""

    def __init__(self) -> None:
        self._runs: dict[str, _RunNumbers] = {}
        self._sight = 0

    def note_unreadable(self) -> None:
        """There was a record that cannot be read: whatever number is missing across it may have been in it."""
        self._sight += 1

    def _run(self, name: str, seq: int) -> _RunNumbers:
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = _RunNumbers(seq if self._sight else 1, self._sight)
        elif run.sight != self._sight:
            run.sight = self._sight
            if seq > run.next and not run.ahead:
                run.first = run.next = seq
        return run

    def note_number(self, name: str, seq: int, at: int) -> bool:
        """Whether this number is new."""
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
    """What is left of these numbers when the excused ones are taken out."""
    for start, end in sorted(excused):
        if first < start <= last:
            yield first, start - 1
        if start <= first <= end or first < start <= last:
            first = end + 1
    if first <= last:
        yield first, last


def _find_cosigned(found: AuditReport, held: Sequence[bytes], witnesses: Sequence[PublicKey], verify: Verify) -> None:
    """5. Held, by whom: a witness's line is what a holder of the log's key cannot write."""
    newest: dict[PublicKey, Cosigned] = {}
    for note in held:
        try:
            parsed = parse_note(note)
            checkpoint = parse_checkpoint(parsed.text)
        except InvalidNote:
            continue  # told already: it is of no log
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
    """Which log a head says it is of, trusted for nothing but to find whom to ask."""
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
