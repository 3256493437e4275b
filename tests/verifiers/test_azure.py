from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import Answer, Blocked, NoAnswer, Question, Reply, Said, Why
from lockgate.verifiers.azure import Azure

KEY = "0123456789abcdef"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
QUESTION = Question("judge this", "the question", "the text", SCHEMA, max_tokens=64)
JUDGE = Azure("https://lockgate-eu.openai.azure.com", "judge-mini")


def reply(body: object, status: int = 200) -> Reply:
    return Reply(status, {}, json.dumps(body).encode())


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


def blocked(result: object, **changes: object) -> Reply:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    error = {"message": "The prompt: <the whole text>", "code": "content_filter", "status": 400, "innererror": inner}
    return reply({"error": error | changes}, 400)


CLEAN = {"filtered": False, "severity": "safe"}
OBJECTIONS = [
    (blocked({"hate": CLEAN, "jailbreak": {"filtered": True, "detected": True}}), Blocked("jailbreak")),
    (blocked({"hate": {"filtered": True}, "jailbreak": {"filtered": True, "detected": True}}), Blocked("jailbreak")),
    (blocked({"indirect_attack": {"filtered": False, "detected": True}}), Blocked("indirect_attack")),
    (blocked({"hate": CLEAN, "violence": {"filtered": True, "severity": "high"}}), Blocked("violence")),
    # What the filter calls its category is a server's text: only names we know go on.
    (blocked({"<script>": {"filtered": True}}), Blocked("content_filter")),
    (blocked({"hate": CLEAN}), Blocked("content_filter")),
    (blocked({"hate": {"filtered": "yes"}}), Blocked("content_filter")),
    (blocked({"hate": True}), Blocked("content_filter")),
    (blocked(None), Blocked("content_filter")),
    (blocked([]), Blocked("content_filter")),
    (blocked({}, innererror=None), Blocked("content_filter")),
    (blocked({"hate": {"filtered": True}}, code=None), Blocked("hate")),
    (blocked({}, code="DeploymentNotFound", innererror=None), NoAnswer(Why.CLIENT_ERROR)),
    (reply({"error": "content_filter"}, 400), NoAnswer(Why.CLIENT_ERROR)),
    (reply({"error": {"code": "content_filter"}}, 500), NoAnswer(Why.SERVER_ERROR)),
    (reply({"error": {"code": "content_filter"}}), NoAnswer(Why.MALFORMED_REPLY)),
    (Reply(400, {}, b'{"error": {"code": "content_filter", "code": "x"}}'), NoAnswer(Why.CLIENT_ERROR)),
]


@pytest.mark.parametrize(("served", "expected"), OBJECTIONS)
def test_a_content_filter_is_a_signal_and_not_an_outage(served: Reply, expected: Answer) -> None:
    assert JUDGE.answer(QUESTION, served) == expected


def annotated(*prompts: object) -> Reply:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": '{"verdict": "safe"}'}}
    return reply({"choices": [choice], "prompt_filter_results": list(prompts)})


SAID = Said('{"verdict": "safe"}')
ANNOTATIONS = [
    (annotated(), SAID),
    (annotated({"prompt_index": 0, "content_filter_results": {"hate": CLEAN}}), SAID),
    (annotated({"content_filter_results": {"jailbreak": {"filtered": False, "detected": False}}}), SAID),
    (annotated({"content_filter_results": {"jailbreak": {"filtered": False, "detected": True}}}), Blocked("jailbreak")),
    (annotated({}, {"content_filter_results": {"violence": {"filtered": True}}}), Blocked("violence")),
    (annotated(None, "x", {"content_filter_results": []}), SAID),
]


@pytest.mark.parametrize(("served", "expected"), ANNOTATIONS)
def test_a_filter_that_only_annotates_outranks_the_model(served: Reply, expected: Answer) -> None:
    assert JUDGE.answer(QUESTION, served) == expected


def test_a_filtered_answer_is_a_refusal() -> None:
    choice = {"finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    assert JUDGE.answer(QUESTION, reply({"choices": [choice]})) == NoAnswer(Why.REFUSED)
