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
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.asked_kinds import forbidden_after, is_asked_by, wishes_in
from lockgate.core.ruling.lookalikes import AddressIndex
from lockgate.core.ruling.tool_risk import tool_intent, tool_words
from lockgate.core.ruling.value_pieces import (
    HOST,
    MAX_LINE,
    MAX_PIECES,
    STOP_WORDS,
    Candidate,
    ComparedValue,
    domain_of,
    find_candidates,
    is_open_to_all,
    prepare_values,
)
from lockgate.core.ruling.word_index import (
    SENTENCE_STEPS,
    IndexedReading,
    RelatedPassage,
    ToolOrders,
    ValuePlaces,
    ValuePlacesCache,
    WordIndex,
)
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import Order, prepare, split_words
from lockgate.core.text.scanner import character_span
from lockgate.core.vocabulary import Finding, Origin

MAX_ORIGINS = 64
# A call with more words of its own than this is judged by them, not by its tool's name alone.
_FEW_WORDS = 4
# What stands within this many characters of a value is the same passage: a broad rule counts there.
_PASSAGE = 80
# No honest text repeats a recipient more often than this.
_MAX_MENTIONS = 1024
# Steps for looking at one text that holds a value, and for broad rules at the passage around it.
_ORIGIN_STEPS = 24
_MAX_SHOWN, _MAX_SENTENCE, _MAX_EXCERPT = 120, 240, 160

# Names and phrases stand beside orders all the time; an id, an address or a path is hardly there by chance.
_DISTINCTIVE = re.compile(rb"[0-9@_/\\\\]")
_IN_ADDRESS = re.compile(rb"[a-z0-9._%+@-]")
_GOES_ON = re.compile(rb"[a-z0-9_%+@-]|\.[a-z0-9]")
_GOES_DOWN = re.compile(rb"/\.?[\w*]")
# A mailbox, or a site and what may stand behind its host. `https://a.example?@b.example` is an address of `a`.
_PLACE = re.compile(
    rb"[^\s@/?#\\:,;<>()\"]{1,64}@(%b)|(?:https?://)?(%b)(?:[/?#][^\\\s]*)?" % (HOST.pattern, HOST.pattern)
)
# Who logs in, in front of a host: `https://ana:pw@host.example/`.
_LOGIN = re.compile(rb"://[^\s/?#@\\]*@\Z")
_LONGEST_HOST = 255
# Without any of these a sentence of some length is hardly English.
_ENGLISH = frozenset(b"the to of and is it for with at from this that please you your be".split())
_ADDRESS_SINKS = ("recipient", "url", "account")
_RECIPIENT_SINKS = ("recipient", "account")


class TrustedText:
    """What the user asked for (goal and messages), and what every trusted or vetted block says besides."""

    __slots__ = (
        "_addresses",
        "_asked_kinds",
        "_asked_tools",
        "asked",
        "asked_folded",
        "asked_text",
        "folded",
        "forbidden_kinds",
        "known",
        "trusted_only",
        "wishes",
        "written",
    )

    def __init__(self) -> None:
        self.folded = b" "
        self.asked_folded = b" "
        self.asked_text = ""
        # What the user wishes, as `asked_kinds.wishes_in` reads it.
        self.wishes = ""
        # The kinds of effects that the user forbids altogether.
        self.forbidden_kinds: frozenset[str] = frozenset()
        self.written = b""
        # The same without what is only vetted: that never asks for what opens a door.
        self.trusted_only = b""
        self.known: set[bytes] = set()
        self.asked: set[bytes] = set()
        self._asked_tools: dict[str, bool] = {}
        self._asked_kinds: dict[str, bool] = {}
        self._addresses: AddressIndex | None = None

    @property
    def addresses(self) -> AddressIndex:
        """The hosts and mailboxes of all these texts by what they look like."""
        if self._addresses is None:
            self._addresses = AddressIndex(self.written)
        return self._addresses

    def add(self, data: bytes, *, asks: bool, vetted: bool = False) -> None:
        """Take in a text; with `asks` it is the user's own, with `vetted` one that a person has vouched for."""
        prepared = prepare(data)
        listed = split_words(prepared)
        self.written += prepared + b"\n"
        self._addresses = None
        if not vetted:
            self.trusted_only += prepared + b"\n"
        self.folded += b" ".join(listed) + b" "
        self.known.update(listed)
        if asks:
            self.asked_folded += b" ".join(listed) + b" "
            for word in listed:
                self.asked.update(_stems(word))
            text = data.decode("utf-8", "replace")
            self.wishes += wishes_in(text)
            self.forbidden_kinds = forbidden_after(text, self.forbidden_kinds)
            self._asked_tools.clear()
            self._asked_kinds.clear()

    def asks_for_kind(self, kind: str) -> bool:
        """Return whether the user asks for this kind of effect, by the words of its row."""
        answer = self._asked_kinds.get(kind)
        if answer is None:
            answer = self._asked_kinds[kind] = is_asked_by(kind, self.wishes)
        return answer

    def asks_for_tool(self, tool: str) -> bool:
        """Return whether what the user asked for names what this tool does, verb and object."""
        answer = self._asked_tools.get(tool)
        if answer is None:
            if len(self._asked_tools) >= MAX_PIECES:
                self._asked_tools.clear()
            verbs, objects = _intent_in_bytes(tool)
            answer = not verbs.isdisjoint(self.asked) and (not objects or not objects.isdisjoint(self.asked))
            self._asked_tools[tool] = answer
        return answer

    def contains_value(self, candidate: Candidate, budget: WorkBudget) -> bool:
        """Return whether the user or a trusted text says this: an address as written, other values word by word.

        Words in another order count only when the user used them all and the value is not a path or a command: a
        long system prompt contains most words there are.
        """
        budget.take_pass(len(self.written))
        if candidate.is_address:
            return self.contains_address(candidate.piece, budget)
        if candidate.is_in(self.folded):
            return True
        if len(candidate.words) < 2 or sink_from_argument(candidate.argument) in ("path", "command"):
            return False
        return self.says_all(candidate.words)

    def says_all(self, words: Iterable[bytes]) -> bool:
        """Return whether the user says all of these words, in any order and with any ending."""
        return all(not self.asked.isdisjoint(_stems(word)) for word in words)

    def contains_request(self, text: str) -> bool:
        """Return whether these words stand together in what the user asked for."""
        words = split_words(prepare(text.encode("utf-8", "ignore")))
        return bool(words) and b" " + b" ".join(words) + b" " in self.asked_folded

    def names_owner_of(self, address: str) -> bool:
        """Return whether a trusted text has the domain, its `www.` or a mailbox of the owner of an address.

        A domain under which anyone can have a name does not count, nor a neighbour: `ours.platform.example` says
        nothing about `theirs.platform.example`.
        """
        found = _PLACE.fullmatch(address.lower().encode("utf-8", "ignore"))
        if found is None:
            return False
        host = found[1] or found[2]
        domain = domain_of(host)
        if len(domain) < 5 or is_open_to_all(domain):
            return False
        # Any of an owner's hosts names the domain, and only the domain names another host.
        start = rb"(?<![a-z0-9-])" if host == domain else rb"(?<![a-z0-9.-])(?:www\.)?"
        written = start + re.escape(domain) + rb"(?![a-z0-9_%+@-]|\.[a-z0-9])"
        return re.search(written, self.written) is not None

    def contains_address(self, address: bytes, budget: WorkBudget, *, trusted_only: bool = False) -> bool:
        """Return whether a trusted text writes this address, and not one that is longer.

        With `trusted_only`, a text that is only vetted does not count.
        """
        # A user who wrote `mira@lind.example.org` did not mean `ra@lind.example`.
        written = self.trusted_only if trusted_only else self.written
        at = written.find(address)
        while at >= 0 and budget.take():
            before, after = written[at - 1 : at], written[at + len(address) : at + len(address) + 3]
            is_start = not _IN_ADDRESS.match(before) or _LOGIN.search(written[max(0, at - _LONGEST_HOST) : at])
            # Nor does who writes `/srv/builds` mean `/srv`.
            is_part = address[:1] in (b"/", b"~") and _GOES_DOWN.match(after)
            if is_start and not is_part and not _GOES_ON.match(after):
                return True
            at = written.find(address, at + 1)
        return False


def _stems(word: bytes) -> tuple[bytes, ...]:
    for ending in (b"ing", b"ed", b"es", b"s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            stem = word[: -len(ending)]
            return (word, stem, stem + b"e")
    return (word,)


@lru_cache(maxsize=4096)
def _intent_in_bytes(tool: str) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Return a tool's verbs and objects."""
    intent = tool_intent(tool)
    return frozenset(verb.encode() for verb in intent.verbs), frozenset(thing.encode() for thing in intent.objects)


# The verbs with which a text orders a request, whichever tool makes it.
_REQUEST_VERBS = _intent_in_bytes("web_fetch")[0] | {b"curl", b"get", b"wget"}


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


class _Traced:
    """What a look-up has found so far; `driven` are the origins that have a signal."""

    __slots__ = ("driven", "origins", "related", "signals")

    def __init__(self) -> None:
        self.driven: list[Origin] = []
        self.origins: list[Origin] = []
        self.signals: dict[tuple[str, str], Finding] = {}
        self.related: list[RelatedPassage] = []

    def add(self, signal: str, origin: Origin, driven_blocks: set[str]) -> None:
        """Add an origin; `driven_blocks` are the blocks of which this value has an origin with a signal already."""
        if not signal:
            self.origins.append(origin)
            return
        # Another reading of the same block says nothing new.
        if origin.block not in driven_blocks:
            self.driven.append(origin)
        driven_blocks.add(origin.block)
        self.signals.setdefault((signal, origin.argument), _signal_finding(signal, origin))


class OriginLookup:
    """One call's look-up over the recent untrusted blocks."""

    __slots__ = (
        "_delegated",
        "_lowered",
        "_meant",
        "_only_requests",
        "budget",
        "is_asked_for",
        "objects",
        "tool",
        "trusted_text",
        "values",
        "verbs",
    )

    def __init__(
        self,
        tool: str,
        leaves: Sequence[Leaf],
        trusted_text: TrustedText,
        delegated: frozenset[str] = frozenset(),
        *,
        meant: frozenset[str] = frozenset(),
        only_requests: bool = False,
    ) -> None:
        """`delegated` are the blocks whose orders the user told the agent to follow: they give no signal.

        `meant` are values that the user means, however untrusted text names them: they give none either.
        With `only_requests` the call does no more than follow a link: an order about something else is none for it,
        and an order to follow the link is one, whichever tool does it.
        """
        self._delegated = delegated
        self._meant = meant
        self._only_requests = only_requests
        self.tool = tool
        self.verbs, self.objects = _intent_in_bytes(tool)
        # Whether the user asked for what this tool does.
        self.is_asked_for = trusted_text.asks_for_tool(tool)
        self.budget = WorkBudget(0)
        self._lowered: tuple[Leaf | None, str] = (None, "")
        self.trusted_text = trusted_text
        self.values = prepare_values(leaves)

    def trace(
        self,
        readings: Sequence[IndexedReading],
        untrusted_words: set[bytes],
        value_places: ValuePlacesCache,
        tool_orders: dict[str, ToolOrders],
    ) -> OriginTrace:
        """Look every piece up in the given readings, oldest first.

        `value_places` remembers, per value, which blocks hold it, and `tool_orders`, per tool, the orders that name it,
        so that each block is read for either once.
        """
        self.budget = budget = WorkBudget(compared_size(self.values, readings))
        wanted, capped = find_candidates(self.values, untrusted_words)
        remembered = self._orders_for_tool(readings, tool_orders)
        if not wanted and remembered is None and not capped:
            return NOTHING_TRACED
        traced = _Traced()
        for candidate in wanted:
            if budget.is_spent:
                break
            if holding := value_places.find_places(candidate, readings, budget):
                self._trace_candidate(candidate, holding, traced)
        if remembered is not None and not budget.is_spent:
            self._add_tool_orders(readings, untrusted_words, remembered, traced)
        return OriginTrace(
            tuple((traced.driven + traced.origins)[:MAX_ORIGINS]),
            tuple(traced.signals.values()),
            tuple(traced.related),
            capped or budget.is_spent,
        )

    def _trace_candidate(self, candidate: Candidate, holding: list[ValuePlaces], traced: _Traced) -> None:
        """Add an origin for each block that holds a value, and a signal where an order names the value."""
        budget = self.budget
        known = self.trusted_text.contains_value(candidate, budget)
        is_distinctive, text, argument = candidate.is_distinctive, self._text_of(candidate), candidate.argument
        exact, shown, sink = text.encode("utf-8", "ignore"), text[:_MAX_SHOWN], sink_from_argument(argument)
        is_related = bool(sink) and not known and candidate.leaf.text not in self._meant
        reach = len(candidate.needle) + _PASSAGE
        seen_blocks: set[str] = set()
        driven_blocks: set[str] = set()
        for held in takewhile(lambda _: budget.take(_ORIGIN_STEPS), holding):
            reading, at = held.reading, held.places[0]
            signal, order = ("", None) if known else self._signal_in_block(candidate, held, sink)
            if order is None and (not is_distinctive or reading.block in seen_blocks):
                continue
            seen_blocks.add(reading.block)
            if signal or len(traced.origins) < MAX_ORIGINS:
                span = held.find_span(candidate, exact, order, budget)
                traced.add(signal, _build_origin(candidate, shown, held, order, span, sink, known=known), driven_blocks)
            if is_related and len(traced.related) < MAX_PIECES:
                traced.related.append((reading, at - _PASSAGE if at > _PASSAGE else 0, at + reach))

    def _signal_in_block(self, candidate: Candidate, held: ValuePlaces, sink: str) -> tuple[str, Order | None]:
        """Return what one block makes of a value that no trusted text has, and the sentence that orders it."""
        if held.reading.block in self._delegated:
            return "", None
        if candidate.leaf.text in self._meant:
            return "", None
        is_bare_signal = candidate.is_distinctive and sink in _RECIPIENT_SINKS and not self.is_asked_for
        if not is_bare_signal and held.has_no_orders(self.budget):
            return "", None
        is_addressed = sink in _ADDRESS_SINKS or candidate.is_address
        return self._find_signal(candidate, held, sink, is_addressed=is_addressed)

    def _text_of(self, candidate: Candidate) -> str:
        """Return a piece as it is written in the argument."""
        leaf = candidate.leaf
        if self._lowered[0] is not leaf:
            # The pieces of one value come one after another, and the value may be long.
            self._lowered = (leaf, leaf.text.lower())
        self.budget.take_pass(len(leaf.text))
        written = candidate.piece.decode("utf-8", "replace")
        at = self._lowered[1].find(written)
        return leaf.text[at : at + len(written)] if at >= 0 else written

    def _find_signal(
        self, candidate: Candidate, held: ValuePlaces, sink: str, *, is_addressed: bool
    ) -> tuple[str, Order | None]:
        """Return the strongest thing that makes this value look ordered, and the sentence that orders it."""
        weaker: tuple[str, Order | None] = ("", None)
        for order, is_inside in held.find_orders(candidate, self.budget):
            signal = self._signal_in_order(candidate, order, is_inside=is_inside, is_addressed=is_addressed)
            if signal == "origin:value-in-order":
                return signal, order
            if signal:
                weaker = (signal, order)
        if not weaker[0] and candidate.is_distinctive:
            weaker = (self._signal_without_order(candidate, held, sink), None)
        return weaker

    def _signal_in_order(self, candidate: Candidate, order: Order, *, is_inside: bool, is_addressed: bool) -> str:
        """Return what one order in or beside which a value stands makes of the value; empty for nothing."""
        around = order.words if is_inside else frozenset(order.reach.split())
        has_verb = not self.verbs.isdisjoint(order.words)
        has_verb_around = has_verb or not self.verbs.isdisjoint(around)
        has_thing_around = not self.objects.isdisjoint(around)
        if candidate.is_number:
            is_named = _names_argument(candidate, around)
            is_meant = has_verb_around and (has_thing_around or is_named)
            return "origin:number-in-order" if is_meant and (is_inside or (has_verb and is_named)) else ""
        if candidate.is_plain_word:
            return _signal_of_word(order, has_verb=has_verb, is_addressed=is_addressed) if is_inside else ""
        if self.is_asked_for and not (has_verb_around or has_thing_around or is_addressed):
            return ""
        if self._is_about_something_else(candidate, order):
            return ""
        if is_inside:
            return "origin:value-in-order"
        points_here = (order.points_away or has_verb) and (is_addressed or _DISTINCTIVE.search(candidate.piece))
        return "origin:value-near-order" if points_here else ""

    def _is_about_something_else(self, candidate: Candidate, order: Order) -> bool:
        """Return whether a call only follows a link, and the order around the link asks for no visit."""
        if not self._only_requests:
            return False
        said = order.words.difference(candidate.words)
        return self.verbs.isdisjoint(said) and _REQUEST_VERBS.isdisjoint(said)

    def _signal_without_order(self, candidate: Candidate, held: ValuePlaces, sink: str) -> str:
        """Return what makes a value suspicious that stands near no order; empty for nothing."""
        if sink in _RECIPIENT_SINKS and not self.is_asked_for:
            index = held.reading.word_index
            places = takewhile(lambda _: self.budget.take(SENTENCE_STEPS), held.places)
            if len(held.places) > _MAX_MENTIONS or any(index.is_in_prose(at, candidate) for at in places):
                return "origin:unasked-recipient"
        return ""

    def _orders_for_tool(
        self, readings: Sequence[IndexedReading], tool_orders: dict[str, ToolOrders]
    ) -> ToolOrders | None:
        """Return the orders that name this tool, where a text could hold one and the user asked for no such thing."""
        verbs, objects = self.verbs, self.objects
        if self.is_asked_for or not verbs or not objects or self._runs_its_argument():
            return None
        remembered = tool_orders.get(self.tool)
        if remembered is None:
            remembered = tool_orders[self.tool] = ToolOrders()
        return remembered if remembered.may_exist(readings, verbs, objects) else None

    def _runs_its_argument(self) -> bool:
        """Return whether the tool runs what it is given: then its name says nothing, and its arguments are compared."""
        return any(value.data and sink_from_argument(value.leaf.argument) == "command" for value in self.values)

    def _add_tool_orders(
        self,
        readings: Sequence[IndexedReading],
        untrusted_words: set[bytes],
        remembered: ToolOrders,
        traced: _Traced,
    ) -> None:
        """Add orders that name this tool's verb and object, when the goal does not and no argument tells otherwise."""
        # With arguments of its own a call is told apart by them; the bare order counts where there is little else.
        unasked = self._unasked_words()
        if len(unasked) > _FEW_WORDS or (unasked and unasked.isdisjoint(untrusted_words)):
            return
        first = readings[0].position if readings else 0
        related: set[tuple[str, WordIndex]] = set()
        for reading, order in remembered.read_pending(self.verbs, self.objects, self.budget):
            if reading.position < first or (unasked and unasked.isdisjoint(order.words)):
                continue
            if reading.block in self._delegated:
                continue
            part = reading.word_index.part
            # Blocks with the same content share an index.
            if (reading.block, reading.word_index) not in related:
                related.add((reading.block, reading.word_index))
                traced.related.append((reading, 0, len(part.data)))
            sentence = part.data[order.start : order.end].decode("utf-8", "replace").strip()
            start, end = character_span(part, order.start, order.end)
            traced.signals.setdefault(
                ("origin:tool-in-order", reading.block),
                Finding("origin:tool-in-order", reading.block, start, end, part.how, sentence[:_MAX_EXCERPT]),
            )

    def _unasked_words(self) -> set[bytes]:
        """Return the words of this call's telling values that the user did not write; prose tells nothing.

        More than a few are as good as all of them.
        """
        known = self.trusted_text.known
        unasked: set[bytes] = set()
        for _, data, listed, _ in self.values:
            if data.count(b" ", 0, MAX_LINE) >= _FEW_WORDS and not _DISTINCTIVE.search(data, 0, MAX_LINE):
                continue
            for word in listed if len(data) <= MAX_LINE else split_words(data[:MAX_LINE]):
                if len(word) > 2 and word not in known and word not in STOP_WORDS:
                    unasked.add(word)
                    if len(unasked) > _FEW_WORDS:
                        return unasked
        return unasked


def _signal_of_word(order: Order, *, has_verb: bool, is_addressed: bool) -> str:
    """Return what an order makes of a plain word inside it.

    In an order in another language the tool's English verb cannot stand; a name that the call goes to can.
    """
    is_ordered = has_verb or (is_addressed and _ENGLISH.isdisjoint(order.words))
    return "origin:word-in-order" if is_ordered else ""


def compared_size(values: Sequence[ComparedValue], readings: Sequence[IndexedReading]) -> int:
    """Return how many bytes a look-up compares: those of the values and of the texts."""
    return sum([len(value.data) for value in values]) + sum([len(reading.word_index.prepared) for reading in readings])


def _names_argument(candidate: Candidate, words: frozenset[bytes]) -> bool:
    """Return whether a word of the argument's name stands among these."""
    return any(word.encode() in words for word in tool_words(candidate.argument.rpartition(".")[2]))


def _build_origin(
    candidate: Candidate,
    shown: str,
    held: ValuePlaces,
    order: Order | None,
    span: tuple[int, int, bool],
    sink: str,
    *,
    known: bool,
) -> Origin:
    """Return an origin; `shown` is as much of the value as is shown, `span` what `find_span` says of it."""
    reading, leaf = held.reading, candidate.leaf
    part = reading.word_index.part
    start, end, is_written = span
    how = leaf.how if part.how == "raw" else part.how
    if not is_written and how == "exact":
        how = "folded"
    sentence = ""
    if order is not None:
        sentence = part.data[order.start : order.end].decode("utf-8", "replace").strip()[:_MAX_SENTENCE]
    # As `Origin(…)`, without the detour by its keywords: a common word has dozens.
    parts = (leaf.argument, shown, reading.block, reading.source, start, end, how, sentence, sink, known)
    return tuple.__new__(Origin, parts)


def _signal_finding(signal: str, origin: Origin) -> Finding:
    return Finding(signal, origin.argument, origin.start, origin.end, origin.how, origin.value)
