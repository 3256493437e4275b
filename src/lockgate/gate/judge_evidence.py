"""What an embedded judge looks at: the case in words, the passages a call could come from, and a few facts.

The judge reads two views side by side: the case (what the user asked for, what the call would do, the call itself in
short), and one passage at a time, at most `MAX_WINDOWS`:

1. around the targets of the call's effects, where untrusted text has them and the user did not name them;
2. around the orders that values, or the tool itself, were found in, and around unasked recipients;
3. around what speaks to a model rather than to a reader;
4. where there is none of these, the latest texts: that no passage holds a call's values says nothing for the call.

An attacker who plants more orders than there are windows must not choose which of them is read: where one found no
room, the evidence is not `is_complete`, and clears no call. All text is `plain_text`: what is the same to a reader is
the same to the judge.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.explanations import DICTATED, EFFECT, LOOKALIKE, SLOT
from lockgate.core.ruling.pipeline import EscalatedCall
from lockgate.core.ruling.targets import is_wallet
from lockgate.core.ruling.tool_risk import tool_words
from lockgate.core.text.readings import CODES, COMPATIBLE, fold_to_latin, remove_invisible, triggers_from_text
from lockgate.core.vocabulary import Block, Finding, Origin, Severity, Trust

if TYPE_CHECKING:
    from lockgate.core.judging.case import BlockLookup

MAX_WINDOWS = 4
# Characters on each side of what is looked for: with it, some 100 tokens.
REACH = 190
_WINDOW = 2 * REACH
# So much of an argument is searched for words, and of the latest texts for a target.
_MAX_SEARCHED = 256_000
_MAX_LEAVES = 32
_MAX_TARGETS = 8
_MAX_LATEST = 2
_LEAST_TARGET = 3
_UNMARKED = str.maketrans({"\u00ab": '"', "\u00bb": '"'})
# By so much of its beginning an order is recognized in the window around it.
_SHOWN = 40
# The case in words: so much of the goal, of the user's last message, of each value.
_MAX_GOAL, _MAX_SAID, _MAX_VALUE, _MAX_EFFECTS, _MAX_CALL = 200, 120, 60, 3, 150

_WORD = re.compile(r"[^\W_]{3,}")
_COMMON = frozenset(
    "the and for you your with from this that are was has have will can not all any our its out but his her they them "
    "there here been into over when what which who whom then than also about after before please".split()
)


def is_imitation(text: str) -> bool:
    """Return whether letters of other scripts stand among Latin ones, to look like them."""
    if text.isascii():
        return False
    folded = fold_to_latin(text, triggers_from_text(text))
    return folded != text and any(letter.isascii() and letter.isalpha() for letter in text)


class Evidence(NamedTuple):
    """`case` is what the user wants and what the call would do, in words; `windows` are passages of untrusted text that
    the call could come from, the likeliest first; `facts` are numbers from 0 to 1 in the order of `FACTS`.

    Not `is_complete`: there was one more such passage, and no room for it. Not `is_clearable`: a small model may not
    clear the call, whatever the passages say (`_is_clearable`, `_has_strange_receiver`).
    """

    case: str
    windows: tuple[str, ...]
    facts: tuple[float, ...]
    is_complete: bool = True
    is_clearable: bool = True


FACTS = ("value-in-order", "speaks-to-the-agent", "arguments-in-goal")

# Groups of rules about texts that speak to a model, as against words that merely occur.
_SPEAKS = tuple(
    "override: authority: concealment: exfiltration: markup: tool: seed:ignore seed:new seed:forget".split()
)


class _EvidencePlace(NamedTuple):
    """Where to look. `said` is how what stands there reads, `value` the part of it that the call has."""

    block: str
    start: int
    end: int
    said: str
    value: str = ""


def collect_evidence(ask: EscalatedCall, context: BlockLookup, goal: str) -> Evidence:
    """Return the evidence for one call, at a bounded cost. A `Context` must not change meanwhile."""
    messages = list(_user_messages(context))
    request = "\n".join([goal, *messages])
    untrusted = {block.id for block in _latest_untrusted(context)}
    in_texts = [finding for finding in ask.findings if finding.where in untrusted]
    speaking = [finding for finding in in_texts if finding.rule.startswith(_SPEAKS)]
    orders = [origin for origin in ask.origins if origin.order and not origin.known]
    targets = _unasked_targets(ask, context, _flat(request))
    # Where nothing speaks to a model, what else was found in the texts.
    telling = [*targets, *_telling_places(ask, speaking)] or [*map(_place_of, in_texts[:_MAX_LATEST])]
    windows, is_complete = _windows(context, telling)
    return Evidence(
        _case(ask, goal, "".join(messages[-1:]), {place.value for place in targets}),
        windows or _latest(context),
        (float(bool(orders)), float(bool(speaking)), _share_asked(ask, request)),
        is_complete,
        _is_clearable(ask, orders, speaking) and not _has_strange_receiver(ask),
    )


def _user_messages(context: BlockLookup) -> Iterator[str]:
    trusted = (block for block in context.blocks if block.trust is Trust.TRUSTED)
    return (block.content[:_MAX_SEARCHED] for block in trusted if block.source.partition(":")[0] == "user")


def _share_asked(ask: EscalatedCall, request: str) -> float:
    """Return how many of the words in the arguments the user has said."""
    leaves = flatten_arguments(ask.call.arguments)[0][:_MAX_LEAVES]
    words = _words(leaf.text[:_MAX_SEARCHED] for leaf in leaves)
    return len(words & _words([request])) / max(1, len(words))


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text.lower())} - _COMMON


def _flat(text: str) -> str:
    """Return a text without what a spelling may add: case, spaces, hyphens, dots of a version."""
    return re.sub(r"[\s\-_]+", "", text.lower())


def _case(ask: EscalatedCall, goal: str, last: str, from_text: set[str]) -> str:
    """Return what the user wants, what the call would do, and the call in short."""
    wanted = plain_text(goal[: 2 * _MAX_GOAL])[:_MAX_GOAL]
    if last not in ("", goal):
        wanted = f"{wanted} / {plain_text(last[: 2 * _MAX_SAID])[:_MAX_SAID]}"
    grave = [effect for effect in ask.effects if effect.severity >= Severity.REACHES_OUT] or ask.effects[:1]
    acts = [
        KINDS[effect.kind].does.replace("{target}", effect.target[:_MAX_VALUE])
        + (", which only the text names" if effect.target in from_text else "")
        for effect in grave[:_MAX_EFFECTS]
    ]
    leaves = flatten_arguments(ask.call.arguments)[0]
    values = " ".join(f"{leaf.argument}={leaf.text[: 2 * _MAX_VALUE]}" for leaf in leaves[:6])
    call = plain_text(f"{ask.call.tool} {values}"[: 2 * _MAX_CALL])[:_MAX_CALL]
    return f"wanted: {wanted} | the call {plain_text('; '.join(acts))} | {call}"


def _unasked_targets(ask: EscalatedCall, context: BlockLookup, request: str) -> list[_EvidencePlace]:
    """Return where untrusted text has a target of the call that the user did not name; one place per target."""
    orders = {(origin.block, origin.start): origin.order for origin in ask.origins if origin.order}
    places: dict[str, _EvidencePlace] = {}
    for origin in ask.origins:
        if origin.sink == "target" and not origin.known:
            order = orders.get((origin.block, origin.start), origin.value)
            places[origin.value] = _EvidencePlace(origin.block, origin.start, origin.end, order, origin.value)
    reaching = [effect.target for effect in ask.effects[:_MAX_TARGETS] if effect.severity >= Severity.REACHES_OUT]
    for target in reaching:
        is_unasked = len(target) >= _LEAST_TARGET and target not in places and _flat(target) not in request
        if is_unasked and (place := _search(target, context)):
            places[target] = place
    return list(places.values())


def _latest_untrusted(context: BlockLookup) -> Iterator[Block]:
    return (block for block in reversed(context.blocks) if block.trust is Trust.UNTRUSTED)


def _search(target: str, context: BlockLookup) -> _EvidencePlace | None:
    """Return the latest place that has the target as it stands, in a bounded part of the latest texts."""
    room, sought = _MAX_SEARCHED, re.compile(re.escape(target), re.IGNORECASE)
    for block in _latest_untrusted(context):
        if match := sought.search(block.content, 0, max(0, room)):
            return _EvidencePlace(block.id, match.start(), match.end(), target, target)
        room -= len(block.content)
    return None


def _place_of(finding: Finding) -> _EvidencePlace:
    return _EvidencePlace(finding.where, finding.start, finding.end, finding.excerpt)


def _telling_places(ask: EscalatedCall, speaking: Sequence[Finding]) -> Iterator[_EvidencePlace]:
    """Yield the places of orders, then of tools that an order names, then of what speaks to a model."""
    # A signal without a sentence that is known for an order: a recipient in prose.
    bare = {finding.where for finding in ask.findings if finding.rule == "origin:unasked-recipient"}
    for origin in ask.origins:
        if not origin.known and (origin.order or origin.argument in bare):
            yield _EvidencePlace(origin.block, origin.start, origin.end, origin.order, origin.value)
    # A tool that an order names has no value to stand in it, and so no origin.
    yield from (_place_of(finding) for finding in ask.findings if finding.rule == "origin:tool-in-order")
    yield from map(_place_of, speaking)


def _windows(context: BlockLookup, places: Iterable[_EvidencePlace]) -> tuple[tuple[str, ...], bool]:
    """Return the passages, and whether they are all."""
    covered: list[tuple[str, int, int]] = []
    texts: dict[str, None] = {}
    for place in places:
        if place.block not in context.positions:
            continue
        content = context.blocks[context.positions[place.block]].content
        start = min(place.start, len(content))
        if any(name == place.block and since <= start < until for name, since, until in covered):
            continue
        if len(texts) >= MAX_WINDOWS:
            return tuple(texts), False
        low, high = max(0, start - REACH), min(len(content), max(place.end, start) + REACH)
        high = min(high, low + _WINDOW + REACH)
        covered.append((place.block, low, high))
        text, said = plain_text(_trim_to_words(content, low, high)), plain_text(place.said)
        # A reader does not see what is hidden in a code: what it says comes first.
        is_shown = said[:_SHOWN].lower() in text.lower() or _flat(said) in _flat(text)
        text = text if is_shown else f"{said} {text}"[: _WINDOW + REACH]
        texts[_mark(text, place.value)] = None
    texts.pop("", None)
    return tuple(texts), True


def _mark(text: str, value: str) -> str:
    """Return the passage with the call's value between marks that no text has of its own."""
    text = text.translate(_UNMARKED)
    sought = plain_text(value)[:_MAX_VALUE]
    if len(sought) < _LEAST_TARGET:
        return text
    spelled = r"[\s-]?".join(re.escape(letter) for letter in sought if letter not in " -")
    return re.sub(f"({spelled})", r"« \1 »", text, flags=re.IGNORECASE)


def _latest(context: BlockLookup) -> tuple[str, ...]:
    """Return beginning and end of the latest untrusted texts: what the agent had just read when it made the call."""
    texts: dict[str, None] = {}
    for block in _latest_untrusted(context):
        size = len(block.content)
        parts = [(0, size)] if size <= _WINDOW + REACH else [(0, _WINDOW), (size - _WINDOW, size)]
        texts |= dict.fromkeys(plain_text(_trim_to_words(block.content, *part)) for part in parts)
        texts.pop("", None)
        if len(texts) >= _MAX_LATEST:
            break
    return tuple(text.translate(_UNMARKED) for text in list(texts)[:_MAX_LATEST])


def _trim_to_words(text: str, low: int, high: int) -> str:
    """Return a part of a text without the halves of words at both ends."""
    if low > 0:
        space = text.find(" ", low, low + 24)
        low = space + 1 if space >= 0 else low
    if high < len(text):
        space = text.rfind(" ", high - 24, high)
        high = space if space > low else high
    return text[low:high]


# An address in a value, wherever it may stand: a mailbox, a URL, a bare host behind a login.
_SOMEWHERE = re.compile(r"://|\bwww\.|[^\s@]@[^\s@]+\.\w|\b\w+@[\w-]+:", re.ASCII)
_GOES_TO = frozenset({"recipient", "url", "account"})
# Kinds of effects whose target is another party or a host.
_HAS_PARTY = frozenset(
    "requests sends-data sends-message shares publishes pays clones pushes changes-remote uses-package-source "
    "embeds-remote-code embeds-address shows-remote-content grants-access".split()
)
# A name that imitates another passes for that one, as the attacker wants it to; a command that a text dictates is the
# attacker's own; and what the user's words say otherwise is for the user.
_FOR_A_PERSON = (LOOKALIKE, DICTATED, SLOT)
# So near to a value that stands in an order it is the same attacker who speaks.
_NEAR = 200


def _is_clearable(ask: EscalatedCall, orders: Sequence[Origin], speaking: Sequence[Finding]) -> bool:
    """Return whether nothing about the call itself, or about the order that it carries out, is for a person."""
    return not (
        ask.opens_a_door
        or ask.hard_findings
        or ask.gives_away_unasked
        or any(finding.rule.startswith(_FOR_A_PERSON) for finding in ask.findings)
        # What goes to a wallet no bank gets back.
        or any(
            is_imitation(effect.target) or (effect.kind == "pays" and is_wallet(effect.target))
            for effect in ask.effects
        )
        or _is_led_by_order(ask, orders)
        # The order also speaks to the machine: claims to be its master, or asks it to keep something from people. A
        # rule is found once in a text, where it first holds: the text behind it may speak to the machine as well.
        or any(finding.where == at.block and finding.start < at.end + _NEAR for finding in speaking for at in orders)
    )


# Findings about what goes to a target. What is typed into a form of a page is not among them, for people follow links
# to forms all day: there an order has to name the page.
_GIVES = frozenset(EFFECT + kind for kind in "changes-remote pushes routes-to sends-data sends-message shares".split())
_TYPES = frozenset({"click", "fill", "form", "input", "submit", "type"})


def _has_strange_receiver(ask: EscalatedCall) -> bool:
    """Return whether something goes to a receiver that untrusted text names, and neither the user nor the project.

    The receiver is what an attacker gains by, and anyone can register a domain or a mailbox with the name of someone
    whom the user means.
    """
    gives = _GIVES if _TYPES.isdisjoint(tool_words(ask.call.tool)) else _GIVES - {EFFECT + "sends-data"}
    return any(finding.rule in gives for finding in ask.findings)


def _is_led_by_order(ask: EscalatedCall, orders: Sequence[Origin]) -> bool:
    """Return whether an order names this very tool, or says where the call is to go: to whom, to which address."""
    if any(finding.rule == "origin:tool-in-order" for finding in ask.findings):
        return True
    parties = [_flat(effect.target) for effect in ask.effects if effect.kind in _HAS_PARTY and effect.target]
    return any(
        origin.sink in _GOES_TO
        or _SOMEWHERE.search(origin.value) is not None
        or any(party in _flat(origin.value) for party in parties)
        for origin in orders
    )


_SPACES = re.compile(r"\s+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
# Rulers and fences: a reader sees one line, a tokenizer eighty tokens, which push the rest out of its window.
_REPEATED = re.compile(r"([^\w\s])\1{3,}")
_LONG_WORD = re.compile(r"(\w{40})(?=\w)")
# Twice, for what is written by one of them may be written by the other once more.
_IN_PLACE = 2 * tuple(code for code in CODES if code.name in ("escape", "entity"))


def plain_text(text: str) -> str:
    """Return the text as a reader sees it: in ordinary letters and spaces, its escapes and entities read.

    Words that are too long for any dictionary come in pieces: a tokenizer would make one unknown thing of each.
    """
    for code in _IN_PLACE:
        text = code.decode(text) if code.mark in text else text
    if not text.isascii():
        gates = triggers_from_text(text)
        text = fold_to_latin(remove_invisible(text, gates), gates)
        text = unicodedata.normalize("NFC", text.translate(COMPATIBLE))
    text = _REPEATED.sub(r"\1\1\1", _CONTROLS.sub("", text))
    return _SPACES.sub(" ", _LONG_WORD.sub(r"\1 ", text)).strip()
