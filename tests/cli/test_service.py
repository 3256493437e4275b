"""`lockgate service`: what it shows, writes, runs, refuses and undoes, and what it says of a service that answers."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from proving import TOKEN, listening

import lockgate
from lockgate.cli import service
from lockgate.cli.service_units import MARK

Run = Callable[..., Any]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders and rights of POSIX")


@pytest.fixture(autouse=True)
def commands(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What would have been run on a Linux machine; nothing is."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(service, "_run_command", lambda command: ran.append(command) or "")
    monkeypatch.delenv("SUDO_UID", raising=False)
    # A home that is this user's own.
    assert home.parent.stat().st_uid == os.geteuid()
    return ran


def unit_path(home: Path) -> Path:
    return home.parent / "config" / "systemd" / "user" / "lockgate.service"


def test_a_dry_run_shows_everything_and_changes_nothing(run: Run, home: Path, commands: list[Any]) -> None:
    ended = run("service", "install", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert f"write {unit_path(home)}" in ended.out
    assert f'ExecStart="{sys.executable}" "-I" ' in ended.out
    assert "run   systemctl --user enable --now lockgate.service" in ended.out
    said = json.loads(run("service", "install", "--dry-run", "--json", "--system", "macos").out)
    assert said["path"].endswith("/Library/LaunchAgents/lockgate.plist")
    assert said["commands"] == [["launchctl", "bootstrap", f"gui/{os.getuid()}", said["path"]]]
    assert "<Exec>" in json.loads(run("service", "install", "--dry-run", "--json", "--system", "windows").out)["text"]
    assert commands == []
    assert not unit_path(home).exists()


def test_it_is_installed_as_shown_and_undone(run: Run, home: Path, commands: list[Any]) -> None:
    shown = json.loads(run("service", "install", "--dry-run", "--json").out)
    ended = run("service", "install", "--yes")
    assert (ended.code, ended.err) == (0, "")
    path = unit_path(home)
    assert path.read_text() == shown["text"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [list(command) for command in commands] == shown["commands"]
    # Once more is the same.
    assert run("service", "install", "--yes").code == 0
    assert json.loads(run("service", "status", "--json").out)["current"] is True

    commands.clear()
    ended = run("service", "uninstall", "--yes", "--json")
    assert (ended.code, json.loads(ended.out)["ok"]) == (0, True)
    assert not path.exists()
    assert [command[2:] for command in commands] == [("disable", "--now", "lockgate.service"), ("daemon-reload",)]
    assert "nothing to do" in run("service", "uninstall", "--yes").out


def test_the_service_gets_the_folders_of_today_and_the_named_file(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "mine.toml").write_text("[server]\nport = 7801\n")
    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}:{home}")
    monkeypatch.setenv("LOCKGATE_ADAPTER", "none")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    text = json.loads(run("service", "install", "--dry-run", "--json", "--config", "mine.toml").out)["text"]
    told = [line for line in text.splitlines() if line.startswith("Environment=")]
    assert told == [
        f'Environment="HOME={os.environ["HOME"]}"',
        f'Environment="XDG_CONFIG_HOME={os.environ["XDG_CONFIG_HOME"]}"',
        f'Environment="XDG_CACHE_HOME={os.environ["XDG_CACHE_HOME"]}"',
        f'Environment="LOCKGATE_CONFIG={home / "mine.toml"}"',
    ]


@pytest.mark.parametrize("answer", ["n", "y", ""])
def test_a_person_is_asked_with_the_plan_on_the_screen(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: answer)
    ended = run("service", "install", at_terminal=True)
    assert "ExecStart=" in ended.out
    assert ended.code == (0 if answer == "y" else 1)
    assert unit_path(home).exists() is (answer == "y")


def test_without_a_person_it_needs_a_yes(run: Run, home: Path, commands: list[Any]) -> None:
    ended = run("service", "install")
    assert ended.code == 2
    assert "add --yes" in ended.err
    assert commands == []
    assert not unit_path(home).exists()


@pytest.mark.parametrize("action", ["install", "uninstall"])
@pytest.mark.parametrize("odd", ["another's file", "a link"])
def test_a_file_that_is_not_ours_is_left_alone(
    run: Run, home: Path, commands: list[Any], odd: str, action: str
) -> None:
    path = unit_path(home)
    path.parent.mkdir(parents=True)
    target = home / "target"
    target.write_text(f"# {MARK}\n" if odd == "a link" else "[Unit]\n")
    if odd == "a link":
        path.symlink_to(target)
    else:
        path.write_text("[Unit]\n")
    before = target.read_text()
    ended = run("service", action, "--yes")
    assert ended.code == 2
    assert "is not Lockgate's" in ended.err
    assert (path.exists(), target.read_text(), commands) == (True, before, [])


def test_it_is_never_set_up_for_another_user(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, commands: list[Any]
) -> None:
    monkeypatch.setenv("SUDO_UID", str(os.getuid() + 1))
    ended = run("service", "install", "--yes")
    assert ended.code == 2
    assert "another user's rights" in ended.err
    monkeypatch.delenv("SUDO_UID")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert run("service", "install", "--yes").code == 2
    assert commands == []
    assert not unit_path(home).exists()


def test_a_system_that_refuses_is_a_failure_that_says_why(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_run_command", lambda _: "Failed to connect to bus")
    ended = run("service", "install", "--yes")
    assert ended.code == 1
    assert "the system did not take it: Failed to connect to bus" in ended.err
    assert run("service", "uninstall", "--yes").code == 1
    assert not unit_path(home).exists()


def test_odd_options_are_refused(run: Run) -> None:
    assert run("service", "restart").code == 2
    assert run("service", "install", "--system", "macos", "--yes").code == 2
    assert "--dry-run" in run("service", "install", "--system", "macos", "--yes").err


# How it stands


def test_status_says_who_answers(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKGATE_AGENT_TOKEN", TOKEN)
    about = {"info": {"version": lockgate.__version__}}
    with listening({"/healthz": b'{"status":"ok"}', "/openapi.json": json.dumps(about).encode()}) as there:
        (home / "mine.toml").write_text(f"[server]\nport = {there.port}\n")
        ended = run("service", "status", "--config", "mine.toml")
        assert (ended.code, ended.err) == (0, "")
        assert f"answers at {there.url}, version {lockgate.__version__}\n" in ended.out
        assert "not installed" in ended.out
        said = json.loads(run("service", "status", "--json", "--config", "mine.toml").out)
        assert said == {
            "answers": True, "url": there.url, "port": there.port, "version": lockgate.__version__,
            "installed": "", "current": False, "foreign": False,
        }  # fmt: skip
        about["info"]["version"] = "0.0.1"
        there.said["/openapi.json"] = json.dumps(about).encode()
        assert "restart it" in run("service", "status", "--config", "mine.toml").out
        there.said = {"/healthz": b"[" * 100_000}
        ended = run("service", "status", "--config", "mine.toml")
        assert ended.code == 1
        assert "nothing of Lockgate answers" in ended.out
        # Another program in its place is not it, whatever it says.
        there.said, there.token = {"/healthz": b'{"status":"ok"}'}, ""
        ended = run("service", "status", "--config", "mine.toml")
        assert ended.code == 1
        assert f"another program listens at {there.url}" in ended.out
        said = json.loads(run("service", "status", "--json", "--config", "mine.toml").out)
        assert (said["answers"], said["foreign"]) == (False, True)
    assert TOKEN not in "".join(there.heard)


def test_status_says_when_the_installed_file_is_an_old_one(run: Run, home: Path) -> None:
    assert run("service", "install", "--yes").code == 0
    unit_path(home).write_text(unit_path(home).read_text().replace(sys.executable, "/opt/old/python"))
    assert "not what this installation writes" in run("service", "status").out
    assert run("service", "install", "--yes").code == 0
    assert json.loads(run("service", "status", "--json").out)["current"] is True
