"""A scripted model for Agno."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.models.base import Model
from agno.models.response import ModelResponse


class ScriptedModel(Model):
    """Makes its calls one by one, and then says: done."""

    def __init__(self, calls: Any) -> None:
        super().__init__(id="scripted")
        self.calls = enumerate(calls)

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        number, call = next(self.calls, (0, None))
        if call is None:
            return ModelResponse(role="assistant", content="done")
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        return ModelResponse(
            role="assistant", tool_calls=[{"id": str(number), "type": "function", "function": function}]
        )

    async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
        return self.invoke()

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        yield self.invoke()

    async def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke()

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def scripted(calls: Any) -> dict[str, Any]:
    return {"model": ScriptedModel(calls)}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    return [str(each.result) for each in page["agent"].run("When is it open?").tools]
