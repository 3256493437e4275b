"""The log in PostgreSQL, as far as it goes without a server; `tests/hosts` has one."""

from __future__ import annotations

from typing import Any

import pytest

from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.journal.stores import postgres
from lockgate.journal.stores.postgres import PostgresLog, PostgresLogReader, PostgresLogWriter

psycopg = pytest.importorskip("psycopg")


class Rows:
    """A connection whose selects are answered from numbered rows, a few at a time; changes touch `changed` rows."""

    def __init__(self, count: int = 0, changed: int = 1) -> None:
        self.count, self.rowcount, self.asked = count, changed, 0
        self.broken = self.closed = False

    def execute(self, statement: str, values: tuple[int, ...] = (), **_: object) -> Rows:
        self.asked += 1
        self.values = values
        return self

    def fetchall(self) -> list[tuple[int, bytes]]:
        *_, start, stop, most = self.values
        return [(number, b"x") for number in range(start, min(stop, self.count))][:most]


def test_a_server_that_does_not_answer_is_unavailable_and_says_no_password() -> None:
    log = PostgresLog("postgresql://ana:canary@127.0.0.1:1/none")
    for use in (lambda: log.reading().__enter__(), lambda: log.writing(durable=True).__enter__()):
        with pytest.raises(JournalUnavailable, match="the log's database cannot be used: ") as raised:
            use()
        assert "canary" not in f"{raised.value}{raised.value.hint}"
    log.close()


@pytest.mark.parametrize("count", [0, 3, 4, 9])
def test_rows_come_in_pieces_and_each_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_FETCHED_AT_ONCE", 4)
    db: Any = Rows(count)
    assert [number for number, _ in PostgresLogReader(db).leaves(1, 0, 100)] == list(range(count))
    assert db.asked == count // 4 + 1
    assert list(PostgresLogReader(db).leaves(1, 5, 5)) == []


def test_a_shard_that_is_gone_is_damage() -> None:
    db: Any = Rows(changed=0)
    with pytest.raises(JournalDamaged, match="is gone, or closed"):
        PostgresLogWriter(db).prune(1, 5, b"seal")


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (psycopg.errors.LockNotAvailable(), JournalUnavailable, "was busy for 5 seconds"),
        (psycopg.errors.UniqueViolation("canary"), JournalDamaged, "does not take what comes next"),
        (psycopg.errors.IntegrityConstraintViolation(), JournalDamaged, "does not take what comes next"),
        (psycopg.errors.DiskFull("canary"), JournalUnavailable, "cannot be used: DiskFull 53100"),
        (psycopg.OperationalError("canary"), JournalUnavailable, "cannot be used: OperationalError"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_servers_errors_are_ours_and_not_quoted(raised: Exception, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught, PostgresLog("")._translate_errors():
        raise raised
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_in_doubt_is_looked_up_by_its_last_leaf(committed: bool) -> None:  # noqa: FBT001
    class Doubtful(PostgresLog):
        def _was_committed(self, shard: int, number: int, leaf: bytes) -> bool:
            assert (shard, number, leaf) == (1, 7, b"leaf")
            return committed

    class Lost(Rows):
        def execute(self, *_: object, **__: object) -> Rows:
            raise psycopg.OperationalError("the connection is lost")

        def close(self) -> None:
            self.closed = True

    db: Any = Lost()
    log, change = Doubtful(""), PostgresLogWriter(db)
    # A transaction without a leaf leaves nothing to look for.
    with pytest.raises(psycopg.OperationalError):
        log._commit(db, change)
    change.last = (1, 7, b"leaf")
    if committed:
        log._commit(db, change)
    else:
        with pytest.raises(psycopg.OperationalError):
            log._commit(db, change)
    assert db.closed
