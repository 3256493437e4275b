"""The normalized request that an adapter is asked about, read strictly into a value.

A misspelt key must not become an empty text that is then found safe, so what is not understood is refused. The refusal
names the key and the kind of its value, never the value: it may end up in a log.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Never

from lockgate.core.errors import InvalidPayload, quoted, suggest_closest
from lockgate.core.redaction.redact import Redacted, redact

MODALITIES = ("text", "pdf", "docx", "image", "audio", "video")
PII_RULESETS = ("default", "hipaa", "ferpa", "custom")

# One HTTP body of the gate; redaction reads all of it, in Python, before anything is cut.
MAX_PROMPT_CHARACTERS = 1024 * 1024
MAX_FLAGS, MAX_SOURCES, MAX_RULE_HITS, MAX_META = 64, 64, 64, 32
# Counts of bytes, lines or pages; a larger number is an account or a phone number, not a statistic.
_MOST = 10**12

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")
_KEYS = ("prompt_text", "modalities", "policy_context", "ingress_flags", "debug")
# What a rule may be called after: a word that is a name too, a day, the page it is from.
_PLAIN_KINDS = frozenset({"name", "date", "address", "url"})
# Words of our own, in nearly every request: looking for secrets in them took most of a short one's time.
_PLAIN = frozenset(
    {*MODALITIES, *PII_RULESETS, "baseline", "clarify", "block", "strict", "http", "form", "html", "json", "opaque"}
)


class PolicyContext(NamedTuple):
    pii_ruleset: str = "default"
    block_mode: str = "baseline"
    override_mode: str = "clarify"


class PayloadSource(NamedTuple):
    """What an earlier step found in one artifact; `meta` holds statistics, never content."""

    type: str
    rule_hits: tuple[str, ...] = ()
    meta: tuple[tuple[str, int | float | bool | str], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Payload:
    """A request in its normalized shape: every name in it is a short identifier, and only the prompt is free text.

    `breaks` are the places in the prompt where another message of a chat begins, and `own` those of the client's own
    words, or None where all may be its own. Only the abuse gate knows them.
    """

    prompt_text: str
    modalities: tuple[str, ...] = ("text",)
    policy_context: PolicyContext = field(default_factory=PolicyContext)
    ingress_flags: tuple[str, ...] = ()
    sources: tuple[PayloadSource, ...] = ()
    breaks: tuple[int, ...] = ()
    own: tuple[tuple[int, int], ...] | None = None
    _redacted: dict[tuple[str, ...], Redacted] = field(default_factory=dict, init=False, compare=False)

    def redacted(self, custom: Sequence[str] = ()) -> Redacted:
        """The prompt as it may leave, worked out once: for the digest and for the question."""
        patterns = tuple(custom)
        if patterns not in self._redacted:
            self._redacted[patterns] = redact(self.prompt_text, self.policy_context.pii_ruleset, patterns)
        return self._redacted[patterns]

    def __repr__(self) -> str:
        # A traceback or a debugger's log must not hold the prompt.
        return f"Payload({len(self.prompt_text)} characters, modalities={self.modalities!r})"


def parse_payload(value: Mapping[str, object]) -> Payload:
    """The payload, or InvalidPayload for anything that is not one.

    Inside `debug`, which only informs, unknown keys are left out; anywhere else they are an error.
    """
    body = _object(value, "the payload", _KEYS)
    if "prompt_text" not in body:
        _refuse("`prompt_text` is missing", 'for a request without text give an empty one: "prompt_text": ""')
    prompt = body["prompt_text"]
    if not isinstance(prompt, str):
        _refuse(f"`prompt_text` must be a string, not {_kind(prompt)}", "join the parts of a chat into one text")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        _refuse(
            f"`prompt_text` has {len(prompt):,} characters, more than {MAX_PROMPT_CHARACTERS:,}",
            "assess a long document in parts: the worst verdict counts",
        )
    sources = _object(body.get("debug", {}), "`debug`").get("sources", [])
    payload = Payload(
        prompt,
        _modalities(body.get("modalities", ["text"])),
        _policy_context(body.get("policy_context", {})),
        _names(body.get("ingress_flags", []), "ingress_flags", MAX_FLAGS),
        tuple(_source(*numbered) for numbered in enumerate(_array(sources, "debug.sources", MAX_SOURCES))),
    )
    _refuse_secrets(payload)
    return payload


def payload_digest(payload: Payload, custom: Sequence[str] = ()) -> str:
    """The payload as one SHA-256 in hexadecimal, for logs: the same for the same content, however it was written.

    Of the redacted prompt: a reader of the log who knows the rest of a text could find the PIN in it by trying all.
    """
    content = {key: getattr(payload, key) for key in ("modalities", "policy_context", "ingress_flags", "sources")}
    digest = hashlib.sha256(json.dumps(content, separators=(",", ":"), sort_keys=True).encode("ascii"))
    digest.update(b"\n")
    digest.update(payload.redacted(custom).text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _modalities(value: object) -> tuple[str, ...]:
    listed = _array(value, "modalities", len(MODALITIES) * 4)
    if not listed or any(item not in MODALITIES for item in listed):
        problem = "holds something that is not one" if listed else "is empty: leave it out for plain text"
        _refuse(f"`modalities` {problem}", f"known: {', '.join(MODALITIES)}")
    return tuple(name for name in MODALITIES if name in listed)


def _policy_context(value: object) -> PolicyContext:
    body = _object(value, "`policy_context`", PolicyContext._fields)
    ruleset, *modes = (body.get(key, default) for key, default in PolicyContext()._asdict().items())
    if ruleset not in PII_RULESETS:
        _refuse("`policy_context.pii_ruleset` is not a known rule set", f"known: {', '.join(PII_RULESETS)}")
    places = (f"policy_context.{key}" for key in PolicyContext._fields[1:])
    return PolicyContext(str(ruleset), *map(_name, modes, places))


def _source(number: int, value: object) -> PayloadSource:
    where = f"debug.sources[{number}]"
    body = _object(value, f"`{where}`")
    if "type" not in body:
        _refuse(f"`{where}.type` is missing", "say what the artifact is, for example pdf")
    meta = _object(body.get("meta", {}), f"`{where}.meta`")
    if len(meta) > MAX_META:
        _refuse(f"`{where}.meta` has {len(meta):,} entries, more than {MAX_META}", "send counts, not content")
    statistics = {
        key: item
        for key, item in meta.items()
        # Compared as it is: a whole number may be too large to be made a float of, and NaN compares with nothing.
        if is_name(key) and (is_name(item) or (isinstance(item, int | float) and -_MOST <= item <= _MOST))
        if not _has_secret(f"{key}={item}")
    }
    hits = _names(body.get("rule_hits", []), f"{where}.rule_hits", MAX_RULE_HITS)
    return PayloadSource(_name(body["type"], f"{where}.type"), hits, tuple(sorted(statistics.items())))  # type: ignore[arg-type]


def is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _name(value: object, where: str) -> str:
    match = _NAME.fullmatch(value) if isinstance(value, str) else None
    hint = "use up to 64 letters, digits and any of _ . : / -"
    # Not the value: a subclass may claim to be equal to anything.
    return match[0] if match else _refuse(f"`{where}` must be an identifier, not {_kind(value)}", hint)


def _names(value: object, where: str, most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(item, where) for item in _array(value, where, most)))


def _refuse_secrets(payload: Payload) -> None:
    """Refuse a payload with a secret for a name: names go into logs."""
    names = {
        "policy_context": payload.policy_context,
        "ingress_flags": payload.ingress_flags,
        "debug.sources": [name for source in payload.sources for name in (source.type, *source.rule_hits)],
    }
    unknown = {name: where for where, listed in names.items() for name in listed if name not in _PLAIN}
    # One look at all of them: only when something is in there is it worth asking which one.
    if unknown and _has_secret("\n\n".join(unknown)):
        for name, where in unknown.items():
            if _has_secret(name):
                _refuse(f"`{where}` holds what looks like a secret", "send the name of the rule, not what it found")


def _has_secret(text: str) -> bool:
    return any(kind not in _PLAIN_KINDS for kind, _ in redact(text, "hipaa").removed)


def _refuse(message: str, hint: str = "") -> Never:
    raise InvalidPayload(message, hint=hint)


def _object(value: object, what: str, known: tuple[str, ...] = ()) -> Mapping[object, object]:
    """Return an object; refuse a key that is not `known`, if any are."""
    if not isinstance(value, Mapping):
        _refuse(f"{what} must be an object, not {_kind(value)}")
    for key in value if known else ():
        if key not in known:
            # A key is the caller's own word, unless a host turned content into keys: then it may be a secret.
            word = key if isinstance(key, str) and re.fullmatch("[A-Za-z_]{1,32}", key) else ""
            shown = f" {quoted(word)}" if word and not _has_secret(f"secret={word}") else ""
            _refuse(f"unknown key{shown} in {what}", suggest_closest(str(key), known) or f"known: {', '.join(known)}")
    return value


def _array(value: object, where: str, most: int) -> list[object]:
    if not isinstance(value, list | tuple):
        _refuse(f"`{where}` must be a list, not {_kind(value)}")
    if len(value) > most:
        _refuse(f"`{where}` has {len(value):,} entries, more than {most}")
    return list(value)


_KINDS = {str: "such a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
_KINDS |= {list: "a list", tuple: "a list", dict: "an object"}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "something JSON cannot hold")
