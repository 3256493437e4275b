from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from lockgate.runtime import listeners
from lockgate.runtime.listeners import listening_pids


def test_a_process_that_listens_on_a_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # A client has the port of the other end.
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert listening_pids({port}) == {os.getpid()}
            assert listening_pids({client.getsockname()[1]}) == frozenset()
    assert listening_pids({port}) == listening_pids(()) == frozenset()


@pytest.mark.parametrize(("printed", "pids"), [("41\n42\n", {41, 42}), ("", set()), ("lsof: no\n", set())])
def test_elsewhere_lsof_is_asked(printed: str, pids: set[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(listeners, "_TABLES", (str(tmp_path / "tcp"),))
    asked: list[list[str]] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, printed.encode())

    monkeypatch.setattr(subprocess, "run", run)
    assert listening_pids([1234, 8080]) == pids
    assert asked == [["lsof", "-nPt", "-sTCP:LISTEN", "-iTCP:1234", "-iTCP:8080"]]


def test_without_lsof_no_process_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(listeners, "_TABLES", (str(tmp_path / "tcp"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert listening_pids([1234]) == frozenset()
