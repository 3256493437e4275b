"""The hook events of Codex, Gemini CLI, Copilot CLI and OpenCode, read into one form.

    Codex       PreToolUse and its like, in Claude Code's words, with an id for each call
    Gemini CLI  BeforeTool and its like; no ids of calls
    Copilot CLI no event names at all, so the fields say which event it is; no ids of calls
    OpenCode    what our own plugin there sends

Each host has events that we do not ask for; one of those, or one that is new, is read as OTHER. What cannot be read,
and an unknown event that carries a call, raises RefusedEvent and is denied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from lockgate.claude_code.events import MAX_DEPTH, RefusedEvent, is_deeper, parse_body
from lockgate.sessions.structured_text import text_of

_MAX_ID = 90
# A later version of a host may ask about a call under a name that is not known here.
_CALL_FIELDS = frozenset({"tool_name", "tool_input", "toolName", "toolArgs", "tool", "arguments"})


class EventKind(Enum):
    """What an event tells us."""

    START = "start"
    PROMPT = "prompt"
    CALL = "call"
    RESULT = "result"
    END = "end"
    OTHER = "other"


class AgentEvent(NamedTuple):
    """One event of a coding agent.

    `begins` says that nothing was read in this session before. `parent` is the session that started this one as a
    subagent. `by_agent` marks a prompt that an agent wrote and not the user.
    """

    kind: EventKind
    session: str
    folder: str = ""
    parent: str = ""
    begins: bool = False
    by_agent: bool = False
    text: str = ""
    tool: str = ""
    arguments: Mapping[str, object] | None = None
    call: str = ""
    failed: bool = False


Said = Mapping[str, object]


def parse_agent_event(agent: str, body: bytes) -> AgentEvent:
    """Return the event of this coding agent in a body; raise RefusedEvent where there is none."""
    said = parse_body(body)
    event = _PARSERS[agent](said)
    for id in (event.session, event.parent or "-"):
        if not 0 < len(id) <= _MAX_ID or not id.isprintable() or "/" in id:
            raise RefusedEvent("it does not say whose it is")
    if is_deeper(said, MAX_DEPTH):
        raise RefusedEvent("it is nested too deep", event.session)
    if event.kind is EventKind.OTHER and _CALL_FIELDS & said.keys():
        raise RefusedEvent("it is an unknown event with a call", event.session)
    if event.kind is EventKind.CALL and (not event.tool or event.arguments is None):
        raise RefusedEvent("the call is not a name and an object", event.session)
    return event


def _text(said: Said, key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> Mapping[str, object] | None:
    if isinstance(value, str):
        # Copilot CLI has sent them as a string of JSON.
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


_NAMED = {
    "SessionStart": EventKind.START,
    "UserPromptSubmit": EventKind.PROMPT,
    "BeforeAgent": EventKind.PROMPT,
    "PreToolUse": EventKind.CALL,
    "BeforeTool": EventKind.CALL,
    "PostToolUse": EventKind.RESULT,
    "AfterTool": EventKind.RESULT,
    "SessionEnd": EventKind.END,
}


def _parse_named(said: Said) -> AgentEvent:
    """Codex and Gemini CLI: the name of the event is in it."""
    name, agent, session = _text(said, "hook_event_name"), _text(said, "agent_id"), _text(said, "session_id")
    if not name:
        raise RefusedEvent("it has no name")
    response = said.get("tool_response")
    if isinstance(response, dict) and "llmContent" in response:
        # What else Gemini CLI sends along is for the person's screen, or an error, which the model reads too.
        response = [response["llmContent"], response.get("error")]
    return AgentEvent(
        _NAMED.get(name, EventKind.OTHER),
        f"{session}.{agent}" if agent else session,
        folder=_text(said, "cwd"),
        parent=session if agent else "",
        begins=name == "SessionStart" and _text(said, "source") in ("startup", "clear"),
        by_agent=bool(agent),
        text=_text(said, "prompt") or text_of(response),
        tool=_text(said, "tool_name"),
        arguments=_arguments(said.get("tool_input")),
        call=_text(said, "tool_use_id"),
    )


# What Copilot CLI calls by a name that says too little.
_COPILOT_TOOLS = {"create": "create_file", "report_intent": "TodoWrite"}


def _parse_copilot(said: Said) -> AgentEvent:
    tool = _text(said, "toolName")
    if "toolResult" in said or (tool and "error" in said):
        kind = EventKind.RESULT
    elif "toolName" in said or "toolArgs" in said:
        kind = EventKind.CALL
    elif "prompt" in said:
        kind = EventKind.PROMPT
    elif "source" in said:
        kind = EventKind.START
    else:
        kind = EventKind.END if "reason" in said else EventKind.OTHER
    result = said.get("toolResult")
    result = result.get("textResultForLlm", result) if isinstance(result, dict) else result
    return AgentEvent(
        kind,
        _text(said, "sessionId"),
        folder=_text(said, "cwd"),
        begins=kind is EventKind.START and _text(said, "source") in ("new", "startup"),
        by_agent=bool(said.get("parentAgentId")),
        text=_text(said, "prompt") if kind is EventKind.PROMPT else text_of([result, said.get("error")]),
        tool=_COPILOT_TOOLS.get(tool, tool),
        arguments=_arguments(said.get("toolArgs")),
    )


def _parse_opencode(said: Said) -> AgentEvent:
    try:
        kind = EventKind(_text(said, "event"))
    except ValueError:
        kind = EventKind.OTHER
    parent = _text(said, "parent")
    return AgentEvent(
        kind,
        _text(said, "session"),
        folder=_text(said, "folder"),
        parent=parent,
        begins=kind is EventKind.START,
        by_agent=bool(parent),
        text=text_of(said.get("text")),
        tool=_text(said, "tool"),
        arguments=_arguments(said.get("arguments")),
        call=_text(said, "call"),
    )


_PARSERS: Mapping[str, Callable[[Said], AgentEvent]] = {
    "codex": _parse_named,
    "gemini": _parse_named,
    "copilot": _parse_copilot,
    "opencode": _parse_opencode,
}
CODING_AGENTS = tuple(_PARSERS)
