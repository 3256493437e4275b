"""The story of one ruling in about ten lines, with what would have made the call pass.

It is told from what is there: a ruling in the session store, a question in the approvals, or only a record of the
journal, which holds names and hashes and no content. Secrets are cut out of every text. An attacker may have written
most of them, so the caller prints them with every character visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shlex import quote as shell_quote
from typing import TYPE_CHECKING, NamedTuple

from lockgate.cli.approvals import format_moment
from lockgate.cli.reasons import REASON_TEXTS
from lockgate.cli.ruling_tree import SEVERITIES
from lockgate.cli.times import format_time
from lockgate.core.errors import InvalidCall
from lockgate.core.redaction.redact import redact
from lockgate.core.requests.request_signs import SIGNS
from lockgate.core.ruling.approvals import BoundCall, canonical_json, describe_call
from lockgate.core.ruling.effects.effect import KINDS, Severity
from lockgate.core.ruling.explanations import describe_effect, entry_for
from lockgate.core.ruling.grants import offers_from_pending
from lockgate.core.vocabulary import Action, Finding, Origin, Reason
from lockgate.gate.approval_views import describe_rule

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import Approval, ShownDetails
    from lockgate.core.ruling.grants import GrantOffer
    from lockgate.journal.record_search import StoredRecord
    from lockgate.sessions import StoredRuling

# A secret that is cut in two is not recognised, so the cut to a line comes after redaction.
_MOST_READ = 20_000
_MOST_LINE = 300


class Story(NamedTuple):
    """One ruling, told: labelled lines, what would have made it pass, and the narrowest grant that would.

    `grant` says how the grant is made, or why there is none; `offer` is its rule.
    """

    id: str
    outcome: str
    lines: tuple[tuple[str, str], ...]
    passes_if: tuple[str, ...] = ()
    grant: str = ""
    offer: GrantOffer | None = None

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "outcome": self.outcome,
            "story": dict(self.lines),
            "passes_if": list(self.passes_if),
            "grant": {"how": self.grant, "rule": None if self.offer is None else _rule_text(self.offer)},
        }


def _rule_text(offer: GrantOffer) -> dict[str, str]:
    return {"for": offer.rule.span.value, **{label: clean(text) for label, text in describe_rule(offer.rule)}}


class _Grounds(NamedTuple):
    """What a ruling rests on, from whichever store it was read."""

    action: Action
    reason: str
    explanation: str
    findings: Sequence[Finding]
    origins: Sequence[Origin]
    effects: Sequence[tuple[str, str]]
    tiers: Sequence[tuple[int, str, str]]


# From a ruling in the session store


def story_from_ruling(kept: StoredRuling, goal: str, approval: Approval | None, record: str) -> Story:
    """Return the story of a stored ruling; `record` says how it stands in the journal."""
    decision = kept.decision
    grounds = _Grounds(
        decision.would_be,
        decision.reason.value,
        decision.explanation,
        decision.findings,
        decision.origins,
        [(each.kind, each.target) for each in decision.effects],
        [(ran.tier, ran.said, ran.by) for ran in decision.tiers],
    )
    try:
        bound = BoundCall(kept.session, kept.tool, canonical_json(kept.arguments), "", "")
        call = describe_call(bound)
    except InvalidCall:
        call = kept.tool
    outcome = decision.action.value
    if decision.would_be is not decision.action:
        outcome += f" (observe mode: it would have been {decision.would_be.value})"
    when = f"{outcome} at {format_moment(kept.at)}, session {kept.session} of {kept.host}"
    then = [_approval_text(approval) if approval is not None else "", _ran_text(kept.ran)]
    if decision.correction:
        then.insert(0, f"the agent was told: {decision.correction}")
    if kept.damaged:
        then.append("the stored row is damaged: what is told here may be incomplete")
    return _tell(kept.id, when, _told(grounds, goal, call, then, record), grounds, approval)


# From a question to a person


def story_from_approval(approval: Approval, record: str = "") -> Story:
    """Return the story of a held call from the question that it led to."""
    pending, shown = approval.pending, approval.pending.shown
    grounds = _grounds_from_shown(shown)
    when = f"{Action.PAUSE.value} at {format_moment(pending.created_s)}, session {pending.session}"
    lines = _told(grounds, shown.goal, describe_call(pending.bound), [_approval_text(approval)], record)
    return _tell(pending.id, when, lines, grounds, approval)


def _grounds_from_shown(shown: ShownDetails) -> _Grounds:
    return _Grounds(
        Action.PAUSE,
        shown.reason,
        shown.explanation,
        shown.findings,
        [passage.origin for passage in shown.passages],
        sorted(shown.facts.effects, key=lambda pair: -_severity(pair[0])),
        [(said.tier, said.said, said.by) for said in shown.tiers],
    )


def _told(grounds: _Grounds, goal: str, call: str, then: Iterable[str], record: str) -> list[tuple[str, str]]:
    ordered, where = _order(grounds)
    tiers = "; ".join(f"tier {tier}, {by or 'not asked'}: {said}" for tier, said, by in grounds.tiers)
    return [
        ("asked", goal or "the user's goal is not kept"),
        ("wanted", f"{call}{_effect_text(grounds.effects)}"),
        ("ordered", ordered),
        ("from", where),
        ("ruled", f"{tiers}; {grounds.reason} decided" if tiers else f"{grounds.reason} decided"),
        ("why", _first_sentence(grounds.explanation)),
        ("then", "; ".join(filter(None, then)) or "what became of the call was not reported"),
        ("record", record),
    ]


def _tell(
    id: str, outcome: str, lines: Sequence[tuple[str, str]], grounds: _Grounds, approval: Approval | None
) -> Story:
    grant, offer = _grant(grounds, approval)
    shown = tuple((label, clean(text)) for label, text in lines if text)
    return Story(id, clean(outcome), shown, tuple(map(clean, _remedies(grounds, approval))), clean(grant), offer)


def clean(text: str) -> str:
    """Return a text for one line of a story: without secrets, and cut."""
    found = redact(text[:_MOST_READ], "secrets").text
    return found if len(found) <= _MOST_LINE else f"{found[:_MOST_LINE]}…"


def _severity(kind: str) -> Severity:
    return KINDS[kind].severity if kind in KINDS else Severity.OPENS_A_DOOR


def _first_sentence(text: str) -> str:
    """Return an explanation without its details, which the other lines tell."""
    first, end, _ = text.partition(". ")
    return f"{first}." if end else text


def _effect_text(effects: Sequence[tuple[str, str]]) -> str:
    kind, target = effects[0] if effects else ("", "")
    if kind not in KINDS:
        return ""
    return f": it {SEVERITIES[_severity(kind)]}, it {describe_effect(kind, target)}"


def _order(grounds: _Grounds) -> tuple[str, str]:
    """Return the text that asked for the call, and where that stands."""
    news = [origin for origin in grounds.origins if not origin.known]
    for origin in sorted(news, key=lambda each: not each.order):
        said = origin.order or origin.value
        place = f"{origin.block}, {origin.source}, characters {origin.start} to {origin.end}"
        return f'"{said}"', f"{place}; `{origin.argument}` has `{origin.value}` from there"
    for found in grounds.findings:
        if found.excerpt and not found.rule.startswith(("effect:", "observe:")):
            return f'"{found.excerpt}" ({found.rule})', f"{found.where}, characters {found.start} to {found.end}"
    return "no single text; see why", ""


def _approval_text(approval: Approval) -> str:
    id, said = approval.pending.id, approval.answered
    who = f" by {said.who} at {format_moment(said.at_s)}" if said is not None else ""
    why = f": {said.reason}" if said is not None and said.reason else f": {approval.why}" if approval.why else ""
    return {
        "waiting": f"it waits for a person as {id}",
        "granted": f"approved as {id}{who}{why}, and not run yet",
        "used": f"approved as {id}{who}{why}, and let run once",
        "denied": f"denied as {id}{who}{why}",
        "expired": f"no person answered {id} in time, which counts as a no",
        "voided": f"the question {id} ended without an answer{why}",
    }.get(approval.state.value, "")


def _ran_text(ran: str) -> str:
    said = {"ran": "the host says that it ran", "failed": "the host says that it ran and failed"}
    return {**said, "not-run": "the host says that it did not run"}.get(ran, "")


# What would have made it pass

_REMEDIES: Mapping[str, str] = {
    Reason.SUSPICIOUS_PATTERN: "a text in which the rule does not match (`lockgate rules {rule}` explains it)",
    Reason.ENCODED_CONTENT: "the same text without the encoding: hidden text is not cleared by rules",
    Reason.PARANOID_MODE: "the default mode, or a judge that clears it: paranoid mode escalates every call",
    Reason.UNNAMED_TARGET: "a goal that names what the call is aimed at, or a judge that clears it",
    Reason.SUPERVISOR: "a supervisor that says CONTINUE",
    Reason.TOO_MANY_REORIENTS: "a new message of the user: the agent did not change its way when it was told to",
    Reason.HARD_RULE: "nothing but a person's yes: no model may clear this",
    Reason.RECONCILIATION: "a step that does what it committed to",
    Reason.DENIED: "nothing in this session: a person's no is final",
    Reason.JOURNAL_UNAVAILABLE: "a journal that can be written: `lockgate doctor` says what is wrong with it",
}


def _remedies(grounds: _Grounds, approval: Approval | None) -> list[str]:
    if grounds.action is Action.CONTINUE:
        return []
    found = _remedies_by_goal(grounds)
    named = (each.rule for each in grounds.findings if not each.rule.startswith(("origin:", "effect:")))
    if remedy := _REMEDIES.get(grounds.reason, ""):
        found.append(remedy.replace("{rule}", next(named, "RULE")))
    if approval is not None and approval.state.value in ("waiting", "expired", "voided"):
        found.append(f"a yes of {'two persons' if approval.pending.shown.people > 1 else 'a person'}")
    return found


def _remedies_by_goal(grounds: _Grounds) -> list[str]:
    """Return what would have made the call the user's own."""
    found: list[str] = []
    by_provenance = (Reason.UNASKED_EFFECT, Reason.UNTRUSTED_ORIGIN)
    news = [each for each in grounds.origins if not each.known]
    doors = [target for kind, target in grounds.effects if _severity(kind) is Severity.OPENS_A_DOOR]
    if grounds.reason in by_provenance:
        target = next(iter([*doors, *(each.value for each in news)]), "")
        found.append(f"a goal that names `{target}`" if target else "a goal that asks for this")
    place = news[0].source.removeprefix("file:") if news and news[0].source.startswith("file:") else ""
    # What opens a door is held after any untrusted text: vouching for one does not help.
    if place and not doors and grounds.reason in (*by_provenance, Reason.SUSPICIOUS_PATTERN):
        found.append(f"`lockgate trust {shell_quote(place)}`, if you know its author: it then counts as yours")
    return found


def _grant(grounds: _Grounds, approval: Approval | None) -> tuple[str, GrantOffer | None]:
    """Return how the narrowest grant that covers the call is made, or why none is, and its rule."""
    if grounds.action is Action.CONTINUE:
        return "none was needed", None
    if approval is None:
        return "none: no question to a person was kept for this call", None
    if approval.state.value == "denied":
        return "none: a person has said no", None
    offers = offers_from_pending(approval.pending)
    if not offers:
        return f"none can be made: {approval.pending.shown.facts.barred or 'not said'}", None
    rule = offers[0].rule
    given = "with exactly the same arguments" if rule.arguments else f"with other values of {', '.join(rule.names)}"
    covers = f"such calls of {rule.tool}, {given}, {dict(describe_rule(rule))['in']}"
    id, span = approval.pending.id, rule.span.value
    if approval.state.value == "waiting":
        return f"`lockgate approvals approve {id}` for this call alone, or with `--for {span}` for {covers}", offers[0]
    return f"when the agent tries again, the new question can be approved with `--for {span}` for {covers}", offers[0]


# From the journal alone


def place_text(found: StoredRecord) -> str:
    """Return where a record stands, and how that is proved."""
    return f"{found.origin} {found.at}; lockgate audit prove {found.at} --shard {shell_quote(found.origin)} proves it"


def story_from_record(found: StoredRecord, later: Sequence[StoredRecord]) -> Story:
    """Return the story of a ruling of which only the record is here; `later` are records of its question."""
    fields = found.fields
    rules, blocks = _names(fields["rules"]), _names(fields["origins"])
    tiers = [
        f"tier {number}, {fields[f'tier{number}_by']}: {fields[f'tier{number}_result']}"
        for number in (2, 3)
        if fields[f"tier{number}_by"]
    ]
    ruled = "; ".join([f"tier 1, rules: {fields['tier1_result']}", *tiers])
    then = [
        f"{each.fields['state']}{' by ' if each.fields['who'] else ''}{each.fields['who']} at "
        f"{format_time(each.fields['ts_ms'])}"
        for each in later
    ]
    if fields["approval"] and not then:
        then.append(f"a person was asked as {fields['approval']}; no answer is recorded")
    if fields["approved_by"]:
        then.insert(0, f"approved by {fields['approved_by']}")
    lines = [
        ("wanted", f"{fields['tool']}, {fields['risk']} risk; the journal keeps no content"),
        ("from", f"values came from {', '.join(blocks)}" if blocks else ""),
        ("ruled", f"{ruled}; {fields['reason']} decided"),
        ("why", "; ".join(f"{rule}: {entry_for(rule).what}" for rule in rules[:3])),
        ("then", "; ".join(then) or "nothing more is recorded"),
        ("record", place_text(found)),
    ]
    action = Action(str(fields["action"]))
    findings = [Finding(rule, "", 0, 0) for rule in rules]
    grounds = _Grounds(action, str(fields["reason"]), "", findings, (), (), ())
    outcome = f"{action.value} at {format_time(fields['ts_ms'])}, session {fields['session']}"
    return _tell(f"{found.at}", outcome, lines, grounds, None)


def story_from_incident(id: str, found: StoredRecord, joined: Sequence[StoredRecord]) -> Story:
    """Return the story of a request that an abuse gate refused; the journal has no text of a client."""
    fields = found.fields
    acted = str(fields["acted"]).partition(":")[0]
    reason, rules = str(fields["reason"]), _names(fields["rules"])
    text = REASON_TEXTS.get(reason)
    signs = {sign.rule: sign.what for sign in SIGNS}
    strikes = f", strike {fields['strikes']}" if "strikes" in fields else ""
    standing = f"the client {fields['subject']} was then {fields.get('standing', 'normal')}{strikes}"
    shared = ", ".join(f"{each.fields['tool']} {each.fields['action']}" for each in joined[:3])
    lines = [
        ("asked", f"a client's request with the hash {str(fields['payload_sha256'])[:16]}…; its text is not kept"),
        (
            "ruled",
            f"{fields['verdict']} by {fields['by'] or 'the rules'}: {reason}{f', {text.meaning}' if text else ''}",
        ),
        ("why", "; ".join(f"{rule}: {signs.get(rule) or entry_for(rule).what}" for rule in rules[:3])),
        ("then", f"refused ({acted}); {standing}" if "subject" in fields else f"refused ({acted})"),
        ("beside", f"rulings with the same conversation or trace id, which clients choose: {shared}" if shared else ""),
    ]
    passes = ["a request in which none of these is found"] if rules else []
    passes += [text.advice] if text is not None and text.advice else []
    # The id is ours, and looks like a token.
    record = ("record", f"{clean(f'{found.origin} {found.at}')}; lockgate audit show {id}")
    shown = (*((label, clean(line)) for label, line in lines if line), record)
    grant = "none: grants are for tool calls; `lockgate gate bans --lift WHO` ends a ban"
    return Story(id, f"{fields['verdict']} at {format_time(fields['ts_ms'])}", shown, tuple(passes), grant)


def _names(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
