"""The plug for Strands: `Agent(…, plugins=[…, LockgatePlugin()])`.

List it last: what is added behind it can change the arguments after the ruling. A held call pauses by Strands' own
interrupt; `resume` makes the answer that the agent is called with.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge, verdict_class
from lockgate.integrations.named_agents import unseen_agent
from lockgate.integrations.plug import (
    HeldByLockgate,
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    Verdict,
    shared_plug,
    source_of_result,
    trailing_input,
)
from lockgate.sessions.structured_text import text_of

with naming_extra("strands", "strands"):
    from strands import Agent
    from strands.hooks import AfterInvocationEvent, AfterToolsEvent, BeforeInvocationEvent, HookOrder
    from strands.middleware import ExecuteToolStage, InvokeModelStage
    from strands.plugins import Plugin
    from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
    from strands.types.events import ModelStopReason, ToolResultEvent
    from strands.types.exceptions import EventLoopException

# What a graph writes between the task and what its other agents said.
_GRAPH_MARK = "Inputs from previous nodes"
# What a swarm gives to each of its agents.
_SWARM_TOOL = "handoff_to_agent"
# Blocks in which the model itself speaks.
_OWN_BLOCKS = ("text", "reasoningContent", "toolUse", "cachePoint")
# The agents that have a plug.
_guarded: WeakSet[Agent] = WeakSet()


class LockgatePlugin(Plugin):
    """Rules on every tool call of an agent. Without a `plug` it shares one with the other agents of the process.

    Without a `session`, an agent's is that of its session manager, or one of its own. Agents of one graph or swarm
    should get the same.
    """

    name = "lockgate"

    def __init__(self, plug: Plug | None = None, *, session: str = "", judge: Any = None) -> None:
        super().__init__()
        self.plug = plug or shared_plug("strands")
        use_judge(self.plug, judge, "structured_output", _ask)
        self._given = session
        self._sessions: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()
        # Agents whose next input was written by a hook, and runs that end because a call was held.
        self._continued: WeakKeyDictionary[Agent, None] = WeakKeyDictionary()
        self._stopped: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()

    def init_agent(self, agent: Agent) -> None:
        _guarded.add(agent)
        last = HookOrder.SDK_LAST + 1
        agent.hooks.add_callback(BeforeInvocationEvent, self._begin, order=last)
        agent.hooks.add_callback(AfterInvocationEvent, self._end, order=last)
        agent.hooks.add_callback(AfterToolsEvent, self._stop, order=last)
        agent.add_middleware(InvokeModelStage, self._call_model)
        agent.add_middleware(ExecuteToolStage, self._call_tool)

    # The user's words.

    async def _begin(self, event: BeforeInvocationEvent) -> None:
        """Name the session of this run, and take in what the caller has just given."""
        agent, messages = event.agent, list(event.messages or ())
        parent, session = self.plug.caller, self._session_of(agent)
        if parent and not session.startswith(f"{parent}/"):
            session = self._sessions[agent] = f"{parent}/{uuid4().hex}"
        for tool in agent.tool_registry.registry.values():
            if unseen := unseen_agent(tool.tool_name, tool, Agent, _guarded.__contains__):
                self.plug.cannot_cover(unseen)
        given = trailing_input(messages, lambda each: each["role"] == "user")
        written = self._continued.pop(agent, self) is None or _is_from_agents(agent, messages)
        known = not agent.messages and len(given) == len(messages)
        for message in () if written else given:
            for block in message["content"]:
                if text := block.get("text", ""):
                    await to_thread(self.plug.user_said, session, text, parent=parent, known=known)
        if not given:
            # A resumed run rules on its calls before any request, perhaps in another session than it began in.
            history = self._lines_of_messages(session, _up_to_last_reply(agent.messages))
            lines = (line for line in history if line.source != "message:assistant")
            await self.plug.model_reads_async(session, lines)

    def _end(self, event: AfterInvocationEvent) -> None:
        self._stopped.pop(event.agent, None)
        if event.resume is not None:
            # What a hook goes on with is not the user's.
            self._continued[event.agent] = None

    def _session_of(self, agent: Agent) -> str:
        if agent not in self._sessions:
            manager: Any = getattr(agent, "_session_manager", None)
            kept = getattr(manager, "session_id", "") and f"{manager.session_id}-{agent.agent_id}"
            self._sessions[agent] = self._given or kept or f"run-{uuid4().hex}"
        return self._sessions[agent]

    # What the model reads.

    async def _call_model(self, context: Any, call_next: Callable[[Any], Any]) -> AsyncGenerator[Any, None]:
        session = self._session_of(context.agent)
        await self.plug.model_reads_async(session, self._lines(session, context))
        async for event in call_next(context):
            if isinstance(event, ModelStopReason):
                for block in event.message["content"]:
                    self.plug.agent_wrote(session, block.get("text", ""))
                # What the provider's own tools brought is read before the calls beside it are ruled on.
                brought = list(_lines_of_reply(event.message["content"]))
                if brought:
                    self.plug.cannot_cover("the calls of tools that the provider runs itself")
                await self.plug.model_reads_async(session, brought)
            yield event

    def _lines(self, session: str, context: Any) -> Iterator[Line]:
        # Agents that share a session are told apart by name.
        agent = f"{context.agent.agent_id} {context.agent.name}"
        yield from self.plug.system_prompts(session, [text_of(context.system_prompt)], agent)
        for spec in context.tool_specs:
            if hasattr(context.agent.tool_registry.registry.get(spec["name"]), "mcp_tool"):
                yield Line(f"tool {spec['name']}", spec["description"], f"tool-description:{spec['name']}")
        yield from self._lines_of_messages(session, context.messages)

    def _lines_of_messages(self, session: str, messages: list[Any]) -> Iterator[Line]:
        users = (block for message in messages if message["role"] == "user" for block in message["content"])
        said = self.plug.said(session, [block["text"] for block in users if "text" in block])
        calls: dict[str, Any] = {}
        for message in messages:
            for block in message["content"]:
                if "toolUse" in block:
                    calls[block["toolUse"]["toolUseId"]] = block["toolUse"]
                elif "toolResult" in block:
                    result = block["toolResult"]
                    call = calls.get(result["toolUseId"], {})
                    arguments = call.get("input") if isinstance(call.get("input"), dict) else {}
                    source = source_of_result(call.get("name", ""), arguments)
                    yield Line(result["toolUseId"], text_of(result.get("content")), source)
                elif message["role"] == "assistant":
                    yield from _lines_of_reply([block])
                    yield Line("", text_of(block.get("text")), "message:assistant")
                elif block.get("text") not in said:
                    yield Line("", text_of(block), "message:user")

    # Calls.

    async def _call_tool(self, context: Any, call_next: Callable[[Any], Any]) -> AsyncGenerator[Any, None]:
        if isinstance(context.tool, StructuredOutputTool):
            # The form of the agent's answer, and no tool.
            async for event in call_next(context):
                yield event
            return
        session, call = self._session_of(context.agent), _call_of(context)
        self.plug.note_model(session, lambda: context.agent.model)
        verdict = await self.plug.check_async(session, call)
        if verdict.question is not None:
            asked = context.interrupt(f"lockgate {verdict.question.approval}", reason=verdict.question.as_dict())
            await to_thread(self.plug.answer, verdict.question, asked.response)
            verdict = await self.plug.check_async(session, call)
        if not verdict.runs:
            yield self._denial(context, verdict)
            return
        if unseen := unseen_agent(call.tool, context.tool, Agent, _guarded.__contains__):
            # Before it runs: the tool may fail after an agent in it has acted.
            self.plug.cannot_cover(unseen, session)
        steps, failed = aiter(call_next(context)), False
        while True:
            # Not around the yield: what the caller does between two events is not inside this call.
            with self.plug.running(session):
                event = await anext(steps, None)
            if event is None:
                break
            if isinstance(event, ToolResultEvent):
                failed = event.tool_result.get("status") == "error"
            yield event
        await to_thread(self.plug.ended, session, call.id, failed=failed)

    def _denial(self, context: Any, verdict: Verdict) -> ToolResultEvent:
        if verdict.stops:
            self._stopped[context.agent] = verdict.text
        id = context.tool_use["toolUseId"]
        return ToolResultEvent({"toolUseId": id, "status": "error", "content": [{"text": verdict.text}]})

    def _stop(self, event: AfterToolsEvent) -> None:
        # Strands takes what a call's middleware raises for the tool's own error, and goes on.
        if text := self._stopped.pop(event.agent, ""):
            # The constructor is that of Strands, whose types are not installed where ours are checked.
            raise StrandsRunStopped(HeldByLockgate(text))  # type: ignore[arg-type]


async def _ask(model: Any, question: Any) -> tuple[object, object]:
    given = [{"role": "user", "content": [{"text": question.user}]}]
    events = model.structured_output(verdict_class(), given, system_prompt=question.system)
    return [each["output"] async for each in events if "output" in each][-1], None


class StrandsRunStopped(EventLoopException, HeldByLockgate):
    """Ends the run; Strands lets only its own kind of exception through."""


def held(result: Any) -> list[HeldQuestion]:
    """Return the questions about held calls in the result of a run."""
    return [question for _, question in _held(result)]


def resume(result: Any, *, yes: bool, who: str) -> list[dict[str, Any]]:
    """Return what the agent is called with to go on: this answer to every held call in its result."""
    return [
        {"interruptResponse": {"interruptId": id, "response": question.yes(who) if yes else question.no(who)}}
        for id, question in _held(result)
    ]


def _held(result: Any) -> list[tuple[str, HeldQuestion]]:
    return [
        (each.id, HeldQuestion(*(str(each.reason.get(name, "")) for name in HeldQuestion._fields)))
        for each in result.interrupts or ()
        if isinstance(each.reason, Mapping) and each.reason.get("held_by") == "lockgate"
    ]


def _up_to_last_reply(messages: list[Any]) -> list[Any]:
    """Return what the model had read when it wrote its last message: without the results of calls beside a held one."""
    replies = [place for place, each in enumerate(messages) if each["role"] == "assistant"]
    return messages[: replies[-1]] if replies else []


def _is_from_agents(agent: Agent, messages: list[Any]) -> bool:
    """Return whether other agents wrote in this input: a graph and a swarm give it like a caller's."""
    texts = [block.get("text", "") for message in messages for block in message["content"]]
    return _SWARM_TOOL in agent.tool_registry.registry or any(_GRAPH_MARK in text for text in texts)


def _call_of(context: Any) -> PlugCall:
    use = context.tool_use
    # Direct calls may hold objects; they are ruled on as JSON would write them.
    given = json.loads(json.dumps(use["input"], default=str))
    spec = context.tool.tool_spec if context.tool is not None else {}
    return PlugCall(use["name"], given, str(use["toolUseId"]), spec.get("annotations"))


def _lines_of_reply(content: list[Any]) -> Iterator[Line]:
    """Yield what the provider itself added to the model's message."""
    for block in content:
        if not any(name in block for name in _OWN_BLOCKS):
            yield Line("", text_of(block), "provider:tool-result")
