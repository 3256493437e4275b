"""`lockgate doctor --claude-code`: wiring that leaves a hole, and a canary that has to be stopped."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any

import pytest
from proving import proof_for

from lockgate.claude_code.events import answer_event
from lockgate.claude_code.hook_command import is_proxied
from lockgate.claude_code.settings_file import EVENTS, HookForm, add_hooks
from lockgate.cli.doctor import CheckState
from lockgate.cli.doctor import claude_code as wiring
from lockgate.core.ruling.approvals import Approval, ApprovalState
from lockgate.core.ruling.policy import Policy
from lockgate.gate.approvals_memory import MemoryApprovals
from lockgate.gate.gate import Gate, shared_scanner
from lockgate.runtime.accounts import own_account
from lockgate.sessions import Host
from lockgate.sessions.stores.sqlite import SqliteSessions
from lockgate.settings.config import Settings

pytestmark = pytest.mark.usefixtures("no_claude")
Run = Callable[..., Any]


class Answers:
    """Where the service should be: answers every event with what it was given for it."""

    def __init__(self, hijacked: object, harmless: object = None) -> None:
        outer = self
        self.events: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.events.append(said["hook_event_name"])
                hostile = "canary.invalid" in json.dumps(said.get("tool_input", ""))
                body = json.dumps(hijacked if hostile else harmless or {}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                token = "lga_" + "t" * 40
                self.send_header("Lockgate-Proof", proof_for(self.headers["authorization"], token, 200, body))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


DENY = {"continue": False, "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}


def _checked(home: Path, settings: object) -> dict[str, tuple[CheckState, str]]:
    folder = home / "config"
    folder.mkdir(exist_ok=True)
    # Stands for the command that SessionStart starts.
    program = home / "lockgate"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    (folder / "settings.json").write_text(json.dumps(settings).replace("/opt/lockgate", str(program)))
    environ = {"CLAUDE_CONFIG_DIR": str(folder), "PATH": os.environ["PATH"], "HOME": str(home)}
    return {each.name: (each.state, each.said) for each in wiring.checks(Settings(), home, environ)}


def _sound(port: int = 7717) -> dict[str, object]:
    form = HookForm("/opt/lockgate", f"http://127.0.0.1:{port}", "lga_" + "t" * 40)
    said: dict[str, object] = json.loads(add_hooks("{}", form))
    return said


def test_the_canary_leaves_no_question_for_a_person(tmp_path: Path) -> None:
    approvals = MemoryApprovals()
    asked: list[Approval] = []

    def ask(body: bytes) -> object:
        answer = asyncio.run(answer_event(host, body, {}, own_account()))
        asked.extend(each for each in approvals.every(time()) if each.state is ApprovalState.WAITING)
        return answer

    host = Host(Gate(scanner=shared_scanner(Policy()), approvals=approvals), SqliteSessions(tmp_path / "sessions.db"))
    with closing(host):
        check = wiring.send_canary("canary", ask)
    assert check.state is CheckState.OK
    assert asked, "the held call was put before a person"
    assert approvals.waiting(time()) == []
    assert [each.state for each in approvals.every(time())] == [ApprovalState.VOIDED]


@pytest.mark.parametrize("starts", [True, False])
def test_a_service_that_the_hooks_start_is_started_as_a_session_would(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    form = HookForm("/opt/lockgate", "http://127.0.0.1:7717", "lga_" + "t" * 40, start=(f"HOME={home}",) * starts)
    found = _checked(home, json.loads(add_hooks("{}", form)))
    # The program of this test starts nothing.
    assert found["service"][0] is CheckState.FAIL
    assert ("the hooks could not start it" in found["service"][1]) is starts
    assert found["canary"][0] is CheckState.SKIP


@pytest.mark.parametrize(
    ("hijacked", "harmless", "state"),
    [
        (DENY, None, CheckState.OK),
        ({}, None, CheckState.FAIL),
        (DENY, DENY, CheckState.FAIL),
        ([], None, CheckState.FAIL),
    ],
    ids=["sound", "lets everything through", "stops everything", "something else"],
)
def test_the_canary_has_to_be_stopped_and_nothing_else(
    home: Path, hijacked: object, harmless: object, state: CheckState
) -> None:
    there = Answers(hijacked, harmless)
    try:
        found = _checked(home, _sound(there.port))
    finally:
        there.close()
    assert found["canary"][0] is state
    if state is CheckState.OK:
        assert found["session start"][0] is CheckState.OK
        assert set(there.events) == set(EVENTS)


def test_hooks_that_check_no_answer_are_told_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(wiring, "service_answers", lambda url: bool(asked.append(url)))
    state, said = _checked(home, _sound())["user"]
    assert state is CheckState.WARN
    assert "believe any program that has taken the service's port" in said
    form = HookForm(
        "/opt/lockgate", "http://127.0.0.1:7801", words=("-I", "-S", "/l/lockgate/claude_code/hook_command.py")
    )
    limited = {**json.loads(add_hooks("{}", form)), "allowedHttpHookUrls": ["https://hooks.example/*"]}
    assert _checked(home, limited)["user"][0] is CheckState.OK
    assert set(asked) == {"http://127.0.0.1:7717", "http://127.0.0.1:7801"}


def _without(event: str) -> dict[str, object]:
    said = _sound()
    del said["hooks"][event]  # type: ignore[attr-defined]
    return said


def _with(event: str, where: str, **changed: object) -> dict[str, object]:
    said = _sound()
    group = said["hooks"][event][0]  # type: ignore[index]
    (group if where == "group" else group["hooks"][0]).update(changed)
    return said


@pytest.mark.parametrize(
    ("settings", "name", "words"),
    [
        ({}, "hooks", "does not ask"),
        (_without("PostToolBatch"), "hooks", "not hooked: PostToolBatch"),
        ({**_sound(), "disableAllHooks": True}, "user", "disables all hooks"),
        ({**_sound(), "allowedHttpHookUrls": ["https://hooks.example/*"]}, "user", "other addresses only"),
        (_with("PreToolUse", "hook", onFailure="continue"), "user", "does not block"),
        (_with("SubagentStop", "hook", onFailure="block"), "user", "hold the agent up"),
        (_with("PreToolUse", "hook", **{"async": True}), "user", "not asked every time"),
        (_with("PreToolUse", "hook", **{"if": "Bash(git *)"}), "user", "not asked every time"),
        (_with("SessionStart", "hook", command="/nowhere/lockgate"), "user", "cannot be started"),
        (_with("PreToolUse", "group", matcher="bash"), "matchers", "matches no tool"),
        (_with("PreToolUse", "group", matcher="mcp__every"), "matchers", "matches no tool"),
        (_with("PreToolUse", "group", matcher="Bash|Write"), "matchers", "leaves tools out"),
    ],
    ids=[
        *("nothing", "an event", "disabled", "addresses", "failure", "stopping", "later", "sometimes", "program"),
        *("case", "part of a name", "some tools"),
    ],
)
def test_wiring_that_leaves_a_hole_is_found(
    home: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], name: str, words: str
) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    state, said = _checked(home, settings)[name]
    assert state is CheckState.FAIL
    assert words in said


def test_only_hooks_make_claude_code_wait_for_the_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    assert "Claude Code runs no tool until it does" in _checked(home, _sound())["service"][1]
    assert _checked(home, {})["service"] == (CheckState.FAIL, "nothing listens at http://127.0.0.1:7717")


@pytest.mark.parametrize(
    ("managed", "state"),
    [
        (None, CheckState.WARN),
        ({}, CheckState.WARN),
        ({"disableAllHooks": False}, CheckState.OK),
        (_sound(), CheckState.OK),
    ],
    ids=["none", "silent", "fixed", "hooks of its own"],
)
def test_a_folder_that_could_switch_hooks_off_is_warned_of(
    home: Path, monkeypatch: pytest.MonkeyPatch, managed: object, state: CheckState
) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    monkeypatch.setattr(wiring, "managed_folder", lambda: home / "managed")
    (home / "managed").mkdir()
    if managed is not None:
        (home / "managed" / "managed-settings.json").write_text(json.dumps(managed))
    assert _checked(home, _sound())["switch"][0] is state


def test_hooks_in_two_files_ask_twice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.local.json").write_text(json.dumps(_sound()))
    assert _checked(home, _sound())["hooks"][0] is CheckState.WARN


@pytest.mark.parametrize(
    ("environ", "caught"),
    [
        ({}, False),
        ({"HTTP_PROXY": "http://proxy:3128"}, True),
        ({"http_proxy": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1"}, False),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "example.com"}, True),
        # Claude Code takes this one for plain HTTP too.
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost"}, True),
        ({"HTTP_PROXY": "http://proxy:3128", "no_proxy": "127.0.0.1", "NO_PROXY": "localhost"}, True),
        ({"HTTP_PROXY": "", "https_proxy": "http://proxy:3128", "NO_PROXY": "*"}, False),
    ],
    ids=["none", "proxy", "spared", "another spared", "https", "one spelling", "all spared"],
)
def test_a_proxy_that_would_be_asked_in_our_place_is_noticed(environ: dict[str, str], caught: bool) -> None:  # noqa: FBT001
    assert is_proxied(environ, "http://127.0.0.1:7717") is caught


def test_variables_of_a_folder_that_lead_our_hooks_elsewhere_are_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    (home / ".claude").mkdir(exist_ok=True)
    local = home / ".claude" / "settings.local.json"
    local.write_text(json.dumps({"env": {"HTTPS_PROXY": "http://x", "PYTHONPATH": "y", "DEBUG": "1"}}))
    state, said = _checked(home, _sound())["local"]
    assert state is CheckState.FAIL
    assert "HTTPS_PROXY" in said
    assert "DEBUG" not in said
    local.write_text(json.dumps({"env": {"DEBUG": "1"}}))
    assert _checked(home, _sound())["local"][0] is CheckState.OK


def test_a_prompt_asked_over_http_does_not_see_a_proxy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    said = _sound()
    said["hooks"]["UserPromptSubmit"][0]["hooks"][0] = dict(said["hooks"]["PreToolUse"][0]["hooks"][0])  # type: ignore[index]
    assert _checked(home, said)["user"] == (CheckState.FAIL, _checked(home, said)["user"][1])
    assert "UserPromptSubmit" in _checked(home, said)["user"][1]
