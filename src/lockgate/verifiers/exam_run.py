"""Puts the questions of an exam to a judge, a few at a time."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path

from lockgate.core.judging.exam import ExamBank, ExamItem, ExamResult, Sitting, bank_from_lines
from lockgate.core.judging.judge_prompts import question_sha256
from lockgate.core.judging.standing import JudgeIdentity, Standing
from lockgate.core.questions import NoAnswerReason
from lockgate.core.ruling.opinions import Silent, Unreadable
from lockgate.core.ruling.pipeline import Stage
from lockgate.gate.judge import Inquiry, Judge, Opined
from lockgate.runtime.failures import report_failure

THREADS = 4


def load_bank() -> ExamBank:
    """Return the cases that come with Lockgate."""
    with gzip.open(Path(__file__).with_name("exam_cases.jsonl.gz"), "rt", encoding="utf-8") as file:
        return bank_from_lines(file)


class ExamRun:
    """One judge in one sitting, with what it took so far."""

    def __init__(self, judge: Judge, sitting: Sitting) -> None:
        self._judge, self._sitting = judge, sitting
        self.asked = self.tokens_in = self.tokens_out = 0
        self._models: set[str] = set()

    def take(self, advance: Callable[[], None] = lambda: None) -> None:
        """Ask until the exam has ended; `advance` is called after each answer."""
        for items in self._sitting.batches():
            pool = ThreadPoolExecutor(THREADS)
            try:
                for future in as_completed([pool.submit(self._ask, item) for item in items]):
                    item, opined = future.result()
                    self.asked += 1
                    self.tokens_in += opined.tokens_in
                    self.tokens_out += opined.tokens_out
                    self._models |= set() if isinstance(opined.opinion, Silent) else {opined.model}
                    advance()
                    if self._sitting.take(item, opined.opinion):
                        break
            finally:
                pool.shutdown(cancel_futures=True)

    def result(self, identity: JudgeIdentity, now: float, *, whole: bool = True) -> ExamResult:
        """Return how it ended; an exam that is not whole was given up."""
        standing, why = (self._sitting.standing, "") if whole else (Standing.UNEXAMINED, "given up")
        if whole and len(self._models) > 1:
            standing, why = Standing.FAILED, f"because its replies came from {len(self._models)} models"
        questions = {stage.value: tally._asdict() for stage, tally in self._sitting.tallies.items()}
        kinds = {kind: tally._asdict() for kind, tally in sorted(self._sitting.kinds.items())}
        replied, tokens = min(self._models, default=""), (self.tokens_in, self.tokens_out)
        result = ExamResult(
            "", identity, replied, question_sha256(), int(now), standing, why, questions, kinds, *tokens
        )
        return result._replace(id=sha256(repr(result).encode()).hexdigest()[:16])

    def _ask(self, item: ExamItem) -> tuple[ExamItem, Opined]:
        try:
            opined = self._judge.opine(Inquiry(item.stage, item.case))
            if item.stage is Stage.TRIAGE and isinstance(opined.opinion, Unreadable):
                # As a gate does: once more, in plain words.
                opined = self._judge.opine(Inquiry(Stage.TRIAGE_AGAIN, item.case))
            return item, opined
        except Exception as error:  # noqa: BLE001  # a judge is foreign code: there is no answer
            report_failure("judge", error)
            return item, Opined(Silent(NoAnswerReason.INTERNAL))
