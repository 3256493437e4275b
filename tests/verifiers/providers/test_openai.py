from __future__ import annotations

import json

import pytest

from lockgate.core.questions import (
    Answer,
    HttpReply,
    ModelText,
    NoAnswer,
    NoAnswerReason,
    ProviderBlock,
    Question,
    Rating,
)
from lockgate.verifiers.providers.openai import EVERY_RATING, OpenAI

KEY = "sk-1"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
QUESTION = Question("judge this", "the question", "the text", SCHEMA, max_tokens=64)
JUDGE = OpenAI("gpt-5-mini")
RATER = OpenAI("omni-moderation-latest")


def reply(body: object, status: int = 200) -> HttpReply:
    return HttpReply(status, {}, json.dumps(body).encode())


def chat(content: object = "{}", finish: object = "stop", **message: object) -> HttpReply:
    said = {"role": "assistant", "content": content, **message}
    return reply({"choices": [{"index": 0, "finish_reason": finish, "message": said}]})


def beside(**more: object) -> HttpReply:
    """A good reply with something more in it."""
    return reply(json.loads(chat().body) | more)


def test_a_question_to_a_model() -> None:
    request = JUDGE.request(QUESTION, KEY)
    assert request.url == "https://api.openai.com/v1/chat/completions"
    assert request.headers == (
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("authorization", "Bearer sk-1"),
    )
    assert json.loads(request.body) == {
        "model": "gpt-5-mini",
        "messages": [{"role": "system", "content": "judge this"}, {"role": "user", "content": "the question"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
        "max_completion_tokens": 64,
        "store": False,
    }


def test_a_question_without_a_system_part_has_one_message() -> None:
    body = json.loads(JUDGE.request(QUESTION._replace(system=""), KEY).body)
    assert body["messages"] == [{"role": "user", "content": "the question"}]


@pytest.mark.parametrize("model", ["omni-moderation-latest", "omni-moderation-2024-09-26", "text-moderation-stable"])
def test_a_model_that_rates_is_sent_the_text_alone(model: str) -> None:
    request = OpenAI(model).request(QUESTION, KEY)
    assert request.url == "https://api.openai.com/v1/moderations"
    assert json.loads(request.body) == {"input": "the text", "model": model}


@pytest.mark.parametrize("base", ["https://eu.example/proxy/openai/v1", "https://eu.example/proxy/openai/v1/"])
def test_an_address_may_have_a_path_of_its_own(base: str) -> None:
    assert OpenAI("gpt-5-mini", base).request(QUESTION, KEY).url == f"{base.rstrip('/')}/chat/completions"
    assert OpenAI("omni-moderation-latest", base).request(QUESTION, KEY).url == f"{base.rstrip('/')}/moderations"


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
    assert JUDGE.answer(QUESTION, served) == expected


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
    assert JUDGE.answer(QUESTION, reply({"choices": [choice], "usage": usage})) == ModelText("{}", *tokens)


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
    assert JUDGE.answer(QUESTION, reply({"error": error}, 400)) == expected


FLAGS = dict.fromkeys(sorted(EVERY_RATING), False)
SCORES = dict.fromkeys(sorted(EVERY_RATING), 0.5)
RATED = tuple(SCORES.items())


def rated(
    flags: dict[str, object] | None = None, scores: dict[str, object] | None = None, **changes: object
) -> HttpReply:
    result = {"flagged": False, "categories": FLAGS | (flags or {}), "category_scores": SCORES | (scores or {})}
    return reply({"id": "modr-1", "model": "omni-moderation-latest", "results": [result | changes]})


def lacking(*names: str, **kept: object) -> HttpReply:
    flags = {name: flag for name, flag in FLAGS.items() if name not in names} | kept
    scores = {name: score for name, score in SCORES.items() if name not in names}
    return rated(categories=flags, category_scores=scores)


MALFORMED = NoAnswer(NoAnswerReason.MALFORMED_REPLY)
RATINGS = [
    (rated(), Rating(False, RATED)),
    (rated(flagged=True), Rating(True, RATED)),
    (rated({"illicit": False}, {"illicit": 1}), Rating(False, (*RATED, ("illicit", 1.0)))),
    # A category that is younger than the model.
    (rated({"illicit": None}), Rating(False, RATED)),
    (rated({"illicit": None}, {"illicit": None}), Rating(False, RATED)),
    (rated({"illicit": None}, {"illicit": 0}), Rating(False, (*RATED, ("illicit", 0.0)))),
    # The flag says no and a category says yes.
    (rated({"hate": True}), Rating(True, RATED)),
    (rated(flagged=None), MALFORMED),
    (rated(flagged=0), MALFORMED),
    (rated(flagged="false"), MALFORMED),
    (rated(categories=None), MALFORMED),
    (rated(categories={}), MALFORMED),
    (rated({"hate": "no"}), MALFORMED),
    (rated({"hate": None}), MALFORMED),
    (rated({"x y": False}, {"x y": 0.1}), MALFORMED),
    (rated(category_scores=None), MALFORMED),
    (rated(category_scores={}), MALFORMED),
    (rated(category_scores={"q": 0}), MALFORMED),
    (rated(scores={"hate": None}), MALFORMED),
    (rated(scores={"hate": True}), MALFORMED),
    (rated(scores={"hate": "0.1"}), MALFORMED),
    (rated(scores={"hate": 1.01}), MALFORMED),
    (rated(scores={"hate": -0.01}), MALFORMED),
    (rated(scores={"hate": float("nan")}), MALFORMED),
    (rated(scores={"hate": 10**400}), MALFORMED),
    (rated(scores={"the user said <b>": 0.1}), MALFORMED),
    (rated({"x" * 65: False}, {"x" * 65: 0.1}), MALFORMED),
    # A flag without a score, a score without a flag.
    (rated({"illicit": False}), MALFORMED),
    (rated(scores={"illicit": 0.1}), MALFORMED),
    (reply({"results": [{"flagged": False, "categories": {}, "category_scores": {"a": 0}}]}), MALFORMED),
    (reply({"results": []}), MALFORMED),
    (reply({"results": [{}, {}]}), MALFORMED),
    (reply({}), MALFORMED),
    (chat('{"verdict": "safe"}'), MALFORMED),
    (reply(json.loads(rated().body) | {"error": {"message": "overloaded"}}), MALFORMED),
    (reply(json.loads(rated().body) | {"error": None}), Rating(False, RATED)),
    *((lacking(name), MALFORMED) for name in sorted(EVERY_RATING)),
]


@pytest.mark.parametrize(("served", "expected"), RATINGS)
def test_a_rating_is_read_whole_or_not_at_all(served: HttpReply, expected: Answer) -> None:
    assert RATER.answer(QUESTION, served) == expected
