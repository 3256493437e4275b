"""The table of coding agents: where their settings stand, and how they are started."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.own_paths import AGENT_PROGRAMS, Access, own_access
from lockgate.core.ruling.effects.project import NO_PROJECT


@pytest.mark.parametrize("agent", AGENT_PROGRAMS.values())
def test_where_the_hooks_stand_is_a_place_that_the_rules_hold(agent: object) -> None:
    path = f"{agent.usual_folder}/{agent.hooks}"  # type: ignore[attr-defined]
    assert own_access(path, Access.WRITE, NO_PROJECT) is not None
    moved = f"${agent.variable}/{agent.folder}/{agent.hooks}"  # type: ignore[attr-defined]
    assert own_access(moved, Access.WRITE, NO_PROJECT) is not None


def test_a_variable_moves_the_folder_and_an_empty_one_does_not() -> None:
    gemini = AGENT_PROGRAMS["gemini"]
    assert gemini.settings_folder({"GEMINI_CLI_HOME": "/g/"}) == "/g/.gemini"
    assert gemini.settings_folder({"GEMINI_CLI_HOME": ""}) == gemini.settings_folder({}) == "~/.gemini"
    assert AGENT_PROGRAMS["opencode"].settings_folder({}) == "~/.config/opencode"


def test_each_agent_is_known_by_its_program_and_its_package() -> None:
    for words in (["@openai/codex"], ["-y", "@openai/codex@0.1", "exec"], ["/x/node_modules/.bin/codex"]):
        assert AGENT_PROGRAMS["codex"].is_started_by("npx", words)
        assert not AGENT_PROGRAMS["gemini"].is_started_by("npx", words)
    assert not AGENT_PROGRAMS["codex"].is_started_by("npx", ["codexify", "x"])
    assert not AGENT_PROGRAMS["codex"].is_started_by("cat", ["codex"])
