"""Figures as values: a table of rows, the bounds they are held against, and three ways to write them down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Bound(NamedTuple):
    """A promise of the project about one figure; `unit` is how the figure is written."""

    limit: float
    unit: str
    least: bool = False

    def holds(self, value: float) -> bool:
        # A figure that could not be computed (NaN) has not kept its promise.
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {in_unit(self.limit, self.unit)}"


# Every promise the bench can check, once. A row names the one it is held against.
BOUNDS: Mapping[str, Bound] = {
    "block, ascii": Bound(3, "×"),
    "block, multilingual": Bound(20, "×"),
    "check, session": Bound(1 / 1000, "1/n"),
    "check, arguments": Bound(10, "×"),
    "growth": Bound(1.25, "exponent"),
    "hostile": Bound(40, "×"),
    "effects, ordinary": Bound(60, " µs"),
    "effects, hostile": Bound(50, " ms"),
    "peer": Bound(50, "×", least=True),
    "import": Bound(3, "×"),
    "packages": Bound(8, ""),
    "megabytes": Bound(25, "MB"),
    "attacks": Bound(95, "%", least=True),
    "ordinary, clean": Bound(3, "%"),
    "ordinary, poisoned": Bound(30, "%"),
    "control": Bound(10, "%"),
    "over": Bound(10, "%"),
    "judge, window": Bound(100, " ms"),
    "judge, start": Bound(1.5, " s"),
    "judge, memory": Bound(250, "MB"),
    "judge, kept": Bound(90, "%", least=True),
    "judge, cleared": Bound(60, "%", least=True),
    "judge, form": Bound(15, "%"),
    "tampering": Bound(100, "%", least=True),
    "gate, requests": Bound(80, "%", least=True),
    "gate, p99": Bound(1.25, "×"),
    "gate, deadline": Bound(1.25, "×"),
    "gate, others": Bound(80, "%", least=True),
    # Hanging "does not slow other requests": held against a provider that is asked as often and answers, since asking
    # one is work whether it answers or not. No slowing is 1×; the rest is for what two runs of one thing differ by.
    "gate, waiting": Bound(0.9, "×", least=True),
    "gate, waiting p99": Bound(1.25, "×"),
    "service, CPU": Bound(1, " ms"),
    "service, rate": Bound(35, "%", least=True),
    "service, p99": Bound(4, "×"),
    "bulk, rate": Bound(85, "%", least=True),
    "bulk, memory": Bound(1.15, "×"),
}


def in_unit(value: float, unit: str) -> str:
    if unit == "1/n":
        return f"1/{1 / value:,.0f}" if value > 0 else "-"
    if unit == "exponent":
        return f"n^{value:.2f}"
    if unit == "%":
        return f"{value:.1f} %" if value % 1 else f"{value:.0f} %"
    number = f"{value:,.0f}" if value >= 100 or not value % 1 else f"{value:.3g}"
    return f"{number} MB" if unit == "MB" else f"{number}{unit}"


class Check(NamedTuple):
    """One figure and the bound it is held against."""

    bound: str
    value: float

    @property
    def ok(self) -> bool:
        return BOUNDS[self.bound].holds(self.value)

    def __str__(self) -> str:
        return f"{BOUNDS[self.bound]} {'ok' if self.ok else 'OVER'}"


@dataclass(frozen=True, slots=True)
class Row:
    """Cells by column, the checks made on them, and the bare numbers for machines."""

    cells: Mapping[str, str]
    checks: tuple[Check, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`ok`, `over`, or nothing where no bound is set."""
        if not self.checks:
            return ""
        return "ok" if all(check.ok for check in self.checks) else "over"


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    note: str = ""
    # The leading columns hold names and are written to the left.
    names: int = 1

    def over(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == "over"]


BOUND_COLUMN = "bound"


def lines(table: Table) -> list[list[str]]:
    """The cells as they are written, with the bounds as the last column where a row has any."""
    bounded = any(row.checks for row in table.rows)
    head = [*table.columns, BOUND_COLUMN] if bounded else list(table.columns)
    body = [
        [*(row.cells.get(name, "") for name in table.columns), *([", ".join(map(str, row.checks))] if bounded else [])]
        for row in table.rows
    ]
    return [head, *body]


def plain(table: Table) -> Iterator[str]:
    written = lines(table)
    widths = [max(len(line[at]) for line in written) for at in range(len(written[0]))]
    yield table.title
    for number, line in enumerate(written):
        yield (
            "  "
            + "  ".join(
                cell.ljust(width) if _leftwards(table, at) else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
        )
        if number == 0:
            yield "  " + "  ".join("-" * width for width in widths)
    if table.note:
        yield f"  {table.note}"


def markdown(table: Table) -> Iterator[str]:
    head, *body = lines(table)
    yield f"### {table.title}\n"
    yield _pipes(head)
    yield _pipes(["---" if _leftwards(table, at) else "---:" for at in range(len(head))])
    for line in body:
        yield _pipes(line)
    if table.note:
        yield f"\n{table.note}"


def rich_table(table: Table) -> object:
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(title=table.title, title_justify="left", caption=table.note or None, caption_justify="left")
    head, *body = lines(table)
    for at, name in enumerate(head):
        drawn.add_column(name, justify="left" if _leftwards(table, at) else "right", overflow="fold")
    for row, line in zip(table.rows, body, strict=True):
        style = {"over": "bold red", "ok": "green"}.get(row.verdict, "")
        drawn.add_row(*(Text(cell, style=style if at == len(table.columns) else "") for at, cell in enumerate(line)))
    return drawn


def as_json(table: Table) -> dict[str, object]:
    return {
        "title": table.title,
        "columns": list(table.columns),
        "note": table.note,
        "rows": [
            {
                "cells": dict(row.cells),
                "numbers": dict(row.numbers),
                "verdict": row.verdict,
                "checks": [
                    {
                        "bound": check.bound,
                        "limit": BOUNDS[check.bound].limit,
                        "value": check.value if check.value == check.value else None,
                        "ok": check.ok,
                    }
                    for check in row.checks
                ],
            }
            for row in table.rows
        ],
    }


def _leftwards(table: Table, at: int) -> bool:
    return at < table.names or at == len(table.columns)


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def time_text(seconds: float) -> str:
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{seconds:.2f} s"


def times(ratio: float) -> str:
    return (
        "-"
        if ratio != ratio
        else f"{ratio:,.0f}×"
        if ratio >= 100
        else f"{ratio:.2f}×"
        if ratio < 10
        else f"{ratio:.1f}×"
    )


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part}/{whole})" if whole else "-"


def percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else float("nan")


def size_text(size: int) -> str:
    return f"{size // (1 << 20)} MB" if size >= 1 << 20 else f"{size // 1024} KB" if size >= 1024 else f"{size} B"
