"""The journal: records appended to a Merkle log, and the log's heads signed.

An append is acknowledged when the store has committed it. Heads follow by themselves, in these steps, each of which
refuses rather than repairs:

1. The log is the one this process knows: not shorter, and under a key it knows.
2. The newest signed head in the store is signed by the log's key, and is not older than the newest known here.
3. Every leaf since the head known here is there, in order; they pass through the root of the store's newest head
   and end in the tree that appending goes on from.
4. Every record since that head still hashes to its leaf: a flipped bit must not be signed.
5. The new head's signature holds. It is stored, with all that it covers safe from a power cut, before anybody sees it:
   a head that left the machine and then lost its records would look like a rolled-back log for ever.
"""

from __future__ import annotations

import os
import weakref
from atexit import register
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread, current_thread
from time import monotonic, time
from typing import NamedTuple, Protocol, TypedDict

from lockgate.core.errors import LockgateError, quoted
from lockgate.core.merkle import Frontier, inclusion_proof, leaf_hash, levels_of
from lockgate.core.notes import (
    Checkpoint,
    InvalidNote,
    Proof,
    PublicKey,
    Verify,
    open_checkpoint,
    open_proof,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    signed,
)
from lockgate.core.record import MAX_RECORD, SALT, encode, opening, parse, prune, rotation

# A head is signed this long after the first record it covers, so that it is there within a second; or after so many.
CHECKPOINT_S = 0.8
CHECKPOINT_RECORDS = 256
# Without signed heads nobody can tell whether the log was changed: after this long nothing more is taken in.
MAX_UNSIGNED_S = 60.0
# One transaction takes at most so much: the others wait for it.
_MAX_BATCH = 1024
_MAX_BATCH_BYTES = 4 << 20
_SWEPT_AT_ONCE = 512
_DAY_MS = 86_400_000
# How long a slow signer may hold up the end of the process.
_CLOSE_S = 2.0


class JournalUnavailable(LockgateError):
    """Nothing can be recorded now. What was not acknowledged may have been stored all the same."""


class JournalDamaged(JournalUnavailable):
    """What is stored is not what was stored: a person has to look."""


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

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """(index, bytes) in order, as far as they are there."""

    def newest(self, shard: int) -> Head | None: ...

    def heads(self, shard: int) -> Iterator[Head]:
        """Smallest first."""

    def older(self, shard: int, at_ms: int) -> int:
        """The size of the largest head that was made before this time, as were all heads smaller than it; or 0."""


class Transaction(Snapshot, Protocol):
    """A change, with everybody else kept out from its first read on. It sees its own changes."""

    def open_shard(self, vkey: str) -> Shard:
        """Begin a new, empty shard, which closes the one before."""

    def append(self, shard: Shard, rows: Sequence[Row], edge: bytes) -> None:
        """Add records at the end of the newest shard; `edge` is its tree with them."""

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        """Keep a head that is larger than those before it."""

    def prune(self, shard: int, before: int) -> None:
        """Let bodies below this index be deleted; leaves never are."""

    def sweep(self, shard: int, start: int, stop: int, most: int) -> int:
        """Delete up to so many bodies in this range, below what was pruned; how many it were."""


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


class Signer(Protocol):
    """Holds a log's private key. `sign` may raise anything; what it returns is checked."""

    @property
    def key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a record is: enough to ask for its proof, and to notice if it is gone."""

    origin: str
    index: int
    leaf_hash: bytes


class _Ticket:
    """Somebody's records on their way into the log. Done once it has receipts or an error."""

    __slots__ = ("durable", "error", "receipts", "rows", "weight")

    def __init__(self, rows: list[Row], *, durable: bool) -> None:
        self.rows, self.durable = rows, durable
        self.weight = sum(len(row.body) for row in rows)
        self.receipts: tuple[Receipt, ...] | None = None
        self.error: JournalUnavailable | None = None

    @property
    def done(self) -> bool:
        return self.receipts is not None or self.error is not None


class _Known(NamedTuple):
    """The newest stored head this process has checked: nothing that contradicts it is ever signed."""

    shard: int
    frontier: Frontier


class _Numbered(TypedDict):
    """What every record of the journal's own begins with."""

    run: str
    seq: int
    ts_ms: int
    salt: bytes


class Journal:
    """The log of one installation. Safe for several threads; several processes may share its store.

    The log's name is that of the signer's key. `held` are signed heads that somebody kept elsewhere: a log that does
    not contain them is refused. `find_signer` is asked for the key of a shard that another process has opened; without
    it this process goes on appending there and leaves the signing to those who have the key, for as long as
    `MAX_UNSIGNED_S` of it.
    """

    def __init__(
        self,
        store: Store,
        signer: Signer,
        *,
        verify: Verify,
        clock: Callable[[], float] = time,
        ticks: Callable[[], float] = monotonic,
        held: Iterable[bytes] = (),
        find_signer: Callable[[str], Signer | None] | None = None,
    ) -> None:
        self.store = store
        # Why the last head could not be signed; empty when it could.
        self.problem = ""
        self._signer = signer
        self._verify = verify
        self._clock = clock
        self._ticks = ticks
        self._held = tuple(held)
        self._find_signer = find_signer
        self._known: _Known | None = None
        # The tree as this process last saw it, signed or not: an append on anything shorter would be a fork.
        self._seen: tuple[int, bytes] = (0, b"")
        self._damage: JournalDamaged | None = None
        self._closed = False
        self._run = os.urandom(8).hex()
        self._seq = 0
        self._begin()
        _open.add(self)

    def _begin(self) -> None:
        """Everything that a fork leaves in pieces: locks that nobody will open, and a thread that is not here."""
        self._waiting: deque[_Ticket] = deque()
        # Owner of `_writing`: who appends. Owner of `_signing`: who signs. Taken in this order where both are.
        self._writing = Lock()
        self._signing = Lock()
        self._unsigned = 0
        self._unsigned_since: float | None = None
        self._changed = Event()
        self._hurry = Event()
        self._thread: Thread | None = None

    # Appending

    def append(self, records: Sequence[bytes], *, durable: bool) -> tuple[Receipt, ...]:
        """Store these records, in this order and next to each other; returns once they are committed.

        `durable` says whether they must outlive a power cut, or only this process.
        """
        rows = [Row(leaf_hash(each), bytes(each)) for each in records]
        if not rows or len(rows) > _MAX_BATCH or any(not 0 < len(row.body) <= MAX_RECORD for row in rows):
            raise LockgateError(
                f"an append takes 1 to {_MAX_BATCH} records of 1 to {MAX_RECORD:,} bytes", hint="encode them first"
            )
        ticket = _Ticket(rows, durable=durable)
        self._waiting.append(ticket)
        # Whoever comes first writes for everybody who waits by then: one commit, one sync, many records.
        with self._writing:
            while not ticket.done:
                self._write(self._batch())
        if ticket.receipts is not None:
            return ticket.receipts
        assert ticket.error is not None  # noqa: S101
        # An error of one's own each: several threads may be about to raise it.
        raise type(ticket.error)(ticket.error.message, hint=ticket.error.hint) from ticket.error

    def _batch(self) -> list[_Ticket]:
        batch: list[_Ticket] = []
        count = weight = 0
        while self._waiting:
            first = self._waiting[0]
            count += len(first.rows)
            weight += first.weight
            if batch and (count > _MAX_BATCH or weight > _MAX_BATCH_BYTES):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _write(self, batch: list[_Ticket]) -> None:
        try:
            self._refuse_unfit()
            if self._known is None:
                self._open()
            with self.store.writing(durable=any(ticket.durable for ticket in batch)) as log:
                shard = _recognised(log.current(), self._seen)
                frontier = _frontier(shard.edge)
                first = frontier.size
                rows = [row for ticket in batch for row in ticket.rows]
                for row in rows:
                    frontier.append(row.leaf)
                edge = frontier.to_bytes()
                log.append(shard, rows, edge)
        except JournalUnavailable as error:
            self._note_damage(error)
            for ticket in batch:
                ticket.error = error
            return
        except BaseException as error:
            # Nobody may wait for ever for what this thread had taken over.
            for ticket in batch:
                ticket.error = JournalUnavailable(f"the writer stopped: {type(error).__name__}")
            raise
        self._seen = (shard.number, edge)
        origin = shard.origin
        for ticket in batch:
            ticket.receipts = tuple(Receipt(origin, first + at, row.leaf) for at, row in enumerate(ticket.rows))
            first += len(ticket.rows)
        self._ask_for_head(len(rows))

    def _refuse_unfit(self) -> None:
        self._refuse_unfit_to_sign()
        since = self._unsigned_since
        if since is not None and self._ticks() - since > MAX_UNSIGNED_S:
            why = f": {self.problem}" if self.problem else ""
            raise JournalUnavailable(f"the log's head could not be signed for {MAX_UNSIGNED_S:.0f} seconds{why}")

    def _note_damage(self, error: BaseException) -> None:
        if isinstance(error, JournalDamaged) and self._damage is None:
            self._damage = error

    # Opening

    def _open(self) -> None:
        """Make the log, or check the end of the one that is there against its newest head and the held ones."""
        with self._numbering(), self.store.writing(durable=True) as log:
            if log.current() is None:
                if self._held:
                    raise _damaged("the log is gone: the store is empty, and a head of it is held")
                self._open_shard(log, self._signer)
        with self.store.reading() as log:
            shard = _recognised(log.current(), self._seen)
            self._adopt(shard)
            head = self._head(log, shard)
            start = _frontier(shard.signed_edge)
            if start.size != head.size or start.root() != head.root:
                raise _damaged("the newest head and the tree kept with it do not fit")
            known = _Known(shard.number, start)
            _, _, frontier = self._walked(log, known, self._seen)
            for note in self._held:
                self._check_held(log, note)
        self._known, self._seen = known, (shard.number, shard.edge)
        if frontier.size > start.size:
            # Somebody was stopped before they could sign.
            self._ask_for_head(frontier.size - start.size)

    def _adopt(self, shard: Shard) -> None:
        """The signer for this shard, as far as there is one here."""
        if shard.vkey == self._signer.key.vkey:
            return
        found = self._find_signer(shard.vkey) if self._find_signer is not None else None
        if found is not None and found.key.vkey == shard.vkey:
            self._signer = found
        elif self._known is None:
            raise JournalUnavailable(
                f"the log goes on under the key {quoted(shard.vkey, 120)}, not {quoted(self._signer.key.vkey, 120)}",
                hint="name the key this log was made with, or another place for a new log",
            )

    def _open_shard(self, log: Transaction, signer: Signer, *, vkey: str = "", head: bytes = b"") -> _Known:
        """A shard is never without a head: one that has none has lost it."""
        key = signer.key
        shard = log.open_shard(key.vkey)
        record = opening(**self._next(), origin=key.name, previous_vkey=vkey, previous=head.decode())
        frontier = Frontier()
        self._add(log, shard, frontier, record)
        self._sign(log, shard, frontier, signer)
        return _Known(shard.number, frontier)

    def _next(self) -> _Numbered:
        self._seq += 1
        return _Numbered(run=self._run, seq=self._seq, ts_ms=self._now_ms(), salt=os.urandom(SALT))

    @contextmanager
    def _numbering(self) -> Iterator[None]:
        """After a failure, nobody knows which numbers were stored; a run has neither holes nor doubles, so it ends."""
        try:
            yield
        except BaseException:
            self._run, self._seq = os.urandom(8).hex(), 0
            raise

    def _now_ms(self) -> int:
        return max(0, int(self._clock() * 1000))

    @staticmethod
    def _add(log: Transaction, shard: Shard, frontier: Frontier, record: dict[str, object]) -> None:
        body = encode(record)
        row = Row(leaf_hash(body), body)
        frontier.append(row.leaf)
        log.append(shard, [row], frontier.to_bytes())

    def _check_held(self, log: Snapshot, note: bytes) -> None:
        """That the log still contains a head somebody kept."""
        origin = parse_checkpoint(parse_note(note).text).origin
        shard = next((each for each in log.shards() if each.origin == origin), None)
        if shard is None:
            raise _damaged(f"a head of the log {quoted(origin)} is held, and there is no such log here")
        try:
            held = open_checkpoint(note, parse_vkey(shard.vkey), self._verify)
        except InvalidNote as error:
            raise JournalUnavailable(f"the held head is not the log's own: {error.message}", hint=error.hint) from error
        if held.size > shard.size:
            raise _damaged(f"records {shard.size}-{held.size - 1} are missing: the held head says {held.size}")
        frontier = Frontier()
        _grow(frontier, log.leaves(shard.number, 0, held.size), held.size)
        if frontier.root() != held.root:
            raise _damaged(f"the first {held.size} records are not those of the held head")

    # Signing

    def checkpoint(self) -> bytes:
        """The newest signed head, which covers everything that was acknowledged before the call."""
        try:
            with self._writing:
                self._refuse_unfit_to_sign()
                if self._known is None:
                    self._open()
            with self._signing:
                return self._checkpoint()
        except JournalUnavailable as error:
            self._note_damage(error)
            self.problem = error.message
            raise

    def _refuse_unfit_to_sign(self) -> None:
        if self._closed:
            raise JournalUnavailable("the journal was closed")
        if self._damage is not None:
            raise self._damage

    def _checkpoint(self) -> bytes:
        assert self._known is not None  # noqa: S101
        self._changed.clear()
        self._hurry.clear()
        count, self._unsigned = self._unsigned, 0
        try:
            seen = self._seen
            with self.store.reading() as log:
                shard, known, frontier = self._walked(log, self._known, seen)
                newest = log.newest(shard.number)
            assert newest is not None  # noqa: S101
            if (known.shard, known.frontier.size) > (self._known.shard, self._known.frontier.size):
                # Others sign this log: that this process cannot, or not now, leaves nothing unsigned for long.
                self._unsigned_since = self._ticks()
            self._known = known
            if newest.size < frontier.size:
                self._adopt(shard)
                newest, self._known = self._signed(shard, frontier)
        except BaseException:
            self._unsigned += count
            self._changed.set()
            raise
        self.problem = ""
        # Whoever appended meanwhile has set the event again, and waits from about now.
        self._unsigned_since = self._ticks() if self._changed.is_set() else None
        return newest.note

    def _walked(self, log: Snapshot, known: _Known, seen: tuple[int, bytes]) -> tuple[Shard, _Known, Frontier]:
        """Steps 1 to 4: the newest shard, its newest head, and its tree made anew from what is stored."""
        shards = [each for each in log.shards() if each.number >= known.shard]
        shard = _recognised(shards[-1] if shards else None, seen)
        frontier = known.frontier.copy()
        for each, after in zip(shards, [*shards[1:], None], strict=True):
            if each.number != known.shard:
                frontier = Frontier()
            known = _Known(each.number, self._walk(log, each, frontier))
            if after is not None:
                self._check_link(log, each, after)
        return shard, known, frontier

    def _walk(self, log: Snapshot, shard: Shard, frontier: Frontier) -> Frontier:
        """Take the tree to the end of the shard; the tree as it was at the newest head."""
        head = self._head(log, shard)  # 2.
        if head.size < frontier.size:
            raise _damaged(f"the newest head is gone: one of {frontier.size} records was there, now of {head.size}")
        leaves = log.leaves(shard.number, frontier.size, shard.size)  # 3.
        _grow(frontier, leaves, head.size)
        if frontier.root() != head.root:
            raise _damaged(f"the first {head.size} records are not those of the newest head")
        at_head = frontier.copy()
        if at_head.to_bytes() != shard.signed_edge:
            raise _damaged("the newest head and the tree kept with it do not fit")
        bodies = log.bodies(shard.number, head.size, shard.size)  # 4.
        for index, leaf in leaves:
            at, body = next(bodies, (-1, b""))
            if index != frontier.size or at != index:
                raise _damaged(f"record {frontier.size} is missing")
            if leaf_hash(body) != leaf:
                raise _damaged(f"record {index} is not what was appended")
            _take(frontier, leaf)
        if frontier.to_bytes() != shard.edge:
            raise _damaged(f"the log says {shard.size} records, and has {frontier.size} that do not add up to it")
        if next(log.leaves(shard.number, shard.size, shard.size + 1), None) is not None:
            raise _damaged(f"there are records beyond the {shard.size} that the log says it has")
        return at_head

    def _head(self, log: Snapshot, shard: Shard) -> Checkpoint:
        head = log.newest(shard.number)
        if head is None:
            raise _damaged(f"the log {quoted(shard.origin)} has lost all its heads")
        try:
            checkpoint = open_checkpoint(head.note, parse_vkey(shard.vkey), self._verify)
        except InvalidNote as error:
            raise _damaged(f"the newest head is not the log's own: {error.message}") from error
        if checkpoint.size != head.size or checkpoint.size > shard.size:
            raise _damaged(
                f"records {shard.size}-{checkpoint.size - 1} are missing: the newest head says {checkpoint.size}"
            )
        return checkpoint

    @staticmethod
    def _check_link(log: Snapshot, shard: Shard, after: Shard) -> None:
        """A shard is followed by the one its last record names: else anybody's key could go on with the log."""
        body = dict(log.bodies(shard.number, shard.size - 1, shard.size)).get(shard.size - 1, b"")
        try:
            last = parse(body)
        except LockgateError:
            last = {}
        if last.get("kind") != "rotation" or last.get("next_vkey") != after.vkey:
            raise _damaged(f"the log {quoted(after.origin)} is not the one that {quoted(shard.origin)} names as next")

    def _signed(self, shard: Shard, frontier: Frontier) -> tuple[Head, _Known]:
        """Sign outside the lock, for a signer may be slow; the log only grows, so the head stays true."""
        made = self._made(shard, frontier, self._signer)
        known = _Known(shard.number, frontier)
        with self.store.writing(durable=True) as log:
            _recognised(log.current(), self._seen)
            newest = log.newest(shard.number)
            if newest is not None and newest.size >= made.size:
                return newest, known  # another process was quicker; the next walk checks its head
            log.sign(shard.number, made, frontier.to_bytes())
        return made, known

    def _sign(self, log: Transaction, shard: Shard, frontier: Frontier, signer: Signer) -> Head:
        made = self._made(shard, frontier, signer)
        log.sign(shard.number, made, frontier.to_bytes())
        return made

    def _made(self, shard: Shard, frontier: Frontier, signer: Signer) -> Head:
        key = signer.key
        if key.vkey != shard.vkey:
            raise JournalUnavailable(
                f"the log goes on under the key {quoted(shard.vkey, 120)}, which is not here",
                hint="its key was rotated: start this process again",
            )
        checkpoint = Checkpoint(key.name, frontier.size, frontier.root())
        try:
            note = signed(checkpoint.text, key, signer.sign).to_bytes()
            good = open_checkpoint(note, key, self._verify) == checkpoint  # 5.
        except Exception as error:
            # A signer may be a program or a service, and fails in its own words; those may hold a secret.
            raise JournalUnavailable(f"the signer failed: {type(error).__name__}") from error
        if not good:
            raise JournalUnavailable("the signer failed: it signed something else")
        return Head(checkpoint.size, note, self._now_ms())

    def _ask_for_head(self, count: int) -> None:
        self._unsigned += count
        if self._unsigned_since is None:
            self._unsigned_since = self._ticks()
        self._changed.set()
        if self._unsigned >= CHECKPOINT_RECORDS:
            self._hurry.set()
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(target=self._keep_signing, name="lockgate-journal", daemon=True)
            # No more threads: the next append tries again, and `close` signs.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _keep_signing(self) -> None:
        while True:
            self._changed.wait()
            self._hurry.wait(CHECKPOINT_S)
            if self._closed:
                return
            try:
                self.checkpoint()
            except Exception as error:  # noqa: BLE001  # `problem` tells, and in time the appends do
                self.problem = self.problem or type(error).__name__
                if self._damage is not None:
                    return
                self._hurry.clear()
            self.store.tidy()

    # What is rarely done

    def rotate(self, signer: Signer, *, who: str = "") -> bytes:
        """Close the shard and go on under another key, all at once or not at all; the closed shard's last head."""
        with self._writing, self._signing:
            self._refuse_unfit()
            try:
                if self._known is None:
                    self._open()
                assert self._known is not None  # noqa: S101
                with self._numbering(), self.store.writing(durable=True) as log:
                    if any(each.origin == signer.key.name for each in log.shards()):
                        raise LockgateError(
                            f"the name {quoted(signer.key.name)} was used by this log before",
                            hint="make the new key under a new name",
                        )
                    shard, _, frontier = self._walked(log, self._known, self._seen)
                    self._adopt(shard)
                    self._add(log, shard, frontier, rotation(**self._next(), next_vkey=signer.key.vkey, who=who))
                    last = self._sign(log, shard, frontier, self._signer)
                    known = self._open_shard(log, signer, vkey=shard.vkey, head=last.note)
            except JournalUnavailable as error:
                self._note_damage(error)
                raise
            self._signer, self._known = signer, known
            self._seen = (known.shard, known.frontier.to_bytes())
            return last.note

    def prune(self, *, retention_days: int, who: str = "") -> dict[str, int]:
        """Delete the bodies of records older than this; by origin, below which index they are gone.

        A record is as old as the head that covered it first. Leaves stay, and so do the records that link shards.
        """
        if retention_days < 1:
            raise LockgateError("records are kept for one day at least")
        self.checkpoint()
        gone: dict[str, int] = {}
        with self._writing, self._numbering(), self.store.writing(durable=True) as log:
            current = _recognised(log.current(), self._seen)
            newest = log.newest(current.number)
            # Not later than the log itself has known it to be: a clock that starts in 2099 deletes nothing.
            now_ms = min(self._now_ms(), newest.at_ms if newest else 0)
            frontier = _frontier(current.edge)
            for shard in log.shards():
                before = log.older(shard.number, now_ms - retention_days * _DAY_MS)
                if before > shard.pruned:
                    record = prune(
                        **self._next(),
                        origin=shard.origin,
                        before=before,
                        retention_days=retention_days,
                        who=who,
                    )
                    self._add(log, current, frontier, record)
                    log.prune(shard.number, before)
                    gone[shard.origin] = before
            edge = frontier.to_bytes()
        if gone:
            self._seen = (current.number, edge)
            self._ask_for_head(len(gone))
        self._sweep()
        return gone

    def _sweep(self) -> None:
        """Delete in small pieces: nobody's append waits for a year's records to go. What is cut short goes on later."""
        with self.store.reading() as log:
            shards = log.shards()
        for shard in shards:
            last = shard.size if shard is shards[-1] else shard.size - 1
            while True:
                with self.store.writing(durable=False) as change:
                    if not change.sweep(shard.number, 1, min(shard.pruned, last), _SWEPT_AT_ONCE):
                        break

    def prove(self, index: int, *, origin: str = "") -> Proof:
        """That a record is in the log, under the newest signed head. Reads every leaf of the shard."""
        with self.store.reading() as log:
            shards = log.shards()
            shard = next((each for each in shards if each.origin == origin), None) if origin else shards[-1]
            if shard is None:
                raise LockgateError(f"there is no log {quoted(origin)} here")
            head = log.newest(shard.number)
            checkpoint = self._head(log, shard)
            if head is None or not 0 <= index < checkpoint.size:
                raise LockgateError(
                    f"record {index} is not under a signed head", hint=f"the newest has {checkpoint.size} records"
                )
            leaves = [leaf for _, leaf in log.leaves(shard.number, 0, checkpoint.size)]
        if len(leaves) != checkpoint.size:
            raise _damaged(f"the newest head says {checkpoint.size} records, the log has {len(leaves)}")
        hashes = inclusion_proof(index, checkpoint.size, levels_of(leaves))
        proof = Proof(index, tuple(hashes), head.note)
        try:
            open_proof(proof, leaves[index], parse_vkey(shard.vkey), self._verify)
        except InvalidNote as error:
            raise _damaged(f"record {index} cannot be proved: {error.message}") from error
        return proof

    def close(self) -> None:
        """Sign what is unsigned, and let go of the store. Never raises."""
        if self._closed:
            return
        if self._changed.is_set() and self._known is not None:
            with suppress(Exception):
                self.checkpoint()
        self._closed = True
        self._changed.set()
        self._hurry.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(_CLOSE_S)
        self.store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _recognised(shard: Shard | None, seen: tuple[int, bytes]) -> Shard:
    """Step 1, as far as it can be seen at a glance: this is done under the lock of every append.

    `seen` has to be from before the log was looked at: other threads go on appending.
    """
    number, edge = seen
    if shard is None:
        raise _damaged("the store holds no log any more" if number else "the store holds no log")
    size, before = shard.size, int.from_bytes(edge[:8], "big")
    if (shard.number, size) < (number, before):
        raise _damaged(f"the log went back: it had {before} records, now it has {size}")
    if (shard.number, size) == (number, before) and shard.edge != edge:
        raise _damaged(f"the log is another one: its {size} records are not those that were there")
    return shard


def _frontier(edge: bytes) -> Frontier:
    try:
        return Frontier.from_bytes(edge)
    except ValueError as error:
        raise _damaged("the tree kept with the log is no tree") from error


def _grow(frontier: Frontier, leaves: Iterator[tuple[int, bytes]], size: int) -> None:
    """Take leaves up to this size, and no further."""
    while frontier.size < size:
        index, leaf = next(leaves, (-1, b""))
        if index != frontier.size:
            raise _damaged(f"record {frontier.size} is missing: the head says {size}")
        _take(frontier, leaf)


def _take(frontier: Frontier, leaf: bytes) -> None:
    try:
        frontier.append(leaf)
    except ValueError as error:
        raise _damaged(f"the leaf of record {frontier.size} is no hash") from error


def _damaged(what: str) -> JournalDamaged:
    return JournalDamaged(what, hint="look at it with `lockgate audit verify` before anything else writes to it")


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _close_all() -> None:
    for journal in list(_open):
        journal.close()


def _forked() -> None:
    """In a child: what waits and what is unsigned is its parent's to finish."""
    for journal in list(_open):
        journal._begin()
        # Numbers of a run are given out once.
        journal._run, journal._seq = os.urandom(8).hex(), 0


register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
