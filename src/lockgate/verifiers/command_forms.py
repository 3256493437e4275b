"""How each program is asked one isolated question, and how its answer is read; `judge_programs.toml` has the words.

The judged text is hostile to the program too. `claude -p` puts the files that a text names with `@` into its request,
and takes a text that begins with `/` for a command of its own. So the text goes through standard input, fixed words
come first, and no `@` is in it: every value of a case is JSON, where `\\u0040` says the same.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from lockgate.core.questions import ModelText, NoAnswer, NoAnswerReason, Question
from lockgate.verifiers.providers.envelope import model_id, token_count

_Object = Mapping[str, object]
_Reader = Callable[[str], ModelText | NoAnswer]
_MALFORMED = NoAnswer(NoAnswerReason.MALFORMED_REPLY)


class Form(NamedTuple):
    """A table of `judge_programs.toml`."""

    format: str
    words: tuple[str, ...] = ()
    with_schema: tuple[str, ...] = ()
    with_model: tuple[str, ...] = ()
    with_endpoint: tuple[str, ...] = ()
    default_model: str = ""
    login: tuple[str, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})
    endpoint_variable: str = ""
    home: tuple[str, str, str] = ("", "", "")
    status: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    started: tuple[str, ...] = ()

    def write(self, question: Question) -> str:
        """Return what the program reads on its standard input."""
        return _WRITERS[self.format](question)

    def read(self, out: str) -> ModelText | NoAnswer:
        """Return the answer in the program's output, still to be parsed strictly."""
        try:
            return _READERS[self.format](out)
        except (ValueError, RecursionError):
            return _MALFORMED


def _case_text(question: Question) -> str:
    """Return the question's text as a program is given it."""
    return "The case, one value on each line:\n" + question.user.replace("@", "\\u0040")


def _plain_text(question: Question) -> str:
    return f"{question.system}\n\n{_case_text(question)}\n"


def _claude_message(question: Question) -> str:
    message = {"role": "user", "content": _case_text(question)}
    # Composed by a program: neither `@` nor `/` is looked for in it.
    return json.dumps({"type": "user", "client_composed": True, "message": message}) + "\n"


def _read_claude(out: str) -> ModelText | NoAnswer:
    lines = _objects(out)
    ended = lines[-1] if lines else {}
    replies = [_object(line.get("message")) for line in lines if line.get("type") == "assistant"]
    if ended.get("type") != "result":
        return _MALFORMED
    if ended.get("is_error") is not False:
        if any(line.get("error") == "authentication_failed" for line in lines):
            return NoAnswer(NoAnswerReason.LOGGED_OUT)
        if ended.get("api_error") == "connection_failed":
            return NoAnswer(NoAnswerReason.NETWORK)
        return NoAnswer(_why_from_status(ended.get("api_error_status")))
    used = _object(ended.get("usage"))
    text = json.dumps(ended["structured_output"]) if "structured_output" in ended else ended.get("result")
    if not isinstance(text, str):
        return _MALFORMED
    # More than one model is none that has taken an exam.
    models = "+".join(sorted({model_id(reply.get("model")) for reply in replies}))
    tokens_in = sum(token_count(used.get(f"{each}input_tokens")) for each in ("", "cache_creation_", "cache_read_"))
    return ModelText(text, tokens_in, token_count(used.get("output_tokens")), models)


_STATUS = re.compile(r"\bstatus:? ([1-5][0-9]{2})\b")


def _read_codex(out: str) -> ModelText | NoAnswer:
    lines = _objects(out)
    ended = lines[-1] if lines else {}
    if ended.get("type") == "turn.failed":
        status = _STATUS.search(said := str(_object(ended.get("error")).get("message")))
        why = NoAnswerReason.NETWORK if said.startswith("Connection failed") else NoAnswerReason.SERVER_ERROR
        return NoAnswer(_why_from_status(int(status[1])) if status else why)
    items = [_object(line.get("item")) for line in lines if line.get("type") == "item.completed"]
    texts = [item.get("text") for item in items if item.get("type") == "agent_message"]
    if ended.get("type") != "turn.completed" or not texts or not isinstance(texts[-1], str):
        return _MALFORMED
    used = _object(ended.get("usage"))
    return ModelText(texts[-1], token_count(used.get("input_tokens")), token_count(used.get("output_tokens")))


def _why_from_status(status: object) -> NoAnswerReason:
    if not isinstance(status, int):
        return NoAnswerReason.ODD_ANSWER
    known = {401: NoAnswerReason.LOGGED_OUT, 403: NoAnswerReason.UNAUTHORIZED, 429: NoAnswerReason.RATE_LIMITED}
    return known.get(status, NoAnswerReason.SERVER_ERROR if status >= 500 else NoAnswerReason.CLIENT_ERROR)


def _objects(out: str) -> list[_Object]:
    return [_object(json.loads(line)) for line in out.split("\n") if line.strip()]


def _object(value: object) -> _Object:
    return value if isinstance(value, dict) else {}


_WRITERS = {"plain": _plain_text, "claude": _claude_message, "codex": _case_text}
_READERS: Mapping[str, _Reader] = {"plain": ModelText, "claude": _read_claude, "codex": _read_codex}
_TABLES = tomllib.loads(files("lockgate.verifiers").joinpath("judge_programs.toml").read_text(encoding="utf-8"))
# By the route of a name in the configuration.
FORMS = {route: Form(**row) for route, row in _TABLES.items()}
