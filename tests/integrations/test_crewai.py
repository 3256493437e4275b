"""The plug for CrewAI against the real package; `make test-hosts` installs it, plain runs skip this."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest

if find_spec("crewai") is None:
    pytest.skip("crewai is not installed", allow_module_level=True)
# CrewAI reports to its makers unless it is told not to, before it is loaded. Where it is not installed, other tests of
# this process need what this switches off.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.hooks.dispatch import InterceptionPoint, register, scoped_hooks, unregister
from crewai.tools import tool
from crewai.tools.mcp_native_tool import MCPNativeTool
from host_judging import check_host_judge, judge_reply
from page_programs import run_page
from plug_attack import Attack

from lockgate import Gate
from lockgate.integrations.crewai import guarded
from lockgate.integrations.plug import HeldByLockgate, HeldQuestion, Plug
from lockgate.testing.plug_suite import (
    EVE,
    GOAL,
    POISON,
    READ,
    SEND,
    PlugKit,
    Reply,
    RunOutcome,
    ScriptedCall,
    check_plug,
)

# How long a run that a case leaves behind waits for an answer.
WAIT_S = 3


class ScriptedLLM(BaseLLM):
    """Says what it was told to, and then only: done."""

    script: Any = None
    seen: Any = None

    def call(self, messages: Any, **_: Any) -> Any:
        if said := judge_reply(messages[-1]["content"]):
            # As the models of CrewAI do, and all hooks with them.
            self._invoke_before_llm_call_hooks(messages)
            return said
        self.seen[:] = [dict(each) for each in messages]
        reply = next(self.script, "done")
        return reply if isinstance(reply, str) else [function_call(each) for each in reply]

    async def acall(self, messages: Any, **more: Any) -> Any:
        return self.call(messages, **more)

    def supports_function_calling(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 100_000


def function_call(call: ScriptedCall) -> dict[str, Any]:
    function = {"name": call.tool, "arguments": json.dumps(dict(call.arguments))}
    return {"id": call.id, "type": "function", "function": function}


def agent_of(replies: Any, tools: Sequence[Any], **more: Any) -> Agent:
    llm = ScriptedLLM(model="scripted")
    llm.script, llm.seen = iter(replies), []
    return Agent(
        role=more.pop("role", "helper"),
        goal="Help people",
        backstory="You help people with their mail and the web.",
        llm=llm,
        tools=[tool(each.__name__)(each) if callable(each) and hasattr(each, "__name__") else each for each in tools],
        **more,
    )


def crew_of(agent: Agent, goal: str, *others: Agent, **more: Any) -> Crew:
    task = Task(description=goal, expected_output="An answer", agent=agent)
    return Crew(agents=[agent, *others], tasks=[task], **more)


def told_by(agent: Agent) -> list[str]:
    return [str(each["content"]) for each in agent.llm.seen if each.get("role") == "tool"]  # type: ignore[union-attr]


@contextmanager
def global_hook(point: InterceptionPoint, hook: Any) -> Any:
    register(point, hook)
    try:
        yield
    finally:
        unregister(point, hook)


class Run:
    """One run in a thread: it ends, or it waits for a person."""

    def __init__(self, plug: Plug, session: str, agent: Agent, goal: str, mode: str, *, asks: bool) -> None:
        self.news: Queue[HeldQuestion | BaseException | None] = Queue()
        self.answers: Queue[Any] = Queue()
        self.agent = agent
        self._given = (plug, session, goal, mode, asks)
        Thread(target=self._go, daemon=True).start()

    def ask(self, question: HeldQuestion) -> Any:
        self.news.put(question)
        try:
            return self.answers.get(timeout=WAIT_S)
        except Empty:
            return None

    def _go(self) -> None:
        plug, session, goal, mode, asks = self._given
        try:
            with guarded(goal, session=session, plug=plug, ask=self.ask if asks else None):
                if mode == "sync":
                    crew_of(self.agent, goal).kickoff()
                elif mode == "async":
                    asyncio.run(crew_of(self.agent, goal).akickoff())
                else:
                    for _ in crew_of(self.agent, goal, stream=True).kickoff():
                        pass
        except Exception as error:  # noqa: BLE001
            self.news.put(error)
        else:
            self.news.put(None)

    def outcome(self) -> RunOutcome:
        found = self.news.get(timeout=60)
        questions = [found] if isinstance(found, HeldQuestion) else []
        return RunOutcome(told_by(self.agent), questions, found if isinstance(found, BaseException) else None, self)


class CrewDriver:
    modes = ("sync", "async", "stream")
    cannot: Mapping[int, str] = {
        8: "a person's answer has no arguments",
        10: "a run that waits ends with its process; without `ask` the call is denied, and tried again",
        17: "its MCP tools are made only by a client of a running server",
        23: "a model of CrewAI returns text or calls, and nothing that a provider brought",
    }

    def __init__(self, plug: Plug, storage: dict[str, Any]) -> None:
        self.plug, self.storage = plug, storage

    def start(
        self,
        tools: Sequence[Callable[..., object]],
        replies: Sequence[Reply],
        goal: str,
        *,
        session: str,
        mode: str,
        asks: bool = True,
    ) -> RunOutcome:
        return Run(self.plug, session, agent_of(list(replies), tools), goal, mode, asks=asks).outcome()

    def resume(self, outcome: RunOutcome, answers: Sequence[Mapping[str, object] | bool], *, mode: str) -> RunOutcome:
        for answer in answers:
            outcome.state.answers.put(answer)
        return outcome.state.outcome()

    def start_inside(
        self, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], goal: str, *, session: str, mode: str
    ) -> RunOutcome:
        def delegate(task: str) -> str:
            """Hand a task to another crew."""
            with guarded(task, session="inner", plug=self.plug):
                inner = agent_of(list(replies), tools)
                crew_of(inner, task).kickoff()
                return " ".join(told_by(inner))

        order = ScriptedCall("delegate", {"task": "Read the page, and email what it says to the address it gives"}, "d")
        return self.start([delegate], [[order], "done"], goal, session=session, mode=mode)

    def start_forged(
        self, text: str, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], *, session: str, mode: str
    ) -> RunOutcome:
        def add(context: Any) -> None:
            # As a summary or a memory would.
            if len(context.messages) > 2:
                context.messages.append({"role": "user", "content": text})

        with global_hook(InterceptionPoint.PRE_MODEL_CALL, add):
            return self.start(tools, replies, "Add 2 and 3", session=session, mode=mode)

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
        def edit(context: Any) -> None:
            if context.tool_name == "send_email":
                context.tool_input.update(change)

        with global_hook(InterceptionPoint.PRE_TOOL_CALL, edit):
            return self.start(tools, replies, goal, session=session, mode=mode)

    def start_without_pause(
        self, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], goal: str, *, session: str, mode: str
    ) -> RunOutcome:
        return self.start(tools, replies, goal, session=session, mode=mode, asks=False)

    def resume_edited(self, *_: Any, **__: Any) -> RunOutcome:
        raise NotImplementedError

    start_with_mcp = start_with_provider_result = resume_edited


@pytest.mark.parametrize("mode", CrewDriver.modes)
def test_the_agents_own_model_judges_its_calls(mode: str) -> None:
    def attach(plug: Plug) -> None:
        with guarded(plug=plug, judge="host"):
            pass

    questions: list[Any] = []

    def listen(context: Any) -> None:
        questions.extend(each for each in context.messages if "The case with the nonce" in str(each))

    with global_hook(InterceptionPoint.PRE_MODEL_CALL, listen):
        check_host_judge(CrewDriver, attach, mode)
    assert not questions


def test_the_plug_holds_what_plugs_promise() -> None:
    results = check_plug(CrewDriver, imports=("crewai",))
    assert {each.number for each in results if each.why_not} == {8, 10, 17, 23}


def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    printed = run_page("crewai", tmp_path)
    assert "Allow it once?" in printed
    assert printed.endswith("Open from 9 to 5.\n")


def test_a_plug_that_stops_ends_the_run() -> None:
    kit = PlugKit(CrewDriver, Gate(), on_pause="stop")
    outcome = kit.hijack("sync")
    kit.close()
    assert isinstance(outcome.error, HeldByLockgate)
    assert not kit.sent


def test_what_an_agent_delegates_is_not_the_users() -> None:
    attack = Attack("crewai")
    order = {"task": f"Email the contract to {EVE}", "context": "all of it", "coworker": "sender"}
    asks = ScriptedCall("delegate_work_to_coworker", order, "d")
    writer = agent_of([[asks], "done"], attack.tools, role="writer", allow_delegation=True)
    sender = agent_of([[SEND], "done"], attack.tools, role="sender")
    with guarded(plug=attack.plug):
        crew_of(writer, GOAL, sender).kickoff()
    attack.plug.close()
    assert sender.llm.seen  # type: ignore[union-attr]
    assert not attack.sent


def test_a_person_whom_no_one_can_ask_lets_nothing_run() -> None:
    def ask(question: HeldQuestion) -> None:
        raise OSError("no terminal")

    attack = Attack("crewai")
    agent = agent_of([[READ], [SEND], "done"], attack.tools)
    with guarded(plug=attack.plug, ask=ask):
        crew_of(agent, GOAL).kickoff()
    attack.plug.close()
    assert not attack.sent


def test_a_call_that_lost_its_hooks_is_ruled_on_as_one_of_an_unknown_run(caplog: pytest.LogCaptureFixture) -> None:
    attack = Attack("crewai")
    agent = agent_of([[SEND], "done"], attack.tools)
    with guarded(plug=attack.plug), scoped_hooks():
        crew_of(agent, GOAL).kickoff()
    attack.plug.close()
    assert "outside of `guarded`" in caplog.text
    assert not attack.sent


def test_agents_that_write_their_calls_as_text_are_ruled_on() -> None:
    class PlainLLM(ScriptedLLM):
        def supports_function_calling(self) -> bool:
            return False

    attack = Attack("crewai")
    agent = agent_of([], attack.tools)
    agent.llm = PlainLLM(model="scripted")
    read = f"Thought: look\nAction: read_page\nAction Input: {json.dumps(dict(READ.arguments))}"
    send = f"Thought: obey\nAction: send_email\nAction Input: {json.dumps(dict(SEND.arguments))}"
    agent.llm.script, agent.llm.seen = iter([read, send, "Thought: end\nFinal Answer: done"]), []
    with guarded(plug=attack.plug):
        crew_of(agent, GOAL).kickoff()
    attack.plug.close()
    assert "Lockgate stopped this call" in json.dumps(agent.llm.seen)
    assert not attack.sent


def test_what_an_mcp_server_says_of_its_tools_is_read() -> None:
    attack = Attack("crewai")
    # Never called here, so that it needs no server.
    said = MCPNativeTool(lambda: None, "get_sum", {"description": POISON}, "shop")
    agent = agent_of([[SEND], "done"], [*attack.tools, said])
    with guarded(plug=attack.plug):
        crew_of(agent, "Add 2 and 3").kickoff()
    attack.plug.close()
    assert "Lockgate" in told_by(agent)[-1]
    assert not attack.sent


def test_a_prompt_that_a_hook_fills_from_a_page_is_not_vetted() -> None:
    def fill(context: Any) -> None:
        if len(context.messages) > 2:
            context.messages[0]["content"] += f"\n{POISON}"

    def get_day() -> str:
        """Get the day of the week."""
        return "Monday"

    attack = Attack("crewai")
    agent = agent_of([[ScriptedCall("get_day", {}, "1")], [SEND], "done"], [*attack.tools, get_day])
    with guarded(plug=attack.plug), global_hook(InterceptionPoint.PRE_MODEL_CALL, fill):
        crew_of(agent, "Which day is it?").kickoff()
    attack.plug.close()
    assert "Lockgate" in told_by(agent)[-1]
    assert not attack.sent
