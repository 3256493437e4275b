"""`lockgate scan`: search files and folders with the scanner's rules."""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from lockgate import assemble
from lockgate.cli.exit_codes import Exit
from lockgate.cli.sarif import sarif_from_report
from lockgate.cli.scanned_files import MAX_BYTES, FileFilter, SkippedFile, read_text, walk_files
from lockgate.cli.terminal import excerpt, format_count, make_console, make_visible
from lockgate.core.ruling.context import Context
from lockgate.core.wire import SCHEMA

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.core.text.scanner import Scanner

_HELP = """\
Looks for text that gives orders to an agent, and for hidden text, as Lockgate would if an agent read
these files. For each file it shows the first hit of each rule.

example:
  $ lockgate scan docs README.md --exclude '*.lock'
  $ lockgate scan . --sarif > lockgate.sarif

Rules that are broad by design (credential words, call syntax) match much ordinary text, and in a
session count only when a call is related to it: without --strict they are only counted.
In folders, binary and large files are skipped and counted; a file that is named is read as text
whatever it holds, and one that is too large, or no file, counts as not read.
Exit code 0: nothing found; 1: findings; 2: a path or file that could not be read.
"""


@dataclass(frozen=True, slots=True)
class ScanHit:
    """One finding in one file; lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    rule: str
    scope: str
    reading: str
    excerpt: str


@dataclass(slots=True)
class ScanReport:
    """The findings so far; valid at any moment, so that Ctrl-C loses nothing."""

    hits: list[ScanHit] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    files: int = 0
    broad: int = 0
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
    parser.add_argument("--strict", action="store_true", help="show the broad rules' hits as well")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    found = list(walk_files(args.paths, FileFilter(tuple(args.include), tuple(args.exclude))))
    scanner = assemble.scanner_from_settings(assemble.settings_from_environment(args.config))
    report = ScanReport(skipped=[each for each in found if isinstance(each, SkippedFile)])
    named = frozenset(args.paths)
    try:
        with _show_progress([each for each in found if isinstance(each, str)]) as files:
            for file in files:
                scan_file(file, scanner, report, max_bytes=args.max_bytes, strict=args.strict, named=file in named)
        report.complete = True
    finally:
        if args.sarif:
            print(json.dumps(sarif_from_report(report), indent=2))
        elif args.json:
            print(json.dumps(_as_json(report), indent=2))
        else:
            _draw(report)
    return report.exit


def scan_file(path: str, scanner: Scanner, report: ScanReport, *, max_bytes: int, strict: bool, named: bool) -> None:
    """Scan one file as an untrusted block, as a session would, into the report."""
    text = read_text(path, max_bytes, named=named)
    if isinstance(text, SkippedFile):
        report.skipped.append(text)
        return
    context = Context(scanner)
    context.add(text, source="file", id="file")
    report.files += 1
    telling = [(context.locate_finding(note), "agent") for note in (*context.alarms, *context.encoded)]
    broad = context.broad.get("file", [])
    if strict:
        telling += [(context.locate_finding(note), "related") for note in broad]
    else:
        report.broad += len(broad)
    starts = _line_starts(text) if telling else []
    for found, scope in sorted(telling, key=lambda each: each[0].start):
        line, column = _line_and_column(starts, min(found.start, len(text)))
        end_line, end_column = _line_and_column(starts, min(max(found.end, found.start), len(text)))
        report.hits.append(
            ScanHit(path, line, column, end_line, end_column, found.rule, scope, found.reading, found.excerpt)
        )


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
        "broad_left_out": report.broad,
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
            (f"{make_visible(hit.rule):<{rule_width}}  ", "magenta"),
            f'"{excerpt(hit.excerpt, 80)}"' if hit.excerpt else "",
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
    if report.broad:
        yield f"{format_count(report.broad, 'hit')} of broad rules left out: --strict shows them"
