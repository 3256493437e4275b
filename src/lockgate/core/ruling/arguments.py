"""The values in a call's arguments, as one flat list of texts, and what kind of place each argument is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.errors import InvalidCall, quoted
from lockgate.core.ruling.tool_risk import tool_words
from lockgate.core.tables import read_table

MAX_DEPTH = 64
MAX_LEAVES = 10_000
# A name longer than this is cut: it is shown in findings.
_MAX_KEY = 40
# An identifier as long as this with a digit in it may be a key of a service or an account, and no name.
_LONG_KEY = 16
_MAX_BITS = 2_000
_DIGIT = re.compile(r"\d")
_new = tuple.__new__


class Leaf(NamedTuple):
    """One value inside a call's arguments, as text; `how` says which decoding gave it."""

    argument: str
    text: str
    how: str = "exact"


def flatten_arguments(arguments: Mapping[str, object], *, with_names: bool = False) -> tuple[list[Leaf], bool]:
    """Return every value in the arguments as text, and whether some were too many or too deep to be listed.

    A name that may be a value counts as one; `with_names` lists every name, once. Raise InvalidCall for a value that
    JSON cannot hold.
    """
    leaves: list[Leaf] = []
    pending: list[tuple[str, object, int]] = [("", arguments, 0)]
    is_cut = False
    opened = 0
    names: set[str] | None = set() if with_names else None
    while pending:
        path, value, depth = pending.pop()
        opened += 1
        if depth > MAX_DEPTH or len(leaves) + len(pending) + opened > MAX_LEAVES:
            is_cut = True
            continue
        items, is_object = _open_value(path, value)
        for key, item in items:
            if len(leaves) >= MAX_LEAVES:
                is_cut = True
                break
            name = _path_of_key(path, key, leaves, names) if is_object else f"{path}[{key}]"
            if isinstance(item, str):
                # As `Leaf(name, item)`, without the detour by its keywords: most values come here.
                leaves.append(_new(Leaf, (name, item, "exact")))
            elif item is None or isinstance(item, bool):
                continue
            elif isinstance(item, int | float):
                # Python may refuse to print integers of more than 640 digits; no real argument is that long.
                is_long = isinstance(item, int) and item.bit_length() > _MAX_BITS
                leaves.append(Leaf(name, f"{hash(item)}" if is_long else repr(item)))
            else:
                pending.append((name, item, depth + 1))
    return leaves, is_cut


def _open_value(path: str, value: object) -> tuple[Iterable[tuple[object, object]], bool]:
    """Return the items of an object or a list, and whether it is an object."""
    if type(value) is dict or isinstance(value, Mapping):
        return value.items(), True
    if isinstance(value, list | tuple):
        return enumerate(value), False
    raise InvalidCall(
        f"argument {quoted(path)} is a {type(value).__name__}, which JSON cannot hold",
        hint="pass the arguments as the tool will receive them: text, numbers, booleans, lists and objects",
    )


def _path_of_key(path: str, key: object, leaves: list[Leaf], names: set[str] | None) -> str:
    """Return the path of a member; a key that is no plain name becomes a leaf, since it may carry text."""
    if not isinstance(key, str):
        raise InvalidCall(f"argument names must be text, not {type(key).__name__}")
    name = f"{path}.{key[:_MAX_KEY]}" if path else key[:_MAX_KEY]
    is_new = names is not None and key not in names
    if is_new or type(key) is not str or not key.isidentifier() or (len(key) >= _LONG_KEY and _DIGIT.search(key)):
        leaves.append(Leaf(name, key))
    if names is not None:
        names.add(key)
    return name


_ROWS = read_table(__package__, "values.tbl", "sinks", ("sink", "words"))
_SINKS = {word: sink for sink, words in _ROWS for word in words.split()}


@lru_cache(maxsize=4096)
def sink_from_argument(argument: str) -> str:
    """Return what kind of place an argument is, by the last words of its name; empty when the name does not say."""
    for word in reversed(argument_words(argument)):
        if word in _SINKS:
            return _SINKS[word]
    return ""


@lru_cache(maxsize=4096)
def argument_words(argument: str) -> tuple[str, ...]:
    """Return the words of an argument's own name: for `items[0].file_path` these are `file` and `path`."""
    return tool_words(re.sub(r"\[\d+\]", "", argument).rpartition(".")[2])
