"""Approvals for one process: gone when it ends, and with nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from lockgate.core.errors import InvalidCall, quoted
from lockgate.core.ruling.approvals import (
    KEPT_S,
    MAX_KEPT,
    NOT_SAID,
    OPEN_STATES,
    AnswerResult,
    Approval,
    ApprovalChange,
    ApprovalMark,
    ApprovalState,
    BoundCall,
    GrantState,
    HeldFacts,
    PendingApproval,
    RecordChanges,
    TakeResult,
    VoidReason,
    change_from_approval,
    deny_same_call,
    expire_if_due,
    find_existing_id,
    find_replaced,
    has_room,
    parse_answer,
    parse_time,
    take_approval,
    void_approval,
)
from lockgate.core.ruling.grants import (
    MAX_GRANTS,
    Grant,
    apply_answer_with_span,
    change_from_grant,
    find_covering,
    full_error,
)


class MemoryApprovals:
    """Questions to a person, answered by the program that holds this object. Safe for several threads.

    `record` gets every change before it takes effect; where it raises, the change is taken back.
    """

    def __init__(self, *, record: RecordChanges | None = None) -> None:
        self._record = record
        # In the order they were asked; every method that changes it holds the lock for all of its change.
        self._kept: dict[str, Approval] = {}
        # By session and matter; never forgotten, since the sessions do not outlive this object.
        self._marks: dict[str, dict[str, ApprovalMark]] = {}
        self._grants: dict[str, Grant] = {}
        self._lock = Lock()

    def ask(self, pending: PendingApproval) -> str:
        """Keep the question; return the id under which the call waits, an earlier one if the same call waits already.

        Return an empty id when too many are open: the call then pauses, and no person is asked.
        """
        with self._transaction() as changed:
            self._expire_old(pending.created_s, changed)
            marks = self._marks.get(pending.session, {})
            mark = marks.get(pending.call_key)
            known = find_existing_id(pending, mark, self._approvals_on_matter(pending.call_key))
            if not known:
                if pending.id in self._kept:
                    raise InvalidCall(f"approval {quoted(pending.id)} is already there")
                sessions = [each.pending.session for each in self._kept.values() if each.state in OPEN_STATES]
                if not has_room(len(sessions), sessions.count(pending.session), len(marks) - (mark is not None)):
                    return ""
                for old in find_replaced(pending, self._kept.values(), pending.created_s):
                    self._kept[old.pending.id] = old
                    changed.append(change_from_approval(old))
                self._kept[pending.id] = Approval(pending)
                changed.append(change_from_approval(self._kept[pending.id]))
            if mark is None or mark.no is None:
                self._marks.setdefault(pending.session, {})[pending.call_key] = ApprovalMark(known or pending.id)
            return known or pending.id

    def answer(
        self,
        id: str,
        *,
        digest: str,
        yes: bool,
        who: str,
        now_s: float,
        reason: str = "",
        span: str = "",
        person: str = "",
    ) -> AnswerResult:
        """Record a person's answer if it is the first, in time, and about the call of this digest.

        With a `span` the yes also makes the grant of that span, and the digest is that of its offer. `person` is who
        it is proved to come from: where two people are needed, only that name counts.
        """
        said = parse_answer(yes, who, reason, now_s)
        with self._transaction() as changed:
            self._expire_old(said.at_s, changed)
            approval = self._kept.get(id)
            if approval is None:
                return AnswerResult(False, ApprovalState.UNKNOWN)
            heard, grant = apply_answer_with_span(approval, digest, said, span, person)
            if heard.counted and heard.approval is not None:
                self._kept[id] = heard.approval
                changed.append(change_from_approval(heard.approval))
                if grant is not None:
                    self._forget_ended_grants(said.at_s)
                    if len(self._grants) >= MAX_GRANTS:
                        raise full_error()
                    self._grants[id] = grant
                    changed.append(change_from_grant(grant, GrantState.MADE, said.who))
                if heard.state is ApprovalState.DENIED:
                    pending = heard.approval.pending
                    self._marks.setdefault(pending.session, {})[pending.call_key] = ApprovalMark(
                        id, said._replace(reason="")
                    )
                    for other in deny_same_call(self._approvals_on_matter(pending.call_key), said):
                        self._kept[other.pending.id] = other
                        changed.append(change_from_approval(other))
            return heard

    def take(self, bound: BoundCall, now_s: float) -> TakeResult:
        """Return what is answered to this call; a yes is handed out once."""
        now_s = parse_time(now_s)
        with self._transaction() as changed:
            self._expire_old(now_s, changed)
            matter, marks = bound.call_key, self._marks.get(bound.session, {})
            said, used = take_approval(
                bound, marks.get(matter), self._approvals_on_matter(matter), self._kept.values(), now_s
            )
            if used is not None:
                self._kept[used.pending.id] = used
                changed.append(change_from_approval(used))
                marks.pop(matter, None)
            return said

    def denies(self, session: str) -> bool:
        """Return whether a person has said no to anything in this session."""
        with self._lock:
            return any(mark.no is not None for mark in self._marks.get(session, {}).values())

    def void(self, session: str, now_s: float, why: VoidReason = NOT_SAID) -> int:
        """End every open question of a session, answered or not; return how many there were."""
        now_s = parse_time(now_s)
        with self._transaction() as changed:
            self._expire_old(now_s, changed)
            ended = [
                each for each in self._kept.values() if each.pending.session == session and each.state in OPEN_STATES
            ]
            for each in ended:
                self._kept[each.pending.id] = void_approval(each, now_s, why.text)
                changed.append(change_from_approval(self._kept[each.pending.id])._replace(block=why.block))
            return len(ended)

    def waiting(self, now_s: float) -> list[PendingApproval]:
        """Return the questions that wait for an answer, oldest first."""
        return [each.pending for each in self.every(now_s) if each.state is ApprovalState.WAITING]

    def every(self, now_s: float) -> list[Approval]:
        """Return everything that is still kept, oldest first."""
        now_s = parse_time(now_s)
        with self._lock:
            return [expire_if_due(each, now_s) for each in self._kept.values()]

    def get(self, id: str, now_s: float) -> Approval | None:
        """Return the question of this id as it stands now; None where there is none."""
        now_s = parse_time(now_s)
        with self._lock:
            approval = self._kept.get(id)
            return None if approval is None else expire_if_due(approval, now_s)

    def find(self, start: str) -> list[str]:
        """Return at most three ids that begin so; a complete id matches only itself."""
        with self._lock:
            if start in self._kept:
                return [start]
            return [id for id in self._kept if id.startswith(start)][:3]

    def grants(self, now_s: float) -> list[Grant]:
        """Return the grants that hold, oldest first."""
        now_s = parse_time(now_s)
        with self._lock:
            return [each for each in self._grants.values() if now_s < each.rule.expires_s]

    def use_grant(self, bound: BoundCall, facts: HeldFacts, now_s: float) -> Grant | None:
        """Return a grant that covers this call, counted as used; None where there is none, or a person denied it."""
        now_s = parse_time(now_s)
        with self._transaction():
            mark = self._marks.get(bound.session, {}).get(bound.call_key)
            found = find_covering(self._grants.values(), bound, facts, now_s)
            if found is None or (mark is not None and mark.no is not None):
                return None
            self._grants[found.id] = found._replace(uses=found.uses + 1, used_s=now_s)
            return self._grants[found.id]

    def revoke_grant(self, id: str, *, who: str, now_s: float) -> bool:
        """End a grant; return whether there was one. No call that is ruled on afterwards is covered by it."""
        said = parse_answer(False, who, "", now_s)
        with self._transaction() as changed:
            grant = self._grants.pop(id, None)
            if grant is not None:
                changed.append(change_from_grant(grant, GrantState.REVOKED, said.who))
            return grant is not None

    def _forget_ended_grants(self, now_s: float) -> None:
        self._grants = {id: each for id, each in self._grants.items() if now_s < each.rule.expires_s}

    def _approvals_on_matter(self, matter: str) -> list[Approval]:
        return [each for each in self._kept.values() if each.pending.call_key == matter]

    @contextmanager
    def _transaction(self) -> Iterator[list[ApprovalChange]]:
        """Make one change, whole or not at all; the changes in the list are recorded before they take effect."""
        changed: list[ApprovalChange] = []
        with self._lock:
            kept, marks = dict(self._kept), {session: dict(each) for session, each in self._marks.items()}
            grants = dict(self._grants)
            recorded = False
            try:
                yield changed
                if changed and self._record is not None:
                    self._record(changed)
                recorded = True
            finally:
                if not recorded:
                    self._kept, self._marks, self._grants = kept, marks, grants

    def _expire_old(self, now_s: float, changed: list[ApprovalChange]) -> None:
        before = self._kept
        self._kept = {id: expire_if_due(each, now_s) for id, each in before.items()}
        changed += [change_from_approval(each) for id, each in self._kept.items() if each is not before[id]]
        ended = [each for each in self._kept.values() if each.state not in OPEN_STATES]
        old = [each for each in ended if each.ended_s < now_s - KEPT_S]
        # The marks remember each no and each question: an agent cannot undo one by asking a thousand other things.
        for each in (*ended[: max(0, len(ended) - MAX_KEPT)], *old):
            self._kept.pop(each.pending.id, None)
