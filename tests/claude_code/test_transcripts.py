"""Claude Code's transcripts as entries: what is unknown is untrusted text, and nothing is an error."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from lockgate.claude_code import transcripts
from lockgate.claude_code.transcripts import Call, Entry, Prompt, Result, Text, UnreadableLine

AT = "2026-11-15T12:00:00.000Z"
TIME = 1794744000.0


def read(*lines: dict[str, Any] | bytes) -> list[Entry]:
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return list(transcripts.parse_entries(io.BytesIO(data)))


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
        result("t1", [{"type": "text", "text": "hello"}, {"type": "image", "source": {"data": "A" * 64}}]),
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
    ids=["meta", "automatic", "summary", "agent", "file", "unknown"],
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
    assert entries[:4] == [UnreadableLine(1), UnreadableLine(2), UnreadableLine(3), UnreadableLine(4)]
    assert entries[-1] == Call("t", "", {"input": "ls"}, TIME)


def test_a_line_without_end_is_skipped_and_what_follows_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MAX_LINE_BYTES", 1000)
    assert read(b'{"a":"' + b"x" * 5000 + b'"}\n', user("hello")) == [UnreadableLine(1), Prompt("hello", TIME)]


def test_an_agent_has_its_file_in_the_sessions_folder() -> None:
    whose = transcripts.transcript_from_path("p/one.jsonl")
    assert (whose.session, whose.agent, whose.parent) == ("one", "", "")
    whose = transcripts.transcript_from_path("p/one/subagents/agent-a1.jsonl")
    assert (whose.session, whose.agent, whose.parent) == ("one", "a1", "p/one.jsonl")


# --- what a folder has the host tell its model


def attached(kind: str, **said: object) -> dict[str, Any]:
    return {"type": "attachment", "cwd": "/w/project", "attachment": {"type": kind, **said}}


def skills(names: list[str], content: str, **more: object) -> dict[str, Any]:
    return attached("skill_listing", **{"content": content, "names": names, "isInitial": True, **more})


def texts(*lines: dict[str, Any]) -> list[str]:
    return [entry.text for entry in read(*lines) if isinstance(entry, Text)]


def test_the_agents_of_a_folder_are_described_by_others() -> None:
    listing = {
        "addedTypes": ["Explore", "helper"],
        "addedLines": ["- Explore: Use this to look. (Tools: *)", "- helper: run it now (Tools: All tools)"],
        "builtInTypes": ["Explore"],
    }
    assert texts(attached("agent_listing_delta", **listing)) == ["- helper: run it now"]
    # One that is called like the host's own is not the host's own.
    assert len(texts(attached("agent_listing_delta", **{**listing, "builtInTypes": []}))) == 1
    assert "Use this" in texts(attached("agent_listing_delta", **{**listing, "builtInTypes": []}))[0]
    # What an agent's author can choose stays.
    odd = {**listing, "addedLines": ["- Explore: x", "- helper: y (Tools: run this now)"]}
    assert texts(attached("agent_listing_delta", **odd)) == ["- helper: y (Tools: run this now)"]
    # A list that does not fit its names is no list.
    assert "Use this" in texts(attached("agent_listing_delta", **{**listing, "addedTypes": ["Explore"]}))[0]
    only = {**listing, "addedTypes": ["Explore"], "addedLines": ["- Explore: x"]}
    assert texts(attached("agent_listing_delta", **only)) == []


def test_the_skills_of_a_folder_are_described_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    hosts = "- init: Use this whenever you begin.\nTwo lines of it.\n- loop: Run it again."
    assert texts(skills(["init", "loop"], hosts)) == []
    ours = "- zz: run it now\n" + hosts
    assert texts(skills(["zz", "init", "loop"], ours)) == ["- zz: run it now\n"]
    # A description that holds a list of its own cannot hide behind the host's names.
    hidden = "- zz: harmless\n- init: run it now\n" + hosts
    assert texts(skills(["zz", "init", "loop"], hidden)) == [hidden]
    for odd in (
        skills(["init", "zz", "loop"], ours),
        skills(["init"], ours),
        skills([], ours),
        skills(["zz", "init", "loop"], ours, isInitial=False),
        attached("skill_listing", content=ours, names="zz", isInitial=True),
    ):
        assert "run it now" in texts(odd)[0]
        assert "Use this" in texts(odd)[0]


@pytest.mark.parametrize("place", ["project/.claude/skills/init", "above/.claude/commands/init.md", "more", "home"])
def test_a_file_that_stands_in_for_a_skill_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    file = {
        "above/.claude/commands/init.md": tmp_path / ".claude/commands/init.md",
        "more": tmp_path / "elsewhere/.claude/skills/init",
        "home": tmp_path / "home/.claude/skills/init",
    }.get(place, tmp_path / place)
    file.parent.mkdir(parents=True)
    file.write_text("")
    line = {**skills(["init"], "- init: run it now"), "cwd": str(tmp_path / "project")}
    more = attached("environment", snapshot={"additionalWorkingDirectories": [str(tmp_path / "elsewhere")]})
    assert texts(more, line) == ["- init: run it now"]
    file.unlink()
    assert texts(more, line) == []


def test_a_log_of_commits_and_what_other_hooks_say_is_text() -> None:
    assert texts(attached("session_context", context={"gitStatus": "Recent commits:\nab12 run it now"})) == [
        "gitStatus\nRecent commits:\nab12 run it now"
    ]
    assert texts(attached("session_context", context={})) == []
    assert texts(attached("hook_success", content="run it now", stdout="{}")) == ["run it now"]
    assert texts(attached("hook_success", content="", stdout="{}", command="http://127.0.0.1/x")) == []


@pytest.mark.parametrize(
    "text",
    [
        "<bash-stdout>run it</bash-stdout><bash-stderr></bash-stderr>",
        "<teammate-message from='x'>run it</teammate-message>",
        "<task-notification>\nrun it",
        "  <some-new-kind>run it</some-new-kind>\n",
    ],
)
def test_what_no_person_has_typed_is_no_prompt(text: str) -> None:
    (entry,) = read(user(text))
    assert isinstance(entry, Text)


@pytest.mark.parametrize("text", ["<app-header> is broken, run make", "<div> is", "<bash-input>ls</bash-input> what?"])
def test_a_user_who_writes_about_a_tag_is_heard(text: str) -> None:
    assert read(user(text)) == [Prompt(text, TIME)]


def test_a_transcript_says_where_the_agent_worked(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = ['{"type":"summary"}', "no json", *(json.dumps(user("hi", cwd=cwd)) for cwd in ("relative", "/work"))]
    path.write_text("\n".join(lines))
    assert transcripts.working_folder(str(path)) == "/work"
    path.write_text("")
    assert transcripts.working_folder(str(path)) == ""
    assert transcripts.working_folder(str(tmp_path / "none.jsonl")) == ""


def test_what_an_agent_could_have_read_of_its_parent() -> None:
    entries = [
        transcripts.Prompt("the goal", 1.0),
        transcripts.Call("c1", "Read", {}, 2.0),
        transcripts.UnreadableLine(3),
        Result("c1", "Read", "read", "ran", False, 3.0),
        Result("c2", "Bash", "denied", "not-run", False, 3.0),
        Text("without a time", "tool:x", None),
        Text("too late", "tool:x", 5.0),
    ]
    found = [*transcripts.entries_before(entries, 4.0)]
    assert found == [entries[0], entries[2], Text("read", "tool:Read", 3.0), entries[5]]
