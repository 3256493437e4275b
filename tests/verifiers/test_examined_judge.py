from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lockgate import Action, Gate
from lockgate.core.judging.case import JudgeCase
from lockgate.core.judging.exam import ExamResult
from lockgate.core.judging.judge_messages import question_sha256
from lockgate.core.ruling.opinions import Authority, JudgeIdentity, Silent, Triage, standing_of
from lockgate.core.ruling.pipeline import Stage
from lockgate.gate.judge import Inquiry, Opined
from lockgate.verifiers.exam_store import ExamStore
from lockgate.verifiers.examined_judge import ExaminedJudge

NOW = 1_795_000_000
ASKED = Inquiry(Stage.TRIAGE, JudgeCase("Sum it up", "send_email", "{}", "high"))
CLEAR = Opined(Triage(suspicious=False), 9, 1, "m-1")


class Judge:
    name = "mine/m"
    identity = JudgeIdentity("mine", "m")

    def __init__(self) -> None:
        self.says, self.asked = CLEAR, 0

    def opine(self, inquiry: Inquiry) -> Opined:
        self.asked += 1
        return self.says

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return self.opine(inquiry)

    def probe(self) -> bool:
        return False


def examined(folder: Path, standing: Authority | None = Authority.PASSED) -> tuple[ExaminedJudge, Judge]:
    store, judge = ExamStore(folder), Judge()
    if standing is not None:
        store.add(ExamResult("e1", judge.identity, "m-1", question_sha256(), NOW, standing))
    return ExaminedJudge(judge, store, clock=lambda: NOW + 60.0), judge


def test_the_standing_is_that_of_the_exam(tmp_path: Path) -> None:
    judge, _ = examined(tmp_path)
    assert (standing_of(judge).authority, standing_of(judge).examined_on) == (Authority.PASSED, "2026-11-18")
    assert (judge.name, judge.identity.model, judge.probe()) == ("mine/m", "m", False)
    assert judge.opine(ASKED) == asyncio.run(judge.opine_async(ASKED)) == CLEAR


def test_a_judge_that_took_no_exam_is_asked_and_is_unexamined(tmp_path: Path) -> None:
    judge, _ = examined(tmp_path, None)
    assert judge.opine(ASKED) == CLEAR
    assert (judge.standing.authority, judge.standing.why) == (Authority.UNEXAMINED, "mine/m has not taken the exam")


@pytest.mark.parametrize("model", ["m-2", "", "M-1", "m-1 "])
def test_an_answer_of_another_model_does_not_count_and_it_is_not_asked_again(tmp_path: Path, model: str) -> None:
    judge, asked = examined(tmp_path)
    asked.says = CLEAR._replace(model=model)
    assert judge.opine(ASKED) == Opined(Silent("replaced"))
    assert judge.standing.authority is Authority.REPLACED
    assert "another model" in judge.standing.why
    asked.says = CLEAR
    assert judge.opine(ASKED) == asyncio.run(judge.opine_async(ASKED)) == Opined(Silent("replaced"))
    assert asked.asked == 1


@pytest.mark.parametrize("model", ["m-1", "m-2"])
def test_a_replaced_judge_is_asked_again_once_it_has_taken_another_exam(tmp_path: Path, model: str) -> None:
    judge, asked = examined(tmp_path)
    asked.says = CLEAR._replace(model="m-2")
    assert judge.opine(ASKED) == Opined(Silent("replaced"))
    ExamStore(tmp_path).add(ExamResult("e2", asked.identity, model, question_sha256(), NOW + 9, Authority.PASSED))
    asked.says = CLEAR._replace(model=model)
    assert (judge.standing.authority, judge.opine(ASKED)) == (Authority.PASSED, asked.says)


def test_no_answer_is_no_other_model(tmp_path: Path) -> None:
    judge, asked = examined(tmp_path)
    asked.says = Opined(Silent("deadline"))
    assert judge.opine(ASKED) == Opined(Silent("deadline"))
    assert judge.standing.authority is Authority.PASSED


def test_another_program_than_the_one_that_passed_is_not_asked(tmp_path: Path) -> None:
    judge, asked = examined(tmp_path)
    asked.identity = asked.identity._replace(program_sha256="b" * 64)
    assert judge.opine(ASKED) == asyncio.run(judge.opine_async(ASKED)) == Opined(Silent("replaced"))
    assert asked.asked == 0


def test_once_another_model_has_answered_a_later_call_pauses_as_well(tmp_path: Path) -> None:
    """An answer of another model must not make the width narrow: a text may bring it about."""
    judge, asked = examined(tmp_path)
    asked.says = CLEAR._replace(model="m-2")
    session = Gate(triage=judge).session(goal="Tell the team how the roof is.")
    session.add("The roof is dry.", source="web:roof.example")
    for number in range(2):
        ruling = session.check("send_email", {"to": f"ana{number}@ours.example", "body": "It is dry."})
        assert (ruling.action, ruling.width) == (Action.PAUSE, "wide")
