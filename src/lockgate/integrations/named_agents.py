"""The agents that a tool's function names: frameworks do not tell a plug which agents a tool starts."""

from __future__ import annotations

from inspect import getclosurevars, ismethod, unwrap
from typing import Any, TypeVar

A = TypeVar("A")


def named_agents(function: object, kind: type[A]) -> list[A]:
    """Return the agents of this kind that a function's own code names, itself or as an attribute.

    One that comes as an argument, out of a container or by another function is not found.
    """
    try:
        plain: Any = unwrap(function)  # type: ignore[arg-type]
        names, said = getclosurevars(plain), plain.__code__.co_names
    except (AttributeError, TypeError, ValueError):
        # No function of Python's.
        return []
    values = [*names.nonlocals.values(), *names.globals.values(), *([plain.__self__] if ismethod(plain) else ())]
    # Of a module or an object only what the code asks it for, and without running a property.
    inside = [vars(each).get(name) for each in values if hasattr(each, "__dict__") for name in said]
    found = {id(each): each for each in (*values, *inside) if isinstance(each, kind)}
    return list(found.values())
