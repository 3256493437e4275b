"""The store of carried texts: what it finds again, how large it becomes, and when it forgets.

`tests/hosts` runs this over PostgreSQL as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lockgate.core.errors import LockgateError
from lockgate.core.ruling.carried_text import MAX_PRINTS_OF_ONE, DerivedText, Print, PrintKind
from lockgate.gate import carried_sqlite
from lockgate.gate.carried_sqlite import LIFE_S, SqliteCarriedTexts

Open = Callable[..., SqliteCarriedTexts]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    opened: list[SqliteCarriedTexts] = []

    def open_one(**options: Any) -> SqliteCarriedTexts:
        opened.append(SqliteCarriedTexts(tmp_path / "state" / "carried.db", **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def text(number: int, source: str = "web:https://a.example", size: int = 4, session: str = "s") -> DerivedText:
    prints = (Print(number * 1000 + each, PrintKind.PASSAGE, b"word%d" % number) for each in range(size))
    return DerivedText(tuple(prints), source, f"origin{number}", f"/repo/{number}.md", session)


def test_a_text_is_found_by_any_of_its_prints(open_store: Open) -> None:
    store = open_store(clock=lambda: 100.0)
    assert store.words() == frozenset()
    assert store.find([1000]) == []
    store.keep(text(1))
    store.keep(text(2))
    (found,) = store.find([1003, 77])
    assert found == ("web:https://a.example", "origin1", "/repo/1.md", "s", 100.0, {PrintKind.PASSAGE})
    assert store.words() == {b"word1", b"word2"}


def test_another_process_sees_it_at_once(open_store: Open) -> None:
    one, other = open_store(), open_store()
    one.keep(text(1))
    assert other.words() == {b"word1"}
    one.keep(text(2))
    assert other.words() == {b"word1", b"word2"}
    assert other.find([2000])


def test_the_same_text_is_kept_once(open_store: Open) -> None:
    store = open_store()
    for _ in range(3):
        store.keep(text(1))
    assert len(store.find([1000])) == 1


def test_a_text_is_forgotten_some_time_after_it_was_last_seen(open_store: Open) -> None:
    now = [0.0]
    store = open_store(clock=lambda: now[0])
    store.keep(text(1))
    now[0] = LIFE_S - 1
    assert store.find([1000])
    # Seen just now, so it lives on.
    now[0] = 2 * LIFE_S - 2
    assert store.find([1000])
    now[0] = 3 * LIFE_S
    assert store.find([1000]) == []


def test_a_source_that_fills_the_store_pushes_out_itself(open_store: Open) -> None:
    bound = 16 * MAX_PRINTS_OF_ONE
    store = open_store(max_prints=bound, clock=iter(range(10**9)).__next__)
    store.keep(text(1, source="mcp:notes"))
    for number in range(2, 400):
        store.keep(text(number, source="web:https://flood.example", size=100))
        if number % 40 == 0:
            with store._changing() as db:
                assert db.execute("SELECT count(*) FROM prints").fetchone()[0] <= bound
                kept, total = db.execute("SELECT count(*), sum(size) FROM carried").fetchone()
                assert total == db.execute("SELECT count(*) FROM prints").fetchone()[0]
                assert kept < 50
    assert store.find([1000])
    assert store.find([399_000])
    assert not store.find([2000])


def test_a_damaged_file_is_an_error_and_not_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "carried.db"
    store = SqliteCarriedTexts(path)
    store.keep(text(1))
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA application_id = 7")
        db.commit()
    with pytest.raises(LockgateError, match="store of carried texts"):
        SqliteCarriedTexts(path).words()
    path.write_bytes(b"x" * 5000)
    with pytest.raises(LockgateError, match=r"damaged|not a store"):
        SqliteCarriedTexts(path).find([1])


def test_a_full_store_takes_a_few_megabytes_of_disk(tmp_path: Path) -> None:
    store = SqliteCarriedTexts(tmp_path / "carried.db")
    for number in range(40):
        store.keep(text(number, size=MAX_PRINTS_OF_ONE))
    store.close()
    per_print = (tmp_path / "carried.db").stat().st_size / (40 * MAX_PRINTS_OF_ONE)
    assert per_print * carried_sqlite.MAX_PRINTS < 32 * 1024 * 1024
