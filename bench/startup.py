"""What comes before the first check: starting a process, getting the rules ready, and what an install brings."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from statistics import mean, median
from time import thread_time

from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import Gate
from speed import Effort, Tick, least, measure
from tables import Check, Row, Table, time_text, times


def start(effort: Effort, tick: Tick) -> Table:
    """CPU of whole processes: the least of interleaved runs, since everything else a machine does only adds."""
    commands = {
        "python -c pass": ["-c", "pass"],
        "python -c 'import lockgate'": ["-c", "import lockgate"],
        "lockgate --version": ["-c", "from lockgate.cli.main import main; raise SystemExit(main(['--version']))"],
        "python -c 'from lockgate import Gate'": ["-c", "from lockgate import Gate"],
    }
    spent: dict[str, list[float]] = {name: [] for name in commands}
    order, chance = list(commands), random.Random(2)
    for _ in range(effort.start_rounds):
        chance.shuffle(order)
        tick("start-up")
        for name in order:
            spent[name].append(process_cpu([sys.executable, *commands[name]]))
    fewest = {name: min(figures) for name, figures in spent.items()}
    base = fewest["python -c pass"]
    rows = [
        Row(
            {"process": name, "CPU": time_text(figure), "of python -c pass": times(figure / base)},
            (Check("import", figure / base),) if name == "python -c 'import lockgate'" else (),
            {"cpu_s": figure},
        )
        for name, figure in fewest.items()
    ]
    return Table("Speed 6. Start-up, CPU of a whole process", ("process", "CPU", "of python -c pass"), rows)


def process_cpu(command: Sequence[str]) -> float:
    """User and system time of a process from its start to its end."""
    if not hasattr(os, "wait4"):
        return float("nan")
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise RuntimeError(f"`{' '.join(command)[:80]}` ended with status {started.returncode}")
    return used.ru_utime + used.ru_stime


class Kept(dict[str, bytes]):
    """Compiled rules kept in memory: reading and checking a sealed file is measured with whole processes."""

    read = dict.get

    def write(self, name: str, content: bytes) -> None:
        self[name] = content


def rules_ready(gate: Gate, tick: Tick) -> Table:
    """What a process pays once for its rules: compiled, or loaded from the cache."""
    tick("compiling the rules")
    rules, kept = gate.scanner.rules, Kept()
    began = thread_time()
    fresh = Scanner(rules, kept)
    compiled = thread_time() - began
    fresh.make_ready()
    all_compiled = thread_time() - began

    def load() -> None:
        Scanner(rules, kept).make_ready()

    loaded = median(measure({"load": load}, 5)["load"])
    first, again = first_findings(fresh)
    rows = [
        Row({"rules": name, "CPU": time_text(figure)}, (), {"cpu_s": figure})
        for name, figure in (
            ("compiled, where no compiled copy fits", compiled),
            ("compiled, all that other texts and doubtful calls need", all_compiled),
            ("loaded and checked, as every later one does", loaded),
            ("the first finding of a rule in a process, mean", mean(first)),
            ("the same, dearest rule", max(first)),
            ("every further finding of it, mean", mean(again)),
        )
    ]
    size = sum(map(len, kept.values())) / 1e6
    title = f"Speed 7. {len(fresh.rules)} rules, once per process; the databases have {size:.1f} MB"
    return Table(title, ("rules", "CPU"), rows)


def first_findings(scanner: Scanner) -> tuple[list[float], list[float]]:
    """CPU of turning each rule's first hit into a finding, and of doing it once more."""
    first: list[float] = []
    again: list[float] = []
    seen: set[str] = set()
    for rule in scanner.rules:
        for part in scanner.scan(rule.hit).parts:
            for hit in part.hits:
                if hit.rule.id not in seen:
                    seen.add(hit.rule.id)
                    first.append(least(lambda hit=hit, part=part: scanner.finding_from_hit(hit, part, "block"), 1))
                    again.append(least(lambda hit=hit, part=part: scanner.finding_from_hit(hit, part, "block")))
    return first, again


def core_install(src: Path) -> Table:
    """What `pip install lockgate` brings: packages besides ours, and everything together on disk."""
    project = tomllib.loads((src.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pending, sizes = list(project["dependencies"]), {}
    while pending:
        requirement = pending.pop()
        name = re.match(r"[\w.-]+", requirement)
        if name is None or re.search(r";.*\bextra\b", requirement):
            continue
        try:
            package = metadata.distribution(name[0])
        except metadata.PackageNotFoundError:
            continue  # asked for elsewhere: another system or an older Python
        key = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
        if key not in sizes:
            sizes[key] = sum(_size(Path(str(file.locate()))) for file in package.files or ())
            pending += package.requires or ()
    # The embedded judge's model lies in the same wheel, and is nothing without its extra: it is counted with that.
    ours = [file for file in (src / "lockgate").rglob("*") if file.suffix not in (".pyc", ".onnx")]
    sizes["lockgate"] = sum(_size(file) for file in ours if file.name != "tokenizer.json")
    megabytes = sum(sizes.values()) / 1e6
    rows = [Row({"package": name, "size": f"{size / 1e6:.2f} MB"}) for name, size in sorted(sizes.items())]
    rows.append(
        Row(
            {"package": f"{len(sizes) - 1} besides ours", "size": f"{megabytes:.1f} MB"},
            (Check("packages", len(sizes) - 1), Check("megabytes", megabytes)),
            {"packages": len(sizes) - 1, "megabytes": megabytes},
        )
    )
    return Table("Speed 8. The core install, without the embedded judge's model", ("package", "size"), rows)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0
