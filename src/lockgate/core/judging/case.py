"""What a judge is shown of an escalated call, as a value: bounded, without secrets, and open about what is missing.

1. Secrets are taken out of every text before it is cut, so that no border leaves half of one behind. Addresses, names,
   paths and accounts stay: a judge of where something goes has to see where it goes.
2. The goal, the call, the findings and the origins come first, each within a share of the budget.
3. The flagged blocks share what is left of it, the most telling ones with the largest part: around each place something
   was found in, and head and tail. Of a block without room its findings are named.
4. The other untrusted texts have the rest: as many whole as possible, of the others head and tail.

Any part of an untrusted text that is not shown makes the case `truncated`: an attacker chooses how long the text is, so
a judge of half a text must not be easier to convince than a judge of all of it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from operator import itemgetter
from typing import NamedTuple, TypeVar

from lockgate.core.redaction.redact import (
    LINE_OVERHEAD,
    ShownParts,
    as_json,
    cut_to_budget,
    estimate_need,
    quote,
    remove_secrets,
    remove_secrets_from_value,
    share_budget,
    written_size,
    written_size_twice,
)
from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.ruling.context import Context, PastCall
from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.explanations import SIGNALS
from lockgate.core.ruling.pipeline import HARD_RULES, EscalatedCall, Stage
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.supervised_steps import UNSHOWN
from lockgate.core.ruling.tool_risk import tool_risk
from lockgate.core.tables import read_table
from lockgate.core.text.rules import RULES_BY_ID
from lockgate.core.vocabulary import Action, Block, Finding, Origin, Risk, Trust

# Characters as they are written in a prompt, where an invisible one takes six or twelve.
# One more page in a cheap question costs less than a dear question.
TRIAGE_CHARACTERS, SUPERVISOR_CHARACTERS, LEAST_CHARACTERS = 48_000, 96_000, 2_000
MAX_GOAL, MAX_LINES, MAX_BLOCKS, MAX_LEAVES = 4_000, 48, 64, 200
_MAX_DEPTH, _MAX_NAME, _MAX_SAID = 64, 120, 8
_MAX_TARGETS, _MAX_NAMED, _MAX_SECRET = 6, 4, 4_000
# And the line about a block: its id, its source, its hash.
_OWN_LINE = 320
_LONG_WORDS = re.compile(r"[^\s\"'=:,;]{6,}")
# A block that cannot have so many characters is told of by its findings alone.
_LEAST_SHARE = 400
_T = TypeVar("_T")
# The rank, start and end of places, by their block or argument; from rank `_KNOWN` on they flag no block.
_Places = dict[str, list[tuple[int, int, int]]]
_KNOWN = 3
_FAMILIES = read_table(__package__, "case.tbl", "findings", ("rule", "words"))
_TRIAGE = {row[0]: row[1] for row in read_table(__package__, "case.tbl", "triage", ("answer", "words"))}


class ContextSnapshot(NamedTuple):
    """What a context held at one moment; nothing that is added later changes it."""

    blocks: tuple[Block, ...]
    positions: Mapping[str, int]


BlockLookup = Context | ContextSnapshot


def take_snapshot(context: Context) -> ContextSnapshot:
    """Return the blocks as they are now. The caller holds the lock that guards the context."""
    return ContextSnapshot(tuple(context.blocks), dict(context.positions))


class Excerpt(NamedTuple):
    """One block: the parts of it that are shown, in their order; none when there was no room, which leaves the digest
    empty as well, or when a block before it has the same digest: what was read twice is shown once.

    `digest` is the hash of the text without its secrets, as far as it was read: that of the original would let
    a reader who guesses a short secret check the guess.
    """

    block: str
    source: str
    trust: str
    digest: str
    pieces: tuple[str, ...]
    whole: bool
    flagged: bool


class JudgeCase(NamedTuple):
    """Everything a judge is told. The lines are Lockgate's sentences; what they quote stands in them as JSON strings.

    `truncated` says that something which could matter is not shown, `left_out` what it is. `withheld` says that words
    went with a secret where no rule found anything: the judge is told, and may clear the call all the same. Ordinary
    mail is full of codes and links behind the word "password", so that else hardly a call could be cleared.
    """

    goal: str
    tool: str
    arguments: str
    risk: str
    targets: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    scope: str = ""
    mode: str = "default"
    trail: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    triage: str = ""
    truncated: bool = False
    left_out: tuple[str, ...] = ()
    withheld: bool = False

    @property
    def complete(self) -> bool:
        """Whether a judge has everything before it."""
        return not (self.truncated or self.withheld)


def build_case(
    ask: EscalatedCall, context: BlockLookup, policy: Policy, *, goal: str, history: Sequence[PastCall], budget: int = 0
) -> JudgeCase:
    """Return the case for the judge that the call waits for; `budget` bounds its characters in a prompt (0: as usual).

    Given a `ContextSnapshot` it may take its time on any thread; a `Context` must not change meanwhile.
    """
    top = ask.stage is Stage.SUPERVISOR
    budget = max(budget or (SUPERVISOR_CHARACTERS if top else TRIAGE_CHARACTERS), LEAST_CHARACTERS)
    missing = _LeftOut()
    # 2. The goal, the call, the findings and the origins.
    asked = cut_to_budget(goal, (), min(MAX_GOAL, budget // 8))
    missing.note("parts of the goal", applies=not asked.whole)
    tool = remove_secrets(ask.call.tool[:_MAX_NAME])
    missing.note("the end of the tool's name", applies=len(ask.call.tool) > _MAX_NAME)
    places = _rank_places(ask)
    flagged = _rank_flagged(places, context)
    arguments = _arguments(ask, places, budget // 4, missing)
    ranked_findings = _rank_findings(ask.findings, missing)
    findings = missing.fit(ranked_findings, partial(_finding_line, context), budget // 8, "of the findings")
    ranked = sorted(ask.origins, key=lambda origin: (origin.known, not origin.order))
    orders = sum(1 for origin in ranked if origin.order and not origin.known)
    origins = missing.fit(ranked, _origin_line, budget // 8, "of the origins", telling=orders)
    trail = _trail(history, policy, budget // (8 if top else 16), missing, top=top)
    targets, secrets = tuple(_target_lines(ask, context)), tuple(_secret_lines(ask, context))
    made = list(_lineage(flagged, context)) if top else []
    lineage = missing.fit(made, str, budget // 16, "of the lines on what was made from what")
    # 3. and 4. The blocks.
    lines = *targets, *secrets, *findings, *origins, *trail, *lineage
    shown = *asked.pieces, tool.text, arguments, policy.research_scope, *lines
    chooser = _ExcerptChooser(context, places, flagged, budget - sum(map(_line_size, shown)), missing)
    chooser.add_all(ask, context.blocks[-policy.recent_blocks :])
    unread = {name in flagged for name, parts in chooser.shown.items() if parts.unread}
    removed = "words that were removed together with secrets"
    missing.note(f"{removed}, where nothing was found", applies=False in unread, matters=False)
    missing.note(removed, applies=asked.unread or tool.unread or True in unread)
    return JudgeCase(
        goal="\n[…]\n".join(asked.pieces),
        tool=tool.text,
        arguments=arguments,
        risk=ask.risk.value,
        targets=targets,
        secrets=secrets,
        findings=findings,
        origins=origins,
        excerpts=chooser.excerpts(),
        scope=policy.research_scope,
        mode=policy.mode.value,
        trail=trail,
        lineage=lineage,
        triage=_TRIAGE.get(ask.triage or "none", "") if top else "",
        truncated=missing.matters,
        left_out=tuple(missing.what),
        withheld=False in unread,
    )


class _LeftOut:
    """What the judge does not get to see; `matters` says that without some of it a judge does not know enough."""

    def __init__(self) -> None:
        self.what: list[str] = []
        self.matters = False

    def note(self, what: str, *, applies: bool, matters: bool = True) -> None:
        self.what += [what] if applies else []
        self.matters |= applies and matters

    def count(self, number: int, what: str, *, matters: bool = True) -> None:
        self.note(f"{number:,} {what}", applies=number > 0, matters=matters)

    def fit(
        self, parts: Sequence[_T], line_of: Callable[[_T], str], budget: int, what: str, telling: int | None = None
    ) -> tuple[str, ...]:
        """Return the lines of as many parts as there is room for; only the first `telling` of them matter."""
        shown: dict[str, None] = {}
        for number, line in enumerate(map(line_of, parts)):
            if line in shown:
                continue
            budget -= _line_size(line)
            if budget < 0 or len(shown) >= MAX_LINES:
                self.count(len(parts) - number, what, matters=telling is None or number < telling)
                break
            shown[line] = None
        return tuple(shown)


def _line_size(line: str) -> int:
    return written_size(line) + LINE_OVERHEAD


def _rank_findings(findings: Sequence[Finding], missing: _LeftOut) -> list[Finding]:
    """Return what no judge may clear first, then the origins, then the rules; each kind once before any comes again.

    An attacker can have as many findings as he likes, and must not be able to bury one under the others.
    """
    seen: Counter[str] = Counter()
    ranked = []
    for finding in findings:
        missing.note(finding.excerpt, applies=finding.rule == UNSHOWN)
        seen[finding.rule] += 1
        kind = 0 if finding.rule.startswith(HARD_RULES) else 1 if finding.rule.startswith("origin:") else 2
        ranked.append((seen[finding.rule], kind, finding))
    return [finding for *_, finding in sorted(ranked, key=lambda entry: entry[:2])]


def explain_rule(rule: str) -> str:
    """Return what a rule's finding means, in a few words."""
    if rule in SIGNALS:
        return SIGNALS[rule][0]
    family = (words for prefix, words in _FAMILIES if rule.startswith(prefix))
    return RULES_BY_ID[rule].what if rule in RULES_BY_ID else next(family, "a check of this installation")


def _finding_line(context: BlockLookup, finding: Finding) -> str:
    where = "block" if finding.where in context.positions and not _in_argument(finding) else "argument"
    reading = "" if finding.reading in ("raw", "exact") else f", read as {finding.reading}"
    what = f": {quote(finding.excerpt)}" if finding.excerpt else ""
    return f"{finding.rule} ({explain_rule(finding.rule)}) in {where} {quote(finding.where, 80)}{reading}{what}"


def _in_argument(finding: Finding) -> bool:
    """Return whether a signal names an argument, while its offsets are those of the value in a block."""
    return finding.rule.startswith("origin:") and finding.rule != "origin:tool-in-order"


def _origin_line(origin: Origin) -> str:
    reading = "" if origin.how in ("exact", "raw") else f", read as {origin.how}"
    order = f", in or beside a sentence that gives orders: {quote(origin.order, 240)}" if origin.order else ""
    known = "the goal or trusted text has it too" if origin.known else "neither goal nor trusted text has it"
    return (
        f"argument {quote(origin.argument, 80)} has {quote(origin.value)} from block {quote(origin.block, 80)} "
        f"({quote(origin.source, 80)}){reading}{order}; {known}"
    )


def _trail(
    history: Sequence[PastCall], policy: Policy, budget: int, missing: _LeftOut, *, top: bool
) -> tuple[str, ...]:
    """Return the earlier calls, latest last. Sixty looks around must not push out the one call that did something."""

    def rank(past: PastCall) -> int:
        if past.action != Action.CONTINUE.value:
            return 0
        return 1 if tool_risk(past.tool, additional=policy.high_risk_tools) is Risk.HIGH else 2

    numbered = [(rank(past), -number, past) for number, past in enumerate(history, 1)]
    ranked = sorted(numbered, key=lambda entry: entry[:2])
    # A held call tells of an attack; the others were let run. Triage asks about this call, not about the trail.
    held = sum(1 for least, *_ in ranked if least == 0) if top else 0
    lines = missing.fit(ranked, lambda entry: _past_line(-entry[1], entry[2]), budget, "of the earlier calls", held)
    return tuple(sorted(lines, key=lambda line: int(line.partition(".")[0])))


def _past_line(number: int, past: PastCall) -> str:
    values = ", ".join(f"{quote(name, 40)}: {_quote_value(name, text)}" for name, text in past.values[:6])
    more = ", …" if len(past.values) > 6 else ""
    return f"{number}. {quote(past.tool, 80)} {{{values}{more}}}: {past.action} by tier {past.tier} ({past.reason})"


def _quote_value(name: str, text: str) -> str:
    """Return a value for a line, without what its name says is secret."""
    return as_json(remove_secrets_from_value(name, text).text) if len(text) <= 80 else quote(text, 80)


def _lineage(flagged: Iterable[str], context: BlockLookup) -> Iterator[str]:
    """Yield what the flagged blocks were made from, and what those were made from."""
    pending = [*flagged][::-1]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in context.positions:
            continue
        seen.add(name)
        if parents := _find_block(name, context).tainted_by:
            yield f"block {_describe_blocks([name], context)} was made from {_describe_blocks(parents, context, 8)}"
            pending += parents[:8]


def _describe_blocks(names: Sequence[str], context: BlockLookup, most: int = 1) -> str:
    blocks = [_find_block(name, context) for name in names[:most]]
    listed = ", ".join(f"{quote(block.id, 80)} ({quote(block.source, 80)}, {block.trust.word})" for block in blocks)
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed


def _target_lines(ask: EscalatedCall, context: BlockLookup) -> Iterator[str]:
    """Yield what the call would do, and which texts name what it is aimed at, also where nothing was found."""
    for effect in dict.fromkeys(ask.effects[:_MAX_TARGETS]):
        does = KINDS[effect.kind].does.replace("`{target}`", quote(effect.target) if effect.target else "something")
        named = f"; {_list_blocks(context, [effect.target])}" if effect.target else ""
        yield f"{does}{named}"


def _secret_lines(ask: EscalatedCall, context: BlockLookup) -> Iterator[str]:
    """Yield where the secrets in the arguments come from; of a secret itself only its kind is shown."""
    for leaf in flatten_arguments(ask.call.arguments)[0][:MAX_LEAVES]:
        text = leaf.text[:_MAX_SECRET]
        clean = remove_secrets_from_value(leaf.argument, text)
        if clean.removed:
            removed = [word for word in _LONG_WORDS.findall(text) if word not in clean.text]
            yield f"the secret in argument {quote(leaf.argument, 80)}: {_list_blocks(context, removed)}"


def _list_blocks(context: BlockLookup, words: Sequence[str]) -> str:
    """Return which of the blocks have one of these words."""
    folded = [word.casefold() for word in words if word]
    named = [block.id for block in context.blocks if any(word in block.content.casefold() for word in folded)]
    listed = _describe_blocks(named, context, _MAX_NAMED)
    return f"it stands in block {listed}" if named else "it stands in nothing that is on record"


class _ArgumentLeaf(NamedTuple):
    """A value in the arguments: where it is, what it is called, and its text, which is quoted unless it is a number."""

    path: str
    name: str
    text: str
    quoted: bool


def _arguments(ask: EscalatedCall, places: _Places, budget: int, missing: _LeftOut) -> str:
    """Return the arguments as JSON; a text that is too long is `{"parts": […], "characters": …}`."""
    # Written here and not by a library: two long names that begin alike must not become one, with one value.
    tokens: list[str | _ArgumentLeaf] = []
    missing.count(_tokenize("", "", ask.call.arguments, 0, tokens), "of the arguments, or parts of them")
    leaves = [token for token in tokens if isinstance(token, _ArgumentLeaf)]
    room = max(0, budget - sum(written_size(token) for token in tokens if isinstance(token, str)))
    needs = [estimate_need(leaf.text, room, written_size_twice) for leaf in leaves]
    shares = iter(share_budget(needs, [1] * len(leaves), room))
    written: list[str] = []
    cut = unread = False
    for token in tokens:
        if isinstance(token, str):
            written.append(token)
            continue
        share = next(shares)
        clean = remove_secrets_from_value(token.name, token.text) if len(token.text) <= max(share, 400) else None
        if clean is not None and written_size_twice(clean.text) <= share:
            unread = unread or clean.unread
            written.append(as_json(clean.text) if token.quoted or clean.removed else clean.text)
            continue
        text = clean.text if clean is not None and clean.removed else token.text
        parts = cut_to_budget(text, _list_spans(places, [token.path]), share, written_size_twice)
        cut, unread = True, unread or parts.unread
        written.append(f'{{"parts": [{", ".join(map(as_json, parts.pieces))}], "characters": {len(token.text)}}}')
    missing.note("parts of the arguments", applies=cut)
    missing.note("words that were removed from the arguments together with secrets", applies=unread)
    return "".join(written)


def _tokenize(path: str, name: str, value: object, depth: int, tokens: list[str | _ArgumentLeaf]) -> int:
    """Take a value apart into JSON's own signs and the leaves between them; return how many were left out."""
    if depth > _MAX_DEPTH or len(tokens) > 4 * MAX_LEAVES:
        tokens.append('"[left out]"')
        return 1
    if not isinstance(value, Mapping | list | tuple):
        try:
            text = value if isinstance(value, str) else json.dumps(value)
        except (TypeError, ValueError):
            # Python refuses to print integers of thousands of digits.
            text = '"[a number too long to write]"'
        is_word = isinstance(value, bool | None)
        tokens.append(text if is_word else _ArgumentLeaf(path, name, text, isinstance(value, str)))
        return 0
    left_out = 0
    begin, end = "{}" if isinstance(value, Mapping) else "[]"
    tokens.append(begin)
    for number, (key, item) in enumerate(value.items() if isinstance(value, Mapping) else enumerate(value)):
        if len(tokens) > 4 * MAX_LEAVES:
            left_out += len(value) - number
            break
        below, called, label = f"{path}[{number}]", name, ", " if number else ""
        if isinstance(value, Mapping):
            called = str(key)[:_MAX_NAME]
            left_out += len(str(key)) > _MAX_NAME
            label += f"{quote(str(key), _MAX_NAME)}: "
            below = f"{path}.{called[:40]}" if path else called[:40]
        tokens += [label] if label else []
        left_out += _tokenize(below, called, item, depth + 1, tokens)
    tokens.append(end)
    return left_out


def _rank_places(ask: EscalatedCall) -> _Places:
    """Return where in each block or argument something was found.

    The rank of a value in an order is 0, of a finding 1, of another value 2; 3 and 5 if the goal has the value too.
    """
    places: _Places = {}
    for origin in ask.origins:
        rank = (0 if origin.order else 2) + (_KNOWN if origin.known else 0)
        places.setdefault(origin.block, []).append((rank, origin.start, origin.end))
    for finding in ask.findings:
        if not _in_argument(finding):
            places.setdefault(finding.where, []).append((1, finding.start, finding.end))
    return places


def _list_spans(places: _Places, names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the spans of these blocks or arguments, the most telling first."""
    ranked = sorted((place for name in names for place in places.get(name, ())), key=itemgetter(0))
    return tuple((start, end) for _, start, end in ranked)


def _rank_flagged(places: _Places, context: BlockLookup) -> dict[str, int]:
    """Return the blocks something was found in or came from, the most telling first, each with its rank."""
    blocks = (_find_block(name, context) for name in places if name in context.positions)
    ranks = {block.id: min(places[block.id])[0] for block in blocks if block.trust is not Trust.TRUSTED}
    names = sorted(ranks, key=lambda name: (ranks[name], -context.positions[name]))
    return {name: ranks[name] for name in names if ranks[name] < _KNOWN}


def _find_block(name: str, context: BlockLookup) -> Block:
    return context.blocks[context.positions[name]]


class _ExcerptChooser:
    """Spends its room on blocks; `shown` has by id the parts of a block that are shown."""

    def __init__(
        self, context: BlockLookup, places: _Places, flagged: Mapping[str, int], room: int, missing: _LeftOut
    ) -> None:
        self._context, self._places, self._flagged, self._missing = context, places, flagged, missing
        self._room = room
        # The flagged blocks by their digest: a text that was read twice is shown once.
        self._twins: dict[str, list[str]] = {}
        self.shown: dict[str, ShownParts] = {}

    def add_all(self, ask: EscalatedCall, recent: Sequence[Block]) -> None:
        # What says what is wanted now comes first: an attacker's text must not push it out.
        trusted = [block for block in recent if block.trust is not Trust.UNTRUSTED]
        said = [block for block in trusted if block.source.partition(":")[0] in ("user", "supervisor")]
        share = self._room // 8 // _MAX_SAID
        for block in said[-_MAX_SAID:]:
            self.shown[block.id] = parts = _cut_block(block, (), share)
            self._room -= _OWN_LINE + parts.written_size
        self._add_flagged(ask)
        self._add_others(recent)

    def _add_flagged(self, ask: EscalatedCall) -> None:
        """3. Add the flagged blocks; of one without room its findings are named."""
        self._missing.count(len(self._flagged) - MAX_BLOCKS, "of the flagged blocks altogether")
        names = list(self._flagged)[:MAX_BLOCKS]
        for name in names:
            self._twins.setdefault(_find_block(name, self._context).digest, []).append(name)
        self._room = max(self._room - _OWN_LINE * len(names), 0)
        distinct = [_find_block(same[0], self._context) for same in self._twins.values()]
        for name in self._add(distinct, MAX_BLOCKS, 0, "of the flagged blocks"):
            self.shown[name] = ShownParts((), False)
            rules = dict.fromkeys(finding.rule for finding in ask.findings if finding.where == name)
            what = ", ".join(list(rules)[:4]) or "values of the call come from it"
            self._missing.note(f"all of block {quote(name, 80)}: {what}", applies=True)

    def _add_others(self, recent: Sequence[Block]) -> None:
        """4. Add the other untrusted texts, each once, the latest first where there are too many."""
        others = {
            block.digest: block
            for block in recent
            if block.trust is Trust.UNTRUSTED and block.id not in self._flagged and block.digest not in self._twins
        }
        latest = sorted(others.values(), key=lambda block: -self._context.positions[block.id])
        nothing_found = "of the untrusted blocks in which nothing was found"
        left_out = self._add(latest, MAX_BLOCKS - len(self.shown), _OWN_LINE, nothing_found)
        self._missing.count(len(left_out), nothing_found)

    def _add(self, blocks: Sequence[Block], most: int, line: int, what: str) -> list[str]:
        """Add blocks in their order as far as there is room for `line` and a text; return the others."""
        needs: dict[str, int] = {}
        left = self._room
        for block in blocks:
            if len(needs) >= most or left < line + LINE_OVERHEAD:
                break
            need = estimate_need(block.content, self._room, _weigh)
            # One that has no room for a least share is left out, and a shorter one behind it may have some.
            if left >= line + min(need, _LEAST_SHARE):
                left -= line + min(need, _LEAST_SHARE)
                needs[block.id] = need
        # Those with orders have the larger share.
        worth = [2 if self._flagged.get(name) == 0 else 1 for name in needs]
        shares = share_budget([*needs.values()], worth, max(0, self._room - line * len(needs)))
        partly = 0
        for name, share in zip(needs, shares, strict=True):
            block = _find_block(name, self._context)
            spans = _list_spans(self._places, self._twins.get(block.digest, [name]))
            self.shown[name] = parts = _cut_block(block, spans, share)
            partly += not parts.whole
            self._room -= parts.written_size
        self._missing.count(partly, f"{what}, in part")
        return [block.id for block in blocks if block.id not in needs]

    def excerpts(self) -> tuple[Excerpt, ...]:
        """Return what was added, in the order in which the agent read it; equal texts are written once."""
        for first, *same in self._twins.values():
            self.shown |= dict.fromkeys(same, self.shown[first])
        excerpts, digests = [], {""}
        for name in sorted(self.shown, key=self._context.positions.__getitem__):
            block, parts = _find_block(name, self._context), self.shown[name]
            digest = sha256("\0".join(parts.pieces).encode("utf-8")).hexdigest() if parts.pieces else ""
            pieces = () if digest in digests else parts.pieces
            id, source = (remove_secrets(text[:_MAX_NAME]).text for text in (name, block.source))
            excerpts.append(Excerpt(id, source, block.trust.word, digest, pieces, parts.whole, name in self._flagged))
            digests.add(digest)
        return tuple(excerpts)


# What is kept of blocks, all sessions together: reading one is slow, and its text does not change.
_weigh = lru_cache(maxsize=MAX_BLOCKS)(written_size)
_cut_and_keep = lru_cache(maxsize=4 * MAX_BLOCKS)(cut_to_budget)


def _cut_block(block: Block, spans: tuple[tuple[int, int], ...], share: int) -> ShownParts:
    """Return a block as `cut_to_budget` cuts it, from what is kept where that was asked before."""
    # Of a text that no prompt can hold only a part is read, and the whole of it is not kept.
    cut = _cut_and_keep if len(block.content) <= SUPERVISOR_CHARACTERS else cut_to_budget
    if len(block.content) <= share:
        whole = cut(block.content, (), 1 << 30)
        if whole.written_size <= share:
            return whole
    # Shares differ a little from call to call: in steps of a sixteenth most of them are the same.
    return cut(block.content, spans, share - share % (1 << max(0, share.bit_length() - 5)))
