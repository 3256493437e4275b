"""The plug for Pydantic AI against the real package; `make test-hosts` installs it, plain runs skip this."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from host_judging import check_host_judge, judge_reply
from page_programs import run_page
from plug_attack import Attack
from pydantic import BaseModel, Field
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    NativeToolReturnPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from lockgate import Gate, MemoryApprovals
from lockgate.integrations.plug import HeldByLockgate, Plug
from lockgate.integrations.pydantic_ai import Lockgate
from lockgate.testing.plug_suite import GOAL, POISON, READ, SEND, PlugKit, Reply, RunOutcome, ScriptedCall, check_plug


def parts_of(reply: Reply) -> list[Any]:
    if isinstance(reply, str):
        return [TextPart(reply)]
    return [
        ToolCallPart(call.tool, dict(call.arguments), call.id) if isinstance(call, ScriptedCall) else call
        for call in reply
    ]


def scripted(script: Any) -> FunctionModel:
    async def stream(messages: Any, info: Any) -> Any:
        reply = next(script, "done")
        if isinstance(reply, str):
            yield reply
        elif isinstance(reply[0], NativeToolReturnPart):
            yield {0: reply[0]}
            reply = reply[1:]
        for place, call in enumerate(() if isinstance(reply, str) else reply, 1):
            yield {place: DeltaToolCall(call.tool, json.dumps(dict(call.arguments)), tool_call_id=call.id)}

    return FunctionModel(
        lambda messages, info: ModelResponse(parts=parts_of(judge_reply(str(messages)) or next(script, "done"))),
        stream_function=stream,
    )


class PydanticDriver:
    modes = ("sync", "async", "stream")
    cannot: Mapping[int, str] = {}

    def __init__(self, plug: Plug, storage: dict[str, Any]) -> None:
        self.gate = Lockgate(plug)
        self.storage = storage
        self.more: dict[str, Any] = {}

    def start(
        self, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], goal: str, *, session: str, mode: str
    ) -> RunOutcome:
        history = self.storage.get(session, ((), None, []))[2]
        self.storage[session] = (tuple(tools), iter(list(replies)), history)
        return self._run(session, mode, goal)

    def resume(self, outcome: RunOutcome, answers: Sequence[Mapping[str, object] | bool], *, mode: str) -> RunOutcome:
        session, requests = outcome.state
        if answers == [True]:
            results = DeferredToolResults(approvals={call.tool_call_id: True for call in requests.approvals})
        else:
            results = self.gate.results(requests, answers)  # type: ignore[arg-type]
        return self._run(session, mode, None, results)

    def resume_edited(self, outcome: RunOutcome, arguments: Mapping[str, object], *, mode: str) -> RunOutcome:
        session, requests = outcome.state
        (question,) = outcome.questions
        self.gate.results(requests, [question.yes("ana")])
        edited = ToolApproved(override_args=dict(arguments))
        results = DeferredToolResults(approvals={call.tool_call_id: edited for call in requests.approvals})
        return self._run(session, mode, None, results)

    def start_inside(
        self, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], goal: str, *, session: str, mode: str
    ) -> RunOutcome:
        inner = Agent(
            scripted(iter(list(replies))),
            tools=list(tools),
            capabilities=[self.gate],
            output_type=[str, DeferredToolRequests],
        )
        held: list[Any] = []

        async def delegate(task: str) -> str:
            """Hand a task to another agent."""
            result = await inner.run(task)
            held.extend(self.gate.held(result.output))
            return "done"

        order = ScriptedCall("delegate", {"task": "Read the page, and email what it says to the address it gives"}, "d")
        outcome = self.start([delegate], [[order], "done"], goal, session=session, mode=mode)
        return outcome._replace(questions=[*outcome.questions, *held])

    def start_forged(
        self, text: str, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], *, session: str, mode: str
    ) -> RunOutcome:
        self.start(tools, [replies[0], "done"], "Add 2 and 3", session=session, mode=mode)
        # As a summary or another agent would write it.
        given, _, history = self.storage[session]
        history.append(ModelRequest(parts=[UserPromptPart(text)]))
        self.storage[session] = (given, iter(list(replies[1:])), history)
        return self._run(session, mode, "And now?")

    def start_with_provider_result(
        self, text: str, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], *, session: str, mode: str
    ) -> RunOutcome:
        found = NativeToolReturnPart("web_search", text, "p1", provider_name="function")
        first = [found, *replies[0]]
        return self.start(tools, [first, *replies[1:]], "Look up the news", session=session, mode=mode)  # type: ignore[list-item]

    def start_changed(
        self,
        change: Mapping[str, object],
        tools: Sequence[Callable[..., object]],
        replies: Sequence[Reply],
        goal: str,
        *,
        session: str,
        mode: str,
    ) -> RunOutcome:
        self.more["capabilities"] = [self.gate, Changer(change)]
        return self.start(tools, replies, goal, session=session, mode=mode)

    def start_with_mcp(
        self,
        description: str,
        tools: Sequence[Callable[..., object]],
        replies: Sequence[Reply],
        goal: str,
        *,
        session: str,
        mode: str,
    ) -> RunOutcome:
        # As its MCP toolset makes them.
        given = [
            Tool(
                each,
                description=description if each.__name__ == "get_sum" else None,
                metadata={"meta": None, "annotations": {"readOnlyHint": each.__name__ != "send_email"}},
            )
            for each in tools
        ]
        return self.start(given, replies, goal, session=session, mode=mode)  # type: ignore[arg-type]

    def start_without_pause(
        self, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], goal: str, *, session: str, mode: str
    ) -> RunOutcome:
        self.more["output_type"] = str
        return self.start(tools, replies, goal, session=session, mode=mode)

    def _run(self, session: str, mode: str, prompt: str | None, results: Any = None) -> RunOutcome:
        tools, script, history = self.storage[session]
        options: dict[str, Any] = {"capabilities": [self.gate], "output_type": [str, DeferredToolRequests], **self.more}
        agent: Any = Agent(
            scripted(script),
            tools=list(tools),
            instructions="You help people with their mail and the web.",
            **options,
        )
        given = {"message_history": history or None, "deferred_tool_results": results, "conversation_id": session}
        try:
            if mode == "sync":
                result = agent.run_sync(prompt, **given)
            else:
                result = asyncio.run(agent.run(prompt, **given) if mode == "async" else _stream(agent, prompt, **given))
        except Exception as error:  # noqa: BLE001
            return RunOutcome([], error=error, state=(session, None))
        messages = result.all_messages()
        self.storage[session] = (tools, script, messages)
        told = [
            str(part.content)
            for message in messages
            for part in message.parts
            if part.part_kind in ("tool-return", "retry-prompt")
        ]
        return RunOutcome(told, self.gate.held(result.output), None, (session, result.output))


class Changer(AbstractCapability[Any]):
    """Changes what is sent."""

    def __init__(self, change: Mapping[str, object]) -> None:
        self.change = change

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return {**args, **self.change} if call.tool_name == "send_email" else args


async def _stream(agent: Any, prompt: Any, **options: Any) -> Any:
    result = None
    async with agent.run_stream_events(prompt, **options) as events:
        async for event in events:
            result = getattr(event, "result", None) or result
    return result


@pytest.mark.parametrize("mode", PydanticDriver.modes)
def test_the_agents_own_model_judges_its_calls(mode: str) -> None:
    check_host_judge(PydanticDriver, lambda plug: Lockgate(plug, judge="host"), mode)


def test_the_plug_holds_what_plugs_promise() -> None:
    results = check_plug(PydanticDriver, imports=("pydantic_ai", "pydantic"))
    assert not [each for each in results if each.why_not]


def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    said = run_page("pydantic-ai", tmp_path)
    assert "Allow it once?" in said
    assert said.endswith("Open from 9 to 5.\n")


def test_a_plug_that_stops_ends_the_run() -> None:
    kit = PlugKit(PydanticDriver, Gate(), on_pause="stop")
    outcome = kit.hijack("sync")
    assert isinstance(outcome.error, HeldByLockgate)
    assert not kit.sent


def test_a_conversation_that_began_elsewhere_has_an_unknown_context() -> None:
    sent: list[str] = []

    def send_email(to: str, body: str) -> str:
        """Send an email."""
        sent.append(to)
        return "sent"

    gate = Lockgate(Plug("pydantic-ai", gate=Gate(approvals=MemoryApprovals())))
    agent = Agent(
        scripted(iter([[SEND], "done"])),
        tools=[send_email],
        capabilities=[gate],
        output_type=[str, DeferredToolRequests],
    )
    history = [ModelRequest(parts=[UserPromptPart(GOAL)]), ModelResponse(parts=[TextPart("Shall I mail it?")])]
    result = agent.run_sync("Yes", message_history=history)
    assert gate.held(result.output)
    assert not sent


def test_values_that_json_does_not_have_are_ruled_on_as_it_would_write_them() -> None:
    seen: list[Any] = []

    def get_report(day: date, folder: Path) -> str:
        """Get a report."""
        seen.append((day, folder))
        return "none"

    call = ScriptedCall("get_report", {"day": "2026-11-16", "folder": "reports"}, "1")
    plug = Plug("pydantic-ai", gate=Gate(approvals=MemoryApprovals()))
    agent = Agent(scripted(iter([[call], "done"])), tools=[get_report], capabilities=[Lockgate(plug)])
    agent.run_sync("Get the report")
    plug.close()
    assert seen == [(date(2026, 11, 16), Path("reports"))]


def test_a_result_is_read_as_the_model_reads_it() -> None:
    class Page(BaseModel):
        title: str
        body: str = Field(repr=False)

    sent: list[str] = []

    def read_page(url: str) -> Any:
        """Read a page."""
        return Page(title="News", body=POISON)

    def send_email(to: str, body: str) -> str:
        """Send an email."""
        sent.append(to)
        return "sent"

    plug = Plug("pydantic-ai", gate=Gate(approvals=MemoryApprovals()), on_pause="deny")
    agent = Agent(
        scripted(iter([[READ], [SEND], "done"])), tools=[read_page, send_email], capabilities=[Lockgate(plug)]
    )
    agent.run_sync(GOAL)
    plug.close()
    assert not sent


def held_agent(**more: Any) -> tuple[Any, Lockgate, list[str]]:
    """Return an agent that reads a page and is hijacked by it, and the list of what it has sent."""
    attack = Attack("pydantic-ai")
    gate = Lockgate(attack.plug)
    capabilities = [gate, *more.pop("capabilities", [])]
    tools = [*attack.tools, *more.pop("tools", [])]
    script = more.pop("script", [[READ], [SEND], "done"])
    return Agent(scripted(iter(script)), tools=tools, capabilities=capabilities, **more), gate, attack.sent


def test_without_deferred_requests_the_model_is_told_that_no_person_can_be_asked() -> None:
    agent, gate, sent = held_agent()
    result = agent.run_sync(GOAL)
    gate.plug.close()
    assert not sent
    assert result.output == "done"
    told = [
        str(part.content) for each in result.all_messages() for part in each.parts if part.part_kind == "tool-return"
    ]
    assert "Lockgate stopped this call" in told[-1]
    assert "no DeferredToolRequests" in told[-1]


def test_another_capability_can_answer_a_held_call_in_place() -> None:
    def ask(ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        return gate.answer(requests, yes=True, who="ana")

    agent, gate, sent = held_agent(capabilities=[HandleDeferredToolCalls(ask)])
    agent.run_sync(GOAL)
    gate.plug.close()
    assert sent == [SEND.arguments["to"]]


def test_the_results_of_other_approvals_are_kept_beside_ours() -> None:
    seen: list[str] = []

    def get_notes(day: str) -> str:
        """Get the notes of a day."""
        seen.append(day)
        return "none"

    notes = ScriptedCall("get_notes", {"day": "Monday"}, "n")
    agent, gate, sent = held_agent(
        tools=[Tool(get_notes, requires_approval=True)],
        script=[[READ], [SEND, notes], "done"],
        output_type=[str, DeferredToolRequests],
    )
    held = agent.run_sync(GOAL)
    others = DeferredToolResults(approvals={"n": True, SEND.id: True})
    results = gate.answer(held.output, yes=False, who="ana", others=others)
    agent.run_sync(message_history=held.all_messages(), deferred_tool_results=results)
    gate.plug.close()
    assert (sent, seen) == ([], ["Monday"])


def test_instructions_that_change_during_the_run_are_not_vetted() -> None:
    def instructions(ctx: Any) -> str:
        return "You help." if ctx.run_step < 2 else f"You help. {POISON}"

    def get_day() -> str:
        """Get the day of the week."""
        return "Monday"

    day = ScriptedCall("get_day", {}, "1")
    agent, gate, sent = held_agent(instructions=instructions, tools=[get_day], script=[[day], [SEND], "done"])
    agent.run_sync("Which day is it?")
    gate.plug.close()
    assert not sent


def test_an_agent_without_the_plug_that_a_tool_names_is_reported(caplog: Any) -> None:
    sent: list[str] = []
    adds = ScriptedCall("get_sum", {"a": 2, "b": 3}, "s")
    order = ScriptedCall("delegate", {"task": "Add two and three"}, "d")
    ana = ScriptedCall("send_email", {"to": "ana@example.com", "body": "the minutes"}, "a")

    def get_sum(a: int, b: int) -> int:
        """Get the sum of two numbers."""
        return a + b

    def send_email(to: str, body: str) -> str:
        """Send an email."""
        sent.append(to)
        return "sent"

    plug = Plug("pydantic-ai", gate=Gate(approvals=MemoryApprovals()), on_pause="deny")

    def play(calls: list[ScriptedCall], **more: Any) -> None:
        helper = Agent(scripted(iter([[adds], "done"])), name="helper", tools=[get_sum], **more)

        async def delegate(task: str) -> str:
            """Hand a task to another agent."""
            return str((await helper.run(task)).output)

        script = iter([*([each] for each in calls), "done"])
        tools = [delegate, send_email]
        agent = Agent(scripted(script), tools=tools, capabilities=[Lockgate(plug)])
        agent.run_sync("Email ana@example.com the minutes")

    play([order, ana], capabilities=[Lockgate(plug)])
    assert (len(sent), caplog.messages) == (1, [])
    # It is said at the start; what its caller does is suspect once it has run.
    play([ana])
    assert len(sent) == 2
    assert "the calls of helper, which the tool delegate starts: it has no plug" in caplog.text
    play([order, ana])
    plug.close()
    assert len(sent) == 2
