"""The signs of an attack in a *request*: what a client sends to an application with a prompt of its own; and their sum.

A client may say `new task` or `forget`, which are out of place in a text that an agent reads. So no sign is a verdict:
each has a family and a weight. `SIGN` alone makes a request suspicious, `HALF` needs another half, `HINT` only makes a
suspicion firmer. The cost is linear in the text, whatever it says.

1. Find the signs. A word may have digits for letters (`1gn0r3`) or, if it is one that attacks need, a slip of the pen.
   Word classes in the order of a sequence are its sign. A pattern is searched for only if its anchor is in the text.
2. Weigh each where it stands. A *mention* counts half: a sign that is quoted, forbidden, talked about, or about
   something else than the application (`MENTIONS`). With an order beside it, it is *in doubt*: nothing makes it sure.
3. Keep the strongest sign of each family in each stretch, so that decoys do not hide an attack.
4. Leave out signs made of the words of another one: they do not support it.
5. Add up signs of different families that stand close together, and closer still if another message of a chat begins
   between them. A full sign, or two halves, are a suspicion. A full sign beyond doubt with anything beside it is sure.
   Broad signs count towards a suspicion only, and only in the client's own words.
6. Grade the other readings likewise. Signs that stand only there were hidden, which makes them sure; those in rot13 or
   backwards, which puzzles are too, count as they are.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, islice
from typing import Final, NamedTuple

from lockgate.core.redaction.secrets import lowercase_same_length
from lockgate.core.tables import read_table
from lockgate.core.text.readings import SLICE
from lockgate.core.text.scanner import PatternSet, Scan, encode

SIGN, HALF, HINT = 4, 2, 1
SUSPECTED, SURE = 4, 5
# Signs farther apart than so many characters do not support each other.
NEAR: Final = 1000
# The same for signs in two messages of a chat. The parts of an order that is split over messages stand closer than
# this; two ordinary questions with a word of a sign each do not make an attack.
NEAR_ACROSS: Final = 100
# A text with more signs than these repeats them to hide one: it is suspicious.
MAX_HITS: Final = 512
# So many signs are looked at. More are suspicious.
MAX_WEIGHED: Final = 10_000
# Of each family, only the strongest sign within so many characters counts.
_STRETCH: Final = 200

Span = tuple[int, int]
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


_ANY_WORD: Final = {
    name: f"(?:{'|'.join(word for word in words if '*' not in word)})" for name, words in WORD_CLASSES.items()
}


def fill_parts(pattern: str) -> str:
    """Return a pattern of the table with the parts and the word classes that it names."""
    return _PART.sub(lambda part: fill_parts(_PARTS.get(part[1]) or _ANY_WORD[part[1]]), pattern)


_ROWS: Final = read_table(__package__, TABLE, "signs", COLUMNS)
SIGNS: Final = tuple(
    RequestSign(name, _POINTS[weight.removeprefix("broad ")], what, weight.startswith("broad "))
    for name, weight, what, _ in _ROWS
)
_BY_NAME: Final = {sign.name: sign for sign in SIGNS}
SEQUENCES: Final = tuple(
    WordSequence(_BY_NAME[name], tuple(parts[::2]), (0, *map(int, parts[1::2])))
    for name, _, _, written in _ROWS
    for parts in (re.split(r" (\d) ", text) for text in written.split("; ") if text != "-")
)
PATTERNS: Final = tuple(
    SignPattern(_BY_NAME[name], fill_parts(anchor), re.compile(fill_parts(pattern)))
    for name, anchor, pattern in read_table(__package__, TABLE, "patterns", ("sign", "anchor", "pattern"))
)
# What makes a mention of a sign, in its surroundings, and what leaves it in doubt; see `_weigh`.
MENTIONS: Final = tuple(
    (re.compile(fill_parts(shown), re.DOTALL), re.compile(fill_parts(doubt), re.DOTALL) if doubt != "-" else None)
    for _, shown, doubt in read_table(__package__, TABLE, "mentions", ("mention", "shown by", "in doubt if"))
)

# What the steps below look for around a sign.
SHAPES: Final = {
    name: re.compile(fill_parts(pattern))
    for name, pattern in read_table(__package__, TABLE, "shapes", ("shape", "pattern"))
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
        piece = SHAPES["i have"].sub("j'ay", text[at : at + _PIECE + _SHARED])
        patterns = [_NUMBERED[name] for name in sorted(_NUMBERED.keys() & _ANCHORS.find_in(piece))]
        places = [(found.sign, *match.span()) for found in patterns for match in found.pattern.finditer(piece)]
        words = [*split_words(piece), ""]
        classes = _places_of_classes(words)
        present = (sequence for sequence in SEQUENCES if all(name in classes for name in sequence.classes))
        matches = [(sequence.sign, *span) for sequence in present for span in _follow(sequence, classes)]
        spans = _spans_of_words(words[: 1 + max(last for *_, last in matches)], piece) if matches else []
        places += [(sign, spans[first][0], spans[last][1]) for sign, first, last in matches]
        # What speaks to a model may be part of a document that the client does not know.
        yield [
            SignHit(sign, at + start, at + end, sign.points, firm=sign.family != "machine")
            for sign, start, end in places
        ]


# --- words

# Letters with an accent to those without, where one letter stays one: Latin, Greek, and a few that have no parts.
_FOLDED: Final = {
    code: parts[0]
    for first, last in ((0xC0, 0x24F), (0x370, 0x3FF), (0x1E00, 0x1FFF))
    for code in range(first, last + 1)
    if len(parts := unicodedata.normalize("NFD", chr(code))) > 1
} | str.maketrans("łıđё", "lidе")
# Characters that no comparable text has: they mark the surroundings of a sign, and the first the end of a sentence.
MARKS: Final = "\1\2\3\4"
_END: Final = MARKS[0]


# The vowels of Indian scripts are marks between letters.
_VOWELS: Final = "".join(ch for ch in map(chr, range(0x900, 0xE00)) if unicodedata.category(ch)[0] == "M")
_WORD: Final = re.compile(f"[^\\W_]+(?:[{_VOWELS}]+[^\\W_]*)*|[{_VOWELS}]+[^\\W_{_VOWELS}]*|{_END}")
_ASCII_SEPARATORS: Final = bytes(code if chr(code).isalnum() or code == 1 else 32 for code in range(128)).ljust(256)


def comparable(text: str) -> str:
    """Return a text in lower case, without accents, marks, and half surrogate pairs, which are never shown."""
    text = lowercase_same_length(text)
    for mark in MARKS:
        text = text.replace(mark, " ")
    if text.isascii():
        return text
    text = encode(text).decode("utf-8")
    # Piece by piece: translating a long text at once would hold up other threads.
    return "".join(text[at : at + SLICE].translate(_FOLDED) for at in range(0, len(text), SLICE))


def split_words(text: str) -> list[str]:
    """Return the words of a text, with `_END` for the end of a sentence."""
    text = SHAPES["end of a sentence"].sub(f" {_END} ", text.replace(_END, "-"))
    if text.isascii():
        # In bytes this takes a tenth of the time.
        return text.encode("ascii").translate(_ASCII_SEPARATORS).decode("ascii").split()
    return _WORD.findall(text)


# --- the entries of word classes

# Shorter words are too often other words.
_SHORTEST_SPELLED: Final = 4
_LETTERS_FOR_DIGITS: Final = tuple(str.maketrans("0134578", f"o{one}eastb") for one in "il")
_LONG_WORD: Final = 11
_WORDS_KEPT: Final = 8192

# The classes of each entry of one word, which may end in any way if it ends with `*`. Of the longer ones the classes by
# their first word and the second one, with all words behind the first.
_SINGLE: Final[dict[str, list[str]]] = {}
_LONGER: Final[dict[str, dict[str, list[tuple[list[str], str]]]]] = {}
for _name in {name for sequence in SEQUENCES for name in sequence.classes}:
    for _first, *_rest in (comparable(entry).split() for entry in WORD_CLASSES[_name]):
        if _rest:
            _LONGER.setdefault(_first, {}).setdefault(_rest[0], []).append((_rest, _name))
        else:
            _SINGLE.setdefault(_first, []).append(_name)
_STARRED_LENGTHS: Final = sorted({len(entry) - 1 for entry in _SINGLE if entry.endswith("*")})

# The classes of a word alone, and the longer entries that begin with it.
_Meaning = tuple[list[str], dict[str, list[tuple[list[str], str]]]]


class _KnownWords(dict[str, _Meaning | None]):
    """The entries that each word begins, filled in as words come up: twice as fast as an `lru_cache`."""

    def __missing__(self, word: str) -> _Meaning | None:
        if len(self) >= _WORDS_KEPT:
            self.clear()
        meanings = (
            ([name for key in _keys_of(spelled) for name in _SINGLE.get(key, ())], _LONGER.get(spelled, {}))
            for spelled in _spellings(word)
        )
        self[word] = meaning = next((meaning for meaning in meanings if any(meaning)), None)
        return meaning


_KNOWN_WORDS: Final = _KnownWords()


def _keys_of(word: str) -> Iterator[str]:
    """Yield a word, and the entries that it may begin with."""
    yield word
    yield from (f"{word[:size]}*" for size in _STARRED_LENGTHS if size <= len(word))


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
    is_near = word[0] == meant[0] and len({*word} ^ {*meant}) <= 2 * slips and abs(len(word) - len(meant)) <= slips
    return is_near and not word.startswith(meant) and not _shortened(word, slips).isdisjoint(_shortened(meant, slips))


@lru_cache(256)
def _shortened(word: str, slips: int) -> frozenset[str]:
    """Return a word without so many of its letters, or fewer: of a word with slips one of these is the same."""
    shorter = {word}
    for _ in range(slips):
        shorter |= {left[:at] + left[at + 1 :] for left in shorter for at in range(len(left))}
    return frozenset(shorter)


# --- sequences

# A sequence ends with its sentence, unless the sentence is too short to be one: `Ignore. All. Previous.`
_SHORTEST_SENTENCE: Final = 3
# Added to the numbers of the words after the end of a sentence: no gap is so large, and no piece has so many words.
_APART: Final = 1 << 16

# The first and the last word of the entries of each class.
_Places = Mapping[str, list[tuple[int, int]]]


def _places_of_classes(words: list[str]) -> _Places:
    """Return the places of the classes among words, which end with an empty one.

    The numbers of two words are far apart if a sentence ends between them.
    """
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    ends = [at for at, word in enumerate(words) if word == _END]
    # Of each end of a sentence that is long enough to be one.
    borders = [end for before, end in zip([-1, *ends], ends, strict=False) if end - before > _SHORTEST_SENTENCE]
    meanings = list(map(_KNOWN_WORDS.__getitem__, words))
    # Most words have no meaning here; passing over those in Python took half of the time.
    for at, meaning in compress(enumerate(meanings), meanings):
        number = at + _APART * bisect(borders, at)
        for name in meaning[0] if meaning else ():
            places[name].append((number, number))
        for rest, name in meaning[1].get(words[at + 1], ()) if meaning else ():
            if words[at + 1 : at + 1 + len(rest)] == rest:
                places[name].append((number, number + len(rest)))
    return places


def _follow(sequence: WordSequence, places: _Places) -> list[tuple[int, int]]:
    """Return the numbers of the first and last word of each place where a sequence stands."""
    ends: dict[int, int] = {}
    for first, last in places[sequence.classes[0]]:
        ends.setdefault(last, first)
    for name, gap in zip(sequence.classes[1:], sequence.gaps[1:], strict=True):
        following: dict[int, int] = {}
        for first, last in places[name]:
            before = next((end for end in range(first - 1, first - 2 - gap, -1) if end in ends), None)
            if before is not None:
                following.setdefault(last, ends[before])
        ends = following
    return [(first % _APART, last % _APART) for last, first in ends.items()]


def _spans_of_words(words: list[str], text: str) -> list[Span]:
    """Return the places of words in their text."""
    spans: list[Span] = []
    at = 0
    for word in words:
        # Only separators are between two words, so the next place with its letters is the word's own.
        start = at if word == _END else text.index(word, at)
        at = start if word == _END else start + len(word)
        spans.append((start, at))
    return spans


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


# Compiles now, for a process that has time at its start and none with its first request.
make_ready = _ANCHORS.make_ready


def decode_letters(text: str) -> list[str]:
    """Return a comparable text in the codes that it may be in: rot13, backwards, or with each word backwards."""
    return [_CODES[name](text) for name in sorted(_CODES.keys() & _ANCHORS.find_in(text))]


# --- the grade


class Grade(NamedTuple):
    """What the signs say: nothing, suspected or sure; their names, and where they stand in the text."""

    sure: bool = False
    suspected: bool = False
    rules: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()


class TextGrade(NamedTuple):
    """The points of a text's strongest stretch, its signs, whether they are sure, and points without broad signs."""

    points: int
    hits: list[SignHit]
    sure: bool
    narrow: int

    @property
    def kinds(self) -> set[tuple[str, bool, int]]:
        """The families of its signs with their weights: half a sign in plain sight is no cover for a hidden one."""
        return {(hit.sign.family, hit.sign.is_broad, hit.sign.points) for hit in self.hits}


# --- 2. weigh

# A sign is weighed in its surroundings: its family, the sentence before it, its words, and what follows, with marks
# between them. The ends of clauses before it are marked as well. The table has the mentions in these terms.
_SENTENCE, _WORDS, _AFTER, _CLAUSE = MARKS


def _weigh(hit: SignHit, text: str) -> SignHit:
    """Return a sign with its points where it stands in a text without marks."""
    if hit.sign.points == HINT:
        return hit
    before, after = text[max(0, hit.start - 200) : hit.start], text[hit.end : hit.end + 200]
    half = hit._replace(points=hit.sign.points // 2)
    # A pasted document, which speaks to the machine that reads it, stands in quotes as well.
    if hit.sign.family != "machine" and _is_quoted(before.rpartition("\n")[2], after.partition("\n")[0]):
        return half
    sentence = SHAPES["end of a clause"].sub(_CLAUSE, SHAPES["break"].split(before)[-1])
    around = f"{hit.sign.family}{_SENTENCE}{sentence}{_WORDS}{text[hit.start : hit.end]}{_AFTER}{after}"
    for shown, doubt in MENTIONS:
        if shown.search(around):
            return hit._replace(firm=False) if doubt and doubt.search(around) else half
    return hit


_QUOTES: Final = ('""', "''", "``", "\u201c\u201d", "\u201e\u201c", '\u201e"', "\u2018\u2019", "\u00ab\u00bb")


def _is_quoted(before: str, after: str) -> bool:
    """Return whether a sign is quoted in prose. Marks around a whole value, as in JSON, quote nothing."""
    for opening, closing in _QUOTES:
        opened = before.rfind(opening)
        if opening == closing:
            # An apostrophe inside a word opens nothing.
            marks = [mark.start() for mark in re.finditer(rf"(?<!\w){opening}" if opening == "'" else opening, before)]
            opened = marks[-1] if len(marks) % 2 else -1
        elif closing in before[opened + 1 :]:
            opened = -1
        behind = after.partition(closing)
        if opened >= 0 and behind[1] and SHAPES["prose"].search(f"{before[:opened]}{_WORDS}{behind[2]}"):
            return True
    return False


# --- 3. to 5.


def grade_text(text: str, breaks: Sequence[int] = (), own: Sequence[Span] | None = None) -> TextGrade:
    """Return the grade of one reading of a text.

    `breaks` are the places where another message of a chat begins, `own` those of the client's own words: only there do
    broad signs count, or everywhere if it is None.
    """
    folded = comparable(text)
    if len(folded) != len(text):
        # Half a surrogate pair was left out, so the places are wrong: all is one message of the client.
        breaks, own = (), None
    signs = (
        hit
        for hit in chain.from_iterable(search_pieces(folded))
        if not hit.sign.is_broad or own is None or _is_own((hit.start, hit.end), own)
    )
    found = list(islice(signs, MAX_WEIGHED))
    too_many = len(found) >= MAX_WEIGHED or sum(not hit.sign.is_broad for hit in found) >= MAX_HITS
    most = {hit.sign.family: hit.points for hit in sorted(found, key=lambda hit: hit.points)}
    if not too_many and sum(most.values()) < SUSPECTED:
        return TextGrade(0, [], sure=False, narrow=0)
    hits = _keep_strongest(found, folded, breaks)
    narrow, sure = _add_up([hit for hit in hits if not hit.sign.is_broad], breaks)
    points = max(narrow, _add_up(hits, breaks)[0])
    return TextGrade(max(points, SUSPECTED) if too_many else points, hits, sure, narrow)


def _is_own(span: Span, own: Sequence[Span]) -> bool:
    """Return whether a span has a part of the client's own words in it."""
    place = bisect(own, (span[1], span[1])) - 1
    return place >= 0 and span[0] < own[place][1]


def _keep_strongest(found: Iterable[SignHit], text: str, breaks: Sequence[int]) -> list[SignHit]:
    """Return the strongest sign of each family in each stretch of each message; only what may be it is weighed."""
    kept: dict[tuple[str, bool, int, int], SignHit] = {}
    for hit in found:
        place = hit.sign.family, hit.sign.is_broad, hit.start // _STRETCH, bisect(breaks, hit.start)
        best = kept.get(place)
        if best is None or hit.strength > best.strength:
            weighed = _weigh(hit, text)
            if best is None or weighed.strength > best.strength:
                kept[place] = weighed
    return list(kept.values())


def _has_the_words_of(other: SignHit, hit: SignHit) -> bool:
    """Return whether a hit is the beginning or the end of a full sign; what stands in a gap of it is no part."""
    if (other.start, other.end) == (hit.start, hit.end):
        return True
    is_part = other.start <= hit.start and hit.end <= other.end
    return is_part and (other.start == hit.start or other.end == hit.end) and other.sign.points == SIGN


def _add_up(hits: list[SignHit], breaks: Sequence[int]) -> tuple[int, bool]:
    """Return the highest sum of points of different families within reach, and whether one is sure.

    Signs made of the words of another one are left out.
    """
    best, sure = 0, False
    reached: list[SignHit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end, -hit.points)):
        if any(_has_the_words_of(other, hit) for other in reached):
            continue
        reached = [*(other for other in reached if _is_in_reach(other, hit, breaks)), hit]
        # Neither a hint nor a part to play counts without another sign.
        if all(other.sign.points == HINT or other.sign.family == "cast" for other in reached):
            continue
        tops = {other.sign.family: (other.points, other.firm) for other in sorted(reached, key=lambda one: one[3:])}
        total = sum(points for points, _ in tops.values())
        best = max(best, total)
        sure = sure or ((SIGN, True) in tops.values() and total >= SURE)
    return best, sure


def _is_in_reach(earlier: SignHit, hit: SignHit, breaks: Sequence[int]) -> bool:
    is_across = hit.start - earlier.end > NEAR_ACROSS and bisect(breaks, earlier.end) < bisect(breaks, hit.start)
    return hit.start - earlier.start <= NEAR and not is_across


# --- 6. readings


def grade_scan(text: str, scan: Scan | None, breaks: Sequence[int] = (), own: Sequence[Span] | None = None) -> Grade:
    """Return the grade of a text in all its readings; `breaks` and `own` as for `grade_text`."""
    plain = grade_text(text, breaks, own)
    points, sure = plain.points, plain.sure
    named = _hits_to_name(plain)
    rules = [hit.sign.rule for hit in named]
    spans = [(hit.start, min(hit.end, len(text))) for hit in named]
    for reading, span, is_hidden in _other_readings(text, scan):
        inner = grade_text(reading, own=None if own is None or _is_own(span, own) else ())
        unseen = inner.kinds - plain.kinds
        if inner.points >= SUSPECTED and unseen:
            points += inner.points
            # What only this reading shows may be broad signs alone.
            is_narrow = not all(is_broad for _, is_broad, _ in unseen)
            sure |= is_narrow and (inner.sure or (is_hidden and inner.narrow >= SUSPECTED))
            rules += [*(hit.sign.rule for hit in _hits_to_name(inner)), "request:hidden-reading"]
            spans.append(span)
    if points < SUSPECTED:
        return Grade()
    return Grade(sure, True, tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(spans)))


def _other_readings(text: str, scan: Scan | None) -> Iterator[tuple[str, Span, bool]]:
    """Yield the other readings of a text, where they stand in it, and whether that alone shows an intent to hide."""
    for part in scan.parts[1:] if scan else ():
        yield part.data.decode("utf-8", "replace"), (part.start, part.end), True
    yield from ((decoded, (0, len(text)), False) for decoded in decode_letters(comparable(text)))


def _hits_to_name(grade: TextGrade) -> list[SignHit]:
    """Return the signs to name as the reason: broad ones only where the others are not enough."""
    return grade.hits if grade.narrow < SUSPECTED else [hit for hit in grade.hits if not hit.sign.is_broad]


# --- the operator's own prompt
#
# It forbids the moves of attackers, and gives the model a part to play. Both are signs of an attack in a client's words
# and usual in the operator's, so they are left out. All else counts: a client may write the whole body.

_BEFORE, _BEHIND = 200, 120


def spare_guards(text: str) -> str:
    """Return the operator's prompt without what it forbids, and without the part that it gives the model to play."""
    folded = comparable(text)
    # The places are those of the text itself only if none of its characters was left out.
    if len(folded) != len(text):
        return text
    hits = list(islice(chain.from_iterable(search_pieces(folded)), MAX_HITS + 1))
    if len(hits) > MAX_HITS:
        return text
    weighed = [_weigh(hit, folded) for hit in hits if hit.sign.points > HINT]
    guards = [hit for hit in weighed if _is_guard(folded, hit)]
    counted = [hit for hit in weighed if hit not in guards]
    spared, at = "", 0
    for hit in sorted(guards, key=lambda hit: hit.start):
        if not any(hit.start < other.end and other.start < hit.end for other in counted):
            spared += text[at : hit.start]
            at = max(at, hit.end)
    return spared + text[at:]


def _is_guard(text: str, hit: SignHit) -> bool:
    # A prompt is about rules, tools and makers. The grade counts a sign half that is negated, quoted or talked about.
    if hit.sign.is_broad or hit.sign.family == "cast" or hit.points < hit.sign.points:
        return True
    if not hit.firm:
        return False
    before = SHAPES["break"].split(text[max(0, hit.start - _BEFORE) : hit.start])[-1]
    behind = text[hit.end : hit.end + _BEHIND]
    if SHAPES["forbidden"].search(before) or SHAPES["forbidden inside"].search(text, hit.start, hit.end):
        return True
    return SHAPES["asked"].search(before) is not None and SHAPES["refused"].search(behind) is not None
