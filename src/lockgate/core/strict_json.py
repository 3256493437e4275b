"""JSON, as strictly as all parsers agree on and as leniently as any of them reads it; and why a request is not read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Never, cast

MAX_DEPTH: Final = 64
# Of a number: to make one of thousands takes as long as to read a book.
MAX_DIGITS: Final = 64
# One after another in one text, as in a log of requests.
MAX_DOCUMENTS: Final = 4_000
# Objects and lists: each takes as long to look at as a page of text.
MAX_CONTAINERS: Final = 20_000
# A million small values take seconds to read, whatever their size in bytes.
MAX_VALUES: Final = 500_000


class RefusedRequest(NamedTuple):
    """A request that is not read: the status it is answered with, and why, from a fixed list."""

    status: int
    reason: str


REFUSALS: Final[Mapping[str, int]] = {
    "not-json": 400,
    "duplicate-key": 400,
    "too-deep": 400,
    "bad-form": 400,
    "bad-multipart": 400,
    "bad-text": 400,
    "too-many-values": 413,
    "too-many-parts": 413,
    "too-much-text": 413,
    "bad-content-type": 415,
    "unknown-charset": 415,
}


class UnreadableRequest(Exception):
    """Ends the reading of a request; never leaves this package's `normalize`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.refused = RefusedRequest(REFUSALS[reason], reason)


# A string to its end, or to the end of all, is one step: otherwise an open quotation mark costs the square of the size.
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def read_json(text: str) -> object:
    """The value, or Refusal: for what is not JSON, and for what two parsers might read differently."""
    _refuse_much(text)
    try:
        # What `decode` does, without looking for blanks where there are none.
        value, end = _DECODER.raw_decode(text, 0 if text[:1] == "{" else _skip_blanks(text, 0))
    except (ValueError, RecursionError):
        raise UnreadableRequest("not-json") from None
    if end != len(text) and _skip_blanks(text, end) != len(text):
        raise UnreadableRequest("not-json")
    return cast(object, value)


_BLANKS = re.compile(r"[ \t\n\r]*+")


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match is not None else at


def read_leniently(text: str) -> list[object]:
    """The values that some parser finds where `read_json` finds none: one after another, with NaN, with more behind."""
    _refuse_much(text)
    found: list[object] = []
    at = 0
    try:
        while start := _BEGINS.match(text, at):
            value, at = _LENIENT.raw_decode(text, start.end() - 1)
            found.append(value)
            if len(found) > MAX_DOCUMENTS:
                raise UnreadableRequest("too-many-values")
    except (ValueError, RecursionError):
        pass
    return found


_BEGINS = re.compile(r"[\s,;]*+[{\[]")


def _refuse_much(text: str) -> None:
    # Counted before anything is built: the parser calls itself for each level.
    if _occurs_more_than(text, "{", MAX_DEPTH // 2) or _occurs_more_than(text, "[", MAX_DEPTH // 2):
        _refuse_depth(text)
    # Each value takes a character at least.
    if len(text) > MAX_VALUES and max(text.count("[") + text.count("{"), text.count(",")) > MAX_VALUES:
        raise UnreadableRequest("too-many-values")


def _occurs_more_than(text: str, mark: str, most: int) -> bool:
    """Whether a mark is in a text more often than that. Found and not counted: few are found in no time."""
    at = -1
    for _ in range(most + 1):
        at = text.find(mark, at + 1)
        if at < 0:
            return False
    return True


def _refuse_depth(text: str) -> None:
    depth = containers = 0
    for match in _BRACKETS.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            containers += 1
            if depth > MAX_DEPTH:
                raise UnreadableRequest("too-deep")
            if containers > MAX_CONTAINERS:
                raise UnreadableRequest("too-many-values")
        elif first in "]}":
            depth -= 1


def _object_from_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # One parser keeps the first of two equal keys, another the last: the gate and the app would read two requests.
    body = dict(pairs)
    if len(body) != len(pairs):
        raise UnreadableRequest("duplicate-key")
    return body


def _refuse_constant(_name: str) -> Never:
    raise UnreadableRequest("not-json")


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise UnreadableRequest("not-json")
    return int(digits)


def _parse_int_leniently(digits: str) -> int:
    return int(digits) if len(digits) <= MAX_DIGITS else 0


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object_from_pairs, parse_constant=_refuse_constant, parse_int=_parse_int
)
_LENIENT: Final = json.JSONDecoder(object_pairs_hook=_object_from_pairs, parse_int=_parse_int_leniently, strict=False)
