"""Which records are archived next, and what a file of an archive holds. What `verify` finds is in tests/cli/audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from log_checks import record, signer

from lockgate.core.errors import JournalDamaged
from lockgate.journal import keys
from lockgate.journal.archive import find_due_pieces, open_piece, shards_from_pieces, write_piece
from lockgate.journal.journal import Journal
from lockgate.journal.stores.memory import MemoryLog

pyarrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")

NOW_S = 1_000_000_000.0
DAY_S = 86_400.0


def log_of(*ages_days: float) -> MemoryLog:
    """A log with an opening record, and a signed head after each record of these ages."""
    store = MemoryLog()
    with Journal(store, signer(), verify=keys.verify, clock=lambda: NOW_S) as journal:
        for age in ages_days:
            journal.append([record(at_s=NOW_S - age * DAY_S)], durable=True)
            journal.checkpoint()
    return store


def due(store: MemoryLog, days: float | None, archived: int = 0) -> list[tuple[int, int]]:
    old_ms = None if days is None else int((NOW_S - days * DAY_S) * 1000)
    with store.reading() as log:
        found = list(find_due_pieces(log, {signer().key.name: archived}, old_ms, keys.verify))
    return [(each.first, each.head.size) for each in found]


def test_what_is_old_and_not_yet_archived_is_due_up_to_a_head() -> None:
    store = log_of(40, 35, 10)
    assert due(store, 30) == [(0, 3)]
    assert due(store, None) == [(0, 4)]
    assert due(store, 30, archived=2) == [(2, 3)]
    assert due(store, 30, archived=3) == []
    assert due(store, None, archived=4) == []
    assert due(log_of(10, 40), 30) == []


def test_after_a_deletion_without_an_archive_everything_is_due() -> None:
    store = log_of(40, 35, 10)
    with Journal(store, signer(), verify=keys.verify, clock=lambda: NOW_S) as journal:
        assert journal.prune(retention_days=30) == {signer().key.name: 3}
    assert due(store, 30) == [(0, 5)]
    assert due(store, 30, archived=3) == []


def test_nothing_is_deleted_that_is_not_archived() -> None:
    store = log_of(40, 35, 10)
    with Journal(store, signer(), verify=keys.verify, clock=lambda: NOW_S) as journal:
        assert journal.prune(retention_days=30, archived={}) == {}
        assert journal.prune(retention_days=30, archived={"another": 3}) == {}
        assert journal.prune(retention_days=30, archived={signer().key.name: 2}) == {signer().key.name: 2}
        with store.reading() as log:
            assert [at for at, _ in log.bodies(1, 0, 4)] == [0, 2, 3]


def test_a_file_holds_the_exact_rows_and_the_head(tmp_path: Path) -> None:
    store = log_of(40, 35, 10)
    with store.reading() as log:
        (piece,) = find_due_pieces(log, {}, None, keys.verify)
        path = write_piece(log, piece, tmp_path)
        bodies = dict(log.bodies(1, 0, 4))
    assert [each.name for each in tmp_path.iterdir()] == ["0001-000000000000.parquet"]
    found = open_piece(path)
    assert (found.note, found.head.size, found.vkey) == (piece.head.note, 4, signer().key.vkey)
    (shard,) = shards_from_pieces([found])
    assert {row.at: row.data for row in shard.rows} == bodies


def test_a_file_without_a_head_is_damage(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"index": [1]}), tmp_path / "x.parquet")
    with pytest.raises(JournalDamaged, match="holds no signed head"):
        open_piece(tmp_path / "x.parquet")
