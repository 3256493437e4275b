"""The grade of a request by its signs: nothing, suspected or sure.

Signs of different families that stand close together support each other:

- A full sign alone is a suspicion. With anything beside it it is sure: an override and what it is for, an extraction
  and `word for word`. Two halves are a suspicion as well.
- A sign that is quoted, negated, or only talked about counts half, and alone it counts for nothing. Only words before
  it in its clause say that it is talked about, or prose around its quotation.
- With an order behind it, such a sign is in doubt: it is a suspicion, and nothing beside it makes it sure.
- A sign made of the words of another one does not support it.
- Signs that stand only in a decoded or unmasked reading of the text were hidden, which is one more full sign.

Sequences of word classes are found in one pass over the words; what is no words (markup, scripts without spaces), by
patterns without nested repetition. So the cost is linear in the text, whatever the text says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from threading import Lock, local
from typing import Any, Final, NamedTuple

import hyperscan

from lockgate.core.requests.request_signs import HINT, SIGN, SIGNS, RequestSign
from lockgate.core.text.scanner import Scan, encode
from lockgate.core.word_lists import read_sections

SUSPECTED, SURE = 4, 5
# Signs farther apart than so many characters do not support each other.
NEAR: Final = 1000
# A text with more signs than these repeats them to hide one: it is suspicious.
MAX_HITS: Final = 512
# Of each family, only the strongest sign within so many characters counts.
_STRETCH: Final = 200
# A text is looked at in pieces. No sign is longer than what two pieces share.
_PIECE: Final = 4000
_SHARED: Final = 600
# A piece with more words of signs than one in so many characters is dense.
_DENSE: Final = 20
# So many characters of dense pieces, and of those that a pattern may match, are looked at. More are suspicious.
MAX_LOOKED_AT: Final = 400_000
# What stands for the rest of such a text in its grade.
_UNREAD: Final = RequestSign("cap", SIGN, "more words of signs than are looked at", "", "")


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
# The end of a sentence among words; a text has none, as what is no letter and no digit is left out.
_END: Final = "\1"
_ENDS: Final = re.compile(r"[.!?。！？](?=\s|$)")
# A sequence ends with its sentence, unless the sentence is too short to be one: `Ignore. All. Previous.`
_SHORTEST_SENTENCE: Final = 3
# The gap before the first step of a sequence.
_FIRST: Final = -1
_STEP: Final = itemgetter(0, 1)
_LAST_KEPT: Final = 0xFFFF


class _Separators(dict[int, int]):
    """Characters to themselves, or to a space if they stand between words; filled in as they come up."""

    def __missing__(self, code: int) -> int:
        kept = code if chr(code).isalnum() or code == ord(_END) else ord(" ")
        # The rarer ones are looked up each time: a client could send a million of them.
        if code <= _LAST_KEPT:
            self[code] = kept
        return kept


_SEPARATORS: Final = _Separators()
_CLASSES: Final = read_sections(__package__, "request_words.txt")


class _Move(NamedTuple):
    """A step of a sequence, and how many words after its first one belong to it.

    Steps are numbered through all sequences. `gap` is how many words may stand before this one; the last step of a
    sequence has its sign.
    """

    step: int
    more: int
    gap: int
    sign: RequestSign | None


def _moves_by_entry(signs: Sequence[RequestSign], classes: Mapping[str, Iterable[str]]) -> dict[str, list[_Move]]:
    """Return the moves of each entry of the word classes, the end of a sentence included.

    An entry stands between spaces, or behind one if it may end in any way. Later steps come first, so that no word is
    two steps of one sequence.
    """
    found: dict[str, set[_Move]] = {f" {_END} ": set()}
    step = 0
    for sign in signs:
        for sequence in sign.sequences:
            names, gaps = _parse_sequence(sequence)
            if not all(name in classes for name in names):
                continue
            for place, (name, gap) in enumerate(zip(names, (_FIRST, *gaps), strict=True), 1):
                for entry in classes[name]:
                    words = f" {entry.lower().translate(_FOLDED)} ".replace("* ", "")
                    move = _Move(step, len(entry.split()) - 1, gap, sign if place == len(names) else None)
                    found.setdefault(words, set()).add(move)
                step += 1
    return {words: sorted(moves, key=_STEP, reverse=True) for words, moves in found.items()}


def _parse_sequence(sequence: str) -> tuple[list[str], tuple[int, ...]]:
    parts = re.split(r" (\d) ", sequence)
    return parts[::2], tuple(map(int, parts[1::2]))


_MOVES: Final = _moves_by_entry(SIGNS, _CLASSES)
_PATTERNS: Final = tuple((sign, re.compile(sign.pattern)) for sign in SIGNS if sign.pattern)


class _EngineSet:
    """Finds all places of some patterns in one pass; compiled with the first text; safe to share between threads."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = list(patterns)
        self._database: hyperscan.Database | None = None
        self._compiling = Lock()
        self._threads = local()

    def find_in(self, data: bytes) -> list[tuple[int, int]]:
        """Return where the matches end, each with the number of its pattern."""
        database = self.compiled()
        # Two scans on one scratch fail in the engine, so every thread has its own.
        scratch = self._threads.__dict__.get("scratch")
        if scratch is None:
            scratch = self._threads.__dict__["scratch"] = hyperscan.Scratch(database)
        found: list[tuple[int, int]] = []
        database.scan(data, match_event_handler=_collect_match, context=found, scratch=scratch)
        return found

    def compiled(self) -> hyperscan.Database:
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


def _collect_match(number: int, _start: int, end: int, _flags: int, found: Any) -> None:
    found.append((end, number))


# Each entry with the length of its bytes.
_ENTRIES: Final = [(len(words.encode()), moves) for words, moves in _MOVES.items()]
_ENTRY_SET: Final = _EngineSet(map(re.escape, _MOVES))
_ANCHOR_SET: Final = _EngineSet(sign.anchor for sign, _ in _PATTERNS)


def make_ready() -> None:
    """Compile now, for a process that has time at its start and none with its first request."""
    _ENTRY_SET.compiled()
    _ANCHOR_SET.compiled()


def _find_signs(text: str) -> tuple[list[tuple[RequestSign, int, int]], bool]:
    """Return the signs of a text in lower case and without accents, with their spans, and whether that is dear."""
    entries = _find_entries(text)
    patterns = sorted({number for _, number in _ANCHOR_SET.find_in(encode(text))})
    found = [
        (_PATTERNS[number][0], *match.span()) for number in patterns for match in _PATTERNS[number][1].finditer(text)
    ]
    sequences = list(_find_sequences(entries))
    if found or any(sign.points > HINT for sign, _, _ in sequences):
        words = [match.span() for match in _TOKENS.finditer(text)]
        found += [(sign, words[first][0], words[last][1]) for sign, first, last in sequences]
    return found, bool(patterns) or len(entries) * _DENSE > len(text)


def _find_sequences(entries: Iterable[tuple[int, list[_Move]]]) -> Iterator[tuple[RequestSign, int, int]]:
    """Yield the signs of word classes, with the numbers of their first and last word."""
    # Of each step: where its sequence began, and its last word.
    state: dict[int, tuple[int, int]] = {}
    began = 0
    for at, moves in entries:
        if not moves:
            if at - began >= _SHORTEST_SENTENCE:
                state.clear()
            began = at + 1
        for step, more, gap, sign in moves:
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


def _find_entries(text: str) -> list[tuple[int, list[_Move]]]:
    """Return the moves that a text makes, with the number of the word; none for the end of a sentence."""
    data = encode(f" {' '.join(split_words(text))} ")
    found: dict[int, list[_Move]] = {}
    for end, number in _ENTRY_SET.find_in(data):
        size, moves = _ENTRIES[number]
        start = end - size
        found[start] = sorted((*found[start], *moves), key=_STEP, reverse=True) if start in found else moves
    entries: list[tuple[int, list[_Move]]] = []
    at = seen = 0
    for start in sorted(found):
        at += data.count(b" ", seen, start)
        seen = start
        entries.append((at, found[start]))
    return entries


def split_words(text: str) -> list[str]:
    """Return the words of a text, with `_END` for the end of a sentence: `_TOKENS`, in a fifth of the time."""
    marked = _ENDS.sub(f" {_END} ", text.replace(_END, "-"))
    return marked.translate(_SEPARATORS).split()


# --- what stands around a sign

_SENTENCE_END: Final = re.compile(r"[.!?\n]")
# A report behind a colon belongs to what stands before it; an order behind a colon does not.
_CLAUSE_END: Final = re.compile(r"[,;\uff0c\uff1b\uff1a](?!\w)|:(?!\w| (?:an?|one|our|some) )")
_QUOTES: Final = ('"', "'", "`", "\u201c\u201d", "\u201e\u201c", '\u201e"', "\u2018\u2019", "\u00ab\u00bb")
_NEGATED: Final = re.compile(
    r"\b(?:never|not|n['\u2019]t|must not|refuse to|cannot|no circumstances|niemals|nie|jamais)(?: ever)?\s*$"
)
_IF_ASKED: Final = re.compile(
    r"\b(?:if|when|whenever|even if|may|might|tries|tried|attempts?|asks?|told|tells?)\b[^.\n]{0,80}$"
)
_THEN_REFUSE: Final = re.compile(
    r"^[^\n]{0,60}(?<!never )(?<!not )(?<!n't )\b(?:refuse|decline|do not comply|say no|keep following)\b"
)
_TALKED_ABOUT: Final = re.compile(
    r"\b(?:how (?:do|does|can|could|should|would|to|did)|why (?:do|does|did|is)|"
    r"what (?:does|do|is|was|are)(?! your?\b)|such as|"
    + "|".join(sorted(_CLASSES["talked about"]))
    + r")\b|(?:什么是|怎样|是什么意思|翻译)"
)
_DO: Final = "|".join(sorted(_CLASSES["do"]))
_ORDER_BEHIND: Final = re.compile(
    rf"^[^.!?\n]{{0,30}}(?:\band|\bthen|[,;:]) (?:(?:now|just|then|please|only) )?(?:{_DO})\b"
)
_BESIDE_ANOTHER_ORDER: Final = re.compile(r"\b(?:and|but|so|then)(?: (?:also|now|just|then|please))* $")
_OWN: Final = re.compile(
    r"^[^.!?\n]{0,24}\b(?:i|we)\b(?:['\u2019]ve| have| just| had)? ?"
    r"(?:gave|said|sent|wrote|told|asked|set|typed|made)\b"
)
_OF_MINE: Final = re.compile(r"\b(?:my|our)\b")
_OF_ANOTHER: Final = re.compile(r"^\s?(?:of|for|in|to) (?:a|an|my|our|the|your own|this app)\b")
# Limits on a budget or a length are not those of a model.
_ON_A_THING: Final = re.compile(r"^ (?:about|concerning|on|regarding) (?!what\b|your?\b|any)")
_AI: Final = re.compile(rf"\b(?:{'|'.join(sorted(word for word in _CLASSES['ai'] if '*' not in word))})\b")
_PROSE_BEFORE: Final = re.compile(r"\w[,:]? +[^\W\d_]+[,:]? ?$")
_PROSE_AFTER: Final = re.compile(r"^[.,!?]? ?[^\W\d_]+(?: +[^\W\d_]|[.!?]*$)")


def _weigh(sign: RequestSign, text: str, start: int, end: int) -> SignHit:
    """Return a sign with its points where it stands: half where it is quoted, negated, talked about, or one's own."""
    whole = SignHit(sign, start, end, sign.points)
    half, doubtful = whole._replace(points=sign.points // 2), whole._replace(firm=False)
    if sign.points == HINT:
        return whole
    before, after = text[max(0, start - 200) : start], text[end : end + 200]
    said, words = _SENTENCE_END.split(before)[-1], text[start:end]
    if _is_quoted(before.rpartition("\n")[2], after.partition("\n")[0]) or _is_of_another(sign, said, words, after):
        return half
    if sign.family == "persona" and _ON_A_THING.match(after):
        return doubtful if _AI.search(words) else half
    ordered = _ORDER_BEHIND.match(after) is not None
    if _NEGATED.search(said):
        return doubtful if ordered else half
    if _TALKED_ABOUT.search(_CLAUSE_END.split(said)[-1]) and not re.search(r"\byour?\b", words):
        return doubtful if ordered or _BESIDE_ANOTHER_ORDER.search(said) else half
    return whole


def _is_of_another(sign: RequestSign, said: str, words: str, after: str) -> bool:
    """Return whether a sign is about others, or about the client's own words, and not about the application."""
    if sign.family == "drop" and _is_own(words, after):
        return True
    if sign.family == "reveal" and _OF_ANOTHER.match(after):
        return True
    return _IF_ASKED.search(said) is not None and _THEN_REFUSE.search(after) is not None


def _is_own(words: str, after: str) -> bool:
    """Return whether a client drops what the client said before, and not what the operator or all have said."""
    if re.search(r"\byour?\b", words):
        return False
    return bool(_OF_MINE.search(words) or (_OWN.match(after) and not re.search(r"\ball\b", words)))


def _is_quoted(before: str, after: str) -> bool:
    """Return whether a sign is quoted in prose. Marks around a whole value, as in JSON, quote nothing."""
    for quote in _QUOTES:
        opening, closing = quote[0], quote[-1]
        if closing not in after:
            continue
        if opening == closing:
            # An apostrophe inside a word opens nothing.
            marks = [mark.start() for mark in re.finditer(rf"(?<!\w){opening}" if opening == "'" else opening, before)]
            opened = marks[-1] if len(marks) % 2 else -1
        else:
            opened = before.rfind(opening)
            if closing in before[opened + 1 :]:
                opened = -1
        if opened >= 0 and (
            _PROSE_BEFORE.search(before[:opened]) or _PROSE_AFTER.match(after[after.index(closing) + 1 :])
        ):
            return True
    return False


# --- grades


def grade_text(text: str) -> tuple[int, list[SignHit], bool]:
    """Return the points of the strongest stretch of a text, its signs, and whether they are sure."""
    text = _comparable(text)
    kept: dict[tuple[str, int], SignHit] = {}
    looked = seen = 0
    for at in range(0, len(text), _PIECE):
        piece = text[at : at + _PIECE + _SHARED]
        found, dear = _find_signs(piece)
        looked += len(piece) if dear else 0
        seen += len(found)
        for sign, start, end in found:
            place = sign.family, (at + start) // _STRETCH
            best = kept.get(place)
            if best is None or (sign.points, True, end - start) > best.strength:
                hit = _weigh(sign, text, at + start, at + end)
                if best is None or hit.strength > best.strength:
                    kept[place] = hit
        if looked >= MAX_LOOKED_AT:
            break
    hits = list(kept.values())
    points, sure = _best(hits)
    if looked >= MAX_LOOKED_AT:
        hits.append(SignHit(_UNREAD, at, len(text), SIGN))
    return max(points, SUSPECTED if looked >= MAX_LOOKED_AT or seen >= MAX_HITS else 0), hits, sure


def weighed_signs(text: str) -> tuple[str, list[SignHit]] | None:
    """Return a text as it is compared, and all its signs where they stand; None if that is too much to look at."""
    folded = _comparable(text)
    hits: list[SignHit] = []
    for at in range(0, len(folded), _PIECE):
        found, _ = _find_signs(folded[at : at + _PIECE + _SHARED])
        hits += [_weigh(sign, folded, at + start, at + end) for sign, start, end in found]
        if len(hits) > MAX_HITS:
            return None
    # The places are those of the text itself only if no letter became two.
    return (folded, hits) if len(folded) == len(text) else None


def _comparable(text: str) -> str:
    text = text.lower()
    # Half a surrogate pair is never shown: without it, the word around it is whole.
    return text if text.isascii() else _fold(encode(text).decode("utf-8"))


def _fold(text: str) -> str:
    """Return a text without accents; piece by piece, as translating a long text at once would hold up other threads."""
    return "".join(text[at : at + _FOLDED_AT_ONCE].translate(_FOLDED) for at in range(0, len(text), _FOLDED_AT_ONCE))


def _best(hits: list[SignHit]) -> tuple[int, bool]:
    """Return the highest sum of points of different families within reach, and whether one is sure."""
    best, sure = 0, False
    if all(hit.sign.points == HINT or hit.sign.family == "cast" for hit in hits):
        # Neither a hint nor a part to play counts without another sign.
        return best, sure
    hits = _with_words_of_their_own(hits)
    first = 0
    families: dict[str, list[tuple[int, bool]]] = {}
    for hit in hits:
        families.setdefault(hit.sign.family, []).append((hit.points, hit.firm))
        while hit.start - hits[first].start > NEAR:
            families[hits[first].sign.family].pop(0)
            first += 1
        tops = [max(points) for points in families.values() if points]
        total = sum(points for points, _ in tops)
        best = max(best, total)
        sure = sure or ((SIGN, True) in tops and total >= SURE)
    return best, sure


def _with_words_of_their_own(hits: Iterable[SignHit]) -> list[SignHit]:
    """Return the hits in their order, less those made of the words of another one."""
    found: list[SignHit] = []
    around: list[SignHit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end, -hit.points)):
        around = [other for other in around if other.end > hit.start]
        if not any(_has_the_words_of(other, hit) for other in around):
            found.append(hit)
            around.append(hit)
    return found


def _has_the_words_of(other: SignHit, hit: SignHit) -> bool:
    """Return whether a hit is the beginning or the end of a full sign; what stands in a gap of it is no part."""
    if (other.start, other.end) == (hit.start, hit.end):
        return True
    is_part = other.start <= hit.start and hit.end <= other.end
    return is_part and (other.start == hit.start or other.end == hit.end) and other.sign.points == SIGN


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
