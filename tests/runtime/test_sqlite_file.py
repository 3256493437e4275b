"""A private SQLite file: created whole, checked before use, refused once replaced, and closed before a fork."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lockgate.abuse_gate.stores import bans_sqlite
from lockgate.core.errors import JournalDamaged, JournalUnavailable, LockgateError
from lockgate.gate import approvals_sqlite, carried_sqlite
from lockgate.journal.stores import sqlite as log_sqlite
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.sqlite_file import FILES_OF_LOCKGATE, DatabaseKind, SharedSqliteFile, SqliteFile
from lockgate.sessions.stores import sqlite as sessions_sqlite

KIND = DatabaseKind(
    private=PrivateFileKind("the notes", "write notes", "notes", JournalUnavailable),
    title="the notes {}",
    noun="a file of notes",
    application_id=0x74657374,
    version=3,
    tables="CREATE TABLE notes (text TEXT NOT NULL UNIQUE);",
    pragmas=(("synchronous", "FULL"), ("trusted_schema", "OFF")),
    busy_s=0.05,
    error=JournalUnavailable,
    damaged=JournalDamaged,
    start_over="move it away",
)
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "notes.db"


@pytest.fixture
def file(path: Path) -> SqliteFile:
    file = SqliteFile(path, KIND)
    file.create()
    return file


@pytest.fixture
def shared(path: Path) -> Iterator[SharedSqliteFile]:
    file = SharedSqliteFile(path, KIND, max_idle=1)
    with file.writing:
        file.open_writer(file.create)
    yield file
    file.close()


def write(file: SharedSqliteFile, text: str) -> None:
    with file.writing:
        db = file.open_writer(file.create)
        db.execute("INSERT INTO notes VALUES (?)", (text,))
        file.refuse_replaced()


def test_a_file_is_created_once_with_its_tables_and_marks(file: SqliteFile, path: Path) -> None:
    with file.connection() as db:
        db.execute("INSERT INTO notes VALUES ('a')")
    file.create()
    with file.connection() as db:
        assert db.execute("SELECT text FROM notes").fetchall() == [("a",)]
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
    assert path.stat().st_mode & 0o077 == 0 or os.name != "posix"
    assert sorted(each.name for each in path.parent.iterdir()) == ["notes.db"]


def test_a_missing_file_is_an_error_and_is_not_created(path: Path) -> None:
    file = SqliteFile(path, KIND)
    assert not file.exists()
    with pytest.raises(JournalUnavailable), file.connection():
        pass
    assert not path.exists()


@posix
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_file_that_other_users_can_write_is_refused(file: SqliteFile, path: Path, mode: int) -> None:
    path.chmod(0o600 | mode)
    with pytest.raises(JournalUnavailable, match="can be written by others, who could write notes"), file.connection():
        pass


@pytest.mark.parametrize(
    ("statement", "said"),
    [("PRAGMA application_id = 1", "is not a file of notes"), ("PRAGMA user_version = 4", "by another version")],
)
def test_a_file_of_another_program_or_version_is_refused(
    file: SqliteFile, path: Path, statement: str, said: str
) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
    with pytest.raises(JournalUnavailable, match=said) as refused, file.connection():
        pass
    assert refused.value.hint == "move it away"


def test_garbage_is_damage(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"no database" * 100)
    path.chmod(0o600)
    with pytest.raises(JournalDamaged, match="is damaged, or not a file of notes"), SqliteFile(path, KIND).connection():
        pass


def test_a_file_that_the_stores_check_refuses_is_closed(path: Path, file: SqliteFile) -> None:
    opened: list[sqlite3.Connection] = []

    def refuse(db: sqlite3.Connection) -> None:
        opened.append(db)
        raise JournalDamaged("on purpose")

    assert file.exists()
    with pytest.raises(JournalDamaged, match="on purpose"):
        SqliteFile(path, KIND, verify=refuse).connect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_file_that_another_process_keeps_locked_is_busy(file: SqliteFile, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailable, match=r"was busy for 0\.05 seconds"), file.connection() as db:
            db.execute("INSERT INTO notes VALUES ('a')")


def test_what_the_tables_refuse_is_damage_where_the_store_says_so(file: SqliteFile) -> None:
    with pytest.raises(JournalDamaged, match="does not take what comes next"), file.connection() as db:
        db.execute("INSERT INTO notes VALUES (NULL)")


def test_readers_reuse_a_connection_and_close_the_others(shared: SharedSqliteFile) -> None:
    with shared.reader() as first, shared.reader() as second:
        assert first is not second
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute("SELECT 1")
    with shared.reader() as again:
        assert again is second
    with pytest.raises(ValueError, match="on purpose"), shared.reader() as third:
        raise ValueError("on purpose")
    assert third is second
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        third.execute("SELECT 1")


@posix
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_write_to_a_file_that_was_replaced_is_not_acknowledged(
    shared: SharedSqliteFile, path: Path, ending: str
) -> None:
    write(shared, "a")
    place = Path(f"{path}{ending}")
    os.replace(shutil.copy(place, path.with_name("copy")), place)
    with pytest.raises(JournalDamaged, match="was moved or replaced while it was in use"):
        write(shared, "b")
    assert not shared.is_open


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("busy", [False, True])
def test_parent_and_child_both_write_unless_the_file_was_in_use_at_the_fork(
    shared: SharedSqliteFile, *, busy: bool
) -> None:
    write(shared, "a")
    reader = shared.reader()
    if busy:
        reader.__enter__()
    child = os.fork()
    if not child:
        status = 1
        try:
            write(shared, "child")
            status = 0
        except JournalUnavailable as error:
            status = 2 if "forked from" in error.message else 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (2 if busy else 0)
    if busy:
        reader.__exit__(None, None, None)
    write(shared, "parent")
    with shared.reader() as db:
        found = {text for (text,) in db.execute("SELECT text FROM notes")}
    assert found == {"a", "parent"} | (set() if busy else {"child"})


@pytest.mark.parametrize("kind", [approvals_sqlite._KIND, bans_sqlite._KIND, carried_sqlite._KIND, log_sqlite._KIND])
def test_a_file_in_the_place_of_another_of_ours_is_told_by_its_name(tmp_path: Path, kind: DatabaseKind) -> None:
    assert FILES_OF_LOCKGATE[kind.application_id] == kind.noun
    assert FILES_OF_LOCKGATE[sessions_sqlite._KIND.application_id] == sessions_sqlite._KIND.noun
    sessions, other = SqliteFile(tmp_path / "sessions.db", sessions_sqlite._KIND), SqliteFile(tmp_path / "x.db", kind)
    for file in (sessions, other):
        file.create()
    os.rename(sessions.path, tmp_path / "y.db")
    os.rename(other.path, sessions.path)
    os.rename(tmp_path / "y.db", other.path)
    for file, said in (
        (sessions, f"is {kind.noun}, and not a file of sessions"),
        (other, "is a file of sessions, and"),
    ):
        with pytest.raises(LockgateError, match=said) as raised, file.connection():
            pass
        assert "put each back under its own name" in raised.value.hint
