"""The store in memory beyond what every store promises (`test_approvals_contract.py`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest

from lockgate.core.errors import InvalidCall, JournalUnavailable
from lockgate.core.ruling.approvals import (
    ApprovalChange,
    ApprovalState,
    BoundCall,
    PendingApproval,
    VoidReason,
    bind_call,
)
from lockgate.gate import approvals_memory
from lockgate.gate.approvals_memory import MemoryApprovals


def call(session: str = "s1", **arguments: object) -> BoundCall:
    return bind_call(session, "send_email", {"to": "ana@example.com", **arguments}, "sha256:p", "sha256:c")


def question(number: int, bound: BoundCall | None = None) -> PendingApproval:
    return PendingApproval(f"{number:016x}", bound or call(), 100.0, 400.0)


def test_two_stores_share_nothing() -> None:
    one, other = MemoryApprovals(), MemoryApprovals()
    asked = question(1)
    assert one.ask(asked) == asked.id
    assert other.get(asked.id, 110.0) is None
    assert other.take(call(), 110.0).state is ApprovalState.UNKNOWN


def test_an_id_that_is_taken_is_refused_and_the_first_question_stays() -> None:
    store = MemoryApprovals()
    store.ask(question(1))
    with pytest.raises(InvalidCall, match="is already there"):
        store.ask(question(1, call(n=2)))
    assert [each.pending for each in store.every(110.0)] == [question(1)]


def test_a_change_that_cannot_be_recorded_takes_marks_and_questions_back() -> None:
    refuses = False

    def record(_: object) -> None:
        if refuses:
            raise JournalUnavailable("on purpose")

    store = MemoryApprovals(record=record)
    store.ask(question(1))
    refuses = True
    with pytest.raises(JournalUnavailable):
        store.answer(question(1).id, digest=question(1).digest, yes=False, who="ana", now_s=120.0)
    assert not store.denies("s1")
    assert [each.id for each in store.waiting(120.0)] == [question(1).id]


def test_a_void_says_which_block_and_ends_this_session_only() -> None:
    changes: list[ApprovalChange] = []
    store = MemoryApprovals(record=changes.extend)
    store.ask(question(1))
    store.ask(question(2, call("s2")))
    assert store.void("s1", 120.0, VoidReason("new text", "b7")) == 1
    assert changes[-1].block == "b7"
    assert [each.id for each in store.waiting(130.0)] == [question(2).id]


def test_a_time_that_is_none_is_refused() -> None:
    store = MemoryApprovals()
    for ask in (
        store.every,
        store.grants,
        lambda now: store.get(question(1).id, now),
        lambda now: store.void("s1", now),
    ):
        with pytest.raises(InvalidCall):
            ask(float("nan"))


def ended_in_child(work: Callable[[], object]) -> str:
    """Return what `work` returns in a forked child; the test fails if the child hangs."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            said = repr(work())
        except BaseException as error:  # noqa: BLE001  # the child ends here, whatever happens
            said = type(error).__name__
        os.write(here, said.encode())
        os._exit(0)
    os.close(here)
    with os.fdopen(there) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_forked_child_goes_on_with_a_copy_whatever_other_threads_do() -> None:
    store = MemoryApprovals()
    store.ask(question(1))
    store.answer(question(1).id, digest=question(1).digest, yes=False, who="ana", now_s=120.0)
    ended = Event()

    def work() -> None:
        while not ended.is_set():
            store.take(call(n=2), 130.0)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(work)
        try:
            for number in range(2, 8):
                asks = partial(store.ask, question(number, call(n=number)))
                assert ended_in_child(asks) == repr(question(number).id)
                assert ended_in_child(lambda: store.take(call(), 130.0).state) == repr(ApprovalState.DENIED)
        finally:
            ended.set()
    # What a child asked is the child's.
    assert [each.pending.id for each in store.every(130.0)] == [question(1).id]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_child_that_was_forked_in_the_middle_of_a_change_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals_memory, "_QUIET_S", 0.01)
    said: list[str] = []
    store = MemoryApprovals(record=lambda _: said.append(ended_in_child(lambda: store.denies("s1"))))
    assert store.ask(question(1)) == question(1).id
    assert said == ["LockgateError"]
    assert [each.id for each in store.waiting(110.0)] == [question(1).id]
