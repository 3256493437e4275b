"""The grade of a request by its signs: nothing, suspected or sure.

Signs of different families that stand close together support each other:

- A full sign alone is a suspicion. With anything beside it it is sure: an override and what it is for, an extraction
  and `word for word`. Two halves are a suspicion as well.
- A sign that is quoted, negated, or only talked about counts half, and alone it counts for nothing.
- Signs that stand only in a decoded or unmasked reading of the text were hidden, which is one more full sign.

Sequences of word classes are found in one pass over the words; what is no words (markup, scripts without spaces), by
patterns without nested repetition. So the cost is linear in the text, whatever the text says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock, local
from typing import Any, Final, NamedTuple

import hyperscan

from lockgate.core.requests.request_signs import HINT, SIGN, SIGNS, RequestSign
from lockgate.core.text.scanner import Scan, encode
from lockgate.core.word_lists import read_sections

SUSPECTED, SURE = 4, 5
# Signs farther apart than so many characters do not support each other.
NEAR: Final = 1000
# A text with more signs than these repeats them to hide one: it is suspicious, and the rest is not looked at.
MAX_HITS: Final = 512
# So much of a text is looked at, around the words that signs are made of; a text with more of them is suspicious.
MAX_LOOKED_AT: Final = 100_000
# How far a sign, and what stands around it, may reach from such a word.
_AROUND: Final = 300


class SignHit(NamedTuple):
    """Where a sign stands in a text, and its points there."""

    sign: RequestSign
    start: int
    end: int
    points: int


class Grade(NamedTuple):
    """What the signs say: nothing, suspected or sure; their names, and where they stand in the text."""

    sure: bool = False
    suspected: bool = False
    rules: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()


# --- the words of a text, and the sequences in them

_FOLDED: Final = str.maketrans("áàâãäåéèêëíìîïóòôõöúùûüçñłśżźćńąęğşıё", "aaaaaaeeeeiiiiooooouuuucnlszzcnaegsiе")
_FOLDED_AT_ONCE: Final = 50_000
_TOKENS: Final = re.compile(r"[^\W_]+|[.!?。！？]+(?=\s|$)")
# A sequence ends with its sentence, unless the sentence is too short to be one: `Ignore. All. Previous.`
_SHORTEST_SENTENCE: Final = 3


_CLASSES: Final = read_sections(__package__, "request_words.txt")
_COMMON: Final = frozenset(_CLASSES["common"])


class _Lexicon:
    """The sequences, by the words that continue them."""

    def __init__(self, signs: Sequence[RequestSign], classes: Mapping[str, Iterable[str]]) -> None:
        self.sequences: list[tuple[RequestSign, tuple[int, ...]]] = []
        steps: dict[str, list[tuple[int, int]]] = {}
        for sign in signs:
            for sequence in sign.sequences:
                names, gaps = _parse_sequence(sequence)
                if not all(name in classes for name in names):
                    continue
                number = len(self.sequences)
                self.sequences.append((sign, gaps))
                for at, name in enumerate(names):
                    steps.setdefault(name, []).append((number, at))
        # First word (whole, or the beginning of it) to the rest of the entry and its steps.
        self.whole: dict[str, list[tuple[tuple[str, ...], list[tuple[int, int]]]]] = {}
        self.stems: dict[str, list[tuple[tuple[str, ...], list[tuple[int, int]]]]] = {}
        for name, entries in classes.items():
            for entry in entries:
                first, *rest = entry.lower().translate(_FOLDED).split()
                stem = first.endswith("*") and not rest
                (self.stems if stem else self.whole).setdefault(first.rstrip("*"), []).append(
                    (tuple(rest), steps.get(name, []))
                )
        self.stem_sizes = sorted({len(stem) for stem in self.stems})
        self.anchors = _anchors(signs, classes)

    def entries(self, word: str) -> list[tuple[tuple[str, ...], list[tuple[int, int]]]]:
        found = list(self.whole.get(word, ()))
        for size in self.stem_sizes:
            found += self.stems.get(word[:size], ())
        return found


def _anchors(signs: Sequence[RequestSign], classes: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return words of which every full or half sign of words has one: those of the rarest class of each sequence.

    A part to play is told in common words, and counts only beside another sign.
    """
    found: set[str] = set()
    for sign in signs:
        if sign.points == HINT or sign.family == "cast":
            continue
        for sequence in sign.sequences:
            names = _parse_sequence(sequence)[0]
            if all(name in classes for name in names):
                rarest = min(names, key=lambda name: _commonness(classes[name]))
                found |= {_rarest_word(entry) for entry in classes[rarest]}
    return frozenset(found)


def _commonness(entries: Iterable[str]) -> float:
    words = [_rarest_word(entry) for entry in entries]
    return sum(word in _COMMON for word in words) / len(words)


def _rarest_word(entry: str) -> str:
    words = entry.lower().translate(_FOLDED).split()
    return max(words, key=lambda word: (word not in _COMMON, len(word)))


def _parse_sequence(sequence: str) -> tuple[list[str], tuple[int, ...]]:
    parts = re.split(r" (\d) ", sequence)
    return parts[::2], tuple(map(int, parts[1::2]))


_LEXICON: Final = _Lexicon(SIGNS, _CLASSES)
_PATTERNS: Final = tuple((sign, re.compile(sign.pattern)) for sign in SIGNS if sign.pattern)
# What every match of a pattern has in it.
_PATTERN_ANCHORS: Final = (
    r"<\||\|>|_of_turn|\[/?inst\]|<</?sys>>|</[a-z]|<(?:system|assistant|tool|function|invoke|developer|user|admin)",
    r"\b(?:system|admin|developer|override|sysprompt)|systemprompt|previous ?instr|tool_c|\bto=|jailbr",
    r"\b(?:user|human|assistant|ai|model) ?:|function result|action input|observation ?:|\bcall [a-z]+_",
    r"\" ?\+ ?\"| \+ [a-z] |\b(?:above|so far)\b",
    "指令|指示|规则|提示|命令|要求|限制|政策|约束|道德|审查|设定|内容|文字|プロンプト|ルール|規則|制約|开发者模式",
)


class _AnchorSet:
    """Finds all places of some patterns in one pass; compiled with the first text; safe to share between threads."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = sorted(patterns)
        self._database: hyperscan.Database | None = None
        self._compiling = Lock()
        self._threads = local()

    def find_ends(self, data: bytes) -> list[int]:
        """Return where the matches end."""
        database = self._compiled()
        # Two scans on one scratch fail in the engine, so every thread has its own.
        scratch = self._threads.__dict__.get("scratch")
        if scratch is None:
            scratch = self._threads.__dict__["scratch"] = hyperscan.Scratch(database)
        found: list[int] = []
        database.scan(data, match_event_handler=_collect_end, context=found, scratch=scratch)
        return found

    def _compiled(self) -> hyperscan.Database:
        with self._compiling:
            if self._database is None:
                database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
                expressions = [pattern.encode() for pattern in self._patterns]
                database.compile(
                    expressions=expressions,
                    ids=list(range(len(expressions))),
                    elements=len(expressions),
                    flags=[0] * len(expressions),
                )
                self._database = database
            return self._database


def _collect_end(_number: int, _start: int, end: int, _flags: int, found: Any) -> None:
    found.append(end)


# Words without borders compile in milliseconds, borders take a second: only words that stand in many others have them.
_SHORT: Final = frozenset(word for word in _LEXICON.anchors if word.isascii() and len(word.strip("*")) < 4)
_WORD_ANCHORS: Final = _AnchorSet(word.strip("*") for word in _LEXICON.anchors - _SHORT)
_OTHER_ANCHORS: Final = _AnchorSet([*_PATTERN_ANCHORS, r"\b(?:" + "|".join(sorted(_SHORT)) + r")\b"])


def find_signs(text: str) -> Iterator[tuple[RequestSign, int, int]]:
    """Yield the signs of a text in lower case and without accents, with their spans."""
    for sign, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield sign, match.start(), match.end()
    yield from _find_sequences(text)


def _find_sequences(text: str) -> Iterator[tuple[RequestSign, int, int]]:
    tokens = [(match[0], match.start(), match.end()) for match in _TOKENS.finditer(text)]
    words = [word for word, _, _ in tokens]
    known: dict[str, list[tuple[tuple[str, ...], list[tuple[int, int]]]]] = {}
    # Of each sequence and step: where the sequence began, and the last word of the step.
    state: dict[tuple[int, int], tuple[int, int]] = {}
    began = 0
    for at, word in enumerate(words):
        if word[0] in ".!?。！？":
            if at - began >= _SHORTEST_SENTENCE:
                state.clear()
            began = at + 1
            continue
        entries = known.get(word)
        if entries is None:
            entries = known[word] = _LEXICON.entries(word)
        moves = _moves(words, at, entries)
        # Later steps first, so that no word is two steps of one sequence.
        for step, number, last in sorted(moves, reverse=True):
            sign, gaps = _LEXICON.sequences[number]
            before = (at, at - 1) if step == 0 else state.get((number, step - 1))
            if before is None or not 0 <= at - before[1] - 1 <= (gaps[step - 1] if step else 0):
                continue
            if step == len(gaps):
                yield sign, tokens[before[0]][1], tokens[last][2]
            else:
                state[number, step] = before[0], last


def _moves(
    words: Sequence[str], at: int, entries: list[tuple[tuple[str, ...], list[tuple[int, int]]]]
) -> list[tuple[int, int, int]]:
    """Return the steps that a word can be, each with its sequence and the last word of its entry."""
    return [
        (step, number, at + len(rest))
        for rest, steps in entries
        if not rest or _continues(words[at + 1 : at + 1 + len(rest)], rest)
        for number, step in steps
    ]


def _continues(words: Sequence[str], rest: Sequence[str]) -> bool:
    return len(words) == len(rest) and all(
        word == entry or (entry[-1] == "*" and word.startswith(entry[:-1]))
        for word, entry in zip(words, rest, strict=True)
    )


# --- what stands around a sign

_SENTENCE_END: Final = re.compile(r"[.!?\n]")
_QUOTES: Final = ('"', "'", "`", "\u201c\u201d", "\u201e\u201c", '\u201e"', "\u2018\u2019", "\u00ab\u00bb")
_NEGATED: Final = re.compile(
    r"\b(?:never|not|n['\u2019]t|must not|refuse to|cannot|no circumstances|niemals|nie|jamais)(?: ever)?\s*$"
)
_IF_ASKED: Final = re.compile(
    r"\b(?:if|when|whenever|even if|may|might|tries|tried|attempts?|asks?|told|tells?)\b[^.\n]{0,80}$"
)
_THEN_REFUSE: Final = re.compile(r"^[^\n]{0,60}\b(?:refuse|decline|do not comply|say no|keep following)\b")
_TALKED_ABOUT: Final = re.compile(
    r"\b(?:how (?:do|does|can|could|should|would|to|did)|why (?:do|does|did|is)|"
    r"what (?:does|do|is|was|are) (?!your?\b)|"
    + "|".join(sorted(_CLASSES["talked about"]))
    + r")\b|(?:什么是|怎样|是什么意思|翻译)"
)
_OWN: Final = re.compile(
    r"^[^.!?\n]{0,24}\b(?:i|we)\b(?:['\u2019]ve| have| just| had)? ?"
    r"(?:gave|said|sent|wrote|told|asked|set|typed|made)\b"
)
_OF_ANOTHER: Final = re.compile(r"^\s?(?:of|for|in|to) (?:a|an|my|our|the|your own|this app)\b")


def _points(sign: RequestSign, text: str, start: int, end: int) -> int:
    """Return a sign's points where it stands: less where it is quoted, negated or talked about, none for one's own."""
    if sign.points == HINT:
        return HINT
    if sign.family == "drop" and _OWN.match(text[end : end + 60]):
        return 0
    return sign.points // 2 if _is_mentioned(sign, text, start, end) else sign.points


def _is_mentioned(sign: RequestSign, text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - 200) : start], text[end : end + 200]
    ends = list(_SENTENCE_END.finditer(before))
    said = before[ends[-1].end() :] if ends else before
    if _is_quoted(before.rpartition("\n")[2], after.partition("\n")[0]):
        return True
    if _NEGATED.search(said) or (_IF_ASKED.search(said) and _THEN_REFUSE.search(after)):
        return True
    if sign.family == "reveal" and _OF_ANOTHER.match(after):
        return True
    rest = _SENTENCE_END.split(after, 1)[0]
    talked = _TALKED_ABOUT.search(
        said + text[start:end] + rest if sign.family in ("frame", "tool") else said + " | " + rest
    )
    return talked is not None and not re.search(r"\byour?\b", text[start:end])


def _is_quoted(before: str, after: str) -> bool:
    for quote in _QUOTES:
        opening, closing = quote[0], quote[-1]
        if closing not in after:
            continue
        if opening == closing:
            # An apostrophe inside a word opens nothing.
            marks = re.findall(rf"(?<!\w){opening}" if opening == "'" else opening, before)
            if len(marks) % 2:
                return True
        elif opening in before and closing not in before[before.rindex(opening) + 1 :]:
            return True
    return False


# --- grades


def grade_text(text: str) -> tuple[int, list[SignHit], bool]:
    """Return the points of the strongest stretch of a text, its signs, and whether they are sure."""
    text = text.lower()
    if not text.isascii():
        # Half a surrogate pair is never shown: without it, the word around it is whole.
        text = _fold(encode(text).decode("utf-8"))
    hits: list[SignHit] = []
    looked = 0
    for start, end in _windows(text):
        end = min(end, start + MAX_LOOKED_AT - looked)
        looked += end - start
        for sign, first, last in find_signs(text[start:end]):
            points = _points(sign, text, start + first, start + last)
            if points:
                hits.append(SignHit(sign, start + first, start + last, points))
            if len(hits) >= MAX_HITS:
                break
        if len(hits) >= MAX_HITS or looked >= MAX_LOOKED_AT:
            best, sure = _best(hits)
            return max(SUSPECTED, best), hits, sure
    best, sure = _best(hits)
    return best, hits, sure


def _fold(text: str) -> str:
    """Return a text without accents; piece by piece, as translating a long text at once would hold up other threads."""
    return "".join(text[at : at + _FOLDED_AT_ONCE].translate(_FOLDED) for at in range(0, len(text), _FOLDED_AT_ONCE))


def _windows(text: str) -> list[tuple[int, int]]:
    """Return the stretches of a text around the words that signs are made of, in order and without overlap."""
    data = encode(text)
    windows: list[tuple[int, int]] = []
    seen, place = 0, 0
    for at in sorted({*_WORD_ANCHORS.find_ends(data), *_OTHER_ANCHORS.find_ends(data)}):
        # From bytes to characters.
        place += at - seen if text.isascii() else len(data[seen:at].decode("utf-8", "ignore"))
        seen = at
        if windows and place - _AROUND <= windows[-1][1]:
            windows[-1] = (windows[-1][0], place + _AROUND)
        else:
            windows.append((max(0, place - _AROUND), place + _AROUND))
    return windows


def _best(hits: list[SignHit]) -> tuple[int, bool]:
    """Return the highest sum of points of different families within reach, and whether one is sure."""
    hits.sort(key=lambda hit: hit.start)
    best, sure = 0, False
    first = 0
    families: dict[str, list[int]] = {}
    for hit in hits:
        families.setdefault(hit.sign.family, []).append(hit.points)
        while hit.start - hits[first].start > NEAR:
            families[hits[first].sign.family].pop(0)
            first += 1
        tops = [max(points) for points in families.values() if points]
        best = max(best, sum(tops))
        sure = sure or (SIGN in tops and sum(tops) >= SURE)
    return best, sure


def grade_scan(text: str, scan: Scan | None) -> Grade:
    """Return the grade of a text in all its readings."""
    points, hits, sure = grade_text(text)
    rules = [hit.sign.rule for hit in hits]
    spans = [(hit.start, min(hit.end, len(text))) for hit in hits]
    seen = {hit.sign.family for hit in hits}
    for part in () if scan is None else scan.parts:
        if part.how == "raw":
            continue
        inner, found, _ = grade_text(part.data.decode("utf-8", "replace"))
        if inner >= SUSPECTED and not {hit.sign.family for hit in found} <= seen:
            points, sure = points + inner + SIGN, True
            rules += [*(hit.sign.rule for hit in found), "request:hidden-reading"]
            spans.append((part.start, part.end))
    if points < SUSPECTED:
        return Grade()
    return Grade(sure, True, tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(spans)))
