"""`lockgate help`: the documentation that comes with the package, page by page."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import make_console
from lockgate.core.errors import LockgateError, quoted, suggest_closest
from lockgate.runtime.shipped_pages import find_page, list_pages, page_text

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from lockgate.cli.parser import Parser

_HELP = """\
Shows a page of the documentation, which is installed with Lockgate; without a topic, the list of pages.
A topic is a page's name, with its folder where two pages have the same one, or a command.

example:
  $ lockgate help
  $ lockgate help claude-code
  $ lockgate help reference/service

Exit code 0: shown; 2: there is no such page.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate help [TOPIC]"
    parser.description = _HELP
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="a page, or a command")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    pages = list_pages()
    if args.topic is None:
        _print_topics(pages)
        return Exit.CLEAR
    from lockgate.cli.main import COMMANDS, make_parsers

    topic = args.topic.removesuffix(".md").removeprefix("docs/")
    page = find_page(topic, pages)
    if page is not None:
        _print_page(page, pages)
        if topic in COMMANDS:
            print(f"\nlockgate {topic} --help lists the options of the command")
    elif topic in COMMANDS:
        print(make_parsers([topic])[topic].format_help(), end="")
    else:
        titled = [name for name, path in pages.items() if topic.lower() in re.findall(r"\w+", _title(path).lower())]
        hint = f"see `lockgate help {titled[0]}`" if titled else suggest_closest(topic, [*pages, *COMMANDS])
        hint = hint or "lockgate help lists the pages"
        raise LockgateError(f"no page about {quoted(args.topic)}", hint=hint)
    return Exit.CLEAR


def _print_topics(pages: dict[str, Path]) -> None:
    if not pages:
        raise LockgateError("the pages are not installed", hint="pip install --force-reinstall --no-deps lockgate")
    width = max(map(len, pages))
    folder = ""
    for topic, path in pages.items():
        if path.parent.name != folder:
            print(("\n" if folder else "") + path.parent.name)
            folder = path.parent.name
        print(f"  {topic:<{width}}  {_title(path)}")
    print("\nlockgate help TOPIC shows one; lockgate COMMAND --help lists the options of a command")


def _title(path: Path) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return ""


def _print_page(path: Path, pages: dict[str, Path]) -> None:
    text = page_text(path, pages)
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.markdown import Markdown

    make_console().print(Markdown(text, hyperlinks=False))
