"""Where the pieces of a call came from, and whether an order in untrusted text asked for them.

A value that stands in the goal is the user's own. A value that stands only in untrusted text may still be ordinary:
agents copy addresses, ids and names from what they read all day. What is not ordinary is a value that stands in (or
beside) a sentence that gives orders, or a tool whose verb and object such a sentence names, when the goal asked for
neither. Those are the signals below; all of them escalate, none of them blocks.

All comparisons are made on folded words (lower case, no punctuation, quoting or wrapping), so that a value survives
being re-wrapped, quoted, escaped or dumped as YAML. Decoded readings of either side count as well.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from posixpath import normpath
from typing import NamedTuple

from lockgate.core.ruling.tool_risk import tool_intent, tool_words
from lockgate.core.text import imperatives as orders
from lockgate.core.text.imperatives import Order
from lockgate.core.text.scanner import ScannedPart, Scanner, character_span
from lockgate.core.vocabulary import Finding, Origin

# Signal id -> (what, why): the origin step's counterpart of the rule table.
SIGNALS: dict[str, tuple[str, str]] = {
    "origin:value-in-order": (
        "an argument's value stands in a sentence of an untrusted block that gives orders, and not in the goal",
        "a hijacked agent carries out what the text says, with the values the text names",
    ),
    "origin:value-near-order": (
        "an argument's value stands beside such a sentence, which points at it or asks for this very action",
        "the attacker names the value in one sentence and gives the order in the next",
    ),
    "origin:number-in-order": (
        "a short number stands in such a sentence together with the tool's verb and object",
        "numbers match everywhere, so one counts only with the action it belongs to",
    ),
    "origin:word-in-order": (
        "a single word or a date stands in such a sentence together with the tool's verb",
        "a name alone proves nothing; a name in an order for this action does",
    ),
    "origin:unasked-recipient": (
        "a recipient or account stands in a sentence of untrusted text; the goal asks for neither it nor the action",
        "whoever asked for a summary did not ask for a payment to somebody the text mentions, however it is worded",
    ),
    "origin:tool-named": (
        "the tool's exact name stands beside an argument's value in untrusted text",
        "a ready-made call in a text is an order in the agent's own language",
    ),
    "origin:tool-in-order": (
        "such a sentence names the tool's verb and object, and the goal asks for neither",
        "a tool without telling arguments is driven by the order alone",
    ),
}

# Pieces of a call that are looked up at most; a call with more has a finding for it.
MAX_PIECES = 1024
MAX_TOOL_ORDERS = 256
# Orders of one text that are read closely; a text with more that matter is itself a finding.
MAX_ORDERS = 2048
# Places of one value in one text that are looked at.
MAX_PLACES = 32_768
# Cues are looked for in pieces of this size, with room for a cue that starts in the piece before.
_CHUNK = 2048
_OVERLAP = 128
MAX_ORIGINS = 64
# Tools for which a text remembers whether it names them.
_MAX_NAMES = 64
# One byte is found in others by its number in a tenth of the time that it takes as text.
_AND, _AT, _COLON, _DOT, _EQUALS, _MARK, _NEWLINE, _PIPE, _SEMICOLON = b"&@:.=?\n|;"
_SLASH, _BACKSLASH, _QUOTE, _QUOTES = b"/\\'\""
_QUOTED_WITHIN = re.compile(rb"[a-z0-9@./:_-](?:[\"']+|\\)[a-z0-9@./:_-]")
_FEW_PLACES = 8
_MAX_VALUE = 400
_MAX_LINE = 160
# A call with more words of its own than this is judged by them, not by its tool's name alone.
_FEW_WORDS = 4
# Fewer words around a value than this are a label, not a sentence.
_SENTENCE = 4
# What stands within this many characters of a value is the same passage: a broad rule counts there.
_PASSAGE = 80

_STOP = frozenset(
    b"a an the and or but if then else of to in on at by for from with without into onto as is are was were be been "
    b"being this that these those it its i me my mine you your yours he she they them their we us our not no yes do "
    b"does did done have has had can could will would should shall may might must please kindly also just there here "
    b"so than too very all any each every some such only own same other more most out up down over under again once "
    b"about after before above below between during both few nor when where why how what which who whom because until "
    b"while new one two true false null none".split()
)
_CHUNKS = bytes(32 if chr(byte) in "\t\n\v\f\r \"'<>()[]{},;|`&" else byte for byte in range(256))
_SEGMENTS = bytes(10 if chr(byte) in ";|" else byte for byte in range(256))
_NUMBER = re.compile(rb"[\d.,:/ $%+-]*\Z")
_DATE = re.compile(rb"\d{4}-\d\d(?:-\d\d)?(?:[ t]\d\d:\d\d(?::\d\d)?)?z?\Z|\d\d?:\d\d\Z|\d{1,4}[a-z]{1,2}\Z")
_ADDRESS = re.compile(rb"[^\s@]{1,64}@[^\s@.]{1,63}\.|[a-z][a-z0-9+.-]{1,12}://|www\.")
# Names and phrases stand beside orders all the time; an id, an address or a path is hardly there by chance.
_DISTINCTIVE = re.compile(rb"[0-9@_/\\\\]")
_LONG_NUMBER = 8
_GROUPED = re.compile(rb"(?:[0-9][ .-]?){8}")
_DIGIT = b"0"
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
# Where anybody can have a page, or what documents use as a placeholder: such a domain alone says nothing.
_SHARED_DOMAINS = frozenset(
    b"amazonaws.com apple.com azure.com bitbucket.org cloudflare.com cloudfront.net docker.com docker.io example.com "
    b"example.net example.org facebook.com github.com github.io githubusercontent.com gitlab.com gitlab.io gmail.com "
    b"google.com googleapis.com huggingface.co linkedin.com live.com medium.com microsoft.com mozilla.org netlify.app "
    b"npmjs.com npmjs.org outlook.com pypi.org python.org pythonhosted.org readthedocs.io readthedocs.org "
    b"sourceforge.net stackoverflow.com twitter.com vercel.app wikipedia.org wordpress.com x.com yahoo.com "
    b"youtube.com".split()
)
_HOST = re.compile(rb"(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}")
_IN_ADDRESS = re.compile(rb"[a-z0-9._%+@-]")
_GOES_ON = re.compile(rb"[a-z0-9_%+@-]|\.[a-z0-9]")
_UNUSUAL = re.compile(rb".*[0-9]").match

_SINKS = {
    word: sink
    for sink, names in {
        "recipient": "to recipient recipients cc bcc email emails mail participant participants attendee attendees "
        "invitee invitees member members contact contacts phone channel guest guests payee",
        "url": "url urls uri link links href endpoint webhook host hostname domain domains website site page remote",
        "path": "path paths file files filename filepath dir directory folder dest destination source src target",
        "command": "command commands cmd script code query sql expression shell program statement args argv",
        "account": "account accounts iban wallet address beneficiary card bank",
    }.items()
    for word in names.split()
}


_ADDRESS_SINKS = ("recipient", "url", "account")
_RECIPIENT_SINKS = ("recipient", "account")


@lru_cache(maxsize=4096)
def sink_from_argument(argument: str) -> str:
    """What kind of place an argument is, by the last words of its name; empty when the name does not say."""
    for word in reversed(tool_words(re.sub(r"\[\d+\]", "", argument).rpartition(".")[2])):
        if word in _SINKS:
            return _SINKS[word]
    return ""


class WordIndex:
    """One reading of one untrusted text, ready for look-ups; orders are cut out where somebody asks for them."""

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
        self.prepared = orders.prepare(part.data)
        # A dictionary and not a set: the collector goes through every word of a set, and skips this.
        self.words = dict.fromkeys(orders.split_words(self.prepared))
        self.capped = False
        self._folded: bytes | None = None
        self._compact: bytes | None = None
        self._spaced: bytes | None = None
        self._scanner = scanner
        self._chunks: dict[int, list[int]] = {}
        self._orders: dict[int, Order] = {}
        self._names: dict[bytes, bool] = {}

    def find_value(self, candidate: Candidate) -> list[int]:
        """Where a candidate stands in this text; nothing where it does not."""
        if candidate.is_grouped_number:
            if self._compact is None:
                self._compact = b"".join(self.spaced.split())
            if candidate.needle not in self._compact:
                return []
        else:
            rarest = candidate.rarest
            plain = rarest.isascii()
            if plain and not all(map(self.words.__contains__, candidate.words)):
                return []
            if not plain or len(candidate.words) > 1:
                if self._folded is None:
                    # Folding a text costs as much as looking at a dozen places in it.
                    if self.prepared.count(rarest) <= _FEW_PLACES:
                        return self._find_places(candidate)
                    self._folded = b" %b " % b" ".join(self.spaced.split())
                if self._folded.find(candidate.needle) < 0:
                    return []
        return self._find_places(candidate) or [0]

    def _find_places(self, candidate: Candidate) -> list[int]:
        """The places of a candidate's rarest word near which all of it stands, front to back.

        Past a bound we stop looking and remember that we did.
        """
        text, sought = self.spaced, candidate.needle
        word = sought[:4] if candidate.is_grouped_number else candidate.rarest
        size, length = len(word), len(sought)
        before = -1 if candidate.is_grouped_number else sought.find(word)
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
            if before >= 0 and folded[spot - before : spot - before + length] == sought:
                whole.append(at)
                # With single gaps it is as long as what is sought.
                if text[at - before : at - before + length] == sought or self._is_complete_at(candidate, at):
                    sure.append(at)
            at = text.find(word, at + size)
            spot = at if folded is text else folded.find(word, spot + size)
        if len(sure) == len(places):
            return sure
        return self._confirm_places(candidate, places, whole, sure, exact=folded is not text, all_of_them=at < 0)

    def _is_complete_at(self, candidate: Candidate, at: int) -> bool:
        """Whether a candidate that stands here does so within the surroundings: gaps between words may be long."""
        text, words, around = self.spaced, list(candidate.words), len(candidate.needle) * 2 + 32
        before = words.index(candidate.rarest)
        behind = len(words) - before
        if text[at : at + around].split(None, behind)[:behind] != words[before:]:
            return False
        return not before or text[max(0, at - around) : at].rsplit(None, before)[-before:] == words[:before]

    def _confirm_places(
        self,
        candidate: Candidate,
        places: list[int],
        whole: list[int],
        sure: list[int],
        *,
        exact: bool,
        all_of_them: bool,
    ) -> list[int]:
        """Those of the places whose surroundings hold the candidate; those of the `sure` ones do.

        `exact`: it stands, as a whole, at the `whole` ones only, if these are `all_of_them`. The surroundings may still
        cut such a word off at their ends.
        """
        text, sought, words, grouped = self.spaced, candidate.needle, candidate.words, candidate.is_grouped_number
        around, first, last = len(sought) * 2 + 32, words[0], words[-1]
        alone = not grouped and len(words) == 1 and first.isascii()
        exact = all_of_them and (alone or (exact and not grouped and candidate.rarest.isascii()))
        head, tail = (b"", b"") if grouped or len(words) == 1 else (first + b" ", b" " + last)
        found: list[int] = []
        count, next_ = len(sure), 0
        for at in places:
            if next_ < count and sure[next_] == at:
                next_ += 1
                found.append(at)
                continue
            low, high = max(0, at - around), at + around
            if exact:
                near = bisect_left(whole, low)
                if alone and near < len(whole) and whole[near] + len(first) <= high:
                    found.append(at)
                    continue
                if (
                    not (near < len(whole) and whole[near] < high)
                    and text[low : low + len(first)] != first
                    and text[high - len(last) : high] != last
                    and high < len(text)
                ):
                    continue
            window = text[low:high]
            if head in window and tail in window:
                near_by = window.split()
                if sought in (b"".join(near_by) if grouped else b" %b " % b" ".join(near_by)):
                    found.append(at)
        return found

    @property
    def spaced(self) -> bytes:
        """The text with a space for whatever is no letter of a word, and as long as before."""
        if self._spaced is None:
            self._spaced = self.prepared.translate(orders.WORD_BYTES)
        return self._spaced

    def is_in_prose(self, at: int, candidate: Candidate) -> bool:
        """Whether a place is in a sentence, rather than alone in the field of a record or a column of a table."""
        sentence = orders.order_from_cue(self.part.data, self.prepared, at + len(candidate.rarest))
        return len(sentence.words.difference(candidate.words)) >= _SENTENCE

    def find_orders_near(self, places: Sequence[int]) -> Iterator[Order]:
        """The orders whose cue stands near one of these places, each once; both go from front to back.

        Past a bound we stop looking, for every place near the order that found no room, and remember that we did.
        """
        reach, end, total, known = orders.ORDER_REACH, len(self.part.data), len(places), self._orders
        chunk = first = 0
        while first < total:
            chunk = max(chunk, (places[first] - reach) // _CHUNK)
            if chunk * _CHUNK > end:
                return
            cues = self._chunks.get(chunk)
            if cues is None:
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

    def names_tool(self, tool: bytes) -> bool:
        """Whether a tool's name stands anywhere in this text."""
        known = self._names.get(tool)
        if known is None:
            if len(self._names) >= _MAX_NAMES:
                self._names.clear()
            known = self._names[tool] = tool in self.part.data.lower()
        return known

    def find_orders_by_verb(self, verbs: frozenset[bytes], things: frozenset[bytes]) -> Iterator[Order]:
        """The orders whose own verb is one of these, with one of the things close behind it."""
        lower = self.prepared
        for verb in verbs:
            at = lower.find(verb)
            while at >= 0:
                behind = lower[at : at + 96]
                if any(thing in behind for thing in things):
                    start = max(0, at - 64)
                    # A cue ends at its verb or at the first letters behind it.
                    for cue in self._scanner.find_cues(self.part.data[start : at + len(verb) + 12]):
                        if start + cue > at:
                            order = self._order_at_cue(start + cue)
                            if order is not None:
                                yield order
                            break
                at = lower.find(verb, at + len(verb))

    def _order_at_cue(self, cue: int) -> Order | None:
        order = self._orders.get(cue)
        if order is None:
            if len(self._orders) >= MAX_ORDERS:
                self.capped = True
                return None
            order = self._orders[cue] = orders.order_from_cue(self.part.data, self.prepared, cue)
        return order

    def _cues_in_chunk(self, chunk: int) -> list[int]:
        cues = self._chunks.get(chunk)
        if cues is None:
            low, high = chunk * _CHUNK, (chunk + 1) * _CHUNK
            start = max(0, low - _OVERLAP)
            found = self._scanner.find_cues(self.part.data[start : high + _OVERLAP])
            cues = self._chunks[chunk] = [start + cue for cue in found if low <= start + cue < high]
        return cues


class IndexedReading(NamedTuple):
    """One reading of one untrusted block in a context."""

    position: int
    block: str
    source: str
    word_index: WordIndex
    words: dict[bytes, None]


# From where to where a reading of a block is related to a call.
RelatedPassage = tuple[IndexedReading, int, int]


class TrustedText:
    """What the user asked for (goal and messages), and what every trusted or vetted block says besides."""

    __slots__ = ("_implied", "asked", "asked_folded", "folded", "known", "written")

    def __init__(self) -> None:
        self.folded = b" "
        self.asked_folded = b" "
        self.written = b""
        self.known: set[bytes] = set()
        self.asked: set[bytes] = set()
        self._implied: dict[str, bool] = {}

    def add(self, data: bytes, *, asks: bool) -> None:
        prepared = orders.prepare(data)
        listed = orders.split_words(prepared)
        self.written += prepared + b"\n"
        self.folded += b" ".join(listed) + b" "
        self.known.update(listed)
        if asks:
            self.asked_folded += b" ".join(listed) + b" "
            for word in listed:
                self.asked.update(_stems(word))
            self._implied.clear()

    def asks_for_tool(self, tool: str) -> bool:
        """Whether what the user asked for names what this tool does, verb and object."""
        answer = self._implied.get(tool)
        if answer is None:
            if len(self._implied) >= MAX_PIECES:
                self._implied.clear()
            verbs, objects, _ = _intent_in_bytes(tool)
            answer = not verbs.isdisjoint(self.asked) and (not objects or not objects.isdisjoint(self.asked))
            self._implied[tool] = answer
        return answer

    def contains_value(self, candidate: Candidate) -> bool:
        """Whether the user or a trusted text says this: an address as it is written, other values word by word.

        Words in another order count only when the user used them all and the value is not a path or a command: a
        long system prompt contains most words there are.
        """
        if candidate.is_address:
            return self._contains_address(candidate.piece)
        if candidate.is_in(self.folded):
            return True
        if len(candidate.words) < 2 or sink_from_argument(candidate.argument) in ("path", "command"):
            return False
        return self.asked.issuperset(candidate.words)

    def contains_request(self, text: str) -> bool:
        """Whether these words stand together in what the user asked for."""
        words = orders.split_words(orders.prepare(text.encode("utf-8", "ignore")))
        return bool(words) and b" " + b" ".join(words) + b" " in self.asked_folded

    def _contains_address(self, address: bytes) -> bool:
        # `ra@lind.example` is not what somebody meant who wrote `mira@lind.example.org`.
        at = self.written.find(address)
        while at >= 0:
            before, after = self.written[at - 1 : at], self.written[at + len(address) : at + len(address) + 2]
            if not _IN_ADDRESS.match(before) and not _GOES_ON.match(after):
                return True
            at = self.written.find(address, at + 1)
        return False


def _stems(word: bytes) -> tuple[bytes, ...]:
    for ending in (b"ing", b"ed", b"es", b"s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            stem = word[: -len(ending)]
            return (word, stem, stem + b"e")
    return (word,)


class Leaf(NamedTuple):
    """One value inside a call's arguments, as text."""

    argument: str
    text: str
    how: str = "exact"


# A leaf as it is compared: its prepared text, its words as far as they count, and how many digits it may have.
ComparedValue = tuple[Leaf, bytes, list[bytes], int]


class Candidate(NamedTuple):
    """A piece of a leaf that is worth looking for.

    `grouped` are long numbers, which people write with or without gaps: they are looked for without any.
    """

    leaf: Leaf
    piece: bytes
    words: Sequence[bytes]
    rarest: bytes
    needle: bytes
    is_number: bool
    is_plain_word: bool
    is_grouped_number: bool = False

    @property
    def argument(self) -> str:
        return self.leaf.argument

    @property
    def is_distinctive(self) -> bool:
        return not self.is_number and not self.is_plain_word

    @property
    def is_address(self) -> bool:
        return bool(_ADDRESS.match(self.piece))

    def is_in(self, folded: bytes) -> bool:
        return self.needle in (folded.replace(b" ", b"") if self.is_grouped_number else folded)

    @property
    def text(self) -> str:
        """The piece as it is written in the argument."""
        lowered = self.piece.decode("utf-8", "replace")
        at = self.leaf.text.lower().find(lowered)
        return self.leaf.text[at : at + len(lowered)] if at >= 0 else lowered


class OriginTrace(NamedTuple):
    """What the origins of a call say: where each piece stands, what drives it, and which passages it is related to.

    `related` are the passages that a value of this call fills a sink from: the block they stand in, and from where to
    where. A block whose order names the tool is related as a whole.
    """

    origins: tuple[Origin, ...] = ()
    signals: tuple[Finding, ...] = ()
    related: tuple[RelatedPassage, ...] = ()
    capped: bool = False


_NOTHING = OriginTrace()


@lru_cache(maxsize=4096)
def _is_replaced_text(tool: str, argument: str) -> bool:
    """Whether an argument names what an edit takes away: it has to stand in the file, and carries nothing out."""
    name = tool_words(re.sub(r"\[\d+\]", "", argument).rpartition(".")[2])
    return name[:1] == ("old",) and not {"edit", "edits", "replace"}.isdisjoint(tool_words(tool))


@lru_cache(maxsize=4096)
def _intent_in_bytes(tool: str) -> tuple[frozenset[bytes], frozenset[bytes], bytes]:
    """A tool's verbs and objects, and its name as a text would spell it; none where that may be a word like any other.

    Prose does not happen to say `send_email`.
    """
    intent, name = tool_intent(tool), tool.lower().encode("utf-8", "ignore")
    return (
        frozenset(verb.encode() for verb in intent.verbs),
        frozenset(thing.encode() for thing in intent.objects),
        b"" if len(name) < 5 or name.isalpha() else name,
    )


def _split_value(data: bytes, seen_words: set[bytes], *, command: bool) -> list[bytes]:
    """The pieces of a value worth looking for besides all of it: a command's parts, and whatever is no plain word."""
    pieces: list[bytes] = []
    if command and (_PIPE in data or _SEMICOLON in data or _NEWLINE in data or (_AND in data and b"&&" in data)):
        segments = data.replace(b"&&", b"\n").translate(_SEGMENTS).split(b"\n")
        pieces += [segment for segment in segments if segment and len(segment) <= _MAX_VALUE]
    prose = len(data) > _MAX_LINE and not command
    if prose and _AT not in data and data.find(b"://") < 0 and data.find(b"www.") < 0:
        return pieces
    chunks = data.translate(_CHUNKS).split()
    if command and (_QUOTE in data or _QUOTES in data or _BACKSLASH in data) and _QUOTED_WITHIN.search(data):
        # A shell drops quotes inside a word: `'eve'@"host".example` is one address.
        chunks += data.translate(None, b"'\"\\").translate(_CHUNKS).split()
    for chunk in chunks:
        if chunk.isalpha() or len(chunk) < 4:
            continue
        # In a long text only addresses tell: code and prose share names with everything they were read from.
        if prose and _AT not in chunk and chunk.find(b"://") < 0 and not chunk.startswith(b"www."):
            continue
        # What is carried out can be as long as it likes; where it goes stands at the front.
        chunk = chunk[:_MAX_VALUE].strip(b".:!?*_~-#$")
        if not chunk.isalpha():
            if chunk != data:
                pieces.append(chunk)
            if _SLASH in chunk and b"/." in chunk:
                pieces.append(normpath(chunk))
            if _DOT in chunk or _COLON in chunk or _EQUALS in chunk:
                _split_address(chunk, pieces, seen_words, command=command)
    return pieces


def _split_address(chunk: bytes, pieces: list[bytes], seen_words: set[bytes], *, command: bool) -> None:
    """The parts of an address that stay when data is put into it: its host, its domain, the values in its query."""
    rest, query = chunk, b""
    if _COLON in chunk or _EQUALS in chunk or _MARK in chunk or chunk.startswith(b"//"):
        _, named, rest = chunk.partition(b"://")
        rest = rest if named else chunk.removeprefix(b"//")
        path, _, query = rest.partition(b"?")
        if _COLON in path and not named and b"/" not in path:
            pieces.append(path.rpartition(b":")[2])
        if query:
            values = query.replace(b"&", b"=").split(b"=")
            pieces += [value for value in values if len(value) > 3 and not value.isalpha()]
        elif _EQUALS in path:
            pieces.append(path.partition(b"=")[2])
    else:
        path = rest
    host = path.partition(b"/")[0]
    if _DOT not in host:
        if not host:
            # `file:///etc/hosts` is what others write without its head.
            pieces.append(path)
        return
    user, at, place = host.rpartition(b"@")
    if at:
        if host == chunk and not command:
            # Somebody's mailbox: the domain is what all his colleagues share, but `eve+x` is `eve`.
            if b"+" in user:
                pieces.append(user.partition(b"+")[0] + at + place)
            return
        # Whoever logs in there, it is the same place: `me@host:/tmp`, `https://notes@host/`.
        host = place
    host = host.partition(b":")[0]
    if not _HOST.fullmatch(host):
        return
    labels = host.split(b".")
    domain = b".".join(labels[-3:] if len(labels[-2]) < 4 and len(labels) > 2 else labels[-2:])
    # What stands nowhere as a domain stands nowhere as an address of it.
    if not seen_words.issuperset(domain.translate(orders.WORD_BYTES).split()):
        return
    if domain not in _SHARED_DOMAINS:
        pieces += [host, domain]
    pieces += [rest, path]


def find_candidates(values: Iterable[ComparedValue], seen_words: set[bytes]) -> tuple[list[Candidate], bool]:
    """What to look for in a call's values, each piece once, and whether there was too much of it.

    A piece with a word that no untrusted text contains came from none of them, which rules most pieces out.
    """
    found: dict[tuple[str, bytes], Candidate] = {}
    for leaf, data, listed, digits in values:
        spaced = data.isascii()
        pieces: list[bytes] = []
        if len(data) <= _MAX_VALUE:
            if seen_words.issuperset(listed):
                _add_candidate(found, leaf, data, listed, digits)
            elif not spaced:
                pieces.append(data)
        if not data.isalnum():
            pieces += _split_value(data, seen_words, command=sink_from_argument(leaf[0]) == "command")
        for piece in pieces:
            words = piece.translate(orders.WORD_BYTES).split()
            if seen_words.issuperset(words) or (not spaced and _is_unspaced_script(words, seen_words)):
                _add_candidate(found, leaf, piece, words, digits)
        if digits >= _LONG_NUMBER:
            for piece in (data, *pieces):
                if len(piece) >= 48 or not _GROUPED.search(piece):
                    continue
                words = piece.translate(orders.WORD_BYTES).split()
                if not seen_words.issuperset(words):
                    compact = b"".join(words)
                    grouped = Candidate(
                        leaf,
                        piece,
                        words,
                        compact,
                        compact,
                        is_number=False,
                        is_plain_word=False,
                        is_grouped_number=True,
                    )
                    found.setdefault((leaf.argument, compact), grouped)
        if len(found) > MAX_PIECES:
            return list(found.values())[:MAX_PIECES], True
    return list(found.values()), False


def _add_candidate(
    found: dict[tuple[str, bytes], Candidate], leaf: Leaf, piece: bytes, words: list[bytes], digits: int
) -> None:
    count = len(words)
    if not count:
        return
    needle = b" %b " % (words[0] if count == 1 else b" ".join(words))
    rarest, number, plain = b"", False, count == 1
    if digits:
        # The blanks are one more than the words.
        number = len(needle) < 12 and len(needle) - count < 7 and _NUMBER.match(piece) is not None
        for word in words:
            if not word.isalpha() and _UNUSUAL(word):
                rarest = word
                break
        plain = (plain and piece.isalpha()) or (piece[:1].isdigit() and _DATE.match(piece) is not None)
    elif plain:
        plain = piece.isalpha()
    # A number counts at any length; a word needs some.
    if not number and (len(needle) < 5 or _STOP.issuperset(words)):
        return
    rarest = rarest or (words[0] if count == 1 else max(words, key=len))
    sought = needle if rarest.isascii() else needle.strip()
    if (leaf[0], sought) not in found:
        found[leaf[0], sought] = tuple.__new__(Candidate, (leaf, piece, words, rarest, sought, number, plain, False))


def _is_unspaced_script(words: Sequence[bytes], seen_words: set[bytes]) -> bool:
    """Whether the words that were not seen are all of scripts that write without spaces."""
    return all(not word.isascii() or word in seen_words for word in words)


class OriginLookup:
    """One call's look-up over the recent untrusted blocks."""

    __slots__ = ("capped", "is_asked_for", "objects", "tool", "tool_name", "values", "verbs", "wishes")

    def __init__(self, tool: str, leaves: Sequence[Leaf], wishes: TrustedText) -> None:
        self.tool = tool
        self.verbs, self.objects, self.tool_name = _intent_in_bytes(tool)
        # Whether the user asked for what this tool does.
        self.is_asked_for = wishes.asks_for_tool(tool)
        self.capped = False
        self.wishes = wishes
        self.values: list[ComparedValue] = []
        for leaf in leaves:
            text = leaf[1]
            if "old" in leaf[0] and _is_replaced_text(tool, leaf[0]):
                continue
            if text.isascii() and "\\" not in text and "%" not in text and "&" not in text:
                data = text.lower().encode()
            else:
                data = orders.prepare(text.encode("utf-8", "ignore"))
            if len(data) <= _MAX_VALUE:
                words, digits = data.translate(orders.WORD_BYTES).split(), data.translate(_DIGITS).count(_DIGIT)
            else:
                # Of a text longer than any value only the first line's words are asked for.
                words, digits = data[:_MAX_LINE].translate(orders.WORD_BYTES).split(), _LONG_NUMBER
            self.values.append((leaf, data, words, digits))

    def trace(
        self,
        entries: Sequence[IndexedReading],
        seen_words: set[bytes],
        holders: ValuePlacesCache,
        driving: dict[str, ToolOrders],
    ) -> OriginTrace:
        """Look every piece up in the given entries, oldest first.

        `holders` remembers, per value, which blocks hold it, and `driving`, per tool, the orders that name it, so
        that each block is read for either once.
        """
        wanted, capped = find_candidates(self.values, seen_words)
        remembered = self._orders_for_tool(entries, driving)
        if not wanted and remembered is None and not capped:
            return _NOTHING
        driven: list[Origin] = []
        origins: list[Origin] = []
        signals: dict[tuple[str, str], Finding] = {}
        related: list[RelatedPassage] = []
        for candidate in wanted:
            holding = holders.find_places(candidate, entries)
            if not holding:
                continue
            known = self.wishes.contains_value(candidate)
            distinctive, text, argument = candidate.is_distinctive, candidate.text, candidate.leaf.argument
            exact, shown, sink = text.encode("utf-8", "ignore"), text[:120], sink_from_argument(argument)
            addressed = sink in _ADDRESS_SINKS or candidate.is_address
            # Whether nothing but an order can make a signal of this value.
            only_orders = not distinctive or not (
                self.tool_name or (sink in _RECIPIENT_SINKS and not self.is_asked_for)
            )
            reach = len(candidate.needle) + _PASSAGE
            plainly: set[str] = set()
            told: set[str] = set()
            signal, order = "", None
            for held in holding:
                entry, at = held.reading, held.places[0]
                block = entry.block
                if not known:
                    if only_orders and held.orders == [] and not entry.word_index.capped:
                        signal, order = "", None
                    else:
                        signal, order = self._find_signal(candidate, held, sink, addressed=addressed)
                if order is None and (not distinctive or block in plainly):
                    continue
                plainly.add(block)
                if signal or len(origins) < MAX_ORIGINS:
                    origin = _build_origin(candidate, shown, exact, held, order, sink, known=known)
                    if signal:
                        # Another reading of the same block says nothing new.
                        if block not in told:
                            driven.append(origin)
                        told.add(block)
                        signals.setdefault((signal, argument), _signal_finding(signal, origin))
                    else:
                        origins.append(origin)
                if sink and not known and len(related) < MAX_PIECES:
                    related.append((entry, at - _PASSAGE if at > _PASSAGE else 0, at + reach))
        if remembered is not None:
            self._add_tool_orders(entries, seen_words, remembered, signals, related)
        return OriginTrace(
            tuple((driven + origins)[:MAX_ORIGINS]), tuple(signals.values()), tuple(related), capped or self.capped
        )

    def _find_signal(
        self, candidate: Candidate, held: ValuePlaces, sink: str, *, addressed: bool
    ) -> tuple[str, Order | None]:
        """The strongest thing that makes this value look ordered, and the sentence that orders it."""
        weaker: tuple[str, Order | None] = ("", None)
        for order, inside in held.find_orders(candidate) if held.orders is None else held.orders:
            around = order.words if inside else frozenset(order.reach.split())
            verb = not self.verbs.isdisjoint(order.words)
            verb_around = verb or not self.verbs.isdisjoint(around)
            thing_around = not self.objects.isdisjoint(around)
            if candidate.is_number:
                named = any(word.encode() in around for word in tool_words(candidate.argument.rpartition(".")[2]))
                if verb_around and (thing_around or named) and (inside or (verb and named)):
                    weaker = ("origin:number-in-order", order)
            elif candidate.is_plain_word:
                if inside and verb:
                    weaker = ("origin:word-in-order", order)
            elif verb_around or thing_around or addressed or not self.is_asked_for:
                if inside:
                    return "origin:value-in-order", order
                if (order.points_away or verb) and (addressed or _DISTINCTIVE.search(candidate.piece)):
                    weaker = ("origin:value-near-order", order)
        if not weaker[0] and candidate.is_distinctive:
            if self.tool_name and self._is_tool_named_near(held):
                weaker = ("origin:tool-named", None)
            elif sink in _RECIPIENT_SINKS and not self.is_asked_for:
                # Nobody writes a recipient that often into one text for a good reason.
                if len(held.places) > 1024 or any(
                    held.reading.word_index.is_in_prose(at, candidate) for at in held.places
                ):
                    weaker = ("origin:unasked-recipient", None)
        self.capped = self.capped or held.reading.word_index.capped
        return weaker

    def _is_tool_named_near(self, held: ValuePlaces) -> bool:
        """Whether this very tool is named beside a place."""
        name, index, reach = self.tool_name, held.reading.word_index, orders.ORDER_REACH
        return index.names_tool(name) and any(
            name in index.part.data[max(0, at - reach) : at + reach].lower() for at in held.places
        )

    def _orders_for_tool(self, entries: Sequence[IndexedReading], driving: dict[str, ToolOrders]) -> ToolOrders | None:
        """The orders that name this tool, where some text could hold one and the user asked for nothing such."""
        verbs, objects = self.verbs, self.objects
        if self.is_asked_for or not verbs or not objects or self._runs_its_argument():
            return None
        remembered = driving.get(self.tool)
        if remembered is None:
            remembered = driving[self.tool] = ToolOrders()
        return remembered if remembered.may_exist(entries, verbs, objects) else None

    def _runs_its_argument(self) -> bool:
        """Whether the tool runs whatever it is given: then its name says nothing, and what it is given is compared."""
        return any(data and sink_from_argument(leaf[0]) == "command" for leaf, data, _, _ in self.values)

    def _add_tool_orders(
        self,
        entries: Sequence[IndexedReading],
        seen_words: set[bytes],
        remembered: ToolOrders,
        signals: dict[tuple[str, str], Finding],
        related: list[RelatedPassage],
    ) -> None:
        """Orders that name this tool's verb and object, when the goal does not and no argument tells otherwise."""
        # With arguments of its own a call is told apart by them; the bare order counts where there is little else.
        novel = self._unasked_words()
        if len(novel) > _FEW_WORDS or (novel and novel.isdisjoint(seen_words)):
            return
        remembered.read_pending(self.verbs, self.objects)
        self.capped = self.capped or remembered.capped
        first = entries[0].position if entries else 0
        for entry, order in remembered.orders:
            if entry.position < first or (novel and novel.isdisjoint(order.words)):
                continue
            related.append((entry, 0, len(entry.word_index.part.data)))
            sentence = entry.word_index.part.data[order.start : order.end].decode("utf-8", "replace").strip()
            start, end = character_span(entry.word_index.part, order.start, order.end)
            signals.setdefault(
                ("origin:tool-in-order", entry.block),
                Finding("origin:tool-in-order", entry.block, start, end, entry.word_index.part.how, sentence[:160]),
            )

    def _unasked_words(self) -> set[bytes]:
        """The words of this call's telling values that the user did not write; prose says nothing about the call.

        More than a few are as good as all of them.
        """
        known = self.wishes.known
        novel: set[bytes] = set()
        for _, data, listed, _ in self.values:
            if data.count(b" ", 0, _MAX_LINE) >= _FEW_WORDS and not _DISTINCTIVE.search(data, 0, _MAX_LINE):
                continue
            words = listed if len(data) <= _MAX_LINE else orders.split_words(data[:_MAX_LINE])
            for word in words:
                if len(word) > 2 and word not in known and word not in _STOP:
                    novel.add(word)
                    if len(novel) > _FEW_WORDS:
                        return novel
        return novel


def _readings_after(entries: Sequence[IndexedReading], position: int) -> list[IndexedReading]:
    """The entries of blocks that came after this one, oldest first."""
    at = len(entries)
    while at and entries[at - 1].position > position:
        at -= 1
    return list(entries[at:])


class ValuePlaces:
    """An entry that holds a value, where, and which orders have it in or beside them (None until somebody asked)."""

    __slots__ = ("_span", "orders", "places", "reading")

    def __init__(self, entry: IndexedReading, places: list[int]) -> None:
        self.reading = entry
        self.places = places
        self.orders: list[tuple[Order, bool]] | None = None
        self._span: tuple[bytes, Order | None, tuple[int, int, bool]] | None = None

    def find_span(self, candidate: Candidate, exact: bytes, order: Order | None) -> tuple[int, int, bool]:
        """Where the value stands in the block's own text, in characters: in or beside the order when there is one.

        And whether it stands in that text as it is written in the argument, which is `exact`. The latest answer is
        kept: an agent that uses a value again mostly writes it in the same way.
        """
        if self._span is not None and self._span[0] == exact and self._span[1] is order:
            return self._span[2]
        index, at, length = self.reading.word_index, self.places[0], len(candidate.needle)
        part = index.part
        if order is None:
            low, high = max(0, at - length * 2), at + orders.ORDER_REACH + length
        else:
            low, high = max(0, order.start - orders.ORDER_REACH), order.end + orders.ORDER_REACH + length
        start = part.data.find(exact, low, high)
        written, end = start >= 0, start + len(exact)
        if not written:
            written = part.data.find(exact) >= 0
            start, end = _find_word_by_word(index, candidate, low, high) or (at, at + len(candidate.rarest))
        if not index.is_plain:
            start, end = character_span(part, start, end)
        self._span = (exact, order, (start, end, written))
        return start, end, written

    def find_orders(self, candidate: Candidate) -> Iterator[tuple[Order, bool]]:
        """The orders near its places that have the value in them, or else within their reach: each with which it is."""
        sought, grouped = candidate.needle, candidate.is_grouped_number
        index, told = self.reading.word_index, []
        for order in index.find_orders_near(self.places):
            inside = candidate.is_in(order.folded) if grouped else order.folded.find(sought) >= 0
            if inside or (candidate.is_in(order.reach) if grouped else order.reach.find(sought) >= 0):
                told.append((order, inside))
                yield order, inside
        # Where some found no room, the next one who asks has to hear of it as well.
        if not index.capped:
            self.orders = told


class ValuePlacesCache:
    """Which entries of a context hold a value: each is searched for it once, and agents use a value often."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, list[ValuePlaces]]] = {}

    def find_places(self, candidate: Candidate, entries: Sequence[IndexedReading]) -> list[ValuePlaces]:
        if not entries:
            return []
        key = candidate.needle + b"#" if candidate.is_grouped_number else candidate.needle
        searched, holding = self._known.get(key, (-1, []))
        latest = entries[-1].position
        if searched < latest:
            rarest, words = candidate.rarest, candidate.words
            anywhere = candidate.is_grouped_number or not rarest.isascii()
            # Numbers are everywhere, so the longest word is asked for as well before a text is.
            longest = rarest if len(words) == 1 else max(words, key=len)
            holding = holding + [
                ValuePlaces(entry, places)
                for entry in (entries if searched < 0 else _readings_after(entries, searched))
                if (anywhere or (rarest in entry[4] and longest in entry[4]))
                and (places := entry.word_index.find_value(candidate))
            ]
            if len(self._known) >= MAX_PIECES:
                self._known.clear()
            self._known[key] = (latest, holding)
        first = entries[0].position
        if holding and holding[0].reading.position < first:
            return [held for held in holding if held.reading.position >= first]
        return holding


class ToolOrders:
    """The orders in a context that name one tool's verb and object; each block is read once, and only on demand."""

    __slots__ = ("_position", "_unread", "capped", "orders")

    def __init__(self) -> None:
        self._position = -1
        self._unread: list[IndexedReading] = []
        self.capped = False
        self.orders: list[tuple[IndexedReading, Order]] = []

    def may_exist(self, entries: Sequence[IndexedReading], verbs: frozenset[bytes], objects: frozenset[bytes]) -> bool:
        """Whether any block holds such an order, or has both words and is still to be read."""
        if entries and entries[-1].position > self._position:
            for entry in _readings_after(entries, self._position):
                words = entry.words.keys()
                if not words.isdisjoint(verbs) and not words.isdisjoint(objects):
                    self._unread.append(entry)
            self._position = entries[-1].position
        return bool(self._unread or self.orders)

    def read_pending(self, verbs: frozenset[bytes], objects: frozenset[bytes]) -> None:
        for entry in self._unread:
            index = entry.word_index
            acting = frozenset([verb for verb in verbs if verb in index.words])
            things = frozenset([thing for thing in objects if thing in index.words])
            if not things - acting:
                continue
            for order in index.find_orders_by_verb(acting, things):
                acts = verbs & order.words
                if (objects & order.words) - acts and len(self.orders) < MAX_TOOL_ORDERS:
                    self.orders.append((entry, order))
            self.capped = self.capped or index.capped or len(self.orders) >= MAX_TOOL_ORDERS
        self._unread.clear()


def _build_origin(
    candidate: Candidate, shown: str, exact: bytes, held: ValuePlaces, order: Order | None, sink: str, *, known: bool
) -> Origin:
    """`exact` is the value as it is written in the argument, in bytes, `shown` as much of it as is shown."""
    entry, leaf = held.reading, candidate.leaf
    part = entry.word_index.part
    start, end, written = held.find_span(candidate, exact, order)
    how = leaf.how if part.how == "raw" else part.how
    if not written and how == "exact":
        how = "folded"
    sentence = "" if order is None else part.data[order.start : order.end].decode("utf-8", "replace").strip()[:240]
    # As `Origin(…)`, without the detour by its keywords: a common word has dozens.
    said = (leaf.argument, shown, entry.block, entry.source, start, end, how, sentence, sink, known)
    return tuple.__new__(Origin, said)


def _signal_finding(signal: str, origin: Origin) -> Finding:
    return Finding(signal, origin.argument, origin.start, origin.end, origin.how, origin.value)


def _find_word_by_word(index: WordIndex, candidate: Candidate, low: int, high: int) -> tuple[int, int] | None:
    """The bytes of a window in which the value stands word by word, though not as it is written in the argument."""
    # No pattern here: between two words an attacker may put whatever makes a pattern think for minutes.
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
