"""Record rulings, approvals, verdicts and settings in the journal: numbered, in order, with a gap for a lost one.

1. Number. Each record gets the run's next number and its place in the journal under one lock, so that the log has the
           order of the numbers.
2. Wait.   Outside the lock, until the record is committed. The receipt must be for exactly the bytes that were given.
3. Lost.   After any failure it is unknown whether the record was stored. The next successful write begins with a `gap`
           record, which names the numbers that may be missing. One failure is different: a record that no witness
           cosigned in time is stored.
"""

from __future__ import annotations

import json
import json.encoder
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from time import time
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from lockgate.core.errors import JournalUnavailable, JournalUncosigned, LockgateError
from lockgate.core.vocabulary import Block, Decision, Receipt, Trust
from lockgate.journal import record
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.record import MAX_BLOCKS, SALT, RecordNumber, encode_record, ruling_bytes, sha256_hex
from lockgate.runtime.failures import report_failure
from lockgate.runtime.forks import on_fork
from lockgate.runtime.private_files import replace_file
from lockgate.runtime.routines import Routine, ThreadWait, run_routine
from lockgate.runtime.strict_json import PORTABLE, check_limits
from lockgate.runtime.tracing import current_trace_id
from lockgate.settings.files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from lockgate.core.ruling.approvals import ApprovalChange
    from lockgate.core.ruling.arguments import Leaf

# The most records in one append, and the most gaps that a run lists one by one.
_AT_ONCE = 256
_MOST_GAPS = 16
# One system call for random bytes costs the same for one salt and for many.
_SALTS = 32
_TRUST = {trust: trust.word for trust in Trust}


class JournalWriter(Protocol):
    """A journal as the recorder needs it.

    `enqueue` gives the records their place in the order, next to each other, and touches no disk. The returned function
    waits until they are committed, all or none, and returns their receipts in this order. `durable` records survive a
    power cut, others the end of this process. Both functions raise if the records may not be stored.
    """

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]: ...


def writer_without_witness(journal: JournalWriter) -> JournalWriter:
    """Return the journal that does not wait for a witness; for a journal without witnesses that is itself."""
    plain: JournalWriter = getattr(journal, "unwitnessed", journal)
    return plain


Build = Callable[[Callable[[], RecordNumber]], Iterable[bytes]]


class _Enqueued(NamedTuple):
    """Records with their place in the journal: their numbers, and the recorder's state before them."""

    records: list[bytes]
    wait: Callable[[], Sequence[Receipt]]
    first: int
    last: int
    gaps: list[tuple[int, int]]
    listed: int


class Recorder:
    """Writes the records of one run: of one session, or of one process. Threads may share it."""

    def __init__(self, journal: JournalWriter, *, clock: Callable[[], float] = time) -> None:
        self._journal = journal
        self._clock = clock
        self._start_run()
        on_fork(self._start_run)

    def _start_run(self) -> None:
        """Begin a new run. A forked child needs one too: its parent goes on counting, and may have held the lock."""
        self._lock = Lock()
        self._run = os.urandom(8).hex()
        self._seq = 0
        # The highest number that was stored.
        self._stored = 0
        self._lost: list[tuple[int, int]] = []
        self._why = ""
        # How many blocks of the session's context the records list.
        self._listed = 0
        self._salts: list[bytes] = []

    def record_built(self, build: Build, *, durable: bool, witnessed: bool = True) -> Receipt:
        """Record all records that `build` yields; return the last one's receipt, or raise JournalUnavailable.

        `build` runs under the lock, and calls its argument once per record. With `witnessed` False no witness is
        awaited.
        """
        return run_routine(self.recording(build, durable=durable, witnessed=witnessed))

    def recording(self, build: Build, *, durable: bool, witnessed: bool = True) -> Routine[Receipt]:
        """Do the same as a routine: at its wait the records have their place, and others may join their commit."""
        try:
            journal = self._journal if witnessed else writer_without_witness(self._journal)
            given = self._number_and_enqueue(journal, build, durable=durable)
            return (yield from self._wait_until_stored(given))
        except JournalUnavailable:
            raise
        except LockgateError as error:
            raise JournalUnavailable(error.message, hint=error.hint) from error
        except Exception as error:
            # The journal may be foreign code, and the text of its error may contain anything.
            report_failure("journal", error)
            raise JournalUnavailable(f"the journal failed: {type(error).__name__}") from error

    def _number_and_enqueue(self, journal: JournalWriter, build: Build, *, durable: bool) -> _Enqueued:
        """Step 1: number the records and give them their place in the journal, under one lock."""
        with self._lock:
            first, gaps, listed = self._seq + 1, self._lost, self._listed
            enqueued = False
            try:
                records = [*self._gap_records(), *build(self._next_number)] if gaps else list(build(self._next_number))
                wait = (
                    journal.enqueue(records, durable=durable)
                    if 0 < len(records) <= _AT_ONCE
                    else _enqueue_in_parts(journal, records, durable=durable)
                )
                enqueued = True
            finally:
                if not enqueued:
                    self._note_lost(first, self._seq, listed)
            self._lost = []
            return _Enqueued(records, wait, first, self._seq, gaps, listed)

    def _wait_until_stored(self, given: _Enqueued) -> Routine[Receipt]:
        """Step 2: wait until the records are committed; on failure, step 3."""
        stored = False
        try:
            receipts: Sequence[Receipt] = yield ThreadWait(given.wait)
            if len(receipts) != len(given.records) or any(map(_is_wrong_receipt, receipts, given.records)):
                raise JournalUnavailable("the journal gave a receipt for another record")
            stored = True
        except JournalUncosigned:
            stored = True
            raise
        finally:
            with self._lock:
                if stored:
                    self._stored = max(self._stored, given.last)
                    has_hole = bool(self._lost) and self._lost[0][0] < given.last
                else:
                    self._lost = given.gaps + self._lost
                    self._note_lost(given.first, given.last, given.listed)
                    has_hole = self._stored > given.first
            if has_hole:
                self._record_gaps_now()
        return receipts[-1]

    def _next_number(self) -> RecordNumber:
        self._seq += 1
        ts_ms = int(self._clock() * 1000)
        if not self._salts:
            drawn = os.urandom(_SALTS * SALT)
            self._salts = [drawn[at : at + SALT] for at in range(0, len(drawn), SALT)]
        return {"run": self._run, "seq": self._seq, "ts_ms": ts_ms if ts_ms > 0 else 0, "salt": self._salts.pop()}

    # 3. Lost.

    def _note_lost(self, first: int, last: int, listed: int) -> None:
        """Note that these numbers may be missing, because of the exception that is being handled."""
        # The next record lists again the blocks that a lost record listed.
        self._listed = min(self._listed, listed)
        self._why = type(sys.exception()).__name__
        merged: list[tuple[int, int]] = []
        for start, end in sorted([*self._lost, (first, last)] if first <= last else self._lost):
            if merged and start <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        self._lost = merged if len(merged) <= _MOST_GAPS else [(merged[0][0], merged[-1][1])]

    def _gap_records(self) -> Iterator[bytes]:
        for first, last in self._lost:
            yield encode_record(record.gap_record(**self._next_number(), first=first, last=last, reason=self._why))

    def _record_gaps_now(self) -> None:
        """Record the gaps at once, if later numbers are stored: else the lost record would look like a removed one."""
        # If this fails, the gaps stay noted, and the next record tries again.
        with suppress(JournalUnavailable):
            self.record_built(lambda _: (), durable=True, witnessed=False)

    # The kinds of record

    def record_approvals(self, changes: Sequence[ApprovalChange]) -> None:
        """Record the outcomes of questions to a person."""

        def build(number: Callable[[], RecordNumber]) -> Iterator[bytes]:
            for each in changes:
                yield encode_record(
                    record.approval_record(
                        **number(),
                        session=each.session,
                        id=each.id,
                        state=each.state.value,
                        digest=each.digest,
                        who=each.who,
                        block=each.block,
                    )
                )

        if changes:
            # No witness is awaited here, since the approvals store is locked meanwhile. The ruling that follows from
            # an answer waits for the witness, and its head covers this record too.
            self.record_built(build, durable=True, witnessed=False)

    def record_configuration(self, policy_hash: str, settings_hash: str, software: str, previous: str) -> Receipt:
        def build(number: Callable[[], RecordNumber]) -> Iterator[bytes]:
            yield encode_record(
                record.configuration_record(
                    **number(),
                    policy_hash=policy_hash,
                    settings_hash=settings_hash,
                    previous=previous,
                    software=software,
                )
            )

        return self.record_built(build, durable=True)


def _enqueue_in_parts(
    journal: JournalWriter, records: list[bytes], *, durable: bool
) -> Callable[[], Sequence[Receipt]]:
    """Enqueue more records than the journal takes at once, or none."""
    parts = [records[at : at + _AT_ONCE] for at in range(0, len(records), _AT_ONCE)]
    waits = [journal.enqueue(part, durable=durable) for part in parts]
    return lambda: [receipt for wait in waits for receipt in wait()]


def _is_wrong_receipt(receipt: object, data: bytes) -> bool:
    return not isinstance(receipt, Receipt) or receipt.leaf_hash != leaf_hash(data)


class RulingSubject(NamedTuple):
    """What a ruling is about, taken when it began: the hash of the arguments, the context at that time, the trace."""

    args_sha256: str
    blocks: int
    context_sha256: str
    trace: str = ""


class SessionRecorder(Recorder):
    """Writes the rulings of one session."""

    def __init__(self, journal: JournalWriter, session: str, *, clock: Callable[[], float] = time) -> None:
        super().__init__(journal, clock=clock)
        self._session = session

    def describe_call(
        self, arguments: object, leaves: Iterable[Leaf], blocks: int, context_sha256: str
    ) -> RulingSubject:
        return RulingSubject(hash_arguments(arguments, leaves), blocks, context_sha256, current_trace_id())

    def recording_ruling(
        self,
        seen: RulingSubject,
        blocks: Sequence[Block],
        tool: str,
        decision: Decision,
        *,
        mode: str,
        policy_hash: str,
        approved_by: str = "",
        durable: bool = True,
        witnessed: bool = True,
    ) -> Routine[Receipt]:
        """Record a ruling, as a routine. `blocks` is the session's own list; the record lists those that are new."""
        build = self._build_ruling(
            seen, blocks, tool, decision, mode=mode, policy_hash=policy_hash, approved_by=approved_by
        )
        return self.recording(build, durable=durable, witnessed=witnessed)

    def _build_ruling(
        self,
        seen: RulingSubject,
        blocks: Sequence[Block],
        tool: str,
        decision: Decision,
        *,
        mode: str,
        policy_hash: str,
        approved_by: str = "",
    ) -> Build:
        def build(number: Callable[[], RecordNumber]) -> list[bytes]:
            records: list[bytes] = []
            fresh: Sequence[tuple[str, str, str]] = ()
            if seen.blocks > self._listed:
                fresh = [(each.id, _TRUST[each.trust], each.digest) for each in blocks[self._listed : seen.blocks]]
                self._listed = seen.blocks
                while len(fresh) > MAX_BLOCKS:
                    part, fresh = fresh[:MAX_BLOCKS], fresh[MAX_BLOCKS:]
                    records.append(encode_record(record.context_record(**number(), session=self._session, blocks=part)))
            # Not `**number()`, which takes twice as long: every call waits for this.
            numbered = number()
            records.append(
                ruling_bytes(
                    run=numbered["run"],
                    seq=numbered["seq"],
                    ts_ms=numbered["ts_ms"],
                    salt=numbered["salt"],
                    session=self._session,
                    mode=mode,
                    tool=tool,
                    args_sha256=seen.args_sha256,
                    blocks=fresh,
                    decision=decision,
                    policy_hash=policy_hash,
                    context_sha256=seen.context_sha256,
                    approved_by=approved_by,
                    trace=seen.trace,
                )
            )
            return records

        return build


def hash_arguments(arguments: object, leaves: Iterable[Leaf]) -> str:
    """Return the SHA-256 over the arguments' canonical form, to which an approval is bound.

    Some arguments have no canonical form: a lone surrogate, NaN, an integer of thousands of digits, or more than
    `PORTABLE.depth` levels. They are hashed as Python's encoder writes them, or else, and always if they are too deep,
    by the leaves that Tier 1 saw. The latter is a JSON list, so it cannot be confused with arguments, which are an
    object.
    """
    with suppress(TypeError, ValueError, RecursionError):
        text = _spell_flat(arguments) or _spelled(arguments)
        check_limits(text, PORTABLE)
        return sha256_hex(text)
    return sha256_hex(_spelled([[leaf.argument, leaf.text] for leaf in leaves]))


def _spell_flat(arguments: object) -> str:
    """Return what `_spelled` returns for an object of texts, in half the time; empty for any other value."""
    if type(arguments) is not dict:
        return ""
    spelled = []
    for key in sorted(arguments):
        value = arguments[key]
        if type(key) is not str or type(value) is not str:
            return ""
        spelled.append(f"{_quoted(key)}:{_quoted(value)}")
    return f"{{{','.join(spelled)}}}"


def _as_object(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError("not JSON")


_quoted = json.encoder.encode_basestring_ascii
_spelled = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=_as_object).encode


def record_assessment(
    journal: JournalWriter,
    payload_sha256: str,
    verdict: str,
    acted: str,
    *,
    reason: str,
    by: str = "",
    rules: Iterable[str] = (),
    more: Mapping[str, object] | None = None,
    durable: bool = True,
) -> Receipt:
    """Record a verdict on a request, and what was done because of it; raise if it may not be stored.

    `more` has optional fields: who sent it, how the sender stands, and which conversation and trace it belongs to.
    `durable` False is for records that need not survive a power cut. One process has one run in each journal.
    """
    with _recorders_lock:
        recorder = _recorders.get(journal)
        if recorder is None:
            recorder = _recorders[journal] = Recorder(journal)

    def build(number: Callable[[], RecordNumber]) -> Iterator[bytes]:
        yield encode_record(
            record.assess_record(
                **number(),
                payload_sha256=payload_sha256.removeprefix("sha256:"),
                verdict=verdict,
                reason=reason,
                by=by,
                acted=acted,
                rules=rules,
                more=more,
            )
        )

    return recorder.record_built(build, durable=durable)


class UnavailableJournal:
    """A journal that cannot be opened: every `enqueue` raises JournalUnavailable with the reason."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self._message, self._hint = message, hint

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:  # noqa: ARG002
        raise JournalUnavailable(self._message, hint=self._hint)


class OpenedJournal(NamedTuple):
    """An opened journal: where rulings go, the log itself, and the name of its first shard."""

    journal: JournalWriter
    log: JournalWriter
    origin: str


class DeclaredJournal:
    """A journal that is opened at the first record, and in which the settings are recorded before any ruling.

    `note` is a file with the settings that were recorded last, and the log's name. It only saves records and proves
    nothing: if it is missing or unreadable, the settings are recorded at every start.
    """

    def __init__(
        self, opened: Callable[[], OpenedJournal], *, policy_hash: str, settings_hash: str, software: str, note: Path
    ) -> None:
        self._opened = opened
        self._policy_hash, self._settings_hash, self._software = policy_hash, settings_hash, software
        self._note = note
        self._journal: JournalWriter | None = None
        self._log: JournalWriter | None = None
        self._start_run()
        on_fork(self._start_run)

    def _start_run(self) -> None:
        self._lock = Lock()

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        journal = self._journal
        if journal is None:
            self._declare_settings()
            journal = self._journal
            assert journal is not None  # noqa: S101
        return journal.enqueue(records, durable=durable)

    @property
    def unwitnessed(self) -> JournalWriter:
        """The log itself, which does not wait for a witness."""
        return self.open_log()

    def open_log(self) -> JournalWriter:
        if self._log is None:
            self._declare_settings()
        assert self._log is not None  # noqa: S101
        return self._log

    def _declare_settings(self) -> None:
        # Other threads wait here too: they need the opened log as well.
        with self._lock:
            if self._journal is not None:
                return
            opened = self._opened()
            said = f"{opened.origin} {self._policy_hash} {self._settings_hash} {self._software}\n"
            before = read_settings_note(self._note)
            if before != said:
                origin, _, rest = before.partition(" ")
                previous = rest.partition(" ")[0]
                known = previous if origin == opened.origin and _POLICY.fullmatch(previous) else ""
                # No witness is awaited: the first ruling waits for one, and its head covers this record too.
                Recorder(opened.log).record_configuration(self._policy_hash, self._settings_hash, self._software, known)
                _write_settings_note(self._note, said)
            self._log, self._journal = opened.log, opened.journal


def read_settings_note(note: Path) -> str:
    """Return the log's name and the settings that were recorded last; empty if the file cannot be read."""
    try:
        return read_regular(note, _MAX_NOTE)[:_MAX_NOTE].decode("ascii")
    except (OSError, ValueError):
        return ""


def note_journal_off(note: Path) -> None:
    """Note that the journal is off: switching it on again then counts as a change of settings."""
    origin, _, rest = read_settings_note(note).partition(" ")
    if origin and rest != "off\n":
        _write_settings_note(note, f"{origin} off\n")


def _write_settings_note(note: Path, said: str) -> None:
    with suppress(OSError, ValueError):
        replace_file(note, said.encode("ascii"), durable=False)


_POLICY = re.compile("sha256:[0-9a-f]{64}")
_MAX_NOTE = 1_024
_recorders: WeakKeyDictionary[JournalWriter, Recorder] = WeakKeyDictionary()
_recorders_lock = Lock()


def _reset_lock() -> None:
    global _recorders_lock
    _recorders_lock = Lock()


on_fork(_reset_lock)
