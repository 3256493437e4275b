from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import Answer, HttpReply, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question
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


def blocked(result: object, **changes: object) -> HttpReply:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    error = {"message": "The prompt: <the whole text>", "code": "content_filter", "status": 400, "innererror": inner}
    return reply({"error": error | changes}, 400)


CLEAN = {"filtered": False, "severity": "safe"}
DETECTED = {"filtered": False, "detected": True}
OBJECTIONS = [
    (blocked({"hate": CLEAN, "jailbreak": {"filtered": True, "detected": True}}), ProviderBlock("jailbreak")),
    (
        blocked({"hate": {"filtered": True}, "jailbreak": {"filtered": True, "detected": True}}),
        ProviderBlock("jailbreak"),
    ),
    (blocked({"indirect_attack": {"filtered": False, "detected": True}}), ProviderBlock("indirect_attack")),
    (blocked({"hate": CLEAN, "violence": {"filtered": True, "severity": "high"}}), ProviderBlock("violence")),
    # What the filter calls its category is a server's text: only names we know go on.
    (blocked({"<script>": {"filtered": True}}), ProviderBlock("content_filter")),
    (blocked({"hate": CLEAN}), ProviderBlock("content_filter")),
    (blocked({"hate": {"filtered": "yes"}}), ProviderBlock("content_filter")),
    (blocked({"hate": True}), ProviderBlock("content_filter")),
    (blocked({"violence": {"filtered": False, "severity": "high"}}), ProviderBlock("violence")),
    (blocked(None), ProviderBlock("content_filter")),
    (blocked([]), ProviderBlock("content_filter")),
    (blocked({}, innererror=None), ProviderBlock("content_filter")),
    (blocked({"hate": {"filtered": True}}, code=None), ProviderBlock("hate")),
    (blocked({}, code="DeploymentNotFound", innererror=None), NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    (reply({"error": "content_filter"}, 400), NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    (reply({"error": {"code": "content_filter"}}, 500), NoAnswer(NoAnswerReason.SERVER_ERROR)),
    (reply({"error": {"code": "content_filter"}}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (HttpReply(400, {}, b'{"error": {"code": "content_filter", "code": "x"}}'), NoAnswer(NoAnswerReason.CLIENT_ERROR)),
]


@pytest.mark.parametrize(("served", "expected"), OBJECTIONS)
def test_a_content_filter_is_a_signal_and_not_an_outage(served: HttpReply, expected: Answer) -> None:
    assert JUDGE.answer(QUESTION, served) == expected


def annotated(*prompts: object, choice: dict[str, object] | None = None, **body: object) -> HttpReply:
    message = {"role": "assistant", "content": '{"verdict": "safe"}'}
    answered = {"finish_reason": "stop", "message": message} | (choice or {})
    return reply({"choices": [answered], "prompt_filter_results": list(prompts)} | body)


def noted(**results: object) -> HttpReply:
    return annotated({"prompt_index": 0, "content_filter_results": results})


SAID = ModelText('{"verdict": "safe"}')
ANNOTATIONS = [
    (annotated(), SAID),
    (annotated({"prompt_index": 0, "content_filter_results": {"hate": CLEAN}}), SAID),
    (annotated({"content_filter_results": {"jailbreak": {"filtered": False, "detected": False}}}), SAID),
    (
        annotated({"content_filter_results": {"jailbreak": {"filtered": False, "detected": True}}}),
        ProviderBlock("jailbreak"),
    ),
    (annotated({}, {"content_filter_results": {"violence": {"filtered": True}}}), ProviderBlock("violence")),
    # A deployment without filters says that they found nothing, or nothing at all.
    (annotated({"prompt_index": 0, "content_filter_results": {}}), SAID),
    (annotated({"prompt_index": 0}), SAID),
    (annotated(prompt_filter_results=None), SAID),
    (noted(hate=CLEAN, protected_material_code=None), SAID),
    (noted(custom_blocklists={"filtered": False, "details": []}), SAID),
    (noted(custom_blocklists=[{"id": "ours", "filtered": False}]), SAID),
    (noted(hate={"filtered": False, "severity": "low"}), SAID),
    (annotated(choice={"content_filter_results": {"hate": CLEAN}}), SAID),
    # Any filter that objects, under any name and in any place.
    (noted(new_category={"filtered": True}), ProviderBlock("content_filter")),
    (noted(new_category={"filtered": False, "detected": True}, hate={"filtered": True}), ProviderBlock("hate")),
    (noted(custom_blocklists={"filtered": True, "details": []}), ProviderBlock("custom_blocklists")),
    (noted(custom_blocklists={"details": [{"id": "ours", "filtered": True}]}), ProviderBlock("custom_blocklists")),
    (noted(custom_blocklists=[{"id": "ours", "filtered": True}]), ProviderBlock("custom_blocklists")),
    (annotated({"content_filter_result": {"jailbreak": {"detected": True}}}), ProviderBlock("jailbreak")),
    (annotated(prompt_filter_results={"content_filter_results": {"hate": {"filtered": True}}}), ProviderBlock("hate")),
    (annotated(prompt_annotations=[{"content_filter_results": {"jailbreak": DETECTED}}]), ProviderBlock("jailbreak")),
    (annotated(content_filters=[{"blocked": True, "content_filter_results": {}}]), ProviderBlock("content_filter")),
    (annotated(choice={"content_filter_results": {"jailbreak": DETECTED}}), ProviderBlock("jailbreak")),
    (annotated(choice={"content_filter_result": {"jailbreak": DETECTED}}), ProviderBlock("jailbreak")),
    (annotated(content_filter_results={"jailbreak": DETECTED}), ProviderBlock("jailbreak")),
    (annotated(some_new_place=[{"detected": True}]), ProviderBlock("content_filter")),
    (noted(hate={"filtered": False, "severity": "medium"}), ProviderBlock("hate")),
    (noted(hate={"filtered": False, "severity": "high"}), ProviderBlock("hate")),
    # Severity is a word that others use for other things.
    (annotated(warnings=[{"severity": "high", "text": "this version is old"}]), SAID),
    # A filter that broke down has not looked.
    (noted(error={"code": "content_filter_error", "message": "not filtered"}), NoAnswer(NoAnswerReason.SERVER_ERROR)),
    (noted(error={"code": "content_filter_error"}, hate={"filtered": True}), ProviderBlock("hate")),
    # Notes that cannot be read may say anything.
    (noted(jailbreak={"detected": "true"}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(jailbreak={"detected": 1}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(jailbreak={"detected": None}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(jailbreak={}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(jailbreak=True), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(jailbreak="detected"), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(custom_blocklists=["ours"]), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(hate={"filtered": False, "severity": "extreme"}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (noted(hate={"filtered": False, "severity": 6}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (annotated({"content_filter_results": []}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (annotated(None), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (annotated("x"), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (annotated(prompt_filter_results={}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (annotated(prompt_filter_results="none"), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (annotated(choice={"content_filter_results": [CLEAN]}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
]


@pytest.mark.parametrize(("served", "expected"), ANNOTATIONS)
def test_a_filter_that_only_annotates_outranks_the_model(served: HttpReply, expected: Answer) -> None:
    assert JUDGE.answer(QUESTION, served) == expected


def test_a_filtered_answer_is_a_refusal() -> None:
    choice = {"finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    assert JUDGE.answer(QUESTION, reply({"choices": [choice]})) == NoAnswer(NoAnswerReason.REFUSED)
