"""Transcripts of `lockgate explain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]
MAIL = '{"to": ["ann@shop.example"], "body": "Hello"}'


def test_a_call_is_explained_effect_by_effect(run: Run) -> None:
    ended = run("explain", "send_email", MAIL)
    assert ended.code == 0
    assert [line.rstrip() for line in ended.out.splitlines()] == [
        "This call reaches out: it sends a message to `ann@shop.example`.",
        "  2 reaches out   sends-message: sends a message to `ann@shop.example`",
        "                  likely; read from `to[0]`: `ann@shop.example`",
    ]


def test_a_call_that_only_looks_is_said_to(run: Run) -> None:
    assert run("explain", "get_order", '{"id": 3}').out.startswith("This call only looks.\n")


def test_the_command_of_a_shell_needs_no_json(run: Run) -> None:
    plain = run("explain", "Bash", "ls -la")
    assert plain.code == 0
    assert plain.out == run("explain", "Bash", '{"command": "ls -la"}').out


def test_a_command_that_happens_to_be_json_is_still_one(run: Run) -> None:
    assert run("explain", "Bash", "1").code == 0


def test_a_goal_is_compared_with_each_effect(run: Run) -> None:
    assert "the goal names the target" in run("explain", "send_email", MAIL, "--goal", "mail ann@shop.example").out
    assert "the goal does not ask for it" in run("explain", "send_email", MAIL, "--goal", "tidy up").out


def test_json_has_every_part_of_every_effect(run: Run) -> None:
    [shown] = json.loads(run("explain", "send_email", MAIL, "--json", "--goal", "tidy up").out)["effects"]
    assert shown == {
        "kind": "sends-message",
        "severity": 2,
        "target": "ann@shop.example",
        "certainty": "likely",
        "argument": "to[0]",
        "start": 0,
        "end": 16,
        "does": "sends a message to `ann@shop.example`",
        "goal": "silent",
    }


def test_a_project_is_read_from_its_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {"left-pad": "1"}}')
    call = ("explain", "Write", json.dumps({"file_path": f"{tmp_path}/a.py", "content": "x = 1"}))
    assert json.loads(run(*call, "--project", str(tmp_path), "--json").out)["severity"] <= 1


def test_bad_input_is_explained(run: Run) -> None:
    for arguments, said in (("ls", "not JSON"), ("[1]", "no JSON object"), ('{"a": 1, "a": 2}', "twice")):
        ended = run("explain", "get_order", arguments)
        assert (ended.code, said in ended.err) == (2, True), ended.err
    ended = run("explain", "get_order", "{}", "--project", "/no/such/folder")
    assert (ended.code, "is no folder" in ended.err) == (2, True)


def test_what_an_attacker_wrote_is_shown_and_does_not_control_the_terminal(run: Run) -> None:
    ended = run("explain", "send_email", json.dumps({"to": "\x1b[2Jeve@evil.example"}))
    assert "\x1b" not in ended.out


def test_arguments_may_come_from_standard_input(run: Run) -> None:
    assert run("explain", "send_email", "-", stdin=MAIL.encode()).out == run("explain", "send_email", MAIL).out
