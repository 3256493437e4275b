"""`lockgate doctor --fleet` as far as it goes without a server; `tests/hosts/test_fleet.py` has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.cli.doctor import CheckState
from lockgate.cli.doctor.fleet import MOST_SKEW_S, check_skew

Run = Callable[..., Any]
CANARY = "canary-7f3a"


@pytest.fixture
def configure(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(text: str) -> None:
        path = home / "lockgate.toml"
        path.write_text(text)
        monkeypatch.setenv("LOCKGATE_CONFIG", str(path))

    for name in ("ABUSE_STORE", "ABUSE_STORE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return write


def checks_of(ended: Any) -> dict[str, dict[str, str]]:
    said = json.loads(ended.out)
    assert said["ok"] is (ended.code == 0)
    return {check["name"]: check for check in said["checks"]}


def test_one_machine_by_itself_is_no_fleet(run: Run, configure: Callable[[str], None]) -> None:
    configure("")
    ended = run("doctor", "--fleet", "--json")
    assert ended.code == 1
    found = checks_of(ended)
    assert found["database"]["state"] == "fail"
    assert "`server.database` is not set" in found["database"]["said"]
    assert "help teams" in found["database"]["hint"]
    assert found["log"]["state"] == "warn"
    assert found["strikes"]["state"] == "skip"


def test_a_database_that_does_not_answer_fails_and_no_password_is_said(
    run: Run, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    place = "postgresql://lockgate@127.0.0.1:1/none"
    monkeypatch.setenv("PGPASSWORD", CANARY)
    monkeypatch.setenv("ABUSE_STORE", "valkey://127.0.0.1:1/0")
    monkeypatch.setenv("ABUSE_STORE_PASSWORD", CANARY)
    configure(f'[server]\ndatabase = "{place}"\n[security.audit]\nlog_path = "{place}"\n')
    ended = run("doctor", "--fleet", "--json")
    assert ended.code == 1
    found = checks_of(ended)
    # One database is looked at once, though two settings name it.
    assert [*found] == ["database", "log", "strikes"]
    assert {check["state"] for check in found.values()} == {"fail"}
    assert "PGPASSFILE" in found["database"]["hint"]
    assert CANARY not in ended.out + ended.err


@pytest.mark.parametrize(
    ("ahead_s", "state", "said"),
    [
        (0.1, CheckState.OK, "this machine's is 0.1 s ahead of theirs"),
        (-MOST_SKEW_S - 1, CheckState.WARN, "this machine's is 3.0 s behind theirs"),
    ],
)
def test_a_clock_that_is_off_is_a_warning(ahead_s: float, state: CheckState, said: str) -> None:
    found = check_skew("clock", ahead_s, "theirs")
    assert (found.state, found.said, bool(found.hint)) == (state, said, state is CheckState.WARN)
