"""The command line's grammar: argparse, with errors like all our others."""

from __future__ import annotations

import argparse

from lockgate.core.errors import LockgateError

TYPE_CHECKING = False  # what `typing` has, without the time it takes to load at every start
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Like argparse's, but its errors look like all our others, and a prefix of an option is not that option."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("allow_abbrev", False)
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings)  # type: ignore[arg-type]  # argparse passes what it was given itself

    def error(self, message: str) -> NoReturn:
        raise LockgateError(message, hint=f"{self.prog} --help lists the options")


def parse_whole_number(text: str, least: int, most: int) -> int:
    """Return the whole number in an option; raise argparse's error when it is outside the bounds."""
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least:,} to {most:,}")
    return int(text)
