"""Untrusted texts, indexed for look-ups: where a value stands in them, and which orders stand near it.

Each block is indexed once, when it arrives; a call then asks the index. An attacker writes the texts, so every search
here takes its steps from the check's budget and stops where that ends, which is a finding of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import accumulate, islice
from typing import NamedTuple

from lockgate.core.ruling.lookalikes import AddressIndex
from lockgate.core.ruling.value_pieces import MAX_PIECES, Candidate
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import ORDER_REACH, WORD_BYTES, Order, order_from_cue, prepare, split_words
from lockgate.core.text.scanner import ScannedPart, Scanner, character_span

# Orders in one context that name one tool.
MAX_TOOL_ORDERS = 256
# Orders of one text that are remembered.
_MAX_ORDERS = 2048
# Places of one value in one text that are looked at.
MAX_PLACES = 32_768
# Cues are looked for in pieces of this size, with room for a cue that starts in the piece before.
_CHUNK = 2048
_OVERLAP = 128
# Fewer words around a value than this are a label, not a sentence.
_SENTENCE = 4
# How far before a verb its cue may begin, and how far behind it its object may stand.
_BEFORE_VERB, _BEHIND_VERB = 64, 96
# Steps for cutting a sentence out of a text, and for looking for a cue in front of a verb.
SENTENCE_STEPS, _CUE_STEPS = 48, 16
_DIGIT_STEPS = 4
_SOLID_CHUNK = 64
_SECTION, _MAX_SECTIONS = 2048, 64
# Asking whether a reading has a word takes as long as reading so many bytes.
_BYTES_PER_READING = 256
_BLANK = 32


class WordIndex:
    """One reading of one untrusted text, ready for look-ups; orders are cut out on demand."""

    __slots__ = (
        "_addresses",
        "_chunks",
        "_compact",
        "_orders",
        "_scanner",
        "_sections",
        "_solid",
        "_spaced",
        "is_plain",
        "part",
        "prepared",
        "words",
    )

    def __init__(self, part: ScannedPart, scanner: Scanner) -> None:
        self.part = part
        # Whether a byte of this reading is a character of the block's own text.
        self.is_plain = part.how == "raw" and part.data.isascii()
        self.prepared = prepare(part.data)
        # A dictionary and not a set: the garbage collector visits every word of a set, and skips this.
        self.words = dict.fromkeys(split_words(self.prepared))
        self._sections: _Sections | None = None
        self._compact: bytes | None = None
        self._spaced: bytes | None = None
        # How many bytes of words stand before each chunk.
        self._solid: list[int] | None = None
        self._scanner = scanner
        self._chunks: dict[int, list[int]] = {}
        self._orders: dict[int, Order] = {}
        self._addresses: AddressIndex | None = None

    @property
    def addresses(self) -> AddressIndex:
        """The hosts and mailboxes of the text by what they look like."""
        if self._addresses is None:
            self._addresses = AddressIndex(self.prepared)
        return self._addresses

    @property
    def spaced(self) -> bytes:
        """The text with a blank for each byte that belongs to no word, and with one more before and behind it."""
        if self._spaced is None:
            self._spaced = b" %b " % self.prepared.translate(WORD_BYTES)
        return self._spaced

    @property
    def folded(self) -> bytes:
        """The words of the text with a single blank around each."""
        return (self._sections or self._divide()).folded

    def find_value(self, candidate: Candidate, budget: WorkBudget) -> list[int]:
        """Return where a candidate stands in this text, front to back; nothing where it does not.

        A place is that of the candidate's word `rarest`; of a number with other gaps, that of its first digit. All
        words of a candidate stand there one after another, with gaps of any length between them.
        """
        if candidate.is_grouped_number:
            return self._find_grouped_number(candidate, budget)
        rarest, words = candidate.rarest, candidate.words
        sections = self._sections or self._divide()
        if not rarest.isascii():
            # In a script without spaces a value is a part of what looks like a word, so all of the text is searched.
            whole = Section(0, len(self.spaced), 0, len(sections.folded))
            return self._find_places(candidate, words.index(rarest), rarest, (whole,), budget)
        if not all(map(self.words.__contains__, words)):
            return []
        # The word that is rarest here: others may stand in the text a thousand times.
        anchor = min((rarest, *words), key=sections.count_holding) if len(words) > 1 else rarest
        return self._find_places(
            candidate, words.index(anchor), b" %b " % anchor, sections.list_holding(anchor), budget
        )

    def _divide(self) -> _Sections:
        self._sections = sections = _Sections(self.spaced)
        return sections

    def _find_places(
        self, candidate: Candidate, at_word: int, mark: bytes, sections: Iterable[Section], budget: WorkBudget
    ) -> list[int]:
        """Return the places of a candidate, found by one of its words: the one with this number, as `mark` has it."""
        text, folded = self.spaced, (self._sections or self._divide()).folded
        needle, words = candidate.needle, candidate.words
        before, shift = sum(map(len, words[:at_word])) + at_word, words.index(candidate.rarest) - at_word
        blank = mark[0] == _BLANK
        step = len(mark) - blank
        places: list[int] = []
        for section in sections:
            # Word by word the folded text is the same text, so both are gone through side by side.
            at, spot = (
                text.find(mark, section.start, section.end),
                folded.find(mark, section.folded_start, section.folded_end),
            )
            budget.take_pass(2 * (section.end - section.start))
            while at >= 0:
                if not budget.take():
                    return places
                if spot >= before and folded.startswith(needle, spot - before):
                    if len(places) == MAX_PLACES:
                        budget.exhaust()
                        return places
                    budget.take()
                    # One byte of `spaced` stands before the text.
                    places.append(
                        (_move_by_words(text, words, at_word, at + blank, shift) if shift else at + blank) - 1
                    )
                at = text.find(mark, at + step, section.end)
                spot = folded.find(mark, spot + step, section.folded_end)
        return places

    def _find_grouped_number(self, candidate: Candidate, budget: WorkBudget) -> list[int]:
        """Return where the digits of a candidate stand, whatever gaps are between them."""
        budget.take_pass(len(self.prepared))
        if self._compact is None:
            self._compact = b"".join(self.spaced.split())
        places: list[int] = []
        at = self._compact.find(candidate.needle)
        while at >= 0 and budget.take(_DIGIT_STEPS):
            if len(places) == MAX_PLACES:
                budget.exhaust()
                break
            places.append(self._place_in_text(at))
            at = self._compact.find(candidate.needle, at + len(candidate.needle))
        return places

    def _place_in_text(self, at: int) -> int:
        """Return where a byte of the text without gaps stands in the text."""
        text, size = self.spaced, _SOLID_CHUNK
        if self._solid is None:
            counted = (size - text.count(b" ", low, low + size) for low in range(0, len(text), size))
            self._solid = list(accumulate(counted, initial=0))
        chunk = bisect_right(self._solid, at) - 1
        left, low = at - self._solid[chunk], chunk * size
        solid = (place for place in range(low, low + size) if text[place] != _BLANK)
        return next(islice(solid, left, None)) - 1

    def span_at(self, candidate: Candidate, place: int) -> tuple[int, int]:
        """Return the bytes that a candidate takes up at one of its places."""
        if candidate.is_grouped_number:
            return place, place + len(candidate.needle)
        text, words = self.spaced, candidate.words
        at = words.index(candidate.rarest)
        start = _move_by_words(text, words, at, place + 1, -at)
        last = len(words) - 1
        return start - 1, _move_by_words(text, words, at, place + 1, last - at) + len(words[last]) - 1

    def is_in_prose(self, at: int, candidate: Candidate) -> bool:
        """Return whether a place is in a sentence, rather than alone in a field of a record or a column of a table."""
        sentence = order_from_cue(self.part.data, self.prepared, at + len(candidate.rarest))
        return len(sentence.words.difference(candidate.words)) >= _SENTENCE

    def find_cues_near(self, places: Sequence[int]) -> Iterator[int]:
        """Yield the cues near one of these places, each once; both go from front to back."""
        reach, end, total = ORDER_REACH, len(self.part.data), len(places)
        chunk = first = 0
        while first < total:
            chunk = max(chunk, (places[first] - reach) // _CHUNK)
            if chunk * _CHUNK > end:
                return
            cues = self._cues_in_chunk(chunk)
            # Whichever of the two lags behind catches up in one step: there may be many of one and few of the other.
            at, count = 0, len(cues)
            while at < count:
                place = places[first]
                at, limit = bisect_left(cues, place - reach, at), place + reach
                while at < count and (cue := cues[at]) <= limit:
                    yield cue
                    at += 1
                if at == count:
                    break
                first = bisect_left(places, cues[at] - reach, first)
                if first == total:
                    return
            chunk += 1
            first = bisect_left(places, chunk * _CHUNK - reach, first)

    def find_orders_by_verb(
        self, verbs: frozenset[bytes], things: frozenset[bytes], budget: WorkBudget
    ) -> Iterator[Order]:
        """Yield the orders with one of these verbs as their own, and one of the things close behind it."""
        lower = self.prepared
        # From front to back: which order is named first must not depend on the order of a set.
        for at, verb in merge(*[self._places_of_verb(verb) for verb in verbs]):
            if not budget.take():
                return
            behind = lower[at : at + _BEHIND_VERB]
            if any(thing in behind for thing in things) and (order := self._order_with_verb(verb, at, budget)):
                yield order

    def _places_of_verb(self, verb: bytes) -> Iterator[tuple[int, bytes]]:
        at = self.prepared.find(verb)
        while at >= 0:
            yield at, verb
            at = self.prepared.find(verb, at + len(verb))

    def _order_with_verb(self, verb: bytes, at: int, budget: WorkBudget) -> Order | None:
        """Return the order with its verb here, if a cue says that one begins."""
        budget.take(_CUE_STEPS)
        start = max(0, at - _BEFORE_VERB)
        # A cue ends at its verb or at the first letters behind it.
        for cue in self._scanner.find_cues(self.part.data, start, at + len(verb) + 12):
            if cue > at:
                return self.order_at_cue(cue) if budget.take(SENTENCE_STEPS) else None
        return None

    def order_at_cue(self, cue: int) -> Order:
        """Return the order around a cue."""
        order = self._orders.get(cue)
        if order is None:
            if len(self._orders) >= _MAX_ORDERS:
                self._orders.clear()
            order = self._orders[cue] = order_from_cue(self.part.data, self.prepared, cue)
        return order

    def _cues_in_chunk(self, chunk: int) -> list[int]:
        cues = self._chunks.get(chunk)
        if cues is None:
            low, high = chunk * _CHUNK, (chunk + 1) * _CHUNK
            around = self._scanner.find_cues(self.part.data, max(0, low - _OVERLAP), high + _OVERLAP)
            cues = self._chunks[chunk] = [cue for cue in around if low <= cue < high]
        return cues


class Section(NamedTuple):
    """A part of a text that begins and ends at blanks: where it stands in the text, and in the folded text."""

    start: int
    end: int
    folded_start: int
    folded_end: int


class _Sections:
    """A text in some dozens of sections, and which of them hold a word: a value is looked for in few of them.

    `folded` is the whole text with a single blank between two words.
    """

    __slots__ = ("_holding", "_listed", "folded")

    def __init__(self, spaced: bytes) -> None:
        size, last = max(_SECTION, len(spaced) // _MAX_SECTIONS), len(spaced) - 1
        self._listed: list[Section] = []
        # Word -> a number with one bit for each section that holds it.
        self._holding: dict[bytes, int] = {}
        folded: list[bytes] = []
        start = folded_start = 0
        while start < last:
            end = spaced.find(b" ", start + size)
            end = last if end < 0 else end
            words = spaced[start:end].split()
            # The blank at the end belongs to this section and to the next.
            if words:
                folded.append(b" ".join(words))
                folded_end = folded_start + len(folded[-1]) + 1
                self._note_words(words)
                self._listed.append(Section(start, end + 1, folded_start, folded_end + 1))
                folded_start = folded_end
            start = end
        self.folded = b" %b " % b" ".join(folded)

    def _note_words(self, words: list[bytes]) -> None:
        bit, holding = 1 << len(self._listed), self._holding
        for word in set(words):
            holding[word] = holding.get(word, 0) | bit

    def count_holding(self, word: bytes) -> int:
        """Return how many sections hold a word."""
        return self._holding[word].bit_count()

    def list_holding(self, word: bytes) -> Iterator[Section]:
        """Yield the sections that hold a word."""
        holding = self._holding[word]
        while holding:
            yield self._listed[(holding & -holding).bit_length() - 1]
            holding &= holding - 1


def _move_by_words(text: bytes, words: Sequence[bytes], number: int, at: int, shift: int) -> int:
    """Return where the word stands that is so many words away from the one here; between them are only blanks."""
    for word in words[number + 1 : number + shift + 1]:
        at = text.find(word, at + len(words[number]))
        number += 1
    for word in reversed(words[number + shift : number] if shift < 0 else ()):
        at = text.rfind(word, 0, at)
    return at


class IndexedReading(NamedTuple):
    """One reading of one untrusted block in a context."""

    position: int
    block: str
    source: str
    word_index: WordIndex
    words: dict[bytes, None]


# From where to where a reading of a block is related to a call.
RelatedPassage = tuple[IndexedReading, int, int]


def _readings_after(readings: Sequence[IndexedReading], position: int) -> list[IndexedReading]:
    """Return the readings of blocks that came after this one, oldest first."""
    at = len(readings)
    while at and readings[at - 1].position > position:
        at -= 1
    return list(readings[at:])


class ValuePlaces:
    """A reading that holds a value, where it does, and which orders have the value in or beside them."""

    __slots__ = ("_cues", "_orders", "_span", "places", "reading")

    def __init__(self, reading: IndexedReading, places: list[int]) -> None:
        self.reading = reading
        self.places = places
        # The orders and the cues that were looked at for them; None until a look-up has gone through all.
        self._orders: list[tuple[Order, bool]] = []
        self._cues: list[int] | None = None
        self._span: tuple[bytes, Order | None, tuple[int, int, bool], int] | None = None

    def find_span(
        self, candidate: Candidate, exact: bytes, order: Order | None, budget: WorkBudget
    ) -> tuple[int, int, bool]:
        """Return where the value stands in the block's own text, in characters: near the order when there is one.

        The third item is whether it stands there as it is written in the argument, which is `exact`. The latest answer
        is remembered: an agent that uses a value again mostly writes it in the same way.
        """
        index, at, length = self.reading.word_index, self.places[0], len(candidate.needle)
        part = index.part
        left = budget.left
        if self._span is not None and self._span[0] == exact and self._span[1] is order:
            budget.take(self._span[3])
            return self._span[2]
        if order is None:
            low, high = max(0, at - length * 2), at + ORDER_REACH + length
        else:
            low, high = max(0, order.start - ORDER_REACH), order.end + ORDER_REACH + length
        start = part.data.find(exact, low, high)
        is_written, end = start >= 0, start + len(exact)
        if not is_written:
            is_written = budget.take_pass(len(part.data)) and part.data.find(exact) >= 0
            near = bisect_left(self.places, low)
            is_near = near < len(self.places) and self.places[near] < high
            start, end = index.span_at(candidate, self.places[near] if is_near else at)
        if not index.is_plain:
            budget.take_pass(len(part.data))
            start, end = character_span(part, start, end)
        if not budget.is_spent:
            self._span = (exact, order, (start, end, is_written), left - budget.left)
        return start, end, is_written

    def has_no_orders(self, budget: WorkBudget) -> bool:
        """Return whether an earlier look-up has gone through all cues nearby and found no order with the value."""
        return self._cues is not None and not self._orders and self._pay_for_cues(budget)

    def find_orders(self, candidate: Candidate, budget: WorkBudget) -> Iterator[tuple[Order, bool]]:
        """Yield the orders near its places, each with whether the value stands inside it or only within its reach."""
        if self._cues is not None:
            self._pay_for_cues(budget)
            yield from self._orders
            return
        index, found, cues = self.reading.word_index, [], []
        needle, is_grouped = candidate.needle, candidate.is_grouped_number
        for cue in index.find_cues_near(self.places):
            if not self._pay_for_cue(cue, budget):
                return
            cues.append(cue)
            order = index.order_at_cue(cue)
            is_inside = candidate.is_in(order.folded) if is_grouped else needle in order.folded
            if is_inside or (candidate.is_in(order.reach) if is_grouped else needle in order.reach):
                found.append((order, is_inside))
                yield order, is_inside
        self._orders, self._cues = found, cues

    def _pay_for_cues(self, budget: WorkBudget) -> bool:
        # What is remembered costs the steps that it took: another process, which remembers nothing, rules the same.
        for cue in self._cues or ():
            self._pay_for_cue(cue, budget)
        return not budget.is_spent

    def _pay_for_cue(self, cue: int, budget: WorkBudget) -> bool:
        return budget.take() and budget.take_once((self.reading.word_index, cue), SENTENCE_STEPS)


class ValuePlacesCache:
    """Which readings of a context hold a value. Each is searched for it once, since agents use a value often."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, list[ValuePlaces], int]] = {}

    def find_places(
        self, candidate: Candidate, readings: Sequence[IndexedReading], budget: WorkBudget
    ) -> list[ValuePlaces]:
        """Return those of the readings, oldest first, that hold the candidate."""
        if not readings:
            return []
        key = candidate.needle + b"#" if candidate.is_grouped_number else candidate.needle
        searched, holding, steps = self._known.get(key, (-1, [], 0))
        latest, left = readings[-1].position, budget.left
        budget.take(steps)
        if searched < latest:
            unsearched = readings if searched < 0 else _readings_after(readings, searched)
            holding = holding + _search_readings(candidate, unsearched, budget)
            if not budget.is_spent:
                if len(self._known) >= MAX_PIECES:
                    self._known.clear()
                self._known[key] = (latest, holding, left - budget.left)
        first = readings[0].position
        if holding and holding[0].reading.position < first:
            return [places for places in holding if places.reading.position >= first]
        return holding


def _search_readings(candidate: Candidate, readings: Sequence[IndexedReading], budget: WorkBudget) -> list[ValuePlaces]:
    rarest, words = candidate.rarest, candidate.words
    is_anywhere = candidate.is_grouped_number or not rarest.isascii()
    # Numbers are everywhere, so the longest word is asked for as well before a text is.
    longest = rarest if len(words) == 1 else max(words, key=len)
    budget.take_pass(len(readings) * _BYTES_PER_READING)
    return [
        ValuePlaces(reading, places)
        for reading in readings
        # `reading[4]` is `reading.words`; by its number it is found in half the time.
        if (is_anywhere or (rarest in reading[4] and longest in reading[4]))
        and not budget.is_spent
        and (places := reading.word_index.find_value(candidate, budget))
    ]


class ToolOrders:
    """The orders in a context that name one tool's verb and object; each block is read once, and only on demand."""

    __slots__ = ("_position", "_steps", "_unread", "orders")

    def __init__(self) -> None:
        self._position = -1
        self._unread: list[IndexedReading] = []
        self._steps = 0
        self.orders: list[tuple[IndexedReading, Order]] = []

    def may_exist(self, readings: Sequence[IndexedReading], verbs: frozenset[bytes], objects: frozenset[bytes]) -> bool:
        """Return whether a block holds such an order, or has both words and is still to be read."""
        if readings and readings[-1].position > self._position:
            for reading in _readings_after(readings, self._position):
                words = reading.words.keys()
                if not words.isdisjoint(verbs) and not words.isdisjoint(objects):
                    self._unread.append(reading)
            self._position = readings[-1].position
        return bool(self._unread or self.orders)

    def read_pending(
        self, verbs: frozenset[bytes], objects: frozenset[bytes], budget: WorkBudget
    ) -> list[tuple[IndexedReading, Order]]:
        """Return the orders, after reading the blocks that `may_exist` found since the last time."""
        budget.take(self._steps)
        for number, reading in enumerate(self._unread):
            left = budget.left
            found = self._read(reading, verbs, objects, budget)
            if budget.is_spent:
                # The next check reads this block anew.
                del self._unread[:number]
                return self.orders + found
            self.orders += found
            self._steps += left - budget.left
        self._unread.clear()
        if len(self.orders) >= MAX_TOOL_ORDERS:
            budget.exhaust()
        return self.orders

    def _read(
        self, reading: IndexedReading, verbs: frozenset[bytes], objects: frozenset[bytes], budget: WorkBudget
    ) -> list[tuple[IndexedReading, Order]]:
        index = reading.word_index
        acting = frozenset([verb for verb in verbs if verb in index.words])
        things = frozenset([thing for thing in objects if thing in index.words])
        if not things - acting:
            return []
        orders = (
            (reading, order)
            for order in index.find_orders_by_verb(acting, things, budget)
            if (objects & order.words) - (verbs & order.words)
        )
        return list(islice(orders, MAX_TOOL_ORDERS - len(self.orders)))
