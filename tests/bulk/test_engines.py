"""Engines: every piece once, whatever the number of processes; a bad name, a failure and a killed worker are said."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import pytest
from bulk_work import make_endless, make_failing, make_killed, make_once_killed, make_square
from paths import TESTS

import lockgate
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
    # A cluster that others have set up is not used unless it is named.
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    try:
        done = sorted(run_pieces(range(40), partial(make_once_killed, str(tmp_path)), engine=RAY, jobs=2))
    finally:
        ray.shutdown()
    assert (tmp_path / "killed").exists()
    assert done == [(at, at * at) for at in range(40)]


@contextmanager
def running_cluster() -> Iterator[str]:
    """Start Ray on this machine as a cluster of its own, and yield where its clients connect."""
    # Sockets lie below the folder, and their paths have to be short.
    with TemporaryDirectory(prefix="ray") as folder, socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        held.close()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS / "support"), *sys.path])}
        command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus", "2"]
        options = ["--port", "0", "--include-dashboard", "false", "--disable-usage-stats", "--temp-dir", folder]
        address = ["--node-ip-address", "127.0.0.1", "--ray-client-server-port", str(port)]
        head = subprocess.Popen([*command, *options, *address], env=environment, stdout=DEVNULL, stderr=DEVNULL)
        try:
            yield f"ray://127.0.0.1:{port}"
        finally:
            head.terminate()
            head.wait(60)


def test_a_cluster_does_every_piece_once_and_its_errors_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    with running_cluster() as engine:
        try:
            # The first one waits until the cluster answers.
            assert sorted(run_pieces(range(9), make_square, engine=engine)) == [(at, at * at) for at in range(9)]
            with pytest.raises(LockgateError, match=r"^three is too much"):
                [*run_pieces(range(9), make_failing, engine=engine, jobs=2)]
            monkeypatch.setattr(lockgate, "__version__", "0.0.1")
            with pytest.raises(LockgateError, match=r"^a worker has Lockgate .*, and this machine 0.0.1"):
                [*run_pieces(range(9), make_square, engine=engine)]
        finally:
            ray.shutdown()


def test_a_cluster_that_cannot_be_reached_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("ray client connection timeout")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(LockgateError, match="`ray://head:1` cannot be used: ray client connection timeout") as caught:
        [*run_pieces(range(9), make_square, engine="ray://head:1")]
    assert "lockgate[ray]" in caught.value.hint
