"""Supervised steps of sessions that outlive a process: an entry about a step has the same effect everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lockgate.core.errors import SessionsUnavailable
from lockgate.core.ruling.pipeline import decide_unrecorded
from lockgate.core.ruling.policy import observe
from lockgate.core.ruling.supervised_steps import FINISH, Commitment, SelfAssessment, parse_statement
from lockgate.core.vocabulary import Action, Reason, ToolCall
from lockgate.gate.supervised_step import Step, json_fields
from lockgate.sessions.live_session import LiveSession
from lockgate.sessions.ruling_keeper import RulingKeeper, RulingStart
from lockgate.sessions.session_cache import SessionCache
from lockgate.sessions.session_entries import EntrySort, SessionEntry, StoredRuling, check_name, to_json


class StepInfo(NamedTuple):
    """A supervised step as it stands."""

    session: str
    name: str
    goal: str
    supervision: str
    state: str
    commitment: dict[str, object] | None
    triggers: tuple[str, ...] = ()


class HostSteps:
    """The supervised steps of a host's sessions."""

    def __init__(self, cache: SessionCache, rulings: RulingKeeper, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._rulings = rulings
        self._clock = clock

    def begin(self, session: str, goal: str, *, supervision: str | None = None, parent: str = "") -> StepInfo:
        """Begin a step as `Session.step` does, inside the step that `parent` names."""
        return self._append(session, "begin", goal, supervision, parent)

    def commit(self, session: str, step: str, commitment: Mapping[str, object]) -> StepInfo:
        """Take what the agent commits to, once."""
        return self._append(session, "commit", step, json_fields(parse_statement(commitment, Commitment)))

    def abandon(self, session: str, step: str) -> StepInfo:
        """Give a step up, and those inside it."""
        return self._append(session, "abandon", step)

    def get(self, session: str, step: str) -> StepInfo | None:
        """Return the step as it stands; None where there is none."""
        live = self._cache.current_if_kept(session)
        return None if live is None or step not in live.steps else _step_info(live, live.steps[step])

    def check(
        self,
        session: str,
        step: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
    ) -> StoredRuling:
        """Rule on one call of a step before it runs."""
        start = self._look(session, key)
        live, call = start.live, ToolCall(tool, arguments, annotations, key=key)
        running = live.step(step)
        decision = running.check(tool, arguments, annotations=annotations)
        kept = self._rulings.keep(start, call, decision, called=decision.reason is not Reason.RECONCILIATION)
        self._cache.catch_up(live)
        if kept.seq and kept.decision.action is Action.CONTINUE and running.finished:
            # Another process ended the step while this one ruled, without knowing of this call.
            held = decide_unrecorded(kept.decision, live.ruler.policy, "the step was finished meanwhile")
            held = observe(held._replace(action=Action.PAUSE, reason=Reason.RECONCILIATION), live.ruler.policy)
            return self._rulings.keep(start, call, held)
        self._rulings.refuse_late(start, kept)
        return kept

    def finish(self, session: str, step: str, assessment: Mapping[str, object]) -> StoredRuling:
        """Rule on the step: CONTINUE ends it, REORIENT leaves it open, PAUSE holds it. After a PAUSE, ask again."""
        start = self._look(session)
        live = start.live
        running = live.step(step)
        parsed = parse_statement(assessment, SelfAssessment)
        decision = running.finish(parsed)
        state = SessionEntry(EntrySort.STEP, self._clock(), detail=to_json(("state", step, running.state)))
        shown: dict[str, object] = {"step": step, "goal": running.goal, "assessment": json_fields(parsed)}
        kept = self._rulings.keep(start, ToolCall(FINISH, shown), decision, state, called=False)
        if not kept.seq:
            # The end is not kept, so the step has not ended: the session is read anew.
            live.is_outdated = True
        return kept

    def _look(self, session: str, key: str = "") -> RulingStart:
        start = self._rulings.look(session, key)
        if start.why:
            raise SessionsUnavailable(f"the step cannot be read: {start.why}")
        return start

    def _append(self, session: str, *detail: object) -> StepInfo:
        live = self._cache.current(check_name(session, "a session's id"))
        if detail[0] != "begin":
            live.step(str(detail[1]))
        (place,) = self._cache.append(live, SessionEntry(EntrySort.STEP, self._clock(), detail=to_json(detail)))
        live = self._cache.current(session)
        result = live.step_results.get(place.seq)
        if isinstance(result, Step):
            return _step_info(live, result)
        raise result or SessionsUnavailable("the session store lost a step it just wrote")


def _step_info(live: LiveSession, step: Step) -> StepInfo:
    commitment = step.commitment
    return StepInfo(
        live.id,
        step.name,
        step.goal,
        step.supervision.value,
        step.state,
        None if commitment is None else json_fields(commitment),
        tuple(f"{trigger.rule.removeprefix('step:')}: {trigger.excerpt}" for trigger in step.triggers),
    )
