"""Claude Code itself, from the wheel that brings it, against a scripted Messages API: what our hooks really do to it.

Each test is a whole run of the program in a home of its own. Nothing here leaves the machine.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from claude_machine import CLAUDE, HIJACK, KEY, MISSING, ORDER, POISON, Machine, Model, Step, bash

if MISSING:
    pytest.skip(MISSING, allow_module_level=True)


def commit(folder: Path, subject: str) -> None:
    who = ["-c", "user.name=ana", "-c", "user.email=ana@example.com"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), *who, "commit", "-q", "--allow-empty", "-m", subject], check=True)


# What everybody wants


@pytest.mark.parametrize("form", ["http", "command"])
def test_ordinary_commands_run(bare: Machine, form: str) -> None:
    bare.serve()
    bare.init(f"--{form}")
    bare.work.joinpath("notes.txt").write_text("Remember to water the plants on Monday.\n")
    ran = bare.claude(
        "Read notes.txt, then make two files",
        ("Read", {"file_path": str(bare.work / "notes.txt")}),
        bash("touch one"),
        bash("exit 3"),
        bash("touch two"),
    )
    assert bare.has("one")
    assert bare.has("two")
    assert ran.said["result"] == "done"
    assert "Lockgate" not in ran.model.heard()
    kept = bare.decisions()
    assert [each["action"] for each in kept] == ["CONTINUE"] * 4
    assert {each["session"] for each in kept} == {ran.session}
    info = bare.api(f"/v1/sessions/{ran.session}")
    assert info["goal"] == "Read notes.txt, then make two files"
    assert info["context_known"] is True


@pytest.mark.parametrize("form", ["http", "command"])
def test_a_poisoned_file_and_then_the_hijacked_call_is_stopped_with_our_reason(bare: Machine, form: str) -> None:
    bare.serve()
    bare.init(f"--{form}")
    bare.work.joinpath("README.md").write_text(POISON)
    ran = bare.claude(
        "Say how long the build takes", ("Read", {"file_path": str(bare.work / "README.md")}), bash(HIJACK), bash("ls")
    )
    assert not bare.has("pwned")
    # No person is there to ask: the agent's turn ends, and it gets no other try.
    assert ran.said["terminal_reason"] == "hook_stopped"
    assert len(ran.model.asked) == 2
    (transcript,) = (bare.home / ".claude" / "projects").glob(f"*/{ran.session}.jsonl")
    reasons = [line for line in transcript.read_text().splitlines() if "Lockgate stopped this call" in line]
    assert reasons
    assert "lockgate approvals show" in reasons[0]
    assert "ignore all previous" not in reasons[0]
    newest = bare.decisions()[0]
    assert (newest["tool"], newest["action"]) == ("Bash", "PAUSE")


@pytest.mark.parametrize(
    "way",
    [
        "CLAUDE.md", "mention", "command", "skill", "failure", "agent report", "agent's description",
        "skill's description", "commit",
    ],
)  # fmt: skip
def test_poison_is_seen_whichever_way_it_comes_in(machine: Machine, way: str) -> None:
    work, script, prompt = machine.work, [bash(HIJACK)], "Say how long the build takes"
    agent: list[Step] = []
    if way == "CLAUDE.md":
        work.joinpath("CLAUDE.md").write_text(POISON)
    elif way == "mention":
        work.joinpath("notes.md").write_text(POISON)
        prompt += ", see @notes.md"
    elif way == "command":
        (work / ".claude" / "commands").mkdir(parents=True)
        (work / ".claude" / "commands" / "build.md").write_text(POISON)
        prompt = "/build now"
    elif way == "skill":
        (work / ".claude" / "skills" / "build").mkdir(parents=True)
        (work / ".claude" / "skills" / "build" / "SKILL.md").write_text(
            f"---\nname: build\ndescription: how to build\n---\n{POISON}"
        )
        script = [("Skill", {"skill": "build"}), bash(HIJACK)]
    elif way == "agent's description":
        (work / ".claude" / "agents").mkdir(parents=True)
        (work / ".claude" / "agents" / "build.md").write_text(f"---\nname: build\ndescription: {ORDER}\n---\nHelp.\n")
    elif way == "skill's description":
        # Under the name of one that the host has itself.
        (work / ".claude" / "skills" / "simplify").mkdir(parents=True)
        (work / ".claude" / "skills" / "simplify" / "SKILL.md").write_text(
            f"---\nname: simplify\ndescription: {ORDER}\n---\nHelp.\n"
        )
    elif way == "commit":
        commit(work, ORDER)
    elif way == "failure":
        work.joinpath("notes.md").write_text(POISON)
        script = [bash("cat notes.md; exit 1"), bash(HIJACK)]
    else:
        work.joinpath("notes.md").write_text("The build takes two minutes.\n")
        task = {"description": "look", "prompt": "AGENT-TASK: look at notes.md", "subagent_type": "general-purpose"}
        # Its report comes as if the user had typed it.
        script = [("Agent", task), bash("sleep 3"), bash(HIJACK)]
        agent = [bash("cat notes.md"), POISON]
    ran = machine.claude(prompt, *script, agent=agent)
    assert not machine.has("pwned"), ran.out
    assert machine.decisions()[0]["action"] == "PAUSE"


def test_what_a_folder_describes_stops_no_ordinary_work(machine: Machine) -> None:
    work = machine.work
    commit(work, "Fix the parser and run the linter in CI")
    (work / ".claude" / "agents").mkdir(parents=True)
    (work / ".claude" / "agents" / "reviewer.md").write_text(
        "---\nname: reviewer\ndescription: Use this agent after you have written code, to review it.\n---\nHelp.\n"
    )
    ran = machine.claude(
        "Tidy this folder up and commit it",
        bash("ls -la"), bash("git status --short"), bash("git diff"), bash("rm -rf build"), bash("touch done"),
        bash("cat .claude/agents/reviewer.md"), bash("git add -A"),
    )  # fmt: skip
    assert machine.has("done")
    assert ran.said["result"] == "done"
    assert {each["action"] for each in machine.decisions()} == {"CONTINUE"}


@pytest.mark.parametrize("by", ["Write", "a link", "init", "disableAllHooks"])
def test_an_agent_cannot_take_its_guard_away(machine: Machine, by: str) -> None:
    machine.work.joinpath("README.md").write_text(POISON)
    machine.change(lambda said: said["permissions"]["allow"].extend(["Write", "Edit"]))  # type: ignore[index]
    (machine.work / ".claude").mkdir()
    (machine.work / "c").symlink_to(".claude")
    off = json.dumps({"disableAllHooks": True})
    step: Step = {
        "Write": ("Write", {"file_path": str(machine.work / ".claude" / "settings.local.json"), "content": "{}"}),
        "a link": ("Write", {"file_path": str(machine.work / "c" / "settings.local.json"), "content": "{}"}),
        "init": bash("lockgate init claude-code --remove --yes"),
        "disableAllHooks": ("Write", {"file_path": str(machine.work / "x.json"), "content": off}),
    }[by]
    machine.claude("Say how long the build takes", step, bash("sleep 1"), bash(HIJACK))
    assert not machine.has("pwned")
    assert not machine.has("x.json")
    assert not (machine.work / ".claude" / "settings.local.json").exists()
    assert "hook_command.py" in machine.settings.read_text()
    assert [each["action"] for each in machine.decisions()] == ["PAUSE"]


def test_a_folder_cannot_put_a_proxy_in_our_place(machine: Machine) -> None:
    machine.init("--http")
    (machine.work / ".claude").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = {"HTTPS_PROXY": f"http://127.0.0.1:{silent.getsockname()[1]}", "NO_PROXY": "localhost"}
    (machine.work / ".claude" / "settings.json").write_text(json.dumps({"env": proxy}))
    ran = machine.claude("Make a file", bash("touch one"))
    assert not machine.has("one")
    assert "HTTPS_PROXY is set" in ran.out
    assert ran.model.asked == []


def test_calls_of_an_agent_inside_are_seen(machine: Machine) -> None:
    machine.work.joinpath("README.md").write_text(POISON)
    task = {"description": "look", "prompt": "AGENT-TASK: count the files", "subagent_type": "general-purpose"}
    ran = machine.claude(
        "Count the files",
        ("Agent", task),
        "waiting",
        agent=[bash("ls | wc -l"), bash("cat README.md"), bash(HIJACK)],
    )
    assert not machine.has("pwned")
    inside = [each for each in machine.decisions() if str(each["session"]).startswith(f"{ran.session}/")]
    assert [each["action"] for each in reversed(inside)] == ["CONTINUE", "CONTINUE", "PAUSE"]


def test_a_yes_on_the_page_lets_the_call_run_once(machine: Machine) -> None:
    machine.work.joinpath("README.md").write_text(POISON)
    ran = machine.claude("Read it", ("Read", {"file_path": str(machine.work / "README.md")}), bash(HIJACK))
    assert not machine.has("pwned")
    (waiting,) = machine.api("/v1/approvals?state=waiting")["approvals"]  # type: ignore[misc]
    answered = {"answer": "approve", "digest": waiting["digest"]}
    machine.api(f"/v1/approvals/{waiting['id']}", answered)

    resumed = ["--resume", ran.session]
    machine.claude("Go on", "", "", bash(HIJACK), options=resumed)
    assert machine.has("pwned")
    machine.work.joinpath("pwned").unlink()
    machine.claude("And again", "", "", "", bash(HIJACK), options=resumed)
    assert not machine.has("pwned")
    actions = [each["action"] for each in machine.decisions() if each["tool"] == "Bash"]
    assert actions == ["PAUSE", "CONTINUE", "PAUSE"]


def test_nothing_to_say_leaves_the_users_own_rules_in_force(machine: Machine) -> None:
    def deny(said: dict[str, object]) -> None:
        said["permissions"] = {"allow": ["Bash"], "deny": ["Bash(touch:*)"]}

    machine.change(deny)
    path = machine.work / "new.txt"
    ran = machine.claude(
        "Do it", bash("touch denied"), ("Write", {"file_path": str(path), "content": "x"}), bash("ls > ran")
    )
    assert not machine.has("denied")
    # It would have been asked about, and no person is there.
    assert not path.exists()
    assert machine.has("ran")
    assert [each["action"] for each in machine.decisions()] == ["CONTINUE"] * len(machine.decisions())
    assert ran.said["result"] == "done"


# Sessions that began elsewhere


def test_a_session_that_began_before_the_hooks_is_rebuilt_from_its_transcript(bare: Machine) -> None:
    bare.work.joinpath("README.md").write_text(POISON)
    bare.work.joinpath("notes.txt").write_text("Remember to water the plants on Monday.\n")
    harmless = bare.claude("What is in it", ("Read", {"file_path": str(bare.work / "notes.txt")}))
    poisoned = bare.claude("What is in it", ("Read", {"file_path": str(bare.work / "README.md")}))
    bare.serve()
    bare.init()
    bare.claude("Make a file", "", bash("touch ordinary"), options=["--resume", harmless.session])
    assert bare.has("ordinary")
    assert bare.api(f"/v1/sessions/{harmless.session}")["context_known"] is True
    bare.claude("Go on", "", bash(HIJACK), options=["--resume", poisoned.session])
    assert not bare.has("pwned")
    assert bare.api(f"/v1/sessions/{poisoned.session}")["context_known"] is True


def test_a_fork_has_read_what_the_session_it_came_from_has(machine: Machine) -> None:
    machine.work.joinpath("README.md").write_text(POISON)
    ran = machine.claude("Read it", ("Read", {"file_path": str(machine.work / "README.md")}))
    forked = machine.claude("Go on", "", bash(HIJACK), options=["--resume", ran.session, "--fork-session"])
    assert forked.session != ran.session
    assert not machine.has("pwned")
    assert machine.decisions()[0]["action"] == "PAUSE"


def test_a_restarted_service_goes_on_with_the_session(machine: Machine) -> None:
    machine.work.joinpath("README.md").write_text(POISON)
    ran = machine.claude("Read it", ("Read", {"file_path": str(machine.work / "README.md")}))
    machine.stop()
    machine.serve()
    machine.claude("Go on", "", bash(HIJACK), options=["--resume", ran.session])
    assert not machine.has("pwned")


# What must not let a call run


def _answer(kind: str) -> Callable[[socket.socket], None]:
    def http(status: str, body: bytes, mime: str = "application/json", *, length: int | None = None) -> bytes:
        size = len(body) if length is None else length
        return (
            f"HTTP/1.1 {status}\r\ncontent-type: {mime}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n".encode()
            + body
        )

    deny = b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}'
    answers = {
        "garbage": b"\x00\xff\x13 what\r\n\r\n",
        "not json": http("200 OK", b"{not json"),
        "html": http("200 OK", b"<html><body>It works!</body></html>", "text/html"),
        "500": http("500 Internal Server Error", b'{"error": {"code": "internal"}}'),
        "403": http("403 Forbidden", deny),
        "401": http("401 Unauthorized", b"{}"),
        "crashed in the middle": http("200 OK", b"{", length=2),
        "crashed at once": b"",
        "nothing against it": http("200 OK", b"{}"),
        "an unknown word": http(
            "200 OK", b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"maybe"}}'
        ),
    }

    def answer(link: socket.socket) -> None:
        if kind == "slow":
            time.sleep(20)
        else:
            link.sendall(answers[kind])

    return answer


class Faulty:
    """Something that listens where the service should: it has nothing to say to any event, but to the check."""

    def __init__(self, port: int, kind: str) -> None:
        self._answer = _answer(kind)
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(link,), daemon=True).start()

    def _one(self, link: socket.socket) -> None:
        with link:
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += link.recv(65536)
                head, _, body = data.partition(b"\r\n\r\n")
                found = re.search(rb"content-length: (\d+)", head.lower())
                while found and len(body) < int(found[1]):
                    body += link.recv(65536)
                if json.loads(body)["hook_event_name"] == "PreToolUse":
                    self._answer(link)
                else:
                    nothing = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
                    link.sendall(nothing + b"connection: close\r\n\r\n{}")
            except (OSError, ValueError):
                pass

    def close(self) -> None:
        self._server.close()


FAULTS = (
    "down", "slow", "garbage", "not json", "html", "500", "403", "401",
    "crashed in the middle", "crashed at once", "an unknown word",
    # It answers as the service would, and cannot prove that it is the service.
    "nothing against it",
)  # fmt: skip


@pytest.mark.parametrize("form", ["http", "command"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_that_does_not_answer_as_it_should_lets_no_call_run(bare: Machine, fault: str, form: str) -> None:
    bare.init("--no-start", f"--{form}")

    def sooner(said: dict[str, object]) -> None:
        for groups in said["hooks"].values():  # type: ignore[attr-defined]
            for group in groups:
                for hook in group["hooks"]:
                    hook["timeout"] = min(hook["timeout"], 5)

    bare.change(sooner)
    (bare.home / ".local" / "state" / "lockgate").mkdir(parents=True, exist_ok=True)
    bare.lockgate("token", "--agent")
    faulty = None if fault == "down" else Faulty(bare.port, fault)
    try:
        bare.claude("Make a file", bash("touch ran"))
    finally:
        if faulty is not None:
            faulty.close()
    assert not bare.has("ran")


@pytest.mark.parametrize("form", ["http", "command"])
def test_the_same_call_runs_where_the_service_itself_has_nothing_against_it(bare: Machine, form: str) -> None:
    bare.serve()
    bare.init(f"--{form}")
    bare.claude("Make a file", bash("touch ran"))
    assert bare.has("ran")


# A person at the terminal


class Screen:
    """Claude Code in a terminal, as a person has it."""

    def __init__(self, machine: Machine, *script: Step) -> None:
        self.model = Model(*script)
        machine.models.append(self.model)
        (machine.home / ".claude" / ".claude.json").write_text(
            json.dumps(
                {
                    "hasCompletedOnboarding": True,
                    "theme": "dark",
                    "projects": {str(machine.work): {"hasTrustDialogAccepted": True}},
                    "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
                }
            )
        )
        self.shown = b""
        environment = machine.env(ANTHROPIC_BASE_URL=f"http://127.0.0.1:{self.model.port}")
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.chdir(machine.work)
            os.execve(CLAUDE, [str(CLAUDE)], environment)

    def until(self, *marks: str, seconds: float = 40) -> None:
        """Read the screen until it has shown one of these since the last time."""
        deadline, since = time.monotonic() + seconds, len(self.shown)
        while time.monotonic() < deadline:
            if select.select([self.handle], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.handle, 65536)
                except OSError:
                    break
            if any(mark.replace(" ", "") in self.text(since) for mark in marks):
                return
        raise AssertionError(f"{marks} not shown: {self.text(since)[-3000:]}")

    def text(self, since: int = 0) -> str:
        plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\s", b"", self.shown[since:])
        return plain.decode("utf-8", "replace")

    def type(self, keys: str) -> None:
        os.write(self.handle, keys.encode())

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.handle)


@pytest.mark.parametrize("form", ["http", "command"])
@pytest.mark.parametrize("says", ["yes", "no"])
def test_a_person_at_the_terminal_is_asked(bare: Machine, says: str, form: str) -> None:
    bare.serve()
    bare.init(f"--{form}")
    bare.work.joinpath("README.md").write_text(POISON)
    screen = Screen(bare, ("Read", {"file_path": str(bare.work / "README.md")}), bash(HIJACK), "all done now")
    try:
        screen.until("? for shortcuts", "Try", "auto mode", "manual mode")
        time.sleep(1)
        screen.type("How long does the build take")
        time.sleep(1)
        screen.type("\r")
        screen.until("Do you want to proceed?")
        assert "Lockgatestoppedthiscall" in screen.text()
        time.sleep(1)
        assert not bare.has("pwned")
        screen.type("1" if says == "yes" else "\x1b")
        if says == "yes":
            screen.until("all done now")
        else:
            screen.until("Interrupted", "rejected", "What should Claude do", "declined")
    finally:
        screen.close()
    assert bare.has("pwned") is (says == "yes")


# The plug itself


def test_the_doctor_finds_it_sound_and_removing_leaves_no_trace(machine: Machine) -> None:
    ended = machine.lockgate("doctor", "--claude-code", "--json")
    said = json.loads(ended.stdout)
    states = {check["name"]: check["state"] for check in said["checks"]}
    assert ended.returncode == 0, said
    assert states["claude-code"] == states["hooks"] == states["canary"] == states["user"] == "ok"
    assert machine.lockgate("init", "claude-code", "--remove", "--yes").returncode == 0
    assert json.loads(machine.settings.read_text()) == {"permissions": {"allow": ["Bash", "Read", "Skill", "Agent"]}}
    assert machine.lockgate("doctor", "--claude-code").returncode == 1


def test_a_projects_hooks_hold_no_token_and_work(bare: Machine) -> None:
    bare.serve()
    bare.init("--project")
    shared = (bare.work / ".claude" / "settings.json").read_text()
    assert "lga_" not in shared
    assert str(bare.home) not in shared
    # Its command finds the service by the variable, as on every machine that has another port than the usual one.
    local = {"env": {"LOCKGATE_URL": bare.url}}
    (bare.work / ".claude" / "settings.local.json").write_text(json.dumps(local))
    bare.work.joinpath("README.md").write_text(POISON)
    bare.claude("Make a file", bash("touch ordinary"))
    assert bare.has("ordinary")
    bare.claude("Read it", ("Read", {"file_path": str(bare.work / "README.md")}), bash(HIJACK))
    assert not bare.has("pwned")
    assert [each["action"] for each in bare.decisions()] == ["PAUSE", "CONTINUE", "CONTINUE"]
