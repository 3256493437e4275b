from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question
from lockgate.runtime.http_post import HttpReply
from lockgate.verifiers.providers.compatible import Compatible

SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
QUESTION = Question("judge this", "the question", "the text", SCHEMA, max_tokens=64)
LOCAL = Compatible("qwen3:4b", "http://localhost:11434/v1/")


def test_a_question() -> None:
    request = LOCAL.request(QUESTION, "")
    assert request.url == "http://localhost:11434/v1/chat/completions"
    assert request.headers == (("accept", "application/json"), ("content-type", "application/json"))
    assert json.loads(request.body) == {
        "model": "qwen3:4b",
        "messages": [{"role": "system", "content": "judge this"}, {"role": "user", "content": "the question"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
        "max_tokens": 64,
        "temperature": 0,
    }


BASES = [
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "https://lockgate-eu.openai.azure.com/openai/v1",
    "https://gateway.example:8443/team-a/v1",
    "http://[::1]:8000/v1",
]


@pytest.mark.parametrize("base", BASES)
def test_many_servers_speak_it(base: str) -> None:
    request = Compatible("m", f"{base}/").request(QUESTION, "k-1")
    assert request.url == f"{base}/chat/completions"
    assert ("authorization", "Bearer k-1") in request.headers


# As llama.cpp, Ollama and a gateway before Azure answer, shortened.
REPLIES = [
    (
        200,
        {
            "choices": [
                {
                    "finish_reason": "stop",
                    "index": 0,
                    "message": {"role": "assistant", "content": '{"verdict": "safe"}'},
                }
            ],
            "usage": {"completion_tokens": 8, "prompt_tokens": 17, "total_tokens": 25},
            "timings": {"prompt_ms": 462.053},
        },
        ModelText('{"verdict": "safe"}', 17, 8),
    ),
    (
        200,
        {
            "choices": [
                {
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "", "reasoning": '{"verdict": "safe"}'},
                }
            ]
        },
        ModelText(""),
    ),
    (200, {"error": {"message": "model is loading"}}, NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (200, {"message": {"role": "assistant", "content": "{}"}, "done": True}, NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    # A gateway in front of Azure passes on what its filter noted.
    (
        200,
        {
            "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}],
            "prompt_filter_results": [{"content_filter_results": {"jailbreak": {"filtered": False, "detected": True}}}],
        },
        ProviderBlock("jailbreak"),
    ),
    (404, {"error": {"message": "model not found"}}, NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    (503, {"error": {"message": "Loading model", "type": "unavailable_error"}}, NoAnswer(NoAnswerReason.SERVER_ERROR)),
    (
        400,
        {
            "error": {
                "code": "content_filter",
                "innererror": {"content_filter_result": {"jailbreak": {"filtered": True}}},
            }
        },
        ProviderBlock("jailbreak"),
    ),
]


def test_plain_http_to_another_machine_has_to_be_asked_for() -> None:
    with pytest.raises(InvalidConfig, match="over plain http"):
        Compatible("m", "http://ollama:11434/v1")
    request = Compatible("m", "http://ollama:11434/v1", unsafe_http=True).request(QUESTION, "")
    assert request.url == "http://ollama:11434/v1/chat/completions"


@pytest.mark.parametrize(("status", "body", "expected"), REPLIES)
def test_a_server_answers(status: int, body: object, expected: Answer) -> None:
    assert LOCAL.answer(QUESTION, HttpReply(status, {}, json.dumps(body).encode())) == expected
