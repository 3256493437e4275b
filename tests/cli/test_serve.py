"""`lockgate serve` and `lockgate token` as far as they do not serve: what is refused, and what is printed."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from proving import TOKEN, listening

from lockgate import assemble
from lockgate.claude_code.service_start import UNWATCHED_NAME
from lockgate.cli import serve
from lockgate.cli.main import main
from lockgate.cli.serve import _refuse_outside
from lockgate.core.errors import InvalidConfig
from lockgate.gate.gate import Gate
from lockgate.sessions import Host
from lockgate.sessions.stores.sqlite import SqliteSessions


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCKGATE_CONFIG", "LOCKGATE_TOKEN", "LOCKGATE_AGENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7", "example.com"])
def test_another_address_is_refused_without_a_token_or_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    assert main(["serve", "--host", address]) == 2
    assert "no token was set" in capsys.readouterr().err
    monkeypatch.setenv("LOCKGATE_TOKEN", "t" * 24)
    assert main(["serve", "--host", address]) == 2
    assert "allowed_hosts" in capsys.readouterr().err
    assert not (tmp_path / "lockgate").exists()


def test_what_may_be_listened_on() -> None:
    _refuse_outside("0.0.0.0", ("lockgate.example.com",), True)
    _refuse_outside("10.0.0.5", ("10.0.0.5:7717",), True)
    _refuse_outside("fd00::1", ("[fd00::1]",), True)
    for address, allowed in (("10.0.0.5", ("10.0.0.6",)), ("10.0.0.5", ()), ("0.0.0.0", ())):
        with pytest.raises(InvalidConfig, match="allowed_hosts"):
            _refuse_outside(address, allowed, True)


def test_odd_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--port", "70000"], ["--workers", "0"], ["--workers", "x"], ["--connections", "0"], ["now"]):
        assert main(["serve", *options]) == 2
    assert "lockgate: error" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "listens", "each"),
    [([], "127.0.0.1", 1000), ([], "192.0.2.7", None), (["--connections-each", "900"], "192.0.2.7", 900)],
)
def test_a_load_balancer_may_have_more_than_a_quarter_of_the_connections(
    options: list[str], listens: str, each: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    parser = argparse.ArgumentParser()
    serve.describe(parser)  # type: ignore[arg-type]
    plan = serve._make_plan(parser.parse_args(["--port", "0", *options]))
    with plan.listening:
        monkeypatch.setattr(serve, "make_server", lambda _, **more: given.update(more) or Mock())
        monkeypatch.setattr(serve, "is_loopback", lambda _: listens == "127.0.0.1")
        serve._make_server(plan, Mock(), lambda: None)
    assert (given["connections"], given["each"]) == (1000, each)


@pytest.mark.parametrize(
    ("token", "said"),
    [(TOKEN, "a lockgate serve runs on `127.0.0.1` port"), ("", "address already in use\n")],
    ids=["ours", "another program's"],
)
def test_a_port_that_is_taken_says_by_whom(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, token: str, said: str
) -> None:
    monkeypatch.setenv("LOCKGATE_AGENT_TOKEN", TOKEN)
    # Any program can say this; only ours can prove it.
    with listening({"/healthz": b'{"status":"ok"}'}, token) as there:
        assert main(["serve", "--port", str(there.port)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "while attempting" not in err
    assert TOKEN not in "".join(there.heard)


def test_another_address_of_loopback_is_answered_to() -> None:
    parser = argparse.ArgumentParser()
    serve.describe(parser)  # type: ignore[arg-type]
    plan = serve._make_plan(parser.parse_args(["--host", "127.0.0.2", "--port", "0"]))
    with plan.listening:
        port = plan.listening.getsockname()[1]
        assert plan.url == f"http://127.0.0.2:{port}"
        assert f"127.0.0.2:{port}" in plan.host_check.hosts


def test_a_session_that_went_unwatched_has_an_unknown_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What its agent read while the service was down is in no store."""
    state = tmp_path / "lockgate"
    state.mkdir(mode=0o700)
    host = Host(Gate(), SqliteSessions(state / "sessions.db"))
    for id, parent in (("one", ""), ("two", ""), ("two/agent", "two"), ("three", "")):
        host.open(id, goal="Look.", host="claude-code", parent=parent)
    notes = state / UNWATCHED_NAME
    notes.touch(mode=0o600)
    noted = ("one", "two/agent", "new", "\n")
    notes.write_text("".join(json.dumps({"session": id, "at": 1_794_744_000.0}) + "\n" for id in noted))
    settings = assemble.settings_from_environment()
    serve._take_unwatched(settings)
    known = {}
    for id in ("one", "two", "two/agent", "three"):
        info = host.session(id)
        assert info is not None
        known[id] = info.context_known
    begun = host.session("new")
    host.close()
    # It is as old as its first call: `lockgate reconcile` finds the calls that ran without a ruling.
    assert begun is not None
    assert (begun.created_at, begun.context_known, begun.host) == (1_794_744_000.0, False, "claude-code")
    assert known == {"one": False, "two": False, "two/agent": False, "three": True}
    assert "went unwatched" in capsys.readouterr().err
    assert not notes.exists()
    serve._take_unwatched(settings)
    assert capsys.readouterr().err == ""


def test_garbage_is_collected_rarely_only_while_it_serves() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with serve._rare_garbage_collection():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers need fork")
@pytest.mark.parametrize("says_ready", [True, False])
def test_workers_that_keep_dying_are_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, says_ready: bool
) -> None:
    started = []

    def start(_plan: object, _folder: object, workers: dict[int, serve._WorkerProcess], _alive: object) -> None:
        read, write = os.pipe()
        if says_ready:
            os.write(write, b"1")
        os.close(write)
        process = subprocess.Popen([sys.executable, "-S", "-c", ""] if says_ready else ["/bin/sh", "-c", "kill -9 $$"])
        # Waited for by `_watch`, under its own number.
        process.returncode = 0
        started.append(process.pid)
        workers[read] = serve._WorkerProcess(process.pid, monotonic())

    monkeypatch.setattr(serve, "_start_worker", start)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(serve, "_YOUNG_S", 3_600.0)
    workers: dict[int, serve._WorkerProcess] = {}
    start(None, None, workers, None)
    announced: list[int] = []
    ended = serve._watch_workers(None, tmp_path, workers, (0, 0), lambda: announced.append(1))  # type: ignore[arg-type]
    assert ended == 70
    assert len(started) == serve._MOST_YOUNG + 1
    assert announced == [1] * says_ready
    assert "workers keep dying" in caplog.text


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal here")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hangup_does_not_end_a_service_that_is_getting_ready(tmp_path: Path, workers: str) -> None:
    hung_up = """
import signal, sys
from lockgate.cli import serve
from lockgate.cli.main import main

def hang_up(*_, **__):
    signal.raise_signal(signal.SIGHUP)
    return 0

for name in ("_take_unwatched", "_serve_until_signal", "_supervise_workers"):
    setattr(serve, name, hang_up)
raise SystemExit(main(["serve", "--port", "0", "--workers", sys.argv[1]]))
"""
    told = [sys.executable, "-c", hung_up, workers]
    done = subprocess.run(told, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
