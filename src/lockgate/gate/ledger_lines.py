"""The ledger's format: rulings without their content, one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from lockgate.core.vocabulary import Action, Decision, Ran

MAX_NAME = 128
# More passes than we ever write on one line.
MAX_PASSES = 10_000
_MAX_RULES = 64
_MAX_TIERS = 8
# The largest time, count or cost that is read: larger values would overflow the sums.
_MOST = 10**15
_ACTIONS = frozenset(action.value for action in Action)
_SAID = frozenset({"pass", "escalate", "clear", "suspicious", "unclear", *_ACTIONS})


class LedgerEntry(NamedTuple):
    """One ruling in the ledger: session, call, rules that fired, and each tier's answer, time and cost. No content.

    `time_s` is 0 if the time is unknown.
    """

    time_s: float
    session: str
    call: int
    tool: str
    action: str
    tier: int
    reason: str
    risk: str
    rules: tuple[str, ...]
    judged: tuple[Ran, ...]
    latency_us: float


class LedgerPasses(NamedTuple):
    """Calls of one session that the rules let pass for the same reason: only their times differ."""

    time_s: float
    session: str
    reason: str
    risk: str
    latencies_us: tuple[float, ...]


# One such call as a plain tuple, which is cheap: time, session, reason, risk, latency.
LedgerPass = tuple[float, str, str, str, float]


def pass_from_decision(time_s: float, session: str, decision: Decision) -> LedgerPass | None:
    """Return the ledger's tuple for a call that Tier 1 let pass; None for any other call."""
    if decision.tier != 1 or decision.judged or decision.findings or decision.action is not Action.CONTINUE:
        return None
    return time_s, session, decision.reason, decision.risk, decision.latency_us


def entry_from_decision(time_s: float, session: str, call: int, tool: str, decision: Decision) -> LedgerEntry:
    """Return the entry for a decision: of its findings only the rules' ids, and no text that a judge was shown."""
    return LedgerEntry(
        time_s,
        session[:MAX_NAME],
        call,
        tool[:MAX_NAME],
        decision.action.value,
        decision.tier,
        decision.reason.value,
        decision.risk.value,
        tuple(dict.fromkeys(found.rule[:MAX_NAME] for found in decision.findings))[:_MAX_RULES],
        decision.judged[:_MAX_TIERS],
        decision.latency_us,
    )


def format_lines(noted: Iterable[LedgerEntry | LedgerPass]) -> str:
    """Return lines of ASCII JSON with the names of `lockgate check --json`; passes with the same reason share one."""
    passes: dict[tuple[str, str, str], tuple[float, list[float]]] = {}
    lines: list[str] = []
    for each in noted:
        if isinstance(each, LedgerEntry):
            lines.append(_entry_line(each))
            continue
        time_s, session, reason, risk, latency_us = each
        passes.setdefault((session, reason, risk), (time_s, []))[1].append(latency_us)
    for (session, reason, risk), (time_s, times) in passes.items():
        head: dict[str, object] = {"time": round(time_s, 3), "session": session[:MAX_NAME]}
        head |= {"action": "CONTINUE", "tier": 1, "reason": reason, "risk": risk}
        written = ",".join([f"{latency_us:.1f}" for latency_us in times])
        lines.append(f'{_dumps(head)[:-1]},"latencies_us":[{written}]}}')
    return "".join([f"{line}\n" for line in lines])


def _entry_line(entry: LedgerEntry) -> str:
    value: dict[str, object] = {
        "time": round(entry.time_s, 3),
        "session": entry.session,
        "call": entry.call,
        "tool": entry.tool,
        "action": entry.action,
        "tier": entry.tier,
        "reason": entry.reason,
        "risk": entry.risk,
        "rules": entry.rules,
        "tiers": [_ran_to_dict(ran) for ran in entry.judged],
        "latency_us": round(entry.latency_us, 1),
    }
    return _dumps(value)


_dumps = json.JSONEncoder(separators=(",", ":")).encode


def _ran_to_dict(ran: Ran) -> dict[str, object]:
    cost = ran.cost_usd
    return {
        "tier": ran.tier,
        "said": ran.said,
        "by": ran.by[:MAX_NAME],
        "latency_us": round(ran.latency_us, 1),
        "tokens_in": ran.tokens_in,
        "tokens_out": ran.tokens_out,
        "cost_usd": None if cost is None else round(cost, 9),
        "cached": ran.cached,
    }


def parse_ledger_line(line: str | bytes) -> LedgerEntry | LedgerPasses | None:
    """Return the entry on a line of a ledger or of `lockgate check --json`; None for any other line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    head = _parse_head(value)
    if head is None:
        return None
    return _parse_passes(value, head) if "latencies_us" in value else _parse_entry(value, head)


class _LineHead(NamedTuple):
    """What both kinds of line have in common."""

    time_s: float
    session: str
    action: str
    tier: int
    reason: str
    risk: str


def _parse_head(value: dict[str, Any]) -> _LineHead | None:
    action, tier, reason, risk = value.get("action"), value.get("tier"), value.get("reason"), value.get("risk")
    session, at = value.get("session", ""), _parse_number(value.get("time", 0.0))
    if not isinstance(action, str) or action not in _ACTIONS or type(tier) is not int or not 1 <= tier <= 3:
        return None
    if not isinstance(reason, str) or risk not in ("low", "high") or at is None:
        return None
    if not isinstance(session, str) and _parse_count(session) is None:
        return None
    return _LineHead(at, str(session)[:MAX_NAME], action, tier, reason[:MAX_NAME], risk)


def _parse_passes(value: dict[str, Any], head: _LineHead) -> LedgerPasses | None:
    times = value["latencies_us"]
    if (head.action, head.tier) != ("CONTINUE", 1) or not isinstance(times, list) or not 0 < len(times) <= MAX_PASSES:
        return None
    latencies = tuple([took for took in map(_parse_number, times) if took is not None])
    if len(latencies) != len(times):
        return None
    return LedgerPasses(head.time_s, head.session, head.reason, head.risk, latencies)


def _parse_entry(value: dict[str, Any], head: _LineHead) -> LedgerEntry | None:
    call, tool, took = value.get("call", 0), value.get("tool", ""), _parse_number(value.get("latency_us"))
    rules = _parse_rules(value.get("rules"), value.get("findings"))
    judged = _parse_judged(value.get("tiers", []))
    if took is None or rules is None or judged is None or _parse_count(call) is None or not isinstance(tool, str):
        return None
    return LedgerEntry(
        head.time_s,
        head.session,
        call,
        tool[:MAX_NAME],
        head.action,
        head.tier,
        head.reason,
        head.risk,
        rules,
        judged,
        took,
    )


def _parse_number(value: object) -> float | None:
    plain = type(value) is float or type(value) is int
    return float(value) if plain and 0 <= value <= _MOST else None  # type: ignore[operator,arg-type]


def _parse_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None


def _parse_rules(listed: object, findings: object) -> tuple[str, ...] | None:
    if listed is None:
        if not findings:
            return ()
        if not isinstance(findings, list) or not all(isinstance(found, dict) for found in findings):
            return None
        listed = [found.get("rule") for found in findings]
    if not isinstance(listed, list) or not all(isinstance(rule, str) for rule in listed):
        return None
    return tuple(dict.fromkeys(rule[:MAX_NAME] for rule in listed))[:_MAX_RULES]


def _parse_judged(tiers: object) -> tuple[Ran, ...] | None:
    """Return the judges' answers, or None for a wrong form. Tier 1 is skipped: its time is the rest of the total."""
    if not isinstance(tiers, list) or len(tiers) > _MAX_TIERS:
        return None
    found: list[Ran] = []
    for each in tiers:
        match each:
            case {"tier": 1}:
                continue
            case {"tier": 2 | 3 as tier, "said": str() as said, "by": str() as by, **rest} if said in _SAID:
                took = _parse_number(rest.get("latency_us"))
                tokens_in, tokens_out = _parse_count(rest.get("tokens_in", 0)), _parse_count(rest.get("tokens_out", 0))
                cost = rest.get("cost_usd")
                usd = None if cost is None else _parse_number(cost)
                if took is None or tokens_in is None or tokens_out is None or (usd is None) != (cost is None):
                    return None
                cached = rest.get("cached") is True
                found.append(Ran(int(tier), said, by[:MAX_NAME], took, tokens_in, tokens_out, usd, cached))
            case _:
                return None
    return tuple(found)
