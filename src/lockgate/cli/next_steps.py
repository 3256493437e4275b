"""What bare `lockgate` prints: how things stand here, and the commands to go on with."""

from __future__ import annotations

import os
from pathlib import Path
from time import time

from lockgate import assemble
from lockgate.claude_code.settings_file import lockgate_hooks, read_settings, settings_path
from lockgate.cli.doctor.claude_code import service_answers
from lockgate.cli.terminal import format_count, make_visible
from lockgate.coding_agents.hook_events import CODING_AGENTS
from lockgate.coding_agents.hook_settings import hooks_path, wired_commands
from lockgate.core.errors import LockgateError
from lockgate.core.ruling.approvals import ApprovalState
from lockgate.runtime.json_edit import parse_json_object
from lockgate.settings.config import Settings

_MORE = {
    "lockgate help": "the documentation",
    "lockgate --help": "every command",
}
_BEGIN = {
    "lockgate demo": "watch it hold a hijacked call",
    "lockgate replay": "what would it have done? Reads Claude Code's records, changes nothing",
    "lockgate init claude-code": "put it in front of Claude Code; `lockgate init --help` names the others",
}
_DOWN = {
    "lockgate serve": "start the service",
    "lockgate service install": "have the system start it",
    "lockgate doctor": "say what is wrong, and what to do",
}
_RUNNING = {
    "lockgate token --url": "open the page",
    "lockgate stats": "where rulings were settled, and the rules to tune",
    "lockgate doctor": "check the whole installation",
}


def next_steps() -> str:
    """Say how things stand, and which commands come next. Changes nothing, and makes no file."""
    try:
        settings = assemble.settings_from_environment(None)
        said, steps = _look_around(settings)
    except (LockgateError, OSError, ValueError) as error:
        why = error.message if isinstance(error, LockgateError) else type(error).__name__
        said, steps = f"something here cannot be read: {make_visible(why)}", {"lockgate doctor": "say what to fix"}
    steps = {**steps, **_MORE}
    width = max(map(len, steps))
    lines = [f"  {command:<{width}}  {what}" for command, what in steps.items()]
    return "\n".join([said, "", "next:", *lines])


def _look_around(settings: Settings) -> tuple[str, dict[str, str]]:
    agents = agents_that_ask()
    host = settings.server.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}"
    answers = service_answers(url)
    ask = f"{' and '.join(agents)} {'asks' if len(agents) == 1 else 'ask'}"
    steps: dict[str, str] = {}
    if waiting := _count_waiting(settings):
        steps = {"lockgate approvals watch": f"answer: {format_count(waiting, 'call')} held for a person"}
    if not agents and not answers:
        return "no coding agent asks Lockgate here, and no service runs", {**steps, **_BEGIN}
    if not answers:
        return f"{ask} Lockgate, but nothing answers at {url}", {**steps, **_DOWN}
    begin = {} if agents else {"lockgate init claude-code": _BEGIN["lockgate init claude-code"]}
    asked = f"{ask} it" if agents else "no coding agent asks it yet"
    return f"the service runs at {url}, and {asked}", {**steps, **begin, **_RUNNING}


def agents_that_ask() -> list[str]:
    """Return the coding agents whose settings, the user's or this folder's, have our hooks."""
    places = [settings_path(scope, cwd=Path.cwd(), environ=os.environ) for scope in ("user", "project", "local")]
    texts = [text for place in places if (text := read_settings(place)).strip()]
    claude = ["claude-code"] if any(lockgate_hooks(parse_json_object(text)) for text in texts) else []
    return claude + [agent for agent in CODING_AGENTS if wired_commands(agent, hooks_path(agent))]


def _count_waiting(settings: Settings) -> int:
    # Opening a store makes its file, and a shared database may keep us waiting: neither belongs here.
    if settings.server.database or settings.state_dir is None or not (settings.state_dir / "approvals.db").exists():
        return 0
    store = assemble.approvals_from_settings(settings)
    return sum(each.state is ApprovalState.WAITING for each in store.every(time()))
