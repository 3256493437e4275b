"""Azure OpenAI: chat completions of one deployment, in the region of its endpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import Answer, Question
from lockgate.runtime.http_post import HttpReply, HttpRequest
from lockgate.verifiers.providers import chat_completions as chat
from lockgate.verifiers.providers import envelope

API_VERSION = "2024-10-21"
# Both become part of the address: only what Azure itself allows, instead of escaping.
_DEPLOYMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_API_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:-preview)?")


@dataclass(frozen=True, slots=True)
class Azure:
    """One deployment of an Azure resource; `endpoint` is `https://NAME.openai.azure.com`."""

    endpoint: str
    deployment: str
    api_version: str = API_VERSION
    # Allow plain http to another machine, for a network that only the operator uses.
    unsafe_http: bool = field(default=False, kw_only=True)

    name: ClassVar[str] = "azure"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "endpoint", envelope.parse_address(self.endpoint, "endpoint", unsafe_http=self.unsafe_http)
        )
        if _DEPLOYMENT.fullmatch(self.deployment) is None:
            raise InvalidConfig(
                f"{quoted(self.deployment)} is not the name of a deployment",
                hint="1 to 64 letters, digits, dots, hyphens and underscores, as Azure lists it",
            )
        if _API_VERSION.fullmatch(self.api_version) is None:
            raise InvalidConfig(
                f"{quoted(self.api_version)} is not a version of the API",
                hint=f"write a date as {API_VERSION} or 2025-04-01-preview; for /openai/v1/ use the compatible adapter",
            )

    @property
    def model(self) -> str:
        return self.deployment

    def request(self, question: Question, key: str) -> HttpRequest:
        # Without `store`: this version of the API refuses it.
        body = chat.request_body(question, self.deployment)
        body["max_completion_tokens"] = question.max_tokens
        url = f"{self.endpoint}/openai/deployments/{self.deployment}/chat/completions?api-version={self.api_version}"
        return envelope.post_request(url, body, ("api-key", envelope.check_credential(key)))

    def answer(self, question: Question, reply: HttpReply) -> Answer:  # noqa: ARG002
        return chat.answer_from_reply(reply)
