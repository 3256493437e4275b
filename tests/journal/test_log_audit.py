"""What was done to a log is found, and told as what it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tamperings import (
    BASE_MS,
    GENUINE,
    HELD_NEWEST,
    HELD_OLDER,
    KINDS,
    NEWEST,
    OLDER,
    ORIGIN,
    SIZE,
    Kind,
    Log,
    a_ruling,
    bodies,
    body,
    head,
    log_of,
    renumbered,
    run,
    salt,
    signer,
)

from lockgate.core.vocabulary import Receipt
from lockgate.journal import keys, record
from lockgate.journal.exports import ExportRow, export_lines, read_export
from lockgate.journal.log_audit import MAX_FAULTS, AuditedShard, AuditReport, FaultKind, audit
from lockgate.journal.merkle import Frontier, leaf_hash
from lockgate.journal.signed_notes import COSIGNATURE, PublicKey, cosign_note, parse_note

NEXT = "example.com/lockgate/2026b"


def whats(report: AuditReport) -> set[FaultKind]:
    return {fault.what for fault in report.faults}


def messages(report: AuditReport) -> str:
    return "\n".join(fault.message for fault in report.faults)


def alone(data: list[bytes], **options: object) -> AuditReport:
    """The audit of a log that opens and then holds these records, honestly signed."""
    log = log_of([body(0), *data], sizes=(len(data) + 1,))
    return audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, **options)  # type: ignore[arg-type]


# The tampering table


def test_there_are_at_least_eighteen_kinds() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 18


def test_an_untouched_log_is_sound() -> None:
    for held in ([], [HELD_OLDER], [HELD_NEWEST], [HELD_NEWEST, HELD_OLDER]):
        report = GENUINE.audited(held=held)
        assert (report.sound, report.faults, report.remarks) == (True, [], [])
        assert (report.records, report.kinds) == (SIZE, {"opening": 1, "ruling": SIZE - 1})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_every_kind_is_detected_with_the_newest_head_held(kind: Kind) -> None:
    log = kind.made()
    assert log != GENUINE
    report = log.audited(held=[HELD_NEWEST])
    assert not report.sound
    assert kind.what in whats(report), messages(report)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_what_is_missed_without_a_held_head_is_known(kind: Kind) -> None:
    log = kind.made()
    assert (not log.audited().sound, not log.audited(held=[HELD_OLDER]).sound) == (kind.alone, kind.older)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.alone], ids=lambda kind: kind.name)
def test_a_receipt_catches_what_a_head_would(kind: Kind) -> None:
    """Every ruling comes with its record's leaf. A host that keeps them can tell when one of its own was rewritten."""
    log = kind.made()
    receipts = [Receipt("", row.at, row.leaf) for row in GENUINE.rows]
    report = audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, receipts=receipts)
    assert whats(report) <= {FaultKind.REWRITTEN, FaultKind.ROLLED_BACK}
    assert not report.sound


@settings(max_examples=75, deadline=None)
@given(st.data())
def test_no_change_to_a_stored_byte_goes_unseen(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, SIZE - 1))
    old = body(at)
    place = data.draw(st.integers(0, len(old)))
    length = data.draw(st.integers(0, min(4, len(old) - place)))
    new = old[:place] + data.draw(st.binary(max_size=4)) + old[place + length :]
    log = GENUINE.with_row(at, new, rehash=data.draw(st.booleans()))
    assert log.audited().sound is (new == old)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, SIZE - 1), max_size=SIZE + 3))
def test_no_other_choice_of_records_goes_unseen(chosen: list[int]) -> None:
    rows = renumbered([GENUINE.rows[at] for at in chosen])
    assert replace(GENUINE, rows=rows).audited().sound is (chosen == list(range(SIZE)))


# How it is told


def said_of(name: str) -> str:
    return messages(next(kind for kind in KINDS if kind.name == name).made().audited(held=[HELD_NEWEST]))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "truncate: drop the last 5 records",
            "records 35–39 missing: the checkpoint says 40, the log has 35",
        ),
        ("delete one record", "record 14 missing: record 15 follows on 13"),
        ("delete one record and renumber", "1 of the records missing: the checkpoint says 40, the log has 39"),
        ("delete one record and renumber", "number 7 of run 0000000000000001 missing: taken out before record 15"),
        ("exchange the bytes of two records", "record 14 holds the bytes of record 21: they were exchanged"),
        ("flip a verdict", "record 14 was changed: its bytes do not hash to its leaf"),
        ("flip a verdict that no earlier head covers", "something in records 30–39 was changed, put in or taken out"),
        (
            "write a key twice, for readers who take the first",
            "record 14 cannot be read: the key `action` stands twice",
        ),
        ("add a field", "has a field too many, `note`"),
        ("append an unsigned record", "record 40 not covered by the signed head of 40: put in behind it"),
        ("replace the log by one signed with a new key", "not signed by the key"),
        (
            "roll back to an older signed head",
            "the log was rolled back, records 30–39 missing: a held head says 40, the log has 30",
        ),
        ("the key holder rewrites the end of it", "something in records 0–39 was rewritten"),
    ],
)
def test_it_is_told_what_was_done(name: str, told: str) -> None:
    assert told in said_of(name)


def test_two_held_heads_say_where_to_look() -> None:
    log = next(kind for kind in KINDS if kind.name == "the key holder rewrites the end of it").made()
    assert "something in records 30–39 was rewritten" in messages(log.audited(held=[HELD_NEWEST, HELD_OLDER]))


def test_a_record_that_cannot_be_read_is_not_also_called_missing() -> None:
    assert whats(GENUINE.with_row(14, b"{}").audited()) == {FaultKind.CHANGED, FaultKind.NOT_A_RECORD}


def test_a_log_of_rubbish_gives_a_short_report() -> None:
    rows = tuple(ExportRow(at, leaf_hash(b""), b"\x00") for at in range(500))
    report = Log(rows, GENUINE.heads).audited(held=[b"", b"\xff", HELD_NEWEST])
    assert len(report.faults) == MAX_FAULTS
    assert report.cut > 400


def test_nothing_at_all_is_not_sound() -> None:
    assert whats(audit([], signer().key, keys.verify)) == {FaultKind.BAD_HEAD}
    assert not AuditReport().sound


def test_a_leaf_of_the_wrong_length_is_a_change() -> None:
    rows = (*GENUINE.rows[:3], GENUINE.rows[3]._replace(leaf=b"short"), *GENUINE.rows[4:])
    assert FaultKind.CHANGED in whats(replace(GENUINE, rows=rows).audited())


@pytest.mark.parametrize("held", [b"", b"rubbish", HELD_NEWEST.replace(b"\n40\n", b"\n41\n")])
def test_a_held_head_that_is_none_is_a_fault_and_not_ignored(held: bytes) -> None:
    assert whats(GENUINE.audited(held=[held])) == {FaultKind.BAD_HELD_HEAD}


def test_a_held_head_of_another_log_is_a_fault() -> None:
    other = signer(NEXT, 2)
    report = GENUINE.audited(held=[head([], other)])
    assert whats(report) == {FaultKind.BAD_HELD_HEAD}
    assert NEXT in messages(report)


def test_two_signed_heads_of_one_size_cannot_both_be_right() -> None:
    forked = head([leaf_hash(b"x")] * SIZE, signer())
    report = replace(GENUINE, heads=(*GENUINE.heads, forked)).audited()
    assert whats(report) == {FaultKind.REWRITTEN}


def test_heads_out_of_order_are_told() -> None:
    report = replace(GENUINE, heads=GENUINE.heads[::-1]).audited()
    assert whats(report) == {FaultKind.BAD_HEAD}
    assert "the stored head of 30 stands behind that of 40" in messages(report)


def test_rows_and_heads_are_read_once_and_side_by_side() -> None:
    """A log need not fit into memory: a head is asked for when the rows have come to the one before it."""
    asked: list[str] = []

    def noted(name: str, values: Iterable[Any]) -> Iterator[Any]:
        for at, value in enumerate(values):
            asked.append(f"{name} {at}")
            yield value

    shard = AuditedShard(noted("row", GENUINE.rows), noted("head", GENUINE.heads))
    assert audit([shard], signer().key, keys.verify).sound
    order = [each for each in asked if each.startswith("head") or each in ("row 0", "row 19", "row 29", "row 39")]
    assert order == ["head 0", "row 0", "row 19", "head 1", "row 29", "head 2", "row 39"]


def test_the_tree_that_a_log_says_it_is_must_be_the_one_it_has() -> None:
    frontier = Frontier()
    for row in GENUINE.rows:
        frontier.append(row.leaf)
    right = frontier.to_bytes()
    for edge in (right[:-1] + bytes([right[-1] ^ 1]), b"\0" * 8, b"x"):
        report = audit([AuditedShard(GENUINE.rows, GENUINE.heads, edge)], signer().key, keys.verify)
        assert whats(report) == {FaultKind.CHANGED}
    assert audit([AuditedShard(GENUINE.rows, GENUINE.heads, right)], signer().key, keys.verify).sound
    # Where records are missing, that is the fault, and not that they do not add up.
    report = audit([AuditedShard(GENUINE.rows[:35], GENUINE.heads, right)], signer().key, keys.verify)
    assert whats(report) == {FaultKind.MISSING}


# Witnesses

WITNESS = keys.signer_from_seed("witness.example", b"w" * 32, kind=COSIGNATURE)


def seen(note: bytes, time_s: int = 1_800_000_000, by: keys.Ed25519Signer = WITNESS) -> bytes:
    return cosign_note(parse_note(note), WITNESS.key, by.sign, time_s=time_s).to_bytes()


def witnessed(*held: bytes, log: Log = GENUINE) -> AuditReport:
    return audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, held=held, witnesses=[WITNESS.key])


def test_a_witness_that_was_asked_for_must_have_cosigned() -> None:
    report = witnessed(seen(HELD_OLDER, 5), seen(HELD_NEWEST, 9))
    assert report.sound
    assert report.cosigned == [("witness.example", ORIGIN, 40, 9)]
    assert whats(witnessed()) == whats(witnessed(HELD_NEWEST)) == {FaultKind.BAD_HELD_HEAD}
    assert "no held head was cosigned by the witness `witness.example`" in messages(witnessed(HELD_NEWEST))


def test_a_line_that_the_witness_did_not_write_spoils_the_head() -> None:
    forged = seen(HELD_NEWEST, by=keys.signer_from_seed("witness.example", b"x" * 32, kind=COSIGNATURE))
    report = witnessed(forged)
    assert whats(report) == {FaultKind.BAD_HELD_HEAD}
    assert report.cosigned == []


def test_a_cosigned_head_of_another_history_is_found() -> None:
    for kind in KINDS:
        if not kind.alone:
            assert not witnessed(seen(HELD_NEWEST), log=kind.made()).sound, kind.name
    # A cosignature does not turn another log's head into ours.
    other = signer(NEXT, 2)
    assert not witnessed(seen(head([], other))).sound


# Receipts of several shards


def test_a_receipt_is_held_against_the_shard_it_is_of() -> None:
    both = shards()
    first, second = (list(shard.rows) for shard in both)
    right = [Receipt(ORIGIN, 5, first[5].leaf), Receipt(NEXT, 1, second[1].leaf), Receipt("", 2, second[2].leaf)]
    assert audited(both, receipts=right).sound
    for wrong in (Receipt(NEXT, 1, first[1].leaf), Receipt(ORIGIN, 60, first[1].leaf), Receipt("x", 1, first[1].leaf)):
        assert not audited(shards(), receipts=[*right, wrong]).sound
    # Two receipts for one record cannot both be right.
    assert not audited(shards(), receipts=[*right, Receipt("", 2, first[1].leaf)]).sound


# A log in use


def test_a_log_in_use_may_wait_for_its_next_head() -> None:
    log = log_of(bodies(), sizes=(38,))
    report = audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, live=True)
    assert report.sound
    assert [each.partition(" (")[0] for each in report.remarks] == ["records 38–39 not yet under a signed head"]
    assert "(2 in all)" in report.remarks[0]
    assert "`lockgate audit head --sign`" in report.remarks[0]
    # An export ends with its head.
    assert whats(audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify)) == {FaultKind.UNSIGNED}


def test_what_no_head_covers_yet_has_to_add_up_all_the_same() -> None:
    log = log_of(bodies(), sizes=(38,))
    edge = edge_of(log.rows)
    for rows, sound in (
        (log.rows, True),
        (log.rows[:-1], False),
        (renumbered((*log.rows[:38], log.rows[39])), False),
        ((*log.rows[:39], log.rows[39]._replace(data=body(3))), False),
        ((*log.rows[:39], log.rows[39]._replace(data=None)), False),
    ):
        report = audit([AuditedShard(rows, log.heads, edge)], signer().key, keys.verify, live=True)
        assert report.sound is sound, report.faults
    # All rows of the end are gone, and only the tree that is kept says so.
    report = audit([AuditedShard(log.rows[:38], log.heads, edge)], signer().key, keys.verify, live=True)
    assert whats(report) == {FaultKind.CHANGED}


def test_an_unsigned_prune_record_excuses_nothing() -> None:
    log = next(kind for kind in KINDS if kind.name.startswith("forge a prune record")).made()
    report = audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, held=[HELD_NEWEST], live=True)
    assert whats(report) == {FaultKind.DELETED}
    assert "records 1–34 of" in messages(report)


def test_what_the_store_says_besides_has_to_fit() -> None:
    edge, signed_edge = edge_of(GENUINE.rows), edge_of(GENUINE.rows)
    right = {"edge": edge, "vkey": signer().key.vkey, "signed_edge": signed_edge, "sizes": (20, OLDER, NEWEST)}
    assert audit([AuditedShard(GENUINE.rows, GENUINE.heads, **right)], signer().key, keys.verify).sound  # type: ignore[arg-type]
    wrong: list[tuple[dict[str, object], FaultKind]] = [
        ({"sizes": (20, OLDER, 9_999)}, FaultKind.BAD_HEAD),
        ({"sizes": (20, NEWEST, NEWEST)}, FaultKind.BAD_HEAD),
        ({"vkey": signer(number=2).key.vkey}, FaultKind.CHANGED),
        ({"signed_edge": edge_of(GENUINE.rows[:OLDER])}, FaultKind.CHANGED),
        ({"pruned": 1}, FaultKind.CHANGED),
        ({"pruned": -1}, FaultKind.CHANGED),
    ]
    for changes, what in wrong:
        shard = AuditedShard(GENUINE.rows, GENUINE.heads, **(right | changes))  # type: ignore[arg-type]
        assert whats(audit([shard], signer().key, keys.verify)) == {what}, changes
    report = audit(
        [AuditedShard(GENUINE.rows, GENUINE.heads)], signer().key, keys.verify, odd=["the log has a trigger"]
    )
    assert (whats(report), messages(report)) == ({FaultKind.CHANGED}, "the log has a trigger")


def edge_of(rows: Iterable[ExportRow]) -> bytes:
    frontier = Frontier()
    for row in rows:
        frontier.append(row.leaf)
    return frontier.to_bytes()


def test_in_a_log_in_use_a_number_may_be_a_moment_late() -> None:
    log = log_of([*bodies(size=4), record.encode_record(a_ruling(1, 3, 2_000))], sizes=(4,))
    assert audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, live=True).sound
    log = log_of([row.data or b"" for row in log.rows], sizes=(5,))
    for live in (True, False):
        assert whats(audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, live=live)) == {
            FaultKind.HOLE
        }


# Sequence


def ruled(*numbers: int) -> list[bytes]:
    return [record.encode_record(a_ruling(1, number, 1_000)) for number in numbers]


def test_threads_may_overtake_each_other() -> None:
    assert alone(ruled(2, 1, 5, 3, 4)).sound


@pytest.mark.parametrize("numbers", [(2, 3), (1, 3), (1, 2, 5, 4), (7,)])
def test_a_number_that_never_came_is_a_hole(numbers: tuple[int, ...]) -> None:
    assert whats(alone(ruled(*numbers))) == {FaultKind.HOLE}


@pytest.mark.parametrize("numbers", [(1, 1), (1, 2, 3, 2), (3, 1, 3, 2)])
def test_a_number_that_came_twice_is_told(numbers: tuple[int, ...]) -> None:
    assert whats(alone(ruled(*numbers))) == {FaultKind.REPEATED}


def gap(first: int, last: int, seq: int) -> bytes:
    fields = record.gap_record(
        run=run(1), seq=seq, ts_ms=BASE_MS + 1_000, salt=salt(seq), first=first, last=last, reason="journal-unavailable"
    )
    return record.encode_record(fields)


def test_what_a_gap_record_owns_up_to_is_no_hole() -> None:
    assert alone([*ruled(1, 2), gap(3, 5, 6), *ruled(7)]).sound
    assert alone([*ruled(1, 2, 7), gap(3, 5, 6)]).sound
    # What failed and was stored all the same may stand before or behind it.
    assert alone([*ruled(1, 2, 4), gap(3, 5, 6), *ruled(7)]).sound
    assert alone([*ruled(1, 2), gap(3, 5, 6), *ruled(4, 7)]).sound
    for twice in ([*ruled(1, 2), gap(3, 5, 6), *ruled(4, 4)], [*ruled(1, 2, 4), gap(3, 5, 6), *ruled(4)]):
        assert whats(alone(twice)) == {FaultKind.REPEATED}
    assert whats(alone([*ruled(1, 2), gap(1, 5, 6), *ruled(2)])) == {FaultKind.REPEATED}


def test_a_gap_record_excuses_nothing_but_what_it_names() -> None:
    assert whats(alone([*ruled(1), gap(3, 5, 6)])) == {FaultKind.HOLE}
    # Nor what comes after it.
    assert whats(alone([*ruled(1), gap(2, 9, 3), *ruled(6)])) == {FaultKind.HOLE}


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(1, 12), min_size=1), st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=3))
def test_holes_are_numbers_without_a_record_or_a_gap(seen: set[int], gaps: list[tuple[int, int]]) -> None:
    excused = {number for first, last in gaps for number in range(first, last + 1)}
    owned = [gap(first, last, 20 + at) for at, (first, last) in enumerate(gaps)]
    # The gap records come last and count on from the end, with 13 to 19 owned up to as well.
    data = [*ruled(*seen), *owned, gap(max(seen) + 1, 19, 20 + len(gaps))]
    missing = set(range(1, max(seen))) - seen - excused
    report = alone(data)
    assert (not report.sound) is bool(missing)
    told = {int(number) for fault in report.faults for number in re.findall(r"numbers? (\d+)", fault.message)}
    assert told == {number for number in missing if number - 1 not in missing}


def test_a_fault_says_which_records_it_is_about() -> None:
    spans = {
        kind.name: {(fault.what, fault.first, fault.last) for fault in kind.made().audited(held=[HELD_NEWEST]).faults}
        for kind in KINDS
    }
    assert (FaultKind.MISSING, 35, 39) in spans["truncate: drop the last 5 records"]
    assert (FaultKind.ROLLED_BACK, 35, 39) in spans["truncate: drop the last 5 records"]
    assert (FaultKind.MISSING, 14, 14) in spans["delete one record"]
    assert (FaultKind.UNSIGNED, 40, 40) in spans["append an unsigned record"]
    assert (FaultKind.REWRITTEN, 30, 39) in spans["flip a verdict that no earlier head covers"]
    assert (FaultKind.DELETED, 14, 14) in spans["delete one record's bytes, as retention would"]


def test_one_lost_end_is_told_once_however_many_receipts_are_kept() -> None:
    receipts = [Receipt("", row.at, row.leaf) for row in GENUINE.rows]
    log = Log(GENUINE.rows[:30], GENUINE.heads[:-1])
    report = audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, receipts=receipts)
    assert [(fault.what, fault.first) for fault in report.faults] == [(FaultKind.ROLLED_BACK, 30)]


def test_a_clock_that_goes_back_is_worth_a_remark() -> None:
    report = alone([record.encode_record(a_ruling(1, seq, ts)) for seq, ts in ((1, 9_000), (2, 8_000), (3, 1_500))])
    assert report.sound
    assert report.remarks == ["the clock went back by 7.5 s at most, first at record 3 (1 in all)"]


def test_the_first_ruling_may_be_older_than_the_opening_that_was_written_for_it() -> None:
    opened = record.opening_record(run=run(0), seq=1, ts_ms=BASE_MS + 9_000, salt=salt(1), origin=ORIGIN)
    log = log_of([record.encode_record(opened), record.encode_record(a_ruling(1, 1, 1_500))], sizes=(2,))
    report = audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify)
    assert report.sound
    assert report.remarks == []


# Retention


def pruned(log: list[bytes], before: int, *, said: int, origin: str = ORIGIN) -> AuditReport:
    fields = record.prune_record(
        run=run(8), seq=1, ts_ms=BASE_MS + 9_000, salt=salt(8), origin=origin, before=said, retention_days=30, who="ana"
    )
    made = log_of([*log, record.encode_record(fields)], sizes=(20, len(log) + 1))
    rows = [row._replace(data=None) if row.at < before else row for row in made.rows]
    return audit([AuditedShard(rows, made.heads)], signer().key, keys.verify, held=[HELD_NEWEST])


def test_deleted_records_are_covered_by_a_prune_record_and_old_heads_still_hold() -> None:
    assert pruned(bodies(), 25, said=25).sound


def test_records_deleted_beyond_that_are_told() -> None:
    report = pruned(bodies(), 25, said=23)
    assert whats(report) == {FaultKind.DELETED}
    said = "records 23–24 of `example.com/lockgate/2026a` deleted, and no signed prune record says so"
    assert said in messages(report)


def test_a_prune_record_for_another_shard_covers_nothing() -> None:
    assert whats(pruned(bodies(), 25, said=25, origin=NEXT)) == {FaultKind.DELETED}


# Shards


def shards(*, tail: bytes | None = None, **changed: str) -> list[AuditedShard]:
    """Two shards, the second going on from the first's last head."""
    other = signer(NEXT, 2)
    last = record.rotation_record(
        run=run(0), seq=2, ts_ms=BASE_MS + 2_000, salt=salt(2), next_vkey=other.key.vkey, who="ana"
    )
    first = log_of([*bodies(), record.encode_record(last)], sizes=(NEWEST, NEWEST + 1))
    opened = {"origin": NEXT, "previous_vkey": signer().key.vkey, "previous": first.heads[-1].decode()} | changed
    opening = record.encode_record(
        record.opening_record(run=run(0), seq=3, ts_ms=BASE_MS + 2_001, salt=salt(3), **opened)
    )
    # Session 1 goes on where it was.
    on = [record.encode_record(a_ruling(1, seq, 2_002)) for seq in (20, 21)]
    second = log_of([opening, *on, *([tail] if tail else [])], by=other, sizes=(3 + bool(tail),))
    return [AuditedShard(first.rows, first.heads), AuditedShard(second.rows, second.heads)]


def audited(given: list[AuditedShard], key: PublicKey | None = None, **options: object) -> AuditReport:
    return audit(given, key or signer().key, keys.verify, **options)  # type: ignore[arg-type]


def test_the_first_key_is_enough_for_all_shards() -> None:
    report = audited(shards(), held=[HELD_NEWEST])
    assert (report.sound, report.remarks) == (True, [])
    assert [(each.origin, each.size) for each in report.heads] == [(ORIGIN, 41), (NEXT, 3)]


def test_a_later_shard_can_be_verified_by_itself() -> None:
    report = audited(shards()[1:], signer(NEXT, 2).key)
    assert report.sound
    assert report.remarks == [f"the shards before `{NEXT}` were not given"]


def test_a_shard_of_another_key_does_not_follow() -> None:
    wrong = log_of(bodies(origin=NEXT), by=signer(NEXT, 3))
    report = audited([shards()[0], AuditedShard(wrong.rows, wrong.heads)])
    assert whats(report) >= {FaultKind.BAD_HEAD, FaultKind.SHARD}


def test_a_shard_that_was_not_closed_has_no_next() -> None:
    report = audited([AuditedShard(GENUINE.rows, GENUINE.heads), shards()[1]])
    assert whats(report) == {FaultKind.SHARD}
    assert "names no key for the next" in messages(report)


@pytest.mark.parametrize(
    "changed",
    [
        {"previous": HELD_NEWEST.decode()},
        {"previous": ""},
        {"previous": head([], signer(number=2)).decode()},
        {"origin": ORIGIN},
    ],
    ids=["an older head", "no head", "a head by another key", "another name"],
)
def test_a_shard_opens_with_the_last_head_of_the_one_before(changed: dict[str, str]) -> None:
    assert whats(audited(shards(**changed))) == {FaultKind.SHARD}


def test_a_shard_that_does_not_open_is_told() -> None:
    first, second = shards()
    rows = renumbered(list(second.rows)[1:])
    leaves = [row.leaf for row in rows]
    report = audited([first, AuditedShard(rows, [head(leaves, signer(NEXT, 2))])])
    assert whats(report) == {FaultKind.SHARD}


def test_nothing_stands_behind_a_rotation() -> None:
    last = record.rotation_record(
        run=run(3), seq=1, ts_ms=BASE_MS + 2_000, salt=salt(2), next_vkey=signer(NEXT, 2).key.vkey
    )
    assert whats(alone([record.encode_record(last), *ruled(1)])) == {FaultKind.SHARD}


def test_a_rotation_to_no_key_is_told() -> None:
    last = record.rotation_record(run=run(3), seq=1, ts_ms=BASE_MS + 2_000, salt=salt(2), next_vkey="no key")
    assert whats(alone([record.encode_record(last)])) == {FaultKind.SHARD}


def test_a_log_that_ends_in_a_rotation_has_lost_its_next_shard() -> None:
    first, _ = shards()
    for live in (True, False):
        report = audited([AuditedShard(first.rows, first.heads)], held=[HELD_NEWEST, list(first.heads)[-1]], live=live)
        assert whats(report) == {FaultKind.SHARD}
        assert f"the log goes on as `{NEXT}`, and that shard is missing" in messages(report)


def test_a_second_opening_is_told() -> None:
    fields = record.opening_record(run=run(3), seq=1, ts_ms=BASE_MS + 2_000, salt=salt(2), origin=ORIGIN)
    assert whats(alone([*ruled(1), record.encode_record(fields)])) == {FaultKind.SHARD}


def test_a_later_shard_can_own_up_to_what_was_deleted_in_an_earlier_one() -> None:
    prune = record.prune_record(
        run=run(8), seq=1, ts_ms=BASE_MS + 9_000, salt=salt(8), origin=ORIGIN, before=30, retention_days=30
    )
    for tail, sound in ((record.encode_record(prune), True), (None, False)):
        first, second = shards(tail=tail)
        rows = [row._replace(data=None) if 0 < row.at < 30 else row for row in first.rows]
        assert audited([AuditedShard(rows, first.heads), second]).sound is sound


# Exports


def test_an_export_is_audited_like_the_log_it_is_of() -> None:
    for kind in KINDS:
        log = kind.made()
        if not log.heads or [row.at for row in log.rows] != list(range(len(log.rows))):
            continue
        checkpoint, rows = read_export(b"".join(export_lines(log.heads[-1], log.rows)).splitlines(keepends=True))
        report = audit([AuditedShard(rows, [checkpoint])], signer().key, keys.verify, held=[HELD_NEWEST])
        assert not report.sound, kind.name


def test_a_receipt_speaks_for_its_own_record_only() -> None:
    log = next(kind for kind in KINDS if kind.name.startswith("the key holder rewrites a record before")).made()
    given = [Receipt("", 14, GENUINE.rows[14].leaf)]
    assert audit(
        [AuditedShard(log.rows, log.heads)],
        signer().key,
        keys.verify,
        receipts=[Receipt("", 13, GENUINE.rows[13].leaf)],
    ).sound
    report = audit([AuditedShard(log.rows, log.heads)], signer().key, keys.verify, receipts=given)
    assert messages(report) == "record 14 is not the one that its receipt is for: it was rewritten"


def tail_of(log: Log, first: int) -> AuditedShard:
    """The log from this index on, with the tree of what came before."""
    start = Frontier()
    for row in log.rows[:first]:
        start.append(row.leaf)
    return AuditedShard(log.rows[first:], log.heads, start=start)


def test_a_log_is_verified_from_a_tree_on() -> None:
    log = log_of(bodies(), sizes=(NEWEST,))
    for first in (1, 7, OLDER, NEWEST - 1, NEWEST):
        report = audit([tail_of(log, first)], signer().key, keys.verify, held=[HELD_NEWEST])
        assert report.sound, report.faults
        assert (report.records, report.skipped) == (SIZE - first, first)


def test_from_a_tree_on_every_change_is_found() -> None:
    log = log_of(bodies(), sizes=(NEWEST,))
    tail = tail_of(log, OLDER)
    rows = list(tail.rows)
    wrong = Frontier()
    for _ in range(OLDER):
        wrong.append(b"\7" * 32)
    for changed in (
        tail._replace(start=wrong),
        tail._replace(rows=rows[1:]),
        tail._replace(rows=rows[:-1]),
        tail._replace(rows=[*rows[:3], rows[4], rows[3], *rows[5:]]),
        tail._replace(rows=[rows[0]._replace(data=None), *rows[1:]]),
        tail._replace(rows=[rows[0]._replace(data=rows[1].data), *rows[1:]]),
        tail._replace(rows=[rows[0]._replace(at=OLDER - 1), *rows]),
        tail._replace(pruned=OLDER + 1),
    ):
        assert not audit([changed], signer().key, keys.verify).sound
    assert audit([tail._replace(pruned=OLDER)], signer().key, keys.verify).sound


def test_a_held_head_from_before_the_tree_is_not_passed_over() -> None:
    log = log_of(bodies(), sizes=(NEWEST,))
    report = audit([tail_of(log, OLDER + 1)], signer().key, keys.verify, held=[HELD_OLDER])
    assert whats(report) == {FaultKind.BAD_HELD_HEAD}
    assert "is older than where verification began" in messages(report)
