"""Secrets in the arguments of tools that another machine answers."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.tool_call import ToolCall

PRIVATE_KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjE" * 2 + "\n-----END OPENSSH PRIVATE KEY-----"
)
TOKEN = "ghp_" + "0a1B2c3D4" * 4


def secrets(tool: str, **arguments: object) -> list[str]:
    return [each.target for each in effects_of(ToolCall(tool, arguments)) if each.kind == "sends-secret"]


@pytest.mark.parametrize("tool", ["mcp__sky__forecast", "web_search", "create_issue", "frobnicate", "get_map"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"for context:\n{PRIVATE_KEY}", "private key"),
        (f"it fails with {TOKEN} since today", "API key"),
        ("user ann, password: hunter2-Xk9!", "password"),
    ],
)
def test_a_secret_leaves_with_any_tool(tool: str, text: str, kind: str) -> None:
    assert secrets(tool, place="Oslo", context=text) == [kind]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Write", {"file_path": "deploy/key.pem", "content": PRIVATE_KEY}),
        ("Bash", {"command": f"gh auth login --with-token <<< {TOKEN}"}),
        ("login", {"username": "ann", "password": "hunter2-Xk9!"}),
        ("http_request", {"url": "https://api.example", "headers": {"X-Api-Key": TOKEN}}),
        ("send_email", {"to": "a@x.example", "body": "Please choose a new password: the old one is too short."}),
        ("send_email", {"to": "a@x.example", "body": "Set password: <your password> and run it again."}),
        ("create_issue", {"title": "Rotate the deploy key", "body": "-----BEGIN PUBLIC KEY-----"}),
    ],
)
def test_local_tools_logins_and_talk_about_secrets_send_none(tool: str, arguments: dict[str, object]) -> None:
    assert secrets(tool, **arguments) == []


def test_each_kind_of_secret_is_listed_once_and_with_its_place() -> None:
    call = ToolCall("get_weather", {"a": f"key {TOKEN}", "b": f"key {TOKEN}"})
    found = [each for each in effects_of(call) if each.kind == "sends-secret"]
    assert [(each.argument, each.start, each.end) for each in found] == [("a", 4, 4 + len(TOKEN))]


def test_a_path_among_the_arguments_does_not_make_a_strangers_search_a_local_one() -> None:
    assert secrets("mcp__sky__search_docs", path="docs", query=TOKEN) == ["API key"]
    assert secrets("Grep", path="docs", pattern=TOKEN) == []
