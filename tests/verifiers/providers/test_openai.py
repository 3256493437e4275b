from __future__ import annotations

import json

import pytest

from lockgate.core.questions import Answer, NoAnswer, NoAnswerReason, Question, Rating
from lockgate.runtime.http_post import HttpReply
from lockgate.verifiers.providers.openai import EVERY_RATING, OpenAI

KEY = "sk-1"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
QUESTION = Question("judge this", "the question", "the text", SCHEMA, max_tokens=64)
JUDGE = OpenAI("gpt-5-mini")
RATER = OpenAI("omni-moderation-latest")


def reply(body: object, status: int = 200) -> HttpReply:
    return HttpReply(status, {}, json.dumps(body).encode())


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
    (reply({"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}]}), MALFORMED),
    (reply(json.loads(rated().body) | {"error": {"message": "overloaded"}}), MALFORMED),
    (reply(json.loads(rated().body) | {"error": None}), Rating(False, RATED)),
    *((lacking(name), MALFORMED) for name in sorted(EVERY_RATING)),
]


@pytest.mark.parametrize(("served", "expected"), RATINGS)
def test_a_rating_is_read_whole_or_not_at_all(served: HttpReply, expected: Answer) -> None:
    assert RATER.answer(QUESTION, served) == expected
