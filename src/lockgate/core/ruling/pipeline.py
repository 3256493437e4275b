"""How a ruling is made. The steps, in the order a reader has to trust them:

0. Always.   What counts before anything untrusted was read: the border of a declared scope, a call that touches
   Lockgate itself, and what the host holds against the call. With any of it, steps 1 and 2 let nothing pass.
1. Context.  No untrusted block in the recent context: CONTINUE, `no-untrusted-content`.
2. Effects.  What the call would do. It only looks: CONTINUE, `low-risk-tool`. It works inside the project: only text in
   its own arguments that speaks to an agent counts below.
3. Patterns. Rules over the arguments, and over every recent untrusted block in all its readings.
4. Encoding. Hidden readable text in the arguments or in a recent untrusted block.
5. Origins.  Values or a tool that an order in untrusted text names, and that the goal does not; an effect that the
   user did not ask for (`decide.py`).
   Nothing in 3-5: CONTINUE, `no-red-flags`. Anything: the call is escalated; a rule never blocks by itself. With the
   wide width a call is also escalated where the user does not name what it reaches, `unnamed-target` (`decide.py`).
6. Triage.   Tier 2 is asked once, and once more in plain words when its answer cannot be read. Only a plain "not
   suspicious" of a judge that may clear it clears the call: CONTINUE, `triage-cleared`. Everything else goes one tier
   up. Where the judge is down, a call of severity 2 in which nothing was found follows narrow: `judge-down`.
7. Supervisor. Tier 3 says CONTINUE, REORIENT with a correction, or PAUSE. Past the policy's limit a REORIENT is a
   PAUSE. No answer of a model lets a call run that a hard rule holds.
8. No answer. No judge above Tier 1 answers: the policy's `on_unclear` for the tool's risk, PAUSE when it is high.
9. Record.   The ruling enters the journal before it is returned. Where it cannot, a high-risk call pauses,
   `journal-unavailable`, and a low-risk one gets the policy's `on_unclear`; a call that is held stays held.

Paranoid mode sends every call through all three tiers, after the same steps have collected what there is to say.
`begin` takes a call through steps 0 to 5, `resume` through 6 to 8. Neither has a clock or a connection: the gate asks
the judges and gives their answers back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from lockgate.core.errors import printable
from lockgate.core.ruling.argument_scan import ArgumentScan, join_leaves, scan_arguments
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.arguments import flatten_arguments as flatten_arguments
from lockgate.core.ruling.context import Context
from lockgate.core.ruling.decide import Checked, EffectCheck, Width, may_clear
from lockgate.core.ruling.effects.code import without_removals
from lockgate.core.ruling.effects.effect import KINDS, Effect, Severity, effect
from lockgate.core.ruling.effects.effects_of_call import effects_of, own_effects_of
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import names_file
from lockgate.core.ruling.explanations import CARRIED, EFFECT, FORBIDDEN, explain
from lockgate.core.ruling.goal import may_be_delegated
from lockgate.core.ruling.opinions import (
    DEVELOPERS,
    Authority,
    JudgeStanding,
    Opinion,
    Ruling,
    Silent,
    Triage,
    Unreadable,
)
from lockgate.core.ruling.policy import Policy, observe
from lockgate.core.ruling.provenance import GROUPS, MAX_ORIGINS
from lockgate.core.ruling.scope.border import border_from_scope
from lockgate.core.ruling.scope.crossings import find_crossings
from lockgate.core.ruling.self_protection import find_tampering, findings_from_effects
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import find_host_words, is_local_host
from lockgate.core.ruling.tool_risk import read_tool_name, tool_risk
from lockgate.core.tables import read_table
from lockgate.core.text.rules import RULES_BY_ID, Scope
from lockgate.core.text.scanner import Scanner, encode
from lockgate.core.vocabulary import Action, Decision, Finding, Mode, Origin, Reason, Risk, ToolCall

# A finding of a rule that starts with one of these holds a call, and no model's answer releases it.
HARD_RULES = (
    *("cap:arguments", "cap:context-unknown", "cap:readings", "cap:text", "execution:own-"),
    *("flow:", "mcp:", "plug:", "scope:", "step:needs-a-person"),
)
# A finding that no quick judge may clear: the gravest kinds, and whatever the goal forbids.
_DOOR_RULES = {FORBIDDEN, *(EFFECT + name for name, kind in KINDS.items() if kind.severity is Severity.OPENS_A_DOOR)}
_ARGUMENTS_CUT = Finding("cap:arguments", "arguments", 0, 0)
_DROPS_TABLES = "execution:drop-tables"
# Why there is no answer, for people; the words are those of `questions.NoAnswerReason`.
_NO_ANSWER = {row[0]: row[1] for row in read_table(__package__, "findings.tbl", "no answers", ("why", "words"))}
_OUTCOMES = {
    Action.PAUSE: "so this call pauses",
    Action.REORIENT: "so the agent is asked to reconsider",
    Action.CONTINUE: "the policy lets it continue",
}


class Stage(StrEnum):
    """Which judge an escalated call is waiting for."""

    TRIAGE = "triage"
    TRIAGE_AGAIN = "triage-again"
    SUPERVISOR = "supervisor"


class EscalatedCall(NamedTuple):
    """A call that Tier 1 does not clear, with everything a higher tier needs to rule on it.

    `triage` is Tier 2's answer: `clear`, `suspicious` or `unclear`; empty when it was not asked. `gives_away_unasked`:
    money or a file goes out, and the user did not ask to pay, share or write, or a sentence of a stranger gives the
    account. `no_answer` is why a judge did not answer.
    """

    call: ToolCall
    risk: Risk
    reason: Reason
    findings: tuple[Finding, ...]
    origins: tuple[Origin, ...]
    stage: Stage = Stage.TRIAGE
    triage: str = ""
    effects: tuple[Effect, ...] = ()
    gives_away_unasked: bool = False
    width: Width = Width.NARROW
    no_answer: str = ""

    @property
    def hard_findings(self) -> tuple[Finding, ...]:
        """The findings that no model may clear: a crossed border, tampering, and text that stayed unread."""
        return tuple(finding for finding in self.findings if finding.rule.startswith(HARD_RULES))

    @property
    def opens_a_door(self) -> bool:
        """Whether it opens a door unasked, or does what the goal forbids: then Tier 2 may not clear it."""
        is_grave = self.width is Width.WIDE and any(effect.severity is Severity.OPENS_A_DOOR for effect in self.effects)
        return is_grave or any(found.rule in _DOOR_RULES for found in self.findings)


@dataclass(slots=True)
class _Review:
    """One call on its way through steps 0 to 5: the facts about it, and what was found so far.

    `always` are the findings of step 0, `read` the effects once a step has needed them, `effects` those that count.
    With `is_to_the_letter` patterns count whatever the call would do: they are strict, and its tool's name is
    that of a high-risk one.
    """

    context: Context
    call: ToolCall
    policy: Policy
    scanner: Scanner
    width: Width
    leaves: list[Leaf]
    is_cut: bool
    text: str
    risk: Risk
    is_to_the_letter: bool
    always: list[Finding] = field(default_factory=list)
    scan: ArgumentScan | None = None
    effects: tuple[Effect, ...] = ()
    read: tuple[Effect, ...] = ()

    @property
    def is_paranoid(self) -> bool:
        return self.policy.mode is Mode.PARANOID

    @property
    def may_pass_early(self) -> bool:
        """Whether steps 1 and 2 may let the call run."""
        return not self.is_paranoid and not self.always

    @property
    def first_recent(self) -> int:
        """The position of the first block that counts as recent."""
        return max(0, len(self.context.blocks) - self.policy.recent_blocks) if self.policy.recent_blocks else 0

    @property
    def severity(self) -> Severity:
        """The gravest thing that the call would do; it is never nothing."""
        return self.effects[0].severity if self.effects else Severity.OPENS_A_DOOR

    @property
    def is_light_work(self) -> bool:
        """Whether the call does no more than look or work inside the project: then only its own text counts."""
        return self.severity < Severity.REACHES_OUT and not self.is_paranoid

    @property
    def only_requests(self) -> bool:
        """Whether the call does no more than follow links that it names, as a text has them."""
        reaching = [effect for effect in self.effects if effect.severity >= Severity.REACHES_OUT]
        is_request = reaching and all(effect.kind == "requests" and effect.target for effect in reaching)
        if not is_request or any(effect.kind == "runs-project-task" for effect in self.effects):
            return False
        # A query that no text wrote was put together by the agent, and can take something along.
        return all(self.context.index.has_words(query) for query in _P["query"].findall(self.text))

    def read_effects(self) -> tuple[Effect, ...]:
        if not self.read:
            effects = effects_of(self.call, self.context.project, self.context.activity, leaves=self.leaves)
            requests = _requests_of_tasks(effects, self.leaves, self.context.project)
            self.read = tuple(sorted((*effects, *requests), key=lambda entry: -entry.severity))
        return self.read

    def scan_arguments(self) -> ArgumentScan:
        """Return the scan of the arguments; they are scanned once."""
        if self.scan is None:
            leaves, text = self.leaves, self.text
            if self.policy.strict_patterns:
                # The patterns' own letter: they count in the arguments as they are written, names included.
                leaves, is_cut = flatten_arguments(self.call.arguments, with_names=True)
                text, self.is_cut = join_leaves(leaves), self.is_cut or is_cut
            stays_here = bool(self.effects) and all(effect.kind in GROUPS["stays here"] for effect in self.effects)
            goal = self.context.goal
            self.scan = scan_arguments(leaves, text, self.scanner, self.policy, goal, stays_here=stays_here)
        return self.scan


def begin(
    context: Context,
    call: ToolCall,
    policy: Policy,
    scanner: Scanner,
    *,
    flattened: tuple[list[Leaf], bool] | None = None,
    width: Width = Width.NARROW,
) -> Decision | EscalatedCall:
    """Take a call through steps 0 to 5: return Tier 1's ruling, or the question for the tiers above.

    `flattened` is what `flatten_arguments` gave for the arguments, where the caller has it already.
    """
    leaves, is_cut = flattened or flatten_arguments(call.arguments)
    text = join_leaves(leaves)
    risk = tool_risk(call.tool, additional=policy.high_risk_tools, annotations=call.annotations)
    # A request for an address carries the address to the server behind it: reading can send data out.
    if call.findings or ("://" in text and not read_tool_name(call.tool).known):
        risk = Risk.HIGH
    is_strict = policy.strict_patterns and risk is Risk.HIGH
    review = _Review(context, call, policy, scanner, width, leaves, is_cut, text, risk, is_strict)
    # 0. Always.
    _check_always(review)
    # 1. Context, 2. Effects.
    for check in (_check_context, _check_effects):
        if (passed := check(review)) is not None:
            return passed
    # 3. and 4. Patterns and encodings in the arguments.
    patterns, encoded, decoded = _check_arguments(review)
    # 5. Origins.
    checked = _check_origins(review, decoded)
    if checked.capped:
        patterns.append(Finding("cap:values", "arguments", 0, 0))
    # 3. and 4. Patterns and encodings in the recent untrusted blocks.
    _check_blocks(review, checked, patterns, encoded)
    # Nothing: CONTINUE. Anything: one tier up.
    return _conclude(review, patterns, encoded, checked)


def _requests_of_tasks(effects: Sequence[Effect], leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield a request to each host that a command gives to a task of the project: what the task does is not known."""
    texts = {leaf.argument: leaf.text for leaf in leaves}
    for task in effects:
        text = texts.get(task.argument, "") if task.kind == "runs-project-task" else ""
        for host in find_host_words(text[task.start : task.end]):
            if not (is_local_host(host) or project.has_host(host) or task.target.endswith(host)):
                yield effect("requests", host, argument=task.argument, span=(task.start, task.end))


def _check_always(review: _Review) -> None:
    """0. Collect what crosses a border, touches Lockgate itself, or is held by a flow rule, the host or a lost context.

    The agent may never answer its own approval or touch Lockgate's files, even before it has read anything.
    """
    context, policy, always, leaves = review.context, review.policy, review.always, review.leaves
    if policy.research_scope:
        edge, tool = border_from_scope(policy.research_scope), review.call.tool
        always += find_crossings(edge, leaves, tool=tool)
        if edge:
            # Text that is hidden in a code can lead outside as well, and text that stayed unread may.
            scan = review.scan_arguments()
            always += find_crossings(edge, scan.decoded, tool=tool)
            always += [found for found in scan.patterns if found.rule.startswith(HARD_RULES) and found not in always]
        always += [_ARGUMENTS_CUT] if review.is_cut else []
    always += find_tampering(leaves, review.scanner, looks=review.risk is Risk.LOW)
    known = {finding.rule for finding in always}
    effects = own_effects_of(review.call, context.project, context.activity, leaves, review.read_effects)
    always += [finding for finding in findings_from_effects(effects) if finding.rule not in known]
    if policy.flows:
        from lockgate.core.ruling.flow_rules import FlowCheck

        always += FlowCheck(context, leaves, review.read_effects(), is_cut=review.is_cut).find(policy.flows)
    if review.risk is Risk.HIGH:
        if context.has_unknown_history:
            always.append(Finding("cap:context-unknown", "context", 0, 0))
        always += review.call.findings


def _check_context(review: _Review) -> Decision | None:
    """1. CONTINUE where no untrusted block is recent, unless a text that is only vetted may have asked for a door."""
    readings = review.context.readings
    if not review.may_pass_early or (readings and readings[-1].position >= review.first_recent):
        return None
    if review.context.has_vetted_text:
        review.effects = review.read_effects()
        if review.severity is Severity.OPENS_A_DOOR and _check_origins(review).findings:
            return None
    return Decision(Action.CONTINUE, 1, Reason.NO_UNTRUSTED_CONTENT, review.risk)


def _check_effects(review: _Review) -> Decision | None:
    """2. CONTINUE for a call that only looks; with `strict_patterns` its tool has to be a low-risk one as well."""
    review.effects = review.read_effects()
    tool, listed = review.call.tool, review.policy.high_risk_tools
    if listed and tool_risk(tool, additional=listed) is not tool_risk(tool):
        # The policy names it as a high-risk one, whatever it seems to do.
        review.effects = (effect("unknown-act", tool), *review.effects)
    only_looks = review.severity is Severity.LOOKS and not review.call.findings and not review.is_to_the_letter
    review.risk = Risk.LOW if only_looks else Risk.HIGH
    if review.may_pass_early and review.risk is Risk.LOW:
        return Decision(Action.CONTINUE, 1, Reason.LOW_RISK_TOOL, review.risk, effects=review.effects)
    return None


def _check_arguments(review: _Review) -> ArgumentScan:
    """3. and 4. Return what counts in the arguments for a call of this kind, the findings of step 0 included."""
    scan, always = review.scan_arguments(), review.always
    if scan.decoded and review.risk is Risk.HIGH:
        always += find_tampering(scan.decoded, review.scanner)
        for leaf in scan.decoded:
            hidden = ToolCall("bash", {"command": leaf.text}, folder=review.call.folder)
            always += findings_from_effects(own_effects_of(hidden, review.context.project), leaf.argument)
    if review.is_cut and _ARGUMENTS_CUT not in always:
        always.append(_ARGUMENTS_CUT)
    known = {finding.rule for finding in scan.patterns}
    new = [finding for finding in always if finding.rule.startswith("scope:") or finding.rule not in known]
    patterns = [*scan.patterns, *new]
    if not review.is_to_the_letter:
        patterns = [finding for finding in patterns if _counts(review, finding)]
        if review.is_light_work:
            return ArgumentScan(patterns, [], scan.decoded)
    return scan._replace(patterns=patterns)


def _counts(review: _Review, finding: Finding) -> bool:
    """Return whether a finding in the arguments counts for a call that does no more than its effects tell.

    In a call that only works inside the project, text that speaks to an agent counts where it is hidden: a file of the
    project may quote anything. Tables may go where the goal asks for it and effects tell of each table that an argument
    removes: a statement in code, in a mail or behind an unknown program is in no effect.
    """
    if finding.rule == _DROPS_TABLES and review.context.goal.asks_for_kind("deletes-data"):
        removed = {effect.target for effect in review.effects if effect.kind == "deletes-data"}
        text = next((leaf.text for leaf in review.leaves if leaf.argument == finding.where), "")
        unread = without_removals(text, removed)
        if unread != text and not review.scanner.has_match(RULES_BY_ID[_DROPS_TABLES], encode(unread)):
            return False
    if not review.is_light_work or finding.rule.startswith("cap:"):
        return True
    rule = RULES_BY_ID.get(finding.rule)
    is_hidden = rule is not None and rule.scope is Scope.AGENT and finding.reading != "raw"
    # By its rule: the scan of the arguments may have the same hit with another span.
    return is_hidden or any(finding.rule == other.rule for other in review.always)


def _check_origins(review: _Review, decoded: Sequence[Leaf] = ()) -> Checked:
    """5. Return the effects that the user did not ask for, and the values that an order in untrusted text names."""
    effects = review.effects
    if review.is_light_work and review.width is Width.NARROW:
        return Checked()
    may_be_followed = bool(effects) and all(map(may_be_delegated, effects))
    check = EffectCheck(
        review.context,
        review.call.tool,
        review.first_recent,
        review.context.find_delegated() if may_be_followed else frozenset(),
        [*review.leaves, *decoded],
        review.policy.is_own,
        only_requests=review.only_requests,
        # Where what the call would do was read from a command or a path, its other values add nothing.
        only_effects=any(sink_from_argument(effect.argument) in ("command", "path") for effect in effects),
    )
    return check.find(effects, review.width)


def _check_blocks(review: _Review, checked: Checked, patterns: list[Finding], encoded: list[Finding]) -> None:
    """3. and 4. Add what was found in recent untrusted blocks when they arrived; broad rules with strict patterns."""
    context, policy = review.context, review.policy
    if review.is_light_work and not review.is_to_the_letter:
        return
    notes = [*context.alarms, *context.encoded, *(context.broad if policy.strict_patterns else ())]
    # A link that an alarming text does not name is not followed because of it; what stayed unread may name any.
    only_named = bool(notes) and not policy.strict_patterns and review.only_requests
    named = {origin.block for origin in checked.origins}
    for note in notes:
        is_off = note.phrase and policy.unsafe_disable_phrase_rules
        is_related = not only_named or note.block in named or note.rule.startswith("cap:")
        if note.position >= review.first_recent and is_related and not is_off:
            (encoded if note.rule.startswith("encoded:") else patterns).append(context.locate_finding(note))


def _conclude(
    review: _Review, patterns: list[Finding], encoded: list[Finding], checked: Checked
) -> Decision | EscalatedCall:
    """Return CONTINUE where steps 3 to 5 found nothing, else the question for the tiers above."""
    origins = checked.origins[:MAX_ORIGINS]
    reasons = (
        (patterns, Reason.SUSPICIOUS_PATTERN),
        (encoded, Reason.ENCODED_CONTENT),
        (checked.has_origin, Reason.UNTRUSTED_ORIGIN),
        (checked.findings, Reason.UNASKED_EFFECT),
        (review.is_paranoid, Reason.PARANOID_MODE),
        (checked.asks, Reason.UNNAMED_TARGET),
    )
    reason = next((reason for is_given, reason in reasons if is_given), None)
    if reason is None:
        return Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, review.risk, origins=origins, effects=review.effects)
    findings = (*checked.findings, *patterns, *encoded, *checked.signals)
    blocks = [origin.block for origin in origins if not origin.known] + [finding.where for finding in findings]
    carried = {block: review.context.carried[block] for block in blocks if block in review.context.carried}
    # What is to be said of blocks that repeat untrusted text of an earlier session.
    for block, text in carried.items():
        findings += (Finding(CARRIED, block, 0, 0, str(int(text.at_s)), printable(text.source, 120)),)
    is_unasked = checked.is_payee_told or _gives_away_unasked(review)
    call, effects, width = review.call, review.effects, review.width
    return EscalatedCall(
        call, review.risk, reason, findings, origins, effects=effects, gives_away_unasked=is_unasked, width=width
    )


def _gives_away_unasked(review: _Review) -> bool:
    """Return whether money or a file goes out without a word of the user about paying, sharing or writing."""
    # `include_attachments` may be a plain yes, which is no leaf.
    names = [leaf.argument for leaf in review.leaves if leaf.text]
    names += [name for name, value in review.call.arguments.items() if value is True]
    giving = {"pays", "shares"} | ({"sends-message"} if any(map(names_file, names)) else set())
    given = {effect.kind for effect in review.effects} & giving
    return not all(map(review.context.goal.asks_for_kind, given))


def resume(
    ask: EscalatedCall,
    opinion: Opinion | None,
    policy: Policy,
    *,
    reorients: int = 0,
    judge: JudgeStanding = DEVELOPERS,
    is_down: bool = False,
) -> Decision | EscalatedCall:
    """Take an escalated call through steps 6 to 8; `opinion` is None when there is no judge to ask.

    `reorients` is how often the agent has been told to reconsider since the user last spoke, `judge` the standing of
    the judge that was asked, and `is_down` whether a question without any judged text had no answer either.
    """
    is_supervisor = ask.stage is Stage.SUPERVISOR
    clears = not ask.hard_findings and may_clear(
        judge.authority, ask.width, grave=ask.opens_a_door, supervises=is_supervisor, agreed=ask.triage == "clear"
    )
    if isinstance(opinion, Silent | Unreadable):
        ask = ask._replace(no_answer=opinion.why if isinstance(opinion, Silent) else "unreadable")
    elif opinion is not None and not clears:
        ask = ask._replace(no_answer=judge.authority.value)
    # 6. Triage.
    if not is_supervisor:
        return _follow_triage(ask, opinion, policy, judge, clears=clears, is_down=is_down)
    # 7. Supervisor.
    ruling = _follow_supervisor(ask, opinion, policy, reorients, judge, clears=clears)
    if ruling is not None:
        return ruling
    # 8. No answer.
    action = policy.on_unclear(ask.risk)
    why = "no judge has cleared it" + (f": {_NO_ANSWER[ask.no_answer]}" if ask.no_answer in _NO_ANSWER else "")
    if ask.triage == "suspicious" and ask.no_answer != "truncated":
        why = "the judge found it suspicious"
    joint = "; " if action is Action.CONTINUE else ", "
    return _decision_from_ask(ask, action, 3, ask.reason, f"{why}{joint}{_OUTCOMES[action]}")


def _follow_triage(
    ask: EscalatedCall, opinion: Opinion | None, policy: Policy, judge: JudgeStanding, *, clears: bool, is_down: bool
) -> Decision | EscalatedCall:
    """6. CONTINUE only on a plain "not suspicious"; ask once more what cannot be read; else go one tier up."""
    suspicious = opinion.suspicious if isinstance(opinion, Triage) else None
    if suspicious is False and policy.mode is not Mode.PARANOID and clears:
        explanation = f"triage found nothing that the untrusted text made this call do{_credentials(judge)}"
        return _decision_from_ask(ask, Action.CONTINUE, 2, Reason.TRIAGE_CLEARED, explanation)
    if is_down and policy.escalate == "auto" and ask.reason is Reason.UNNAMED_TARGET and not ask.opens_a_door:
        explanation = "the judge is not reachable or logged out, and the narrow width lets this call run"
        return _decision_from_ask(ask, Action.CONTINUE, 2, Reason.JUDGE_DOWN, explanation)
    if isinstance(opinion, Unreadable) and ask.stage is Stage.TRIAGE:
        return ask._replace(stage=Stage.TRIAGE_AGAIN)
    heard = "suspicious" if suspicious else "clear" if suspicious is False and judge.may_agree else "unclear"
    return ask._replace(stage=Stage.SUPERVISOR, triage="" if opinion is None else heard)


def _credentials(judge: JudgeStanding) -> str:
    """Return what stands behind a judge's word, as the end of a sentence; nothing for a judge without exams."""
    if judge.has_passed:
        how = " with distinction" if judge.authority is Authority.DISTINCTION else ""
        return f" (the judge passed its exam{how} on {judge.examined_on})"
    return " (the judge has taken no exam)" if judge.authority is Authority.UNEXAMINED else ""


def _follow_supervisor(
    ask: EscalatedCall, opinion: Opinion | None, policy: Policy, reorients: int, judge: JudgeStanding, *, clears: bool
) -> Decision | None:
    """7. Return what the supervisor says, or PAUSE where a hard rule holds the call; None where neither is so."""
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
        case Ruling(action=Action() as action) if action is Action.CONTINUE and clears:
            explanation = f"the supervisor lets this call run{_credentials(judge)}"
            return _decision_from_ask(ask, Action.CONTINUE, 3, Reason.SUPERVISOR, explanation)
    rules = ", ".join(dict.fromkeys(printable(finding.rule) for finding in ask.hard_findings))
    why = f"no model may clear {rules}, so this call pauses"
    return _decision_from_ask(ask, Action.PAUSE, 3, Reason.HARD_RULE, why) if rules else None


def decide_unrecorded(decision: Decision, policy: Policy, why: str) -> Decision:
    """9. Return what becomes of a ruling that could not be recorded; `why` is what the journal says."""
    before = [decision.explanation] if decision.explanation else []
    if decision.action is not Action.CONTINUE:
        return decision._replace(explanation="; ".join([*before, f"this is not on record: {why}"]))
    action = Action.PAUSE if decision.risk is Risk.HIGH else policy.on_unclear(decision.risk)
    outcome = _OUTCOMES[action]
    if decision.reason is Reason.APPROVED and action is not Action.CONTINUE:
        outcome = "a person's yes to it is used up, and the call pauses until it is approved anew"
    explanation = "; ".join([*before, f"this cannot be recorded: {why}", outcome])
    held = decision._replace(action=action, reason=Reason.JOURNAL_UNAVAILABLE, explanation=explanation)
    return observe(held, policy)


def _decision_from_ask(
    ask: EscalatedCall, action: Action, tier: int, reason: Reason, why: str, correction: str = ""
) -> Decision:
    told = explain(ask.reason, ask.findings, ask.origins, ask.effects, why)
    return Decision(action, tier, reason, ask.risk, told, ask.findings, ask.origins, correction, effects=ask.effects)
