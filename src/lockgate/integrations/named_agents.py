"""The agents that a tool names: some frameworks do not tell a plug which agents a tool starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import unwrap
from types import CodeType, MethodType
from typing import Any

# How far is followed what the code names: a module, a module in it, an object there, its method.
_MAX_STEPS = 4
_MAX_VALUES = 2_000


def unseen_agent(tool: str, function: object, kind: type, has_plug: Callable[[Any], bool]) -> str:
    """Return what cannot be seen of an agent without a plug that this tool names; empty if it names none."""
    try:
        names = [each.name or "an agent" for each in named_agents(function, kind) if not has_plug(each)]
    except Exception:  # noqa: BLE001 - the edge to the application's objects: a run must not end because one is odd
        return ""
    return f"the calls of {names[0]}, which the tool {tool} starts: it has no plug of Lockgate's" if names else ""


def named_agents(function: object, kind: type) -> list[Any]:
    """Return the agents of this kind that a function's own code names, or that another callable holds.

    One that comes as an argument, out of a container or by another function is not found. No property is run, and no
    object is asked what it is: a proxy may have nothing behind it.
    """
    plain: Any = unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    names = frozenset(_names_in(code)) if isinstance(code, CodeType) else None
    values = [plain, *_values_of_names(plain, names)]
    seen: dict[int, object] = {}
    # Of an object without code of its own, what it holds itself.
    for _ in range(_MAX_STEPS if names is not None else 2):
        new = [each for each in values if id(each) not in seen][:_MAX_VALUES]
        seen.update((id(each), each) for each in new)
        values = [held for each in new for held in _held_by(each, names)]
    return [each for each in seen.values() if kind in type(each).__mro__]


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield what a function's code names, and the code of the functions inside it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)


def _values_of_names(function: Any, names: frozenset[str] | None) -> Iterator[object]:
    """Yield the values of a function's global variables, and of those of the functions around it."""
    around = getattr(function, "__globals__", {})
    yield from (around[name] for name in names or () if name in around)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # A variable of an outer function may have no value any more.
            continue


def _held_by(value: object, names: frozenset[str] | None) -> Iterator[object]:
    """Yield what a value holds: of a module or an object only what the code asks it for."""
    # By type: a proxy would answer for what is behind it.
    if type(value) is MethodType:
        yield value.__self__
    elif type(value) is partial:
        yield from (value.func, *value.args, *value.keywords.values())
    try:
        held = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 - the edge to the application's objects, which may be anything
        return
    if isinstance(held, Mapping):
        yield from (held[name] for name in (held if names is None else names) if name in held)
