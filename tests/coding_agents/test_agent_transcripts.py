"""Transcripts of Codex, Gemini CLI and Copilot CLI in their real shapes, and what cannot be read in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.claude_code.transcripts import Call, Entry, Prompt, Result, Text, transcript_from_path, working_folder
from lockgate.coding_agents.agent_transcripts import read_any_transcript

AT = "2026-11-17T03:59:00.300Z"


def codex(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": AT, "ordinal": 1, "type": kind, "payload": payload}


def codex_user(text: str, kind: str) -> dict[str, object]:
    more = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": [kind]}}
    said = [{"type": "input_text", "text": text}]
    return codex("response_item", type="message", role="user", content=said, **more)


CODEX = [
    codex("session_meta", cwd="/work", thread_source="user", cli_version="0.166.0"),
    codex("response_item", type="message", role="developer", content=[{"type": "text", "text": "the host's own"}]),
    codex_user("# AGENTS.md instructions for /work", "agents_md.instructions"),
    codex_user("<environment_context>\n  <cwd>/work</cwd>", "environment"),
    codex_user("Look at it", "user.text"),
    codex("event_msg", type="item_completed", item={"type": "UserMessage", "content": []}),
    codex("response_item", type="function_call", name="exec_command", arguments='{"cmd": "cat f"}', call_id="c1"),
    codex("response_item", type="function_call_output", call_id="c1", output="read"),
    codex("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2"),
    codex("response_item", type="custom_tool_call_output", call_id="c2",
          output="Command blocked by PreToolUse hook: Lockgate stopped this call"),
    codex("compacted", message="what was before"),
]  # fmt: skip
_CALL = {"id": "c1", "name": "read_file", "args": {"file_path": "f"}, "status": "success",
         "result": [{"functionResponse": {"id": "c1", "name": "x", "response": {"output": "read"}}}]}  # fmt: skip
_NOT_RUN = {**_CALL, "id": "c2", "status": "error",
            "result": [{"functionResponse": {"response": {"error": "Tool execution blocked: no"}}}]}  # fmt: skip
GEMINI = [
    {"sessionId": "s1", "projectHash": "h", "startTime": AT, "kind": "main"},
    {
        "$set": {
            "messages": [{"id": "m0", "timestamp": AT, "type": "user", "content": [{"text": "<session_context>x"}]}]
        }
    },
    {"id": "m1", "timestamp": AT, "type": "user", "content": [{"text": "Look at it"}]},
    {"id": "m2", "timestamp": AT, "type": "gemini", "content": ""},
    {"id": "m2", "timestamp": AT, "type": "gemini", "content": "", "toolCalls": [_CALL, _NOT_RUN]},
    {"id": "m2", "timestamp": AT, "type": "gemini", "content": "", "toolCalls": [_CALL, _NOT_RUN]},
    {"id": "m3", "timestamp": AT, "type": "user", "content": [{"functionResponse": {"response": {"output": "read"}}}]},
]


def copilot(kind: str, **data: object) -> dict[str, object]:
    return {"type": kind, "timestamp": AT, "id": "e", "data": data}


COPILOT = [
    copilot("session.start", sessionId="s1", context={"cwd": "/work"}),
    copilot("user.message", content="Look at it", transformedContent="<now>\n\nLook at it"),
    copilot("hook.start", input={"prompt": "Look at it"}),
    copilot("tool.execution_start", toolCallId="c1", toolName="view", arguments={"path": "f"}),
    copilot("tool.execution_complete", toolCallId="c1", success=True, result={"content": "read"}),
    copilot("tool.execution_start", toolCallId="c2", toolName="bash", arguments={"command": "touch no"}),
    copilot("tool.execution_complete", toolCallId="c2", success=False,
            error={"message": "Denied by preToolUse hook: hook exited with code 2", "code": "denied"}),
    copilot("user.message", content="the task of a subagent", parentToolCallId="c3"),
]  # fmt: skip


def read(folder: Path, lines: list[dict[str, object]], name: str = "session.jsonl") -> list[Entry]:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(read_any_transcript(str(path)))


@pytest.mark.parametrize(("lines", "tool"), [(CODEX, "Bash"), (GEMINI, "read_file"), (COPILOT, "view")])
def test_what_was_said_called_and_read_is_found_once_and_in_order(
    lines: list[dict[str, object]], tool: str, tmp_path: Path
) -> None:
    entries = read(tmp_path, lines)
    assert [each.text for each in entries if isinstance(each, Prompt)] == ["Look at it"]
    assert next(each for each in entries if isinstance(each, Call)).tool == tool
    results = [each for each in entries if isinstance(each, Result)]
    assert [(each.id, each.outcome) for each in results] == [("c1", "ran"), ("c2", "not-run")]
    assert (results[0].tool, results[0].text) == (tool, "read")
    assert not any("the host's own" in each.text for each in entries if isinstance(each, Text))


def test_the_command_is_named_as_the_hook_names_it(tmp_path: Path) -> None:
    calls = [each for each in read(tmp_path, CODEX) if isinstance(each, Call)]
    assert [(each.tool, dict(each.arguments)) for each in calls] == [
        ("Bash", {"command": "cat f"}),
        ("apply_patch", {"input": "*** Begin Patch"}),
    ]


def test_what_the_host_or_an_agent_wrote_in_the_users_place_is_untrusted(tmp_path: Path) -> None:
    texts = [each.text for each in read(tmp_path, CODEX) if isinstance(each, Text)]
    assert texts == ["# AGENTS.md instructions for /work", "what was before"]
    assert [each.text for each in read(tmp_path, COPILOT) if isinstance(each, Text)] == ["the task of a subagent"]
    subagent = [codex("session_meta", cwd="/work", thread_source="subagent"), codex_user("Do it", "user.text")]
    assert not any(isinstance(each, Prompt) for each in read(tmp_path, subagent))
    gemini = [{**GEMINI[0], "kind": "subagent"}, *GEMINI[1:]]
    assert not any(isinstance(each, Prompt) for each in read(tmp_path, gemini))


def test_the_folder_and_the_session_are_known_where_they_are_told(tmp_path: Path) -> None:
    (tmp_path / "s1").mkdir()
    read(tmp_path / "s1", COPILOT, "events.jsonl")
    assert working_folder(str(tmp_path / "s1" / "events.jsonl")) == "/work"
    assert transcript_from_path(str(tmp_path / "s1" / "events.jsonl")).session == "s1"
    read(tmp_path, CODEX)
    assert working_folder(str(tmp_path / "session.jsonl")) == "/work"


@pytest.mark.parametrize("first", [CODEX[0], GEMINI[0], COPILOT[0], {"type": "user"}])
def test_odd_lines_are_no_error(first: dict[str, object], tmp_path: Path) -> None:
    odd: list[dict[str, object]] = [
        {"type": "response_item", "payload": {"type": "function_call", "name": 3, "arguments": "{"}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [None, 3, "x"]}},
        {"type": "response_item", "payload": [1]},
        {"$set": {"messages": [None, {"type": "user"}, {"toolCalls": [None, {"id": 3, "args": 1, "result": 2}]}]}},
        {"type": "tool.execution_complete", "data": None},
        {"type": "user.message", "data": {"content": {"a": 1}, "attachments": [{"path": "x"}]}},
    ]
    assert isinstance(read(tmp_path, [first, *odd]), list)
    (tmp_path / "bad.jsonl").write_bytes(json.dumps(first).encode() + b"\n\xff\xfe\n{\n")
    assert len(list(read_any_transcript(str(tmp_path / "bad.jsonl")))) == 2


def test_calls_without_an_id_are_all_found(tmp_path: Path) -> None:
    calls = [{"name": "read_file", "args": {}}, {"name": "run_shell_command", "args": {"command": "ls"}}]
    lines = [GEMINI[0], *({"id": f"m{at}", "type": "gemini", "toolCalls": [call]} for at, call in enumerate(calls))]
    found = [each.tool for each in read(tmp_path, lines) if isinstance(each, Call)]
    assert found == ["read_file", "run_shell_command"]
