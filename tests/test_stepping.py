"""Supervised steps over a real gate: calls, judges and approvals are those of any other call."""

from __future__ import annotations

import asyncio

import pytest

from lockgate import Action, Decision, Gate, InvalidConfig, Policy, Reason
from lockgate.core.opinions import Opinion, Ruling
from lockgate.core.supervision import Commitment, SelfAssessment, Supervision
from lockgate.gate import Inquiry, Opined, Session
from lockgate.steps import Step
from lockgate.stores.memory import MemoryApprovals

COMMITMENT = Commitment(
    interpretation="read the minutes and write a summary",
    in_scope=("read files", "write notes/summary.md"),
    out_of_scope=("mail",),
    assumptions=("the minutes are complete",),
)
DONE = SelfAssessment(met=True)


class Judge:
    name = "scripted/judge"

    def __init__(self, said: Opinion) -> None:
        self.said = said
        self.asked: list[Inquiry] = []

    def opine(self, inquiry: Inquiry) -> Opined:
        self.asked.append(inquiry)
        return Opined(self.said)

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return self.opine(inquiry)


def opened(
    supervisor: Judge | None = None, *, approvals: MemoryApprovals | None = None, supervision: str = "supervised"
) -> tuple[Session, Step]:
    gate = Gate(Policy(), supervisor=supervisor, approvals=approvals)
    session = gate.session(goal="Summarise the minutes", id="run")
    step = session.step("write the summary", supervision=supervision)
    step.commit(COMMITMENT)
    return session, step


def test_a_step_that_keeps_to_its_commitment_asks_nobody() -> None:
    judge = Judge(Ruling(Action.PAUSE))
    _, step = opened(judge)
    assert step.check("read", {"path": "minutes.md"}).action is Action.CONTINUE
    assert step.finish(DONE).action is Action.CONTINUE
    assert judge.asked == []


@pytest.mark.parametrize("said", [Ruling(Action.CONTINUE), Ruling(Action.REORIENT, "undo it"), Ruling(Action.PAUSE)])
def test_a_step_that_triggers_goes_to_the_supervisor(said: Ruling) -> None:
    judge = Judge(said)
    _, step = opened(judge)
    decision = step.finish(SelfAssessment(met=False))
    assert (decision.action, decision.tier, len(judge.asked)) == (said.action, 3, 1)
    assert decision.correction == said.correction


def test_without_a_supervisor_a_step_that_triggers_pauses() -> None:
    _, step = opened()
    decision = step.finish(SelfAssessment(met=True, concerns=("somebody asked for a password",)))
    assert decision.action is Action.PAUSE


def test_a_call_around_the_step_is_seen_all_the_same() -> None:
    judge = Judge(Ruling(Action.PAUSE))
    session, step = opened(judge)
    session.check("send_email", {"to": "x@y.example", "body": "hello"})
    assert step.finish(DONE).action is Action.PAUSE
    assert [trigger.cause.value for trigger in step.triggers] == ["undeclared_call"]


def test_an_unsupervised_step_is_not_reconciled() -> None:
    judge = Judge(Ruling(Action.PAUSE))
    _, step = opened(judge, supervision="unsupervised")
    assert step.finish(SelfAssessment(met=False)).action is Action.CONTINUE
    assert judge.asked == []


def test_a_step_that_needs_a_person_does_not_start_without_one() -> None:
    session = Gate(Policy()).session(goal="Summarise the minutes")
    with pytest.raises(InvalidConfig, match="needs a person"):
        session.step("write the summary", supervision="supervised-human")


def test_a_step_that_needs_a_person_waits_for_one() -> None:
    store, judge = MemoryApprovals(), Judge(Ruling(Action.CONTINUE))
    _, step = opened(judge, approvals=store, supervision="supervised-human")
    first = step.finish(DONE)
    assert (first.action, bool(first.approval)) == (Action.PAUSE, True)
    _answer(store, first)
    second = step.finish(DONE)
    assert (second.action, second.reason) == (Action.CONTINUE, Reason.APPROVED)


def test_a_child_of_such_a_step_needs_one_too() -> None:
    session, step = opened(approvals=MemoryApprovals(), supervision="supervised-human")
    child = session.step("format it", supervision="unsupervised", parent=step)
    assert child.supervision is Supervision.SUPERVISED_HUMAN


def test_sync_and_async_steps_agree() -> None:
    async def waited() -> Decision:
        _, step = opened(Judge(Ruling(Action.REORIENT, "undo it")))
        await step.check_async("read", {"path": "minutes.md"})
        return await step.finish_async(SelfAssessment(met=False))

    _, step = opened(Judge(Ruling(Action.REORIENT, "undo it")))
    step.check("read", {"path": "minutes.md"})
    plain, other = step.finish(SelfAssessment(met=False)), asyncio.run(waited())
    assert (plain.action, plain.reason, plain.correction) == (other.action, other.reason, other.correction)


def _answer(store: MemoryApprovals, decision: Decision) -> None:
    from time import time

    approval = store.get(decision.approval, time())
    assert approval is not None
    assert store.answer(decision.approval, digest=approval.pending.digest, yes=True, who="ana", now_s=time()).counted
