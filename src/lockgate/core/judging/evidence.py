"""What an embedded judge looks at: the passages a call could come from, and what is known about how it came from them.

The rules find *where* a call's values stand in untrusted text; whether that is a stranger's order or the very thing the
user wanted is for a judge to say. A judge that reads single passages gets the telling ones, at most `MAX_WINDOWS`:

1. around the orders that values, or the tool itself, were found in, and around unasked recipients;
2. around what speaks to a model rather than to a reader.

What else stands in a poisoned session says nothing about this call, and is not shown. An attacker who plants more
orders than there are windows must not choose which of them is read: where one found no room, the evidence is not
`is_complete`, and clears no call.

`FACTS` are numbers from 0 to 1 that mean something by themselves, so that few of them weighed against each other are a
judgement that can be explained.

All text is given as `plain` text: what is the same to a reader is the same to the judge.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.ruling.pipeline import Ask
from lockgate.core.text.confusables import fold_to_latin, gates_from_text, remove_invisible
from lockgate.core.text.encodings import CODES
from lockgate.core.vocabulary import Block, Finding, Origin, Trust

MAX_WINDOWS = 6
# Characters on each side of an order: with it, some 200 tokens.
REACH = 320
_WINDOW = 2 * REACH
# So much of an argument is searched for words.
_MAX_SEARCHED = 256_000
_MAX_LEAVES = 32
# By so much of its beginning an order is recognized in the window around it.
_SHOWN = 40

_WORD = re.compile(r"[^\W_]{3,}")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_COMMON = frozenset(
    "the and for you your with from this that are was has have will can not all any our its out but his her they them "
    "there here been into over when what which who whom then than also about after before please".split()
)


class Evidence(NamedTuple):
    """`windows` are passages of untrusted text that the call could come from; `facts` are in the order of `FACTS`.

    Not `whole`: there was one more such passage, and no room for it. `led`: an order names the tool, gives the call
    somewhere to go, or speaks to the machine as well.
    """

    windows: tuple[str, ...]
    facts: tuple[float, ...]
    is_complete: bool = True
    is_led_by_order: bool = False


FACTS = (
    "value-near-order",
    "tool-in-order",
    "part-in-order",
    "unasked-recipient",
    "speaks-to-the-agent",
    "tool-in-goal",
    "arguments-in-goal",
    "order-in-goal",
)

# Groups of rules about texts that speak to a model, as against words that merely occur.
_SPEAKS = (
    "override:",
    "authority:",
    "concealment:",
    "exfiltration:",
    "markup:",
    "tool:",
    "seed:ignore",
    "seed:new",
    "seed:forget",
)


class _Known(Protocol):
    @property
    def blocks(self) -> Sequence[Block]: ...

    @property
    def positions(self) -> Mapping[str, int]: ...


def collect_evidence(ask: Ask, context: _Known, goal: str) -> Evidence:
    """Return the evidence for one call, at a bounded cost. A `Context` must not change meanwhile."""
    untrusted = {block.id for block in context.blocks if block.trust is Trust.UNTRUSTED}
    windows, whole = _windows(ask, context, untrusted)
    leaves = flatten_arguments(ask.call.arguments)[0][:_MAX_LEAVES]
    led = _is_led_by_order(ask) or _order_speaks_to_machine(ask, untrusted)
    return Evidence(windows, _facts(ask, goal, [leaf.text for leaf in leaves], untrusted), whole, led)


# An address in a value, wherever it may stand: a mailbox, a URL, a bare host behind a login.
_SOMEWHERE = re.compile(r"://|\bwww\.|[^\s@]@[^\s@]+\.\w|\b\w+@[\w-]+:", re.ASCII)
_GOES_TO = frozenset({"recipient", "url", "account"})


def _is_led_by_order(ask: Ask) -> bool:
    """Whether a stranger's order names this very tool, or says where the call is to go: to whom, to which address, into
    which account.

    However politely it is put, such a call is what an attacker gains by: no small model may wave it through.
    """
    if any(found.rule == "origin:tool-in-order" for found in ask.findings):
        return True
    return any(
        origin.order and not origin.known and (origin.sink in _GOES_TO or _SOMEWHERE.search(origin.value) is not None)
        for origin in ask.origins
    )


# So near to a value that stands in an order it is the same stranger who speaks.
_NEAR = 200


def _order_speaks_to_machine(ask: Ask, untrusted: set[str]) -> bool:
    """Whether the order that this call carries out also speaks to the machine: claims to be its master, asks it to keep
    something from people, or the like. That is no request among people, however a model reads it. A rule is found once
    in a text, where it first holds: the text behind it may speak to the machine as well.
    """
    orders = [origin for origin in ask.origins if origin.order and not origin.known]
    return any(
        found.where == origin.block and found.start < origin.end + _NEAR
        for found in ask.findings
        if _speaks(found, untrusted)
        for origin in orders
    )


# One dress for all


_SPACES = re.compile(r"\s+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
# Rulers and fences: a reader sees one line, a tokenizer eighty tokens, which push the rest out of its window.
_REPEATED = re.compile(r"([^\w\s])\1{3,}")
_LONGEST_WORD = 40
_LONG_WORD = re.compile(rf"(\w{{{_LONGEST_WORD}}})(?=\w)")
_IN_PLACE = tuple(code for code in CODES if code.name in ("escape", "entity"))
_MAX_ROUNDS = 2


class _CompatibleCharacters(dict[int, str]):
    """A character's code to what it is compatible with, worked out once per character; nothing for what has no shape.

    That is also what half a surrogate pair becomes, which no tokenizer takes.
    """

    def __missing__(self, code: int) -> str:
        said = unicodedata.normalize("NFKC", chr(code))
        if unicodedata.category(chr(code)) in ("Cf", "Cs", "Co", "Cn"):
            said = ""
        elif len(said) > 4:
            # Eighteen letters for one would make a megabyte of a page.
            said = chr(code)
        if len(self) > 40_000:
            self.clear()
        self[code] = said
        return said


_PLAIN = _CompatibleCharacters()


def plain_text(text: str) -> str:
    """The text as a reader sees it: in ordinary letters and spaces, its escapes and entities read.

    Words that are too long for any dictionary come in pieces: a tokenizer would make one unknown thing of each.
    """
    for _ in range(_MAX_ROUNDS):
        before = text
        for code in _IN_PLACE:
            if code.mark in text:
                text = code.decode(text)[0]
        if text == before:
            break
    if not text.isascii():
        gates = gates_from_text(text)
        text = fold_to_latin(remove_invisible(text, gates), gates)
        text = unicodedata.normalize("NFC", text.translate(_PLAIN))
    text = _REPEATED.sub(r"\1\1\1", _CONTROLS.sub("", text))
    return _SPACES.sub(" ", _LONG_WORD.sub(r"\1 ", text)).strip()


# Where to look


class _EvidencePlace(NamedTuple):
    """Where to look. `said` is how what stands there reads."""

    block: str
    start: int
    end: int
    said: str


def _windows(ask: Ask, context: _Known, untrusted: set[str]) -> tuple[tuple[str, ...], bool]:
    found: list[tuple[str, int, int]] = []
    texts: dict[str, None] = {}
    for place in _places(ask, untrusted):
        at = context.positions.get(place.block)
        if at is None:
            continue
        content = context.blocks[at].content
        start = min(place.start, len(content))
        if any(name == place.block and since <= start < until for name, since, until in found):
            continue
        if len(texts) >= MAX_WINDOWS:
            return tuple(texts), False
        low, high = max(0, start - REACH), min(len(content), max(place.end, start) + REACH)
        high = min(high, low + _WINDOW + REACH)
        found.append((place.block, low, high))
        text, said = plain_text(_trim_to_words(content, low, high)), plain_text(place.said)
        # A reader does not see what is hidden in a code: what it says comes first.
        texts[text if said[:_SHOWN].lower() in text.lower() else f"{said} {text}"[: _WINDOW + REACH]] = None
    texts.pop("", None)
    return tuple(texts), True


def _places(ask: Ask, untrusted: set[str]) -> Iterator[_EvidencePlace]:
    """The most telling first."""
    # Signals without a sentence that is known for an order: the tool's own name beside a value, a recipient in prose.
    bare = {found.where for found in ask.findings if found.rule in ("origin:tool-named", "origin:unasked-recipient")}
    for origin in ask.origins:
        if not origin.known and (origin.order or origin.argument in bare):
            yield _EvidencePlace(origin.block, origin.start, origin.end, origin.order)
    for found in ask.findings:
        # A tool that an order names has no value to stand in it, and so no origin.
        if found.rule == "origin:tool-in-order":
            yield _EvidencePlace(found.where, found.start, found.end, found.excerpt)
    for found in ask.findings:
        if _speaks(found, untrusted):
            yield _EvidencePlace(found.where, found.start, found.end, found.excerpt)


def _trim_to_words(text: str, low: int, high: int) -> str:
    """Without the halves of words at both ends."""
    if low > 0:
        space = text.find(" ", low, low + 24)
        low = space + 1 if space >= 0 else low
    if high < len(text):
        space = text.rfind(" ", high - 24, high)
        high = space if space > low else high
    return text[low:high]


# What is known


def _facts(ask: Ask, goal: str, values: Sequence[str], untrusted: set[str]) -> tuple[float, ...]:
    rules = {found.rule for found in ask.findings}
    wanted = _words([goal])
    said = _words(value[:_MAX_SEARCHED] for value in values)
    named = {part.lower() for part in _NAME_PARTS.findall(ask.call.tool)} - _COMMON
    return (
        float("origin:value-near-order" in rules),
        float("origin:tool-in-order" in rules),
        float(bool(rules & {"origin:number-in-order", "origin:word-in-order"})),
        float("origin:unasked-recipient" in rules),
        float(any(_speaks(found, untrusted) for found in ask.findings)),
        _share(named, {stem for word in wanted for stem in (word, word.rstrip("s"))}),
        _share(said, wanted),
        _share(_words([_strongest_order(ask.origins)]), wanted),
    )


def _speaks(found: Finding, blocks: set[str]) -> bool:
    return found.where in blocks and found.rule.startswith(_SPEAKS)


def _strongest_order(origins: Iterable[Origin]) -> str:
    """The order that most unknown values stand in."""
    counted: dict[str, int] = {}
    for origin in origins:
        if origin.order and not origin.known:
            counted[origin.order] = counted.get(origin.order, 0) + 1
    return max(counted, key=lambda order: counted[order], default="")


def _words(texts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        lower = text.lower()
        found |= set(_WORD.findall(lower)) - _COMMON
    return found


def _share(part: set[str], whole: set[str]) -> float:
    return len(part & whole) / len(part) if part else 0.0
