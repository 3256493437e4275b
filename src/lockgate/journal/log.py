"""The journal's log as a store keeps it, and what can be checked and shown of it by reading alone.

What is read is believed only as far as it adds up to a signed head. `walked` takes a process from the newest head it
knows to what may be signed next, in these steps, each of which refuses rather than repairs:

1. The log is the one this process knows: not shorter, and under a key it knows.
2. The newest signed head in the store is signed by the log's key, and is not older than the newest known here.
3. Every leaf since the head known here is there, in order; they pass through the root of the store's newest head
   and end in the tree that appending goes on from.
4. Every record since that head still hashes to its leaf: a flipped bit must not be signed.

What no head covers yet is believed only under its seal (`Seal`): else whoever can write the store could have anything
signed by putting it behind the newest head.
"""

from __future__ import annotations

import hmac
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from hashlib import blake2b, sha256
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from lockgate.core.errors import InvalidNote, JournalDamaged, JournalUnavailable, LockgateError, quoted
from lockgate.core.journal.merkle import (
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
from lockgate.core.journal.record import parse_record
from lockgate.core.journal.signed_notes import (
    Checkpoint,
    Proof,
    PublicKey,
    Verify,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    parse_vkey,
)

# Signed once to make the key of the seals. No head can read like this: those are three lines.
_SEALING = b"lockgate journal seal/1"


class Shard(NamedTuple):
    """A stretch of the log under one key, whose name is its origin. The newest one is open, all others are closed.

    `edge` is the tree to append to, `signed_edge` the tree of the newest head (`Frontier.to_bytes`). Records below
    `pruned` may have lost their bodies. `seal` shows that whoever wrote all this had the newest shard's key.
    """

    number: int
    vkey: str
    edge: bytes
    signed_edge: bytes
    pruned: int
    seal: bytes = b""

    @property
    def size(self) -> int:
        return int.from_bytes(self.edge[:8], "big")

    @property
    def origin(self) -> str:
        return self.vkey.partition("+")[0]


class Head(NamedTuple):
    """A signed checkpoint as it is kept. When it was made is for people to read: nothing vouches for it."""

    size: int
    note: bytes
    at_ms: int


class LogRow(NamedTuple):
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


class Transaction(Snapshot, Protocol):
    """A change, with everybody else kept out from its first read on. It sees its own changes."""

    def open_shard(self, vkey: str) -> Shard:
        """Begin a new, empty shard, which closes the one before."""

    def append(self, shard: Shard, rows: Sequence[LogRow], edge: bytes, tiles: Sequence[Tile], seal: bytes) -> bool:
        """Add records at the end of the newest shard; `edge` is its tree with them, `tiles` what they complete.

        False, with nothing done, where this is not the newest shard any more, or its tree is not `shard.edge`: whoever
        was the last to append need not read before appending again.
        """

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        """Keep a head that is larger than those before it."""

    def prune(self, shard: int, before: int, seal: bytes) -> None:
        """Let bodies below this index be deleted; leaves never are. With the index there was, it is sealed anew."""

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        """Delete these bodies, which are below what was pruned."""


class Spool(Protocol):
    """Where records are safe from the end of this process, however it ends, until the log has them."""

    @property
    def empty(self) -> bool:
        """Whether what is put next is the first."""

    def put(self, data: bytes) -> None:
        """OSError or JournalUnavailable where it is not there for others when this returns."""

    def clear(self) -> None:
        """The log has all of it."""

    def take_over(self, take: Callable[[bytes], bool]) -> list[str]:
        """Hand over what processes that are gone have left; what `take` cannot read is set aside, and named."""

    def close(self, *, remove: bool) -> None:
        """Let go of it: what is left is somebody else's."""


class Store(Protocol):
    """Where the log is kept. `spool` is None where there is no place for records that wait.

    - `writing` commits when its block ends and takes everything back when it raises: all or nothing, for other
      threads, for other processes, and after a crash at any moment.
    - When `writing(durable=True)` has ended, what it wrote, and all that was written before it, survives a power cut.
      With `durable=False` it survives the end of the process, however it ends.
    - Both may be used by several threads. Whatever goes wrong is JournalUnavailable; what cannot be the work of a
      store that does as it should is JournalDamaged.
    - A store that is not there yet is made by `writing`, by one process even if several try, and not by `reading`.
    - After a fork the child may go on using it, and so may the parent, each with connections of its own. A child that
      was forked while another thread was in a transaction that did not end may be refused for good instead.
    """

    @property
    def spool(self) -> Spool | None: ...

    def reading(self) -> AbstractContextManager[Snapshot]: ...

    def writing(self, *, durable: bool) -> AbstractContextManager[Transaction]: ...

    def tidy(self) -> None:
        """Housekeeping that is better done here than in somebody's append. Never raises."""

    def close(self) -> None:
        """Let go of files and connections. Never raises; using the store again opens it again."""


class Signer(Protocol):
    """Holds a log's private key. `sign` may raise anything; what it returns is checked.

    As Ed25519 does, it has to sign the same in the same way every time: the key of the seals is made of that.
    """

    @property
    def key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes: ...


class Seal:
    """What shows that the end of a log, and how much of it may be deleted, is the work of somebody with its key.

    A head could show it too, but signing one in every append would cost more than the append. The key is that of the
    newest shard, so rotation seals the closed ones anew: an old key need not be kept.
    """

    def __init__(self, signer: Signer, verify: Verify) -> None:
        self.signer = signer
        try:
            signature = signer.sign(_SEALING)
            good = verify(signer.key.public, _SEALING, signature)
        except Exception as error:
            raise JournalUnavailable(f"the signer failed: {type(error).__name__}") from error
        if not good:
            raise JournalUnavailable("the signer failed: it signed something else")
        self._key = sha256(signature).digest()

    def seal_shard(self, shard: Shard) -> bytes:
        said = b"%d %d %d\n%b%b" % (shard.number, shard.pruned, len(shard.edge), shard.edge, shard.vkey.encode())
        return hmac.digest(self._key, said, "sha256")

    def over_waiting(self, data: bytes) -> bytes:
        """The same for records that wait: else whoever can write there could have anything appended."""
        # Another function than that of the other seals, so that none of them is ever one of these; and a cheaper one,
        # for this is in the way of calls.
        return blake2b(data, digest_size=32, key=self._key, person=b"waiting").digest()

    def check_shards(self, shards: Iterable[Shard]) -> None:
        for shard in shards:
            if not hmac.compare_digest(self.seal_shard(shard), shard.seal):
                raise log_damaged(
                    f"the end of the log {quoted(shard.origin)}, or what may be deleted of it, "
                    "was written by somebody without its key"
                )


class CheckedHead(NamedTuple):
    """The newest stored head a process has checked: nothing that contradicts it is ever signed."""

    shard: int
    frontier: Frontier


# Signing


def walk_log(
    log: Snapshot, known: CheckedHead, seen: tuple[int, bytes], verify: Verify
) -> tuple[Shard, CheckedHead, Frontier]:
    """Steps 1 to 4: the newest shard, its newest head, and its tree made anew from what is stored."""
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
    """Step 1, as far as it can be seen at a glance: this is done under the lock of every append.

    `seen` has to be from before the log was looked at: other threads go on appending.
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
    """Take the tree to the end of the shard; the tree as it was at the newest head."""
    _, head = newest_head(log, shard, verify)  # 2.
    if head.size < frontier.size:
        raise log_damaged(f"the newest head is gone: one of {frontier.size} records was there, now of {head.size}")
    leaves = log.leaves(shard.number, frontier.size, shard.size)  # 3.
    while frontier.size < head.size:
        index, leaf = next(leaves, (-1, b""))
        if index != frontier.size:
            raise log_damaged(f"record {frontier.size} is missing: the head says {head.size}")
        _append_leaf(frontier, leaf)
    if frontier.root() != head.root:
        raise log_damaged(f"the first {head.size} records are not those of the newest head")
    at_head = frontier.copy()
    if at_head.to_bytes() != shard.signed_edge:
        raise log_damaged("the newest head and the tree kept with it do not fit")
    bodies = log.bodies(shard.number, head.size, shard.size)  # 4.
    for index, leaf in leaves:
        at, body = next(bodies, (-1, b""))
        if index != frontier.size or at != index:
            raise log_damaged(f"record {frontier.size} is missing")
        if leaf_hash(body) != leaf:
            raise log_damaged(f"record {index} is not what was appended")
        _append_leaf(frontier, leaf)
    if frontier.to_bytes() != shard.edge:
        raise log_damaged(f"the log says {shard.size} records, and has {frontier.size} that do not add up to it")
    if next(log.leaves(shard.number, shard.size, shard.size + 1), None) is not None:
        raise log_damaged(f"there are records beyond the {shard.size} that the log says it has")
    return at_head


def _check_link(log: Snapshot, shard: Shard, after: Shard | None, signed: int) -> None:
    """A shard is followed by the one its last record names: else anybody's key could go on with the log.

    And its head covers that record, for before that anybody could have put it there.
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


# In canonical form no text can hold this, its quotes would be escaped: most records need not be parsed.
_ROTATION = b'"kind":"rotation"'


def _append_leaf(frontier: Frontier, leaf: bytes) -> None:
    try:
        frontier.append(leaf)
    except ValueError as error:
        raise log_damaged(f"the leaf of record {frontier.size} is no hash") from error


# Retention

_DAY_MS = 86_400_000


def record_time_ms(log: Snapshot, shard: int, index: int) -> int:
    """When a record was made by its own word; long ago where it cannot be read."""
    _, body = next(log.bodies(shard, index, index + 1), (-1, b""))
    return _time_of_body_ms(body)


def _time_of_body_ms(body: bytes) -> int:
    try:
        found = parse_record(body)["ts_ms"]
    except LockgateError:
        return 0
    return found if isinstance(found, int) else 0


def find_end_of_old_records(log: Snapshot, shard: Shard, old_ms: int, verify: Verify) -> int:
    """Below which index all records were made before this time; 0 where there is nothing to delete.

    By their own word, and only where they are those of the newest head: what else the store says of them, somebody may
    have written there to have them deleted.
    """
    start = max(1, shard.pruned)
    if start >= shard.size or record_time_ms(log, shard.number, start) >= old_ms:
        return 0
    _, head = newest_head(log, shard, verify)
    frontier, before, old = Frontier(), start, True
    bodies = log.bodies(shard.number, start, head.size)
    for index, leaf in log.leaves(shard.number, 0, head.size):
        if index != frontier.size:
            break
        _append_leaf(frontier, leaf)
        if old and index >= start:
            at, body = next(bodies, (-1, b""))
            if at != index or leaf_hash(body) != leaf:
                raise log_damaged(f"record {index} is missing, or not what was appended")
            old = _time_of_body_ms(body) < old_ms
            before += old
    if frontier.size != head.size or frontier.root() != head.root:
        raise log_damaged(f"the first {head.size} records are not those of the newest head")
    return before if before > start else 0


def is_clock_plausible(log: Snapshot, now_ms: int, retention_days: int) -> bool:
    """Whether the log bears out what the clock says: it has a record that is a day to a month old, and none to come.

    A clock that jumped ahead would make everything old at once: so that record must be one that is kept. Where a day is
    all that is kept, half a day is old enough. Records lie in the order they were stored, so a few looks find the
    newest that is so old; where clocks of several hosts differ, one near it.
    """
    most_ms = min(31, retention_days) * _DAY_MS
    least_ms = min(_DAY_MS, most_ms // 2)
    shards = log.shards()
    if not shards or record_time_ms(log, shards[-1].number, shards[-1].size - 1) > now_ms + _DAY_MS:
        return False
    for shard in reversed(shards):
        there = range(max(1, shard.pruned), shard.size)
        number = shard.number

        def time_of(index: int, number: int = number) -> int:
            return record_time_ms(log, number, index)

        if at := bisect_right(there, now_ms - least_ms, key=time_of):
            return record_time_ms(log, shard.number, there[at - 1]) >= now_ms - most_ms
    return False


# Waiting


class Waited(NamedTuple):
    """Records that waited together, and where the log ended when they began to."""

    shard: int
    size: int
    bodies: list[bytes]
    data: bytes
    seal: bytes


_WAITING = b"lkgw"
_FRAME = struct.Struct(">4sI32s")
_SINCE = struct.Struct(">IQI")
_LENGTH = struct.Struct(">I")
_ONE = struct.Struct(">IQII")


def waiting(shard: Shard, bodies: Sequence[bytes], seal: Seal, before: bytes) -> tuple[bytes, bytes]:
    """Records in the form in which they wait, and their seal, which is also over that of those before them."""
    if len(bodies) == 1:
        # Nearly always, and in the way of a call.
        data = _ONE.pack(shard.number, shard.size, 1, len(bodies[0])) + bodies[0]
    else:
        lengths = [_LENGTH.pack(len(each)) for each in bodies]
        data = b"".join((_SINCE.pack(shard.number, shard.size, len(bodies)), *lengths, *bodies))
    sealed = seal.over_waiting(before + data)
    return _FRAME.pack(_WAITING, len(data), sealed) + data, sealed


def waited(data: bytes) -> Iterator[Waited]:
    """What waits, up to where zeros begin; ValueError for what is none. Whose work it is only the seals tell."""
    at = 0
    while len(data) - at >= _FRAME.size:
        magic, length, seal = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        if magic == bytes(4):
            return
        if magic != _WAITING:
            raise ValueError("not waiting records")
        said = data[at : at + length]
        at += length
        if len(said) != length:
            raise ValueError("not waiting records")
        try:
            shard, size, count = _SINCE.unpack_from(said)
            lengths = [each for (each,) in _LENGTH.iter_unpack(said[_SINCE.size : _SINCE.size + count * _LENGTH.size])]
        except struct.error as error:
            raise ValueError("not waiting records") from error
        ends = list(accumulate(lengths, initial=_SINCE.size + count * _LENGTH.size))
        if len(lengths) != count or not lengths or ends[-1] != length:
            raise ValueError("not waiting records")
        yield Waited(shard, size, [said[start:end] for start, end in pairwise(ends)], said, seal)
    if any(data[at:]):
        raise ValueError("not waiting records")


def found_since(log: Snapshot, shard: int, size: int, leaf: bytes) -> tuple[Shard, int] | None:
    """Where a record is that was appended, if it was, after the log ended there."""
    for each in log.shards():
        if each.number >= shard:
            for index, there in log.leaves(each.number, size if each.number == shard else 0, each.size):
                if there == leaf:
                    return each, index
    return None


# Showing


def find_shard(log: Snapshot, origin: str) -> Shard:
    """The shard of this name, or the open one for none."""
    shard = next((each for each in log.shards() if each.origin == origin), None) if origin else log.current()
    if shard is None:
        raise LockgateError(f"there is no log {quoted(origin)} here" if origin else "there is no log here yet")
    return shard


def newest_head(log: Snapshot, shard: Shard, verify: Verify) -> tuple[bytes, Checkpoint]:
    """The newest head of a shard, as it is kept and what it says."""
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
    """That a record is in the log, under the newest signed head."""
    shard = find_shard(log, origin)
    note, head = newest_head(log, shard, verify)
    if not 0 <= index < head.size:
        raise LockgateError(f"record {index} is not under a signed head", hint=f"the newest has {head.size} records")

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        hashes = inclusion_proof(index, head.size, hash_of)
        return tuple(hashes) if verify_inclusion(index, head.size, hash_of(0, index), hashes, head.root) else None

    return Proof(index, _build_proof(log, shard, head, proof), note)


def prove_consistency(log: Snapshot, old: int, new: int, *, origin: str = "", verify: Verify) -> tuple[bytes, ...]:
    """That the tree of `new` records, which a signed head covers, begins with that of `old`."""
    shard = find_shard(log, origin)
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

    return _build_proof(log, shard, head, proof)


def check_held_head(log: Snapshot, note: bytes, verify: Verify) -> None:
    """That the newest head goes on from a head that somebody kept."""
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
    _, head = newest_head(log, shard, verify)
    if held.size > head.size:
        # A head is stored before anybody sees it.
        raise log_damaged(f"the newest head is gone: one of {held.size} records is held, the log's is of {head.size}")

    def proof(hash_of: HashOf) -> tuple[bytes, ...] | None:
        hashes = consistency_proof(held.size, head.size, hash_of)
        return tuple(hashes) if verify_consistency(held.size, head.size, held.root, head.root, hashes) else None

    try:
        _build_proof(log, shard, head, proof)
    except JournalDamaged as error:
        raise log_damaged(f"the first {held.size} records are not those of the held head") from error


def _build_proof(
    log: Snapshot, shard: Shard, head: Checkpoint, proof: Callable[[HashOf], tuple[bytes, ...] | None]
) -> tuple[bytes, ...]:
    """A proof that holds, or JournalDamaged: a wrong tile costs a walk over all leaves, and not the proof."""
    for levels in (TILE_LEVELS, 64):
        with suppress(_HashMissing):
            found = proof(_subtree_hashes(log, shard, levels))
            if found is not None:
                return found
    raise log_damaged(f"the leaves do not add up to the newest head of {head.size} records")


class _HashMissing(Exception):
    """A hash that is not there, or is none."""


def _subtree_hashes(log: Snapshot, shard: Shard, levels: int) -> HashOf:
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
        return root_of(_require_contiguous(kept, start, stop))

    return hash_of


def _require_contiguous(rows: Iterator[tuple[int, bytes]], start: int, stop: int) -> Iterator[bytes]:
    for index in range(start, stop):
        at, found = next(rows, (-1, b""))
        if at != index or len(found) != HASH:
            raise _HashMissing
        yield found


def frontier_from_edge(edge: bytes) -> Frontier:
    try:
        return Frontier.from_bytes(edge)
    except ValueError as error:
        raise log_damaged("the tree kept with the log is no tree") from error


def log_damaged(what: str) -> JournalDamaged:
    return JournalDamaged(what, hint="look at it with `lockgate audit verify` before anything else writes to it")
