"""What any server of this format answers, whichever provider it is."""

from __future__ import annotations

import json

import pytest

from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question
from lockgate.runtime.http_post import HttpReply
from lockgate.verifiers.providers.azure import Azure
from lockgate.verifiers.providers.chat_completions import answer_from_reply, request_body
from lockgate.verifiers.providers.compatible import Compatible
from lockgate.verifiers.providers.openai import OpenAI

QUESTION = Question("judge this", "the question", "the text", {"type": "object"}, max_tokens=64)


JUDGES = (
    OpenAI("gpt-5-mini"),
    Azure("https://lockgate-eu.openai.azure.com", "judge-mini"),
    Compatible("m", "https://gateway.example/v1"),
)


def answer(served: HttpReply) -> Answer:
    """What the format says, and each provider that speaks it."""
    answered = answer_from_reply(served)
    assert [judge.answer(QUESTION, served) for judge in JUDGES] == [answered] * len(JUDGES)
    return answered


def reply(body: object, status: int = 200) -> HttpReply:
    return HttpReply(status, {}, json.dumps(body).encode())


def chat(content: object = "{}", finish: object = "stop", **message: object) -> HttpReply:
    said = {"role": "assistant", "content": content, **message}
    return reply({"choices": [{"index": 0, "finish_reason": finish, "message": said}]})


def beside(**more: object) -> HttpReply:
    """A good reply with something more in it."""
    return reply(json.loads(chat().body) | more)


REPLIES = [
    (chat("yes"), ModelText("yes")),
    (chat(""), ModelText("")),
    (chat("{}", refusal=None, tool_calls=[], annotations=[], function_call=None), ModelText("{}")),
    # A refusal is set where the words would be, or beside them; either way it is one.
    (chat(None, refusal="I cannot help with that"), NoAnswer(NoAnswerReason.REFUSED)),
    (chat("{}", refusal="I cannot help with that"), NoAnswer(NoAnswerReason.REFUSED)),
    (chat(None, "length", refusal="I cannot"), NoAnswer(NoAnswerReason.REFUSED)),
    (chat("{}", "content_filter"), NoAnswer(NoAnswerReason.REFUSED)),
    (chat(None, "content_filter"), NoAnswer(NoAnswerReason.REFUSED)),
    (chat('{"verdict": "sa', "length"), NoAnswer(NoAnswerReason.CUT_SHORT)),
    (chat('{"verdict": "safe"}', "length"), NoAnswer(NoAnswerReason.CUT_SHORT)),
    (chat("{}", "tool_calls"), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", "function_call"), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", "STOP"), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", ""), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", tool_calls=[{"id": "1"}]), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", tool_calls={}), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", tool_calls=0), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", function_call={"name": "x", "arguments": "{}"}), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", function_call={}), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", function_call=None), ModelText("{}")),
    # What else stands there may be anything; an error beside an answer is an error.
    (beside(error={"message": "overloaded"}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (beside(error="overloaded"), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (beside(error=False), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (beside(error=None), ModelText("{}")),
    (beside(object="error"), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (beside(object="chat.completion", service_tier="default"), ModelText("{}")),
    (chat(None), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("\ud800"), NoAnswer(NoAnswerReason.ODD_ANSWER)),
    (chat("{}", None), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (chat([{"type": "text", "text": "{}"}]), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (chat({"verdict": "safe"}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (chat("{}", refusal=False), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (chat("{}", role="user"), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (reply({}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (reply({"choices": None}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (reply({"choices": []}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (reply({"choices": "stop"}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    (
        reply({"error": {"message": "no such model", "code": "model_not_found"}}),
        NoAnswer(NoAnswerReason.MALFORMED_REPLY),
    ),
    (reply({"output_text": '{"verdict": "safe"}'}), NoAnswer(NoAnswerReason.MALFORMED_REPLY)),
    # One was asked for.
    (
        reply({"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}] * 2}),
        NoAnswer(NoAnswerReason.MALFORMED_REPLY),
    ),
]


@pytest.mark.parametrize(("served", "expected"), REPLIES)
def test_a_model_answers(served: HttpReply, expected: Answer) -> None:
    assert answer(served) == expected


USAGES = [
    ({"prompt_tokens": 7, "completion_tokens": 5}, (7, 5)),
    ({"prompt_tokens": True, "completion_tokens": -5}, (0, 0)),
    ({"prompt_tokens": "7", "completion_tokens": 1e3}, (0, 0)),
    ({"prompt_tokens": 10**100}, (0, 0)),
    (None, (0, 0)),
    ([], (0, 0)),
]


@pytest.mark.parametrize(("usage", "tokens"), USAGES)
def test_odd_token_counts_are_no_reason_to_drop_an_answer(usage: object, tokens: tuple[int, int]) -> None:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}
    assert answer(reply({"choices": [choice], "usage": usage})) == ModelText("{}", *tokens)


REFUSED_QUESTIONS = [
    (
        {"code": "invalid_prompt", "type": "invalid_request_error", "message": "flagged"},
        NoAnswer(NoAnswerReason.REFUSED),
    ),
    ({"code": "content_policy_violation", "message": "rejected"}, ProviderBlock("content_filter")),
    ({"code": "context_length_exceeded", "message": "too long"}, NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    ({"code": None, "message": "content_filter"}, NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    ({}, NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    ("content_filter", NoAnswer(NoAnswerReason.CLIENT_ERROR)),
    (None, NoAnswer(NoAnswerReason.CLIENT_ERROR)),
]


@pytest.mark.parametrize(("error", "expected"), REFUSED_QUESTIONS)
def test_a_400_about_the_content_is_told_from_a_400_about_the_request(error: object, expected: Answer) -> None:
    assert answer(reply({"error": error}, 400)) == expected


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
    assert answer(served) == expected


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
    assert answer(served) == expected


def test_a_filtered_answer_is_a_refusal() -> None:
    choice = {"finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    assert answer(reply({"choices": [choice]})) == NoAnswer(NoAnswerReason.REFUSED)


def test_a_schema_is_strict_and_a_question_without_one_asks_for_no_form() -> None:
    asked = request_body(QUESTION, "m")
    assert asked["messages"] == [
        {"role": "system", "content": "judge this"},
        {"role": "user", "content": "the question"},
    ]
    assert asked["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}},
    }
    plain = request_body(Question("", "the question", "the text"), "m")
    assert plain == {"model": "m", "messages": [{"role": "user", "content": "the question"}]}
