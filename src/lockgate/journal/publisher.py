"""Send heads off the machine: to witnesses, which cosign them, and to anchors, which keep them.

Each target has its own thread, so no target waits for another, and no ruling waits for a target. Only the newest head
of a log is sent, because it covers all earlier records. A target that fails is tried again, less and less often, and
its failure is reported.

`WitnessedJournal` is for strict mode: a record counts when a witness has cosigned a head that covers it.
"""

from __future__ import annotations

import logging
import re
import weakref
from atexit import register
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock, Thread, current_thread
from time import monotonic
from typing import NamedTuple, Protocol

from lockgate.core.errors import InvalidConfig, InvalidNote, JournalUncosigned, LockgateError, printable, quoted
from lockgate.core.vocabulary import Receipt
from lockgate.journal import keys
from lockgate.journal.anchors import ANCHOR_EVERY_S, Address, Anchor, parse_address, parse_anchor, post
from lockgate.journal.signed_notes import (
    COSIGNATURE,
    MAX_NOTE,
    Checkpoint,
    Note,
    PublicKey,
    Submission,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    verify_signatures,
)
from lockgate.runtime.failures import report_failure
from lockgate.runtime.forks import on_fork
from lockgate.runtime.private_files import replace_file
from lockgate.settings.files import read_regular

WITNESS_EVERY_S = 1.0
# The pause after a target failed: at first, at most, and while a ruling waits for the target.
RETRY_S = 1.0
MAX_RETRY_S = 60.0
WAITED_RETRY_S = 0.25
# How long sending the last heads may delay the end of the process.
CLOSE_S = 2.0
STRICT_S = 5.0

_SIZE = re.compile(rb"(0|[1-9][0-9]{0,18})\n")
# If other processes append to the log too, the witness may know a newer head more than once in a row.
_MOST_ASKED = 4

_log = logging.getLogger("lockgate.publishing")


class PublishedJournal(Protocol):
    """A journal as a publisher needs it. `on_head` calls back in any thread, with heads in any order."""

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]: ...

    def checkpoint(self) -> bytes: ...

    def newest(self, origin: str = "") -> bytes: ...

    def consistency(self, old: int, new: int, *, origin: str = "") -> tuple[bytes, ...]: ...

    def on_head(self, callback: Callable[[bytes], None]) -> None: ...

    def close(self) -> None: ...


class WitnessAddress(NamedTuple):
    """A witness's address, and the key that verifies its cosignatures."""

    address: Address
    key: PublicKey


def parse_witness(text: str) -> WitnessAddress:
    """Parse a witness as the configuration writes it: `URL VKEY`. Raise InvalidConfig for any other text."""
    url, _, vkey = text.strip().partition(" ")
    if not vkey.strip():
        raise InvalidConfig(
            "a witness needs an address and its public key",
            hint='"https://host/path NAME+ID+KEY", as it says at its start',
        )
    address = parse_address(url.rstrip("/"), "a witness")
    if address.scheme == "syslog" or "?" in address.path:
        raise InvalidConfig("a witness is asked over https, at an address without a query", hint="https://host/path")
    try:
        key = parse_vkey(vkey)
    except InvalidNote as error:
        raise InvalidConfig(f"the public key of a witness: {error.message}", hint=error.hint) from None
    if key.kind != COSIGNATURE:
        raise InvalidConfig(
            f"the public key {quoted(key.vkey, 120)} is that of a log, not of a witness",
            hint="copy the key that the witness says at its start",
        )
    return WitnessAddress(address, key)


class Sink(Protocol):
    """A target for heads. If `send` raises, the head has not arrived."""

    @property
    def name(self) -> str: ...

    def send(self, head: Checkpoint, note: bytes) -> Checkpoint:
        """Send the head; return the head that arrived: this one, or a newer one of the same log."""


class _AnchorSink:
    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self.name = anchor.name

    def send(self, head: Checkpoint, note: bytes) -> Checkpoint:
        self._anchor.send(head, note)
        return head


class CosignedHeadFile:
    """The file beside the log with the newest cosigned head: a log that does not contain that head was rolled back."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._reset_after_fork()
        on_fork(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self._replacing = Lock()

    def keep(self, note: Note, head: Checkpoint) -> None:
        """Store the head unless the file has a newer one; merge the lines of witnesses that cosigned the same head."""
        if self._path is None:
            return
        with self._replacing:
            with suppress(OSError, InvalidNote):
                old = parse_note(read_regular(self._path, MAX_NOTE))
                before = parse_checkpoint(old.text)
                if before.origin == head.origin and before.size > head.size:
                    return
                if old.text == note.text:
                    lines = {(each.name, each.id): each for each in (*old.signatures, *note.signatures)}
                    note = Note(note.text, tuple(lines.values()))
            replace_file(self._path, note.to_bytes())


class WitnessSink:
    """The client of one witness: proves that each head continues the one before, and checks the cosignature."""

    def __init__(self, journal: PublishedJournal, witness: WitnessAddress, kept: CosignedHeadFile) -> None:
        self._journal = journal
        self._witness = witness
        self._kept = kept
        # By origin, the size of the head that the witness has. If it is unknown or outdated, the witness answers 409.
        self._sizes: dict[str, int] = {}
        self.name = f"the witness {printable(witness.key.name)}"

    def send(self, head: Checkpoint, note: bytes) -> Checkpoint:
        for _ in range(_MOST_ASKED):
            old = self._sizes.get(head.origin, 0)
            if old > head.size:
                note = self._journal.newest(head.origin)
                head = parse_checkpoint(parse_note(note).text)
                if old > head.size:
                    raise LockgateError(
                        f"it has seen {old} records of {quoted(head.origin)}, which has {head.size} under its newest "
                        "head: the log was taken back or replaced",
                        hint="look at it with `lockgate audit verify`, and hold the witness's head against it",
                    )
            hashes = self._journal.consistency(old, head.size, origin=head.origin) if old else ()
            body = Submission(old, hashes, note).to_bytes()
            status, reply = post(self._witness.address, body, "/add-checkpoint")
            if status == 200:
                self._keep_cosignature(head, note, reply)
                return head
            size = _SIZE.fullmatch(reply) if status == 409 else None
            if status != 409 or (size is not None and int(size[1]) == old):
                raise LockgateError(_REFUSALS.get(status, f"it answered {status}"))
            if size is None:
                raise LockgateError("it answered 409 without a size")
            self._sizes[head.origin] = int(size[1])
        raise LockgateError("others ask it about this log all the time")

    def _keep_cosignature(self, head: Checkpoint, note: bytes, reply: bytes) -> None:
        key = self._witness.key
        try:
            whole = parse_note(note + reply)
            if key not in verify_signatures(whole, (key,), keys.verify):
                raise InvalidNote("its key has not signed")
        except InvalidNote as error:
            raise LockgateError(f"its cosignature does not hold: {error.message}") from None
        # Drop lines by unknown keys from the reply.
        ours = parse_note(note).signatures
        lines = tuple(each for each in whole.signatures if each in ours or (each.name, each.id) == (key.name, key.id))
        self._kept.keep(Note(whole.text, lines), head)
        self._sizes[head.origin] = head.size


_REFUSALS = {
    403: "it has another public key for this log",
    404: "it does not know this log: start it with the log's public key",
    409: "it has cosigned another history of this log",
    422: "it finds that the log does not continue what it cosigned: its history was changed",
}


class Publisher:
    """Sends the newest heads to one target, in its own thread."""

    def __init__(
        self, sink: Sink, *, every_s: float, checkpoint: Callable[[], bytes], ticks: Callable[[], float] = monotonic
    ) -> None:
        self.sink = sink
        # Why the last head did not arrive; empty when it did.
        self.problem = ""
        # Called with each head that arrived.
        self.on_sent: Callable[[Checkpoint], None] = lambda _: None
        self._every_s = every_s
        self._checkpoint = checkpoint
        self._ticks = ticks
        self._sent: dict[str, int] = {}
        self._reset_after_fork()

    def _reset_after_fork(self) -> None:
        """Set up what a fork breaks: a lock that another thread held, and a thread that the child does not have."""
        self._changed = Condition(Lock())
        self._waiting: dict[str, tuple[Checkpoint, bytes]] = {}
        # How many rulings have asked for a head, and how many of them were served. After `_until` none waits any more.
        self._asked = self._served = 0
        self._until = 0.0
        self._tried = float("-inf")
        self._failures = 0
        self._closing = False
        self._thread: Thread | None = None

    def offer(self, note: bytes) -> None:
        """Queue a head for sending. Return at once."""
        head = parse_checkpoint(parse_note(note).text)
        with self._changed:
            self._queue_head(head, note)
            self._wake_thread()

    def expect_head(self, within_s: float) -> None:
        """Note that a ruling waits this long for a head that covers the log as it is now. Return at once."""
        with self._changed:
            self._asked += 1
            self._until = max(self._until, self._ticks() + within_s)
            self._wake_thread()

    def finish(self) -> None:
        """Send what waits, once; no more heads will come."""
        with self._changed:
            self._closing = True
            if self._waiting:
                self._wake_thread()
            self._changed.notify_all()
            alone = bool(self._waiting) and self._thread is None
        if alone:
            # At the end of a process no thread can be started.
            self._send_waiting()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, at most this long."""
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(timeout_s)

    def _queue_head(self, head: Checkpoint, note: bytes) -> None:
        before = self._waiting.get(head.origin)
        if head.size > self._sent.get(head.origin, -1) and (before is None or head.size > before[0].size):
            self._waiting[head.origin] = (head, note)

    def _wake_thread(self) -> None:
        self._changed.notify_all()
        if self._thread is None or not self._thread.is_alive():
            self._thread = None
            thread = Thread(target=self._run, name="lockgate-publisher", daemon=True)
            # If no thread can be started, the next head tries again.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _delay_until_next_s(self, now: float) -> float | None:
        """Return the seconds until the next attempt; None if there is nothing to send."""
        hurried = self._asked > self._served and now < self._until
        if not self._waiting and not hurried:
            return None
        if self._closing:
            return 0.0
        if self._failures:
            gap = min(MAX_RETRY_S, RETRY_S * 2.0 ** min(self._failures - 1, 10))
            gap = min(gap, WAITED_RETRY_S) if hurried else gap
        else:
            gap = 0.0 if hurried else self._every_s
        return max(0.0, self._tried + gap - now)

    def _run(self) -> None:
        while True:
            with self._changed:
                while (delay := self._delay_until_next_s(self._ticks())) != 0.0:
                    if delay is None and self._closing:
                        return
                    self._changed.wait(delay)
            self._send_waiting()
            if self._closing and self._failures:
                return

    def _send_waiting(self) -> None:
        with self._changed:
            self._tried = self._ticks()
            asked = self._asked
            hurried = asked > self._served
            taken, self._waiting = self._waiting, {}
        try:
            if hurried and not self._closing:
                # This also calls `offer`.
                note = self._checkpoint()
                head = parse_checkpoint(parse_note(note).text)
                taken[head.origin] = (head, note)
            for origin in list(taken):
                arrived = self.sink.send(*taken[origin])
                with self._changed:
                    self._sent[origin] = max(arrived.size, self._sent.get(origin, 0))
                    del taken[origin]
                self.on_sent(arrived)
        except Exception as error:  # noqa: BLE001  # a target is foreign code; `problem` and one log line report it
            report_failure("journal-publisher", error)
            self._note_failure(error, taken)
            return
        with self._changed:
            self._served = asked
            self._failures = 0
            self._waiting = {
                origin: each for origin, each in self._waiting.items() if each[0].size > self._sent.get(origin, -1)
            }
        if self.problem:
            _log.warning("heads reach %s again", self.sink.name)
        self.problem = ""

    def _note_failure(self, error: Exception, taken: dict[str, tuple[Checkpoint, bytes]]) -> None:
        with self._changed:
            self._failures += 1
            for head, note in taken.values():
                self._queue_head(head, note)
        said = _describe_error(error)
        if said != self.problem:
            _log.warning("heads do not reach %s: %s", self.sink.name, said)
        self.problem = said


class PublisherGroup:
    """All targets of one journal's heads."""

    def __init__(self, journal: PublishedJournal, witnesses: Sequence[Publisher], anchors: Sequence[Publisher]) -> None:
        self.witnesses = tuple(witnesses)
        self.anchors = tuple(anchors)
        self._journal = journal
        # The journal keeps a reference to this object, which therefore lives as long as the journal.
        journal.on_head(self._offer_to_all)
        _open.add(self)
        on_fork(self._reset_after_fork)

    def _offer_to_all(self, note: bytes) -> None:
        for each in (*self.witnesses, *self.anchors):
            each.offer(note)

    @property
    def problems(self) -> dict[str, str]:
        """By the target's name, why the last head did not arrive."""
        return {each.sink.name: each.problem for each in (*self.witnesses, *self.anchors) if each.problem}

    def close(self) -> None:
        """Close the journal, which signs its last head, and send that head. Never raise."""
        self._journal.close()
        until = monotonic() + CLOSE_S
        for each in (*self.witnesses, *self.anchors):
            each.finish()
        for each in (*self.witnesses, *self.anchors):
            each.join(max(0.0, until - monotonic()))

    def _reset_after_fork(self) -> None:
        for each in (*self.witnesses, *self.anchors):
            each._reset_after_fork()


def start_publishing(
    journal: PublishedJournal,
    witnesses: Iterable[str] = (),
    anchors: Iterable[str] = (),
    *,
    witnessed: Path | None = None,
) -> PublisherGroup:
    """Send the journal's heads to these targets from now on; raise InvalidConfig for an entry that is not valid.

    `witnessed` is the file for the newest cosigned head.
    """
    kept = CosignedHeadFile(witnessed)
    asked = [WitnessSink(journal, parse_witness(text), kept) for text in witnesses]
    told = [_AnchorSink(parse_anchor(text)) for text in anchors]
    return PublisherGroup(
        journal,
        [Publisher(each, every_s=WITNESS_EVERY_S, checkpoint=journal.checkpoint) for each in asked],
        [Publisher(each, every_s=ANCHOR_EVERY_S, checkpoint=journal.checkpoint) for each in told],
    )


class WitnessedJournal:
    """A journal that waits until a witness has cosigned a head that covers the record.

    This costs a signature and a round trip, shared by all rulings that wait at that moment.
    """

    def __init__(self, journal: PublishedJournal, publishing: PublisherGroup, *, strict_s: float = STRICT_S) -> None:
        if not publishing.witnesses:
            raise InvalidConfig(
                "strict recording waits for a witness, and none is configured",
                hint="add one under `witnesses`, or set strict = false",
            )
        # The journal for records that need not wait: a ruling that waits comes after them.
        self.unwitnessed = journal
        self._witnesses = publishing.witnesses
        self._strict_s = strict_s
        self._sizes: dict[str, int] = {}
        self._reset_after_fork()
        for each in self._witnesses:
            each.on_sent = self._note_cosigned
        on_fork(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self._covered = Condition(Lock())

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        """Enqueue as `Journal.enqueue` does; the returned function also waits for a cosignature.

        It raises JournalUncosigned if none came in time: the record is stored then, but no witness has seen it.
        """
        stored = self.unwitnessed.enqueue(records, durable=durable)
        # From here on, so that a thread which waits for several records waits no longer than for one.
        until_s = monotonic() + self._strict_s

        def wait() -> tuple[Receipt, ...]:
            receipts = stored()
            self._wait_for_cosignature(receipts[-1], until_s)
            return receipts

        return wait

    def _wait_for_cosignature(self, last: Receipt, until_s: float) -> None:
        for each in self._witnesses:
            each.expect_head(self._strict_s)
        with self._covered:
            while self._sizes.get(last.origin, 0) <= last.index:
                left = until_s - monotonic()
                if left <= 0:
                    break
                self._covered.wait(left)
            else:
                return
        problems = "; ".join(f"{each.sink.name}: {each.problem}" for each in self._witnesses if each.problem)
        raise JournalUncosigned(
            f"no witness has cosigned record {last.index} within {self._strict_s:g} seconds"
            + (f" ({problems})" if problems else ""),
            hint="start the witness, or set strict = false",
        )

    def _note_cosigned(self, head: Checkpoint) -> None:
        with self._covered:
            self._sizes[head.origin] = max(head.size, self._sizes.get(head.origin, 0))
            self._covered.notify_all()


def _describe_error(error: Exception) -> str:
    if isinstance(error, LockgateError):
        return error.message
    if isinstance(error, OSError):
        return printable(error.strerror or error, 200).lower()
    # Any other error is a bug of ours, and its text may contain a user's text.
    return type(error).__name__


_open: weakref.WeakSet[PublisherGroup] = weakref.WeakSet()


def _close_all() -> None:
    for each in list(_open):
        each.close()


register(_close_all)
