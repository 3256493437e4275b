from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import Question
from lockgate.runtime.http_post import HttpReply
from lockgate.verifiers.providers.azure import Azure

KEY = "0123456789abcdef"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
QUESTION = Question("judge this", "the question", "the text", SCHEMA, max_tokens=64)
JUDGE = Azure("https://lockgate-eu.openai.azure.com", "judge-mini")


def reply(body: object, status: int = 200) -> HttpReply:
    return HttpReply(status, {}, json.dumps(body).encode())


def test_a_question() -> None:
    request = JUDGE.request(QUESTION, KEY)
    assert request.url == (
        "https://lockgate-eu.openai.azure.com/openai/deployments/judge-mini/chat/completions?api-version=2024-10-21"
    )
    assert request.headers == (
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("api-key", KEY),
    )
    assert json.loads(request.body) == {
        "model": "judge-mini",
        "messages": [{"role": "system", "content": "judge this"}, {"role": "user", "content": "the question"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
        "max_completion_tokens": 64,
    }


def test_the_model_is_the_deployment() -> None:
    assert JUDGE.model == "judge-mini"


def test_an_endpoint_may_have_a_path_of_its_own() -> None:
    provider = Azure("https://gateway.example/team-a/", "judge", "2025-04-01-preview")
    assert provider.request(QUESTION, KEY).url == (
        "https://gateway.example/team-a/openai/deployments/judge/chat/completions?api-version=2025-04-01-preview"
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../admin", "a?b", "a b", "a%2fb", "-a", "a.", "é", "x" * 65])
def test_a_deployment_is_one_part_of_an_address(name: str) -> None:
    with pytest.raises(InvalidConfig, match="is not the name of a deployment"):
        Azure("https://lockgate-eu.openai.azure.com", name)


@pytest.mark.parametrize(
    "version", ["", "latest", "2024-10-21&x=y", "2024-10-21\n", "v1", "2024-1-1", "２０２４-10-21"]
)
def test_a_version_is_a_date(version: str) -> None:
    with pytest.raises(InvalidConfig, match="is not a version of the API"):
        Azure("https://lockgate-eu.openai.azure.com", "judge", version)
