"""A supervised step: the agent commits, acts through checked calls, assesses itself, and is held to what was seen.

1. Start.     The supervision in force is at least the parent's. A step that needs a person does not start without one.
2. Commit.    Once, and before the first call.
3. Act.       Every call is ruled on like any other. The step hears of all calls of its session, so that an agent
              that goes around the step is seen all the same.
4. Finish.    Not while a call has no ruling yet or a step inside is open. The self-assessment and the calls are
              compared with the commitment, without a model. Nothing found: CONTINUE. Anything: the supervisor
              (Tier 3), which is shown the calls. Without an answer the step pauses.
5. Person.    A `supervised-human` step also needs a person's yes, whatever the supervisor said. So does a step in which
              another one was abandoned before it was looked at.

The goal of a step is often an agent's own words: it is shown to judges as such, and makes no value of a call wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from enum import Enum
from hashlib import sha256
from threading import Lock
from typing import NamedTuple, Protocol
from weakref import ref

from lockgate.core.errors import InvalidCall, InvalidConfig, printable, quoted
from lockgate.core.ruling.approvals import plain_text
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import PastCall
from lockgate.core.ruling.pipeline import EscalatedCall, Stage
from lockgate.core.ruling.policy import Policy, observe
from lockgate.core.ruling.supervised_steps import (
    FINISH,
    MAX_ENTRIES,
    MAX_TEXT,
    NEEDS_A_PERSON,
    UNSHOWN,
    ActingCalls,
    Commitment,
    SelfAssessment,
    Supervision,
    call_to_argument,
    compare_with_commitment,
    effective_supervision,
    parse_statement,
    parse_supervision,
)
from lockgate.core.vocabulary import Action, Decision, Finding, Mode, Reason, Risk, ToolCall


class CallWatcher(Protocol):
    """Hears of the calls of a run.

    Of one call `begun`, `ruled` and `failed` get the very same `leaves`: two calls of one tool at once are told apart
    by nothing else. A call that Tier 1 settles at once may be told of by `ruled` alone. None of them raises.
    """

    def on_begun(self, tool: str, leaves: Sequence[Leaf]) -> None:
        """A call waits for its ruling."""

    def on_ruled(self, tool: str, leaves: Sequence[Leaf], decision: Decision) -> None:
        """A call has its ruling."""

    def on_failed(self, tool: str, leaves: Sequence[Leaf]) -> None:
        """A call gets no ruling: the check was cancelled, or failed."""


class SupervisedRun(Protocol):
    """One agent run as far as a step needs it; `gate.ruler.Ruler` is one."""

    @property
    def policy(self) -> Policy: ...

    @property
    def can_reach_person(self) -> bool:
        """Whether a PAUSE can be answered at all."""

    def check(self, call: ToolCall) -> Decision: ...

    async def check_async(self, call: ToolCall) -> Decision: ...

    def watch_calls(self, watcher: CallWatcher) -> Callable[[], None]:
        """Tell the watcher of each call, values uncut, until the returned function is called.

        It hears of the calls that go through `check`, from any caller, and not of what goes through `rule_on`. No lock
        of the run is held meanwhile, so a watcher may call the returned function there and then.
        """

    def rule_on(self, ask: EscalatedCall, *, judged: bool = True) -> Decision:
        """Steps 6 to 8, approvals included, for what did not begin as a call; `judged` False asks no model."""

    async def rule_on_async(self, ask: EscalatedCall, *, judged: bool = True) -> Decision: ...

    def record_ruling(self, call: ToolCall, ruling: Decision) -> Decision:
        """Record a ruling that the step made itself; what comes back is what holds: no CONTINUE stays unrecorded."""

    async def record_ruling_async(self, call: ToolCall, ruling: Decision) -> Decision: ...


class StepState(Enum):
    OPEN = "open"
    JUDGED = "being finished"
    HELD = "waiting for an answer"
    DONE = "finished"
    ABANDONED = "abandoned"


class Step:
    """One supervised unit of work inside a session. Safe for several threads.

    `name` tells the steps of a run apart; one inside another is numbered by it. Locks are taken from the outer step to
    the inner ones, never the other way.
    """

    _run: SupervisedRun

    def __init__(
        self,
        run: SupervisedRun,
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
        plain_text(goal, "a step's goal")
        if parent is not None and parent._run is not run:
            raise InvalidCall(f"step {quoted(goal)} cannot be inside a step of another session")
        asked = None if supervision is None else parse_supervision(supervision)
        # 1. Start.
        self.supervision: Supervision = effective_supervision(parent.supervision if parent else None, asked)
        if self.supervision is Supervision.SUPERVISED_HUMAN and not run.can_reach_person:
            raise InvalidConfig(
                f"step {quoted(goal)} needs a person, and this gate has no way to reach one",
                hint="give the gate a store for approvals, or start the step as `supervised`",
            )
        self.goal = goal.strip()
        self._run = run
        self._children: list[Step] = []
        self._started = 0
        self._commitment: Commitment | None = None
        self._state = self._resting = StepState.OPEN
        self._lock = Lock()
        self._acts = ActingCalls(
            high_risk_tools=run.policy.high_risk_tools, compared=self.supervision is not Supervision.UNSUPERVISED
        )
        self._seen = sha256()
        # Calls without a ruling: those made through the step, counted before a watcher hears of them, and all others.
        self._making = 0
        self._begun: list[tuple[str, Sequence[Leaf]]] = []
        self._person = False
        self._triggers: tuple[Finding, ...] = ()
        self._watch = StepWatcher(self)
        self.name = name if parent is None else parent._adopt(self)
        self._watch.forget = run.watch_calls(self._watch)

    @property
    def commitment(self) -> Commitment | None:
        """What the agent committed to; None before it did."""
        return self._commitment

    @property
    def triggers(self) -> tuple[Finding, ...]:
        """What the last `finish` found that does not fit together."""
        return self._triggers

    @property
    def finished(self) -> bool:
        """Whether the step was let through; an agent that never says it is done never is."""
        return self._state is StepState.DONE

    @property
    def state(self) -> str:
        """How it stands with the step, in words."""
        return self._state.value

    def restore_state(self, state: str) -> None:
        """Take over the state of the step that another process, or an earlier one, has settled."""
        with self._lock:
            self._state = StepState(state)
        self._let_go_of()

    @property
    def abandoned(self) -> bool:
        """Whether the step was given up before it was looked at."""
        return self._state is StepState.ABANDONED

    def step(self, goal: str, *, supervision: Supervision | str | None = None) -> Step:
        """A step inside this one, at least as strictly supervised; it has to be finished first."""
        return Step(self._run, goal, supervision=supervision, parent=self)

    def abandon(self) -> None:
        """Give the step up, and those inside it: no more calls, and no end.

        Unreviewed work does not go away with it: unless all of it was unsupervised, the step around it needs a person's
        yes from here on.
        """
        with ExitStack() as locks:
            every = list(self._lock_tree(locks))
            for step in every:
                if step._state is StepState.JUDGED or (step is self and step._state is StepState.DONE):
                    raise InvalidCall(f"cannot abandon step {quoted(step.goal)}: it is {step._state.value}")
            for step in every:
                if step._state is not StepState.DONE:
                    step._state = StepState.ABANDONED
        for step in every:
            step._watch.forget()

    def commit(self, commitment: Commitment | Mapping[str, object]) -> Commitment:
        """2. Take what the agent declares. It can be given once: a commitment that follows the calls is none."""
        given = parse_statement(commitment, Commitment)
        with self._lock:
            self._expect(StepState.OPEN, "commit to")
            if self._commitment is not None:
                raise InvalidCall("this step has a commitment already", hint="start a new step for other work")
            self._commitment = given
        return given

    def check(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        """3. Rule on one call of this step before it runs: only CONTINUE lets it run."""
        call = ToolCall(tool, arguments, annotations)
        held = self._hold_or_count_call()
        if held is not None:
            return self._run.record_ruling(call, held)
        try:
            return self._run.check(call)
        finally:
            self._end_call()

    async def check_async(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        """The same for a caller on an event loop."""
        call = ToolCall(tool, arguments, annotations)
        held = self._hold_or_count_call()
        if held is not None:
            return await self._run.record_ruling_async(call, held)
        try:
            return await self._run.check_async(call)
        finally:
            self._end_call()

    def finish(self, assessment: SelfAssessment | Mapping[str, object]) -> Decision:
        """4. and 5. Rule on the step: CONTINUE ends it, REORIENT leaves it open, PAUSE holds it.

        After a PAUSE the same call asks again, which is how a person's answer arrives.
        """
        asked = self._start_finish(parse_statement(assessment, SelfAssessment))
        with ExitStack() as on_failure:
            on_failure.callback(self._reopen)
            if asked.unasked is not None:
                ruling = self._run.record_ruling(asked.ask.call, asked.unasked)
            else:
                ruling = self._run.rule_on(asked.ask, judged=asked.judged)
            on_failure.pop_all()
        settled = self._settle(ruling, asked.calls)
        return self._unwatch_if_finished(
            settled if settled is ruling else self._run.record_ruling(asked.ask.call, settled)
        )

    async def finish_async(self, assessment: SelfAssessment | Mapping[str, object]) -> Decision:
        """The same for a caller on an event loop."""
        asked = self._start_finish(parse_statement(assessment, SelfAssessment))
        with ExitStack() as on_failure:
            on_failure.callback(self._reopen)
            if asked.unasked is not None:
                ruling = await self._run.record_ruling_async(asked.ask.call, asked.unasked)
            else:
                ruling = await self._run.rule_on_async(asked.ask, judged=asked.judged)
            on_failure.pop_all()
        settled = self._settle(ruling, asked.calls)
        return self._unwatch_if_finished(
            settled if settled is ruling else await self._run.record_ruling_async(asked.ask.call, settled)
        )

    def _expect(self, state: StepState, what: str) -> None:
        if self._state is not state:
            raise InvalidCall(f"cannot {what} step {quoted(self.goal)}: it is {self._state.value}")

    def _adopt(self, child: Step) -> str:
        """Answer for a step inside from here on; return its name."""
        with self._lock:
            self._expect(StepState.OPEN, "start another step in")
            self._started += 1
            self._children = [each for each in self._children if not each.finished]
            self._children.append(child)
            return f"{self.name}.{self._started}"

    def _lock_tree(self, locks: ExitStack) -> Iterator[Step]:
        """Yield this step and all unfinished steps inside it, each with its lock held."""
        locks.enter_context(self._lock)
        yield self
        for child in self._children:
            yield from child._lock_tree(locks)

    @property
    def _has_unreviewed_work(self) -> bool:
        """Whether supervised work in here was abandoned before it was looked at."""
        return self.abandoned and (
            self.supervision is not Supervision.UNSUPERVISED
            or any(child._has_unreviewed_work for child in self._children)
        )

    def _hold_or_count_call(self) -> Decision | None:
        """Return the PAUSE where the agent has to wait; raise where the host is wrong; else count the call."""
        with self._lock:
            if self._state in (StepState.HELD, StepState.JUDGED):
                why = f"the step is {self._state.value}, so its calls pause"
                return Decision(Action.PAUSE, 1, Reason.RECONCILIATION, Risk.HIGH, why)
            self._expect(StepState.OPEN, "make a call in")
            if self._commitment is None and self.supervision is not Supervision.UNSUPERVISED:
                raise InvalidCall(
                    f"step {quoted(self.goal)} has no commitment yet",
                    hint="have the agent commit before its first call: step.commit({...})",
                )
            # From here on the step cannot be finished: its end must not slip in before the call is heard of.
            self._making += 1
        return None

    def _end_call(self) -> None:
        with self._lock:
            self._making -= 1

    def _note_begun_call(self, tool: str, leaves: Sequence[Leaf]) -> None:
        with self._lock:
            self._begun.append((tool, leaves))

    def _note_ruled_call(self, tool: str, leaves: Sequence[Leaf], decision: Decision | None) -> None:
        """Note a call of this session, made through the step or around it, with or without a ruling."""
        values = tuple((leaf.argument, leaf.text) for leaf in leaves)
        past = PastCall(tool, values, "no ruling", 0, "")
        if decision is not None:
            past = PastCall(tool, values, decision.action.value, decision.tier, decision.reason.value)
        with self._lock:
            self._seen.update(repr((tool, values, past.action)).encode("utf-8", "backslashreplace"))
            self._acts.add_call(self._commitment, past)
            # One that Tier 1 settled, or that began before the step, was never begun here.
            self._begun = [each for each in self._begun if each[0] != tool or each[1] is not leaves]

    def _start_finish(self, assessment: SelfAssessment) -> FinishQuestion:
        """4. Return the question, with its answer where neither a judge nor a person has to be asked."""
        policy = self._run.policy
        with self._lock:
            if self._state is not StepState.HELD:
                self._expect(StepState.OPEN, "finish")
            for child in self._children:
                if not (child.finished or child.abandoned):
                    raise InvalidCall(
                        f"cannot finish step {quoted(self.goal)}: step {quoted(child.goal)} inside it is not finished",
                        hint="finish or abandon it first",
                    )
            given_up = [child.goal for child in self._children if child._has_unreviewed_work]
            if self.supervision is Supervision.UNSUPERVISED:
                if not given_up:
                    self._person = False
                    return self._finish_question(assessment, (), "an unsupervised step is not reconciled", count=None)
            elif self._commitment is None:
                raise InvalidCall(
                    f"step {quoted(self.goal)} has no commitment to be held to",
                    hint="have the agent commit before its first call: step.commit({...})",
                )
            if self._making or self._begun:
                which = f"call {quoted(self._begun[0][0])}" if self._begun else "a call"
                raise InvalidCall(
                    f"cannot finish step {quoted(self.goal)}: {which} has no ruling yet",
                    hint="wait for the rulings on all calls, then finish",
                )
            self._triggers = compare_with_commitment(self._commitment, assessment, self._acts, abandoned=given_up)
            self._person = self.supervision is Supervision.SUPERVISED_HUMAN or bool(given_up)
            judged = bool(self._triggers) or policy.mode is Mode.PARANOID
            fits = "" if judged or self._person else "what was done fits what was declared"
            return self._finish_question(assessment, given_up, fits, judged=judged, count=self._acts.seen)

    def _finish_question(
        self,
        assessment: SelfAssessment,
        given_up: Sequence[str],
        fits: str,
        *,
        judged: bool = False,
        count: int | None,
    ) -> FinishQuestion:
        self._resting, self._state = self._state, StepState.JUDGED
        ask = EscalatedCall(
            ToolCall(FINISH, self._shown_arguments(assessment, given_up)),
            Risk.HIGH,
            Reason.RECONCILIATION,
            (*self._extra_findings(), *self._triggers),
            (),
            Stage.SUPERVISOR,
        )
        unasked = Decision(Action.CONTINUE, 1, Reason.RECONCILIATION, Risk.HIGH, fits) if fits else None
        return FinishQuestion(ask, unasked, judged, count)

    def _extra_findings(self) -> Iterator[Finding]:
        # 5. Person.
        if self._person:
            yield Finding(NEEDS_A_PERSON, "step", 0, 0)
        unshown = self._acts.describe_unshown()
        if unshown:
            yield Finding(UNSHOWN, "acts", 0, 0, "raw", unshown)

    def _shown_arguments(self, assessment: SelfAssessment, given_up: Sequence[str]) -> dict[str, object]:
        """Return what judges and people are shown of the step, and what an approval is bound to; calls come first."""
        shown: dict[str, object] = {
            "step": self.name,
            "goal": self.goal,
            "acts": [call_to_argument(act) for act in self._acts.most_telling()],
            # An approval is for what was done until then: another call makes it another question.
            "calls": self._acts.seen,
            "calls_sha256": self._seen.hexdigest(),
        }
        if given_up:
            shown["abandoned"] = [printable(goal, 100) for goal in given_up[:MAX_ENTRIES]]
            shown["abandoned_steps"] = len(given_up)
        if self._commitment is not None:
            shown["commitment"] = json_fields(self._commitment)
        shown["assessment"] = json_fields(assessment)
        return shown

    def _reopen(self) -> None:
        with self._lock:
            self._state = self._resting

    def _settle(self, ruling: Decision, count: int | None) -> Decision:
        with self._lock:
            meanwhile = count is not None and (self._acts.seen != count or self._making or self._begun)
            if ruling.would_be is Action.CONTINUE and meanwhile:
                # The moment between the question and its answer is when an agent would make the call that matters.
                why = "calls were made while the step was being finished, so it pauses"
                ruling = ruling._replace(action=Action.PAUSE, reason=Reason.RECONCILIATION, explanation=why)
            # 5. Person: once more here, so that it holds whatever the pipeline makes of the finding.
            if ruling.would_be is Action.CONTINUE and self._person and ruling.reason is not Reason.APPROVED:
                why = "the step needs a person's yes, so it pauses"
                ruling = ruling._replace(action=Action.PAUSE, reason=Reason.HARD_RULE, explanation=why)
            ruling = observe(ruling, self._run.policy)
            if ruling.action is Action.CONTINUE:
                self._state = StepState.DONE
            else:
                self._state = StepState.OPEN if ruling.action is Action.REORIENT else StepState.HELD
            return ruling

    def _unwatch_if_finished(self, ruling: Decision) -> Decision:
        self._let_go_of()
        return ruling

    def _let_go_of(self) -> None:
        # Not under the step's lock: the session has a lock of its own, and holds none while it tells of calls.
        if self.finished:
            self._watch.forget()


class FinishQuestion(NamedTuple):
    """What the end of a step depends on: `unasked` is the ruling where no judge and no person has to be asked, else
    `judged` says whether a model is. `calls` counts the calls made by then; None where another one makes no difference.
    """

    ask: EscalatedCall
    unasked: Decision | None
    judged: bool
    calls: int | None


class StepWatcher:
    """Tells a step of the calls of its run, without keeping the step alive."""

    __slots__ = ("_step", "forget")

    def __init__(self, step: Step) -> None:
        self._step = ref(step)
        self.forget: Callable[[], None] = lambda: None

    def on_begun(self, tool: str, leaves: Sequence[Leaf]) -> None:
        step = self._live_step()
        if step is not None:
            step._note_begun_call(tool, leaves)

    def on_ruled(self, tool: str, leaves: Sequence[Leaf], decision: Decision) -> None:
        step = self._live_step()
        if step is not None:
            step._note_ruled_call(tool, leaves, decision)

    def on_failed(self, tool: str, leaves: Sequence[Leaf]) -> None:
        step = self._live_step()
        if step is not None:
            step._note_ruled_call(tool, leaves, None)

    def _live_step(self) -> Step | None:
        # Not by a finalizer: that could run under the run's own lock.
        step = self._step()
        if step is None:
            self.forget()
        return step


def json_fields(stated: Commitment | SelfAssessment) -> dict[str, object]:
    """Return the fields of what an agent stated, with lists for tuples: an approval is bound to JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(stated).items()}
