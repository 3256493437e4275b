"""Asks the judges of one session, and answers the very same question from memory for a few minutes."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from threading import Lock
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING

from lockgate.core.questions import NoAnswerReason
from lockgate.core.ruling.context import PastCall
from lockgate.core.ruling.opinions import Authority, Opinion, Ruling, Silent, Triage, Unreadable, standing_of
from lockgate.core.ruling.pipeline import EscalatedCall, Stage
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, Ran
from lockgate.gate.attempt import Attempt, attempt_in_thread
from lockgate.gate.judge import Inquiry, Judge, Opined
from lockgate.runtime.failures import report_failure
from lockgate.runtime.routines import Routine

if TYPE_CHECKING:
    from lockgate.core.judging.case import ContextSnapshot
    from lockgate.gate.judge_budget import JudgeBudget

# A question is not paid for twice while its answer is younger than this.
ANSWER_LIFE_S = 300.0
_MAX_ANSWERS = 256
_NO_ANSWER = Opined(Silent(NoAnswerReason.INTERNAL))
BUDGET_SPENT = "budget"

Prices = Callable[[str, int, int], float | None]
# Takes the context and the history that a judge is shown, under the session's lock.
LookAtSession = Callable[[EscalatedCall], "tuple[ContextSnapshot, Sequence[PastCall]]"]


class JudgeQuestions:
    """The questions of one session to its judges. Safe for several threads."""

    def __init__(
        self, policy: Policy, prices: Prices | None, budget: JudgeBudget | None = None, session: str = ""
    ) -> None:
        self._policy, self._prices, self._budget, self._session = policy, prices, budget, session
        self._lock = Lock()
        # Questions under way and answers by the hash of the question; changed under the lock.
        self._asking: dict[str, Future[Opined]] = {}
        self._answers: OrderedDict[str, tuple[float, Opined]] = OrderedDict()

    def ask(
        self, judge: Judge, ask: EscalatedCall, look: LookAtSession, goal: str, until: float = math.inf
    ) -> Routine[tuple[Opinion, Ran]]:
        """Return one judge's opinion and what it took, from memory where the very same was asked before.

        It answers by `until`.
        """
        tier = 3 if ask.stage is Stage.SUPERVISOR else 2
        # Putting the question together is part of what asking costs.
        began = perf_counter_ns()
        seen, history = look(ask)
        reads = getattr(judge, "reads_evidence", False) is True
        # In a thread: large texts take a while to clean and to cut.
        inquiry = yield attempt_in_thread(
            partial(_build_inquiry, ask, seen, self._policy, goal=goal, history=history, reads=reads)
        )
        if not isinstance(inquiry, Inquiry):
            return _NO_ANSWER.opinion, Ran(tier, "unclear", judge.name, (perf_counter_ns() - began) / 1000)
        opined, cached = yield from self._find_or_ask(judge, inquiry._replace(until=until), ask)
        # No tier clears a case of which it saw only parts: a page could be long enough to push its order out.
        if inquiry.case.truncated and isinstance(opined.opinion, Triage):
            opined = opined._replace(opinion=Triage(suspicious=True))
        elif inquiry.case.truncated and opined.opinion == Ruling(Action.CONTINUE):
            opined = opined._replace(opinion=Silent("truncated"))
        tokens_in, tokens_out = (0, 0) if cached else (opined.tokens_in, opined.tokens_out)
        cost = 0.0 if cached else self._price_of(judge.name, tokens_in, tokens_out)
        if cost and self._budget is not None:
            yield attempt_in_thread(partial(self._budget.spend, self._session, cost))
        latency_us = (perf_counter_ns() - began) / 1000
        said = _word_for_opinion(opined.opinion)
        exam = standing_of(judge).exam
        return opined.opinion, Ran(tier, said, judge.name, latency_us, tokens_in, tokens_out, cost, cached, exam)

    def _find_or_ask(self, judge: Judge, inquiry: Inquiry, ask: EscalatedCall) -> Routine[tuple[Opined, bool]]:
        """Return the answer, and whether it came from memory or from another caller's question.

        An answer holds for the very same call with all that was shown, secrets included, which the case leaves out.
        """
        asked_about = (judge.name, self._policy.hash, ask.call.tool, ask.call.arguments, inquiry[:3])
        key = sha256(repr(asked_about).encode("utf-8", "backslashreplace")).hexdigest()
        with self._lock:
            until, known = self._answers.get(key, (0.0, None))
            if known is not None and monotonic() < until:
                return known, True
            is_mine = key not in self._asking
            asked = self._asking.setdefault(key, Future())
        if is_mine:
            return (yield from self._put_question(judge, inquiry, key, asked)), False
        # Another caller is asking the very same: one answer serves both.
        answer = yield Attempt(asked.result, partial(_wait_for_answer, asked))
        return (answer if isinstance(answer, Opined) else _NO_ANSWER), True

    def _put_question(self, judge: Judge, inquiry: Inquiry, key: str, asked: Future[Opined]) -> Routine[Opined]:
        opined = _NO_ANSWER
        try:
            if not (yield from self._may_ask(judge)):
                opined = Opined(Silent(BUDGET_SPENT))
                return opined
            # A judge without one of its methods is one that does not answer.
            answer = yield Attempt(lambda: judge.opine(inquiry), lambda: judge.opine_async(inquiry))
            opined = _validate_answer(answer)
            self._remember(key, opined)
            return opined
        finally:
            # Also when the caller went away: others that wait for the same answer must not wait for ever.
            with self._lock:
                self._asking.pop(key, None)
            asked.set_result(opined)

    def _may_ask(self, judge: Judge) -> Routine[bool]:
        if self._budget is None or standing_of(judge).authority is Authority.EMBEDDED:
            return True
        return (yield attempt_in_thread(partial(self._budget.take, self._session))) is True

    def _price_of(self, name: str, tokens_in: int, tokens_out: int) -> float | None:
        if self._prices is None:
            return None
        try:
            return self._prices(name, tokens_in, tokens_out)
        except Exception as error:  # noqa: BLE001  # an edge: the caller's price function
            report_failure("prices", error)
            return None

    def _remember(self, key: str, opined: Opined) -> None:
        # An unclear answer is not kept: the judge may do better the next time.
        if isinstance(opined.opinion, Triage | Ruling):
            with self._lock:
                self._answers[key] = (monotonic() + ANSWER_LIFE_S, opined)
                self._answers.move_to_end(key)
                while len(self._answers) > _MAX_ANSWERS:
                    self._answers.popitem(last=False)


def _build_inquiry(
    ask: EscalatedCall, seen: ContextSnapshot, policy: Policy, *, goal: str, history: Sequence[PastCall], reads: bool
) -> Inquiry:
    from lockgate.core.judging.case import build_case

    evidence = None
    if reads:
        from lockgate.gate.judge_evidence import collect_evidence

        evidence = collect_evidence(ask, seen, goal)
    return Inquiry(ask.stage, build_case(ask, seen, policy, goal=goal, history=history), evidence)


def _validate_answer(answer: object) -> Opined:
    """Return a judge's answer if every part has the promised shape; else it did not answer."""
    if not isinstance(answer, Opined):
        return _NO_ANSWER
    opinion, tokens_in, tokens_out, model = answer
    if type(tokens_in) is not int or type(tokens_out) is not int or type(model) is not str:
        return _NO_ANSWER
    # A judge is foreign code: its types are not to be believed.
    said: object = opinion
    match said:
        case Triage(suspicious=bool()) | Ruling(action=Action(), correction=str()) | Unreadable() | Silent(why=str()):
            return answer
    return _NO_ANSWER


async def _wait_for_answer(asked: Future[Opined]) -> Opined:
    from asyncio import shield, wrap_future

    # One caller that goes away must not take the answer with it.
    return await shield(wrap_future(asked))


def _word_for_opinion(opinion: Opinion) -> str:
    if isinstance(opinion, Triage):
        return "suspicious" if opinion.suspicious else "clear"
    return opinion.action.value if isinstance(opinion, Ruling) else "unclear"
