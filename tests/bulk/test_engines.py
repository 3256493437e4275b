"""Engines: every piece once, whatever the number of processes; a bad name, a failure and a killed worker are said."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest
from bulk_work import make_endless, make_failing, make_killed, make_once_killed, make_square
from paths import TESTS

from lockgate.bulk.engines import RAY, check_engine, run_pieces
from lockgate.core.errors import LockgateError


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_piece_is_done_once(jobs: int) -> None:
    assert sorted(run_pieces(range(9), make_square, jobs=jobs)) == [(at, at * at) for at in range(9)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_error_of_a_piece_reaches_the_caller(jobs: int) -> None:
    with pytest.raises(LockgateError, match="three is too much"):
        [*run_pieces(range(9), make_failing, jobs=jobs)]


def test_a_killed_process_is_an_error_with_a_hint() -> None:
    with pytest.raises(LockgateError, match="one of the processes was killed") as caught:
        [*run_pieces(range(9), make_killed, jobs=2)]
    assert "--out" in caught.value.hint


def test_a_caller_that_stops_does_not_wait_for_the_pieces_in_work(tmp_path: Path) -> None:
    pieces = run_pieces(range(9), partial(make_endless, str(tmp_path)), jobs=2)
    assert next(pieces) == (0, 0)  # type: ignore[call-overload]
    pieces.close()  # type: ignore[attr-defined]
    until = monotonic() + 60
    while (left := [name for name in os.listdir(tmp_path) if is_running(int(name))]) and monotonic() < until:
        sleep(0.1)
    assert not left


def is_running(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_an_unknown_engine_is_refused() -> None:
    assert [check_engine(name) for name in ("local", "ray", "ray://head:10001")] == ["local", "ray", "ray://head:10001"]
    with pytest.raises(LockgateError, match="unknown engine `spark`"):
        check_engine("spark")


def test_ray_does_every_piece_once_although_a_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    # The workers import the work from where this process does.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS / "support"), *sys.path]))
    try:
        done = sorted(run_pieces(range(40), partial(make_once_killed, str(tmp_path)), engine=RAY, jobs=2))
    finally:
        ray.shutdown()
    assert (tmp_path / "killed").exists()
    assert done == [(at, at * at) for at in range(40)]
