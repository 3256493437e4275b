"""The plug for Pydantic AI: `Agent(…, capabilities=[Lockgate()], output_type=[str, DeferredToolRequests])`.

It asks to be innermost, so that it sees the arguments that run, whatever the order of the list. A held call is a
deferred tool request; without `DeferredToolRequests` among the agent's output types it is denied.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge
from lockgate.integrations.named_agents import unseen_agent
from lockgate.integrations.plug import (
    HeldByLockgate,
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    require_framework,
    shared_plug,
    source_of_result,
)
from lockgate.sessions.structured_text import text_of

with naming_extra("pydantic-ai", "pydantic_ai"):
    from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ApprovalRequired, SkipToolExecution
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_core import to_jsonable_python

_MAX_INNER = 10_000
# What the model reads, beside the question in the metadata of a request.
_DENIAL = "denial"


class Lockgate(AbstractCapability[Any]):
    """Rules on every tool call of one agent. Without a `plug` it shares one with the other agents of the process."""

    def __init__(self, plug: Plug | None = None, *, judge: Any = None) -> None:
        require_framework("pydantic-ai-slim", "2.66")
        self.plug = plug or shared_plug("pydantic-ai")
        use_judge(self.plug, judge, "request", _ask)
        # The sessions of runs inside a tool of another agent, by the run.
        self._inner: dict[str, str] = {}

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    def held(self, requests: object) -> list[HeldQuestion]:
        """Return the questions about held calls in a run's output; none where it is no `DeferredToolRequests`."""
        given = requests.metadata if isinstance(requests, DeferredToolRequests) else {}
        return [question for each in given.values() if (question := _question_from(each))]

    def answer(
        self, requests: DeferredToolRequests, *, yes: bool, who: str, others: DeferredToolResults | None = None
    ) -> DeferredToolResults:
        """Record this answer to every held call, and return what the run goes on with."""
        answers = [each.yes(who) if yes else each.no(who) for each in self.held(requests)]
        return self.results(requests, answers, others)

    def results(
        self,
        requests: DeferredToolRequests,
        answers: Sequence[Mapping[str, object]],
        others: DeferredToolResults | None = None,
    ) -> DeferredToolResults:
        """Record one answer per held call. A no never comes back to a hook, so that it is recorded here.

        `others` are the results for the requests that are not Lockgate's.
        """
        ids = [id for id, each in requests.metadata.items() if _question_from(each)]
        results = DeferredToolResults() if others is None else replace(others, approvals=dict(others.approvals))
        for id, question, answer in zip(ids, self.held(requests), answers, strict=True):
            self.plug.answer(question, answer)
            no = "Lockgate did not let this call run: a person was asked about it, and has not allowed it."
            results.approvals[id] = True if answer.get("yes") is True else ToolDenied(no)
        return results

    # The user's words, and what the model reads.

    async def before_run(self, ctx: RunContext[Any]) -> None:
        caller = self.plug.caller
        if caller:
            self._inner[str(ctx.run_id)] = f"{caller}/{ctx.conversation_id or ctx.run_id}"
            while len(self._inner) > _MAX_INNER:
                self._inner.pop(next(iter(self._inner)))
        session = self._session_of(ctx)
        # A resumed run rules on its calls before any request: on what the model had read when it wrote them, so without
        # the results of calls beside the held one.
        history = _up_to_last_response(ctx.messages)
        for what in _agents_without_plug(ctx.agent).values():
            self.plug.cannot_cover(what)
        with self.plug.hook():
            if ctx.prompt is not None:
                text = text_of(ctx.prompt)
                await to_thread(self.plug.user_said, session, text, parent=caller, known=not history)
            await self.plug.model_reads_async(session, self._lines(session, history))

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        session = self._session_of(ctx)
        with self.plug.hook():
            await self.plug.model_reads_async(session, self._lines_of_request(session, request_context))
        return request_context

    def _lines_of_request(self, session: str, request: Any) -> Iterator[Line]:
        messages = request.messages
        prompts = [each.instructions for each in messages if isinstance(each, ModelRequest) and each.instructions]
        prompts += [_part_text(part) for each in messages for part in each.parts if part.part_kind == "system-prompt"]
        yield from self.plug.system_prompts(session, prompts)
        for tool in request.model_request_parameters.function_tools:
            # Only MCP servers describe their tools here: other tools are the application's own.
            if "annotations" in (tool.metadata or {}):
                yield Line(f"tool {tool.name}", tool.description or "", f"tool-description:{tool.name}")
        yield from self._lines(session, messages)

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: Any,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        for part in response.parts:
            if isinstance(part, TextPart):
                self.plug.agent_wrote(self._session_of(ctx), part.content)
            elif part.part_kind in ("builtin-tool-call", "builtin-tool-return"):
                self.plug.cannot_cover("the calls of tools that the provider runs itself")
        # What these brought is read before the calls beside it are ruled on.
        await self.plug.model_reads_async(self._session_of(ctx), self._lines(self._session_of(ctx), [response]))
        return response

    async def wrap_output_process(self, ctx: RunContext[Any], *, output_context: Any, output: Any, handler: Any) -> Any:  # noqa: ARG002
        # An output function may start another agent: what this one has read stands behind its order.
        with self.plug.running(self._session_of(ctx)):
            return await handler(output)

    def _lines(self, session: str, messages: Sequence[ModelMessage]) -> Iterator[Line]:
        calls: dict[str, Any] = {}
        parts = [part for message in messages for part in message.parts]
        said = self.plug.said(session, (_part_text(part) for part in parts if isinstance(part, UserPromptPart)))
        for message in messages:
            for part in message.parts:
                # The text is a part of the name already: a place would change when a history is trimmed.
                kind, key = part.part_kind, str(getattr(part, "tool_call_id", "") or "")
                if kind == "tool-call":
                    calls[part.tool_call_id] = part
                    continue
                text = _part_text(part)
                if kind != "system-prompt" and not (isinstance(part, UserPromptPart) and text in said):
                    yield Line(key, text, _source_of(part, calls))

    # Calls.

    async def before_tool_execute(self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any) -> Any:
        session = self._session_of(ctx)
        # The values that run may be dates, paths or models; they are ruled on as JSON has them.
        plain = to_jsonable_python(args, fallback=str)
        given = plain if isinstance(plain, dict) else {"arguments": plain}
        annotations = (tool_def.metadata or {}).get("annotations")
        asked = PlugCall(
            call.tool_name, given, call.tool_call_id, annotations if isinstance(annotations, dict) else None
        )
        self.plug.note_model(session, lambda: ctx.model)
        verdict = await self.plug.check_async(session, asked)
        if verdict.runs:
            return args
        if verdict.stops:
            raise HeldByLockgate(verdict.text)
        if verdict.question is not None and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={**verdict.question.as_dict(), _DENIAL: verdict.text})
        raise SkipToolExecution(verdict.text)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        # Where the run cannot end with these requests, Pydantic AI would end it with an error.
        if ctx.agent is None or _can_defer(ctx.agent.output_type):
            return None
        results = DeferredToolResults()
        for id, each in requests.metadata.items():
            if _question_from(each) is not None:
                text = (
                    f"{each.get(_DENIAL)} (This agent's output types have no DeferredToolRequests to ask a person by.)"
                )
                self.plug.agent_wrote(self._session_of(ctx), text)
                results.approvals[id] = ToolDenied(text)
        return results if results.approvals else None

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: Any,
        tool_def: Any,  # noqa: ARG002
        args: Any,
        handler: Any,
    ) -> Any:
        session = self._session_of(ctx)
        try:
            with self.plug.running(session, PlugCall(call.tool_name, args if isinstance(args, dict) else {})):
                return await handler(args)
        finally:
            # Also if the tool fails: an agent in it may have acted before.
            if unseen := _unseen_in(_agents_without_plug(ctx.agent), call.tool_name):
                self.plug.cannot_cover(unseen, session)
            await to_thread(self.plug.ended, session, call.tool_call_id)

    def _session_of(self, ctx: RunContext[Any]) -> str:
        """Return the session: the conversation, or inside another agent's tool the run."""
        return self._inner.get(str(ctx.run_id)) or str(ctx.conversation_id or ctx.run_id or "unseen-run")


async def _ask(model: Any, question: Any) -> tuple[object, object]:
    plain, form = model.wrapped if type(model).__name__ == "InstrumentedModel" else model, ModelRequestParameters()
    if question.schema and plain.profile.get("supports_json_schema_output"):
        form = ModelRequestParameters(output_mode="native", output_object=OutputObjectDefinition(dict(question.schema)))
    given = ModelRequest.user_text_prompt(question.user, instructions=question.system)
    reply = await model_request(plain, [given], model_request_parameters=form, instrument=False)
    return reply.text, reply.model_name


def _agents_without_plug(agent: Any) -> dict[str, str]:
    """Return, by tool, what cannot be seen of agents that the tools of this one name."""
    found: dict[str, str] = {}

    def look(toolset: Any) -> None:
        for name, tool in toolset.tools.items() if isinstance(toolset, FunctionToolset) else ():
            if unseen := unseen_agent(name, tool.function, AbstractAgent, _has_plug):
                found[name] = unseen

    for toolset in agent.toolsets if agent is not None else ():
        toolset.apply(look)
    return found


def _unseen_in(unseen: dict[str, str], tool: str) -> str:
    """Return what cannot be seen in a tool, whose set may put a prefix before its name."""
    return unseen.get(tool) or next((what for name, what in unseen.items() if tool.endswith(f"_{name}")), "")


def _has_plug(agent: Any) -> bool:
    found: list[object] = []
    agent.root_capability.apply(found.append)
    return any(isinstance(each, Lockgate) for each in found)


def _up_to_last_response(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    last = max((place for place, each in enumerate(messages) if isinstance(each, ModelResponse)), default=-1)
    return list(messages[: last + 1])


def _can_defer(output_type: object) -> bool:
    given = output_type if isinstance(output_type, list | tuple) else (output_type, *get_args(output_type))
    return any(each is DeferredToolRequests for each in given)


def _question_from(metadata: object) -> HeldQuestion | None:
    if not isinstance(metadata, Mapping) or metadata.get("held_by") != "lockgate":
        return None
    return HeldQuestion(*(str(metadata.get(name, "")) for name in HeldQuestion._fields))


def _source_of(part: Any, calls: Mapping[str, Any]) -> str:
    kind = part.part_kind
    if kind in ("tool-return", "retry-prompt"):
        call = calls.get(getattr(part, "tool_call_id", ""))
        given = call.args if call is not None and isinstance(call.args, dict) else {}
        return source_of_result(getattr(part, "tool_name", "") or "", given)
    return f"message:{kind}"


def _part_text(part: Any) -> str:
    """Return a part as the model reads it."""
    if part.part_kind == "retry-prompt":
        return str(part.model_response())
    if hasattr(part, "model_response_str"):
        return str(part.model_response_str()) + "\n" + text_of(part.content if isinstance(part.content, bytes) else "")
    return text_of(getattr(part, "content", ""))
