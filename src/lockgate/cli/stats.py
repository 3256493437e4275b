"""`lockgate stats`: where rulings were settled, what they took and cost, and which rules to look at first."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from errno import EISDIR
from time import time
from typing import TYPE_CHECKING, BinaryIO

from rich import box
from rich.table import Table
from rich.text import Text

from lockgate import assemble
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, format_duration, make_console, make_visible
from lockgate.cli.times import parse_since
from lockgate.core.errors import LockgateError, quoted
from lockgate.gate.ledger_lines import LedgerPasses, parse_ledger_line
from lockgate.sessions.cost_report import report_to_dict, summarize_costs
from lockgate.settings.prices import PRICES_DATE, cost_usd, find_price, parse_prices

if TYPE_CHECKING:
    from rich.console import Console

    from lockgate.cli.parser import Parser
    from lockgate.core.vocabulary import Ran
    from lockgate.gate.carried_sqlite import CarriedCounts
    from lockgate.gate.ledger_lines import LedgerEntry
    from lockgate.sessions.cost_report import CostReport, JudgeCosts
    from lockgate.settings.config import Settings
    from lockgate.settings.prices import OwnPrice

_HELP = """\
Adds up rulings: where they were settled, what each tier took and cost, and the rules whose escalations a
higher tier cleared (the tuning list). Without a file it reads this installation's ledger.

example:
  $ lockgate stats --since 7d
  $ lockgate check --json sessions.jsonl | lockgate stats -

`lockgate help costs` explains every figure.
"""

STDIN = "-"
# A ruling with all its findings and origins, as `lockgate check --json` prints it, is far shorter.
MAX_LINE_BYTES = 8 * 1024 * 1024
_MOST_RULES = 15
_BAR = 40
_SHORT_BAR = 24
# From this width on the tuning list also says who cleared a call.
_WIDE = 100
_AFTER = ("upheld", "open", "alone")


class _ReadCounts:
    """Counts of the lines that were read."""

    def __init__(self) -> None:
        self.lines = self.unreadable = self.untimed = 0


def describe(parser: Parser) -> None:
    parser.usage = "lockgate stats [FILE ...] [options]"
    parser.description = _HELP
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="ledgers, or what `lockgate check --json` printed; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--since", metavar="WHEN", help="only rulings since then: 2026-11-01, 2026-11-01T09:30, 7d, 12h"
    )
    parser.add_argument(
        "--price",
        metavar="MODEL=IN/OUT",
        action="append",
        default=[],
        help="count this model at these US dollars per million tokens",
    )
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    since_s = 0.0 if args.since is None else parse_since(args.since, time())
    settings = None if args.files and args.config is None else _settings(args)
    configured = {} if settings is None else parse_prices(settings.supervision.prices)
    own = {**configured, **parse_prices(args.price)}
    files, place = _ledger_files(args, settings)
    read = _ReadCounts()
    found = summarize_costs(_read_entries(files, since_s, read), _cost_function(own))
    if read.lines and read.unreadable == read.lines:
        raise LockgateError(
            f"no ruling in {', '.join(quoted(name) for name in files[:3])}",
            hint="stats reads a ledger, or what `lockgate check --json` printed",
        )
    carried = None if args.files or settings is None else _count_carried(settings)
    if args.json:
        told = _as_dict(found, own, read, since_s)
        if carried is not None:
            told["carried_texts"] = carried._asdict()
        print(json.dumps(told, ensure_ascii=True, indent=2))
    else:
        _draw(found, own, read, place)
        _draw_carried(carried)
    return Exit.CLEAR


def _settings(args: argparse.Namespace) -> Settings:
    return assemble.settings_from_environment(args.config)


def _count_carried(settings: Settings) -> CarriedCounts | None:
    """Return how much of what agents wrote from untrusted text is kept here."""
    store = assemble.carried_from_settings(settings)
    if store is None:
        return None
    with closing(store):
        return store.counts()


def _draw_carried(carried: CarriedCounts | None) -> None:
    if carried is None or not (carried.texts or carried.files):
        return
    screen, files = make_console(), format_count(carried.files, "file")
    said = f"{format_count(carried.texts, 'text')} that agents wrote from untrusted text, {files} untrusted whole"
    screen.print(Text(said, "dim"), soft_wrap=True)
    if carried.evicted:
        said = (
            f"{format_count(carried.evicted, 'text')} gave way and left only a mark: what held them is untrusted whole"
        )
        screen.print(Text(said, style="yellow"), soft_wrap=True)


def _ledger_files(args: argparse.Namespace, settings: Settings | None) -> tuple[tuple[str, ...], str]:
    """Return the files to read, and the path of this installation's ledger, which may not exist yet."""
    if args.files or settings is None:
        for name in args.files:
            # Checked before anything is added up.
            if name != STDIN and os.path.isdir(name):
                raise IsADirectoryError(EISDIR, os.strerror(EISDIR), name)
            if name != STDIN:
                os.stat(name)
        return tuple(args.files), ""
    ledger = assemble.ledger_from_settings(settings)
    if ledger is None:
        raise LockgateError(
            "this installation keeps no ledger: no home directory is known",
            hint="set HOME or XDG_STATE_HOME, or name files",
        )
    return tuple(map(str, ledger.files())), str(ledger.path)


def _read_entries(files: tuple[str, ...], since_s: float, read: _ReadCounts) -> Iterator[LedgerEntry | LedgerPasses]:
    for number, name in enumerate(files):
        for line in _lines(name):
            read.lines += 1
            entry = None if line is None else parse_ledger_line(line)
            if entry is None:
                read.unreadable += 1
            elif since_s and not entry.time_s:
                read.untimed += _count_rulings(entry)
            elif entry.time_s >= since_s:
                # `check` numbers its sessions from one; a ledger's ids are the same in every file of it.
                yield entry if entry.time_s else entry._replace(session=f"{number}:{entry.session}")


def _count_rulings(entry: LedgerEntry | LedgerPasses) -> int:
    return len(entry.latencies_us) if isinstance(entry, LedgerPasses) else 1


def _lines(name: str) -> Iterator[bytes | None]:
    if name == STDIN:
        yield from _split_lines(sys.stdin.buffer)
        return
    with open(name, "rb") as stream:
        yield from _split_lines(stream)


def _split_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the non-empty lines; None for one that is too long to be a ruling."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
            yield None
        elif not line.isspace():
            yield line


def _cost_function(own: Mapping[str, OwnPrice]) -> Callable[[Ran], float | None]:
    """Return a function that prices an answer: by --price, else by its recorded cost, else by the table."""

    def cost(ran: Ran) -> float | None:
        if ran.cached:
            return 0.0
        if ran.by not in own and ran.cost_usd is not None:
            return ran.cost_usd
        return cost_usd(ran.by, ran.tokens_in, ran.tokens_out, own, on=_today())

    return cost


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _model_prices(found: CostReport, own: Mapping[str, OwnPrice]) -> list[dict[str, object]]:
    """Return today's price of every model that was asked, from --price or the table."""
    listed: list[dict[str, object]] = []
    for name in dict.fromkeys(each.by for each in found.judges if each.by):
        row = find_price(name, on=_today())
        usd = own.get(name, (None, None) if row is None else (row.input_usd, row.output_usd))
        source = "--price" if name in own else None if row is None else row.source
        listed.append({"model": name, "input_usd": usd[0], "output_usd": usd[1], "from": source})
    return listed


def _as_dict(found: CostReport, own: Mapping[str, OwnPrice], read: _ReadCounts, since_s: float) -> dict[str, object]:
    return {
        **report_to_dict(found),
        "since": since_s or None,
        "unreadable_lines": read.unreadable,
        "untimed_rulings": read.untimed,
        "prices": {"noted": PRICES_DATE, "models": _model_prices(found, own)},
    }


def _draw(found: CostReport, own: Mapping[str, OwnPrice], read: _ReadCounts, place: str) -> None:
    screen = make_console()
    if not found.rulings:
        where = f" in {make_visible(place)}" if place else ""
        screen.print(Text(f"no rulings{where}" if read.lines else f"no rulings{where} yet"), soft_wrap=True)
        if where:
            screen.print(Text("requests that an abuse gate judged: lockgate audit show", style="dim"))
    else:
        _draw_funnel(screen, found)
        _draw_tiers(screen, found)
        _draw_costs(screen, found, own)
        _draw_rules(screen, found)
    if read.unreadable:
        screen.print(Text(f"{format_count(read.unreadable, 'line')} could not be read", style="yellow"))
    if read.untimed:
        said = f"{format_count(read.untimed, 'ruling')} left out by --since: their time was not recorded"
        screen.print(Text(said, style="yellow"))


def _draw_funnel(screen: Console, found: CostReport) -> None:
    when = f", {_format_clock(found.first_s)} to {_format_clock(found.last_s)}" if found.last_s else ""
    screen.print(
        Text.assemble(
            (f"{format_count(found.rulings, 'ruling')} in {format_count(found.sessions, 'session')}", "bold"),
            (when, "dim"),
        )
    )
    screen.print(Text(", ".join(f"{number:,} {action}" for action, number in found.actions.items())))
    if any(found.would_be.values()):
        would = " and ".join(f"{number:,} {action}" for action, number in found.would_be.items() if number)
        screen.print(Text(f"of these, in observe mode, would have been: {would}", style="yellow"))
    table = _make_table("settled at", "calls", "share", "")
    plain, length = screen.options.ascii_only, _BAR if screen.width >= _WIDE else _SHORT_BAR
    # Without a supervisor, a person decides what reaches tier 3.
    top = "the supervisor" if any(each.tier == 3 and each.by for each in found.judges) else "a person"
    names = ("tier 1, the rules", "tier 2, triage", f"tier 3, {top}")
    for name, calls in zip(names, found.reached, strict=True):
        share = calls / found.rulings
        bar = Text(draw_bar(share, length, plain=plain), "cyan")
        table.add_row(name, f"{calls:,}", _format_percent(share), bar)
    screen.print(table)
    if found.undecided:
        said = f"{format_count(found.undecided, 'escalated call')} that no judge ruled on: the policy decided"
        screen.print(Text(said, style="yellow"))


def draw_bar(share: float, length: int = _BAR, *, plain: bool = False) -> str:
    """Return a bar for a share of all calls."""
    full, empty = ("#", ".") if plain else ("█", "·")
    return (full * round(share * length)).ljust(length, empty)


def _draw_tiers(screen: Console, found: CostReport) -> None:
    table = _make_table("tier", "asked", "cached", "cleared", "held", "unclear", "p50", "p95")
    for each in found.judges:
        several = sum(other.tier == each.tier for other in found.judges) > 2
        if each.tier > 1 and not each.by and not several:
            continue
        name = "1  rules" if each.tier == 1 else f"{each.tier}  {make_visible(each.by) or 'all of them'}"
        counts = (each.answers - each.cached, each.cached, each.cleared, each.held, each.unclear)
        shown = [f"{count:,}" for count in counts] if each.tier > 1 else [f"{each.answers:,}", "", "", "", ""]
        table.add_row(Text(name), *shown, _format_time(each.p50_us), _format_time(each.p95_us))
    screen.print(table)


def _draw_costs(screen: Console, found: CostReport, own: Mapping[str, OwnPrice]) -> None:
    judges = [each for each in found.judges if each.by]
    if not judges:
        screen.print(Text("no judge was asked, so nothing was spent"))
        return
    listed = {str(each["model"]): each for each in _model_prices(found, own)}
    table = _make_table("model", "tokens in", "tokens out", "$/M in", "$/M out", "cost")
    for each in judges:
        price = listed[each.by]
        prices = (_format_price(price["input_usd"]), _format_price(price["output_usd"]))
        table.add_row(
            Text(make_visible(each.by)), f"{each.tokens_in:,}", f"{each.tokens_out:,}", *prices, _format_cost(each)
        )
    screen.print(table)
    least = "at least " if found.unpriced else ""
    spent = f"{least}{_format_usd(found.cost_usd)}, and {_format_time(found.wait_us)} of waiting"
    _print_labelled(screen, "spent", spent, "bold")
    if found.always is None:
        _print_labelled(screen, "always supervisor", "unknown: there is no answer of a supervisor with a known cost")
    else:
        always = found.always
        saved = not found.unpriced and 0 < found.cost_usd < always.cost_usd
        less = f" ({_format_percent(1 - found.cost_usd / always.cost_usd)} less was spent)" if saved else ""
        _print_labelled(
            screen,
            "always supervisor",
            f"{_format_usd(always.cost_usd)}, and {_format_time(always.wait_us)} of waiting{less}",
        )
        means = f"{_format_usd(always.mean_usd)} and {_format_time(always.mean_us)}"
        _print_labelled(
            screen, "", f"{found.rulings:,} × {means}, the mean of {format_count(always.answers, 'answer')}", "dim"
        )
    if found.unpriced:
        missing = "without a known price, or without a count of tokens; see --price"
        _print_labelled(screen, "", f"{format_count(found.unpriced, 'question')} {missing}", "yellow")
    _print_labelled(
        screen, "", f"list prices noted {PRICES_DATE}; an answer costs what it did when it was given", "dim"
    )


def _print_labelled(screen: Console, label: str, text: str, style: str = "") -> None:
    screen.print(Text.assemble((f"{label:20}", "dim"), (text, style)), soft_wrap=True)


def _format_cost(judged: JudgeCosts) -> str:
    if judged.unpriced and judged.unpriced == judged.answers - judged.cached:
        return "unknown"
    return f"{'≥ ' if judged.unpriced else ''}{_format_usd(judged.cost_usd)}"


def _draw_rules(screen: Console, found: CostReport) -> None:
    if not found.rules:
        return
    wide = screen.width >= _WIDE
    table = _make_table("rule", "sent up", "cleared", *(("tier 2", "tier 3", "person") if wide else ()), *_AFTER)
    for row in found.rules[:_MOST_RULES]:
        who = (row.triage, row.supervisor, row.person) if wide else ()
        numbers = (row.escalations, row.cleared, *who, row.upheld, row.undecided, row.alone)
        table.add_row(Text(make_visible(row.rule), "magenta"), *(f"{number:,}" for number in numbers))
    screen.print(table)
    rest = len(found.rules) - _MOST_RULES
    more = f"; {format_count(rest, 'rule')} more with --json" if rest > 0 else ""
    said = f"open: no judge ruled on it; alone: cleared, and no other rule was against it{more}"
    screen.print(Text(said, style="dim"))


def _make_table(first: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    return table


def _format_percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _format_usd(amount: float) -> str:
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.6f}" if amount < 0.01 else f"${amount:.4f}"


def _format_price(usd: object) -> str:
    if not isinstance(usd, int | float):
        return "unknown"
    return f"{usd:.2f}" if round(usd, 2) == usd else f"{usd}"


def _format_time(us: float | None) -> str:
    if us is None:
        return "-"
    if us < 1_000_000:
        return format_duration(us)
    seconds = us / 1_000_000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _format_clock(at_s: float) -> str:
    try:
        return datetime.fromtimestamp(at_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "an odd time"
