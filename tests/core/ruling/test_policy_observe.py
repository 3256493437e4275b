"""Observe mode as a value: what stays, what runs, and what is held all the same."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.policy import Policy, find_loosened, observe, tighten
from lockgate.core.vocabulary import Action, Decision, Finding, Reason, Risk

OBSERVING = Policy(enforce=False)


def held(action: Action = Action.PAUSE, *rules: str, reason: Reason = Reason.UNTRUSTED_ORIGIN) -> Decision:
    findings = tuple(Finding(rule, "b1", 0, 3) for rule in rules)
    return Decision(action, 3, reason, Risk.HIGH, "it was not asked for", findings, correction="do this", approval="a1")


@pytest.mark.parametrize("action", [Action.PAUSE, Action.REORIENT])
def test_a_held_call_runs_and_the_ruling_says_what_it_would_have_been(action: Action) -> None:
    seen = observe(held(action, "override:ignore"), OBSERVING)
    assert (seen.action, seen.would_be, seen.tier, seen.reason) == (
        Action.CONTINUE,
        action,
        3,
        Reason.UNTRUSTED_ORIGIN,
    )
    assert [found.rule for found in seen.findings] == [f"observe:{action.value}", "override:ignore"]
    assert seen.explanation.startswith("Observing only, this would have ")
    assert (seen.approval, seen.correction) == ("", "")


def test_an_enforcing_policy_and_a_pass_change_nothing() -> None:
    passed = held(Action.CONTINUE)
    assert observe(held(), Policy()) == held()
    assert observe(passed, OBSERVING) == passed
    assert passed.would_be is Action.CONTINUE


@pytest.mark.parametrize("part", ["approval", "guard", "state", "token"])
def test_calls_that_change_lockgate_itself_are_held_all_the_same(part: str) -> None:
    ruling = held(Action.PAUSE, "override:ignore", f"execution:own-{part}")
    assert observe(ruling, OBSERVING) == ruling


def test_a_persons_no_holds_all_the_same() -> None:
    ruling = held(reason=Reason.DENIED)
    assert observe(ruling, OBSERVING) == ruling


def test_nothing_that_only_tightens_can_switch_enforcement_off() -> None:
    assert tighten(Policy(), enforce=False).enforce
    assert find_loosened(Policy(), enforce=False) == ("enforce",)
    assert tighten(OBSERVING, enforce=True).enforce
    assert not tighten(OBSERVING, strict_patterns=True).enforce
    assert Policy(enforce=False).hash != Policy().hash
