"""A supervised step: the agent commits, acts through checked calls, assesses itself, and is held to what was seen.

1. Start.     The supervision in force is at least the parent's. A step that needs a person does not start without one.
2. Commit.    Once, and before the first call.
3. Act.       Every call is ruled on like any other. The step hears of all calls of its session, so that an agent
              that goes around the step is seen all the same.
4. Finish.    The self-assessment and the calls are compared with the commitment, without a model. Nothing found:
              CONTINUE. Anything: the supervisor (Tier 3), and nobody's answer is PAUSE.
5. Person.    A `supervised-human` step needs a person's yes besides, whatever was found and whoever was asked.

The goal of a step is often an agent's own words: it is shown to judges as such, and makes no value of a call wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from hashlib import sha256
from threading import Lock
from typing import Protocol

from lockgate.core.context import Past
from lockgate.core.errors import InvalidCall, InvalidConfig, quoted
from lockgate.core.origins import Leaf
from lockgate.core.pipeline import Ask, Stage
from lockgate.core.policy import Policy
from lockgate.core.supervision import (
    MAX_TEXT,
    Commitment,
    SelfAssessment,
    Supervision,
    Trigger,
    assessment_of,
    commitment_of,
    findings_of,
    inherited,
    reconcile,
    supervision_of,
    undeclared,
)
from lockgate.core.vocabulary import Action, Decision, Finding, Mode, Reason, Risk, ToolCall

# What the end of a step is called where calls have a tool's name: in the ledger, in approvals, before judges.
FINISH = "finish_step"
# A finding that no model may clear; `pipeline.HARD` names it too.
NEEDS_A_PERSON = "step:needs-a-person"
# Undeclared calls beyond these are counted, not kept: one is enough to be looked at.
_MAX_KEPT = 50

Watcher = Callable[[str, Sequence[Leaf], Decision], None]


class Run(Protocol):
    """One agent run as far as a step needs it; `gate.Session` is one."""

    @property
    def policy(self) -> Policy: ...

    @property
    def reaches_a_person(self) -> bool:
        """Whether a PAUSE can be answered at all."""

    def check(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision: ...

    async def check_async(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision: ...

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell the watcher of each call once it is ruled on, values uncut, until the returned function is called.

        Told are the calls that go through `check`, whoever makes them, and not what goes through `rule`.
        """

    def rule(self, ask: Ask, *, judged: bool = True) -> Decision:
        """Steps 6 to 8, approvals included, for what did not begin as a call; `judged` False asks no model."""

    async def rule_async(self, ask: Ask, *, judged: bool = True) -> Decision: ...


class _State(Enum):
    OPEN = "open"
    JUDGED = "being finished"
    HELD = "waiting for an answer"
    DONE = "finished"


class Step:
    """One supervised unit of work inside a session. Safe for several threads."""

    def __init__(
        self,
        run: Run,
        goal: str,
        *,
        supervision: Supervision | str | None = None,
        parent: Step | None = None,
        name: str = "1",
    ) -> None:
        if not isinstance(goal, str):
            raise InvalidCall(f"a step's goal must be text, not {type(goal).__name__}")
        if not goal.strip():
            raise InvalidCall("a step needs a goal", hint="say in a sentence what it is to do")
        if len(goal) > MAX_TEXT:
            raise InvalidCall(f"a step's goal has {len(goal):,} characters, the limit is {MAX_TEXT:,}")
        asked = None if supervision is None else supervision_of(supervision)
        # 1. Start.
        self.supervision: Supervision = inherited(parent.supervision if parent else None, asked)
        if self.supervision is Supervision.SUPERVISED_HUMAN and not run.reaches_a_person:
            raise InvalidConfig(
                f"step {quoted(goal)} needs a person, and this gate has no way to reach one",
                hint="give the gate a store for approvals, or start the step as `supervised`",
            )
        self.goal = goal.strip()
        self.name = name
        self._run = run
        self._parent = parent
        self._children: list[Step] = []
        self._started = 0
        self._commitment: Commitment | None = None
        self._state = self._resting = _State.OPEN
        self._lock = Lock()
        self._count = 0
        self._seen = sha256()
        self._early: list[Past] = []
        self._undeclared: list[Past] = []
        self._triggers: tuple[Trigger, ...] = ()
        self._forget = run.watch(self._saw)

    @property
    def commitment(self) -> Commitment | None:
        return self._commitment

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What the last `finish` found that does not fit together."""
        return self._triggers

    @property
    def finished(self) -> bool:
        """Whether the step was let through; an agent that never says it is done never is."""
        return self._state is _State.DONE

    def step(self, goal: str, *, supervision: Supervision | str | None = None) -> Step:
        """A step inside this one, at least as strictly supervised; it has to be finished first."""
        with self._lock:
            self._expect(_State.OPEN, "start another step in")
            self._started += 1
            name = f"{self.name}.{self._started}"
        child = Step(self._run, goal, supervision=supervision, parent=self, name=name)
        with self._lock:
            self._children.append(child)
        return child

    def commit(self, commitment: Commitment | Mapping[str, object]) -> Commitment:
        """2. Take what the agent declares. It can be given once: a commitment that follows the calls is none."""
        given = commitment_of(commitment)
        with self._lock:
            self._expect(_State.OPEN, "commit to")
            if self._commitment is not None:
                raise InvalidCall("this step has a commitment already", hint="start a new step for other work")
            self._commitment = given
        return given

    def check(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        """3. Rule on one call of this step before it runs: only CONTINUE lets it run."""
        held = self._before()
        return self._run.check(tool, arguments, annotations=annotations) if held is None else held

    async def check_async(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        """The same for a caller on an event loop."""
        held = self._before()
        return await self._run.check_async(tool, arguments, annotations=annotations) if held is None else held

    def finish(self, assessment: SelfAssessment | Mapping[str, object]) -> Decision:
        """4. and 5. Rule on the step: CONTINUE ends it, REORIENT leaves it open, PAUSE holds it.

        After a PAUSE the same call asks again, which is how a person's answer arrives.
        """
        asked, judged, count = self._reconcile(assessment_of(assessment))
        if isinstance(asked, Decision):
            return self._let_go(asked)
        try:
            ruling = self._run.rule(asked, judged=judged)
        except BaseException:
            self._reopen()
            raise
        return self._let_go(self._settle(ruling, count))

    async def finish_async(self, assessment: SelfAssessment | Mapping[str, object]) -> Decision:
        """The same for a caller on an event loop."""
        asked, judged, count = self._reconcile(assessment_of(assessment))
        if isinstance(asked, Decision):
            return self._let_go(asked)
        try:
            ruling = await self._run.rule_async(asked, judged=judged)
        except BaseException:
            self._reopen()
            raise
        return self._let_go(self._settle(ruling, count))

    def _expect(self, state: _State, what: str) -> None:
        if self._state is not state:
            raise InvalidCall(f"cannot {what} step {quoted(self.goal)}: it is {self._state.value}")

    def _before(self) -> Decision | None:
        """Why a call is not even asked about: an error where the host is wrong, a PAUSE where the agent has to wait."""
        with self._lock:
            if self._state in (_State.HELD, _State.JUDGED):
                why = f"the step is {self._state.value}, so its calls pause"
                return Decision(Action.PAUSE, 1, Reason.RECONCILIATION, Risk.HIGH, why)
            self._expect(_State.OPEN, "make a call in")
            if self._commitment is None and self.supervision is not Supervision.UNSUPERVISED:
                raise InvalidCall(
                    f"step {quoted(self.goal)} has no commitment yet",
                    hint="have the agent commit before its first call: step.commit({...})",
                )
        return None

    def _saw(self, tool: str, leaves: Sequence[Leaf], decision: Decision) -> None:
        """A call of this session, made through the step or around it."""
        values = tuple((leaf.argument, leaf.text) for leaf in leaves)
        past = Past(tool, values, decision.action.value, decision.tier, decision.reason.value)
        with self._lock:
            self._count += 1
            self._seen.update(repr((tool, values, past.action)).encode("utf-8", "backslashreplace"))
            kept = self._undeclared if self._commitment else self._early
            if self.supervision is Supervision.UNSUPERVISED or len(kept) >= _MAX_KEPT:
                return
            if undeclared(self._commitment or _NOTHING, past, high_risk_tools=self._run.policy.high_risk_tools):
                kept.append(past)

    def _reconcile(self, assessment: SelfAssessment) -> tuple[Decision | Ask, bool, int]:
        """4. What can be said without asking anybody, or the question, whether a model is to answer it, and when."""
        policy = self._run.policy
        with self._lock:
            if self._state is not _State.HELD:
                self._expect(_State.OPEN, "finish")
            if open_ones := [child.goal for child in self._children if not child.finished]:
                raise InvalidCall(
                    f"cannot finish step {quoted(self.goal)}: step {quoted(open_ones[0])} inside it is not finished"
                )
            if self.supervision is Supervision.UNSUPERVISED:
                return self._done("an unsupervised step is not reconciled"), False, 0
            if self._commitment is None:
                raise InvalidCall(
                    f"step {quoted(self.goal)} has no commitment to be held to",
                    hint="have the agent commit before its first call: step.commit({...})",
                )
            self._triggers = reconcile(
                self._commitment,
                assessment,
                self._undeclared,
                early=self._early,
                high_risk_tools=policy.high_risk_tools,
            )
            person = self.supervision is Supervision.SUPERVISED_HUMAN
            judged = bool(self._triggers) or policy.mode is Mode.PARANOID
            if not judged and not person:
                return self._done("what was done fits what was declared"), False, 0
            findings = findings_of(self._triggers)
            # 5. Person.
            if person:
                findings = (*findings, Finding(NEEDS_A_PERSON, "step", 0, 0))
            self._resting, self._state = self._state, _State.JUDGED
            shown = {
                "step": self.name,
                "goal": self.goal,
                "commitment": _plain(asdict(self._commitment)),
                "assessment": _plain(asdict(assessment)),
                # An approval is for what was done until then: another call makes it another question.
                "calls": self._count,
                "calls_sha256": self._seen.hexdigest(),
            }
            ask = Ask(ToolCall(FINISH, shown), Risk.HIGH, Reason.RECONCILIATION, findings, (), Stage.SUPERVISOR)
            return ask, judged, self._count

    def _reopen(self) -> None:
        with self._lock:
            self._state = self._resting

    def _settle(self, ruling: Decision, count: int) -> Decision:
        with self._lock:
            if ruling.action is Action.CONTINUE and self._count != count:
                # The moment between the question and its answer is when an agent would make the call that matters.
                why = "calls were made while the step was being finished, so it pauses"
                ruling = ruling._replace(action=Action.PAUSE, reason=Reason.RECONCILIATION, explanation=why)
            # 5. Person: once more here, so that it holds whatever the pipeline makes of the finding.
            person = self.supervision is Supervision.SUPERVISED_HUMAN
            if ruling.action is Action.CONTINUE and person and ruling.reason is not Reason.APPROVED:
                why = "the step needs a person's yes, so it pauses"
                ruling = ruling._replace(action=Action.PAUSE, reason=Reason.HARD_RULE, explanation=why)
            if ruling.action is Action.CONTINUE:
                self._state = _State.DONE
            else:
                self._state = _State.OPEN if ruling.action is Action.REORIENT else _State.HELD
            return ruling

    def _let_go(self, ruling: Decision) -> Decision:
        # Not under the step's lock: the session has one of its own, and tells us of calls from under nobody's.
        if self.finished:
            self._forget()
        return ruling

    def _done(self, why: str) -> Decision:
        self._state = _State.DONE
        return Decision(Action.CONTINUE, 1, Reason.RECONCILIATION, Risk.HIGH, why)


_NOTHING = Commitment("nothing was declared")


def _plain(fields: dict[str, object]) -> dict[str, object]:
    """Lists for tuples: an approval is bound to JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
