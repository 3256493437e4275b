"""Claude Code's transcripts as entries: what is unknown is untrusted text, and nothing is an error."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from lockgate import transcripts
from lockgate.transcripts import Call, Entry, Prompt, Result, Text, Unreadable

AT = "2026-11-15T12:00:00.000Z"
TIME = 1794744000.0


def read(*lines: dict[str, Any] | bytes) -> list[Entry]:
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return list(transcripts.entries(io.BytesIO(data)))


def user(content: object, **more: object) -> dict[str, Any]:
    return {"type": "user", "timestamp": AT, "message": {"role": "user", "content": content}, **more}


def used(id: str, name: str, arguments: object) -> dict[str, Any]:
    part = {"type": "tool_use", "id": id, "name": name, "input": arguments}
    return {"type": "assistant", "timestamp": AT, "message": {"role": "assistant", "content": [part]}}


def result(id: str, content: object, **more: object) -> dict[str, Any]:
    error = {"is_error": True} if more.pop("is_error", False) else {}
    return user([{"type": "tool_result", "tool_use_id": id, "content": content, **error}], **more)


def test_a_session_is_prompts_calls_and_results_with_their_tools() -> None:
    assert read(
        user("look at notes.txt"),
        used("t1", "Read", {"file_path": "notes.txt"}),
        result("t1", [{"type": "text", "text": "hello"}, {"type": "image", "source": {"data": "AAAA"}}]),
        used("t2", "Bash", {"command": "false"}),
        result("t2", "Exit code 1", is_error=True),
    ) == [
        Prompt("look at notes.txt", TIME),
        Call("t1", "Read", {"file_path": "notes.txt"}, TIME),
        Result("t1", "Read", "hello", "ran", False, TIME),
        Call("t2", "Bash", {"command": "false"}, TIME),
        Result("t2", "Bash", "Exit code 1", "failed", False, TIME),
    ]


@pytest.mark.parametrize(
    ("more", "outcome", "by_a_person"),
    [
        ({"permissionDecision": {"decision": "reject", "source": "hook"}}, "not-run", False),
        ({"toolDenialKind": "user-rejected"}, "not-run", False),
        ({"permissionDecision": {"decision": "accept", "source": "config"}}, "ran", False),
        ({"permissionDecision": {"decision": "accept", "source": "user_temporary"}}, "ran", True),
        ({"permissionDecision": "accept"}, "ran", False),
        ({}, "ran", False),
    ],
    ids=str,
)
def test_what_became_of_a_call(more: dict[str, object], outcome: str, by_a_person: object) -> None:
    (entry,) = read(result("t1", "text", **more))
    assert isinstance(entry, Result)
    assert (entry.outcome, entry.by_a_person) == (outcome, by_a_person)


def test_an_old_version_says_in_words_that_a_call_did_not_run() -> None:
    (entry,) = read(result("t1", "PreToolUse:Bash hook error: no", is_error=True))
    assert isinstance(entry, Result)
    assert entry.outcome == "not-run"
    # A tool that ran cannot say so of itself: only an error is looked at, and never past what the host says.
    for more in ({}, {"is_error": True, "permissionDecision": {"decision": "accept", "source": "config"}}):
        (entry,) = read(result("t1", "PreToolUse:Bash hook error: no", **more))
        assert isinstance(entry, Result)
        assert entry.outcome != "not-run"


@pytest.mark.parametrize(
    ("line", "source"),
    [
        (user("by the harness", isMeta=True), "tool:claude-code"),
        (user("again", promptSource="loop_wakeup"), "tool:claude-code"),
        (user("summary of all", isCompactSummary=True), "agent:claude-code"),
        (user("say hi", isSidechain=True), "agent:claude-code"),
        ({"type": "attachment", "attachment": {"type": "file", "filename": "a.txt", "content": "x"}}, "file:a.txt"),
        ({"type": "attachment", "attachment": {"type": "new_kind", "content": {"x": ["y"]}}}, "file:new_kind"),
    ],
    ids=["meta", "nobody", "summary", "agent", "file", "unknown"],
)
def test_only_the_users_own_words_are_a_prompt(line: dict[str, Any], source: str) -> None:
    (entry,) = read(line)
    assert isinstance(entry, Text)
    assert entry.source == source


def test_what_the_host_tells_its_model_is_no_content() -> None:
    assert read({"type": "attachment", "attachment": {"type": "date", "date": "2026-11-15"}}, {"type": "summary"}) == []


def test_nothing_in_a_transcript_is_an_error() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000 + b"\n"
    entries = read(
        b"{not json\n",
        b"\xff\xfe\n",
        deep,
        b"[1]\n",
        b"\n",
        user(None),
        user([1, None, {"type": []}]),
        used("t", 3, "ls"),
    )  # type: ignore[arg-type]
    assert entries[:4] == [Unreadable(1), Unreadable(2), Unreadable(3), Unreadable(4)]
    assert entries[-1] == Call("t", "", {"input": "ls"}, TIME)


def test_a_line_without_end_is_skipped_and_what_follows_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MAX_LINE_BYTES", 1000)
    assert read(b'{"a":"' + b"x" * 5000 + b'"}\n', user("hello")) == [Unreadable(1), Prompt("hello", TIME)]


def test_an_agent_has_its_file_in_the_sessions_folder() -> None:
    whose = transcripts.named("p/one.jsonl")
    assert (whose.session, whose.agent, whose.parent) == ("one", "", "")
    whose = transcripts.named("p/one/subagents/agent-a1.jsonl")
    assert (whose.session, whose.agent, whose.parent) == ("one", "a1", "p/one.jsonl")
