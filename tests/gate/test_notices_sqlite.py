"""The list of notices to send: each is claimed by one process at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lockgate.core.ruling.approvals import PendingApproval, bind_call
from lockgate.gate.approvals_sqlite import SqliteApprovals


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
