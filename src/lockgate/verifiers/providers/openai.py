"""OpenAI: the moderation endpoint for models that rate texts, chat completions for models that answer questions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from lockgate.core.questions import Answer, NoAnswer, Question, Rating
from lockgate.runtime.http_post import HttpReply, HttpRequest
from lockgate.verifiers.providers import chat_completions as chat
from lockgate.verifiers.providers import envelope
from lockgate.verifiers.providers.envelope import MALFORMED

BASE_URL = "https://api.openai.com/v1"
RATING_MODELS = ("omni-moderation", "text-moderation")
# The categories of all rating models. A reply with fewer comes from another server, or is incomplete.
EVERY_RATING = frozenset(
    "harassment harassment/threatening hate hate/threatening self-harm self-harm/instructions self-harm/intent sexual "
    "sexual/minors violence violence/graphic".split()
)
_CATEGORY = re.compile(r"[a-z][a-z0-9_/-]{0,63}")


@dataclass(frozen=True, slots=True)
class OpenAI:
    """A rating model is sent `text` and gives a Rating; any other is sent `system` and `user` and gives a ModelText."""

    model: str
    base_url: str = BASE_URL
    # Allow plain http to another machine, for a network that only the operator uses.
    unsafe_http: bool = field(default=False, kw_only=True)

    name: ClassVar[str] = "openai"

    def __post_init__(self) -> None:
        envelope.check_model_name(self.model)
        object.__setattr__(self, "base_url", envelope.parse_address(self.base_url, unsafe_http=self.unsafe_http))

    @property
    def rates(self) -> bool:
        return self.model.startswith(RATING_MODELS)

    def request(self, question: Question, key: str) -> HttpRequest:
        if self.rates:
            rating = {"input": question.text, "model": self.model}
            return envelope.post_request(f"{self.base_url}/moderations", rating, envelope.bearer_header(key))
        body = chat.request_body(question, self.model)
        # Reasoning models accept only this name of the limit, and no temperature.
        body["max_completion_tokens"] = question.max_tokens
        # OpenAI must not store the question, whatever the account's setting says.
        body["store"] = False
        return envelope.post_request(f"{self.base_url}/chat/completions", body, envelope.bearer_header(key))

    def answer(self, question: Question, reply: HttpReply) -> Answer:  # noqa: ARG002
        return rating_from_reply(reply) if self.rates else chat.answer_from_reply(reply)


def rating_from_reply(reply: HttpReply) -> Answer:
    """Return the rating in a reply; a category without a valid score makes the whole reply malformed."""
    body = envelope.open_reply(reply)
    if isinstance(body, NoAnswer):
        return body
    match body:
        case {
            "results": [
                {"flagged": bool() as flagged, "categories": dict() as flags, "category_scores": dict() as scores}
            ]
        }:
            pass
        case _:
            return MALFORMED
    if not all(flag is None or isinstance(flag, bool) for flag in flags.values()):
        return MALFORMED
    # Older models answer null, without a score, for categories that came later.
    judged = {category for category, flag in flags.items() if flag is not None}
    if not EVERY_RATING <= judged <= scores.keys() <= flags.keys():
        return MALFORMED
    rated = []
    for category, score in scores.items():
        if score is None and category not in judged:
            continue
        if _CATEGORY.fullmatch(category) is None or not isinstance(score, int | float) or isinstance(score, bool):
            return MALFORMED
        if not 0 <= score <= 1:
            return MALFORMED
        rated.append((category, float(score)))
    # The flag repeats what the categories say; if they disagree, the worse counts.
    return Rating(flagged or any(flags.values()), tuple(rated))
