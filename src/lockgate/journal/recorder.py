"""Rulings, approvals, verdicts and settings into the journal: numbered, in order, and owned up to where one is lost.

1. Number. Every record of a run has the next number; it takes its place in the journal under the same lock, so that the
           order of the log is the order of the numbers.
2. Wait.   Outside that lock, until the record is committed. Its receipt has to be for the very bytes that were given.
3. Lost.   Whatever goes wrong, a hang and an odd reply included, nobody knows whether the record is there. The next one
           that can be written comes behind a `gap` record, which names the numbers that may be missing. Only what no
           witness has cosigned in time is known to be there.
"""

from __future__ import annotations

import json
import json.encoder
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from time import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict
from weakref import WeakKeyDictionary

from lockgate.core.errors import JournalUnavailable, JournalUncosigned, LockgateError
from lockgate.core.journal import record
from lockgate.core.journal.merkle import leaf_hash
from lockgate.core.journal.record import MAX_BLOCKS, SALT, encode_record, ruling_bytes, sha256_hex
from lockgate.core.vocabulary import Block, Decision, Receipt, Trust
from lockgate.runtime.forks import on_fork

if TYPE_CHECKING:
    from pathlib import Path

    from lockgate.core.ruling.approvals import ApprovalChange
    from lockgate.core.ruling.origins import Leaf

# One append takes so many records at most, and a run owns up to so many gaps one by one.
_AT_ONCE = 256
_MOST_GAPS = 16
# Asking the system for chance costs the same for one salt and for many.
_SALTS = 32
_TRUST = {trust: trust.word for trust in Trust}


class JournalWriter(Protocol):
    """Where records go.

    `enqueue` gives the records their place in the order, next to each other, and touches no disk. The function that it
    returns waits until they are committed, all or none, and returns their receipts in this order. `durable` records
    must outlive a power cut, others this process. Either raises when the records may not be stored.
    """

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]: ...


# Gets the receipt of a record that waits, by storing it; may be called again where it raised JournalUnavailable.
Promised = Callable[[], Receipt]


def writer_without_witness(journal: JournalWriter) -> JournalWriter:
    """The same journal for what need not be cosigned before it counts; a journal without witnesses is that already."""
    plain: JournalWriter = getattr(journal, "unwitnessed", journal)
    return plain


class RecordNumber(TypedDict):
    """What every record begins with."""

    run: str
    seq: int
    ts_ms: int
    salt: bytes


Build = Callable[[Callable[[], RecordNumber]], Iterable[bytes]]


class Recorder:
    """The records of one run: one session, or one process. Safe for several threads."""

    def __init__(self, journal: JournalWriter, *, clock: Callable[[], float] = time) -> None:
        self._journal = journal
        self._clock = clock
        self._start_run()
        on_fork(self._start_run)

    def _start_run(self) -> None:
        """Also in the child of a fork: numbers of a run are given out once, and nobody there will open the lock."""
        self._lock = Lock()
        self._run = os.urandom(8).hex()
        self._seq = 0
        # The highest number that is known to be stored.
        self._stored = 0
        self._lost: list[tuple[int, int]] = []
        self._why = ""
        # How many blocks of the session's context the records list.
        self._listed = 0
        self._salts: list[bytes] = []

    def record_built(self, build: Build, *, durable: bool, witnessed: bool = True) -> Receipt:
        """Record what `build` makes, as many records as it likes: the last one's receipt, or JournalUnavailable.

        `build` is called under the lock, and calls what it is given once per record. `witnessed` False waits for no
        witness.
        """
        journal = self._journal if witnessed else writer_without_witness(self._journal)
        receipt = self._tried(journal, build, durable=durable)
        assert isinstance(receipt, Receipt)  # noqa: S101
        return receipt

    def promise(self, build: Build) -> Receipt | Promised:
        """As `put`, for what need not outlive a power cut: what can wait outlives this process when this returns.

        A journal says with `promise` that records can wait: it takes them as `enqueue` does, or returns None.
        """
        return self._tried(self._journal, build, durable=False, later=True)

    def _tried(self, journal: JournalWriter, build: Build, *, durable: bool, later: bool = False) -> Receipt | Promised:
        try:
            return self._put(journal, build, durable=durable, later=later)
        except JournalUnavailable:
            raise
        except LockgateError as error:
            raise JournalUnavailable(error.message, hint=error.hint) from error
        except Exception as error:
            # In its own words, which may hold anything.
            raise JournalUnavailable(f"the journal failed: {type(error).__name__}") from error

    def _put(self, journal: JournalWriter, build: Build, *, durable: bool, later: bool) -> Receipt | Promised:
        promise = getattr(journal, "promise", None) if later else None
        with self._lock:
            first, owned, listed = self._seq + 1, self._lost, self._listed
            try:
                # 1. Number.
                records = [*self._gap_records(), *build(self._next_number)] if owned else list(build(self._next_number))
                waits = None if promise is None or owned else promise(records)
                wait = waits or (
                    journal.enqueue(records, durable=durable)
                    if 0 < len(records) <= _AT_ONCE
                    else _enqueue_in_parts(journal, records, durable=durable)
                )
            except BaseException as error:
                self._note_lost(first, self._seq, listed, error)
                raise
            last, self._lost = self._seq, []
            if waits is not None:
                # As good as stored: whoever uses the log next does it, should this process end before.
                self._stored = max(self._stored, last)
                return partial(_redeemed, waits, records)
        try:
            # 2. Wait.
            receipts = wait()
            if len(receipts) != len(records) or any(map(_is_wrong_receipt, receipts, records)):
                raise JournalUnavailable("the journal gave a receipt for another record")
        except JournalUncosigned:
            with self._lock:
                self._stored = max(self._stored, last)
            raise
        except BaseException as error:
            with self._lock:
                self._lost = owned + self._lost
                self._note_lost(first, last, listed, error)
                late = self._stored > first
            if late:
                self._record_gaps_now()
            raise
        with self._lock:
            if last > self._stored:
                self._stored = last
            late = bool(self._lost) and self._lost[0][0] < last
        if late:
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

    def _note_lost(self, first: int, last: int, listed: int, error: BaseException) -> None:
        # What a lost record listed is listed again.
        self._listed = min(self._listed, listed)
        self._why = type(error).__name__
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
        """At once, where later numbers are stored: a run that ends here would look as if a record were taken out."""
        # What fails is still noted, and the next record tries again; somebody else may also just have done it.
        with suppress(Exception):
            self.record_built(lambda _: (), durable=True, witnessed=False)

    # What is recorded

    def record_approvals(self, changes: Sequence[ApprovalChange]) -> None:
        """What became of questions to a person."""

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
                    )
                )

        if changes:
            # Whatever follows from an answer is a ruling, which waits for the witness and has this below it. Here
            # others would wait too: the store of the questions is locked.
            self.record_built(build, durable=True, witnessed=False)

    def record_assessment(
        self,
        payload_sha256: str,
        verdict: str,
        acted: str,
        *,
        reason: str,
        by: str = "",
        rules: Iterable[str] = (),
        durable: bool = True,
    ) -> Receipt:
        """A verdict on a request, and what was done because of it."""

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
                )
            )

        return self.record_built(build, durable=durable)

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
    """More than the journal takes at once, or nothing."""
    parts = [records[at : at + _AT_ONCE] for at in range(0, len(records), _AT_ONCE)]
    waits = [journal.enqueue(part, durable=durable) for part in parts]
    return lambda: [receipt for wait in waits for receipt in wait()]


def _redeemed(wait: Callable[[], Sequence[Receipt]], records: Sequence[bytes]) -> Receipt:
    try:
        receipts = wait()
    except JournalUnavailable:
        raise
    except Exception as error:
        raise JournalUnavailable(f"the journal failed: {type(error).__name__}") from error
    if len(receipts) != len(records) or any(map(_is_wrong_receipt, receipts, records)):
        raise JournalUnavailable("the journal gave a receipt for another record")
    return receipts[-1]


def _is_wrong_receipt(receipt: object, data: bytes) -> bool:
    return not isinstance(receipt, Receipt) or receipt.leaf_hash != leaf_hash(data)


class RulingSubject(NamedTuple):
    """What a ruling was about, taken when it began: the call's arguments, and how much of the context there was."""

    args_sha256: str
    blocks: int
    context_sha256: str


class SessionRecorder(Recorder):
    """The rulings of one session."""

    def __init__(self, journal: JournalWriter, session: str, *, clock: Callable[[], float] = time) -> None:
        super().__init__(journal, clock=clock)
        self._session = session

    def describe_call(
        self, arguments: object, leaves: Iterable[Leaf], blocks: int, context_sha256: str
    ) -> RulingSubject:
        return RulingSubject(hash_arguments(arguments, leaves), blocks, context_sha256)

    def record_ruling(
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
    ) -> Receipt:
        """`blocks` is the session's own list, which only grows: what the records do not list yet is listed here."""
        build = self._build_ruling(
            seen, blocks, tool, decision, mode=mode, policy_hash=policy_hash, approved_by=approved_by
        )
        return self.record_built(build, durable=durable, witnessed=witnessed)

    def promised(
        self,
        seen: RulingSubject,
        blocks: Sequence[Block],
        tool: str,
        decision: Decision,
        *,
        mode: str,
        policy_hash: str,
    ) -> Receipt | Promised:
        """As `ruled`, for what need not outlive a power cut."""
        build = self._build_ruling(seen, blocks, tool, decision, mode=mode, policy_hash=policy_hash)
        return self._tried(self._journal, build, durable=False, later=True)

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
            # Not `**number()`: this is in the way of every call, and that takes it twice as long.
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
                )
            )
            return records

        return build


def hash_arguments(arguments: object, leaves: Iterable[Leaf]) -> str:
    """SHA-256 over the arguments in their canonical form, as an approval is bound to it.

    What has none (half of a surrogate pair, a number that is none, an integer of thousands of digits, a thousand
    levels) is hashed as near to it as Python's encoder comes, else by what Tier 1 saw of it; that is a list, where the
    others are an object.
    """
    try:
        return sha256_hex(_spell_flat(arguments) or _spelled(arguments))
    except (TypeError, ValueError, RecursionError):
        return sha256_hex(_spelled([[leaf.argument, leaf.text] for leaf in leaves]))


def _spell_flat(arguments: object) -> str:
    """`_spelled` for an object of texts, which most arguments are, at half the price; empty for any other."""
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
    durable: bool = True,
) -> Receipt:
    """Record a verdict on a request, and what was done because of it; raises when it may not be stored.

    `durable` False is for what need not outlive a power cut. All that one process records in one journal is one run.
    """
    with _recorders_lock:
        recorder = _recorders.get(journal)
        if recorder is None:
            recorder = _recorders[journal] = Recorder(journal)
    return recorder.record_assessment(
        payload_sha256, verdict, acted, reason=reason, by=by, rules=rules, durable=durable
    )


class UnavailableJournal:
    """A journal that there is no place for: it says why to everybody who asks, and nothing is ever in it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self._message, self._hint = message, hint

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:  # noqa: ARG002
        raise JournalUnavailable(self._message, hint=self._hint)


class OpenedJournal(NamedTuple):
    """A journal that was opened: where rulings go, the log itself, and the name that it began under."""

    journal: JournalWriter
    log: JournalWriter
    origin: str


class DeclaredJournal:
    """A journal that is opened when something is first recorded, and takes no ruling before the settings it is under.

    `note` is a file that says which settings were recorded last, and in which log. It saves records, and proves
    nothing: without it, or where it cannot be read or written, the settings are recorded at every start.
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

    def promise(self, records: Sequence[bytes]) -> Callable[[], tuple[Receipt, ...]] | None:
        promise = getattr(self._journal, "promise", None)
        return None if promise is None else promise(records)

    @property
    def unwitnessed(self) -> JournalWriter:
        return _Log(self)

    def open_log(self) -> JournalWriter:
        if self._log is None:
            self._declare_settings()
        assert self._log is not None  # noqa: S101
        return self._log

    def _declare_settings(self) -> None:
        # The one time that something is waited for here: whoever comes meanwhile needs it as well.
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
                # No witness is waited for: it is below the first ruling, which waits for one.
                Recorder(opened.log).record_configuration(self._policy_hash, self._settings_hash, self._software, known)
                _write_settings_note(self._note, said)
            self._log, self._journal = opened.log, opened.journal


class _Log:
    """A declared journal for what waits for no witness."""

    def __init__(self, declared: DeclaredJournal) -> None:
        self._declared = declared

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        return self._declared.open_log().enqueue(records, durable=durable)


def read_settings_note(note: Path) -> str:
    """Which log's settings were recorded last, and which they were; empty where nothing tells."""
    try:
        with note.open("rb") as file:
            return file.read(_MAX_NOTE).decode("ascii")
    except (OSError, ValueError):
        return ""


def note_journal_off(note: Path) -> None:
    """Where the journal is off now, it is a change when it is on again."""
    origin, _, rest = read_settings_note(note).partition(" ")
    if origin and rest != "off\n":
        _write_settings_note(note, f"{origin} off\n")


def _write_settings_note(note: Path, said: str) -> None:
    made = note.with_name(f"{note.name}.{os.urandom(8).hex()}.new")
    with suppress(OSError, ValueError):
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(said)
            os.replace(made, note)
        finally:
            made.unlink(missing_ok=True)


_POLICY = re.compile("sha256:[0-9a-f]{64}")
_MAX_NOTE = 1_024
_recorders: WeakKeyDictionary[JournalWriter, Recorder] = WeakKeyDictionary()
_recorders_lock = Lock()


def _reset_lock() -> None:
    global _recorders_lock
    _recorders_lock = Lock()


on_fork(_reset_lock)
