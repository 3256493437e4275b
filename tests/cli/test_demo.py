"""The demo is a promise to strangers: it must go as told, through the real gate."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lockgate import Gate
from lockgate.cli import demo
from lockgate.core.vocabulary import Action

Run = Callable[..., Any]


def test_the_story_goes_as_told(run: Run) -> None:
    ended = run("demo")
    assert (ended.code, ended.err) == (0, "")
    rulings = re.findall(r"^ +(CONTINUE|PAUSE)  tier \d  ([a-z-]+) .*?([\d.]+ [µm]s)$", ended.out, flags=re.MULTILINE)
    assert [action for action, _, _ in rulings] == ["CONTINUE", "CONTINUE", "CONTINUE", "PAUSE", "CONTINUE"]
    assert rulings[3][1] == "untrusted-origin"
    assert rulings[4][1] == "no-red-flags"
    assert "»desk@parcel-clearance.example«" in ended.out
    assert len(ended.out.splitlines()) <= 45
    assert "lockgate check" in ended.out


def test_the_same_tool_is_stopped_once_and_passes_once() -> None:
    session = Gate().session(goal=demo.GOAL)
    ruled: list[tuple[str, bool]] = []
    for event in demo.STORY:
        if isinstance(event, demo.Read):
            session.add(event.content, source=event.source)
        else:
            ruled.append((event.tool, session.check(event.tool, event.arguments).action is Action.CONTINUE))
    assert ruled[-2:] == [("send_email", False), ("send_email", True)]


def test_without_the_poisoned_page_nothing_is_stopped() -> None:
    session = Gate().session(goal=demo.GOAL)
    for event in demo.STORY:
        if isinstance(event, demo.Call) and event.runs:
            assert session.check(event.tool, event.arguments).action is Action.CONTINUE


def test_a_story_that_goes_otherwise_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "STORY", (demo.Call("read_file", {}, runs=False),))
    assert run("demo", "--fast").code == 1


def test_what_the_screen_shows_is_in_the_texts() -> None:
    for event in demo.STORY:
        if isinstance(event, demo.Read):
            for piece in event.shown.split("…"):
                assert piece.strip() in event.content
