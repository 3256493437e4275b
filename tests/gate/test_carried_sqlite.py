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
from lockgate.core.ruling.carried_text import (
    MAX_PRINTS_OF_ONE,
    DerivedText,
    Fingerprint,
    FingerprintKind,
    hashes_of_marks,
    list_places,
    mark_file,
    weigh_hits,
)
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
    prints = (Fingerprint(number * 1000 + each, FingerprintKind.PASSAGE, b"word%d" % number) for each in range(size))
    return DerivedText(tuple(prints), source, f"origin{number}", f"/repo/{number}.md", session)


def test_a_text_is_found_by_any_of_its_prints(open_store: Open) -> None:
    store = open_store(clock=lambda: 100.0)
    assert store.words() == frozenset()
    assert store.find([1000]) == []
    store.keep(text(1))
    store.keep(text(2))
    (found,) = store.find([1003, 77])
    assert found == ("web:https://a.example", "origin1", "/repo/1.md", "s", 100.0, {FingerprintKind.PASSAGE})
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


def fill(store: SqliteCarriedTexts, numbers: range, size: int = 100, session: str = "s") -> None:
    for number in numbers:
        store.keep(text(number, source=f"web:https://flood.example/{number}", size=size, session=session))


def test_a_source_that_fills_the_store_pushes_nothing_out(open_store: Open, caplog: pytest.LogCaptureFixture) -> None:
    bound = 16 * MAX_PRINTS_OF_ONE
    store = open_store(max_prints=bound, clock=iter(range(10**9)).__next__)
    store.keep(text(1, source="mcp:notes"))
    fill(store, range(2, 200))
    assert store.counts().prints <= bound
    # Each text is known by fewer prints, the flood's own first.
    assert len(store.find([1000, 1001, 1002, 1003])) == 1
    assert all(store.find([number * 1000 + each for each in range(100)]) for number in range(2, 200))
    assert store.counts().evicted == 0
    fill(store, range(200, 560), size=10)
    assert store.counts().prints <= bound
    assert store.counts().evicted > 20
    assert "evicted=" in caplog.text
    assert store.find([1000])
    # What was evicted left its file behind.
    words = store.words()
    for number in range(2, 560):
        places = list_places(f"file:/repo/{number}.md", "")
        hashes = [*hashes_of_marks(places, words), *(number * 1000 + each for each in range(100))]
        hits = store.find(hashes)
        assert weigh_hits(hits, source=f"file:/repo/{number}.md", asked="", session="new") is not None


def test_an_evicted_text_without_a_file_makes_notes_untrusted(open_store: Open) -> None:
    store = open_store(max_prints=16 * MAX_PRINTS_OF_ONE, clock=iter(range(10**9)).__next__)
    for number in range(600):
        store.keep(text(number, size=8)._replace(path=""))
    assert store.counts().evicted > 0
    hits = store.find(hashes_of_marks(list_places("agent:memory", ""), store.words()))
    assert weigh_hits(hits, source="agent:memory", asked="", session="new") is not None
    assert weigh_hits(hits, source="tool:Bash", asked="ls", session="new") is None


def test_too_many_marks_become_the_mark_of_their_folder(open_store: Open) -> None:
    bound = 16 * MAX_PRINTS_OF_ONE
    store = open_store(max_prints=bound, clock=iter(range(10**9)).__next__)
    for number in range(600):
        store.keep(mark_file(f"/repo/data/{number}.json", "web:a", is_ordered=number == 7))
    assert store.counts().files <= bound // 20 + 1
    for name in ("7.json", "599.json", "new.json"):
        places = list_places(f"file:/repo/data/{name}", "")
        hits = store.find(hashes_of_marks(places, store.words()))
        assert weigh_hits(hits, source=f"file:/repo/data/{name}", asked="", session="new") is not None


@pytest.mark.parametrize("path", ["/repo/{}/data.json", "/{}/data.json", "{}.json"])
def test_marks_in_many_folders_are_bounded_and_none_is_lost(open_store: Open, path: str) -> None:
    bound = 16 * MAX_PRINTS_OF_ONE
    store = open_store(max_prints=bound, clock=iter(range(10**9)).__next__)
    for number in range(500):
        store.keep(mark_file(path.format(number), "web:a"))
    assert store.counts().files <= bound // 20 + 1
    for number in (0, 250, 499):
        source = f"file:{path.format(number)}"
        hits = store.find(hashes_of_marks(list_places(source, ""), store.words()))
        found = weigh_hits(hits, source=source, asked="", session="new")
        assert found is not None
        assert found.is_firm


def test_a_mark_is_kept_once_and_never_becomes_weaker(open_store: Open) -> None:
    store = open_store()
    for is_ordered in (False, True, False):
        store.keep(mark_file("/repo/a.md", "web:a", is_ordered=is_ordered))
    assert store.counts() == (0, 1, 1, 0)
    (hit,) = store.find(hashes_of_marks(["/repo/a.md"], store.words()))
    assert hit.shared == {FingerprintKind.ORDERED_FILE}


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
