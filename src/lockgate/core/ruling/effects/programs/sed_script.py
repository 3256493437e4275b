"""What a script of `sed` runs and writes, read from left to right.

A delimiter inside `[…]` ends a part for some versions of `sed` and not for others, so a script is read both ways. One
that cannot be read in either way counts as one that runs something.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BETWEEN = re.compile(r"[\s;{}]*+")
_BLANKS = re.compile(r"[ \t\r\f\v]*+")
_BLANKS_AND_NOT = re.compile(r"[ \t!]*+")
_LINE_NUMBER = re.compile(r"\d++[ \t]*+(?:~[ \t]*+\d*+)?|\$")
_STEPS = re.compile(r"[+~][ \t]*+\d++")
_FLAGS = re.compile(r"[ \tgpiImM0-9]*+")
_FLAGS_OF_PLACE = re.compile(r"[ \tIM]*+")
_LABEL = re.compile(r"[ \t]*+[^\s;}]*+")
_REST_OF_LINE = re.compile(r"[^\n]*+")
_ADDED_TEXT = re.compile(r"(?:[^\n\\]|\\[\s\S]|\\\Z)*+")
_SET = re.compile(r"\[\^?\]?(?:\[[:.=][^\]\n]*[:.=]\]|[^\]\n])*+\]")


class SedScript(NamedTuple):
    """Whether a script runs a command, and the files it writes to besides its own."""

    runs: bool
    writes: frozenset[str] = frozenset()


def read_sed_script(script: str) -> SedScript:
    """Return what a script does; one that cannot be read may run anything."""
    found: list[SedScript] = []
    for sets_shield in (True, False):
        try:
            found.append(_ScriptReader(script, sets_shield=sets_shield).read())
        except _UnreadableScriptError:
            continue
    if not found or any(each.runs for each in found):
        return SedScript(runs=True)
    return SedScript(runs=False, writes=frozenset().union(*(each.writes for each in found)))


class _UnreadableScriptError(Exception):
    pass


class _ScriptReader:
    """Goes through a script once; `sets_shield` says that a delimiter inside `[…]` ends nothing."""

    def __init__(self, script: str, *, sets_shield: bool) -> None:
        self._script = script
        self._sets_shield = sets_shield
        self._at = 0
        self._writes: set[str] = set()

    def read(self) -> SedScript:
        while True:
            self._skip(_BETWEEN)
            if self._at >= len(self._script):
                return SedScript(runs=False, writes=frozenset(self._writes))
            self._read_places()
            if self._read_command():
                return SedScript(runs=True)

    def _read_places(self) -> None:
        """Go past the lines that a command is for: `2`, `$`, `/a/,+3`, `\\|a|!`."""
        self._read_place()
        self._skip(_BLANKS)
        if self._next() == ",":
            self._at += 1
            self._skip(_BLANKS)
            if not self._skip(_STEPS):
                self._read_place()
        self._skip(_BLANKS_AND_NOT)

    def _read_place(self) -> None:
        if self._skip(_LINE_NUMBER):
            return
        if self._next() == "\\":
            self._at += 1
        elif self._next() != "/":
            return
        self._read_part(self._take(), may_shield=True)
        self._skip(_FLAGS_OF_PLACE)

    def _read_command(self) -> bool:
        """Go past one command; return whether it runs something."""
        command = self._take()
        if command == "e":
            return True
        if command in "wW":
            self._note_file()
        elif command in "rR#":
            self._skip(_REST_OF_LINE)
        elif command in "aic":
            self._skip(_ADDED_TEXT)
        elif command in ":btTvlLqQ":
            self._skip(_LABEL)
        elif command in "sy":
            return self._read_replacement(is_pattern=command == "s")
        elif command not in "{}=dDgGhHnNpPxzF":
            raise _UnreadableScriptError
        return False

    def _read_replacement(self, *, is_pattern: bool) -> bool:
        delimiter = self._take()
        self._read_part(delimiter, may_shield=is_pattern)
        self._read_part(delimiter, may_shield=False)
        if is_pattern:
            self._skip(_FLAGS)
            if self._next() == "e":
                return True
            if self._next() == "w":
                self._at += 1
                self._note_file()
        return False

    def _note_file(self) -> None:
        start = self._at
        self._skip(_REST_OF_LINE)
        self._writes.add(self._script[start : self._at].strip())

    def _read_part(self, delimiter: str, *, may_shield: bool) -> None:
        while (sign := self._take()) != delimiter:
            if sign == "\\":
                self._take()
            elif sign == "[" and may_shield and self._sets_shield:
                found = _SET.match(self._script, self._at - 1)
                self._at = found.end() if found else self._at

    def _next(self) -> str:
        return self._script[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._script):
            raise _UnreadableScriptError
        self._at += 1
        return self._script[self._at - 1]

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self._script, self._at)
        if found is None:
            return False
        self._at = found.end()
        return True
