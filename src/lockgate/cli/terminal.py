"""Text for a terminal: what an attacker wrote is shown, and never controls the terminal.

Escape sequences could repaint a PAUSE as a CONTINUE, bidirectional controls could reorder it, invisible characters
hide in it. Everything that is not plainly visible is therefore shown by its number.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # what `typing` has, without the time it takes to load at every start
if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import Console

# What a terminal shows as nothing although Unicode counts it as letters, marks or symbols.
_BLANK = frozenset(
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),  # joiner, fillers, inherent vowels, blanks
        *(*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),  # variation selectors
    ]
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# More marks than any script stacks on one letter: they would be drawn over the lines above and below.
_MOST_MARKS = 4
# The width of output that goes to a file or a pipe.
PIPE_WIDTH = 100


def make_visible(text: str) -> str:
    """Return the text on one line with every character visible: `\\x1b`, `\\u{200b}`, `\\n` for those that are not."""
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category

    shown: list[str] = []
    marks = 0
    for ch in text:
        marks = marks + 1 if not ch.isascii() and category(ch) in ("Mn", "Me") else 0
        if ch.isprintable() and ord(ch) not in _BLANK and marks <= _MOST_MARKS:
            shown.append(ch)
        else:
            shown.append(_SHORT.get(ch) or (f"\\x{ord(ch):02x}" if ord(ch) < 0x100 else f"\\u{{{ord(ch):x}}}"))
    return "".join(shown)


def excerpt(text: str, limit: int) -> str:
    """Return the visible beginning of a text; it is cut first, so that a long text costs little."""
    return make_visible(text[:limit]) + ("…" if len(text) > limit else "")


def format_duration(us: float) -> str:
    if us < 10:
        return f"{us:.1f} µs"
    return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.1f} ms"


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def make_console(stream: TextIO | None = None) -> Console:
    """Return a console for a command: colour if the terminal wants it, and no markup in printed text."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process with 1, which here means that a call was flagged.
            raise  # called while the error is handled

    stream = sys.stdout if stream is None else stream
    terminal = stream.isatty()

    def made(*, colour: bool) -> Console:
        return Screen(
            file=stream,
            force_terminal=terminal,
            color_system="auto" if colour else None,
            width=None if terminal else PIPE_WIDTH,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )

    drawn = made(colour=True)
    # With NO_COLOR, rich would still print bold and underlined text; a user who sets it wants neither.
    return made(colour=False) if drawn.no_color else drawn
