"""A scripted model for LlamaIndex."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM


def scripted(calls: Any) -> dict[str, Any]:
    steps = enumerate(calls)

    def reply(*_: Any, **__: Any) -> ChatMessage:
        number, call = next(steps, (0, None))
        if call is None:
            return ChatMessage(role="assistant", content="done")
        block = ToolCallBlock(tool_call_id=str(number), tool_name=call[0], tool_kwargs=call[1])
        return ChatMessage(role="assistant", blocks=[block])

    return {"llm": MockFunctionCallingLLM(response_generator=reply)}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    async def run() -> Any:
        return await page["agent"].run("When is it open?")

    return [str(each.tool_output.content) for each in asyncio.run(run()).tool_calls]
