"""The untrusted texts of a session, indexed: where a value stands in them, and which orders stand near it.

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
from itertools import accumulate
from typing import NamedTuple

from lockgate.core.ruling.candidates import Candidate
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import ORDER_REACH, Order, order_from_cue, prepare, split_words
from lockgate.core.text.scanner import ScannedPart, Scanner, character_span

# Orders in one context that name one tool, and orders of one text that are remembered.
MAX_TOOL_ORDERS, MAX_ORDERS = 256, 2048
# Places of one value in one text that are looked at.
MAX_PLACES = 32_768
# Cues are looked for in pieces of this size, with room for a cue that starts in the piece before.
CHUNK = 2048
_OVERLAP = 128
# How far behind a verb its object may stand, and how far behind it its cue may end.
_BEHIND_VERB, _CUE_END = 96, 12
# Steps for cutting a sentence out of a text, for looking for a cue beside a verb, and for one place of a value.
SENTENCE_STEPS, _CUE_STEPS, _PLACE_STEPS = 48, 16, 1
# Asking whether a reading has a word takes as long as reading so many bytes.
_BYTES_PER_READING = 256
_WORD = re.compile(rb"[a-z0-9\x80-\xff]+")

Span = tuple[int, int]


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
        self._cues: dict[int, list[int]] = {}
        self._orders: dict[int, Order] = {}

    @cached_property
    def _starts(self) -> array[int]:
        """Where each word of the text begins."""
        return array("L", (match.start() for match in _WORD.finditer(self.prepared)))

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
        while at >= 0 and budget.take(_PLACE_STEPS):
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
        starts = [start for start, _ in spans]
        reach, last = ORDER_REACH, len(self.part.data) // CHUNK
        near = (range(max(0, (at - reach) // CHUNK), min(last, (at + reach) // CHUNK) + 1) for at in starts)
        for chunk in dict.fromkeys(number for numbers in near for number in numbers):
            for cue in self._cues_in_chunk(chunk):
                place = bisect_left(starts, cue - reach)
                if place < len(starts) and starts[place] <= cue + reach:
                    yield cue

    def _cues_in_chunk(self, chunk: int) -> list[int]:
        cues = self._cues.get(chunk)
        if cues is None:
            low, high = chunk * CHUNK, (chunk + 1) * CHUNK
            around = self._scanner.find_cues(self.part.data, max(0, low - _OVERLAP), high + _OVERLAP)
            cues = self._cues[chunk] = [cue for cue in around if low <= cue < high]
        return cues

    def order_at_cue(self, cue: int) -> Order:
        """Return the order around a cue."""
        order = self._orders.get(cue)
        if order is None:
            if len(self._orders) >= MAX_ORDERS:
                self._orders.clear()
            order = self._orders[cue] = order_from_cue(self.part.data, self.prepared, cue)
        return order

    def find_orders(
        self, candidate: Candidate, spans: Sequence[Span], budget: WorkBudget
    ) -> Iterator[tuple[Order, bool]]:
        """Yield the orders near these places, each with whether the value stands inside it or only within its reach."""
        for cue in self.find_cues_near(spans):
            if not (budget.take() and budget.take_once((self, cue), SENTENCE_STEPS)):
                return
            order = self.order_at_cue(cue)
            is_inside = candidate.is_in(order.folded)
            if is_inside or candidate.is_in(order.reach):
                yield order, is_inside

    def find_orders_by_verb(
        self, verbs: frozenset[bytes], things: frozenset[bytes], budget: WorkBudget
    ) -> Iterator[Order]:
        """Yield the orders with one of these verbs as their own, and one of the things close behind it."""
        acting = verbs.intersection(self.words)
        objects = (things - verbs).intersection(self.words)
        if not objects or not budget.take_pass(len(self.prepared) * len(acting)):
            return
        places = ((match.start(), verb) for verb in acting for match in re.finditer(verb, self.prepared))
        # From front to back: which order is named first must not depend on the order of a set.
        for at, verb in sorted(places):
            if not budget.take():
                return
            behind = self.prepared[at : at + _BEHIND_VERB]
            if any(thing in behind for thing in things):
                order = self._order_with_verb(at, at + len(verb), budget)
                if order is not None and (things & order.words) - (verbs & order.words):
                    yield order

    def _order_with_verb(self, at: int, end: int, budget: WorkBudget) -> Order | None:
        """Return the order with its verb here; a cue ends at its verb or at the first letters behind it."""
        budget.take(_CUE_STEPS)
        chunks = range(at // CHUNK, (end + _CUE_END) // CHUNK + 1)
        cues = (cue for chunk in chunks for cue in self._cues_in_chunk(chunk) if at < cue <= end + _CUE_END)
        cue = next(cues, None)
        return self.order_at_cue(cue) if cue is not None and budget.take(SENTENCE_STEPS) else None


class IndexedReading(NamedTuple):
    """One reading of one untrusted block in a context."""

    position: int
    block: str
    source: str
    text: TextIndex


class Places(NamedTuple):
    """A reading that holds a value, and where it does."""

    reading: IndexedReading
    spans: list[Span]

    def find_orders(self, candidate: Candidate, budget: WorkBudget) -> Iterator[tuple[Order, bool]]:
        """Yield the orders with the value in or beside them, as `TextIndex.find_orders` does."""
        return self.reading.text.find_orders(candidate, self.spans, budget)

    def is_ordered(self, candidate: Candidate, budget: WorkBudget) -> bool:
        """Return whether an order has the value inside it."""
        return any(is_inside for _, is_inside in self.find_orders(candidate, budget))

    def find_span(
        self, candidate: Candidate, exact: bytes, order: Order | None, budget: WorkBudget
    ) -> tuple[int, int, bool]:
        """Return where the value stands in the block's own text, in characters: near the order when there is one.

        The third item is whether it stands there as it is written in the argument, which is `exact`.
        """
        text, (at, _), length = self.reading.text, self.spans[0], len(candidate.needle)
        low, high = max(0, at - length * 2), at + ORDER_REACH + length
        if order is not None:
            low, high = max(0, order.start - ORDER_REACH), order.end + ORDER_REACH + length
        start = text.part.data.find(exact, low, high)
        if start >= 0:
            return *text.span_in_block(start, start + len(exact), budget), True
        is_written = budget.take_pass(len(text.part.data)) and exact in text.part.data
        near = bisect_left(self.spans, (low, 0))
        span = self.spans[near] if near < len(self.spans) and self.spans[near][0] < high else self.spans[0]
        return *text.span_in_block(*span, budget), is_written


class Index:
    """The readings of a context, oldest first, and which of them hold a value or an order for a tool."""

    def __init__(self) -> None:
        self.readings: list[IndexedReading] = []
        self.words: set[bytes] = set()
        # How many bytes all readings have.
        self.size = 0
        # By tool, how many readings were asked, the orders that they hold for it, and what finding them cost.
        self._tools: dict[str, tuple[int, list[tuple[IndexedReading, Order]], int]] = {}

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
                yield Places(reading, spans)

    def find_tool_orders(
        self, tool: str, verbs: frozenset[bytes], objects: frozenset[bytes], budget: WorkBudget
    ) -> list[tuple[IndexedReading, Order]]:
        """Return the orders that name a tool's verb and object."""
        asked, orders, steps = self._tools.get(tool, (0, [], 0))
        budget.take(steps)
        left, more = budget.left, []
        for reading in self.readings[asked:]:
            words = reading.text.words.keys()
            if not words.isdisjoint(verbs) and not words.isdisjoint(objects):
                more += [(reading, order) for order in reading.text.find_orders_by_verb(verbs, objects, budget)]
            if len(orders) + len(more) >= MAX_TOOL_ORDERS:
                budget.exhaust()
                break
        orders = (orders + more)[:MAX_TOOL_ORDERS]
        if not budget.is_spent:
            self._tools[tool] = len(self.readings), orders, steps + left - budget.left
        return orders
