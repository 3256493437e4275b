"""The log's file: its owner and mode, and a file that is moved, replaced, rolled back or changed."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from log_checks import acknowledged, record, signer, whole

from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.signed_notes import Checkpoint, sign_note
from lockgate.journal.stores import sqlite as log_sqlite
from lockgate.journal.stores.read_only import LogFile
from lockgate.journal.stores.sqlite import SqliteLog
from lockgate.runtime import sqlite_file

posix = pytest.mark.skipif(os.name != "posix", reason="needs the owners and modes of POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lockgate" / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[Journal]:
    with Journal(SqliteLog(path), signer(), verify=keys.verify) as log:
        yield log


def opened(path: Path, *held: bytes) -> Journal:
    return Journal(SqliteLog(path), signer(), verify=keys.verify, held=held)


def put(path: Path, count: int = 3) -> bytes:
    """A log with so many records and everything signed; its last head."""
    with opened(path) as log:
        for _ in range(count):
            log.append([record()], durable=False)
        return log.checkpoint()


def change(path: Path, *statements: str) -> None:
    """Change the file as an attacker with a database editor would, without the triggers."""
    db = sqlite3.connect(path, isolation_level=None)
    triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        db.execute(statement)
    for _, made in triggers:
        with suppress(sqlite3.OperationalError):
            db.execute(made)
    db.close()


def test_nothing_is_made_until_something_is_written(log: Journal, path: Path) -> None:
    with pytest.raises(JournalUnavailable), log.store.reading():
        pass
    assert not path.parent.exists()


@posix
def test_the_files_are_the_owners_alone(log: Journal, path: Path) -> None:
    mask = os.umask(0)
    try:
        log.append([record()], durable=True)
        assert {file.name for file in path.parent.iterdir()} == {"log.db", "log.db-wal", "log.db-shm"}
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_or_folder_others_can_write_is_refused(path: Path, mode: int) -> None:
    put(path)
    path.chmod(mode)
    with pytest.raises(JournalUnavailable, match="can be written by others"):
        opened(path).append([record()], durable=True)
    path.chmod(0o600)
    path.parent.chmod(mode | 0o100)
    with pytest.raises(JournalUnavailable, match="can be written by others"):
        opened(path).append([record()], durable=True)
    path.parent.chmod(0o700)
    put(path)


@posix
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_what_belongs_to_the_file_is_looked_at_too(path: Path, ending: str) -> None:
    put(path)
    beside = path.with_name(path.name + ending)
    beside.symlink_to(path)
    with pytest.raises(JournalUnavailable, match="a link"):
        opened(path).append([record()], durable=True)


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_file_is_refused(path: Path, tmp_path: Path, what: str) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    if what == "link":
        put(tmp_path / "elsewhere" / "log.db")
        path.symlink_to(tmp_path / "elsewhere" / "log.db")
    elif what == "folder":
        path.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path, 0o600)
    else:
        pytest.skip("needs named pipes")
    with pytest.raises(JournalUnavailable, match="no file, or a link"):
        opened(path).append([record()], durable=True)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"garbage\n" * 1000, b"SQLite format 3\0" + b"\xff" * 4096],
    ids=["empty", "nul", "text", "head"],
)
def test_garbage_in_its_place_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    for _ in range(2):
        with pytest.raises(JournalDamaged):
            opened(path).append([record()], durable=True)
    assert path.read_bytes() == content


def test_another_programs_database_and_another_version_are_refused(path: Path) -> None:
    put(path)
    change(path, "PRAGMA user_version = 3")
    with pytest.raises(JournalUnavailable, match="another version"):
        opened(path).append([record()], durable=True)
    change(path, "PRAGMA application_id = 7")
    with pytest.raises(JournalDamaged, match="not a log"):
        opened(path).append([record()], durable=True)


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "MEMORY", "OFF"])
def test_a_file_put_into_another_mode_is_not_written_to(path: Path, mode: str) -> None:
    put(path)
    change(path, "PRAGMA journal_mode = DELETE", f"PRAGMA journal_mode = {mode}")
    with pytest.raises(JournalDamaged, match="mode"):
        opened(path).append([record()], durable=True)


# While it is in use


@posix
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_file_that_is_gone_from_its_place_is_noticed_before_anything_is_acknowledged(
    log: Journal, path: Path, tmp_path: Path, ending: str, how: str, monkeypatch: pytest.MonkeyPatch, *, quiet: bool
) -> None:
    store = log.store
    assert isinstance(store, SqliteLog)
    # So soon after the files were made, the folder's word is not enough.
    monkeypatch.setattr(sqlite_file, "_TICK_NS", 1 << 62)
    log.append([record()], durable=True)
    assert not store._file._quiet
    if quiet:
        monkeypatch.setattr(sqlite_file, "_TICK_NS", 50_000_000)
        ends_s = time.monotonic() + 10
        while not store._file._quiet and time.monotonic() < ends_s:
            log.append([record()], durable=False)
        assert store._file._quiet
    file = path.with_name(path.name + ending)
    if how == "replaced":
        copy = tmp_path / "copy"
        shutil.copy(file, copy)
        os.replace(copy, file)
    elif how == "removed":
        file.unlink()
    else:
        file.rename(tmp_path / "moved")
        length = (tmp_path / "moved").stat().st_size
    for _ in range(2):
        with pytest.raises(JournalDamaged, match="moved or replaced"):
            log.append([record()], durable=True)
    if how == "moved":
        assert (tmp_path / "moved").stat().st_size == length


@posix
def test_a_file_that_is_moved_during_the_commit_is_noticed(
    log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([record()], durable=True)
    real = log_sqlite.SqliteLogWriter.append

    def moves(self: object, *args: object) -> bool:
        path.rename(path.with_name("moved"))
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(log_sqlite.SqliteLogWriter, "append", moves)
    with pytest.raises(JournalDamaged, match="moved or replaced"):
        log.append([record()], durable=True)


@posix
def test_a_process_that_lost_its_file_does_not_remove_the_new_ones_beside_it(path: Path, tmp_path: Path) -> None:
    """SQLite removes a write-ahead log by its name: that of the file which is there by then."""
    log = opened(path)
    log.append([record()], durable=True)
    for file in list(path.parent.iterdir()):
        file.rename(tmp_path / file.name)
    other = opened(path)
    (receipt,) = other.append([record()], durable=True)
    with pytest.raises(JournalDamaged):
        log.append([record()], durable=True)
    log.close()
    del log
    gc.collect()
    whole(SqliteLog(path), acknowledged(receipt))
    assert path.with_name("log.db-wal").exists()
    other.close()


def appended_and_signed(log: Journal) -> None:
    log.append([record()], durable=True)
    log.checkpoint()


def copied(path: Path, place: Path) -> Path:
    """A copy as a back-up makes it, of the file in a moment when all is in it."""
    place.mkdir(mode=0o700)
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return Path(shutil.copy(path, place / "log.db"))


def test_a_log_rolled_back_while_it_is_open_is_refused(log: Journal, path: Path, tmp_path: Path) -> None:
    """The same file, with an older content: its name leads to where it always did."""
    log.append([record()], durable=True)
    log.checkpoint()
    old = copied(path, tmp_path / "old").read_bytes()
    for _ in range(20):
        log.append([record()], durable=True)
    copied(path, tmp_path / "new")
    path.write_bytes(old)
    for _ in range(2):
        with pytest.raises(JournalDamaged):
            appended_and_signed(log)


def test_a_log_rolled_back_while_it_is_closed_is_found_by_a_held_head(path: Path, tmp_path: Path) -> None:
    put(path)
    old = copied(path, tmp_path / "old")
    held = put(path, 5)
    os.replace(old, path)
    missing = "records 4-8 are missing: the held head says 9"
    with opened(path, held) as log, pytest.raises(JournalDamaged, match=missing):
        log.append([record()], durable=True)
    # Longer again, with other records.
    put(path, 9)
    with opened(path, held) as log, pytest.raises(JournalDamaged, match="not those of the held head"):
        log.append([record()], durable=True)


def test_a_log_that_is_gone_is_found_by_a_held_head(path: Path) -> None:
    held = put(path)
    path.unlink()
    with opened(path, held) as log, pytest.raises(JournalDamaged, match="the log is gone"):
        log.append([record()], durable=True)


def test_a_held_head_that_is_in_the_log_is_fine(path: Path) -> None:
    held = [put(path, 2), put(path, 3)]
    with opened(path, *held) as log:
        log.append([record()], durable=True)
        assert whole(log.store) == 7


# Changed by another program than the journal

EVIL = keys.signer_from_seed("example.com/log", b"\7" * 32)
FORGED = sign_note(Checkpoint("example.com/log", 4, b"\0" * 32).text, EVIL.key, EVIL.sign).to_bytes().hex()
SIGNED = "(SELECT max(size) FROM heads)"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM heads",
        f"DELETE FROM heads WHERE size = {SIGNED}",
        "DELETE FROM leaves",
        "DELETE FROM leaves WHERE number = 5",
        "DELETE FROM bodies WHERE number = 5",
        "UPDATE bodies SET body = body || ' ' WHERE number = 5",
        "UPDATE bodies SET number = 9 WHERE number = 5",
        "UPDATE bodies SET body = 'text' WHERE number = 5",
        "UPDATE leaves SET hash = zeroblob(32) WHERE number = 5",
        "UPDATE shards SET edge = signed_edge",
        "UPDATE shards SET edge = 'x'",
        "UPDATE shards SET edge = x'00'",
        "UPDATE shards SET signed_edge = edge",
        "UPDATE shards SET vkey = 7",
        f"UPDATE shards SET vkey = '{EVIL.key.vkey}'",
        f"UPDATE heads SET note = x'{FORGED}' WHERE size = {SIGNED}",
        "UPDATE heads SET size = size + 100",
        "UPDATE heads SET note = 'text'",
        "INSERT INTO leaves VALUES (1, 7, zeroblob(32))",
        "INSERT INTO shards SELECT 2, 'x', edge, edge, 0, seal FROM shards",
        "UPDATE shards SET pruned = 3",
        "UPDATE shards SET seal = x'00'",
        "UPDATE shards SET seal = 'text'",
        "DELETE FROM shards",
        "DROP TABLE heads",
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_a_log_that_was_changed_since_its_head_is_not_signed(path: Path, statement: str, *, running: bool) -> None:
    put(path)
    log = opened(path)
    # Three more that no head covers: the process was killed before it could sign.
    log._request_head = lambda count: None  # type: ignore[method-assign]
    log.append([record(), record(), record()], durable=True)
    with log.store.reading() as view:
        before = list(view.heads(1))
    if not running:
        log.store.close()
        log = opened(path)
    change(path, statement)
    with pytest.raises(JournalUnavailable):
        log.checkpoint()
    with pytest.raises(JournalUnavailable):
        appended_and_signed(log)
    log.store.close()
    db = sqlite3.connect(path)
    if "heads" not in statement:
        assert db.execute("SELECT count(*) FROM heads").fetchone()[0] == len(before)
    db.close()


PLANTED = (
    "CREATE TRIGGER t BEFORE INSERT ON bodies BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER t AFTER INSERT ON leaves BEGIN DELETE FROM bodies WHERE number = 1; END",
    "CREATE TABLE mine (x)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE INDEX mine ON heads (at_ms)",
    "DROP TRIGGER bodies_stay",
)


@pytest.mark.parametrize("statement", PLANTED)
def test_a_file_that_holds_more_or_less_than_was_made_is_refused(path: Path, statement: str) -> None:
    put(path)
    with LogFile(path).reading() as view:
        assert view.oddities == []
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(statement)
    db.close()
    with pytest.raises(JournalDamaged, match=r"not ours|lost a part"):
        opened(path).append([record()], durable=True)
    with LogFile(path).reading() as view:
        assert len(view.oddities) == 1


NAMED_AS_SQLITES = (
    (
        "trigger",
        "sqlite_own",
        "bodies",
        "CREATE TRIGGER sqlite_own AFTER INSERT ON bodies BEGIN REPLACE INTO bodies VALUES (1, NEW.number, x'00'); END",
    ),
    (
        "trigger",
        "sqlite_stat1",
        "heads",
        "CREATE TRIGGER sqlite_stat1 BEFORE INSERT ON heads BEGIN SELECT RAISE(IGNORE); END",
    ),
    (
        "trigger",
        "sqlite_autoindex_shards_2",
        "bodies",
        "CREATE TRIGGER sqlite_autoindex_shards_2 BEFORE INSERT ON bodies BEGIN SELECT RAISE(IGNORE); END",
    ),
    ("view", "sqlite_stat1", "sqlite_stat1", "CREATE VIEW sqlite_stat1 AS SELECT 1"),
    ("view", "sqlite_sequence", "sqlite_sequence", "CREATE VIEW sqlite_sequence AS SELECT 1"),
)


@pytest.mark.parametrize("part", NAMED_AS_SQLITES)
def test_a_name_of_sqlites_own_hides_nothing(path: Path, part: tuple[str, ...]) -> None:
    put(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA writable_schema = ON")
    db.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, 0, ?)", part)
    version = db.execute("PRAGMA schema_version").fetchone()[0]
    db.execute(f"PRAGMA schema_version = {version + 1}")
    db.commit()
    db.close()
    with pytest.raises(JournalDamaged):
        opened(path).append([record()], durable=True)
    with pytest.raises(JournalDamaged), LogFile(path).reading() as view:
        raise JournalDamaged(view.oddities[0])


def test_what_sqlite_keeps_for_itself_is_not_held_against_the_log(path: Path) -> None:
    put(path)
    db = sqlite3.connect(path)
    db.execute("ANALYZE")
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'").fetchone()[0]
    db.commit()
    db.close()
    opened(path).append([record()], durable=True)
    with LogFile(path).reading() as view:
        assert view.oddities == []


STRAYS = {
    "INSERT INTO tiles VALUES (1, 8, 1, zeroblob(32))": "hashes of subtrees in shard 1",
    "INSERT INTO tiles VALUES (1, 16, 0, zeroblob(32))": "hashes of subtrees in shard 1",
    "INSERT INTO tiles VALUES (1, 'x', 0, zeroblob(32))": "hashes of subtrees in shard 1",
    "INSERT OR REPLACE INTO tiles VALUES (1, 8, 0, zeroblob(32))": "hashes of subtrees in shard 1",
    "INSERT INTO tiles VALUES (2, 8, 0, zeroblob(32))": "rows in tiles for a shard that is not there",
    "INSERT INTO leaves SELECT 2, number, hash FROM leaves": "rows in leaves for a shard that is not there",
    "INSERT INTO bodies SELECT 0, number, body FROM bodies": "rows in bodies for a shard that is not there",
    "INSERT INTO bodies VALUES (x'00', 0, x'00')": "rows in bodies for a shard that is not there",
    "INSERT INTO heads SELECT -1, size, note, at_ms FROM heads": "rows in heads for a shard that is not there",
}


@pytest.mark.parametrize("statement", STRAYS)
def test_rows_in_the_way_of_what_comes_next_are_odd(path: Path, statement: str) -> None:
    log = opened(path)
    log.append([record() for _ in range(300)], durable=True)
    log.close()
    with LogFile(path).reading() as view:
        assert view.oddities == []
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(statement)
    db.close()
    with LogFile(path).reading() as view:
        (said,) = view.oddities
    assert STRAYS[statement] in said


@pytest.mark.parametrize("table", ["leaves", "bodies"])
def test_what_a_trigger_swallows_is_not_acknowledged(log: Journal, path: Path, table: str) -> None:
    """Put there while the log is open: its connection is not made anew."""
    log.append([record()], durable=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
    db.close()
    with pytest.raises(JournalDamaged, match="lost a row it just wrote"):
        log.append([record()], durable=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", ["writing", "reading", "replaced"])
def test_a_child_of_a_process_that_could_not_let_go_is_refused(
    log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The process forks inside a transaction: the child inherits SQLite's memory of the file, but not its locks."""
    log.append([record()], durable=True)
    store = log.store
    assert isinstance(store, SqliteLog)
    monkeypatch.setattr(store._file, "busy_s", 0.05)
    if how == "replaced":
        os.replace(shutil.copy(f"{path}-wal", path.parent / "copy"), f"{path}-wal")
        with pytest.raises(JournalDamaged):
            log.append([record()], durable=True)
    with suppress(JournalUnavailable), store.reading() if how != "writing" else store.writing(durable=True):
        child = os.fork()
        if not child:
            status = 1
            with suppress(BaseException):
                said = []
                for use in (store.reading, lambda: store.writing(durable=True)):
                    try:
                        with use():
                            pass
                    except JournalUnavailable as error:
                        said.append(error.message)
                status = 0 if len(said) == 2 and all("forked from" in each for each in said) else 2
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    if how != "replaced":
        # The parent has lost nothing.
        log.append([record()], durable=True)
        assert whole(store) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_wait_if_no_thread_is_in_a_transaction(log: Journal) -> None:
    log.append([record()], durable=True)
    began = monotonic()
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert monotonic() - began < log_sqlite._KIND.busy_s / 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE leaves SET hash = hash",
        "DELETE FROM leaves",
        "UPDATE tiles SET hash = hash",
        "DELETE FROM tiles",
        "UPDATE bodies SET body = 'x'",
        "DELETE FROM bodies",
        "UPDATE heads SET at_ms = 0",
        "DELETE FROM heads",
        "DELETE FROM shards",
        "UPDATE shards SET vkey = 'x'",
        "UPDATE shards SET edge = zeroblob(8)",
    ],
)
def test_the_tables_refuse_an_accident(log: Journal, path: Path, statement: str) -> None:
    log.append([record()] * 256, durable=True)
    db = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        db.execute(statement)
    db.close()


def test_what_is_pruned_is_gone_from_the_disk(path: Path) -> None:
    clock = [1_000_000_000.0]
    with Journal(SqliteLog(path), signer(), verify=keys.verify, clock=lambda: clock[0]) as log:
        body = record()
        log.append([body], durable=True)
        log.checkpoint()
        clock[0] += 86_400 * 3
        log.append([record(at_s=clock[0])], durable=True)
        log.checkpoint()
        assert log.prune(retention_days=2) == {"example.com/log": 2}
        whole(log.store)
    assert body not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_a_log_that_stays_locked_is_busy_and_then_goes_on(
    log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(log.store, SqliteLog)
    monkeypatch.setattr(log.store._file, "busy_s", 0.05)
    log.append([record()], durable=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match="was busy") as refused:
        log.append([record()], durable=True)
    assert not isinstance(refused.value, JournalDamaged)
    other.execute("ROLLBACK")
    other.close()
    log.append([record()], durable=True)
    assert whole(log.store) == 3


@posix
def test_a_place_without_hard_links_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(log_sqlite.os, "link", refuses)
    put(path)
    put(path)
    assert whole(SqliteLog(path)) == 7


def test_housekeeping_empties_the_write_ahead_log(log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sqlite, "_TIDY_BYTES", 0)
    log.append([record()], durable=True)
    log.store.tidy()
    assert b'"kind":"configuration"' in path.read_bytes()
