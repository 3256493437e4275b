"""The calls of a model's message for Semantic Kernel, as its connectors hand them to the kernel."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from semantic_kernel.contents import ChatHistory, FunctionCallContent


def scripted(calls: Any) -> dict[str, Any]:
    return {}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    history = ChatHistory()

    async def run() -> None:
        for number, (tool, given) in enumerate(calls):
            call = FunctionCallContent(id=str(number), name=f"mail-{tool}", arguments=json.dumps(given))
            await page["kernel"].invoke_function_call(call, history)

    asyncio.run(run())
    return [str(item.result) for message in history.messages for item in message.items]
