"""Whether an address that untrusted text gives is the one that the user means.

"Forward it to Selma, her address is in the book": the goal names a person, a lookup gives the address. The address is
then no stranger's, unless an order names it or its letters only imitate others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockgate.core.ruling.effects.address_shapes import text_behind_accounts
from lockgate.core.ruling.origins import TrustedText
from lockgate.core.ruling.tool_risk import OBJECT_CLASSES, VERBS
from lockgate.core.ruling.value_pieces import STOP_WORDS, Candidate, domain_of, is_open_to_all
from lockgate.core.ruling.word_index import ValuePlaces
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.confusables import fold_to_latin, triggers_from_text
from lockgate.core.text.imperatives import WORD_BYTES, prepare, split_words

# So far before an address the name of its owner may stand, and so long is a line of a record at most.
_NEAR, _RECORD_LINE = 80, 120
_MAX_PLACES = 8
# Steps for looking at what stands around one place.
_PLACE_STEPS = 2
# A capital inside a sentence begins a name.
_PROPER_NAME = re.compile(r"(?<=[^.!?\s]\s)[A-Z\u00c0-\u00de][\w'-]{2,40}|[\u0400-\u9fff]{2,20}")
_LOCAL_PARTS = re.compile(rb"[^a-z0-9\x80-\xff]+")
# A sender as mails show one, where a line begins: `From: address`, or `Name <address>` with a colon or nothing behind.
_FROM = re.compile(rb"\W{0,8}(?:from|von|de|da|van|sender)\W[^\n.!?]{0,60}\Z")
_NAME_BEFORE, _NOTHING_BEHIND = (
    re.compile(rb"[^\w\n:.!?<\x80-\xff]{0,8}[\w\x80-\xff][^\n:.!?<]{0,60}<\Z"),
    re.compile(rb">[^\S\n]*(?:[:\n]|\Z)"),
)
_ASKS_TO_ANSWER = (b"repl", b"answer", b"respond", b"antwort", b"beantwort", b"r\xc3\xa9pond", b"rispond")
_FEW = 4
_FIELD_BORDERS = (b"\n", b'"', b"|", b"\t")
_SEGMENT = 160
# A subject that git or its server writes: `1a2b3c4 Merge branch 'login' into main`.
_MERGED = re.compile(rb"[\W\da-f]*merge (?:branch '[^'\s]*'(?: (?:of|into) \S*)*|pull request #\d+ from \S*)")
_LEAST_NAME = 4
# What goals of all sorts say: an address with such a word is no one's in particular.
_SAYS_NO_NAME = VERBS.union(*OBJECT_CLASSES) | {word + "s" for group in (VERBS, *OBJECT_CLASSES) for word in group}
_HOST_PART, _LETTERS = re.compile(r"\A[a-z]+://|[/?#:].*\Z", re.DOTALL), re.compile(r"[^\W\d_]+")
# Words of sentences in the languages that goals are most often written in.
_SMALL_WORDS = STOP_WORDS | frozenset(
    "der die das den dem ein eine ist sind und oder nicht mehr von mit für seit le la les un une est sont et ou ne "
    "pas plus de du des avec pour depuis el los las una es son y no ya desde con il lo gli è sono non più da di per "
    "os as um uma é são não mais do em het een zijn niet meer van met voor sinds det är inte och som från att jest nie "
    "od są się już это не уже для был была было есть bir ve değil için".encode().split()
)
_HAS_ADDRESS = re.compile(rb"[@0-9]|\.[a-z]{2}")
_COMMON = frozenset(
    b"the and for mail email e-mail send from with this that address contact user name please new old not all our your "
    b"reply answer write tell forward share invite pay order book find list show read what who their there then into "
    b"com org net www http https info mailto".split()
)


class MeantByGoal:
    """Compares what a goal names with where a value stands."""

    __slots__ = ("_answers", "_asked", "_budget", "_names")

    def __init__(self, trusted: TrustedText, budget: WorkBudget) -> None:
        self._budget = budget
        self._asked = trusted.asked
        self._names = frozenset(
            name.lower().encode("utf-8", "ignore") for name in _PROPER_NAME.findall(trusted.asked_text)
        )
        self._answers = any(word.startswith(_ASKS_TO_ANSWER) for word in self._asked)

    def is_meant(self, candidate: Candidate, held: ValuePlaces, *, in_records_only: bool = False) -> bool:
        """Return whether the goal means this value, by its place in one text; with `in_records_only` not in prose."""
        if is_imitation(candidate.leaf.text):
            return False
        text = held.reading.word_index.prepared
        places = list(_places_of(candidate.piece, text))
        if self._answers and any(_is_sender(text, at, at + len(candidate.piece)) for at in places):
            return True
        if any(is_inside for _, is_inside in held.find_orders(candidate, self._budget)):
            return False
        if _HAS_ADDRESS.search(candidate.piece) and any(_is_in_prose(text, at, candidate) for at in places):
            # Anyone can write a sentence with a name that the user knows, and an address of his own.
            return False
        if in_records_only:
            # Money: the goal has to write the owner's name as a name.
            named = (_own_words(candidate), *(_words_before(text, at, in_one_record=True) for at in places))
            return any(not self._names.isdisjoint(words) for words in named)
        return any(map(self._names_one_of, (_own_words(candidate), *(_words_before(text, at) for at in places))))

    def is_in_record(self, candidate: Candidate, held: ValuePlaces) -> bool:
        """Return whether a value stands in fields of records only, in no prose and no order."""
        text = held.reading.word_index.prepared
        places = list(_places_of(candidate.piece, text))
        if is_imitation(candidate.leaf.text) or not places or len(places) == _MAX_PLACES:
            return False
        if any(_is_in_prose(text, at, candidate) for at in places):
            return False
        return not any(is_inside for _, is_inside in held.find_orders(candidate, self._budget))

    def is_in_sentence(self, candidate: Candidate, held: ValuePlaces) -> bool:
        """Return whether a text gives a value in a sentence, and not only in fields of records."""
        text = held.reading.word_index.prepared
        places = _places_of(candidate.piece, text, len(held.places))
        return any(_is_in_prose(text, at, candidate) for at in places if self._budget.take(_PLACE_STEPS))

    def names_another(self, name: str) -> bool:
        """Return whether the goal names people, companies or places, and this is none of them."""
        words = split_words(prepare(name.encode("utf-8", "ignore")))
        return bool(self._names) and self._names.isdisjoint(words)

    def _names_one_of(self, words: list[bytes]) -> bool:
        """Return whether the goal has one of these words; a word that every goal has names no one."""
        return any(len(word) > 2 and word in self._asked and word not in _COMMON for word in words)


def names_owner_in_words(trusted: TrustedText, address: str) -> bool:
    """Return whether the user wishes something of an address's owner: "send Dacre the offer", `x@dacrehotels.example`.

    A stranger can choose such an address as well: this is for a judge to weigh, and lets nothing pass by itself.
    """
    local, _, place = address.lower().rpartition("@")
    domain = domain_of(_HOST_PART.sub("", place).encode("utf-8", "ignore"))
    if is_open_to_all(domain) or is_imitation(address):
        return False
    wished = {word for word in trusted.wishes.split() if len(word) >= _LEAST_NAME and word not in _SAYS_NO_NAME}
    names = {name.lower() for name in _PROPER_NAME.findall(trusted.asked_text)} & wished
    if not names.isdisjoint(_LETTERS.findall(local)):
        return True
    labels = _LETTERS.findall(domain.rpartition(b".")[0].decode("utf-8", "ignore"))
    return any(
        label in wished or any(label.startswith(word) or label.endswith(word) for word in wished if len(word) > 4)
        for label in labels
    )


def _own_words(candidate: Candidate) -> list[bytes]:
    """Return the words of a name, or of a mailbox before its domain."""
    return [word for word in _LOCAL_PARTS.split(candidate.piece.partition(b"@")[0]) if not word.isdigit()]


def is_imitation(text: str) -> bool:
    """Return whether letters of other scripts stand among Latin ones, to look like them."""
    if text.isascii():
        return False
    folded = fold_to_latin(text, triggers_from_text(text))
    return folded != text and any(letter.isascii() and letter.isalpha() for letter in text)


def _places_of(piece: bytes, text: bytes, most: int = _MAX_PLACES) -> Iterator[int]:
    """Yield the first places at which a text has exactly this."""
    at = text.find(piece)
    for _ in range(most):
        if at < 0:
            return
        yield at
        at = text.find(piece, at + len(piece))


def _is_in_prose(text: bytes, at: int, candidate: Candidate) -> bool:
    """Return whether a value stands in a sentence, rather than in a field, a column or an entry of a list.

    A sentence has one of the small words.
    """
    start = max(text.rfind(border, max(0, at - _SEGMENT), at) for border in _FIELD_BORDERS) + 1
    ends = [end for border in _FIELD_BORDERS if (end := text.find(border, at, at + _SEGMENT)) >= 0]
    end = min(ends, default=at + _SEGMENT)
    segment = text[max(start, at - _SEGMENT) : at] + text[at + len(candidate.piece) : end]
    words = [word for word in segment.translate(WORD_BYTES).split() if word.isalpha()]
    return len(words) >= _FEW and not _SMALL_WORDS.isdisjoint(words) and not _MERGED.fullmatch(segment)


def _words_before(text: bytes, at: int, *, in_one_record: bool = False) -> list[bytes]:
    """Return the words before a place in its line, and those of the line before where both are lines of a record.

    With `in_one_record` only those behind the last account before it, which is another's.
    """
    start = text.rfind(b"\n", 0, at) + 1
    if start and at - start < _RECORD_LINE // 2:
        above = text.rfind(b"\n", 0, start - 1) + 1
        # A line with an address of its own is another record.
        if 0 < start - above < _RECORD_LINE and b"@" not in text[above:start]:
            start = above
    before = text[max(start, at - _NEAR - _RECORD_LINE) : at]
    if in_one_record:
        before = text_behind_accounts(before)
    return before.translate(WORD_BYTES).split()


def _is_sender(text: bytes, at: int, end: int) -> bool:
    before = text[text.rfind(b"\n", 0, at) + 1 : at]
    if _FROM.match(before):
        return True
    return _NAME_BEFORE.match(before) is not None and _NOTHING_BEHIND.match(text, end) is not None
