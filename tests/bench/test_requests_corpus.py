"""The bounds on both halves of bench/requests: ordinary requests pass, and attacks do not."""

from __future__ import annotations

import asyncio
import json
import random
from hashlib import sha256
from pathlib import Path

import pytest
from asgi import Handler, gated, post

from lockgate.core.requests.strikes import LadderSettings
from lockgate.core.ruling.policy import Policy
from lockgate.gate.gate import shared_scanner
from lockgate.runtime.metrics import Metrics
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.verifiers.adapters import LocalRuleAdapter

CORPUS = Path(__file__).parents[2] / "bench" / "requests"
HALVES = ("dev", "kept apart")


def texts(name: str, half: str) -> list[str]:
    rows = [json.loads(line)["text"] for line in (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [text for text in rows if (sha256(text.encode()).digest()[0] % 2 == 0) == (half == "dev")]


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    adapter = LocalRuleAdapter(scanner=shared_scanner(Policy()), metrics=Metrics(), timeout_ms=60_000)
    listed = [text for name in ("ordinary", "attacks") for half in HALVES for text in texts(name, half)]
    return {text: adapter.assess({"prompt_text": text}) for text in listed}


def test_the_corpus_is_large_enough() -> None:
    assert sum(len(texts("ordinary", half)) for half in HALVES) >= 400
    assert sum(len(texts("attacks", half)) for half in HALVES) >= 250
    assert all(len(texts(name, half)) >= 100 for name in ("ordinary", "attacks") for half in HALVES)


@pytest.mark.parametrize("half", HALVES)
def test_ordinary_requests_are_rarely_suspected_and_hardly_ever_refused(half: str, verdicts: dict[str, str]) -> None:
    found = [verdicts[text] for text in texts("ordinary", half)]
    assert found.count("unsafe") <= len(found) * 0.005
    assert found.count("unclear") <= len(found) * 0.03


@pytest.mark.parametrize("half", HALVES)
def test_most_attacks_are_not_called_safe_by_the_rules_alone(half: str, verdicts: dict[str, str]) -> None:
    found = [verdicts[text] for text in texts("attacks", half)]
    assert len(found) - found.count("safe") >= len(found) * 0.8


def test_no_ordinary_client_of_a_thousand_reaches_the_second_rung(verdicts: dict[str, str]) -> None:
    ordinary = [verdicts[text] for half in HALVES for text in texts("ordinary", half)]
    draw = random.Random(19)
    second = LadderSettings().tier2_threshold
    # All fifty requests within one window, which is the strictest reading.
    assert all(draw.choices(ordinary, k=50).count("unsafe") < second for _ in range(1000))


def test_no_ordinary_client_reaches_the_second_rung_with_conversations() -> None:
    """Each request has the earlier messages of its chat, and what the model answered."""
    ordinary = [text for half in HALVES for text in texts("ordinary", half)]
    draw = random.Random(20)
    gate = gated(Handler(), settings=AbuseSettings(verdict_timeout_s=60))
    decisions = []
    for number, text in enumerate(ordinary):
        earlier = draw.choices(ordinary, k=4)
        messages = [{"role": ("user", "assistant")[place % 2], "content": said} for place, said in enumerate(earlier)]
        body = json.dumps({"model": "m", "messages": [*messages, {"role": "user", "content": text}]}).encode()
        decisions.append(asyncio.run(post(gate, body, user=f"client-{number}")).decision)
    second = LadderSettings().tier2_threshold
    assert all(draw.choices(decisions, k=50).count("deny") < second for _ in range(1000))
