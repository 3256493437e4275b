"""What every store of the journal's log has to keep, whichever it is: the same tests over each.

PostgreSQL runs them from `tests/hosts/test_log_postgres.py`, which brings a server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from log_checks import NAME, acknowledged, find_signer, record, signer, stored, whole
from merkle_levels import hash_levels

from lockgate.core.errors import JournalDamaged, JournalUnavailable, LockgateError
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import Head, LogRow, Shard, Store, Transaction
from lockgate.journal.merkle import Frontier, Tile, leaf_hash, verify_inclusion
from lockgate.journal.signed_notes import verify_proof
from lockgate.journal.stores.memory import MemoryLog
from lockgate.journal.stores.sqlite import SqliteLog

# Another handle on the same log, as another process would have it.
Again = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Again]:
    opened: list[Store] = []

    def again() -> Store:
        if request.param == "memory":
            opened[:] = opened or [MemoryLog()]
            return opened[0]
        opened.append(SqliteLog(tmp_path / "state" / "log.db"))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


@pytest.fixture
def store(again: Again) -> Store:
    return again()


def add(log: Transaction, *bodies: bytes) -> Shard:
    shard = log.current()
    assert shard is not None
    frontier = Frontier.from_bytes(shard.edge)
    rows = [LogRow(leaf_hash(body), body) for body in bodies]
    tiles: list[Tile] = []
    for row in rows:
        frontier.append(row.leaf, tiles)
    assert log.append(shard, rows, frontier.to_bytes(), tiles, b"seal")
    return shard._replace(edge=frontier.to_bytes(), seal=b"seal")


def begun(store: Store, *bodies: bytes) -> Shard:
    with store.writing(durable=True) as log:
        shard = log.open_shard(signer().key.vkey)
        return add(log, *bodies) if bodies else shard


def test_what_was_written_is_read_back(store: Store, again: Again) -> None:
    shard = begun(store, b"a", b"b", b"c")
    head = Head(2, b"note", 77)
    with store.writing(durable=False) as log:
        log.sign(shard.number, head, b"edge")
    for each in (store, again()):
        with each.reading() as log:
            assert log.shards() == [log.current()] == [shard._replace(signed_edge=b"edge")]
            assert list(log.bodies(1, 0, 99)) == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert list(log.leaves(1, 1, 3)) == [(1, leaf_hash(b"b")), (2, leaf_hash(b"c"))]
            assert list(log.leaves(1, 3, 3)) == []
            assert log.newest(1) == head
            assert list(log.heads(1)) == [head]


def test_bytes_of_every_kind_come_back_as_they_are(store: Store) -> None:
    bodies = [bytes(range(256)), b"\0", "\N{PILE OF POO}".encode(), b"x" * 65_536]
    begun(store, *bodies)
    with store.reading() as log:
        assert [body for _, body in log.bodies(1, 0, 9)] == bodies


def test_a_transaction_sees_its_own_changes(store: Store) -> None:
    with store.writing(durable=True) as log:
        assert log.current() is None
        shard = log.open_shard("first")
        add(log, b"a")
        add(log, b"b")
        assert [body for _, body in log.bodies(shard.number, 0, 9)] == [b"a", b"b"]
        log.sign(shard.number, Head(2, b"n", 1), b"e")
        assert log.newest(shard.number) == Head(2, b"n", 1)


def test_a_transaction_that_raises_leaves_nothing(store: Store) -> None:
    begun(store, b"a")
    for error in (ValueError, KeyboardInterrupt, JournalUnavailable):
        with suppress(LockgateError, ValueError, KeyboardInterrupt), store.writing(durable=True) as log:
            add(log, b"b")
            log.open_shard("second")
            raise error("on purpose")
        with store.reading() as log:
            assert [body for _, body in log.bodies(1, 0, 9)] == [b"a"]
            assert [shard.number for shard in log.shards()] == [1]
    with store.writing(durable=True) as log:
        add(log, b"c")
    with store.reading() as log:
        assert [body for _, body in log.bodies(1, 0, 9)] == [b"a", b"c"]


def test_a_reader_does_not_see_what_is_written_meanwhile(store: Store, again: Again) -> None:
    begun(store, b"a")
    with again().reading() as log:
        before = log.current()
        with store.writing(durable=False) as change:
            add(change, b"b")
        assert log.current() == before
        assert list(log.bodies(1, 0, 9)) == [(0, b"a")]
        assert list(log.leaves(1, 0, 9)) == [(0, leaf_hash(b"a"))]


def test_retention_does_not_disturb_a_reader(store: Store, again: Again) -> None:
    begun(store, *(bytes([at]) for at in range(9)))
    with again().reading() as log:
        assert log.current() is not None
        with store.writing(durable=True) as change:
            change.prune(1, 5, b"seal")
            change.sweep(1, [1, 2, 4])
            # What is gone already is no error.
            change.sweep(1, [2, 3])
            change.sweep(1, [])
        assert len(list(log.bodies(1, 0, 9))) == 9
    with store.reading() as log:
        assert [at for at, _ in log.bodies(1, 0, 9)] == [0, 5, 6, 7, 8]
        assert [at for at, _ in log.leaves(1, 0, 9)] == list(range(9))


def test_a_closed_shard_takes_no_more_records(store: Store) -> None:
    first = begun(store, b"a")
    with store.writing(durable=True) as log:
        assert log.open_shard("second").number == 2
    with store.writing(durable=True) as log:
        assert not log.append(first, [LogRow(leaf_hash(b"b"), b"b")], Frontier(2, [b"x" * 32]).to_bytes(), [], b"")
    with store.reading() as log:
        assert [shard.size for shard in log.shards()] == [1, 0]


def test_nothing_is_appended_to_a_tree_that_is_not_there(store: Store) -> None:
    """Another process has appended, or put another log of the same size there."""
    first = begun(store, b"a")
    with store.writing(durable=True) as log:
        newer = add(log, b"b")
    another = newer._replace(edge=newer.edge[:-1] + bytes([newer.edge[-1] ^ 1]))
    with store.writing(durable=True) as log:
        for shard in (first, another, newer._replace(number=2)):
            assert not log.append(
                shard, [LogRow(leaf_hash(b"c"), b"c")], Frontier(3, [b"x" * 32] * 2).to_bytes(), [], b""
            )
        assert log.current() == newer
        assert len(list(log.leaves(1, 0, 9))) == len(list(log.bodies(1, 0, 9))) == 2
        add(log, b"c")


def test_a_head_is_kept_once(store: Store) -> None:
    begun(store, b"a", b"b")
    with store.writing(durable=True) as log:
        log.sign(1, Head(2, b"first", 1), b"e")
    with pytest.raises(JournalDamaged), store.writing(durable=True) as log:
        log.sign(1, Head(2, b"second", 1), b"f")
    with store.reading() as log:
        assert log.newest(1) == Head(2, b"first", 1)


def test_a_shard_can_be_sealed_anew_after_it_was_closed(store: Store, again: Again) -> None:
    begun(store, b"a", b"b")
    with store.writing(durable=True) as log:
        log.prune(1, 1, b"with that")
        log.open_shard("second")
        log.prune(1, 0, b"once more")
    with again().reading() as log:
        # What was pruned stays so.
        assert [(each.pruned, each.seal) for each in log.shards()] == [(1, b"once more"), (0, b"")]


def test_bodies_that_were_not_pruned_are_not_deleted(store: Store) -> None:
    begun(store, *(bytes([at]) for at in range(4)))
    with store.writing(durable=True) as log:
        log.prune(1, 2, b"")
    with pytest.raises(JournalDamaged), store.writing(durable=True) as log:
        log.sweep(1, [1, 2])
    with store.reading() as log:
        assert len(list(log.bodies(1, 0, 9))) == 4


def test_subtrees_are_kept_with_the_leaves_they_are_of(store: Store, again: Again) -> None:
    begun(store, *(at.to_bytes(2, "big") for at in range(700)))
    hash_of = hash_levels([leaf_hash(at.to_bytes(2, "big")) for at in range(700)])
    with suppress(JournalUnavailable), store.writing(durable=True) as log:
        add(log, *(bytes([at]) for at in range(200)))
        assert [at for at, _ in log.tiles(1, 8, 0, 9)] == [0, 1, 2]
        raise JournalUnavailable("on purpose")
    for each in (store, again()):
        with each.reading() as log:
            assert list(log.tiles(1, 8, 0, 9)) == [(0, hash_of(8, 0)), (1, hash_of(8, 1))]
            assert list(log.tiles(1, 8, 1, 2)) == [(1, hash_of(8, 1))]
            assert list(log.tiles(1, 16, 0, 9)) == []
    with store.writing(durable=True) as log:
        add(log, *(at.to_bytes(2, "big") for at in range(700, 768)))
    with store.reading() as log:
        assert [at for at, _ in log.tiles(1, 8, 0, 9)] == [0, 1, 2]


def test_one_writer_at_a_time(store: Store, again: Again) -> None:
    begun(store, b"a")
    start = Barrier(4)

    def adds(number: int) -> None:
        mine = again()
        start.wait()
        for _ in range(10):
            with mine.writing(durable=False) as log:
                add(log, bytes([number]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(adds, range(4)))
    with store.reading() as log:
        bodies = [body for _, body in log.bodies(1, 1, 99)]
        assert sorted(bodies) == sorted(bytes([number]) for number in range(4) for _ in range(10))
        shard = log.current()
        assert shard is not None
        frontier = Frontier()
        for _, leaf in log.leaves(1, 0, 99):
            frontier.append(leaf)
        assert frontier.to_bytes() == shard.edge


def test_a_closed_store_opens_again(store: Store) -> None:
    begun(store, b"a")
    store.tidy()
    store.close()
    store.close()
    with store.writing(durable=False) as log:
        add(log, b"b")
    with store.reading() as log:
        assert log.current() is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_and_its_parent_both_go_on(store: Store) -> None:
    if isinstance(store, MemoryLog):
        pytest.skip("what is in memory is not shared")
    begun(store, b"a")
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            with store.writing(durable=True) as log:
                add(log, b"child")
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with store.writing(durable=True) as log:
        add(log, b"parent")
    with store.reading() as log:
        assert [body for _, body in log.bodies(1, 0, 9)] == [b"a", b"child", b"parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("inside", ["between", "writing", "reading"])
def test_a_child_goes_on_after_its_parent_has_closed(store: Store, again: Again, inside: str) -> None:
    """The last one to close a file removes what belongs to it: the child has to count, from the first on."""
    if isinstance(store, MemoryLog):
        pytest.skip("what is in memory is not shared")
    begun(store, b"a")
    begins, ends = Event(), Event()

    def busy() -> None:
        with store.writing(durable=True) if inside == "writing" else store.reading() as log:
            assert log.current() is not None
            begins.set()
            ends.wait(1)

    other = Thread(target=busy)
    if inside != "between":
        other.start()
        assert begins.wait(10)
    (closed, tell), (opened, told) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            with store.writing(durable=True) as log:
                add(log, b"before")
            os.write(told, b"x")
            os.read(closed, 1)
            for _ in range(20):
                with store.writing(durable=True) as log:
                    add(log, b"after")
            status = 0
        os._exit(status)
    ends.set()
    if inside != "between":
        other.join()
    os.close(told)
    os.read(opened, 1)
    store.close()
    os.write(tell, b"x")
    assert os.waitpid(child, 0)[1] == 0
    for each in (closed, tell, opened):
        os.close(each)
    with again().reading() as log:
        assert [body for _, body in log.bodies(1, 0, 99)] == [b"a", b"before", *([b"after"] * 20)]


# With the journal on top


def test_several_journals_share_a_log(again: Again) -> None:
    journals = [Journal(again(), signer(), verify=keys.verify) for _ in range(3)]
    start = Barrier(6)

    def appends(number: int) -> dict[tuple[str, int], bytes]:
        start.wait()
        found: dict[tuple[str, int], bytes] = {}
        for at in range(12):
            found |= acknowledged(*journals[number % 3].append([record(), record()], durable=at % 4 == 0))
        return found

    with ThreadPoolExecutor(6) as pool:
        every = list(pool.map(appends, range(6)))
    together = {key: leaf for each in every for key, leaf in each.items()}
    assert len(together) == 6 * 12 * 2
    for journal in journals:
        journal.checkpoint()
        assert journal.problem == ""
    assert whole(again(), together) == 1 + len(together)
    for journal in journals:
        journal.close()


def test_rotation_and_retention_while_others_write(again: Again) -> None:
    clock = [1_000_000_000.0]
    settings = {"verify": keys.verify, "clock": lambda: clock[0], "find_signer": find_signer}
    first, second = (Journal(again(), signer(), **settings) for _ in range(2))  # type: ignore[arg-type]
    done = Event()
    found: list[dict[tuple[str, int], bytes]] = []

    def appends() -> None:
        while not done.is_set():
            found.append(acknowledged(*second.append([record(at_s=clock[0])], durable=False)))

    (kept,) = first.append([record(at_s=clock[0])], durable=True)
    early = first.checkpoint()
    writer = Thread(target=appends)
    writer.start()
    try:
        clock[0] += 86_400 * 10
        assert first.prune(retention_days=5)[NAME] >= 2
        last = first.rotate(signer("example.com/log/2"))
        first.append([record()], durable=True)
    finally:
        done.set()
        writer.join()
    second.checkpoint()
    together = {key: leaf for each in found for key, leaf in each.items()}
    whole(again(), together)
    # What was proved before is proved after, though its record is gone.
    proof = first.prove(kept.index, origin=NAME)
    assert proof.checkpoint == last
    head = verify_proof(proof, kept.leaf_hash, signer().key, keys.verify)
    assert verify_inclusion(kept.index, head.size, kept.leaf_hash, proof.hashes, head.root)
    for journal in (first, second):
        journal.close()
    # A head that was kept early on is found in the log.
    with Journal(again(), signer("example.com/log/2"), verify=keys.verify, held=[early, last]) as later:
        later.append([record()], durable=True)
    assert stored(again())
