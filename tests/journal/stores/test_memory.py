"""The log in memory beyond what every store keeps (`test_stores_contract.py`): its snapshots share their lists."""

from __future__ import annotations

import pytest

from lockgate.core.errors import JournalDamaged
from lockgate.journal.log import Head, LogRow, Shard
from lockgate.journal.merkle import Frontier, leaf_hash
from lockgate.journal.stores.memory import MemoryLog


def append(store: MemoryLog, *bodies: bytes, fails: bool = False) -> None:
    with store.writing(durable=False) as log:
        shard = log.current() or log.open_shard("log+1+key")
        frontier = Frontier.from_bytes(shard.edge)
        rows = [LogRow(leaf_hash(body), body) for body in bodies]
        tiles: list[object] = []
        for row in rows:
            frontier.append(row.leaf, tiles)  # type: ignore[arg-type]
        assert log.append(shard, rows, frontier.to_bytes(), tiles, b"seal")  # type: ignore[arg-type]
        if fails:
            raise ZeroDivisionError


def bodies(store: MemoryLog) -> list[bytes]:
    with store.reading() as log:
        shard = log.current()
        return [] if shard is None else [body for _, body in log.bodies(shard.number, 0, 100)]


def test_two_logs_share_nothing() -> None:
    one, other = MemoryLog(), MemoryLog()
    append(one, b"a")
    assert (bodies(one), bodies(other)) == ([b"a"], [])


def test_what_a_failed_transaction_left_in_the_shared_lists_is_overwritten() -> None:
    store = MemoryLog()
    append(store, b"a")
    with pytest.raises(ZeroDivisionError):
        append(store, b"lost", b"lost too", fails=True)
    assert bodies(store) == [b"a"]
    append(store, b"b")
    assert bodies(store) == [b"a", b"b"]
    with store.reading() as log:
        assert [leaf for _, leaf in log.leaves(1, 0, 9)] == [leaf_hash(b"a"), leaf_hash(b"b")]


def test_a_snapshot_stops_at_its_own_size() -> None:
    store = MemoryLog()
    append(store, b"a")
    with store.reading() as early:
        append(store, b"b")
        assert [index for index, _ in early.leaves(1, 0, 9)] == [0]
    assert len(bodies(store)) == 2


def test_an_edge_that_is_not_the_newest_appends_nothing() -> None:
    store = MemoryLog()
    append(store, b"a")
    with store.writing(durable=True) as log:
        shard = log.current()
        assert shard is not None
        stale = Shard(shard.number, shard.vkey, Frontier().to_bytes(), shard.signed_edge, 0)
        assert not log.append(stale, [LogRow(leaf_hash(b"x"), b"x")], shard.edge, [], b"seal")
    assert bodies(store) == [b"a"]


def test_a_head_must_grow_and_only_what_was_pruned_is_deleted() -> None:
    store = MemoryLog()
    append(store, b"a", b"b")
    with store.writing(durable=True) as log:
        log.sign(1, Head(2, b"note", 1), b"edge")
        with pytest.raises(JournalDamaged, match="larger"):
            log.sign(1, Head(2, b"note", 2), b"edge")
        log.prune(1, 1, b"seal")
        with pytest.raises(JournalDamaged, match="only grows"):
            log.sweep(1, [1])
        log.sweep(1, [0])
    assert bodies(store) == [b"b"]
    with store.reading() as log:
        assert log.newest(1) == Head(2, b"note", 1)
