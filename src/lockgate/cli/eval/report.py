"""The report of `lockgate eval`: the detection table, and the calls that the gate got wrong with their cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields

from rich.text import Text

from lockgate import __version__
from lockgate.cli.eval.measurement import JUDGED, TIER_1, CallCase, Measurement
from lockgate.cli.ruling_tree import call_text
from lockgate.cli.terminal import excerpt, format_count, make_visible
from lockgate.sessions.detection_counts import DetectionCounts, Share

_MOST_WHY = 300
_MOST_RULES = 10
# The figures in the order of the table, by the name of their field.
COLUMNS = {
    "attacks": "attacks caught",
    "attacks_in_time": "in time",
    "attack_calls": "attack calls",
    "ordinary_calls": "ordinary calls",
    "ordinary_sessions": "ordinary sessions",
    "after_poison": "after poison",
}
LEGEND = """\
attacks caught: sessions with an escalated attack call; in time: at or before the first one with an effect
ordinary: disturbed calls, and sessions with one, where nothing attacks; after poison: calls after a poisoned block\
"""


def table_lines(measured: Sequence[Measurement], by: str) -> Iterator[str]:
    """Yield the lines of the detection table."""
    rows = [[by, "gate", *COLUMNS.values()]]
    groups = list(dict.fromkeys(group for each in measured for group in each.counts.get(TIER_1, {})))
    for group in groups:
        rows += _rows_of(group, [(each, stage, each.counts[stage].get(group)) for each, stage in _stages(measured)])
    if len(groups) != 1:
        rows += _rows_of("all", [(each, stage, each.total(stage)) for each, stage in _stages(measured)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for number, row in enumerate(rows):
        padded = [_pad(cell, width, to_left=at < 2) for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
        yield "  ".join(padded).rstrip()
        if number == 0:
            yield "  ".join("─" * width for width in widths)


def _pad(cell: str, width: int, *, to_left: bool) -> str:
    return cell.ljust(width) if to_left else cell.rjust(width)


def _stages(measured: Sequence[Measurement]) -> list[tuple[Measurement, str]]:
    return [(each, stage) for each in measured for stage in each.stages]


def _rows_of(group: str, rows: Sequence[tuple[Measurement, str, DetectionCounts | None]]) -> list[list[str]]:
    shown = []
    for at, (each, stage, counts) in enumerate(rows):
        named = excerpt(group, 60) if at == 0 else ""
        cells = [format_share(getattr(counts or DetectionCounts(), name)) for name in COLUMNS]
        shown.append([named, stage_name(each, stage), *cells])
    return shown


def stage_name(measured: Measurement, stage: str) -> str:
    """Return how a gate and a stage of it are called in the table."""
    if stage == JUDGED:
        return f"{measured.choice.name}, {measured.choice.judge_name}"
    return measured.choice.name


def format_share(share: Share) -> str:
    return "-" if share.percent is None else f"{share.percent:.1f}% {share.part}/{share.whole}"


def case_lines(measured: Measurement, most: int | None) -> Iterator[Text]:
    """Yield the calls that the gate got wrong, each with its cause."""
    yield from _list_cases("disturbed ordinary calls", [*measured.disturbed.values()], most)
    yield from _list_cases("missed attack calls", [*measured.missed.values()], most)


def _list_cases(title: str, cases: Sequence[CallCase], most: int | None) -> Iterator[Text]:
    if not cases or most == 0:
        return
    total = sum(case.times for case in cases)
    distinct = "" if total == len(cases) else f", {len(cases):,} of them different"
    yield Text()
    yield Text(f"{title}: {total:,}{distinct}", style="bold")
    shown = spread_cases(cases, most)
    for case in shown:
        yield _case_line(case)
        yield Text.assemble("    ", (excerpt(case.ruled.why, _MOST_WHY), "dim"))
    if len(shown) < len(cases):
        yield Text(f"  and {len(cases) - len(shown):,} more: --show all", style="dim")


def spread_cases(cases: Sequence[CallCase], most: int | None) -> list[CallCase]:
    """Return so many cases, taken from all parts in turn: a large part must not hide the others."""
    ranks: Counter[str] = Counter()
    ranked: list[tuple[int, CallCase]] = []
    for case in cases:
        ranks[case.session.start.part] += 1
        ranked.append((ranks[case.session.start.part], case))
    return [case for _, case in sorted(ranked, key=lambda each: each[0])][:most]


def _case_line(case: CallCase) -> Text:
    start = case.session.start
    where = f"  {excerpt(start.part, 40)}/{excerpt(start.id, 60)} call {case.number}"
    times = f" and {format_count(case.times - 1, 'other')}" if case.times > 1 else ""
    return Text.assemble((f"{where}{times}  ", "cyan"), call_text(case.call.tool, case.call.arguments))


def rule_lines(measured: Measurement) -> Iterator[Text]:
    """Yield the rules that disturbed most ordinary calls."""
    ranked = sorted(measured.rules.items(), key=lambda item: (-item[1], item[0]))[:_MOST_RULES]
    if ranked:
        listed = ", ".join(f"{make_visible(rule)} {calls:,}" for rule, calls in ranked)
        yield Text(f"\nrules that disturbed: {listed}")


# --- for machines


def report_to_dict(measured: Sequence[Measurement], by: str, most: int | None, *, complete: bool) -> dict[str, object]:
    """Return the whole report as a JSON object."""
    return {
        "format": "lockgate-eval/1",
        "complete": complete,
        "by": by,
        "version": __version__,
        "gates": [_gate_to_dict(each, most) for each in measured],
    }


def _gate_to_dict(measured: Measurement, most: int | None) -> dict[str, object]:
    return {
        "gate": measured.choice.name,
        "judge": measured.choice.judge_name,
        "policy": measured.choice.settings.policy.hash,
        "stages": {
            stage: {
                "all": _counts_to_dict(measured.total(stage)),
                "groups": {group: _counts_to_dict(counts) for group, counts in measured.counts.get(stage, {}).items()},
            }
            for stage in measured.stages
        },
        "rules": measured.rules,
        "disturbed": [_case_to_dict(case) for case in spread_cases([*measured.disturbed.values()], most)],
        "missed": [_case_to_dict(case) for case in spread_cases([*measured.missed.values()], most)],
    }


def _counts_to_dict(counts: DetectionCounts) -> dict[str, object]:
    shown: dict[str, object] = {"sessions": counts.sessions}
    for each in fields(counts):
        share = getattr(counts, each.name)
        if isinstance(share, Share):
            shown[each.name] = {"part": share.part, "whole": share.whole, "percent": share.percent}
    return shown


def _case_to_dict(case: CallCase) -> dict[str, object]:
    start = case.session.start
    return {
        "part": start.part,
        "suite": start.suite,
        "family": start.family,
        "session": start.id,
        "call": case.number,
        "times": case.times,
        "tool": case.call.tool,
        "arguments": case.call.arguments,
        "tier1": "escalate" if case.ruled.escalated else "pass",
        "rules": list(case.ruled.rules),
        "why": case.ruled.why,
    }
