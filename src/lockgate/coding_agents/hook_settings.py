"""Lockgate's hooks in the settings of Codex, Gemini CLI, Copilot CLI and OpenCode.

Codex and Gemini CLI list all hooks in one file, which may hold others: ours are put in and taken out again. Copilot CLI
reads every file of a folder, and OpenCode every plugin of one, so there we have a file of our own.

All four call a hook that has not answered in time a yes, so the time they give is longer than the hook's own deadline.
The command is Python itself with the one file that it needs, told to heed no variable (`-I -S`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from lockgate.claude_code.hook_command import DEADLINE_S
from lockgate.claude_code.settings_file import SettingsChange, apply_change, lockgate_hooks, plan_change, read_settings
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.ruling.effects.own_paths import AGENT_PROGRAMS
from lockgate.runtime.json_edit import parse_json_object
from lockgate.runtime.private_files import replace_file

_HOST_S = int(DEADLINE_S) + 20
_CODEX_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SessionEnd")
_GEMINI_EVENTS = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "SessionEnd")
_COPILOT_EVENTS = (
    "sessionStart",
    "userPromptSubmitted",
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "sessionEnd",
)

_COMMAND_LINE = re.compile(r"^const COMMAND = (\[.*\])$", re.MULTILINE)
_PLUGIN = """\
// Written by `lockgate init opencode`; `lockgate init opencode --remove` takes it away.
// Every call of a tool is asked about first. A throw is a no: OpenCode then does not run the tool.
import { spawn } from "node:child_process"

const COMMAND = %s

const ask = (event) =>
  new Promise((allow, deny) => {
    let said = ""
    const hook = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "ignore", "pipe"] })
    hook.stderr.on("data", (text) => (said += text))
    hook.on("error", (error) => deny(new Error(`Lockgate's hook did not start: ${error.message}`)))
    hook.on("close", (code) => (code === 0 ? allow() : deny(new Error(said.trim() || "Lockgate said no"))))
    hook.stdin.on("error", () => {})
    hook.stdin.end(JSON.stringify(event))
  })

export const Lockgate = async ({ directory }) => {
  const parents = new Map()
  const starts = new Map()
  const tell = async (session, more) => {
    await starts.get(session)
    await ask({ session, parent: parents.get(session) ?? "", folder: directory, ...more })
  }
  return {
    event: async ({ event }) => {
      const info = event.type === "session.created" ? event.properties.info : null
      if (!info) return
      parents.set(info.id, info.parentID ?? "")
      // Where this fails, the session begins with the first call, and what it has read counts as unknown.
      const start = { session: info.id, parent: info.parentID ?? "", folder: directory, event: "start" }
      starts.set(info.id, ask(start).catch(() => {}))
    },
    "chat.message": async ({ sessionID }, { parts }) => {
      const texts = (typed) => parts.filter((part) => part.text && !part.synthetic === typed).map((part) => part.text)
      const [said, added] = [texts(true).join("\\n"), texts(false).join("\\n")]
      if (said) await tell(sessionID, { event: "prompt", text: said })
      if (added) await tell(sessionID, { event: "result", tool: "opencode", text: added })
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) =>
      tell(sessionID, { event: "call", tool, call: callID, arguments: args ?? {} }),
    // What a tool of an MCP server returns has no `output`.
    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) =>
      tell(sessionID, { event: "result", tool, call: callID, arguments: args ?? {}, text: result?.output ?? result }),
  }
}
"""


@dataclass(frozen=True, slots=True)
class AgentHooks:
    """Our hooks in Codex's or Gemini CLI's file, in the shape that `settings_file.add_hooks` puts in."""

    command: str
    events: Sequence[str]
    # Codex counts in seconds, Gemini CLI in milliseconds.
    timeout: int
    token: str = ""

    def group(self, _: str) -> dict[str, object]:
        """Return the entry of one event: all are alike."""
        # Without a name: Gemini CLI lets a folder switch hooks off by name, and none is guessed as easily as ours.
        return {"matcher": "*", "hooks": [{"type": "command", "command": self.command, "timeout": self.timeout}]}


@dataclass(frozen=True, slots=True)
class OwnFileChange:
    """A file that is ours as a whole, before and after."""

    path: Path
    before: str
    after: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return self.before == self.after

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        return "\n".join(
            unified_diff(self.before.splitlines(), self.after.splitlines(), "before", "after", lineterm="", n=1)
        )


def hooks_path(agent: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file in which this coding agent looks for the user's hooks."""
    program = AGENT_PROGRAMS[agent]
    return Path(os.path.expanduser(program.settings_folder(environ)), program.hooks)


def plan_agent_change(agent: str, command: Sequence[str] | None, path: Path) -> SettingsChange | OwnFileChange:
    """Return what putting our hooks in would change, or taking them out where there is no command."""
    if agent in ("codex", "gemini"):
        events, timeout = (_CODEX_EVENTS, _HOST_S) if agent == "codex" else (_GEMINI_EVENTS, _HOST_S * 1000)
        form = AgentHooks(shlex.join(command), events, timeout) if command else None
        return plan_change(path, form, within=path.parent)
    if path.is_symlink():
        raise LockgateError(f"{quoted(path, 200)} is a link", hint="move it away, and run this again")
    before = read_settings(path)
    if before and "lockgate" not in before:
        raise LockgateError(f"{quoted(path, 200)} is not ours", hint="move it away, and run this again")
    return OwnFileChange(path, before, "" if command is None else _own_file(agent, command))


def _own_file(agent: str, command: Sequence[str]) -> str:
    if agent == "opencode":
        return _PLUGIN % json.dumps(list(command))
    hook = {"type": "command", "bash": shlex.join(command), "timeoutSec": _HOST_S}
    return json.dumps({"version": 1, "hooks": {event: [hook] for event in _COPILOT_EVENTS}}, indent=2) + "\n"


def apply_agent_change(change: SettingsChange | OwnFileChange) -> Path | None:
    """Make a change, whole or not at all; return where the file was kept as it was, if it was."""
    if isinstance(change, SettingsChange):
        return apply_change(change)
    if read_settings(change.path) != change.before:
        raise LockgateError(f"{quoted(change.path, 200)} was changed meanwhile", hint="run this again")
    if change.after:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(change.path, change.after.encode("utf-8"), exact_mode=0o600)
    else:
        change.path.unlink(missing_ok=True)
    return None


def wired_commands(agent: str, path: Path) -> dict[str, list[str]]:
    """Return the command line of our hook for each event that has one in this file; OpenCode's one is for all."""
    text = read_settings(path)
    if not text.strip():
        return {}
    if agent == "opencode":
        found = _COMMAND_LINE.search(text)
        return {"*": [str(word) for word in json.loads(found[1])]} if found else {}
    hooks = parse_json_object(text).get("hooks")
    if agent == "copilot":
        listed = hooks.items() if isinstance(hooks, dict) else ()
        return {event: shlex.split(str(hook["bash"])) for event, (hook, *_) in listed if "bash" in hook}
    ours = lockgate_hooks(parse_json_object(text))
    return {event: shlex.split(str(hook["command"])) for event, _, hook in ours}


def switched_off_in(agent: str, folder: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the settings, of the user or of this folder or above, that keep this agent from running any hook."""
    if agent not in _OFF:
        return None
    own, in_folder, says_off = _OFF[agent]
    mine = os.path.expanduser(AGENT_PROGRAMS[agent].settings_folder(environ))
    paths = [Path(mine, name) for name in own]
    paths += [above / name for above in (folder, *folder.parents) for name in in_folder]
    return next((path for path in paths if says_off.search(read_settings(path))), None)


# The user's files, a folder's files, and what in them switches hooks off; measured with the real programs.
_OFF: Mapping[str, tuple[Sequence[str], Sequence[str], re.Pattern[str]]] = {
    "codex": (("config.toml",), (".codex/config.toml",), re.compile(r"\bhooks\s*=\s*false\b")),
    "gemini": (
        ("settings.json",),
        (".gemini/settings.json",),
        re.compile(r'"hooksConfig"\s*:\s*\{[^}]*(?:"enabled"\s*:\s*false|"disabled"\s*:\s*\[\s*")'),
    ),
    "copilot": (
        (),
        [f"{folder}/settings{local}.json" for folder in (".github/copilot", ".claude") for local in ("", ".local")],
        re.compile(r'"disableAllHooks"\s*:\s*true'),
    ),
}


def missing_events(agent: str, wired: Mapping[str, object]) -> list[str]:
    """Return the events of this coding agent for which there is no hook of ours."""
    events = {"codex": _CODEX_EVENTS, "gemini": _GEMINI_EVENTS, "copilot": _COPILOT_EVENTS}.get(agent, ("*",))
    return [event for event in events if event not in wired]
