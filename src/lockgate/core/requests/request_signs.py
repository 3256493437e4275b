"""Signs of an attack in a *request*: a text that a client sends to an application which has a prompt of its own.

A client may say `new task` or `forget`, which are out of place in a text that an agent reads. So no sign is a verdict:
each has a family and a weight, and request_grade.py adds them up. `SIGN` alone makes a request suspicious, `HALF` needs
another half, `HINT` only makes a suspicion firmer. The cost is linear in the text, whatever it says.

1. Each word is looked up in the word classes (`_meaning_of`). It may have digits for letters (`1gn0r3`) or, if it is
   one of the few words that attacks need, a slip of the pen.
2. Classes in the order of a sequence, with no more words between them than it allows, are its sign. Most texts lack a
   class of every sequence.
3. A pattern is searched for only if its anchor is in the text. None has nested repetition.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from itertools import compress
from operator import or_
from typing import Final, NamedTuple, cast

from lockgate.core.redaction.spans import lowercase_same_length
from lockgate.core.tables import read_table
from lockgate.core.text.scanner import PatternSet, encode

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


WORD_CLASSES: Final[dict[str, tuple[str, ...]]] = {}
for _name, _words_of_row in read_table(__package__, TABLE, "words", ("class", "words")):
    WORD_CLASSES[_name] = (*WORD_CLASSES.get(_name, ()), *_words_of_row.split(", "))
_PARTS: Final = {row[0]: row[1] for row in read_table(__package__, TABLE, "parts", ("name", "pattern"))}


def fill_parts(pattern: str) -> str:
    """Return a pattern of the table with the parts and the word classes that it names."""
    any_word = {
        name: f"(?:{'|'.join(word for word in words if '*' not in word)})" for name, words in WORD_CLASSES.items()
    }
    return _PART.sub(lambda part: fill_parts(_PARTS.get(part[1]) or any_word[part[1]]), pattern)


def _read_sequences(row: tuple[str, ...]) -> list[WordSequence]:
    written = [re.split(r" (\d) ", text) for text in row[3].split("; ") if row[3] != "-"]
    return [WordSequence(_BY_NAME[row[0]], tuple(parts[::2]), (0, *map(int, parts[1::2]))) for parts in written]


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

# What an operator's prompt forbids or foresees.
GUARDS: Final = {
    name: re.compile(fill_parts(pattern))
    for name, pattern in read_table(__package__, TABLE, "guards", ("guard", "pattern"))
}

# --- the search

# A text is looked at in pieces. No sign is longer than what two pieces share.
_PIECE: Final = 4000
_SHARED: Final = 600


class SignHit(NamedTuple):
    """Where a sign is in a text, its points there, and whether they are beyond doubt."""

    sign: RequestSign
    start: int
    end: int
    points: int
    firm: bool = True

    @property
    def strength(self) -> tuple[int, bool, int]:
        """Of two signs with the same points, the one with more words is stronger."""
        return self.points, self.firm, self.end - self.start


def search_pieces(text: str) -> Iterator[list[SignHit]]:
    """Yield the signs of each piece of a comparable text; one that stands where two pieces overlap comes twice."""
    make_ready()
    for at in range(0, len(text), _PIECE):
        piece = _I_HAVE.sub("j'ay", text[at : at + _PIECE + _SHARED])
        patterns = [_NUMBERED[name] for name in sorted(_NUMBERED.keys() & _ANCHORS.find_in(piece))]
        places = [(found.sign, *match.span()) for found in patterns for match in found.pattern.finditer(piece)]
        places += _places_of_sequences(piece)
        # What speaks to a model may be part of a document that the client does not know.
        yield [
            SignHit(sign, at + start, at + end, sign.points, firm=sign.family != "machine")
            for sign, start, end in places
        ]


def _places_of_sequences(text: str) -> list[tuple[RequestSign, int, int]]:
    words = [*split_words(text), ""]
    sequences = _sequences_with_all_classes(entries := _find_entries(words))
    classes = _places_of_classes(entries, words, sequences) if sequences else {}
    matches = [(sequence.sign, *span) for sequence in sequences for span in _follow(sequence, classes)]
    return _with_places_in_text(matches, words, text) if matches else []


# --- words

# Letters with an accent to those without, where one letter stays one: Latin, Greek, and a few that have no parts.
_FOLDED: Final = {
    code: parts[0]
    for first, last in ((0xC0, 0x24F), (0x370, 0x3FF), (0x1E00, 0x1FFF))
    for code in range(first, last + 1)
    if len(parts := unicodedata.normalize("NFD", chr(code))) > 1
} | str.maketrans("łıđё", "lidе")
_FOLDED_AT_ONCE: Final = 50_000
# Characters that no comparable text has: they mark the surroundings of a sign, and the first the end of a sentence.
MARKS: Final = "\1\2\3\4"
_END: Final = MARKS[0]
_SENTENCE_END: Final = re.compile(r"[.!?。！？](?=\s|$)")
_LAST_KEPT: Final = 0xFFFF
# The French "I have" ends like the word for a model.
_I_HAVE: Final = re.compile(r"j['\u2019]ai\b")


class _Separators(dict[int, int]):
    """Characters to themselves, or to a space if they stand between words; filled in as they come up."""

    def __missing__(self, code: int) -> int:
        # The vowels of Indian scripts are marks between letters.
        is_vowel = 0x900 <= code < 0xE00 and unicodedata.category(chr(code))[0] == "M"
        kept = code if chr(code).isalnum() or code == ord(_END) or is_vowel else ord(" ")
        # The rarer ones are looked up each time: a client could send a million of them.
        if code <= _LAST_KEPT:
            self[code] = kept
        return kept


_SEPARATORS: Final = _Separators()
_ASCII_SEPARATORS: Final = bytes(_SEPARATORS[code] for code in range(128)).ljust(256)


def comparable(text: str) -> str:
    """Return a text in lower case, without accents, marks, and half surrogate pairs, which are never shown."""
    text = lowercase_same_length(text)
    for mark in MARKS:
        text = text.replace(mark, " ")
    if text.isascii():
        return text
    text = encode(text).decode("utf-8")
    # Piece by piece: translating a long text at once would hold up other threads.
    return "".join(text[at : at + _FOLDED_AT_ONCE].translate(_FOLDED) for at in range(0, len(text), _FOLDED_AT_ONCE))


def split_words(text: str) -> list[str]:
    """Return the words of a text, with `_END` for the end of a sentence."""
    text = _SENTENCE_END.sub(f" {_END} ", text.replace(_END, "-"))
    if text.isascii():
        # In bytes this takes a tenth of the time.
        return text.encode("ascii").translate(_ASCII_SEPARATORS).decode("ascii").split()
    return text.translate(_SEPARATORS).split()


# --- the entries of word classes

# Shorter words are too often other words.
_SHORTEST_SPELLED: Final = 4
_LETTERS_FOR_DIGITS: Final = tuple(str.maketrans("0134578", f"o{one}eastb") for one in "il")
_LONG_WORD: Final = 11
_WORDS_KEPT: Final = 8192

_NUMBERS: Final = {name: number for number, name in enumerate(WORD_CLASSES)}
_NAMES: Final = {name for sequence in SEQUENCES for name in sequence.classes}
_LISTED: Final = {name: [tuple(comparable(entry).split()) for entry in WORD_CLASSES[name]] for name in _NAMES}
_COUNTS: Final = Counter(word for entries in _LISTED.values() for words in entries for word in words)
# Of each entry its classes as the bits of a number, by all its words, and by its first or its last one (with `*` if
# that may end in any way): by the rarer of the two, because `the` or `you` would cost time in every sentence.
_ENTRIES: Final[dict[str, dict[tuple[str, ...], int]]] = {}
for _name, _listed in _LISTED.items():
    for _words in _listed:
        _entries = _ENTRIES.setdefault(
            min(_words[0], _words[-1], key=lambda word: (len(word) < 4, _COUNTS[word] / len(word))), {}
        )
        _entries[_words] = _entries.get(_words, 0) | 1 << _NUMBERS[_name]
_STARRED_LENGTHS: Final = sorted({len(entry) - 1 for entry in _ENTRIES if entry.endswith("*")})

# The classes of a word alone; and longer entries that begin or end with it, by the word beside it in them: where it
# stands in the entry, all its words, and its classes.
_Meaning = tuple[int, dict[str, list[tuple[int, list[str], int]]]]


def _meaning_of(word: str) -> _Meaning | None:
    """Return the entries that a word is part of, or None."""
    alone = 0
    longer: dict[str, list[tuple[int, list[str], int]]] = {}
    for spelled in _spellings(word):
        for key in (spelled, *_starred_beginnings(spelled)):
            for listed, classes in _ENTRIES.get(key, {}).items():
                if len(listed) == 1:
                    alone |= classes
                elif listed[0] == key:
                    longer.setdefault(listed[1], []).append((0, [word, *listed[1:]], classes))
                else:
                    longer.setdefault(listed[-2], []).append((len(listed) - 1, [*listed[:-1], word], classes))
        if alone or longer:
            return alone, longer
    return None


def _starred_beginnings(word: str) -> list[str]:
    """Return the entries that a word may begin with."""
    beginnings = (f"{word[:size]}*" for size in _STARRED_LENGTHS if size <= len(word))
    return [beginning for beginning in beginnings if beginning in _ENTRIES]


class _KnownWords(dict[str, _Meaning | None]):
    """The meaning of each word, filled in as words come up: twice as fast as an `lru_cache`."""

    def __missing__(self, word: str) -> _Meaning | None:
        if len(self) >= _WORDS_KEPT:
            self.clear()
        self[word] = meaning = _meaning_of(word)
        return meaning


_KNOWN_WORDS: Final = _KnownWords()


def _spellings(word: str) -> Iterator[str]:
    """Yield a word as it is, with letters for the digits in it, and as one of the few words that attacks need."""
    yield word
    if not word.isascii() or len(word) < _SHORTEST_SPELLED:
        return
    if not word.isalpha() and not word.isdigit():
        # `1` is an i or an l.
        yield from (word.translate(digits) for digits in _LETTERS_FOR_DIGITS)
    elif word not in WORD_CLASSES["not misspelt"]:
        yield from (meant for meant in WORD_CLASSES["misspelt"] if _is_misspelt(word, meant))


def _is_misspelt(word: str, meant: str) -> bool:
    """Return whether a word is another one with a slip or, if that is long, with two; `ignored` is no slip."""
    slips = 1 if len(meant) < _LONG_WORD else 2
    # Each slip takes away one letter and adds one at most.
    is_near = word[0] == meant[0] and len({*word} ^ {*meant}) <= 2 * slips
    return is_near and not word.startswith(meant) and _is_within(word, meant, slips)


def _is_within(word: str, meant: str, slips: int) -> bool:
    """Return whether so many letters left out, added, replaced, or swapped with the next one make a word another."""
    if not word or not meant or slips == 0 or abs(len(word) - len(meant)) > slips:
        return word == meant or max(len(word), len(meant)) <= slips
    if word[0] == meant[0]:
        return _is_within(word[1:], meant[1:], slips)
    pairs = [(word[1:], meant), (word, meant[1:]), (word[1:], meant[1:])]
    if word[:2] == meant[1::-1]:
        pairs.append((word[2:], meant[2:]))
    return any(_is_within(*pair, slips - 1) for pair in pairs)


# --- sequences

# A sequence ends with its sentence, unless the sentence is too short to be one: `Ignore. All. Previous.`
_SHORTEST_SENTENCE: Final = 3
# Added to the numbers of the words after the end of a sentence: no gap is so large, and no piece has so many words.
_APART: Final = 1 << 16
# Each sequence with its classes as the bits of a number.
_NEEDED: Final = [(sequence, sum({1 << _NUMBERS[name] for name in sequence.classes})) for sequence in SEQUENCES]

# The first and the last word of an entry, and its classes as the bits of a number.
_Entry = tuple[int, int, int]
# The first and the last word of the entries of each class.
_Places = dict[str, list[tuple[int, int]]]


def _find_entries(words: list[str]) -> list[_Entry]:
    """Return the entries of word classes that stand among words, which end with an empty one."""
    entries: list[_Entry] = []
    meanings = list(map(_KNOWN_WORDS.__getitem__, words))
    # Most words have no meaning here; passing over those in Python took half of the time.
    for at in compress(range(len(words) - 1), meanings):
        alone, longer = cast("_Meaning", meanings[at])
        if alone:
            entries.append((at, at, alone))
        for word in (words[at + 1], words[at - 1]) if longer else ():
            for before, listed, classes in longer.get(word, ()):
                first = at - before
                if first >= 0 and words[first : first + len(listed)] == listed:
                    entries.append((first, first + len(listed) - 1, classes))
    return entries


def _sequences_with_all_classes(entries: list[_Entry]) -> list[WordSequence]:
    """Return the sequences of which every class has an entry: few, in nearly every text."""
    present = reduce(or_, (classes for _, _, classes in entries), 0)
    return [sequence for sequence, needed in _NEEDED if needed & present == needed]


def _places_of_classes(entries: list[_Entry], words: list[str], sequences: list[WordSequence]) -> _Places:
    """Return the places of the classes of sequences, in numbers that are far apart if a sentence ends between them."""
    places: _Places = {name: [] for sequence in sequences for name in sequence.classes}
    bits = sum(1 << _NUMBERS[name] for name in places)
    ends = [at for at, word in enumerate(words) if word == _END]
    # Of each end of a sentence that is long enough to be one.
    borders = [end for before, end in zip([-1, *ends], ends, strict=False) if end - before > _SHORTEST_SENTENCE]
    for first, last, classes in entries:
        if classes & bits:
            sentence = _APART * bisect(borders, first)
            for name in _names_of(classes & bits):
                places[name].append((sentence + first, sentence + last))
    return places


@lru_cache(_WORDS_KEPT)
def _names_of(classes: int) -> tuple[str, ...]:
    return tuple(name for name, number in _NUMBERS.items() if classes >> number & 1)


def _follow(sequence: WordSequence, places: _Places) -> list[tuple[int, int]]:
    """Return the numbers of the first and last word of each place where a sequence stands."""
    ends: dict[int, int] = {}
    for step, (name, gap) in enumerate(zip(sequence.classes, sequence.gaps, strict=True)):
        following: dict[int, int] = {}
        for first, last in places[name]:
            if step == 0:
                following.setdefault(last, first)
                continue
            before = next((end for end in range(first - 1, first - 2 - gap, -1) if end in ends), None)
            if before is not None:
                following.setdefault(last, ends[before])
        ends = following
    return [(first % _APART, last % _APART) for last, first in ends.items()]


def _with_places_in_text(
    matches: list[tuple[RequestSign, int, int]], words: list[str], text: str
) -> list[tuple[RequestSign, int, int]]:
    """Return the matches with the places of their words in the text, instead of the numbers."""
    spans: list[tuple[int, int]] = []
    at = 0
    for word in words[: 1 + max(last for _, _, last in matches)]:
        # Only separators are between two words, so the next place with its letters is the word's own.
        start = at if word == _END else text.index(word, at)
        at = start if word == _END else start + len(word)
        spans.append((start, at))
    return [(sign, spans[first][0], spans[last][1]) for sign, first, last in matches]


# --- patterns, and codes of letters

_NUMBERED: Final = {f"pattern {number:03}": pattern for number, pattern in enumerate(PATTERNS)}
_ROT13: Final = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)
_CODES: Final[Mapping[str, Callable[[str], str]]] = {
    "rot13": lambda text: text.translate(_ROT13),
    "reversed": lambda text: text[::-1],
    "reversed words": lambda text: re.sub(r"\w+", lambda word: word[0][::-1], text),
}
# The anchors of patterns, and the words that attacks need in each code: no other text has one of those. In one set: the
# engine takes a third of the time for all of them that it takes for the few words alone.
_ANCHORS: Final = PatternSet(
    (),
    {name: pattern.anchor for name, pattern in _NUMBERED.items()}
    | {name: "|".join(decode(word) for word in WORD_CLASSES["misspelt"]) for name, decode in _CODES.items()},
)


def make_ready() -> None:
    """Compile now, for a process that has time at its start and none with its first request."""
    _ANCHORS.make_ready()


def decode_letters(text: str) -> list[str]:
    """Return a comparable text in the codes that it may be in: rot13, backwards, or with each word backwards."""
    return [_CODES[name](text) for name in sorted(_CODES.keys() & _ANCHORS.find_in(text))]
