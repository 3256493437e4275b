"""Every file that a coding agent tells its model by itself is read, and what cannot be read is not passed over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lockgate.claude_code.context_files import UNREAD
from lockgate.coding_agents.hook_events import CODING_AGENTS
from lockgate.coding_agents.instruction_files import instruction_pieces, pieces_on_the_way
from lockgate.runtime.accounts import Account, own_account


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def put(path: Path, text: str = "told\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return f"file:{path}"


def sources(agent: str, folder: Path) -> list[str]:
    return [piece.source for piece in instruction_pieces(agent, str(folder), own_account())]


# As the real programs had them in the first request to their model.
@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("codex", "work/AGENTS.override.md"),
        ("codex", "work/.agents/skills/s/SKILL.md"),
        ("codex", "work/.codex/skills/s/SKILL.md"),
        ("codex", ".codex/AGENTS.md"),
        ("codex", ".codex/skills/q/SKILL.md"),
        ("codex", ".agents/skills/z/SKILL.md"),
        ("gemini", "work/GEMINI.md"),
        ("gemini", "work/.agents/skills/s/SKILL.md"),
        ("gemini", ".gemini/GEMINI.md"),
        ("copilot", "work/.github/copilot-instructions.md"),
        ("copilot", "work/.github/instructions/x.instructions.md"),
        ("copilot", "work/.github/skills/s/SKILL.md"),
        ("copilot", "work/.github/agents/a.agent.md"),
        ("copilot", "work/.claude/commands/c.md"),
        ("copilot", "work/.claude/rules/r.md"),
        ("copilot", ".copilot/copilot-instructions.md"),
        ("copilot", ".copilot/instructions/x.instructions.md"),
        ("opencode", "work/.opencode/skill/s/SKILL.md"),
        ("opencode", "work/.opencode/agent/a.md"),
        ("opencode", "work/.claude/skills/u/SKILL.md"),
        ("opencode", ".config/opencode/AGENTS.md"),
    ],
)
def test_what_the_program_tells_its_model_at_the_start_is_read(home: Path, agent: str, name: str) -> None:
    (home / "work").mkdir()
    assert put(home / name) in sources(agent, home / "work")


@pytest.mark.parametrize(
    ("agent", "settings", "text"),
    [
        ("opencode", "opencode.json", '{"instructions": ["docs/*.md"]}'),
        ("opencode", ".opencode/opencode.jsonc", '{ // a note\n "instructions": [\n"docs/rules.md",]}'),
        ("codex", ".codex/config.toml", 'project_doc_fallback_filenames = ["docs/rules.md"]'),
        ("codex", ".codex/config.toml", "model_instructions_file = 'docs/rules.md'"),
        ("gemini", ".gemini/settings.json", '{"context": {"fileName": "docs/rules.md"}}'),
    ],
)
def test_files_that_the_folders_settings_name_are_read(home: Path, agent: str, settings: str, text: str) -> None:
    own, rules = put(home / "work" / settings, text), put(home / "work" / "docs" / "rules.md")
    assert {own, rules} <= set(sources(agent, home / "work"))


@pytest.mark.parametrize(
    "text",
    [
        '{"instructions": ["https://evil.example/rules.md"]}',
        '{"instructions": ["**/x*/*.md"]}',
        '{"\\u0069nstructions": ["docs/rules.md"]}',
    ],
)
def test_what_they_name_and_is_not_read_makes_the_context_unknown(home: Path, text: str) -> None:
    put(home / "work" / "opencode.json", text)
    assert UNREAD in list(instruction_pieces("opencode", str(home / "work"), own_account()))


def test_too_many_skills_make_the_context_unknown(home: Path) -> None:
    for number in range(201):
        put(home / "work" / ".agents" / "skills" / f"s{number}" / "SKILL.md")
    found = list(instruction_pieces("codex", str(home / "work"), own_account()))
    assert len(found) == 201
    assert UNREAD in found


@pytest.mark.parametrize("agent", CODING_AGENTS)
def test_instructions_further_down_come_with_the_first_look_there(home: Path, agent: str) -> None:
    name = "GEMINI.md" if agent == "gemini" else "AGENTS.md"
    work = home / "work"
    put(work / name)
    expected = [put(work / "sub" / "deep" / name), put(work / "sub" / name)]
    for path in ("sub/deep/file.txt", str(work / "sub" / "deep" / "file.txt")):
        pieces = pieces_on_the_way(agent, path, str(work), own_account())
        assert [piece.source for piece in pieces] == expected
    for path in ("file.txt", "../other/x", "/etc/passwd", "", "a\0b"):
        assert list(pieces_on_the_way(agent, path, str(work), own_account())) == [], path
    assert list(pieces_on_the_way(agent, "sub/x", "", own_account())) == []


def test_a_pipe_or_a_device_is_not_waited_for(home: Path) -> None:
    (home / "work").mkdir()
    os.mkfifo(home / "work" / "AGENTS.md")
    os.symlink("/dev/zero", home / "work" / "AGENTS.override.md")
    assert sources("codex", home / "work") == []


def test_another_account_sees_only_what_it_can_read(home: Path) -> None:
    put(home / ".codex" / "AGENTS.md")
    put(home / "work" / ".agents" / "skills" / "s" / "SKILL.md")
    (home / "work").chmod(0o700)
    assert list(instruction_pieces("codex", str(home / "work"), Account(54_321))) == []


def test_settings_that_are_no_text_are_no_error(home: Path) -> None:
    put(home / "work" / "opencode.json", json.dumps({"instructions": [3, {"a": "b.md"}]}))
    (home / "work" / "AGENTS.md").write_bytes(b"\xff\xfe\x00 told")
    assert len(sources("opencode", home / "work")) == 2
