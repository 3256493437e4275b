"""What every store promises of grants: one change with the answer, used until revoked, lost by no restart."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from lockgate.core.errors import InvalidCall, JournalUnavailable, LockgateError
from lockgate.core.ruling import grants as rules
from lockgate.core.ruling.approvals import (
    ApprovalChange,
    ApprovalState,
    BoundCall,
    HeldFacts,
    PendingApproval,
    ShownDetails,
    bind_call,
)
from lockgate.core.ruling.grants import Grant, offers_from_pending
from lockgate.gate import grants_sqlite
from lockgate.gate.approvals_memory import MemoryApprovals
from lockgate.gate.approvals_sqlite import SqliteApprovals

Store = MemoryApprovals | SqliteApprovals
FACTS = HeldFacts(
    effects=(("sends-message", "ana@example.com"),),
    sources=("web:a",),
    rules=("effect:sends-message",),
    names=("body", "to"),
    arguments="sha256:a",
    is_exact=False,
    project="/p",
    widest="always",
    barred="",
)


class Told:
    """What a store tells of its changes; it may be told to refuse."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []
        self.refuses = False

    def __call__(self, changes: Sequence[ApprovalChange]) -> None:
        if self.refuses:
            raise JournalUnavailable("on purpose")
        self.changes += [(each.state.value, each.who, each.digest) for each in changes]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "approvals.db"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, path: Path, told: Told) -> Store:
    return MemoryApprovals(record=told) if request.param == "memory" else SqliteApprovals(path, record=told)


def call(session: str = "s1", **arguments: object) -> BoundCall:
    return bind_call(session, "send_email", {"to": "ana@example.com", **arguments}, "sha256:p", "sha256:c")


def question(number: int = 1, bound: BoundCall | None = None) -> PendingApproval:
    return PendingApproval(f"{number:016x}", bound or call(), 100.0, 400.0, ShownDetails(facts=FACTS))


def grant(store: Store, pending: PendingApproval, span: str = "session", now_s: float = 150.0) -> str:
    offer = rules.find_offer(pending, span)
    assert offer is not None
    assert store.ask(pending) == pending.id
    heard = store.answer(pending.id, digest=offer.digest, yes=True, who="ana", now_s=now_s, span=span)
    assert (heard.counted, heard.state) == (True, ApprovalState.GRANTED)
    return offer.digest


def use(store: Store, bound: BoundCall | None = None, facts: HeldFacts = FACTS, now_s: float = 200.0) -> str:
    found = store.use_grant(bound or call(), facts, now_s)
    return "" if found is None else found.id


def test_an_answer_and_its_grant_are_one_change(store: Store, told: Told) -> None:
    digest = grant(store, question())
    assert told.changes[-2:] == [("granted", "ana", question().digest), ("grant-made", "ana", digest)]
    (made,) = store.grants(200.0)
    assert (made.id, made.made_by, made.made_s, made.uses, made.digest) == (question().id, "ana", 150.0, 0, digest)
    assert store.take(call(), 160.0).state is ApprovalState.GRANTED
    assert use(store) == question().id
    assert use(store, call(body="other"), now_s=300.0) == question().id
    (made,) = store.grants(300.0)
    assert (made.uses, made.used_s) == (2, 300.0)


def test_a_yes_without_a_span_makes_none(store: Store) -> None:
    store.ask(question())
    assert store.answer(question().id, digest=question().digest, yes=True, who="ana", now_s=150.0).counted
    assert (store.grants(200.0), use(store)) == ([], "")


def test_another_digest_makes_none_and_the_question_waits_on(store: Store) -> None:
    store.ask(question())
    for digest in (question().digest, offers_from_pending(question())[1].digest):
        heard = store.answer(question().id, digest=digest, yes=True, who="ana", now_s=150.0, span="session")
        assert (heard.counted, heard.state) == (False, ApprovalState.WAITING)
    with pytest.raises(InvalidCall):
        store.answer(question().id, digest=question().digest, yes=False, who="ana", now_s=150.0, span="session")
    assert store.grants(200.0) == []
    assert [each.id for each in store.waiting(200.0)] == [question().id]


def test_what_cannot_be_recorded_is_not_granted_or_revoked(store: Store, told: Told) -> None:
    store.ask(question())
    told.refuses = True
    offer = offers_from_pending(question())[0]
    with pytest.raises(JournalUnavailable):
        store.answer(question().id, digest=offer.digest, yes=True, who="ana", now_s=150.0, span="session")
    assert (store.grants(200.0), use(store)) == ([], "")
    told.refuses = False
    assert store.answer(question().id, digest=offer.digest, yes=True, who="ana", now_s=150.0, span="session").counted
    told.refuses = True
    with pytest.raises(JournalUnavailable):
        store.revoke_grant(question().id, who="bo", now_s=160.0)
    assert use(store) == question().id


def test_a_revoked_grant_covers_nothing(store: Store, told: Told) -> None:
    digest = grant(store, question())
    assert store.revoke_grant(question().id, who="bo", now_s=160.0)
    assert told.changes[-1] == ("grant-revoked", "bo", digest)
    assert (store.grants(200.0), use(store)) == ([], "")
    assert not store.revoke_grant(question().id, who="bo", now_s=161.0)
    assert not store.revoke_grant("no such", who="bo", now_s=161.0)
    with pytest.raises(InvalidCall):
        store.revoke_grant(question().id, who=" ", now_s=161.0)


def test_a_no_to_this_very_call_wins(store: Store) -> None:
    grant(store, question())
    denied = question(2, call(body="that one"))
    store.ask(denied)
    assert store.answer(denied.id, digest=denied.digest, yes=False, who="bo", now_s=160.0).counted
    assert use(store, call(body="that one")) == ""
    assert use(store, call(body="another")) == question().id


def test_an_ended_grant_is_neither_listed_nor_used(store: Store) -> None:
    grant(store, question())
    over = 100.0 + rules.SESSION_S
    assert (store.grants(over), use(store, now_s=over)) == ([], "")


def test_other_sessions_need_a_wider_grant(store: Store) -> None:
    grant(store, question())
    assert use(store, call("s2")) == ""
    grant(store, question(2, call(body="x")), "project")
    assert use(store, call("s2")) == question(2).id
    assert use(store, call("s2"), FACTS._replace(project="/q")) == ""


def test_there_is_room_for_so_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants_sqlite, "MAX_GRANTS", 2)
    grant(store, question(1))
    grant(store, question(2, call(n=2)))
    third = question(3, call(n=3))
    store.ask(third)
    digest = offers_from_pending(third)[0].digest
    with pytest.raises(LockgateError, match="grants already"):
        store.answer(third.id, digest=digest, yes=True, who="ana", now_s=150.0, span="session")
    assert [each.id for each in store.waiting(200.0)] == [third.id]
    assert store.revoke_grant(question(1).id, who="ana", now_s=151.0)
    assert store.answer(third.id, digest=digest, yes=True, who="ana", now_s=152.0, span="session").counted


def test_no_use_comes_after_a_revoke(store: Store) -> None:
    for number in range(1, 21):
        grant(store, question(number, call(n=number)))
        start = Barrier(3)

        def revoke(id: str = question(number).id, start: Barrier = start) -> bool:
            start.wait()
            return store.revoke_grant(id, who="bo", now_s=200.0)

        def use_often(start: Barrier = start) -> int:
            start.wait()
            return sum(bool(use(store)) for _ in range(5))

        with ThreadPoolExecutor(3) as pool:
            used = [pool.submit(use_often), pool.submit(use_often)]
            assert pool.submit(revoke).result()
            assert all(0 <= each.result() <= 5 for each in used)
        assert use(store) == ""


def test_uses_of_many_threads_are_all_counted(store: Store) -> None:
    grant(store, question())
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: use(store), range(40)))
    assert store.grants(200.0)[0].uses == 40


# The file


def test_a_grant_survives_a_restart_and_holds_in_other_processes(path: Path) -> None:
    grant(SqliteApprovals(path), question(), "project")
    program = (
        "import sys; from pathlib import Path\n"
        "from lockgate.gate.approvals_sqlite import SqliteApprovals\n"
        "from lockgate.core.ruling.approvals import HeldFacts, bind_call\n"
        f"facts = {FACTS!r}\n"
        "bound = bind_call('s9', 'send_email', {'to': 'ana@example.com'}, 'sha256:p', 'sha256:c')\n"
        "print(SqliteApprovals(Path(sys.argv[1])).use_grant(bound, facts, 200.0).id)\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, env=os.environ
        )
        for _ in range(2)
    ]
    assert {each.stdout.strip() for each in said} == {question().id}
    assert SqliteApprovals(path).grants(300.0)[0].uses == 2


def test_a_file_without_grants_is_good_as_it_is(path: Path) -> None:
    store = SqliteApprovals(path)
    assert (store.grants(1.0), use(store), store.revoke_grant("0" * 16, who="bo", now_s=1.0)) == ([], "", False)
    store.ask(question())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'grants'").fetchone() is None
    assert (store.grants(150.0), use(store)) == ([], "")


@pytest.mark.parametrize(
    "damage",
    ["rule = 'x'", "rule = replace(rule, 'session', 'always')", "uses = 'many'", "made_s = 'then'", "made_by = x'00'"],
)
def test_a_damaged_grant_is_an_error_and_covers_nothing(path: Path, damage: str) -> None:
    store = SqliteApprovals(path)
    grant(store, question())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE grants SET {damage}")
    with pytest.raises(LockgateError, match="damaged"):
        use(store)
    with pytest.raises(LockgateError, match="damaged"):
        store.grants(200.0)


def test_a_rule_may_hold_any_text(store: Store) -> None:
    odd = FACTS._replace(sources=("web:\u202e'; DROP TABLE grants; --\x00",))
    pending = PendingApproval("0" * 16, call(), 100.0, 400.0, ShownDetails(facts=odd))
    grant(store, pending)
    (made,) = store.grants(200.0)
    assert isinstance(made, Grant)
    assert made.rule.sources == odd.sources


def test_a_grant_without_a_question_is_recorded_and_needs_a_person(tmp_path: Path) -> None:
    told: list[ApprovalChange] = []
    store = SqliteApprovals(tmp_path / "approvals.db", record=told.extend)
    bound = bind_call("s1", "send_email", {"to": "ana@example.com", "body": "x"}, "sha256:p", "sha256:c")
    rule = rules.rule_from_facts(bound, FACTS, rules.GrantSpan.PROJECT, 100.0)
    grant = Grant("3f9a1c20b7d4e856", rule, "sha256:d", "ana", 100.0)
    for bad in (grant._replace(id="x"), grant._replace(made_by=" ")):
        with pytest.raises(InvalidCall):
            store.add_grant(bad)
    store.add_grant(grant)
    assert [(each.id, each.state.value, each.who) for each in told] == [("3f9a1c20b7d4e856", "grant-made", "ana")]
    assert store.grants(101.0) == [grant]
    used = store.use_grant(bound._replace(session="s2"), FACTS, 101.0)
    assert used is not None
    assert used.id == grant.id
