"""Where the signs of an attack stand in a request (request_signs.py, broad_request_signs.py).

A sign is a sequence of word classes, or a pattern for what is no words (markup, scripts without spaces):

1. The text is split into words and ends of sentences (`split_words`).
2. Each word is looked up: the entries of word classes that begin with it (`_entries_from`). It may have digits for
   letters (`1gn0r3`) or, if it is one of the few words that attacks need, a slip of the pen (`_spellings`).
3. Entries in the order of a sequence, with no more words between them than it allows, are its sign (`_follow_moves`).
4. A pattern is searched for only if its anchor is in the text. None has nested repetition.

So the cost is linear in the text, whatever the text says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

from lockgate.core.redaction.spans import lowercase_same_length
from lockgate.core.requests.broad_request_signs import BROAD_SIGNS
from lockgate.core.requests.request_signs import HINT, SIGNS, RequestSign
from lockgate.core.tables import read_sections
from lockgate.core.text.pattern_set import PatternSet
from lockgate.core.text.scanner import encode

# A text is looked at in pieces. No sign is longer than what two pieces share.
_PIECE: Final = 4000
_SHARED: Final = 600
# A piece with more words of signs than one in so many characters is dense.
_DENSE: Final = 20

WORD_CLASSES: Final = read_sections(__package__, "request_words.txt") | read_sections(
    __package__, "broad_request_words.txt"
)
ALL_SIGNS: Final = (*SIGNS, *BROAD_SIGNS)


class SignHit(NamedTuple):
    """Where a sign stands in a text, its points there, and whether they are beyond doubt."""

    sign: RequestSign
    start: int
    end: int
    points: int
    firm: bool = True

    @property
    def strength(self) -> tuple[int, bool, int]:
        """Of two signs with the same points, the one with more words is stronger."""
        return self.points, self.firm, self.end - self.start


def search_pieces(text: str) -> Iterator[tuple[list[SignHit], int]]:
    """Yield the signs of each piece of a comparable text, and its size if it took more than an ordinary one, else 0.

    A sign that stands where two pieces overlap comes twice.
    """
    make_ready()
    for at in range(0, len(text), _PIECE):
        piece = _without_i_have(text[at : at + _PIECE + _SHARED])
        words = [*split_words(piece), ""]
        moves, present = _find_moves(words)
        patterns = _patterns_of(_ANCHORS.find_in(piece))
        places = [(sign, *match.span()) for sign, pattern in patterns for match in pattern.finditer(piece)]
        # A broad pattern has its anchor in many ordinary texts, and takes time only where it matches.
        is_dear = bool(places) or any(not sign.is_broad for sign, _ in patterns) or len(moves) * _DENSE > len(piece)
        steps = _steps_of_whole_sequences(present)
        sequences = list(_follow_moves(moves, steps)) if steps else []
        # Hints count beside other signs only, and most pieces have nothing else.
        if sequences and (places or any(sign.points > HINT for sign, _, _ in sequences)):
            places += _places_of(sequences, words, piece)
        found = [SignHit(sign, at + start, at + end, sign.points) for sign, start, end in places]
        yield found, len(piece) if is_dear else 0


def make_ready() -> None:
    """Compile now, for a process that has time at its start and none with its first request."""
    _ANCHORS.make_ready()


# --- 1. words

# Letters with an accent to those without, where one letter stays one: Latin, Greek, and a few that have no parts.
_FOLDED: Final = {
    code: parts[0]
    for first, last in ((0xC0, 0x24F), (0x370, 0x3FF), (0x1E00, 0x1FFF))
    for code in range(first, last + 1)
    if len(parts := unicodedata.normalize("NFD", chr(code))) > 1
} | str.maketrans("łıđё", "lidе")
_FOLDED_AT_ONCE: Final = 50_000
# The end of a sentence among words; a text has none, as what is no letter and no digit is left out.
_END: Final = "\1"
# One by one: with a fixed first character each takes a fraction of the time.
_ENDS: Final = tuple((mark, re.compile(rf"{re.escape(mark)}(?=\s|$)")) for mark in ".!?。！？")
_LAST_KEPT: Final = 0xFFFF
_I_HAVE: Final = re.compile(r"\bj['\u2019]ai\b")


class _Separators(dict[int, int]):
    """Characters to themselves, or to a space if they stand between words; filled in as they come up."""

    def __missing__(self, code: int) -> int:
        kept = code if chr(code).isalnum() or code == ord(_END) else ord(" ")
        # The rarer ones are looked up each time: a client could send a million of them.
        if code <= _LAST_KEPT:
            self[code] = kept
        return kept


_SEPARATORS: Final = _Separators()


def comparable(text: str) -> str:
    """Return a text in lower case, without accents and without half surrogate pairs, which are never shown."""
    text = lowercase_same_length(text)
    if text.isascii():
        return text
    text = encode(text).decode("utf-8")
    # Piece by piece: translating a long text at once would hold up other threads.
    return "".join(text[at : at + _FOLDED_AT_ONCE].translate(_FOLDED) for at in range(0, len(text), _FOLDED_AT_ONCE))


def _without_i_have(text: str) -> str:
    """Return a text of the same length without the French "I have", which ends like the word for a model."""
    # Searching for three letters takes a hundredth of the time.
    return _I_HAVE.sub("j'ay", text) if "'ai" in text or "\u2019ai" in text else text


def split_words(text: str) -> list[str]:
    """Return the words of a text, with `_END` for the end of a sentence."""
    text = text.replace(_END, "-")
    for mark, ends in _ENDS:
        if mark in text:
            # No space yet: it would make an end of the mark before this one, as in `?!`.
            text = ends.sub(_END, text)
    return text.replace(_END, f" {_END} ").translate(_SEPARATORS).split()


# --- 2. the entries of word classes

# The gap before the first step of a sequence.
_FIRST: Final = -1
_WORDS_KEPT: Final = 8192
_MORE: Final = attrgetter("more")


# Shorter words are too often other words.
_SHORTEST_SPELLED: Final = 4
_LETTERS_FOR_DIGITS: Final = tuple(str.maketrans("0134578", f"o{one}eastb") for one in "il")
_LONG_WORD: Final = 11
_MISSPELT: Final = WORD_CLASSES["misspelt"]
_MISSPELT_FROM: Final = {word[0]: [other for other in _MISSPELT if other[0] == word[0]] for word in _MISSPELT}
_NOT_MISSPELT: Final = frozenset(WORD_CLASSES["not misspelt"])


class _Move(NamedTuple):
    """A step of a sequence, and how many words after its first one belong to it.

    Steps are numbered through all sequences, with one number left out after each. `gap` is how many words may stand
    before this one; the last step of a sequence has its sign.
    """

    step: int
    more: int
    gap: int
    sign: RequestSign | None


def _read_entries(
    signs: Iterable[RequestSign], classes: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, list[_Move]]]:
    """Return the moves of each entry, by its first word (with `*` if that may end in any way) and the words behind."""
    found: dict[str, dict[str, list[_Move]]] = {}
    step = 0
    for sign in signs:
        for sequence in sign.sequences:
            parts = re.split(r" (\d) ", sequence)
            names, gaps = parts[::2], [_FIRST, *map(int, parts[1::2])]
            # A language need not have every class.
            for place, name in enumerate(names if classes.keys() >= {*names} else ()):
                for entry in dict.fromkeys(classes[name]):
                    first, _, rest = comparable(entry).partition(" ")
                    move = _Move(step, entry.count(" "), gaps[place], sign if place == len(names) - 1 else None)
                    found.setdefault(first, {}).setdefault(rest, []).append(move)
                step += 1
            step += 1
    return found


_ENTRIES: Final = _read_entries(ALL_SIGNS, WORD_CLASSES)
# Entries whose word may end in any way, and the lengths of what their words begin with.
_STARRED: Final = re.compile("|".join(re.escape(entry[:-1]) for entry in _ENTRIES if entry.endswith("*")))
_STARRED_LENGTHS: Final = sorted({len(entry) - 1 for entry in _ENTRIES if entry.endswith("*")})


# Plain tuples, for speed: a request has a hundred of them.
# The steps of moves that begin at one word, as the bits of a number, and the moves of each step.
_Moves = tuple[int, dict[int, list[_Move]]]
# The moves of a word alone, and the entries of several words that begin with it, by their second word.
_Begun = tuple[_Moves, dict[str, list[tuple[list[str], _Moves]]]]


def _entries_from(word: str) -> _Begun | None:
    """Return what begins with a word, or None."""
    alone: list[_Move] = []
    longer: dict[str, list[tuple[list[str], _Moves]]] = {}
    for spelled in _spellings(word):
        for key in (spelled, *_starred_beginnings(spelled)):
            for rest, moves in _ENTRIES.get(key, {}).items():
                if rest:
                    longer.setdefault(rest.split()[0], []).append((rest.split(), _in_order(moves)))
                else:
                    alone.extend(moves)
        if alone or longer:
            break
    return (_in_order(alone), longer) if alone or longer or word == _END else None


def _starred_beginnings(word: str) -> list[str]:
    """Return the keys of entries that a word may begin with: for most words none, and that takes no time."""
    if _STARRED.match(word) is None:
        return []
    return [f"{word[:size]}*" for size in _STARRED_LENGTHS if size <= len(word)]


class _KnownWords(dict[str, _Begun | None]):
    """What begins with each word, filled in as words come up: a look takes half as long as with an `lru_cache`."""

    def __missing__(self, word: str) -> _Begun | None:
        if len(self) >= _WORDS_KEPT:
            self.clear()
        self[word] = found = _entries_from(word)
        return found


_KNOWN_WORDS: Final = _KnownWords()


def _join_moves(one: _Moves, other: _Moves) -> _Moves:
    if one[0] & other[0]:
        return _in_order(chain(*one[1].values(), *other[1].values()))
    return one[0] | other[0], one[1] | other[1]


def _in_order(moves: Iterable[_Move]) -> _Moves:
    by_step: dict[int, list[_Move]] = {}
    for move in sorted(moves, key=_MORE, reverse=True):
        by_step.setdefault(move.step, []).append(move)
    return sum(1 << step for step in by_step), by_step


def _spellings(word: str) -> Iterator[str]:
    """Yield a word as it is, with letters for the digits in it, and as one of the few words that attacks need."""
    yield word
    if not word.isascii() or len(word) < _SHORTEST_SPELLED:
        return
    if not word.isalpha() and not word.isdigit():
        # `1` is an i or an l.
        yield from (word.translate(digits) for digits in _LETTERS_FOR_DIGITS)
    elif word not in _NOT_MISSPELT:
        yield from (meant for meant in _MISSPELT_FROM.get(word[0], ()) if _is_misspelt(word, meant))


def _is_misspelt(word: str, meant: str) -> bool:
    """Return whether a word is another one with a slip or, if that is long, with two; `ignored` is no slip."""
    most = 1 if len(meant) < _LONG_WORD else 2
    if word[0] != meant[0] or abs(len(word) - len(meant)) > most or word.startswith(meant):
        return False
    # Each slip takes away one letter and adds one at most.
    if len({*word} ^ {*meant}) > 2 * most:
        return False
    # The optimal string alignment: letters left out, added, replaced, or swapped with the next one.
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for at, letter in enumerate(word, 1):
        last, before, row = before, row, [at]
        for place, other in enumerate(meant, 1):
            cost = min(row[-1] + 1, before[place] + 1, before[place - 1] + (letter != other))
            if at > 1 and place > 1 and letter == meant[place - 2] and word[at - 2] == other:
                cost = min(cost, last[place - 2] + 1)
            row.append(cost)
    return row[-1] <= most


def _find_moves(words: list[str]) -> tuple[list[tuple[int, _Moves]], int]:
    """Return the moves that words make, each with the number of its word, and all their steps.

    The words end with an empty one. The end of a sentence is listed too, without moves.
    """
    found: list[tuple[int, _Moves]] = []
    present = 0
    for at, begun in enumerate(map(_KNOWN_WORDS.__getitem__, words)):
        if begun is None:
            continue
        made, longer = begun
        if longer and words[at + 1] in longer:
            for rest, more in longer[words[at + 1]]:
                if words[at + 1 : at + 1 + len(rest)] == rest:
                    made = _join_moves(made, more)
        # Only the end of a sentence begins nothing and is known.
        if made[0] or not longer:
            present |= made[0]
            found.append((at, made))
    return found, present


# --- 3. sequences

# A sequence ends with its sentence, unless the sentence is too short to be one: `Ignore. All. Previous.`
_SHORTEST_SENTENCE: Final = 3


_SEQUENCES: Final = [
    *zip(
        *(
            sorted({move.step for rests in _ENTRIES.values() for moves in rests.values() for move in moves if of(move)})
            for of in (lambda move: move.gap == _FIRST, lambda move: move.sign is not None)
        ),
        strict=True,
    )
]
_FIRST_STEPS: Final = sum(1 << first for first, _ in _SEQUENCES)
# The steps of a whole sequence, by the bit behind its last one.
_STEPS_BEFORE: Final = {2 << last: (2 << last) - (1 << first) for first, last in _SEQUENCES}
_BEHIND: Final = sum(_STEPS_BEFORE)


def _steps_of_whole_sequences(present: int) -> int:
    """Return the steps of the sequences of which every step is present: few, in nearly every text."""
    # The steps of a sequence are bits in a row: only if all are set does adding the first one carry over its end.
    ended = (present + _FIRST_STEPS) & _BEHIND
    steps = 0
    while ended:
        lowest = ended & -ended
        ended ^= lowest
        steps |= _STEPS_BEFORE[lowest]
    return steps


def _follow_moves(moves_by_word: Sequence[tuple[int, _Moves]], steps: int) -> Iterator[tuple[RequestSign, int, int]]:
    """Yield the signs of word classes with these steps, and the numbers of their first and last word."""
    # Of each step: where its sequence began, and its last word.
    state: dict[int, tuple[int, int]] = {}
    began = 0
    for at, (made, by_step) in moves_by_word:
        if not made:
            if at - began >= _SHORTEST_SENTENCE:
                state.clear()
            began = at + 1
        left = made & steps
        while left:
            # Later steps come first, so that no word is two steps of one sequence.
            step = left.bit_length() - 1
            left ^= 1 << step
            for _, more, gap, sign in by_step[step]:
                start = at
                if gap != _FIRST:
                    before = state.get(step - 1)
                    if before is None or not 0 <= at - before[1] - 1 <= gap:
                        continue
                    start = before[0]
                if sign is None:
                    state[step] = start, at + more
                    continue
                yield sign, start, at + more


def _places_of(
    sequences: Sequence[tuple[RequestSign, int, int]], words: list[str], text: str
) -> list[tuple[RequestSign, int, int]]:
    """Return the sequences with the places of their words in the text, instead of the numbers."""
    spans: list[tuple[int, int]] = []
    at = 0
    for word in words[: 1 + max(last for _, _, last in sequences)]:
        # Only separators stand between two words, so the next place with its letters is the word's own.
        start = at if word == _END else text.index(word, at)
        at = start if word == _END else start + len(word)
        spans.append((start, at))
    return [(sign, spans[first][0], spans[last][1]) for sign, first, last in sequences]


# --- 4. patterns

_PATTERNS: Final = {sign.name: (sign, re.compile(sign.pattern)) for sign in ALL_SIGNS if sign.pattern}


def _patterns_of(anchored: frozenset[str]) -> list[tuple[RequestSign, re.Pattern[str]]]:
    """Return the patterns whose anchors were found, in the order of the signs; most texts have no anchor."""
    return [pattern for name, pattern in _PATTERNS.items() if name in anchored] if anchored else []


# --- codes of letters

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
    {name: sign.anchor for name, (sign, _) in _PATTERNS.items()}
    | {name: "|".join(decode(word) for word in _MISSPELT) for name, decode in _CODES.items()},
)


def decode_letters(text: str) -> list[str]:
    """Return a comparable text in the codes that it may be in: rot13, backwards, or with each word backwards."""
    return [_CODES[name](text) for name in sorted(_CODES.keys() & _ANCHORS.find_in(text))]
