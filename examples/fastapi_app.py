"""An LLM API with the abuse gate in front of it: a model that only says how long your message is.

    pip install 'lockgate[api]' fastapi uvicorn
    uvicorn --app-dir examples fastapi_app:app

    curl -i localhost:8000/v1/chat/completions \\
        -H 'authorization: Bearer alice-key' -H 'content-type: application/json' \\
        -d '{"messages": [{"role": "user", "content": "When do you open tomorrow?"}]}'
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from lockgate.abuse_gate import AbuseGateMiddleware

# In production, keep keys hashed in a database.
KEYS = {"alice": "alice-key", "bob": "bob-key"}


class Message(BaseModel):
    role: str = Field(max_length=20)
    content: str | list[dict[str, Any]] | None = None


class Chat(BaseModel):
    model: str = "length-1"
    messages: list[Message] = Field(min_length=1)
    stream: bool = False
    tools: list[dict[str, Any]] = []


class Authentication:
    """Authenticates the user and tells the gate in `scope["state"]`, where no client can write."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            # Compares every key, so that the time taken does not reveal which one matched.
            found = [name for name, key in KEYS.items() if hmac.compare_digest(given, f"Bearer {key}".encode())]
            if not found and scope["path"].startswith("/v1/"):
                if scope["type"] == "http":
                    await JSONResponse({"error": "unknown key"}, 401)(scope, receive, send)
                else:
                    await send({"type": "websocket.close", "code": 1008})
                return
            # A copy: all requests of the server share the `state` that is there.
            scope["state"] = {**scope.get("state", {}), **({"principal": found[0]} if found else {})}
        await self.app(scope, receive, send)


app = FastAPI(title="Length")
# The middleware added last sees a request first: the authentication has to come before the gate.
app.add_middleware(AbuseGateMiddleware)
app.add_middleware(Authentication)


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/v1/chat/completions", response_model=None)
async def chat(request: Chat) -> Response | dict[str, Any]:
    length = sum(len(json.dumps(message.content)) for message in request.messages)
    words = ["Your", " messages", " have", f" {length}", " characters."]
    if not request.stream:
        message = {"role": "assistant", "content": "".join(words)}
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    async def events() -> AsyncIterator[str]:
        for word in words:
            yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': word}}]})}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
