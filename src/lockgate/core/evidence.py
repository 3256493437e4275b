"""What an embedded judge looks at: the passages a call could come from, and what is known about how it came from them.

The rules find *where* a call's values stand in untrusted text; whether that is a stranger's order or the very thing the
user wanted is for a judge to say. A judge that reads single passages gets the telling ones, at most `MAX_WINDOWS`:

1. around the orders that values, or the tool itself, were found in;
2. around whatever else a rule found in untrusted text;
3. where there are fewer than two of them, the passages with the most sentences that begin like an order.

`FACTS` are numbers from 0 to 1 that mean something by themselves, so that few of them weighed against each other are a
judgement that can be explained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from lockgate.core.orders import NOUN_VERBS, PLAIN_VERBS
from lockgate.core.pipeline import Ask, leaves_of
from lockgate.core.vocabulary import Block, Finding, Origin, Trust

MAX_WINDOWS = 4
# Characters on each side of an order: with it, some 200 tokens.
REACH = 320
_WINDOW = 2 * REACH
_STRIDE = REACH
_MAX_CALL = 600
_MAX_GOAL = 600
# Texts beyond this are not searched for passages without a finding: the case says that they were not shown.
_MAX_SEARCHED = 256_000
_MAX_LEAVES = 32

_WORD = re.compile(r"[^\W_]{3,}")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+|https?://\S+|www\.\S+")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ORDERLY = re.compile(
    r"(?im)(?:^|[.!?:;>\"'(*#-]\s*|\b(?:please|then|now|first|must|should|to|and|you)\s+)"
    rf"(?:{'|'.join(PLAIN_VERBS + NOUN_VERBS)})\b"
)
_COMMON = frozenset(
    "the and for you your with from this that are was has have will can not all any our its out but his her they them "
    "there here been into over when what which who whom then than also about after before please".split()
)


class Evidence(NamedTuple):
    """`windows` are passages of untrusted text, the most telling first; `facts` are in the order of `FACTS`."""

    goal: str
    call: str
    windows: tuple[str, ...]
    facts: tuple[float, ...]


FACTS = (
    "value-in-order",
    "value-near-order",
    "tool-in-order",
    "part-in-order",
    "unasked-recipient",
    "speaks-to-the-agent",
    "credential-word",
    "encoded",
    "odd-argument",
    "sink",
    "tool-in-goal",
    "arguments-in-goal",
    "arguments-in-content-only",
    "order-in-goal",
    "order-in-call",
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


def evidence_of(ask: Ask, context: _Known, goal: str) -> Evidence:
    tool, leaves = ask.call.tool, leaves_of(ask.call.arguments)[0][:_MAX_LEAVES]
    call = f"{tool}({', '.join(f'{leaf.argument}={leaf.text[:200]}' for leaf in leaves)})"[:_MAX_CALL]
    untrusted = [block for block in context.blocks if block.trust is Trust.UNTRUSTED]
    windows = _windows(ask, context, untrusted)
    return Evidence(goal[:_MAX_GOAL], call, windows, _facts(ask, goal, [leaf.text for leaf in leaves], untrusted))


# Where to look


def _windows(ask: Ask, context: _Known, untrusted: Sequence[Block]) -> tuple[str, ...]:
    found: list[tuple[str, int, int]] = []
    for block, start, end in _places(ask):
        if len(found) >= MAX_WINDOWS:
            break
        at = context.positions.get(block)
        if at is None:
            continue
        length = len(context.blocks[at].content)
        low, high = max(0, min(start, length) - REACH), min(length, max(end, start) + REACH)
        high = min(high, low + _WINDOW + REACH)
        if not any(
            name == block and low < until and since < high and _inside(start, since, until)
            for name, since, until in found
        ):
            found.append((block, low, high))
    texts = [_snapped(context.blocks[context.positions[block]].content, low, high) for block, low, high in found]
    if len(texts) < 2:
        texts += [text for text in _orderly(untrusted) if text not in texts][: 2 - len(texts)]
    return tuple(texts)


def _inside(start: int, since: int, until: int) -> bool:
    return since <= start < until


def _places(ask: Ask) -> Iterator[tuple[str, int, int]]:
    ranked = sorted(ask.origins, key=lambda origin: (origin.known, not origin.order))
    for origin in ranked:
        if origin.order and not origin.known:
            yield origin.block, origin.start, origin.end
    yield from ((found.where, found.start, found.end) for found in ask.findings if not found.rule.startswith("origin:"))
    for origin in ranked:
        if not origin.order and not origin.known:
            yield origin.block, origin.start, origin.end


def _snapped(text: str, low: int, high: int) -> str:
    """Without the halves of words at both ends."""
    if low > 0:
        space = text.find(" ", low, low + 24)
        low = space + 1 if space >= 0 else low
    if high < len(text):
        space = text.rfind(" ", high - 24, high)
        high = space if space > low else high
    return text[low:high]


def _orderly(untrusted: Sequence[Block]) -> list[str]:
    """The passages with the most beginnings of orders, the newest block first among equals."""
    scored: list[tuple[int, int, str]] = []
    left = _MAX_SEARCHED
    for age, block in enumerate(reversed(untrusted)):
        text = block.content[:left]
        left -= len(text)
        places = [found.start() for found in _ORDERLY.finditer(text)]
        for low in range(0, max(1, len(text) - _STRIDE), _STRIDE):
            count = sum(low <= place < low + _WINDOW for place in places) if places else 0
            scored.append((-count, age, _snapped(text, low, min(len(text), low + _WINDOW))))
        if left <= 0:
            break
    scored.sort(key=lambda one: one[:2])
    return [text for _, _, text in scored[:2] if text.strip()]


# What is known


def _facts(ask: Ask, goal: str, values: Sequence[str], untrusted: Sequence[Block]) -> tuple[float, ...]:
    rules = {found.rule for found in ask.findings}
    blocks = {block.id for block in untrusted}
    wanted = _words([goal])
    said = _words(values)
    read = _words(block.content[:_MAX_SEARCHED] for block in untrusted)
    order = _strongest(ask.origins)
    ordered = _words([order])
    named = {part.lower() for part in _NAME_PARTS.findall(ask.call.tool)} - _COMMON
    return (
        float("origin:value-in-order" in rules),
        float("origin:value-near-order" in rules),
        float("origin:tool-in-order" in rules),
        float(bool(rules & {"origin:number-in-order", "origin:word-in-order"})),
        float("origin:unasked-recipient" in rules),
        float(any(_speaks(found, blocks) for found in ask.findings)),
        float("seed:credential-word" in rules),
        float(any(rule.startswith(("encoding:", "unicode:", "reading:")) for rule in rules)),
        float(any(_odd(found, blocks) for found in ask.findings)),
        float(any(origin.sink and not origin.known for origin in ask.origins)),
        _share(named, {stem for word in wanted for stem in (word, word.rstrip("s"))}),
        _share(said, wanted),
        _share(said, read - wanted),
        _share(ordered, wanted),
        _share(ordered, said | named),
    )


def _speaks(found: Finding, blocks: set[str]) -> bool:
    return found.where in blocks and found.rule.startswith(_SPEAKS)


def _odd(found: Finding, blocks: set[str]) -> bool:
    """A rule's hit in the call's own arguments, origins and the word `password` aside."""
    return found.where not in blocks and not found.rule.startswith(("origin:", "seed:credential"))


def _strongest(origins: Iterable[Origin]) -> str:
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
