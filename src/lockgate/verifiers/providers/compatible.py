"""Any other server that speaks OpenAI's chat completions: Gemini, Ollama, vLLM, llama.cpp, a private gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from lockgate.core.questions import Answer, Question
from lockgate.runtime.http_post import HttpReply, HttpRequest
from lockgate.verifiers.providers import chat_completions as chat
from lockgate.verifiers.providers import envelope


@dataclass(frozen=True, slots=True)
class Compatible:
    """`base_url` is what an OpenAI client is given, most often ending in `/v1`; the key may be empty."""

    model: str
    base_url: str
    # Allow plain http to another machine, for a network that only the operator uses.
    unsafe_http: bool = field(default=False, kw_only=True)

    name: ClassVar[str] = "compatible"

    def __post_init__(self) -> None:
        envelope.check_model_name(self.model)
        object.__setattr__(self, "base_url", envelope.parse_address(self.base_url, unsafe_http=self.unsafe_http))

    def request(self, question: Question, key: str) -> HttpRequest:
        body = chat.request_body(question, self.model)
        # The old name of the limit: Ollama and others know only this one.
        body["max_tokens"] = question.max_tokens
        # These servers sample by default, and an attacker could retry until the verdict changes.
        body["temperature"] = 0
        return envelope.post_request(
            f"{self.base_url}/chat/completions", body, *([envelope.bearer_header(key)] if key else [])
        )

    def answer(self, question: Question, reply: HttpReply) -> Answer:  # noqa: ARG002
        return chat.answer_from_reply(reply)
