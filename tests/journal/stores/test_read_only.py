"""A log's file opened for reading: of any owner, with any content, and without a trace left behind."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from log_checks import record, signer

from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import Store
from lockgate.journal.stores.read_only import LogFile, WrittenMeanwhile
from lockgate.journal.stores.sqlite import SqliteLog

END = 2**63 - 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log" / "journal.db"


def written(path: Path, count: int = 5) -> Journal:
    journal = Journal(SqliteLog(path), signer(), verify=keys.verify)
    journal.append([record() for _ in range(count)], durable=True)
    journal.checkpoint()
    return journal


def counted(path: Path) -> int:
    with LogFile(path).reading() as view:
        shard = view.current()
        assert shard is not None
        return len(list(view.bodies(shard.number, 0, END)))


def test_it_sees_what_the_store_sees(path: Path) -> None:
    written(path).close()
    store: Store = SqliteLog(path)
    with store.reading() as theirs, LogFile(path).reading() as ours:
        assert ours.shards() == theirs.shards()
        assert ours.current() == theirs.current()
        assert list(ours.leaves(1, 1, 4)) == list(theirs.leaves(1, 1, 4))
        assert list(ours.bodies(1, 0, END)) == list(theirs.bodies(1, 0, END))
        assert list(ours.heads(1)) == list(theirs.heads(1))
        assert (ours.newest(1), ours.newest(2)) == (theirs.newest(1), None)
    store.close()


def test_a_log_in_use_is_seen_as_it_is_now(path: Path) -> None:
    with written(path) as journal:
        assert counted(path) == 6
        with LogFile(path).reading() as view:
            journal.append([record()], durable=True)
            # The look began before that.
            assert len(list(view.bodies(1, 0, END))) == 6
        assert counted(path) == 7
    assert counted(path) == 7


def test_nothing_is_left_behind(path: Path) -> None:
    written(path).close()
    before = sorted(path.parent.iterdir())
    assert counted(path) == 6
    assert sorted(path.parent.iterdir()) == before == [path]


def test_what_a_killed_process_had_written_ahead_is_not_passed_over(path: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    with written(path):
        for ending in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{ending}", copies)
    assert counted(copies / "journal.db") == 6
    # Without the file that processes meet in, as a copy of two files is.
    (copies / "journal.db-shm").unlink()
    assert counted(copies / "journal.db") == 6


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_in_a_folder_one_cannot_write_it_is_said_where_to_look(path: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    with written(path):
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", copies)
    copies.chmod(0o500)
    try:
        with pytest.raises(JournalUnavailable, match="was not closed") as caught:
            counted(copies / "journal.db")
    finally:
        copies.chmod(0o700)
    assert caught.value.hint.startswith("copy it")


def test_a_log_that_others_open_write_and_close_is_still_the_one_that_was_looked_at(path: Path) -> None:
    """A process for each call is how hooks use it: each moves what it wrote into the file when it ends."""
    written(path, 300).close()
    with LogFile(path).reading() as view:
        rows = view.bodies(1, 0, END)
        first = [next(rows) for _ in range(3)]
        for _ in range(5):
            with Journal(SqliteLog(path), signer(), verify=keys.verify) as journal:
                journal.append([record() for _ in range(300)], durable=True)
        assert len([*first, *rows]) == 301
    assert counted(path) == 1801
    with Journal(SqliteLog(path), signer(), verify=keys.verify) as journal:
        journal.append([record()], durable=True)
    assert sorted(path.parent.iterdir()) == [path], "the last to close it removes the other files"


class Refusing(LogFile):
    """A log in a folder where no file can be created, even by root."""

    def _connect(self, how: str) -> sqlite3.Connection:
        if "immutable" not in how:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorname = "SQLITE_CANTOPEN"
            raise error
        return super()._connect(how)


@pytest.mark.parametrize("seen", ["whole", "broken", "in pieces"])
def test_where_nothing_keeps_it_still_a_log_that_changes_is_not_trusted(path: Path, seen: str) -> None:
    written(path).close()
    with Refusing(path).reading() as view:
        assert len(list(view.bodies(1, 0, END))) == 6

    def meanwhile() -> None:
        with Journal(SqliteLog(path), signer(), verify=keys.verify) as journal:
            journal.append([record()], durable=True)
        if seen == "broken":
            raise JournalDamaged("half of something")
        if seen == "in pieces":
            raise sqlite3.DatabaseError("database disk image is malformed")

    with pytest.raises(WrittenMeanwhile, match="was written to while it was read"), Refusing(path).reading():
        meanwhile()


def test_where_nothing_can_be_made_one_that_was_not_closed_is_not_half_read(path: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    with written(path):
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", copies)
    with pytest.raises(JournalUnavailable, match="was not closed"), Refusing(copies / "journal.db").reading():
        pass


def test_a_look_leaves_the_locks_of_this_process_alone(path: Path) -> None:
    """Closing any descriptor of a file lets go of all locks that the process has on it."""
    with written(path) as journal:
        opened: list[object] = []
        listening = True
        sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" and listening else None)
        assert counted(path) == 6
        listening = False
        assert str(path) not in map(str, opened)
        journal.append([record()], durable=True)
    assert counted(path) == 7


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalUnavailable, match="is no file"):
        counted(tmp_path / "pipe")


@pytest.mark.parametrize("others", ["a link", "another's folder"])
def test_the_owner_of_the_file_does_not_matter(path: Path, tmp_path: Path, others: str) -> None:
    """The journal refuses both, for what it writes there could be changed; for a look they are as good as any."""
    written(path).close()
    if others == "a link":
        (tmp_path / "link.db").symlink_to(path)
        assert counted(tmp_path / "link.db") == 6
    else:
        path.parent.chmod(0o777)
        path.chmod(0o666)
        assert counted(path) == 6


def made(path: Path, *statements: str, application: int = 0x6C6B676A) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {application}")
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000, encoding="utf-8")
    with pytest.raises(JournalUnavailable, match="is not a log of lockgate's"):
        counted(tmp_path / "text")
    with pytest.raises(JournalUnavailable, match="is not a log of lockgate's"):
        counted(made(tmp_path / "other.db", "CREATE TABLE shards (x)", application=7))
    with pytest.raises(JournalUnavailable, match="cannot be read: no such file"):
        counted(tmp_path / "nowhere")
    with pytest.raises(JournalUnavailable, match="cannot be read: is a directory"):
        counted(tmp_path)
    with pytest.raises(JournalUnavailable, match="cannot be read"):
        counted(Path("a\0b"))


def test_tables_that_are_none_are_not_read(tmp_path: Path) -> None:
    """A view can go on for ever; it must not even be begun."""
    endless = (
        "WITH RECURSIVE n(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM n) SELECT 1 AS shard, number, x'00'"
    )
    path = made(
        tmp_path / "endless.db",
        "CREATE TABLE shards (number, vkey, edge, signed_edge, pruned, seal)",
        "CREATE TABLE leaves (shard, number, hash)",
        "CREATE TABLE heads (shard, size, note, at_ms)",
        f"CREATE VIEW bodies AS {endless} AS body FROM n",
    )
    with pytest.raises(JournalDamaged, match="has lost a table"):
        counted(path)


def test_values_of_another_kind_are_handed_on_as_bytes(tmp_path: Path) -> None:
    path = made(
        tmp_path / "odd.db",
        "CREATE TABLE shards (number, vkey, edge, signed_edge, pruned, seal)",
        "CREATE TABLE leaves (shard, number, hash)",
        "CREATE TABLE bodies (shard, number, body)",
        "CREATE TABLE heads (shard, size, note, at_ms)",
        "CREATE TABLE tiles (shard, level, number, hash)",
        "INSERT INTO shards VALUES (1, x'ff', NULL, 3, 'x', 5)",
        "INSERT INTO bodies VALUES (1, 0, 'text'), (1, 1, NULL), (1, 2, 2.5), (1, 'three', 3)",
        "INSERT INTO heads VALUES (1, 'x', 5, NULL)",
    )
    with LogFile(path).reading() as view:
        (shard,) = view.shards()
        assert (shard.vkey, shard.edge, shard.pruned) == ("\ufffd", b"None", -1)
        assert list(view.bodies(1, 0, END)) == [(0, b"text"), (1, b"None"), (2, b"2.5")]
        assert list(view.heads(1)) == [(-1, b"5", -1)]
