"""The agents that a tool names: some frameworks do not tell a plug which agents a tool starts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import getclosurevars, ismethod, unwrap
from typing import Any


def unseen_agent(tool: str, function: object, kind: type, has_plug: Callable[[Any], bool]) -> str:
    """Return what cannot be seen of an agent without a plug that this tool names; empty if it names none."""
    names = [each.name or "an agent" for each in named_agents(function, kind) if not has_plug(each)]
    return f"the calls of {names[0]}, which the tool {tool} starts: it has no plug of Lockgate's" if names else ""


def named_agents(function: object, kind: type) -> list[Any]:
    """Return the agents of this kind that a function's own code names, or that another callable holds.

    One that comes as an argument, out of a container or by another function is not found.
    """
    plain: Any = unwrap(function) if callable(function) else function
    values: list[object] = [plain.__self__ if ismethod(plain) else plain]
    said = getattr(getattr(plain, "__code__", None), "co_names", None)
    # A variable of an outer function may have no value any more.
    with suppress(TypeError, ValueError):
        names = getclosurevars(plain)
        values += [*names.nonlocals.values(), *names.globals.values()]
    # Of a module or an object only what the code asks it for, and without running a property.
    inside = [vars(each) for each in values if hasattr(each, "__dict__")]
    held = [each[name] for each in inside for name in (each if said is None else said) if name in each]
    found = {id(each): each for each in (*values, *held) if isinstance(each, kind)}
    return list(found.values())
