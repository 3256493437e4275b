"""The plug for CrewAI: `with guarded(): crew.kickoff()`.

CrewAI runs a tool whose hook raises or returns nothing; the hook here blocks unless a ruling says otherwise.
CrewAI cannot pause a run and go on: with `ask`, the hook waits for a person; without, the call is denied, and runs once
when it is tried again after a yes in the approvals.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge, verdict_class
from lockgate.integrations.plug import HeldByLockgate, Line, Plug, PlugCall, shared_plug, source_of_result
from lockgate.integrations.tools import AskPerson
from lockgate.sessions.structured_text import text_of

with naming_extra("crewai", "crewai"):
    from crewai.hooks.dispatch import (
        HookAborted,
        InterceptionPoint,
        get_scoped_hooks,
        register,
        scoped_hooks,
        unregister,
    )
    from crewai.hooks.llm_hooks import model_call_hooks_dispatched
    from crewai.tools.mcp_native_tool import MCPNativeTool
    from crewai.tools.mcp_tool_wrapper import MCPToolWrapper

_MAX_REMEMBERED = 10_000


@contextmanager
def guarded(
    goal: str = "", *, session: str = "", plug: Plug | None = None, ask: AskPerson | None = None, judge: Any = None
) -> Iterator[CrewGuard]:
    """Rule on every tool call of the crews, flows and agents that run in this block, also in threads that they start.

    `goal` is what the user said; the descriptions of the crew's own tasks count as the user's too. `ask` shows a
    question to a person and returns `question.yes(who)` or `question.no(who)`.
    """
    guard = CrewGuard(plug or shared_plug("crewai"), session or f"run-{uuid4().hex}", ask)
    use_judge(guard.plug, judge, "supports_function_calling", _ask)
    if goal:
        guard.plug.user_said(guard.session, goal, parent=guard.parent)
    hooks: Any = {
        InterceptionPoint.PRE_MODEL_CALL: [guard.before_model],
        InterceptionPoint.PRE_TOOL_CALL: [guard.before_call],
        InterceptionPoint.POST_TOOL_CALL: [guard.after_call],
    }
    # Scoped hooks run behind all global ones. The global one is for calls that lost the scope on the way.
    register(InterceptionPoint.PRE_TOOL_CALL, guard.before_lost_call)
    try:
        with scoped_hooks(hooks):
            yield guard
    finally:
        unregister(InterceptionPoint.PRE_TOOL_CALL, guard.before_lost_call)
        guard.plug.enter(guard.parent)


def _ask(model: Any, question: Any) -> tuple[object, object]:
    given = [{"role": "system", "content": question.system}, {"role": "user", "content": question.user}]
    with model_call_hooks_dispatched():  # keeps all hooks out, also global ones
        return model.call(given, response_model=verdict_class() if question.schema else None), None


class _CrewCall(NamedTuple):
    """A call between its two hooks, which have only the live arguments in common."""

    arguments: dict[str, Any]
    id: str
    denial: str
    caller: str


class CrewRunStopped(HeldByLockgate, HookAborted):
    """Ends the run; CrewAI lets only its own kind of exception through a hook."""


class CrewGuard:
    """The hooks of one block."""

    def __init__(self, plug: Plug, session: str, ask: AskPerson | None) -> None:
        self.plug, self._ask = plug, ask
        self.parent = plug.caller
        self.session = f"{self.parent}/{session}" if self.parent else session
        self._calls: OrderedDict[int, _CrewCall] = OrderedDict()
        self._lock = Lock()
        # Calls that are being ruled on or wait for a person, and what was read meanwhile.
        self._ruling = 0
        self._later: list[Line] = []
        self._stopped = ""

    # The user's words, and what the model reads.

    def before_model(self, context: Any) -> None:
        if self._stopped:
            raise CrewRunStopped(self._stopped)
        task, crew = context.task, context.crew
        own: list[str] = []
        # A task that an agent delegates is none of the crew's own: its description is that agent's.
        if task is not None and crew is not None and any(task is each for each in crew.tasks):
            own = [text for text in (task.description, task.expected_output) if text]
        for text in own:
            if not self.plug.was_said(self.session, text):
                self.plug.user_said(self.session, text, parent=self.parent)
        self.plug.model_reads(self.session, self._lines(context, own))

    def _lines(self, context: Any, own: list[str]) -> Iterator[Line]:
        for tool in getattr(context.executor, "original_tools", None) or ():
            if isinstance(tool, MCPNativeTool | MCPToolWrapper):
                yield Line(f"tool {tool.name}", tool.description, f"tool-description:{tool.name}")
        prompts = [text_of(each.get("content")) for each in context.messages if each.get("role") == "system"]
        yield from self.plug.system_prompts(self.session, prompts, str(getattr(context.agent, "role", "")))
        for message in context.messages:
            text = text_of(message.get("content"))
            match message.get("role"):
                case "system" | "assistant":
                    # The model's own words, and in its midst results that were read when their calls ended.
                    continue
                case "tool":
                    if not self.plug.was_read(self.session, text):
                        yield Line(str(message.get("tool_call_id")), text, f"tool:{message.get('name') or 'unknown'}")
                case _:
                    # One message holds the task, what other agents and the memory said, and what was retrieved.
                    for said in own:
                        text = text.replace(said, " ")
                    if not self.plug.was_said(self.session, text):
                        yield Line("", text, "message:user")

    # Calls.

    def before_lost_call(self, context: Any) -> None:
        """Rule on a call that comes without the hooks of any block: what its model has read is not known."""
        hooks = get_scoped_hooks(InterceptionPoint.PRE_TOOL_CALL)
        if any(isinstance(getattr(hook, "__self__", None), CrewGuard) for hook in hooks):
            return
        self.plug.cannot_cover("what the model of a call outside of `guarded` has read")
        self._block_unless(context, "unseen-run")

    def before_call(self, context: Any) -> None:
        self._block_unless(context, self.session)

    def _block_unless(self, context: Any, session: str) -> None:
        may_run = False
        with self._lock:
            self._ruling += 1
        try:
            may_run = self._may_run(context, session)
        finally:
            self._end_ruling()
            # Whatever went wrong above: CrewAI would run the tool.
            if not may_run:
                raise HookAborted("Lockgate stopped this call", "lockgate")

    def _may_run(self, context: Any, session: str) -> bool:
        id, arguments = uuid4().hex, context.tool_input
        call = PlugCall(context.tool_name, dict(arguments), id)
        self.plug.note_model(session, lambda: getattr(context.agent, "llm", None))
        verdict = self.plug.check(session, call)
        if verdict.question is not None and self._ask is not None:
            self.plug.answer(verdict.question, self._ask(verdict.question))
            verdict = self.plug.check(session, call)
        if verdict.stops:
            self._stopped = verdict.text
        with self._lock:
            self._calls[_key(arguments)] = _CrewCall(arguments, id, verdict.text, self.plug.caller)
            while len(self._calls) > _MAX_REMEMBERED:
                self._calls.popitem(last=False)
        if verdict.runs:
            self.plug.enter(session)
        return verdict.runs

    def after_call(self, context: Any) -> str | None:
        with self._lock:
            call = self._calls.pop(_key(context.tool_input), None)
        if call is not None and call.denial:
            # CrewAI itself only says that a hook has blocked the call.
            return call.denial
        source = source_of_result(context.tool_name, context.tool_input)
        line = Line(call.id if call else "", str(context.tool_result), source)
        with self._lock:
            waits = self._ruling > 0
            if waits:
                # A text that is added voids the question about a call beside it.
                self._later.append(line)
        if not waits:
            self.plug.model_reads(self.session, [line])
        if call is not None:
            self.plug.enter(call.caller)
            self.plug.ended(self.session, call.id)
        return None

    def _end_ruling(self) -> None:
        with self._lock:
            self._ruling -= 1
            lines, self._later = ([], self._later) if self._ruling else (self._later, [])
        self.plug.model_reads(self.session, lines)


def _key(arguments: dict[str, Any]) -> int:
    """Return the name of a call: both hooks get the same dictionary, which is kept in between."""
    return id(arguments)
