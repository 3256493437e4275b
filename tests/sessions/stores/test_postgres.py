"""Sessions in PostgreSQL, as far as they go without a server; `tests/hosts` has one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep

import pytest

from lockgate.core.errors import SessionsUnavailable
from lockgate.core.sessions.session_entries import EntryPlace, EntrySort, SessionEntry
from lockgate.runtime.postgres import postgres_sql
from lockgate.sessions.stores import postgres
from lockgate.sessions.stores.postgres import PostgresSessions
from lockgate.sessions.stores.sql import TABLES

pytest.importorskip("psycopg")


def entry(key: str) -> SessionEntry:
    return SessionEntry(EntrySort.BLOCK, 1.0, key, b"text")


class Commits(PostgresSessions):
    """A store whose server is this list: each commit is one element; a key `bad` cannot be kept."""

    def __init__(self) -> None:
        super().__init__("")
        self.commits: list[list[str]] = []
        self.fails: BaseException | None = None
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self._database.changing = self._changing  # type: ignore[method-assign,assignment]

    @contextmanager
    def _changing(self, _patience_s: float = 0) -> Iterator[list[str]]:
        self.begun.set()
        assert self.go_on.wait(10)
        if self.fails is not None:
            raise self.fails
        kept: list[str] = []
        yield kept
        self.commits.append(kept)

    def _append(  # type: ignore[override]
        self, db: list[str], sessions: Sequence[int], entries: Sequence[SessionEntry]
    ) -> list[EntryPlace]:
        if any(each.key == "bad" for each in entries):
            raise SessionsUnavailable("on purpose")
        db.extend(each.key for each in entries)
        return [EntryPlace(len(db), 1, 0)]


def test_a_server_that_does_not_answer_is_an_error_and_says_no_password() -> None:
    store = PostgresSessions("postgresql://ana:canary@127.0.0.1:1/none")
    for use in (lambda: store.append([1], [entry("k")]), lambda: store.session("s"), store.test_write):
        with pytest.raises(SessionsUnavailable, match="the database of the sessions cannot be used") as raised:
            use()
        assert "canary" not in str(raised.value)
    store.close()


def test_the_tables_have_names_of_their_own() -> None:
    for name in ("entries", "sessions", "forgotten"):
        assert f"CREATE TABLE lockgate_{name}" in postgres_sql(TABLES)


def waiting(store: Commits, keys: Sequence[str]) -> dict[str, object]:
    """Append each key in a thread of its own while the first commit holds the turn; return what each gets."""
    got: dict[str, object] = {}

    def append(key: str) -> None:
        try:
            got[key] = store.append([1], [entry(key)])
        except SessionsUnavailable as error:
            got[key] = error

    store.go_on.clear()
    threads = [threading.Thread(target=append, args=(key,)) for key in keys]
    threads[0].start()
    assert store.begun.wait(10)
    for at, thread in enumerate(threads[1:], 1):
        thread.start()
        until = monotonic() + 10
        while len(store._waiting) < at and monotonic() < until:
            sleep(0.001)
    store.go_on.set()
    for thread in threads:
        thread.join(10)
    return got


def test_threads_that_wait_are_kept_in_one_commit() -> None:
    store = Commits()
    got = waiting(store, ["first", "a", "b", "c"])
    assert store.commits[0] == ["first"]
    assert sorted(store.commits[1]) == ["a", "b", "c"]
    assert all(isinstance(each, list) for each in got.values())


def test_one_that_cannot_be_kept_does_not_hold_up_the_others() -> None:
    store = Commits()
    got = waiting(store, ["first", "a", "bad", "c"])
    assert isinstance(got["bad"], SessionsUnavailable)
    assert [type(got[key]) for key in ("first", "a", "c")] == [list] * 3
    assert sorted(key for commit in store.commits for key in commit) == ["a", "c", "first"]


def test_a_turn_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "BUSY_S", 0.01)
    store = Commits()
    with store._turn, pytest.raises(SessionsUnavailable, match="was busy"):
        store.append([1], [entry("k")])
    assert store._waiting == []


def test_an_interrupt_is_raised_and_its_entry_counts_as_not_kept() -> None:
    store = Commits()
    store.fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        store.append([1], [entry("k")])
    store.fails = None
    # The turn is free again.
    assert store.append([1], [entry("k")]) is not None


def test_a_forked_child_waits_for_no_thread_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Commits()
    store._turn.acquire()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert store.append([1], [entry("k")]) is not None
