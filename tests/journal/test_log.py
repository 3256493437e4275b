"""Proofs from a log that is kept in pieces: few rows are read, and none of them is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from log_checks import NAME, signer
from merkle_levels import hash_levels

from lockgate.core.errors import JournalDamaged, JournalUnavailable, LockgateError
from lockgate.journal import keys
from lockgate.journal.log import (
    Head,
    LogRow,
    Snapshot,
    check_held_head,
    prove_consistency,
    prove_inclusion,
    tree_at_head,
)
from lockgate.journal.merkle import (
    Frontier,
    Tile,
    leaf_hash,
    range_root,
    verify_consistency,
    verify_inclusion,
)
from lockgate.journal.signed_notes import Checkpoint, sign_note, verify_proof
from lockgate.journal.stores.memory import MemoryLog
from lockgate.journal.stores.sqlite import SqliteLog

# Into the second tile of 256 tiles of 256, and not at the end of anything.
SIZE = 66_000
INDEXES = (0, 255, 256, 32_767, 65_535, 65_536, 65_999)
SIZES = (0, 1, 255, 256, 1_000, 65_535, 65_536, 65_537, SIZE - 1, SIZE)


def head(size: int, root: bytes) -> bytes:
    return sign_note(Checkpoint(NAME, size, root).text, signer().key, signer().sign).to_bytes()


def filled(store: MemoryLog | SqliteLog, leaves: list[bytes]) -> None:
    with store.writing(durable=False) as log:
        shard = log.open_shard(signer().key.vkey)
        frontier = Frontier()
        for start in range(0, len(leaves), 1_000):
            some, tiles = leaves[start : start + 1_000], list[Tile]()
            for leaf in some:
                frontier.append(leaf, tiles)
            assert log.append(shard, [LogRow(leaf, b"x") for leaf in some], frontier.to_bytes(), tiles, b"")
            shard = shard._replace(edge=frontier.to_bytes())
        log.sign(1, Head(frontier.size, head(frontier.size, frontier.root()), 0), frontier.to_bytes())


@pytest.fixture(scope="module")
def leaves() -> list[bytes]:
    return [leaf_hash(at.to_bytes(4, "big")) for at in range(SIZE)]


@pytest.fixture(scope="module")
def roots(leaves: list[bytes]) -> dict[int, bytes]:
    hash_of = hash_levels(leaves)
    return {size: range_root(0, size, hash_of) for size in SIZES}


@pytest.fixture(params=["memory", "sqlite"], scope="module")
def log(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, leaves: list[bytes]
) -> Iterator[Snapshot]:
    store = MemoryLog() if request.param == "memory" else SqliteLog(tmp_path_factory.mktemp("state") / "log.db")
    filled(store, leaves)
    with store.reading() as log:
        yield log
    store.close()


class Counted:
    """Counts the hashes that are read, and can exchange some of them."""

    def __init__(self, log: Snapshot) -> None:
        self.log = log
        self.read = 0
        self.leaf: Callable[[int, bytes], bytes | None] = lambda _, leaf: leaf
        self.tile: Callable[[int, bytes], bytes | None] = lambda _, tile: tile

    def __getattr__(self, name: str) -> object:
        return getattr(self.log, name)

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._changed(self.log.leaves(shard, start, stop), self.leaf)

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._changed(self.log.tiles(shard, level, start, stop), self.tile)

    def _changed(
        self, rows: Iterator[tuple[int, bytes]], change: Callable[[int, bytes], bytes | None]
    ) -> Iterator[tuple[int, bytes]]:
        for at, found in rows:
            self.read += 1
            changed = change(at, found)
            if changed is not None:
                yield at, changed


@pytest.fixture
def counted(log: Snapshot) -> Counted:
    return Counted(log)


@pytest.fixture
def small(leaves: list[bytes]) -> Iterator[Counted]:
    """With three tiles, for what reads every leaf."""
    store = MemoryLog()
    filled(store, leaves[:1_000])
    with store.reading() as log:
        yield Counted(log)


@pytest.mark.parametrize("index", INDEXES)
def test_a_record_is_proved_with_few_reads(counted: Counted, leaves: list[bytes], index: int) -> None:
    proof = prove_inclusion(counted, index, verify=keys.verify)  # type: ignore[arg-type]
    assert counted.read < 1_300
    assert verify_proof(proof, leaves[index], signer().key, keys.verify).size == SIZE


@pytest.mark.parametrize("old", SIZES)
def test_a_tree_is_the_beginning_of_another_with_few_reads(counted: Counted, roots: dict[int, bytes], old: int) -> None:
    for new in SIZES:
        if new >= old:
            counted.read = 0
            proof = prove_consistency(counted, old, new, verify=keys.verify)  # type: ignore[arg-type]
            assert counted.read < 3_000
            assert verify_consistency(old, new, roots[old], roots[new], proof)


def test_a_held_head_is_found_with_few_reads(counted: Counted, roots: dict[int, bytes]) -> None:
    for size in SIZES:
        counted.read = 0
        check_held_head(counted, head(size, roots[size]), keys.verify)  # type: ignore[arg-type]
        assert counted.read < 1_300


def test_the_tree_at_a_held_head_is_found_with_few_reads(counted: Counted, roots: dict[int, bytes]) -> None:
    for size in SIZES:
        counted.read = 0
        shard, tree = tree_at_head(counted, head(size, roots[size]), keys.verify)  # type: ignore[arg-type]
        assert (shard.number, tree.size, tree.root()) == (1, size, roots[size])
        assert counted.read < 1_300


@pytest.mark.parametrize("size", [0, 1, 255, 256, 999, 1_000])
def test_a_held_head_of_other_records_is_not(small: Counted, size: int) -> None:
    for look in (check_held_head, tree_at_head):
        with pytest.raises(JournalDamaged, match="not those of the held head"):
            look(small, head(size, b"\7" * 32), keys.verify)  # type: ignore[arg-type]


def test_a_held_head_beyond_the_newest_is_not(log: Snapshot) -> None:
    with pytest.raises(JournalDamaged, match="records 66000-66004 are missing"):
        check_held_head(log, head(SIZE + 5, b"\7" * 32), keys.verify)
    store = MemoryLog()
    filled(store, [b"a" * 32, b"b" * 32])
    with store.writing(durable=True) as change:
        shard = change.current()
        assert shard is not None
        frontier = Frontier.from_bytes(shard.edge)
        frontier.append(b"c" * 32)
        assert change.append(shard, [LogRow(b"c" * 32, b"x")], frontier.to_bytes(), [], b"")
    # The records are there and their head is gone: only an attacker can have done that.
    with store.reading() as log, pytest.raises(JournalDamaged, match="one of 3 records is held, the log's is of 2"):
        check_held_head(log, head(3, frontier.root()), keys.verify)


def test_a_held_head_by_an_unknown_key_says_nothing(log: Snapshot, roots: dict[int, bytes]) -> None:
    evil = keys.signer_from_seed(NAME, b"\3" * 32)
    note = sign_note(Checkpoint(NAME, 256, roots[256]).text, evil.key, evil.sign).to_bytes()
    with pytest.raises(JournalUnavailable, match="not the log's own"):
        check_held_head(log, note, keys.verify)


@pytest.mark.parametrize(
    "change",
    [lambda _, tile: b"\7" * 32, lambda _, tile: tile[:-1], lambda _, tile: None, lambda at, tile: tile[::-1]],
    ids=["wrong", "short", "missing", "turned"],
)
def test_a_wrong_tile_costs_time_and_not_the_proof(
    small: Counted, leaves: list[bytes], roots: dict[int, bytes], change: Callable[[int, bytes], bytes | None]
) -> None:
    small.tile = change
    proof = prove_inclusion(small, 300, verify=keys.verify)  # type: ignore[arg-type]
    assert small.read >= 1_000
    assert verify_inclusion(300, 1_000, leaves[300], proof.hashes, roots[1_000])
    hashes = prove_consistency(small, 256, 1_000, verify=keys.verify)  # type: ignore[arg-type]
    assert verify_consistency(256, 1_000, roots[256], roots[1_000], hashes)
    check_held_head(small, head(256, roots[256]), keys.verify)  # type: ignore[arg-type]
    _, tree = tree_at_head(small, head(256, roots[256]), keys.verify)  # type: ignore[arg-type]
    assert tree.root() == roots[256]


@pytest.mark.parametrize("change", [lambda _, leaf: b"\7" * 32, lambda _, leaf: None], ids=["wrong", "missing"])
def test_what_does_not_add_up_to_the_signed_head_is_no_proof(
    small: Counted, change: Callable[[int, bytes], bytes | None]
) -> None:
    small.leaf = small.tile = change
    with pytest.raises(JournalDamaged, match="do not add up to the newest head of 1000"):
        prove_inclusion(small, 300, verify=keys.verify)  # type: ignore[arg-type]
    with pytest.raises(JournalDamaged, match="do not add up"):
        prove_consistency(small, 256, 1_000, verify=keys.verify)  # type: ignore[arg-type]


def test_one_leaf_that_was_changed_has_no_proof_and_others_have(small: Counted, leaves: list[bytes]) -> None:
    small.leaf = lambda at, leaf: b"\7" * 32 if at == 300 else leaf
    with pytest.raises(JournalDamaged):
        prove_inclusion(small, 300, verify=keys.verify)  # type: ignore[arg-type]
    proof = prove_inclusion(small, 700, verify=keys.verify)  # type: ignore[arg-type]
    assert verify_proof(proof, leaves[700], signer().key, keys.verify)


def test_what_no_head_covers_is_not_shown(log: Snapshot) -> None:
    for index in (-1, SIZE, 1 << 70):
        with pytest.raises(LockgateError, match="is not under a signed head"):
            prove_inclusion(log, index, verify=keys.verify)
    for old, new in ((-1, 5), (6, 5), (5, SIZE + 1)):
        with pytest.raises(LockgateError, match="no two sizes"):
            prove_consistency(log, old, new, verify=keys.verify)
