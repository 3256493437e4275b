"""Signs of an attack in a *request*: a text that a client sends to an application which has a prompt of its own.

The rules of core/text are about text that an agent *reads*, where `new task` and `forget` are out of place. A client
may say both. So no sign here is a verdict: each has a family and a weight, and request_grade.py adds them up.

`SIGN` alone makes a request suspicious. `HALF` needs another half. `HINT` only makes a suspicion firmer. A broad sign
never makes a suspicion sure. All of them are rows of signs.tbl, with their examples.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lockgate.core.tables import read_table

SIGN, HALF, HINT = 4, 2, 1
TABLE: Final = "signs.tbl"
COLUMNS: Final = ("id", "weight", "what it means", "words in order")
_POINTS: Final = {"sign": SIGN, "half": HALF, "hint": HINT}
_PART: Final = re.compile(r"\{([a-z_ ]+)\}")


class RequestSign(NamedTuple):
    """One sign: its family is the first word of its name."""

    name: str
    points: int
    what: str
    is_broad: bool = False

    @property
    def family(self) -> str:
        return self.name.partition("-")[0]

    @property
    def rule(self) -> str:
        return f"request:{self.name}"


class WordSequence(NamedTuple):
    """Word classes in their order, and how many other words may stand before each of them."""

    sign: RequestSign
    classes: tuple[str, ...]
    gaps: tuple[int, ...]


class SignPattern(NamedTuple):
    """A pattern for what is no words; every match has a match of `anchor` in it, which the engine looks for."""

    sign: RequestSign
    anchor: str
    pattern: re.Pattern[str]


def _read_words() -> dict[str, tuple[str, ...]]:
    classes: dict[str, tuple[str, ...]] = {}
    for name, words in read_table(__package__, TABLE, "words", ("class", "words")):
        classes[name] = (*classes.get(name, ()), *words.split(", "))
    return classes


WORD_CLASSES: Final = _read_words()
_PARTS: Final = {row[0]: row[1] for row in read_table(__package__, TABLE, "parts", ("name", "pattern"))}


def fill_parts(pattern: str) -> str:
    """Return a pattern of the table with the parts and the word classes that it names."""
    return _PART.sub(lambda part: fill_parts(_PARTS.get(part[1]) or _any_word_of(part[1])), pattern)


def _any_word_of(name: str) -> str:
    return f"(?:{'|'.join(word for word in WORD_CLASSES[name] if '*' not in word)})"


def _read_sequences(row: tuple[str, ...]) -> list[WordSequence]:
    sequences = []
    for text in row[3].split("; ") if row[3] != "-" else ():
        parts = re.split(r" (\d) ", text)
        sequences.append(WordSequence(_BY_NAME[row[0]], tuple(parts[::2]), (0, *map(int, parts[1::2]))))
    return sequences


_ROWS: Final = read_table(__package__, TABLE, "signs", COLUMNS)
SIGNS: Final = tuple(
    RequestSign(name, _POINTS[weight.removeprefix("broad ")], what, weight.startswith("broad "))
    for name, weight, what, _ in _ROWS
)
_BY_NAME: Final = {sign.name: sign for sign in SIGNS}
SEQUENCES: Final = tuple(sequence for row in _ROWS for sequence in _read_sequences(row))
PATTERNS: Final = tuple(
    SignPattern(_BY_NAME[name], fill_parts(anchor), re.compile(fill_parts(pattern)))
    for name, anchor, pattern in read_table(__package__, TABLE, "patterns", ("sign", "anchor", "pattern"))
)
# What makes a mention of a sign, in its surroundings, and what leaves it in doubt; see request_grade.py.
MENTIONS: Final = tuple(
    (re.compile(fill_parts(shown), re.DOTALL), re.compile(fill_parts(doubt), re.DOTALL) if doubt != "-" else None)
    for _, shown, doubt in read_table(__package__, TABLE, "mentions", ("mention", "shown by", "in doubt if"))
)
