"""The journal's log: what a store must provide, and what can be checked and proved by reading alone.

A process believes stored records only if they hash to a signed head. `walk_log` leads from the newest head that this
process has checked to the tree that it may sign next. Each step refuses and repairs nothing:

1. The log is the one this process knows: not shorter, and under a key it knows.
2. The log's key has signed the newest head in the store, and that head is not older than the one checked before.
3. Every leaf since the checked head is there, in order. The leaves hash to the root of the store's newest head and
   end in the tree to which records are appended.
4. Every record since that head still hashes to its leaf: a flipped bit must not be signed.

Records that no head covers yet count only under a seal (`signing.Seal`). Otherwise an attacker who can write the store
could append any record behind the newest head and have it signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import NamedTuple, Protocol

from lockgate.core.errors import InvalidNote, JournalDamaged, JournalUnavailable, LockgateError, quoted
from lockgate.journal.merkle import (
    HASH,
    TILE_LEVELS,
    Frontier,
    HashOf,
    Tile,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    range_root,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from lockgate.journal.record import parse_record
from lockgate.journal.signed_notes import (
    Checkpoint,
    Proof,
    Verify,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    parse_vkey,
)


class Shard(NamedTuple):
    """A part of the log under one key; the key's name is its origin. The newest shard is open, all others are closed.

    `edge` is the tree to append to, `signed_edge` the tree of the newest head (`Frontier.to_bytes`). Records below
    `pruned` may have lost their bodies. `seal` shows that the writer had the newest shard's key.
    """

    number: int
    vkey: str
    edge: bytes
    signed_edge: bytes
    pruned: int
    seal: bytes = b""

    @property
    def size(self) -> int:
        """The number of records."""
        return int.from_bytes(self.edge[:8], "big")

    @property
    def origin(self) -> str:
        """The name of the shard's key."""
        return self.vkey.partition("+")[0]


class Head(NamedTuple):
    """A signed checkpoint as it is stored. The time `at_ms` is informative only: no signature covers it."""

    size: int
    note: bytes
    at_ms: int


class LogRow(NamedTuple):
    leaf: bytes
    body: bytes


class Snapshot(Protocol):
    """The log at one moment; later changes by other processes do not show."""

    def shards(self) -> list[Shard]:
        """Return all shards, oldest first."""

    def current(self) -> Shard | None:
        """Return the newest shard; None in a store without a log."""

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield (index, hash) in order; skip leaves that are missing."""

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield (index, hash) of the stored subtrees of this level, in order; skip those that are missing."""

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield (index, bytes) in order; skip records that are missing."""

    def newest(self, shard: int) -> Head | None: ...

    def heads(self, shard: int) -> Iterator[Head]:
        """Yield all heads of a shard, smallest first."""


class Transaction(Snapshot, Protocol):
    """A change to the log. It sees its own changes and excludes all other writers from its first read on."""

    def open_shard(self, vkey: str) -> Shard:
        """Begin a new, empty shard and close the one before."""

    def append(self, shard: Shard, rows: Sequence[LogRow], edge: bytes, tiles: Sequence[Tile], seal: bytes) -> bool:
        """Add records at the end of the newest shard. `edge` is its tree with them, `tiles` the tiles they complete.

        Return False, and change nothing, if `shard` is not the newest shard any more or its tree is not `shard.edge`.
        The process that appended last therefore need not read before it appends again.
        """

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        """Store a head that is larger than all before it."""

    def prune(self, shard: int, before: int, seal: bytes) -> None:
        """Allow bodies below this index to be deleted, and store the seal. Leaves are never deleted."""

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        """Delete these bodies; all of them are below the shard's `pruned`."""


class Store(Protocol):
    """Where the log is kept.

    - `writing` commits when its block ends and rolls back when the block raises: all or nothing, for other threads,
      for other processes, and after a crash at any moment.
    - When `writing(durable=True)` has ended, this change and all changes before it survive a power cut. With
      `durable=False` the change survives the end of the process, even if it is killed.
    - Several threads may use both. A failure raises JournalUnavailable; a state that a correct store cannot have
      raises JournalDamaged.
    - `writing` creates a store that does not exist yet, exactly once even if several processes try; `reading` does not.
    - After a fork, parent and child may both use the store, each with its own connections. A child that was forked
      while another thread was in a transaction may be refused for good.
    """

    def reading(self) -> AbstractContextManager[Snapshot]: ...

    def writing(self, *, durable: bool) -> AbstractContextManager[Transaction]: ...

    def tidy(self) -> None:
        """Do housekeeping that would slow down an append. Never raise."""

    def close(self) -> None:
        """Close files and connections. Never raise. A later use opens them again."""


class CheckedHead(NamedTuple):
    """The newest stored head that this process has checked. A process never signs a tree that contradicts it."""

    shard: int
    frontier: Frontier


# Checking


def walk_log(
    log: Snapshot, known: CheckedHead, seen: tuple[int, bytes], verify: Verify
) -> tuple[Shard, CheckedHead, Frontier]:
    """Take steps 1 to 4. Return the newest shard, its newest head, and its tree computed from the stored leaves."""
    shards = [each for each in log.shards() if each.number >= known.shard]
    shard = recognise_shard(shards[-1] if shards else None, seen)
    frontier = known.frontier.copy()
    for each, after in zip(shards, [*shards[1:], None], strict=True):
        if each.number != known.shard:
            frontier = Frontier()
        known = CheckedHead(each.number, _walk_shard(log, each, frontier, verify))
        _check_link(log, each, after, known.frontier.size)
    return shard, known, frontier


def recognise_shard(shard: Shard | None, seen: tuple[int, bytes]) -> Shard:
    """Take the cheap part of step 1, which runs under the lock of every append; return the shard.

    `seen` must have been read before `shard`: other threads continue to append.
    """
    number, edge = seen
    if shard is None:
        raise log_damaged("the store holds no log any more" if number else "the store holds no log")
    size, before = shard.size, int.from_bytes(edge[:8], "big")
    if (shard.number, size) < (number, before):
        raise log_damaged(f"the log went back: it had {before} records, now it has {size}")
    if (shard.number, size) == (number, before) and shard.edge != edge:
        raise log_damaged(f"the log is another one: its {size} records are not those that were there")
    return shard


def _walk_shard(log: Snapshot, shard: Shard, frontier: Frontier, verify: Verify) -> Frontier:
    """Append the shard's stored leaves to `frontier`; return the tree as it was at the newest head."""
    _, head = newest_head(log, shard, verify)  # 2.
    if head.size < frontier.size:
        raise log_damaged(f"the newest head is gone: one of {frontier.size} records was there, now of {head.size}")
    leaves = log.leaves(shard.number, frontier.size, shard.size)  # 3.
    while frontier.size < head.size:
        index, leaf = next(leaves, (-1, b""))
        if index != frontier.size:
            raise log_damaged(f"record {frontier.size} is missing: the head says {head.size}")
        append_leaf(frontier, leaf)
    if frontier.root() != head.root:
        raise log_damaged(f"the first {head.size} records are not those of the newest head")
    at_head = frontier.copy()
    if at_head.to_bytes() != shard.signed_edge:
        raise log_damaged("the newest head and the tree stored with it do not match")
    bodies = log.bodies(shard.number, head.size, shard.size)  # 4.
    for index, leaf in leaves:
        at, body = next(bodies, (-1, b""))
        if index != frontier.size or at != index:
            raise log_damaged(f"record {frontier.size} is missing")
        if leaf_hash(body) != leaf:
            raise log_damaged(f"record {index} is not what was appended")
        append_leaf(frontier, leaf)
    if frontier.to_bytes() != shard.edge:
        raise log_damaged(f"the log says {shard.size} records, and has {frontier.size} that do not add up to it")
    if next(log.leaves(shard.number, shard.size, shard.size + 1), None) is not None:
        raise log_damaged(f"there are records beyond the {shard.size} that the log says it has")
    return at_head


def _check_link(log: Snapshot, shard: Shard, after: Shard | None, signed: int) -> None:
    """Raise JournalDamaged unless the shard's last record names the next shard's key and a signed head covers it.

    Otherwise an attacker could continue the log under a key of their own.
    """
    _, body = next(log.bodies(shard.number, shard.size - 1, shard.size), (-1, b""))
    try:
        last = parse_record(body) if after is not None or _ROTATION in body else {}
    except LockgateError:
        last = {}
    if after is None:
        if last.get("kind") == "rotation":
            raise log_damaged(f"the log {quoted(shard.origin)} was closed, and the one it names as next is gone")
    elif signed != shard.size:
        raise log_damaged(f"the log {quoted(shard.origin)} was closed by a record that its key has not signed")
    elif last.get("kind") != "rotation" or last.get("next_vkey") != after.vkey:
        raise log_damaged(f"the log {quoted(after.origin)} is not the one that {quoted(shard.origin)} names as next")


# Canonical JSON escapes quotes within text, so only a rotation contains this: most records need no parsing.
_ROTATION = b'"kind":"rotation"'


def append_leaf(frontier: Frontier, leaf: bytes) -> None:
    """Add a stored leaf to the tree; raise JournalDamaged if it is no hash."""
    try:
        frontier.append(leaf)
    except ValueError as error:
        raise log_damaged(f"the leaf of record {frontier.size} is no hash") from error


# Proofs


def find_shard(log: Snapshot, origin: str) -> Shard:
    """Return the shard of this name, or the open shard for an empty name; raise LockgateError if there is none."""
    shard = next((each for each in log.shards() if each.origin == origin), None) if origin else log.current()
    if shard is None:
        raise LockgateError(f"there is no log {quoted(origin)} here" if origin else "there is no log here yet")
    return shard


def newest_head(log: Snapshot, shard: Shard, verify: Verify) -> tuple[bytes, Checkpoint]:
    """Return the newest head of a shard: the note, and the checkpoint in it. Raise JournalDamaged if it is wrong."""
    head = log.newest(shard.number)
    if head is None:
        raise log_damaged(f"the log {quoted(shard.origin)} has lost all its heads")
    try:
        checkpoint = open_checkpoint(head.note, parse_vkey(shard.vkey), verify)
    except InvalidNote as error:
        raise log_damaged(f"the newest head is not the log's own: {error.message}") from error
    if checkpoint.size != head.size:
        raise log_damaged(f"the newest head is of {checkpoint.size} records, and is kept as one of {head.size}")
    if checkpoint.size > shard.size:
        raise log_damaged(
            f"records {shard.size}-{checkpoint.size - 1} are missing: the newest head says {checkpoint.size}"
        )
    return head.note, checkpoint


def prove_inclusion(log: Snapshot, index: int, *, origin: str = "", verify: Verify) -> Proof:
    """Return a proof that a record is in the log, under the newest signed head."""
    shard = find_shard(log, origin)
    note, head = newest_head(log, shard, verify)
    if not 0 <= index < head.size:
        raise LockgateError(f"record {index} is not under a signed head", hint=f"the newest has {head.size} records")

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        hashes = inclusion_proof(index, head.size, hash_of)
        return tuple(hashes) if verify_inclusion(index, head.size, hash_of(0, index), hashes, head.root) else None

    return Proof(index, _build_proof(log, shard, head, proof), note)


def prove_consistency(log: Snapshot, old: int, new: int, *, origin: str = "", verify: Verify) -> tuple[bytes, ...]:
    """Return a proof that the tree of `new` records, which a signed head covers, begins with that of `old`."""
    shard = find_shard(log, origin)
    _, head = newest_head(log, shard, verify)
    if not 0 <= old <= new <= head.size:
        raise LockgateError(
            f"{old} and {new} are no two sizes under a signed head", hint=f"the newest has {head.size} records"
        )

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        first, second = (range_root(0, size, hash_of) for size in (old, new))
        hashes, rest = (consistency_proof(*sizes, hash_of) for sizes in ((old, new), (new, head.size)))
        # The proof must reach the newest head: only that one is signed.
        good = verify_consistency(new, head.size, second, head.root, rest)
        return tuple(hashes) if good and verify_consistency(old, new, first, second, hashes) else None

    return _build_proof(log, shard, head, proof)


def check_held_head(log: Snapshot, note: bytes, verify: Verify) -> None:
    """Raise JournalDamaged unless the newest head continues a head that was kept elsewhere."""
    shard, held = _open_held_head(log, note, verify)
    _, head = newest_head(log, shard, verify)
    if held.size > head.size:
        # A head is stored before it leaves this machine.
        raise log_damaged(f"the newest head is gone: one of {held.size} records is held, the log's is of {head.size}")

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        hashes = consistency_proof(held.size, head.size, hash_of)
        return tuple(hashes) if verify_consistency(held.size, head.size, held.root, head.root, hashes) else None

    try:
        _build_proof(log, shard, head, proof)
    except JournalDamaged as error:
        raise log_damaged(f"the first {held.size} records are not those of the held head") from error


def tree_at_head(log: Snapshot, note: bytes, verify: Verify) -> tuple[Shard, Frontier]:
    """Return the shard of a head that was kept elsewhere, and its tree at that head, read from few stored hashes.

    The tree has the head's root, so it is the one that was signed. Raise JournalDamaged if the log does not have it.
    """
    shard, held = _open_held_head(log, note, verify)
    for levels in (TILE_LEVELS, 64):
        with suppress(_HashMissing):
            made = Frontier.of_size(held.size, _subtree_hashes(log, shard, levels))
            if made.root() == held.root:
                return shard, made
    raise log_damaged(f"the first {held.size} records are not those of the held head")


def _open_held_head(log: Snapshot, note: bytes, verify: Verify) -> tuple[Shard, Checkpoint]:
    """Return the shard that a kept head is of, and what the head says; raise if the log is not as long as that."""
    origin = parse_checkpoint(parse_note(note).text).origin
    shard = next((each for each in log.shards() if each.origin == origin), None)
    if shard is None:
        raise log_damaged(f"a head of the log {quoted(origin)} is held, and there is no such log here")
    try:
        held = open_checkpoint(note, parse_vkey(shard.vkey), verify)
    except InvalidNote as error:
        raise JournalUnavailable(f"the held head is not the log's own: {error.message}", hint=error.hint) from error
    if held.size > shard.size:
        raise log_damaged(f"records {shard.size}-{held.size - 1} are missing: the held head says {held.size}")
    return shard, held


def _build_proof(
    log: Snapshot, shard: Shard, head: Checkpoint, proof: Callable[[HashOf], tuple[bytes, ...] | None]
) -> tuple[bytes, ...]:
    """Return a proof that verifies, or raise JournalDamaged. If the tiles are wrong, compute it from all leaves."""
    for levels in (TILE_LEVELS, 64):
        with suppress(_HashMissing):
            found = proof(_subtree_hashes(log, shard, levels))
            if found is not None:
                return found
    raise log_damaged(f"the leaves do not add up to the newest head of {head.size} records")


class _HashMissing(Exception):
    """A hash is missing, or has a wrong length."""


def _subtree_hashes(log: Snapshot, shard: Shard, levels: int) -> HashOf:
    """Return `hash_of` for complete subtrees; each is computed from those at the next lower multiple of `levels`."""

    @cache
    def hash_of(level: int, index: int) -> bytes:
        above = level % levels
        start, stop = index << above, index + 1 << above
        kept = (
            log.leaves(shard.number, start, stop)
            if above == level
            else (log.tiles(shard.number, level - above, start, stop))
        )
        return root_of(_require_contiguous(kept, start, stop))

    return hash_of


def _require_contiguous(rows: Iterator[tuple[int, bytes]], start: int, stop: int) -> Iterator[bytes]:
    for index in range(start, stop):
        at, found = next(rows, (-1, b""))
        if at != index or len(found) != HASH:
            raise _HashMissing
        yield found


def frontier_from_edge(edge: bytes) -> Frontier:
    """Return the stored tree; raise JournalDamaged if it is none."""
    try:
        return Frontier.from_bytes(edge)
    except ValueError as error:
        raise log_damaged("the tree stored with the log is not valid") from error


def log_damaged(what: str) -> JournalDamaged:
    """Return the error for a log that a correct store cannot contain."""
    return JournalDamaged(what, hint="look at it with `lockgate audit verify` before anything else writes to it")
