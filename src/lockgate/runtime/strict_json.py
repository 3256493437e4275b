"""JSON, read so that no two parsers can disagree about it: the one reader for JSON that Lockgate did not write itself.

Python's own parser keeps the last of two equal keys, takes NaN for a number and calls itself for each level of
nesting. With each of these an attacker can show Lockgate one message, and the tool or the application another.
"""

from __future__ import annotations

import json
import math
import re
from enum import StrEnum
from functools import partial
from typing import Final, Literal, NamedTuple, Never, cast


class JsonFault(StrEnum):
    """Why a text is refused."""

    NOT_JSON = "not JSON"
    DUPLICATE_KEY = "a key stands twice in one object"
    BAD_CONSTANT = "NaN and Infinity are not JSON numbers"
    BAD_NUMBER = "a number is too large or not allowed here"
    TOO_DEEP = "nested too deeply"
    TOO_MANY_VALUES = "too many values"


class InvalidJson(ValueError):
    """A text that is not JSON, or that two parsers might read differently.

    `value` is the key, the word or the digits at fault. `message`, `line` and `column` are set only for NOT_JSON.
    """

    def __init__(self, fault: JsonFault, value: str = "", *, message: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(fault.value)
        self.fault, self.value, self.message, self.line, self.column = fault, value, message, line, column


class JsonLimits(NamedTuple):
    """What is counted before anything is parsed; None for no limit.

    The parser calls itself for each level, and a million small values take seconds whatever their size in bytes.
    """

    depth: int
    containers: int | None = None
    values: int | None = None


# What every Python can write and read again: the `json` of 3.11 stops near 1,000 levels, that of 3.13 near 10,000.
# Without a limit of ours, one Python could not read what another one kept, or would compute another hash.
PORTABLE: Final = JsonLimits(depth=500)


class JsonReader:
    """One way to read JSON. Make it once: making a decoder takes longer than reading a short message.

    Without an option that allows them, duplicate keys, NaN, Infinity and control characters in strings are refused.
    `floats` says which numbers with a fraction or an exponent are read: all, the finite ones, or none. `max_digits`
    bounds integers: converting thousands of digits takes quadratic time.
    """

    def __init__(
        self,
        *,
        limits: JsonLimits = PORTABLE,
        floats: Literal["all", "finite", "none"] = "finite",
        max_digits: int | None = None,
        allow_duplicate_keys: bool = False,
        allow_constants: bool = False,
        allow_control_characters: bool = False,
    ) -> None:
        self._limits = limits
        self._decode = json.JSONDecoder(
            object_pairs_hook=None if allow_duplicate_keys else object_from_pairs,
            parse_constant=None if allow_constants else partial(_refuse, JsonFault.BAD_CONSTANT),
            parse_float={"all": None, "finite": _parse_finite, "none": partial(_refuse, JsonFault.BAD_NUMBER)}[floats],
            parse_int=None if max_digits is None else partial(_parse_int, max_digits),
            strict=not allow_control_characters,
        ).decode

    def read(self, text: str) -> object:
        """Return the one value in the text, or raise InvalidJson."""
        check_limits(text, self._limits)
        if text.startswith("\ufeff"):
            raise InvalidJson(JsonFault.NOT_JSON, message="unexpected byte order mark", line=1, column=1)
        try:
            return cast(object, self._decode(text))
        except InvalidJson:
            raise
        except json.JSONDecodeError as error:
            raise InvalidJson(
                JsonFault.NOT_JSON, message=error.msg.lower(), line=error.lineno, column=error.colno
            ) from None
        except RecursionError:
            raise InvalidJson(JsonFault.TOO_DEEP) from None
        except ValueError:  # Python itself refuses to convert an integer of thousands of digits
            raise InvalidJson(JsonFault.BAD_NUMBER) from None


# A string to its end, or to the end of the text, is one step: an open quotation mark would otherwise cost quadratic
# time.
_BRACKETS: Final = re.compile(r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def check_limits(text: str, limits: JsonLimits) -> None:
    """Raise InvalidJson if the text has more than the limits allow; nothing is parsed for it."""
    brackets = text.count("[") + text.count("{")
    depth = containers = 0
    for match in _BRACKETS.finditer(text) if brackets > limits.depth else ():
        first = text[match.start()]
        depth += (first in "[{") - (first in "]}")
        containers += first in "[{"
        if depth > limits.depth:
            raise InvalidJson(JsonFault.TOO_DEEP)
        if limits.containers is not None and containers > limits.containers:
            raise InvalidJson(JsonFault.TOO_MANY_VALUES)
    # Each value takes a character at least.
    if limits.values is not None and len(text) > limits.values < max(brackets, text.count(",")):
        raise InvalidJson(JsonFault.TOO_MANY_VALUES)


def object_from_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the object of these members; raise InvalidJson, which names the key, if one stands there twice."""
    value: dict[str, object] = {}
    for key, member in pairs:
        if key in value:
            raise InvalidJson(JsonFault.DUPLICATE_KEY, key)
        value[key] = member
    return value


def _refuse(fault: JsonFault, text: str) -> Never:
    raise InvalidJson(fault, text)


def _parse_int(most: int, digits: str) -> int:
    return int(digits) if len(digits) <= most else _refuse(JsonFault.BAD_NUMBER, digits)


def _parse_finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(JsonFault.BAD_NUMBER, digits)
