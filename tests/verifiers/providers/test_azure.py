from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import Answer, Blocked, NoAnswer, Question, Reply, Said, Why
from lockgate.verifiers.providers.azure import Azure

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
DETECTED = {"filtered": False, "detected": True}
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
    (blocked({"violence": {"filtered": False, "severity": "high"}}), Blocked("violence")),
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


def annotated(*prompts: object, choice: dict[str, object] | None = None, **body: object) -> Reply:
    message = {"role": "assistant", "content": '{"verdict": "safe"}'}
    answered = {"finish_reason": "stop", "message": message} | (choice or {})
    return reply({"choices": [answered], "prompt_filter_results": list(prompts)} | body)


def noted(**results: object) -> Reply:
    return annotated({"prompt_index": 0, "content_filter_results": results})


SAID = Said('{"verdict": "safe"}')
ANNOTATIONS = [
    (annotated(), SAID),
    (annotated({"prompt_index": 0, "content_filter_results": {"hate": CLEAN}}), SAID),
    (annotated({"content_filter_results": {"jailbreak": {"filtered": False, "detected": False}}}), SAID),
    (annotated({"content_filter_results": {"jailbreak": {"filtered": False, "detected": True}}}), Blocked("jailbreak")),
    (annotated({}, {"content_filter_results": {"violence": {"filtered": True}}}), Blocked("violence")),
    # A deployment without filters says that they found nothing, or nothing at all.
    (annotated({"prompt_index": 0, "content_filter_results": {}}), SAID),
    (annotated({"prompt_index": 0}), SAID),
    (annotated(prompt_filter_results=None), SAID),
    (noted(hate=CLEAN, protected_material_code=None), SAID),
    (noted(custom_blocklists={"filtered": False, "details": []}), SAID),
    (noted(custom_blocklists=[{"id": "ours", "filtered": False}]), SAID),
    (noted(hate={"filtered": False, "severity": "low"}), SAID),
    (annotated(choice={"content_filter_results": {"hate": CLEAN}}), SAID),
    # Whoever objects, under whatever name and wherever.
    (noted(new_category={"filtered": True}), Blocked("content_filter")),
    (noted(new_category={"filtered": False, "detected": True}, hate={"filtered": True}), Blocked("hate")),
    (noted(custom_blocklists={"filtered": True, "details": []}), Blocked("custom_blocklists")),
    (noted(custom_blocklists={"details": [{"id": "ours", "filtered": True}]}), Blocked("custom_blocklists")),
    (noted(custom_blocklists=[{"id": "ours", "filtered": True}]), Blocked("custom_blocklists")),
    (annotated({"content_filter_result": {"jailbreak": {"detected": True}}}), Blocked("jailbreak")),
    (annotated(prompt_filter_results={"content_filter_results": {"hate": {"filtered": True}}}), Blocked("hate")),
    (annotated(prompt_annotations=[{"content_filter_results": {"jailbreak": DETECTED}}]), Blocked("jailbreak")),
    (annotated(content_filters=[{"blocked": True, "content_filter_results": {}}]), Blocked("content_filter")),
    (annotated(choice={"content_filter_results": {"jailbreak": DETECTED}}), Blocked("jailbreak")),
    (annotated(choice={"content_filter_result": {"jailbreak": DETECTED}}), Blocked("jailbreak")),
    (annotated(content_filter_results={"jailbreak": DETECTED}), Blocked("jailbreak")),
    (annotated(some_new_place=[{"detected": True}]), Blocked("content_filter")),
    (noted(hate={"filtered": False, "severity": "medium"}), Blocked("hate")),
    (noted(hate={"filtered": False, "severity": "high"}), Blocked("hate")),
    # Severity is a word that others use for other things.
    (annotated(warnings=[{"severity": "high", "text": "this version is old"}]), SAID),
    # A filter that broke down has not looked.
    (noted(error={"code": "content_filter_error", "message": "not filtered"}), NoAnswer(Why.SERVER_ERROR)),
    (noted(error={"code": "content_filter_error"}, hate={"filtered": True}), Blocked("hate")),
    # Notes that cannot be read may say anything.
    (noted(jailbreak={"detected": "true"}), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(jailbreak={"detected": 1}), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(jailbreak={"detected": None}), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(jailbreak={}), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(jailbreak=True), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(jailbreak="detected"), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(custom_blocklists=["ours"]), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(hate={"filtered": False, "severity": "extreme"}), NoAnswer(Why.MALFORMED_REPLY)),
    (noted(hate={"filtered": False, "severity": 6}), NoAnswer(Why.MALFORMED_REPLY)),
    (annotated({"content_filter_results": []}), NoAnswer(Why.MALFORMED_REPLY)),
    (annotated(None), NoAnswer(Why.MALFORMED_REPLY)),
    (annotated("x"), NoAnswer(Why.MALFORMED_REPLY)),
    (annotated(prompt_filter_results={}), NoAnswer(Why.MALFORMED_REPLY)),
    (annotated(prompt_filter_results="none"), NoAnswer(Why.MALFORMED_REPLY)),
    (annotated(choice={"content_filter_results": [CLEAN]}), NoAnswer(Why.MALFORMED_REPLY)),
]


@pytest.mark.parametrize(("served", "expected"), ANNOTATIONS)
def test_a_filter_that_only_annotates_outranks_the_model(served: Reply, expected: Answer) -> None:
    assert JUDGE.answer(QUESTION, served) == expected


def test_a_filtered_answer_is_a_refusal() -> None:
    choice = {"finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    assert JUDGE.answer(QUESTION, reply({"choices": [choice]})) == NoAnswer(Why.REFUSED)
