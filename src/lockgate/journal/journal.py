"""The journal: records appended to a Merkle log, and the log's heads signed.

An append is acknowledged when the store has committed it. Heads follow by themselves: steps 1 to 4, which look at what
is stored, are those of `log.walked`.

5. The new head's signature holds. It is stored, with all that it covers safe from a power cut, before anybody sees it:
   a head that left the machine and then lost its records would look like a rolled-back log for ever.
"""

from __future__ import annotations

import os
import weakref
from atexit import register
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hmac import compare_digest
from itertools import islice
from logging import getLogger
from threading import Event, Lock, Thread, current_thread
from time import monotonic, time
from typing import TypedDict

from lockgate.core.errors import InvalidRecord, JournalDamaged, JournalUnavailable, LockgateError, quoted
from lockgate.core.journal.merkle import Frontier, Tile, leaf_hash
from lockgate.core.journal.record import (
    MAX_RECORD,
    SALT,
    encode_record,
    opening_record,
    parse_record,
    prune_record,
    rotation_record,
)
from lockgate.core.journal.signed_notes import Checkpoint, Proof, Verify, open_checkpoint, sign_note
from lockgate.core.vocabulary import Receipt
from lockgate.journal.log import (
    CheckedHead,
    Head,
    LogRow,
    Seal,
    Shard,
    Store,
    Transaction,
    check_held_head,
    find_end_of_old_records,
    find_shard,
    found_since,
    frontier_from_edge,
    is_clock_plausible,
    log_damaged,
    newest_head,
    prove_consistency,
    prove_inclusion,
    recognise_shard,
    record_time_ms,
    waited,
    waiting,
    walk_log,
)
from lockgate.journal.log import Signer as Signer
from lockgate.runtime.forks import on_fork

# A head is signed this long after the first record it covers, so that it is there within a second; or after so many.
CHECKPOINT_S = 0.8
CHECKPOINT_RECORDS = 256
# Without signed heads nobody can tell whether the log was changed: after this long nothing more is taken in.
MAX_UNSIGNED_S = 60.0
# One transaction takes at most so much: the others wait for it.
_MAX_BATCH = 1024
_MAX_BATCH_BYTES = 4 << 20
_SWEPT_AT_ONCE = 512
# So many appends can wait in the spool, and none that is larger than this.
_MAX_PROMISED = 64
_MAX_PROMISED_BYTES = 64 << 10
# Retention is looked after this often, and by all processes together writes no more prune records than that.
RETENTION_S = 3_600.0
_DAY_MS = 86_400_000
# How long a slow signer may hold up the end of the process.
_CLOSE_S = 2.0

_log = getLogger("lockgate.journal")


class AppendTicket:
    """Somebody's records on their way into the log. Done once it has receipts or an error."""

    __slots__ = ("_records", "_rows", "durable", "error", "receipts", "since", "weight")

    def __init__(
        self, records: Sequence[bytes], weight: int, *, durable: bool, since: tuple[int, int] | None = None
    ) -> None:
        self._records, self.weight, self.durable = [bytes(each) for each in records], weight, durable
        self._rows: list[LogRow] | None = None
        # Where the log ended when they began to wait in the spool, if they did.
        self.since = since
        self.receipts: tuple[Receipt, ...] | None = None
        self.error: JournalUnavailable | None = None

    @property
    def rows(self) -> list[LogRow]:
        # Hashed when they are stored, and not in the way of whoever lets them wait.
        if self._rows is None:
            self._rows = [LogRow(leaf_hash(each), each) for each in self._records]
        return self._rows

    def __len__(self) -> int:
        return len(self._records)

    def __bool__(self) -> bool:
        return True


class OwnRecordNumber(TypedDict):
    """What every record of the journal's own begins with."""

    run: str
    seq: int
    ts_ms: int
    salt: bytes


class Journal:
    """The log of one installation. Safe for several threads; several processes may share its store.

    The log's name is that of the signer's key. `held` are signed heads that somebody kept elsewhere: a log that does
    not contain them is refused. `find_signer` is asked for the key of a shard that another process has opened: who
    has not got it cannot append there, for nobody could tell their records from those of somebody who broke in. With
    `retention_days` the bodies of older records are deleted now and then (`prune`), as long as the clock can be
    believed.
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
        retention_days: int = 0,
    ) -> None:
        if retention_days < 0:
            # What will be written tomorrow would be too old.
            raise LockgateError("records cannot be kept for less than no time", hint="0 keeps them all")
        self.store = store
        self.retention_days = retention_days
        # Why the last head could not be signed, or why nothing is deleted though it should be; empty when all is well.
        self.problem = ""
        self._kept_because = ""
        # What of other processes' could not be read.
        self._unread = ""
        self._signer = signer
        self._seal: Seal | None = None
        self._verify = verify
        self._clock = clock
        self._ticks = ticks
        self._held = tuple(held)
        self._find_signer = find_signer
        self._known: CheckedHead | None = None
        # The tree as this process last saw it, signed or not: an append on anything shorter would be a fork.
        self._seen: tuple[int, bytes] = (0, b"")
        # The same, where this process was the last to append: what it need not read again as long as it still is.
        self._tip: tuple[Shard, Frontier] | None = None
        self._damage: JournalDamaged | None = None
        self._closed = False
        self._listeners: list[Callable[[bytes], None]] = []
        self._told = b""
        self._retained_s: float | None = None
        self._run = os.urandom(8).hex()
        self._seq = 0
        self._reset_process_state()
        _open.add(self)
        on_fork(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Drop what waits and what is unsigned: the parent finishes it."""
        self._reset_process_state()
        # The numbers of a run are given out once.
        self._run, self._seq = os.urandom(8).hex(), 0

    def _reset_process_state(self) -> None:
        """Everything that a fork leaves in pieces: locks that nobody will open, and a thread that is not here."""
        self._waiting: deque[AppendTicket] = deque()
        # Owner of `_spooling`: who changes what waits in the spool; `_promised` is how many tickets that are.
        self._spooling = Lock()
        self._promised = 0
        self._last_waits = b""
        # Of those, the ones that could not be stored: nobody knows whether they are. And whether the last write failed.
        self._unstored: list[AppendTicket] = []
        self._behind = False
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
        return self.enqueue(records, durable=durable)()

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        """Give these records their place behind all that were given one before; no file and no lock is touched.

        What is returned does the rest of `append`, and may be called in another thread. Without that call the records
        are stored when somebody else's are, or by `close`.
        """
        sizes = [len(each) for each in records]
        if not 0 < len(sizes) <= _MAX_BATCH or min(sizes) == 0 or max(sizes) > MAX_RECORD:
            raise LockgateError(
                f"an append takes 1 to {_MAX_BATCH} records of 1 to {MAX_RECORD:,} bytes", hint="encode them first"
            )
        ticket = AppendTicket(records, sum(sizes), durable=durable)
        # Hashed here: whoever stores it does so for many.
        ticket.rows  # noqa: B018
        self._waiting.append(ticket)
        return partial(self._wait_until_stored, ticket)

    def promise(self, records: Sequence[bytes]) -> Callable[[], tuple[Receipt, ...]] | None:
        """As `enqueue`, for records that need not outlive a power cut: when this returns, they outlive this process.

        They are in the spool then, and whoever uses the log next stores them if this process ends before. None, with
        nothing done, where they can only be stored. What is returned stores them; should that fail it can be called
        again, and until then nothing more is promised.
        """
        spool, tip, seal = self.store.spool, self._tip, self._seal
        if spool is None or tip is None or seal is None or seal.signer is not self._signer or self._behind:
            return None
        shard, _ = tip
        if shard.vkey != seal.signer.key.vkey:
            # The key was rotated by somebody else: the next append finds the shard that goes with it.
            return None
        weight = sum([len(each) for each in records])
        if not 0 < len(records) <= _MAX_PROMISED or weight > _MAX_PROMISED_BYTES or not all(records):
            return None
        ticket = AppendTicket(records, weight, durable=False, since=(shard.number, shard.size))
        try:
            self._refuse_unsigned_too_long()
            with self._spooling:
                if self._promised >= _MAX_PROMISED:
                    return None
                waits, last = waiting(shard, records, seal, b"" if spool.empty else self._last_waits)
                spool.put(waits)
                self._promised, self._last_waits = self._promised + 1, last
                self._waiting.append(ticket)
        except (OSError, JournalUnavailable):
            return None
        return partial(self._wait_until_stored, ticket)

    def _keep_promises(self, tickets: list[AppendTicket]) -> None:
        """Store records that waited in a spool, unless they are stored already. All or nothing; under `_writing`."""
        with self.store.writing(durable=True) as log:
            shard = self._find_shard_to_continue(log)
            frontier = frontier_from_edge(shard.edge)
            found: list[tuple[Shard, int]] = []
            for ticket in tickets:
                assert ticket.since is not None  # noqa: S101
                there = found_since(log, *ticket.since, ticket.rows[0].leaf)
                if there is None:
                    tip = _append_rows(log, shard, frontier, ticket.rows, self._current_seal())
                    if tip is None:
                        raise log_damaged("the log changed while everybody else was kept out")
                    there = shard, frontier.size
                    shard, frontier = tip
                found.append(there)
        self._seen, self._tip = (shard.number, shard.edge), None
        for ticket, (where, first) in zip(tickets, found, strict=True):
            ticket.receipts = tuple([Receipt(where.origin, at, row.leaf) for at, row in enumerate(ticket.rows, first)])
        self._request_head(sum(len(ticket.rows) for ticket in tickets))

    def _kept(self, count: int) -> None:
        """So many promises are kept: with the last, nothing waits any more."""
        if count and self.store.spool is not None:
            with self._spooling:
                self._promised -= count
                if not self._promised:
                    self.store.spool.clear()

    def _try_again(self) -> None:
        """Keep the promises that could not be kept; under `_writing`."""
        late, self._unstored = self._unstored, []
        try:
            self._keep_promises(late)
        except BaseException:
            self._unstored = late
            raise
        self._kept(len(late))

    def _take_over(self) -> None:
        """Store what processes that are gone have left waiting; under `_writing`."""
        if self.store.spool is None:
            return
        for each in self.store.spool.take_over(self._taken_over):
            self._unread = self.problem = f"records that a process left waiting cannot be read: {quoted(each, 200)}"
            _log.warning("%s", self.problem)

    def _taken_over(self, data: bytes) -> bool:
        """Whether all that waited there was somebody's with the log's key, and is stored."""
        with self.store.reading() as log:
            vkeys = {shard.number: shard.vkey for shard in log.shards()}
        tickets: list[AppendTicket] = []
        last, whole = b"", True
        try:
            for each in waited(data):
                seal = self._seal_of(vkeys.get(each.shard, ""))
                if seal is None or not compare_digest(seal.over_waiting(last + each.data), each.seal):
                    raise ValueError("not written with the key")
                tickets.append(AppendTicket(each.bodies, len(each.data), durable=True, since=(each.shard, each.size)))
                last = each.seal
        except ValueError:
            whole = False
        if tickets:
            self._keep_promises(tickets)
        return whole

    def _seal_of(self, vkey: str) -> Seal | None:
        if vkey == self._signer.key.vkey:
            return self._current_seal()
        signer = self._find_signer(vkey) if vkey and self._find_signer is not None else None
        return Seal(signer, self._verify) if signer is not None and signer.key.vkey == vkey else None

    def _wait_until_stored(self, ticket: AppendTicket) -> tuple[Receipt, ...]:
        # Whoever comes first writes for everybody who waits by then: one commit, one sync, many records.
        with self._writing:
            if ticket.since is not None and ticket.error is not None:
                self._write_batch([])
            while ticket.receipts is None and ticket.error is None:
                batch = self._take_batch()
                if not batch:
                    # Enqueued before a fork, and called for in the child: it is its parent's to store.
                    raise JournalUnavailable("the records were enqueued in another process")
                self._write_batch(batch)
        if ticket.receipts is not None:
            return ticket.receipts
        assert ticket.error is not None  # noqa: S101
        # An error of one's own each: several threads may be about to raise it.
        raise type(ticket.error)(ticket.error.message, hint=ticket.error.hint) from ticket.error

    def _take_batch(self) -> list[AppendTicket]:
        batch: list[AppendTicket] = []
        count = weight = 0
        while self._waiting:
            first = self._waiting[0]
            count += len(first)
            weight += first.weight
            if batch and (count > _MAX_BATCH or weight > _MAX_BATCH_BYTES):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _write_batch(self, batch: list[AppendTicket]) -> None:
        rows = [row for ticket in batch for row in ticket.rows]
        try:
            self._refuse_unsigned_too_long()
            if self._known is None:
                self._open_log()
            if self._unstored:
                self._try_again()
            if not rows:
                self._behind = False
                return
            with self.store.writing(durable=any(ticket.durable for ticket in batch)) as log:
                tip = self._tip and _append_rows(log, *self._tip, rows, self._current_seal())
                if tip is None:
                    shard = self._find_shard_to_continue(log)
                    tip = _append_rows(log, shard, frontier_from_edge(shard.edge), rows, self._current_seal())
                    if tip is None:
                        raise log_damaged("the log changed while everybody else was kept out")
        except JournalUnavailable as error:
            self._note_damage(error)
            self._fail_batch(batch, error)
            return
        except BaseException as error:
            # Nobody may wait for ever for what this thread had taken over.
            self._fail_batch(batch, JournalUnavailable(f"the writer stopped: {type(error).__name__}"))
            raise
        self._behind = False
        self._tip, (shard, frontier) = tip, tip
        self._seen = (shard.number, shard.edge)
        origin, first = shard.origin, frontier.size - len(rows)
        for ticket in batch:
            ticket.receipts = tuple([Receipt(origin, at, row.leaf) for at, row in enumerate(ticket.rows, first)])
            first += len(ticket.rows)
        self._kept(sum(ticket.since is not None for ticket in batch))
        self._request_head(len(rows))

    def _fail_batch(self, batch: list[AppendTicket], error: JournalUnavailable) -> None:
        self._behind = True
        self._unstored += [ticket for ticket in batch if ticket.since is not None]
        for ticket in (*batch, *self._unstored):
            ticket.error = error

    def _find_shard_to_continue(self, log: Transaction) -> Shard:
        """The shard to append to where somebody else was the last to: if they had the key, and this process has it."""
        assert self._known is not None  # noqa: S101
        shard = recognise_shard(log.current(), self._seen)
        if shard.number != self._known.shard:
            walk_log(log, self._known, self._seen, self._verify)
        self._adopt_signer(shard)
        self._current_seal().check_shards([shard])
        return shard

    def _current_seal(self) -> Seal:
        if self._seal is None or self._seal.signer is not self._signer:
            self._seal = Seal(self._signer, self._verify)
        return self._seal

    def _refuse_unsigned_too_long(self) -> None:
        self._refuse_closed_or_damaged()
        since = self._unsigned_since
        if since is not None and self._ticks() - since > MAX_UNSIGNED_S:
            why = f": {self.problem}" if self.problem else ""
            raise JournalUnavailable(f"the log's head could not be signed for {MAX_UNSIGNED_S:.0f} seconds{why}")

    def _note_damage(self, error: BaseException) -> None:
        if isinstance(error, JournalDamaged) and self._damage is None:
            self._damage = error

    # Opening

    def _open_log(self) -> None:
        """Make the log, or check the end of the one that is there against its newest head and the held ones."""
        with self._new_run_on_failure(), self.store.writing(durable=True) as log:
            if log.current() is None:
                self.open_first_shard(log)
        with self.store.reading() as log:
            shard = recognise_shard(log.current(), self._seen)
            self._adopt_signer(shard)
            _, head = newest_head(log, shard, self._verify)
            start = frontier_from_edge(shard.signed_edge)
            if start.size != head.size or start.root() != head.root:
                raise log_damaged("the newest head and the tree kept with it do not fit")
            known = CheckedHead(shard.number, start)
            _, _, frontier = walk_log(log, known, self._seen, self._verify)
            self._current_seal().check_shards(log.shards())
            for note in self._held:
                check_held_head(log, note, self._verify)
        self._known, self._seen, self._tip = known, (shard.number, shard.edge), None
        if frontier.size > start.size:
            # Somebody was stopped before they could sign.
            self._request_head(frontier.size - start.size)
        self._take_over()

    def open_first_shard(self, log: Transaction) -> None:
        """Open the first shard, in a transaction of somebody who may have made its key there."""
        if self._held:
            raise log_damaged("the log is gone: the store is empty, and a head of it is held")
        self._open_shard(log, self._current_seal())

    def _adopt_signer(self, shard: Shard) -> None:
        """The signer for this shard, or JournalUnavailable."""
        if shard.vkey == self._signer.key.vkey:
            return
        found = self._find_signer(shard.vkey) if self._find_signer is not None else None
        if found is not None and found.key.vkey == shard.vkey:
            self._signer = found
        else:
            hint = "name the key this log was made with, or another place for a new log"
            if self._known is not None:
                hint = "its key was rotated: put the new key where this process finds its own, or run it where that is"
            raise JournalUnavailable(
                f"the log goes on under the key {quoted(shard.vkey, 120)}, not {quoted(self._signer.key.vkey, 120)}",
                hint=hint,
            )

    def _open_shard(self, log: Transaction, seal: Seal, *, vkey: str = "", head: bytes = b"") -> CheckedHead:
        """A shard is never without a head: one that has none has lost it."""
        key = seal.signer.key
        shard = log.open_shard(key.vkey)
        record = opening_record(**self._next_number(), origin=key.name, previous_vkey=vkey, previous=head.decode())
        frontier = Frontier()
        self._append_own_record(log, shard, frontier, record, seal)
        self._store_head(log, shard, frontier, seal.signer)
        return CheckedHead(shard.number, frontier)

    def _next_number(self) -> OwnRecordNumber:
        self._seq += 1
        return OwnRecordNumber(run=self._run, seq=self._seq, ts_ms=self._now_ms(), salt=os.urandom(SALT))

    @contextmanager
    def _new_run_on_failure(self) -> Iterator[None]:
        """After a failure, nobody knows which numbers were stored; a run has neither holes nor doubles, so it ends."""
        try:
            yield
        except BaseException:
            self._run, self._seq = os.urandom(8).hex(), 0
            raise

    def _now_ms(self) -> int:
        return max(0, int(self._clock() * 1000))

    @staticmethod
    def _append_own_record(
        log: Transaction, shard: Shard, frontier: Frontier, record: dict[str, object], seal: Seal
    ) -> Shard:
        body = encode_record(record)
        row, tiles = LogRow(leaf_hash(body), body), list[Tile]()
        frontier.append(row.leaf, tiles)
        grown = shard._replace(edge=frontier.to_bytes())
        if not log.append(shard, [row], grown.edge, tiles, seal.seal_shard(grown)):
            raise log_damaged("the shard that was written to is gone, or closed")
        return grown

    # Signing

    def checkpoint(self) -> bytes:
        """The newest signed head, which covers everything that was acknowledged before the call."""
        try:
            with self._writing:
                self._refuse_closed_or_damaged()
                if self._known is None:
                    self._open_log()
            with self._signing:
                note = self._sign_newest_head()
                news, self._told = note != self._told, note
        except JournalUnavailable as error:
            self._note_damage(error)
            self.problem = error.message
            raise
        if news:
            self._notify_listeners(note)
        return note

    def on_head(self, callback: Callable[[bytes], None]) -> None:
        """Have every new head handed over once it is stored, by the thread that found it there.

        The callback must return at once, for the next head waits for it. Where several threads ask for heads, one may
        come behind a newer one.
        """
        self._listeners.append(callback)

    def _notify_listeners(self, note: bytes) -> None:
        for callback in self._listeners:
            try:
                callback(note)
            except Exception as error:  # noqa: BLE001  # whoever listens must not stop the signing
                _log.warning("a new head of the journal could not be passed on: %s", type(error).__name__)

    def _refuse_closed_or_damaged(self) -> None:
        if self._closed:
            raise JournalUnavailable("the journal was closed")
        if self._damage is not None:
            raise self._damage

    def _sign_newest_head(self) -> bytes:
        assert self._known is not None  # noqa: S101
        self._changed.clear()
        self._hurry.clear()
        count, self._unsigned = self._unsigned, 0
        try:
            seen = self._seen
            with self.store.reading() as log:
                shard, known, frontier = walk_log(log, self._known, seen, self._verify)
                newest = log.newest(shard.number)
                every = log.shards()
            assert newest is not None  # noqa: S101
            if (known.shard, known.frontier.size) > (self._known.shard, self._known.frontier.size):
                # Others sign this log: that this process cannot, or not now, leaves nothing unsigned for long.
                self._unsigned_since = self._ticks()
            self._known = known
            self._adopt_signer(shard)
            self._current_seal().check_shards(every)
            if newest.size < frontier.size:
                newest, self._known = self._sign_and_store_head(shard, frontier)
        except BaseException:
            self._unsigned += count
            self._changed.set()
            raise
        self.problem = self._kept_because or self._unread
        # Whoever appended meanwhile has set the event again, and waits from about now.
        self._unsigned_since = self._ticks() if self._changed.is_set() else None
        return newest.note

    def _sign_and_store_head(self, shard: Shard, frontier: Frontier) -> tuple[Head, CheckedHead]:
        """Sign outside the lock, for a signer may be slow; the log only grows, so the head stays true."""
        made = self._make_head(shard, frontier, self._signer)
        known = CheckedHead(shard.number, frontier)
        with self.store.writing(durable=True) as log:
            recognise_shard(log.current(), self._seen)
            newest = log.newest(shard.number)
            if newest is not None and newest.size >= made.size:
                return newest, known  # another process was quicker; the next walk checks its head
            log.sign(shard.number, made, frontier.to_bytes())
        return made, known

    def _store_head(self, log: Transaction, shard: Shard, frontier: Frontier, signer: Signer) -> Head:
        made = self._make_head(shard, frontier, signer)
        log.sign(shard.number, made, frontier.to_bytes())
        return made

    def _make_head(self, shard: Shard, frontier: Frontier, signer: Signer) -> Head:
        key = signer.key
        if key.vkey != shard.vkey:
            raise JournalUnavailable(
                f"the log goes on under the key {quoted(shard.vkey, 120)}, which is not here",
                hint="its key was rotated: start this process again",
            )
        checkpoint = Checkpoint(key.name, frontier.size, frontier.root())
        try:
            note = sign_note(checkpoint.text, key, signer.sign).to_bytes()
            good = open_checkpoint(note, key, self._verify) == checkpoint  # 5.
        except Exception as error:
            # A signer may be a program or a service, and fails in its own words; those may hold a secret.
            raise JournalUnavailable(f"the signer failed: {type(error).__name__}") from error
        if not good:
            raise JournalUnavailable("the signer failed: it signed something else")
        return Head(checkpoint.size, note, self._now_ms())

    def _request_head(self, count: int) -> None:
        self._unsigned += count
        if self._unsigned_since is None:
            self._unsigned_since = self._ticks()
        # Whoever clears it looks at the log afterwards, and finds what was committed before this.
        if not self._changed.is_set():
            self._changed.set()
        if self._unsigned >= CHECKPOINT_RECORDS:
            self._hurry.set()
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(target=self._run_signing_thread, name="lockgate-journal", daemon=True)
            # No more threads: the next append tries again, and `close` signs.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _run_signing_thread(self) -> None:
        # Asked again each time: `checkpoint` clears the events, and may do so just after `close` has set them.
        while not self._closed and self._wait_for_work():
            try:
                # What it cannot store the next one may; signing does not wait for it.
                with suppress(Exception), self._writing:
                    self._take_over()
                self.checkpoint()
            except Exception as error:  # noqa: BLE001  # `problem` tells, and in time the appends do
                self.problem = self.problem or type(error).__name__
                if self._damage is not None:
                    return
                self._hurry.clear()
            else:
                if self.retention_days:
                    self._apply_retention()
            self.store.tidy()

    def _wait_for_work(self) -> bool:
        """Wait until a head is due; False when the journal was closed instead."""
        self._changed.wait()
        self._hurry.wait(CHECKPOINT_S)
        return not self._closed

    def _apply_retention(self) -> None:
        now_s = self._ticks()
        if self._retained_s is not None and now_s - self._retained_s < RETENTION_S:
            return
        self._retained_s = now_s
        try:
            self._prune(self.retention_days, "", asked=False)
        except Exception as error:  # noqa: BLE001  # it is tried again, and the log is none the worse for it
            _log.warning("old records of the journal could not be deleted: %s", type(error).__name__)

    # What is rarely done

    def rotate(self, signer: Signer, *, who: str = "") -> bytes:
        """Close the shard and go on under another key, all at once or not at all; the closed shard's last head."""
        with self._writing, self._signing:
            self._refuse_unsigned_too_long()
            try:
                if self._known is None:
                    self._open_log()
                assert self._known is not None  # noqa: S101
                with self._new_run_on_failure(), self.store.writing(durable=True) as log:
                    if any(each.origin == signer.key.name for each in log.shards()):
                        raise LockgateError(
                            f"the name {quoted(signer.key.name)} was used by this log before",
                            hint="make the new key under a new name",
                        )
                    shard, _, frontier = walk_log(log, self._known, self._seen, self._verify)
                    self._adopt_signer(shard)
                    seal = self._current_seal()
                    seal.check_shards(log.shards())
                    last_record = rotation_record(**self._next_number(), next_vkey=signer.key.vkey, who=who)
                    self._append_own_record(log, shard, frontier, last_record, seal)
                    last = self._store_head(log, shard, frontier, self._signer)
                    seal = Seal(signer, self._verify)
                    for each in log.shards():
                        log.prune(each.number, each.pruned, seal.seal_shard(each))
                    known = self._open_shard(log, seal, vkey=shard.vkey, head=last.note)
            except JournalUnavailable as error:
                self._note_damage(error)
                raise
            self._signer, self._seal, self._known = signer, seal, known
            self._seen, self._tip = (known.shard, known.frontier.to_bytes()), None
        self._notify_listeners(last.note)
        return last.note

    def prune(self, *, retention_days: int, who: str = "") -> dict[str, int]:
        """Delete the bodies of records older than this; by origin, below which index they are gone.

        A record is as old as it says itself, and goes only if all before it are as old. Leaves stay, and so do the
        records that link shards and those that say what was deleted.
        """
        if retention_days < 1:
            raise LockgateError("records are kept for one day at least")
        self.checkpoint()
        return self._prune(retention_days, who, asked=True)

    def _prune(self, retention_days: int, who: str, *, asked: bool) -> dict[str, int]:
        gone: dict[str, int] = {}
        if due := self._find_prunable(retention_days, asked=asked):
            with self._writing:
                with self._new_run_on_failure(), self.store.writing(durable=True) as log:
                    current, seal = self._find_shard_to_continue(log), self._current_seal()
                    shards = log.shards()
                    seal.check_shards(shards)
                    frontier = frontier_from_edge(current.edge)
                    for shard in shards:
                        before = due.get(shard.number, 0)
                        if before > max(1, shard.pruned):
                            said = prune_record(
                                **self._next_number(),
                                origin=shard.origin,
                                before=before,
                                retention_days=retention_days,
                                who=who,
                            )
                            current = self._append_own_record(log, current, frontier, said, seal)
                            pruned = (current if shard.number == current.number else shard)._replace(pruned=before)
                            log.prune(pruned.number, before, seal.seal_shard(pruned))
                            current = pruned if pruned.number == current.number else current
                            gone[shard.origin] = before
                if gone:
                    self._seen, self._tip = (current.number, current.edge), None
                    self._request_head(len(gone))
            # First the record that says so is signed.
            self.checkpoint()
        self._sweep_bodies()
        return gone

    def _find_prunable(self, retention_days: int, *, asked: bool) -> dict[int, int]:
        """By shard, below which index records are old; unasked, nothing as long as none has been so for an hour."""
        now_ms = self._now_ms()
        old_ms = now_ms - retention_days * _DAY_MS
        with self.store.reading() as log:
            if not asked:
                # Nor more often where many short processes share a log.
                overdue_ms = old_ms - int(RETENTION_S * 1000)
                self._kept_because = ""
                first = ((each, max(1, each.pruned)) for each in log.shards())
                if not any(record_time_ms(log, each.number, at) < overdue_ms for each, at in first if at < each.size):
                    return {}
                if not is_clock_plausible(log, now_ms, retention_days):
                    self._kept_because = self.problem = (
                        "no old records are deleted: the clock may have jumped, for none of those to keep is "
                        "a day to a month old, or the newest is from the future; `lockgate audit prune --yes` deletes "
                        "them all the same"
                    )
                    _log.warning("%s", self._kept_because)
                    return {}
            found = {each.number: find_end_of_old_records(log, each, old_ms, self._verify) for each in log.shards()}
        return {number: before for number, before in found.items() if before}

    def _sweep_bodies(self) -> None:
        """Delete in small pieces: nobody's append waits for a year's records to go. What is cut short goes on later."""
        with self.store.reading() as log:
            shards = log.shards()
        self._current_seal().check_shards(shards)
        pruned = {each.origin: each.pruned for each in shards}
        for shard in shards:
            # The first record of a shard, and the last of a closed one, link it to the others.
            start, stop = 1, min(shard.pruned, shard.size if shard is shards[-1] else shard.size - 1)
            while not self._closed:
                with self.store.reading() as log:
                    bodies = list(islice(log.bodies(shard.number, start, stop), _SWEPT_AT_ONCE))
                if not bodies:
                    break
                with self.store.writing(durable=False) as change:
                    change.sweep(shard.number, [at for at, body in bodies if not _explains_deletion(body, pruned)])
                start = bodies[-1][0] + 1

    # What is there

    def newest(self, origin: str = "") -> bytes:
        """The newest signed head that is stored, of this shard or of the open one."""
        with self.store.reading() as log:
            return newest_head(log, find_shard(log, origin), self._verify)[0]

    def prove(self, index: int, *, origin: str = "") -> Proof:
        """That a record is in the log, under the newest signed head."""
        with self.store.reading() as log:
            return prove_inclusion(log, index, origin=origin, verify=self._verify)

    def consistency(self, old: int, new: int, *, origin: str = "") -> tuple[bytes, ...]:
        """That the tree of `new` records, which a signed head covers, begins with that of `old`."""
        with self.store.reading() as log:
            return prove_consistency(log, old, new, origin=origin, verify=self._verify)

    def close(self) -> None:
        """Sign what is unsigned, and let go of the store. Never raises."""
        if self._closed:
            return
        if self._waiting or self._unstored:
            with suppress(Exception), self._writing:
                if self._unstored:
                    self._write_batch([])
                while batch := self._take_batch():
                    self._write_batch(batch)
        if self._known is not None:
            # Not only what this process appended: a child of its own may have ended without signing.
            with suppress(Exception):
                self.checkpoint()
        self._closed = True
        self._changed.set()
        self._hurry.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(_CLOSE_S)
        # Not while somebody still stores what waits, or two would; then the end of the process lets go of it.
        if self.store.spool is not None and self._writing.acquire(timeout=_CLOSE_S):
            with self._spooling:
                self.store.spool.close(remove=not self._promised)
            self._writing.release()
        self.store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _append_rows(
    log: Transaction, shard: Shard, frontier: Frontier, rows: list[LogRow], seal: Seal
) -> tuple[Shard, Frontier] | None:
    """The shard and its tree with these records; None where it is not as it was any more."""
    frontier, tiles = frontier.copy(), list[Tile]()
    for row in rows:
        frontier.append(row.leaf, tiles)
    edge = frontier.to_bytes()
    grown = Shard(shard.number, shard.vkey, edge, shard.signed_edge, shard.pruned)
    if not log.append(shard, rows, edge, tiles, seal.seal_shard(grown)):
        return None
    return grown, frontier


def _explains_deletion(body: bytes, pruned: Mapping[str, int]) -> bool:
    """Whether this is the record that says why others are not there; those before it for the same shard say less."""
    # In canonical form no text can hold this, its quotes would be escaped: most records need not be parsed.
    if b'"kind":"prune"' not in body:
        return False
    try:
        fields = parse_record(body)
    except InvalidRecord:
        return False
    before = fields["before"]
    return isinstance(before, int) and before >= pruned.get(str(fields["origin"]), 0)


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _close_all() -> None:
    for journal in list(_open):
        journal.close()


register(_close_all)
