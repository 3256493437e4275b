"""Which agents a tool's function names."""

from __future__ import annotations

from functools import partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lockgate.integrations.named_agents import named_agents, unseen_agent


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


class Lazy:
    """Like a proxy with nothing behind it: whatever is asked of it fails."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of a request")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("working outside of a request")


LAZY = Lazy()
RUN = GLOBAL.run
BY_PART = partial(str, GLOBAL)
OUTER = ModuleType("outer")
OUTER.inner = MODULE  # type: ignore[attr-defined]


def by_lazy(task: str) -> str:
    return f"{LAZY} {GLOBAL.run(task)}"


def by_inner_function(task: str) -> list[str]:
    return [*map(lambda each: GLOBAL.run(each), [task])]  # noqa: C417


def by_bound_method(task: str) -> str:
    return RUN(task)


def by_part(_task: str) -> str:
    return BY_PART()


def by_inner_module(task: str) -> str:
    return str(OUTER.inner.helper.run(task))


@pytest.mark.parametrize("tool", [by_lazy, by_inner_function, by_bound_method, by_part, by_inner_module])
def test_an_agent_is_found_behind_what_the_code_names(tool: Any) -> None:
    assert named_agents(tool, Agent) == [GLOBAL]


def test_what_cannot_be_looked_at_ends_no_run() -> None:
    class Nameless(Agent):
        @property
        def name(self) -> str:
            raise RuntimeError("not configured")

    helper = Nameless()
    assert unseen_agent("ask", by_closure(helper), Agent, lambda _: False) == ""
    loop: Any = lambda task: task  # noqa: E731
    loop.__wrapped__ = loop
    assert unseen_agent("ask", loop, Agent, lambda _: False) == ""
