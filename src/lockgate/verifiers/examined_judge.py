"""A judge with the standing that its exam gives it. An answer of another model than the examined one does not count."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any

from lockgate.core.judging.judge_messages import question_sha256
from lockgate.core.ruling.opinions import Authority, JudgeStanding, Silent
from lockgate.gate.judge import Inquiry, Opined
from lockgate.verifiers.exam_store import ExamStore

# `NoAnswerReason` has the word: what answers is not what was examined.
_REPLACED, _GONE = Opined(Silent("replaced")), (Authority.REPLACED,)


class ExaminedJudge:
    """Asks a judge that has an `identity`.

    Once a reply names another model, it is replaced, and not asked again before it has taken another exam.
    """

    def __init__(self, judge: Any, exams: ExamStore, *, clock: Callable[[], float] = time) -> None:
        self._judge, self._exams, self._clock = judge, exams, clock
        self._question = question_sha256()
        # The exam that the model of some reply has not taken.
        self._replaced_since: str | None = None

    def __getattr__(self, name: str) -> Any:
        # `name`, `identity`, and what only some judges have: `probe`, `reads_evidence`.
        return getattr(self._judge, name)

    @property
    def standing(self) -> JudgeStanding:
        if self._is_replaced():
            why = f"{self._judge.name} answered as another model than the one that took the exam"
            return JudgeStanding(Authority.REPLACED, why=why)
        return self._exams.standing(self._judge.identity, self._question, self._clock())

    def opine(self, inquiry: Inquiry) -> Opined:
        return _REPLACED if self.standing.authority in _GONE else self._check(self._judge.opine(inquiry))

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return _REPLACED if self.standing.authority in _GONE else self._check(await self._judge.opine_async(inquiry))

    def _is_replaced(self) -> bool:
        if self._replaced_since is None:
            return False
        exam = self._exams.latest(self._judge.identity)
        return exam is None or exam.id == self._replaced_since

    def _check(self, opined: Opined) -> Opined:
        exam = self._exams.latest(self._judge.identity)
        if exam is not None and not isinstance(opined.opinion, Silent) and opined.model != exam.replied:
            self._replaced_since = exam.id
        return _REPLACED if self._is_replaced() else opined
