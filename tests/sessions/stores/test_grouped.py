"""Appends of several callers in one commit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic, sleep

import pytest

from lockgate.core.errors import SessionsUnavailable
from lockgate.sessions.session_entries import EntryPlace, EntrySort, SessionEntry
from lockgate.sessions.stores.grouped import GroupedSessions


def entry(key: str) -> SessionEntry:
    return SessionEntry(EntrySort.BLOCK, 1.0, key, b"text")


class Commits(GroupedSessions):
    """A store whose database is this list: each commit is one element; a key `bad` cannot be kept."""

    _busy_s = 5.0

    def __init__(self) -> None:
        self._start_turns()
        self.commits: list[list[str]] = []
        self.fails: BaseException | None = None
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def _busy_error(self) -> SessionsUnavailable:
        return SessionsUnavailable("the list was busy")

    @contextmanager
    def _timed_transaction(self, patience_s: float) -> Iterator[list[str]]:  # type: ignore[override]
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


def test_a_turn_that_does_not_come_is_an_error() -> None:
    store = Commits()
    store._busy_s = 0.01  # type: ignore[misc]
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


def test_an_interrupt_while_each_is_kept_by_itself_acknowledges_nothing_that_is_not_kept() -> None:
    store = Commits()
    waits = {key: store.enqueue([1], [entry(key)]) for key in ("a", "b", "bad", "c")}
    real, tried = store._timed_transaction, 0

    def interrupted(patience_s: float) -> AbstractContextManager[list[str]]:
        nonlocal tried
        tried += 1
        if tried == 2:
            raise KeyboardInterrupt
        return real(patience_s)

    store._timed_transaction = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        waits["a"]()
    # The first commit had given `b` a place before it was taken back.
    for key in ("b", "bad", "c"):
        with pytest.raises(SessionsUnavailable):
            waits[key]()
    assert store.commits == []


def test_what_one_thread_enqueues_before_it_waits_is_one_commit() -> None:
    store = Commits()
    waits = [store.enqueue([1], [entry(key)]) for key in ("a", "b", "c")]
    assert store.commits == []
    assert [wait() is not None for wait in waits] == [True] * 3
    assert store.commits == [["a", "b", "c"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent_and_keeps_nothing_twice() -> None:
    store = Commits()
    store._turn.acquire()
    store.enqueue([1], [entry("of the parent")])
    child = os.fork()
    if child == 0:
        done = 1
        try:
            kept = store.append([1], [entry("k")])
            done = 0 if kept and store.commits == [["k"]] else 1
        finally:
            os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
