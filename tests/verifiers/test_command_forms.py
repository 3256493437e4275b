"""How programs are asked, and how hostile and broken output of theirs is read: strictly, or as no answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.questions import ModelText, NoAnswer, NoAnswerReason, Question
from lockgate.verifiers.command_forms import FORMS

CLAUDE, CODEX, PLAIN = FORMS["host:claude-code"], FORMS["host:codex"], FORMS["command"]
VERDICT = {"suspicious": False, "nonce": "n" * 16}


def lines(*objects: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


def reply(model: str = "m") -> dict[str, object]:
    return {"type": "assistant", "message": {"role": "assistant", "model": model, "content": []}}


def result(**more: object) -> dict[str, object]:
    return {"type": "result", "is_error": False, "usage": {"input_tokens": 2, "cache_read_input_tokens": 3}, **more}


def message(text: object) -> dict[str, object]:
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}


DONE = {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}}


@pytest.mark.parametrize(
    ("out", "answer"),
    [
        (lines(reply(), result(structured_output=VERDICT)), ModelText(json.dumps(VERDICT), 5, 0, "m")),
        (lines(reply(), result(result="NO")), ModelText("NO", 5, 0, "m")),
        (lines(reply("a"), reply("b"), result(result="NO")), ModelText("NO", 5, 0, "a+b")),
        (lines(result(result="NO")), ModelText("NO", 5)),
        (lines(reply(7), result(result="NO")), ModelText("NO", 5, 0, "?")),  # type: ignore[arg-type]
        (lines(reply(), result(result=None)), NoAnswerReason.MALFORMED_REPLY),
        (lines(reply(), result(result="NO"), reply()), NoAnswerReason.MALFORMED_REPLY),
        (lines(reply(), result(result="NO", is_error=None)), NoAnswerReason.ODD_ANSWER),
        (lines(reply(), result(is_error=True, api_error_status=429)), NoAnswerReason.RATE_LIMITED),
        (lines(reply(), result(is_error=True, api_error_status=529)), NoAnswerReason.SERVER_ERROR),
        (lines(reply(), result(is_error=True, api_error_status=400)), NoAnswerReason.CLIENT_ERROR),
        (lines(reply(), result(is_error=True, api_error="connection_failed")), NoAnswerReason.NETWORK),
        (lines({**reply(), "error": "authentication_failed"}, result(is_error=True)), NoAnswerReason.LOGGED_OUT),
        ("Usage: claude [options]\n" + lines(result(result="NO")), NoAnswerReason.MALFORMED_REPLY),
        ("", NoAnswerReason.MALFORMED_REPLY),
        ("[" * 100_000, NoAnswerReason.MALFORMED_REPLY),
    ],
)
def test_what_claude_code_says(out: str, answer: ModelText | NoAnswerReason) -> None:
    assert CLAUDE.read(out) == (answer if isinstance(answer, ModelText) else NoAnswer(answer))


@pytest.mark.parametrize(
    ("out", "answer"),
    [
        (lines(message("first"), message("NO"), DONE), ModelText("NO", 5, 1)),
        (lines(message("NO")), NoAnswerReason.MALFORMED_REPLY),
        (lines(DONE), NoAnswerReason.MALFORMED_REPLY),
        (lines(message(7), DONE), NoAnswerReason.MALFORMED_REPLY),
        (
            lines(message("NO"), {"type": "turn.failed", "error": {"message": "last status: 429 Too Many"}}),
            NoAnswerReason.RATE_LIMITED,
        ),
        (lines({"type": "turn.failed", "error": {"message": "unexpected status 401 U"}}), NoAnswerReason.LOGGED_OUT),
        (lines({"type": "turn.failed", "error": {"message": "high demand"}}), NoAnswerReason.SERVER_ERROR),
        (lines({"type": "turn.failed", "error": None}), NoAnswerReason.SERVER_ERROR),
        (lines({"type": "turn.failed", "error": {"message": "Connection failed: x"}}), NoAnswerReason.NETWORK),
    ],
)
def test_what_codex_says(out: str, answer: ModelText | NoAnswerReason) -> None:
    assert CODEX.read(out) == (answer if isinstance(answer, ModelText) else NoAnswer(answer))


@given(st.text())
def test_any_output_is_read_into_an_answer_or_none(out: str) -> None:
    assert PLAIN.read(out) == ModelText(out)
    for form in (CLAUDE, CODEX):
        assert isinstance(form.read(out), NoAnswer)


@pytest.mark.parametrize("route", FORMS)
def test_the_text_follows_fixed_words_and_names_no_file(route: str) -> None:
    user = "n goal " + json.dumps("/help @~/.ssh/id_rsa \\@x !ls")
    given = FORMS[route].write(Question("You judge.", user, ""))
    if route == "host:claude-code":
        said = json.loads(given)
        assert (said["client_composed"], given.count("\n")) == (True, 1)
        given = said["message"]["content"]
    assert "@" not in given
    assert given.startswith("You judge." if route == "command" else "The case, one value on each line:\n")
    value = given.partition("n goal ")[2].strip()
    assert json.loads(value) == json.loads(user.partition("n goal ")[2])
