"""A person's yes to more calls than one: the rule that it makes, and which calls the rule covers.

A grant is as narrow as the call that it was made from. It covers a call only if all of this holds:

1. Same tool, same policy, before it ends, and in its session or project where it is bound to one.
2. Nothing new would happen: each effect that reaches out has a kind and a target of the grant.
3. Nothing new speaks: each untrusted source behind the call is one of the grant's.
4. Nothing new was found: each rule that holds the call held the granted one.
5. The same arguments to the last bit, where the target alone does not say what happens (`BY_RECEIVER`); else no
   argument under a name that the granted call did not have.
6. Nothing new runs: each file that the call runs or loads has the content that it had when the person was asked.

What opens a door is granted for the session at most. What a hard rule holds, what touches Lockgate itself, and what was
not read to its end is never granted. Only a person's answer makes a grant; nothing here has a clock or a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.errors import InvalidCall, has_half_pair, quoted
from lockgate.core.ruling.approvals import (
    FINISH,
    SKEW_S,
    AnswerResult,
    Approval,
    ApprovalAnswer,
    ApprovalChange,
    BoundCall,
    GrantState,
    HeldFacts,
    PendingApproval,
    apply_answer,
    argument_values,
    arguments_from_canonical,
    canonical_json,
    describe_call,
    hash_texts,
)
from lockgate.core.ruling.arguments import sink_from_argument
from lockgate.core.ruling.tool_risk import canonical_tool
from lockgate.core.vocabulary import Block, Certainty, Effect, Severity, Trust, record_from_dict, record_to_dict

if TYPE_CHECKING:
    from lockgate.core.ruling.context import Context
    from lockgate.core.ruling.pipeline import EscalatedCall

# A rule that a person cannot read to its end is not offered.
MAX_EFFECTS, MAX_SOURCES, MAX_NAMES, MAX_TEXT = 16, 64, 64, 1_000
# A store holds so many grants; who needs more has stopped reading them.
MAX_GRANTS = 500
SESSION_S = 7 * 86_400
KEPT_S = 30 * 86_400
# Of these kinds the receiver says what happens, if it stands in an argument of its own. A command never does: the host
# of `ssh host …` says nothing about what runs there. Nor does a host on which anyone can publish.
BY_RECEIVER = frozenset({"requests", "sends-message", "shares"})
_RECEIVERS = ("recipient", "url")
_SCHEMA = "lockgate grant/1"
_INDEX = re.compile(r"\[\d+\]")


class GrantSpan(StrEnum):
    """How far a grant reaches, the narrowest first. A yes to one call alone is an approval and makes no grant."""

    SESSION = "session"
    PROJECT = "project"
    ALWAYS = "always"


class GrantRule(NamedTuple):
    """What a grant allows; every field but `like` narrows it. Without `arguments` other values may stand under `names`.

    `like` is the call that it was made from in one line: a hash tells a person nothing when they look again.
    """

    tool: str
    like: str
    effects: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]
    rules: tuple[str, ...]
    names: tuple[str, ...]
    arguments: str
    span: GrantSpan
    session: str
    project: str
    policy_hash: str
    expires_s: int
    files: tuple[tuple[str, str], ...] = ()


class Grant(NamedTuple):
    """A rule with the person who made it, and how often it was used. `id` is that of the question it was made from."""

    id: str
    rule: GrantRule
    digest: str
    made_by: str
    made_s: float
    uses: int = 0
    used_s: float = 0.0


class GrantOffer(NamedTuple):
    """A rule that a person may make with an answer; the digest binds the rule and the call on the screen."""

    rule: GrantRule
    digest: str


# What is known of a held call


def facts_from_ask(ask: EscalatedCall, arguments: str, sources: tuple[str, ...], project: str) -> HeldFacts:
    """Return what a grant for this call is made from; `arguments` is their canonical form, `project` a real path."""
    reaching = [effect for effect in ask.effects if effect.severity >= Severity.REACHES_OUT]
    given = arguments_from_canonical(arguments)
    if canonical_tool(ask.call.tool) == "bash" and isinstance(given.get("command"), str):
        # No shell reads what the agent says of its own command, and it varies.
        given.pop("description", None)
    facts = HeldFacts(
        effects=tuple(sorted({(effect.kind, effect.target) for effect in reaching})),
        sources=tuple(sorted(set(sources))),
        rules=tuple(sorted({finding.rule for finding in ask.findings})),
        names=tuple(sorted({_INDEX.sub("", name) for name, _ in argument_values(given)})),
        arguments=hash_texts(_SCHEMA, "arguments", canonical_json(given), ask.call.folder),
        is_exact=not reaching or not all(map(_is_receiver, reaching)) or _takes_more_along(ask, reaching, given),
        project=project,
    )
    barred = _why_barred(ask, facts)
    return facts._replace(barred=barred, widest="" if barred else _widest_span(facts, ask).value)


def find_sources(ask: EscalatedCall, context: Context) -> tuple[str, ...]:
    """Return the sources of the text behind a held call, vetted ones too; where that is not known, all that was read.

    What opens a door is held because of anything untrusted, and an agent's own words may come from all of it.
    """
    from lockgate.core.ruling.provenance import MAX_ORIGINS

    names = {origin.block for origin in ask.origins} | {finding.where for finding in ask.findings}
    blocks: dict[str, Block] = {}
    # These blocks and those that they were made from.
    left = [*(names & context.positions.keys())]
    is_unknown = [not left, len(ask.origins) >= MAX_ORIGINS, _opens_door(ask)]
    while left:
        block = context.blocks[context.positions[left.pop()]]
        if block.id not in blocks and block.trust is not Trust.TRUSTED:
            blocks[block.id] = block
            left += block.tainted_by
    sources = {block.source for block in blocks.values()}
    if any(is_unknown + [source.partition(":")[0] == "agent" for source in sources]):
        sources = {block.source for block in context.blocks if block.trust is not Trust.TRUSTED}
    return tuple(sorted(source for source in sources if source.partition(":")[0] != "agent"))


def _opens_door(ask: EscalatedCall) -> bool:
    return any(effect.severity is Severity.OPENS_A_DOOR for effect in ask.effects)


def _is_receiver(effect: Effect) -> bool:
    """Return whether an effect's target says what happens, and was read from an argument that names a receiver."""
    from lockgate.core.ruling.effects.project import is_shared_host

    is_known = effect.kind in BY_RECEIVER and bool(effect.target) and effect.certainty is not Certainty.GUESS
    return is_known and sink_from_argument(effect.argument) in _RECEIVERS and not is_shared_host(effect.target)


def _takes_more_along(ask: EscalatedCall, reaching: list[Effect], given: dict[str, object]) -> bool:
    """Return whether the call takes a file along, or untrusted text named another place: a copy to an attacker."""
    from lockgate.core.ruling.effects.tool_arguments import names_file

    if any(names_file(name) for name, _ in argument_values(given)):
        return True
    targets = [effect.target.casefold() for effect in reaching]
    placed = (origin for origin in ask.origins if not origin.known and (origin.sink or origin.order))
    return any(not any(origin.value.casefold() in target for target in targets) for origin in placed)


def _why_barred(ask: EscalatedCall, facts: HeldFacts) -> str:
    """Return why a call is never granted; empty where it may be."""
    from lockgate.core.ruling.effects.own_paths import OWN_KINDS

    hard = [finding.rule for finding in ask.hard_findings]
    listed = (facts.effects, MAX_EFFECTS), (facts.sources, MAX_SOURCES), (facts.names + facts.rules, MAX_NAMES)
    texts = (*facts.sources, *facts.names, *facts.rules, *(text for pair in facts.effects for text in pair))
    reasons = {
        "the end of a step is answered each time": ask.call.tool == FINISH,
        "the host holds something against this call": ask.call.findings,
        f"a person answers {''.join(hard[:1])} each time": hard,
        "it touches Lockgate itself": any(effect.kind in OWN_KINDS for effect in ask.effects),
        "it was not read to its end": any(finding.rule.startswith("cap:") for finding in ask.findings),
        "its rule would be too long to read": any(len(entries) > most for entries, most in listed)
        or any(len(text) > MAX_TEXT or has_half_pair(text) for text in texts),
    }
    return next((why for why, is_given in reasons.items() if is_given), "")


def find_unread(files: Iterable[tuple[str, str]]) -> str:
    """Return why no later call can be compared with this one: a file that was not read; empty where all were."""
    unread = next((pair for pair in files if not pair[1].startswith("sha256:")), None)
    return f"{quoted(unread[0].rpartition('/')[2])} was not read ({unread[1]}), so a yes counts once" if unread else ""


def _widest_span(facts: HeldFacts, ask: EscalatedCall) -> GrantSpan:
    if _opens_door(ask):
        return GrantSpan.SESSION
    is_local = bool(ask.call.folder) or any(sink_from_argument(name) in ("command", "path") for name in facts.names)
    if facts.is_exact and is_local:
        # The same words mean something else in another folder.
        return GrantSpan.PROJECT if facts.project else GrantSpan.SESSION
    return GrantSpan.ALWAYS


# Offers


def offers_from_pending(pending: PendingApproval) -> tuple[GrantOffer, ...]:
    """Return the rules that a yes to this question may make, the narrowest first; none where nothing may be granted."""
    facts, spans = pending.shown.facts, list(GrantSpan)
    widest = spans.index(GrantSpan(facts.widest)) + 1 if facts.widest in spans else 0
    offered = [span for span in spans[:widest] if facts.project or span is not GrantSpan.PROJECT]
    rules = [rule_from_facts(pending.bound, facts, span, pending.created_s) for span in offered]
    return tuple(GrantOffer(rule, hash_texts(_SCHEMA, pending.digest, rule_to_json(rule))) for rule in rules)


def rule_from_facts(bound: BoundCall, facts: HeldFacts, span: GrantSpan, made_s: float) -> GrantRule:
    """Return the rule that a yes of this span to this call makes."""
    return GrantRule(
        tool=bound.tool,
        like=describe_call(bound),
        effects=facts.effects,
        sources=facts.sources,
        rules=facts.rules,
        names=facts.names,
        arguments=facts.arguments if facts.is_exact else "",
        span=span,
        session=bound.session,
        project=facts.project if span is GrantSpan.PROJECT else "",
        policy_hash=bound.policy_hash,
        expires_s=int(made_s) + (SESSION_S if span is GrantSpan.SESSION else KEPT_S),
        files=bound.files,
    )


def find_offer(pending: PendingApproval, span: str) -> GrantOffer | None:
    """Return the offer of this span; None where it is not offered."""
    return next((offer for offer in offers_from_pending(pending) if offer.rule.span.value == span), None)


def apply_answer_with_span(
    approval: Approval, digest: str, answer: ApprovalAnswer, span: str, person: str = ""
) -> tuple[AnswerResult, Grant | None]:
    """Return what an answer does to a question, and the grant it makes; without a span it makes none.

    With a span the digest is that of the offer that was shown: it binds the rule as well as the call.
    """
    if not span:
        return apply_answer(approval, digest, answer, person), None
    pending = approval.pending
    offer = find_offer(pending, span)
    if offer is None or not answer.yes:
        why = f"this call cannot be granted for {quoted(span)}" if answer.yes else "only a yes makes a grant"
        spans = ", ".join(other.rule.span for other in offers_from_pending(pending))
        raise InvalidCall(why, hint=f"offered: {spans}" if spans else pending.shown.facts.barred)
    if digest != offer.digest:
        return AnswerResult(False, approval.state, approval), None
    result = apply_answer(approval, pending.digest, answer)
    grant = Grant(pending.id, offer.rule, offer.digest, answer.who, answer.at_s) if result.counted else None
    return result, grant


def change_from_grant(grant: Grant, state: GrantState, who: str) -> ApprovalChange:
    return ApprovalChange(grant.rule.session, grant.id, state, grant.digest, who)


# Cover


def find_covering(grants: Iterable[Grant], bound: BoundCall, facts: HeldFacts, now_s: float) -> Grant | None:
    return next((grant for grant in grants if covers(grant, bound, facts, now_s)), None)


def covers(grant: Grant, bound: BoundCall, facts: HeldFacts, now_s: float) -> bool:
    """Return whether a grant lets this call run; the numbers are those of the list above."""
    rule = grant.rule
    # 1. A clock that was set back ends it.
    is_alive = grant.made_s - SKEW_S <= now_s < rule.expires_s
    if not is_alive or not facts.widest or (rule.tool, rule.policy_hash) != (bound.tool, bound.policy_hash):
        return False
    is_here = facts.widest != GrantSpan.SESSION.value
    if rule.span is GrantSpan.SESSION:
        is_here = rule.session == bound.session
    elif rule.span is GrantSpan.PROJECT:
        is_here = is_here and bool(rule.project) and rule.project == facts.project
    # 2. to 4.
    pairs = ((facts.effects, rule.effects), (facts.sources, rule.sources), (facts.rules, rule.rules))
    is_known = all(set(new) <= set(granted) for new, granted in pairs)
    # 5., then 6.
    is_same = facts.arguments == rule.arguments
    if not rule.arguments:
        is_same = not facts.is_exact and set(facts.names) <= set(rule.names)
    return is_here and is_known and is_same and set(bound.files) <= set(rule.files)


# As JSON


def rule_to_dict(rule: GrantRule) -> dict[str, object]:
    """Return the rule as the page draws it and hashes it; rules of earlier versions have no files."""
    return {name: value for name, value in record_to_dict(rule).items() if name != "files" or rule.files}


def rule_to_json(rule: GrantRule) -> str:
    """Return the one JSON text of a rule, over which its digest goes."""
    return json.dumps(rule_to_dict(rule), ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def rule_from_json(text: str) -> GrantRule:
    """Return what was stored, or raise ValueError: a store's file may hold anything."""
    try:
        rule = record_from_dict(GrantRule, json.loads(text))
    except (TypeError, KeyError, ValueError, RecursionError) as error:
        raise ValueError("not a rule") from error
    if rule_to_json(rule) != text:
        raise ValueError("not a rule")
    return rule
