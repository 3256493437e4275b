"""Our hooks in a person's settings: everything else stays as it was."""

from __future__ import annotations

import json

import pytest
from hook_events import THEIRS

from lockgate.claude_code.settings_file import EVENTS, HookForm, add_hooks, remove_hooks
from lockgate.core.errors import LockgateError

HTTP = HookForm("/opt/lockgate", "http://127.0.0.1:7717", "lga_" + "t" * 40)


COMMAND = HookForm("lockgate")


ALONE = HookForm("/usr/bin/python3", words=("-I", "-S", "/opt/lib/lockgate/claude_code/hook_command.py"))


TEXTS = {
    "none": "",
    "empty": "{}",
    "empty with a line end": "{}\n",
    "one line": '{"model": "opus"}',
    "two blanks": '{\n  "model": "opus"\n}\n',
    "four blanks": '{\n    "model": "opus",\n    "env": {\n        "A": "1"\n    }\n}\n',
    "tabs and others' hooks": THEIRS,
    "windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "hooks first": '{"hooks": {"Stop": [{"hooks": []}]}, "model": "opus"}',
    "a group of theirs for the same event": json.dumps(
        {"hooks": {event: [{"hooks": [{"type": "command", "command": "x"}]}] for event in EVENTS}}, indent=3
    ),
}


@pytest.mark.parametrize("form", [HTTP, COMMAND, ALONE], ids=["http", "command", "alone"])
@pytest.mark.parametrize("text", TEXTS)
def test_putting_in_keeps_everything_and_taking_out_leaves_no_trace(text: str, form: HookForm) -> None:
    before = TEXTS[text]
    after = add_hooks(before, form)
    said, was = json.loads(after), json.loads(before or "{}")
    assert {key: value for key, value in said.items() if key != "hooks"} == {
        key: value for key, value in was.items() if key != "hooks"
    }
    for event in EVENTS:
        *theirs, ours = said["hooks"][event]
        assert theirs == was.get("hooks", {}).get(event, [])
        assert ours == form.group(event)
    assert [key for key in said if key != "hooks"] == [key for key in was if key != "hooks"]
    assert add_hooks(after, form) == after, "again it changes nothing"
    assert remove_hooks(after) == (before or "{}\n")


def test_what_is_not_in_its_way_stays_byte_for_byte() -> None:
    after = add_hooks(THEIRS, HTTP)
    for line in THEIRS.splitlines():
        if "Stop" not in line and "PreToolUse" not in line and line not in "{}\t},":
            assert line in after
    assert '\t\t"SessionStart": [' in after


def test_another_form_takes_the_place_of_the_one_that_is_there() -> None:
    assert json.loads(add_hooks(add_hooks(THEIRS, HTTP), COMMAND)) == json.loads(add_hooks(THEIRS, COMMAND))
    assert "lga_" not in add_hooks(add_hooks(THEIRS, HTTP), COMMAND)


def test_only_ours_is_taken_out_of_a_group_that_has_other_hooks() -> None:
    ours = HTTP.hook("PreToolUse")
    theirs = [
        {"type": "command", "command": "lockgate-lint", "args": ["hook", "claude-code"]},
        {"type": "command", "command": "echo lockgate hook claude-code"},
        {"type": "http", "url": "http://127.0.0.1:7717/hooks/other"},
        {"type": "prompt", "prompt": "is this fine?"},
    ]
    for at in range(len(theirs) + 1):
        shared = [*theirs[:at], ours, *theirs[at:]]
        text = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": shared}]}}, indent=2)
        assert json.loads(remove_hooks(text)) == {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": theirs}]}}


def test_a_failure_blocks_where_a_call_waits_and_never_where_an_agent_stops() -> None:
    for form in (HTTP, COMMAND):
        blocks = {event for event in EVENTS if form.hook(event).get("onFailure") == "block"}
        assert blocks == {
            "UserPromptSubmit",
            "UserPromptExpansion",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PostToolBatch",
        }
        # It is never asked over HTTP.
        assert form.hook("SessionStart")["type"] == "command"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ('{"a": 1} // mine', "not JSON"),
        ("[]", "not a JSON object"),
        ('{"hooks": []}', "`hooks` is not an object"),
        ('{"hooks": {"PreToolUse": {}}}', "is not a list"),
        ('{"hooks": {"PreToolUse": [7]}}', "no list of hooks"),
        ('{"hooks": {"PreToolUse": [{"hooks": {}}]}}', "no list of hooks"),
        ('{"hooks": {}, "hooks": {}}', "twice"),
        ("[" * 100_000, "not JSON"),
        ("\ufeff{}", "byte order mark"),
    ],
    ids=lambda value: str(len(value)),
)
def test_settings_that_cannot_be_understood_are_left_alone(text: str, said: str) -> None:
    for change in (lambda: add_hooks(text, HTTP), lambda: remove_hooks(text)):
        with pytest.raises(LockgateError, match=said):
            change()


@pytest.mark.parametrize("token", ["", "lga_x"])
def test_a_call_that_waits_says_for_what(token: str) -> None:
    said = {event: HookForm("lockgate", token=token).hook(event).get("statusMessage") for event in EVENTS}
    assert said.pop("PreToolUse") == "Lockgate looks at the call; a judge may take up to 20 seconds"
    assert not any(said.values())
