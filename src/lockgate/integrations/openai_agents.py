"""The plug for the OpenAI Agents SDK: `gate.run(agent, goal, chat="chat-7")` in place of `Runner.run(agent, goal)`.

The SDK has no hook for all tools: the agent that is run, those that it can hand over to and those that are its tools
are guarded in place, each tool by the SDK's own approval and its own guardrail. An agent that was guarded and is then
run past `gate.run` is ruled on with an unknown context.
"""

from __future__ import annotations

import json
import shlex
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import Any
from uuid import uuid4

from lockgate.core.errors import InvalidConfig
from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge, verdict_class
from lockgate.integrations.plug import (
    HeldByLockgate,
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    Verdict,
    require_framework,
    shared_plug,
    source_of_result,
    trailing_input,
)
from lockgate.sessions.structured_text import text_of

with naming_extra("openai-agents", "agents"):
    import agents
    from agents import (
        Agent,
        AgentHooks,
        FunctionTool,
        Handoff,
        Runner,
        RunState,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
    )
    from agents.editor import ApplyPatchResult

_NO = "Lockgate did not let this call run: a person was asked about it, and has not allowed it."
_MAX_HELD = 10_000
_PROMPTS = ("system", "developer")
# Items in which the model itself speaks or calls; every other one without a role holds what a tool brought.
_OWN_ITEMS = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "reasoning",
        "shell_call",
    }
)
# Tools that run on this machine and that the SDK gives no guardrail to: what carries out their calls is wrapped.
_LOCAL_TOOLS = {
    "ApplyPatchTool": "editor",
    "CustomTool": "on_invoke_tool",
    "LocalShellTool": "executor",
    "ShellTool": "executor",
}
_LOCAL_FIELDS = ("commands", "command", "env", "working_directory", "user", "type", "path", "diff", "move_to")
# Tools that only find or combine other tools.
_TOOLS_ABOUT_TOOLS = frozenset({"ToolSearchTool", "ProgrammaticToolCallingTool"})


class _Run:
    """One run of an agent: its session, and what its caller has given."""

    def __init__(self, gate: LockgateRunner, session: str, parent: str = "") -> None:
        self.gate, self.session, self.parent = gate, session, parent
        self.words: list[str] | None = None
        self.known = True
        self.config: Any = None
        self.is_new = bool(parent)
        # What MCP servers say of their tools, for the next request.
        self.about: dict[str, Line] = {}
        # Verdicts of the approval, for the guardrail of the same call right behind it.
        self.ruled: dict[str, Verdict] = {}


_current: ContextVar[_Run | None] = ContextVar("lockgate_openai_run", default=None)


class LockgateRunner:
    """Runs agents so that every tool call is ruled on. Without a `plug` it shares one with the other agents here."""

    def __init__(self, plug: Plug | None = None, *, judge: Any = None) -> None:
        require_framework("openai-agents", "0.24")
        self.plug = plug or shared_plug("openai-agents")
        use_judge(self.plug, judge, "get_response", _ask)
        # The questions about calls that wait, by call.
        self._held: OrderedDict[str, HeldQuestion] = OrderedDict()

    async def run(self, agent: Any, given: Any, *, chat: str = "", **options: Any) -> Any:
        """Do what `Runner.run` does; `chat` names the conversation, and is the same when it goes on."""
        with self._running(agent, given, chat, options):
            return await Runner.run(agent, given, **options)

    def run_sync(self, agent: Any, given: Any, *, chat: str = "", **options: Any) -> Any:
        """Do what `Runner.run_sync` does."""
        with self._running(agent, given, chat, options):
            return Runner.run_sync(agent, given, **options)

    def run_streamed(self, agent: Any, given: Any, *, chat: str = "", **options: Any) -> Any:
        """Do what `Runner.run_streamed` does."""
        with self._running(agent, given, chat, options):
            return Runner.run_streamed(agent, given, **options)

    def guard(self, agent: Any) -> Any:
        """Guard an agent and all that it can start, in place, and return it; `run` does this too."""
        pending, seen = [agent], set()
        while pending:
            each = pending.pop()
            if id(each) in seen or not isinstance(each, Agent):
                continue
            seen.add(id(each))
            each.__class__ = _guarded_class(type(each))
            _watch(each)
            for target in each.handoffs:
                if isinstance(target, Handoff):
                    _guard_handoff(self, target)
                else:
                    pending.append(target)
            pending += [getattr(tool, "_agent_instance", None) for tool in each.tools]
        return agent

    @contextmanager
    def _running(self, agent: Any, given: Any, chat: str, options: Mapping[str, Any]) -> Iterator[None]:
        if isinstance(given, RunState) and type(getattr(given, "_current_agent", None)) not in _classes.values():
            # Its waiting calls hold tools that were never guarded.
            raise InvalidConfig(
                "this state was loaded with an agent that is not guarded",
                hint="RunState.from_string(gate.guard(agent), text)",
            )
        if isinstance(given, RunState) and chat:
            self._refuse_other_chat(given, chat)
        self.guard(agent)
        outer = _current.get()
        if outer is not None and outer.gate.plug is self.plug and self.plug.caller:
            # Inside a tool of another run: what it is given is an agent's order.
            run = outer
        else:
            run = _Run(self, chat or f"run-{uuid4().hex}", self.plug.caller)
            run.config = options.get("run_config")
            if not isinstance(given, RunState):
                items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
                words = [_text_of(each) for each in trailing_input(items, _is_users)]
                managed = options.get("conversation_id") or options.get("previous_response_id")
                run.words, run.known = words, len(words) == len(items) and not managed
                run.is_new = True
        before = _current.set(run)
        try:
            yield
        finally:
            _current.reset(before)

    def _refuse_other_chat(self, state: Any, chat: str) -> None:
        """Raise where a state's waiting calls were held in another chat: this one does not know what they had read."""
        for item in state.get_interruptions():
            question = self._question_about(_call_from(item.tool_name or "", item.arguments or "", item.call_id or ""))
            if question is not None and not f"{question.session}/".startswith(f"{chat}/"):
                raise InvalidConfig("this state was held in another chat", hint="pass the chat that its run began with")

    # Held calls.

    def held(self, result: Any, *, chat: str = "") -> list[HeldQuestion]:
        """Return the questions about held calls in a result or a `RunState`; `chat` is needed after a restart."""
        return [question for _, question, _ in self._waiting(result, chat) if question is not None]

    def answer(self, result: Any, *, yes: bool, who: str, chat: str = "") -> Any:
        """Record this answer to every held call, and return the state that the run goes on with."""
        questions = self.held(result, chat=chat)
        return self.answers(result, [each.yes(who) if yes else each.no(who) for each in questions], chat=chat)

    def answers(self, result: Any, answers: Sequence[Mapping[str, object]], *, chat: str = "") -> Any:
        """Record one answer per held call. Approvals that are the application's own stay open."""
        state = result if isinstance(result, RunState) else result.to_state()
        left = iter(answers)
        for item, question, verdict in self._waiting(result, chat):
            if question is None:
                # The SDK pauses by itself for arguments that it cannot read, also where there are none.
                if verdict is not None and not verdict.runs:
                    state.reject(item, rejection_message=verdict.text)
                elif verdict is not None and item.tool_name not in _with_own_approval:
                    state.approve(item)
                continue
            answer = next(left, {})
            self.plug.answer(question, answer)
            if answer.get("yes") is True:
                state.approve(item)
            else:
                self.plug.agent_wrote(question.session, _NO)
                state.reject(item, rejection_message=_NO)
        return state

    def _waiting(self, result: Any, chat: str) -> Iterator[tuple[Any, HeldQuestion | None, Verdict | None]]:
        for item in result.get_interruptions() if isinstance(result, RunState) else result.interruptions:
            call = _call_from(item.tool_name or "", item.arguments or "", item.call_id or "")
            question = self._question_about(call)
            verdict = None if question is not None or not chat else self.plug.check(chat, call)
            yield item, question if verdict is None else verdict.question, verdict

    def _question_about(self, call: PlugCall) -> HeldQuestion | None:
        return self._held.get(_key(call)) or self._held.get(_local_key(call.tool, call.id))

    def _remember(self, key: str, question: HeldQuestion) -> None:
        self._held[key] = question
        while len(self._held) > _MAX_HELD:
            self._held.popitem(last=False)


def _model_of(agent: Any, config: Any) -> Any:
    named = config.model or agent.model
    return named if isinstance(named, agents.Model) else config.model_provider.get_model(named)


async def _ask(model: Any, question: Any) -> tuple[object, object]:
    form = agents.AgentOutputSchema(verdict_class()) if question.schema else None
    alone: dict[str, Any] = dict.fromkeys(("previous_response_id", "conversation_id", "prompt"))
    plain, silent = agents.ModelSettings(), agents.ModelTracing.DISABLED
    reply = await model.get_response(question.system, question.user, plain, [], form, [], silent, **alone)
    return "".join(agents.ItemHelpers.extract_text(each) or "" for each in reply.output), None


def _run_here() -> _Run:
    """Return the run of this call; where it was started past `gate.run`, one with an unknown context."""
    return _current.get() or _Run(LockgateRunner(), "unseen-run")


# Agents.


# The names of tools that the application itself wants approvals for.
_with_own_approval: set[str] = set()
# The guarded classes of agents, and those that they were made of.
_classes: dict[type, type] = {}


def _guarded_class(kind: Any) -> type:
    """Return a class whose agents have only guarded tools; a copy of such an agent is guarded too."""
    if kind in _classes.values():
        return kind

    async def get_all_tools(self: Any, run_context: Any) -> list[Any]:
        tools: list[Any] = await kind.get_all_tools(self, run_context)
        _watch(self)
        for tool in tools:
            _guard_tool(tool)
        return tools

    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (kind,), {"__module__": kind.__module__, "get_all_tools": get_all_tools})
    return _classes[kind]


def _guard_handoff(gate: LockgateRunner, handoff: Any) -> None:
    original = handoff.on_invoke_handoff
    if isinstance(original, _GuardedHandoff):
        return
    handoff.on_invoke_handoff = _GuardedHandoff(gate, original)


class _GuardedHandoff:
    """Guards the agent that a handoff leads to."""

    def __init__(self, gate: LockgateRunner, original: Any) -> None:
        self._gate, self._original = gate, original

    async def __call__(self, *given: Any) -> Any:
        return self._gate.guard(await self._original(*given))


# What the model reads.


class _WatchingHooks(AgentHooks[Any]):
    """Reads what the model is about to read; everything else goes to the application's own hooks."""

    def __init__(self, own: Any) -> None:
        self.own = own

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        run = _run_here()
        run.gate.plug.note_model(run.session, partial(_model_of, agent, run.config or agents.RunConfig()))
        await to_thread(_read_request, run, agent.name, system_prompt, list(input_items))
        if self.own is not None:
            await self.own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        await to_thread(_note_reply, _run_here(), response)
        if self.own is not None:
            await self.own.on_llm_end(context, agent, response)

    async def on_start(self, *given: Any, **named: Any) -> None:
        if self.own is not None:
            await self.own.on_start(*given, **named)

    async def on_end(self, *given: Any, **named: Any) -> None:
        if self.own is not None:
            await self.own.on_end(*given, **named)

    async def on_handoff(self, *given: Any, **named: Any) -> None:
        if self.own is not None:
            await self.own.on_handoff(*given, **named)

    async def on_tool_start(self, *given: Any, **named: Any) -> None:
        if self.own is not None:
            await self.own.on_tool_start(*given, **named)

    async def on_tool_end(self, *given: Any, **named: Any) -> None:
        if self.own is not None:
            await self.own.on_tool_end(*given, **named)


def _watch(agent: Any) -> None:
    if not isinstance(agent.hooks, _WatchingHooks):
        agent.hooks = _WatchingHooks(agent.hooks)


def _read_request(run: _Run, agent: str, prompt: str | None, items: Sequence[Any]) -> None:
    plug = run.gate.plug
    with plug.hook():
        if run.is_new:
            run.is_new = False
            words = run.words
            if words is None:
                words = [_text_of(each) for each in trailing_input(items, _is_users)]
            # What the model or a tool wrote before this run was read elsewhere.
            known = run.known and all(_role_of(each) in ("user", *_PROMPTS) for each in items)
            for text in words:
                plug.user_said(run.session, text, parent=run.parent, known=known)
        plug.model_reads(run.session, _lines(run, agent, prompt, items))


def _lines(run: _Run, agent: str, prompt: str | None, items: Sequence[Any]) -> Iterator[Line]:
    prompts = [prompt or "", *(_text_of(each) for each in items if _role_of(each) in _PROMPTS)]
    yield from run.gate.plug.system_prompts(run.session, prompts, agent)
    yield from run.about.values()
    yield from _lines_of_items(run, items)


def _lines_of_items(run: _Run, items: Sequence[Any]) -> Iterator[Line]:
    said = run.gate.plug.said(run.session, [_text_of(each) for each in items if _role_of(each) == "user"])
    calls = {each.get("call_id"): each for each in items if isinstance(each, dict) and "name" in each}
    for number, item in enumerate(items):
        role = _role_of(item)
        if role == "assistant":
            yield from _lines_of_reply(item.get("content"))
        elif role or not isinstance(item, dict):
            text = _text_of(item)
            if role not in _PROMPTS and not (role == "user" and text in said):
                yield Line(str(number), text, f"message:{role or 'unknown'}")
        elif item.get("type") not in _OWN_ITEMS:
            yield _line_of_result(item, calls, str(number))


def _line_of_result(item: Mapping[str, Any], calls: Mapping[Any, Any], number: str) -> Line:
    if not str(item.get("type", "")).endswith("_output"):
        return Line(str(item.get("id") or number), text_of(item), "provider:tool-result")
    call = calls.get(item.get("call_id"), {})
    known = _call_from(str(call.get("name", "")), str(call.get("arguments", "")), "")
    source = source_of_result(known.tool, known.arguments if isinstance(known.arguments, dict) else {})
    return Line(str(item.get("call_id")), text_of(item.get("output")), source)


def _lines_of_reply(content: Any) -> list[Line]:
    """Return the model's own words, which are no news where it was seen to write them, and what it cites."""
    blocks = [{"text": content}] if isinstance(content, str) else [each for each in content if isinstance(each, dict)]
    words = "\n".join(str(each.get("text") or each.get("refusal") or "") for each in blocks)
    cited = text_of([each.get("annotations") or [] for each in blocks])
    own = Line("reply", words, "message:assistant")
    return [own, Line("cited", cited, "provider:tool-result")] if cited.strip() else [own]


def _note_reply(run: _Run, response: Any) -> None:
    """Note the model's own words, and read what the provider's tools brought before the calls beside it."""
    found = []
    for item in response.output:
        kind = getattr(item, "type", "")
        if kind == "message":
            own, *cited = _lines_of_reply([each.model_dump(exclude_none=True) for each in item.content])
            run.gate.plug.agent_wrote(run.session, own.text)
            found += cited
        elif kind not in _OWN_ITEMS:
            run.gate.plug.cannot_cover(f"the calls of {kind}, which the provider runs itself")
            found.append(Line("reply", text_of(item.model_dump(exclude_none=True)), "provider:tool-result"))
    run.gate.plug.model_reads(run.session, found)


# Calls.


def _guard_tool(tool: Any) -> None:
    """Let the SDK's approval, its guardrail and the invocation of a tool ask us first, once."""
    kind = type(tool).__name__
    if _annotations_of(tool) is not None:
        name = tool.name
        _run_here().about[name] = Line(f"tool {name}", tool.description, f"tool-description:{name}")
    if getattr(tool, _LOCAL_TOOLS.get(kind, ""), None) is not None:
        _guard_local_tool(tool, _LOCAL_TOOLS[kind])
    elif kind == "ComputerTool":
        run = _run_here()
        run.gate.plug.cannot_cover(f"the calls of {kind}, which the SDK gives no guardrail to", run.session)
    elif not isinstance(tool, FunctionTool):
        if kind not in _TOOLS_ABOUT_TOOLS:
            _run_here().gate.plug.cannot_cover(f"the calls of {kind}, which the provider runs itself")
    elif not isinstance(tool.on_invoke_tool, _GuardedInvocation):
        guard = _ToolGuard(tool.name, _annotations_of(tool), tool.needs_approval)
        if tool.needs_approval is not False:
            _with_own_approval.add(tool.name)
        tool.needs_approval = guard.needs_approval
        ours = ToolInputGuardrail(guardrail_function=guard.rule, name="lockgate")
        tool.tool_input_guardrails = [*(tool.tool_input_guardrails or ()), ours]
        tool.on_invoke_tool = _GuardedInvocation(tool.name, tool.on_invoke_tool)


class _ToolGuard:
    """Rules on the calls of one tool. `own` is the application's approval of it."""

    def __init__(self, name: str, annotations: Mapping[str, object] | None, own: Any) -> None:
        self._name, self._annotations, self._own = name, annotations, own

    async def needs_approval(self, context: Any, arguments: Any, call_id: str) -> bool:
        run, call = _run_here(), PlugCall(self._name, arguments, call_id, self._annotations)
        verdict = await run.gate.plug.check_async(run.session, call)
        if verdict.question is not None:
            run.gate._remember(_key(call), verdict.question)
            return True
        if verdict.runs:
            needs = self._own(context, arguments, call_id) if callable(self._own) else self._own
            if (await needs) if isawaitable(needs) else needs:
                # The call is ruled on again when a person has said yes.
                return True
        run.ruled[_key(call)] = verdict
        return False

    async def rule(self, data: Any) -> ToolGuardrailFunctionOutput:
        run, context = _run_here(), data.context
        call = _call_from(self._name, context.tool_arguments, context.tool_call_id)._replace(
            annotations=self._annotations
        )
        verdict = run.ruled.pop(_key(call), None)
        if verdict is None:
            verdict = await run.gate.plug.check_async(run.session, call)
        if verdict.runs:
            return ToolGuardrailFunctionOutput.allow()
        if verdict.stops:
            raise HeldByLockgate(verdict.text)
        return ToolGuardrailFunctionOutput.reject_content(verdict.text)


class _GuardedInvocation:
    """Runs a tool so that the agents that it starts are inside of this call."""

    def __init__(self, name: str, original: Any) -> None:
        self._name, self._original = name, original

    async def __call__(self, context: Any, arguments: str) -> Any:
        run, id = _run_here(), str(getattr(context, "tool_call_id", "") or uuid4().hex)
        call = _call_from(self._name, arguments, id)
        before = _current.set(_Run(run.gate, f"{run.session}/{id}", run.session))
        failed = True
        try:
            with run.gate.plug.running(run.session, call if isinstance(call.arguments, dict) else None):
                result = await self._original(context, arguments)
            failed = False
        finally:
            _current.reset(before)
            await to_thread(partial(run.gate.plug.ended, run.session, id, failed=failed))
        return result


def _guard_local_tool(tool: Any, part: str) -> None:
    """Wrap what carries out the calls of a tool without a guardrail, and its approval where it has one, once."""
    original = getattr(tool, part)
    if isinstance(original, _LocalGuard):
        return
    guard = _LocalGuard(tool.name, original, getattr(tool, "needs_approval", False))
    setattr(tool, part, guard)
    if hasattr(tool, "needs_approval"):
        if tool.needs_approval is not False:
            _with_own_approval.add(tool.name)
        tool.needs_approval = guard.needs_approval


class _LocalGuard:
    """Stands for the executor of a shell, for the function of a custom tool, or for the editor of patches."""

    def __init__(self, name: str, original: Any, own: Any) -> None:
        self._name, self._original, self._own = name, original, own

    async def needs_approval(self, context: Any, given: Any, call_id: str) -> bool:
        """Pause for a held call. It is ruled on again where it runs."""
        run = _run_here()
        verdict = await run.gate.plug.check_async(run.session, PlugCall(self._name, _local_arguments(given), call_id))
        if verdict.stops:
            # The SDK takes what is raised later for the tool's own error.
            raise HeldByLockgate(verdict.text)
        if verdict.question is not None:
            run.gate._remember(_local_key(self._name, call_id), verdict.question)
            return True
        needs = verdict.runs and (self._own(context, given, call_id) if callable(self._own) else self._own)
        return bool((await needs) if isawaitable(needs) else needs)

    async def __call__(self, *given: Any) -> Any:
        data = getattr(given[0], "data", None)
        asked = given[-1] if data is None else data.action
        id = str(getattr(given[0] if data is None else data, "tool_call_id" if data is None else "call_id", "") or "")
        return await self._run(asked, id, self._original, given, lambda text: text)

    async def _edit(self, operation: Any, name: str) -> Any:
        edit = getattr(self._original, name)
        return await self._run(operation, "", edit, (operation,), lambda text: ApplyPatchResult("failed", text))

    async def create_file(self, operation: Any) -> Any:
        return await self._edit(operation, "create_file")

    async def update_file(self, operation: Any) -> Any:
        return await self._edit(operation, "update_file")

    async def delete_file(self, operation: Any) -> Any:
        return await self._edit(operation, "delete_file")

    async def _run(self, asked: Any, id: str, original: Any, given: Sequence[Any], denial: Any) -> Any:
        run, call = _run_here(), PlugCall(self._name, _local_arguments(asked), id or uuid4().hex)
        verdict = await run.gate.plug.check_async(run.session, call)
        if verdict.stops:
            raise HeldByLockgate(verdict.text)
        if not verdict.runs:
            return denial(verdict.text)
        failed = True
        try:
            with run.gate.plug.running(run.session, call):
                result = original(*given)
                result = (await result) if isawaitable(result) else result
            failed = False
        finally:
            await to_thread(partial(run.gate.plug.ended, run.session, call.id, failed=failed))
        return result


def _local_arguments(given: Any) -> dict[str, object]:
    """Return a local tool's call as rules read it: a shell's commands as one, all other fields by their names."""
    if isinstance(given, str):
        return {"input": given}
    fields = given if isinstance(given, Mapping) else {name: getattr(given, name, None) for name in _LOCAL_FIELDS}
    found: dict[str, Any] = {name: fields[name] for name in _LOCAL_FIELDS if fields.get(name)}
    if "commands" in found:
        found["command"] = "\n".join(found.pop("commands"))
    elif isinstance(found.get("command"), list):
        found["command"] = shlex.join(found["command"])
    return found or {"input": str(given)}


def _local_key(tool: str, id: str) -> str:
    return json.dumps(["local", tool, id])


def _annotations_of(tool: Any) -> Mapping[str, object] | None:
    """Return an MCP tool's annotations; None where a tool is not from an MCP server."""
    if getattr(tool, "_mcp_tool_binding", None) is None:
        return None
    given = getattr(tool, "_mcp_annotations", None)
    return {} if given is None else dict(given.model_dump(by_alias=True, exclude_none=True))


def _call_from(tool: str, arguments: str, id: str) -> PlugCall:
    """Return a call of the model. Arguments that are no JSON object stay text, which is never let run."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        given = arguments
    return PlugCall(tool, given, id)


def _key(call: PlugCall) -> str:
    return json.dumps([call.id, call.tool, call.arguments], sort_keys=True, default=repr)


def _is_users(item: Any) -> bool:
    return _role_of(item) == "user"


def _role_of(item: Any) -> str:
    return str(item.get("role", "")) if isinstance(item, dict) else ""


def _text_of(item: Any) -> str:
    return text_of(item.get("content", "")) if isinstance(item, dict) else str(item)
