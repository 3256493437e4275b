"""The plug for LangChain and LangGraph: `create_agent(…, middleware=[…, LockgateMiddleware()])`.

List it last: what stands behind it can change the arguments after the ruling. A held call pauses by LangGraph's
`interrupt`, which needs a checkpointer; without one the call is denied, and the model is told why.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from lockgate.core.errors import printable
from lockgate.core.vocabulary import Trust
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

with naming_extra("langchain", "langchain"):
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import (
        AgentState,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
        ToolCallRequest,
    )
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
    from langgraph.types import Command, interrupt
    from langsmith import tracing_context

# Blocks in which the model itself speaks.
_OWN_BLOCKS = frozenset({"text", "output_text", "reasoning", "thinking", "redacted_thinking", "tool_use", "tool_call"})
_MAX_INTERRUPTED = 1_000
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
# What LangChain gives to the last middleware: what runs the tool, and what asks the model. Others get a middleware.
_OWN_HANDLERS = (".execute", "._sync_execute", "._execute_model_sync", "._execute_model_async")
# What is told of everything that starts while a call runs, also of agents that the tool starts.
_watching: ContextVar[BaseCallbackHandler | None] = ContextVar("lockgate_watching", default=None)
register_configure_hook(_watching, inheritable=True)


class LockgateState(AgentState[Any]):
    """The state of an agent with this plug: which session its run is."""

    lockgate_session: NotRequired[Annotated[str, PrivateStateAttr]]  # type: ignore[valid-type]


class LockgateMiddleware(AgentMiddleware[Any, Any, Any]):
    """Rules on every tool call of one agent. Without a `plug` it shares one with the other agents of the process.

    With `model_sees_the_same` the application vouches that no middleware behind this one gives the model text that was
    not there before.
    """

    state_schema = LockgateState

    def __init__(self, plug: Plug | None = None, *, model_sees_the_same: bool = False, judge: Any = None) -> None:
        super().__init__()
        self._model_sees_the_same = model_sees_the_same
        require_framework("langchain", "1.4")
        self.plug = plug or shared_plug("langchain")
        use_judge(self.plug, judge, "with_structured_output", _ask)
        # The answered questions about calls that went on to a pause of their own, by session, call and arguments.
        self._interrupted: OrderedDict[str, HeldQuestion] = OrderedDict()

    # The user's words.

    def before_agent(self, state: LockgateState, runtime: object) -> dict[str, str]:  # noqa: ARG002
        return self._begin(state)

    async def abefore_agent(self, state: LockgateState, runtime: object) -> dict[str, str]:  # noqa: ARG002
        return await to_thread(self._begin, state)

    def _begin(self, state: LockgateState) -> dict[str, str]:
        """Name the session of this run, and take in what the caller has just given."""
        thread = str(get_config().get("configurable", {}).get("thread_id") or f"run-{uuid4().hex}")
        parent, session = self.plug.caller, state.get("lockgate_session", "")
        if not parent:
            session = thread
        elif not session.startswith(f"{parent}/"):
            session = f"{parent}/{uuid4().hex}"
        messages = list(state.get("messages", ()))
        given = trailing_input(messages, lambda each: isinstance(each, HumanMessage))
        # What the caller brought along from another run was read elsewhere.
        known = len(given) == len(messages)
        if not parent and "|" in str(get_config().get("configurable", {}).get("checkpoint_ns", "")):
            # Inside another graph, whose nodes write messages too: only the application knows what its user said.
            given = []
        with self.plug.hook():
            texts = [_text_of(each) for each in given]
            said = self.plug.said(session, texts)
            # A message that a tool or another part of the agent added is not the user's, wherever it stands.
            fresh = [text for text in texts if text not in said and not self.plug.was_read(session, text)]
            if len(fresh) > 1:
                self.plug.cannot_cover("which of several human messages the user wrote: only the first counts")
            for text in fresh[:1] or list(said)[:1]:
                self.plug.user_said(session, text, parent=parent, known=known)
        return {"lockgate_session": session}

    def after_agent(self, state: LockgateState, runtime: object) -> None:  # noqa: ARG002
        # A message that a last tool added must not pass for the next input of the user.
        self._read(state, state.get("messages", ()))

    async def aafter_agent(self, state: LockgateState, runtime: object) -> None:  # noqa: ARG002
        await to_thread(self._read, state, state.get("messages", ()))

    # What the model reads.

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        session = self._read(request.state, request.messages, request)
        if not self._model_sees_the_same:
            self._warn_of(handler, session, "what the model reads")
        response = handler(request)
        self._note_reply(session, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        session = await to_thread(self._read, request.state, request.messages, request)
        if not self._model_sees_the_same:
            self._warn_of(handler, session, "what the model reads")
        response = await handler(request)
        self._note_reply(session, response)
        return response

    def _read(self, state: Any, messages: Sequence[AnyMessage], request: ModelRequest[Any] | None = None) -> str:
        session = _session_of(state)
        with self.plug.hook():
            self.plug.model_reads(session, self._lines(session, messages, request))
        return session

    def _lines(self, session: str, messages: Sequence[AnyMessage], request: ModelRequest[Any] | None) -> Iterator[Line]:
        if request is not None:
            self.plug.note_model(session, lambda: request.model)
            yield from self._lines_of_request(session, request)
        said = self.plug.said(session, (_text_of(each) for each in messages if isinstance(each, HumanMessage)))
        calls = {call["id"]: call for each in messages if isinstance(each, AIMessage) for call in each.tool_calls}
        for number, message in enumerate(messages):
            text, key = _text_of(message), message.id or str(number)
            if isinstance(message, ToolMessage):
                source = _source_of(message, calls)
                yield Line(key, text, source)
                yield from _lines_of_documents(key, text, source, message.artifact)
            elif isinstance(message, AIMessage):
                # The model's own words are no news, and were noted when it wrote them.
                yield Line(key, message.text, "message:assistant")
                for place, block in enumerate(_provider_results(message)):
                    yield Line(f"{key} {place}", block, "provider:tool-result")
            elif not (isinstance(message, HumanMessage) and text in said):
                yield Line(key, text, f"message:{message.type}")

    def _lines_of_request(self, session: str, request: ModelRequest[Any]) -> Iterator[Line]:
        """Yield what the model reads besides the messages: the application's prompt, and what MCP servers say."""
        if request.system_message is not None:
            yield from self.plug.system_prompts(session, [_text_of(request.system_message)])
        for tool in request.tools:
            if not isinstance(tool, dict) and _annotations_of(tool) is not None:
                yield Line(f"tool {tool.name}", tool.description, f"tool-description:{tool.name}")
            elif isinstance(tool, dict) and "name" not in tool.get("function", tool):
                self.plug.cannot_cover(f"the calls of {tool.get('type', 'a tool')}, which the provider runs itself")

    def _warn_of(self, handler: object, session: str, what: str) -> None:
        """Warn of a middleware behind this one, which can change what was read or ruled on here."""
        if not getattr(handler, "__qualname__", "").endswith(_OWN_HANDLERS):
            unseen = f"{what}: a middleware behind LockgateMiddleware can change it, so list LockgateMiddleware last"
            self.plug.cannot_cover(unseen, session)

    def _note_reply(self, session: str, response: object) -> None:
        """Note the model's own words, and read what the provider's tools brought before the calls beside it."""
        for message in getattr(response, "result", [response]):
            if isinstance(message, AIMessage):
                self.plug.agent_wrote(session, message.text)
                found = [Line("reply", each, "provider:tool-result") for each in _provider_results(message)]
                self.plug.model_reads(session, found)

    def _note_added(self, session: str, result: object) -> None:
        """Read at once what a tool puts under role user: the next model call may fail before it is read."""
        update = getattr(result, "update", None)
        added = update.get("messages", ()) if isinstance(update, Mapping) else ()
        forged = [each for each in added if isinstance(each, HumanMessage)] if isinstance(added, list | tuple) else []
        self.plug.model_reads(session, [Line("added", _text_of(each), "message:human") for each in forged])

    # Calls.

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        session, call = _session_of(request.state), _call_of(request)
        self._warn_of(handler, session, "the arguments that run")
        verdict, question = self._go_on(session, call) or (self.plug.check(session, call), None)
        if verdict.question is not None and (question := _askable(verdict.question)):
            answer = interrupt(question.as_dict())
            with self.plug.hook():
                self.plug.answer(question, answer)
                verdict = self.plug.check(session, call)
        if not verdict.runs:
            return self._denial(session, request, verdict)
        failed = True
        try:
            with self._running(session, call), self._remember_interrupt(session, call, question):
                result = handler(request)
            self._note_added(session, result)
            failed = getattr(result, "status", "") == "error"
        finally:
            self.plug.ended(session, call.id, failed=failed)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        session, call = _session_of(request.state), _call_of(request)
        self._warn_of(handler, session, "the arguments that run")
        verdict, question = self._go_on(session, call) or (await self.plug.check_async(session, call), None)
        if verdict.question is not None and (question := _askable(verdict.question)):
            answer = interrupt(question.as_dict())
            with self.plug.hook():
                await to_thread(self.plug.answer, question, answer)
                verdict = await self.plug.check_async(session, call)
        if not verdict.runs:
            return self._denial(session, request, verdict)
        failed = True
        try:
            with self._running(session, call), self._remember_interrupt(session, call, question):
                result = await handler(request)
            await to_thread(self._note_added, session, result)
            failed = getattr(result, "status", "") == "error"
        finally:
            await to_thread(self.plug.ended, session, call.id, failed=failed)
        return result

    @contextmanager
    def _running(self, session: str, call: PlugCall) -> Iterator[None]:
        before = _watching.set(_AgentInside(self.plug, session, call.tool))
        try:
            with self.plug.running(session, call):
                yield
        finally:
            _watching.reset(before)

    def _denial(self, session: str, request: ToolCallRequest, verdict: Verdict) -> ToolMessage:
        text = verdict.text
        if verdict.question is not None and _askable(verdict.question) is None:
            text += " (This agent has no checkpointer, so that its run cannot wait for a person.)"
            self.plug.agent_wrote(session, text)
        if verdict.stops:
            raise RunStopped(text)
        call = request.tool_call
        return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")

    def _go_on(self, session: str, call: PlugCall) -> tuple[Verdict, HeldQuestion] | None:
        """Return the verdict for a call that a person allowed and that then paused itself; None for all others.

        LangGraph runs such a call from its top, and the yes is spent. In another process the yes is unknown here: the
        call is held once more.
        """
        question = self._interrupted.pop(_call_key(session, call), None)
        if question is None:
            return None
        # Takes the answer to our own question once more: the next one is for the tool.
        interrupt(question.as_dict())
        return Verdict(runs=True), question

    @contextmanager
    def _remember_interrupt(self, session: str, call: PlugCall, question: HeldQuestion | None) -> Iterator[None]:
        try:
            yield
        except GraphInterrupt:
            if question is not None:
                self._interrupted[_call_key(session, call)] = question
                while len(self._interrupted) > _MAX_INTERRUPTED:
                    self._interrupted.popitem(last=False)
            raise


def _ask(model: Any, question: Any) -> tuple[object, object]:
    plain, given = getattr(model, "bound", model), [("system", question.system), ("human", question.user)]
    asked = plain.with_structured_output(verdict_class(), include_raw=True) if question.schema else plain
    with tracing_context(enabled=False):
        reply = asked.invoke(given, config={"callbacks": []})
    raw, parsed = (reply["raw"], reply["parsed"]) if question.schema else (reply, None)
    return parsed or raw.text, raw.response_metadata.get("model_name")


class _AgentInside(BaseCallbackHandler):
    """Warns of an agent that a tool starts, and that has none of our middleware: its calls run unasked."""

    def __init__(self, plug: Plug, session: str, tool: str) -> None:
        self._plug, self._session, self._tool = plug, session, tool
        self._place = _place_of(get_config().get("metadata"))

    def on_tool_start(self, *_: Any, metadata: Mapping[str, Any] | None = None, **__: Any) -> None:
        # A tool that calls another one runs in the same place; an agent with our middleware in its own session.
        if self._plug.caller == self._session and _place_of(metadata) != self._place:
            unseen = f"the calls of an agent that the tool {self._tool} starts: it has no LockgateMiddleware"
            self._plug.cannot_cover(unseen, self._session)


def _place_of(metadata: Mapping[str, Any] | None) -> object:
    return (metadata or {}).get("langgraph_checkpoint_ns")


def held(result: Mapping[str, Any]) -> list[HeldQuestion]:
    """Return the questions about held calls in the result of a run."""
    return [question for _, question in _held(result)]


def resume(result: Mapping[str, Any], *, yes: bool, who: str) -> Command[Any]:
    """Return what goes on with the run: this answer to every held call in its result."""
    return Command(
        resume={id: question.yes(who) if yes else question.no(who) for id, question in _held(result)},
    )


def _held(result: Mapping[str, Any]) -> list[tuple[str, HeldQuestion]]:
    return [
        (each.id, HeldQuestion(*(str(each.value.get(name, "")) for name in HeldQuestion._fields)))
        for each in result.get("__interrupt__", ())
        if isinstance(each.value, dict) and each.value.get("held_by") == "lockgate"
    ]


def _session_of(state: Any) -> str:
    """Return the session of this run; where it was not seen from its start, that of its thread."""
    named = state.get("lockgate_session") if isinstance(state, Mapping) else getattr(state, "lockgate_session", None)
    return str(named or get_config().get("configurable", {}).get("thread_id") or "unseen-run")


def _call_of(request: ToolCallRequest) -> PlugCall:
    call = request.tool_call
    annotations = None if request.tool is None else _annotations_of(request.tool)
    return PlugCall(call["name"], call["args"], str(call.get("id") or ""), annotations)


def _call_key(session: str, call: PlugCall) -> str:
    return json.dumps([session, call.id, call.tool, call.arguments], sort_keys=True, default=repr)


def _annotations_of(tool: object) -> Mapping[str, object] | None:
    """Return an MCP tool's annotations; None where a tool is not from an MCP server."""
    given = getattr(tool, "metadata", None) or {}
    return given if any(name in given for name in (*_HINTS, "_meta")) else None


def _askable(question: HeldQuestion) -> HeldQuestion | None:
    """Return the question if this run can be paused and go on."""
    given = get_config().get("configurable", {})
    return question if given.get("__pregel_checkpointer") is not None else None


class RunStopped(HeldByLockgate, GraphBubbleUp):
    """Ends the run; LangGraph lets only its own kind of exception through a tool's error handling."""


def _source_of(message: ToolMessage, calls: Mapping[Any, Any]) -> str:
    call = calls.get(message.tool_call_id)
    return source_of_result(message.name or (call["name"] if call else ""), call["args"] if call else {})


def _lines_of_documents(key: str, text: str, source: str, artifact: object) -> Iterator[Line]:
    """Yield the documents that a retriever's result holds, with the source that each names.

    They are read besides the whole result: an order may begin in one and end in the next. Their metadata may be the
    attacker's: it is never the kind of a source, and never all of its name, which a tool's could be.
    """
    for place, each in enumerate(artifact if isinstance(artifact, list | tuple) else ()):
        named = each.metadata.get("source") if isinstance(each, Document) and each.page_content in text else None
        if isinstance(named, str) and named.strip():
            own = f"document:{source.partition(':')[2]}/{printable(named, 300)}"
            yield Line(f"{key} {place}", each.page_content, own, Trust.UNTRUSTED)


def _text_of(message: AnyMessage) -> str:
    return text_of(message.content)


def _provider_results(message: AIMessage) -> list[str]:
    """Return what the provider's own tools did and brought: outside text in the model's own message."""
    if isinstance(message.content, str):
        return []
    return [
        json.dumps(block, ensure_ascii=False, default=str)
        for block in message.content
        if isinstance(block, dict) and block.get("type") not in _OWN_BLOCKS
    ]
