"""`lockgate config`: show the configuration and the source of each value, or validate it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import make_console, make_visible
from lockgate.service.notifications import parse_targets
from lockgate.settings.config import SYSTEM_FILE

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.settings.config import Settings

_HELP = """\
Shows the configuration in force in this folder, or says what is wrong with it: also a key, a package or a
witness that a gate would refuse to start without.

example:
  $ lockgate config show
  $ lockgate config validate --config lockgate.toml

`lockgate help configuration` describes every key and where files are looked for.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate config show|validate [options]"
    parser.description = _HELP
    parser.add_argument("what", metavar="show|validate", choices=("show", "validate"), help="what to do")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run, meant="name a file as --config FILE")


def run(args: argparse.Namespace) -> Exit:
    settings = assemble.settings_from_environment(args.config)
    if args.what == "validate":
        _check_can_start(settings)
    if args.json:
        print(json.dumps(_as_json(settings, show=args.what == "show"), indent=2))
    elif args.what == "show":
        _draw_settings(settings)
    else:
        _print_valid(settings)
    return Exit.CLEAR


def _check_can_start(settings: Settings) -> None:
    """Raise what a gate of these settings would refuse to start with: a wrong name, a missing key, extra or witness."""
    assemble.models_from_settings(settings)
    assemble.gate_from_settings(settings, keep_records=False)
    parse_targets(settings.notify)
    if settings.audit.enabled:
        # Opens nothing: a journal begins with the first ruling.
        assemble.journal_from_settings(settings)


def _as_json(settings: Settings, *, show: bool) -> dict[str, object]:
    files = [
        {
            "role": source.role.value,
            "file": None if source.file is None else str(source.file),
            "keys": list(source.keys),
            "unused": source.unused,
        }
        for source in settings.sources
    ]
    value: dict[str, object] = {"valid": True, "policy": settings.policy.hash, "files": files}
    if show:
        value["settings"] = [
            {"key": each.key, "value": each.value, "origin": each.origin} for each in settings.list_values()
        ]
    return value


def _draw_settings(settings: Settings) -> None:
    screen = make_console()
    rows = [(each.key, make_visible(each.value), make_visible(each.origin)) for each in settings.list_values()]
    # A long list of patterns must not push every other origin off the screen.
    width = min(64, max(len(f"{key} = {value}") for key, value, _ in rows))
    for key, value, origin in rows:
        gap = " " * (width - len(f"{key} = {value}"))
        line = Text.assemble((key, "cyan"), " = ", value, gap, (f"  # {origin}", "dim"))
        screen.print(line, soft_wrap=True)
    for said in _file_lines(settings):
        screen.print(Text(said), soft_wrap=True)
    screen.print(Text(f"policy {settings.policy.hash}", style="dim"), soft_wrap=True)


def _print_valid(settings: Settings) -> None:
    print("ok: the configuration is valid")
    for line in _file_lines(settings):
        print(line)


def _file_lines(settings: Settings) -> list[str]:
    lines = [
        f"{source.role.value} file {make_visible(str(source.file))}: {make_visible(source.unused) or 'read'}"
        for source in settings.sources
        if source.file is not None
    ]
    if rows := len(settings.policy.effect_rows):
        lines.append(f"rows of programs and tools: {rows}")
    places = f"{SYSTEM_FILE}, your own config.toml, ./lockgate.toml and [tool.lockgate] of ./pyproject.toml"
    return (
        [*lines, f"looked for: {places}"]
        if lines
        else [f"no file found, so these are the defaults; looked for: {places}"]
    )
