"""Everything that can be done to a journal, by whom, and what the audit must say: the tampering table.

`make bench` prints it, with and without a head that was held elsewhere; the tests hold every row of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from lockgate.core.errors import JournalUnavailable
from lockgate.core.vocabulary import Action, Decision, Finding, Origin, Ran, Reason, Risk
from lockgate.journal import keys, record
from lockgate.journal.exports import ExportRow
from lockgate.journal.journal import Journal
from lockgate.journal.log import Head, Transaction
from lockgate.journal.log import LogRow as KeptRow
from lockgate.journal.log_audit import AuditedShard, AuditReport, FaultKind, audit
from lockgate.journal.merkle import Frontier, leaf_hash, root_of
from lockgate.journal.signed_notes import Checkpoint, sign_note
from lockgate.journal.signing import Seal
from lockgate.journal.stores.memory import MemoryLog

ORIGIN = "example.com/lockgate/2026a"
SIZE = 40
# The auditor's older head, and the newest, which a witness holds.
OLDER, NEWEST = 30, SIZE
DAY_MS = 86_400_000
# When it all happens: long enough after 1970 for something to be older.
BASE_MS = 100 * DAY_MS


def salt(number: int) -> bytes:
    return sha256(number.to_bytes(8, "big")).digest()[: record.SALT]


def run(number: int) -> str:
    return f"{number:016x}"


def signer(name: str = ORIGIN, number: int = 1) -> keys.Ed25519Signer:
    return keys.signer_from_seed(name, bytes([number]) * 32)


def a_ruling(run_number: int, seq: int, ts_ms: int, *, deny: bool = False, **changes: Any) -> dict[str, object]:
    decision = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.HIGH)
    if deny:
        decision = Decision(
            Action.PAUSE,
            3,
            Reason.SUPERVISOR,
            Risk.HIGH,
            findings=(Finding("order:send", "b0001", 0, 5),),
            origins=(Origin("to", "x", "b0001", "tool:read_inbox", 0, 1),),
            judged=(Ran(2, "suspicious", "openai/gpt-small"), Ran(3, "PAUSE", "openai/gpt-large")),
        )
    fields: dict[str, Any] = {
        "session": f"session-{run_number}",
        "run": run(run_number),
        "seq": seq,
        "ts_ms": BASE_MS + ts_ms,
        "salt": salt(run_number * 1000 + seq),
        "mode": "default",
        "tool": "send_email" if deny else "read_file",
        "args_sha256": record.sha256_hex(f"{run_number}/{seq}"),
        "blocks": [("b0001", "untrusted", record.sha256_hex("page"))] if seq == 1 else [],
        "decision": decision,
        "policy_hash": "sha256:" + record.sha256_hex("policy"),
        "context_sha256": record.sha256_hex("context"),
    }
    return record.parse_record(record.ruling_bytes(**(fields | changes)))


def bodies(*, origin: str = ORIGIN, size: int = SIZE) -> list[bytes]:
    """An ordinary log: it opens, and two sessions take turns; every seventh ruling is a PAUSE."""
    made = [record.opening_record(run=run(0), seq=1, ts_ms=BASE_MS + 1_000, salt=salt(0), origin=origin)]
    seqs = {1: 0, 2: 0}
    for at in range(1, size):
        who = 1 + at % 2
        seqs[who] += 1
        made.append(a_ruling(who, seqs[who], 1_000 + at, deny=at % 7 == 0))
    return [record.encode_record(fields) for fields in made]


def head(leaves: Sequence[bytes], by: keys.Ed25519Signer, *, origin: str | None = None) -> bytes:
    checkpoint = Checkpoint(origin or by.key.name, len(leaves), root_of(leaves))
    return sign_note(checkpoint.text, by.key, by.sign).to_bytes()


@dataclass(frozen=True)
class Log:
    """A journal as it lies in a store, where an attacker who can write it may change it."""

    rows: tuple[ExportRow, ...]
    heads: tuple[bytes, ...]

    def audited(self, *, held: Sequence[bytes] = ()) -> AuditReport:
        return audit([AuditedShard(self.rows, self.heads)], signer().key, keys.verify, held=held)

    def with_row(self, at: int, data: bytes, *, rehash: bool = False) -> Log:
        leaf = leaf_hash(data) if rehash else self.rows[at].leaf
        return replace(self, rows=(*self.rows[:at], ExportRow(at, leaf, data), *self.rows[at + 1 :]))


def log_of(
    data: Sequence[bytes], *, by: keys.Ed25519Signer | None = None, sizes: Sequence[int] = (20, OLDER, NEWEST)
) -> Log:
    who = by or signer()
    rows = tuple(ExportRow(at, leaf_hash(each), each) for at, each in enumerate(data))
    leaves = [row.leaf for row in rows]
    return Log(rows, tuple(head(leaves[:size], who) for size in sizes if size <= len(rows)))


GENUINE = log_of(bodies())
HELD_OLDER, HELD_NEWEST = GENUINE.heads[-2], GENUINE.heads[-1]


def renumbered(rows: Sequence[ExportRow]) -> tuple[ExportRow, ...]:
    return tuple(row._replace(at=at) for at, row in enumerate(rows))


def changed(data: bytes, **fields: object) -> bytes:
    """A record with other fields in canonical form, whether or not the schema knows them."""
    value = json.loads(data) | fields
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def body(at: int) -> bytes:
    data = GENUINE.rows[at].data
    assert data is not None
    return data


DENY = 35  # a PAUSE, behind the older head
EARLY_DENY = 14  # and one before it
ALLOWED = changed(body(EARLY_DENY), action="CONTINUE")
LATE_ALLOWED = changed(body(DENY), action="CONTINUE")


def _rewritten(at: int) -> list[bytes]:
    """The same log, had record `at` been another one."""
    data = bodies()
    data[at] = changed(data[at], action="CONTINUE")
    return data


def _flipped(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


def _twice(data: bytes) -> bytes:
    return data.replace(b'{"action":"PAUSE"', b'{"action":"CONTINUE","action":"PAUSE"')


def _other_session() -> bytes:
    return record.encode_record(a_ruling(9, 1, 1_020))


def _reordered(first: int, second: int) -> tuple[ExportRow, ...]:
    rows = list(GENUINE.rows)
    rows[first], rows[second] = rows[second], rows[first]
    return renumbered(rows)


def _exchanged_bytes(first: int, second: int) -> Log:
    return GENUINE.with_row(first, body(second)).with_row(second, body(first))


FORGER = signer(number=4)


def _appended(log: Transaction, by: keys.Ed25519Signer, data: bytes, *, pruned: int = 0) -> None:
    """Put a record at the end, sealed with the key there is."""
    shard = log.current()
    assert shard is not None
    frontier = Frontier.from_bytes(shard.edge)
    frontier.append(leaf_hash(data))
    grown = shard._replace(edge=frontier.to_bytes(), pruned=pruned)
    seal = Seal(by, keys.verify).seal_shard(grown)
    assert log.append(shard, [KeptRow(leaf_hash(data), data)], grown.edge, [], seal)
    log.prune(shard.number, pruned, seal)


LATER_MS = 10 * DAY_MS


def _left_to_the_journal(tamper: Callable[[MemoryLog], None]) -> Log:
    """The log in a store that was tampered with, after a process of ours has gone on with it, as far as it does.

    Ten days later: what looks older was made to.
    """
    store = MemoryLog()
    with store.writing(durable=True) as log:
        log.open_shard(signer().key.vkey)
        for data in bodies():
            _appended(log, signer(), data)
        shard = log.current()
        assert shard is not None
        log.sign(1, Head(SIZE, GENUINE.heads[-1], 1_000), shard.edge)
    tamper(store)
    # A record, a head, and retention of thirty days.
    with (
        suppress(JournalUnavailable),
        Journal(
            store, signer(), verify=keys.verify, clock=lambda: (BASE_MS + LATER_MS) / 1000, retention_days=30
        ) as journal,
    ):
        journal.append([record.encode_record(a_ruling(8, 1, LATER_MS))], durable=True)
        journal.checkpoint()
        journal._apply_retention()
    with store.reading() as view:
        kept = dict(view.bodies(1, 0, SIZE + 9))
        rows = tuple(ExportRow(at, leaf, kept.get(at)) for at, leaf in view.leaves(1, 0, SIZE + 9))
        return Log(rows, tuple(head.note for head in view.heads(1)))


def _forged(fields: dict[str, object], *, pruned: int = 0) -> Callable[[MemoryLog], None]:
    def tamper(store: MemoryLog) -> None:
        with store.writing(durable=True) as log:
            _appended(log, FORGER, record.encode_record(fields), pruned=pruned)
            log.sweep(1, range(1, pruned))

    return tamper


def _aged(store: MemoryLog) -> None:
    """All heads, and the records but the last few, say that they are of 1970."""
    kept = store._log.kept[0]
    heads = tuple(head._replace(at_ms=1) for head in kept.heads)
    for at in range(1, 35):
        kept.bodies[at] = changed(kept.bodies[at], ts_ms=1)
    store._log.kept[0] = kept._replace(heads=heads)


_FORGED = {"run": run(4), "seq": 1, "ts_ms": BASE_MS + 2_000, "salt": salt(4)}
ROTATION = record.encode_record(
    record.rotation_record(
        run=run(0), seq=2, ts_ms=BASE_MS + 2_000, salt=salt(2), next_vkey=signer("example.com/next", 2).key.vkey
    )
)


class Kind(NamedTuple):
    """One way to tamper. `what` is among what the audit must say; `alone` and `older`: whether it is seen without a
    held head, and with the one that is ten records old. With the newest head held, all are."""

    name: str
    by: str
    what: FaultKind
    made: Callable[[], Log]
    alone: bool = True
    older: bool = True
    # What the log's own key has signed besides the genuine log.
    honest: tuple[bytes, ...] = ()


STORE, HOLDER = "who can write the store", "who holds the key"

KINDS: tuple[Kind, ...] = (
    Kind(
        "truncate: drop the last 5 records",
        STORE,
        FaultKind.MISSING,
        lambda: replace(GENUINE, rows=GENUINE.rows[:35]),
    ),
    Kind(
        "empty the log, keep its heads",
        STORE,
        FaultKind.MISSING,
        lambda: replace(GENUINE, rows=()),
    ),
    Kind("empty the log, heads and all", STORE, FaultKind.BAD_HEAD, lambda: Log((), ())),
    Kind(
        "delete one record",
        STORE,
        FaultKind.MISSING,
        lambda: replace(GENUINE, rows=GENUINE.rows[:14] + GENUINE.rows[15:]),
    ),
    Kind(
        "delete one record and renumber",
        STORE,
        FaultKind.HOLE,
        lambda: replace(GENUINE, rows=renumbered(GENUINE.rows[:14] + GENUINE.rows[15:])),
    ),
    Kind(
        "delete one record's bytes, as retention would",
        STORE,
        FaultKind.DELETED,
        lambda: replace(GENUINE, rows=(*GENUINE.rows[:14], GENUINE.rows[14]._replace(data=None), *GENUINE.rows[15:])),
    ),
    Kind(
        "reorder: exchange two records", STORE, FaultKind.REWRITTEN, lambda: replace(GENUINE, rows=_reordered(14, 21))
    ),
    Kind("exchange the bytes of two records", STORE, FaultKind.EXCHANGED, lambda: _exchanged_bytes(14, 21)),
    Kind(
        "duplicate a record",
        STORE,
        FaultKind.REPEATED,
        lambda: replace(GENUINE, rows=renumbered((*GENUINE.rows[:14], GENUINE.rows[13], *GENUINE.rows[14:]))),
    ),
    Kind(
        "duplicate a record under its own index",
        STORE,
        FaultKind.OUT_OF_ORDER,
        lambda: replace(GENUINE, rows=(*GENUINE.rows[:14], GENUINE.rows[13], *GENUINE.rows[14:])),
    ),
    Kind(
        "splice in a record of another session",
        STORE,
        FaultKind.REWRITTEN,
        lambda: GENUINE.with_row(14, _other_session(), rehash=True),
    ),
    Kind("flip a verdict", STORE, FaultKind.CHANGED, lambda: GENUINE.with_row(EARLY_DENY, ALLOWED)),
    Kind(
        "flip a verdict and mend its leaf",
        STORE,
        FaultKind.REWRITTEN,
        lambda: GENUINE.with_row(EARLY_DENY, ALLOWED, rehash=True),
    ),
    Kind(
        "flip a verdict that no earlier head covers",
        STORE,
        FaultKind.REWRITTEN,
        lambda: GENUINE.with_row(DENY, LATE_ALLOWED, rehash=True),
    ),
    Kind(
        "add a field",
        STORE,
        FaultKind.NOT_A_RECORD,
        lambda: GENUINE.with_row(14, changed(body(14), note="seen by legal"), rehash=True),
    ),
    Kind(
        "write a key twice, for readers who take the first",
        STORE,
        FaultKind.NOT_A_RECORD,
        lambda: GENUINE.with_row(14, _twice(body(14)), rehash=True),
    ),
    Kind(
        "write the same fields with other bytes",
        STORE,
        FaultKind.NOT_A_RECORD,
        lambda: GENUINE.with_row(14, body(14).replace(b",", b", ", 1), rehash=True),
    ),
    Kind("flip one bit", STORE, FaultKind.CHANGED, lambda: GENUINE.with_row(14, _flipped(body(14)))),
    Kind(
        "append an unsigned record",
        STORE,
        FaultKind.UNSIGNED,
        lambda: replace(
            GENUINE,
            rows=(*GENUINE.rows, ExportRow(SIZE, leaf_hash(_other_session()), _other_session())),
        ),
    ),
    Kind(
        "forge an approval behind the newest head, for the next process to sign",
        STORE,
        FaultKind.UNSIGNED,
        lambda: _left_to_the_journal(
            _forged(
                record.approval_record(
                    **_FORGED,  # type: ignore[arg-type]
                    session="s",
                    id="k3v9x2m7q1",
                    state="granted",
                    digest="0" * 64,
                    who="the boss",
                )
            )
        ),
    ),
    Kind(
        "forge a prune record behind the newest head, and delete what it names",
        STORE,
        FaultKind.DELETED,
        lambda: _left_to_the_journal(
            _forged(record.prune_record(**_FORGED, origin=ORIGIN, before=35, retention_days=30), pruned=35)  # type: ignore[arg-type]
        ),
    ),
    Kind(
        "make records look old, for retention to delete them",
        STORE,
        FaultKind.CHANGED,
        lambda: _left_to_the_journal(_aged),
    ),
    Kind(
        "take the newest shard away, all of it",
        STORE,
        FaultKind.SHARD,
        lambda: log_of([*bodies(), ROTATION], sizes=(20, OLDER, NEWEST, NEWEST + 1)),
        honest=(ROTATION,),
    ),
    Kind(
        "replace the log by one signed with a new key",
        STORE,
        FaultKind.BAD_HEAD,
        lambda: log_of(_rewritten(EARLY_DENY), by=signer(number=2)),
    ),
    Kind(
        "replace the log by another log of the same key holder",
        STORE,
        FaultKind.BAD_HEAD,
        lambda: log_of(bodies(origin="example.com/lockgate/test"), by=signer("example.com/lockgate/test")),
    ),
    Kind(
        "change the size in the signed head",
        STORE,
        FaultKind.BAD_HEAD,
        lambda: Log(GENUINE.rows[:35], (GENUINE.heads[-1].replace(b"\n40\n", b"\n35\n"),)),
    ),
    Kind(
        "roll back to an older signed head",
        STORE,
        FaultKind.ROLLED_BACK,
        lambda: Log(GENUINE.rows[:OLDER], GENUINE.heads[:-1]),
        alone=False,
        older=False,
    ),
    Kind(
        "roll back far, before the older held head",
        STORE,
        FaultKind.ROLLED_BACK,
        lambda: Log(GENUINE.rows[:20], GENUINE.heads[:1]),
        alone=False,
    ),
    Kind(
        "the key holder rewrites all of it",
        HOLDER,
        FaultKind.REWRITTEN,
        lambda: log_of([bodies()[0], *(record.encode_record(a_ruling(5, seq, 1_000 + seq)) for seq in range(1, SIZE))]),
        alone=False,
    ),
    Kind(
        "the key holder rewrites a record before the older held head",
        HOLDER,
        FaultKind.REWRITTEN,
        lambda: log_of(_rewritten(EARLY_DENY)),
        alone=False,
    ),
    Kind(
        "the key holder rewrites the end of it",
        HOLDER,
        FaultKind.REWRITTEN,
        lambda: log_of(_rewritten(DENY)),
        alone=False,
        older=False,
    ),
    Kind(
        "the key holder drops the end and signs anew",
        HOLDER,
        FaultKind.ROLLED_BACK,
        lambda: log_of(bodies()[:35], sizes=(20, OLDER, 35)),
        alone=False,
        older=False,
    ),
    Kind(
        "the key holder drops the end and signs other records",
        HOLDER,
        FaultKind.REWRITTEN,
        lambda: log_of([*bodies()[:35], *(record.encode_record(a_ruling(7, seq, 1_050)) for seq in range(1, 6))]),
        alone=False,
        older=False,
    ),
)


class Result(NamedTuple):
    kind: Kind
    alone: AuditReport
    older: AuditReport
    newest: AuditReport


def results() -> list[Result]:
    """Every kind, audited without a held head, with one of ten records ago, and with the newest."""
    return [
        Result(
            kind,
            kind.made().audited(),
            kind.made().audited(held=[HELD_OLDER]),
            kind.made().audited(held=[HELD_NEWEST]),
        )
        for kind in KINDS
    ]
