"""The list of notices to send: each is claimed by one process at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lockgate.core.ruling.approvals import NO_DETAILS, PendingApproval, bind_call
from lockgate.gate.approvals_sqlite import SqliteApprovals
from lockgate.gate.notices_sqlite import MOST_PER_MINUTE


def test_many_processes_claim_each_notice_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "approvals.db"
    stores = [SqliteApprovals(path) for _ in range(4)]
    assert stores[0].claim_notices(("hook",), 100.0) == []
    for at in range(10):
        bound = bind_call(f"s{at}", "pay", {"n": at}, "sha256:p", "sha256:c")
        stores[0].ask(PendingApproval(f"{at:016x}", bound, 100.0, 400.0))
    with ThreadPoolExecutor(4) as pool:
        claimed = [
            due for found in pool.map(lambda store: store.claim_notices(("a", "b"), 110.0), stores) for due in found
        ]
    assert len(claimed) == len({(due.approval.pending.id, due.target) for due in claimed}) == 20
    stores[0].mark_sent(claimed[0], 111.0)
    later = stores[1].claim_notices(("a", "b"), 130.0)
    assert (len(later), {due.tries for due in later}) == (19, {2})


def test_a_target_gets_few_notices_in_a_minute_and_then_one_about_the_others(tmp_path: Path) -> None:
    store = SqliteApprovals(tmp_path / "state" / "approvals.db")
    for at in range(45):
        ask(store, at)
    told: list[str] = []
    for minute in range(4):
        for second in (0, 20, 40):
            now_s = 110.0 + 60 * minute + second
            for due in store.claim_notices(("a",), now_s):
                if due.more:
                    told.append(f"and {due.more} more")
                else:
                    told.append(due.approval.pending.id)
                    store.mark_sent(due, now_s)
    # Nothing is lost: each has its turn, in the order it was asked.
    assert [each for each in told if each.startswith("and")] == ["and 25 more", "and 5 more"]
    assert [each for each in told if not each.startswith("and")] == [f"{at:016x}" for at in range(45)]
    assert len(store.waiting(500.0)) == 45


def test_targets_and_processes_share_one_brake_each(tmp_path: Path) -> None:
    stores = [SqliteApprovals(tmp_path / "state" / "approvals.db") for _ in range(3)]
    for at in range(25):
        ask(stores[0], at)
    found = [due for _ in range(2) for store in stores for due in store.claim_notices(("a", "b"), 110.0)]
    for target in ("a", "b"):
        mine = [due for due in found if due.target == target]
        assert len([due for due in mine if not due.more]) == MOST_PER_MINUTE
        assert len([due for due in mine if due.more]) == 1


def test_a_question_that_replaces_another_is_told_of_a_minute_later(tmp_path: Path) -> None:
    store = SqliteApprovals(tmp_path / "state" / "approvals.db")
    told: list[str] = []
    latest = ""
    for second in range(0, 200, 5):
        now_s = 110.0 + second
        # The agent reads on, and asks again, every five seconds.
        latest = ask(store, second, now_s=now_s, session="s", replaces=latest)
        for due in store.claim_notices(("a",), now_s):
            told.append(due.approval.pending.id)
            store.mark_sent(due, now_s)
    assert told == [f"{second:016x}" for second in (0, 60, 120, 180)]
    # The last one has its turn too.
    assert [due.approval.pending.id for due in store.claim_notices(("a",), 400.0)] == [latest]


def ask(store: SqliteApprovals, at: int, *, now_s: float = 100.0, session: str = "", replaces: str = "") -> str:
    bound = bind_call(session or f"s{at}", "pay", {"n": 1 if session else at}, "sha256:p", f"sha256:c{at}")
    shown = NO_DETAILS._replace(replaces=replaces)
    return store.ask(PendingApproval(f"{at:016x}", bound, now_s, now_s + 4000.0, shown))
