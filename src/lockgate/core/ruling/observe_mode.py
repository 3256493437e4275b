"""Observe mode: the rulings of a gate that stops nothing, and says what it would have stopped.

Two kinds of calls are held all the same: those that would change Lockgate itself, since a trial must not be the moment
in which an agent prepares for the time after it, and those that a person has said no to.
"""

from __future__ import annotations

from lockgate.core.ruling.policy import Policy
from lockgate.core.text.rules import SELF_PROTECTION_RULES
from lockgate.core.vocabulary import WOULD_BE, Action, Decision, Finding, Reason

_OWN_RULES = frozenset(rule.id for rule in SELF_PROTECTION_RULES)
_WOULD = {Action.PAUSE: "would have paused", Action.REORIENT: "would have asked the agent to reconsider"}


def observe(decision: Decision, policy: Policy) -> Decision:
    """Return the ruling as it stands, or, where the policy does not enforce, a CONTINUE that says what it would be."""
    if policy.enforce or decision.action is Action.CONTINUE or is_always_enforced(decision):
        return decision
    told = f"Observing only, this {_WOULD[decision.action]}: {decision.explanation}"
    would = Finding(f"{WOULD_BE}{decision.action.value}", "call", 0, 0)
    return decision._replace(
        action=Action.CONTINUE, explanation=told, findings=(would, *decision.findings), correction="", approval=""
    )


def is_always_enforced(decision: Decision) -> bool:
    """Return whether a ruling holds in observe mode as well."""
    return decision.reason is Reason.DENIED or any(found.rule in _OWN_RULES for found in decision.findings)
