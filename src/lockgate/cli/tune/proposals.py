"""Proposals that would spare a person questions, made from calls that were held and measured by replaying them.

1. Texts.   An instruction file that a session has read: vouched for, its orders count as the user's.
2. Flows.   A target of a held call, for the `outside` of the flow rule that holds it. A rule that says deny stays.
3. Grants.  For what is still held: of the rules that single calls would make, those that spare most questions.
4. Replay.  All of it together, once more: what it saves is counted there, and no held attack may run.

Nothing is proposed for a call that opens a door, that a text which speaks to an agent is behind, that is marked as an
attack, or that a person has denied; nor anything that would let one of the last two run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lockgate.core.ruling.approvals import NO_FACTS, BoundCall, HeldFacts, hash_texts
from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.ruling.flow_rules import DENY, FLOW, add_outside, exceptions_for, parse_flow
from lockgate.core.ruling.grants import Grant, GrantRule, GrantSpan, covers, rule_from_facts
from lockgate.core.ruling.pipeline import HARD_RULES
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.rules import RULES_BY_ID, Scope
from lockgate.core.vocabulary import Decision, Severity
from lockgate.gate.approval_views import describe_rule

# A question that came once is answered when it comes again.
LEAST_SAVED = 2
MAX_GRANT_CANDIDATES = 400
_SPEAKING = ("authority:", "concealment:", "override:", "tool:")
_SCHEMA = "lockgate proposal/1"
_KINDS = ("grant", "flow", "trust")

CallKey = tuple[str, int]
# A text as it was read: its source, and the hash of its content.
TextKey = tuple[str, str]


class RecordedHold(NamedTuple):
    """A call that a replay holds. `is_attack`: a trace marks it as one, or a person has denied it.

    `bound` and `facts` are what a grant for it would be made from; `bound` is None where none may be made.
    """

    key: CallKey
    tool: str
    arguments: Mapping[str, object]
    decision: Decision
    is_attack: bool = False
    bound: BoundCall | None = None
    facts: HeldFacts = NO_FACTS

    @property
    def rules(self) -> list[str]:
        return [finding.rule for finding in self.decision.findings]

    @property
    def flows(self) -> set[str]:
        """The names of the flow rules among them."""
        return {rule.removeprefix(FLOW) for rule in self.rules if rule.startswith(FLOW)}


class Trial(NamedTuple):
    """What is in force during a replay, besides the policy: the targets to add to each flow, texts, and grants."""

    lines: frozenset[tuple[str, str]] = frozenset()
    texts: frozenset[TextKey] = frozenset()
    grants: tuple[Grant, ...] = ()


class TrialResult(NamedTuple):
    """What a replay holds, the instruction texts that each session has read, and how often each grant was used."""

    calls: int
    held: Mapping[CallKey, RecordedHold]
    texts: Mapping[str, Mapping[TextKey, str]]
    uses: Mapping[str, int]


class Proposal(NamedTuple):
    """One change that a person may accept; `kind` is `grant`, `flow` or `trust`, and says which fields are filled."""

    kind: str
    saves: int
    rule: GrantRule | None = None
    flow: str = ""
    target: str = ""
    source: str = ""
    digest: str = ""
    content: str = ""

    @property
    def id(self) -> str:
        """A name that stays the same as long as the proposal does, however often it is made."""
        rule = self.rule and self.rule._replace(session="", expires_s=0, policy_hash="", like="")
        said = hash_texts(_SCHEMA, self.kind, repr(rule), self.flow, self.target, self.source, self.digest)
        return said.removeprefix("sha256:")[:12]


class TuningReport(NamedTuple):
    """The proposals, the narrowest kind first, and what they do: of `pauses`, `saved` would not have been asked.

    `attacks` are the held attacks, `released` those of them that would run: without a bug there are none. `left` says
    how many pauses stay, by the reason, the most frequent first.
    """

    calls: int
    pauses: int
    saved: int
    attacks: int
    released: int
    proposals: tuple[Proposal, ...]
    left: Mapping[str, int]


def find_proposals(
    replay: Callable[[Trial], TrialResult], policy: Policy, now_s: float, *, least: int = LEAST_SAVED
) -> TuningReport:
    """Return what would have spared questions. `replay` rules on the same calls again, under a trial."""
    first = replay(Trial())
    # 1. Texts, 2. Flows.
    trial = Trial(_flow_lines(first, policy), _own_texts(first))
    second = replay(trial) if trial != Trial() else first
    if loose := _released(first, second):
        # Which of the lines it was is not worth the time to find out: none of those flows is touched.
        flows = {flow for hold in loose for flow in hold.flows}
        trial = Trial(frozenset(line for line in trial.lines if line[0] not in flows))
        second = replay(trial)
    useful = _trial_from(_line_proposals(trial, first, first.held.keys() - second.held.keys(), policy, least))
    if useful != trial:
        trial, second = useful, replay(useful)
    # 3. Grants.
    grants = choose_grants(second.held.values(), now_s, least)
    # 4. Replay.
    last = replay(trial._replace(grants=grants)) if grants else second
    kept = _line_proposals(trial, first, first.held.keys() - last.held.keys(), policy, 1)
    if _released(first, last):
        grants, kept, last = (), [], first
    kept += [Proposal("grant", last.uses[grant.id], rule=grant.rule) for grant in grants if last.uses.get(grant.id)]
    kept.sort(key=lambda proposal: (_KINDS.index(proposal.kind), -proposal.saves, proposal.id))
    asked = {key for key, hold in first.held.items() if not hold.is_attack}
    left = Counter(sorted(_why_left(last.held[key], policy) for key in asked & last.held.keys()))
    attacks, saved = len(first.held) - len(asked), len(asked) - left.total()
    released, reasons = len(_released(first, last)), dict(left.most_common())
    return TuningReport(first.calls, len(asked), saved, attacks, released, tuple(kept), reasons)


def _released(first: TrialResult, last: TrialResult) -> list[RecordedHold]:
    """Return the held attacks that would run."""
    return [hold for key, hold in first.held.items() if hold.is_attack and key not in last.held]


# 1. Texts, 2. Flows


def _own_texts(first: TrialResult) -> frozenset[TextKey]:
    """Return the instruction texts of sessions in which something was held; none that stood beside an attack."""
    read: dict[bool, set[TextKey]] = {True: set(), False: set()}
    for hold in first.held.values():
        read[hold.is_attack].update(first.texts.get(hold.key[0], ()))
    return frozenset(read[False] - read[True])


def _flow_lines(first: TrialResult, policy: Policy) -> frozenset[tuple[str, str]]:
    named: set[tuple[str, str]] = set()
    barred: set[tuple[str, str]] = set()
    for hold in first.held.values():
        (barred if hold.is_attack or _is_too_grave(hold) else named).update(_exceptions(hold, policy))
    return frozenset(named - barred)


def _exceptions(hold: RecordedHold, policy: Policy) -> list[tuple[str, str]]:
    """Return the targets of a call that would have to be let through, with the flow that holds each."""
    flows = [rule for rule in map(parse_flow, policy.flows) if rule.name in hold.flows]
    if any(rule.then == DENY for rule in flows):
        return []
    leaves = flatten_arguments(hold.arguments)[0]
    exceptions = {rule.name: exceptions_for(rule, leaves, hold.decision.effects) for rule in flows}
    is_complete = all(exceptions.values())
    return [(name, target) for name, targets in exceptions.items() for target in targets if is_complete]


def _line_proposals(
    trial: Trial, first: TrialResult, freed: Collection[CallKey], policy: Policy, least: int
) -> list[Proposal]:
    """Return the lines and texts of a trial that so many of the freed calls needed."""
    saves: Counter[tuple[str, str]] = Counter()
    contents: dict[TextKey, str] = {}
    for hold in (first.held[key] for key in freed):
        saves.update(trial.lines.intersection(_exceptions(hold, policy)))
        read = first.texts.get(hold.key[0], {})
        behind = {text for text in read if text[0] in {origin.source for origin in hold.decision.origins}}
        saves.update(trial.texts & behind)
        contents |= {text: read[text] for text in behind}
    lines = [Proposal("flow", saves[line], flow=line[0], target=line[1]) for line in trial.lines]
    texts = [
        Proposal("trust", saves[text], source=text[0], digest=text[1], content=contents.get(text, ""))
        for text in trial.texts
    ]
    return [proposal for proposal in lines + texts if proposal.saves >= least]


def _trial_from(proposals: Sequence[Proposal]) -> Trial:
    return Trial(
        frozenset((proposal.flow, proposal.target) for proposal in proposals if proposal.kind == "flow"),
        frozenset((proposal.source, proposal.digest) for proposal in proposals if proposal.kind == "trust"),
    )


def apply_lines(policy: Policy, lines: Iterable[tuple[str, str]]) -> Policy:
    """Return the policy with these targets added to what its flows let through."""
    added: defaultdict[str, list[str]] = defaultdict(list)
    for flow, target in sorted(lines):
        added[flow].append(target)
    return replace(policy, flows=tuple(add_outside(row, added[parse_flow(row).name]) for row in policy.flows))


# 3. Grants


def choose_grants(held: Iterable[RecordedHold], now_s: float, least: int = LEAST_SAVED) -> tuple[Grant, ...]:
    """Return the fewest grants that spare most questions, each as narrow as a single call makes it."""
    calls = list(held)
    grants: dict[str, Grant] = {}
    for hold in calls:
        if _may_be_granted(hold) and hold.bound is not None and len(grants) < MAX_GRANT_CANDIDATES:
            # The narrowest that outlives the session.
            span = GrantSpan.PROJECT if hold.facts.project else GrantSpan.ALWAYS
            rule = rule_from_facts(hold.bound, hold.facts, span, now_s)
            name = Proposal("grant", 0, rule=rule).id
            grants[name] = Grant(name, rule, "", "", now_s)
    attacks = {hold.key for hold in calls if hold.is_attack}
    spared = {
        name: {hold.key for hold in calls if hold.bound and covers(grant, hold.bound, hold.facts, now_s)}
        for name, grant in grants.items()
    }
    safe = {name: keys for name, keys in spared.items() if not keys & attacks}
    return tuple(grants[name] for name in _fewest(safe, least))


def _fewest(covered: dict[str, set[CallKey]], least: int) -> Iterator[str]:
    """Yield names until none spares so many calls any more, each time the one that spares most."""
    while covered:
        best = max(covered, key=lambda name: (len(covered[name]), name))
        spared = covered[best]
        if len(spared) < least:
            return
        yield best
        covered = {name: keys - spared for name, keys in covered.items() if name != best}


def _may_be_granted(hold: RecordedHold) -> bool:
    """Return whether a grant of this call may outlive its session, and may be proposed."""
    return _is_lasting(hold) and not hold.is_attack and not _is_too_grave(hold) and not _is_spoken_to(hold)


def _is_lasting(hold: RecordedHold) -> bool:
    return hold.facts.widest not in ("", GrantSpan.SESSION.value)


def _is_too_grave(hold: RecordedHold) -> bool:
    return any(effect.severity is Severity.OPENS_A_DOOR for effect in hold.decision.effects)


def _is_spoken_to(hold: RecordedHold) -> bool:
    """Return whether a text behind the call speaks to an agent: a file or a mail has no reason to."""
    rules = [rule for rule in hold.rules if rule in RULES_BY_ID]
    return any(rule.startswith(_SPEAKING) or RULES_BY_ID[rule].scope is Scope.AGENT for rule in rules)


def _why_left(hold: RecordedHold, policy: Policy) -> str:
    hard = [rule for rule in hold.rules if rule.startswith(HARD_RULES)]
    is_denied = any(rule.name in hold.flows and rule.then == DENY for rule in map(parse_flow, policy.flows))
    reasons = (
        (is_denied, "a flow rule of yours says deny"),
        (_is_too_grave(hold), "it opens a door"),
        (hard, f"a person answers {''.join(hard[:1])} each time"),
        (_is_spoken_to(hold), "a text behind it speaks to an agent"),
        (not _is_lasting(hold), "it may be granted for its session at most"),
    )
    return next((why for is_given, why in reasons if is_given), "nothing like it came often enough")


# In words


def describe_proposal(proposal: Proposal) -> tuple[tuple[str, str], ...]:
    """Return what a proposal changes, by label. An attacker may have written parts: the caller shows odd characters."""
    if proposal.rule is not None:
        return tuple(pair for pair in describe_rule(proposal.rule) if pair[0] != "under")
    if proposal.kind == "flow":
        return (("flow", proposal.flow), ("outside", proposal.target))
    return (("text", proposal.source), ("sha256", proposal.digest))


def proposal_to_dict(proposal: Proposal) -> dict[str, object]:
    """Return the keys that other programs read."""
    text = dict(describe_proposal(proposal))
    return {"id": proposal.id, "kind": proposal.kind, "saves": proposal.saves, "text": text}


def summarize(report: TuningReport) -> str:
    """Return the effect of all proposals in one sentence."""
    count = len(report.proposals)
    if not count:
        pauses = "1 pause" if report.pauses == 1 else f"{report.pauses} pauses"
        return f"nothing to propose: {pauses}, and no rule would spare several of them"
    saved = f"would have saved {report.saved} of {report.pauses} pauses"
    attacks = f" and released {report.released or 'none'} of the {report.attacks} held attacks"
    return f"{'this line' if count == 1 else f'these {count} lines'} {saved}{attacks if report.attacks else ''}"
