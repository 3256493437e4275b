"""Verifiers that answer from a script."""

from __future__ import annotations

import asyncio

import pytest
from provider_http import EXACT, SCHEMA

from lockgate.core.questions import ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating
from lockgate.testing import ScriptedVerifier


def test_a_script_is_played_in_turn_and_then_for_ever() -> None:
    verifier = ScriptedVerifier(
        "safe", "unsafe", ProviderBlock("hate"), NoAnswer(NoAnswerReason.DEADLINE), then="unclear"
    )
    payload = {"prompt_text": "hello"}
    verdicts = [verifier.assess(payload, tenant="a") for _ in range(6)]
    assert verdicts == ["safe", "unsafe", "unsafe", "unclear", "unclear", "unclear"]
    assert verifier.payloads == [payload] * 6
    assert verifier.tenants == ["a"] * 6


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Rating(flagged=True, scores=()), "unsafe"),
        (Rating(flagged=False, scores=()), "safe"),
        (ModelText("safe"), "unclear"),
        (ModelText(EXACT), "unclear"),
    ],
)
def test_an_answer_stands_for_a_verdict(answer: ModelText | Rating, verdict: str) -> None:
    assert asyncio.run(ScriptedVerifier(then=answer).assess_async({})) == verdict


def test_a_scripted_client_echoes_the_nonce_of_the_question() -> None:
    verifier = ScriptedVerifier("safe", NoAnswer(NoAnswerReason.BUSY), ModelText("odd"))
    question = Question("", "hello", "hello", SCHEMA)

    async def ask() -> object:
        return (await verifier.ask_async(None, question, "key", tenant="a")).answer  # type: ignore[arg-type]

    assert [asyncio.run(ask()) for _ in range(3)] == [ModelText(EXACT), NoAnswer(NoAnswerReason.BUSY), ModelText("odd")]
    assert verifier.questions == [question] * 3
