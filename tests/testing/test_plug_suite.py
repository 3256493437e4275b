"""The conformance suite of plugs: a good plug passes, and a bad one is found."""

from __future__ import annotations

from typing import Any

import pytest
from toy_framework import ToyDriver

from lockgate import Gate
from lockgate.integrations.plug import Plug, Verdict
from lockgate.testing.plug_suite import PlugFailed, check_plug


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
