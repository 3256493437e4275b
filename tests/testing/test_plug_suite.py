"""The conformance suite of plugs: a good plug passes, and a bad one is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from toy_framework import ToyDriver

from lockgate import Gate
from lockgate.integrations.plug import Plug, Verdict
from lockgate.testing.plug_suite import PlugFailed, RunOutcome, check_plug


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


def test_a_framework_of_a_dozen_lines_holds_what_plugs_promise(gate: Gate) -> None:
    results = check_plug(ToyDriver, imports=("langchain", "agents", "crewai"), gate=gate)
    assert {each.number for each in results if each.why_not} == set(ToyDriver.cannot)


def test_the_suite_finds_a_plug_that_rules_on_nothing(gate: Gate) -> None:
    class Open(ToyDriver):
        def __init__(self, plug: Plug, storage: dict[str, Any]) -> None:
            super().__init__(plug, storage)
            plug.check = lambda *_: Verdict(runs=True)  # type: ignore[method-assign]

        modes = ("sync",)

    with pytest.raises(PlugFailed) as failed:
        check_plug(Open, gate=gate)
    for number in (2, 3, 9, 11, 12, 16, 18, 20, 21):
        assert f"{number} (sync)" in str(failed.value)


def test_the_suite_finds_a_driver_that_does_next_to_nothing(gate: Gate) -> None:
    class Empty(ToyDriver):
        modes = ("sync",)
        cannot: Mapping[int, str] = {}

        def resume(self, outcome: RunOutcome, answers: Any, *, mode: str) -> RunOutcome:
            return RunOutcome([], (), None, outcome.state)

        def start_inside(self, *_: Any, **__: Any) -> RunOutcome:
            return RunOutcome(["Lockgate stopped this call"])

        start_forged = resume_edited = start_with_provider_result = start_inside
        start_changed = start_with_mcp = start_without_pause = start_inside

    with pytest.raises(PlugFailed) as failed:
        check_plug(Empty, gate=gate)
    for number in (4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 17, 22, 23):
        assert f"{number} (sync)" in str(failed.value), number
    assert "19 streaming" in str(failed.value)
