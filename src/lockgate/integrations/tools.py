"""For every host without a plug of its own: wrap each tool, and the wrapper asks before it runs.

    plug = Plug("my-agent")
    plug.user_said("chat-7", goal)
    tools = [guard_tool(each, plug=plug, session="chat-7") for each in tools]

`guard` is the same as a decorator, for a `Session` that the application holds.

A wrapper sees what the tools return, and nothing else that the model reads: give the rest to `plug.model_reads`, or to
`session.add`. There is no request to wait for here, so that a result is taken in as soon as it is there; a question
that is open about a call beside it is then asked anew.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial, update_wrapper
from io import IOBase
from typing import Any, ParamSpec, TypeVar, cast, get_type_hints
from uuid import uuid4

from lockgate.core.errors import InvalidCall
from lockgate.gate.session import Session
from lockgate.integrations.plug import (
    HeldByLockgate,
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    Verdict,
    shared_plug,
    source_of_result,
)
from lockgate.integrations.plug_hosts import plug_for_session

P = ParamSpec("P")
R = TypeVar("R")
# Parts of one result that are looked into; of the others it is their text.
_MAX_PARTS = 10_000
# Records inside of records that are ruled on by their fields; one may hold itself.
_MAX_DEPTH = 16
# Shows a question to a person and returns `question.yes(who)` or `question.no(who)`; all else is no answer.
AskPerson = Callable[[HeldQuestion], Mapping[str, object] | None]
_JSON = (str, int, float, bool, dict, list, tuple, type(None))


def guard(
    session: Session, *, name: str = "", annotations: Mapping[str, object] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for plain functions, synchronous or not: each call is ruled on before the function runs.

    A call that may not run raises HeldByLockgate, which has the ruling as `decision`. What the function returns is
    added to the session as untrusted text. `name` is the tool's name, by default the function's.
    """
    if not isinstance(session, Session):
        raise InvalidCall(f"guard needs a session, not {type(session).__name__}", hint="@guard(gate.session(goal=…))")
    plug = plug_for_session(session)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        made = _Guard(function, session.id, plug, name, None, annotations, raises=True, keeps=session)
        return cast("Callable[P, R]", made.wrapper())

    return decorate


def guard_tool(
    tool: Callable[..., Any],
    *,
    session: str | Callable[[], str],
    plug: Plug | None = None,
    name: str = "",
    ask: AskPerson | None = None,
    annotations: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Return the tool, ruled on before each call, with its name, signature and docstring.

    A call that may not run returns the sentence that the model should read in place of a result; with a plug of
    `on_pause="stop"` it raises HeldByLockgate. `session` may be a function, for tools that several runs share. `ask` is
    called with the question about a held call; an asynchronous tool runs it in a thread.
    """
    return _Guard(tool, session, plug or shared_plug("tools"), name, ask, annotations).wrapper()


def _looking_like(tool: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Give the wrapper the tool's name, signature and docstring, and no way back to the tool.

    Frameworks that follow `__wrapped__`, or send a tool's source to another machine, would run it without us.
    """
    update_wrapper(wrapper, tool)
    del wrapper.__wrapped__  # type: ignore[attr-defined]
    try:
        # Names in annotations mean something only where the tool was written.
        hints = get_type_hints(tool, include_extras=True)
    except (NameError, TypeError):
        hints = dict(getattr(tool, "__annotations__", {}))
    signature = inspect.signature(tool)
    known = {
        name: each.replace(annotation=hints.get(name, each.annotation)) for name, each in signature.parameters.items()
    }
    returns = hints.get("return", signature.return_annotation)
    wrapper.__annotations__ = hints
    wrapper.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(known.values()), return_annotation=returns
    )
    return wrapper


class _ToolRun:
    """One call of a tool: what is ruled on, and what runs, in objects that the caller no longer holds."""

    def __init__(self, session: str, call: PlugCall, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.session, self.call, self.args, self.options = session, call, args, options


class _Guard:
    """One wrapped tool."""

    def __init__(
        self,
        tool: Callable[..., Any],
        session: str | Callable[[], str],
        plug: Plug,
        name: str,
        ask: AskPerson | None,
        annotations: Mapping[str, object] | None,
        *,
        raises: bool = False,
        keeps: Session | None = None,
    ) -> None:
        if not callable(tool):
            raise InvalidCall(f"a {type(tool).__name__} cannot be called", hint="under @classmethod, not above it")
        # What a partial was made with is part of each call: it is ruled on with the rest.
        inner: Any = tool
        self._args: tuple[Any, ...] = ()
        self._options: dict[str, Any] = {}
        if isinstance(tool, partial):
            inner, self._args, self._options = tool.func, tool.args, tool.keywords
        self._name = name or str(getattr(inner, "__name__", type(inner).__name__))
        body = inner if inspect.isroutine(inner) or inspect.isclass(inner) else inner.__call__
        if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
            raise InvalidCall(
                f"{self._name} yields its result piece by piece", hint="wrap a function that returns it whole instead"
            )
        self._is_async = inspect.iscoroutinefunction(body)
        self._outer, self._tool, self._session, self._plug = tool, inner, session, plug
        self._ask, self._annotations, self._raises = ask, annotations, raises
        # The plug does not keep its session alive, the functions do.
        self._keeps = keeps
        self._signature = inspect.signature(inner)

    def wrapper(self) -> Callable[..., Any]:
        """Return the tool as the caller sees it."""
        if self._is_async:

            async def run_async(*args: Any, **options: Any) -> Any:
                return await self._run_async(args, options)

            return _looking_like(self._outer, run_async)

        def run(*args: Any, **options: Any) -> Any:
            return self._run(args, options)

        return _looking_like(self._outer, run)

    def _bind(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> _ToolRun:
        session = self._session if isinstance(self._session, str) else self._session()
        bound = self._signature.bind(*self._args, *args, **{**self._options, **options})
        named: dict[str, object] = {}
        for at, (name, parameter) in enumerate(self._signature.parameters.items()):
            if name not in bound.arguments:
                # The model chose none of these, so that one which JSON cannot hold need not be ruled on.
                if isinstance(parameter.default, _JSON):
                    named[name] = parameter.default
                continue
            value = bound.arguments[name]
            if at == 0 and name in ("self", "cls") and type(value) not in _JSON:
                continue
            # Judges and people take seconds, in which the caller's objects may change.
            bound.arguments[name] = value = _copy(value)
            if parameter.kind is parameter.VAR_KEYWORD and named.keys().isdisjoint(value):
                named |= value
            else:
                named[name] = value
        ruled = {name: _as_json(value) for name, value in named.items()}
        call = PlugCall(self._name, ruled, uuid4().hex, self._annotations)
        return _ToolRun(session, call, bound.args, bound.kwargs)

    def _run(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        made = self._bind(args, options)
        verdict = self._plug.check(made.session, made.call)
        if verdict.question is not None and self._ask is not None:
            self._plug.answer(verdict.question, self._ask(verdict.question))
            verdict = self._plug.check(made.session, made.call)
        if not verdict.runs:
            return self._deny(verdict)
        with self._plug.running(made.session, made.call):
            try:
                result = self._tool(*made.args, **made.options)
            except Exception as error:
                self._keep(made, _error_text(error), failed=True)
                raise
        if inspect.isawaitable(result):
            # A function that returns what an asynchronous one gave it.
            return self._await_result(made, result)
        self._keep(made, result)
        return result

    async def _run_async(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        from asyncio import to_thread

        made = self._bind(args, options)
        verdict = await self._plug.check_async(made.session, made.call)
        if verdict.question is not None and self._ask is not None:
            answer = await to_thread(self._ask, verdict.question)
            await to_thread(self._plug.answer, verdict.question, answer)
            verdict = await self._plug.check_async(made.session, made.call)
        if not verdict.runs:
            return self._deny(verdict)
        return await self._await_result(made, self._tool(*made.args, **made.options))

    async def _await_result(self, made: _ToolRun, running: Awaitable[Any]) -> Any:
        from asyncio import to_thread

        with self._plug.running(made.session, made.call):
            try:
                result = await running
            except Exception as error:
                await to_thread(self._keep, made, _error_text(error), failed=True)
                raise
        await to_thread(self._keep, made, result)
        return result

    def _keep(self, made: _ToolRun, result: object, *, failed: bool = False) -> None:
        if isinstance(result, Iterator) or hasattr(result, "__anext__"):
            self._plug.cannot_cover(f"what {made.call.tool} yields piece by piece", made.session)
        source = source_of_result(made.call.tool, made.call.arguments)
        # A generator: a result whose text cannot be had makes the session suspect, and disturbs the caller in nothing.
        lines = (Line(made.call.id, "\n".join(_texts(each)), source) for each in [result])
        self._plug.model_reads(made.session, lines)
        self._plug.ended(made.session, made.call.id, failed=failed)

    def _deny(self, verdict: Verdict) -> str:
        if verdict.stops or self._raises:
            raise HeldByLockgate(verdict.text, verdict.decision)
        return verdict.text


def _copy(value: Any) -> Any:
    """Return a value in containers of our own; what is in them and no container is the same object."""
    if isinstance(value, Mapping):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, tuple):
        items = tuple(_copy(item) for item in value)
        return value._make(items) if hasattr(value, "_make") else items
    return value


def _as_json(value: object, depth: int = 0) -> object:
    """Return a value as it is ruled on: a record by its fields, whatever its text leaves out; other objects as text."""
    if isinstance(value, dict):
        named = {str(name): _as_json(item, depth) for name, item in value.items()}
        # Of two names with the same text one would not be seen: the ruling refuses names that are no text.
        return named if len(named) == len(value) else value
    if isinstance(value, list | tuple | deque):
        return [_as_json(item, depth) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_as_json(item, depth) for item in value), key=str)
    if isinstance(value, _JSON):
        return value
    _refuse_hidden(value)
    fields = _fields_of(value) if depth < _MAX_DEPTH else {}
    return {name: _as_json(item, depth + 1) for name, item in fields.items()} if fields else str(value)


def _refuse_hidden(value: object) -> None:
    """Raise InvalidCall for an object whose text does not say what the tool would get."""
    kind = type(value).__name__
    if hasattr(type(value), "get_secret_value"):
        raise InvalidCall(
            f"a {kind} hides its text, so the call cannot be ruled on",
            hint="let the tool take a `str`; a secret of your own can be a parameter's default",
        )
    if isinstance(value, Iterator | AsyncIterator) and not isinstance(value, IOBase):
        raise InvalidCall(f"a {kind} has no values to rule on yet", hint="give the tool a list")


def _fields_of(value: object) -> dict[str, object]:
    """Return the fields of a record, or of a plain object that holds values only; none for other objects."""
    kind = type(value)
    if kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__:
        slots = [name for base in kind.__mro__ for name in _as_names(base.__dict__.get("__slots__", ()))]
        found = {name: getattr(value, name, None) for name in (*getattr(value, "__dict__", ()), *slots)}
        # A framework's context holds clients with their keys: no model chose those, and no record may show them.
        return found if all(isinstance(each, _JSON) for each in found.values()) else {}
    names = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    names += getattr(kind, "__struct_fields__", ())
    names += [each.name for each in getattr(kind, "__attrs_attrs__", ())]
    if hasattr(kind, "__pydantic_fields__"):
        names += [*vars(value), *(getattr(value, "__pydantic_extra__", None) or ())]
    return {name: getattr(value, name, None) for name in names}


def _as_names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _texts(result: object) -> Iterator[str]:
    """Yield what a model can read of a result: frameworks send it as text, as JSON, or by the names of its fields."""
    pending, seen = [result], 0
    while pending and seen < _MAX_PARTS:
        seen += 1
        each: Any = pending.pop(0)
        if isinstance(each, str):
            yield each
        elif isinstance(each, bytes | bytearray):
            yield each.decode("utf-8", "replace")
        elif isinstance(each, Mapping):
            pending += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            pending += each
        elif each is not None:
            yield str(each)
            # What a text for people leaves out.
            fields = getattr(each, "__dict__", None)
            if isinstance(fields, dict) and not isinstance(each, type) and not callable(each):
                pending.append({name: value for name, value in fields.items() if not name.startswith("_")})
    if pending:
        yield repr(pending)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
