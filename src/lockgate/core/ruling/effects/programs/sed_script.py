"""What a script of `sed` runs and writes, read from left to right.

A delimiter inside `[…]` ends a part for some versions of `sed` and not for others, so a script is read both ways. One
that cannot be read in either way counts as one that runs something.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class SedScript(NamedTuple):
    """Whether a script runs a command, and the files it writes to besides its own."""

    runs: bool
    writes: frozenset[str] = frozenset()


# Names inside a set are short and hold no bracket: else a search for the end of a name would start at every bracket.
_NAME = r"\[:[a-z]{1,9}:\]|\[=.=\]|\[\.(?:.|[^\[\]\n.]{2,20})\.\]"
# For each bracket the end of its set is looked for.
_MOST_SETS = 200
_SET = rf"\[\^?\]?(?:{_NAME}|[^\]\n])*+\]"


def _part(delimiter: str, shield: str) -> str:
    """Return the pattern of a part up to and with its delimiter, which ends nothing inside a shield."""
    return rf"(?:(?!(?P={delimiter}))(?:\\[\s\S]|{shield}[^\\]))*+(?P={delimiter})"


def _command(shield: str) -> re.Pattern[str]:
    """Return the pattern of one command behind the lines that it is for: `2`, `$`, `/a/,+3`, `\\|a|!`."""
    first, last = (
        rf"(?:\d++[ \t]*+(?:~[ \t]*+\d*+)?+|\$|(?:\\|(?=/))(?P<{name}>[\s\S]){_part(name, shield)}[ \tIM]*+)?+"
        for name in ("first", "last")
    )
    blanks, flags = r"[ \t\r\f\v]*+", r"[ \tgpiImM0-9]*+"
    commands = (
        r"(?P<runs>e)",
        r"[wW](?P<file>[^\n]*+)",
        r"[rR#][^\n]*+",
        r"[aic](?:[^\n\\]|\\[\s\S]|\\\Z)*+",
        r"[:btTvlLqQ][ \t]*+[^\s;}]*+",
        rf"s(?P<s>[\s\S]){_part('s', shield)}{_part('s', '')}{flags}(?:(?P<result>e)|w(?P<changed>[^\n]*+))?",
        rf"y(?P<y>[\s\S]){_part('y', '')}{_part('y', '')}",
        r"[{}=dDgGhHnNpPxzF]",
    )
    lines = rf"{first}{blanks}(?:,{blanks}(?:[+~][ \t]*+\d++|{last}))?+[ \t!]*+"
    return re.compile(rf"[\s;{{}}]*+(?:(?P<end>\Z)|{lines}(?:{'|'.join(commands)}))")


_COMMANDS = (_command(f"{_SET}|"), _command(""))


def read_sed_script(script: str) -> SedScript:
    """Return what a script does; one that cannot be read may run anything."""
    if script.count("[") > _MOST_SETS:
        return SedScript(runs=True)
    readings = [reading for command in _COMMANDS if (reading := _read(script, command)) is not None]
    if not readings or any(reading.runs for reading in readings):
        return SedScript(runs=True)
    return SedScript(runs=False, writes=frozenset().union(*(reading.writes for reading in readings)))


def _read(script: str, command: re.Pattern[str]) -> SedScript | None:
    at, writes = 0, set[str]()
    while match := command.match(script, at):
        if match["end"] is not None:
            return SedScript(runs=False, writes=frozenset(writes))
        if match["runs"] or match["result"]:
            return SedScript(runs=True)
        writes.update(path.strip() for path in match.group("file", "changed") if path is not None)
        at = match.end()
    return None
