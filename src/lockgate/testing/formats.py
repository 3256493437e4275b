"""The wire formats of the providers, from the server's side: good replies, errors, and where their fields are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

# The categories of omni-moderation; a rating that lacks one is a fault, see `rates-...`.
CATEGORIES: Final = (
    "harassment harassment/threatening hate hate/threatening illicit illicit/violent self-harm self-harm/instructions "
    "self-harm/intent sexual sexual/minors violence violence/graphic"
).split()


class Dialect(NamedTuple):
    """One wire format: what a good reply is, and where its load-bearing fields are."""

    name: str
    answers: str  # the list of answers
    words: tuple[str | int, ...]  # what the model said; a rating's flag
    stop: tuple[str | int, ...] | None  # why the model stopped
    cut: str  # its value when the answer was cut short
    stopped: str  # its value when the provider's own filter stopped it


CHAT = Dialect(
    "chat",
    "choices",
    ("choices", 0, "message", "content"),
    ("choices", 0, "finish_reason"),
    "length",
    "content_filter",
)
AZURE = CHAT._replace(name="azure")
MESSAGES = Dialect("messages", "content", ("content", 0, "text"), ("stop_reason",), "max_tokens", "refusal")
MODERATIONS = Dialect("moderations", "results", ("results", 0, "flagged"), None, "", "")


def dialect_from_path(path: str) -> Dialect | None:
    """By the end of the path, so that any prefix works: a gateway's `/proxy/openai/v1/...` is spoken to as well."""
    plain = path.partition("?")[0]
    if plain.endswith("/chat/completions"):
        return AZURE if "/openai/deployments/" in plain else CHAT
    for end, dialect in (("/moderations", MODERATIONS), ("/messages", MESSAGES)):
        if plain.endswith(end):
            return dialect
    return None


def good_reply(dialect: Dialect, asked: Json, said: str, *, flagged: bool, scores: Mapping[str, float]) -> Json:
    model = asked.get("model", "loopback")
    if dialect is MODERATIONS:
        rated = dict.fromkeys(CATEGORIES, 0.0001) | dict(scores)
        result = {
            "flagged": flagged,
            "categories": {name: score >= 0.5 for name, score in rated.items()},
            "category_scores": rated,
            "category_applied_input_types": {name: ["text"] for name in rated},
        }
        texts = asked.get("input")
        many = len(texts) if isinstance(texts, list) and all(isinstance(text, str) for text in texts) else 1
        return {"id": "modr-loopback", "model": model, "results": [result] * many}
    if dialect is MESSAGES:
        return {
            "id": "msg_loopback",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": said, "citations": None}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 21, "output_tokens": 12},
        }
    calm = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
    choice: Json = {
        "index": 0,
        "message": {"role": "assistant", "content": said, "refusal": None, "annotations": []},
        "logprobs": None,
        "finish_reason": "stop",
    }
    reply: Json = {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": 21, "completion_tokens": 12, "total_tokens": 33},
        "system_fingerprint": "fp_loopback",
    }
    if dialect is AZURE:
        choice["content_filter_results"] = calm
        jailbreak = {"jailbreak": {"filtered": False, "detected": False}}
        reply["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": calm | jailbreak}]
    return reply


def error_reply(dialect: Dialect | None, status: int) -> Json:
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    message = "the loopback provider was told to answer this way"
    if dialect is MESSAGES:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}
    if dialect is AZURE:
        return {"error": {"code": str(status), "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def nonce_from_request(asked: Json) -> str:
    """The nonce an answer has to echo: from the schema if it pins one, else as the first text that names one has it."""

    def pinned(value: object) -> str:
        if isinstance(value, Mapping):
            properties = value.get("properties")
            nonce = properties.get("nonce") if isinstance(properties, Mapping) else None
            if isinstance(nonce, Mapping):
                for held in (nonce.get("const"), *(nonce.get("enum") or ())):
                    if isinstance(held, str):
                        return held
            return next(filter(None, map(pinned, value.values())), "")
        if isinstance(value, list):
            return next(filter(None, map(pinned, value)), "")
        return ""

    def texts(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        if isinstance(value, Mapping):
            value = list(value.values())
        return [text for item in value for text in texts(item)] if isinstance(value, list) else []

    if found := pinned(asked):
        return found
    for text in texts(asked.get("system")) + texts(asked.get("messages")):
        if match := re.search(r"nonce(?: \w{1,5}){0,2}\W{1,12}([0-9A-Za-z_-]{8,128})", text):
            return match[1]
    return ""


def verdict_object(verdict: object, nonce: object, **more: object) -> str:
    return json.dumps({"verdict": verdict, "nonce": nonce} | more)
