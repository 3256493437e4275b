"""The journal's log as a store keeps it, and what can be checked and shown of it by reading alone.

What is read is believed only as far as it adds up to a signed head. `walked` takes a process from the newest head it
knows to what may be signed next, in these steps, each of which refuses rather than repairs:

1. The log is the one this process knows: not shorter, and under a key it knows.
2. The newest signed head in the store is signed by the log's key, and is not older than the newest known here.
3. Every leaf since the head known here is there, in order; they pass through the root of the store's newest head
   and end in the tree that appending goes on from.
4. Every record since that head still hashes to its leaf: a flipped bit must not be signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import NamedTuple, Protocol

from lockgate.core.errors import InvalidNote, JournalDamaged, JournalUnavailable, LockgateError, quoted
from lockgate.core.merkle import (
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
from lockgate.core.notes import Checkpoint, Proof, Verify, open_checkpoint, parse_checkpoint, parse_note, parse_vkey
from lockgate.core.record import parse


class Shard(NamedTuple):
    """A stretch of the log under one key, whose name is its origin. The newest one is open, all others are closed.

    `edge` is the tree to append to, `signed_edge` the tree of the newest head (`Frontier.to_bytes`). Records below
    `pruned` may have lost their bodies.
    """

    number: int
    vkey: str
    edge: bytes
    signed_edge: bytes
    pruned: int

    @property
    def size(self) -> int:
        return int.from_bytes(self.edge[:8], "big")

    @property
    def origin(self) -> str:
        return self.vkey.partition("+")[0]


class Head(NamedTuple):
    """A signed checkpoint as it is kept, and when it was made by the clock of whoever made it."""

    size: int
    note: bytes
    at_ms: int


class Row(NamedTuple):
    leaf: bytes
    body: bytes


class Snapshot(Protocol):
    """The log at one moment: what others do meanwhile does not show."""

    def shards(self) -> list[Shard]:
        """Oldest first."""

    def current(self) -> Shard | None:
        """The newest shard; None in a store that holds no log yet."""

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """(index, hash) in order, as far as they are there."""

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """(index, hash) of the subtrees kept of this level, in order, as far as they are there."""

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """(index, bytes) in order, as far as they are there."""

    def newest(self, shard: int) -> Head | None: ...

    def heads(self, shard: int) -> Iterator[Head]:
        """Smallest first."""

    def older(self, shard: int, at_ms: int) -> int:
        """The size of the largest head that was made before this time, as were all heads smaller than it; or 0.

        What was pruned was old, and is not looked at again.
        """


class Transaction(Snapshot, Protocol):
    """A change, with everybody else kept out from its first read on. It sees its own changes."""

    def open_shard(self, vkey: str) -> Shard:
        """Begin a new, empty shard, which closes the one before."""

    def append(self, shard: Shard, rows: Sequence[Row], edge: bytes, tiles: Sequence[Tile]) -> None:
        """Add records at the end of the newest shard; `edge` is its tree with them, `tiles` what they complete."""

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        """Keep a head that is larger than those before it."""

    def prune(self, shard: int, before: int) -> None:
        """Let bodies below this index be deleted; leaves never are."""

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        """Delete these bodies, which are below what was pruned."""


class Store(Protocol):
    """Where the log is kept.

    - `writing` commits when its block ends and takes everything back when it raises: all or nothing, for other
      threads, for other processes, and after a crash at any moment.
    - When `writing(durable=True)` has ended, what it wrote, and all that was written before it, survives a power cut.
      With `durable=False` it survives the end of the process, however it ends.
    - Both may be used by several threads. Whatever goes wrong is JournalUnavailable; what cannot be the work of a
      store that does as it should is JournalDamaged.
    - A store that is not there yet is made by `writing`, by one process even if several try, and not by `reading`.
    - After a fork the child may go on using it, and so may the parent.
    """

    def reading(self) -> AbstractContextManager[Snapshot]: ...

    def writing(self, *, durable: bool) -> AbstractContextManager[Transaction]: ...

    def tidy(self) -> None:
        """Housekeeping that is better done here than in somebody's append. Never raises."""

    def close(self) -> None:
        """Let go of files and connections. Never raises; using the store again opens it again."""


class Known(NamedTuple):
    """The newest stored head a process has checked: nothing that contradicts it is ever signed."""

    shard: int
    frontier: Frontier


# Signing


def walked(log: Snapshot, known: Known, seen: tuple[int, bytes], verify: Verify) -> tuple[Shard, Known, Frontier]:
    """Steps 1 to 4: the newest shard, its newest head, and its tree made anew from what is stored."""
    shards = [each for each in log.shards() if each.number >= known.shard]
    shard = recognised(shards[-1] if shards else None, seen)
    frontier = known.frontier.copy()
    for each, after in zip(shards, [*shards[1:], None], strict=True):
        if each.number != known.shard:
            frontier = Frontier()
        known = Known(each.number, _walk(log, each, frontier, verify))
        if after is not None:
            _check_link(log, each, after)
    return shard, known, frontier


def recognised(shard: Shard | None, seen: tuple[int, bytes]) -> Shard:
    """Step 1, as far as it can be seen at a glance: this is done under the lock of every append.

    `seen` has to be from before the log was looked at: other threads go on appending.
    """
    number, edge = seen
    if shard is None:
        raise damaged("the store holds no log any more" if number else "the store holds no log")
    size, before = shard.size, int.from_bytes(edge[:8], "big")
    if (shard.number, size) < (number, before):
        raise damaged(f"the log went back: it had {before} records, now it has {size}")
    if (shard.number, size) == (number, before) and shard.edge != edge:
        raise damaged(f"the log is another one: its {size} records are not those that were there")
    return shard


def _walk(log: Snapshot, shard: Shard, frontier: Frontier, verify: Verify) -> Frontier:
    """Take the tree to the end of the shard; the tree as it was at the newest head."""
    _, head = newest_head(log, shard, verify)  # 2.
    if head.size < frontier.size:
        raise damaged(f"the newest head is gone: one of {frontier.size} records was there, now of {head.size}")
    leaves = log.leaves(shard.number, frontier.size, shard.size)  # 3.
    while frontier.size < head.size:
        index, leaf = next(leaves, (-1, b""))
        if index != frontier.size:
            raise damaged(f"record {frontier.size} is missing: the head says {head.size}")
        _take(frontier, leaf)
    if frontier.root() != head.root:
        raise damaged(f"the first {head.size} records are not those of the newest head")
    at_head = frontier.copy()
    if at_head.to_bytes() != shard.signed_edge:
        raise damaged("the newest head and the tree kept with it do not fit")
    bodies = log.bodies(shard.number, head.size, shard.size)  # 4.
    for index, leaf in leaves:
        at, body = next(bodies, (-1, b""))
        if index != frontier.size or at != index:
            raise damaged(f"record {frontier.size} is missing")
        if leaf_hash(body) != leaf:
            raise damaged(f"record {index} is not what was appended")
        _take(frontier, leaf)
    if frontier.to_bytes() != shard.edge:
        raise damaged(f"the log says {shard.size} records, and has {frontier.size} that do not add up to it")
    if next(log.leaves(shard.number, shard.size, shard.size + 1), None) is not None:
        raise damaged(f"there are records beyond the {shard.size} that the log says it has")
    return at_head


def _check_link(log: Snapshot, shard: Shard, after: Shard) -> None:
    """A shard is followed by the one its last record names: else anybody's key could go on with the log."""
    body = dict(log.bodies(shard.number, shard.size - 1, shard.size)).get(shard.size - 1, b"")
    try:
        last = parse(body)
    except LockgateError:
        last = {}
    if last.get("kind") != "rotation" or last.get("next_vkey") != after.vkey:
        raise damaged(f"the log {quoted(after.origin)} is not the one that {quoted(shard.origin)} names as next")


def _take(frontier: Frontier, leaf: bytes) -> None:
    try:
        frontier.append(leaf)
    except ValueError as error:
        raise damaged(f"the leaf of record {frontier.size} is no hash") from error


# Showing


def named(log: Snapshot, origin: str) -> Shard:
    """The shard of this name, or the open one for none."""
    shard = next((each for each in log.shards() if each.origin == origin), None) if origin else log.current()
    if shard is None:
        raise LockgateError(f"there is no log {quoted(origin)} here" if origin else "there is no log here yet")
    return shard


def newest_head(log: Snapshot, shard: Shard, verify: Verify) -> tuple[bytes, Checkpoint]:
    """The newest head of a shard, as it is kept and what it says."""
    head = log.newest(shard.number)
    if head is None:
        raise damaged(f"the log {quoted(shard.origin)} has lost all its heads")
    try:
        checkpoint = open_checkpoint(head.note, parse_vkey(shard.vkey), verify)
    except InvalidNote as error:
        raise damaged(f"the newest head is not the log's own: {error.message}") from error
    if checkpoint.size != head.size or checkpoint.size > shard.size:
        raise damaged(f"records {shard.size}-{checkpoint.size - 1} are missing: the newest head says {checkpoint.size}")
    return head.note, checkpoint


def inclusion(log: Snapshot, index: int, *, origin: str = "", verify: Verify) -> Proof:
    """That a record is in the log, under the newest signed head."""
    shard = named(log, origin)
    note, head = newest_head(log, shard, verify)
    if not 0 <= index < head.size:
        raise LockgateError(f"record {index} is not under a signed head", hint=f"the newest has {head.size} records")

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        hashes = inclusion_proof(index, head.size, hash_of)
        return tuple(hashes) if verify_inclusion(index, head.size, hash_of(0, index), hashes, head.root) else None

    return Proof(index, _proved(log, shard, head, proof), note)


def consistency(log: Snapshot, old: int, new: int, *, origin: str = "", verify: Verify) -> tuple[bytes, ...]:
    """That the tree of `new` records, which a signed head covers, begins with that of `old`."""
    shard = named(log, origin)
    _, head = newest_head(log, shard, verify)
    if not 0 <= old <= new <= head.size:
        raise LockgateError(
            f"{old} and {new} are no two sizes under a signed head", hint=f"the newest has {head.size} records"
        )

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        first, second = (range_root(0, size, hash_of) for size in (old, new))
        hashes, rest = (consistency_proof(*sizes, hash_of) for sizes in ((old, new), (new, head.size)))
        # Up to the head: only that one is signed.
        good = verify_consistency(new, head.size, second, head.root, rest)
        return tuple(hashes) if good and verify_consistency(old, new, first, second, hashes) else None

    return _proved(log, shard, head, proof)


def check_held(log: Snapshot, note: bytes, verify: Verify) -> None:
    """That the newest head goes on from a head that somebody kept."""
    origin = parse_checkpoint(parse_note(note).text).origin
    shard = next((each for each in log.shards() if each.origin == origin), None)
    if shard is None:
        raise damaged(f"a head of the log {quoted(origin)} is held, and there is no such log here")
    try:
        held = open_checkpoint(note, parse_vkey(shard.vkey), verify)
    except InvalidNote as error:
        raise JournalUnavailable(f"the held head is not the log's own: {error.message}", hint=error.hint) from error
    if held.size > shard.size:
        raise damaged(f"records {shard.size}-{held.size - 1} are missing: the held head says {held.size}")
    _, head = newest_head(log, shard, verify)
    if held.size > head.size:
        # A head is stored before anybody sees it.
        raise damaged(f"the newest head is gone: one of {held.size} records is held, the log's is of {head.size}")

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        hashes = consistency_proof(held.size, head.size, hash_of)
        return tuple(hashes) if verify_consistency(held.size, head.size, held.root, head.root, hashes) else None

    try:
        _proved(log, shard, head, proof)
    except JournalDamaged as error:
        raise damaged(f"the first {held.size} records are not those of the held head") from error


def _proved(
    log: Snapshot, shard: Shard, head: Checkpoint, proof: Callable[[HashOf], tuple[bytes, ...] | None]
) -> tuple[bytes, ...]:
    """A proof that holds, or JournalDamaged: a wrong tile costs a walk over all leaves, and not the proof."""
    for levels in (TILE_LEVELS, 64):
        with suppress(_Missing):
            found = proof(_hashes(log, shard, levels))
            if found is not None:
                return found
    raise damaged(f"the leaves do not add up to the newest head of {head.size} records")


class _Missing(Exception):
    """A hash that is not there, or is none."""


def _hashes(log: Snapshot, shard: Shard, levels: int) -> HashOf:
    """Complete subtrees, each made of those kept at the next lower multiple of these levels."""

    @cache
    def hash_of(level: int, index: int) -> bytes:
        above = level % levels
        start, stop = index << above, index + 1 << above
        kept = (
            log.leaves(shard.number, start, stop)
            if above == level
            else (log.tiles(shard.number, level - above, start, stop))
        )
        return root_of(_contiguous(kept, start, stop))

    return hash_of


def _contiguous(rows: Iterator[tuple[int, bytes]], start: int, stop: int) -> Iterator[bytes]:
    for index in range(start, stop):
        at, found = next(rows, (-1, b""))
        if at != index or len(found) != HASH:
            raise _Missing
        yield found


def frontier_of(edge: bytes) -> Frontier:
    try:
        return Frontier.from_bytes(edge)
    except ValueError as error:
        raise damaged("the tree kept with the log is no tree") from error


def damaged(what: str) -> JournalDamaged:
    return JournalDamaged(what, hint="look at it with `lockgate audit verify` before anything else writes to it")
