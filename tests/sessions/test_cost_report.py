"""The sums over rulings: the funnel, times, money, and what became of each rule's escalations."""

from __future__ import annotations

import json

import pytest

from lockgate.core.vocabulary import Ran, Reason
from lockgate.gate.ledger_lines import LedgerEntry, LedgerPasses
from lockgate.sessions.cost_report import escalation_outcome, report_to_dict, summarize_costs

TRIAGE, TOP = "anthropic/small", "anthropic/big"


def ran(tier: int, said: str, *, us: float = 1000.0, cost: float | None = 0.001, cached: bool = False) -> Ran:
    return Ran(tier, said, TRIAGE if tier == 2 else TOP, us, 0 if cached else 100, 0 if cached else 10, cost, cached)


def ruling(
    *judged: Ran,
    action: str = "CONTINUE",
    tier: int | None = None,
    reason: str = "",
    rules: tuple[str, ...] = ("seed:x",),
    session: str = "s",
    at: float = 100.0,
) -> LedgerEntry:
    reached = tier or max([1, *(each.tier for each in judged)])
    said = reason or {1: "no-red-flags", 2: "triage-cleared", 3: "supervisor"}[reached]
    took = 50.0 + sum(each.latency_us for each in judged)
    return LedgerEntry(
        at, session, 1, "send", action, reached, said, "high", rules if reached > 1 else (), judged, took
    )


def test_nothing_is_a_report_too() -> None:
    found = summarize_costs([])
    assert (found.rulings, found.sessions, found.first_s, found.always, found.rules) == (0, 0, 0.0, None, ())
    assert found.reached == (0, 0, 0)
    json.dumps(report_to_dict(found), allow_nan=False)


def test_the_funnel_counts_the_highest_tier_each_call_reached() -> None:
    passes = [
        LedgerPasses(10.0, "a", "low-risk-tool", "low", (1.0,) * 78),
        LedgerPasses(300.0, "b", "no-red-flags", "high", (2.0,)),
    ]
    up = [ruling(ran(2, "clear"))] * 15 + [ruling(ran(2, "suspicious"), ran(3, "PAUSE"), action="PAUSE")] * 5
    found = summarize_costs([*passes, ruling(), *up])
    assert found.reached == (80, 15, 5)
    assert (found.rulings, found.sessions, found.first_s, found.last_s) == (100, 3, 10.0, 300.0)
    assert found.actions == {"CONTINUE": 95, "REORIENT": 0, "PAUSE": 5}


def test_times_are_measured_values_and_leave_cached_answers_out() -> None:
    judged = [ruling(ran(2, "clear", us=float(each))) for each in range(1, 101)]
    cached = [ruling(ran(2, "clear", us=0.5, cost=0.0, cached=True))] * 50
    found = summarize_costs([*judged, *cached])
    (rules, tier, judge) = found.judges
    assert (rules.tier, rules.p50_us, rules.p95_us) == (1, 50.0, 50.0)
    assert (tier.p50_us, tier.p95_us) == (50.0, 95.0)
    assert (judge.by, judge.answers, judge.cached) == (TRIAGE, 150, 50)
    assert judge[2:] == tier[2:]
    assert summarize_costs([*cached]).judges[1].p50_us is None


def test_a_tier_with_two_judges_has_a_row_for_both_and_one_for_all() -> None:
    other = ran(2, "clear", us=3000.0)._replace(by="openai/other")
    found = summarize_costs([ruling(ran(2, "clear")), ruling(other)])
    assert [(each.tier, each.by, each.answers) for each in found.judges] == [
        (1, "", 2),
        (2, "", 2),
        (2, TRIAGE, 1),
        (2, "openai/other", 1),
    ]


def test_money_is_what_is_known_and_says_what_is_not() -> None:
    unknown = ruling(ran(2, "unclear", cost=None), ran(3, "PAUSE", cost=0.01), action="PAUSE")
    found = summarize_costs([ruling(ran(2, "clear")), unknown])
    assert found.cost_usd == pytest.approx(0.011)
    assert found.unpriced == 1
    assert found.judges[1].unpriced == 1
    assert found.judges[1].unclear == 1


def test_a_cached_answer_costs_nothing_again() -> None:
    again = ruling(ran(3, "PAUSE", cost=0.0, cached=True), action="PAUSE")
    found = summarize_costs(
        [ruling(ran(3, "PAUSE", cost=0.01), action="PAUSE"), again], lambda each: 0.0 if each.cached else 0.01
    )
    assert found.cost_usd == pytest.approx(0.01)
    assert found.always is not None
    assert found.always.answers == 1


def test_always_asking_the_supervisor_is_its_mean_answer_times_all_calls() -> None:
    calls = [
        LedgerPasses(1.0, "s", "low-risk-tool", "low", (1.0,) * 97),
        ruling(ran(2, "suspicious"), ran(3, "PAUSE", us=1e6, cost=0.01), action="PAUSE"),
        ruling(ran(2, "suspicious"), ran(3, "CONTINUE", us=3e6, cost=0.03)),
        ruling(ran(2, "suspicious"), ran(3, "unclear", us=9e6, cost=None), action="PAUSE", reason="untrusted-origin"),
    ]
    always = summarize_costs(calls).always
    assert always is not None
    assert always.answers == 2
    assert always.mean_usd == pytest.approx(0.02)
    assert always.cost_usd == pytest.approx(2.0)
    assert always.wait_us == pytest.approx(200e6)


def test_without_a_priced_supervisor_nothing_is_made_up() -> None:
    assert summarize_costs([ruling(ran(2, "clear"))]).always is None
    assert summarize_costs([ruling(ran(3, "PAUSE", cost=None), action="PAUSE")]).always is None


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        (ruling(ran(2, "clear")), "triage"),
        (ruling(ran(2, "unclear"), ran(2, "clear")), "triage"),
        (ruling(ran(2, "suspicious"), ran(3, "CONTINUE")), "supervisor"),
        (ruling(ran(2, "clear"), ran(3, "CONTINUE")), "supervisor"),
        (ruling(tier=3, reason="approved"), "person"),
        (ruling(ran(2, "suspicious"), ran(3, "PAUSE"), action="PAUSE"), "upheld"),
        (ruling(ran(3, "REORIENT"), action="REORIENT"), "upheld"),
        (ruling(ran(3, "REORIENT"), action="PAUSE", reason="too-many-reorients"), "upheld"),
        (ruling(ran(2, "clear"), ran(3, "CONTINUE"), action="PAUSE", reason="hard-rule"), "upheld"),
        (ruling(tier=3, action="PAUSE", reason="denied"), "upheld"),
        (ruling(ran(3, "PAUSE"), action="PAUSE", reason="reconciliation"), "upheld"),
        (ruling(tier=3, action="PAUSE", reason="untrusted-origin"), "undecided"),
        (ruling(ran(2, "unclear"), ran(3, "unclear"), action="PAUSE", reason="encoded-content"), "undecided"),
        (ruling(ran(2, "suspicious"), action="PAUSE", tier=3, reason="suspicious-pattern"), "upheld"),
        (ruling(ran(2, "suspicious"), ran(3, "unclear"), action="PAUSE", reason="suspicious-pattern"), "upheld"),
        (ruling(ran(2, "unclear"), action="PAUSE", tier=3, reason="suspicious-pattern"), "undecided"),
        (ruling(ran(2, "suspicious"), tier=3, reason="suspicious-pattern"), "undecided"),
        (ruling(ran(2, "clear"), ran(3, "unclear"), reason="paranoid-mode"), "undecided"),
        (ruling(tier=3, reason="untrusted-origin"), "undecided"),
    ],
)
def test_what_became_of_an_escalation(entry: LedgerEntry, outcome: str) -> None:
    assert entry.reason in {reason.value for reason in Reason}
    assert escalation_outcome(entry) == outcome


def test_the_tuning_list_ranks_rules_by_what_a_higher_tier_cleared() -> None:
    calls = [
        *[ruling(ran(2, "clear"), rules=("noisy",))] * 4,
        ruling(ran(2, "clear"), rules=("noisy", "other")),
        ruling(ran(2, "suspicious"), ran(3, "CONTINUE"), rules=("noisy",)),
        ruling(tier=3, reason="approved", rules=("other",)),
        *[ruling(ran(3, "PAUSE"), action="PAUSE", rules=("good",))] * 9,
        ruling(ran(3, "PAUSE"), action="PAUSE", rules=("noisy",)),
        ruling(tier=3, action="PAUSE", reason="untrusted-origin", rules=("noisy",)),
    ]
    found = summarize_costs(calls)
    assert [row.rule for row in found.rules] == ["noisy", "other", "good"]
    noisy, other, good = found.rules
    assert noisy == ("noisy", 8, 5, 1, 0, 1, 1, 5)
    assert noisy.cleared == 6
    assert (other.escalations, other.triage, other.person, other.alone) == (2, 1, 1, 1)
    assert (good.escalations, good.cleared, good.upheld) == (9, 0, 9)
    assert found.undecided == 1


def test_the_report_is_json_under_stable_names() -> None:
    value = report_to_dict(summarize_costs([ruling(ran(2, "clear")), ruling(ran(3, "PAUSE"), action="PAUSE")]))
    json.dumps(value, allow_nan=False)
    assert set(value) == {
        "would_be",
        "rulings",
        "sessions",
        "first_time",
        "last_time",
        "actions",
        "funnel",
        "undecided",
        "tiers",
        "judges",
        "cost_usd",
        "unpriced_answers",
        "wait_us",
        "always_supervisor",
        "rules",
    }
