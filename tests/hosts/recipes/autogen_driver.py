"""A scripted model for AutoGen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage

NO_TOKENS = RequestUsage(0, 0)


class ScriptedModel(ChatCompletionClient):
    """Makes its calls one by one, and then says: done."""

    component_type = "model"

    def __init__(self, calls: Any) -> None:
        self.calls = enumerate(calls)

    async def create(self, *_: Any, **__: Any) -> CreateResult:
        number, call = next(self.calls, (0, None))
        if call is None:
            return CreateResult(finish_reason="stop", content="done", usage=NO_TOKENS, cached=False)
        content = [FunctionCall(id=str(number), name=call[0], arguments=json.dumps(call[1]))]
        return CreateResult(finish_reason="function_calls", content=content, usage=NO_TOKENS, cached=False)

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return NO_TOKENS

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    total_usage, remaining_tokens = actual_usage, count_tokens

    @property
    def model_info(self) -> Any:
        able = dict.fromkeys(("vision", "json_output", "structured_output"), False)
        return {**able, "function_calling": True, "family": "unknown"}

    capabilities = model_info


def scripted(calls: Any) -> dict[str, Any]:
    return {"model": ScriptedModel(calls)}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    result = asyncio.run(page["agent"].run(task="When is it open?"))
    found = [each for each in result.messages if type(each).__name__ == "ToolCallExecutionEvent"]
    return [str(result.content) for event in found for result in event.content]
