"""Calls that were held for a person and have not run since: what an unattended run has to report when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from lockgate.core.ruling.approvals import Approval, ApprovalState
from lockgate.core.vocabulary import Action
from lockgate.sessions.host import Host
from lockgate.sessions.session_entries import MAX_PAGE, StoredRuling

# Rulings are in the order in which they were made. A clock that was set back within this time hides none of them.
_CLOCK_SLACK_S = 86_400.0
_ALLOWED = frozenset({ApprovalState.GRANTED, ApprovalState.USED})


@runtime_checkable
class AnswerStore(Protocol):
    """The approvals as they are needed here: how it stands with one question."""

    def get(self, id: str, now_s: float) -> Approval | None: ...


def held_calls(
    host: Host, approvals: object, *, now_s: float, session: str = "", since_s: float = 0.0
) -> Iterator[StoredRuling]:
    """Yield held calls since that time, the newest first: those that neither ran nor were approved.

    `session` stands for the agents inside it too. `approvals` is the gate's store, or None; a question that cannot be
    looked up there counts as not approved.
    """
    before: int | None = None
    while page := host.decisions(action=Action.PAUSE.value, before=before, limit=MAX_PAGE):
        before = page[-1].seq
        for kept in page:
            if kept.at < since_s - _CLOCK_SLACK_S:
                return
            if kept.at < since_s:
                continue
            if session and kept.session != session and not kept.session.startswith(f"{session}/"):
                continue
            if kept.ran not in ("ran", "failed") and not _is_allowed(kept, approvals, now_s):
                yield kept


def _is_allowed(kept: StoredRuling, approvals: object, now_s: float) -> bool:
    if not isinstance(approvals, AnswerStore) or not kept.decision.approval:
        return False
    found = approvals.get(kept.decision.approval, now_s)
    return found is not None and found.state in _ALLOWED
