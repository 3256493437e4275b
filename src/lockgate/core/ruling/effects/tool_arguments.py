"""What the arguments of a call are for: recipients, paths, commands, and switches that open or protect something."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words
from lockgate.core.tables import read_sections

_MAX_SCALARS = 500
_MAX_SWITCHES = 40
_MAX_SWITCH_TEXT = 200
# Python refuses to print integers of thousands of digits; no switch is that long.
_MAX_SWITCH_BITS = 64
_INDEX = re.compile(r"\[\d+\]")
_PAIR = re.compile(r"([\w.-]{2,40})\s*[=:]\s*[\"']?([\w-]{1,20})")

ROLES: Mapping[str, frozenset[str]] = {
    section: frozenset(" ".join(lines).split())
    for section, lines in read_sections(__package__, "argument_words.txt").items()
}
# Two words of a name that protect together.
PAIRS = (frozenset({"rate", "limit"}), frozenset({"rate", "limiting"}), frozenset({"host", "key"}))
_STATES = ROLES["off"] | ROLES["on"] | ROLES["open to all"] | ROLES["admits"] | ROLES["every address"]
_IDS = frozenset("id ids uid uuid".split())
# An identifier of a letter is no address; one of a person or a channel is.
_ADDRESSABLE_IDS = frozenset(
    "user users channel channels chat room group member members recipient recipients to payee account app guest".split()
)
_OWN_SIDE = frozenset("from source sender".split())
# An argument is a path when all words of its name are such words: `repo_path` names no file that the tool works on.
_PATH_NAMES = ROLES["path"] | ROLES["output"] | frozenset("name full absolute relative source target old input".split())

# What a file is to hold says nothing about what the call does: a guide may tell how settings are written.
_CONTENT = frozenset(
    "content contents file_text text body data patch diff old_string new_string old_str new_str oldtext newtext "
    "old_text new_text new_source insert_text".split()
)
_PLACES = tuple("path paths file files filename uri url destination source target dest folder directory".split())
_BLANK = re.compile(r"\s")
_MOST_PLACE = 4096


class Switch(NamedTuple):
    """A value that opens or unprotects something: the kind of its effect, what it is about, and its argument."""

    kind: str
    target: str
    argument: str


@lru_cache(maxsize=1024)
def own_name(argument: str) -> str:
    """Return the name of an argument without the path to it and without its index."""
    while argument[-1:] == "]":
        argument = argument[: argument.rfind("[")]
    return argument.rpartition(".")[2]


def name_parts(argument: str) -> frozenset[str]:
    """Return the words of an argument's own name, and that name itself."""
    return _parts_of_name(own_name(argument))


# By the own name: a list may have a thousand items, and all go by the list's name.
@lru_cache(maxsize=1024)
def _parts_of_name(name: str) -> frozenset[str]:
    return frozenset(argument_words(name)) | {name.lower()}


def all_parts(argument: str) -> frozenset[str]:
    """Return the words of an argument's name and of the names above it: `attendees[0].email` is about attendees too."""
    return frozenset().union(*map(name_parts, _INDEX.sub("", argument).split(".")))


def has_role(argument: str, role: str) -> bool:
    """Return whether an argument is for this, by its name."""
    return _has_name_role(own_name(argument), role)


@lru_cache(maxsize=1024)
def _has_name_role(name: str, role: str) -> bool:
    parts = _parts_of_name(name)
    if parts.isdisjoint(ROLES[role]) or (role == "account" and not parts.isdisjoint(_OWN_SIDE)):
        return False
    return parts.isdisjoint(_IDS) or role == "thing" or not parts.isdisjoint(_ADDRESSABLE_IDS)


@lru_cache(maxsize=1024)
def is_path_name(argument: str) -> bool:
    """Return whether an argument is named as the path of a file that its tool works on."""
    words = frozenset(argument_words(own_name(argument)))
    if words == {"new", "source"}:  # the text of a notebook's cell
        return False
    return not words.isdisjoint(ROLES["path"] | ROLES["output"]) and words <= _PATH_NAMES


@lru_cache(maxsize=1024)
def names_file(argument: str) -> bool:
    """Return whether an argument, or one that holds it, is named as a file or folder that a tool takes along."""
    return not all_parts(argument).isdisjoint(ROLES["path"] - ROLES["output"] - _OWN_SIDE)


def is_prose(leaf: Leaf) -> bool:
    """Return whether a value is text for people to read rather than a value that steers the tool."""
    return has_role(leaf.argument, "prose") or len(leaf.text) > 500 or "\n" in leaf.text.strip()


def is_content(leaf: Leaf) -> bool:
    """Return whether this is what a file is to hold."""
    return leaf_name(leaf) in _CONTENT


def leaf_name(leaf: Leaf) -> str:
    """Return what a value is called; an item of a list goes by the list's name: `edits[0].new_string`, `paths[2]`."""
    return leaf.argument.rpartition(".")[2].partition("[")[0].lower()


def is_place(leaf: Leaf) -> bool:
    """Return whether a value may be a path or an address: it is called one, or is a single word."""
    if is_content(leaf) or not 0 < len(leaf.text) <= _MOST_PLACE:
        return False
    return names_place(leaf) or not _BLANK.search(leaf.text.strip())


def names_place(leaf: Leaf) -> bool:
    """Return whether a value is called a path or an address."""
    return leaf_name(leaf).endswith(_PLACES)


def joined_values(leaves: Sequence[Leaf], role: str) -> Iterator[Leaf]:
    """Yield the values of this role, lists of words as one command line."""
    lists: dict[str, list[str]] = {}
    for leaf in leaves:
        if not has_role(leaf.argument, role):
            continue
        if leaf.argument.endswith("]"):
            lists.setdefault(leaf.argument.rpartition("[")[0], []).append(leaf.text)
        else:
            yield leaf
    for argument, words in lists.items():
        yield Leaf(argument, " ".join(map(_quote_word, words)))


def _quote_word(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def find_switches(arguments: Mapping[str, object]) -> Iterator[Switch]:
    """Yield what the booleans, words and `key=value` texts of the arguments open or unprotect."""
    found: set[Switch] = set()
    for argument, name, value in find_settings(arguments):
        if len(found) > _MAX_SWITCHES:
            return
        stated = value.strip().lower()
        kind = _kind_of_switch(name_parts(name), stated) if stated in _STATES else ""
        if kind:
            is_whom = stated in ROLES["open to all"] | ROLES["every address"]
            target = value if kind == "changes-permissions" and is_whom else name
            switch = Switch(kind, target, argument)
            if switch not in found:
                found.add(switch)
                yield switch


def _kind_of_switch(words: frozenset[str], value: str) -> str:
    if value in ROLES["off"]:
        if "private" in words:
            return "changes-permissions"
        protects = not words.isdisjoint(ROLES["protects"]) or any(pair <= words for pair in PAIRS)
        return "disables-check" if protects else ""
    if value in ROLES["on"]:
        return _kind_of_on(words)
    if value in ROLES["every address"]:
        return "" if words.isdisjoint(ROLES["lets in"]) else "changes-permissions"
    if not words.isdisjoint(ROLES["visibility"]):
        if value in ROLES["open to all"]:
            return "changes-permissions"
        return "grants-access" if value in ROLES["admits"] else ""
    return ""


def _kind_of_on(words: frozenset[str]) -> str:
    if not words.isdisjoint(ROLES["open to all"]):
        return "changes-permissions"
    if not words.isdisjoint(ROLES["unprotected"]):
        return "disables-check"
    if not words.isdisjoint(ROLES["skips"]) and not words.isdisjoint(ROLES["protects"]):
        return "disables-check"
    return "grants-access" if not words.isdisjoint(ROLES["admits"]) else ""


def find_settings(arguments: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield argument, name and value of everything that may be a setting."""
    pending: list[tuple[str, object]] = [("", arguments)]
    count = 0
    while pending and count < _MAX_SCALARS:
        path, value = pending.pop()
        count += 1
        if isinstance(value, Mapping):
            yield from _named_setting(path, value)
            pending += [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            pending += [(f"{path}[{at}]", item) for at, item in enumerate(value)]
        elif isinstance(value, int) and value.bit_length() <= _MAX_SWITCH_BITS:
            yield path, _setting_name(path), str(value)
        elif isinstance(value, str) and len(value) <= _MAX_SWITCH_TEXT:
            yield path, _setting_name(path), value
            if _may_hold_setting(path, value):
                for match in _PAIR.finditer(value):
                    yield path, match[1], match[2]


def _may_hold_setting(path: str, value: str) -> bool:
    # First the signs: a list may hold hundreds of values, and few have either.
    return "=" in value or (":" in value and not has_role(path, "prose"))


def _setting_name(path: str) -> str:
    """Return the name of a setting; with the name above it where its own is only a state: `mfa.enabled`."""
    name = own_name(path)
    above = own_name(path[: -len(name) - 1]) if path.endswith("." + name) else ""
    return f"{above}_{name}" if above and _has_word(name, "state") else name


def _named_setting(path: str, settings: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield a setting that is spread over two arguments: its name is the value of one, its value that of another."""
    names = [value for key, value in settings.items() if isinstance(value, str) and _has_word(key, "setting")]
    values = [value for key, value in settings.items() if _has_word(key, "state")]
    for name in names[:4]:
        for value in values[:4]:
            is_short = isinstance(value, str) or (isinstance(value, int) and value.bit_length() <= _MAX_SWITCH_BITS)
            if is_short and len(name) <= _MAX_SWITCH_TEXT:
                yield path, name, str(value)


def _has_word(key: object, role: str) -> bool:
    return isinstance(key, str) and not name_parts(key).isdisjoint(ROLES[role])
