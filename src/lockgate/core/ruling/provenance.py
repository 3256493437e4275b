"""Who names a value of a call: the user, the project, untrusted text, or no one. One look-up with one answer.

A value that stands in the goal is the user's own. A value that stands only in untrusted text may still be ordinary:
agents copy addresses, ids and names from what they read all day. What it says depends on the place: a field of a
record, a sentence, or an order, which is a sentence that gives orders to its reader.

All comparisons are made on folded words (lower case, no punctuation, quoting or wrapping), so that a value survives
being re-wrapped, quoted, escaped or dumped as YAML. Decoded readings of the texts count as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.context import Context
from lockgate.core.ruling.effects.effect import KINDS, Effect
from lockgate.core.ruling.effects.tool_arguments import ROLES, is_content, leaf_name
from lockgate.core.ruling.goal import COMMON, SMALL_WORDS, hands_over, intent_of, is_word_for_kind
from lockgate.core.ruling.index import STOP_WORDS, Candidate, IndexedReading, Places, Span, find_candidates
from lockgate.core.ruling.targets import BYTE_PATTERNS as _B
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import text_behind_accounts
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.tables import read_table
from lockgate.core.text.imperatives import NOUN_VERBS, PLAIN_VERBS, Order, prepare, split_words
from lockgate.core.vocabulary import Finding, Origin, Severity

GROUPS = {
    name: frozenset(kinds.split())
    for name, kinds in read_table(__package__, "decide.tbl", "groups", ("group", "kinds"))
}
MAX_ORIGINS = 64
# A call with more words of its own than this is judged by them, not by its tool's name alone; fewer words around a
# value than this are a label, not a sentence.
_FEW_WORDS = 4
# Steps for looking at one text that holds a value, and at what stands around one place.
_ORIGIN_STEPS, _PLACE_STEPS = 20, 2
_MAX_SHOWN, _MAX_SENTENCE, _MAX_EXCERPT, _MAX_LINE = 120, 240, 160, 160
_MOST_LOOKED_UP, _SHORTEST_DICTATED, _SHORTEST_WRITTEN = 4, 8, 24
_ADDRESS_SINKS = ("recipient", "url", "account")
# The verbs with which a text orders a request, whichever tool makes it.
_REQUEST_VERBS = intent_of("web_fetch")[0] | {b"curl", b"get", b"wget"}
# The strongest first. `owner` is a record of a person whom the user names, or the sender whom the user wants answered.
STRENGTH = ("order", "text", "record", "owner", "nowhere")
IN_ORDER, NEAR_ORDER = "origin:value-in-order", "origin:value-near-order"


class Trace(NamedTuple):
    """Who names a value, where untrusted text does, and whether a sentence there gives it."""

    named_by: str
    origin: Origin | None = None
    is_told: bool = False


class Lookup:
    """One call's look-up over the recent untrusted blocks.

    `delegated` are the blocks whose orders the user told the agent to follow: they give no signal. With `only_requests`
    the call does no more than follow a link: an order about something else is none for it, and an order to follow the
    link is one, whichever tool does it.
    """

    def __init__(
        self,
        context: Context,
        tool: str,
        first: int = 0,
        delegated: frozenset[str] = frozenset(),
        leaves: Sequence[Leaf] = (),
        *,
        only_requests: bool = False,
    ) -> None:
        self._context, self._goal, self._index = context, context.goal, context.index
        self._first, self._delegated, self._only_requests = first, delegated, only_requests
        self._verbs, self._objects = intent_of(tool)
        self._is_asked_for = context.goal.asks_for_tool(tool)
        self.budget = WorkBudget(context.index.size + sum([len(leaf.text) for leaf in leaves]))
        # Every place where a value stands, those in orders first.
        self._ordered: list[Origin] = []
        self._origins: list[Origin] = []
        self.signals: dict[tuple[str, str], Finding] = {}
        self._traces: dict[tuple[Leaf, str], Trace] = {}
        # The texts that were looked for as the target of an effect.
        self._aimed = set[str]()

    @property
    def origins(self) -> tuple[Origin, ...]:
        return tuple(dict.fromkeys(self._ordered + self._origins))[:MAX_ORIGINS]

    def trace(self, leaf: Leaf, effect: Effect | None = None, *, addresses_only: bool = False) -> Trace:
        """Return who names a value, or the target of an effect, in untrusted text; nowhere, where the user does."""
        key = leaf, "" if effect is None else effect.kind
        if key not in self._traces:
            best = Trace("nowhere")
            # Most prose has no address in it.
            is_sink = sink_from_argument(leaf.argument) in _ADDRESS_SINKS
            is_sought = not addresses_only or is_sink or _P["may be aimed"].search(leaf.text)
            for candidate in find_candidates(leaf, self._index.words) if is_sought else ():
                is_aimed = _is_addressed(candidate) or candidate.is_number
                if not self.budget.is_spent and (is_aimed or not addresses_only):
                    best = self._trace_candidate(candidate, effect, best)
            self._traces[key] = best
            if key[1]:
                self._aimed.add(leaf.text)
        return self._traces[key]

    def has_traced(self, text: str) -> bool:
        """Return whether a value was looked for as the target of an effect."""
        return text in self._aimed

    def _trace_candidate(self, candidate: Candidate, effect: Effect | None, best: Trace) -> Trace:
        """Return the stronger of a trace and what the texts say of one piece of a value."""
        handed = self._delegated if effect is None or effect.severity < Severity.OPENS_A_DOOR else ()
        known = self._is_known(candidate, effect)
        seen: set[str] = set()
        for held in self._index.find(candidate, self.budget, self._first):
            block = held.reading.block
            if not self.budget.take(_ORIGIN_STEPS) or (not seen and self._is_echo(candidate, block)):
                continue
            named_by, signal, order = "nowhere", "", None
            if not known and block not in handed:
                named_by, signal, order = self._read_place(held, effect)
            if not signal and named_by == "nowhere" and (block in seen or not candidate.is_distinctive):
                continue
            seen.add(block)
            origin = self._origin(held, order, effect, known=known)
            self._keep(origin, signal)
            if STRENGTH.index(named_by) < STRENGTH.index(best.named_by):
                is_told = effect is not None and self._is_in_sentence(held)
                best = Trace(named_by, origin, is_told)
        return best

    def _keep(self, origin: Origin, signal: str) -> None:
        (self._ordered if signal else self._origins).append(origin)
        if signal:
            rule = Finding(signal, origin.argument, origin.start, origin.end, origin.how, origin.value)
            self.signals.setdefault((signal, origin.argument), rule)

    def _is_known(self, candidate: Candidate, effect: Effect | None) -> bool:
        """Return whether the user or a trusted text says a value; a target only as plain words, a door's the user."""
        if effect is not None and effect.severity is Severity.OPENS_A_DOOR:
            said = "" if candidate.is_address else candidate.leaf.text
            # `crontab` is what every order about a job says.
            return self._goal.contains_request(said) or is_word_for_kind(effect.kind, said)
        is_word = effect is None or not re.search(rb"[./@]", candidate.piece)
        return is_word and self._goal.contains_value(candidate, self.budget)

    def _is_echo(self, candidate: Candidate, block: str) -> bool:
        """Return whether a text only repeats what the agent's own call had carried."""
        asked = self._context.produced_by.get(block, "")
        return bool(asked) and candidate.piece in prepare(asked.encode("utf-8", "ignore"))

    # --- one place

    def _read_place(self, held: Places, effect: Effect | None) -> tuple[str, str, Order | None]:
        """Return what a place makes of a value, the signal, and the order."""
        named_by, is_final = self._read_record(held, effect) if effect is not None else ("nowhere", False)
        signal, order = ("", None) if is_final else self._signal_in_block(held)
        return ("order" if signal else named_by), signal, order

    def _read_record(self, held: Places, effect: Effect) -> tuple[str, bool]:
        """Return whether a target is in an order, a sentence or a record, and whether its orders need not be read."""
        if effect.severity is Severity.OPENS_A_DOOR:
            return self._read_place_of_door(held, effect), False
        carried = self._context.carried.get(held.reading.block)
        if carried is not None and carried.is_firm and carried.is_ordered:
            return "order", True
        if not _is_telling(held, effect):
            return "nowhere", False
        return self._read_told(held, effect)

    def _read_told(self, held: Places, effect: Effect) -> tuple[str, bool]:
        is_given = effect.kind in GROUPS["given by owners"]
        if len(held.spans) > _MANY_PLACES and KINDS[effect.kind].by_target and not is_given:
            # The text is enough of a reason: a log with thousands of lines about a host need not be read for orders.
            return "record", True
        is_ordered = held.is_ordered(self.budget) or (is_form_field(effect) and held.is_beside_cue)
        if (is_given or is_form_field(effect)) and self._is_owner_named(held, effect, is_ordered=is_ordered):
            return "owner", True
        return ("text" if is_ordered or self._is_in_sentence(held) else "record"), False

    def _read_place_of_door(self, held: Places, effect: Effect) -> str:
        if held.is_ordered(self.budget):
            return "order"
        may_be_told = held.candidate.is_distinctive and effect.kind not in GROUPS["file"]
        is_told = may_be_told and held.reading.block not in self._context.find_delegated()
        return "text" if is_told and self._is_in_sentence(held) else "nowhere"

    def _signal_in_block(self, held: Places) -> tuple[str, Order | None]:
        """Return the strongest thing that makes this value look ordered, and the sentence that orders it."""
        candidate = held.candidate
        weaker: tuple[str, Order | None] = ("", None)
        if candidate.is_number and len(held.spans) > _MANY_PLACES:
            return weaker
        for order, is_inside in held.find_orders(self.budget):
            signal = self._signal_in_order(candidate, order, is_inside=is_inside)
            if signal == IN_ORDER:
                return signal, order
            if signal:
                weaker = (signal, order)
        is_aimed = candidate.is_distinctive and sink_from_argument(candidate.leaf.argument) in ("recipient", "account")
        if not weaker[0] and is_aimed and not self._is_asked_for and self._is_in_sentence(held):
            return "origin:unasked-recipient", None
        return weaker

    def _signal_in_order(self, candidate: Candidate, order: Order, *, is_inside: bool) -> str:
        """Return what one order in or beside which a value stands makes of the value; empty for nothing."""
        has_verb, is_addressed = not self._verbs.isdisjoint(order.words), _is_addressed(candidate)
        around = order.words if is_inside else order.words.union(order.reach.split())
        if candidate.is_number:
            is_meant = has_verb and not around.isdisjoint(self._words_for(candidate, is_inside=is_inside))
            return "origin:number-in-order" if is_meant else ""
        if candidate.is_plain_word:
            # In an order in another language the tool's English verb cannot stand; a name that the call goes to can.
            return "origin:word-in-order" if is_inside and (has_verb or is_addressed) else ""
        if not self._is_about_call(candidate, order, around, is_addressed=is_addressed):
            return ""
        is_told = (is_addressed or _B["distinctive"].search(candidate.piece)) and (order.points_away or has_verb)
        return IN_ORDER if is_inside else NEAR_ORDER if is_told else ""

    def _words_for(self, candidate: Candidate, *, is_inside: bool) -> frozenset[bytes]:
        """Return the words by which an order means a number, beside the tool's verb: its object or the argument's."""
        named = frozenset(word.encode() for word in argument_words(candidate.leaf.argument))
        return named | self._objects if is_inside else named

    def _is_about_call(
        self, candidate: Candidate, order: Order, around: frozenset[bytes], *, is_addressed: bool
    ) -> bool:
        """Return whether an order may be about this call.

        Where the user asked for the act, only one that names it or an address is; for a call that only follows a link,
        only one to follow links.
        """
        if self._is_asked_for and not is_addressed and (self._verbs | self._objects).isdisjoint(around):
            return False
        verbs = self._verbs | _REQUEST_VERBS
        return not self._only_requests or not verbs.isdisjoint(order.words.difference(candidate.words))

    def _is_in_sentence(self, held: Places) -> bool:
        """Return whether a text gives a value in a sentence, and not only in fields of records."""
        places = takewhile(lambda _: self.budget.take(_PLACE_STEPS), held.spans)
        return any(_is_in_prose(held.reading.text.prepared, place) for place in places)

    def _is_owner_named(self, held: Places, effect: Effect, *, is_ordered: bool) -> bool:
        """Return whether a record gives the address of a person whom the user names, or the user wants it answered.

        Money: the goal has to write the owner's name as a name, and the record is the owner's own.
        """
        goal, pays = self._goal, effect.kind == "pays"
        text = held.reading.text.prepared
        places = held.spans[:_MAX_PLACES]
        may_be_answered = goal.asks_to_answer or (effect.kind == "sends-message" and not is_ordered)
        if not pays and may_be_answered and any(_is_sender(text, place) for place in places):
            return True
        is_address = _B["has address"].search(held.candidate.piece) is not None
        if is_ordered or (is_address and any(_is_in_prose(text, place) for place in places)):
            # Anyone can write a sentence with a name that the user knows, and an address of his own.
            return False
        # A word that every goal has names no one.
        return not _find_owners(held, in_one_record=pays).isdisjoint(goal.proper_names if pays else goal.asked - COMMON)

    def _origin(
        self, held: Places, order: Order | None = None, effect: Effect | None = None, *, known: bool = False
    ) -> Origin:
        """Return the origin of a value, as the call writes it."""
        leaf, reading, sink = held.candidate.leaf, held.reading, "target"
        exact = leaf.text
        if effect is None:
            sink, written = sink_from_argument(leaf.argument), held.candidate.piece.decode("utf-8", "replace")
            at = leaf.text.lower().find(written)
            exact = leaf.text[at : at + len(written)] if at >= 0 else written
        start, end, is_written = held.find_span(exact.encode("utf-8", "ignore"), order, self.budget)
        how = leaf.how if reading.text.part.how == "raw" else reading.text.part.how
        how = "folded" if how == "exact" and not is_written else how
        sentence = "" if order is None else _sentence_of(reading, order)
        place = reading.block, reading.source, start, end, how
        return Origin(leaf.argument, exact[:_MAX_SHOWN], *place, sentence, sink, known)

    # --- orders that name no value

    def find_search(self, effect: Effect, block: str) -> Origin | None:
        """Return the order in an earlier text that named what the agent looked for when it got this block.

        "Please buy a pencil set as well": the order names no article number, and the list that the agent then asks for
        gives it. Where the user hands the decision to a text, an order in one is what the user wants.
        """
        if effect.kind not in GROUPS["looked up"] or hands_over(self._goal.asked_text):
            return None
        for sought in self._context.looked_for.get(block, ()):
            listed = split_words(prepare(sought.encode("utf-8", "ignore")))
            words = {word for word in listed if len(word) > 3 and word not in self._goal.known} - STOP_WORDS
            # By block, the places before where the words stand in or beside an order, by word.
            origins: defaultdict[str, dict[bytes, Origin]] = defaultdict(dict)
            for word in sorted(words) if len(words) <= _MOST_LOOKED_UP else ():
                for held, order in self._find_ordered(Leaf(effect.argument, word.decode("utf-8", "ignore")), block):
                    origins[held.reading.block].setdefault(word, self._origin(held, order, effect))
            for by_word in origins.values():
                if len(by_word) == len(words):
                    return next(iter(by_word.values()))
        return None

    def _find_ordered(self, leaf: Leaf, block: str) -> Iterator[tuple[Places, Order]]:
        """Yield the texts before a block that have a value in or beside an order, with that order."""
        for candidate in find_candidates(leaf, self._index.words)[:1]:
            for held in self._index.find(candidate, self.budget, self._first):
                is_before = held.reading.position < self._context.positions[block]
                if is_before and held.reading.block not in self._delegated:
                    for order, _ in held.find_orders(self.budget):
                        yield held, order
                        break

    def find_dictated(self, leaves: Sequence[Leaf], *, written: bool = False) -> Origin | None:
        """Return where untrusted text has a whole command word for word, and no trusted or vetted text does.

        With `written` what a file is to hold counts as well. A text that the user handed over to is free to give
        commands, and so is a file that the goal names.
        """
        for leaf in leaves:
            line = _fold_line(leaf, written=written)
            # Most commands have a word that no text has; scripts without blanks may be glued to the first and the last.
            if not line or not self._index.words.issuperset(split_words(line)[1:-1]) or line in self._goal.written:
                continue
            alone = re.compile(rb"(?<![a-z0-9_])%b(?![a-z0-9_])" % re.escape(line))
            for reading in self._index.readings:
                found = alone.search(reading.text.prepared) if reading.position >= self._first else None
                if found is not None and not self._is_handed(reading.block):
                    how = "exact" if reading.text.part.how == "raw" else reading.text.part.how
                    place = reading.block, reading.source, *reading.text.span_in_block(*found.span(), self.budget), how
                    return Origin(leaf.argument, leaf.text.strip()[:_MAX_SHOWN], *place, sink="command")
        return None

    def _is_handed(self, block: str) -> bool:
        asked = self._context.produced_by.get(block, "")
        return block in self._context.find_delegated() or any(map(self._goal.names, asked.split()))

    def find_tool_orders(self, leaves: Sequence[Leaf]) -> list[Finding]:
        """Return orders that name this tool's verb and object, when the goal does not and no argument tells otherwise.

        The name of a tool that runs its argument says nothing: the argument is compared.
        """
        words = self._index.words
        if self._is_asked_for or any(map(_is_command, leaves)) or self._verbs.isdisjoint(words):
            return []
        # With arguments of its own a call is told apart by them; the bare order counts where there is little else.
        unasked = self._unasked_words(leaves)
        if len(unasked) > _FEW_WORDS or (unasked and unasked.isdisjoint(words)):
            return []
        findings: dict[str, Finding] = {}
        for reading in self._index.readings:
            if reading.position >= self._first and reading.block not in self._delegated | findings.keys():
                orders = reading.text.find_orders_by_verb(self._verbs, self._objects, self.budget)
                for order in orders:
                    if not unasked or not unasked.isdisjoint(order.words):
                        findings[reading.block] = self._finding_from_order(reading, order)
                        break
        return list(findings.values())

    def _finding_from_order(self, reading: IndexedReading, order: Order) -> Finding:
        span = reading.text.span_in_block(order.start, order.end, self.budget)
        sentence, how = _sentence_of(reading, order)[:_MAX_EXCERPT], reading.text.part.how
        return Finding("origin:tool-in-order", reading.block, *span, how, sentence)

    def _unasked_words(self, leaves: Sequence[Leaf]) -> set[bytes]:
        """Return the words of this call's telling values that the user did not write; prose tells nothing.

        More than a few are as good as all of them.
        """
        unasked: set[bytes] = set()
        for leaf in leaves:
            line = prepare(leaf.text[:_MAX_LINE].encode("utf-8", "ignore"))
            if line.count(b" ") < _FEW_WORDS or _B["distinctive"].search(line):
                unasked |= {word for word in split_words(line) if len(word) > 2} - self._goal.known - STOP_WORDS
            if len(unasked) > _FEW_WORDS:
                break
        return unasked


def _is_command(leaf: Leaf) -> bool:
    return bool(leaf.text) and sink_from_argument(leaf.argument) == "command"


def _is_addressed(candidate: Candidate) -> bool:
    """Return whether a value is where the call goes to."""
    return candidate.is_address or sink_from_argument(candidate.leaf.argument) in _ADDRESS_SINKS


def _fold_line(leaf: Leaf, *, written: bool) -> bytes:
    """Return what a text could dictate of a leaf, folded; empty for what stands in texts by chance."""
    is_command = sink_from_argument(leaf.argument) == "command"
    if not is_command and not (written and is_content(leaf) and leaf_name(leaf) not in ROLES["old text"]):
        return b""
    line = prepare(leaf.text.strip().encode("utf-8", "ignore"))
    is_one_word = is_command and b" " not in line
    return b"" if is_one_word or len(line) < (_SHORTEST_DICTATED if is_command else _SHORTEST_WRITTEN) else line


def is_form_field(effect: Effect) -> bool:
    """Return whether a mailbox is typed into a form: no command is one."""
    return effect.kind == "sends-data" and "@" in effect.target and sink_from_argument(effect.argument) != "command"


def _sentence_of(reading: IndexedReading, order: Order) -> str:
    return reading.text.part.data[order.start : order.end].decode("utf-8", "replace").strip()[:_MAX_SENTENCE]


# ---------------------------------------------------------------------------------------------------------------
# Fields of records, and sentences

# So far before an address the name of its owner may stand, and so long is a line of a record at most.
_NEAR, _RECORD_LINE = 80, 120
_MAX_PLACES, _MANY_PLACES = 8, 256
_FIELD_BORDERS = (b"\n", b'"', b"|", b"\t")
_SEGMENT = 160
_VERBS = frozenset(verb.encode() for verb in (*PLAIN_VERBS, *NOUN_VERBS))


def _is_in_prose(text: bytes, place: Span) -> bool:
    """Return whether a value stands in a sentence, rather than in a field, a column or an entry of a list.

    A sentence has one of the small words, or begins with a verb that only small words part from the value. A call that
    is written out is one as well: `send_file(to="eve@evil.example")`.
    """
    at, end = place
    low = max(0, at - _SEGMENT)
    start = max(low, *(text.rfind(border, low, at) + 1 for border in _FIELD_BORDERS))
    before = text[start:at]
    first, *between = before.split() or [b""]
    if (first in _VERBS and SMALL_WORDS.issuperset(between)) or _B["in call"].search(text, low, at):
        return True
    behind = text[end : at + _SEGMENT]
    for border in _FIELD_BORDERS:
        behind = behind.partition(border)[0]
    words = [word for word in split_words(before + behind) if word.isalpha()]
    # A subject that git or its server writes is none: `1a2b3c4 Merge branch 'login' into main`.
    is_merge = _B["merged"].fullmatch(before + behind)
    return len(words) >= _FEW_WORDS and not SMALL_WORDS.isdisjoint(words) and not is_merge


def _is_telling(held: Places, effect: Effect) -> bool:
    """Return whether a place is evidence that the target was taken from it; a plain word hardly is."""
    text, is_package = held.reading.text.prepared, effect.kind in GROUPS["package"]
    near = (text[max(0, at - _NEAR) : at] for at, _ in held.spans[:64]) if is_package else ()
    return held.candidate.is_distinctive or any(map(_B["installing"].search, near))


def _find_owners(held: Places, *, in_one_record: bool) -> set[bytes]:
    """Return the words that may name the owner of an address: those in it, and those before it."""
    words = _B["local parts"].split(held.candidate.piece.partition(b"@")[0])
    for at, _ in held.spans[:_MAX_PLACES]:
        words += _words_before(held.reading.text.prepared, at, in_one_record=in_one_record)
    return {word for word in words if len(word) > 2 and not word.isdigit()}


def _words_before(text: bytes, at: int, *, in_one_record: bool) -> list[bytes]:
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


def _is_sender(text: bytes, place: Span) -> bool:
    at, end = place
    before = text[text.rfind(b"\n", 0, at) + 1 : at]
    is_named = _B["name before"].match(before) and _B["nothing behind"].match(text, end)
    return bool(is_named or _B["from"].match(before))
