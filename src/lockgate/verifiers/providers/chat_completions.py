"""The chat completions format, as OpenAI defines it and Azure and many others speak it.

Chat completions rather than the newer responses: one format then serves three providers, and a question with one
answer needs none of what responses add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question
from lockgate.runtime.http_post import HttpReply
from lockgate.verifiers.providers import envelope
from lockgate.verifiers.providers.envelope import CUT_SHORT, MALFORMED, ODD, REFUSED

# What a content filter can object to, attacks on models first. A closed list, because a server may write any name, and
# the name goes into logs and metrics.
FILTER_CATEGORIES = tuple(
    "jailbreak indirect_attack hate self_harm sexual violence profanity custom_blocklists protected_material_text "
    "protected_material_code".split()
)
ANY_CATEGORY = "content_filter"
_FLAGS = ("filtered", "detected", "blocked")
# Azure's own filters refuse from `medium` on, unless they are set to annotate only.
_SEVERITIES = {"safe": False, "low": False, "medium": True, "high": True}
# Where filters write their findings: lists with an entry per prompt, objects with an entry per category.
_PER_PROMPT = ("prompt_filter_results", "prompt_annotations", "content_filters")
_PER_CATEGORY = ("content_filter_results", "content_filter_result")


def request_body(question: Question, model: str) -> dict[str, object]:
    """Return the part of the body that all servers of this format take; each provider adds the rest."""
    system = [{"role": "system", "content": question.system}] if question.system else []
    asked: dict[str, object] = {"model": model, "messages": [*system, {"role": "user", "content": question.user}]}
    if question.schema is not None:
        asked["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": question.schema},
        }
    return asked


def answer_from_reply(reply: HttpReply) -> Answer:
    """Return the model's answer, or a filter's objection, which outranks the model.

    A filter may be set to let a text through and only annotate it. Gateways pass such notes on, so every server's reply
    is searched for them.
    """
    objection = filter_refusal(reply)
    if objection is not None:
        return objection
    body = envelope.open_reply(reply)
    if isinstance(body, NoAnswer):
        return body
    noted = filter_objection(body)
    if noted is not None:
        return noted
    match body:
        case {"object": "error"}:
            return MALFORMED
        case {"choices": [{"finish_reason": str() as finish, "message": {"role": "assistant", **message}}], **rest}:
            return _answer_from_message(finish, message, rest)
        case _:
            return MALFORMED


def _answer_from_message(finish: str, message: Mapping[object, object], rest: Mapping[str, object]) -> Answer:
    content, refusal = message.get("content"), message.get("refusal")
    if not isinstance(content, str | None) or not isinstance(refusal, str | None):
        return MALFORMED
    if refusal or finish == "content_filter":
        return REFUSED
    if finish == "length":
        return CUT_SHORT
    # The model was offered no tools.
    called = message.get("tool_calls") not in (None, []) or message.get("function_call") is not None
    # An unknown finish reason may mean an incomplete answer.
    if finish != "stop" or content is None or called or not envelope.is_encodable(content):
        return ODD
    tokens = usage if isinstance(usage := rest.get("usage"), dict) else {}
    return ModelText(
        content,
        envelope.token_count(tokens.get("prompt_tokens")),
        envelope.token_count(tokens.get("completion_tokens")),
        envelope.model_id(rest.get("model")),
    )


def filter_refusal(reply: HttpReply) -> Answer | None:
    """Return a filter's refusal, or None: a status 400 about the question's content, not its form.

    Azure writes `content_filter` and names the category; gateways pass that on or write `content_policy_violation`.
    OpenAI's `invalid_prompt` is known to hit harmless text as well, so it is a refusal and no more.
    """
    if reply.status != 400:
        return None
    match envelope.parse_json_reply(reply.body):
        case {"error": {"code": "invalid_prompt"}}:
            return REFUSED
        case {"error": {"innererror": {"code": "ResponsibleAIPolicyViolation", **inner}}}:
            return ProviderBlock(_most_telling(_collect_filter_notes(inner).objected))
        case {"error": {"code": "content_filter" | "content_policy_violation", "innererror": {**inner}}}:
            return ProviderBlock(_most_telling(_collect_filter_notes(inner).objected))
        case {"error": {"code": "content_filter" | "content_policy_violation"}}:
            return ProviderBlock(ANY_CATEGORY)
        case _:
            return None


def filter_objection(body: Mapping[str, object]) -> Answer | None:
    """Return what filters object to in a reply that came through; None if nothing.

    A filter that broke down has not looked, and notes that cannot be read may say anything: neither is a pass.
    """
    notes = _collect_filter_notes(body)
    if notes.objected:
        return ProviderBlock(_most_telling(notes.objected))
    return MALFORMED if MALFORMED in notes.unread else next(iter(notes.unread), None)


class _Notes(NamedTuple):
    """The categories that filters object to, and the reasons why notes cannot be read."""

    objected: set[str]
    unread: set[NoAnswer]


def _most_telling(categories: set[str]) -> str:
    """Return the first known category, or the word for any."""
    return next((category for category in FILTER_CATEGORIES if category in categories), ANY_CATEGORY)


def _collect_filter_notes(body: object) -> _Notes:
    """Collect filter notes from the whole reply: a newer filter may write them in unknown places."""
    notes = _Notes(set(), set())
    # Not recursive: a reply may hold tens of thousands of empty lists, and is read on the shared loop.
    pending: list[tuple[object, str, bool]] = [(body, ANY_CATEGORY, False)]
    while pending:
        value, category, rated = pending.pop()
        if isinstance(value, list):
            pending += [(inner, category, rated) for inner in value if inner and isinstance(inner, dict | list)]
        elif isinstance(value, dict):
            if any(value.get(flag) is True for flag in _FLAGS) or (rated and _is_severe(value.get("severity"))):
                notes.objected.add(category)
            for name, inner in value.items():
                if inner is not None and name in _PER_PROMPT:
                    if not (isinstance(inner, list) and all(isinstance(entry, dict) for entry in inner)):
                        notes.unread.add(MALFORMED)
                elif inner is not None and name in _PER_CATEGORY:
                    notes.unread.update(_unread_results(inner))
                if inner and isinstance(inner, dict | list):
                    known = name if name in FILTER_CATEGORIES else category
                    pending.append((inner, known, rated or name in _PER_CATEGORY))
    return notes


def _is_severe(severity: object) -> bool:
    return isinstance(severity, str) and _SEVERITIES.get(severity, False)


def _unread_results(results: object) -> Iterator[NoAnswer]:
    if not isinstance(results, dict):
        yield MALFORMED
        return
    for category, result in results.items():
        # Blocklists come as a list or as one object.
        entries = result if isinstance(result, list) else [] if result is None else [result]
        if category == "error" and result is not None:
            yield NoAnswer(NoAnswerReason.SERVER_ERROR)
        elif not all(_is_result(entry) for entry in entries):
            yield MALFORMED


def _is_result(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    flags = [entry[flag] for flag in _FLAGS if flag in entry]
    if not all(isinstance(flag, bool) for flag in flags):
        return False
    severity = entry.get("severity")
    return (bool(flags) and severity is None) or (isinstance(severity, str) and severity in _SEVERITIES)
