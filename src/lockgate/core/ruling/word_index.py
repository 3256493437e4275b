"""Untrusted texts, indexed for look-ups: where a value stands in them, and which orders stand near it.

Each block is indexed once, when it arrives; a call then asks the index. An attacker writes the texts, so every search
here is bounded: past a bound it stops and sets `capped`, which is a finding of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lockgate.core.ruling.value_pieces import MAX_PIECES, Candidate
from lockgate.core.text.imperatives import ORDER_REACH, WORD_BYTES, Order, order_from_cue, prepare, split_words
from lockgate.core.text.scanner import ScannedPart, Scanner, character_span

# Orders in one context that name one tool.
MAX_TOOL_ORDERS = 256
# Orders of one text that are read closely; a text with more that matter is itself a finding.
MAX_ORDERS = 2048
# Places of one value in one text that are looked at.
MAX_PLACES = 32_768
# Cues are looked for in pieces of this size, with room for a cue that starts in the piece before.
_CHUNK = 2048
_OVERLAP = 128
# Tools for which a text remembers whether it names them.
_MAX_NAMES = 64
_FEW_PLACES = 8
# Fewer words around a value than this are a label, not a sentence.
_SENTENCE = 4
# How far before a verb its cue may begin, and how far behind it its object may stand.
_BEFORE_VERB, _BEHIND_VERB = 64, 96


class WordIndex:
    """One reading of one untrusted text, ready for look-ups; orders are cut out on demand."""

    __slots__ = (
        "_chunks",
        "_compact",
        "_folded",
        "_names",
        "_orders",
        "_scanner",
        "_spaced",
        "capped",
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
        self.capped = False
        self._folded: bytes | None = None
        self._compact: bytes | None = None
        self._spaced: bytes | None = None
        self._scanner = scanner
        self._chunks: dict[int, list[int]] = {}
        self._orders: dict[int, Order] = {}
        self._names: dict[bytes, bool] = {}

    @property
    def spaced(self) -> bytes:
        """The text with a blank for each byte that belongs to no word; as long as before."""
        if self._spaced is None:
            self._spaced = self.prepared.translate(WORD_BYTES)
        return self._spaced

    def find_value(self, candidate: Candidate) -> list[int]:
        """Return where a candidate stands in this text; nothing where it does not."""
        if candidate.is_grouped_number:
            if self._compact is None:
                self._compact = b"".join(self.spaced.split())
            if candidate.needle not in self._compact:
                return []
            return self._find_places(candidate) or [0]
        is_ascii = candidate.rarest.isascii()
        if is_ascii and not all(map(self.words.__contains__, candidate.words)):
            return []
        if not is_ascii or len(candidate.words) > 1:
            if self._folded is None:
                # Folding a text costs as much as looking at a dozen places in it.
                if self.prepared.count(candidate.rarest) <= _FEW_PLACES:
                    return self._find_places(candidate)
                self._folded = b" %b " % b" ".join(self.spaced.split())
            if self._folded.find(candidate.needle) < 0:
                return []
        return self._find_places(candidate) or [0]

    def _find_places(self, candidate: Candidate) -> list[int]:
        """Return the places of a candidate's rarest word near which all of it stands, front to back.

        Past MAX_PLACES the search stops and sets `capped`.
        """
        text, needle = self.spaced, candidate.needle
        word = needle[:4] if candidate.is_grouped_number else candidate.rarest
        size, length = len(word), len(needle)
        before = -1 if candidate.is_grouped_number else needle.find(word)
        # Word by word the folded text is the same text, so both are gone through side by side.
        folded = text if self._folded is None or len(candidate.words) == 1 else self._folded
        places: list[int] = []
        whole: list[int] = []
        sure: list[int] = []
        at, spot = text.find(word), folded.find(word)
        while at >= 0:
            if len(places) == MAX_PLACES:
                self.capped = True
                break
            places.append(at)
            if before >= 0 and folded[spot - before : spot - before + length] == needle:
                whole.append(at)
                # With single gaps it is as long as the needle.
                if text[at - before : at - before + length] == needle or self._is_complete_at(candidate, at):
                    sure.append(at)
            at = text.find(word, at + size)
            spot = at if folded is text else folded.find(word, spot + size)
        if len(sure) == len(places):
            return sure
        around = _Surroundings(text, candidate, whole, is_folded=folded is not text, is_complete=at < 0)
        known = set(sure)
        return [place for place in places if place in known or around.hold_candidate(place)]

    def _is_complete_at(self, candidate: Candidate, at: int) -> bool:
        """Return whether all words of a candidate follow each other here; the gaps between them may be long."""
        text, words, around = self.spaced, list(candidate.words), _reach_around(candidate)
        before = words.index(candidate.rarest)
        behind = len(words) - before
        if text[at : at + around].split(None, behind)[:behind] != words[before:]:
            return False
        return not before or text[max(0, at - around) : at].rsplit(None, before)[-before:] == words[:before]

    def is_in_prose(self, at: int, candidate: Candidate) -> bool:
        """Return whether a place is in a sentence, rather than alone in a field of a record or a column of a table."""
        sentence = order_from_cue(self.part.data, self.prepared, at + len(candidate.rarest))
        return len(sentence.words.difference(candidate.words)) >= _SENTENCE

    def names_tool(self, tool: bytes) -> bool:
        """Return whether a tool's name stands anywhere in this text."""
        known = self._names.get(tool)
        if known is None:
            if len(self._names) >= _MAX_NAMES:
                self._names.clear()
            known = self._names[tool] = tool in self.part.data.lower()
        return known

    def find_orders_near(self, places: Sequence[int]) -> Iterator[Order]:
        """Yield the orders with a cue near one of these places, each once; both go from front to back.

        An order past MAX_ORDERS is not read: its places are passed over, and `capped` is set.
        """
        reach, end, total, known = ORDER_REACH, len(self.part.data), len(places), self._orders
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
                    order = known.get(cue)
                    if order is None and (order := self._order_at_cue(cue)) is None:
                        first = bisect_right(places, cue + reach, first)
                        break
                    yield order
                    at += 1
                else:
                    if at == count:
                        break
                    first = bisect_left(places, cue - reach, first)
                if first == total:
                    return
            chunk += 1
            first = bisect_left(places, chunk * _CHUNK - reach, first)

    def find_orders_by_verb(self, verbs: frozenset[bytes], things: frozenset[bytes]) -> Iterator[Order]:
        """Yield the orders with one of these verbs as their own, and one of the things close behind it."""
        lower = self.prepared
        for verb in verbs:
            at = lower.find(verb)
            while at >= 0:
                behind = lower[at : at + _BEHIND_VERB]
                if any(thing in behind for thing in things) and (order := self._order_with_verb(verb, at)) is not None:
                    yield order
                at = lower.find(verb, at + len(verb))

    def _order_with_verb(self, verb: bytes, at: int) -> Order | None:
        """Return the order with its verb here, if a cue says that one begins."""
        start = max(0, at - _BEFORE_VERB)
        # A cue ends at its verb or at the first letters behind it.
        for cue in self._scanner.find_cues(self.part.data[start : at + len(verb) + 12]):
            if start + cue > at:
                return self._order_at_cue(start + cue)
        return None

    def _order_at_cue(self, cue: int) -> Order | None:
        order = self._orders.get(cue)
        if order is None:
            if len(self._orders) >= MAX_ORDERS:
                self.capped = True
                return None
            order = self._orders[cue] = order_from_cue(self.part.data, self.prepared, cue)
        return order

    def _cues_in_chunk(self, chunk: int) -> list[int]:
        cues = self._chunks.get(chunk)
        if cues is None:
            low, high = chunk * _CHUNK, (chunk + 1) * _CHUNK
            start = max(0, low - _OVERLAP)
            found = self._scanner.find_cues(self.part.data[start : high + _OVERLAP])
            cues = self._chunks[chunk] = [start + cue for cue in found if low <= start + cue < high]
        return cues


def _reach_around(candidate: Candidate) -> int:
    """Return how far from a candidate's rarest word its other words may stand."""
    return len(candidate.needle) * 2 + 32


class _Surroundings:
    """The text around the places of a candidate's rarest word: does it hold all of the candidate?

    `whole` are the places where all of it stands, however wide its gaps. With `is_folded` these were looked for in the
    folded text, and with `is_complete` there are no others; elsewhere only a word that is cut off can make a match.
    """

    __slots__ = ("_around", "_candidate", "_first", "_is_alone", "_is_exact", "_last", "_text", "_whole")

    def __init__(
        self, text: bytes, candidate: Candidate, whole: list[int], *, is_folded: bool, is_complete: bool
    ) -> None:
        words, is_grouped = candidate.words, candidate.is_grouped_number
        self._text = text
        self._candidate = candidate
        self._whole = whole
        self._around = _reach_around(candidate)
        self._first, self._last = words[0], words[-1]
        self._is_alone = not is_grouped and len(words) == 1 and self._first.isascii()
        is_listed = is_folded and not is_grouped and candidate.rarest.isascii()
        self._is_exact = is_complete and (self._is_alone or is_listed)

    def hold_candidate(self, at: int) -> bool:
        """Return whether the text around this place holds the candidate."""
        low, high = max(0, at - self._around), at + self._around
        if self._is_exact:
            near = bisect_left(self._whole, low)
            is_near = near < len(self._whole)
            if self._is_alone and is_near and self._whole[near] + len(self._first) <= high:
                return True
            if not (is_near and self._whole[near] < high) and not self._may_cut_word(low, high):
                return False
        return self._has_needle(self._text[low:high])

    def _may_cut_word(self, low: int, high: int) -> bool:
        """Return whether an end of the window may make a word of the candidate from a longer one."""
        text, first, last = self._text, self._first, self._last
        return text[low : low + len(first)] == first or text[high - len(last) : high] == last or high >= len(text)

    def _has_needle(self, window: bytes) -> bool:
        candidate = self._candidate
        if candidate.is_grouped_number:
            return candidate.needle in b"".join(window.split())
        if len(candidate.words) > 1 and not (self._first + b" " in window and b" " + self._last in window):
            return False
        return candidate.needle in b" %b " % b" ".join(window.split())


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
    """A reading that holds a value, where it does, and which orders have the value in or beside them.

    `orders` is None until a look-up has asked for them.
    """

    __slots__ = ("_span", "orders", "places", "reading")

    def __init__(self, reading: IndexedReading, places: list[int]) -> None:
        self.reading = reading
        self.places = places
        self.orders: list[tuple[Order, bool]] | None = None
        self._span: tuple[bytes, Order | None, tuple[int, int, bool]] | None = None

    def find_span(self, candidate: Candidate, exact: bytes, order: Order | None) -> tuple[int, int, bool]:
        """Return where the value stands in the block's own text, in characters: near the order when there is one.

        The third item is whether it stands there as it is written in the argument, which is `exact`. The latest answer
        is remembered: an agent that uses a value again mostly writes it in the same way.
        """
        if self._span is not None and self._span[0] == exact and self._span[1] is order:
            return self._span[2]
        index, at, length = self.reading.word_index, self.places[0], len(candidate.needle)
        part = index.part
        if order is None:
            low, high = max(0, at - length * 2), at + ORDER_REACH + length
        else:
            low, high = max(0, order.start - ORDER_REACH), order.end + ORDER_REACH + length
        start = part.data.find(exact, low, high)
        is_written, end = start >= 0, start + len(exact)
        if not is_written:
            is_written = part.data.find(exact) >= 0
            start, end = _find_word_by_word(index, candidate, low, high) or (at, at + len(candidate.rarest))
        if not index.is_plain:
            start, end = character_span(part, start, end)
        self._span = (exact, order, (start, end, is_written))
        return start, end, is_written

    def find_orders(self, candidate: Candidate) -> Iterator[tuple[Order, bool]]:
        """Yield the orders near its places, each with whether the value stands inside it or only within its reach."""
        index, found = self.reading.word_index, []
        needle, is_grouped = candidate.needle, candidate.is_grouped_number
        for order in index.find_orders_near(self.places):
            is_inside = candidate.is_in(order.folded) if is_grouped else needle in order.folded
            if is_inside or (candidate.is_in(order.reach) if is_grouped else needle in order.reach):
                found.append((order, is_inside))
                yield order, is_inside
        # Where some found no room, the next look-up has to notice that as well.
        if not index.capped:
            self.orders = found


def _find_word_by_word(index: WordIndex, candidate: Candidate, low: int, high: int) -> tuple[int, int] | None:
    """Return the bytes of a window in which the value stands word by word, though not as the argument writes it."""
    # No pattern here: between two words an attacker may put text that makes a pattern run for minutes.
    wanted, count, length = list(candidate.words), len(candidate.words), len(candidate.needle) * 4 + 64
    first, window = wanted[0], index.spaced[low:high]
    start = window.find(first)
    while start >= 0:
        if window[start : start + length].split(None, count)[:count] == wanted:
            end = start
            for word in wanted:
                end = window.find(word, end) + len(word)
            return low + start, low + end
        start = window.find(first, start + len(first))
    return None


class ValuePlacesCache:
    """Which readings of a context hold a value. Each is searched for it once, since agents use a value often."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, list[ValuePlaces]]] = {}

    def find_places(self, candidate: Candidate, readings: Sequence[IndexedReading]) -> list[ValuePlaces]:
        """Return those of the readings, oldest first, that hold the candidate."""
        if not readings:
            return []
        key = candidate.needle + b"#" if candidate.is_grouped_number else candidate.needle
        searched, holding = self._known.get(key, (-1, []))
        latest = readings[-1].position
        if searched < latest:
            unsearched = readings if searched < 0 else _readings_after(readings, searched)
            holding = holding + _search_readings(candidate, unsearched)
            if len(self._known) >= MAX_PIECES:
                self._known.clear()
            self._known[key] = (latest, holding)
        first = readings[0].position
        if holding and holding[0].reading.position < first:
            return [places for places in holding if places.reading.position >= first]
        return holding


def _search_readings(candidate: Candidate, readings: Sequence[IndexedReading]) -> list[ValuePlaces]:
    rarest, words = candidate.rarest, candidate.words
    is_anywhere = candidate.is_grouped_number or not rarest.isascii()
    # Numbers are everywhere, so the longest word is asked for as well before a text is.
    longest = rarest if len(words) == 1 else max(words, key=len)
    return [
        ValuePlaces(reading, places)
        for reading in readings
        # `reading[4]` is `reading.words`; by its number it is found in half the time.
        if (is_anywhere or (rarest in reading[4] and longest in reading[4]))
        and (places := reading.word_index.find_value(candidate))
    ]


class ToolOrders:
    """The orders in a context that name one tool's verb and object; each block is read once, and only on demand."""

    __slots__ = ("_position", "_unread", "capped", "orders")

    def __init__(self) -> None:
        self._position = -1
        self._unread: list[IndexedReading] = []
        self.capped = False
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

    def read_pending(self, verbs: frozenset[bytes], objects: frozenset[bytes]) -> None:
        """Read the blocks that `may_exist` found since the last time."""
        for reading in self._unread:
            index = reading.word_index
            acting = frozenset([verb for verb in verbs if verb in index.words])
            things = frozenset([thing for thing in objects if thing in index.words])
            if not things - acting:
                continue
            for order in index.find_orders_by_verb(acting, things):
                acts = verbs & order.words
                if (objects & order.words) - acts and len(self.orders) < MAX_TOOL_ORDERS:
                    self.orders.append((reading, order))
            self.capped = self.capped or index.capped or len(self.orders) >= MAX_TOOL_ORDERS
        self._unread.clear()
