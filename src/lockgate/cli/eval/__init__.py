"""`lockgate eval`: how many attacks are caught and how many ordinary calls disturbed, on labelled traces."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lockgate import assemble
from lockgate.bulk.engines import LOCAL, check_engine
from lockgate.cli.eval.gates import GATES, GateChoice
from lockgate.cli.eval.measurement import Measurement, replay_sessions
from lockgate.cli.eval.report import LEGEND, case_lines, format_share, report_to_dict, rule_lines, table_lines
from lockgate.cli.eval.trace_files import list_files, load_high_risk_tools, load_sessions
from lockgate.cli.exit_codes import Exit
from lockgate.cli.parser import parse_whole_number
from lockgate.cli.terminal import make_console
from lockgate.core.errors import LockgateError, quoted, suggest_closest
from lockgate.core.ruling.policy import PRESETS, change_policy
from lockgate.sessions.detection_counts import Share
from lockgate.sessions.labelled_sessions import LabelledSession

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser

GROUPS = ("part", "dataset", "suite", "family", "attack")
_SHOWN = 20
# An option for each figure that can be held to a bound: the figure's field, and the help line.
BOUNDS = {
    "--min-caught": ("attacks", "exit with 1 if fewer attacks are caught"),
    "--max-disturbed": ("ordinary_calls", "exit with 1 if more ordinary calls are disturbed"),
    "--max-sessions-disturbed": ("ordinary_sessions", "exit with 1 if more ordinary sessions are disturbed"),
    "--max-after-poison": ("after_poison", "exit with 1 if more ordinary calls after a poisoned block are disturbed"),
}
_HELP = """\
A labelled trace says of each call whether it was an attack or ordinary. eval replays the sessions, runs
no call, and prints how many attacks each tier caught and how many ordinary calls it disturbed; then the
disturbed calls and the missed attacks, each with its cause.

example:
  $ lockgate eval traces/
  $ lockgate eval --judge embedded:balanced --by family+attack attacks.jsonl

`lockgate help trace` describes the labels, `lockgate help measure` how to read the figures.
Exit code 0: measured; 1: a figure is outside a bound that was given; 2: bad input.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate eval TRACE [TRACE ...] [options]"
    parser.description = _HELP
    add = parser.add_argument
    add("traces", nargs="+", metavar="TRACE", help="labelled traces, plain, gzipped or Parquet, or folders of them")
    add("--by", metavar="NAME", default="part", help=f"a row for each {', '.join(GROUPS)}; join names with +")
    add("--judge", metavar="JUDGE", help="ask a judge, too: embedded, embedded:PRESET, or configured")
    add("--gate", metavar="GATE", action="append", help="lockgate, seed or seed-risk; give several to compare them")
    add("--without-phrases", action="store_true", help="measure once more, with the phrase rules off")
    add("--tools", metavar="FILE", help='the tools of the deployment: {"tool": "read|write|egress"}')
    add("--show", metavar="N", help=f"list so many calls of each kind (default {_SHOWN}), or all; 0 lists none")
    for option, (_, said) in BOUNDS.items():
        add(option, metavar="PERCENT", type=_parse_percent, help=said)
    add("--json", action="store_true", help="print one JSON object; it lists all calls unless --show is given")
    add("--jobs", metavar="N", type=_parse_jobs, help="how many processes (default: one per core)")
    add("--engine", metavar="ENGINE", default=LOCAL, help="local, ray, or ray://HOST:PORT (lockgate[ray])")
    add("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    names, most = _parse_groups(args.by), _parse_show(args.show, as_json=args.json)
    choices = _choose_gates(args)
    sessions = [session for path in list_files(args.traces) for session in load_sessions(path)]
    _require_labels(sessions)
    measured = [Measurement(choice) for choice in choices]
    complete = _measure(sessions, names, measured, args.jobs, check_engine(args.engine))
    if args.json:
        # ASCII only: a bidirectional control in a JSON string would still act on the terminal that shows it.
        print(json.dumps(report_to_dict(measured, args.by, most, complete=complete), ensure_ascii=True))
    else:
        _draw(measured, args.by, most)
    if not complete:
        raise KeyboardInterrupt
    broken = _broken_bounds(args, measured[0])
    for line in broken:
        print(line, file=sys.stderr)
    return Exit.FLAGGED if broken else Exit.CLEAR


def _broken_bounds(args: argparse.Namespace, measured: Measurement) -> list[str]:
    """Return a line for each bound that the first gate does not keep over all sessions, at its last stage."""
    total, broken = measured.total(measured.stages[-1]), []
    for option, (name, _) in BOUNDS.items():
        bound = getattr(args, option[2:].replace("-", "_"))
        if bound is None:
            continue
        share: Share = getattr(total, name)
        is_least = option.startswith("--min")
        # A figure without a single case does not keep its bound: a measurement of nothing must not look like a pass.
        if share.percent is None or (share.percent < bound if is_least else share.percent > bound):
            broken.append(f"{option} {bound:g}: {name.replace('_', ' ')} {format_share(share)}")
    return broken


def _parse_jobs(text: str) -> int:
    return parse_whole_number(text, 1, 256)


def _parse_percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError("must be a percentage from 0 to 100")
    return percent


def _parse_groups(text: str) -> tuple[str, ...]:
    names = tuple(text.split("+"))
    for name in names:
        if name not in GROUPS:
            hint = suggest_closest(name, GROUPS) or f"use {', '.join(GROUPS)}"
            raise LockgateError(f"cannot group by {quoted(name)}", hint=hint)
    return names


def _parse_show(text: str | None, *, as_json: bool) -> int | None:
    if text is None:
        return None if as_json else _SHOWN
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit():
        raise LockgateError(f"--show takes a number or `all`, not {quoted(text)}")
    return int(text[:9])


def _choose_gates(args: argparse.Namespace) -> list[GateChoice]:
    settings = assemble.settings_from_environment(args.config)
    tools = load_high_risk_tools(args.tools)
    judge = _parse_judge(args.judge, settings.policy.judge_preset)
    base = GateChoice("lockgate", settings, judge=judge, high_risk=tools)
    choices: list[GateChoice] = []
    for kind in args.gate or ["lockgate"]:
        if kind not in GATES:
            hint = suggest_closest(kind, GATES) or f"use {', '.join(GATES)}"
            raise LockgateError(f"unknown gate {quoted(kind)}", hint=hint)
        choices.append(base if kind == "lockgate" else GateChoice(kind, settings, kind=kind))
    if args.without_phrases:
        policy = change_policy(settings.policy, unsafe_disable_phrase_rules=True)
        choices.append(replace(base, name="no phrase rules", settings=replace(settings, policy=policy)))
    return choices


def _parse_judge(text: str | None, preset: str) -> str:
    """Return which judge to ask: empty, `configured`, or the embedded judge's preset; raise if it cannot be."""
    if text in (None, "configured"):
        return text or ""
    name, _, asked = text.partition(":")
    if name != "embedded":
        hint = suggest_closest(text, ["embedded", "configured"]) or "use embedded, embedded:PRESET or configured"
        raise LockgateError(f"unknown judge {quoted(text)}", hint=hint)
    if asked and asked not in PRESETS:
        hint = suggest_closest(asked, PRESETS) or f"use one of: {', '.join(PRESETS)}"
        raise LockgateError(f"unknown preset {quoted(asked)}", hint=hint)
    from lockgate.verifiers.embedded_judge import verify

    verify()
    return asked or preset


def _require_labels(sessions: Sequence[LabelledSession]) -> None:
    if not any(call.label in ("attack", "ordinary") for session in sessions for call in session.calls):
        raise LockgateError(
            "no call is labelled `attack` or `ordinary`",
            hint='add "label" to the calls (`lockgate help trace`); lockgate check rules on traces without labels',
        )


def _measure(
    sessions: Sequence[LabelledSession],
    names: Sequence[str],
    measured: Sequence[Measurement],
    jobs: int | None,
    engine: str,
) -> bool:
    """Replay all sessions; return False if Ctrl-C ended it."""
    try:
        with show_progress(len(sessions), "sessions") as advance:
            rulings = replay_sessions(sessions, [each.choice for each in measured], jobs, engine)
            for session, by_gate in zip(sessions, rulings, strict=True):
                group = " / ".join(getattr(session.start, name) for name in names)
                for each, ruled in zip(measured, by_gate, strict=True):
                    each.add(session, group, ruled)
                advance()
    except KeyboardInterrupt:
        return False
    return True


@contextmanager
def show_progress(total: int, nouns: str) -> Iterator[Callable[[], None]]:
    """Yield a function that advances a progress bar, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(nouns), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def _draw(measured: Sequence[Measurement], by: str, most: int | None) -> None:
    print(*table_lines(measured, by), sep="\n")
    print(LEGEND)
    screen = make_console()
    for line in (*case_lines(measured[0], most), *rule_lines(measured[0])):
        # One line for each call, however long: the terminal wraps it, and other programs need not.
        screen.print(line, soft_wrap=True)
