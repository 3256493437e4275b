"""The journal over a store in memory: what it acknowledges, what it signs, and what it refuses to go on from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import combinations_with_replacement
from pathlib import Path
from threading import Barrier, Event, Lock, Thread
from typing import Any

import pytest
from log_checks import NAME, acknowledged, find_signer, record, signer, whole

from lockgate.core.errors import JournalDamaged, JournalUnavailable, LockgateError
from lockgate.journal import journal, keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import LogRow, Snapshot, Store, Transaction
from lockgate.journal.merkle import Frontier, leaf_hash, verify_consistency
from lockgate.journal.record import approval_record, encode_record, parse_record, prune_record, rotation_record
from lockgate.journal.retention import is_clock_plausible, sweep_bodies
from lockgate.journal.signed_notes import (
    Checkpoint,
    PublicKey,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    sign_note,
    verify_proof,
)
from lockgate.journal.signing import Seal
from lockgate.journal.stores.memory import MemoryLog
from lockgate.journal.stores.sqlite import SqliteLog

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
NEXT = "example.com/log/2"
DAY_S = 86_400


class Watched(MemoryLog):
    """Counts commits, and can be told to fail: before it stores anything, or after it has."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[bool] = []
        self.fails = self.fails_after = False
        self.slow_s = 0.0
        self.viewed: Callable[[], None] = lambda: None

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:  # type: ignore[override]
        with super().reading() as log:
            self.viewed()
            yield log

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Transaction]:  # type: ignore[override]
        if self.fails:
            raise JournalUnavailable("on purpose")
        with super().writing(durable=durable) as log:
            yield log
            time.sleep(self.slow_s)
        self.commits.append(durable)
        if self.fails_after:
            raise JournalUnavailable("on purpose, but stored")


class Shaky:
    """A signer that does what it is told to: sign, fail, or sign something else."""

    def __init__(self, name: str = NAME) -> None:
        self.real = signer(name)
        self.does: Callable[[bytes], bytes] = self.real.sign
        self.asked = 0

    @property
    def key(self) -> PublicKey:
        return self.real.key

    def sign(self, message: bytes) -> bytes:
        self.asked += 1
        return self.does(message)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def log(store: Watched) -> Iterator[Journal]:
    with Journal(store, signer(), verify=keys.verify) as log:
        yield log


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heads but those that are asked for."""
    monkeypatch.setattr(journal, "CHECKPOINT_S", 3_600.0)
    monkeypatch.setattr(journal, "CHECKPOINT_RECORDS", 1 << 60)


def newest(store: MemoryLog) -> Checkpoint:
    with store.reading() as view:
        shard = view.current()
        assert shard is not None
        head = view.newest(shard.number)
        assert head is not None
        return open_checkpoint(head.note, find_signer(shard.vkey).key, keys.verify)


def ended(log: Journal) -> None:
    """As if its process had been killed."""
    log._closed = True
    log._changed.set()
    log._hurry.set()
    if log._thread is not None:
        log._thread.join(10)
    log.store.close()


def origin_of(note: bytes) -> str:
    return parse_checkpoint(parse_note(note).text).origin


def until(true: Callable[[], bool], timeout_s: float = 10.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


# Appending


def test_a_receipt_says_where_the_record_is(log: Journal, store: Watched) -> None:
    bodies = [record(), record(), record()]
    receipts = log.append(bodies[:2], durable=True) + log.append(bodies[2:], durable=False)
    # Record 0 says which log this is.
    assert [(each.origin, each.index, each.leaf_hash) for each in receipts] == [
        (NAME, at, leaf_hash(body)) for at, body in enumerate(bodies, 1)
    ]
    with store.reading() as view:
        assert [body for _, body in view.bodies(1, 1, 9)] == bodies
        assert parse_record(dict(view.bodies(1, 0, 1))[0])["origin"] == NAME


@pytest.mark.parametrize("records", [[], [b""], [b"x" * 65_537], [b"x"] * 1_025], ids=["none", "empty", "long", "many"])
def test_what_is_no_append_is_refused(log: Journal, store: Watched, records: list[bytes]) -> None:
    with pytest.raises(LockgateError, match="an append takes"):
        log.append(records, durable=True)
    assert store.commits == []


@pytest.mark.usefixtures("_quiet")
def test_threads_that_wait_share_one_commit(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    store.commits.clear()
    store.slow_s = 0.05
    start = Barrier(16)

    def appends(number: int) -> dict[tuple[str, int], bytes]:
        start.wait()
        return acknowledged(*log.append([record(), record()], durable=number == 7))

    with ThreadPoolExecutor(16) as pool:
        found = {key: leaf for each in pool.map(appends, range(16)) for key, leaf in each.items()}
    assert len(found) == 32
    assert len(store.commits) <= 4
    # One of them had to survive a power cut: then all that went with it do.
    assert any(store.commits)
    log.checkpoint()
    assert whole(store, found) == 34


def test_the_cheaper_way_is_taken_only_when_no_caller_needs_the_other(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    store.commits.clear()
    log.append([record()], durable=False)
    log.append([record()], durable=True)
    assert store.commits[0] is False
    assert True in store.commits[1:]


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("kept", [False, True])
def test_a_store_that_fails_acknowledges_nothing_and_may_recover(log: Journal, store: Watched, *, kept: bool) -> None:
    log.append([record()], durable=True)
    store.fails, store.fails_after = not kept, kept
    start = Barrier(4)

    def refused(_: int) -> str:
        start.wait()
        with pytest.raises(JournalUnavailable) as error:
            log.append([record()], durable=True)
        return error.value.message

    with ThreadPoolExecutor(4) as pool:
        assert all(said.startswith("on purpose") for said in pool.map(refused, range(4)))
    store.fails = store.fails_after = False
    (receipt,) = log.append([record()], durable=True)
    assert receipt.index == (6 if kept else 2)
    log.checkpoint()
    # A record that was stored and not acknowledged is in the log; no caller relied on it.
    assert whole(store, acknowledged(receipt)) == receipt.index + 1


def test_a_writer_that_is_interrupted_holds_up_no_other_thread(
    log: Journal, store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([record()], durable=True)
    entered, go = Event(), Event()
    once = Lock()
    real = journal._append_rows

    def interrupted(*arguments: Any) -> object:
        if once.acquire(blocking=False):
            entered.set()
            go.wait(10)
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(journal, "_append_rows", interrupted)
    ends: list[str] = []

    def appends() -> None:
        try:
            log.append([record()], durable=True)
            ends.append("stored")
        except (KeyboardInterrupt, JournalUnavailable) as error:
            ends.append(type(error).__name__)

    first, second = Thread(target=appends), Thread(target=appends)
    first.start()
    assert entered.wait(10)
    second.start()
    go.set()
    first.join(10)
    second.join(10)
    assert sorted(ends) == ["KeyboardInterrupt", "stored"]


@pytest.mark.usefixtures("_quiet")
def test_a_place_is_given_at_once_and_nothing_is_written_for_it(log: Journal, store: Watched) -> None:
    bodies = [record() for _ in range(3)]
    waits = [log.enqueue([body], durable=at == 1) for at, body in enumerate(bodies)]
    assert store.commits == []
    # The last one is waited for first, and writes for all.
    (last,) = waits[2]()
    assert store.commits[-1] is True
    count = len(store.commits)
    assert [wait() for wait in reversed(waits)] == [(last,), *(wait() for wait in (waits[1], waits[0]))]
    assert len(store.commits) == count
    with store.reading() as view:
        assert [body for _, body in view.bodies(1, 1, 9)] == bodies


@pytest.mark.usefixtures("_quiet")
def test_records_that_no_caller_waits_for_are_stored_with_the_next_or_at_the_end(log: Journal, store: Watched) -> None:
    bodies = [record() for _ in range(3)]
    log.enqueue(bodies[:1], durable=False)
    (receipt,) = log.append(bodies[1:2], durable=False)
    assert receipt.index == 2
    wait = log.enqueue(bodies[2:], durable=False)
    log.close()
    assert newest(store).size == 4
    with store.reading() as view:
        assert [body for _, body in view.bodies(1, 1, 9)] == bodies
    assert wait()[0].index == 3
    with pytest.raises(JournalUnavailable, match="closed"):
        log.enqueue([record()], durable=False)()


@pytest.mark.usefixtures("_quiet")
def test_a_place_that_was_lost_in_a_failure_is_not_taken_again(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    waits = [log.enqueue([record()], durable=True) for _ in range(2)]
    store.fails = True
    with pytest.raises(JournalUnavailable, match="on purpose"):
        waits[1]()
    store.fails = False
    (receipt,) = log.append([record()], durable=True)
    assert receipt.index == 2
    for wait in waits:
        with pytest.raises(JournalUnavailable, match="on purpose"):
            wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("_quiet")
def test_a_child_does_not_wait_for_its_parents_records(log: Journal) -> None:
    log.append([record()], durable=True)
    wait = log.enqueue([record()], durable=True)
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            try:
                wait()
            except JournalUnavailable as error:
                status = 0 if "another process" in error.message else 2
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert wait()[0].index == 2


def test_a_closed_journal_takes_nothing(log: Journal, store: Watched) -> None:
    log.append([record()], durable=False)
    log.close()
    assert newest(store).size == 2
    with pytest.raises(JournalUnavailable, match="closed"):
        log.append([record()], durable=True)
    log.close()


# Signing


def test_a_head_comes_by_itself_within_a_second(log: Journal, store: Watched) -> None:
    began = time.monotonic()
    log.append([record()], durable=False)
    until(lambda: newest(store).size == 2)
    # It would be under one second; a busy machine may take its time.
    assert time.monotonic() - began < 5


def test_a_head_comes_at_once_after_many_records(log: Journal, store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CHECKPOINT_S", 3_600.0)
    log.append([record()] * 255, durable=False)
    time.sleep(0.05)
    assert newest(store).size == 1
    log.append([record()], durable=False)
    until(lambda: newest(store).size == 257)


@pytest.mark.usefixtures("_quiet")
def test_what_a_head_covers_is_safe_before_the_head_is_seen(log: Journal, store: Watched) -> None:
    log.append([record()], durable=False)
    store.commits.clear()
    log.checkpoint()
    assert store.commits == [True]


@pytest.mark.usefixtures("_quiet")
def test_nothing_new_is_not_signed_again(store: Watched) -> None:
    shaky = Shaky()
    with Journal(store, shaky, verify=keys.verify) as log:
        log.append([record()], durable=True)
        first = log.checkpoint()
        asked = shaky.asked
        assert log.checkpoint() == first
        assert shaky.asked == asked


@pytest.mark.usefixtures("_quiet")
def test_a_new_head_is_handed_over_once_it_is_stored(
    log: Journal, store: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[bytes] = []
    stored: list[bytes] = []

    def told_and_stored(note: bytes) -> None:
        # It may ask the journal back.
        told.append(note)
        stored.append(log.newest(origin_of(note)))

    def fails(_: bytes) -> None:
        raise OSError("token=canary-51c2")

    log.on_head(fails)
    log.on_head(told_and_stored)
    log.append([record()], durable=True)
    first = log.checkpoint()
    assert log.checkpoint() == first
    assert told == [first]
    log.append([record()], durable=True)
    last = log.rotate(signer(NEXT))
    # Those of the next shard too.
    assert log.checkpoint() == log.newest(NEXT) == log.newest()
    assert told == stored == [first, last, log.newest()]
    assert "OSError" in caplog.text
    assert "canary" not in caplog.text


def test_a_head_that_comes_by_itself_is_handed_over(log: Journal) -> None:
    came = Event()
    log.on_head(lambda _: came.set())
    log.append([record()] * 300, durable=False)
    assert came.wait(10)


def raises(_: bytes) -> bytes:
    raise OSError("token=canary-51c2")


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    "does",
    [raises, lambda _: b"", lambda _: b"x" * 64, lambda message: keys.signer_from_seed(NAME, b"\3" * 32).sign(message)],
    ids=["raises", "nothing", "noise", "another key"],
)
def test_a_signer_that_fails_signs_nothing_and_stops_nothing_at_first(
    store: Watched, does: Callable[[bytes], bytes]
) -> None:
    shaky, now = Shaky(), [0.0]
    with Journal(store, shaky, verify=keys.verify, ticks=lambda: now[0]) as log:
        log.append([record()], durable=True)
        before = log.checkpoint()
        shaky.does = does
        (receipt,) = log.append([record()], durable=True)
        with pytest.raises(JournalUnavailable, match="the signer failed") as failed:
            log.checkpoint()
        assert "canary" not in str(failed.value) + log.problem
        log.append([record()], durable=True)
        assert newest(store).size == 2
        # Without heads a change to the log cannot be detected, so that appends soon fail.
        now[0] += journal.MAX_UNSIGNED_S + 1
        with pytest.raises(JournalUnavailable, match="could not be signed"):
            log.append([record()], durable=True)
        shaky.does = shaky.real.sign
        assert log.checkpoint() != before
        log.append([record()], durable=True)
        assert log.problem == ""
        assert whole(store, acknowledged(receipt)) == 5


@pytest.mark.usefixtures("_quiet")
def test_a_signer_that_fails_at_the_start_leaves_no_half_made_log(store: Watched) -> None:
    shaky = Shaky()
    shaky.does = raises
    log = Journal(store, shaky, verify=keys.verify)
    with pytest.raises(JournalUnavailable):
        log.append([record()], durable=True)
    with store.reading() as view:
        assert view.shards() == []
    shaky.does = shaky.real.sign
    log.append([record()], durable=True)
    log.close()
    assert whole(store) == 2


@pytest.mark.usefixtures("_quiet")
def test_appends_do_not_wait_for_a_slow_signer(store: Watched) -> None:
    shaky, signing, go = Shaky(), Event(), Event()

    def slow(message: bytes) -> bytes:
        signing.set()
        assert go.wait(10)
        return shaky.real.sign(message)

    with Journal(store, shaky, verify=keys.verify) as log:
        log.append([record()], durable=True)
        shaky.does = slow
        signer_thread = Thread(target=log.checkpoint)
        signer_thread.start()
        assert signing.wait(10)
        log.append([record()], durable=True)
        go.set()
        signer_thread.join(10)
        # The head is of the moment it was asked for.
        assert newest(store).size == 2
        shaky.does = shaky.real.sign
        log.checkpoint()
        assert whole(store) == 3


@pytest.mark.usefixtures("_quiet")
def test_a_record_that_comes_while_the_log_is_looked_at_is_no_damage(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)

    def appends() -> None:
        store.viewed = lambda: None
        log.append([record()], durable=True)

    store.viewed = appends
    log.checkpoint()
    assert newest(store).size == 2
    log.checkpoint()
    assert newest(store).size == 3


@pytest.mark.usefixtures("_quiet")
def test_the_tail_of_a_killed_process_is_signed_by_the_next(store: Watched) -> None:
    killed = Journal(store, signer(), verify=keys.verify)
    killed.append([record(), record()], durable=True)
    ended(killed)
    assert newest(store).size == 1
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=False)
    assert newest(store).size == 4


@pytest.mark.usefixtures("_quiet")
def test_the_thread_ends_though_it_signs_while_the_journal_is_closed(
    log: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([record()], durable=False)
    thread, real, begun = log._thread, log._refuse_closed_or_damaged, Event()
    assert thread is not None

    def refuse_unfit() -> None:
        real()
        begun.set()

    monkeypatch.setattr(log, "_refuse_closed_or_damaged", refuse_unfit)
    with log._signing:
        log._hurry.set()
        assert begun.wait(10)
        # What `close` does, between the thread's look at it and its turn to sign.
        log._closed = True
        log._changed.set()
        log._hurry.set()
    thread.join(10)
    assert not thread.is_alive()


# What it will not go on from


def test_another_key_does_not_go_on_with_a_log(store: Watched, log: Journal) -> None:
    log.append([record()], durable=True)
    with pytest.raises(JournalUnavailable, match="continues under the key"):
        Journal(store, keys.signer_from_seed(NAME, b"\3" * 32), verify=keys.verify).append([record()], durable=True)
    with pytest.raises(JournalUnavailable, match="continues under the key"):
        Journal(store, signer("example.com/other"), verify=keys.verify).append([record()], durable=True)


@pytest.mark.usefixtures("_quiet")
def test_a_log_that_went_back_is_refused_for_good(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    old = store._log
    log.append([record()], durable=True)
    new, store._log = store._log, old
    with pytest.raises(JournalDamaged, match="the log went back: it had 3 records, now it has 2"):
        log.append([record()], durable=True)
    # As far as this process knows, the attacker may still be at work.
    store._log = new
    with pytest.raises(JournalDamaged):
        log.append([record()], durable=True)
    with pytest.raises(JournalDamaged):
        log.checkpoint()


@pytest.mark.usefixtures("_quiet")
def test_a_log_with_another_past_is_refused(store: Watched) -> None:
    """Grown again from an old copy, by the holder of the key, to where it was or beyond."""
    log, other = (Journal(store, signer(), verify=keys.verify) for _ in range(2))
    log.append([record()], durable=True)
    log.checkpoint()
    old = store._log
    log.append([record()], durable=True)
    log.checkpoint()
    store._log = old
    other.append([record()], durable=True)
    other.checkpoint()
    with pytest.raises(JournalDamaged, match="the log is another one"):
        log.append([record()], durable=True)
    store._log = old
    with Journal(store, signer(), verify=keys.verify) as third:
        third.append([record()] * 5, durable=True)
        third.checkpoint()
    again = Journal(store, signer(), verify=keys.verify)
    again._known, again._seen = log._known, log._seen
    # It is longer, so an append does not see it; but nothing of it is signed.
    with pytest.raises(JournalDamaged, match="not those of the newest head"):
        again.checkpoint()
    for each in (log, other, again):
        each.close()


@pytest.mark.usefixtures("_quiet")
def test_a_bit_that_flipped_in_the_store_is_not_signed(log: Journal, store: Watched) -> None:
    log.append([record(), record()], durable=True)
    body = bytearray(store._log.kept[0].bodies[2])
    body[40] ^= 1
    store._log.kept[0].bodies[2] = bytes(body)
    with pytest.raises(JournalDamaged, match="record 2 is not what was appended"):
        log.checkpoint()
    with pytest.raises(JournalDamaged, match="record 2"):
        log.append([record()], durable=True)
    assert newest(store).size == 1


@pytest.mark.usefixtures("_quiet")
def test_a_head_by_an_unknown_key_is_not_believed(store: Watched, log: Journal) -> None:
    log.append([record()], durable=True)
    evil = keys.signer_from_seed(NAME, b"\3" * 32)
    kept = store._log.kept
    note = sign_note(Checkpoint(NAME, 1, b"\0" * 32).text, evil.key, evil.sign).to_bytes()
    kept[0] = kept[0]._replace(heads=(kept[0].heads[-1]._replace(note=note),))
    with pytest.raises(JournalDamaged, match="not the log's own"):
        log.checkpoint()


def test_a_held_head_of_another_log_is_refused(store: Watched) -> None:
    other = MemoryLog()
    with Journal(other, signer("example.com/other"), verify=keys.verify) as log:
        log.append([record()], durable=True)
        held = log.checkpoint()
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
    with pytest.raises(JournalDamaged, match="no such log here"):
        Journal(store, signer(), verify=keys.verify, held=[held]).append([record()], durable=True)


# Keys and retention


def test_rotation_links_two_shards_and_the_old_key_signs_no_more(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    last = open_checkpoint(log.rotate(signer(NEXT), who="ana"), signer().key, keys.verify)
    assert last.size == 3
    (receipt,) = log.append([record()], durable=True)
    assert (receipt.origin, receipt.index) == (NEXT, 1)
    log.checkpoint()
    whole(store, acknowledged(receipt))
    with pytest.raises(LockgateError, match="has used the name"):
        log.rotate(signer())
    with pytest.raises(JournalUnavailable, match="continues under the key"):
        Journal(store, signer(), verify=keys.verify).append([record()], durable=True)


@pytest.mark.usefixtures("_quiet")
def test_a_rotation_that_fails_half_way_did_not_happen(store: Watched) -> None:
    shaky, new = Shaky(), Shaky(NEXT)
    with Journal(store, shaky, verify=keys.verify) as log:
        log.append([record()], durable=True)
        log.checkpoint()
        for broken in (shaky, new):
            broken.does = raises
            with pytest.raises(JournalUnavailable, match="the signer failed"):
                log.rotate(new)
            broken.does = broken.real.sign
            with store.reading() as view:
                assert [shard.size for shard in view.shards()] == [2]
        log.append([record()], durable=True)
        log.rotate(new)
    assert whole(store) == 5


@pytest.mark.usefixtures("_quiet")
def test_a_process_without_the_new_key_appends_no_more_until_it_has_it(store: Watched) -> None:
    found: list[keys.Ed25519Signer] = []
    left = Journal(store, signer(), verify=keys.verify, find_signer=lambda _: found[-1] if found else None)
    left.append([record()], durable=True)
    with Journal(store, signer(), verify=keys.verify) as other:
        other.rotate(signer(NEXT))
        for key in (None, signer()):
            found[:] = [key] if key else []
            with pytest.raises(JournalUnavailable, match="continues under the key") as refused:
                left.append([record()], durable=True)
            assert not isinstance(refused.value, JournalDamaged)
            assert "its key was rotated" in refused.value.hint
            with pytest.raises(JournalUnavailable, match="continues under the key"):
                left.checkpoint()
        assert whole(store) == 4
        found.append(signer(NEXT))
        (receipt,) = left.append([record()], durable=True)
        assert receipt.origin == NEXT
    left.close()
    assert whole(store) == 5


# Records that an attacker without the key appends behind the newest head


def forge(store: MemoryLog | SqliteLog, fields: dict[str, object], **changes: object) -> None:
    """Append as an attacker would who can write the store and knows its format."""
    body = encode_record(fields)
    with store.writing(durable=True) as log:
        shard = log.current()
        assert shard is not None
        frontier = Frontier.from_bytes(shard.edge)
        frontier.append(leaf_hash(body))
        # Their own key makes as good a seal as any they could know.
        grown = shard._replace(edge=frontier.to_bytes(), **changes)  # type: ignore[arg-type]
        seal = Seal(keys.signer_from_seed(NAME, b"\3" * 32), keys.verify).seal_shard(grown)
        assert log.append(shard, [LogRow(leaf_hash(body), body)], grown.edge, [], seal)
        if changes:
            log.prune(shard.number, grown.pruned, seal)


def begun(seq: int = 1) -> dict[str, Any]:
    return {"run": os.urandom(8).hex(), "seq": seq, "ts_ms": 1, "salt": os.urandom(16)}


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("what", ["an approval", "a prune", "an old seal"])
def test_what_was_put_behind_the_newest_head_without_the_key_is_never_signed(
    place: MemoryLog | SqliteLog, what: str, *, running: bool
) -> None:
    log = Journal(place, signer(), verify=keys.verify)
    log.append([record()] * 9, durable=True)
    held = log.checkpoint()
    if not running:
        log.close()
        log = Journal(place, signer(), verify=keys.verify, held=[held])
    if what == "an approval":
        forge(place, approval_record(**begun(), session="s", id="a1", state="granted", digest="0" * 64, who="the boss"))
    elif what == "a prune":
        forge(place, prune_record(**begun(), origin=NAME, before=9, retention_days=365), pruned=9)
        with place.writing(durable=True) as change:
            change.sweep(1, range(1, 9))
    else:
        with place.writing(durable=True) as change:
            shard = change.current()
            assert shard is not None
            change.prune(1, 9, shard.seal)
    for _ in range(2):
        with pytest.raises(JournalDamaged, match="written without its key"):
            log.checkpoint()
        with pytest.raises(JournalDamaged, match="written without its key"):
            log.append([record()], durable=True)
    log.close()
    with pytest.raises(JournalDamaged, match="written without its key"):
        Journal(place, signer(), verify=keys.verify).prune(retention_days=1)
    with place.reading() as view:
        head = view.newest(1)
        assert head is not None
        assert head.note == held


@pytest.mark.usefixtures("_quiet")
def test_a_forged_tail_is_not_built_on(log: Journal, store: Watched) -> None:
    """An append also seals what was there before."""
    log.append([record()], durable=True)
    forge(store, approval_record(**begun(), session="s", id="a1", state="granted", digest="0" * 64, who="the boss"))
    with pytest.raises(JournalDamaged, match="written without its key"):
        log.append([record()], durable=True)
    with store.reading() as view:
        assert view.current() is not None
        assert len(list(view.leaves(1, 0, 9))) == 3


@pytest.mark.usefixtures("_quiet")
def test_a_rotation_that_the_key_has_not_signed_is_not_followed(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    log.checkpoint()
    evil = signer("example.com/evil")
    forge(store, rotation_record(**begun(), next_vkey=evil.key.vkey))
    forged = MemoryLog()
    with Journal(forged, evil, verify=keys.verify) as other:
        other.append([record()], durable=True)
    theirs = forged._log.kept[0]
    store._log.kept.append(theirs._replace(shard=theirs.shard._replace(number=2)))
    with pytest.raises(JournalDamaged, match="closed by a record that its key has not signed"):
        log.append([record()], durable=True)


@pytest.mark.usefixtures("_quiet")
def test_a_log_without_its_newest_shard_is_not_continued(store: Watched) -> None:
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
        log.rotate(signer(NEXT))
        log.append([record()], durable=True)
    del store._log.kept[1]
    with pytest.raises(JournalDamaged, match="was closed, and the one it names as next is gone"):
        Journal(store, signer(), verify=keys.verify).append([record()], durable=True)


@pytest.mark.usefixtures("_quiet")
def test_nothing_is_swept_that_was_marked_without_the_key(log: Journal, store: Watched) -> None:
    """Just after everything was found in order."""
    log.append([record()] * 9, durable=True)
    log.checkpoint()
    with store.writing(durable=True) as change:
        change.prune(1, 9, b"\0" * 32)
    with pytest.raises(JournalDamaged, match="written without its key"):
        sweep_bodies(store, log._current_seal().check_shards, lambda: False)
    assert len(store._log.kept[0].bodies) == 10


@pytest.mark.usefixtures("_quiet")
def test_a_head_kept_under_another_size_is_told_as_that(log: Journal, store: Watched) -> None:
    log.append([record()], durable=True)
    log.checkpoint()
    kept = store._log.kept
    kept[0] = kept[0]._replace(heads=(kept[0].heads[-1]._replace(size=9),))
    with pytest.raises(JournalDamaged, match="the newest head is of 2 records, and is kept as one of 9"):
        log.checkpoint()


@pytest.mark.usefixtures("_quiet")
def test_closing_signs_for_processes_that_ended_without(store: Watched, log: Journal) -> None:
    """A worker process of multiprocessing ends at once, and leaves its records to its parent."""
    log.append([record()], durable=True)
    log.checkpoint()
    worker = Journal(store, signer(), verify=keys.verify)
    worker.append([record()], durable=True)
    ended(worker)
    assert newest(store).size == 2
    log.close()
    assert newest(store).size == 3


@pytest.mark.usefixtures("_quiet")
def test_a_signer_that_cannot_make_the_seals_key_appends_nothing(store: Watched) -> None:
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
    shaky = Shaky()
    for shaky.does in (raises, lambda _: b"x" * 64):
        with pytest.raises(JournalUnavailable, match="the signer failed") as failed:
            Journal(store, shaky, verify=keys.verify).append([record()], durable=True)
        assert not isinstance(failed.value, JournalDamaged)
    assert whole(store) == 2


@pytest.mark.usefixtures("_quiet")
def test_a_shard_that_the_one_before_does_not_name_is_refused(store: Watched, log: Journal) -> None:
    log.append([record()], durable=True)
    log.checkpoint()
    forged = MemoryLog()
    evil = signer("example.com/evil")
    with Journal(forged, evil, verify=keys.verify) as other:
        other.append([record()], durable=True)
    theirs = forged._log.kept[0]
    store._log.kept.append(theirs._replace(shard=theirs.shard._replace(number=2)))
    with pytest.raises(JournalDamaged, match="is not the one that"):
        log.checkpoint()
    with pytest.raises(JournalDamaged):
        log.append([record()], durable=True)


@pytest.mark.usefixtures("_quiet")
def test_retention_deletes_bodies_and_leaves_every_proof(store: Watched) -> None:
    now = [1_000_000_000.0]
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0]) as log:
        receipts = log.append([record(at_s=now[0]) for _ in range(5)], durable=True)
        early = log.checkpoint()
        now[0] += 40 * DAY_S
        log.append([record(at_s=now[0])], durable=True)
        log.checkpoint()
        assert log.prune(retention_days=30, who="ana") == {NAME: 6}
        assert log.prune(retention_days=30) == {}
        log.checkpoint()
        with store.reading() as view:
            # The first record of a shard names its key, and stays.
            assert [at for at, _ in view.bodies(1, 0, 99)] == [0, 6, 7]
        for receipt in receipts:
            proof = log.prove(receipt.index)
            assert verify_proof(proof, receipt.leaf_hash, signer().key, keys.verify).size == 8
        whole(store, acknowledged(*receipts))
    with Journal(store, signer(), verify=keys.verify, held=[early]) as later:
        later.append([record()], durable=True)


@pytest.mark.usefixtures("_quiet")
def test_a_closed_shard_keeps_the_records_that_link_it(store: Watched) -> None:
    now = [1_000_000_000.0]
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0]) as log:
        log.append([record(), record()], durable=True)
        log.rotate(signer(NEXT))
        log.append([record()], durable=True)
        now[0] += 40 * DAY_S
        log.append([record(at_s=now[0])], durable=True)
        log.checkpoint()
        assert log.prune(retention_days=30) == {NAME: 4, NEXT: 2}
        with store.reading() as view:
            assert [at for at, _ in view.bodies(1, 0, 99)] == [0, 3]
            assert [at for at, _ in view.bodies(2, 0, 99)] == [0, 2, 3, 4]
        whole(store)


@pytest.mark.usefixtures("_quiet")
def test_a_clock_that_is_wrong_deletes_nothing(store: Watched, caplog: pytest.LogCaptureFixture) -> None:
    now = [1_000_000_000.0]

    def later(days: float) -> str:
        """A process that begins then."""
        now[0] += days * DAY_S
        log = Journal(store, signer(), verify=keys.verify, clock=lambda: now[0], retention_days=30)
        with log:
            log.append([record(at_s=max(0.0, now[0]))], durable=True)
            log.checkpoint()
            log._apply_retention()
            # It does not hide behind the next head.
            log.checkpoint()
            return log.problem

    def left() -> int:
        with store.reading() as view:
            return len(list(view.bodies(1, 0, 99)))

    assert later(0) == later(20) == ""
    # In 2099 all is old, and there is nothing of the days before.
    assert "the clock may have jumped" in later(30_000)
    assert "`lockgate audit prune --yes`" in caplog.text
    # Nor is what follows at once.
    assert "the clock may have jumped" in later(0.5)
    # Back again: the newest record is from the future, until this process has written its own.
    assert later(-30_000) == ""
    now[0] = -5.0
    assert later(0) == ""
    assert left() == whole(store) == 7
    # In the right time again, twenty days after a record of its own: the first is too old, and goes.
    now[0] = 1_000_000_000.0 + 40 * DAY_S
    assert later(0) == ""
    assert (left(), whole(store)) == (8, 9)


@pytest.mark.usefixtures("_quiet")
def test_a_log_that_lay_still_for_long_is_pruned_a_day_later_or_on_command(store: Watched) -> None:
    now = [1_000_000_000.0]
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0], retention_days=30) as log:
        problems = []
        for days in (0, 50, 0.9, 0.2):
            now[0] += days * DAY_S
            log.append([record(at_s=now[0])], durable=True)
            log.checkpoint()
            log._retention_at_s = None
            log._apply_retention()
            problems.append(log.problem)
            if days == 50:
                # The newest record from the future is no better.
                assert not is_clock_plausible(store._log, int((now[0] - 25 * DAY_S) * 1000), 30)
        assert [bool(each) for each in problems] == [False, True, True, False]
        assert kinds(store)[0][:2] == ["0 opening", "2 configuration"]
        now[0] += 50 * DAY_S
        assert log.prune(retention_days=30) == {NAME: 6}
    whole(store)


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(("keep", "ahead"), [(1, 1.5), (7, 9), (7, 20), (30, 30.5), (400, 500)])
def test_one_start_with_the_clock_ahead_by_more_than_is_kept_deletes_nothing(
    store: Watched, keep: int, ahead: float
) -> None:
    now = [1_000_000_000.0]

    def later(days: float) -> tuple[bool, int]:
        now[0] += days * DAY_S
        with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0], retention_days=keep) as log:
            log.append([record(at_s=now[0])], durable=True)
            log.checkpoint()
            log._apply_retention()
        with store.reading() as view:
            return bool(log.problem), len(list(view.bodies(1, 0, 99)))

    assert [later(0.01)[1] for _ in range(5)] == [2, 3, 4, 5, 6]
    assert later(ahead) == (True, 7)
    # The time was right after all: there are records of it now, and the old ones go, with a record of that.
    assert later(min(keep, 2) * 0.6) == (False, 4)
    whole(store)


def test_how_long_records_are_kept_is_a_day_at_least(store: Watched) -> None:
    with pytest.raises(LockgateError, match="at least one day"):
        Journal(store, signer(), verify=keys.verify).prune(retention_days=0)
    with pytest.raises(LockgateError, match="must not be negative"):
        Journal(store, signer(), verify=keys.verify, retention_days=-1)


@pytest.mark.usefixtures("_quiet")
def test_a_prune_that_is_cut_short_is_finished_by_the_next(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000.0]
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0]) as log:
        log.append([record() for _ in range(9)], durable=True)
        log.checkpoint()
        now[0] += 40 * DAY_S
        log.append([record(at_s=now[0])], durable=True)
        log.checkpoint()
        with monkeypatch.context() as patched:
            patched.setattr(journal, "sweep_bodies", lambda *_: None)
            log.prune(retention_days=30)
        whole(store)
        log.prune(retention_days=30)
        with store.reading() as view:
            assert [at for at, _ in view.bodies(1, 0, 99)] == [0, 10, 11]
        whole(store)


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place = MemoryLog() if request.param == "memory" else SqliteLog(tmp_path / "state" / "log.db")
    yield place
    place.close()


def kinds(store: Store) -> list[list[str]]:
    """What is left of each shard."""
    with store.reading() as view:
        return [
            [f"{at} {parse_record(body)['kind']}" for at, body in view.bodies(shard.number, 0, shard.size)]
            for shard in view.shards()
        ]


@pytest.mark.usefixtures("_quiet")
def test_what_was_deleted_stays_accounted_for_when_more_is(place: Store) -> None:
    """The record that owns up to a deletion grows old itself, in another shard than the one it is about."""
    now = [1_000_000_000.0]
    with Journal(place, signer(), verify=keys.verify, clock=lambda: now[0]) as log:

        def later(days: int) -> None:
            now[0] += days * DAY_S
            log.append([record(at_s=now[0])], durable=True)
            log.checkpoint()

        receipts = log.append([record(), record()], durable=True)
        log.checkpoint()
        log.rotate(signer(NEXT))
        log.append([record()], durable=True)
        log.checkpoint()
        later(20)
        later(20)
        # All of the first shard, and the beginning of the second.
        assert log.prune(retention_days=30) == {NAME: 4, NEXT: 2}
        log.checkpoint()
        assert kinds(place) == [
            ["0 opening", "3 rotation"],
            ["0 opening", "2 configuration", "3 configuration", "4 prune", "5 prune"],
        ]
        whole(place)
        later(20)
        later(40)
        assert log.prune(retention_days=30) == {NEXT: 7}
        log.checkpoint()
        # Record 4 is all that says where the first shard's went; record 8 says all that record 5 did.
        assert kinds(place)[1] == ["0 opening", "4 prune", "7 configuration", "8 prune"]
        whole(place, acknowledged(*receipts))
        log.rotate(signer(NEXT + "b"))
        later(100)
        later(1)
        assert log.prune(retention_days=30) == {NEXT: 10}
        log.checkpoint()
        assert kinds(place)[1] == ["0 opening", "4 prune", "9 rotation"]
        assert whole(place, acknowledged(*receipts)) == 4 + 10 + 4
        for receipt in receipts:
            head = verify_proof(log.prove(receipt.index, origin=NAME), receipt.leaf_hash, signer().key, keys.verify)
            assert head.size == 4
        log.append([record()], durable=True)
        assert log.prune(retention_days=30) == {}


@pytest.mark.usefixtures("_quiet")
def test_retention_is_looked_after_hourly_and_only_where_something_is_overdue(
    store: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    now, ticks = [1_000_000_000.0], [0.0]

    def pruned() -> int:
        return sum(each.endswith("prune") for shard in kinds(store) for each in shard)

    settings = {"verify": keys.verify, "clock": lambda: now[0], "ticks": lambda: ticks[0], "retention_days": 30}
    log, other = (Journal(store, signer(), **settings) for _ in range(2))  # type: ignore[arg-type]
    with log, other:

        def later(hours: float) -> None:
            now[0] += hours * 3_600
            ticks[0] += hours * 3_600
            log.append([record(at_s=now[0])], durable=True)
            log.checkpoint()
            log._apply_retention()
            other._apply_retention()
            log.checkpoint()

        later(0)
        later(15 * 24)
        later(15 * 24)
        later(0.9)
        # Too old, but not for long.
        assert pruned() == 0
        later(0.6)
        # Once, not by both.
        assert (pruned(), kinds(store)[0][:2]) == (1, ["0 opening", "2 configuration"])
        later(15 * 24)
        later(15 * 24)
        assert (pruned(), kinds(store)[0][:2]) == (3, ["0 opening", "5 configuration"])
        later(0.9)
        assert pruned() == 3
        whole(store)
        assert caplog.text == ""
        store.fails = True
        log._retention_at_s = None
        now[0] += 2 * DAY_S
        log._apply_retention()
        store.fails = False
        assert "old records of the journal could not be deleted: JournalUnavailable" in caplog.text


def test_the_thread_that_signs_deletes_what_is_old(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000.0]
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0]) as log:
        log.append([record(at_s=now[0] + days * DAY_S) for days in (0, 0, 15)], durable=True)
    now[0] += 30.5 * DAY_S
    monkeypatch.setattr(journal, "CHECKPOINT_S", 0.01)
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0], retention_days=30) as log:
        log.append([record(at_s=now[0])], durable=True)
        until(lambda: kinds(store) == [["0 opening", "3 configuration", "4 configuration", "5 prune"]])
    whole(store)


def test_a_proof_is_of_a_signed_record_of_a_log_that_is_here(log: Journal) -> None:
    log.append([record()], durable=True)
    log.checkpoint()
    for index, origin in ((-1, ""), (2, ""), (0, "example.com/other")):
        with pytest.raises(LockgateError):
            log.prove(index, origin=origin)


@pytest.mark.usefixtures("_quiet")
def test_every_head_is_the_beginning_of_every_later_one(log: Journal) -> None:
    heads = {}
    for _ in range(12):
        log.append([record()], durable=False)
        head = open_checkpoint(log.checkpoint(), signer().key, keys.verify)
        heads[head.size] = head.root
    for old, new in combinations_with_replacement(heads, 2):
        assert verify_consistency(old, new, heads[old], heads[new], log.consistency(old, new))
    assert log.consistency(0, 5) == ()
    log.append([record()], durable=False)
    # One more is there, which no head covers.
    for old, new in ((-1, 3), (4, 3), (3, 14)):
        with pytest.raises(LockgateError, match="no two sizes"):
            log.consistency(old, new)
    with pytest.raises(LockgateError, match="there is no log `example"):
        log.consistency(1, 2, origin="example.com/other")


def test_a_store_without_a_log_has_no_head(log: Journal) -> None:
    with pytest.raises(LockgateError, match="there is no log here yet"):
        log.newest()


def test_proofs_while_others_write_and_prune(store: Watched) -> None:
    now = [1_000_000_000.0]
    with Journal(store, signer(), verify=keys.verify, clock=lambda: now[0]) as log:
        (receipt,) = log.append([record()], durable=True)
        log.checkpoint()
        now[0] += 40 * DAY_S
        done = Event()

        def busy() -> None:
            while not done.is_set():
                log.append([record()], durable=False)
                log.prune(retention_days=30)

        writer = Thread(target=busy)
        writer.start()
        try:
            for _ in range(30):
                assert verify_proof(log.prove(1), receipt.leaf_hash, signer().key, keys.verify)
        finally:
            done.set()
            writer.join()


def test_a_view_of_the_log_is_all_a_verifier_needs(log: Journal, store: Watched) -> None:
    """Snapshot is the whole of what reading offers: a change to it is a change to every store and to the audit."""
    log.append([record()], durable=True)
    names = {name for name in vars(Snapshot) if not name.startswith("_")}
    with store.reading() as view:
        assert all(callable(getattr(view, name)) for name in names)
    assert names == {"shards", "current", "leaves", "tiles", "bodies", "newest", "heads"}


# What the store says of a record's age


def young(place: MemoryLog | SqliteLog) -> Journal:
    now = 1_000_000_000.0
    with Journal(place, signer(), verify=keys.verify, clock=lambda: now - 5 * DAY_S) as log:
        log.append([record(at_s=now - 5 * DAY_S) for _ in range(9)], durable=True)
    return Journal(place, signer(), verify=keys.verify, clock=lambda: now, retention_days=30)


@pytest.mark.usefixtures("_quiet")
def test_when_a_head_was_made_makes_no_record_old(store: Watched) -> None:
    with young(store) as log:
        kept = store._log.kept
        kept[0] = kept[0]._replace(heads=tuple(each._replace(at_ms=1) for each in kept[0].heads))
        log.append([record(at_s=1_000_000_000.0)], durable=True)
        log.checkpoint()
        log._apply_retention()
        assert log.prune(retention_days=30) == {}
    assert whole(store) == len(store._log.kept[0].bodies) == 11


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("leaf", [False, True])
def test_a_record_that_was_made_to_look_old_is_not_deleted(store: Watched, *, leaf: bool) -> None:
    """Its leaf could be put back afterwards without a trace."""
    log = young(store)
    log.append([record(at_s=1_000_000_000.0)], durable=True)
    log.checkpoint()
    kept = store._log.kept[0]
    kept.bodies[1] = record()
    if leaf:
        kept.leaves[1] = leaf_hash(kept.bodies[1])
    with pytest.raises(JournalDamaged, match="records are not those of the newest head" if leaf else "record 1 is"):
        log.prune(retention_days=30)
    log.close()
    assert len(kept.bodies) == 11
