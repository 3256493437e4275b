"""Anthropic: the Messages API with structured output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lockgate.core.questions import Answer, ModelText, NoAnswer, Question
from lockgate.runtime.http_post import HttpReply, HttpRequest
from lockgate.verifiers.providers import envelope
from lockgate.verifiers.providers.envelope import CUT_SHORT, MALFORMED, ODD, REFUSED

BASE_URL = "https://api.anthropic.com"
API_VERSION = "2026-10-21"
_THOUGHTS = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Anthropic:
    """`base_url` is what the official client is given: without `/v1`."""

    model: str
    base_url: str = BASE_URL
    # Allow plain http to another machine, for a network that only the operator uses.
    unsafe_http: bool = field(default=False, kw_only=True)

    name: ClassVar[str] = "anthropic"

    def __post_init__(self) -> None:
        envelope.check_model_name(self.model)
        object.__setattr__(self, "base_url", envelope.parse_address(self.base_url, unsafe_http=self.unsafe_http))

    def request(self, question: Question, key: str) -> HttpRequest:
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": question.max_tokens,
            "messages": [{"role": "user", "content": question.user}],
        }
        if question.system:
            body["system"] = question.system
        if question.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": question.schema}}
        url = f"{self.base_url}/v1/messages"
        return envelope.post_request(url, body, envelope.bearer_header(key), ("anthropic-version", API_VERSION))

    def answer(self, question: Question, reply: HttpReply) -> Answer:  # noqa: ARG002
        body = envelope.open_reply(reply)
        if isinstance(body, NoAnswer):
            return body
        match body:
            case {"stop_details": {"type": "refusal"}}:
                return REFUSED
            # Notes that cannot be read may say that the model refused.
            case {"stop_details": details} if not isinstance(details, dict | None):
                return MALFORMED
            case {"type": "message", "role": "assistant", "stop_reason": str() as stop, "content": [*blocks], **rest}:
                return _answer_from_blocks(stop, blocks, rest)
            case _:
                return MALFORMED


def _answer_from_blocks(stop: str, blocks: list[object], rest: Mapping[str, object]) -> Answer:
    if stop == "refusal":
        return REFUSED
    if stop in ("max_tokens", "model_context_window_exceeded"):
        return CUT_SHORT
    if stop != "end_turn":
        return ODD
    spoken = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str() as text}:
                spoken.append(text)
            case {"type": "text"}:
                return MALFORMED
            case {"type": str() as kind}:
                if kind not in _THOUGHTS:
                    return ODD
            case _:
                return MALFORMED
    # The answer is one object in one block; it is never put together from two.
    if len(spoken) != 1 or not envelope.is_encodable(spoken[0]):
        return ODD
    tokens = usage if isinstance(usage := rest.get("usage"), dict) else {}
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return ModelText(
        spoken[0],
        sum(envelope.token_count(tokens.get(name)) for name in read),
        envelope.token_count(tokens.get("output_tokens")),
        envelope.model_id(rest.get("model")),
    )
