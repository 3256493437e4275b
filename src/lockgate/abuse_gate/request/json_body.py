"""The JSON in a client's request, read strictly and as leniently as an application might; and why it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonLimits, JsonReader, check_limits, object_from_pairs

MAX_DIGITS: Final = 64
# One after another in one text, as in a log of requests.
MAX_DOCUMENTS: Final = 4_000
# Each object or list takes as long to look at as a page of text.
MAX_CONTAINERS: Final = 20_000
_LIMITS: Final = JsonLimits(depth=64, containers=MAX_CONTAINERS, values=500_000)


class RefusedRequest(NamedTuple):
    """A request that is not read: the status of the answer, and the reason, from the fixed list `REFUSALS`."""

    status: int
    reason: str


REFUSALS: Final[Mapping[str, int]] = {
    "not-json": 400,
    "duplicate-key": 400,
    "too-deep": 400,
    "bad-query": 400,
    "bad-form": 400,
    "bad-multipart": 400,
    "bad-text": 400,
    "too-many-values": 413,
    "too-many-parts": 413,
    "too-much-text": 413,
    "bad-content-type": 415,
    "unknown-charset": 415,
}
_REASONS: Final = {
    JsonFault.DUPLICATE_KEY: "duplicate-key",
    JsonFault.TOO_DEEP: "too-deep",
    JsonFault.TOO_MANY_VALUES: "too-many-values",
}


class UnreadableRequest(Exception):
    """Ends the reading of a request; never leaves `normalize`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.refused = RefusedRequest(REFUSALS[reason], reason)

    @classmethod
    def from_json(cls, error: InvalidJson) -> UnreadableRequest:
        """Return the refusal for a fault of the JSON."""
        return cls(_REASONS.get(error.fault, "not-json"))


_STRICT: Final = JsonReader(limits=_LIMITS, floats="all", max_digits=MAX_DIGITS)
_LENIENT: Final = json.JSONDecoder(
    object_pairs_hook=object_from_pairs,
    parse_int=lambda digits: int(digits) if len(digits) <= MAX_DIGITS else 0,
    strict=False,
)
_BEGINS: Final = re.compile(r"[\s,;]*+[{\[]")


def read_json(text: str) -> object:
    """Return the one value in a text; raise UnreadableRequest for what two parsers might read differently."""
    try:
        return _STRICT.read(text)
    except InvalidJson as error:
        raise UnreadableRequest.from_json(error) from None


def read_leniently(text: str) -> list[object]:
    """Return the objects and lists that some parser finds in a text: one after another, with NaN, with more behind.

    It ends where nothing can be read any more. A duplicate key is refused here too: applications disagree about it.
    """
    found: list[object] = []
    at = 0
    try:
        check_limits(text, _LIMITS)
        while start := _BEGINS.match(text, at):
            value, at = _LENIENT.raw_decode(text, start.end() - 1)
            found.append(value)
            if len(found) > MAX_DOCUMENTS:
                raise UnreadableRequest("too-many-values")
    except InvalidJson as error:
        raise UnreadableRequest.from_json(error) from None
    except (ValueError, RecursionError):
        pass
    return found
