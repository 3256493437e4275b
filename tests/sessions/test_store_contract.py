"""What every store of sessions promises; `tests/hosts` runs it over PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Barrier

import pytest

from lockgate.core.vocabulary import Action, Decision, Finding, Ran, Reason, Receipt, Risk
from lockgate.sessions import SessionStore
from lockgate.sessions.session_entries import (
    EntrySort,
    RulingFilter,
    SessionEntry,
    SessionInfo,
    encode_text,
    ruling_to_json,
    searchable_ruling,
)
from lockgate.sessions.stores.memory import MemorySessions
from lockgate.sessions.stores.sqlite import SqliteSessions

HELD = Decision(
    Action.PAUSE,
    3,
    Reason.SUSPICIOUS_PATTERN,
    Risk.HIGH,
    "held",
    (Finding("seed:x", "b0001", 1, 2, "raw", "\ud800 \0 half"),),
    approval="a" * 16,
    judged=(Ran(2, "suspicious", "p/m", 5.0, 1, 2, None),),
    latency_us=12.5,
    receipt=Receipt("o", 7, b"\1" * 32),
)
PASSED = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.HIGH, latency_us=2.0)


@pytest.fixture(params=["file", "memory"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], SessionStore]]:
    """The same store once more, as another process would open it; sessions in memory have no other process."""
    opened: list[SqliteSessions | MemorySessions] = [MemorySessions()] if request.param == "memory" else []

    def again() -> SessionStore:
        if request.param == "file":
            opened.append(SqliteSessions(tmp_path / "state" / "sessions.db"))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


@pytest.fixture
def store(again: Callable[[], SessionStore]) -> SessionStore:
    return again()


def new(store: SessionStore, id: str = "s1", at: float = 100.0, **other: object) -> SessionInfo:
    return store.create(SessionInfo(id, created_at=at, seen_at=at, **other))  # type: ignore[arg-type]


def block(text: str = "text", key: str = "", at: float = 100.0) -> SessionEntry:
    return SessionEntry(EntrySort.BLOCK, at, key, encode_text(text), '["tool:x",null,null,[]]')


def ruling(
    id: str = "d1", decision: Decision = PASSED, *, key: str = "", at: float = 100.0, tool: str = "t"
) -> SessionEntry:
    arguments = {"to": "ana@example.com"}
    detail = ruling_to_json(tool, arguments, None, decision, 0)
    return SessionEntry(EntrySort.RULING, at, key, b"", detail, searchable_ruling(id, "api", tool, decision, arguments))


def ids(store: SessionStore, **asked: object) -> list[str]:
    return [row.id for row, _, _ in store.rulings(RulingFilter(**asked))]  # type: ignore[arg-type]


def test_a_session_is_made_once(store: SessionStore, again: Callable[[], SessionStore]) -> None:
    first = new(store, meta={"cwd": "/x", "odd": "\ud800\0"}, parent="p", mode="paranoid")
    assert new(again(), host="other") == first
    assert store.session("s1") == first
    assert first.meta == {"cwd": "/x", "odd": "\ud800\0"}
    assert store.session("s2") is None


def test_nothing_is_there_before_anything_is_kept(store: SessionStore) -> None:
    assert store.session("s1") is None
    assert store.sessions(limit=5, before=None, q="") == []
    assert store.read_entries((1,), 0) == []
    assert store.rulings(RulingFilter()) == []
    assert list(store.tallies(0.0)) == []
    assert store.ruling("d1") is None


def test_entries_come_back_in_order_and_to_the_last_bit(store: SessionStore, again: Callable[[], SessionStore]) -> None:
    number = new(store).number
    odd = "a\0b \ud83d half \u202e \x1b[31m \U0001f600"
    store.append((number,), [block("one"), block(odd)])
    store.append((number,), [ruling(decision=HELD)])
    rows = again().read_entries((number,), 0)
    assert [row.sort for row in rows] == ["block", "block", "ruling"]
    assert [row.n for row in rows] == [1, 2, 1]
    assert bytes(rows[1].content) == encode_text(odd)
    assert sorted(row.seq for row in rows) == [row.seq for row in rows]
    assert again().read_entries((number,), rows[0].seq)[0] == rows[1]
    assert again().read_entries((number,), rows[2].seq) == []


def test_the_same_is_kept_once_for_its_key(store: SessionStore, again: Callable[[], SessionStore]) -> None:
    number = new(store).number
    (first,) = store.append((number,), [block("one", "k")]) or []
    (second,) = again().append((number,), [block("one", "k")]) or []
    assert (second.seq, second.n, second.again) == (first.seq, first.n, True)
    assert len(store.read_entries((number,), 0)) == 1
    other = new(store, "s2").number
    (third,) = store.append((other,), [block("one", "k")]) or []
    assert not third.again


def test_a_key_that_was_used_before_hides_nothing(store: SessionStore) -> None:
    number = new(store).number
    (first,) = store.append((number,), [block("one", "k")]) or []
    (other,) = store.append((number,), [block("two", "k")]) or []
    assert (other.again, other.n) == (False, 2)
    # Asked once more it is the same, and so is the first.
    for entry, put in ((block("two", "k"), other), (block("one", "k"), first)):
        (more,) = store.append((number,), [entry]) or []
        assert (more.seq, more.again) == (put.seq, True)
    # Another source for the same text is something else too; and no attacker can take all the names a text may get.
    told = SessionEntry(EntrySort.BLOCK, 100.0, "k", encode_text("one"), '["user",null,null,[]]')
    assert not (store.append((number,), [told]) or [])[0].again
    third = block("three", "k")
    taken = f"k {sha256(third.detail.encode() + bytes(1) + third.content).hexdigest()}"
    store.append((number,), [block("squats", taken)])
    assert not (store.append((number,), [third]) or [])[0].again
    assert [bytes(row.content).decode() for row in store.read_entries((number,), 0)] == [
        "one",
        "two",
        "one",
        "squats",
        "three",
    ]


def test_the_same_key_is_ruled_on_anew_each_time(store: SessionStore) -> None:
    number = new(store).number
    store.append((number,), [ruling("d1", key="k")])
    store.append((number,), [ruling("d2", HELD, key="k")])
    assert ids(store) == ["d2", "d1"]
    assert store.set_outcome("s1", "k", "ran")
    assert [row.ran for row, _, _ in store.rulings(RulingFilter())] == ["ran", ""]
    assert not store.set_outcome("s1", "unknown", "ran")
    assert not store.set_outcome("s2", "k", "ran")


def test_a_part_of_a_name_finds_what_has_it(store: SessionStore) -> None:
    number = new(store, "mail-17").number
    store.append((number,), [ruling("d1", tool="send_Email"), ruling("d2", HELD, tool="*end*"), ruling("d3", tool="t")])
    assert ids(store, tool="*END*") == ["d2", "d1"]
    # One exact name, as before; two asterisks and nothing between them are a name too.
    assert ids(store, tool="send") == ids(store, tool="**") == ids(store, tool="*t") == []
    assert ids(store, session="*il-1*") == ["d3", "d2", "d1"]
    assert ids(store, host="*ap*", session="mail-17", tool="t") == ["d3"]
    # A name must not hide behind capital letters that a database does not know.
    store.append((number,), [ruling("d4", tool="Ärger_Ü")])
    assert ids(store, tool="*Ärger*") == ["d4"]
    first = HELD.findings[0].rule
    assert ids(store, rule=f"*{first[2:-2].upper()}*") == ["d2"]
    assert ids(store, rule=first[2:-2]) == []


def test_pauses_are_counted_by_session(store: SessionStore) -> None:
    one, other, none = (new(store, name).number for name in ("s1", "s2", "s3"))
    store.append((one,), [ruling("d1"), ruling("d2", HELD), ruling("d3", HELD)])
    store.append((other,), [ruling("d4", HELD)])
    assert store.count_pauses([one, other, none]) == {one: 2, other: 1}
    assert store.count_pauses([none]) == store.count_pauses([]) == {}


def test_last_tells_whether_another_writer_was_there(store: SessionStore, again: Callable[[], SessionStore]) -> None:
    mine, parent = new(store).number, new(store, "p").number
    (first,) = store.append((mine, parent), [ruling("d1")]) or []
    assert first.last == 0
    (second,) = store.append((mine, parent), [ruling("d2")]) or []
    assert second.last == first.seq
    (third,) = again().append((parent,), [block()]) or []
    (fourth,) = store.append((mine, parent), [ruling("d3")]) or []
    assert fourth.last == third.seq


def test_a_feed_has_what_the_sessions_around_read_and_not_what_they_did(store: SessionStore) -> None:
    mine, parent = new(store).number, new(store, "p").number
    store.append((parent,), [block("above"), ruling("d1")])
    store.append((mine, parent), [block("here"), ruling("d2")])
    rows = store.read_entries((mine, parent), 0)
    assert [(row.session == mine, row.sort) for row in rows] == [(False, "block"), (True, "block"), (True, "ruling")]


def test_only_the_latest_rulings_where_they_are_asked_for(store: SessionStore) -> None:
    number = new(store).number
    store.append((number,), [block(), *(ruling(f"d{at}") for at in range(5))])
    after = store.ruling_cursor(number, 2)
    rows = store.read_entries((number,), 0, rulings_after=after)
    assert [row.id for row in rows] == ["", "d3", "d4"]
    assert store.ruling_cursor(number, 99) == 0


def test_an_entry_changes_what_it_says_of_its_session(store: SessionStore) -> None:
    number = new(store).number
    goal = SessionEntry(EntrySort.GOAL, 100.0, content=encode_text("find the\0 thing"))
    later = SessionEntry(EntrySort.GOAL, 101.0, content=encode_text("another"))
    store.append((number,), [goal, later, SessionEntry(EntrySort.MARK, 102.0, detail="unknown")])
    found = store.session("s1")
    assert found is not None
    assert found.goal.startswith("find the")
    assert (found.context_known, found.asked, found.blocks, found.decisions) == (False, False, 2, 0)
    mode = SessionEntry(EntrySort.MODE, 103.0, detail='["paranoid",""]')
    store.append(
        (number,), [SessionEntry(EntrySort.MARK, 103.0, detail="known"), mode, ruling(decision=HELD, at=104.0)]
    )
    found = store.session("s1")
    assert found is not None
    assert (found.context_known, found.mode, found.asked, found.decisions) == (True, "paranoid", True, 1)
    assert found.seen_at == 104.0
    store.end("s1", 105.0)
    assert (store.session("s1") or found).ended_at == 105.0


def test_rulings_are_found_by_what_they_are(store: SessionStore) -> None:
    one, two = new(store).number, new(store, "s2").number
    store.append((one,), [ruling("d1", tool="send_email"), ruling("d2", HELD, tool="wire")])
    store.append((two,), [ruling("d3", tool="a\0b\ud800")])
    assert ids(store) == ["d3", "d2", "d1"]
    assert ids(store, session="s1") == ["d2", "d1"]
    assert ids(store, action="PAUSE") == ["d2"]
    assert ids(store, tier=3) == ["d2"]
    assert ids(store, tool="send_email") == ["d1"]
    assert ids(store, tool="a\0b\ud800") == ["d3"]
    assert ids(store, rule="seed:x") == ["d2"]
    assert ids(store, rule="seed:") == []
    assert ids(store, q="ANA@example.com") == ["d3", "d2", "d1"]
    # What people read is searched, not how it is written down; and "É" is "é".
    assert ids(store, q="null") == ids(store, q="[") == []
    assert ids(store, q="HELD") == ids(store, q="seed:x") == ["d2"]
    store.append((two,), [ruling("d4", tool="ÉTÉ")])
    assert ids(store, q="été") == ["d4"]
    store.append((two,), [ruling("d5", tool="last")])
    assert ids(store, q="%") == ids(store, q="' OR 1=1 --") == ids(store, session="\0\ud800") == []
    middle = (store.ruling("d2") or pytest.fail("gone"))[0].seq
    assert ids(store, after=middle) == ["d3", "d4", "d5"]
    assert ids(store, before=middle) == ["d1"]
    assert ids(store, limit=1) == ["d5"]
    assert ids(store, after=10**40) == ids(store, before=-(10**40)) == []


def test_sessions_are_listed_newest_first(store: SessionStore) -> None:
    for name in ("one", "two", "three"):
        new(store, name, host="claude-code" if name == "two" else "api")
    found = store.sessions(limit=2, before=None, q="")
    assert [each.id for each in found] == ["three", "two"]
    assert [each.id for each in store.sessions(limit=2, before=found[-1].number, q="")] == ["one"]
    assert [each.id for each in store.sessions(limit=9, before=None, q="CLAUDE")] == ["two"]
    assert store.sessions(limit=9, before=None, q="%\0\ud800") == []


def test_a_forgotten_session_is_gone_with_all_that_was_read(store: SessionStore) -> None:
    old, young = new(store, "old", 100.0).number, new(store, "young", 200.0).number
    store.append((old,), [block(), ruling("d1")])
    store.append((young,), [ruling("d2", at=200.0)])
    assert store.prune(150.0, 10) == 1
    assert store.prune(150.0, 10) == 0
    assert store.session("old") is None
    assert store.ruling("d1") is None
    assert store.append((old,), [block()]) is None
    assert ids(store) == ["d2"]
    # Its number is never given again, and a client that goes on with it does not begin a session.
    again = new(store, "old")
    assert again.number > young
    assert not again.context_known
    assert new(store, "another").context_known


def test_sessions_that_are_used_are_spared(store: SessionStore) -> None:
    for at in range(5):
        new(store, f"s{at}", float(at))
    assert store.last_seen_at() == 4.0
    assert store.prune(100.0, 2, {"s0", "s1", "s2"}) == 2
    assert store.prune(100.0, 2, {"s0", "s1", "s2"}) == 0
    assert [each.id for each in store.sessions(limit=9, before=None, q="")] == ["s2", "s1", "s0"]


def test_a_probe_writes_and_changes_nothing(store: SessionStore, again: Callable[[], SessionStore]) -> None:
    store.test_write()
    first = new(store)
    store.test_write()
    assert again().session("s1") == first


def test_numbers_are_not_given_twice(store: SessionStore) -> None:
    number = new(store).number
    (put,) = store.append((number,), [block()]) or []
    store.prune(1e9, 10)
    (after,) = store.append((new(store, "s2").number,), [block()]) or []
    assert after.seq > put.seq


def test_rulings_are_counted(store: SessionStore) -> None:
    number = new(store).number
    store.append((number,), [ruling(f"d{at}", at=100.0 + at) for at in range(1100)])
    store.append((number,), [ruling("x", HELD, at=5000.0)])
    found = list(store.tallies(200.0))
    assert len(found) == 1001
    assert found[-1] == (5000.0, 3, "PAUSE", "suspicious-pattern", " seed:x ", 12.5, 0.0, "2:suspicious", "t", "api")


def test_many_writers_lose_nothing_and_agree_on_the_order(again: Callable[[], SessionStore]) -> None:
    stores = [again() for _ in range(4)]
    number = new(stores[0]).number
    start = Barrier(40)

    def writes(which: int) -> list[int]:
        start.wait()
        store, seqs, cursor = stores[which % 4], [], 0
        for turn in range(5):
            entry = block(f"{which}.{turn}", f"k{which}.{turn}") if turn % 2 else ruling(f"d{which}.{turn}")
            (put,) = store.append((number,), [entry]) or []
            seqs.append(put.seq)
            rows = store.read_entries((number,), cursor)
            # What was acknowledged is seen at once, and nothing comes before what was read already.
            assert put.seq in {row.seq for row in rows} or put.seq <= cursor
            cursor = rows[-1].seq if rows else cursor
        return seqs

    with ThreadPoolExecutor(40) as threads:
        given = [seq for seqs in threads.map(writes, range(40)) for seq in seqs]
    rows = stores[0].read_entries((number,), 0)
    assert sorted(given) == [row.seq for row in rows]
    assert len(set(given)) == 200
    blocks = [row.n for row in rows if row.sort == "block"]
    assert blocks == list(range(1, len(blocks) + 1))
    found = stores[1].session("s1")
    assert found is not None
    assert (found.blocks, found.decisions) == (80, 120)
