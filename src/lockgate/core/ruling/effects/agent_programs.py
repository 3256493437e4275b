"""The coding agents that Lockgate's hooks stand in: their programs, and the folders of their settings.

`lockgate init` puts the hooks where this table says, and the rules hold a call that starts one of these programs where
the table's folder is another one, or without its hooks: a place that is known to the one is known to the other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class AgentProgram(NamedTuple):
    """A coding agent.

    Its settings stand in `folder` below what `variable` names, or below `base` of the user's home; the hooks stand in
    the file `hooks` of that folder. `switches` are options and variables that start the program without them.
    """

    program: str
    package: str
    variable: str
    base: str
    folder: str
    hooks: str
    switches: tuple[str, ...] = ()

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
        if program == self.program:
            return True
        named = re.compile(rf"(?:.*[/=@])?(?:{self.program}|{self.package})(?:[@/.].*)?")
        return program in _RUNNERS and any(named.fullmatch(word) for word in arguments)

    def hooks_left_out(self, arguments: Sequence[str], assigned: Collection[str]) -> str:
        """Return the option or variable by which this agent starts without its hooks; empty if there is none."""
        said = " ".join(" ".join(arguments).replace("=", " ").split())
        return next((each for each in self.switches if each in assigned or each in said), "")


_RUNNERS = frozenset("node bun deno npx bunx pnpx uvx pipx npm pnpm yarn".split())

AGENT_PROGRAMS: Mapping[str, AgentProgram] = {
    "claude-code": AgentProgram(
        "claude", "claude-code", "CLAUDE_CONFIG_DIR", ".claude", "", "settings.json",
        (
            "--bare", "--restricted", "--safe-mode", "--setting-sources", "--settings",
            "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE", "CLAUDE_CODE_PERSONAL_HOOKS_OFF",
        ),
    ),
    "codex": AgentProgram(
        "codex", "codex", "CODEX_HOME", ".codex", "", "hooks.json",
        ("--disable hooks", "features.hooks", "features {", "--ignore-user-config"),
    ),
    "gemini": AgentProgram(
        "gemini", "gemini-cli", "GEMINI_CLI_HOME", "", ".gemini", "settings.json",
        ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"),
    ),
    "copilot": AgentProgram("copilot", "copilot", "COPILOT_HOME", ".copilot", "", "hooks/lockgate.json"),
    "opencode": AgentProgram(
        "opencode", "opencode-ai", "XDG_CONFIG_HOME", ".config", "opencode", "plugin/lockgate.js",
        ("--pure", "OPENCODE_PURE"),
    ),
}  # fmt: skip
