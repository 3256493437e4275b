"""The plug for Microsoft Agent Framework: `Agent(…, middleware=[…, *LockgateLayer().middleware])`.

List it last: a function middleware behind it can change the arguments after the ruling. A held call is one of the
framework's approval requests; `resume` records the answer and makes the message that the run goes on with.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge, verdict_class
from lockgate.integrations.named_agents import unseen_agent
from lockgate.integrations.plug import (
    HeldByLockgate,
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    shared_plug,
    source_of_result,
    trailing_input,
)
from lockgate.runtime.failures import report_failure

with naming_extra("agent-framework", "agent_framework"):
    from agent_framework import (
        AgentContext,
        AgentMiddleware,
        BaseAgent,
        ChatContext,
        ChatMiddleware,
        Content,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        HistoryProvider,
        InMemoryHistoryProvider,
        Message,
        MiddlewareFailure,
    )

# Contents in which the model itself speaks; all others of its message are what the provider did.
_OWN_CONTENTS = frozenset({"text", "text_reasoning", "function_call", "usage", "function_approval_request"})
_MAX_CALLS = 10_000
# Contents by which the framework asks and is answered; it never sends them to the model.
_APPROVALS = ("function_approval_request", "function_approval_response")


class LockgateLayer:
    """Rules on every tool call of one agent. Without a `plug` it shares one with the other agents of the process."""

    def __init__(self, plug: Plug | None = None, *, judge: Any = None) -> None:
        self.plug = plug or shared_plug("agent-framework")
        use_judge(self.plug, judge, "get_response", _ask)
        requests = _Requests(self.plug)
        self.middleware: list[Any] = [_Input(self.plug, requests), requests, _Calls(self.plug)]

    def held(self, result: Any) -> list[HeldQuestion]:
        """Return the questions about held calls in the result of a run."""
        return [question for _, question in _held(result)]

    def resume(self, result: Any, *, yes: bool, who: str) -> Message:
        """Record this answer to every held call, and return the message that the run goes on with."""
        return self.message(result, [each.yes(who) if yes else each.no(who) for each in self.held(result)])

    def message(self, result: Any, answers: Sequence[Mapping[str, object]]) -> Message:
        """Record one answer per held call. A no never comes back to a middleware, so that it is recorded here."""
        contents = []
        for (request, question), answer in zip(_held(result), answers, strict=True):
            self.plug.answer(question, answer)
            contents.append(request.to_function_approval_response(answer.get("yes") is True))
        return Message("user", contents)


async def _ask(client: Any, question: Any) -> tuple[object, object]:
    given = [Message("system", [question.system]), Message("user", [question.user])]
    reply = await client.get_response(given, options={"response_format": verdict_class()} if question.schema else {})
    return reply.text, reply.model


def _held(result: Any) -> list[tuple[Content, HeldQuestion]]:
    found = []
    for request in result.user_input_requests:
        asked = request.additional_properties or {}
        if request.type == "function_approval_request" and asked.get("held_by") == "lockgate":
            found.append((request, HeldQuestion(*(str(asked.get(name, "")) for name in HeldQuestion._fields))))
    return found


def _session_of(plug: Plug, session: Any) -> str:
    """Return the session of a run: inside another agent's call, one inside that agent's."""
    name = session.session_id if session is not None else "unseen-run"
    return f"{plug.caller}/{name}" if plug.caller else name


class _Input(AgentMiddleware):
    """Takes in the user's words, and what a run that is resumed has read."""

    def __init__(self, plug: Plug, requests: _Requests) -> None:
        self._plug = plug
        self._requests = requests

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if context.session is None:
            # A run is known by its session, so that one without gets its own.
            context.session = context.agent.create_session()
        session, parent = _session_of(self._plug, context.session), self._plug.caller
        given = trailing_input(context.messages, lambda each: each.role == "user")
        known = len(given) == len(context.messages) and not context.session.state
        for message in given:
            for content in message.contents:
                if content.type == "text" and content.text:
                    await to_thread(self._plug.user_said, session, content.text, parent=parent, known=known)
        if asked := _answered_calls(given):
            await self._read_history(session, context, asked)
        await call_next()

    async def _read_history(self, session: str, context: AgentContext, asked: Mapping[str, str]) -> None:
        """Read what the model had read when it made these calls, each with the session in which it was held.

        They are ruled on before any request, and perhaps in another session or process than the run began in.
        """
        try:
            messages = [*await _stored_messages(context), *context.messages]
        except Exception as error:  # noqa: BLE001  # an edge: any store of the application's
            report_failure(f"plug-{self._plug.name}", error)
            messages = []
        made = {each.call_id: place for place, one in enumerate(messages) for each in one.contents if _is_call(each)}
        # Not the results of calls beside the held one: the model had not read those.
        before = messages[: max((made[id] for id in asked if id in made), default=0)]
        await self._plug.model_reads_async(session, self._requests.lines_of_history(session, before))
        unseen = [id for id, was_held_in in asked.items() if id not in made and was_held_in != session]
        if not all(self._requests.has_made(session, id) for id in unseen):
            self._plug.cannot_cover("what a run had read before it was resumed in another session", session)


async def _stored_messages(context: AgentContext) -> list[Message]:
    """Return the history of a run, from where the framework will load it."""
    chat, found = context.session, []
    stores = [each for each in getattr(context.agent, "context_providers", ()) if isinstance(each, HistoryProvider)]
    # An agent gets this one when it runs for the first time.
    for store in [each for each in stores if each.load_messages] or [InMemoryHistoryProvider()]:
        found += await store.get_messages(chat.session_id, state=chat.state.get(store.source_id))
    return found


class _Requests(ChatMiddleware):
    """Reads what the model is about to read."""

    def __init__(self, plug: Plug) -> None:
        self._plug = plug
        # The newest calls that models have made, by session: a provider may keep the history to itself.
        self._made: deque[tuple[str, str]] = deque(maxlen=_MAX_CALLS)

    def has_made(self, session: str, call_id: str) -> bool:
        """Return whether the model made this call in this session, and this process."""
        return (session, call_id) in self._made

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        session = _session_of(self._plug, context.session)
        self._plug.note_model(session, lambda: context.client)
        await self._plug.model_reads_async(session, self._lines(session, context))

        async def note(response: Any) -> None:
            # What the provider's own tools brought is read before the calls beside it are ruled on.
            contents = [content for message in response.messages for content in message.contents]
            self._made += [(session, str(content.call_id)) for content in contents if _is_call(content)]
            for content in contents:
                self._plug.agent_wrote(session, (content.text or "") if content.type == "text" else "")
            await self._plug.model_reads_async(session, self._provider_lines(contents))

        if context.stream:
            context.stream_result_hooks.append(note)
        await call_next()
        if not context.stream and context.result is not None:
            await note(context.result)

    def _provider_lines(self, contents: Sequence[Any]) -> Iterator[Line]:
        for content in contents:
            cited = content.annotations if content.type == "text" else None
            if content.type not in _OWN_CONTENTS or cited:
                self._plug.cannot_cover("the calls of tools that the provider runs itself")
                yield Line("", _dumped(content), "provider:tool-result")

    def _lines(self, session: str, context: ChatContext) -> Iterator[Line]:
        contents = [(message.role, content) for message in context.messages for content in message.contents]
        options = context.options or {}
        prompts = [_text_of(content) for role, content in contents if role == "system"]
        yield from self._plug.system_prompts(session, [str(options.get("instructions") or ""), *prompts])
        yield from self._lines_of_tools(options.get("tools") or ())
        yield from self._lines_of_contents(session, contents)

    def lines_of_history(self, session: str, messages: Sequence[Any]) -> Iterator[Line]:
        """Yield what stored messages say; not what the model itself wrote, which is no news in its own session."""
        contents = [(one.role, each) for one in messages for each in one.contents if each.type not in _APPROVALS]
        yield from (line for line in self._lines_of_contents(session, contents) if line.source != "message:assistant")

    def _lines_of_contents(self, session: str, contents: Sequence[tuple[str, Any]]) -> Iterator[Line]:
        said = self._plug.said(session, [_text_of(each) for role, each in contents if role == "user"])
        calls: dict[str | None, Any] = {}
        for role, content in contents:
            if content.type == "function_call":
                calls[content.call_id] = content
            elif content.type == "function_result":
                yield Line(str(content.call_id), _result_text(content), _source_of(calls.get(content.call_id)))
            elif role == "assistant":
                yield from self._provider_lines([content])
                yield Line("", _text_of(content) if content.type == "text" else "", "message:assistant")
            elif role != "system" and not (role == "user" and _text_of(content) in said):
                yield Line("", _text_of(content), f"message:{role}")

    def _lines_of_tools(self, tools: Sequence[Any]) -> Iterator[Line]:
        """Yield what MCP servers say of their tools, and warn of what the provider and other agents run."""
        for tool in tools:
            function = getattr(tool, "func", None)
            if unseen := unseen_agent(str(getattr(tool, "name", "")), function, BaseAgent, _has_plug):
                self._plug.cannot_cover(unseen)
            if not isinstance(tool, FunctionTool):
                self._plug.cannot_cover(f"the calls of {_kind_of(tool)}, which the provider runs itself")
            elif any("mcp" in name for name in tool.additional_properties or {}):
                yield Line(f"tool {tool.name}", tool.description, f"tool-description:{tool.name}")


class _Calls(FunctionMiddleware):
    """Rules on calls."""

    def __init__(self, plug: Plug) -> None:
        self._plug = plug

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        session, id = _session_of(self._plug, context.session), str(context.metadata.get("call_id") or "")
        call = PlugCall(context.function.name, _as_json(context.arguments), id)
        verdict = await self._plug.check_async(session, call)
        if verdict.stops:
            raise AgentRunStopped(verdict.text)
        # The approvals of an agent inside a tool do not reach the outer run's caller.
        if verdict.question is not None and not _was_asked(context, verdict.question) and not self._plug.caller:
            context.result = _request_for(context, call, verdict.question)
            return
        if not verdict.runs:
            context.result = verdict.text
            return
        failed = True
        try:
            with self._plug.running(session):
                await call_next()
            failed = False
        finally:
            if _as_json(context.arguments) != call.arguments:
                unseen = f"the arguments that {call.tool} ran with: they were changed behind it"
                self._plug.cannot_cover(unseen, session)
            if unseen := unseen_agent(call.tool, context.function.func, BaseAgent, _has_plug):
                self._plug.cannot_cover(unseen, session)
            await to_thread(self._plug.ended, session, id, failed=failed)


def _has_plug(agent: Any) -> bool:
    return any(isinstance(each, _Calls) for each in getattr(agent, "middleware", None) or ())


class AgentRunStopped(HeldByLockgate, MiddlewareFailure):
    """Ends the run; the framework takes any other exception of a middleware for the tool's own error."""


def _was_asked(context: FunctionInvocationContext, question: HeldQuestion) -> bool:
    """Return whether this run goes on with an answer to this question, and not to one about other arguments."""
    response = context.metadata.get("approval_response")
    return response is not None and response.additional_properties.get("approval") == question.approval


def _request_for(context: FunctionInvocationContext, call: PlugCall, question: HeldQuestion) -> Content:
    id = str(context.metadata.get("function_call_occurrence_id") or call.id)
    asked = Content.from_function_call(call_id=call.id, name=call.tool, arguments=dict(call.arguments), id=id)
    return Content.from_function_approval_request(id=id, function_call=asked, additional_properties=question.as_dict())


def _answered_calls(messages: Sequence[Any]) -> dict[str, str]:
    """Return the calls that are answered here, with the session in which Lockgate held each; empty if it did not."""
    answers = [
        each
        for message in messages
        for each in message.contents
        if each.type == "function_approval_response" and each.function_call is not None
    ]
    held_in = [str((each.additional_properties or {}).get("session", "")) for each in answers]
    return {str(each.function_call.call_id): session for each, session in zip(answers, held_in, strict=True)}


def _is_call(content: Any) -> bool:
    return content.type == "function_call"


def _as_json(arguments: Any) -> dict[str, Any]:
    plain = arguments.model_dump() if hasattr(arguments, "model_dump") else dict(arguments)
    return json.loads(json.dumps(plain, default=str))


def _source_of(call: Any) -> str:
    return source_of_result("", {}) if call is None else source_of_result(call.name, call.parse_arguments() or {})


def _text_of(content: Any) -> str:
    return (content.text or "") if content.type == "text" else _dumped(content)


def _result_text(content: Any) -> str:
    """Return a result as the model reads it."""
    texts = [content.result if isinstance(content.result, str) else json.dumps(content.result, default=str)]
    texts += [_dumped(each) for each in content.items or () if each.type != "text"]
    return "\n".join([*texts, str(content.exception or "")]).strip()


def _dumped(content: Any) -> str:
    return json.dumps(content.to_dict(), ensure_ascii=False, default=str)


def _kind_of(tool: Any) -> str:
    return str(tool.get("type", "a tool")) if isinstance(tool, Mapping) else type(tool).__name__
