"""Change one place of a user's JSON file and leave every other byte as it is.

The file belongs to its user, with its own order, spacing and unknown keys. So an element is inserted into or removed
from the text itself, and inserting and removing it again leaves no trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from lockgate.core.errors import LockgateError, quoted
from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonReader

_DECODER = json.JSONDecoder()
_READER = JsonReader(floats="all", allow_constants=True)
_BLANK = re.compile(r"[ \t\r\n]*")


class JsonItem(NamedTuple):
    """A member of an object, or an element of an array (`key` is empty): where it and its value are in the text."""

    key: str
    start: int
    value: int
    end: int


def parse_json_object(text: str) -> dict[str, object]:
    """Return the object in the text; raise LockgateError for a duplicate key: readers disagree which one counts."""
    if text.startswith("\ufeff"):
        raise LockgateError(
            "this begins with a byte order mark, which is not JSON", hint="save it as UTF-8 without one"
        )
    try:
        found = _READER.read(text)
    except InvalidJson as error:
        if error.fault is JsonFault.DUPLICATE_KEY:
            raise LockgateError(
                f"the key {quoted(error.value)} is there twice", hint="keep the one that is meant"
            ) from None
        where = f"line {error.line}: {error.message}" if error.fault is JsonFault.NOT_JSON else error.fault.value
        raise LockgateError(f"this is not JSON: {where}", hint="comments and trailing commas are not JSON") from None
    if not isinstance(found, dict):
        raise LockgateError(f"this is not a JSON object but {type(found).__name__}")
    return found


def value_start(text: str) -> int:
    return _past_blanks(text, 0)


def iterate_items(text: str, place: int) -> Iterator[JsonItem]:
    """Yield the items of the object or array that begins at `place`, in order."""
    opening, at = text[place], _past_blanks(text, place + 1)
    closing = "}" if opening == "{" else "]"
    while text[at] != closing:
        begin, key = at, ""
        if opening == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _past_blanks(text, _past_blanks(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield JsonItem(key, begin, at, end)
        at = _past_blanks(text, end)
        if text[at] == ",":
            at = _past_blanks(text, at + 1)


def find_member(text: str, place: int, key: str) -> JsonItem | None:
    return next((item for item in iterate_items(text, place) if item.key == key), None)


def insert_item(text: str, place: int, value: object, key: str = "") -> str:
    """Return the text with one more item at the end of the object or array that begins at `place`."""
    there = list(iterate_items(text, place))
    unit = _indent_unit(text)
    empty = None if unit is None else _line_indent(text, place) + unit
    inner = _indent_of(text, there[-1].start) if there else empty
    shown = json.dumps(value, indent=unit if inner is not None else None, ensure_ascii=False)
    if inner is not None:
        shown = shown.replace("\n", f"\n{inner}")
    said = f"{json.dumps(key, ensure_ascii=False)}: {shown}" if text[place] == "{" else shown
    if there:
        gap = " " if inner is None else f"\n{inner}"
        return f"{text[: there[-1].end]},{gap}{said}{text[there[-1].end :]}"
    end = _past_blanks(text, place + 1)
    if inner is None:
        return f"{text[: place + 1]}{said}{text[end:]}"
    return f"{text[: place + 1]}\n{inner}{said}\n{_line_indent(text, place)}{text[end:]}"


def remove_item(text: str, place: int, at: int) -> str:
    """Return the text without this item (by number) of the object or array that begins at `place`."""
    there = list(iterate_items(text, place))
    if len(there) == 1:
        return f"{text[: place + 1]}{text[_past_blanks(text, there[0].end) :]}"
    if at == 0:
        return f"{text[: there[0].start]}{text[there[1].start :]}"
    return f"{text[: there[at - 1].end]}{text[there[at].end :]}"


def _past_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_of(text: str, at: int) -> str | None:
    """Return the indentation of an item on its own line; None if other items stand before it on the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line if "\n" in text[:at] and not line.strip(" \t") else None


def _indent_unit(text: str) -> str | None:
    """Return the indentation per level in this file; None if it is all on one line."""
    if "\n" not in text.strip():
        return "  " if text.strip() in ("{}", "") else None
    found = re.search(r"\n([ \t]+)\S", text)
    return found.group(1) if found else "  "
