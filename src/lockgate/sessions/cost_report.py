"""Totals over rulings: the tier that settled them, their time and cost, and the rules that escalated them."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lockgate.core.vocabulary import WOULD_BE, Action, Ran, Reason
from lockgate.gate.ledger_lines import LedgerEntry, LedgerPasses

# What a judge of either tier says.
_CLEARED, _HELD = ("clear", Action.CONTINUE), ("suspicious", Action.REORIENT, Action.PAUSE)
_UPHELD = frozenset({Reason.HARD_RULE.value, Reason.TOO_MANY_REORIENTS.value, Reason.DENIED.value})


class JudgeCosts(NamedTuple):
    """One judge's answers, or all answers of a tier if `by` is empty. Cached answers have no time.

    `cleared` and `held` are what it said of a call, whether or not its word counted; `unclear` had no answer, or none
    that could be read. `unpriced` answers are not in `cost_usd`: their cost is unknown.
    """

    tier: int
    by: str
    answers: int
    cached: int
    cleared: int
    held: int
    unclear: int
    p50_us: float | None
    p95_us: float | None
    tokens_in: int
    tokens_out: int
    cost_usd: float
    unpriced: int


class RuleEscalations(NamedTuple):
    """A rule and the outcomes of the calls it escalated. `alone`: cleared calls on which no other rule had fired."""

    rule: str
    escalations: int
    triage: int
    supervisor: int
    person: int
    upheld: int
    undecided: int
    alone: int

    @property
    def cleared(self) -> int:
        return self.triage + self.supervisor + self.person


class AlwaysSupervisorCost(NamedTuple):
    """The estimate for asking the supervisor about every call, from the mean of its `answers` with a known cost."""

    answers: int
    mean_usd: float
    mean_us: float
    cost_usd: float
    wait_us: float


class CostReport(NamedTuple):
    rulings: int
    sessions: int
    first_s: float
    last_s: float
    actions: Mapping[str, int]
    # Of the calls that ran in observe mode: what the gate would have ruled.
    would_be: Mapping[str, int]
    # How many calls each tier settled: the highest tier a call reached.
    reached: tuple[int, int, int]
    undecided: int
    judges: tuple[JudgeCosts, ...]
    cost_usd: float
    unpriced: int
    wait_us: float
    always: AlwaysSupervisorCost | None
    rules: tuple[RuleEscalations, ...]


class _AnswerCounts:
    """Running totals of one judge's answers."""

    def __init__(self) -> None:
        self.times = array("d")
        self.answers = self.cached = self.tokens_in = self.tokens_out = self.unpriced = 0
        self.said: Counter[str] = Counter()
        self.cost = 0.0

    def take(self, ran: Ran, cost: float | None) -> None:
        self.answers += 1
        self.said[ran.said] += 1
        if ran.cached:
            self.cached += 1
            return
        self.times.append(ran.latency_us)
        self.tokens_in += ran.tokens_in
        self.tokens_out += ran.tokens_out
        if cost is None:
            self.unpriced += 1
        else:
            self.cost += cost

    def judged(self, tier: int, by: str) -> JudgeCosts:
        times = sorted(self.times)
        cleared, held = (sum(self.said[word] for word in words) for words in (_CLEARED, _HELD))
        return JudgeCosts(
            tier,
            by,
            self.answers,
            self.cached,
            cleared,
            held,
            self.said["unclear"],
            percentile(times, 50) if times else None,
            percentile(times, 95) if times else None,
            self.tokens_in,
            self.tokens_out,
            self.cost,
            self.unpriced,
        )


def summarize_costs(
    entries: Iterable[LedgerEntry | LedgerPasses], cost: Callable[[Ran], float | None] = lambda ran: ran.cost_usd
) -> CostReport:
    """Return the totals over all entries; `cost` returns the price of an answer, or None if it is unknown."""
    totals = _CostTotals(cost)
    for entry in entries:
        totals.add(entry)
    return totals.report()


class _CostTotals:
    """Running totals over the entries of a ledger."""

    def __init__(self, cost: Callable[[Ran], float | None]) -> None:
        self._cost = cost
        self._sessions: set[str] = set()
        self._actions: Counter[str] = Counter(dict.fromkeys((action.value for action in Action), 0))
        self._would_be: Counter[str] = Counter({Action.PAUSE.value: 0, Action.REORIENT.value: 0})
        self._reached = [0, 0, 0]
        self._rules = _AnswerCounts()
        self._answers: dict[tuple[int, str], _AnswerCounts] = {(1, ""): self._rules}
        self._outcomes: dict[str, Counter[str]] = {}
        self._first_s, self._last_s = math.inf, 0.0
        self._undecided, self._wait_us = 0, 0.0
        # The supervisor's answers with a known cost: their number, cost and time.
        self._top, self._top_usd, self._top_us = 0, 0.0, 0.0

    def add(self, entry: LedgerEntry | LedgerPasses) -> None:
        self._sessions.add(entry.session)
        if entry.time_s:
            self._first_s, self._last_s = min(self._first_s, entry.time_s), max(self._last_s, entry.time_s)
        if isinstance(entry, LedgerPasses):
            self._actions["CONTINUE"] += len(entry.latencies_us)
            self._reached[0] += len(entry.latencies_us)
            self._rules.times.extend(entry.latencies_us)
            return
        self._actions[entry.action] += 1
        entry, observed = _as_enforced(entry)
        self._would_be[entry.action] += observed
        self._reached[entry.tier - 1] += 1
        judges_us = sum(ran.latency_us for ran in entry.judged)
        self._wait_us += judges_us
        self._rules.times.append(max(0.0, entry.latency_us - judges_us))
        for ran in entry.judged:
            self._add_answer(ran)
        if entry.tier > 1 or entry.judged:
            self._count_outcome(entry)

    def _add_answer(self, ran: Ran) -> None:
        usd = self._cost(ran)
        for key in ((ran.tier, ran.by), (ran.tier, "")):
            self._answers.setdefault(key, _AnswerCounts()).take(ran, usd)
        if ran.tier == 3 and not ran.cached and usd is not None and ran.said != "unclear":
            self._top, self._top_usd, self._top_us = self._top + 1, self._top_usd + usd, self._top_us + ran.latency_us

    def _count_outcome(self, entry: LedgerEntry) -> None:
        outcome = escalation_outcome(entry)
        self._undecided += outcome == "undecided"
        for rule in entry.rules:
            counts = self._outcomes.setdefault(rule, Counter())
            counts[outcome] += 1
            counts["alone"] += len(entry.rules) == 1 and outcome in ("triage", "supervisor", "person")

    def report(self) -> CostReport:
        rulings = self._rules.answers = sum(self._reached)
        judged = tuple(self._answers[key].judged(*key) for key in sorted(self._answers))
        sums = [each for each in judged if not each.by]
        always = None
        if top := self._top:
            usd, us = self._top_usd, self._top_us
            always = AlwaysSupervisorCost(top, usd / top, us / top, rulings * usd / top, rulings * us / top)
        return CostReport(
            rulings,
            len(self._sessions),
            0.0 if math.isinf(self._first_s) else self._first_s,
            self._last_s,
            dict(self._actions),
            dict(self._would_be),
            (self._reached[0], self._reached[1], self._reached[2]),
            self._undecided,
            judged,
            sum(each.cost_usd for each in sums),
            sum(each.unpriced for each in sums),
            self._wait_us,
            always,
            _rank_rules(self._outcomes),
        )


def _as_enforced(entry: LedgerEntry) -> tuple[LedgerEntry, bool]:
    """Return the ruling as it would have been, and whether it was only observed."""
    for rule in entry.rules:
        action = rule.removeprefix(WOULD_BE)
        if action != rule and action in (Action.PAUSE.value, Action.REORIENT.value):
            others = tuple(other for other in entry.rules if other != rule)
            return entry._replace(action=action, rules=others), True
    return entry, False


def escalation_outcome(entry: LedgerEntry) -> str:
    """Return an escalated call's outcome: cleared by `triage`, `supervisor` or `person`, `upheld`, or `undecided`."""
    if entry.reason in (Reason.APPROVED, Reason.GRANTED):
        return "person"
    said = {ran.tier: ran.said for ran in entry.judged}
    if entry.action == Action.CONTINUE:
        if said.get(3) == Action.CONTINUE:
            return "supervisor"
        # In paranoid mode triage clears nothing alone: the supervisor is always asked.
        return "triage" if said.get(2) == "clear" and 3 not in said else "undecided"
    caught = said.get(2) == "suspicious" and said.get(3) != Action.CONTINUE
    held = entry.reason in _UPHELD or said.get(3) in (Action.REORIENT, Action.PAUSE)
    return "upheld" if held or caught else "undecided"


def _rank_rules(outcomes: Mapping[str, Counter[str]]) -> tuple[RuleEscalations, ...]:
    """Return the tuning list: first the rules for which a higher tier cleared most escalations."""
    rows = [
        RuleEscalations(
            rule,
            outcome.total() - outcome["alone"],
            outcome["triage"],
            outcome["supervisor"],
            outcome["person"],
            outcome["upheld"],
            outcome["undecided"],
            outcome["alone"],
        )
        for rule, outcome in outcomes.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.cleared, -row.alone, row.upheld, row.rule)))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the percentile of a sorted list by nearest rank, which is a measured value."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def report_to_dict(found: CostReport) -> dict[str, object]:
    """Return the report under stable names that other programs may rely on."""
    total = found.rulings or 1
    return {
        "rulings": found.rulings,
        "sessions": found.sessions,
        "first_time": found.first_s or None,
        "last_time": found.last_s or None,
        "actions": dict(found.actions),
        "would_be": dict(found.would_be),
        "funnel": [
            {"tier": tier, "calls": calls, "share": round(calls / total, 6)}
            for tier, calls in enumerate(found.reached, 1)
        ],
        "undecided": found.undecided,
        "tiers": [judged_to_dict(each) for each in found.judges if not each.by],
        "judges": [judged_to_dict(each) for each in found.judges if each.by],
        "cost_usd": round(found.cost_usd, 9),
        "unpriced_answers": found.unpriced,
        "wait_us": round(found.wait_us, 1),
        "always_supervisor": None
        if found.always is None
        else {
            "answers": found.always.answers,
            "mean_usd": round(found.always.mean_usd, 9),
            "mean_us": round(found.always.mean_us, 1),
            "cost_usd": round(found.always.cost_usd, 9),
            "wait_us": round(found.always.wait_us, 1),
        },
        "rules": [{**row._asdict(), "cleared": row.cleared} for row in found.rules],
    }


def judged_to_dict(judged: JudgeCosts) -> dict[str, object]:
    """Return one judge's or one tier's figures under stable names."""
    value: dict[str, object] = judged._asdict()
    if not judged.by:
        del value["by"]
    for name in ("p50_us", "p95_us"):
        took = value[name]
        value[name] = round(took, 1) if isinstance(took, float) else None
    value["cost_usd"] = round(judged.cost_usd, 9)
    return value
