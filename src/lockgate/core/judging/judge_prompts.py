"""The judges' questions in words.

Nothing an attacker writes may look like Lockgate's own lines. The attacker may write blocks, sources, the agent's
arguments and, through what the agent copies, much of everything else. So every value of a case stands on one line,
behind a label and a nonce that is drawn afterwards, as JSON in which nothing is invisible, ends the line, or is the
nonce.

The instructions are the same for every case, and come first: a provider's cache of prompts holds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256

from lockgate.core.judging.case import JudgeCase
from lockgate.core.questions import Question, fence_value
from lockgate.core.redaction.secret_table import LONE_SURROGATE, UNSEEN
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.ruling.supervised_steps import FINISH
from lockgate.core.tables import read_texts

MAX_CORRECTION = 500


def _object_schema(**properties: Mapping[str, object]) -> Mapping[str, object]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# Always the same objects: providers compile a schema when they first see it, so the nonce is not part of them.
TRIAGE_SCHEMA = _object_schema(suspicious={"type": "boolean"}, nonce={"type": "string"})
_VERDICTS = {"type": "string", "enum": ["CONTINUE", "REORIENT", "PAUSE"]}
SUPERVISOR_SCHEMA = _object_schema(verdict=_VERDICTS, correction={"type": "string"}, nonce={"type": "string"})

_WORDS = read_texts(__package__, "judge_prompts.md")
_NONCE = re.compile("[A-Za-z0-9_-]{16,64}")


def build_question(stage: Stage, case: JudgeCase, nonce: str) -> Question:
    """Return the question of a stage. The nonce must be fresh and unguessable."""
    end = f"End of the case. Answer now with the object and the nonce {nonce}."
    task, answer, labels = _WORDS["triage task"], _WORDS["triage answer"], ""
    schema: Mapping[str, object] | None = TRIAGE_SCHEMA
    room = 64 + len(nonce)
    if stage is Stage.SUPERVISOR:
        task = _WORDS["supervisor task"].format(most=MAX_CORRECTION, finish=json.dumps(FINISH))
        answer, labels = _WORDS["supervisor answer"], _WORDS["supervisor labels"]
        schema, room = SUPERVISOR_SCHEMA, 512 + len(nonce)
    elif stage is Stage.TRIAGE_AGAIN:
        # The same in plain words, for a model that could not give the object.
        end, answer, schema, room = "End of the case. Answer exactly: YES or NO.", _WORDS["again answer"], None, 16
    system = task + _WORDS["lines"].format(more=labels, answer=answer)
    return Question(system=system, user=_user_text(case, nonce, end, stage), text="", schema=schema, max_tokens=room)


def question_sha256() -> str:
    """Return a hash of the words of all questions: an exam was taken with these, and not with others."""
    empty = JudgeCase("", "", "", "")
    questions = [build_question(stage, empty, "0" * 16)._asdict() for stage in Stage]
    return sha256(json.dumps(questions, sort_keys=True).encode()).hexdigest()


def _labelled_values(case: JudgeCase, *, top: bool) -> Iterator[tuple[str, object]]:
    """Yield the case as labels and values, in the order they are written in."""
    yield from (("goal", case.goal), ("mode", case.mode))
    if case.scope:
        yield "scope", case.scope
    yield from (("tool", case.tool), ("arguments", case.arguments), ("risk", case.risk))
    known = {"target": case.targets, "secret": case.secrets, "note": case.findings, "origin": case.origins}
    for label, lines in (known | {"earlier-call": case.trail}).items():
        yield from ((label, line) for line in lines)
    for shown in case.excerpts:
        without = "as above" if shown.digest else "not at all"
        how_much = ("whole" if shown.whole else "in parts") if shown.pieces else without
        block = {"id": shown.block, "source": shown.source, "trust": shown.trust, "flagged": shown.flagged}
        yield "block", {**block, "shown": how_much, "sha256": shown.digest}
        yield from (("text", piece) for piece in shown.pieces)
    if top:
        yield from (("made-from", line) for line in case.lineage)
        if case.triage:
            yield "triage", case.triage
    yield from (("left-out", line) for line in case.left_out)
    yield "complete", case.complete


def _user_text(case: JudgeCase, nonce: str, end: str, stage: Stage) -> str:
    if _NONCE.fullmatch(nonce) is None:
        raise ValueError("a nonce has 16 to 64 letters and digits")
    values = _labelled_values(case, top=stage is Stage.SUPERVISOR)
    lines = [f"{nonce} {label} {_write_value(value, nonce)}" for label, value in values]
    return "\n".join([f"The case with the nonce {nonce}:", *lines, end])


def _write_value(value: object, nonce: str) -> str:
    """Return a value as JSON on one line, in which nothing is invisible, also not what Python takes for printable."""
    if isinstance(value, dict):
        value = {key: _without_halves(part) for key, part in value.items()}
    return UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], fence_value(_without_halves(value), nonce))


def _without_halves(value: object) -> object:
    """Two halves that were apart would be read as one character once they are written as escapes."""
    return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value
