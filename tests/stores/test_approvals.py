"""What every store of approvals promises, whoever keeps it where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from lockgate.core.approvals import (
    KEPT_S,
    MAX_KEPT,
    MAX_WAITING,
    MAX_WAITING_PER_SESSION,
    Bound,
    Pending,
    State,
    binding,
)
from lockgate.core.errors import InvalidCall, LockgateError
from lockgate.stores.memory import MemoryApprovals
from lockgate.stores.sqlite import SqliteApprovals

Store = MemoryApprovals | SqliteApprovals


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryApprovals() if request.param == "memory" else SqliteApprovals(tmp_path / "state" / "approvals.db")


def call(session: str = "s1", policy: str = "sha256:p", context: str = "sha256:c", **arguments: object) -> Bound:
    return binding(session, "send_email", {"to": "ana@example.com", **arguments}, policy, context)


def question(number: int = 1, bound: Bound | None = None, at_s: float = 100.0) -> Pending:
    return Pending(f"{number:016x}", bound or call(), at_s, at_s + 300)


def say(store: Store, pending: Pending, *, yes: bool = True, who: str = "ana", now_s: float = 150.0) -> State:
    return store.answer(pending.id, digest=pending.digest, yes=yes, who=who, now_s=now_s).state


def test_a_yes_runs_the_call_once(store: Store) -> None:
    pending = question()
    assert store.ask(pending) == pending.id
    assert store.waiting(100.0) == [pending]
    assert store.take(call(), 110.0).state is State.WAITING
    heard = store.answer(pending.id, digest=pending.digest, yes=True, who="ana", now_s=120.0, reason="fine by me")
    assert (heard.counted, heard.state) == (True, State.GRANTED)
    assert store.waiting(121.0) == []
    took = store.take(call(), 130.0)
    assert (took.state, took.id) == (State.GRANTED, pending.id)
    assert took.answered is not None
    assert tuple(took.answered) == (True, "ana", 120.0, "fine by me")
    # Replay.
    assert [store.take(call(), 131.0).state for _ in range(3)] == [State.USED] * 3
    kept = store.get(pending.id, 140.0)
    assert kept is not None
    assert (kept.state, kept.ended_s, kept.answered) == (State.USED, 130.0, took.answered)


def test_a_second_run_of_the_same_call_is_a_second_question(store: Store) -> None:
    store.ask(question(1))
    say(store, question(1))
    store.take(call(), 160.0)
    assert store.ask(question(2, at_s=170.0)) == question(2).id
    assert store.take(call(), 171.0).state is State.WAITING


def test_a_no_stands_and_is_not_asked_again(store: Store) -> None:
    store.ask(question(1))
    assert say(store, question(1), yes=False) is State.DENIED
    assert [store.take(call(), 160.0 + at * 1000).state for at in range(3)] == [State.DENIED] * 3
    assert store.ask(question(2, at_s=170.0)) == question(1).id
    assert store.waiting(171.0) == []
    assert say(store, question(1), now_s=172.0) is State.DENIED


@pytest.mark.parametrize("yes", [True, False])
def test_the_first_answer_counts(store: Store, *, yes: bool) -> None:
    store.ask(question())
    first = store.answer(question().id, digest=question().digest, yes=yes, who="ana", now_s=150.0)
    second = store.answer(question().id, digest=question().digest, yes=not yes, who="bo", now_s=151.0)
    assert (first.counted, second.counted) == (True, False)
    assert second.state is first.state
    assert second.approval is not None
    assert second.approval.answered is not None
    assert second.approval.answered.who == "ana"


def test_an_answer_that_comes_too_late_is_a_no(store: Store) -> None:
    store.ask(question())
    assert say(store, question(), now_s=400.0) is State.EXPIRED
    assert store.take(call(), 401.0).state is State.EXPIRED
    # Told once; whoever asks again asks a person again.
    assert store.take(call(), 402.0).state is State.UNKNOWN
    assert store.ask(question(2, at_s=403.0)) == question(2).id


def test_a_yes_that_was_not_used_in_time_is_gone(store: Store) -> None:
    store.ask(question())
    say(store, question(), now_s=399.0)
    assert store.take(call(), 400.0).state is State.EXPIRED


def test_a_clock_that_goes_back_revives_nothing(store: Store) -> None:
    store.ask(question())
    say(store, question())
    assert store.take(call(other=1), 500.0).state is State.UNKNOWN  # somebody looked when it had expired
    assert store.take(call(), 200.0).state is State.EXPIRED


def test_a_clock_set_back_before_the_question_ends_it(store: Store) -> None:
    store.ask(question())
    say(store, question())
    assert store.take(call(), 50.0).state is State.EXPIRED
    assert store.take(call(), 150.0).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (call(to="eve@example.com"), ("arguments",)),
        (call(extra=None), ("arguments",)),
        (call(policy="sha256:q"), ("policy",)),
        (call(context="sha256:d"), ("context",)),
        (call(session="s2"), ("session",)),
        (call(session="s"), ("session",)),
        (call(session="s1 "), ("session",)),
        (call(policy="sha256:q", context="sha256:d"), ("policy", "context")),
        (binding("s1", "send_mail", {"to": "ana@example.com"}, "sha256:p", "sha256:c"), ()),
        (binding("s1", "Send_email", {"to": "ana@example.com"}, "sha256:p", "sha256:c"), ()),
    ],
)
def test_a_changed_call_finds_nothing_and_hears_why(store: Store, other: Bound, why: tuple[str, ...]) -> None:
    store.ask(question())
    say(store, question())
    took = store.take(other, 160.0)
    assert (took.state, took.differs) == (State.UNKNOWN, why)
    assert store.take(call(), 161.0).state is State.GRANTED


VALUES = [1, 1.0, True, "1", None, 0, -0.0, 0.0, False, "é", "e\u0301", 2**53, float(2**53), 2**53 + 1, [1], {"1": 1}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_that_only_looks_equal_is_another_call(store: Store, value: object) -> None:
    store.ask(question(bound=call(n=value)))
    say(store, question(bound=call(n=value)))
    for other in VALUES:
        if repr(other) != repr(value):
            assert store.take(call(n=other), 160.0).state is State.UNKNOWN, other
    assert store.take(call(n=value), 161.0).state is State.GRANTED


def test_the_same_call_waits_once(store: Store) -> None:
    assert store.ask(question(1)) == store.ask(question(2)) == question(1).id
    say(store, question(1))
    assert store.ask(question(3)) == question(1).id
    assert [each.pending.id for each in store.every(150.0)] == [question(1).id]


def test_new_untrusted_text_voids_what_is_open(store: Store) -> None:
    for number, session in enumerate(["s1", "s1", "s10", "s"], 1):
        store.ask(question(number, call(session=session, n=number)))
    say(store, question(2, call(n=2)))
    assert store.void("s1", 160.0) == 2
    assert store.void("s1", 160.0) == 0
    assert store.void("nobody", 160.0) == 0
    assert say(store, question(1, call(n=1)), now_s=161.0) is State.VOIDED
    assert store.take(call(n=2), 161.0).state is State.VOIDED
    assert len(store.waiting(161.0)) == 2
    # The question may be put again, to a person who can then see what was read.
    assert store.ask(question(9, call(n=2), at_s=162.0)) == question(9).id


def test_only_what_was_shown_can_be_approved(store: Store) -> None:
    store.ask(question(1))
    store.ask(question(2, call(to="eve@example.com")))
    for digest in ("", question(2, call(to="eve@example.com")).digest, "sha256:"):
        assert not store.answer(question(1).id, digest=digest, yes=True, who="ana", now_s=150.0).counted
    assert store.take(call(), 151.0).state is State.WAITING


@pytest.mark.parametrize("id", ["", "0" * 16, "f" * 16, "%", "' OR 1=1 --", "\ud800", "\x00", "é" * 9])
def test_an_unknown_id_is_unknown(store: Store, id: str) -> None:
    assert store.get(id, 1.0) is None
    store.ask(question())
    heard = store.answer(id, digest=question().digest, yes=True, who="ana", now_s=150.0)
    assert (heard.counted, heard.state) == (False, State.UNKNOWN)
    assert store.get(id, 150.0) is None


def test_an_id_is_never_given_twice(store: Store) -> None:
    store.ask(question(1))
    with pytest.raises(InvalidCall, match="already there"):
        store.ask(question(1, call(to="eve@example.com")))
    assert store.take(call(to="eve@example.com"), 150.0).state is State.UNKNOWN


def test_ids_can_be_shortened_while_only_one_is_meant(store: Store) -> None:
    for at, id in enumerate(["abcd1234", "abcd12345", "abcd99999", "ffff0000"]):
        store.ask(Pending(id, call(n=at), 100.0, 400.0))
    assert store.find("abcd1234") == ["abcd1234"]  # although another id begins with it
    assert store.find("abcd12345") == ["abcd12345"]
    assert store.find("abcd") == ["abcd1234", "abcd12345", "abcd99999"]
    assert store.find("ffff") == ["ffff0000"]
    assert store.find("%") == store.find("____") == store.find("FFFF") == store.find("\ud800") == []


def test_an_agent_cannot_bury_a_question(store: Store) -> None:
    asked = [store.ask(question(at, call(n=at))) for at in range(1, MAX_WAITING_PER_SESSION + 5)]
    assert asked.count("") == 4
    assert store.ask(question(9999, call(session="s2"))) == question(9999).id
    store.void("s1", 150.0)
    assert store.ask(question(8888, call(n=8888), at_s=160.0))


def test_all_sessions_together_are_bounded_too(store: Store) -> None:
    if isinstance(store, SqliteApprovals):
        pytest.skip("hundreds of writes that reach the disk; the count is one statement")
    for at in range(1, MAX_WAITING + 1):
        assert store.ask(question(at, call(session=f"s{at}")))
    assert store.ask(question(MAX_WAITING + 1, call(session="late"))) == ""


def test_what_ended_is_forgotten_after_a_while(store: Store) -> None:
    store.ask(question(1))
    store.void("s1", 150.0)
    store.ask(question(2, at_s=150.0 + KEPT_S))
    assert store.get(question(1).id, 150.0 + KEPT_S) is not None
    store.ask(question(3, call(n=3), at_s=151.0 + KEPT_S))
    assert store.get(question(1).id, 151.0 + KEPT_S) is None


@pytest.mark.parametrize("now_s", [float("nan"), float("inf"), float("-inf")])
def test_a_broken_clock_is_an_error_and_changes_nothing(store: Store, now_s: float) -> None:
    store.ask(question())
    calls: list[Callable[[], object]] = [
        lambda: store.take(call(), now_s),
        lambda: say(store, question(), now_s=now_s),
        lambda: store.void("s1", now_s),
        lambda: store.waiting(now_s),
    ]
    for each in calls:
        with pytest.raises(LockgateError):
            each()
    assert store.take(call(), 150.0).state is State.WAITING


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns so often that one without a lock is caught in the middle."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_forty_threads_one_runs(store: Store, hurried: None) -> None:
    start = Barrier(40)

    def execute(bound: Bound) -> State:
        start.wait()
        return store.take(bound, 160.0).state

    with ThreadPoolExecutor(40) as pool:
        for number in range(1, 21 if isinstance(store, MemoryApprovals) else 2):
            bound = call(n=number)
            store.ask(question(number, bound))
            say(store, question(number, bound))
            states = list(pool.map(execute, [bound] * 40))
            assert sorted(states) == sorted([State.GRANTED] + [State.USED] * 39)


def test_forty_people_one_is_heard(store: Store) -> None:
    store.ask(question())
    start = Barrier(40)

    def speak(number: int) -> bool:
        start.wait()
        pending = question()
        return store.answer(
            pending.id, digest=pending.digest, yes=number % 2 == 0, who=f"p{number}", now_s=150.0
        ).counted

    with ThreadPoolExecutor(40) as pool:
        assert sum(pool.map(speak, range(40))) == 1


def test_forty_threads_ask_once(store: Store) -> None:
    start = Barrier(40)

    def ask(number: int) -> str:
        start.wait()
        return store.ask(question(number))

    with ThreadPoolExecutor(40) as pool:
        ids = set(pool.map(ask, range(1, 41)))
    assert len(ids) == 1
    assert [each.id for each in store.waiting(110.0)] == list(ids)


def test_a_no_is_not_forgotten_for_a_thousand_other_questions() -> None:
    store = MemoryApprovals()
    store.ask(question(1))
    say(store, question(1), yes=False)
    for at in range(2, MAX_KEPT + 40):
        store.ask(question(at, call(n=at)))
        if at % 20 == 0:
            store.void("s1", 160.0)
    assert len(store.every(160.0)) <= MAX_KEPT + 40
    assert store.take(call(), 160.0).state is State.DENIED
