"""Sessions in a file: what is particular to files, forks and kills."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Lock, Thread
from time import sleep

import pytest
from paths import SUPPORT

from lockgate.core.errors import JournalUnavailable, LockgateError, SessionsUnavailable
from lockgate.journal.stores.sqlite import SqliteLog
from lockgate.sessions.session_entries import EntrySort, SessionEntry, SessionInfo
from lockgate.sessions.stores import sqlite as sessions_sqlite
from lockgate.sessions.stores.sqlite import SqliteSessions

BLOCK = SessionEntry(EntrySort.BLOCK, 1.0, "", b"text", '["tool:x",null,null,[]]')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions.db"


@pytest.fixture(autouse=True)
def _from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers go on from the time at which a file was made."""
    monkeypatch.setattr(sessions_sqlite, "time", lambda: 0.0)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSessions]:
    with closing(SqliteSessions(path)) as store:
        store.create(SessionInfo("s"))
        yield store


def test_only_the_owner_can_read_the_file(store: SqliteSessions, path: Path) -> None:
    store.append((1,), [BLOCK])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for ending in ("", "-wal", "-shm"):
        assert stat.S_IMODE(path.with_name(f"sessions.db{ending}").stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o644, 0o620])
def test_a_file_that_others_can_read_or_write_is_refused(store: SqliteSessions, path: Path, mode: int) -> None:
    store.close()
    path.chmod(mode)
    with pytest.raises(LockgateError, match="by others"):
        SqliteSessions(path).session("s")
    with pytest.raises(LockgateError, match="by others"):
        SqliteSessions(path).append((1,), [BLOCK])


def test_another_program_s_file_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE sessions (x)")
    db.close()
    path.chmod(0o600)
    with pytest.raises(SessionsUnavailable, match="not a file of sessions"):
        SqliteSessions(path).create(SessionInfo("s"))


def test_another_version_is_refused(store: SqliteSessions, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(SessionsUnavailable, match="another version"):
        SqliteSessions(path).session("s")


def test_a_damaged_file_is_refused(store: SqliteSessions, path: Path) -> None:
    store.close()
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(SessionsUnavailable, match="damaged"):
        SqliteSessions(path).session("s")


def test_what_goes_into_a_file_that_was_moved_is_not_acknowledged(store: SqliteSessions, path: Path) -> None:
    store.append((1,), [BLOCK])
    path.rename(path.with_name("moved.db"))
    with pytest.raises(SessionsUnavailable):
        store.append((1,), [BLOCK])
    other = SqliteSessions(path)
    other.create(SessionInfo("t"))
    # It finds the new file from then on.
    assert store.session("t") is not None
    other.close()
    store.close()


def test_a_link_is_refused(store: SqliteSessions, path: Path) -> None:
    store.close()
    link = path.with_name("link.db")
    link.symlink_to(path)
    with pytest.raises(LockgateError, match="link"):
        SqliteSessions(link).session("s")


def test_a_file_in_use_is_waited_for_and_then_refused(
    store: SqliteSessions, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    monkeypatch.setattr(store._file, "busy_s", 0.05)
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionsUnavailable, match="busy"):
            store.append((1,), [BLOCK])
        db.execute("ROLLBACK")
    db.close()
    assert store.append((1,), [BLOCK])


def test_who_waits_in_a_row_waits_no_longer_than_one(store: SqliteSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store._file, "busy_s", 0.05)
    # The one in front waits for another process, and has not given up.
    with store._file.writing, pytest.raises(SessionsUnavailable, match="busy"):
        store.append((1,), [BLOCK])
    monkeypatch.setattr(store._file, "busy_s", 5.0)
    ticks = iter((100.0, 103.0))
    monkeypatch.setattr(sessions_sqlite, "monotonic", lambda: next(ticks))
    store._file.writing = Contended()  # type: ignore[assignment]
    with store._write_transaction() as db:
        assert db.execute("PRAGMA busy_timeout").fetchone() == (2000,)
    store._file.writing = Lock()
    with store._write_transaction() as db:
        assert db.execute("PRAGMA busy_timeout").fetchone() == (5000,)


class Contended:
    """A lock that another thread releases while one waits."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002
        return blocking

    def release(self) -> None:
        pass


@pytest.mark.skipif(os.name != "posix", reason="a file in use cannot be removed")
@pytest.mark.parametrize("endings", [("",), ("", "-wal", "-shm")], ids=["file", "all"])
def test_a_file_that_was_removed_is_made_anew(
    store: SqliteSessions, path: Path, endings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append((1,), [BLOCK])
    for ending in endings:
        path.with_name(f"sessions.db{ending}").unlink()
    with pytest.raises(SessionsUnavailable, match="moved or replaced"):
        store.append((1,), [BLOCK])
    assert store.sessions(limit=9, before=None, q="") == []
    monkeypatch.setattr(sessions_sqlite, "time", lambda: 7.0)
    # Nothing of the old one is in the new one, and no number means something else there.
    assert store.append((1,), [BLOCK]) is None
    store.test_write()
    assert store.create(SessionInfo("t")).number == 7001
    assert [each.id for each in store.sessions(limit=9, before=None, q="")] == ["t"]
    assert store.read_entries((1,), 0) == []


def test_a_probe_that_cannot_write_says_so(store: SqliteSessions) -> None:
    with store._write_transaction() as db:
        db.execute("PRAGMA query_only = ON")
    with pytest.raises(SessionsUnavailable, match="readonly"):
        store.test_write()
    store.test_write()


def test_one_damaged_session_does_not_hide_the_others(store: SqliteSessions) -> None:
    store.create(SessionInfo("t", meta={"cwd": "/x"}))
    with store._write_transaction() as db:
        db.execute("UPDATE sessions SET meta = 'no json' WHERE id = 's'")
    assert [(each.id, each.meta) for each in store.sessions(limit=9, before=None, q="")] == [
        ("t", {"cwd": "/x"}),
        ("s", {}),
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on_by_itself(store: SqliteSessions) -> None:
    store.append((1,), [BLOCK])
    child = os.fork()
    if child == 0:
        done = 1
        try:
            done = 0 if store.append((1,), [BLOCK]) and store.session("s") else 1
        finally:
            os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.append((1,), [BLOCK])
    assert len(store.read_entries((1,), 0)) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_in_the_middle_of_a_read_is_refused(store: SqliteSessions, tmp_path: Path) -> None:
    store.append((1,), [BLOCK])
    # No thread uses it, but the reader may hold a lock that all of SQLite shares.
    log = SqliteLog(tmp_path / "log.db")
    with log.writing(durable=False):
        pass
    reads, goes_on = Event(), Event()

    def read() -> None:
        with store._read_connection():
            reads.set()
            goes_on.wait(60)

    reader = Thread(target=read)
    reader.start()
    assert reads.wait(60)
    child = os.fork()
    if child == 0:
        done = 1
        try:
            store.session("s")
        except SessionsUnavailable:
            with pytest.raises(JournalUnavailable), log.writing(durable=False):
                pass
            done = 0
        finally:
            os._exit(done)
    goes_on.set()
    reader.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.session("s") is not None
    with closing(log), log.writing(durable=False):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_who_is_about_to_be_done_reading(
    store: SqliteSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._file, "quiet_s", 60)
    store.append((1,), [BLOCK])
    reads = Event()

    def read() -> None:
        with store._read_connection():
            reads.set()
            sleep(0.1)

    reader = Thread(target=read)
    reader.start()
    assert reads.wait(60)
    child = os.fork()
    if child == 0:
        done = 1
        try:
            done = 0 if store.session("s") is not None else 1
        finally:
            os._exit(done)
    reader.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_writers_killed_at_random_lose_nothing_that_was_acknowledged(path: Path) -> None:
    command = [sys.executable, str(SUPPORT / "sessions_storm.py"), "sqlite", str(path), "--kills", "4"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["kills"], report["lost"]) == (4, 0)
    assert report["acknowledged"] >= 4


def test_notes_of_an_earlier_version_about_lost_texts_make_the_store_unavailable(path: Path) -> None:
    """Sessions that lost a text would look clean, and their calls would pass."""
    notes = path.with_name("sessions-doubted")
    notes.mkdir(parents=True)
    with closing(SqliteSessions(path)) as store:
        store.create(SessionInfo("s"))
    (notes / "0123").mkdir()
    with closing(SqliteSessions(path)) as store, pytest.raises(SessionsUnavailable, match="sessions-doubted"):
        store.create(SessionInfo("t"))
