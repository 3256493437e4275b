"""The grade of a request by its signs: nothing, suspected or sure.

1. Find the signs in the text (request_signs.py).
2. Weigh each where it stands. A *mention* counts half: a sign that is quoted, forbidden, talked about, or about
   something else than the application (`MENTIONS`). With an order beside it, it is *in doubt*: it counts in full, but
   nothing makes it sure.
3. Keep the strongest sign of each family in each stretch, so that decoys do not hide an attack.
4. Leave out signs made of the words of another one: they do not support it.
5. Add up signs of different families that stand close together, and closer still if another message of a chat begins
   between them. A full sign, or two halves, are a suspicion. A full sign beyond doubt with anything beside it is sure.
   Broad signs count towards a suspicion only, and only in the client's own words.
6. Grade the other readings of the text likewise. Signs that stand only there were hidden, which makes them sure; those
   in rot13 or backwards, which puzzles are too, count as they are.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lockgate.core.requests.request_signs import (
    GUARDS,
    HINT,
    MARKS,
    MENTIONS,
    SIGN,
    SignHit,
    comparable,
    decode_letters,
    search_pieces,
)
from lockgate.core.text.scanner import Scan

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


class Grade(NamedTuple):
    """What the signs say: nothing, suspected or sure; their names, and where they stand in the text."""

    sure: bool = False
    suspected: bool = False
    rules: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()


class TextGrade(NamedTuple):
    """The points of the strongest stretch of a text, its signs, whether they are sure, and points without broad signs.

    Broad signs add to a suspicion only: they make nothing sure, and take nothing from what is.
    """

    points: int
    hits: list[SignHit]
    sure: bool
    narrow: int

    @property
    def named_hits(self) -> list[SignHit]:
        """The signs to name as the reason: broad ones only where the others are not enough."""
        return self.hits if self.narrow < SUSPECTED else [hit for hit in self.hits if not hit.sign.is_broad]

    @property
    def kinds(self) -> set[tuple[str, bool, int]]:
        """The families of its signs with their weights: half a sign in plain sight is no cover for a hidden one."""
        return {(hit.sign.family, hit.sign.is_broad, hit.sign.points) for hit in self.hits}


# --- 2. weigh

# A sign is weighed in its surroundings: its family, the sentence before it, its words, and what follows, with marks
# between them. The ends of clauses before it are marked as well. The table has the mentions in these terms.
_SENTENCE, _WORDS, _AFTER, _CLAUSE = MARKS
_SENTENCE_END: Final = re.compile(r"[.!?\n]")
# A report behind a colon belongs to what stands before it; an order behind a colon does not.
_CLAUSE_END: Final = re.compile(r"[,;\uff0c\uff1b\uff1a](?!\w)|:(?!\w| (?:an?|one|our|some) )")


def _weigh(hit: SignHit, text: str) -> SignHit:
    """Return a sign with its points where it stands in a text without marks."""
    if hit.sign.points == HINT:
        return hit
    before, after = text[max(0, hit.start - 200) : hit.start], text[hit.end : hit.end + 200]
    half = hit._replace(points=hit.sign.points // 2)
    # A pasted document, which speaks to the machine that reads it, stands in quotes as well.
    if hit.sign.family != "machine" and _is_quoted(before.rpartition("\n")[2], after.partition("\n")[0]):
        return half
    said, words = _SENTENCE_END.split(before)[-1], text[hit.start : hit.end]
    around = f"{hit.sign.family}{_SENTENCE}{_CLAUSE_END.sub(_CLAUSE, said)}{_WORDS}{words}{_AFTER}{after}"
    for shown, doubt in MENTIONS:
        if shown.search(around):
            return hit._replace(firm=False) if doubt and doubt.search(around) else half
    return hit


_QUOTES: Final = ('"', "'", "`", "\u201c\u201d", "\u201e\u201c", '\u201e"', "\u2018\u2019", "\u00ab\u00bb")
_PROSE_BEFORE: Final = re.compile(r"\w[,:]? +[^\W\d_]+[,:]? ?$")
_PROSE_AFTER: Final = re.compile(r"^[.,!?]? ?[^\W\d_]+(?: +[^\W\d_]|[.!?]*$)")


def _is_quoted(before: str, after: str) -> bool:
    """Return whether a sign is quoted in prose. Marks around a whole value, as in JSON, quote nothing."""
    for quote in _QUOTES:
        opened = _opening_of(quote, before) if quote[-1] in after else -1
        if opened >= 0 and (
            _PROSE_BEFORE.search(before[:opened]) or _PROSE_AFTER.match(after[after.index(quote[-1]) + 1 :])
        ):
            return True
    return False


def _opening_of(quote: str, before: str) -> int:
    """Return where a quotation begins that is still open at the end of a text; -1 if there is none."""
    opening, closing = quote[0], quote[-1]
    if opening == closing:
        # An apostrophe inside a word opens nothing.
        marks = [mark.start() for mark in re.finditer(rf"(?<!\w){opening}" if opening == "'" else opening, before)]
        return marks[-1] if len(marks) % 2 else -1
    opened = before.rfind(opening)
    return -1 if closing in before[opened + 1 :] else opened


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
    found = _find_signs(folded, own)
    too_many = len(found) >= MAX_WEIGHED or sum(not hit.sign.is_broad for hit in found) >= MAX_HITS
    most = {hit.sign.family: hit.points for hit in sorted(found, key=lambda hit: hit.points)}
    if not too_many and sum(most.values()) < SUSPECTED:
        return TextGrade(0, [], sure=False, narrow=0)
    hits = _keep_strongest(found, folded, breaks)
    narrow, sure = _add_up(_with_words_of_their_own(hit for hit in hits if not hit.sign.is_broad), breaks)
    points = max(narrow, _add_up(_with_words_of_their_own(hits), breaks)[0])
    return TextGrade(max(points, SUSPECTED) if too_many else points, hits, sure, narrow)


def _find_signs(text: str, own: Sequence[Span] | None) -> list[SignHit]:
    found: list[SignHit] = []
    for hits in search_pieces(text):
        found += [hit for hit in hits if not hit.sign.is_broad or own is None or _is_own((hit.start, hit.end), own)]
        if len(found) >= MAX_WEIGHED:
            break
    return found


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


def _add_up(hits: list[SignHit], breaks: Sequence[int]) -> tuple[int, bool]:
    """Return the highest sum of points of different families within reach, and whether one is sure."""
    best, sure = 0, False
    if all(hit.sign.points == HINT or hit.sign.family == "cast" for hit in hits):
        # Neither a hint nor a part to play counts without another sign.
        return best, sure
    first = 0
    families: dict[str, list[tuple[int, bool]]] = {}
    for hit in hits:
        families.setdefault(hit.sign.family, []).append((hit.points, hit.firm))
        while _is_out_of_reach(hits[first], hit, breaks):
            families[hits[first].sign.family].pop(0)
            first += 1
        tops = [max(points) for points in families.values() if points]
        total = sum(points for points, _ in tops)
        best = max(best, total)
        sure = sure or ((SIGN, True) in tops and total >= SURE)
    return best, sure


def _is_out_of_reach(earlier: SignHit, hit: SignHit, breaks: Sequence[int]) -> bool:
    if hit.start - earlier.start > NEAR:
        return True
    return hit.start - earlier.end > NEAR_ACROSS and bisect(breaks, earlier.end) < bisect(breaks, hit.start)


# --- 6. readings


def grade_scan(text: str, scan: Scan | None, breaks: Sequence[int] = (), own: Sequence[Span] | None = None) -> Grade:
    """Return the grade of a text in all its readings; `breaks` and `own` as for `grade_text`."""
    plain = grade_text(text, breaks, own)
    points, sure = plain.points, plain.sure
    rules = [hit.sign.rule for hit in plain.named_hits]
    spans = [(hit.start, min(hit.end, len(text))) for hit in plain.named_hits]
    for reading, span, is_hidden in _other_readings(text, scan):
        inner = grade_text(reading, own=None if own is None or _is_own(span, own) else ())
        unseen = inner.kinds - plain.kinds
        if inner.points >= SUSPECTED and unseen:
            points += inner.points
            # What only this reading shows may be broad signs alone.
            is_narrow = not all(is_broad for _, is_broad, _ in unseen)
            sure |= is_narrow and (inner.sure or (is_hidden and inner.narrow >= SUSPECTED))
            rules += [*(hit.sign.rule for hit in inner.named_hits), "request:hidden-reading"]
            spans.append(span)
    if points < SUSPECTED:
        return Grade()
    return Grade(sure, True, tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(spans)))


def _other_readings(text: str, scan: Scan | None) -> Iterator[tuple[str, tuple[int, int], bool]]:
    """Yield the other readings of a text, where they stand in it, and whether that alone shows an intent to hide."""
    for part in () if scan is None else scan.parts:
        if part.how != "raw":
            yield part.data.decode("utf-8", "replace"), (part.start, part.end), True
    for decoded in decode_letters(comparable(text)):
        yield decoded, (0, len(text)), False


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
    hits: list[SignHit] = []
    for piece in search_pieces(folded):
        hits += [_weigh(hit, folded) for hit in piece]
        if len(hits) > MAX_HITS:
            return text
    guards = [hit for hit in hits if hit.sign.points > HINT and _is_guard(folded, hit)]
    counted = [hit for hit in hits if hit.sign.points > HINT and hit not in guards]
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
    before = re.split(r"[.!?\n]", text[max(0, hit.start - _BEFORE) : hit.start])[-1]
    behind = text[hit.end : hit.end + _BEHIND]
    if GUARDS["forbidden"].search(before) or GUARDS["forbidden inside"].search(text, hit.start, hit.end):
        return True
    return GUARDS["asked"].search(before) is not None and GUARDS["refused"].search(behind) is not None
