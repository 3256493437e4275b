"""Flow rules: which text may reach which place, said by a person and decided without any guess at intent.

A row says where something comes from, where it must not go, and what then happens; the page on flows has the keys.
What cannot be told counts: a text that an agent has put together may hold anything that the agent has read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.redaction.redact import redact
from lockgate.core.redaction.secrets import KINDS as VALUE_KINDS
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.effect import KINDS, Effect, Severity
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.vocabulary import Finding

if TYPE_CHECKING:
    from lockgate.core.ruling.context import Context

FLOW = "flow:"
PAUSE, DENY = "pause", "deny"
OUT = "out"
SINKS = ("recipient", "url", "path", "command", "account", "payee")
MAX_ROWS = 200
_MAX_TEXT = 200
_FROM = ("from", "from_label", "value", "after", "after_label")
_KEYS = frozenset({"name", "to", "outside", "then", *_FROM})
# A value shorter than this stands in any text.
_SHORTEST = 4
# A text of so many characters, without the target itself, may hold something that the agent has read, in whatever code.
_COMPOSED = 12
# What one check may compare. A text that is longer counts as carrying everything.
_MAX_COMPARED = 64 * 1024 * 1024


class FlowRule(NamedTuple):
    """One row. `key` is one of the five ways to say where something comes from, and `source` is what it names."""

    name: str
    to: str
    then: str
    key: str
    source: str
    outside: tuple[str, ...] = ()


class LabelRule(NamedTuple):
    """Blocks of these sources have this label."""

    source: str
    label: str


# --- rows


def row_to_text(row: Mapping[str, object], parse: Callable[[str], object]) -> str:
    """Return a row of a configuration file as a policy holds it; raise InvalidConfig for one that `parse` refuses."""
    text = json.dumps(row, sort_keys=True, ensure_ascii=True, default=str)
    parse(text)
    return text


@lru_cache(maxsize=512)
def parse_flow(text: str) -> FlowRule:
    """Return the rule in a policy's text."""
    row = _row_from_text(text)
    name, then, to = _word(row, "name"), _word(row, "then", PAUSE), _word(row, "to")
    keys = [key for key in _FROM if key in row]
    key = "".join(keys[:1])
    source, outside = _word(row, key), row.get("outside", [])
    unknown = next((quoted(key) for key in sorted(set(row) - _KEYS)), "")
    is_place = to in (OUT, *SINKS) or any(f"{kind}-".startswith(f"{to}-") for kind in KINDS)
    is_name, is_value = _P["rule name"].fullmatch(name), key != "value" or source in VALUE_KINDS
    texts = outside if isinstance(outside, list) else [None]
    is_list = all(isinstance(text, str) and 0 < len(text) <= _MAX_TEXT for text in texts)
    places = f"use {OUT}, {', '.join(SINKS)}, or a kind that `lockgate explain` names, such as sends-message"
    for is_right, fault, hint in (
        (is_name, " needs a name of small letters, digits and hyphens", 'such as "web-names-no-host"'),
        (not unknown, f": unknown key {unknown}", f"known: {', '.join(sorted(_KEYS))}"),
        (then in (PAUSE, DENY), f": unknown `then` {quoted(then)}", "use pause or deny"),
        (len(keys) == 1, " must name one place that it comes from", f"give one of: {', '.join(_FROM)}"),
        (source, f": `{key}` is empty", ""),
        (is_value, f": unknown kind of value {quoted(source)}", f"known: {', '.join(VALUE_KINDS)}"),
        (is_place, f": {quoted(to)} is neither a place nor a kind of effect", places),
        (is_list, ": `outside` must be a list of texts", ""),
    ):
        if not is_right:
            raise InvalidConfig(f"flow {quoted(name)}{fault}", hint=hint)
    return FlowRule(name, to, then, key, source, tuple(text.lower() for text in outside))


@lru_cache(maxsize=512)
def parse_label(text: str) -> LabelRule:
    """Return the rule in a policy's text."""
    row = _row_from_text(text)
    source, label = _word(row, "source"), _word(row, "as")
    if set(row) != {"source", "as"} or not source or not _P["rule name"].fullmatch(label):
        raise InvalidConfig(
            "a label needs `source`, a pattern, and `as`, a name of small letters, digits and hyphens",
            hint='for example source = "file:*/hr/*" and as = "personal"',
        )
    return LabelRule(source, label)


def _row_from_text(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InvalidConfig("a flow or a label is a table", hint="write [[flow]] or [[label]], and its keys below it")
    return row


def _word(row: Mapping[str, object], key: str, default: str = "") -> str:
    value = row.get(key, default)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise InvalidConfig(f"`{key}` must be a text of at most {_MAX_TEXT} characters")
    return value.strip()


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob.lower()), re.DOTALL)


def labels_of(source: str, labels: Sequence[str]) -> frozenset[str]:
    """Return the labels of a source by the label rows of a policy."""
    rules = map(parse_label, labels)
    return frozenset(rule.label for rule in rules if _pattern(rule.source).fullmatch(source.lower()))


# --- a call


def _fold_text(text: str) -> str:
    return " ".join(text.lower().split())


class FlowCheck:
    """Looks for what the flow rules of a policy hold against one call."""

    def __init__(self, context: Context, leaves: Sequence[Leaf], effects: Sequence[Effect], *, is_cut: bool) -> None:
        self._context, self._leaves, self._effects, self._is_cut = context, leaves, effects, is_cut
        self._left = _MAX_COMPARED

    def find(self, flows: Sequence[str]) -> list[Finding]:
        """Return one finding for each rule that holds the call; its excerpt says what would go where."""
        findings = []
        for rule in map(parse_flow, flows):
            places = self._places(rule)
            if places is not None and (carried := self._find_carried(rule, places)) is not None:
                what, where = carried
                what += "; it says deny, so no person is asked" if rule.then == DENY else ""
                findings.append(Finding(f"{FLOW}{rule.name}", where, 0, 0, "raw", what[:160]))
        return findings

    def _places(self, rule: FlowRule) -> Sequence[Leaf] | None:
        """Return the arguments that lead where the rule says, if the call has any; None where it leads elsewhere."""
        aims = _find_aims(rule.to, self._leaves, self._effects)
        held = [leaf for leaf in aims if not _is_allowed(leaf.text, rule.outside)]
        if rule.to in SINKS:
            return held or None
        is_led_elsewhere = any(_P["led elsewhere"].search(leaf.text) for leaf in self._leaves)
        return self._leaves if aims and (held or is_led_elsewhere) else None

    def _find_carried(self, rule: FlowRule, places: Sequence[Leaf]) -> tuple[str, str] | None:
        """Return what of the rule's source the call carries, and the argument; None where it carries nothing."""
        to = "anything that reaches out" if rule.to == OUT else f"`{rule.to}`"
        if rule.key == "value":
            for leaf in places:
                if rule.source in dict(redact(leaf.text).removed):
                    return f"a value of the kind `{rule.source}` would go to {to}", leaf.argument
            return (f"its arguments were not read to the end, and go to {to}", "arguments") if self._is_cut else None
        context, blocks = self._context, self._blocks_from(rule)
        # What a session has read that began elsewhere is not known, so it may be this.
        if not blocks and not context.has_unknown_history:
            return None
        if rule.key.startswith("after"):
            return f"the session has read `{rule.source}`, and this goes to {to}", "arguments"
        if self._is_cut:
            why = f"its arguments were not read to the end, and may hold `{rule.source}`, which must not go to {to}"
            return why, "arguments"
        asked = _fold_text(context.goal.asked_text)
        for leaf in places:
            # What the user said goes where the user says.
            if _fold_text(leaf.text) in asked:
                continue
            if self._holds(blocks, leaf.text, asked):
                return f"text of `{rule.source}` would go to {to}", leaf.argument
            if rule.to not in SINKS and self._is_composed(leaf.text):
                why = f"the agent has read `{rule.source}`, and this text of its own may hold it; it would go to {to}"
                return why, leaf.argument
        return None

    def _blocks_from(self, rule: FlowRule) -> list[str]:
        """Return the texts of the source, or with the label, that a rule names."""
        context = self._context
        if rule.key.endswith("_label"):
            return [block.content for block in context.blocks if rule.source in context.labels.get(block.id, ())]
        pattern = _pattern(rule.source)
        return [block.content for block in context.blocks if pattern.fullmatch(block.source.lower())]

    def _is_composed(self, text: str) -> bool:
        """Return whether a text is long enough, without the targets themselves, to hold what the agent has read."""
        for target in filter(None, (effect.target for effect in self._effects)):
            text = text.replace(target, "")
        return len(text.strip()) > _COMPOSED

    def _holds(self, blocks: Sequence[str], text: str, asked: str) -> bool:
        """Return whether a block has this text, or an address or a name in it; a text too long to compare counts."""
        # Whole, by its addresses, and by what stands in the path and the query of a link.
        behind_hosts = " ".join(_P["behind host"].findall(text))
        listed = (*_P["pieces"].findall(text)[:200], *_P["link pieces"].findall(behind_hosts)[:200])
        pieces = {_fold_text(text), *(_fold_text(piece.strip(".:")) for piece in listed)}
        pieces = {piece for piece in pieces if len(piece) >= _SHORTEST and piece not in asked}
        for content in blocks:
            self._left -= len(content) + len(text)
            folded = _fold_text(content) if self._left >= 0 else ""
            if self._left < 0 or any(piece in folded for piece in pieces):
                return True
        return False


def _find_aims(to: str, leaves: Sequence[Leaf], effects: Sequence[Effect]) -> list[Leaf]:
    """Return the arguments of a kind of place, or the targets of a kind of effect."""
    if to == "payee":
        is_payment = any(effect.kind == "pays" for effect in effects)
        return [leaf for leaf in leaves if is_payment and sink_from_argument(leaf.argument) in ("recipient", "account")]
    if to in SINKS:
        return [leaf for leaf in leaves if sink_from_argument(leaf.argument) == to]
    return [
        Leaf(effect.argument, effect.target)
        for effect in effects
        if (effect.severity >= Severity.REACHES_OUT if to == OUT else f"{effect.kind}-".startswith(f"{to}-"))
    ]


def _is_allowed(target: str, outside: Sequence[str]) -> bool:
    """Return whether every address in a target is one that the rule lets through; what cannot be told is not."""
    addresses = [_names_of(part) for part in _split_addresses(target)]
    # `*.our.example` lets `our.example` through as well.
    bare = {glob[2:] for glob in outside if glob.startswith("*.")}
    patterns = [_target_pattern(glob) for glob in outside]
    return bool(addresses) and all(
        any(name in bare or any(pattern.fullmatch(name) for pattern in patterns) for name in names)
        for names in addresses
    )


def _names_of(address: str) -> tuple[str, ...]:
    """Return the host or mailbox of an address, and a mailbox's domain; nothing where it may lead elsewhere."""
    if url := _P["whole url"].fullmatch(address):
        return (url[1],)
    if mailbox := _P["whole mailbox"].fullmatch(address):
        return address, mailbox[1]
    return (address,) if _P["plain name"].fullmatch(address) else ()


@lru_cache(maxsize=1024)
def _target_pattern(glob: str) -> re.Pattern[str]:
    # A star stands for no slash: `evil.example/x.our.example` is no host of ours.
    return re.compile(r"[^/@]*".join(re.escape(part) for part in glob.lower().split("*")))


# --- exceptions


def exceptions_for(rule: FlowRule, leaves: Sequence[Leaf], effects: Sequence[Effect]) -> tuple[str, ...]:
    """Return the addresses of a call that `outside` would have to name; none where one cannot be named there."""
    held = [leaf.text for leaf in _find_aims(rule.to, leaves, effects) if not _is_allowed(leaf.text, rule.outside)]
    names = [_names_of(part) for target in held for part in _split_addresses(target)]
    # Of a name of several words each word would be let through alone.
    is_plain = all(names) and all("@" in target or len(target.split()) == 1 for target in held)
    return tuple(sorted({name[0] for name in names})) if is_plain else ()


def add_outside(row: str, targets: Sequence[str]) -> str:
    """Return a row as a policy holds it, with these targets let through as well."""
    if not targets:
        return row
    members = _row_from_text(row)
    outside = dict.fromkeys((*members.get("outside", ()), *targets))
    return row_to_text({**members, "outside": list(outside)}, parse_flow)


def _split_addresses(target: str) -> list[str]:
    # Of `Ana Lind <ana@our.example>` the name is no address.
    plain = _P["named address"].sub(r" \1 ", target.strip().lower())
    return [part for part in _P["between addresses"].split(plain) if part]


def is_denied(findings: Sequence[Finding], flows: Sequence[str]) -> bool:
    """Return whether a rule that says `deny` is among what holds a call: then no person is asked."""
    names = {finding.rule for finding in findings}
    return any(rule.then == DENY and f"{FLOW}{rule.name}" in names for rule in map(parse_flow, flows))
