"""The question to a verifier and the answer: values only, the same for all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import permutations
from typing import Literal, NamedTuple

Verdict = Literal["safe", "unsafe", "unclear"]


class NoAnswerReason(StrEnum):
    """Why there is no answer. A closed list: these are metric labels and header values, never text from outside."""

    DEADLINE = "deadline"
    NETWORK = "network"
    TLS = "tls"
    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate-limited"
    CLIENT_ERROR = "client-error"
    SERVER_ERROR = "server-error"
    REDIRECT = "redirect"
    REPLY_TOO_LARGE = "reply-too-large"
    MALFORMED_REPLY = "malformed-reply"
    ODD_ANSWER = "odd-answer"
    REFUSED = "refused"
    CUT_SHORT = "cut-short"
    CIRCUIT_OPEN = "circuit-open"
    BUSY = "busy"
    CALLED_IN_LOOP = "called-in-loop"
    BAD_PAYLOAD = "bad-payload"
    NO_KEY = "no-key"
    LOGGED_OUT = "logged-out"
    REPLACED = "replaced"
    BUDGET = "budget"
    INTERNAL = "internal"


class Question(NamedTuple):
    """One question to a verifier.

    A model gets `system` and `user`, and its reply has to be one object of `schema` (None: plain text). An endpoint
    that only rates texts gets `text`. Everything here has been redacted: it leaves the process as it is.
    """

    system: str
    user: str
    text: str
    schema: Mapping[str, object] | None = None
    max_tokens: int = 256


class ModelText(NamedTuple):
    """A model's reply as text, still to be parsed strictly; `model` is the id in the reply, empty where it has none."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""


class Rating(NamedTuple):
    """A rating endpoint's answer: its own flag, and a score from 0 to 1 per category."""

    flagged: bool
    scores: tuple[tuple[str, float], ...]


class ProviderBlock(NamedTuple):
    """The provider's own filter refused the question because of its content: a signal, not an outage."""

    category: str


class NoAnswer(NamedTuple):
    """No verifier answered; `retry_after_s` is the delay that a server asked for with a 429."""

    why: NoAnswerReason
    retry_after_s: float | None = None


Answer = ModelText | Rating | ProviderBlock | NoAnswer


def fence_value(value: object, nonce: str) -> str:
    """Return a value as JSON on one line in which nothing is invisible, ends the line or spells the nonce.

    An attacker who could end the line or write the nonce could put words into the prompt's own voice.
    """
    written = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    if not written.isprintable():
        written = "".join(ch if ch.isprintable() else json.dumps(ch)[1:-1] for ch in written)
    # The nonce's last character is escaped: its first could be the letter of an escape written just before it.
    return written.replace(nonce, f"{nonce[:-1]}\\u{ord(nonce[-1]):04x}")


NONCE = re.compile("[A-Za-z0-9_-]{16,64}")
_SPACE = r"[ \t\r\n]*"


def schema_of_object(**properties: Mapping[str, object]) -> Mapping[str, object]:
    """Return the schema of a reply with these fields and the nonce.

    Always the same object: providers compile a schema when they first see it, so no nonce is part of it.
    """
    properties |= {"nonce": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def patterns_of_object(**fields: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a reply with these fields and the nonce, each value a group of its name.

    No parser that could be lenient: the objects are small enough to be spelled out, in every order of their keys.
    """
    fields |= {"nonce": f'"(?:{NONCE.pattern})"'}
    written = [f'"{name}"{_SPACE}:{_SPACE}(?P<{name}>{value})' for name, value in fields.items()]
    orders = (f"{_SPACE},{_SPACE}".join(order) for order in permutations(written))
    return tuple(re.compile(rf"{_SPACE}\{{{_SPACE}{order}{_SPACE}\}}{_SPACE}", re.ASCII) for order in orders)


def match_reply(replies: tuple[re.Pattern[str], ...], text: str, nonce: str, most: int) -> dict[str, str]:
    """Return the fields of a reply as JSON writes them; empty for anything but exactly the object with this nonce."""
    matches = (reply.fullmatch(text) for reply in replies if len(text) <= most)
    return next((match.groupdict() for match in matches if match and match["nonce"] == f'"{nonce}"'), {})
