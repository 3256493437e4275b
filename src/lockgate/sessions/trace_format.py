"""The strict parser for traces: each line becomes one event, or is refused with its line number.

A trace may contain text that an attacker wrote, so the parser also checks what Python's JSON parser lets pass: no
duplicate key (readers disagree on which one counts), no NaN, Infinity or number that overflows to one, no lone
surrogate, no nesting that would exhaust a recursive reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Never

from lockgate.core.errors import InvalidTrace, quoted, suggest_closest
from lockgate.core.vocabulary import SCHEMA, Kind, Mode, Trust, default_trust
from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonLimits, JsonReader

# A block is held in memory whole, so this limits the cost of one event; the reader stops at this length.
MAX_LINE_BYTES = 32 * 1024 * 1024
# The pipeline reads arguments 64 levels deep and reports deeper ones as a finding; a trace deeper than this is refused.
MAX_DEPTH = 100
MAX_NAME = 1_000
# Read deeper than is allowed, so that a value in the wrong place is refused for its type. Python itself converts no
# integer of more digits: that takes quadratic time.
_READER = JsonReader(limits=JsonLimits(depth=10 * MAX_DEPTH), max_digits=4_300)


@dataclass(frozen=True, slots=True)
class TraceHeader:
    schema: str


@dataclass(frozen=True, slots=True)
class SessionStart:
    """A new session. The fields after `scope` are for measuring; a ruling never sees them."""

    goal: str = ""
    mode: Mode | None = None
    scope: str = ""
    id: str = ""
    pair: str = ""
    task: str = ""
    part: str = ""
    dataset: str = ""
    suite: str = ""
    family: str = ""
    attack: str = ""


@dataclass(frozen=True, slots=True)
class BlockEvent:
    """Something enters the context. `poisoned` is for measuring; a ruling never sees it."""

    content: str
    source: str
    trust: Trust | None = None
    kind: Kind | None = None
    mutable: bool | None = None
    id: str | None = None
    tainted_by: tuple[str, ...] = ()
    poisoned: bool = False

    @property
    def is_untrusted(self) -> bool:
        trust = default_trust(self.source) if self.trust is None else self.trust
        return trust is Trust.UNTRUSTED


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A tool call. `label` (one of `LABELS`, or empty) and `effect` are for measuring; a ruling never sees them."""

    tool: str
    arguments: Mapping[str, object]
    annotations: Mapping[str, object] | None = None
    label: str = ""
    effect: bool | None = None


Event = TraceHeader | SessionStart | BlockEvent | CallEvent

# What a session is called when it is measured.
SESSION_NAMES = ("id", "pair", "task", "part", "dataset", "suite", "family", "attack")
KEYS = {
    "session": ("goal", "mode", "scope", *SESSION_NAMES),
    "block": ("content", "source", "trust", "kind", "mutable", "id", "tainted_by", "poisoned"),
    "call": ("tool", "arguments", "annotations", "label", "effect"),
}
# The words for a call's label, and the one word that each is read as.
LABELS = {"attack": "attack", "ordinary": "ordinary", "benign": "ordinary", "unknown": "unknown"}


def decode_line(data: bytes, number: int) -> str:
    """Return the line as text; raise InvalidTrace for bytes that are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidTrace(
            f"line {number}: byte {error.start + 1:,} (0x{data[error.start]:02x}) is not UTF-8 text",
            hint=_bytes_hint(data),
        ) from None


def parse_line(line: str, number: int) -> Event:
    """Return the event on one line; raise InvalidTrace, which names the line, for anything else."""
    return TraceLineParser(number).event(line)


class TraceLineParser:
    """The parser of one line; it knows the line's number, so that every error can name it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def refuse(self, message: str, hint: str = "") -> Never:
        raise InvalidTrace(f"line {self.number}: {message}", hint=hint)

    def event(self, line: str) -> Event:
        # Editors on Windows put a byte order mark before the first line.
        value = self.read_json(line.removeprefix("\ufeff") if self.number == 1 else line)
        if not isinstance(value, dict):
            self.refuse(f"an event must be an object, not {_json_type_name(value)}", 'for example {"call": {…}}')
        if "trace" not in value:
            for key in value:
                if key not in KEYS:
                    self.refuse(
                        f"unknown event {quoted(key)}", suggest_closest(key, KEYS) or "use session, block or call"
                    )
        if len(value) != 1:
            self.refuse("a line must hold exactly one of session, block or call", "put each event on a line of its own")
        ((sort, body),) = value.items()
        if sort == "trace":
            return self._header(body)
        if not isinstance(body, dict):
            self.refuse(f"`{sort}` must be an object, not {_json_type_name(body)}")
        for key in body:
            if key not in KEYS[sort]:
                known = KEYS[sort]
                self.refuse(
                    f"unknown key {quoted(key)} in `{sort}`",
                    suggest_closest(key, known) or f"known: {', '.join(known)}",
                )
        if sort == "session":
            return self._session(body)
        return self._block(body) if sort == "block" else self._call(body)

    def _header(self, body: object) -> TraceHeader:
        if body != SCHEMA:
            named = quoted(body) if isinstance(body, str) else _json_type_name(body)
            self.refuse(f"unknown trace format {named}", f"this version reads `{SCHEMA}`")
        return TraceHeader(SCHEMA)

    def _session(self, body: Mapping[str, object]) -> SessionStart:
        word = self._name_or_none(body, "session", "mode")
        return SessionStart(
            goal=self._text(body, "session", "goal", default=""),
            mode=None if word is None else Mode(self._one_of(word, "mode", [mode.value for mode in Mode])),
            scope=self._text(body, "session", "scope", default=""),
            **{key: self._name_or_none(body, "session", key) or "" for key in SESSION_NAMES},
        )

    def _block(self, body: Mapping[str, object]) -> BlockEvent:
        trust = self._name_or_none(body, "block", "trust")
        kind = self._name_or_none(body, "block", "kind")
        parents = body.get("tainted_by")
        if not isinstance(parents, list | None):
            self.refuse(f"`block.tainted_by` must be a list of block ids, not {_json_type_name(parents)}")
        return BlockEvent(
            content=self._text(body, "block", "content"),
            source=self._name_from(body, "block", "source"),
            trust=None if trust is None else Trust[self._one_of(trust, "trust", [t.word for t in Trust]).upper()],
            kind=None if kind is None else Kind(self._one_of(kind, "kind", [kind.value for kind in Kind])),
            mutable=self._flag_or_none(body, "block", "mutable"),
            id=self._name_or_none(body, "block", "id"),
            tainted_by=tuple(self._checked_name(parent, "block.tainted_by") for parent in parents or ()),
            poisoned=self._flag_or_none(body, "block", "poisoned") or False,
        )

    def _call(self, body: Mapping[str, object]) -> CallEvent:
        annotations = None if body.get("annotations") is None else self._object(body, "annotations")
        label = self._name_or_none(body, "call", "label")
        return CallEvent(
            tool=self._name_from(body, "call", "tool"),
            arguments=self._object(body, "arguments"),
            annotations=annotations,
            label="" if label is None else LABELS[self._one_of(label, "label", [*LABELS])],
            effect=self._flag_or_none(body, "call", "effect"),
        )

    def read_json(self, line: str) -> object:
        """Return the JSON value on the line; refuse what only some readers would accept."""
        if len(line) > MAX_LINE_BYTES:
            self.refuse(f"longer than {MAX_LINE_BYTES:,} bytes", "no single block or call may be that large")
        try:
            return _READER.read(line)
        except InvalidJson as error:
            self._refuse_json(error)

    def _refuse_json(self, error: InvalidJson) -> Never:
        value = error.value
        match error.fault:
            case JsonFault.DUPLICATE_KEY:
                self.refuse(f"key {quoted(value)} stands twice in one object", "readers disagree on which one counts")
            case JsonFault.BAD_CONSTANT:
                self.refuse(f"`{value}` is not a JSON number")
            case JsonFault.BAD_NUMBER if value.lstrip("-").isdigit():
                self.refuse(f"number with {len(value):,} digits is too large")
            case JsonFault.BAD_NUMBER:
                self.refuse(f"number {quoted(value, 20)} is too large")
            case JsonFault.TOO_DEEP:
                self._too_deep()
            case _:
                # The wording of these messages differs between versions of Python; the position does not.
                place = f"{error.message.replace(':', '')} at column {error.column:,}"
                self.refuse(f"not JSON: {place}", "a trace has one complete JSON object per line")

    def _text(self, body: Mapping[str, object], sort: str, key: str, *, default: str | None = None) -> str:
        value = body.get(key, default)
        if value is None and key not in body:
            self.refuse(f"`{sort}` needs `{key}`")
        if not isinstance(value, str):
            self.refuse(f"`{sort}.{key}` must be text, not {_json_type_name(value)}")
        self._whole(value, f"{sort}.{key}")
        return value

    def _name_from(self, body: Mapping[str, object], sort: str, key: str) -> str:
        if key not in body:
            self.refuse(f"`{sort}` needs `{key}`")
        return self._checked_name(body[key], f"{sort}.{key}")

    def _name_or_none(self, body: Mapping[str, object], sort: str, key: str) -> str | None:
        value = body.get(key)
        return None if value is None else self._checked_name(value, f"{sort}.{key}")

    def _flag_or_none(self, body: Mapping[str, object], sort: str, key: str) -> bool | None:
        value = body.get(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(f"`{sort}.{key}` must be true or false, not {_json_type_name(value)}")
        return value

    def _checked_name(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            self.refuse(f"`{path}` must be text, not {_json_type_name(value)}")
        if not value or len(value) > MAX_NAME:
            self.refuse(f"`{path}` must have 1 to {MAX_NAME:,} characters, not {len(value):,}")
        self._whole(value, path)
        return value

    def _one_of(self, word: str, key: str, words: list[str]) -> str:
        if word not in words:
            self.refuse(f"unknown {key} {quoted(word)}", suggest_closest(word, words) or f"use {', '.join(words)}")
        return word

    def _object(self, body: Mapping[str, object], key: str) -> Mapping[str, object]:
        if key not in body:
            self.refuse(f"`call` needs `{key}`", "a call without arguments has an empty object")
        value = body[key]
        if not isinstance(value, dict):
            self.refuse(f"`call.{key}` must be an object, not {_json_type_name(value)}")
        pending: list[tuple[object, int]] = [(value, 1)]
        while pending:
            item, depth = pending.pop()
            if isinstance(item, str):
                self._whole(item, f"call.{key}")
            elif isinstance(item, dict | list):
                if depth > MAX_DEPTH:
                    self._too_deep()
                if isinstance(item, dict):
                    for name in item:
                        self._whole(name, f"call.{key}")
                    pending.extend((inner, depth + 1) for inner in item.values())
                else:
                    pending.extend((inner, depth + 1) for inner in item)
        return value

    def _whole(self, text: str, path: str) -> None:
        if text.isascii():
            return
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(text[error.start]):04x}"
            self.refuse(
                f"`{path}` holds `{half}`, half of a surrogate pair, which is no character",
                "write the whole pair, or U+FFFD where the original text was broken",
            )

    def _too_deep(self) -> Never:
        self.refuse(f"nested more than {MAX_DEPTH} levels deep")


def _json_type_name(value: object) -> str:
    """Return the JSON name of a value's type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number"
    return "a list" if isinstance(value, list) else "an object"


def _bytes_hint(data: bytes) -> str:
    if data.startswith(b"\x1f\x8b"):
        return "this is gzip: decompress it first, e.g. gzip -dc FILE | lockgate check -"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "this is UTF-16: save it as UTF-8"
    return "a trace is UTF-8 text, one JSON object per line"
