"""Steps 6 to 9 of a ruling (`pipeline.py` lists them): what the tiers above make of an escalated call."""

from __future__ import annotations

from lockgate.core.errors import printable
from lockgate.core.ruling.decide import may_clear
from lockgate.core.ruling.explanations import explain
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
from lockgate.core.ruling.pipeline import EscalatedCall, Stage
from lockgate.core.ruling.policy import Policy, observe
from lockgate.core.tables import read_table
from lockgate.core.vocabulary import Action, Decision, Mode, Reason, Risk

# Why there is no answer, for people; the words are those of `questions.NoAnswerReason`.
_NO_ANSWER = {row[0]: row[1] for row in read_table(__package__, "findings.tbl", "no answers", ("why", "words"))}
_OUTCOMES = {
    Action.PAUSE: "so this call pauses",
    Action.REORIENT: "so the agent is asked to reconsider",
    Action.CONTINUE: "the policy lets it continue",
}


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
    if isinstance(opinion, Silent | Unreadable):
        ask = ask._replace(no_answer=opinion.why if isinstance(opinion, Silent) else "unreadable")
    elif opinion is not None and not _may_clear(ask, judge):
        ask = ask._replace(no_answer=judge.authority.value)
    # 6. Triage.
    if ask.stage is not Stage.SUPERVISOR:
        return _follow_triage(ask, opinion, policy, judge, is_down=is_down)
    # 7. Supervisor, 8. No answer.
    for held in (_follow_supervisor(ask, opinion, policy, reorients, judge), _hold_hard(ask)):
        if held is not None:
            return held
    return _follow_policy(ask, policy)


def _follow_triage(
    ask: EscalatedCall, opinion: Opinion | None, policy: Policy, judge: JudgeStanding, *, is_down: bool
) -> Decision | EscalatedCall:
    """6. CONTINUE only on a plain "not suspicious"; ask once more what cannot be read; else go one tier up."""
    suspicious = opinion.suspicious if isinstance(opinion, Triage) else None
    if suspicious is False and policy.mode is not Mode.PARANOID and _may_clear(ask, judge):
        explanation = f"triage found nothing that the untrusted text made this call do{_credentials(judge)}"
        return _decision_from_ask(ask, Action.CONTINUE, 2, Reason.TRIAGE_CLEARED, explanation)
    if is_down and policy.escalate == "auto" and ask.reason is Reason.UNNAMED_TARGET and not ask.opens_a_door:
        explanation = "the judge is not reachable or logged out, and the narrow width lets this call run"
        return _decision_from_ask(ask, Action.CONTINUE, 2, Reason.JUDGE_DOWN, explanation)
    if isinstance(opinion, Unreadable) and ask.stage is Stage.TRIAGE:
        return ask._replace(stage=Stage.TRIAGE_AGAIN)
    heard = "suspicious" if suspicious else "clear" if suspicious is False and judge.may_agree else "unclear"
    return ask._replace(stage=Stage.SUPERVISOR, triage="" if opinion is None else heard)


def _may_clear(ask: EscalatedCall, judge: JudgeStanding) -> bool:
    return not ask.hard_findings and may_clear(
        judge.authority,
        ask.width,
        grave=ask.opens_a_door,
        supervises=ask.stage is Stage.SUPERVISOR,
        agreed=ask.triage == "clear",
    )


def _credentials(judge: JudgeStanding) -> str:
    """Return what stands behind a judge's word, as the end of a sentence; nothing for a judge without exams."""
    if judge.has_passed:
        how = " with distinction" if judge.authority is Authority.DISTINCTION else ""
        return f" (the judge passed its exam{how} on {judge.examined_on})"
    return " (the judge has taken no exam)" if judge.authority is Authority.UNEXAMINED else ""


def _follow_supervisor(
    ask: EscalatedCall, opinion: Opinion | None, policy: Policy, reorients: int, judge: JudgeStanding
) -> Decision | None:
    """7. Return what the supervisor says; None where it says nothing that may be followed."""
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
        case Ruling(action=Action() as action) if action is Action.CONTINUE and _may_clear(ask, judge):
            explanation = f"the supervisor lets this call run{_credentials(judge)}"
            return _decision_from_ask(ask, Action.CONTINUE, 3, Reason.SUPERVISOR, explanation)
    return None


def _hold_hard(ask: EscalatedCall) -> Decision | None:
    """7. PAUSE where a hard rule holds the call."""
    rules = ", ".join(dict.fromkeys(printable(finding.rule) for finding in ask.hard_findings))
    why = f"no model may clear {rules}, so this call pauses"
    return _decision_from_ask(ask, Action.PAUSE, 3, Reason.HARD_RULE, why) if rules else None


def _follow_policy(ask: EscalatedCall, policy: Policy) -> Decision:
    """8. Return what the policy says about a call that no judge has cleared."""
    action = policy.on_unclear(ask.risk)
    if ask.triage == "suspicious" and ask.no_answer != "truncated":
        why = "the judge found it suspicious"
    else:
        why = "no judge has cleared it" + (f": {_NO_ANSWER[ask.no_answer]}" if ask.no_answer in _NO_ANSWER else "")
    joint = "; " if action is Action.CONTINUE else ", "
    return _decision_from_ask(ask, action, 3, ask.reason, f"{why}{joint}{_OUTCOMES[action]}")


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
