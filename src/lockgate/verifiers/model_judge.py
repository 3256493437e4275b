"""A model as a judge: turns a case into a question, and the model's reply into an opinion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from secrets import token_hex
from threading import BoundedSemaphore, Thread
from typing import NamedTuple

from lockgate.core.judging.judge_prompts import build_question, parse_opinion
from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating
from lockgate.core.ruling.opinions import Silent
from lockgate.gate.judge import Inquiry, Opined
from lockgate.verifiers.client import Client, Provider
from lockgate.verifiers.key_source import KeySource, is_instant, is_usable_key, key_or_blank

_log = logging.getLogger("lockgate.verifier")


class ModelJudge:
    """Tier 2 or Tier 3 through a provider's model; the inquiry says which tier asks.

    `client` keeps the deadline, so tiers with different deadlines have a client each. Every question has its own nonce.
    """

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
        self._client = client
        self._provider = provider
        self._keys = keys
        self._tenant = tenant
        self._key_needed = key_needed
        self._key_timeout_s = key_timeout_s
        self._nonce = nonce
        # Limits the threads that a hanging key source can block.
        self._fetching = BoundedSemaphore(16)

    @property
    def name(self) -> str:
        return f"{self._provider.name}/{self._provider.model}"

    def __repr__(self) -> str:
        return f"ModelJudge({self.name})"

    def opine(self, inquiry: Inquiry) -> Opined:
        """Return the model's opinion of the case. From a coroutine use `opine_async`: this one cannot wait there."""
        if _is_on_event_loop():
            return Opined(Silent(NoAnswerReason.CALLED_IN_LOOP))
        try:
            key = self._key()
            if isinstance(key, Future):
                key = _usable_key(key.result(self._key_timeout_s), needed=self._key_needed)
            if isinstance(key, Opined):
                return key
            put = self._make_question(inquiry)
            outcome = self._client.ask(self._provider, put.question, key, tenant=self._tenant)
            return self._opinion_from_answer(inquiry, put, outcome.answer)
        except Exception as error:  # noqa: BLE001  # whatever it was, there is no opinion
            return self._silent_after(error)

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        """Return the model's opinion of the case, from an event loop."""
        try:
            key = self._key()
            if isinstance(key, Future):
                async with asyncio.timeout(self._key_timeout_s):
                    fetched = await asyncio.wrap_future(key)
                key = _usable_key(fetched, needed=self._key_needed)
            if isinstance(key, Opined):
                return key
            put = self._make_question(inquiry)
            outcome = await self._client.ask_async(self._provider, put.question, key, tenant=self._tenant)
            return self._opinion_from_answer(inquiry, put, outcome.answer)
        except Exception as error:  # noqa: BLE001  # as above; a caller's cancellation is no Exception
            return self._silent_after(error)

    def _make_question(self, inquiry: Inquiry) -> _AskedQuestion:
        nonce = self._nonce()
        return _AskedQuestion(build_question(inquiry.stage, inquiry.case, nonce), nonce)

    def _opinion_from_answer(self, inquiry: Inquiry, put: _AskedQuestion, answer: Answer) -> Opined:
        match answer:
            case ModelText(text, tokens_in, tokens_out):
                return Opined(parse_opinion(inquiry.stage, text, put.nonce, inquiry.case), tokens_in, tokens_out)
            case NoAnswer(why=why):
                return Opined(Silent(why))
            case ProviderBlock():
                # Silent, like a model that declines, and not unreadable: the same text would be refused again, and an
                # attacker must not get a second question of another form by tripping a filter.
                return Opined(Silent(NoAnswerReason.REFUSED))
            case Rating():
                # A rating endpoint cannot answer this question, in no form.
                return Opined(Silent(NoAnswerReason.ODD_ANSWER))

    def _silent_after(self, error: Exception) -> Opined:
        why = NoAnswerReason.DEADLINE if isinstance(error, TimeoutError) else NoAnswerReason.INTERNAL
        # The type only: the message may quote the case.
        _log.warning("no opinion: judge=%s reason=%s error=%s", self.name, why.value, type(error).__name__)
        return Opined(Silent(why))

    def _key(self) -> str | Opined | Future[str]:
        """Return the key, a silent opinion if there is none, or the future of a thread that fetches it."""
        if is_instant(self._keys):
            return _usable_key(key_or_blank(self._keys, self._tenant), needed=self._key_needed)
        if not self._fetching.acquire(blocking=False):
            return Opined(Silent(NoAnswerReason.BUSY))
        future: Future[str] = Future()
        # Not cancellable from here on: a caller that leaves does not stop the thread.
        future.set_running_or_notify_cancel()

        def fetch() -> None:
            key = key_or_blank(self._keys, self._tenant)
            self._fetching.release()
            future.set_result(key)

        try:
            Thread(target=fetch, name="lockgate-key", daemon=True).start()
        except BaseException:
            self._fetching.release()
            raise
        return future


class _AskedQuestion(NamedTuple):
    question: Question
    nonce: str


def _usable_key(key: object, *, needed: bool) -> str | Opined:
    if isinstance(key, str) and is_usable_key(key, needed=needed):
        return key
    return Opined(Silent(NoAnswerReason.NO_KEY))


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
