"""For every host without a plug of its own: wrap each tool, and the wrapper asks before it runs.

    plug = Plug("my-agent")
    plug.user_said("chat-7", goal)
    tools = [guard_tool(each, plug=plug, session="chat-7") for each in tools]

A wrapper sees what the tools return, and nothing else that the model reads: give the rest to `plug.model_reads`. There
is no request to wait for here, so that a result is taken in as soon as it is there; a question that is open about a
call beside it is then asked anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any
from uuid import uuid4

from lockgate.core.errors import InvalidCall
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

# Shows a question to a person and returns `question.yes(who)` or `question.no(who)`; all else is no answer.
AskPerson = Callable[[HeldQuestion], Mapping[str, object] | None]


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
    guard = _Guard(tool, session, plug or shared_plug("tools"), name or _name_of(tool), ask, annotations)
    if inspect.iscoroutinefunction(tool):

        @wraps(tool)
        async def run_async(*args: Any, **options: Any) -> Any:
            return await guard.run_async(args, options)

        return run_async

    @wraps(tool)
    def run(*args: Any, **options: Any) -> Any:
        return guard.run(args, options)

    return run


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
    ) -> None:
        if inspect.isgeneratorfunction(tool) or inspect.isasyncgenfunction(tool):
            raise InvalidCall(
                f"{name} yields its result piece by piece", hint="wrap a function that returns it whole instead"
            )
        self._tool, self._session, self._plug, self._name = tool, session, plug, name
        self._ask, self._annotations = ask, annotations
        self._signature = inspect.signature(tool)

    def _start(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[str, PlugCall]:
        session = self._session if isinstance(self._session, str) else self._session()
        # By name, with the values that are left to their default: what runs is what is ruled on.
        bound = self._signature.bind(*args, **options)
        bound.apply_defaults()
        return session, PlugCall(self._name, dict(bound.arguments), uuid4().hex, self._annotations)

    def run(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        session, call = self._start(args, options)
        verdict = self._plug.check(session, call)
        if verdict.question is not None and self._ask is not None:
            self._plug.answer(verdict.question, self._ask(verdict.question))
            verdict = self._plug.check(session, call)
        if not verdict.runs:
            return _denial(verdict)
        with self._plug.running(session, call):
            return self._read(session, call, lambda: self._tool(*args, **options))

    async def run_async(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        from asyncio import to_thread

        session, call = self._start(args, options)
        verdict = await self._plug.check_async(session, call)
        if verdict.question is not None and self._ask is not None:
            answer = await to_thread(self._ask, verdict.question)
            await to_thread(self._plug.answer, verdict.question, answer)
            verdict = await self._plug.check_async(session, call)
        if not verdict.runs:
            return _denial(verdict)
        with self._plug.running(session, call):
            try:
                made: Awaitable[Any] = self._tool(*args, **options)
                result = await made
            except Exception as error:
                await to_thread(self._keep, session, call, _error_text(error), failed=True)
                raise
        await to_thread(self._keep, session, call, result)
        return result

    def _read(self, session: str, call: PlugCall, run: Callable[[], Any]) -> Any:
        try:
            result = run()
        except Exception as error:
            self._keep(session, call, _error_text(error), failed=True)
            raise
        self._keep(session, call, result)
        return result

    def _keep(self, session: str, call: PlugCall, result: object, *, failed: bool = False) -> None:
        text = result if isinstance(result, str) else repr(result)
        self._plug.model_reads(session, [Line(call.id, text, source_of_result(call.tool, call.arguments))])
        self._plug.ended(session, call.id, failed=failed)


def _name_of(tool: Callable[..., Any]) -> str:
    return str(getattr(tool, "__name__", type(tool).__name__))


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _denial(verdict: Verdict) -> str:
    if verdict.stops:
        raise HeldByLockgate(verdict.text)
    return verdict.text
