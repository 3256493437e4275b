"""Draw one ruling as a tree: the call, the decision, and its grounds, each with its place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from lockgate.cli.terminal import excerpt, format_count, format_duration, make_visible
from lockgate.core.ruling.explanations import describe_effect
from lockgate.core.vocabulary import Action, Decision, Effect, Finding, Origin, Severity

if TYPE_CHECKING:
    from lockgate.cli.trace_replay import TraceRuling

ACTION_STYLES = {Action.CONTINUE: "bold green", Action.REORIENT: "bold yellow", Action.PAUSE: "bold red"}
SEVERITIES = {
    Severity.LOOKS: "only looks",
    Severity.WORKS_HERE: "works here",
    Severity.REACHES_OUT: "reaches out",
    Severity.OPENS_A_DOOR: "opens a door",
}
_SEVERITY_STYLES = {Severity.REACHES_OUT: "yellow", Severity.OPENS_A_DOOR: "bold red"}
_MOST_GROUNDS = 6
_MOST_VALUE = 60
_MOST_ARGUMENTS = 120


def session_line(ruling: TraceRuling) -> Text:
    line = Text(f"session {ruling.session}", style="bold")
    line.append(f"  {make_visible(ruling.trace)}", style="dim")
    if ruling.goal:
        line.append(f"  goal: {excerpt(ruling.goal, 160)}", style="not bold")
    return line


def ruling_tree(ruling: TraceRuling) -> Tree:
    label = Text.assemble((f"{ruling.call} ", "bold"), call_text(ruling.event.tool, ruling.event.arguments))
    root = Tree(label, guide_style="dim")
    add_decision(root, ruling.decision)
    return root


def add_decision(root: Tree, decision: Decision) -> None:
    root.add(verdict_line(decision))
    if decision.explanation:
        root.add(Text.assemble(("why: ", "dim"), make_visible(decision.explanation)))
    grave = [each for each in decision.effects if each.severity >= Severity.REACHES_OUT]
    _add_branch(root, "effects", [effect_line(each) for each in grave])
    _add_branch(root, "findings", [_finding_line(each) for each in decision.findings])
    _add_branch(root, "origins", origin_lines(decision.origins))


def verdict_line(decision: Decision) -> Text:
    return Text.assemble(
        (decision.action.value, ACTION_STYLES[decision.action]),
        f"  tier {decision.tier}",
        "  ",
        (decision.reason.value, "cyan"),
        f"  {decision.risk.value} risk",
        (f"  {format_duration(decision.latency_us)}", "dim"),
    )


def call_text(tool: str, arguments: Mapping[str, object]) -> Text:
    listed = ", ".join(f"{excerpt(name, 40)}={_format_value(value)}" for name, value in list(arguments.items())[:20])
    cut = "…" if len(listed) > _MOST_ARGUMENTS or len(arguments) > 20 else ""
    return Text.assemble((excerpt(tool, 80), "bold"), f"({listed[:_MOST_ARGUMENTS]}{cut})")


def effect_line(effect: Effect) -> Text:
    severity = f"{int(effect.severity)} {SEVERITIES[effect.severity]}"
    return Text.assemble(
        (severity.ljust(16), _SEVERITY_STYLES.get(effect.severity, "green")),
        (effect.kind, "magenta"),
        f": {make_visible(describe_effect(effect.kind, effect.target))}",
    )


def origin_lines(origins: Sequence[Origin]) -> list[Text]:
    """Return a line for each value's origin, ordered ones first, and each order once with its values in »…«."""
    groups: dict[tuple[str, str], list[Origin]] = {}
    for origin in _distinct_origins(origins):
        groups.setdefault((origin.block, origin.order), []).append(origin)
    lines: list[Text] = []
    for (block, order), group in groups.items():
        lines += [_origin_line(origin) for origin in group]
        if order:
            line = Text.assemble((f"ordered in {excerpt(block, 60)}: ", "dim"))
            lines.append(line.append_text(_mark_values(order, [origin.value for origin in group])))
    return lines


def summary_line(decisions: Sequence[Decision]) -> Text:
    ruled = Counter(decision.action for decision in decisions)
    counts = ", ".join(f"{ruled[action]} {action.value.lower()}" for action in Action if ruled[action])
    times = [decision.latency_us for decision in decisions]
    return Text.assemble(
        (f"{format_count(len(decisions), 'call')}: {counts}", "bold"),
        (f"; latency median {format_duration(median(times))}, slowest {format_duration(max(times))}", "dim"),
    )


def _add_branch(root: Tree, name: str, grounds: list[Text]) -> None:
    if not grounds:
        return
    branch = root.add(Text(name, style="dim"))
    for ground in grounds[:_MOST_GROUNDS]:
        branch.add(ground)
    if len(grounds) > _MOST_GROUNDS:
        branch.add(Text(f"and {len(grounds) - _MOST_GROUNDS} more, see --json", style="dim"))


def _finding_line(found: Finding) -> Text:
    line = Text.assemble(
        (make_visible(found.rule), "magenta"), f" in {excerpt(found.where, 60)} at {found.start}-{found.end}"
    )
    if found.reading not in ("raw", "exact"):
        line.append(f", read as {make_visible(found.reading)}", style="dim")
    if found.excerpt:
        line.append(f': "{excerpt(found.excerpt, 100)}"')
    return line


def _distinct_origins(origins: Sequence[Origin]) -> list[Origin]:
    """Return the origins without those that are part of another value at the same place."""
    kept: list[Origin] = []
    for origin in sorted(origins, key=lambda each: (each.known, not each.order, -len(each.value))):
        if not any(
            (origin.argument, origin.block) == (other.argument, other.block)
            and origin.value in other.value
            and (origin.order == other.order or (origin.start, origin.end) == (other.start, other.end))
            for other in kept
        ):
            kept.append(origin)
    return kept


def _origin_line(origin: Origin) -> Text:
    line = Text.assemble(
        (excerpt(origin.argument, 80), "bold"),
        " = ",
        (f'"{excerpt(origin.value, _MOST_VALUE)}"', "yellow"),
        f" from {excerpt(origin.block, 60)} ({excerpt(origin.source, 60)}) at {origin.start}-{origin.end}",
    )
    said = [
        f"read as {make_visible(origin.how)}" if origin.how not in ("exact", "folded") else "",
        origin.sink,
        "which the goal or a trusted block also has" if origin.known else "not in the goal",
    ]
    return line.append("".join(f", {word}" for word in said if word), style="dim")


def _mark_values(sentence: str, values: Sequence[str]) -> Text:
    """Return the sentence with the values in »…«, which is visible without colour too."""
    marked = Text('"', style="italic")
    rest = sentence
    while rest:
        # The earliest value, and of two at one place the longer one.
        found = [(rest.find(value), -len(value), value) for value in values if value and value in rest]
        if not found:
            break
        at, _, value = min(found)
        marked.append(make_visible(rest[:at]))
        marked.append(f"»{make_visible(value)}«", style="bold yellow")
        rest = rest[at + len(value) :]
    return marked.append(f'{make_visible(rest)}"')


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return f'"{excerpt(value, _MOST_VALUE)}"'
    return excerpt(json.dumps(value, ensure_ascii=False), _MOST_VALUE)
