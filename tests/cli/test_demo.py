"""The demo is a promise to strangers: it must go as told, through the real gate."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lockgate import Gate, assemble
from lockgate.cli import demo
from lockgate.core.ruling.opinions import Triage
from lockgate.core.vocabulary import Action
from lockgate.gate.judge import Opined

Run = Callable[..., Any]


RULING = re.compile(r"^ +(CONTINUE|PAUSE)  tier (\d)  ([a-z-]+) .*?[\d.]+ [µm]s$", flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed here; tests/cli/test_judge.py plays it with the model."""
    monkeypatch.setattr(assemble, "is_embedded_installed", lambda: False)


def test_the_story_goes_as_told(run: Run) -> None:
    ended = run("demo")
    assert (ended.code, ended.err) == (0, "")
    rulings = RULING.findall(ended.out)
    assert [action for action, _, _ in rulings] == ["CONTINUE", "CONTINUE", "CONTINUE", "PAUSE", "CONTINUE"]
    assert rulings[3][2] == "untrusted-origin"
    assert rulings[4][2] == "no-red-flags"
    assert "no key, no model" in ended.out
    assert "lockgate[agent]" in ended.out
    assert "»desk@parcel-clearance.example«" in ended.out
    assert len(ended.out.splitlines()) <= 45
    assert "lockgate check" in ended.out


def test_the_same_tool_is_stopped_once_and_passes_once() -> None:
    session = Gate().session(goal=demo.GOAL)
    ruled: list[tuple[str, bool]] = []
    for event in demo.STORY:
        if isinstance(event, demo.DemoReading):
            session.add(event.content, source=event.source)
        else:
            ruled.append((event.tool, session.check(event.tool, event.arguments).action is Action.CONTINUE))
    assert ruled[-2:] == [("send_email", False), ("send_email", True)]


def test_without_the_poisoned_page_nothing_is_stopped() -> None:
    session = Gate().session(goal=demo.GOAL)
    for event in demo.STORY:
        if isinstance(event, demo.DemoCall) and event.runs:
            assert session.check(event.tool, event.arguments).action is Action.CONTINUE


class _Trusting:
    """Stands in for the model where its packages are not installed."""

    name = "embedded/stub-balanced"
    reads_evidence = True

    def __init__(self, *, suspicious: bool) -> None:
        self._suspicious = suspicious

    def read(self, _text: str) -> None: ...

    def opine(self, _inquiry: object) -> Opined:
        return Opined(Triage(suspicious=self._suspicious))

    async def opine_async(self, inquiry: object) -> Opined:
        return self.opine(inquiry)


def test_with_a_judge_one_more_call_is_played_and_the_screen_names_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_load_judge", lambda: _Trusting(suspicious=False))
    # Only what it takes: a judge that trusts everybody would let the story's thief go.
    monkeypatch.setattr(demo, "STORY", (demo.STORY[1], demo.STORY[-1]))
    ended = run("demo", "--fast")
    assert (ended.code, ended.err) == (0, "")
    assert "embedded/stub-balanced as Tier 2" in ended.out
    assert ("CONTINUE", "2", "triage-cleared") in RULING.findall(ended.out)


def test_a_judge_that_clears_nothing_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_load_judge", lambda: _Trusting(suspicious=True))
    assert run("demo", "--fast").code == 1


def test_a_story_that_goes_otherwise_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "STORY", (demo.DemoCall("read_file", {}, runs=False),))
    assert run("demo", "--fast").code == 1


def test_what_the_screen_shows_is_in_the_texts() -> None:
    for event in demo.STORY:
        if isinstance(event, demo.DemoReading):
            for piece in event.shown.split("…"):
                assert piece.strip() in event.content
