"""A model as a judge: a case becomes its question, and the reply an opinion. Everything else is the client's work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from secrets import token_hex
from threading import BoundedSemaphore, Thread
from typing import NamedTuple, Protocol

from lockgate.core.judging.judge_prompts import build_question, parse_opinion
from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating
from lockgate.core.ruling.opinions import Silent
from lockgate.gate.gate import Inquiry, Opined
from lockgate.settings.key_files import is_key
from lockgate.verifiers.client import Client, Provider

_log = logging.getLogger("lockgate.verifier")


class Keys(Protocol):
    """Where the key is kept. A source with an attribute `instant` that is true answers from memory.

    Any other may block, and is asked in a thread of its own, for a bounded time. No key: return an empty text or
    raise. What is raised is not shown.
    """

    def key(self, tenant: str) -> str: ...


class ModelJudge:
    """Tier 2 or Tier 3, over a provider's model: the inquiry says which of the two is asked.

    `client` keeps the deadline, so the tiers have a client each when theirs differ. A question has a nonce of its own
    and is never asked again with the same one.
    """

    def __init__(
        self,
        client: Client,
        provider: Provider,
        keys: Keys,
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
        # A manager that hangs for good must not be asked by a thread more with every call.
        self._fetching = BoundedSemaphore(16)

    @property
    def name(self) -> str:
        return f"{self._provider.name}/{self._provider.model}"

    def __repr__(self) -> str:
        return f"ModelJudge({self.name})"

    def opine(self, inquiry: Inquiry) -> Opined:
        """What the model says of the case. From a coroutine use `opine_async`: this one cannot wait there."""
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
                # Silent like a model that declines to answer, and not unreadable: the same text would be refused
                # again, and whoever wrote it must not get a second question of another form by tripping a filter.
                return Opined(Silent(NoAnswerReason.REFUSED))
            case Rating():
                # An endpoint that rates texts was asked something it cannot answer; in plain words it cannot either.
                return Opined(Silent(NoAnswerReason.ODD_ANSWER))

    def _silent_after(self, error: Exception) -> Opined:
        why = NoAnswerReason.DEADLINE if isinstance(error, TimeoutError) else NoAnswerReason.INTERNAL
        # The type alone: its words may quote what it was about.
        _log.warning("no opinion: judge=%s reason=%s error=%s", self.name, why.value, type(error).__name__)
        return Opined(Silent(why))

    def _key(self) -> str | Opined | Future[str]:
        """The key, or the word that there is none, or a thread that fetches it."""
        if getattr(self._keys, "instant", False) is True:
            return _usable_key(_key_or_blank(self._keys, self._tenant), needed=self._key_needed)
        if not self._fetching.acquire(blocking=False):
            return Opined(Silent(NoAnswerReason.BUSY))
        future: Future[str] = Future()
        # From here on nobody can cancel it: a caller that leaves does not stop the thread.
        future.set_running_or_notify_cancel()

        def fetch() -> None:
            key = " "
            try:
                key = _key_or_blank(self._keys, self._tenant)
            except KeyboardInterrupt:  # in here it is nobody's but the source's
                pass
            finally:
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


def _key_or_blank(keys: Keys, tenant: str) -> str:
    try:
        return keys.key(tenant)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  # a manager's error may quote the key; a SystemExit of its own ends nobody
        # No key has a blank in it: this is none, also where an empty one would do.
        return " "


def _usable_key(key: object, *, needed: bool) -> str | Opined:
    if isinstance(key, str) and (is_key(key) or (key == "" and not needed)):
        return key
    return Opined(Silent(NoAnswerReason.NO_KEY))


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
