"""`make bench`: speed, detection, over-escalation, journal and abuse gate in one run, each figure beside its bound."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import hyperscan

import detection
import effects
import hostile
import ingress
import journal
import judge
import over
import speed
import startup
import tables
from lockgate import __version__
from lockgate.cli.eval.trace_files import load_sessions
from lockgate.core.errors import LockgateError
from lockgate.gate.gate import Gate
from tables import Table

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
OURS = "Detection: our own corpus"
SECTIONS = ("speed", "detection", "over", "judge", "journal", "gate")
QUICK_FILES = 8
# Of our own corpus a quick run plays every so many-th session of each file.
QUICK_EVERY = 24

Tick = Callable[[str], None]


class Job(NamedTuple):
    """One part of the run; `weight` is about how many seconds it takes, for the bar."""

    section: str
    name: str
    weight: float
    work: Callable[[Tick], list[Table]]


def jobs(gate: Gate, traces: Sequence[Path], peers: Path | None, *, quick: bool) -> list[Job]:
    effort = speed.QUICK if quick else speed.FULL
    given = {path.name: load_sessions(path) for path in traces}
    files = over.ordinary_files(over.site_packages(), QUICK_FILES if quick else None)
    every = QUICK_EVERY if quick else 1
    ours = {name: sessions[::every] for name, sessions in detection.corpus(HERE / "corpus").items()}
    listed = [
        Job("speed", "blocks", 20, lambda tick: [speed.blocks(gate, effort, tick)]),
        Job("speed", "session", 40, lambda tick: [speed.session(gate, effort, tick)]),
        Job("speed", "arguments", 2, lambda tick: [speed.arguments(gate, effort, tick)]),
        Job("speed", "hostile", 120, lambda tick: [hostile.table(gate, effort, tick)]),
        Job("speed", "peers", 20, lambda tick: [speed.others(gate, effort, peers, tick)]),
        Job("speed", "start", 10, lambda tick: [startup.start(effort, tick)]),
        Job("speed", "rules", 12, lambda tick: [] if quick else [startup.rules_ready(gate, tick)]),
        Job("speed", "install", 1, lambda _tick: [startup.core_install(HERE.parent / "src")]),
        Job("speed", "effects", 15, lambda tick: effects.tables_of(gate, effort, tick)),
        Job("detection", "corpus", 5, lambda tick: detection.tables_of(OURS, ours, gate, tick)),
        Job("over", "files", 30, lambda tick: over.tables_of(gate, files, tick)),
        Job("judge", "judge", 60, lambda tick: judge.tables_of(gate, ours, given, files, every=every, tick=tick)),
        Job("journal", "tampering", 1, lambda _tick: [journal.tampering()]),
        Job("journal", "throughput", 45, lambda tick: [journal.throughput(effort, tick)]),
        Job("journal", "verification", 30, lambda tick: [journal.verification(effort, tick)]),
        Job("journal", "passes", 10, lambda tick: [journal.passes(gate, effort, tick)]),
        Job("gate", "requests", 60, lambda tick: ingress.tables_of(effort, tick)),
    ]
    if given:
        title = "Detection: the trace files given"
        work = partial(detection.tables_of, title, given, gate, bounded=True)
        at = [job.name for job in listed].index("corpus") + 1
        listed.insert(at, Job("detection", "traces", 60, work))
    return listed


def machine() -> str:
    engine = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    engine.compile(expressions=[b"x"], ids=[0], elements=1, flags=[0])
    told = engine.info()
    told = told.decode() if isinstance(told, bytes) else told
    version = told.partition("Mode")[0].strip().removesuffix("Features:").strip()
    return (
        f"Lockgate {__version__}; {os.cpu_count()} cores, {platform.machine()}, {platform.system()}; "
        f"{platform.python_implementation()} {platform.python_version()}; "
        f"hyperscan {hyperscan.__version__} (engine {version.removeprefix('Version: ')})"
    )


@contextmanager
def progress(total: float, *, shown: bool) -> Iterator[tuple[Tick, Callable[[float], None]]]:
    """A bar on standard error on a terminal, else nothing: what to say now, and how much is done."""
    if not shown:
        yield (lambda _text: None), (lambda _weight: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling the rules", total=total)
        yield (lambda text: bar.update(task, description=text)), (lambda weight: bar.advance(task, weight))


def work_off(
    listed: Sequence[Job], tick: Tick, advance: Callable[[float], None]
) -> tuple[list[tuple[str, Table]], bool]:
    """The tables of all jobs with their sections, or of those that were done when the user pressed Ctrl-C."""
    done: list[tuple[str, Table]] = []
    try:
        for job in listed:
            tick(job.name)
            done += [(job.section, table) for table in job.work(tick)]
            advance(job.weight)
    except KeyboardInterrupt:
        return done, True
    return done, False


def show(done: Sequence[tuple[str, Table]]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        console = Console()
        for _, table in done:
            console.print(tables.rich_table(table))
            console.print()
        return
    for _, table in done:
        print("\n".join(tables.plain(table)))
        print()


def summary(done: Sequence[tuple[str, Table]]) -> str:
    checks = [(table, row, check) for _, table in done for row in table.rows for check in row.checks]
    broken = [
        f"  {_short(table.title)}: {', '.join(row.cells.get(name, '') for name in table.columns[: table.names])}: "
        f"{tables.in_unit(check.value, tables.BOUNDS[check.bound].unit)}, bound {tables.BOUNDS[check.bound]}"
        for table, row, check in checks
        if not check.ok
    ]
    head = f"{len(checks) - len(broken)} of {len(checks)} bounds kept"
    return "\n".join([head, *broken])


def _short(title: str) -> str:
    return title.partition(":")[0].partition(". ")[0]


def results_page(done: Sequence[tuple[str, Table]], where: str) -> str:
    parts = [
        "# Results of one full run",
        "",
        "Written by `make bench ARGS=--write-results`; bench/README.md says how to read it. Read ratios, not times.",
        "",
        where + ".",
        "",
        *summary(done).replace("\n  ", "\n- ").replace("\n-", "\n\n-", 1).split("\n"),
    ]
    titles = dict(
        zip(SECTIONS, ("Speed", "Detection", "Over-escalation", "Embedded judge", "Journal", "Gate"), strict=True)
    )
    for section in SECTIONS:
        chosen = [table for name, table in done if name == section]
        if chosen:
            parts += ["", f"## {titles[section]}"]
        for table in chosen:
            parts += ["", *tables.markdown(table)]
    return "\n".join(parts) + "\n"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    made.add_argument("traces", nargs="*", type=Path, metavar="TRACE", help="trace files for the detection table")
    made.add_argument("--quick", action="store_true", help="a few seconds, to see that it works; the figures are noise")
    made.add_argument("--only", choices=SECTIONS, action="append", help="leave the other tables out")
    made.add_argument("--peers", type=Path, metavar="VENV", help="an environment with other scanners: bench/peers.py")
    made.add_argument("--json", type=Path, metavar="OUT", help="write the figures as JSON, too")
    made.add_argument("--write-results", action="store_true", help="write the tables to bench/RESULTS.md")
    return made


def exit_code(done: Sequence[tuple[str, Table]], *, quick: bool, stopped: bool) -> int:
    """A broken bound fails a full run; the figures of a quick one prove nothing either way."""
    if stopped:
        return 130
    return int(not quick and any(table.over() for _, table in done))


def main(arguments: Sequence[str] | None = None, gate: Gate | None = None) -> int:
    reader = parser()
    asked = reader.parse_args(arguments)
    if asked.write_results and (asked.quick or asked.only):
        reader.error("--write-results needs a whole run, without --quick and --only")
    gate = gate or Gate()
    try:
        listed = jobs(gate, asked.traces, asked.peers, quick=asked.quick)
    except LockgateError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    listed = [job for job in listed if not asked.only or job.section in asked.only]
    with progress(sum(job.weight for job in listed), shown=sys.stderr.isatty()) as (tick, advance):
        gate.scanner.scan("compiled before anything is measured")
        done, stopped = work_off(listed, tick, advance)
    where = machine()
    print(where + (", quick: the figures are noise" if asked.quick else "") + "\n")
    show(done)
    print(summary(done))
    if asked.json is not None:
        figures = {"machine": where, "quick": asked.quick, "tables": [tables.as_json(table) for _, table in done]}
        asked.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if stopped:
        print("stopped before the end", file=sys.stderr)
    elif asked.write_results:
        RESULTS.write_text(results_page(done, where), encoding="utf-8")
    return exit_code(done, quick=asked.quick, stopped=stopped)


if __name__ == "__main__":
    sys.exit(main())
