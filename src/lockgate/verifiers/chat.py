"""The chat completions format, as OpenAI defines it and Azure and many others speak it.

Chat completions rather than the newer responses: one format then serves three providers, and a question with one
answer needs none of what responses add.
"""

from __future__ import annotations

from collections.abc import Mapping

from lockgate.core.questions import Answer, Blocked, Question, Reply, Said
from lockgate.verifiers import envelope
from lockgate.verifiers.envelope import CUT_SHORT, MALFORMED, ODD, REFUSED

# What a content filter can object to, the attacks on models first. A closed list: the name goes into logs and metrics,
# and a server may write anything there.
FILTER_CATEGORIES = (
    "jailbreak",
    "indirect_attack",
    "hate",
    "self_harm",
    "sexual",
    "violence",
    "profanity",
    "custom_blocklists",
    "protected_material_text",
    "protected_material_code",
)
ANY_CATEGORY = "content_filter"


def body(question: Question, model: str) -> dict[str, object]:
    """The part of the body that every server of this format takes; each provider adds how it spells the rest."""
    system = [{"role": "system", "content": question.system}] if question.system else []
    asked: dict[str, object] = {
        "model": model,
        "messages": [*system, {"role": "user", "content": question.user}],
    }
    if question.schema is not None:
        asked["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": question.schema},
        }
    return asked


def answer(reply: Reply) -> Answer:
    objection = filtered_question(reply)
    if objection is not None:
        return objection
    failed = envelope.failure(reply)
    if failed is not None:
        return failed
    match envelope.json_object(reply.body):
        case {"choices": [{"finish_reason": str() as finish, "message": {"role": "assistant", **message}}], **rest}:
            return _said(finish, message, rest.get("usage"))
        case _:
            return MALFORMED


def _said(finish: str, message: Mapping[object, object], usage: object) -> Answer:
    content, refusal = message.get("content"), message.get("refusal")
    if not isinstance(content, str | None) or not isinstance(refusal, str | None):
        return MALFORMED
    if refusal or finish == "content_filter":
        return REFUSED
    if finish == "length":
        return CUT_SHORT
    # An end we do not know is not known to be the end. Nobody offered the model a tool.
    if finish != "stop" or content is None or message.get("tool_calls") or not envelope.is_text(content):
        return ODD
    tokens = usage if isinstance(usage, dict) else {}
    return Said(content, envelope.count(tokens.get("prompt_tokens")), envelope.count(tokens.get("completion_tokens")))


def filtered_question(reply: Reply) -> Answer | None:
    """A 400 that is about what the question says, not about how it was put.

    Azure writes `content_filter` and names the category; gateways pass that on or write `content_policy_violation`.
    OpenAI's `invalid_prompt` is known to hit harmless text as well, so it is a refusal and no more.
    """
    if reply.status != 400:
        return None
    match envelope.json_object(reply.body):
        case {"error": {"code": "invalid_prompt"}}:
            return REFUSED
        case {"error": {"innererror": {"code": "ResponsibleAIPolicyViolation", **inner}}}:
            return Blocked(objected_to(inner.get("content_filter_result")) or ANY_CATEGORY)
        case {"error": {"code": "content_filter" | "content_policy_violation", "innererror": {**inner}}}:
            return Blocked(objected_to(inner.get("content_filter_result")) or ANY_CATEGORY)
        case {"error": {"code": "content_filter" | "content_policy_violation"}}:
            return Blocked(ANY_CATEGORY)
        case _:
            return None


def objected_to(results: object) -> str | None:
    """The first category a filter acted on or detected, of those we know."""
    if not isinstance(results, dict):
        return None
    for category in FILTER_CATEGORIES:
        match results.get(category):
            case {"filtered": True} | {"detected": True}:
                return category
    return None
