"""`lockgate scan`: search files and folders with the scanner's rules."""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from lockgate import assemble
from lockgate.cli.exit_codes import Exit
from lockgate.cli.sarif import sarif_from_report
from lockgate.cli.scan_exceptions import Baseline, blank_lines, ignored_lines, read_baseline
from lockgate.cli.scan_severity import ScanSeverity, weigh_findings
from lockgate.cli.scanned_files import MAX_BYTES, FileFilter, SkippedFile, read_text, walk_files
from lockgate.cli.terminal import format_count, make_console, make_visible
from lockgate.core.ruling.context import Context
from lockgate.core.vocabulary import SCHEMA

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.core.text.scanner import Scanner
    from lockgate.core.vocabulary import Finding

_HELP = """\
Looks for text that gives orders to an agent, and for hidden text, as Lockgate would if an agent read
these files. For each file it shows the first hit of each rule.

example:
  $ lockgate scan docs README.md --exclude '*.lock'
  $ lockgate scan . --sarif > lockgate.sarif
  $ lockgate scan downloads --severity low
  $ lockgate scan . --own-files --baseline lockgate-baseline.json

A finding is high where several rules hit in one file, medium where a rule hits that ordinary files hardly ever do,
and low otherwise: a phrase that software also uses ("starts a new task"), hidden text without an order, and rules that
are broad by design (credential words, call syntax). Below --severity they are only counted.

In your own files (--own-files), a comment `lockgate: ignore` settles the findings of its line, or of the next
line if it stands alone; `lockgate: ignore[RULE, RULE]` only those. Without the option such comments count for
nothing: the author of a file must not decide whether it is searched. --write-baseline keeps what is found
now, and --baseline leaves that out until the file changes. Both are counted in the summary.

In folders, binary and large files are skipped and counted; a file that is named is read as text
whatever it holds, and one that is too large, or no file, counts as not read.
Exit code 0: nothing found; 1: findings; 2: a path or file that could not be read.
"""


_EXCERPT = 80
# The longest piece of a word that is added to an excerpt.
_MOST_WORD = 30
_STYLES = {ScanSeverity.HIGH: "bold red", ScanSeverity.MEDIUM: "yellow", ScanSeverity.LOW: "dim"}


@dataclass(frozen=True, slots=True)
class ScanHit:
    """One finding in one file; lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    rule: str
    severity: ScanSeverity
    scope: str
    reading: str
    excerpt: str


@dataclass(slots=True)
class ScanReport:
    """The findings so far; valid at any moment, so that Ctrl-C loses nothing."""

    hits: list[ScanHit] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    files: int = 0
    # Findings below the severity that was asked for, and those that a comment or the baseline settles.
    below: int = 0
    ignored: int = 0
    unheeded: int = 0
    known: int = 0
    complete: bool = False

    @property
    def failed(self) -> list[SkippedFile]:
        return [each for each in self.skipped if each.failed]

    @property
    def reasons(self) -> dict[str, int]:
        counts = Counter("unreadable" if each.failed else each.reason for each in self.skipped)
        return dict(sorted(counts.items()))

    @property
    def exit(self) -> Exit:
        # A file that could not be read is not clean.
        return Exit.FLAGGED if self.hits else Exit.INVALID if self.failed else Exit.CLEAR


def describe(parser: Parser) -> None:
    parser.usage = "lockgate scan PATH ... [options]"
    parser.description = _HELP
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and folders; .git and links are not entered")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, for code scanning services")
    parser.add_argument("--include", metavar="GLOB", action="append", default=[], help="only these files in folders")
    parser.add_argument("--exclude", metavar="GLOB", action="append", default=[], help="not these files and folders")
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        type=_parse_size,
        default=MAX_BYTES,
        help="do not read larger files (default: 16777216)",
    )
    levels = [each.value for each in ScanSeverity]
    parser.add_argument(
        "--severity",
        metavar="LEVEL",
        choices=levels,
        default=ScanSeverity.MEDIUM.value,
        help=f"the least severity that counts: {', '.join(levels)} (default: medium)",
    )
    parser.add_argument(
        "--strict",
        dest="severity",
        action="store_const",
        const=ScanSeverity.LOW.value,
        help="the same as --severity low",
    )
    parser.add_argument("--own-files", action="store_true", help="heed `lockgate: ignore` comments in these files")
    parser.add_argument(
        "--baseline", metavar="FILE", help="leave out what this file has, in files that have not changed"
    )
    parser.add_argument("--write-baseline", metavar="FILE", help="write what is found into this file; exit code 0")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What counts as a finding in this run."""

    max_bytes: int = MAX_BYTES
    least: ScanSeverity = ScanSeverity.MEDIUM
    own_files: bool = False
    baseline: Baseline | None = None
    # Where findings are kept instead of being told.
    written: Baseline | None = None


def run(args: argparse.Namespace) -> Exit:
    found = list(walk_files(args.paths, FileFilter(tuple(args.include), tuple(args.exclude))))
    options = ScanOptions(
        args.max_bytes,
        ScanSeverity(args.severity),
        args.own_files,
        read_baseline(args.baseline) if args.baseline else None,
        Baseline(Path(args.write_baseline).absolute().parent) if args.write_baseline else None,
    )
    scanner = assemble.scanner_from_settings(assemble.settings_from_environment(args.config))
    report = ScanReport(skipped=[each for each in found if isinstance(each, SkippedFile)])
    named = frozenset(args.paths)
    try:
        with _show_progress([each for each in found if isinstance(each, str)]) as files:
            for file in files:
                scan_file(file, scanner, report, options, named=file in named)
        report.complete = True
    finally:
        if args.sarif:
            print(json.dumps(sarif_from_report(report), indent=2))
        elif args.json:
            print(json.dumps(_as_json(report), indent=2))
        else:
            _draw(report)
    if options.written is not None:
        options.written.write(args.write_baseline)
        return Exit.INVALID if report.failed else Exit.CLEAR
    return report.exit


def scan_file(path: str, scanner: Scanner, report: ScanReport, options: ScanOptions, *, named: bool) -> None:
    """Scan one file as an untrusted block, as a session would, into the report."""
    text = read_text(path, options.max_bytes, named=named)
    if isinstance(text, SkippedFile):
        report.skipped.append(text)
        return
    report.files += 1
    hits = _settle_by_comment(path, text, _scan_text(path, text, scanner), scanner, report, options)
    if options.written is not None and hits:
        options.written.add(path, text, {hit.rule for hit in hits})
    for hit in hits:
        if options.baseline is not None and options.baseline.has(path, text, hit.rule):
            report.known += 1
        elif _counts(hit, options):
            report.hits.append(hit)
        else:
            report.below += 1


def _settle_by_comment(
    path: str, text: str, hits: list[ScanHit], scanner: Scanner, report: ScanReport, options: ScanOptions
) -> list[ScanHit]:
    """Return the findings that no comment settles, and count the others."""
    marked = ignored_lines(text) if hits else {}
    settled = [hit for hit in hits if _is_ignored(hit, marked)]
    if not settled:
        return hits
    if not options.own_files:
        report.unheeded += len([hit for hit in settled if _counts(hit, options)])
        return hits
    report.ignored += len(settled)
    left = {hit for hit in hits if not _is_ignored(hit, marked)}
    for rule in {hit.rule for hit in settled}:
        left.update(_hits_elsewhere(rule, path, text, marked, scanner))
    return sorted(left, key=_place)


def _hits_elsewhere(
    rule: str, path: str, text: str, marked: Mapping[int, frozenset[str]], scanner: Scanner
) -> Iterator[ScanHit]:
    """Yield the hit of a rule in the lines that do not ignore it: of the whole text, only its first one was found."""
    lines = [line for line, rules in marked.items() if not rules or rule in rules]
    yield from (hit for hit in _scan_text(path, blank_lines(text, lines), scanner) if hit.rule == rule)


def _counts(hit: ScanHit, options: ScanOptions) -> bool:
    return hit.severity.rank >= options.least.rank


def _is_ignored(hit: ScanHit, marked: Mapping[int, frozenset[str]]) -> bool:
    return hit.line in marked and (not marked[hit.line] or hit.rule in marked[hit.line])


def _place(hit: ScanHit) -> tuple[int, int, str]:
    return hit.line, hit.column, hit.rule


def _scan_text(path: str, text: str, scanner: Scanner) -> list[ScanHit]:
    context = Context(scanner)
    context.add(text, source="file", id="file")
    telling = [context.locate_finding(note) for note in (*context.alarms, *context.encoded)]
    rows = [(found, severity, "agent") for found, severity in zip(telling, weigh_findings(telling), strict=True)]
    broad = context.broad
    rows += [(context.locate_finding(note), ScanSeverity.LOW, "related") for note in broad]
    starts = _line_starts(text) if rows else []
    hits = []
    for found, severity, scope in sorted(rows, key=lambda row: row[0].start):
        line, column = _line_and_column(starts, min(found.start, len(text)))
        end_line, end_column = _line_and_column(starts, min(max(found.end, found.start), len(text)))
        hits.append(
            ScanHit(
                path, line, column, end_line, end_column, found.rule, severity, scope, found.reading,
                _whole_words(found, text),
            )
        )  # fmt: skip
    return hits


def _whole_words(found: Finding, text: str) -> str:
    """Return the excerpt of a finding with the words at its ends whole; a hidden text has none around it."""
    if found.reading != "raw" or not found.excerpt or text[found.start : found.end] != found.excerpt:
        return found.excerpt
    start, end = found.start, found.end
    while start > max(0, found.start - _MOST_WORD) and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < min(len(text), found.end + _MOST_WORD) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return text[start:end]


def _parse_size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) <= MAX_BYTES * 64:
        raise argparse.ArgumentTypeError(f"`{text[:20]}` is not a number of bytes from 1 to {MAX_BYTES * 64}")
    return int(text[:12])


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def _line_and_column(starts: list[int], offset: int) -> tuple[int, int]:
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


@contextmanager
def _show_progress(files: list[str]) -> Iterator[Iterable[str]]:
    """Yield the files, with a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield files
        return
    columns = (TextColumn("scanning"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(sys.stderr), transient=True) as bar:
        yield bar.track(files)


def _as_json(report: ScanReport) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "findings": [{name: getattr(hit, name) for name in ScanHit.__slots__} for hit in report.hits],
        "files": report.files,
        "skipped": report.reasons,
        "unreadable": [{"file": each.path, "reason": each.reason} for each in report.failed],
        "below_severity": report.below,
        "ignored": report.ignored,
        "ignores_not_heeded": report.unheeded,
        "in_baseline": report.known,
        "complete": report.complete,
    }


def _draw(report: ScanReport) -> None:
    screen = make_console()
    places = [f"{hit.line}:{hit.column}" for hit in report.hits]
    place_width = max((len(place) for place in places), default=0)
    rule_width = max((len(hit.rule) for hit in report.hits), default=0)
    file = None
    for hit, place in zip(report.hits, places, strict=True):
        if hit.file != file:
            file = hit.file
            screen.print(Text(make_visible(file), style="bold"), soft_wrap=True)
        line = Text.assemble(
            (f"  {place:<{place_width}}  ", "cyan"),
            (f"{hit.severity.value:<6}  ", _STYLES[hit.severity]),
            (f"{make_visible(hit.rule):<{rule_width}}  ", "magenta"),
            f'"{_shorten(hit.excerpt)}"' if hit.excerpt else "",
            ("" if hit.reading == "raw" else f"  read as {make_visible(hit.reading)}", "dim"),
        )
        line.rstrip()
        screen.print(line, soft_wrap=True)
    for each in report.failed:
        print(f"lockgate: warning: cannot read {make_visible(each.path)}: {make_visible(each.reason)}", file=sys.stderr)
    for said in _summary(report):
        screen.print(Text(said), soft_wrap=True)


def _summary(report: ScanReport) -> Iterator[str]:
    with_hits = len({hit.file for hit in report.hits})
    where = f" in {format_count(with_hits, 'file')}" if with_hits else ""
    yield f"{format_count(len(report.hits), 'finding')}{where}; {format_count(report.files, 'file')} scanned"
    if report.reasons:
        yield "skipped: " + ", ".join(f"{count:,} {reason}" for reason, count in report.reasons.items())
    if report.below:
        yield f"{format_count(report.below, 'finding')} of a lower severity left out: --severity low shows all"
    if report.ignored:
        yield f"{format_count(report.ignored, 'finding')} ignored by comments"
    if report.unheeded:
        marked = f"{format_count(report.unheeded, 'finding')} marked `lockgate: ignore`"
        yield f"{marked}: --own-files heeds that, for files that are yours"
    if report.known:
        yield f"{format_count(report.known, 'finding')} in the baseline"


def _shorten(text: str) -> str:
    """Return the beginning of an excerpt, cut between two words."""
    if len(text) > _EXCERPT:
        cut = text[:_EXCERPT].rsplit(None, 1)[0]
        return f"{make_visible(cut)} …"
    return make_visible(text)
