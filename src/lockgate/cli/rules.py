"""`lockgate rules`: list the checks of Tier 1, or explain one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_console, make_visible
from lockgate.core.errors import LockgateError, quoted, suggest_closest
from lockgate.core.ruling.explanations import ENTRIES, find_entry

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.core.ruling.explanations import CatalogueEntry

_HELP = """\
Lists what Tier 1 looks for. A rule never blocks by itself: it escalates.

example:
  $ lockgate rules --family concealment
  $ lockgate rules seed:pipe-to-shell
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate rules [ID] [options]"
    parser.description = _HELP
    parser.add_argument("id", nargs="?", metavar="ID", help="explain this one: what, why, a hit and a miss")
    parser.add_argument("--family", metavar="NAME", help="only this family")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    entries = _choose_entries(args.id, args.family)
    if args.json:
        print(json.dumps([asdict(entry) for entry in entries], indent=2))
    elif args.id:
        _draw_entry(entries[0])
    else:
        _draw_list(entries)
    return Exit.CLEAR


def _choose_entries(rule: str | None, family: str | None) -> Sequence[CatalogueEntry]:
    if rule is not None:
        found = find_entry(rule)
        if found is None:
            hint = suggest_closest(rule, [entry.id for entry in ENTRIES]) or "lockgate rules lists them all"
            raise LockgateError(f"unknown rule {quoted(rule)}", hint=hint)
        return [found]
    families = list(dict.fromkeys(entry.family for entry in ENTRIES))
    if family is not None and family not in families:
        raise LockgateError(
            f"unknown family {quoted(family)}", hint=suggest_closest(family, families) or f"use {', '.join(families)}"
        )
    return [entry for entry in ENTRIES if family in (None, entry.family)]


def _draw_list(entries: Sequence[CatalogueEntry]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule", no_wrap=True, style="magenta")
    table.add_column("counts in", no_wrap=True, style="cyan")
    table.add_column("what")
    for entry in entries:
        table.add_row(Text(entry.id), Text(_COUNTS[entry.scope]), Text(make_visible(entry.what)))
    screen = make_console()
    screen.print(table)
    screen.print(Text(f"{format_count(len(entries), 'rule')}; `lockgate rules ID` explains one", style="dim"))


def _draw_entry(entry: CatalogueEntry) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = (
        ("what", entry.what),
        ("why", entry.why),
        ("counts in", _COUNTS_IN_FULL[entry.scope]),
        ("a hit", entry.hit),
        ("a miss", entry.miss),
        ("pattern", entry.pattern),
        ("family", entry.family),
        ("OWASP", entry.owasp),
    )
    for name, text in rows:
        if text:
            table.add_row(name, Text(make_visible(text)))
    screen = make_console()
    screen.print(Text(entry.id, style="bold magenta"))
    screen.print(table)


_COUNTS = {
    "agent": "blocks, arguments",
    "related": "related blocks, arguments",
    "arguments": "arguments",
    "call": "the call",
}
_COUNTS_IN_FULL = {
    "agent": "arguments, and any recent untrusted block",
    "related": "arguments, and a recent untrusted block that the call is related to",
    "arguments": "arguments only",
    "call": "the call as a whole: its tool and where its arguments came from",
}
