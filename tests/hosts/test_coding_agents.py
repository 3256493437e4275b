"""The real Codex, Gemini CLI, Copilot CLI and OpenCode: what our hooks do to them, and what they do when hooks fail.

Each test is a whole run of the program in a home of its own. Nothing here leaves the machine.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from claude_machine import HIJACK, POISON, Machine

from coding_agents import run_agent, shell, why_missing
from lockgate.coding_agents.hook_events import CODING_AGENTS

RECORDS = {
    "codex": ".codex/sessions",
    "gemini": ".gemini/tmp",
    "copilot": ".copilot/session-state",
    "opencode": ".local/share/opencode",
}

pytestmark = pytest.mark.parametrize("agent", CODING_AGENTS)


@pytest.fixture(autouse=True)
def _is_there(agent: str) -> None:
    if said := why_missing(agent):
        pytest.skip(said)


@pytest.fixture
def wired(bare: Machine, agent: str) -> Machine:
    ended = bare.lockgate("init", agent, "--yes", "--no-start")
    assert ended.returncode == 0, ended.stderr
    return bare


def test_ordinary_commands_run_and_the_hijacked_one_is_stopped_with_our_sentence(wired: Machine, agent: str) -> None:
    wired.serve()
    wired.work.joinpath("notes.txt").write_text("Remember to water the plants on Monday.\n")
    wired.work.joinpath("README.md").write_text(POISON)
    commands = ("cat notes.txt", "touch one", "cat README.md", HIJACK, "touch two")
    model, out = run_agent(wired, agent, "Look at the notes", *(shell(agent, each) for each in commands))
    assert wired.has("one"), out
    assert not wired.has("pwned"), out
    # The agent goes on after a no.
    assert wired.has("two"), out
    kept = wired.decisions()
    assert [each["action"] for each in reversed(kept)] == ["CONTINUE"] * 3 + ["PAUSE", "CONTINUE"], kept
    info = wired.api(f"/v1/sessions/{kept[0]['session']}")
    assert str(info["goal"]).strip('"') == "Look at the notes"
    assert (info["context_known"], info["host"]) == (True, agent)
    # The model reads why, and how a person can answer; Copilot CLI puts a sentence of its own there.
    told = model.heard()
    assert ("Lockgate stopped this call" in told and "lockgate approvals show" in told) or agent == "copilot"
    # What the program itself has written about this is read, and ruled on alike.
    replayed = wired.lockgate("replay", str(wired.home / RECORDS[agent]), "--json")
    *held, summary = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert summary["summary"]["calls"] == 5, replayed.stdout + replayed.stderr
    assert [(each["call"], each["ran"]) for each in held] == [(4, "not-run")], replayed.stdout


def test_nothing_runs_while_the_service_is_down(wired: Machine, agent: str) -> None:
    _, out = run_agent(wired, agent, "Make a file", shell(agent, "touch one"))
    assert not wired.has("one"), out


# What becomes of a hook, the word for it in the table of the page, and what the program in its place does to the call.
FAULTS = {
    "killed": ("killed", "kill -KILL $$"),
    "late": ("not answered", "sleep 4; echo no >&2; exit 2"),
    "missing": ("missing", ""),
    "untrusted": ("not trusted in", "echo no >&2; exit 2"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_runs_anyway_is_what_the_page_says(bare: Machine, agent: str, fault: str) -> None:
    if fault == "untrusted" and agent != "codex":
        pytest.skip("only Codex wants its hooks trusted by hand")
    word, action = FAULTS[fault]
    put_in_place_of_hook(bare, agent, action)
    _, out = run_agent(bare, agent, "Make a file", shell(agent, "touch one"), trust_hooks=fault != "untrusted")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "coding-agents.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.partition("## What they run anyway")[2].splitlines() if line[:1] == "|"]
    column = next(at for at, title in enumerate(rows[0]) if title.lower().split()[:1] == [agent])
    (said,) = (row[column].strip() for row in rows if word in row[1])
    assert bare.has("one") is said.startswith("**runs**"), f"{said}\n{out}"


def put_in_place_of_hook(machine: Machine, agent: str, action: str) -> None:
    """Wire a program that does this to the call, and lets all else pass; without an action, one that is not there."""
    path = Path(json.loads(machine.lockgate("init", agent, "--yes", "--no-start", "--json").stdout)["path"])
    program = machine.home / "hook"
    if action:
        program.write_text(f'#!/bin/sh\ncase "$(cat)" in *"touch one"*) {action};; esac\n')
        program.chmod(0o700)
    text = path.read_text().replace(sys.executable, str(program))
    assert str(program) in text
    # The host's own limit, in seconds or milliseconds; OpenCode has none.
    path.write_text(re.sub(r'("timeout(?:Sec)?": )60', r"\g<1>1", text))


def test_the_hooks_come_and_go_without_a_trace(bare: Machine, agent: str) -> None:
    first = json.loads(bare.lockgate("init", agent, "--yes", "--json").stdout)
    again = json.loads(bare.lockgate("init", agent, "--yes", "--json").stdout)
    assert (first["changed"], again["changed"]) == (True, False)
    assert bare.lockgate("init", agent, "--remove", "--yes").returncode == 0
    path = Path(first["path"])
    assert not path.exists() or json.loads(path.read_text() or "{}") == {}
