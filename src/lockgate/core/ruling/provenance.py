"""Where the pieces of a call came from, and whether an order in untrusted text asked for them.

A value that stands in the goal is the user's own. A value that stands only in untrusted text may still be ordinary:
agents copy addresses, ids and names from what they read all day. What is not ordinary is a value that stands in (or
beside) a sentence that gives orders, or a tool that such a sentence names by verb and object, when the goal asked for
neither. Those are the signals below; all of them escalate, none of them blocks.

All comparisons are made on folded words (lower case, no punctuation, quoting or wrapping), so that a value survives
being re-wrapped, quoted, escaped or dumped as YAML. Decoded readings of either side count as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.goal import COMMON, SMALL_WORDS, Goal, intent_of, is_imitation
from lockgate.core.ruling.index import SENTENCE_STEPS, Index, IndexedReading, Places
from lockgate.core.ruling.targets import text_behind_accounts
from lockgate.core.ruling.tool_risk import tool_words
from lockgate.core.ruling.value_pieces import (
    MAX_LINE,
    MAX_PIECES,
    STOP_WORDS,
    Candidate,
    ComparedValue,
    find_candidates,
    prepare_values,
)
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import WORD_BYTES, Order, order_from_cue, split_words
from lockgate.core.vocabulary import Finding, Origin

MAX_ORIGINS = 64
# A call with more words of its own than this is judged by them, not by its tool's name alone; fewer words around a
# value than this are a label, not a sentence.
_FEW_WORDS = 4
# What stands within this many characters of a value is the same passage: a broad rule counts there.
_PASSAGE = 80
# Steps for looking at one text that holds a value, and for broad rules at the passage around it.
_ORIGIN_STEPS = 24
_MAX_SHOWN, MAX_SENTENCE, _MAX_EXCERPT = 120, 240, 160

# Names and phrases stand beside orders all the time; an id, an address or a path is hardly there by chance.
_DISTINCTIVE = re.compile(rb"[0-9@_/\\\\]")
# Without any of these a sentence of some length is hardly English.
_ENGLISH = frozenset(b"the to of and is it for with at from this that please you your be".split())
_ADDRESS_SINKS = ("recipient", "url", "account")
_RECIPIENT_SINKS = ("recipient", "account")
# The verbs with which a text orders a request, whichever tool makes it.
_REQUEST_VERBS = intent_of("web_fetch")[0] | {b"curl", b"get", b"wget"}

# From where to where a reading of a block is related to a call.
RelatedPassage = tuple[IndexedReading, int, int]


class OriginTrace(NamedTuple):
    """What the origins of a call say: where each piece stands, what drives it, and which passages it is related to.

    `related` are the passages that a value of this call fills a sink from: the block they stand in, and from where to
    where. A block with an order that names the tool is related as a whole.
    """

    origins: tuple[Origin, ...] = ()
    signals: tuple[Finding, ...] = ()
    related: tuple[RelatedPassage, ...] = ()
    capped: bool = False


NOTHING_TRACED = OriginTrace()


class OriginLookup:
    """One call's look-up over the recent untrusted blocks.

    `delegated` are the blocks whose orders the user told the agent to follow: they give no signal. `meant` are values
    that the user means, however untrusted text names them: they give none either. With `only_requests` the call does no
    more than follow a link: an order about something else is none for it, and an order to follow the link is one,
    whichever tool does it.
    """

    def __init__(
        self,
        tool: str,
        leaves: Sequence[Leaf],
        goal: Goal,
        delegated: frozenset[str] = frozenset(),
        *,
        meant: frozenset[str] = frozenset(),
        only_requests: bool = False,
    ) -> None:
        self._tool, self._goal = tool, goal
        self._delegated, self._meant, self._only_requests = delegated, meant, only_requests
        self._verbs, self._objects = intent_of(tool)
        self._is_asked_for = goal.asks_for_tool(tool)
        self._values = prepare_values(leaves)
        self._budget = WorkBudget(0)
        # Origins with a signal, and without; the signals, and the passages that the call is related to.
        self._driven: list[Origin] = []
        self._origins: list[Origin] = []
        self._signals: dict[tuple[str, str], Finding] = {}
        self._related: list[RelatedPassage] = []

    def trace(self, index: Index, first: int = 0) -> OriginTrace:
        """Look every piece up in the blocks from this position on, oldest first."""
        candidates, capped = find_candidates(self._values, index.words)
        has_tool_orders = self._may_have_tool_orders(index)
        if not candidates and not capped and not has_tool_orders:
            return NOTHING_TRACED
        self._budget = budget = WorkBudget(compared_size(self._values, index.readings))
        for candidate in candidates:
            if budget.is_spent:
                break
            if holding := list(index.find(candidate, budget, first)):
                self._trace_candidate(candidate, holding)
        if has_tool_orders and not budget.is_spent:
            self._add_tool_orders(index, first)
        return OriginTrace(
            tuple((self._driven + self._origins)[:MAX_ORIGINS]),
            tuple(self._signals.values()),
            tuple(self._related),
            capped or budget.is_spent,
        )

    def _trace_candidate(self, candidate: Candidate, holding: list[Places]) -> None:
        """Add an origin for each block that holds a value, and a signal where an order names the value."""
        known = self._goal.contains_value(candidate, self._budget)
        exact, sink = self._text_of(candidate), sink_from_argument(candidate.leaf.argument)
        is_related = bool(sink) and not known and candidate.leaf.text not in self._meant
        reach = len(candidate.needle) + _PASSAGE
        seen_blocks: set[str] = set()
        driven_blocks: set[str] = set()
        for held in takewhile(lambda _: self._budget.take(_ORIGIN_STEPS), holding):
            block, (_, at) = held.reading.block, held.spans[0]
            signal, order = ("", None) if known else self._signal_in_block(candidate, held, sink)
            if order is None and (not candidate.is_distinctive or block in seen_blocks):
                continue
            seen_blocks.add(block)
            if signal or len(self._origins) < MAX_ORIGINS:
                origin = origin_from_places(candidate, held, exact, self._budget, order, sink, known=known)
                # Another reading of the same block says nothing new.
                if not signal:
                    self._origins.append(origin)
                elif block not in driven_blocks:
                    self._driven.append(origin)
                    driven_blocks.add(block)
                if signal:
                    finding = Finding(signal, origin.argument, origin.start, origin.end, origin.how, origin.value)
                    self._signals.setdefault((signal, origin.argument), finding)
            if is_related and len(self._related) < MAX_PIECES:
                self._related.append((held.reading, max(0, at - _PASSAGE), at + reach))

    def _text_of(self, candidate: Candidate) -> str:
        """Return a piece as it is written in the argument."""
        text, written = candidate.leaf.text, candidate.piece.decode("utf-8", "replace")
        self._budget.take_pass(len(text))
        at = text.lower().find(written)
        return text[at : at + len(written)] if at >= 0 else written

    def _signal_in_block(self, candidate: Candidate, held: Places, sink: str) -> tuple[str, Order | None]:
        """Return the strongest thing that makes this value look ordered, and the sentence that orders it."""
        if held.reading.block in self._delegated or candidate.leaf.text in self._meant:
            return "", None
        is_addressed = sink in _ADDRESS_SINKS or candidate.is_address
        weaker: tuple[str, Order | None] = ("", None)
        for order, is_inside in held.find_orders(candidate, self._budget):
            signal = self._signal_in_order(candidate, order, is_inside=is_inside, is_addressed=is_addressed)
            if signal == "origin:value-in-order":
                return signal, order
            if signal:
                weaker = (signal, order)
        is_unasked = candidate.is_distinctive and sink in _RECIPIENT_SINKS and not self._is_asked_for
        if not weaker[0] and is_unasked:
            ends = takewhile(lambda _: self._budget.take(SENTENCE_STEPS), (end for _, end in held.spans))
            if is_in_sentence(candidate, held, self._budget) or any(_is_told(held, end, candidate) for end in ends):
                return "origin:unasked-recipient", None
        return weaker

    def _signal_in_order(self, candidate: Candidate, order: Order, *, is_inside: bool, is_addressed: bool) -> str:
        """Return what one order in or beside which a value stands makes of the value; empty for nothing."""
        has_verb = not self._verbs.isdisjoint(order.words)
        if candidate.is_number:
            is_meant = self._means_number(candidate, order, is_inside=is_inside, has_verb=has_verb)
            return "origin:number-in-order" if is_meant else ""
        if candidate.is_plain_word:
            # In an order in another language the tool's English verb cannot stand; a name that the call goes to can.
            is_ordered = has_verb or (is_addressed and _ENGLISH.isdisjoint(order.words))
            return "origin:word-in-order" if is_inside and is_ordered else ""
        if not self._is_about_call(candidate, order, is_inside=is_inside, is_addressed=is_addressed):
            return ""
        if is_inside:
            return "origin:value-in-order"
        points_here = (order.points_away or has_verb) and (is_addressed or _DISTINCTIVE.search(candidate.piece))
        return "origin:value-near-order" if points_here else ""

    def _means_number(self, candidate: Candidate, order: Order, *, is_inside: bool, has_verb: bool) -> bool:
        """Return whether an order means a number: it has the tool's verb, and its object or the argument's name."""
        around = order.words if is_inside else frozenset(order.reach.split())
        is_named = any(word.encode() in around for word in tool_words(candidate.leaf.argument.rpartition(".")[2]))
        if self._verbs.isdisjoint(around) or not (is_named or not self._objects.isdisjoint(around)):
            return False
        return is_inside or (has_verb and is_named)

    def _is_about_call(self, candidate: Candidate, order: Order, *, is_inside: bool, is_addressed: bool) -> bool:
        """Return whether an order may be about what this call does.

        Where the user asked for it, only one that names it or an address; for a call that only follows a link, only one
        to follow links.
        """
        around = order.words.union(() if is_inside else order.reach.split())
        if self._is_asked_for and not is_addressed and (self._verbs | self._objects).isdisjoint(around):
            return False
        words = order.words.difference(candidate.words)
        return not (self._only_requests and (self._verbs | _REQUEST_VERBS).isdisjoint(words))

    def _may_have_tool_orders(self, index: Index) -> bool:
        """Return whether a text may have an order that names this tool, and the user asked for no such thing.

        The name of a tool that runs its argument says nothing: the argument is compared.
        """
        runs = any(value.data and sink_from_argument(value.leaf.argument) == "command" for value in self._values)
        if self._is_asked_for or runs:
            return False
        return not self._verbs.isdisjoint(index.words) and not self._objects.isdisjoint(index.words)

    def _add_tool_orders(self, index: Index, first: int) -> None:
        """Add orders that name this tool's verb and object, when the goal does not and no argument tells otherwise."""
        # With arguments of its own a call is told apart by them; the bare order counts where there is little else.
        unasked = self._unasked_words()
        if len(unasked) > _FEW_WORDS or (unasked and unasked.isdisjoint(index.words)):
            return
        related: set[tuple[str, object]] = set()
        for reading, order in index.find_tool_orders(self._tool, self._verbs, self._objects, self._budget):
            if reading.position < first or (unasked and unasked.isdisjoint(order.words)):
                continue
            if reading.block in self._delegated:
                continue
            part = reading.text.part
            # Blocks with the same content share an index.
            if (reading.block, reading.text) not in related:
                related.add((reading.block, reading.text))
                self._related.append((reading, 0, len(part.data)))
            span = reading.text.span_in_block(order.start, order.end, self._budget)
            sentence = sentence_of(reading, order)[:_MAX_EXCERPT]
            finding = Finding("origin:tool-in-order", reading.block, *span, part.how, sentence)
            self._signals.setdefault(("origin:tool-in-order", reading.block), finding)

    def _unasked_words(self) -> set[bytes]:
        """Return the words of this call's telling values that the user did not write; prose tells nothing.

        More than a few are as good as all of them.
        """
        unasked: set[bytes] = set()
        for _, data, _ in self._values:
            line = data[:MAX_LINE]
            if line.count(b" ") >= _FEW_WORDS and not _DISTINCTIVE.search(line):
                continue
            words = {word for word in line.translate(WORD_BYTES).split() if len(word) > 2}
            unasked |= words - self._goal.known - STOP_WORDS
            if len(unasked) > _FEW_WORDS:
                break
        return unasked


def compared_size(values: Sequence[ComparedValue], readings: Sequence[IndexedReading]) -> int:
    """Return how many bytes a look-up compares: those of the values and of the texts."""
    return sum([len(value.data) for value in values]) + sum([len(reading.text.prepared) for reading in readings])


def sentence_of(reading: IndexedReading, order: Order) -> str:
    """Return an order as it is written."""
    return reading.text.part.data[order.start : order.end].decode("utf-8", "replace").strip()[:MAX_SENTENCE]


def origin_from_places(
    candidate: Candidate,
    held: Places,
    exact: str,
    budget: WorkBudget,
    order: Order | None = None,
    sink: str = "target",
    *,
    known: bool = False,
) -> Origin:
    """Return the origin of a value that is written as `exact` in the call."""
    reading, leaf = held.reading, candidate.leaf
    start, end, is_written = held.find_span(candidate, exact.encode("utf-8", "ignore"), order, budget)
    how = leaf.how if reading.text.part.how == "raw" else reading.text.part.how
    how = "folded" if how == "exact" and not is_written else how
    sentence = "" if order is None else sentence_of(reading, order)
    return Origin(
        leaf.argument, exact[:_MAX_SHOWN], reading.block, reading.source, start, end, how, sentence, sink, known
    )


def _is_told(held: Places, end: int, candidate: Candidate) -> bool:
    """Return whether the words around a place are more than a field of a record, in any language."""
    text = held.reading.text
    return len(order_from_cue(text.part.data, text.prepared, end).words.difference(candidate.words)) >= _FEW_WORDS


# ---------------------------------------------------------------------------------------------------------------
# Whose an address is that untrusted text gives. "Forward it to Selma, her address is in the book": the goal names a
# person, a look-up gives the address. It is then no stranger's, unless an order names it or its letters imitate others.

# So far before an address the name of its owner may stand, and so long is a line of a record at most.
_NEAR, _RECORD_LINE = 80, 120
_MAX_PLACES = 8
# Steps for looking at what stands around one place.
_PLACE_STEPS = 2
# A sender as mails show one, where a line begins: `From: address`, or `Name <address>` with a colon or nothing behind.
_FROM = re.compile(rb"\W{0,8}(?:from|von|de|da|van|sender)\W[^\n.!?]{0,60}\Z")
_NAME_BEFORE, _NOTHING_BEHIND = (
    re.compile(rb"[^\w\n:.!?<\x80-\xff]{0,8}[\w\x80-\xff][^\n:.!?<]{0,60}<\Z"),
    re.compile(rb">[^\S\n]*(?:[:\n]|\Z)"),
)
_FIELD_BORDERS = (b"\n", b'"', b"|", b"\t")
_SEGMENT = 160
# A subject that git or its server writes: `1a2b3c4 Merge branch 'login' into main`.
_MERGED = re.compile(rb"[\W\da-f]*merge (?:branch '[^'\s]*'(?: (?:of|into) \S*)*|pull request #\d+ from \S*)")
_LOCAL_PARTS = re.compile(rb"[^a-z0-9\x80-\xff]+")
_HAS_ADDRESS = re.compile(rb"[@0-9]|\.[a-z]{2}")


def is_meant(
    goal: Goal, candidate: Candidate, held: Places, budget: WorkBudget, *, in_records_only: bool = False
) -> bool:
    """Return whether the goal means this value, by its place in one text; with `in_records_only` not in prose."""
    if is_imitation(candidate.leaf.text):
        return False
    text = held.reading.text.prepared
    places = _places_of(candidate.piece, text)
    if goal.asks_to_answer and any(_is_sender(text, at, at + len(candidate.piece)) for at in places):
        return True
    if held.is_ordered(candidate, budget):
        return False
    if _HAS_ADDRESS.search(candidate.piece) and any(_is_in_prose(text, at, candidate) for at in places):
        # Anyone can write a sentence with a name that the user knows, and an address of his own.
        return False
    own = _LOCAL_PARTS.split(candidate.piece.partition(b"@")[0])
    before = [_words_before(text, at, in_one_record=in_records_only) for at in places]
    owners = {word for words in (own, *before) for word in words if len(word) > 2 and not word.isdigit()}
    # Money: the goal has to write the owner's name as a name. Else a word that every goal has names no one.
    return not owners.isdisjoint(goal.proper_names if in_records_only else goal.asked - COMMON)


def is_in_record(candidate: Candidate, held: Places, budget: WorkBudget) -> bool:
    """Return whether a value stands in fields of records only, in no prose and no order."""
    text = held.reading.text.prepared
    places = _places_of(candidate.piece, text)
    if is_imitation(candidate.leaf.text) or not places or len(places) == _MAX_PLACES:
        return False
    return not any(_is_in_prose(text, at, candidate) for at in places) and not held.is_ordered(candidate, budget)


def is_in_sentence(candidate: Candidate, held: Places, budget: WorkBudget) -> bool:
    """Return whether a text gives a value in a sentence, and not only in fields of records."""
    text = held.reading.text.prepared
    return any(_is_in_prose(text, at, candidate) for at, _ in held.spans if budget.take(_PLACE_STEPS))


def _places_of(piece: bytes, text: bytes) -> list[int]:
    """Return the first places at which a text has exactly this."""
    return [match.start() for match in islice(re.finditer(re.escape(piece), text), _MAX_PLACES)]


def _is_in_prose(text: bytes, at: int, candidate: Candidate) -> bool:
    """Return whether a value stands in a sentence, rather than in a field, a column or an entry of a list.

    A sentence has one of the small words.
    """
    start = max(text.rfind(border, max(0, at - _SEGMENT), at) for border in _FIELD_BORDERS) + 1
    ends = [end for border in _FIELD_BORDERS if (end := text.find(border, at, at + _SEGMENT)) >= 0]
    end = min(ends, default=at + _SEGMENT)
    segment = text[max(start, at - _SEGMENT) : at] + text[at + len(candidate.piece) : end]
    words = [word for word in split_words(segment) if word.isalpha()]
    return len(words) >= _FEW_WORDS and not SMALL_WORDS.isdisjoint(words) and not _MERGED.fullmatch(segment)


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
    return split_words(text_behind_accounts(before) if in_one_record else before)


def _is_sender(text: bytes, at: int, end: int) -> bool:
    before = text[text.rfind(b"\n", 0, at) + 1 : at]
    if _FROM.match(before):
        return True
    return _NAME_BEFORE.match(before) is not None and _NOTHING_BEHIND.match(text, end) is not None
