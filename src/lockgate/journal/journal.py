"""The journal: records appended to a Merkle log, and the log's signed heads.

`append` returns when the store has committed the records. A thread signs heads. Steps 1 to 4, which check the stored
log before it is signed, are those of `log.walk_log`:

5. The new head's signature holds. The head is stored, and everything it covers is safe from a power cut, before it
   leaves the process. A head that left the machine and then lost its records would always look like a rollback.
"""

from __future__ import annotations

import os
import weakref
from atexit import register
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from logging import getLogger
from threading import Event, Lock, Thread, current_thread
from time import monotonic, time

from lockgate.core.errors import JournalDamaged, JournalUnavailable, LockgateError, quoted
from lockgate.core.vocabulary import Receipt
from lockgate.journal.log import (
    CheckedHead,
    Head,
    LogRow,
    Shard,
    Store,
    Transaction,
    check_held_head,
    find_shard,
    frontier_from_edge,
    log_damaged,
    newest_head,
    prove_consistency,
    prove_inclusion,
    recognise_shard,
    walk_log,
)
from lockgate.journal.merkle import Frontier, Tile, leaf_hash
from lockgate.journal.record import (
    MAX_RECORD,
    SALT,
    RecordNumber,
    encode_record,
    opening_record,
    prune_record,
    rotation_record,
)
from lockgate.journal.retention import (
    DAY_MS,
    find_old_records,
    has_overdue_records,
    is_clock_plausible,
    sweep_bodies,
)
from lockgate.journal.signed_notes import Proof, Verify
from lockgate.journal.signing import Seal, Signer, make_head
from lockgate.runtime.failures import report_failure
from lockgate.runtime.forks import on_fork

# A head is signed this long after the first record it covers, so that it is there within a second; or after so many.
CHECKPOINT_S = 0.8
CHECKPOINT_RECORDS = 256
# Without signed heads a change to the log cannot be detected: after this long no more records are accepted.
MAX_UNSIGNED_S = 60.0
# The limits of one transaction, since other writers wait for it.
_MAX_BATCH = 1024
_MAX_BATCH_BYTES = 4 << 20
# How often retention runs, and how often all processes together write prune records.
RETENTION_S = 3_600.0
# How long a slow signer may delay the end of the process.
_CLOSE_S = 2.0

_log = getLogger("lockgate.journal")


class AppendTicket:
    """Records of one caller on their way into the log. The ticket is done once it has receipts or an error."""

    __slots__ = ("durable", "error", "receipts", "rows", "weight")

    def __init__(self, records: Sequence[bytes], weight: int, *, durable: bool) -> None:
        # Hashed here, by the caller's thread: the thread that stores them does so for many callers.
        self.rows = [LogRow(leaf_hash(each), bytes(each)) for each in records]
        self.weight, self.durable = weight, durable
        self.receipts: tuple[Receipt, ...] | None = None
        self.error: JournalUnavailable | None = None


class Journal:
    """The log of one installation. Threads may share a journal; processes may share its store.

    The log's name is that of the signer's key. `held` are signed heads that were kept elsewhere: a log that does not
    contain them is refused. `find_signer` returns the signer of a shard that another process has opened. Without it
    this process cannot append there: its records would look like an intruder's. With `retention_days` the bodies of
    older records are deleted regularly (`prune`), as long as the clock is plausible.
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
            # A negative age would delete records before they are written.
            raise LockgateError("the retention time must not be negative", hint="0 keeps all records")
        self.store = store
        self.retention_days = retention_days
        # Why the last head could not be signed, or why retention deletes nothing; empty when all is well.
        self.problem = ""
        self._retention_problem = ""
        self._signer = signer
        self._seal: Seal | None = None
        self._verify = verify
        self._clock = clock
        self._ticks = ticks
        self._held = tuple(held)
        self._find_signer = find_signer
        self._known: CheckedHead | None = None
        # The tree as this process last saw it, signed or not. An append to a shorter one would be a fork.
        self._seen: tuple[int, bytes] = (0, b"")
        # The same if this process appended last: as long as it still is the last, it need not read the tree again.
        self._tip: tuple[Shard, Frontier] | None = None
        self._damage: JournalDamaged | None = None
        self._closed = False
        self._listeners: list[Callable[[bytes], None]] = []
        self._announced = b""
        self._retention_at_s: float | None = None
        self._run = os.urandom(8).hex()
        self._seq = 0
        self._reset_process_state()
        _open.add(self)
        on_fork(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Drop what waits and what is unsigned: the parent finishes it."""
        self._reset_process_state()
        # A number is given out once in a run, so the child begins a run of its own.
        self._begin_run()

    def _reset_process_state(self) -> None:
        """Set up what a fork breaks: locks that another thread held, and a thread that the child does not have."""
        self._waiting: deque[AppendTicket] = deque()
        # `_writing` is held by the thread that appends, `_signing` by the one that signs. Take them in this order.
        self._writing = Lock()
        self._signing = Lock()
        self._unsigned = 0
        self._unsigned_since: float | None = None
        self._changed = Event()
        self._hurry = Event()
        self._thread: Thread | None = None

    # Appending

    def append(self, records: Sequence[bytes], *, durable: bool) -> tuple[Receipt, ...]:
        """Store these records, in this order and next to each other; return when they are committed.

        `durable` records survive a power cut; others survive the end of this process.
        """
        return self.enqueue(records, durable=durable)()

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        """Give these records their place behind all earlier ones, without touching a file or a lock.

        The returned function does the rest of `append`, in any thread. If it is not called, the records are stored
        with those of another caller, or by `close`.
        """
        sizes = [len(each) for each in records]
        if not 0 < len(sizes) <= _MAX_BATCH or min(sizes) == 0 or max(sizes) > MAX_RECORD:
            raise LockgateError(
                f"an append takes 1 to {_MAX_BATCH} records of 1 to {MAX_RECORD:,} bytes", hint="encode them first"
            )
        ticket = AppendTicket(records, sum(sizes), durable=durable)
        self._waiting.append(ticket)
        return partial(self._wait_until_stored, ticket)

    def _wait_until_stored(self, ticket: AppendTicket) -> tuple[Receipt, ...]:
        # The first thread writes for all callers that wait by then: one commit, one sync, many records.
        with self._writing:
            while ticket.receipts is None and ticket.error is None:
                batch = self._take_batch()
                if not batch:
                    # Enqueued before a fork and awaited in the child: the parent stores it.
                    raise JournalUnavailable("the records were enqueued in another process")
                self._write_batch(batch)
        if ticket.receipts is not None:
            return ticket.receipts
        assert ticket.error is not None  # noqa: S101
        # A new error object for each caller: several threads may raise it at once.
        raise type(ticket.error)(ticket.error.message, hint=ticket.error.hint) from ticket.error

    def _take_batch(self) -> list[AppendTicket]:
        batch: list[AppendTicket] = []
        count = weight = 0
        while self._waiting:
            first = self._waiting[0]
            count += len(first.rows)
            weight += first.weight
            if batch and (count > _MAX_BATCH or weight > _MAX_BATCH_BYTES):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _write_batch(self, batch: list[AppendTicket]) -> None:
        """Append the batch in one transaction, and finish every ticket with receipts or an error; under `_writing`."""
        rows = [row for ticket in batch for row in ticket.rows]
        tip: tuple[Shard, Frontier] | None = None
        failed = JournalUnavailable("the writing thread was stopped")
        try:
            self._refuse_unsigned_too_long()
            if self._known is None:
                self._open_log()
            with self.store.writing(durable=any(ticket.durable for ticket in batch)) as log:
                appended = self._append_to_tip(log, rows)
            tip = appended
        except JournalUnavailable as error:
            self._note_damage(error)
            failed = error
        finally:
            # Also if this thread is interrupted: other threads wait for tickets that it has taken.
            if tip is None:
                for ticket in batch:
                    ticket.error = failed
        if tip is None:
            return
        shard, frontier = tip
        self._tip, self._seen = tip, (shard.number, shard.edge)
        origin, first = shard.origin, frontier.size - len(rows)
        for ticket in batch:
            ticket.receipts = tuple([Receipt(origin, at, row.leaf) for at, row in enumerate(ticket.rows, first)])
            first += len(ticket.rows)
        self._request_head(len(rows))

    def _append_to_tip(self, log: Transaction, rows: list[LogRow]) -> tuple[Shard, Frontier]:
        """Append where this process appended last; if another process appended since, check its work first."""
        tip = self._tip and _append_rows(log, *self._tip, rows, self._current_seal())
        if tip is None:
            shard = self._find_shard_to_continue(log)
            tip = _append_rows(log, shard, frontier_from_edge(shard.edge), rows, self._current_seal())
            if tip is None:
                raise log_damaged("the log changed while all other writers were excluded")
        return tip

    def _find_shard_to_continue(self, log: Transaction) -> Shard:
        """Return the shard to append to; raise unless its last writer had the key, and this process has it."""
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

    def _refuse_closed_or_damaged(self) -> None:
        if self._closed:
            raise JournalUnavailable("the journal was closed")
        if self._damage is not None:
            raise self._damage

    def _note_damage(self, error: JournalUnavailable) -> None:
        if isinstance(error, JournalDamaged) and self._damage is None:
            self._damage = error

    # Opening

    def _open_log(self) -> None:
        """Create the log, or check the end of the existing one against its newest head and the held heads."""
        with self._new_run_on_failure(), self.store.writing(durable=True) as log:
            if log.current() is None:
                self.open_first_shard(log)
        with self.store.reading() as log:
            shard = recognise_shard(log.current(), self._seen)
            self._adopt_signer(shard)
            _, head = newest_head(log, shard, self._verify)
            start = frontier_from_edge(shard.signed_edge)
            if start.size != head.size or start.root() != head.root:
                raise log_damaged("the newest head and the tree stored with it do not match")
            known = CheckedHead(shard.number, start)
            _, _, frontier = walk_log(log, known, self._seen, self._verify)
            self._current_seal().check_shards(log.shards())
            for note in self._held:
                check_held_head(log, note, self._verify)
        self._known, self._seen, self._tip = known, (shard.number, shard.edge), None
        if frontier.size > start.size:
            # A process ended before it could sign these records.
            self._request_head(frontier.size - start.size)

    def open_first_shard(self, log: Transaction) -> None:
        """Open the first shard in the caller's transaction, in which the caller may also have made the key."""
        if self._held:
            raise log_damaged("the log is gone: the store is empty, and a head of the log is held")
        self._open_shard(log, self._current_seal())

    def _adopt_signer(self, shard: Shard) -> None:
        """Use the signer of this shard; raise JournalUnavailable if this process does not have its key."""
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
                f"the log continues under the key {quoted(shard.vkey, 120)}, not {quoted(self._signer.key.vkey, 120)}",
                hint=hint,
            )

    def _open_shard(self, log: Transaction, seal: Seal, *, vkey: str = "", head: bytes = b"") -> CheckedHead:
        """Open a shard and sign its first head at once: a shard without a head counts as damaged."""
        key = seal.signer.key
        shard = log.open_shard(key.vkey)
        record = opening_record(**self._next_number(), origin=key.name, previous_vkey=vkey, previous=head.decode())
        frontier = Frontier()
        self._append_own_record(log, shard, frontier, record, seal)
        self._store_head(log, shard, frontier, seal.signer)
        return CheckedHead(shard.number, frontier)

    def _next_number(self) -> RecordNumber:
        self._seq += 1
        return RecordNumber(run=self._run, seq=self._seq, ts_ms=self._now_ms(), salt=os.urandom(SALT))

    @contextmanager
    def _new_run_on_failure(self) -> Iterator[None]:
        """Begin a new run if the block fails: a run has no holes, and some of its numbers may not be stored."""
        with ExitStack() as failed:
            failed.callback(self._begin_run)
            yield
            failed.pop_all()

    def _begin_run(self) -> None:
        self._run, self._seq = os.urandom(8).hex(), 0

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
        """Return the newest signed head; it covers all records that were stored before the call."""
        try:
            with self._writing:
                self._refuse_closed_or_damaged()
                if self._known is None:
                    self._open_log()
            with self._signing:
                note = self._sign_newest_head()
                is_new, self._announced = note != self._announced, note
        except JournalUnavailable as error:
            self._note_damage(error)
            self.problem = error.message
            raise
        if is_new:
            self._notify_listeners(note)
        return note

    def on_head(self, callback: Callable[[bytes], None]) -> None:
        """Call `callback` with every new head once it is stored, in the thread that signed or found it.

        The callback must return at once: the next head waits for it. If several threads ask for heads, an older head
        may come after a newer one.
        """
        self._listeners.append(callback)

    def _notify_listeners(self, note: bytes) -> None:
        for callback in self._listeners:
            try:
                callback(note)
            except Exception as error:  # noqa: BLE001  # a failing callback must not stop the signing
                report_failure("journal-head-listener", error)
                _log.warning("a new head of the journal could not be passed on: %s", type(error).__name__)

    def _sign_newest_head(self) -> bytes:
        """Check what is stored since the last checked head, and sign it; under `_signing`."""
        assert self._known is not None  # noqa: S101
        self._changed.clear()
        self._hurry.clear()
        count, self._unsigned = self._unsigned, 0
        with ExitStack() as failed:
            failed.callback(self._restore_unsigned, count)
            seen = self._seen
            with self.store.reading() as log:
                shard, known, frontier = walk_log(log, self._known, seen, self._verify)
                newest = log.newest(shard.number)
                every = log.shards()
            assert newest is not None  # noqa: S101
            if (known.shard, known.frontier.size) > (self._known.shard, self._known.frontier.size):
                # Other processes sign this log, so nothing stays unsigned for long even if this one cannot sign.
                self._unsigned_since = self._ticks()
            self._known = known
            self._adopt_signer(shard)
            self._current_seal().check_shards(every)
            if newest.size < frontier.size:
                newest, self._known = self._sign_and_store_head(shard, frontier)
            failed.pop_all()
        self.problem = self._retention_problem
        # A thread that appended meanwhile has set the event again: its records wait from about now.
        self._unsigned_since = self._ticks() if self._changed.is_set() else None
        return newest.note

    def _restore_unsigned(self, count: int) -> None:
        self._unsigned += count
        self._changed.set()

    def _sign_and_store_head(self, shard: Shard, frontier: Frontier) -> tuple[Head, CheckedHead]:
        """Sign outside the store's lock, since a signer may be slow. The log only grows, so the head stays true."""
        made = make_head(shard, frontier, self._signer, self._verify, self._now_ms())
        known = CheckedHead(shard.number, frontier)
        with self.store.writing(durable=True) as log:
            recognise_shard(log.current(), self._seen)
            newest = log.newest(shard.number)
            if newest is not None and newest.size >= made.size:
                return newest, known  # another process was faster; the next walk checks its head
            log.sign(shard.number, made, frontier.to_bytes())
        return made, known

    def _store_head(self, log: Transaction, shard: Shard, frontier: Frontier, signer: Signer) -> Head:
        made = make_head(shard, frontier, signer, self._verify, self._now_ms())
        log.sign(shard.number, made, frontier.to_bytes())
        return made

    def _request_head(self, count: int) -> None:
        """Wake the signing thread, and start it if it does not run."""
        self._unsigned += count
        if self._unsigned_since is None:
            self._unsigned_since = self._ticks()
        # The signing thread clears the event and then reads the log, so it finds what was committed before this.
        if not self._changed.is_set():
            self._changed.set()
        if self._unsigned >= CHECKPOINT_RECORDS:
            self._hurry.set()
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(target=self._run_signing_thread, name="lockgate-journal", daemon=True)
            # If no thread can be started, the next append tries again, and `close` signs.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _run_signing_thread(self) -> None:
        # Tested each time: `checkpoint` clears the events, and may do so just after `close` has set them.
        while not self._closed and self._wait_for_work():
            try:
                self.checkpoint()
                if self.retention_days:
                    self._apply_retention()
            except Exception as error:  # noqa: BLE001  # `problem` shows it; after a minute appends are refused
                report_failure("journal-signing", error)
                self.problem = self.problem or type(error).__name__
                if self._damage is not None:
                    return
                self._hurry.clear()
            self.store.tidy()

    def _wait_for_work(self) -> bool:
        """Wait until a head is due; return False if the journal was closed instead."""
        self._changed.wait()
        self._hurry.wait(CHECKPOINT_S)
        return not self._closed

    # Key rotation and retention

    def rotate(self, signer: Signer, *, who: str = "") -> bytes:
        """Close the shard and continue under another key, in one transaction; return the closed shard's last head."""
        with self._writing, self._signing:
            self._refuse_unsigned_too_long()
            try:
                if self._known is None:
                    self._open_log()
                with self._new_run_on_failure(), self.store.writing(durable=True) as log:
                    last, seal, known = self._rotate_in(log, signer, who)
            except JournalUnavailable as error:
                self._note_damage(error)
                raise
            self._signer, self._seal, self._known = signer, seal, known
            self._seen, self._tip = (known.shard, known.frontier.to_bytes()), None
        self._notify_listeners(last.note)
        return last.note

    def _rotate_in(self, log: Transaction, signer: Signer, who: str) -> tuple[Head, Seal, CheckedHead]:
        assert self._known is not None  # noqa: S101
        if any(each.origin == signer.key.name for each in log.shards()):
            raise LockgateError(
                f"this log has used the name {quoted(signer.key.name)} before", hint="make the new key under a new name"
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
        return last, seal, self._open_shard(log, seal, vkey=shard.vkey, head=last.note)

    def prune(self, *, retention_days: int, who: str = "", archived: Mapping[str, int] | None = None) -> dict[str, int]:
        """Delete the bodies of records older than this; return, by origin, the index below which they are gone.

        With `archived`, the number of archived records by origin, no other record is deleted.
        """
        if retention_days < 1:
            raise LockgateError("records must be kept for at least one day")
        self.checkpoint()
        with self.store.reading() as log:
            due = find_old_records(log, self._now_ms() - retention_days * DAY_MS, self._verify)
            if archived is not None:
                ends = {shard.number: archived.get(shard.origin, 0) for shard in log.shards()}
                due = {number: min(before, ends[number]) for number, before in due.items()}
        return self._prune(due, retention_days, who)

    def _apply_retention(self) -> None:
        now_s = self._ticks()
        if self._retention_at_s is not None and now_s - self._retention_at_s < RETENTION_S:
            return
        self._retention_at_s = now_s
        try:
            self._prune(self._find_overdue(), self.retention_days, "")
        except LockgateError as error:
            # The next hour tries again; nothing in the log is lost.
            _log.warning("old records of the journal could not be deleted: %s", type(error).__name__)

    def _find_overdue(self) -> dict[int, int]:
        """Return what retention may delete: nothing before a record is an hour overdue, or with a wrong clock."""
        now_ms = self._now_ms()
        old_ms = now_ms - self.retention_days * DAY_MS
        self._retention_problem = ""
        with self.store.reading() as log:
            # An hour: many short processes that share a log must not each write a prune record.
            if not has_overdue_records(log, old_ms - int(RETENTION_S * 1000)):
                return {}
            if not is_clock_plausible(log, now_ms, self.retention_days):
                self._retention_problem = self.problem = (
                    "no old records are deleted: the clock may have jumped, for none of those to keep is "
                    "a day to a month old, or the newest is from the future; `lockgate audit prune --yes` deletes "
                    "them all the same"
                )
                _log.warning("%s", self._retention_problem)
                return {}
            return find_old_records(log, old_ms, self._verify)

    def _prune(self, due: dict[int, int], retention_days: int, who: str) -> dict[str, int]:
        gone: dict[str, int] = {}
        if due:
            with self._writing:
                with self._new_run_on_failure(), self.store.writing(durable=True) as log:
                    current = self._prune_in(log, due, gone, retention_days, who)
                if gone:
                    self._seen, self._tip = (current.number, current.edge), None
                    self._request_head(len(gone))
            # The prune records are signed before any body is deleted.
            self.checkpoint()
        sweep_bodies(self.store, self._current_seal().check_shards, lambda: self._closed)
        return gone

    def _prune_in(
        self, log: Transaction, due: dict[int, int], gone: dict[str, int], retention_days: int, who: str
    ) -> Shard:
        """Append a prune record for each shard with old records, and note it in `gone`; return the newest shard."""
        current, seal = self._find_shard_to_continue(log), self._current_seal()
        shards = log.shards()
        seal.check_shards(shards)
        frontier = frontier_from_edge(current.edge)
        for shard in shards:
            before = due.get(shard.number, 0)
            if before <= max(1, shard.pruned):
                continue
            record = prune_record(
                **self._next_number(), origin=shard.origin, before=before, retention_days=retention_days, who=who
            )
            current = self._append_own_record(log, current, frontier, record, seal)
            pruned = (current if shard.number == current.number else shard)._replace(pruned=before)
            log.prune(pruned.number, before, seal.seal_shard(pruned))
            current = pruned if pruned.number == current.number else current
            gone[shard.origin] = before
        return current

    # Reading

    def newest(self, origin: str = "") -> bytes:
        """Return the newest stored head of this shard, or of the open one."""
        with self.store.reading() as log:
            return newest_head(log, find_shard(log, origin), self._verify)[0]

    def prove(self, index: int, *, origin: str = "") -> Proof:
        """Return a proof that a record is in the log, under the newest signed head."""
        with self.store.reading() as log:
            return prove_inclusion(log, index, origin=origin, verify=self._verify)

    def consistency(self, old: int, new: int, *, origin: str = "") -> tuple[bytes, ...]:
        """Return a proof that the tree of `new` records, which a signed head covers, begins with that of `old`."""
        with self.store.reading() as log:
            return prove_consistency(log, old, new, origin=origin, verify=self._verify)

    def close(self) -> None:
        """Store what waits, sign what is unsigned, and close the store. Never raise."""
        if self._closed:
            return
        try:
            if self._waiting:
                with self._writing:
                    while batch := self._take_batch():
                        self._write_batch(batch)
            if self._known is not None:
                # Also for records of others: a child of this process may have ended without signing.
                self.checkpoint()
        except Exception as error:  # noqa: BLE001  # `close` runs when the process ends, and must not raise
            report_failure("journal-close", error)
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


def _append_rows(
    log: Transaction, shard: Shard, frontier: Frontier, rows: list[LogRow], seal: Seal
) -> tuple[Shard, Frontier] | None:
    """Append the rows and return the grown shard and tree; None if the stored shard is another one by now."""
    frontier, tiles = frontier.copy(), list[Tile]()
    for row in rows:
        frontier.append(row.leaf, tiles)
    edge = frontier.to_bytes()
    grown = Shard(shard.number, shard.vkey, edge, shard.signed_edge, shard.pruned)
    if not log.append(shard, rows, edge, tiles, seal.seal_shard(grown)):
        return None
    return grown, frontier


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _close_all() -> None:
    for journal in list(_open):
        journal.close()


register(_close_all)
