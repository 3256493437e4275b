"""Files and transcripts that enter the context of Claude Code by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hook_events import ORDER, Plug, call_line, context_known, decision, load, transcript_line, write_transcript

from lockgate.claude_code import context_files
from lockgate.runtime.accounts import Account


def test_files_that_a_prompt_mentions_are_read(plug: Plug) -> None:
    (plug.cwd / "a b.md").write_text(ORDER)
    (plug.cwd / "c.md").write_text("plain")
    plug.start('See @"a b.md" and (@c.md), @missing.md, mail@c.md, @.')
    assert plug.untrusted() == [ORDER, "plain"]


def test_a_pipe_that_is_mentioned_delays_nothing(plug: Plug) -> None:
    import os

    os.mkfifo(plug.cwd / "pipe")
    plug.start("See @pipe and @/dev/zero")
    assert plug.untrusted() == []


def test_instructions_that_come_with_the_folder_are_untrusted_and_taken_once(plug: Plug) -> None:
    path = plug.cwd / "CLAUDE.md"
    path.write_text(ORDER)
    plug.start()
    for _ in range(2):
        plug.tell("InstructionsLoaded", file_path=str(path), memory_type="Project", load_reason="session_start")
    assert plug.untrusted() == [ORDER]
    path.write_text("other")
    plug.tell("InstructionsLoaded", file_path=str(path), memory_type="Project", load_reason="session_start")
    assert plug.untrusted() == [ORDER, "other"]


@pytest.mark.parametrize(
    "name", ["CLAUDE.md", "inner/CLAUDE.local.md", "AGENTS.md", ".claude/CLAUDE.md", ".claude/rules/a/b.md"]
)
def test_every_kind_of_instructions_is_read(plug: Plug, name: str) -> None:
    path = plug.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ORDER)
    plug.start()
    load(plug, path)
    assert plug.untrusted() == [ORDER]
    assert context_known(plug)


def test_the_users_own_rules_are_instructions(plug: Plug, config: Path) -> None:
    (config / "rules").mkdir(parents=True)
    (config / "rules" / "mail.md").write_text(ORDER)
    plug.start()
    load(plug, config / "rules" / "mail.md", memory_type="User")
    assert plug.untrusted() == [ORDER]


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "notes.md",
        "CLAUDE.md.bak",
        "claude.json",
        ".claude/rules/x.env",
        ".claude/rules/../../y.md",
        "CLAUDE.md/x",
    ],
)
def test_what_is_no_instructions_is_not_read_and_leaves_the_context_unknown(plug: Plug, name: str) -> None:
    path = plug.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a secret")
    plug.start()
    load(plug, path)
    load(plug, path, load_reason="include")
    (plug.cwd / "other.md").write_text("see @elsewhere.md")
    load(plug, path, load_reason="include", parent_file_path=str(plug.cwd / "other.md"))
    assert plug.untrusted() == []
    assert not context_known(plug)


def test_a_file_that_instructions_include_is_read(plug: Plug) -> None:
    (plug.cwd / "CLAUDE.md").write_text("See @docs/git.md, and more.\n")
    (plug.cwd / "docs").mkdir()
    (plug.cwd / "docs" / "git.md").write_text(ORDER)
    plug.start()
    load(plug, plug.cwd / "docs" / "git.md", load_reason="include", parent_file_path=str(plug.cwd / "CLAUDE.md"))
    assert plug.untrusted() == [ORDER]
    assert context_known(plug)


def test_instructions_that_are_not_there_say_nothing(plug: Plug) -> None:
    plug.start()
    for path in (plug.cwd / "CLAUDE.md", "CLAUDE.md", "/dev/null/CLAUDE.md"):
        load(plug, path)
    assert plug.untrusted() == []
    assert context_known(plug)


def test_for_another_account_its_own_rights_count(plug: Plug, config: Path) -> None:
    plug.account = Account(54_321)
    for path in (plug.cwd / "CLAUDE.md", plug.cwd / "notes.txt", plug.cwd / ".claude" / "commands" / "build.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a secret")
        path.chmod(0o600)
    (plug.cwd / "requirements.txt").write_text("flask\n")
    plug.cwd.chmod(0o700)
    transcript = config / "projects" / "p" / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(json.dumps({"type": "user", "message": {"content": "a secret"}}) + "\n")
    plug.start("See @notes.txt")
    plug.tell("UserPromptExpansion", command_name="build")
    plug.tell("PreToolUse", tool_name="Read", tool_input={}, tool_use_id="t", transcript_path=str(transcript))
    load(plug, plug.cwd / "CLAUDE.md")
    assert plug.untrusted() == []
    assert not plug.host.project("s1").packages
    assert not context_known(plug)


@pytest.mark.parametrize("where", ["project", "above", "user"])
def test_commands_and_skills_are_read(plug: Plug, config: Path, where: str) -> None:
    base = {"project": plug.cwd / ".claude", "above": plug.cwd.parent / ".claude", "user": config}[where]
    (base / "commands" / "git").mkdir(parents=True)
    (base / "commands" / "git" / "push.md").write_text(f"command: {ORDER}")
    (base / "skills" / "build").mkdir(parents=True)
    (base / "skills" / "build" / "SKILL.md").write_text(f"skill: {ORDER}")
    plug.start()
    plug.tell("UserPromptExpansion", command_name="git:push", command_args="", prompt="/git:push")
    plug.tell("UserPromptExpansion", command_name="../../etc/passwd", command_args="", prompt="/x")
    given = {"tool_name": "Skill", "tool_input": {"skill": "build"}, "tool_use_id": "t9"}
    plug.tell("PostToolUse", **given, tool_response={"success": True, "commandName": "build"})
    assert [text for text in plug.untrusted() if ORDER in text] == [f"command: {ORDER}", f"skill: {ORDER}"]


def test_a_context_is_rebuilt_from_a_transcript_that_reaches_the_call(plug: Plug, config: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t0", "content": "plain words"}
    lines = [
        transcript_line("user", "make it"),
        call_line("t0"),
        transcript_line("user", [result]),
        call_line("toolu_check"),
    ]
    path = write_transcript(config, lines)
    assert plug.check({"command": "make"}, transcript_path=str(path)) == {}
    info = plug.host.session("s1")
    assert info is not None
    assert (info.context_known, info.goal) == (True, "make it")
    assert plug.untrusted() == ["plain words"]


def test_poison_in_a_transcript_is_poison(plug: Plug, config: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t0", "content": ORDER}
    path = write_transcript(
        config,
        [
            transcript_line("user", "make it"),
            call_line("t0"),
            transcript_line("user", [result]),
            call_line("toolu_check"),
        ],
    )
    assert decision(plug.check(transcript_path=str(path)))[0] == "deny"


@pytest.mark.parametrize("fault", ["too short", "unreadable", "elsewhere", "another session", "link", "traversal"])
def test_a_transcript_that_cannot_be_relied_on_rebuilds_nothing(plug: Plug, config: Path, fault: str) -> None:
    path = write_transcript(
        config, [transcript_line("user", "make it"), call_line("t0" if fault == "too short" else "toolu_check")]
    )
    if fault == "unreadable":
        path.write_text("{broken\n" + path.read_text())
    elif fault == "elsewhere":
        path = path.rename(plug.cwd / "s1.jsonl")
    elif fault == "another session":
        path = path.rename(path.with_name("s2.jsonl"))
    elif fault == "link":
        aside = path.rename(plug.cwd / "s1.jsonl")
        path.symlink_to(aside)
    elif fault == "traversal":
        aside = path.rename(plug.cwd / "s1.jsonl")
        path = config / "projects" / ".." / ".." / "work" / aside.name
    assert decision(plug.check({"command": "make"}, transcript_path=str(path)))[0] == "deny"


def test_what_entered_by_itself_is_taken_from_the_transcript_once(plug: Plug, config: Path) -> None:
    attached = {"type": "attachment", "attachment": {"type": "mcp_resource", "content": ORDER}}
    path = write_transcript(config, [transcript_line("user", "go"), attached])
    plug.start()
    for _ in range(2):
        assert decision(plug.check(transcript_path=str(path)))[0] == "deny"
    assert plug.untrusted() == [ORDER]


def test_what_the_user_ran_in_the_terminal_is_read_from_the_transcript(plug: Plug, config: Path) -> None:
    plug.start()
    transcript = config / "projects" / "-w" / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    said = {"type": "user", "message": {"role": "user", "content": f"<bash-stdout>{ORDER}</bash-stdout>"}}
    transcript.write_text(json.dumps(said, separators=(",", ":")) + "\n")
    assert decision(plug.check(transcript_path=str(transcript)))[0] == "deny"


def test_a_transcript_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    def line(text: str) -> str:
        attached = {"type": "attachment", "attachment": {"type": "file", "filename": "/x", "content": text}}
        return json.dumps(attached, separators=(",", ":")) + "\n"

    path, news = tmp_path / "s1.jsonl", context_files.TranscriptFollower()
    path.write_text(line("A" * 3000))
    assert len(news.new_pieces(str(path))) == 1
    path.write_text(line("B" * 1000))
    assert [piece.content[-1:] for piece in news.new_pieces(str(path))] == ["B"]
    with path.open("a") as file:
        file.write(line("C" * 2500) + line("D" * 2000))
    assert [piece.content[-1:] for piece in news.new_pieces(str(path))] == ["C", "D"]
    path.unlink()
    assert news.new_pieces(str(path)) == ()
