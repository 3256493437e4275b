"""What every store of approvals promises."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from lockgate.core.errors import InvalidCall, JournalUnavailable, LockgateError
from lockgate.core.ruling import approvals
from lockgate.core.ruling.approvals import (
    FINISH,
    KEPT_S,
    MARKED_S,
    MAX_KEPT,
    MAX_MARKS,
    MAX_WAITING,
    MAX_WAITING_PER_SESSION,
    NEWCOMERS,
    ApprovalChange,
    ApprovalState,
    BoundCall,
    PendingApproval,
    bind_call,
)
from lockgate.gate.approvals_memory import MemoryApprovals
from lockgate.gate.approvals_sqlite import SqliteApprovals

Store = SqliteApprovals


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryApprovals() if request.param == "memory" else SqliteApprovals(tmp_path / "state" / "approvals.db")


def call(session: str = "s1", policy: str = "sha256:p", context: str = "sha256:c", **arguments: object) -> BoundCall:
    return bind_call(session, "send_email", {"to": "ana@example.com", **arguments}, policy, context)


def question(number: int = 1, bound: BoundCall | None = None, at_s: float = 100.0) -> PendingApproval:
    return PendingApproval(f"{number:016x}", bound or call(), at_s, at_s + 300)


def say(
    store: Store, pending: PendingApproval, *, yes: bool = True, who: str = "ana", now_s: float = 150.0
) -> ApprovalState:
    return store.answer(pending.id, digest=pending.digest, yes=yes, who=who, now_s=now_s).state


class Told:
    """What a store tells of its changes; it may be told to refuse."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []
        self.whole: list[tuple[str, str, str]] = []
        self.blocks: list[str] = []
        self.refuses = False

    def __call__(self, changes: Sequence[ApprovalChange]) -> None:
        if self.refuses:
            raise JournalUnavailable("on purpose")
        self.whole += [(each.id, each.state.value, each.who) for each in changes]
        self.changes += [(each.id[-1], each.state.value, each.who) for each in changes]
        self.blocks += [each.block for each in changes]


@pytest.fixture(params=["memory", "sqlite"])
def telling(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, Told]:
    told = Told()
    if request.param == "memory":
        return MemoryApprovals(record=told), told
    return SqliteApprovals(tmp_path / "state" / "approvals.db", record=told), told


def test_every_change_is_told_once_in_its_order(telling: tuple[Store, Told]) -> None:
    store, told = telling
    store.ask(question(1))
    store.ask(question(1))
    assert say(store, question(1)) is ApprovalState.GRANTED
    assert store.take(call(), 160.0).state is ApprovalState.GRANTED
    assert store.take(call(), 161.0).state is ApprovalState.USED
    store.ask(question(2, call(n=2)))
    assert store.void("s1", 170.0) == 1
    store.ask(question(3, call(n=3)))
    assert store.take(call(n=3), 900.0).state is ApprovalState.EXPIRED
    store.ask(question(4, call(n=4), 1000.0))
    store.ask(question(5, call(n=4, context="sha256:other"), 1000.0))
    store.ask(question(6, call(n=4, context="sha256:third"), 1000.0))
    assert say(store, question(5, call(n=4, context="sha256:other"), 1000.0), now_s=1010.0) is ApprovalState.GRANTED
    assert say(store, question(4, call(n=4), 1000.0), yes=False, who="bo", now_s=1020.0) is ApprovalState.DENIED
    assert told.changes == [
        ("1", "waiting", ""),
        ("1", "granted", "ana"),
        ("1", "used", ""),
        ("2", "waiting", ""),
        ("2", "voided", ""),
        ("3", "waiting", ""),
        ("3", "expired", ""),
        ("4", "waiting", ""),
        ("5", "waiting", ""),
        ("6", "waiting", ""),
        ("5", "granted", "ana"),
        ("4", "denied", "bo"),
        ("5", "voided", ""),
        ("6", "denied", "bo"),
    ]


def test_what_cannot_be_recorded_does_not_happen(telling: tuple[Store, Told]) -> None:
    store, told = telling
    told.refuses = True
    with pytest.raises(JournalUnavailable):
        store.ask(question())
    assert store.every(110.0) == []
    told.refuses = False
    store.ask(question())
    told.refuses = True
    for yes in (True, False):
        with pytest.raises(JournalUnavailable):
            say(store, question(), yes=yes)
    assert not store.denies("s1")
    assert store.waiting(151.0) == [question()]
    with pytest.raises(JournalUnavailable):
        store.void("s1", 151.0)
    told.refuses = False
    assert say(store, question()) is ApprovalState.GRANTED
    told.refuses = True
    for _ in range(3):
        with pytest.raises(JournalUnavailable):
            store.take(call(), 155.0)
    told.refuses = False
    assert store.take(call(), 156.0).state is ApprovalState.GRANTED
    assert [state for _, state, _ in told.changes] == ["waiting", "granted", "used"]
    store.ask(question(2, call(n=2)))
    told.refuses = True
    with pytest.raises(JournalUnavailable):
        store.take(call(n=2), 900.0)
    told.refuses = False
    assert store.take(call(n=2), 900.0).state is ApprovalState.EXPIRED


def test_a_yes_runs_the_call_once(store: Store) -> None:
    pending = question()
    assert store.ask(pending) == pending.id
    assert store.waiting(100.0) == [pending]
    assert store.take(call(), 110.0).state is ApprovalState.WAITING
    heard = store.answer(pending.id, digest=pending.digest, yes=True, who="ana", now_s=120.0, reason="fine by me")
    assert (heard.counted, heard.state) == (True, ApprovalState.GRANTED)
    assert store.waiting(121.0) == []
    took = store.take(call(), 130.0)
    assert (took.state, took.id) == (ApprovalState.GRANTED, pending.id)
    assert took.answered is not None
    assert tuple(took.answered) == (True, "ana", 120.0, "fine by me")
    # Replay.
    assert [store.take(call(), 131.0).state for _ in range(3)] == [ApprovalState.USED] * 3
    kept = store.get(pending.id, 140.0)
    assert kept is not None
    assert (kept.state, kept.ended_s, kept.answered) == (ApprovalState.USED, 130.0, took.answered)


def test_a_second_run_of_the_same_call_is_a_second_question(store: Store) -> None:
    store.ask(question(1))
    say(store, question(1))
    store.take(call(), 160.0)
    assert store.ask(question(2, at_s=170.0)) == question(2).id
    assert store.take(call(), 171.0).state is ApprovalState.WAITING


def test_a_no_stands_and_is_not_asked_again(store: Store) -> None:
    store.ask(question(1))
    assert say(store, question(1), yes=False) is ApprovalState.DENIED
    assert [store.take(call(), 160.0 + at * 1000).state for at in range(3)] == [ApprovalState.DENIED] * 3
    assert store.ask(question(2, at_s=170.0)) == question(1).id
    assert store.waiting(171.0) == []
    assert say(store, question(1), now_s=172.0) is ApprovalState.DENIED


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
    assert say(store, question(), now_s=400.0) is ApprovalState.EXPIRED
    # Every time: a caller that asks again asks a person again.
    assert [store.take(call(), 401.0 + at).state for at in range(3)] == [ApprovalState.EXPIRED] * 3
    assert store.ask(question(2, at_s=410.0)) == question(2).id
    assert store.take(call(), 411.0).state is ApprovalState.WAITING
    assert say(store, question(2, at_s=410.0), now_s=412.0) is ApprovalState.GRANTED
    assert store.take(call(), 413.0).state is ApprovalState.GRANTED
    assert store.take(call(), 414.0).state is ApprovalState.USED


def test_a_yes_that_was_not_used_in_time_is_gone(store: Store) -> None:
    store.ask(question())
    say(store, question(), now_s=399.0)
    assert store.take(call(), 400.0).state is ApprovalState.EXPIRED


def test_a_clock_that_goes_back_revives_nothing(store: Store) -> None:
    store.ask(question())
    say(store, question())
    assert (
        store.take(call(other=1), 500.0).state is ApprovalState.UNKNOWN
    )  # another call was looked up when it had expired
    assert store.take(call(), 200.0).state is ApprovalState.EXPIRED


def test_a_clock_set_back_before_the_question_ends_it(store: Store) -> None:
    store.ask(question())
    say(store, question())
    assert store.take(call(), 50.0).state is ApprovalState.EXPIRED
    assert store.take(call(), 150.0).state is ApprovalState.EXPIRED


@pytest.mark.parametrize(
    ("other", "state", "why"),
    [
        (call(to="eve@example.com"), ApprovalState.UNKNOWN, ("arguments",)),
        (call(extra=None), ApprovalState.UNKNOWN, ("arguments",)),
        (call(session="s2"), ApprovalState.UNKNOWN, ("session",)),
        (call(session="s"), ApprovalState.UNKNOWN, ("session",)),
        (call(session="s1 "), ApprovalState.UNKNOWN, ("session",)),
        (bind_call("s1", "send_mail", {"to": "ana@example.com"}, "sha256:p", "sha256:c"), ApprovalState.UNKNOWN, ()),
        (bind_call("s1", "Send_email", {"to": "ana@example.com"}, "sha256:p", "sha256:c"), ApprovalState.UNKNOWN, ()),
        # The same call elsewhere: a person was asked about it, so no model is.
        (call(policy="sha256:q"), ApprovalState.VOIDED, ("policy",)),
        (call(context="sha256:d"), ApprovalState.VOIDED, ("context",)),
        (call(policy="sha256:q", context="sha256:d"), ApprovalState.VOIDED, ("policy", "context")),
    ],
)
def test_a_changed_call_finds_nothing_and_hears_why(
    store: Store, other: BoundCall, state: ApprovalState, why: tuple[str, ...]
) -> None:
    store.ask(question())
    say(store, question())
    took = store.take(other, 160.0)
    assert (took.state, took.differs) == (state, why)
    assert store.take(call(), 161.0).state is ApprovalState.GRANTED


# A no, and who may speak after a person was asked

ELSEWHERE = [
    call(),
    call(context="sha256:d"),
    call(policy="sha256:q"),
    call(policy="sha256:q", context="sha256:d"),
]


def test_a_no_stands_whatever_is_read_and_in_every_process(store: Store) -> None:
    assert not store.denies("s1")
    store.ask(question(1))
    assert not store.denies("s1")
    store.answer(question(1).id, digest=question(1).digest, yes=False, who="ana", now_s=150.0, reason="why")
    assert store.denies("s1")
    assert not store.denies("s2")
    assert not store.denies("s1 ")
    for at, bound in enumerate(ELSEWHERE):
        store.void("s1", 160.0 + at)
        took = store.take(bound, 160.0 + at)
        assert (took.state, took.id) == (ApprovalState.DENIED, question(1).id)
        assert took.answered is not None
        assert tuple(took.answered) == (False, "ana", 150.0, "why")
        # No person is asked again.
        assert store.ask(question(10 + at, bound, at_s=160.0 + at)) == question(1).id
    assert store.waiting(170.0) == []
    for other in (call(session="s2"), call(n=2)):
        assert store.take(other, 170.0).state is ApprovalState.UNKNOWN


def test_a_no_answers_the_same_question_from_elsewhere(store: Store) -> None:
    for at, bound in enumerate(ELSEWHERE):
        assert store.ask(question(at, bound)) == question(at).id
    say(store, question(2, ELSEWHERE[2]), now_s=140.0)
    assert say(store, question(1, ELSEWHERE[1]), yes=False) is ApprovalState.DENIED
    assert [each.state for each in store.every(151.0)] == [
        ApprovalState.DENIED,
        ApprovalState.DENIED,
        ApprovalState.VOIDED,
        ApprovalState.DENIED,
    ]
    late = store.answer(question(3).id, digest=question(3, ELSEWHERE[3]).digest, yes=True, who="bo", now_s=152.0)
    assert (late.counted, late.state) == (False, ApprovalState.DENIED)
    assert [store.take(bound, 153.0).state for bound in ELSEWHERE] == [ApprovalState.DENIED] * 4


@pytest.mark.parametrize("ends", ["expires", "voided", "yes that expires", "yes that is voided"])
def test_after_a_person_was_asked_no_model_is(store: Store, ends: str) -> None:
    store.ask(question(1))
    if "yes" in ends:
        say(store, question(1))
    if "void" in ends:
        store.void("s1", 160.0)
    state = ApprovalState.VOIDED if "void" in ends else ApprovalState.EXPIRED
    for at, bound in enumerate([*ELSEWHERE, *ELSEWHERE]):
        took = store.take(bound, 401.0 + at)
        assert (took.state, took.id) == (state, question(1).id), bound
    assert not store.denies("s1")
    assert store.take(call(session="s2"), 401.0).state is ApprovalState.UNKNOWN
    # A new question may be put, and its yes runs the call; what comes after that is for everybody again.
    elsewhere = question(2, ELSEWHERE[3], at_s=420.0)
    assert store.ask(elsewhere) == elsewhere.id
    assert store.take(ELSEWHERE[3], 421.0).state is ApprovalState.WAITING
    say(store, elsewhere, now_s=422.0)
    assert store.take(ELSEWHERE[3], 423.0).state is ApprovalState.GRANTED
    states = {store.take(bound, 424.0).state for bound in ELSEWHERE}
    assert states <= {ApprovalState.USED, ApprovalState.UNKNOWN}


def finish(step: str = "1", *, session: str = "s1", context: str = "sha256:c", **said: object) -> BoundCall:
    return bind_call(session, FINISH, {"step": step, "assessment": {"met": True, **said}}, "sha256:p", context)


def test_a_step_that_was_denied_stays_so_in_other_words(store: Store) -> None:
    store.ask(question(1, finish()))
    say(store, question(1, finish()), yes=False)
    for bound in (finish(), finish(summary="ok"), finish(context="sha256:d"), finish(n=1, context="sha256:e")):
        assert store.take(bound, 160.0).state is ApprovalState.DENIED
        assert store.ask(question(2, bound, at_s=160.0)) == question(1).id
    for bound in (finish("2"), finish("1.1"), finish(session="s2")):
        assert store.take(bound, 160.0).state is ApprovalState.UNKNOWN


def test_a_yes_to_a_step_is_for_these_words_only(store: Store) -> None:
    store.ask(question(1, finish()))
    say(store, question(1, finish()))
    took = store.take(finish(summary="ok"), 160.0)
    assert (took.state, took.differs) == (ApprovalState.VOIDED, ("arguments",))
    assert store.take(finish(), 161.0).state is ApprovalState.GRANTED


def test_a_no_outlives_its_question_and_not_its_session_by_much(store: Store) -> None:
    store.ask(question(1))
    store.ask(question(2, call(n=2)))
    say(store, question(1), yes=False)
    store.void("s1", 151.0)
    now_s = 151.0
    # The session goes on for a year, heard of now and then.
    while now_s < 365 * 86_400.0:
        now_s += MARKED_S * 0.9
        assert store.take(call(n=3), now_s).state is ApprovalState.UNKNOWN
    assert store.every(now_s) == []
    assert store.denies("s1")
    took = store.take(call(context="sha256:d"), now_s)
    assert (took.state, took.id, took.answered and took.answered.who) == (ApprovalState.DENIED, question(1).id, "ana")
    assert store.take(call(n=2), now_s).state is ApprovalState.EXPIRED
    # Whatever another session does meanwhile. A file cannot know when a session ends: after so long a silence it has.
    store.take(call(session="s2"), now_s + MARKED_S)
    assert store.denies("s1")
    store.take(call(session="s2"), now_s + MARKED_S * 1.1)
    in_memory = isinstance(store, MemoryApprovals)
    assert store.denies("s1") is in_memory
    after = store.take(call(), now_s + MARKED_S * 1.1).state
    assert after is (ApprovalState.DENIED if in_memory else ApprovalState.UNKNOWN)


def test_a_clock_that_leaps_ahead_does_not_make_a_session_forget(store: Store) -> None:
    store.ask(question(1))
    say(store, question(1), yes=False)
    assert store.take(call(context="sha256:d"), 1e12).state is ApprovalState.DENIED
    assert store.take(call(context="sha256:d"), 200.0).state is ApprovalState.DENIED


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_a_no_stands_and_a_yes_runs_once(tmp_path: Path, seed: int) -> None:
    """A store through a random life never forgets what a person said; on disk and in memory it says the same."""
    rng = random.Random(seed)
    stores: list[Store] = [MemoryApprovals()]
    if seed < 3:
        # Every change reaches the disk, so the file's life is shorter.
        stores.append(SqliteApprovals(tmp_path / "state" / "approvals.db"))
    sessions, now_s, number = ["s1", "s2"], 100.0, 0
    denied: set[tuple[str, str]] = set()
    asked: set[tuple[str, str]] = set()
    yeses: dict[str, int] = {}
    for _ in range(80 if seed < 3 else 600):
        now_s += rng.choice([0.0, 1.0, 20.0, 320.0, -1.0]) if rng.random() < 0.95 else rng.choice([KEPT_S, -500.0])
        session = rng.choice(sessions)
        name = rng.choice("abcdef")
        context = rng.choice(["sha256:c", "sha256:d"])
        bound = finish(name, session=session, context=context, n=rng.randrange(2))
        if name == "a":
            bound = call(session, rng.choice(["sha256:p", "sha256:q"]), context)
        matter = (session, name)
        what = rng.choice(["ask", "ask", "answer", "take", "take", "void"])
        if what == "ask":
            number += 1
            ids = {store.ask(question(number, bound, now_s)) for store in stores}
            assert len(ids) == 1
            asked.add(matter)
        elif what == "void":
            assert len({store.void(session, now_s) for store in stores}) == 1
        elif what == "answer":
            waiting = stores[0].waiting(now_s)
            assert waiting == stores[-1].waiting(now_s)
            if waiting:
                pending, yes = rng.choice(waiting), rng.random() < 0.8
                assert {say(store, pending, yes=yes, now_s=now_s) for store in stores} == {
                    ApprovalState.GRANTED if yes else ApprovalState.DENIED
                }
                step = "a" if pending.tool != FINISH else pending.arguments.rpartition('"step":"')[2][0]
                if yes:
                    yeses[pending.id] = 1
                else:
                    denied.add((pending.session, step))
        else:
            one, *others = (store.take(bound, now_s) for store in stores)
            assert others in ([], [one])
            if matter in denied:
                assert one.state is ApprovalState.DENIED
            if one.state is ApprovalState.GRANTED:
                yeses[one.id] -= 1
                assert yeses[one.id] == 0
                asked.discard(matter)
            elif one.state in (ApprovalState.UNKNOWN, ApprovalState.USED):
                # The only answers after which a model may speak.
                assert matter not in asked
        for each in sessions:
            assert {store.denies(each) for store in stores} == {any(of == each for of, _ in denied)}


VALUES = [1, 1.0, True, "1", None, 0, -0.0, 0.0, False, "é", "e\u0301", 2**53, float(2**53), 2**53 + 1, [1], {"1": 1}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_that_only_looks_equal_is_another_call(store: Store, value: object) -> None:
    store.ask(question(bound=call(n=value)))
    say(store, question(bound=call(n=value)))
    for other in VALUES:
        if repr(other) != repr(value):
            assert store.take(call(n=other), 160.0).state is ApprovalState.UNKNOWN, other
    assert store.take(call(n=value), 161.0).state is ApprovalState.GRANTED


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
    assert store.void("unknown", 160.0) == 0
    assert say(store, question(1, call(n=1)), now_s=161.0) is ApprovalState.VOIDED
    assert store.take(call(n=2), 161.0).state is ApprovalState.VOIDED
    assert len(store.waiting(161.0)) == 2
    # The question may be put again, to a person who can then see what was read.
    assert store.ask(question(9, call(n=2), at_s=162.0)) == question(9).id


def test_only_what_was_shown_can_be_approved(store: Store) -> None:
    store.ask(question(1))
    store.ask(question(2, call(to="eve@example.com")))
    for digest in ("", question(2, call(to="eve@example.com")).digest, "sha256:"):
        assert not store.answer(question(1).id, digest=digest, yes=True, who="ana", now_s=150.0).counted
    assert store.take(call(), 151.0).state is ApprovalState.WAITING


@pytest.mark.parametrize("id", ["", "0" * 16, "f" * 16, "%", "' OR 1=1 --", "\ud800", "\x00", "é" * 9])
def test_an_unknown_id_is_unknown(store: Store, id: str) -> None:
    assert store.get(id, 1.0) is None
    store.ask(question())
    heard = store.answer(id, digest=question().digest, yes=True, who="ana", now_s=150.0)
    assert (heard.counted, heard.state) == (False, ApprovalState.UNKNOWN)
    assert store.get(id, 150.0) is None


def test_an_id_is_never_given_twice(store: Store) -> None:
    store.ask(question(1))
    with pytest.raises(InvalidCall, match="already there"):
        store.ask(question(1, call(to="eve@example.com")))
    assert store.take(call(to="eve@example.com"), 150.0).state is ApprovalState.UNKNOWN


def test_ids_can_be_shortened_while_only_one_is_meant(store: Store) -> None:
    for at, id in enumerate(["abcd1234", "abcd12345", "abcd99999", "ffff0000"]):
        store.ask(PendingApproval(id, call(n=at), 100.0, 400.0))
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


def test_all_sessions_together_are_bounded_too() -> None:
    # In memory: hundreds of writes would reach the disk.
    store = MemoryApprovals()
    for at in range(1, MAX_WAITING + 1):
        assert store.ask(question(at, call(session=f"s{at}")))
    assert store.ask(question(MAX_WAITING + 1, call(session="late"))) == ""


def test_a_few_sessions_cannot_shut_out_the_others() -> None:
    # In memory: hundreds of writes would reach the disk.
    store = MemoryApprovals()
    greedy = 16
    for at in range(MAX_WAITING_PER_SESSION * greedy):
        store.ask(question(at, call(session=f"greedy{at % greedy}", n=at)))
    assert len(store.waiting(100.0)) == MAX_WAITING - NEWCOMERS
    for at in range(NEWCOMERS):
        assert store.ask(question(1000 + at, call(session=f"new{at}")))
        assert store.ask(question(2000 + at, call(session=f"new{at}", n=2))) == ""


def test_there_is_room_for_others_and_for_what_was_asked_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "MAX_WAITING", 6)
    monkeypatch.setattr(approvals, "NEWCOMERS", 2)
    monkeypatch.setattr(approvals, "MAX_MARKS", 5)
    ids = [store.ask(question(at, call(n=at))) for at in range(1, 7)]
    assert [bool(id) for id in ids] == [True] * 4 + [False] * 2
    ids = [store.ask(question(10 + at, call(session=f"s{at}"))) for at in (2, 3, 4)]
    assert [bool(id) for id in ids] == [True, True, False]
    # A session that has asked about as many calls as it may can still ask about those.
    store.void("s1", 150.0)
    assert store.ask(question(20, call(n=5), at_s=151.0))
    assert store.ask(question(21, call(n=6), at_s=151.0)) == ""
    assert store.ask(question(22, call(n=1), at_s=151.0)) == question(22).id


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
    assert store.take(call(), 150.0).state is ApprovalState.WAITING


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns so often that one without a lock is caught in the middle."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_forty_threads_one_runs(store: Store, hurried: None) -> None:
    start = Barrier(40)

    def execute(bound: BoundCall) -> ApprovalState:
        start.wait()
        return store.take(bound, 160.0).state

    with ThreadPoolExecutor(40) as pool:
        for number in range(1, 21 if isinstance(store, MemoryApprovals) else 2):
            bound = call(n=number)
            store.ask(question(number, bound))
            say(store, question(number, bound))
            states = list(pool.map(execute, [bound] * 40))
            assert sorted(states) == sorted([ApprovalState.GRANTED] + [ApprovalState.USED] * 39)


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
    store.ask(question(2, call(n=0)))
    for session in ("s1", "s2"):
        for at in range(1, MAX_MARKS + 40):
            asked = store.ask(question(10_000 * int(session[1]) + at, call(session=session, n=at)))
            assert bool(asked) == (at <= MAX_MARKS - 2 * (session == "s1"))
            if at % 20 == 0:
                store.void(session, 160.0)
    assert len(store.every(160.0)) <= MAX_KEPT + 40
    assert store.get(question(1).id, 160.0) is None
    assert store.take(call(context="sha256:d"), 160.0).state is ApprovalState.DENIED
    assert store.take(call(n=0), 160.0).state in (ApprovalState.EXPIRED, ApprovalState.VOIDED)


def test_what_new_content_voids_says_which_block(telling: tuple[Store, Told]) -> None:
    store, told = telling
    store.ask(question(1))
    assert store.void("s1", 110.0, approvals.void_by_block("b0007", "web:track.example")) == 1
    kept = store.get(question(1).id, 111.0)
    assert kept is not None
    assert (kept.state, kept.why) == (ApprovalState.VOIDED, "the agent has read b0007 from web:track.example since")
    assert told.blocks == ["", "b0007"]
    taken = store.take(call(), 112.0)
    assert (taken.state, taken.why, taken.id) == (ApprovalState.VOIDED, kept.why, question(1).id)
    assert say(store, question(1), now_s=113.0) is ApprovalState.VOIDED


def test_why_a_yes_is_void_takes_the_place_of_its_remark(store: Store) -> None:
    store.ask(question(1))
    assert say(store, question(1)) is ApprovalState.GRANTED
    long = approvals.void_by_block("b0007", "web:" + "\ud800" + "x" * 900)
    store.void("s1", 160.0, long)
    kept = store.get(question(1).id, 161.0)
    assert kept is not None
    assert kept.answered is not None
    assert kept.answered.who == "ana"
    assert kept.why.startswith("the agent has read b0007 from web:")
    assert len(kept.why) <= approvals.MAX_WHY


def test_a_new_question_ends_the_one_it_replaces(store: Store) -> None:
    old, elsewhere = question(1), question(2, call(policy="sha256:other"))
    for each in (old, elsewhere):
        store.ask(each)
    later = call(context="sha256:later")
    for number, replaced in ((3, elsewhere), (4, old)):
        shown = approvals.ShownDetails(replaces=replaced.id)
        store.ask(PendingApproval(f"{number:016x}", later._replace(context=f"sha256:{number}"), 120.0, 400.0, shown))
    states = {each.pending.id[-1]: each for each in store.every(130.0)}
    assert states["1"].state is ApprovalState.VOIDED
    assert states["1"].why.endswith(f"it was asked again as {4:016x}")
    # Another process may rule by the other policy.
    assert states["2"].state is ApprovalState.WAITING
    assert states["4"].pending.shown.replaces == old.id


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_no_race_in_memory_or_on_disk_runs_a_call_twice_or_loses_it(kind: str, tmp_path: Path) -> None:
    """300 questions in memory, 60 on disk; `tests/hosts/test_approval_races.py` has thousands."""
    told = Told()
    path = tmp_path / "state" / "approvals.db"
    store = MemoryApprovals(record=told) if kind == "memory" else SqliteApprovals(path, record=told)
    race([store], told, 300 if kind == "memory" else 60)


def race(stores: Sequence[Store], told: Told, rounds: int) -> None:
    """Answers, expiry, new content and the call itself at once, each through one of the stores' connections."""
    dice = random.Random(11)
    ended = {
        ApprovalState.DENIED,
        ApprovalState.EXPIRED,
        ApprovalState.USED,
        ApprovalState.VOIDED,
    }
    with ThreadPoolExecutor(4) as pool:
        for number in range(1, rounds + 1):
            pending = question(number, call(f"s{number}"))
            store = dice.choice(stores)
            store.ask(pending)
            moves: list[Callable[[Store], object]] = [
                lambda store, pending=pending: say(store, pending),
                lambda store, pending=pending: say(store, pending, yes=False, who="bo"),
                lambda store, pending=pending: store.void(
                    pending.session, 150.0, approvals.void_by_block("b0002", "web:x")
                ),
                lambda store, pending=pending: store.take(pending.bound, 150.0),
                lambda store, pending=pending: store.take(pending.bound, 150.0),
                lambda store, pending=pending: store.take(pending.bound, 100_000.0),
            ]
            dice.shuffle(moves)
            results = list(pool.map(_until_not_busy, moves, dice.choices(stores, k=len(moves))))
            ran = sum(getattr(each, "state", None) is ApprovalState.GRANTED for each in results)
            store.take(pending.bound, 100_000.0)
            kept = store.get(pending.id, 100_000.0)
            assert kept is not None
            assert kept.state in ended
            assert ran == (kept.state is ApprovalState.USED)
            # Each of them is recorded as asked, and as ended once.
            states = [ApprovalState(state) for id, state, _ in told.whole if id == pending.id]
            assert states[0] is ApprovalState.WAITING
            assert [state for state in states if state in ended] == [kept.state]
            told.whole.clear()
    for store in stores:
        assert len(store.every(100_000.0)) == rounds


def _until_not_busy(move: Callable[[Store], object], store: Store) -> object:
    while True:
        try:
            return move(store)
        except LockgateError as error:
            # On a machine that stands still for seconds, the store says that it was busy, and has done nothing.
            if "busy" not in error.message:
                raise


# Two people


def for_two(number: int = 1) -> PendingApproval:
    return PendingApproval(f"{number:016x}", call(), 100.0, 400.0, approvals.ShownDetails(people=2))


def say_as(store: Store, person: str, *, yes: bool = True, who: str = "") -> tuple[bool, ApprovalState]:
    pending = for_two()
    heard = store.answer(
        pending.id, digest=pending.digest, yes=yes, who=who or person or "ana", now_s=150.0, person=person
    )
    return heard.counted, heard.state


def test_two_different_persons_let_it_run(telling: tuple[Store, Told]) -> None:
    store, told = telling
    store.ask(for_two())
    assert say_as(store, "ana") == (True, ApprovalState.WAITING)
    assert store.take(call(), 151.0).state is ApprovalState.WAITING
    assert say_as(store, "bo") == (True, ApprovalState.GRANTED)
    taken = store.take(call(), 152.0)
    assert taken.state is ApprovalState.GRANTED
    assert taken.answered is not None
    assert taken.answered.who == "ana and bo"
    assert told.changes[1:3] == [("1", "waiting", "ana"), ("1", "granted", "ana and bo")]


@pytest.mark.parametrize("who", ["", "bo", "another", "ana and bo"])
def test_one_person_counts_once_by_whatever_name(store: Store, who: str) -> None:
    store.ask(for_two())
    assert say_as(store, "ana") == (True, ApprovalState.WAITING)
    assert say_as(store, "ana", who=who) == (False, ApprovalState.WAITING)
    # Without a proof of the person there is no yes at all.
    assert say_as(store, "", who=who) == (False, ApprovalState.WAITING)
    assert store.take(call(), 151.0).state is ApprovalState.WAITING


@pytest.mark.parametrize("person", ["ana", "bo", ""])
def test_a_no_of_any_person_ends_it(store: Store, person: str) -> None:
    store.ask(for_two())
    say_as(store, "ana")
    assert say_as(store, person, yes=False) == (True, ApprovalState.DENIED)
    assert say_as(store, "bo") == (False, ApprovalState.DENIED)
    assert store.take(call(), 151.0).state is ApprovalState.DENIED
