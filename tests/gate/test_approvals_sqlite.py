"""What only a file has: other processes, other people, crashes, and whatever else was put in its place."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import lockgate
from lockgate.core.errors import LockgateError
from lockgate.core.ruling import approvals
from lockgate.core.ruling.approvals import ApprovalState, BoundCall, PendingApproval, bind_call
from lockgate.gate import approvals_sqlite as sqlite
from lockgate.gate.approvals_sqlite import SqliteApprovals

posix = pytest.mark.skipif(os.name != "posix", reason="needs users and modes of POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lockgate" / "approvals.db"


@pytest.fixture
def store(path: Path) -> SqliteApprovals:
    return SqliteApprovals(path)


def call(**arguments: object) -> BoundCall:
    return bind_call("s1", "bash", {"command": "ls", **arguments}, "sha256:p", "sha256:c")


def question(number: int = 1, bound: BoundCall | None = None) -> PendingApproval:
    return PendingApproval(f"{number:016x}", bound or call(), 100.0, 400.0)


def granted(store: SqliteApprovals) -> SqliteApprovals:
    store.ask(question())
    assert store.answer(question().id, digest=question().digest, yes=True, who="ana", now_s=150.0).counted
    return store


def everything(store: SqliteApprovals) -> None:
    """Every way of using a store that is there."""
    for use in (
        lambda: store.take(call(), 160.0),
        lambda: store.waiting(160.0),
        lambda: store.every(160.0),
        lambda: store.get(question().id, 160.0),
        lambda: store.find("0000"),
        lambda: store.void("s1", 160.0),
        lambda: store.denies("s1"),
        lambda: store.ask(question(2, call(n=2))),
        lambda: store.answer(question().id, digest=question().digest, yes=True, who="ana", now_s=160.0),
    ):
        with pytest.raises(LockgateError) as refused:
            use()
        assert refused.value.message.isprintable()


def test_nothing_is_made_until_something_is_asked(store: SqliteApprovals, path: Path) -> None:
    assert store.take(call(), 1.0).state is ApprovalState.UNKNOWN
    assert (store.waiting(1.0), store.every(1.0), store.find("abcd"), store.get("0" * 16, 1.0)) == ([], [], [], None)
    assert store.void("s1", 1.0) == 0
    assert not store.denies("s1")
    assert not store.answer("0" * 16, digest="", yes=True, who="ana", now_s=1.0).counted
    assert not path.parent.exists()


@posix
def test_the_file_is_the_owners_alone(store: SqliteApprovals, path: Path) -> None:
    mask = os.umask(0)
    try:
        store.ask(question())
        with sqlite3.connect(path) as other:
            other.execute("SELECT * FROM approvals").fetchall()
            for file in path.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
        other.close()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir() if file.name.endswith(".new")] == []


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_a_file_others_can_write_is_refused(store: SqliteApprovals, path: Path, mode: int) -> None:
    granted(store)
    path.chmod(mode)
    everything(store)
    path.chmod(0o600)
    assert store.take(call(), 160.0).state is ApprovalState.GRANTED


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_others_can_write_is_refused(store: SqliteApprovals, path: Path, mode: int) -> None:
    granted(store)
    path.parent.chmod(mode)
    everything(store)
    path.parent.chmod(0o700)
    assert store.take(call(), 160.0).state is ApprovalState.GRANTED


@posix
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_what_belongs_to_the_file_is_looked_at_too(store: SqliteApprovals, path: Path, ending: str) -> None:
    granted(store)
    beside = path.with_name(path.name + ending)
    beside.touch()
    beside.chmod(0o666)
    everything(store)
    beside.unlink()
    beside.symlink_to(path)
    everything(store)


@posix
def test_a_folder_others_can_write_is_not_used_to_begin_with(store: SqliteApprovals, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o777)
    with pytest.raises(LockgateError, match="can be written by others"):
        store.ask(question())
    assert list(path.parent.iterdir()) == []


@posix
def test_what_belongs_to_another_user_is_refused(store: SqliteApprovals, monkeypatch: pytest.MonkeyPatch) -> None:
    granted(store)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(LockgateError, match="belongs to another user"):
        store.take(call(), 160.0)


def test_a_link_in_its_place_is_refused(store: SqliteApprovals, path: Path, tmp_path: Path) -> None:
    granted(SqliteApprovals(tmp_path / "elsewhere" / "approvals.db"))
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(tmp_path / "elsewhere" / "approvals.db")
    everything(store)


def test_a_link_that_leads_nowhere_is_not_followed(store: SqliteApprovals, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(tmp_path / "made-by-us")
    everything(store)
    assert not (tmp_path / "made-by-us").exists()


def test_a_link_for_its_folder_is_refused(store: SqliteApprovals, path: Path, tmp_path: Path) -> None:
    granted(SqliteApprovals(tmp_path / "elsewhere" / "approvals.db"))
    path.parent.parent.mkdir(parents=True)
    path.parent.symlink_to(tmp_path / "elsewhere")
    everything(store)


def test_a_folder_in_its_place_is_refused(store: SqliteApprovals, path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    everything(store)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_its_place_does_not_hold_us_up(store: SqliteApprovals, path: Path) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    os.mkfifo(path, 0o600)
    everything(store)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"garbage\n" * 1000, b"SQLite format 3\0" + b"\xff" * 4096],
    ids=["empty", "nul", "text", "head"],
)
def test_garbage_in_its_place_is_refused(store: SqliteApprovals, path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    everything(store)
    assert path.read_bytes() == content


def test_a_file_cut_short_is_refused(store: SqliteApprovals, path: Path) -> None:
    granted(store)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(LockgateError, match="damaged"):
        store.take(call(), 160.0)


def test_another_programs_database_is_refused(store: SqliteApprovals, path: Path) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE approvals (id)")
    db.commit()
    db.close()
    path.chmod(0o600)
    everything(store)


def test_a_newer_store_is_refused(store: SqliteApprovals, path: Path) -> None:
    granted(store)
    change(path, "PRAGMA user_version = 3")
    with pytest.raises(LockgateError, match="another version"):
        store.take(call(), 160.0)


def change(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE approvals SET arguments = '{"command":"rm -rf /"}'""",
        "UPDATE approvals SET tool = 'bash2'",
        "UPDATE approvals SET policy_hash = 'x'",
        "UPDATE approvals SET context = 'x'",
        "UPDATE approvals SET matter = 'x'",
        "UPDATE approvals SET id = 'X'",
        "UPDATE approvals SET shown = '{}}'",
        "UPDATE approvals SET shown = x'00ff'",
        "UPDATE approvals SET tool = x'62617368'",
        "UPDATE approvals SET expires_s = 'later'",
        "UPDATE approvals SET expires_s = 9e999",
        "UPDATE approvals SET who = NULL",
        "UPDATE approvals SET who = 7, said_s = 'then'",
    ],
)
def test_a_row_that_is_not_what_was_written_is_refused(store: SqliteApprovals, path: Path, statement: str) -> None:
    granted(store)
    change(path, statement)
    with pytest.raises(LockgateError, match="damaged"):
        store.every(160.0)
    with pytest.raises(LockgateError, match="damaged"):
        store.take(call(), 160.0)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE marks SET who = x'00', said_s = 1",
        "UPDATE marks SET id = x'00'",
        "UPDATE marks SET who = 'a', said_s = 'x'",
    ],
)
def test_a_mark_that_is_not_what_was_written_is_no_yes(store: SqliteApprovals, path: Path, statement: str) -> None:
    granted(store)
    change(path, statement)
    with pytest.raises(LockgateError):
        store.take(call(), 160.0)


def test_a_session_that_no_file_can_hold_has_no_no(store: SqliteApprovals) -> None:
    granted(store)
    assert not store.denies("\ud800")
    assert store.void("\ud800", 160.0) == 0


def test_what_is_kept_of_a_no_is_not_what_it_was_about(store: SqliteApprovals, path: Path) -> None:
    asked = question(1, call(note="canary-3b1f"))
    store.ask(asked)
    store.answer(asked.id, digest=asked.digest, yes=False, who="ana", now_s=150.0, reason="canary-77aa")
    store.take(call(), 200.0 + approvals.KEPT_S)
    assert store.take(asked.bound, 201.0 + approvals.KEPT_S).state is ApprovalState.DENIED
    left = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"canary" not in left


def test_a_row_with_another_digest_serves_neither_call(store: SqliteApprovals, path: Path) -> None:
    granted(store)
    other = call(command="rm -rf /")
    change(path, f"UPDATE approvals SET digest = '{other.digest}'")
    with pytest.raises(LockgateError, match="damaged"):
        store.take(other, 160.0)


def test_a_store_that_stays_locked_is_an_error_and_no_yes(
    store: SqliteApprovals, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(store)
    monkeypatch.setattr(store._file, "busy_s", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LockgateError, match="was busy"):
        store.take(call(), 160.0)
    other.execute("ROLLBACK")
    other.close()
    assert store.take(call(), 160.0).state is ApprovalState.GRANTED


def test_a_change_that_fails_half_way_is_none(store: SqliteApprovals, monkeypatch: pytest.MonkeyPatch) -> None:
    granted(store)

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteApprovals, "_update", broken)
        with pytest.raises(LockgateError, match="disk is full"):
            store.take(call(), 160.0)
    assert store.take(call(), 160.0).state is ApprovalState.GRANTED


@posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() == 0, reason="root can write everywhere")
def test_a_place_that_cannot_be_written_is_an_error(store: SqliteApprovals, path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.parent.chmod(0o500)
    with pytest.raises(LockgateError, match="permission denied"):
        store.ask(question())
    path.parent.parent.chmod(0o700)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_name_no_file_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(LockgateError):
        SqliteApprovals(tmp_path / "state" / name).ask(question())


def test_a_file_put_in_its_place_between_look_and_opening_is_noticed(
    store: SqliteApprovals, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(store)
    forged = SqliteApprovals(path.with_name("forged.db"))
    granted(forged)
    connect = sqlite3.connect

    def swapped(*args: object, **settings: object) -> sqlite3.Connection:
        os.replace(forged.path, path)
        return connect(*args, **settings)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite.sqlite3, "connect", swapped)
    with pytest.raises(LockgateError, match="was replaced"):
        store.take(call(), 160.0)


def test_what_is_forgotten_is_gone_from_the_disk(store: SqliteApprovals, path: Path) -> None:
    store.ask(question(1, call(note="canary-3b1f")))
    assert b"canary-3b1f" in path.read_bytes()
    store.void("s1", 150.0)
    store.ask(PendingApproval(f"{2:016x}", call(), 200.0 + approvals.KEPT_S, 300.0 + approvals.KEPT_S))
    assert b"canary-3b1f" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


# Other processes

_TAKES = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from lockgate.core.ruling.approvals import bind_call
from lockgate.gate.approvals_sqlite import SqliteApprovals
store = SqliteApprovals(Path(sys.argv[1]))
bound = bind_call("s1", "bash", {"command": "ls"}, "sha256:p", "sha256:c")
start = Barrier(4)
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: start.wait(), range(4)))
    print("ready", flush=True)
    sys.stdin.readline()
    print(*pool.map(lambda _: (start.wait(), store.take(bound, 160.0).state)[1], range(4)), flush=True)
"""

_CRASHES = """
import os, signal, sys
from pathlib import Path
from lockgate.core.ruling.approvals import bind_call
from lockgate.gate.approvals_sqlite import SqliteApprovals
store = SqliteApprovals(Path(sys.argv[1]))
assert store.take(bind_call("s1", "bash", {"command": "ls"}, "sha256:p", "sha256:c"), 160.0).state == "granted"
os.kill(os.getpid(), signal.SIGKILL)
"""

_ASKS = """
import sys
from pathlib import Path
from lockgate.core.ruling.approvals import PendingApproval, bind_call
from lockgate.gate.approvals_sqlite import SqliteApprovals
store = SqliteApprovals(Path(sys.argv[1]))
print("ready", flush=True)
number = int(sys.stdin.readline())
bound = bind_call("s1", "bash", {"command": "ls"}, "sha256:p", "sha256:c")
print(store.ask(PendingApproval(f"{number:016x}", bound, 100.0, 400.0)), flush=True)
"""


def start(code: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(lockgate.__file__).parents[1])},
    )


def all_at_once(code: str, path: Path, count: int) -> list[str]:
    """What each of so many processes says, all of them let go at the same moment."""
    processes = [start(code, path) for _ in range(count)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for number, process in enumerate(processes, 1):
        assert process.stdin is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return said


def test_forty_executors_in_ten_processes_one_runs(store: SqliteApprovals, path: Path) -> None:
    granted(store)
    states = " ".join(all_at_once(_TAKES, path, 10)).split()
    assert (states.count("granted"), states.count("used"), len(states)) == (1, 39, 40)


_DENIES = """
import sys
from pathlib import Path
from lockgate.gate.approvals_sqlite import SqliteApprovals
store = SqliteApprovals(Path(sys.argv[1]))
(pending,) = store.waiting(110.0)
print(store.answer(pending.id, digest=pending.digest, yes=False, who="ana", now_s=120.0).counted)
"""


def test_a_no_from_another_process_is_heard_at_once(store: SqliteApprovals, path: Path) -> None:
    store.ask(question())
    assert not store.denies("s1")
    assert start(_DENIES, path).communicate(timeout=60)[0] == "True\n"
    assert store.denies("s1")
    assert store.take(call()._replace(context="sha256:d"), 130.0).state is ApprovalState.DENIED


def test_processes_that_begin_together_make_one_store(path: Path) -> None:
    ids = all_at_once(_ASKS, path, 6)
    assert len(set(ids)) == 1
    assert [each.id for each in SqliteApprovals(path).waiting(110.0)] == [ids[0]]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of POSIX")
def test_a_crash_between_taking_and_running_spends_the_yes(store: SqliteApprovals, path: Path) -> None:
    granted(store)
    process = start(_CRASHES, path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    # At most once: the call that did not run is asked about again rather than run unasked.
    assert store.take(call(), 161.0).state is ApprovalState.USED
    assert store.ask(PendingApproval(f"{2:016x}", call(), 162.0, 400.0)) == f"{2:016x}"
