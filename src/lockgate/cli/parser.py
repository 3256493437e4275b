"""The command line's grammar: argparse, with errors like all our others."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from functools import partial

from lockgate.core.errors import LockgateError

TYPE_CHECKING = False  # what `typing` has, without the time it takes to load at every start
if TYPE_CHECKING:
    from typing import NoReturn

# Longer lines are hard to read, however wide the terminal is.
MOST_COLUMNS = 120
_LIST_WORD = re.compile(r" +\S+(?: \S+)* {2,}")


class HelpFormatter(argparse.HelpFormatter):
    """Wraps prose to the terminal; keeps examples, lists and paragraphs apart."""

    def __init__(self, prog: str, width: int | None = None) -> None:
        super().__init__(prog, width=width or min(shutil.get_terminal_size().columns, MOST_COLUMNS) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        pieces: list[str] = []
        for line in text.rstrip().splitlines():
            # A sentence about exit codes begins a line of its own, as people look for it.
            goes_on = pieces and pieces[-1][:1].strip() and line[:1].strip() and not line.startswith("Exit code")
            if goes_on:
                pieces[-1] += f" {line}"
            else:
                pieces.append(line)
        return "\n".join(self._wrap(piece, width, indent) for piece in pieces) + "\n"

    def _wrap(self, line: str, width: int, indent: str) -> str:
        # What follows a word of a list stays beside it; other indented lines are examples, and stay whole.
        head = _LIST_WORD.match(line)
        if line.startswith(" ") and (head is None or line.startswith("  $")):
            return indent + line
        return textwrap.fill(
            line,
            width,
            initial_indent=indent,
            subsequent_indent=indent + " " * len(head[0] if head else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )


class Parser(argparse.ArgumentParser):
    """Like argparse's, but its errors look like all our others, and a prefix of an option is not that option."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("allow_abbrev", False)
        settings.setdefault("formatter_class", HelpFormatter)
        super().__init__(**settings)  # type: ignore[arg-type]  # argparse passes what it was given itself

    def error(self, message: str) -> NoReturn:
        raise LockgateError(message, hint=f"{self.prog} --help lists the options")


def parse_whole_number(text: str, least: int, most: int) -> int:
    """Return the whole number in an option; raise argparse's error when it is outside the bounds."""
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least:,} to {most:,}")
    return int(text)


parse_port = partial(parse_whole_number, least=0, most=65_535)
parse_count = partial(parse_whole_number, least=1, most=100_000)
