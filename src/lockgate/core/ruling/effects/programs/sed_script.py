"""What a script of `sed` runs and writes, read from left to right; one that cannot be read may run anything."""

from __future__ import annotations

import re

# A delimiter inside `[…]` ends no part. A set is short, so that the search for its end takes no time.
_SHIELD = r"\[\^?\]?(?:\[:[a-z]{1,9}:\]|[^\]\n]){0,200}+\]|"


def _part(delimiter: str, shield: str = "") -> str:
    """Return the pattern of a part up to and with its delimiter, which ends nothing inside a shield."""
    return rf"(?:(?!(?P={delimiter}))(?:\\[\s\S]|{shield}[^\\]))*+(?P={delimiter})"


def _command() -> re.Pattern[str]:
    """Return the pattern of one command behind the lines that it is for: `2`, `$`, `/a/,+3`, `\\|a|!`."""
    first, last = (
        rf"(?:\d++[ \t]*+(?:~[ \t]*+\d*+)?+|\$|(?:\\|(?=/))(?P<{name}>[\s\S]){_part(name, _SHIELD)}[ \tIM]*+)?+"
        for name in ("first", "last")
    )
    blanks, flags = r"[ \t\r\f\v]*+", r"[ \tgpiImM0-9]*+"
    commands = (
        r"(?P<runs>e)",
        r"[wW](?P<file>[^\n]*+)",
        r"[rR#][^\n]*+",
        r"[aic](?:[^\n\\]|\\[\s\S]|\\\Z)*+",
        r"[:btTvlLqQ][ \t]*+[^\s;}]*+",
        rf"s(?P<s>[\s\S]){_part('s', _SHIELD)}{_part('s')}{flags}(?:(?P<result>e)|w(?P<changed>[^\n]*+))?",
        rf"y(?P<y>[\s\S]){_part('y')}{_part('y')}",
        r"[{}=dDgGhHnNpPxzF]",
    )
    lines = rf"{first}{blanks}(?:,{blanks}(?:[+~][ \t]*+\d++|{last}))?+[ \t!]*+"
    return re.compile(rf"[\s;{{}}]*+(?:(?P<end>\Z)|{lines}(?:{'|'.join(commands)}))")


_COMMAND = _command()


def files_of_sed(script: str) -> frozenset[str] | None:
    """Return the files that a script writes to besides its own; nothing for one that runs a command."""
    at, writes = 0, set[str]()
    while match := _COMMAND.match(script, at):
        if match["end"] is not None:
            return frozenset(writes)
        if match["runs"] or match["result"]:
            break
        writes.update(path.strip() for path in match.group("file", "changed") if path is not None)
        at = match.end()
    return None
