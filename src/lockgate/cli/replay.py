"""`lockgate replay`: rule on past sessions by today's policy; nothing is run, stored or sent."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from glob import glob
from itertools import islice
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from lockgate import assemble
from lockgate.bulk.pieces import log_beside
from lockgate.bulk.trace_rulings import UnruledRest, lines_in, parse_lines, rule_on_events
from lockgate.claude_code import transcripts
from lockgate.claude_code.events import source_of_result
from lockgate.cli.exit_codes import Exit
from lockgate.cli.parser import parse_whole_number
from lockgate.cli.ruling_tree import ACTION_STYLES, call_text
from lockgate.cli.scanned_files import FileFilter, SkippedFile, walk_files
from lockgate.cli.terminal import excerpt, format_count, make_console, make_visible
from lockgate.cli.times import parse_age
from lockgate.coding_agents.agent_transcripts import read_any_transcript
from lockgate.coding_agents.opencode_database import DATABASES, RecordedSession, is_database, read_sessions
from lockgate.core.errors import InvalidTrace, LockgateError, printable, quoted
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.explanations import entry_for
from lockgate.core.vocabulary import SCHEMA, Action, Decision, ToolCall, decision_to_dict
from lockgate.gate.gate import Gate
from lockgate.gate.ruler import Ruler
from lockgate.runtime.project_files import read_project
from lockgate.sessions.trace_format import Event
from lockgate.settings.config import Settings
from lockgate.settings.model_names import AUTO, EMBEDDED

if TYPE_CHECKING:
    from rich.console import Console

    from lockgate.cli.parser import Parser

_HELP = """\
Reads past sessions of agents, and rules on each call by today's policy: how many would pass, which
would wait for a person or be turned back, and why. It only reads: no call runs, nothing is recorded,
and no model is asked without --ask-models.

PATH is a file or folder of transcripts (Claude Code, Codex, Gemini CLI, Copilot CLI), OpenCode's
database, or traces (`lockgate help trace`). Without one it is Claude Code's own folder:
$CLAUDE_CONFIG_DIR/projects, or ~/.claude/projects.

examples:
  $ lockgate replay                                  everything Claude Code has on record here
  $ lockgate replay --since 7d                       sessions of the last seven days
  $ lockgate replay ~/.codex/sessions                what Codex has on record
  $ lockgate replay ~/.local/share/opencode          what OpenCode has on record
  $ lockgate replay --policy today.toml --policy stricter.toml
                                                     both, and the calls on which they differ
  $ lockgate replay 'traces/**/*.jsonl' --jobs 8 --out audit
                                                     a large audit, to be continued if it is stopped

Exit code 0: every call would have run; 1: some would have waited or been turned back, or something
could not be read; 2: bad input.
"""
_MOST_SHOWN = 20
_MOST_SKIPPED = 100
_LINES_LOOKED_AT = 100
TRANSCRIPTS = ("*.jsonl",)
FILES = (*TRANSCRIPTS, *DATABASES)
# A large replay also reads packed traces, and Parquet with a session in each row.
BULK_FILES = (*FILES, "*.jsonl.gz", "*.parquet")


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One call with the ruling of each policy."""

    file: str
    session: str
    agent: str
    number: int
    id: str
    at: float | None
    tool: str
    arguments: Mapping[str, object]
    decisions: tuple[Decision, ...]


class UnreadSession(NamedTuple):
    """A session of which the rest was not ruled on, and why."""

    file: str
    session: str
    why: str


@dataclass(slots=True)
class ReplayReport:
    """The replay so far; valid at any moment, so that Ctrl-C loses nothing."""

    policies: tuple[str, ...]
    sessions: int = 0
    calls: int = 0
    unreadable: int = 0
    # What was not ruled on, and why: the first of them, and how many there were.
    skipped: list[str] = field(default_factory=list)
    skipped_count: int = 0
    tiers: list[Counter[int]] = field(default_factory=list)
    actions: list[Counter[str]] = field(default_factory=list)
    rules: list[Counter[str]] = field(default_factory=list)
    held: list[ReplayedCall] = field(default_factory=list)
    differ: list[ReplayedCall] = field(default_factory=list)
    # How many of both there were; a large replay does not keep them all.
    held_count: int = 0
    differ_count: int = 0
    outcomes: dict[tuple[str, str, str], str] = field(default_factory=dict)
    complete: bool = False

    def __post_init__(self) -> None:
        for sums in (self.tiers, self.actions, self.rules):
            sums += [Counter() for _ in self.policies[len(sums) :]]

    @property
    def is_clear(self) -> bool:
        """Whether everything was read, and every call would have run."""
        return not (self.held_count or self.skipped_count or self.unreadable)

    def skip(self, why: str) -> None:
        self.skipped_count += 1
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(why)

    def add(self, ruled: ReplayedCall | UnreadSession) -> None:
        if isinstance(ruled, UnreadSession):
            self.skip(f"{ruled.file}: {quoted(ruled.session)}: {ruled.why}")
            return
        self.calls += 1
        for place, decision in enumerate(ruled.decisions):
            self.tiers[place][decision.tier] += 1
            self.actions[place][decision.action.value] += 1
            if decision.tier > 1:
                self.rules[place].update({found.rule for found in decision.findings} or {decision.reason.value})
        actions = {decision.action for decision in ruled.decisions}
        if len(actions) > 1:
            self.differ.append(ruled)
            self.differ_count += 1
        if actions != {Action.CONTINUE}:
            self.held.append(ruled)
            self.held_count += 1

    def merge(self, other: ReplayReport, most: int | None = None) -> None:
        """Add the sums of another report on other files, and its calls: only the `most` newest of all, if given."""
        self.sessions += other.sessions
        self.calls += other.calls
        self.unreadable += other.unreadable
        self.skipped = (self.skipped + other.skipped)[:_MOST_SKIPPED]
        self.skipped_count += other.skipped_count
        self.held_count += other.held_count
        self.differ_count += other.differ_count
        for place in range(len(self.policies)):
            self.tiers[place].update(other.tiers[place])
            self.actions[place].update(other.actions[place])
            self.rules[place].update(other.rules[place])
        for kept, more in ((self.held, other.held), (self.differ, other.differ)):
            kept += more
            if most is not None:
                kept[:] = sorted(kept, key=_newest_last)[-most:]
        shown = {(ruled.session, ruled.agent, ruled.id) for ruled in (*self.held, *self.differ)}
        self.outcomes |= {key: value for key, value in other.outcomes.items() if key in shown}

    def outcome_of(self, ruled: ReplayedCall) -> str:
        return self.outcomes.get((ruled.session, ruled.agent, ruled.id), "") if ruled.id else ""


def _newest_last(ruled: ReplayedCall) -> tuple[float, str, str, int]:
    return ruled.at or 0.0, ruled.file, ruled.session, ruled.number


def describe(parser: Parser) -> None:
    parser.usage = "lockgate replay [PATH ...] [options]"
    parser.description = _HELP
    parser.add_argument("paths", nargs="*", metavar="PATH", help="transcripts or traces, or folders of them")
    parser.add_argument(
        "--policy",
        metavar="FILE",
        action="append",
        default=[],
        help="rule by this configuration file; give two to see where they differ",
    )
    parser.add_argument("--since", metavar="AGE", help="only files changed in the last AGE: 90m, 12h, 7d or 4w")
    parser.add_argument("--all", action="store_true", help=f"show every held call, not only the {_MOST_SHOWN} newest")
    parser.add_argument("--ask-models", action="store_true", help="ask the models the configuration names; it may cost")
    parser.add_argument("--json", action="store_true", help="print JSON: held calls (not with --out), and a summary")
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=_parse_jobs,
        help="replay in so many processes (with --engine or --out: one per core)",
    )
    parser.add_argument("--engine", metavar="ENGINE", help="local, ray, or ray://HOST:PORT (lockgate[ray])")
    parser.add_argument(
        "--out", metavar="FOLDER", help="keep all calls there as Parquet, print none; the same command goes on"
    )
    parser.set_defaults(run=run)


def _parse_jobs(text: str) -> int:
    return parse_whole_number(text, 1, 4096)


def run(args: argparse.Namespace) -> Exit:
    in_bulk = bool(args.engine or args.jobs or args.out)
    include = BULK_FILES if in_bulk else FILES
    files, skipped = choose_files(args.paths, parse_age(args.since), include=include, outside=args.out)
    policies: list[str | None] = args.policy or [None]
    report = ReplayReport(tuple(os.path.basename(path) for path in args.policy) or ("policy",))
    report.skipped, report.skipped_count = skipped, len(skipped)
    interrupted = _replay(files, policies, report, args, in_bulk=in_bulk)
    if report.complete:
        _refuse_empty(report, files)
    if args.json:
        _print_json(report)
    else:
        _draw(report, every=args.all, asked=args.ask_models)
    if interrupted:
        raise KeyboardInterrupt
    if report.held and len(policies) == 1 and not args.json and not in_bulk:
        _draw_proposals(files, policies[0])
    return Exit.CLEAR if report.is_clear else Exit.FLAGGED


def _replay(
    files: Sequence[str],
    policies: Sequence[str | None],
    report: ReplayReport,
    args: argparse.Namespace,
    *,
    in_bulk: bool,
) -> bool:
    """Replay all files into the report; return whether Ctrl-C ended it."""
    try:
        if in_bulk:
            _replay_in_bulk(files, policies, report, args)
        else:
            _replay_here(files, policies, report, ask=args.ask_models)
    except KeyboardInterrupt:
        return True
    return False


def _replay_here(files: Sequence[str], policies: Sequence[str | None], report: ReplayReport, *, ask: bool) -> None:
    gates = [make_gate(choose_gate(path, ask=ask)) for path in policies]
    with show_progress(file_sizes(files), "replaying") as advance:
        for file in files:
            replay_file(file, gates, report)
            advance(file)
    report.complete = True


def _replay_in_bulk(
    files: Sequence[str], policies: Sequence[str | None], report: ReplayReport, args: argparse.Namespace
) -> None:
    # Here, because it builds on this module.
    from lockgate.cli.replay_bulk import BulkOptions, replay_in_bulk

    if args.all and args.out:
        raise LockgateError("--all prints calls, and --out keeps them instead", hint="give one of them")
    options = BulkOptions(args.engine or "local", args.jobs, args.out)
    most = None if args.all or args.json else _MOST_SHOWN
    replay_in_bulk(files, policies, report, options, ask=args.ask_models, most_held=most)
    if args.out:
        print(f"every ruling is a row of the Parquet files in {make_visible(args.out)}", file=sys.stderr)


def _refuse_empty(report: ReplayReport, files: Sequence[str]) -> None:
    """Raise where no call was found: a replay without calls must not look like a pass."""
    if not report.calls:
        why = report.skipped[0] if report.skipped else f"{format_count(report.unreadable, 'line')} could not be read"
        raise LockgateError(
            f"no call in {format_count(len(files), 'file')} ({printable(why, 300)})",
            hint="replay reads coding agents' transcripts and traces: `lockgate help replay`",
        )


def choose_files(
    paths: Sequence[str], age_s: float | None, *, include: tuple[str, ...] = FILES, outside: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the files to read, each once and none in the folder `outside`, and those left out with the reason.

    A path may be a glob.
    """
    where = [found for path in paths for found in _expand(path)] or [_existing_projects_folder()]
    files: list[str] = []
    skipped: list[str] = []
    for found in walk_files(where, FileFilter(include=include)):
        if isinstance(found, SkippedFile):
            if found.failed:
                skipped.append(f"{found.path}: {found.reason}")
        elif outside is not None and Path(outside).resolve() in Path(found).resolve().parents:
            continue
        elif not stat.S_ISREG(os.stat(found).st_mode):
            # A pipe or a device may never end.
            skipped.append(f"{found}: not a regular file")
        elif age_s is None or _changed_at(found) >= time() - age_s:
            files.append(found)
    if not files:
        since = "" if age_s is None else " of that age"
        raise LockgateError(
            f"no transcript or trace{since} under {quoted(where[0], 200)}",
            hint="name the file or folder; Claude Code keeps its own in ~/.claude/projects",
        )
    # A glob can name a folder and the files in it, and a link a file that is named as well.
    return list({os.path.realpath(file): file for file in reversed(files)}.values())[::-1], skipped


def _changed_at(path: str) -> float:
    """Return when a file was changed last; a database is written through the log beside it."""
    return max(os.stat(each).st_mtime for each in (path, log_beside(path)) if each == path or os.path.exists(each))


def _expand(path: str) -> list[str]:
    """Return the paths that a glob stands for; what is there under the very name is that, and no glob."""
    return [path] if os.path.exists(path) else sorted(glob(path, recursive=True)) or [path]


def projects_folder() -> str:
    """Return the folder of this user's Claude Code transcripts."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(folder, "projects")


def _existing_projects_folder() -> str:
    path = projects_folder()
    if not os.path.isdir(path):
        raise LockgateError(
            f"Claude Code has no transcripts in {quoted(path, 200)}",
            hint="name a file or folder: lockgate replay PATH; `lockgate demo` shows a session without any",
        )
    return path


@dataclass(frozen=True, slots=True)
class ReplayGate:
    """What a gate for replays is made of, in whatever process; `judged` is whether it asks the embedded judge."""

    settings: Settings
    ask: bool
    judged: bool


def choose_gate(config: str | None, *, ask: bool) -> ReplayGate:
    """Return the gate of a configuration; without `ask`, its only judge is the embedded one, if it is installed."""
    settings = assemble.settings_from_environment(config)
    is_local = not ask and settings.policy.triage_model in ("", EMBEDDED, AUTO)
    return ReplayGate(settings, ask, is_local and assemble.is_embedded_installed())


def make_gate(chosen: ReplayGate) -> Gate:
    """Return a gate that stores nothing."""
    settings = chosen.settings
    if chosen.ask:
        return assemble.gate_from_settings(settings, keep_records=False)
    triage = None
    if chosen.judged:
        triage = assemble.embedded_from_settings(settings, patient=True)
        # It never raises later: a worker that lacks its files would hold what others let run.
        triage.verify()
    return Gate(
        settings.policy,
        scanner=assemble.scanner_from_settings(settings),
        triage=triage,
        two_person=settings.supervision.two_person,
    )


def replay_file(file: str, gates: Sequence[Gate], report: ReplayReport) -> None:
    """Rule on every call of one file, into the report; an unreadable file is reported as skipped."""
    try:
        for each in _replay_trace(file, gates, report) if is_trace(file) else replay_transcript(file, gates, report):
            report.add(each)
    except OSError as error:
        report.skip(f"{file}: {(error.strerror or 'cannot be read').lower()}")
    except InvalidTrace as error:
        report.skip(f"{file}: {error.message}")


def is_trace(file: str) -> bool:
    """Return whether the file is a trace, by the first line that can be read."""
    with open(file, "rb") as stream:
        for data in islice(iter(lambda: stream.readline(transcripts.MAX_LINE_BYTES), b""), _LINES_LOOKED_AT):
            try:
                line = json.loads(data)
            except (ValueError, RecursionError):
                # Empty, or damaged: one such line must not turn a trace into a transcript without calls.
                continue
            return isinstance(line, dict) and len(line) == 1 and bool({"trace", "session", "block", "call"} & {*line})
    return False


def _replay_trace(file: str, gates: Sequence[Gate], report: ReplayReport) -> Iterator[ReplayedCall | UnreadSession]:
    with open(file, "rb") as stream:
        yield from replay_events(file, os.path.basename(file), parse_lines(lines_in(stream)), gates, report)


def replay_events(
    file: str,
    name: str,
    events: Iterable[tuple[int, Event | InvalidTrace]],
    gates: Sequence[Gate],
    report: ReplayReport,
    before: int = 0,
) -> Iterator[ReplayedCall | UnreadSession]:
    """Yield each call of a trace with the rulings of the gates; `before` is how many sessions came before it."""
    last = before
    for ruled in rule_on_events(gates, events, sessions=before):
        session = f"{name}#{ruled.session}"
        if isinstance(ruled, UnruledRest):
            yield UnreadSession(file, session, f"{ruled.error.message}; the rest of the session was not ruled on")
            continue
        if ruled.session > last:
            last = ruled.session
            report.sessions += 1
        event = ruled.event
        yield ReplayedCall(file, session, "", ruled.call, "", None, event.tool, event.arguments, ruled.decisions)


def replay_transcript(file: str, gates: Sequence[Gate], report: ReplayReport) -> Iterator[ReplayedCall]:
    """Yield each call of a transcript with the rulings of the gates.

    OSError where it cannot be opened; InvalidTrace for a database that cannot be understood.
    """
    for recorded in recorded_sessions(file):
        yield from _replay_session(file, recorded, gates, report)


def recorded_sessions(file: str) -> Iterator[RecordedSession]:
    """Yield the sessions of a file: OpenCode's database has many, every other transcript one."""
    if is_database(file):
        yield from read_sessions(file)
        return
    whose = transcripts.transcript_from_path(file)
    folder = transcripts.working_folder(whose.parent or file)
    entries = _agent_entries(whose) if whose.agent else read_any_transcript(file)
    yield RecordedSession(whose.session, whose.agent, folder, entries)


def _replay_session(
    file: str, recorded: RecordedSession, gates: Sequence[Gate], report: ReplayReport
) -> Iterator[ReplayedCall]:
    session, agent, folder, entries = recorded
    project = read_project(folder)
    given: dict[str, Mapping[str, object]] = {}
    rulers: list[Ruler] = []
    calls = 0
    unknown = False

    def into(content: str, source: str) -> None:
        for ruler in rulers:
            ruler.add(_replace_surrogates(content), source=source)

    for entry in entries:
        if isinstance(entry, transcripts.UnreadableLine):
            report.unreadable += 1
            # The unreadable text may have steered every later call.
            unknown = True
            for ruler in rulers:
                ruler.context_known = False
            continue
        if not rulers:
            goal = _replace_surrogates(entry.text) if isinstance(entry, transcripts.Prompt) else ""
            rulers = _begin_rulers(gates, goal, project, known=not unknown)
            report.sessions += 1
            if goal:
                continue
        match entry:
            case transcripts.Prompt(text):
                into(text, "user")
            case transcripts.Text(text, source):
                into(text, _replace_surrogates(source))
            case transcripts.Result(id, tool, text, outcome):
                report.outcomes[session, agent, id] = outcome
                if outcome != "not-run":
                    into(text, _replace_surrogates(source_of_result(tool, given.get(id, {}))))
            case transcripts.Call(id, tool, arguments, at):
                calls += 1
                given[id] = plain = json.loads(_replace_surrogates(json.dumps(arguments, ensure_ascii=False)))
                call = ToolCall(_replace_surrogates(tool) or "unknown", plain, folder=folder)
                ruled = tuple(ruler.check(call) for ruler in rulers)
                yield ReplayedCall(file, session, agent, calls, id, at, call.tool, plain, ruled)


def _begin_rulers(gates: Sequence[Gate], goal: str, project: Project, *, known: bool) -> list[Ruler]:
    rulers = [gate.ruler(goal=goal) for gate in gates]
    for ruler in rulers:
        ruler.context_known, ruler.project = known, project
    return rulers


def _agent_entries(whose: transcripts.Transcript) -> Iterator[transcripts.Entry]:
    """Yield what the parent session had read before it started this agent, then the agent's own entries.

    The agent's task may come from any text of the parent. The task itself counts as the goal: starting the agent was
    a call, and was ruled on.
    """
    own = transcripts.read_transcript(whose.path)
    task = next(own, None)
    began = None if task is None or isinstance(task, transcripts.UnreadableLine) else task.at
    if os.path.exists(whose.parent):
        yield from transcripts.entries_before(transcripts.read_transcript(whose.parent), began)
    if isinstance(task, transcripts.Text) and task.source.startswith("agent:"):
        yield transcripts.Prompt(task.text, task.at)
    elif task is not None:
        yield task
    yield from own


def _replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced: no valid UTF-8 has them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def file_sizes(files: Iterable[str]) -> dict[str, int]:
    """Return the sizes of files, for a progress bar."""
    return {file: os.stat(file).st_size for file in files}


@contextmanager
def show_progress(sizes: Mapping[str, int], doing: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that advances a progress bar by the size of a name, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=sum(sizes.values()))
        yield lambda file: bar.advance(task, sizes[file])


def _print_json(report: ReplayReport) -> None:
    for ruled in report.held:
        value: dict[str, object] = {
            "file": ruled.file,
            "session": ruled.session,
            "agent": ruled.agent,
            "call": ruled.number,
            "id": ruled.id,
            "at": ruled.at,
            "tool": ruled.tool,
            "ran": report.outcome_of(ruled),
            "rulings": {
                name: decision_to_dict(decision)
                for name, decision in zip(report.policies, ruled.decisions, strict=True)
            },
        }
        # ASCII only: a bidirectional control in a JSON string would still act on the terminal that shows it.
        print(json.dumps(value, ensure_ascii=True))
    summary = {
        "schema": SCHEMA,
        "summary": {
            "sessions": report.sessions,
            "calls": report.calls,
            "policies": {
                name: {
                    "tiers": {str(tier): report.tiers[place][tier] for tier in (1, 2, 3)},
                    "actions": {action.value: report.actions[place][action.value] for action in Action},
                    "rules": dict(sorted(report.rules[place].items(), key=lambda each: (-each[1], each[0]))),
                }
                for place, name in enumerate(report.policies)
            },
            "differ": report.differ_count,
            "unreadable_lines": report.unreadable,
            "skipped": report.skipped,
            "skipped_count": report.skipped_count,
            "complete": report.complete,
        },
    }
    print(json.dumps(summary, ensure_ascii=True), flush=True)


def _draw(report: ReplayReport, *, every: bool, asked: bool) -> None:
    screen = make_console()
    head = f"{format_count(report.calls, 'call')} of {format_count(report.sessions, 'session')}"
    screen.print(Text.assemble((head, "bold"), ("" if report.complete else "  (interrupted: what came so far)", "red")))
    screen.print(_tier_table(report))
    for place, name in enumerate(report.policies):
        _draw_rules(screen, report.rules[place], name if len(report.policies) > 1 else "")
    if len(report.policies) > 1:
        _draw_held(screen, report, report.differ, "calls on which they differ", report.differ_count, every=every)
    else:
        _draw_held(
            screen,
            report,
            report.held,
            "calls that would have waited or been turned back",
            report.held_count,
            every=every,
        )
    if not asked and report.held_count:
        screen.print(Text("no model was asked: --ask-models asks those of the configuration", style="dim"))
    if report.unreadable:
        screen.print(Text(f"{format_count(report.unreadable, 'line')} could not be read, and left out", style="yellow"))
    # Where both streams go to one place, warnings stay under the table.
    screen.file.flush()
    for each in report.skipped:
        print(f"lockgate: warning: left out {make_visible(each)}", file=sys.stderr)
    if report.skipped_count > len(report.skipped):
        more = report.skipped_count - len(report.skipped)
        print(f"lockgate: warning: left out {more:,} more", file=sys.stderr)


def _draw_proposals(files: Sequence[str], config: str | None) -> None:
    """Print what would have spared a person these questions, as `lockgate tune` does."""
    from lockgate.cli.tune import draw_report, propose
    from lockgate.cli.tune.replays import file_recordings

    screen = make_console()
    screen.print()
    draw_report(
        screen, propose(assemble.settings_from_environment(config), [*file_recordings(files, [])], config=config)
    )


def _tier_table(report: ReplayReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("", "tier 1", "tier 2", "tier 3", "would run", "a person asked", "turned back"):
        table.add_column(title, justify="left" if not title else "right")
    for place, name in enumerate(report.policies):
        tiers, actions = report.tiers[place], report.actions[place]
        shares = (f"{_percentage(tiers[tier], report.calls)} ({tiers[tier]:,})" for tier in (1, 2, 3))
        ruled = (f"{actions[action.value]:,}" for action in (Action.CONTINUE, Action.PAUSE, Action.REORIENT))
        table.add_row(make_visible(name), *shares, *ruled)
    return table


def _percentage(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _draw_rules(screen: Console, rules: Counter[str], name: str) -> None:
    if not rules:
        return
    screen.print(Text(f"why{f', by {make_visible(name)}' if name else ''}", style="bold"))
    for rule, count in sorted(rules.items(), key=lambda each: (-each[1], each[0]))[:8]:
        what = entry_for(rule).what if ":" in rule else ""
        screen.print(
            Text.assemble(f"  {count:>6,}  ", (make_visible(rule), "magenta"), (f"  {what}", "dim")), soft_wrap=True
        )
    if len(rules) > 8:
        screen.print(Text(f"          and {len(rules) - 8} more, see --json", style="dim"))
    screen.print()


def _draw_held(
    screen: Console, report: ReplayReport, held: Sequence[ReplayedCall], title: str, count: int, *, every: bool
) -> None:
    if not count:
        screen.print(Text(f"no {title}", style="green"))
        return
    newest = sorted(held, key=lambda ruled: ruled.at or 0.0)
    shown = newest if every else newest[-_MOST_SHOWN:]
    cut = f" (the {len(shown)} newest of {count:,}; --all shows them)" if shown else f": {count:,}"
    cut = "" if len(shown) == count else cut
    screen.print(Text.assemble((title, "bold"), (cut, "dim")))
    for ruled in shown:
        screen.print(_call_line(ruled, report), soft_wrap=True)
        for name, decision in zip(report.policies, ruled.decisions, strict=True):
            screen.print(_decision_line(name if len(report.policies) > 1 else "", decision), soft_wrap=True)


def _call_line(ruled: ReplayedCall, report: ReplayReport) -> object:
    when = "" if ruled.at is None else datetime.fromtimestamp(ruled.at).strftime("%Y-%m-%d %H:%M  ")  # noqa: DTZ006
    agent = f" agent {excerpt(ruled.agent, 20)}" if ruled.agent else ""
    ran = {"ran": "ran then", "failed": "ran then, and failed", "not-run": "did not run then"}.get(
        report.outcome_of(ruled), ""
    )
    where = f"  {excerpt(ruled.session, 40)}{agent}, call {ruled.number}{f', {ran}' if ran else ''}"
    return Text.assemble((when, "dim"), call_text(ruled.tool, ruled.arguments), (where, "dim"))


def _decision_line(name: str, decision: Decision) -> object:
    return Text.assemble(
        "    ",
        (f"{make_visible(name)}: " if name else "", "dim"),
        (decision.action.value, ACTION_STYLES[decision.action]),
        f"  tier {decision.tier}  ",
        (decision.reason.value, "cyan"),
        ("  " + excerpt(decision.explanation, 400) if decision.explanation else "", "dim"),
    )


def transcripts_by_session(files: Iterable[str]) -> dict[str, list[transcripts.Transcript]]:
    """Return the transcripts by their session."""
    found: dict[str, list[transcripts.Transcript]] = {}
    for file in files:
        if not is_trace(file):
            whose = transcripts.transcript_from_path(file)
            found.setdefault(whose.session, []).append(whose)
    return found
