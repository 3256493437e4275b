"""Puts the questions of an exam to a judge, a few at a time."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from lockgate.core.judging.exam import ExamBank, ExamItem, Sitting, bank_from_lines
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


def take_exam(judge: Judge, sitting: Sitting, advance: Callable[[], None] = lambda: None) -> None:
    """Ask until the exam has ended; `advance` is called after each answer."""
    for items in sitting.batches():
        pool = ThreadPoolExecutor(THREADS)
        try:
            for future in as_completed([pool.submit(_ask, judge, item) for item in items]):
                item, opined = future.result()
                advance()
                if sitting.take(item, opined.opinion, opined.model):
                    break
        finally:
            pool.shutdown(cancel_futures=True)


def _ask(judge: Judge, item: ExamItem) -> tuple[ExamItem, Opined]:
    try:
        opined = judge.opine(Inquiry(item.stage, item.case))
        if item.stage is Stage.TRIAGE and isinstance(opined.opinion, Unreadable):
            # As a gate does: once more, in plain words.
            opined = judge.opine(Inquiry(Stage.TRIAGE_AGAIN, item.case))
        return item, opined
    except Exception as error:  # noqa: BLE001  # a judge is foreign code: there is no answer
        report_failure("judge", error)
        return item, Opined(Silent(NoAnswerReason.INTERNAL))
