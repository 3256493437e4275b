"""The words of a name: of a JSON key, a form field, a path or a short value such as `role`.

A model that is shown `ignore_all_previous_instructions` reads the sentence in it, so names are read like any other
text. The names of the common APIs (`api_names.txt`) are left out: they are in nearly every request, and no client chose
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

from lockgate.core.tables import read_sections

# Fewer words are no sentence: no rule needs less, and nearly every request has such names.
FEWEST_WORDS: Final = 3

_NAMES: Final = read_sections(__package__, "api_names.txt")
# Without the verbs that are nouns as well, as in `order_number`, but with those that open orders to a model.
_VERBS: Final = frozenset(
    (
        *read_sections("lockgate.core.text", "imperatives.txt")["plain verbs"],
        "act",
        "display",
        "print",
        "repeat",
        "show",
    )
)
_NOT_NAMES: Final = ("paths", "running paths", "tool roles", "speaker roles")
# In lower case.
KNOWN_NAMES: Final = frozenset(
    name.lower() for section, names in _NAMES.items() if section not in _NOT_NAMES for name in names
)
_KNOWN_SEGMENTS: Final = frozenset(("", *_NAMES["paths"], *_NAMES["running paths"]))

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.$:@/~\[\]-]*+")
_PLAIN_PATH: Final = re.compile("[A-Za-z0-9/_.:~-]*+")
# Where a word begins with a capital letter.
_NEW_WORD: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SPACES: Final = str.maketrans(dict.fromkeys("_.$:@/~[]-", " "))
_TWO_LETTERS: Final = re.compile("[A-Za-z]{2,}+")
# Longer names are read, but not kept in memory.
_LONGEST_KEPT: Final = 64


def name_words(name: str) -> str:
    """Return a name as words: `ignoreAll_previous` is `ignore All previous`. Empty for a name that says nothing."""
    if name.lower() in KNOWN_NAMES:
        return ""
    return _kept_words(name) if len(name) <= _LONGEST_KEPT else _split_name(name)


def is_plain_name(name: str) -> bool:
    """Return whether a name has only the characters of identifiers; any other name is read as it is."""
    return _PLAIN.fullmatch(name) is not None


def is_sentence(words: str) -> bool:
    """Return whether words could be a sentence; in other scripts one word may be one."""
    return not words.isascii() or len(list(islice(_TWO_LETTERS.finditer(words), FEWEST_WORDS))) == FEWEST_WORDS


def opens_order(words: str) -> bool:
    """Return whether words begin with a verb, so that a sentence may go on in the value or in the next name."""
    return words.partition(" ")[0].lower() in _VERBS


def readable_names(names: Iterable[str]) -> str:
    """Return names as one text: those that are a sentence, and all that follow one that opens an order."""
    listed: list[str] = []
    opened = False
    for words in names:
        opened = opened or opens_order(words)
        if opened or is_sentence(words):
            listed.append(words)
    text = "\n".join(listed)
    return text if is_sentence(text) else ""


def phrase(*names: str) -> str:
    """Return names as words, one after the other; empty if they are too few for a sentence."""
    return _kept_phrase(*names) if len(names[-1]) <= _LONGEST_KEPT else _join_names(*names)


def phrase_in_path(path: str) -> str:
    """Return a path as words; empty if they are too few for a sentence, or if it is a path of the common APIs."""
    return _kept_path(path) if len(path) <= _LONGEST_KEPT else _split_path(path)


def _split_name(name: str) -> str:
    if not is_plain_name(name):
        return name
    if not _TWO_LETTERS.search(name):
        return ""
    if not name.islower():
        name = _NEW_WORD.sub(" ", name)
    return " ".join(name.translate(_SPACES).split())


def _join_names(*names: str) -> str:
    words = " ".join(filter(None, map(name_words, names)))
    return words if is_sentence(words) else ""


def _split_path(path: str) -> str:
    if not _PLAIN_PATH.fullmatch(path):
        return path
    return "" if _KNOWN_SEGMENTS.issuperset(path.lower().split("/")) else _join_names(path)


# The same few names are in nearly all requests.
_kept_path = lru_cache(maxsize=1024)(_split_path)
_kept_words = lru_cache(maxsize=4096)(_split_name)
_kept_phrase = lru_cache(maxsize=4096)(_join_names)
