"""Approvals for one process: gone when it ends, and with nothing on disk."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from lockgate.core.approvals import (
    KEPT_S,
    MAX_KEPT,
    MAX_WAITING,
    MAX_WAITING_PER_SESSION,
    OPEN,
    Approval,
    Bound,
    Heard,
    Pending,
    State,
    Taken,
    aged,
    answered,
    checked_answer,
    checked_time,
    standing,
    taken,
)
from lockgate.core.errors import InvalidCall, quoted


class MemoryApprovals:
    """Questions to a person, answered by whoever holds this object. Safe for several threads."""

    def __init__(self) -> None:
        # In the order they were asked; every method that changes it holds the lock for all of its change.
        self._kept: dict[str, Approval] = {}
        self._lock = Lock()

    def ask(self, pending: Pending) -> str:
        """Keep the question; the id under which the call waits, an earlier one's if the same call waits already.

        Empty when there are too many: the call then pauses with nobody asked.
        """
        with self._lock:
            self._age(pending.created_s)
            known = standing(self._same(pending.bound))
            if known is not None and (known.state in OPEN or known.state is State.DENIED):
                return known.pending.id
            if pending.id in self._kept:
                raise InvalidCall(f"approval {quoted(pending.id)} is already there")
            sessions = [each.pending.session for each in self._kept.values() if each.state in OPEN]
            if len(sessions) >= MAX_WAITING or sessions.count(pending.session) >= MAX_WAITING_PER_SESSION:
                return ""
            self._kept[pending.id] = Approval(pending)
            return pending.id

    def answer(self, id: str, *, digest: str, yes: bool, who: str, now_s: float, reason: str = "") -> Heard:
        """Record a person's answer if it is the first, in time, and to what has this digest."""
        said = checked_answer(yes, who, reason, now_s)
        with self._lock:
            self._age(said.at_s)
            approval = self._kept.get(id)
            if approval is None:
                return Heard(False, State.UNKNOWN)
            heard = answered(approval, digest, said)
            if heard.approval is not None:
                self._kept[id] = heard.approval
            return heard

    def take(self, bound: Bound, now_s: float) -> Taken:
        """Hand a yes to this very call out, once."""
        now_s = checked_time(now_s)
        with self._lock:
            self._age(now_s)
            said, changed = taken(bound, self._same(bound), self._kept.values(), now_s)
            if changed is not None:
                self._kept[changed.pending.id] = changed
            return said

    def void(self, session: str, now_s: float) -> int:
        """End every open question of a session, answered or not; how many there were."""
        now_s = checked_time(now_s)
        with self._lock:
            self._age(now_s)
            ended = [each for each in self._kept.values() if each.pending.session == session and each.state in OPEN]
            for each in ended:
                self._kept[each.pending.id] = replace(each, state=State.VOIDED, ended_s=now_s)
            return len(ended)

    def waiting(self, now_s: float) -> list[Pending]:
        """What waits for an answer, oldest first."""
        return [each.pending for each in self.every(now_s) if each.state is State.WAITING]

    def every(self, now_s: float) -> list[Approval]:
        """Everything that is still kept, oldest first."""
        now_s = checked_time(now_s)
        with self._lock:
            return [aged(each, now_s) for each in self._kept.values()]

    def get(self, id: str, now_s: float) -> Approval | None:
        now_s = checked_time(now_s)
        with self._lock:
            approval = self._kept.get(id)
            return None if approval is None else aged(approval, now_s)

    def find(self, start: str) -> list[str]:
        """The ids that begin so, at most three; an id that is given whole is only itself."""
        with self._lock:
            if start in self._kept:
                return [start]
            return [id for id in self._kept if id.startswith(start)][:3]

    def _same(self, bound: Bound) -> list[Approval]:
        return [each for each in self._kept.values() if each.pending.bound == bound]

    def _age(self, now_s: float) -> None:
        self._kept = {id: aged(each, now_s) for id, each in self._kept.items()}
        ended = [each for each in self._kept.values() if each.state not in OPEN]
        # A no is not counted: an agent must not be able to have it forgotten by asking a thousand other things.
        spare = [each for each in ended if each.state is not State.DENIED]
        old = [each for each in ended if each.ended_s < now_s - KEPT_S]
        for each in (*spare[: max(0, len(spare) - MAX_KEPT)], *old):
            self._kept.pop(each.pending.id, None)
