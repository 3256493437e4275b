"""The untrusted texts of a session, indexed: where a value stands in them, and which orders stand near it.

A value of a call is looked for as a whole, and so are the addresses in it; of one address also its host and its domain.
All of it is folded, as the texts are: lower case, no punctuation, quoting or wrapping.

Each text is indexed once, when it arrives; a call then asks the index. An attacker writes the texts, so every search
takes its steps from the check's budget and stops where that ends, which is a finding of its own. What is remembered
costs the steps that it took, so that another process, which remembers nothing, rules the same.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.targets import BYTE_PATTERNS as _B
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import domain_of, host_from_value, hosts_by_look, is_shared
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.tables import read_sections
from lockgate.core.text.imperatives import ORDER_REACH, Order, order_from_cue, prepare, split_words
from lockgate.core.text.scanner import ScannedPart, Scanner, character_span

# A text longer than any address, name or command: nothing repeats it as a whole.
MAX_VALUE = 400
STOP_WORDS = frozenset(" ".join(read_sections(__package__, "common_values.txt")["stop words"]).encode().split())
_MAX_ADDRESSES, _MAX_GROUPED = 64, 48
_PLACES_ON_PAGE = frozenset({"selector", "xpath", "locator", "ref"})
# Orders of one text that are remembered.
MAX_ORDERS = 2048
# Places of one value in one text that are looked at.
MAX_PLACES = 32_768
# An order's verb stands so far around the end of its cue, and its object so far behind that.
_AROUND_CUE, _BEHIND_CUE = 24, 96
# Steps for cutting a sentence out of a text; and the bytes that are read for cues in one.
SENTENCE_STEPS, _BYTES_FOR_CUES = 48, 64
# Asking whether a reading has a word takes as long as reading so many bytes.
_BYTES_PER_READING = 256
_WORD = re.compile(rb"[a-z0-9\x80-\xff]+")

Span = tuple[int, int]


class Candidate(NamedTuple):
    """A piece of a leaf that is worth looking for.

    `needle` is all its words; with blanks around them, unless they may be a part of what looks like a word.
    `is_grouped_number` marks a long number, which people write with or without gaps: it is looked for without any.
    """

    leaf: Leaf
    piece: bytes
    words: Sequence[bytes]
    needle: bytes
    is_number: bool = False
    is_plain_word: bool = False
    is_grouped_number: bool = False

    @property
    def is_distinctive(self) -> bool:
        """Whether it is hardly in a text by chance."""
        return not self.is_number and not self.is_plain_word

    @property
    def is_address(self) -> bool:
        """Whether it is a mailbox or an address with its scheme."""
        return bool(_B["address start"].match(self.piece))

    def is_in(self, folded: bytes) -> bool:
        """Return whether a folded text holds the piece."""
        return self.needle in (folded.replace(b" ", b"") if self.is_grouped_number else folded)


def find_candidates(leaf: Leaf, known: set[bytes]) -> list[Candidate]:
    """Return what to look for of a value, the whole of it first; `known` are the words of the untrusted texts.

    A piece with a word that no untrusted text contains came from none of them, which rules most pieces out.
    """
    # A page has to name its own parts: where on it something is done tells nothing.
    if not _PLACES_ON_PAGE.isdisjoint(argument_words(leaf.argument)[-1:]):
        return []
    candidates: dict[bytes, Candidate] = {}
    for piece in dict.fromkeys(_pieces_of(leaf)):
        words = split_words(piece)
        # In a script without spaces a value is a part of what looks like a word.
        is_part = not piece.isascii() and _B["unspaced"].search(piece) is not None
        if known.issuperset(words) or (is_part and known.issuperset([word for word in words if word.isascii()])):
            candidate = _candidate_from_piece(leaf, piece, words, is_part=is_part)
        elif len(piece) < _MAX_GROUPED and _B["grouped"].search(piece):
            # A long number, which untrusted text may write with other gaps.
            candidate = Candidate(leaf, piece, words, b"".join(words), is_grouped_number=True)
        else:
            continue
        if candidate is not None:
            candidates.setdefault(candidate.needle, candidate)
    return list(candidates.values())


def _pieces_of(leaf: Leaf) -> Iterator[bytes]:
    """Yield a value, and the addresses in it: of each all without its query, its host and its domain."""
    text = leaf.text
    has_mailbox = "@" in text
    if len(text) <= MAX_VALUE:
        yield (whole := prepare(text.encode("utf-8", "ignore")))
        # What stands before the first comma of a list: `/tmp/stage,-x`.
        if b"," in whole:
            yield whole.partition(b",")[0]
        # `eve+x` is `eve`.
        if has_mailbox:
            yield re.sub(rb"\+[^@\s]{1,64}@", b"@", whole)
    # Most prose has none of these, and the pattern tries every letter of it.
    may_have_address = has_mailbox or "/" in text or "www." in text.lower()
    for match in islice(_P["address in text"].finditer(text if may_have_address else ""), _MAX_ADDRESSES):
        yield prepare(match[0].rstrip(".:!?").encode("utf-8", "ignore"))
    # All colleagues share the domain of a mailbox.
    if "." in text and not has_mailbox and len(text) <= MAX_VALUE:
        host = host_from_value(text).encode("utf-8", "ignore")
        if _B["host"].fullmatch(host) and not is_shared(domain := domain_of(host)):
            yield from (host, domain)


def _candidate_from_piece(leaf: Leaf, piece: bytes, words: list[bytes], *, is_part: bool) -> Candidate | None:
    """Return a piece as a candidate, unless it is made of words that stand in every text."""
    if not words:
        return None
    needle = b" ".join(words)
    is_short = len(needle) < 10 and len(needle) - len(words) < 5
    has_digit = any(not word.isalpha() and _B["has digit"].search(word) for word in words)
    is_number = is_short and has_digit and _B["number"].match(piece) is not None
    is_plain = (len(words) == 1 and _is_letters_only(leaf, piece)) or _B["date"].match(piece) is not None
    # A number counts at any length; a word needs some.
    if not is_number and (len(needle) < 3 or STOP_WORDS.issuperset(words)):
        return None
    return Candidate(leaf, piece, words, needle if is_part else b" %b " % needle, is_number, is_plain)


def _is_letters_only(leaf: Leaf, piece: bytes) -> bool:
    """Return whether a piece is one word of letters; beyond ASCII, in a script that puts blanks between words.

    There, one that says where the call goes stays telling: a plain word counts only beside the tool's English verb,
    which an order in such a language does not have.
    """
    if piece.isascii():
        return piece.isalpha()
    is_spaced = _P["spaced word"].fullmatch(piece.decode("utf-8", "replace")) is not None
    return is_spaced and not sink_from_argument(leaf.argument)


class TextIndex:
    """One reading of one untrusted text, ready for look-ups; orders are cut out on demand."""

    def __init__(self, part: ScannedPart, scanner: Scanner) -> None:
        self.part = part
        self.prepared = prepare(part.data)
        # A dictionary and not a set: the garbage collector visits every word of a set, and skips this.
        self.words = dict.fromkeys(split_words(self.prepared))
        self._scanner = scanner
        # By the gap between words: all words joined, and where each begins there. Made when a value is looked for.
        self._joined: dict[bytes, tuple[bytes, array[int]]] = {}
        self._orders: dict[int, Order] = {}

    @cached_property
    def _cues(self) -> list[int]:
        """Where the cues of orders end, in order."""
        return self._scanner.find_cues(self.part.data)

    @cached_property
    def _starts(self) -> array[int]:
        """Where each word of the text begins."""
        return array("L", (match.start() for match in _WORD.finditer(self.prepared)))

    @cached_property
    def mail_hosts(self) -> dict[str, list[str]]:
        """The hosts of the mailboxes in the text, by what they look like letter by letter."""
        return hosts_by_look(self.prepared) if b"@" in self.prepared else {}

    @property
    def folded(self) -> bytes:
        """The words of the text with a single blank around each."""
        return self._join(b" ")[0]

    def _join(self, gap: bytes) -> tuple[bytes, array[int]]:
        if gap not in self._joined:
            words = split_words(self.prepared)
            begins = array("L", accumulate((len(word) + len(gap) for word in words), initial=len(gap)))
            self._joined[gap] = gap + gap.join(words) + gap, begins[:-1]
        return self._joined[gap]

    def find(self, candidate: Candidate, budget: WorkBudget) -> list[Span]:
        """Return where a candidate stands in this text, front to back, whatever gaps are between its words."""
        budget.take_pass(len(self.prepared))
        # A number may have any gaps, or none.
        joined, begins = self._join(b"" if candidate.is_grouped_number else b" ")
        needle = candidate.needle.strip()
        step = len(needle) if candidate.is_grouped_number else len(candidate.words[0])

        def place(byte: int) -> int:
            number = bisect_right(begins, byte) - 1
            return self._starts[number] + byte - begins[number]

        spans: list[Span] = []
        edge = candidate.needle.startswith(b" ")
        at = joined.find(candidate.needle)
        while at >= 0 and budget.take():
            if len(spans) == MAX_PLACES:
                budget.exhaust()
                break
            spans.append((place(at + edge), place(at + edge + len(needle) - 1) + 1))
            at = joined.find(candidate.needle, at + step)
        return spans

    def span_in_block(self, start: int, end: int, budget: WorkBudget) -> Span:
        """Return bytes of this reading as characters of the block's own text."""
        if self.part.how == "raw" and self.part.data.isascii():
            return start, end
        budget.take_pass(len(self.part.data))
        return character_span(self.part, start, end)

    def find_cues_near(self, spans: Sequence[Span]) -> Iterator[int]:
        """Yield the cues near one of these places, each once; both go from front to back."""
        first = 0
        for start, _ in spans:
            low = bisect_left(self._cues, start - ORDER_REACH, first)
            first = bisect_right(self._cues, start + ORDER_REACH, low)
            yield from self._cues[low:first]

    def order_at_cue(self, cue: int) -> Order:
        """Return the order around a cue."""
        order = self._orders.get(cue)
        if order is None:
            if len(self._orders) >= MAX_ORDERS:
                self._orders.clear()
            order = self._orders[cue] = order_from_cue(self.part.data, self.prepared, cue)
        return order

    def find_orders_by_verb(
        self, verbs: frozenset[bytes], things: frozenset[bytes], budget: WorkBudget
    ) -> Iterator[Order]:
        """Yield the orders with one of these verbs as their own, and one of the things close behind it."""
        objects = things - verbs
        # Most texts do not have the words.
        if self.words.keys().isdisjoint(verbs) or self.words.keys().isdisjoint(objects):
            return
        budget.take_once(self, len(self.prepared) // _BYTES_FOR_CUES)
        last = -1
        for cue in self._cues:
            if not budget.take():
                return
            around = self.prepared[max(0, cue - _AROUND_CUE) : cue + _BEHIND_CUE]
            near = (self.prepared[max(0, cue - len(verb) - 12) : cue + len(verb) - 1] for verb in verbs)
            if any(map(bytes.__contains__, near, verbs)) and any(thing in around for thing in objects):
                if not budget.take(SENTENCE_STEPS):
                    return
                order = self.order_at_cue(cue)
                own = verbs & order.words
                if order.start != last and own and (things & order.words) - own:
                    last = order.start
                    yield order


class IndexedReading(NamedTuple):
    """One reading of one untrusted block in a context."""

    position: int
    block: str
    source: str
    text: TextIndex


class Places(NamedTuple):
    """A reading that holds a value, and where it does."""

    reading: IndexedReading
    candidate: Candidate
    spans: list[Span]

    def find_orders(self, budget: WorkBudget) -> Iterator[tuple[Order, bool]]:
        """Yield the orders near the value, each with whether it stands inside it or only within its reach."""
        text = self.reading.text
        budget.take_once(text, len(text.prepared) // _BYTES_FOR_CUES)
        for cue in text.find_cues_near(self.spans):
            if not (budget.take() and budget.take_once((text, cue), SENTENCE_STEPS)):
                return
            order = text.order_at_cue(cue)
            is_inside = self.candidate.is_in(order.folded)
            if is_inside or self.candidate.is_in(order.reach):
                yield order, is_inside

    def is_ordered(self, budget: WorkBudget) -> bool:
        """Return whether an order has the value inside it."""
        return any(is_inside for _, is_inside in self.find_orders(budget))

    @property
    def is_beside_cue(self) -> bool:
        """Whether an order is near. "Fill in the address of the record above": the record is a part of it."""
        return next(self.reading.text.find_cues_near(self.spans), None) is not None

    def find_span(self, exact: bytes, order: Order | None, budget: WorkBudget) -> tuple[int, int, bool]:
        """Return where the value stands in the block's own text, in characters: near the order when there is one.

        The third item is whether it stands there as it is written in the argument, which is `exact`.
        """
        text, (at, _), length = self.reading.text, self.spans[0], len(self.candidate.needle)
        low, high = max(0, at - length * 2), at + ORDER_REACH + length
        if order is not None:
            low, high = max(0, order.start - ORDER_REACH), order.end + ORDER_REACH + length
        start = text.part.data.find(exact, low, high)
        if start >= 0:
            return *text.span_in_block(start, start + len(exact), budget), True
        near = bisect_left(self.spans, (low, 0))
        span = self.spans[near] if near < len(self.spans) and self.spans[near][0] < high else self.spans[0]
        is_written = budget.take_pass(len(text.part.data)) and exact in text.part.data
        return *text.span_in_block(*span, budget), is_written


class Index:
    """The readings of a context, oldest first, and which of them hold a value."""

    def __init__(self) -> None:
        self.readings: list[IndexedReading] = []
        self.words: set[bytes] = set()
        # How many bytes all readings have.
        self.size = 0

    def add(self, reading: IndexedReading) -> None:
        """Take in a reading of the latest block."""
        self.readings.append(reading)
        self.words.update(reading.text.words)
        self.size += len(reading.text.prepared)

    def has_words(self, text: str) -> bool:
        """Return whether the readings together have all words of a text."""
        return self.words.issuperset(split_words(prepare(text.encode("utf-8", "ignore"))))

    def find(self, candidate: Candidate, budget: WorkBudget, first: int = 0) -> Iterator[Places]:
        """Yield the readings that hold a candidate, from the block at this position on."""
        budget.take_pass(len(self.readings) * _BYTES_PER_READING)
        # A number in groups and a value in a script without spaces are parts of what looks like a word.
        words = candidate.words if candidate.needle.startswith(b" ") else ()
        for reading in self.readings:
            # Most readings do not have all the words.
            if reading.position < first or not all(map(reading.text.words.__contains__, words)):
                continue
            if not budget.is_spent and (spans := reading.text.find(candidate, budget)):
                yield Places(reading, candidate, spans)
