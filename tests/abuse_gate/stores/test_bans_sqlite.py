from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lockgate.abuse_gate.stores import bans_sqlite as abuse_bans
from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
from lockgate.core.errors import LockgateError
from lockgate.core.requests.strikes import PRINCIPAL, LadderSettings, SharedRecord, Subject

SETTINGS = LadderSettings()
NOW = 1_800_000_000.0
ANN, BOB = Subject(PRINCIPAL, "a" * 32), Subject(PRINCIPAL, "b" * 32)
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "bans.db"


@pytest.fixture
def bans(path: Path) -> SqliteBans:
    return SqliteBans(path, SETTINGS)


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT key, locked_until, quarantined_until FROM bans ORDER BY number").fetchall()


def change(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(sql, values)


def test_a_ban_is_there_after_a_restart_and_for_other_workers(path: Path, bans: SqliteBans) -> None:
    bans.keep([(ANN, SharedRecord((), 900, 3600)), (BOB, SharedRecord((), 900, 0))], NOW)
    page = SqliteBans(path, SETTINGS).since(0, NOW + 100)
    assert dict(page.bans) == {ANN: SharedRecord((), 800, 3500), BOB: SharedRecord((), 800, 0)}


def test_what_was_killed_right_after_keeping_is_kept(path: Path, bans: SqliteBans) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom lockgate.core.requests.strikes import *\n"
        "from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans\n"
        "bans = SqliteBans(Path(sys.argv[1]), LadderSettings())\n"
        f"bans.keep([(Subject('principal', 'c' * 32), SharedRecord((), 900, 0))], {NOW})\nos._exit(9)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code, str(path)], env=environ, timeout=60).returncode == 9
    assert [each.key for each, _ in bans.since(0, NOW).bans] == ["c" * 32]


def test_only_what_is_new_is_handed_out(bans: SqliteBans) -> None:
    bans.keep([(ANN, SharedRecord((), 900, 0))], NOW)
    first = bans.since(0, NOW)
    assert bans.since(first.number, NOW).bans == ()
    bans.keep([(BOB, SharedRecord((), 900, 0))], NOW)
    bans.keep([(ANN, SharedRecord((), 0, 3600))], NOW)
    assert dict(bans.since(first.number, NOW).bans) == {BOB: SharedRecord((), 900, 0), ANN: SharedRecord((), 900, 3600)}


def test_many_are_handed_out_in_pages(bans: SqliteBans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abuse_bans, "PAGE", 10)
    banned = [(Subject(PRINCIPAL, f"{number:032x}"), SharedRecord((), 900, 0)) for number in range(25)]
    bans.keep(banned, NOW)
    seen, number, more = list(bans.since(0, NOW).bans), bans.since(0, NOW).number, True
    while more:
        page, number, more = bans.since(number, NOW)
        seen += page
    assert seen == banned


def test_a_shorter_ban_changes_nothing(path: Path, bans: SqliteBans) -> None:
    bans.keep([(ANN, SharedRecord((), 900, 3600))], NOW)
    before = rows(path)
    for known in (SharedRecord(), SharedRecord((), 1, 1), SharedRecord((), 900.9, 3600)):
        bans.keep([(ANN, known)], NOW)
    assert rows(path) == before


def test_an_ended_ban_is_not_handed_out_and_soon_gone(path: Path, bans: SqliteBans) -> None:
    bans.keep([(ANN, SharedRecord((), 900, 0))], NOW)
    assert bans.since(0, NOW + 900).bans == ()
    # A clock that was ahead for an hour has erased nothing.
    bans.keep([(BOB, SharedRecord((), 900, 0))], NOW + 3600)
    assert dict(bans.since(0, NOW).bans)[ANN] == SharedRecord((), 900, 0)
    bans.keep([(BOB, SharedRecord((), 900, 0))], NOW + 90_000)
    assert [key for key, *_ in rows(path)] == [BOB.key]


def test_a_clock_that_was_put_back_makes_no_ban_longer_than_its_cooldown(bans: SqliteBans) -> None:
    """B8: a day back made a client wait for thirty hours."""
    bans.keep([(ANN, SharedRecord((), 900, 3600))], NOW)
    assert dict(bans.since(0, NOW - 86_400).bans) == {ANN: SharedRecord((), 900, 3600)}


def test_the_file_does_not_grow_without_end(path: Path) -> None:
    bans = SqliteBans(path, LadderSettings(max_subjects=5))
    for number in range(30):
        bans.keep([(Subject(PRINCIPAL, f"{number:032x}"), SharedRecord((), 0, 100 + number))], NOW)
    assert [int(str(key), 16) for key, *_ in rows(path)] == [25, 26, 27, 28, 29]


def test_a_file_in_its_place_is_read_from_its_beginning(path: Path, bans: SqliteBans) -> None:
    for _ in range(3):
        bans.keep([(ANN, SharedRecord((), 900, 0))], NOW)
        bans.keep([(ANN, SharedRecord((), 0, 3600))], NOW)
    number = bans.since(0, NOW).number
    path.unlink()
    SqliteBans(path, SETTINGS).keep([(BOB, SharedRecord((), 900, 0))], NOW)
    assert [each for each, _ in bans.since(number, NOW).bans] == [BOB]


@pytest.mark.parametrize("until", [1e300, float("inf")])
def test_no_hand_can_write_a_ban_for_ever(path: Path, bans: SqliteBans, until: float) -> None:
    change(path, "INSERT INTO bans (key, locked_until, quarantined_until) VALUES (?, ?, ?)", ANN.key, until, until)
    assert dict(bans.since(0, NOW).bans) == {ANN: SharedRecord((), 900, 3600)}


@pytest.mark.parametrize(
    "row", [("x" * 32, 1.0, 1.0), ("a" * 31, 1.0, 1.0), ("A" * 32, 1.0, 1.0), ("a" * 32, "soon", 1.0), (b"a", 1.0, 1.0)]
)
def test_a_row_that_is_no_ban_is_damage_and_not_skipped(path: Path, bans: SqliteBans, row: tuple[object, ...]) -> None:
    change(path, "INSERT INTO bans (key, locked_until, quarantined_until) VALUES (?, ?, ?)", *row)
    with pytest.raises(LockgateError, match="damaged") as refused:
        bans.since(0, NOW)
    assert refused.value.hint


def test_other_files_are_refused_at_the_start(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"something else entirely" * 100)
    path.chmod(0o600)
    with pytest.raises(LockgateError, match="damaged, or not a file of bans"):
        SqliteBans(path, SETTINGS)
    path.unlink()
    change(path, "CREATE TABLE bans (number)")
    path.chmod(0o600)
    with pytest.raises(LockgateError, match="not a file of bans"):
        SqliteBans(path, SETTINGS)


def test_a_place_that_cannot_be_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LockgateError, match="is no folder"):
        SqliteBans(tmp_path / "file" / "bans.db", SETTINGS)
    with pytest.raises(LockgateError, match="cannot be made"):
        SqliteBans(Path("a\0b"), SETTINGS)


@posix
@pytest.mark.parametrize("loose", ["state", "state/bans.db"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, bans: SqliteBans, loose: str, mode: int) -> None:
    place = tmp_path / loose
    place.chmod(place.stat().st_mode | mode)
    with pytest.raises(LockgateError, match="can be written by others") as refused:
        bans.since(0, NOW)
    assert "chmod" in refused.value.hint


@posix
def test_a_link_in_its_place_is_refused(tmp_path: Path, path: Path, bans: SqliteBans) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))
    with pytest.raises(LockgateError, match="is no file, or a link"):
        bans.keep([(ANN, SharedRecord((), 900, 0))], NOW)


def test_a_file_that_is_gone_is_an_error_and_not_an_empty_one(path: Path, bans: SqliteBans) -> None:
    path.unlink()
    with pytest.raises(LockgateError, match="is not there"):
        bans.since(0, NOW)


def test_it_holds_no_names_and_no_addresses(path: Path, bans: SqliteBans) -> None:
    bans.keep([(ANN, SharedRecord((), 900, 3600))], NOW)
    assert rows(path) == [(ANN.key, NOW + 900, NOW + 3600)]
