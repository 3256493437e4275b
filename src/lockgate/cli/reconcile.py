"""`lockgate reconcile`: compare the calls that agents ran with the stored rulings."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from time import time
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.claude_code import transcripts
from lockgate.cli.exit_codes import Exit
from lockgate.cli.replay import (
    TRANSCRIPTS,
    choose_files,
    file_sizes,
    projects_folder,
    show_progress,
    transcripts_by_session,
)
from lockgate.cli.ruling_tree import call_text
from lockgate.cli.terminal import excerpt, format_count, make_console, make_visible
from lockgate.cli.times import parse_age
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.vocabulary import SCHEMA, Action
from lockgate.gate.gate import Gate
from lockgate.sessions import Host
from lockgate.sessions.held_calls import held_calls
from lockgate.sessions.session_entries import MAX_PAGE, StoredRuling

if TYPE_CHECKING:
    from rich.console import Console

    from lockgate.cli.parser import Parser
    from lockgate.settings.config import Settings

_HELP = """\
Compares the calls that ran with the stored rulings. Lists calls that ran without a ruling, against
their ruling, or with other arguments than were ruled on. It only reads.

PATH is a file or folder of Claude Code's transcripts (*.jsonl); without one it is Claude Code's own folder. The
records of other coding agents are not read: of those, and of all other hosts, the calls are compared that they
themselves reported to the service, so that one that never came past Lockgate is not found.

examples:
  $ lockgate reconcile --since 1d
  $ lockgate reconcile ~/.claude/projects/-home-me-shop --json
  $ claude -p "fix the tests"; lockgate reconcile --fail-on-held --session latest

--session takes the id of a session, or `latest` for the one that was last heard of; the agents inside it count too.
--fail-on-held is for unattended runs, since `claude -p` ends with code 0 after a stop. It also lists the calls
that were held for a person, and have neither run nor been approved since. Without a session to look at it fails: a run
that never came past Lockgate is not a clean one. `lockgate help ci` has it in a CI job.

Exit code 0: everything that ran was ruled on and was to run; 1: something was not; 2: bad input, or no session;
3: with --fail-on-held, nothing ran that was not to, and some call was held.
"""
_HOST = "claude-code"


class Gap(StrEnum):
    """What is wrong with a call that ran."""

    UNRULED = "ran without a ruling"
    RAN_ANYWAY = "ran although it was not to"
    CHANGED = "ran with other arguments than were ruled on"
    UNWATCHED = "ran in a session that never came past Lockgate"


@dataclass(frozen=True, slots=True)
class CallGap:
    gap: Gap
    session: str
    id: str
    tool: str
    arguments: Mapping[str, object]
    at: float | None
    ruling: StoredRuling | None = None


@dataclass(slots=True)
class ReconcileReport:
    """The comparison so far; valid at any moment, so that Ctrl-C loses nothing."""

    gaps: list[CallGap] = field(default_factory=list)
    sessions: int = 0
    matched: int = 0
    # Held calls that a person at the host let run.
    answered: int = 0
    # Calls from before Lockgate was installed.
    earlier: int = 0
    unreadable: int = 0
    skipped: list[str] = field(default_factory=list)
    # Held calls that have not run; None where they were not asked for.
    held: list[StoredRuling] | None = None
    complete: bool = False


def describe(parser: Parser) -> None:
    parser.usage = "lockgate reconcile [PATH ...] [options]"
    parser.description = _HELP
    parser.add_argument("paths", nargs="*", metavar="PATH", help="transcripts, or folders of them")
    parser.add_argument("--since", metavar="AGE", help="only files changed in the last AGE: 90m, 12h, 7d or 4w")
    parser.add_argument("--session", metavar="ID", default="", help="only this session; `latest` is the last one")
    parser.add_argument("--fail-on-held", action="store_true", help="list held calls too, and end with 3 for any")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.add_argument("--json", action="store_true", help="print one JSON object per gap, and a summary")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    settings = assemble.settings_from_environment(args.config)
    host = _open_host(settings)
    interrupted = False
    try:
        age_s = parse_age(args.since)
        since_s = 0.0 if age_s is None else time() - age_s
        session = _find_session(host, args.session, since_s, must_exist=args.fail_on_held)
        # Without Claude Code there is no such folder; calls of other hosts are compared all the same.
        files: list[str] = []
        skipped: list[str] = []
        if args.paths or os.path.isdir(projects_folder()):
            files, skipped = choose_files(args.paths, age_s, include=TRANSCRIPTS)
        report = ReconcileReport(skipped=skipped)
        try:
            _compare_all(host, files, session, report)
            if args.fail_on_held:
                approvals = assemble.approvals_from_settings(settings)
                report.held = list(held_calls(host, approvals, now_s=time(), session=session, since_s=since_s))
            report.complete = True
        except KeyboardInterrupt:
            interrupted = True
    finally:
        host.close()
    if args.json:
        _print_json(report)
    else:
        _draw(report)
    if interrupted:
        raise KeyboardInterrupt
    return Exit.FLAGGED if report.gaps else Exit.HELD if report.held else Exit.CLEAR


def _open_host(settings: Settings) -> Host:
    """Open the stored rulings; raise, and create nothing, if there are none."""
    state = settings.state_dir
    if not settings.server.database and (state is None or not os.path.exists(state / "sessions.db")):
        raise LockgateError(
            "no sessions are kept here yet",
            hint="`lockgate serve` and the plugs keep them; `lockgate audit show` lists what a program of yours asked",
        )
    return Host(Gate(settings.policy), assemble.sessions_from_settings(settings))


def _find_session(host: Host, asked: str, since_s: float, *, must_exist: bool) -> str:
    """Return the id of the session that was asked for, or an empty text for all; raise where a script has to know."""
    newest = [info for info in host.sessions(limit=MAX_PAGE) if not info.parent and info.seen_at >= since_s]
    if asked not in ("", "latest"):
        found = host.session(asked)
    else:
        found = max(newest, key=lambda info: info.seen_at, default=None)
    if found is None and (must_exist or asked == "latest"):
        which = "no session" if asked in ("", "latest") else f"no session {quoted(asked, 60)}"
        raise LockgateError(
            f"{which} came past Lockgate here, so nothing is known of the run",
            hint="was it stopped before its first prompt, or are the hooks missing? lockgate doctor --claude-code",
        )
    return asked if found is None or not asked else found.id


def _compare_all(host: Host, files: list[str], session: str, report: ReconcileReport) -> None:
    """Compare these transcripts, and what other hosts reported, with the stored rulings; `session` empty means all."""
    # Calls before the oldest stored ruling ran before Lockgate was installed.
    began = min((kept.at for kept in host.decisions(after=-1, limit=1)), default=0.0)
    with show_progress(file_sizes(files), "comparing") as advance:
        for whose in (each for listed in transcripts_by_session(files).values() for each in listed):
            if whose.session == (session or whose.session):
                _compare_transcript(host, whose, report, began)
            advance(whose.path)
    for kept in _held_calls_that_ran(host):
        if kept.session == (session or kept.session):
            report.gaps.append(_gap_from_ruling(Gap.RAN_ANYWAY, kept))


def _compare_transcript(host: Host, whose: transcripts.Transcript, report: ReconcileReport, began: float) -> None:
    """Compare one transcript with the stored rulings of its session, into the report."""
    name = f"{whose.session}/{whose.agent}" if whose.agent else whose.session
    try:
        calls, ran = _read_transcript(whose.path, report)
    except OSError as error:
        report.skipped.append(f"{whose.path}: {(error.strerror or 'cannot be read').lower()}")
        return
    # No session has such a name, so the store cannot hold it.
    known = host.session(name) if name.isprintable() and len(name) <= 200 else None
    rulings: dict[str, StoredRuling] = {}
    if known is not None:
        report.sessions += 1
        for kept in _all_rulings(host, session=name):
            # The newest comes first: a call that was held, approved and asked again ran by its last ruling.
            rulings.setdefault(kept.key, kept)
    since, unruled = (began, Gap.UNWATCHED) if known is None else (known.created_at, Gap.UNRULED)
    for result in ran:
        call = calls.get(result.id) or transcripts.Call(result.id, result.tool, {}, result.at)
        ruling = rulings.get(result.id)
        if ruling is None and result.at is not None and result.at < since:
            report.earlier += 1
        elif ruling is None:
            report.gaps.append(CallGap(unruled, name, call.id, call.tool, call.arguments, call.at))
        else:
            _compare_call(name, call if result.id in calls else None, result, ruling, report)


def _read_transcript(
    path: str, report: ReconcileReport
) -> tuple[dict[str, transcripts.Call], list[transcripts.Result]]:
    """Return the calls of a transcript by their id, and the results of those that ran."""
    calls: dict[str, transcripts.Call] = {}
    ran: list[transcripts.Result] = []
    for entry in transcripts.read_transcript(path):
        if isinstance(entry, transcripts.Call):
            calls[entry.id] = entry
        elif isinstance(entry, transcripts.Result) and entry.outcome != "not-run":
            ran.append(entry)
        elif isinstance(entry, transcripts.UnreadableLine):
            report.unreadable += 1
    return calls, ran


def _compare_call(
    session: str,
    call: transcripts.Call | None,
    result: transcripts.Result,
    ruling: StoredRuling,
    report: ReconcileReport,
) -> None:
    """Hold one call that ran against its ruling; `call` is None where the transcript has only its result."""
    shown = call or transcripts.Call(result.id, result.tool, {}, result.at)
    if ruling.decision.action is not Action.CONTINUE:
        if result.by_a_person:
            report.answered += 1
            return
        gap = Gap.RAN_ANYWAY
    elif call is not None and ruling.whole and (call.tool, call.arguments) != (ruling.tool, ruling.arguments):
        gap = Gap.CHANGED
    else:
        report.matched += 1
        return
    report.gaps.append(CallGap(gap, session, shown.id, shown.tool, shown.arguments, shown.at, ruling))


def _held_calls_that_ran(host: Host) -> Iterator[StoredRuling]:
    """Yield held calls that ran, as hosts without transcripts reported them."""
    for action in (Action.PAUSE, Action.REORIENT):
        for kept in _all_rulings(host, action=action.value):
            if kept.host != _HOST and kept.ran in ("ran", "failed"):
                yield kept


def _all_rulings(host: Host, *, session: str = "", action: str = "") -> Iterator[StoredRuling]:
    before: int | None = None
    while page := host.decisions(session=session, action=action, before=before, limit=MAX_PAGE):
        yield from page
        before = page[-1].seq


def _gap_from_ruling(gap: Gap, kept: StoredRuling) -> CallGap:
    return CallGap(gap, kept.session, kept.key, kept.tool, kept.arguments, kept.at, kept)


def _print_json(report: ReconcileReport) -> None:
    for found in report.gaps:
        value: dict[str, object] = {
            "gap": found.gap.value,
            "session": found.session,
            "id": found.id,
            "tool": found.tool,
            "at": found.at,
            "ruling": None if found.ruling is None else found.ruling.id,
            "action": None if found.ruling is None else found.ruling.decision.action.value,
        }
        # ASCII only: a bidirectional control in a JSON string would still act on the terminal that shows it.
        print(json.dumps(value, ensure_ascii=True))
    for kept in report.held or ():
        approval = kept.decision.approval or None
        said = {"held": kept.id, "session": kept.session, "id": kept.key, "tool": kept.tool, "at": kept.at}
        print(json.dumps({**said, "approval": approval}, ensure_ascii=True))
    summary = {
        "gaps": len(report.gaps),
        **({} if report.held is None else {"held": len(report.held)}),
        "sessions": report.sessions,
        "matched": report.matched,
        "answered_at_the_host": report.answered,
        "before_lockgate": report.earlier,
        "unreadable_lines": report.unreadable,
        "skipped": report.skipped,
        "complete": report.complete,
    }
    print(json.dumps({"schema": SCHEMA, "summary": summary}, ensure_ascii=True), flush=True)


def _draw(report: ReconcileReport) -> None:
    screen = make_console()
    _draw_gaps(screen, report)
    if report.held:
        screen.print(Text(f"held for a person: {format_count(len(report.held), 'call')}", style="bold red"))
        for kept in reversed(report.held):
            _draw_call(screen, _gap_from_ruling(Gap.RAN_ANYWAY, kept))
    if not report.gaps:
        what = "everything that ran was ruled on, and was to run" if report.matched else "nothing to compare"
        screen.print(Text(what, style="bold green" if report.matched else "bold"))
    state = "" if report.complete else " (interrupted: what came so far)"
    calls = f"{format_count(report.matched, 'call')} of {format_count(report.sessions, 'session')}"
    screen.print(Text(f"{calls} ran as they were ruled on{state}"))
    if report.answered:
        screen.print(
            Text(f"{format_count(report.answered, 'held call')} ran after a person at the host said yes", style="dim")
        )
    if report.earlier:
        screen.print(Text(f"{format_count(report.earlier, 'call')} ran before Lockgate was there", style="dim"))
    if any(found.gap is Gap.UNWATCHED for found in report.gaps):
        screen.print(Text("why sessions do not come past: lockgate doctor --claude-code", style="yellow"))
    if report.unreadable:
        screen.print(Text(f"{format_count(report.unreadable, 'line')} could not be read, and left out", style="yellow"))
    for each in report.skipped:
        print(f"lockgate: warning: left out {make_visible(each)}", file=sys.stderr)


def _draw_gaps(screen: Console, report: ReconcileReport) -> None:
    for gap in Gap:
        some = [found for found in report.gaps if found.gap is gap]
        if not some:
            continue
        screen.print(Text(f"{gap.value}: {format_count(len(some), 'call')}", style="bold red"))
        for found in sorted(some, key=lambda each: each.at or 0.0):
            _draw_call(screen, found)


def _draw_call(screen: Console, found: CallGap) -> None:
    when = "" if found.at is None else datetime.fromtimestamp(found.at).strftime("%Y-%m-%d %H:%M  ")  # noqa: DTZ006
    line = Text.assemble((f"  {when}", "dim"), call_text(found.tool, found.arguments))
    ruled = "" if found.ruling is None else f", {found.ruling.decision.action.value} {found.ruling.id}"
    line.append(f"  {excerpt(found.session, 60)}{ruled}", style="dim")
    screen.print(line, soft_wrap=True)
