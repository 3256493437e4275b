"""Each host's events in one form, as the real programs have sent them, and what is refused."""

from __future__ import annotations

import json

import pytest

from lockgate.claude_code.events import RefusedEvent
from lockgate.claude_code.hook_command import PLAIN_HOSTS
from lockgate.coding_agents.hook_events import CODING_AGENTS, AgentEvent, EventKind, parse_agent_event

CODEX = {"session_id": "s1", "turn_id": "t", "cwd": "/repo", "model": "m", "permission_mode": "default"}
GEMINI = {"session_id": "s1", "cwd": "/repo", "timestamp": "2026-11-16T23:44:04.532Z"}
COPILOT = {"sessionId": "s1", "timestamp": 1, "cwd": "/repo"}
OPENCODE = {"session": "s1", "parent": "", "folder": "/repo"}
LS = {"command": "ls"}


def parse(agent: str, said: object) -> AgentEvent:
    return parse_agent_event(agent, json.dumps(said).encode())


def test_the_hook_program_knows_the_same_hosts() -> None:
    assert PLAIN_HOSTS == CODING_AGENTS


@pytest.mark.parametrize(
    ("agent", "said", "kind"),
    [
        ("codex", {**CODEX, "hook_event_name": "SessionStart", "source": "startup"}, EventKind.START),
        ("codex", {**CODEX, "hook_event_name": "UserPromptSubmit", "prompt": "hi"}, EventKind.PROMPT),
        ("codex", {**CODEX, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": LS}, EventKind.CALL),
        ("codex", {**CODEX, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": "a"},
         EventKind.RESULT),
        ("codex", {**CODEX, "hook_event_name": "Stop"}, EventKind.OTHER),
        ("gemini", {**GEMINI, "hook_event_name": "BeforeAgent", "prompt": "hi"}, EventKind.PROMPT),
        ("gemini", {**GEMINI, "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": LS},
         EventKind.CALL),
        ("gemini", {**GEMINI, "hook_event_name": "SessionEnd", "reason": "exit"}, EventKind.END),
        ("copilot", {**COPILOT, "source": "new", "initialPrompt": "hi"}, EventKind.START),
        ("copilot", {**COPILOT, "prompt": "hi"}, EventKind.PROMPT),
        ("copilot", {**COPILOT, "toolName": "bash", "toolArgs": LS}, EventKind.CALL),
        ("copilot", {**COPILOT, "toolName": "bash", "toolArgs": json.dumps(LS)}, EventKind.CALL),
        ("copilot", {**COPILOT, "toolName": "bash", "toolArgs": LS, "toolResult": {"textResultForLlm": "a"}},
         EventKind.RESULT),
        ("copilot", {**COPILOT, "reason": "complete"}, EventKind.END),
        ("opencode", {**OPENCODE, "event": "start"}, EventKind.START),
        ("opencode", {**OPENCODE, "event": "call", "tool": "bash", "arguments": LS}, EventKind.CALL),
        ("opencode", {**OPENCODE, "event": "what is this"}, EventKind.OTHER),
    ],
)  # fmt: skip
def test_each_event_is_known_for_what_it_is(agent: str, said: object, kind: EventKind) -> None:
    event = parse(agent, said)
    assert (event.kind, event.session, event.folder) == (kind, "s1", "/repo")
    if kind is EventKind.CALL:
        assert event.arguments == LS


@pytest.mark.parametrize(("source", "begins"), [("startup", True), ("clear", True), ("resume", False), ("", False)])
def test_only_a_session_that_begins_is_known(source: str, begins: bool) -> None:  # noqa: FBT001
    assert parse("codex", {**CODEX, "hook_event_name": "SessionStart", "source": source}).begins is begins


def test_what_gemini_shows_the_model_and_not_the_person_is_the_result() -> None:
    response = {"llmContent": [{"text": "read by the model"}], "returnDisplay": "shown", "error": {"message": "bad"}}
    event = parse("gemini", {**GEMINI, "hook_event_name": "AfterTool", "tool_name": "x", "tool_response": response})
    assert event.text == "read by the model\nbad"


def test_a_prompt_in_a_subagent_is_not_the_users() -> None:
    codex = parse("codex", {**CODEX, "hook_event_name": "UserPromptSubmit", "prompt": "hi", "agent_id": "a1"})
    assert (codex.by_agent, codex.session, codex.parent) == (True, "s1.a1", "s1")
    assert parse("copilot", {**COPILOT, "prompt": "hi", "parentAgentId": "a1"}).by_agent
    assert parse("opencode", {**OPENCODE, "event": "prompt", "text": "hi", "parent": "s0"}).by_agent


@pytest.mark.parametrize("agent", CODING_AGENTS)
@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nonsense", b"{}",
     b'{"session_id": 3, "sessionId": 3, "session": 3, "hook_event_name": "PreToolUse"}',
     b'{"a":' * 100 + b"1" + b"}" * 100,
     json.dumps({"session_id": "a/b", "sessionId": "a/b", "session": "a/b", "hook_event_name": "Stop"}).encode()],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(agent: str, body: bytes) -> None:
    with pytest.raises(RefusedEvent):
        parse_agent_event(agent, body)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("codex", {**CODEX, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": "ls"}),
        ("gemini", {**GEMINI, "hook_event_name": "BeforeTool", "tool_input": LS}),
        ("copilot", {**COPILOT, "toolArgs": LS}),
        ("copilot", {**COPILOT, "toolName": "bash", "toolArgs": "{"}),
        ("opencode", {**OPENCODE, "event": "call", "tool": "bash", "arguments": [1]}),
    ],
)
def test_a_call_without_a_name_or_arguments_is_refused(agent: str, said: object) -> None:
    with pytest.raises(RefusedEvent, match="not a name and an object"):
        parse(agent, said)
