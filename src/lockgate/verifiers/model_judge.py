"""A model as a judge: turns a case into a question, and the model's reply into an opinion."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from secrets import token_hex
from time import monotonic

from lockgate.core.judging.judge_messages import build_question, parse_opinion
from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating
from lockgate.core.ruling.opinions import Authority, JudgeIdentity, JudgeStanding, Silent
from lockgate.gate.judge import Inquiry, Opined
from lockgate.runtime.background_loop import is_on_event_loop
from lockgate.runtime.routines import Routine, run_routine, run_routine_async
from lockgate.runtime.worker_pool import Full, PoolJob, WorkerPool
from lockgate.verifiers.client import Client, Provider, ProviderQuestion
from lockgate.verifiers.key_source import KeySource, is_instant, is_usable_key, key_or_blank

_log = logging.getLogger("lockgate.verifier")
_PING, _DOWN = Question("Answer with OK.", "OK?", "OK?", max_tokens=4), ("network", "tls", "unauthorized", "no-key")


class ModelJudge:
    """Tier 2 or Tier 3 through a provider's model; the inquiry says which tier asks.

    `client` keeps the deadline, so tiers with different deadlines have a client each. Every question has its own nonce.
    """

    # What its word is worth before an exam; `ExaminedJudge` knows of exams.
    standing = JudgeStanding(Authority.UNEXAMINED)

    def __init__(
        self,
        client: Client,
        provider: Provider,
        keys: KeySource,
        *,
        tenant: str = "",
        key_needed: bool = True,
        key_timeout_s: float = 1.0,
        nonce: Callable[[], str] = lambda: token_hex(16),
    ) -> None:
        self._client, self._provider, self._keys, self._tenant = client, provider, keys, tenant
        self._key_needed, self._key_timeout_s, self._nonce = key_needed, key_timeout_s, nonce
        # Limits the threads that a hanging key source can block.
        self._fetching = WorkerPool(16, max_jobs=16)

    @property
    def name(self) -> str:
        return f"{self._provider.name}/{self._provider.model}"

    @property
    def identity(self) -> JudgeIdentity:
        """What an exam of this judge holds for."""
        return JudgeIdentity(self._provider.name, self._provider.model, self.endpoint)

    @property
    def endpoint(self) -> str:
        """Where the model is asked."""
        return str(getattr(self._provider, "base_url", "") or getattr(self._provider, "endpoint", ""))

    def __repr__(self) -> str:
        return f"ModelJudge({self.name})"

    def opine(self, inquiry: Inquiry) -> Opined:
        """Return the model's opinion of the case. From a coroutine use `opine_async`: this one cannot wait there."""
        if is_on_event_loop():
            return Opined(Silent(NoAnswerReason.CALLED_IN_LOOP))
        return run_routine(self._opinion_steps(inquiry))

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        """Return the model's opinion of the case, from an event loop."""
        return await run_routine_async(self._opinion_steps(inquiry))

    def probe(self) -> bool:
        """Return whether the provider can be reached and takes the key, by a question without any judged text."""
        key = key_or_blank(self._keys, self._tenant)
        answer = self._client.ask(self._provider, _PING, key, tenant=self._tenant).answer
        return not (isinstance(answer, NoAnswer) and answer.why in _DOWN)

    def _opinion_steps(self, inquiry: Inquiry) -> Routine[Opined]:
        try:
            fetch = partial(key_or_blank, self._keys, self._tenant)
            key = fetch() if is_instant(self._keys) else (yield PoolJob(self._fetching, fetch, self._key_timeout_s))
            if not is_usable_key(key, needed=self._key_needed):
                return Opined(Silent(NoAnswerReason.NO_KEY))
            nonce = self._nonce()
            question = build_question(inquiry.stage, inquiry.case, nonce)
            left_s = None if inquiry.until == math.inf else max(0.0, inquiry.until - monotonic())
            answer: Answer = yield ProviderQuestion(self._client, self._provider, question, key, self._tenant, left_s)
            return opinion_from_answer(inquiry, nonce, answer)
        except Full:
            return Opined(Silent(NoAnswerReason.BUSY))
        except Exception as error:  # noqa: BLE001  # the edge to a key source and a provider: there is no opinion
            return self._silent_after(error)

    def _silent_after(self, error: Exception) -> Opined:
        why = NoAnswerReason.DEADLINE if isinstance(error, TimeoutError) else NoAnswerReason.INTERNAL
        # The type only: the message may quote the case.
        _log.warning("no opinion: judge=%s reason=%s error=%s", self.name, why.value, type(error).__name__)
        return Opined(Silent(why))


def opinion_from_answer(inquiry: Inquiry, nonce: str, answer: Answer) -> Opined:
    """Return what an answer says of the case: an opinion only for a reply that is exactly what was asked for."""
    match answer:
        case ModelText(text, tokens_in, tokens_out, model):
            return Opined(parse_opinion(inquiry.stage, text, nonce, inquiry.case), tokens_in, tokens_out, model)
        case NoAnswer(why=why):
            return Opined(Silent(why))
        case ProviderBlock():
            # Silent, like a model that declines, and not unreadable: the same text would be refused again, and an
            # attacker must not get a second question of another form by tripping a filter.
            return Opined(Silent(NoAnswerReason.REFUSED))
        case Rating():
            # A rating endpoint cannot answer this question, in no form.
            return Opined(Silent(NoAnswerReason.ODD_ANSWER))
