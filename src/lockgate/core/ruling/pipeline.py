"""How a ruling is made. The steps, in the order a reader has to trust them:

1. Context.  No untrusted block in the recent context: CONTINUE, `no-untrusted-content`.
2. Risk.     A low-risk tool: CONTINUE, `low-risk-tool`.
3. Patterns. Rules over the arguments, and over every recent untrusted block in all its readings.
4. Encoding. Hidden readable text in the arguments or in a recent untrusted block.
5. Origins.  Values that an order in untrusted text names, or a tool that it names, and the goal does not.
   Nothing in 3-5: CONTINUE, `no-red-flags`. Anything: the call is escalated; a rule never blocks by itself.
6. Triage.   Tier 2 is asked once, and once more in plain words when its answer cannot be read. Only a plain "not
   suspicious" clears the call: CONTINUE, `triage-cleared`. Everything else goes one tier up.
7. Supervisor. Tier 3 says CONTINUE, REORIENT with a correction, or PAUSE. Past the policy's limit a REORIENT is a
   PAUSE. No answer of a model lets a call run that a hard rule holds.
8. No answer. Nobody above Tier 1 answers: the policy's `on_unclear` for the tool's risk, PAUSE when it is high.
9. Record.   The ruling enters the journal before it is returned. Where it cannot, a high-risk call pauses,
   `journal-unavailable`, and a low-risk one gets the policy's `on_unclear`; what is held already stays held.

Paranoid mode sends every call through all three tiers, after the same steps have collected what there is to say.
`begin` and `resume` are one body without a clock or a connection; whoever drives them asks the judges.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from typing import NamedTuple

from lockgate.core.errors import printable, quoted
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.arguments import flatten_arguments as flatten_arguments
from lockgate.core.ruling.context import BlockNote, Context
from lockgate.core.ruling.opinions import Opinion, Ruling, Triage, Unreadable
from lockgate.core.ruling.origins import OriginLookup, OriginTrace, TrustedText
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.scope.border import border_from_scope
from lockgate.core.ruling.scope.crossings import find_crossings
from lockgate.core.ruling.self_protection import find_tampering, is_unrelated
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import may_reach_any_address, tool_risk
from lockgate.core.text.rules import Rule, Scope
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action, Decision, Finding, Mode, Origin, Reason, Risk

# Findings whose rule starts with one of these hold a call whatever a model says.
HARD_RULES = (
    "cap:arguments",
    "cap:context-unknown",
    "cap:readings",
    "cap:text",
    "execution:own-",
    "mcp:",
    "scope:",
    "step:needs-a-person",
)
_LEAF_SEPARATOR = "\n\n"
# Python looks a member up in its enumeration each time; on this path that adds up.
_CONTINUE, _LOW, _HIGH, _PARANOID = Action.CONTINUE, Risk.LOW, Risk.HIGH, Mode.PARANOID
_UNTRUSTED_FREE, _LOW_RISK, _NO_FLAGS = Reason.NO_UNTRUSTED_CONTENT, Reason.LOW_RISK_TOOL, Reason.NO_RED_FLAGS


class Stage(StrEnum):
    """Whom an escalated call is waiting for."""

    TRIAGE = "triage"
    TRIAGE_AGAIN = "triage-again"
    SUPERVISOR = "supervisor"


class Ask(NamedTuple):
    """A call that Tier 1 will not clear, with everything a higher tier needs to rule on it.

    `triage` is what Tier 2 said of it: `clear`, `suspicious` or `unclear`; empty when it was not asked.
    """

    call: ToolCall
    risk: Risk
    reason: Reason
    findings: tuple[Finding, ...]
    origins: tuple[Origin, ...]
    stage: Stage = Stage.TRIAGE
    triage: str = ""

    @property
    def hard_findings(self) -> tuple[Finding, ...]:
        """What no model may clear: a declared border, a person's own part, and texts of which some stayed unread."""
        return tuple(found for found in self.findings if found.rule.startswith(HARD_RULES))


def begin(
    context: Context,
    call: ToolCall,
    policy: Policy,
    scanner: Scanner,
    *,
    flattened: tuple[list[Leaf], bool] | None = None,
) -> Decision | Ask:
    """Steps 1 to 5: a ruling that Tier 1 can make by itself, or the question for the tiers above.

    `flattened` is what `flatten_arguments` gave for the arguments, where the caller has it already.
    """
    leaves, too_big = flatten_arguments(call.arguments) if flattened is None else flattened
    paranoid = policy.mode is _PARANOID
    first = max(0, len(context.blocks) - policy.recent_blocks) if policy.recent_blocks else 0
    risk = tool_risk(call.tool, additional=policy.high_risk_tools, annotations=call.annotations)
    said = leaves[0].text if len(leaves) == 1 else _LEAF_SEPARATOR.join([leaf.text for leaf in leaves])
    # Whoever is asked for an address can be told something by it.
    if call.findings or (risk is _LOW and "://" in said and may_reach_any_address(call.tool)):
        risk = _HIGH
    # A declared scope has a border, whatever has been read and whatever the mode was tightened to.
    edge = border_from_scope(policy.research_scope) if policy.research_scope else None
    crossed = find_crossings(edge, leaves, tool=call.tool) if edge is not None else []
    if edge is not None and too_big:
        crossed.append(Finding("cap:arguments", "arguments", 0, 0))
        too_big = False
    # What is hidden in a code leads outside as well, and what stayed unread may: both count before anything was read.
    scanned = _scan_arguments(leaves, said, scanner, policy, context.trusted_text) if edge else None
    if edge and scanned is not None:
        crossed += find_crossings(edge, scanned[2], tool=call.tool)
        crossed += [found for found in scanned[0] if found.rule.startswith(HARD_RULES) and found not in crossed]
    # Nobody who is held answers in the place of whoever holds him, whatever has been read.
    if not is_unrelated(said):
        crossed += find_tampering(leaves, scanner, looks=risk is _LOW)
    if risk is not _LOW:
        if context.has_unknown_history:
            crossed.append(Finding("cap:context-unknown", "context", 0, 0))
        crossed += call.findings
    # 1. Context.
    entries = context.readings
    if not entries or entries[-1].position < first:
        if not paranoid and not crossed:
            return Decision(_CONTINUE, 1, _UNTRUSTED_FREE, risk)
    # 2. Risk.
    if risk is _LOW and not paranoid and not crossed:
        return Decision(_CONTINUE, 1, _LOW_RISK, risk)
    # 3. and 4., the arguments' part: one pass over all of them.
    patterns, encoded, decoded = scanned or _scan_arguments(leaves, said, scanner, policy, context.trusted_text)
    if decoded and risk is not _LOW:
        crossed += find_tampering(decoded, scanner)
    if crossed:
        known = {found.rule for found in patterns}
        patterns += [found for found in crossed if found.rule.startswith("scope:") or found.rule not in known]
    if too_big:
        patterns.append(Finding("cap:arguments", "arguments", 0, 0))
    # 5. Origins come before the blocks' patterns because broad rules count only in blocks the call is related to.
    if first:
        entries = [entry for entry in entries if entry.position >= first]
    lookup = OriginLookup(call.tool, leaves + decoded if decoded else leaves, context.trusted_text)
    traced = lookup.trace(entries, context.untrusted_words, context.value_places, context.tool_orders)
    if traced.capped:
        patterns.append(Finding("cap:values", "arguments", 0, 0))
    # 3. and 4., the blocks' part.
    if context.alarms or context.encoded or traced.related or policy.strict_patterns:
        for note in (*context.alarms, *context.encoded, *_related_notes(context, traced, policy)):
            if note.position >= first and not (note.phrase and policy.unsafe_disable_phrase_rules):
                (encoded if note.rule.startswith("encoded:") else patterns).append(context.locate_finding(note))
    if not (patterns or encoded or traced.signals or paranoid):
        return Decision(_CONTINUE, 1, _NO_FLAGS, risk, "", (), traced.origins)
    reason = (
        Reason.SUSPICIOUS_PATTERN
        if patterns
        else Reason.ENCODED_CONTENT
        if encoded
        else Reason.UNTRUSTED_ORIGIN
        if traced.signals
        else Reason.PARANOID_MODE
    )
    return Ask(call, risk, reason, (*patterns, *encoded, *traced.signals), traced.origins)


def resume(ask: Ask, opinion: Opinion | None, policy: Policy, *, reorients: int = 0) -> Decision | Ask:
    """Steps 6 to 8: what follows from a judge's opinion; None when there is nobody to ask.

    `reorients` is how often the agent has been told to reconsider since the user last spoke.
    """
    paranoid = policy.mode is Mode.PARANOID
    # 6. Triage.
    if ask.stage is not Stage.SUPERVISOR:
        said = opinion.suspicious if isinstance(opinion, Triage) else None
        if said is False and not paranoid and not ask.hard_findings:
            explanation = "triage found nothing that the untrusted text made this call do"
            return _decision_from_ask(ask, Action.CONTINUE, 2, Reason.TRIAGE_CLEARED, explanation)
        if isinstance(opinion, Unreadable) and ask.stage is Stage.TRIAGE:
            return ask._replace(stage=Stage.TRIAGE_AGAIN)
        heard = "suspicious" if said is True else "clear" if said is False else "" if opinion is None else "unclear"
        return Ask(ask.call, ask.risk, ask.reason, ask.findings, ask.origins, Stage.SUPERVISOR, heard)
    # 7. Supervisor.
    match opinion:
        case Ruling(action=Action.REORIENT, correction=correction) if reorients < policy.max_reorient_attempts:
            explanation = "the supervisor asks the agent to reconsider"
            return _decision_from_ask(ask, Action.REORIENT, 3, Reason.SUPERVISOR, explanation, correction)
        case Ruling(action=Action.REORIENT):
            explanation = f"the agent was asked to reconsider {reorients} times already, so this call pauses"
            return _decision_from_ask(ask, Action.PAUSE, 3, Reason.TOO_MANY_REORIENTS, explanation)
        case Ruling(action=Action.PAUSE):
            return _decision_from_ask(ask, Action.PAUSE, 3, Reason.SUPERVISOR, "the supervisor holds this call")
        # By its type as well: text that compares equal is no ruling.
        case Ruling(action=Action() as action) if action is Action.CONTINUE and not ask.hard_findings:
            return _decision_from_ask(ask, Action.CONTINUE, 3, Reason.SUPERVISOR, "the supervisor lets this call run")
    if ask.hard_findings:
        held = ", ".join(dict.fromkeys(printable(found.rule) for found in ask.hard_findings))
        return _decision_from_ask(
            ask, Action.PAUSE, 3, Reason.HARD_RULE, f"no model may clear {held}, so this call pauses"
        )
    # 8. No answer.
    action = policy.on_unclear(ask.risk)
    return Decision(action, 3, ask.reason, ask.risk, _explain_unclear(ask, action), ask.findings, ask.origins)


def decide_unrecorded(decision: Decision, policy: Policy, why: str) -> Decision:
    """Step 9 for a ruling that could not be recorded; `why` is what the journal says."""
    told = [decision.explanation] if decision.explanation else []
    if decision.action is not Action.CONTINUE:
        return decision._replace(explanation="; ".join([*told, f"this is not on record: {why}"]))
    action = Action.PAUSE if decision.risk is Risk.HIGH else policy.on_unclear(decision.risk)
    told.append(f"this cannot be recorded: {why}")
    if action is Action.CONTINUE:
        told.append("the policy lets it continue")
    elif decision.reason is Reason.APPROVED:
        told.append("a person's yes to it is used up, and the call pauses until it is approved anew")
    else:
        told.append("so this call pauses" if action is Action.PAUSE else "so the agent is asked to reconsider")
    return decision._replace(action=action, reason=Reason.JOURNAL_UNAVAILABLE, explanation="; ".join(told))


def _decision_from_ask(ask: Ask, action: Action, tier: int, reason: Reason, why: str, correction: str = "") -> Decision:
    told = "; ".join(_reason_sentences(ask))
    return Decision(action, tier, reason, ask.risk, f"{told}; {why}", ask.findings, ask.origins, correction)


def _related_notes(context: Context, traced: OriginTrace, policy: Policy) -> list[BlockNote]:
    """Broad findings in blocks: in the passages this call takes a value from, or all by the letter of the seed."""
    if policy.strict_patterns:
        return [note for notes in context.broad.values() for note in notes]
    found: dict[tuple[str, str], BlockNote] = {}
    for entry, start, end in traced.related:
        for note in context.broad.get(entry.block, ()):
            if (note.block, note.rule) not in found and context.is_in_passage(
                note, entry.word_index.part.data[start:end]
            ):
                found[note.block, note.rule] = note
    return list(found.values())


def _scan_arguments(
    leaves: list[Leaf], said: str, scanner: Scanner, policy: Policy, wishes: TrustedText
) -> tuple[list[Finding], list[Finding], list[Leaf]]:
    """Findings in the arguments, encoded content in them, and what decoding them gave; `said` is all of them as one."""
    if not leaves:
        return [], [], []
    scan = scanner.scan_or_none(said)
    patterns: list[Finding] = []
    encoded: list[Finding] = []
    decoded: list[Leaf] = []
    if scan is None:
        return patterns, encoded, decoded
    starts = [0]
    for leaf in leaves:
        starts.append(starts[-1] + len(leaf.text) + len(_LEAF_SEPARATOR))

    def at(offset: int) -> str:
        return leaves[min(bisect_right(starts, offset) - 1, len(leaves) - 1)].argument

    for part in scan.parts:
        for hit in part.hits:
            if hit.rule.phrase and policy.unsafe_disable_phrase_rules:
                continue
            found = scanner.finding_from_hit(hit, part, "")
            where = at(found.start)
            if hit.rule.scope is Scope.RELATED and not policy.strict_patterns:
                # A rule reports its first hit; when that one says nothing, another one may.
                if all(
                    _is_expected_hit(hit.rule, excerpt, at(len(part.data[:start].decode("utf-8", "ignore"))), wishes)
                    for start, excerpt in scanner.find_all(hit.rule, part.data)
                ):
                    continue
            base = starts[bisect_right(starts, found.start) - 1]
            patterns.append(
                Finding(found.rule, where, found.start - base, found.end - base, found.reading, found.excerpt)
            )
        if part.how == "raw":
            continue
        where = at(part.start)
        plain = part.data.decode("utf-8", "replace")
        decoded.append(Leaf(where, plain, part.how))
        if part.encoded:
            base = starts[bisect_right(starts, part.start) - 1]
            encoded.append(
                Finding(f"encoded:{part.how}", where, part.start - base, part.end - base, part.how, plain[:120])
            )
    patterns += [Finding(f"cap:{limit}", "arguments", 0, 0) for limit in scan.capped]
    return patterns, encoded, decoded


def _is_expected_hit(rule: Rule, excerpt: str, argument: str, wishes: TrustedText) -> bool:
    """Whether a broad rule's hit in an argument says nothing: the user said it first, or the argument is named for it.

    A user who asks to change a password gets calls with `password` in them, and a field called `token` holds one.
    """
    if wishes.contains_request(excerpt):
        return True
    return rule.id == "seed:credential-word" and excerpt.lower().replace("-", "_") in argument.lower().replace("-", "_")


def _explain_unclear(ask: Ask, action: Action) -> str:
    """Why, in a sentence a person can act on."""
    heard = "the judge found it suspicious" if ask.triage == "suspicious" else "no judge has cleared it"
    verdict = {
        Action.PAUSE: ", so this call pauses",
        Action.REORIENT: ", so the agent is asked to reconsider",
        Action.CONTINUE: "; the policy lets it continue",
    }[action]
    return "; ".join([*_reason_sentences(ask), heard + verdict])


def _reason_sentences(ask: Ask) -> list[str]:
    unasked = {found.where for found in ask.findings if found.rule == "origin:unasked-recipient"}
    telling = (origin for origin in ask.origins if not origin.known and (origin.order or origin.argument in unasked))
    said = [_origin_sentence(origin) for origin in telling][:3]
    for found in ask.findings:
        if len(said) >= 4:
            break
        if found.rule == "origin:tool-in-order":
            where = printable(found.where)
            said.append(f"{where} orders what this tool does, and the goal does not: {quoted(found.excerpt, 120)}")
        elif not found.rule.startswith("origin:"):
            what = f" in {quoted(found.excerpt, 80)}" if found.excerpt else ""
            reading = "" if found.reading == "raw" else f", read as {found.reading}"
            said.append(f"{found.rule} found in {printable(found.where)}{reading}{what}")
    if not said:
        said.append(
            "every call is escalated in paranoid mode" if ask.reason is Reason.PARANOID_MODE else ask.reason.value
        )
    return list(dict.fromkeys(said))


def _origin_sentence(origin: Origin) -> str:
    where = f"{printable(origin.block)} ({printable(origin.source)})"
    how = f"in a sentence that gives orders ({quoted(origin.order, 120)}), and" if origin.order else "and"
    return f"{quoted(origin.argument)} = {quoted(origin.value)} comes from {where}, {how} not from the goal"
