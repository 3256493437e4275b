"""Flow rules: which text may reach which place, said by a person and decided without any guess at intent.

A row says where something comes from, where it must not go, and what then happens:

| key | means |
|---|---|
| `name` | a short name; findings say `flow:NAME` |
| `from` | sources of blocks, as a pattern: `web:*`, `file:*/hr/*` |
| `from_label` | blocks with this label (`[[label]]` rows give labels to sources) |
| `value` | a kind of value in the arguments themselves: `card`, `iban`, `api-key`, `email`, … |
| `after`, `after_label` | the session has read such a block at all, whatever the arguments say |
| `to` | an argument for a `recipient`, `url`, `path`, `command` or `account`; of a payment the `payee`, which is both \
the recipient and the account; a kind of effect; or `out` |
| `outside` | only targets outside of these count: `*.our.example`, `ana@our.example` |
| `then` | `pause`: a person decides; `deny`: no one is asked |

A kind of effect may be the beginning of its name (`sends` for `sends-message`); `out` is whatever reaches out.

What cannot be told counts: a text that an agent has put together may hold anything that the agent has read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.redaction.redact import redact
from lockgate.core.redaction.spans import KINDS as VALUE_KINDS
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.effect import KINDS, Effect, Severity
from lockgate.core.ruling.targets import is_open_to_all
from lockgate.core.vocabulary import Block, Finding

if TYPE_CHECKING:
    from lockgate.core.ruling.context import Context

FLOW = "flow:"
PAUSE, DENY = "pause", "deny"
OUT = "out"
SINKS = ("recipient", "url", "path", "command", "account", "payee")
MAX_ROWS = 200
_MAX_TEXT = 200
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_FROM = ("from", "from_label", "value", "after", "after_label")
_KEYS = frozenset({"name", "to", "outside", "then", *_FROM})
# A value shorter than this stands in any text.
_SHORTEST = 4
# A text of so many characters, without the target itself, may hold something that the agent has read, in whatever code.
_COMPOSED = 12
# What stands between two addresses in one value.
_BETWEEN_ADDRESSES = re.compile(r"[\s,;<>\"']+")
# A host without a login, a mailbox, a plain name or path: anything else may lead elsewhere than it seems.
_URL = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9.-]+)(?::\d+)?(?:[/?#][^\\]*)?")
_MAILBOX = re.compile(r"[a-z0-9._+-]+@([a-z0-9.-]+)")
_PLAIN = re.compile(r"[#@~]?[\w.-]+(?::\d+)?")
_NAMED_ADDRESS = re.compile(r"[^,;<>@#/]*<([^<>]*)>")
# An address with a login or a backslash in it, and options that lead a program elsewhere than its address says.
_LED_ELSEWHERE = re.compile(
    r"://[^\s/?#]*[\\@]|--(?:connect-to|resolve|proxy|preproxy|socks\S*|config|doh-url)\b|\s-[xKJ]\b"
    r"|\b(?:hostname|proxycommand|proxyjump)\s*=|\b(?:https?|all)_proxy=",
    re.IGNORECASE,
)
_BEHIND_HOST = re.compile(r"\w+://[^\s/?#]*([/?#][^\s\"'<>]*)")
_LINK_PIECES = re.compile(r"[\w@+-]+")
_PIECES = re.compile(r"[^\s\"'<>()\[\]{},;|`]+")
# So many mailboxes of one domain are let through by its name.
_MAILBOXES_OF_DOMAIN = 3
# What one check may compare. A text that is longer counts as carrying everything.
_MAX_COMPARED = 64 * 1024 * 1024


class FlowRule(NamedTuple):
    """One row. Of the five ways to say where something comes from, one is given."""

    name: str
    to: str
    then: str
    source: str = ""
    label: str = ""
    value: str = ""
    is_after: bool = False
    outside: tuple[str, ...] = ()


class LabelRule(NamedTuple):
    """Blocks of these sources have this label."""

    source: str
    label: str


# --- rows


def flow_to_text(row: Mapping[str, object]) -> str:
    """Return a row of a configuration file as a policy holds it; raise InvalidConfig for one that means nothing."""
    return _row_to_text(row, parse_flow)


def label_to_text(row: Mapping[str, object]) -> str:
    """Return a row that gives a label as a policy holds it; raise InvalidConfig for one that means nothing."""
    return _row_to_text(row, parse_label)


def _row_to_text(row: Mapping[str, object], parse: Callable[[str], object]) -> str:
    text = json.dumps(row, sort_keys=True, ensure_ascii=True, default=str)
    parse(text)
    return text


@lru_cache(maxsize=512)
def parse_flow(text: str) -> FlowRule:
    """Return the rule in a policy's text."""
    row = _row_from_text(text)
    name, then = _word(row, "name", ""), _word(row, "then", PAUSE)
    if not _NAME.fullmatch(name):
        raise InvalidConfig(
            f"a flow needs a name of small letters, digits and hyphens, not {quoted(name)}",
            hint='for example name = "web-chooses-no-recipient"',
        )
    unknown = sorted(set(row) - _KEYS)
    if unknown:
        raise InvalidConfig(
            f"flow {quoted(name)}: unknown key {quoted(unknown[0])}", hint=f"known: {', '.join(sorted(_KEYS))}"
        )
    if then not in (PAUSE, DENY):
        raise InvalidConfig(f"flow {quoted(name)}: unknown `then` {quoted(then)}", hint="use pause or deny")
    key, said = _parse_from(row, name)
    return FlowRule(
        name,
        _parse_to(row, name),
        then,
        source=said if key in ("from", "after") else "",
        label=said if key.endswith("_label") else "",
        value=said if key == "value" else "",
        is_after=key.startswith("after"),
        outside=_texts(row, "outside", name),
    )


def _parse_from(row: Mapping[str, object], name: str) -> tuple[str, str]:
    """Return which key says where something comes from, and what it says."""
    given = [key for key in _FROM if key in row]
    if len(given) != 1:
        raise InvalidConfig(
            f"flow {quoted(name)} says {'more than one place' if given else 'nowhere'} that it comes from",
            hint=f"give one of: {', '.join(_FROM)}",
        )
    said = _word(row, given[0], "")
    if not said:
        raise InvalidConfig(f"flow {quoted(name)}: `{given[0]}` is empty")
    if given[0] == "value" and said not in VALUE_KINDS:
        raise InvalidConfig(
            f"flow {quoted(name)}: unknown kind of value {quoted(said)}", hint=f"known: {', '.join(VALUE_KINDS)}"
        )
    return given[0], said


def _parse_to(row: Mapping[str, object], name: str) -> str:
    to = _word(row, "to", "")
    if to != OUT and to not in SINKS and not any(kind == to or kind.startswith(f"{to}-") for kind in KINDS):
        raise InvalidConfig(
            f"flow {quoted(name)}: {quoted(to)} is neither a place nor a kind of effect",
            hint=f"use {OUT}, {', '.join(SINKS)}, or a kind that `lockgate explain` names, such as sends-message",
        )
    return to


@lru_cache(maxsize=512)
def parse_label(text: str) -> LabelRule:
    """Return the rule in a policy's text."""
    row = _row_from_text(text)
    source, label = _word(row, "source", ""), _word(row, "as", "")
    if set(row) != {"source", "as"} or not source or not _NAME.fullmatch(label):
        raise InvalidConfig(
            "a label needs `source`, a pattern, and `as`, a name of small letters, digits and hyphens",
            hint='for example source = "file:*/hr/*" and as = "personal"',
        )
    return LabelRule(source, label)


def _row_from_text(text: str) -> dict[str, object]:
    try:
        row = json.loads(text)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InvalidConfig("a flow or a label is a table", hint="write [[flow]] or [[label]], and its keys below it")
    return row


def _word(row: Mapping[str, object], key: str, default: str) -> str:
    value = row.get(key, default)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise InvalidConfig(f"`{key}` must be a text of at most {_MAX_TEXT} characters")
    return value.strip()


def _texts(row: Mapping[str, object], key: str, name: str) -> tuple[str, ...]:
    values = row.get(key, [])
    if not isinstance(values, list) or not all(isinstance(each, str) and 0 < len(each) <= _MAX_TEXT for each in values):
        raise InvalidConfig(f"flow {quoted(name)}: `{key}` must be a list of texts")
    return tuple(each.lower() for each in values)


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob.lower()), re.DOTALL)


def labels_of(source: str, labels: Sequence[str]) -> frozenset[str]:
    """Return the labels of a source by the label rows of a policy."""
    rules = map(parse_label, labels)
    return frozenset(rule.label for rule in rules if _pattern(rule.source).fullmatch(source.lower()))


# --- a call


class FlowCheck:
    """Looks for what the flow rules of a policy hold against one call."""

    def __init__(self, context: Context, leaves: Sequence[Leaf], effects: Sequence[Effect], *, is_cut: bool) -> None:
        self._context = context
        self._leaves = leaves
        self._effects = effects
        self._is_cut = is_cut
        self._left = _MAX_COMPARED

    def find(self, flows: Sequence[str]) -> list[Finding]:
        """Return one finding for each rule that holds the call; its excerpt says what would go where."""
        found = []
        for rule in map(parse_flow, flows):
            places = self._places(rule)
            carried = self._find_carried(rule, places) if places is not None else None
            if carried is not None:
                what, leaf = carried
                what += "; it says deny, so no person is asked" if rule.then == DENY else ""
                where = leaf.argument if leaf is not None else "arguments"
                found.append(Finding(f"{FLOW}{rule.name}", where, 0, 0, "raw", what[:160]))
        return found

    def _places(self, rule: FlowRule) -> list[Leaf] | None:
        """Return the arguments that lead where the rule says; None where none does."""
        if rule.to in SINKS:
            to = _leaves_for_sink(rule.to, self._leaves, self._effects)
            return [leaf for leaf in to if not _is_allowed(leaf.text, rule.outside)] or None
        reaching = [found for found in self._effects if _is_meant(found, rule.to)]
        if not reaching:
            return None
        is_led_elsewhere = any(_LED_ELSEWHERE.search(leaf.text) for leaf in self._leaves)
        if not is_led_elsewhere and all(_is_allowed(found.target, rule.outside) for found in reaching):
            return None
        return list(self._leaves)

    def _find_carried(self, rule: FlowRule, places: Sequence[Leaf]) -> tuple[str, Leaf | None] | None:
        """Return what of the rule's source the call carries, and the argument; None where it carries nothing."""
        to = "anything that reaches out" if rule.to == OUT else f"`{rule.to}`"
        if rule.value:
            for leaf in places:
                if any(kind == rule.value for kind, _ in redact(leaf.text).removed):
                    return f"a value of the kind `{rule.value}` would go to {to}", leaf
            return (f"its arguments were not read to the end, and go to {to}", None) if self._is_cut else None
        blocks = [number for number, block in enumerate(self._context.blocks) if self._is_from(block, rule)]
        # What a session has read that began elsewhere is not known, so it may be this.
        if not blocks and not self._context.has_unknown_history:
            return None
        whose = f"`{rule.label or rule.source}`"
        if rule.is_after:
            return f"the session has read {whose}, and this goes to {to}", None
        if self._is_cut:
            return f"its arguments were not read to the end, and may hold {whose}, which must not go to {to}", None
        return self._carried_from(blocks, whose, to, places, may_be_composed=rule.to not in SINKS)

    def _carried_from(
        self, blocks: Sequence[int], whose: str, to: str, places: Sequence[Leaf], *, may_be_composed: bool
    ) -> tuple[str, Leaf] | None:
        asked = _fold_text(self._context.goal.asked_text)
        for leaf in places:
            # What the user said goes where the user says.
            if _fold_text(leaf.text) in asked:
                continue
            if any(self._holds(number, leaf.text) for number in blocks):
                return f"text of {whose} would go to {to}", leaf
            if may_be_composed and self._may_carry_more_than_target(leaf.text):
                return f"the agent has read {whose}, and this text of its own may hold it; it would go to {to}", leaf
        return None

    def _may_carry_more_than_target(self, text: str) -> bool:
        for found in self._effects:
            text = text.replace(found.target, "") if found.target else text
        return len(text.strip()) > _COMPOSED

    def _is_from(self, block: Block, rule: FlowRule) -> bool:
        if rule.label:
            return rule.label in self._context.labels.get(block.id, ())
        return _pattern(rule.source).fullmatch(block.source.lower()) is not None

    def _holds(self, number: int, text: str) -> bool:
        """Return whether a block has this text, or an address or a name in it; a text too long to compare counts."""
        content = self._context.blocks[number].content
        self._left -= len(content) + len(text)
        if self._left < 0:
            return True
        said, asked = _fold_text(content), _fold_text(self._context.goal.asked_text)
        # Whole, by its addresses, and by what stands in the path and the query of a link.
        behind_hosts = " ".join(_BEHIND_HOST.findall(text))
        listed = (*_PIECES.findall(text)[:200], *_LINK_PIECES.findall(behind_hosts)[:200])
        pieces = {_fold_text(text), *(_fold_text(piece.strip(".:")) for piece in listed)}
        return any(len(piece) >= _SHORTEST and piece in said and piece not in asked for piece in pieces if piece)


def _fold_text(text: str) -> str:
    return " ".join(text.lower().split())


def _is_meant(found: Effect, to: str) -> bool:
    if to == OUT:
        return found.severity >= Severity.REACHES_OUT
    return found.kind == to or found.kind.startswith(f"{to}-")


def _is_allowed(target: str, outside: Sequence[str]) -> bool:
    """Return whether every address in a target is one that the rule lets through; what cannot be told is not."""
    parts = _split_addresses(target)
    return bool(outside) and bool(parts) and all(_is_allowed_address(part, outside) for part in parts)


def _is_allowed_address(address: str, outside: Sequence[str]) -> bool:
    url = _URL.fullmatch(address)
    mailbox = _MAILBOX.fullmatch(address)
    if url is not None:
        names = {url[1]}
    elif mailbox is not None:
        names = {address, mailbox[1]}
    elif _PLAIN.fullmatch(address):
        names = {address}
    else:
        return False
    return any(
        _target_pattern(each).fullmatch(name) or (each.startswith("*.") and name == each[2:])
        for each in outside
        for name in names
    )


@lru_cache(maxsize=1024)
def _target_pattern(glob: str) -> re.Pattern[str]:
    # A star stands for no slash: `evil.example/x.our.example` is no host of ours.
    return re.compile(r"[^/@]*".join(re.escape(part) for part in glob.lower().split("*")))


# --- exceptions


def exceptions_for(rule: FlowRule, leaves: Sequence[Leaf], effects: Sequence[Effect]) -> tuple[str, ...]:
    """Return the addresses of a call that `outside` would have to name; none where one cannot be named there."""
    if rule.to in SINKS:
        targets = [leaf.text for leaf in _leaves_for_sink(rule.to, leaves, effects)]
    else:
        targets = [found.target for found in effects if _is_meant(found, rule.to)]
    held = [target for target in targets if not _is_allowed(target, rule.outside)]
    names = {_host_or_mailbox(part) for target in held for part in _split_addresses(target)}
    # Of a name of several words each word would be let through alone.
    is_plain = all("@" in target or len(target.split()) == 1 for target in held)
    return tuple(sorted(names)) if is_plain and all(_is_allowed_address(name, (name,)) for name in names) else ()


def join_targets(targets: set[str], barred: set[str]) -> frozenset[str]:
    """Return the targets, with one domain in the place of several of its mailboxes where all of them can be meant.

    No domain stands for its mailboxes where anyone can have one, or where one of them is barred.
    """
    mailboxes: dict[str, set[str]] = {}
    for target in targets:
        if _MAILBOX.fullmatch(target):
            mailboxes.setdefault(target.rpartition("@")[2], set()).add(target)
    closed = {each.rpartition("@")[2] for each in barred}
    joined = {
        domain
        for domain, found in mailboxes.items()
        if len(found) >= _MAILBOXES_OF_DOMAIN and domain not in closed and not is_open_to_all(domain.encode())
    }
    return frozenset({*joined, *(each for each in targets if each.rpartition("@")[2] not in joined)})


def add_outside(row: str, targets: Sequence[str]) -> str:
    """Return a row as a policy holds it, with these targets let through as well."""
    if not targets:
        return row
    said = _row_from_text(row)
    before = said.get("outside", [])
    known = [str(each) for each in before] if isinstance(before, list) else []
    return flow_to_text({**said, "outside": list(dict.fromkeys([*known, *targets]))})


def _leaves_for_sink(sink: str, leaves: Sequence[Leaf], effects: Sequence[Effect]) -> list[Leaf]:
    if sink != "payee":
        return [leaf for leaf in leaves if sink_from_argument(leaf.argument) == sink]
    is_payment = any(found.kind == "pays" for found in effects)
    return [leaf for leaf in leaves if is_payment and sink_from_argument(leaf.argument) in ("recipient", "account")]


def _host_or_mailbox(address: str) -> str:
    url = _URL.fullmatch(address)
    return address if url is None else url[1]


def _split_addresses(target: str) -> list[str]:
    # Of `Ana Lind <ana@our.example>` the name is no address.
    return [part for part in _BETWEEN_ADDRESSES.split(_NAMED_ADDRESS.sub(r" \1 ", target.strip().lower())) if part]


def is_denied(findings: Sequence[Finding], flows: Sequence[str]) -> bool:
    """Return whether a rule that says `deny` is among what holds a call: then no person is asked."""
    names = {found.rule for found in findings}
    return any(rule.then == DENY and f"{FLOW}{rule.name}" in names for rule in map(parse_flow, flows))
