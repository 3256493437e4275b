"""A verifier that says what it was told to say, and a memory of what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockgate.core.questions import Answer, ModelText, ProviderBlock, Question, Rating, Verdict
from lockgate.testing.formats import nonce_from_request, verdict_object

if TYPE_CHECKING:
    from lockgate.verifiers.client import Outcome, Provider


class ScriptedVerifier:
    """Gives the answers of its script in turn, one per question, and `then` for ever after.

    It stands in for an adapter (`assess`, `assess_async`) and for the client under one (`ask`, `ask_async`), without
    any network. To a question a verdict is said as the asked-for object, with the question's own nonce; to a payload an
    Answer is the verdict that it stands for. `payloads`, `questions` and `tenants` hold what came in.
    """

    # What an adapter asks its client for.
    timeout_s = 1.5

    def __init__(self, *script: Answer | Verdict, then: Answer | Verdict = "unclear") -> None:
        self.payloads: list[Mapping[str, Any]] = []
        self.questions: list[Question] = []
        self.tenants: list[str] = []
        self._script = list(script)
        self._then = then
        self._lock = threading.Lock()  # owns the script and the three lists

    def assess(self, payload: Mapping[str, Any], *, tenant: str = "") -> Verdict:
        with self._lock:
            self.payloads.append(payload)
            self.tenants.append(tenant)
            answer = self._next()
        match answer:
            case str():
                return answer
            case ProviderBlock() | Rating(flagged=True):
                return "unsafe"
            case Rating():
                return "safe"
            case _:  # words without a question that they could answer, or none
                return "unclear"

    async def assess_async(self, payload: Mapping[str, Any], *, tenant: str = "") -> Verdict:
        return self.assess(payload, tenant=tenant)

    def ask(
        self,
        provider: Provider,  # noqa: ARG002
        question: Question,
        key: str,  # noqa: ARG002
        *,
        tenant: str = "",
        timeout_s: float | None = None,  # noqa: ARG002
    ) -> Outcome:
        # Imported here: a script for an adapter does not need the client.
        from lockgate.verifiers.client import Outcome

        with self._lock:
            self.questions.append(question)
            self.tenants.append(tenant)
            answer = self._next()
        if isinstance(answer, str):
            asked = {"schema": question.schema, "system": question.system, "messages": [question.user]}
            answer = ModelText(verdict_object(answer, nonce_from_request(asked)))
        return Outcome(answer, 0.0, 1)

    async def ask_async(
        self, provider: Provider, question: Question, key: str, *, tenant: str = "", timeout_s: float | None = None
    ) -> Outcome:
        return self.ask(provider, question, key, tenant=tenant, timeout_s=timeout_s)

    def close(self) -> None:
        """Nothing to close; a client has this too."""

    def _next(self) -> Answer | Verdict:
        return self._script.pop(0) if self._script else self._then
