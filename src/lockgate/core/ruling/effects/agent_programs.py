"""The coding agents that have Lockgate's hooks (`own.tbl`): their programs, and the folders of their settings.

`lockgate init` puts the hooks where this table says, and the rules hold a call that starts one of them without these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from lockgate.core.tables import read_table

_COLUMNS = ("agent", "program", "package", "variable", "base", "folder", "hooks", "switches")
_RUNNERS = frozenset("node bun deno npx bunx pnpx uvx pipx npm pnpm yarn".split())


class AgentProgram(NamedTuple):
    """A coding agent: its settings are in `folder` below what `variable` names, or below `base` of the user's home.

    The hooks are in the file `hooks` there. `switches` are options and variables that start the program without them.
    """

    program: str
    package: str
    variable: str
    base: str
    folder: str
    hooks: str
    switches: str

    @property
    def usual_folder(self) -> str:
        """The folder of the settings where no variable is set, as the rules know it."""
        return "/".join(part for part in ("~", self.base, self.folder) if part)

    def settings_folder(self, environ: Mapping[str, str]) -> str:
        """Return the folder of the settings; one in the user's home begins with `~`."""
        base = environ.get(self.variable, "").rstrip("/")
        return f"{base}/{self.folder}".rstrip("/") if base else self.usual_folder

    def is_started_by(self, program: str, arguments: Sequence[str]) -> bool:
        """Return whether a command starts this agent, by itself or through a program that runs packages."""
        if program not in _RUNNERS:
            return program == self.program
        named = re.compile(rf"(?:.*[/=@])?(?:{self.program}|{self.package})(?:[@/.].*)?")
        return any(map(named.fullmatch, arguments))

    def hooks_left_out(self, arguments: Sequence[str], assigned: Collection[str]) -> str:
        """Return the option or variable by which this agent starts without its hooks; empty if there is none."""
        line = " ".join(" ".join(arguments).replace("=", " ").split())
        switches = filter(None, self.switches.split(", "))
        return next((switch for switch in switches if switch in assigned or switch in line), "")


AGENT_PROGRAMS: Mapping[str, AgentProgram] = {
    agent: AgentProgram(*("" if cell == "-" else cell for cell in cells))
    for agent, *cells in read_table(__package__, "own.tbl", "agents", _COLUMNS)
}
