"""The bulk bench: its sessions come from a seed, and it notices a result that differs, is missing or is there twice."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

pytest.importorskip("ray")

# The bench is a folder of scripts, not a package.
import pyarrow
from pyarrow import parquet

import bulk


def test_sessions_come_from_the_seed() -> None:
    first = [[*bulk.session_lines(number, 20, 1)] for number in range(200)]
    assert first == [[*bulk.session_lines(number, 20, 1)] for number in range(200)]
    assert first != [[*bulk.session_lines(number, 20, 2)] for number in range(200)]
    events = [[json.loads(line) for line in lines] for lines in first]
    assert {sum("call" in event for event in session) for session in events} == {20}
    poisons = [kind for kind in ("eve", "get.evil", "drop") if any(kind in line for lines in first for line in lines)]
    assert len(poisons) == 3
    assert 20 < sum(any(word in line for line in lines for word in poisons) for lines in first) < 80


def write_part(folder: Path, name: str, calls: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table({"session": ["s"] * len(calls), "call": calls}), folder / name)


def test_what_differs_is_missing_or_is_there_twice_is_noticed(tmp_path: Path) -> None:
    write_part(tmp_path / "one", "a.parquet", [1, 2])
    write_part(tmp_path / "one", "b.parquet", [3])
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    assert bulk.compare_results(tmp_path / "one", tmp_path / "other") == (2, 3, [])
    assert bulk.count_calls_twice(tmp_path / "other") == 0
    write_part(tmp_path / "other", "b.parquet", [2])
    write_part(tmp_path / "other", "c.parquet", [4])
    assert bulk.compare_results(tmp_path / "one", tmp_path / "other").differ == ["b.parquet", "c.parquet"]
    assert bulk.count_calls_twice(tmp_path / "other") == 1


def test_an_audit_that_is_measured_in_the_background_takes_its_ctrl_c(tmp_path: Path) -> None:
    bulk.write_traces(tmp_path / "traces", 2_000, 8, 1)
    audit = bulk.Audit("local", tmp_path / "traces", tmp_path / "out", 2)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stopped = audit.stop_after(1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (stopped.code, stopped.said_so) == (bulk.INTERRUPTED, True)


def test_both_engines_give_the_same_bytes_through_a_ctrl_c_and_a_killed_worker(tmp_path: Path) -> None:
    table, problems = bulk.measure(tmp_path, sessions=800, calls=8, jobs=2, seed=1)
    # The rates of so few calls say nothing.
    assert problems == []
    assert [row.cells["engine"] for row in table.rows] == ["local", "ray"]
    assert "6,400 rows are the same to the last byte" in table.note
    assert "worker 0 was" not in table.note
