"""Supervised steps of sessions that outlive a process: what an entry about one does, it does wherever it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import NamedTuple

from lockgate.core.errors import SessionsUnavailable
from lockgate.core.ruling.pipeline import decide_unrecorded
from lockgate.core.ruling.supervision import FINISH, parse_assessment, parse_commitment
from lockgate.core.sessions.session_entries import EntrySort, SessionEntry, StoredRuling, check_name, to_json
from lockgate.core.vocabulary import Action, Reason
from lockgate.gate.supervised_step import Step
from lockgate.sessions.host import Hosting, is_valid_name
from lockgate.sessions.live_session import LiveSession


class StepInfo(NamedTuple):
    """A supervised step as it stands."""

    session: str
    name: str
    goal: str
    supervision: str
    state: str
    commitment: dict[str, object] | None
    triggers: tuple[str, ...] = ()


class Host(Hosting):
    """Sessions in a store with their steps, ruled on by one gate.

    Safe for several threads; several hosts may share a store.
    """

    def step_begin(self, session: str, goal: str, *, supervision: str | None = None, parent: str = "") -> StepInfo:
        """A supervised unit of work, as `Session.step` begins one; inside another one if `parent` names that."""
        return self._step_entry(session, "begin", goal, supervision, parent)

    def step_commit(self, session: str, step: str, commitment: Mapping[str, object]) -> StepInfo:
        return self._step_entry(session, "commit", step, _json_fields(asdict(parse_commitment(commitment))))

    def step_abandon(self, session: str, step: str) -> StepInfo:
        return self._step_entry(session, "abandon", step)

    def step(self, session: str, step: str) -> StepInfo | None:
        if not is_valid_name(session) or self.store.session(session) is None:
            return None
        live = self._current(session)
        return _step_info(live, live.steps[step]) if step in live.steps else None

    def step_check(
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
        live, why = self._looked(session, key)
        if why:
            raise SessionsUnavailable(f"the step cannot be read: {why}")
        running, context = live.step(step), live.session.block_count
        decision = running.check(tool, arguments, annotations=annotations)
        called = decision.reason is not Reason.RECONCILIATION
        kept = self._keep(live, tool, arguments, annotations, decision, context, key, why, called=called)
        self._catch_up(live)
        if kept.seq and kept.decision.action is Action.CONTINUE and running.finished:
            # Ended by another process while this one ruled: nobody has looked at this call there.
            held = decide_unrecorded(kept.decision, live.session.policy, "the step was finished meanwhile")
            held = held._replace(action=Action.PAUSE, reason=Reason.RECONCILIATION)
            return self._keep(live, tool, arguments, annotations, held, context, key, why)
        return kept

    def step_finish(self, session: str, step: str, assessment: Mapping[str, object]) -> StoredRuling:
        """Rule on the step: CONTINUE ends it, REORIENT leaves it open, PAUSE holds it. After a PAUSE, ask again."""
        live, why = self._looked(session, "")
        if why:
            raise SessionsUnavailable(f"the step cannot be read: {why}")
        running, context = live.step(step), live.session.block_count
        told = parse_assessment(assessment)
        decision = running.finish(told)
        stands = SessionEntry(EntrySort.STEP, self._clock(), detail=to_json(("state", step, running.state)))
        shown: dict[str, object] = {"step": step, "goal": running.goal, "assessment": _json_fields(asdict(told))}
        kept = self._keep(live, FINISH, shown, None, decision, context, "", "", stands, called=False)
        if not kept.seq:
            # It is not known to have ended: what was kept counts.
            live.is_outdated = True
        return kept

    def _step_entry(self, session: str, *detail: object) -> StepInfo:
        live = self._current(check_name(session, "a session's id"))
        if detail[0] != "begin":
            live.step(str(detail[1]))
        (put,) = self._put(live, SessionEntry(EntrySort.STEP, self._clock(), detail=to_json(detail)))
        live = self._current(session)
        done = live.step_results.get(put.seq)
        if isinstance(done, Step):
            return _step_info(live, done)
        if done is None:
            raise SessionsUnavailable("the step that was kept cannot be read")
        raise done


def _step_info(live: LiveSession, step: Step) -> StepInfo:
    promised = step.commitment
    return StepInfo(
        live.id,
        step.name,
        step.goal,
        step.supervision.value,
        step.state,
        None if promised is None else _json_fields(asdict(promised)),
        tuple(f"{trigger.cause.value}: {trigger.what}" for trigger in step.triggers),
    )


def _json_fields(fields: dict[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
