"""The plug for Google ADK: `Runner(…, plugins=[…, LockgateAdkPlugin()])`.

List it last: a plugin behind it, and an agent's own `before_tool_callback`, can change the arguments after the ruling.
A held call asks by ADK's tool confirmation; `resume` makes the message that the run goes on with.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge, verdict_class
from lockgate.integrations.plug import (
    HeldByLockgate,
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    shared_plug,
    source_of_result,
)
from lockgate.sessions.structured_text import text_of

with naming_extra("google-adk", "google.adk"):
    from google.adk.models import LlmRequest
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.agent_tool import AgentTool
    from google.adk.tools.set_model_response_tool import SetModelResponseTool
    from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
    from google.genai import types

_ASKING = "adk_request_confirmation"
# Parts in which the model itself speaks; all others are what the provider or a code executor did.
_OWN_PARTS = frozenset({"text", "thought", "thought_signature", "function_call", "part_metadata"})
_MAX_REMEMBERED = 10_000


class LockgateAdkPlugin(BasePlugin):
    """Rules on every tool call of one runner. Without a `plug` it shares one with the others of the process."""

    def __init__(self, plug: Plug | None = None, *, judge: Any = None) -> None:
        super().__init__(name="lockgate")
        self.plug = plug or shared_plug("google-adk")
        use_judge(self.plug, judge, "generate_content_async", _ask)
        # The sessions of agents inside a tool, and the arguments of running calls as they were ruled on.
        self._inner: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._running: OrderedDict[tuple[str, str], Any] = OrderedDict()

    # The user's words.

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> None:
        session, parent = invocation_context.session, self.plug.caller
        if parent:
            # An `AgentTool` runs its agent in a new session, and the model's order arrives as a user's message.
            _remember(self._inner, _place_of(session), f"{parent}/{session.id}")
        known = not session.events
        for part in user_message.parts or ():
            if part.text:
                await to_thread(self.plug.user_said, self._name_of(session), part.text, parent=parent, known=known)

    def _name_of(self, session: Any) -> str:
        place = _place_of(session)
        return self._inner.get(place) or json.dumps(place, ensure_ascii=False)

    # What the model reads.

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        session = self._name_of(callback_context.session)
        self._warn_of_agent(callback_context)
        await self.plug.model_reads_async(session, self._lines(session, callback_context.agent_name, llm_request))

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        session = self._name_of(callback_context.session)
        parts = (llm_response.content.parts or ()) if llm_response.content else ()
        for part in parts:
            self.plug.agent_wrote(session, part.text or "")
        # What the provider's own tools brought is read before the calls beside it are ruled on.
        found = [Line("", _dumped(part), "provider:tool-result") for part in parts if not _is_own(part)]
        if llm_response.grounding_metadata is not None:
            found.append(Line("", _dumped(llm_response.grounding_metadata), "provider:tool-result"))
        if found:
            self.plug.cannot_cover("the calls of tools that the provider or a code executor runs itself")
        await self.plug.model_reads_async(session, found)

    def _lines(self, session: str, agent: str, request: Any) -> Iterator[Line]:
        yield from self.plug.system_prompts(session, [_text_of(request.config.system_instruction)], agent)
        yield from self._lines_of_request(request)
        yield from self._lines_of_parts(
            session, [(each.role, part) for each in request.contents for part in each.parts or ()]
        )

    def _lines_of_parts(self, session: str, parts: list[tuple[str | None, Any]]) -> Iterator[Line]:
        said = self.plug.said(session, [part.text for role, part in parts if role != "model" and part.text])
        calls: dict[str | None, Any] = {}
        for role, part in parts:
            if part.function_call is not None:
                calls[part.function_call.id] = part.function_call
            elif part.function_response is not None:
                given = part.function_response
                arguments = getattr(calls.get(given.id), "args", None) or {}
                yield Line(given.id or "", _result_text(given), source_of_result(given.name or "", arguments))
            elif role == "model":
                yield Line("", _text_of(part.text) or _dumped(part), "message:model")
            elif part.text not in said:
                yield Line("", part.text or _dumped(part), "message:user")

    def _lines_of_request(self, request: Any) -> Iterator[Line]:
        """Yield what the model reads besides the contents, and warn of what the provider runs."""
        for name, tool in request.tools_dict.items():
            if hasattr(tool, "raw_mcp_tool"):
                yield Line(f"tool {name}", tool.description, f"tool-description:{name}")
        for tool in request.config.tools or ():
            hosted: set[str] = getattr(tool, "model_fields_set", set()) - {"function_declarations"}
            if hosted:
                self.plug.cannot_cover(f"the calls of {', '.join(sorted(hosted))}, which the provider runs itself")

    def _warn_of_agent(self, context: Any) -> None:
        """Warn of what can change or run a call behind this plug."""
        invocation = context._invocation_context
        agent, plugins = invocation.agent, invocation.plugin_manager.plugins
        if plugins and plugins[-1] is not self:
            self.plug.cannot_cover(f"what the plugin {plugins[-1].name!r}, listed behind it, makes of a call")
        if getattr(agent, "before_tool_callback", None):
            self.plug.cannot_cover(f"what the before_tool_callback of the agent {agent.name!r} makes of a call")
        if getattr(agent, "code_executor", None):
            self.plug.cannot_cover(f"the code that the code_executor of the agent {agent.name!r} runs")
        for tool in getattr(agent, "tools", ()):
            if isinstance(tool, AgentTool) and not tool.include_plugins:
                self.plug.cannot_cover(f"the calls of the agent tool {tool.name!r}: it has include_plugins=False")

    # Calls.

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        if isinstance(tool, SetModelResponseTool | TransferToAgentTool):
            # The form of the answer, and a hand-over to an agent whose calls are ruled on as well.
            return None
        session, id = self._name_of(tool_context.session), str(tool_context.function_call_id or "")
        call = PlugCall(tool.name, _as_json(tool_args), id, _annotations_of(tool))
        self.plug.note_model(session, lambda: tool_context._invocation_context.agent.canonical_model)
        verdict, answer = await self.plug.check_async(session, call), tool_context.tool_confirmation
        if verdict.question is not None and answer is not None:
            await to_thread(self.plug.answer, verdict.question, _given_answer(verdict.question, answer))
            verdict = await self.plug.check_async(session, call)
        if verdict.runs:
            _remember(self._running, (session, id), deepcopy(call.arguments))
            self.plug.enter(session)
            return None
        if verdict.stops:
            raise HeldByLockgate(verdict.text)
        # The pause of an agent inside a tool does not reach the outer run's caller.
        if verdict.question is not None and answer is None and _place_of(tool_context.session) not in self._inner:
            tool_context.request_confirmation(hint=verdict.question.text, payload=verdict.question.as_dict())
            tool_context.actions.skip_summarization = True
        return {"error": verdict.text}

    async def after_tool_callback(
        self,
        *,
        tool: Any,
        tool_args: dict[str, Any],
        tool_context: Any,
        result: Any,  # noqa: ARG002
    ) -> None:
        await self._end(tool, tool_args, tool_context, failed=False)

    async def on_tool_error_callback(
        self,
        *,
        tool: Any,
        tool_args: dict[str, Any],
        tool_context: Any,
        error: BaseException,  # noqa: ARG002
    ) -> None:
        await self._end(tool, tool_args, tool_context, failed=True)

    async def _end(self, tool: Any, arguments: dict[str, Any], context: Any, *, failed: bool) -> None:
        session, id = self._name_of(context.session), str(context.function_call_id or "")
        ruled = self._running.pop((session, id), None)
        if ruled is None:
            return
        if ruled != _as_json(arguments):
            self.plug.cannot_cover(f"the arguments that {tool.name} ran with: they were changed behind it", session)
        await to_thread(self.plug.ended, session, id, failed=failed)


async def _ask(model: Any, question: Any) -> tuple[object, object]:
    config = types.GenerateContentConfig(system_instruction=question.system)
    if question.schema:
        config.response_mime_type, config.response_schema = "application/json", verdict_class()
    request = LlmRequest(model=model.model, contents=[types.UserContent(question.user)], config=config)
    replies = [each async for each in model.generate_content_async(request)]
    return replies[-1].content.parts[-1].text, replies[-1].model_version


def held(events: Iterable[Any]) -> list[HeldQuestion]:
    """Return the questions about held calls in the events of a run."""
    return [question for _, question in _held(events)]


def resume(events: Iterable[Any], *, yes: bool, who: str) -> types.Content:
    """Return the message that goes on with the run: this answer to every held call in its events."""
    return message_of([(id, question.yes(who) if yes else question.no(who)) for id, question in _held(events)])


def message_of(answers: Iterable[tuple[str, Mapping[str, object]]]) -> types.Content:
    """Return a message with one answer per confirmation that ADK asked for."""
    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=id, name=_ASKING, response={"confirmed": answer.get("yes") is True, "payload": dict(answer)}
            )
        )
        for id, answer in answers
    ]
    return types.Content(role="user", parts=parts)


def _held(events: Iterable[Any]) -> list[tuple[str, HeldQuestion]]:
    found = []
    for call in (call for event in events for call in event.get_function_calls() if call.name == _ASKING):
        asked = ((call.args or {}).get("toolConfirmation") or {}).get("payload")
        if isinstance(asked, Mapping) and asked.get("held_by") == "lockgate":
            found.append((call.id, HeldQuestion(*(str(asked.get(name, "")) for name in HeldQuestion._fields))))
    return found


def _given_answer(question: HeldQuestion, confirmation: Any) -> object:
    """Return the answer in ADK's confirmation; a client that says no need not know of ours."""
    if confirmation.confirmed:
        return confirmation.payload
    who = confirmation.payload.get("who") if isinstance(confirmation.payload, Mapping) else None
    return question.no(str(who or "the client of ADK"))


def _place_of(session: Any) -> tuple[str, str, str]:
    return session.app_name, session.user_id, session.id


def _remember(where: OrderedDict[Any, Any], name: Any, what: Any) -> None:
    where[name] = what
    while len(where) > _MAX_REMEMBERED:
        where.popitem(last=False)


def _annotations_of(tool: Any) -> Mapping[str, object] | None:
    given = getattr(getattr(tool, "raw_mcp_tool", None), "annotations", None)
    return None if given is None else given.model_dump(by_alias=True, exclude_none=True)


def _as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value, default=str))


def _is_own(part: Any) -> bool:
    return {name for name in part.model_fields_set if getattr(part, name) is not None} <= _OWN_PARTS


def _dumped(value: Any) -> str:
    return json.dumps(value.model_dump(mode="json", exclude_none=True), ensure_ascii=False)


def _result_text(given: Any) -> str:
    """Return a result as the model reads it."""
    return "\n".join([text_of(given.response), *(_dumped(part) for part in given.parts or ())])


def _text_of(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list | tuple):
        return "\n".join(_text_of(each) for each in value)
    parts = getattr(value, "parts", None)
    return _text_of(parts) if parts is not None else str(getattr(value, "text", "") or value)
