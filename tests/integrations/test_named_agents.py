"""Which agents a tool's function names."""

from __future__ import annotations

from functools import wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lockgate.integrations.named_agents import named_agents


class Agent:
    def run(self, task: str) -> str:
        return task


class Desk:
    def __init__(self) -> None:
        self.helper, self.other = GLOBAL, Agent()

    @property
    def third(self) -> Agent:
        raise AssertionError("looking must run nothing")

    def ask(self, task: str) -> str:
        return self.helper.run(task) + self.third.run(task)


GLOBAL = Agent()
MODULE = ModuleType("helpers")
MODULE.helper = GLOBAL  # type: ignore[attr-defined]


def by_global(task: str) -> str:
    return GLOBAL.run(task)


def by_module(task: str) -> str:
    return str(MODULE.helper.run(task))


def by_nothing() -> Any:
    helper = GLOBAL

    def ask(task: str) -> str:
        return helper.run(task)  # noqa: F821

    del helper
    return ask


def by_closure(helper: Agent) -> Any:
    def ask(task: str) -> str:
        return helper.run(task)

    return ask


@wraps(by_global)
def by_wrapper(*given: Any) -> str:
    return by_global(*given)


HOLDER = SimpleNamespace(agent=GLOBAL)


@pytest.mark.parametrize("function", [by_global, by_module, by_closure(GLOBAL), by_wrapper, Desk().ask, HOLDER])
def test_an_agent_is_found_by_its_name(function: Any) -> None:
    assert named_agents(function, Agent) == [GLOBAL]


@pytest.mark.parametrize(
    "function", [len, None, SimpleNamespace(), lambda helper: helper.run(""), Desk, 5, by_nothing()]
)
def test_what_names_no_agent_has_none(function: Any) -> None:
    assert named_agents(function, Agent) == []
