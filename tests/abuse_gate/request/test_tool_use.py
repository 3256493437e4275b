"""What a locked client may still send: requests that are known wholly, and known to use no tools."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from documents import multipart

from lockgate.abuse_gate.request.tool_use import may_use_tools

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
HI = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OFFER = [{"type": "function", "function": {"name": "f"}}]


def uses(body: object, content_type: str = JSON, **kw: Any) -> bool:
    return may_use_tools(body if isinstance(body, bytes) else json.dumps(body).encode(), content_type, **kw)


ORDINARY: list[Any] = [
    {"model": "m", "messages": [HI]},
    {"model": "m", "messages": [HI], "tools": [], "tool_choice": "none", "functions": None, "tool_config": None},
    {"model": "m", "messages": [HI], "parallel_tool_calls": True, "tool_choice": "auto"},
    {"model": "m", "messages": [HI], "metadata": {"tool": "vscode"}, "stream_options": {"include_usage": True}},
    {"input": "x", "text": {"format": {"type": "json_schema", "schema": {"properties": {"search_terms": {}}}}}},
    {
        "contents": [{"parts": [{"text": "x"}]}],
        "generationConfig": {"responseSchema": {"properties": {"function": {}}}},
    },
    {"messages": [HI], "min_tokens": 1, "skip_special_tokens": True, "logit_bias": {"50256": -100}},
    {"model": "llama3", "prompt": "x", "options": {"num_ctx": 1, "stop": ["x"]}, "context": [1, 2]},
    {
        "id": "c1",
        "messages": [
            {
                "id": "1",
                "role": "user",
                "createdAt": "2026",
                "parts": [{"type": "step-start"}, {"type": "text", "text": "x"}],
            }
        ],
        "trigger": "submit-message",
    },
    {"messages": [{"role": "user", "content": '{"function": "f(x)=x^2"}'}]},
    {"messages": [{"role": "user", "content": "Which tools: hammer or saw?\ntools: both"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "x"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.com/a.png"}}]}]},
    {"messages": [HI, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1"}, HI]},
    {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}, HI]},
    {"input": "hi", "instructions": "Be brief.", "text": {"format": {"type": "text"}}, "reasoning": {"effort": "low"}},
    {"input": [HI, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, HI]},
    {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    {"model": "m", "input": ["a", "b"]},
    {"model": "m", "input": [1, 2, 3]},
    {"model": "m", "input": [[1, 2], [3]]},
    {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"temperature": 1}},
    {"contents": [{"parts": [{"text": "hi"}]}], "systemInstruction": {"parts": [{"text": "Be brief."}]}},
    {"system": [{"type": "text", "text": "S"}], "messages": [HI], "max_tokens": 10, "anthropic_version": "x"},
    {
        "message": "sum up",
        "documents": [{"title": "x", "tool": "y"}],
        "chat_history": [{"role": "USER", "message": "m"}],
    },
    {"response_format": {"json_schema": {"schema": {"properties": {"tool_name": {}}}}}, "messages": [HI]},
    {"prompt": "Tools: a saw.\ntools: a hammer", "max_tokens": 5},
    "hi",
]


@pytest.mark.parametrize("body", ORDINARY, ids=lambda value: str(value)[:60])
def test_ordinary_requests_use_none(body: object) -> None:
    assert not uses(body)


USING: list[Any] = [
    {"tools": OFFER},
    {"Tools": OFFER},
    {"functions": [{"name": "f"}]},
    {"messages": [HI], "tool_choice": "required"},
    {"messages": [HI], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"messages": [HI], "web_search_options": {}},
    {"messages": [HI], "google_search": {}},
    {"messages": [HI], "code_execution": {}},
    {"messages": [HI], "enable_\u017fearch": True},
    {"messages": [HI], "extra_body": {"tools": OFFER}},
    {"messages": [HI], "options": {"tools": OFFER}},
    {"messages": [HI], "metadata": {"x": {"tools": OFFER}}},
    {"messages": [HI], "data_sources": [{"type": "azure_search"}]},
    {"messages": [HI], "container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}},
    {"messages": [HI], "model": "groq/compound"},
    {"messages": [HI], "actions": [1]},
    {"contents": [HI], "cachedContent": "cachedContents/abc"},
    {"input": "go", "conversation": "conv_1"},
    {"input": "go", "previous_response_id": "resp_1"},
    {"input": [{"type": "item_reference", "id": "x"}, HI]},
    {"input": [{"type": "mcp_approval_response", "approve": True, "approval_request_id": "x"}, HI]},
    {"input": [{"type": "computer_call", "call_id": "1", "action": {"type": "click"}}]},
    {"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]},
    {"messages": [HI, {"role": "assistant", "content": None, "tool_calls": [CALL]}]},
    {"messages": [HI, {"role": "tool", "tool_call_id": "c1", "content": "x"}]},
    {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "content": "x"}]}
        ]
    },
    {"messages": [{"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": []}}]}]},
    {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "x"}]}]},
    {"messages": [{"role": "user", "content": "hi", "tools": OFFER}]},
    {"messages": [{"role": "wizard", "content": "hi"}]},
    {"messages": [{"role": ["user"], "content": "hi"}]},
    {"messages": [{"type": ["message"], "role": "user", "content": "hi"}]},
    {"messages": [{"role": "user", "content": [{"type": {}, "text": "hi"}]}]},
    {"messages": [{"role": "user", "content": [[]]}]},
    {"messages": {"role": "user", "tools": 1}},
    {"input": [{"type": "web_search_preview"}]},
    {"prompt": {"id": "p"}},
    {"prompt": {"name": "p"}},
    {"prompt": json.dumps({"tools": OFFER})},
    {"body": json.dumps({"tools": OFFER})},
    {"body": "\ufeff" + json.dumps({"tools": OFFER})},
    {"data": "eyJ0b29scyI6W119"},
    {"query": 'mutation { chat(input:"x", tools:[{name:"bash"}]) { id } }'},
    {"jsonrpc": "2.0", "method": "resources/read", "params": {"uri": "file:///etc/passwd"}},
    {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "f"}},
    {"assistant_id": "a"},
    {"shell": True},
    [{"tools": OFFER}],
    # A known part with something else in it.
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "tools": OFFER}]}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "functionCall": {"name": "f"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "tools": OFFER}}]}]},
    {"prompt": [{"type": "text", "text": "x", "tools": OFFER}]},
    {"systemInstruction": {"parts": [{"text": "x", "tools": OFFER}]}},
    # JSON where no words stand.
    {"messages": json.dumps({"tools": OFFER})},
    {"messages": [json.dumps({"tools": OFFER})]},
    {"messages": [HI], "user": json.dumps({"tools": OFFER})},
    {"messages": [HI], "stop": [json.dumps({"tools": OFFER})]},
    {"messages": [{"role": "user", "content": "hi", "name": json.dumps({"tools": OFFER})}]},
    {"messages": [HI], "metadata": {"x": json.dumps({"tools": OFFER})}},
    {"input": "x", "options": {"stop": json.dumps({"tools": OFFER})}},
    # Models and settings.
    {"messages": [HI], "models": ["a/b:online"]},
    {"messages": [HI], "options": {"model": "sonar"}},
    {"input": "x", "parameters": {"code_interpreter": True}},
    {"input": "x", "parameters": {"retrieval": True}},
    {"messages": [HI], "options": {"extra": {"commands": ["bash"]}}},
    {"messages": [HI], "chat_template_kwargs": {"xlam": [{"name": "bash"}]}},
    # A result, and no words after it.
    {"messages": [HI, {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "user", "content": ""}]},
    {"messages": [HI, {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "user", "content": " . "}]},
    {"messages": [HI, {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "system", "content": "on"}]},
    {"messages": [{"role": "assistant", "tool_calls": [CALL]}, 5]},
]


@pytest.mark.parametrize("body", USING, ids=lambda value: str(value)[:60])
def test_whatever_else_may_use_them(body: object) -> None:
    assert uses(body)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<request><tools><tool name='bash'/></tools></request>", "application/xml"),
        (b"prompt: hi\ntools: [bash]\n", "application/yaml"),
        (b'prompt: hi\n"\\x74ools": [bash]\n', "text/plain"),
        (b"prompt: hi\ntools: [bash]\n", "text/plain"),
        (b'[[tools]]\nname="bash"\n', "application/toml"),
        (b'[[tools]]\nname="bash"\n', "text/plain"),
        (b"{tools:[{name:'bash'}]}", "text/plain"),
        (b'{"tools"/**/:[{"name":"bash"}]}', "text/plain"),
        (b'{"tools" //x\n:[{"name":"bash"}]}', "application/json5"),
        (b'{"tools"/**/:[{"name":"bash"}],}', "application/octet-stream"),
        (b'{"prompt":"hi"}', "application/octet-stream"),
        (b"\x82\xa6prompt\xa2hi\xa5tools\x91\x81\xa4name\xa4bash", "application/msgpack"),
        (b"\xa2fprompt\x62hietools\x81\xa1dname\x64bash", "application/cbor"),
        (b'{"prompt":"hi"}', "application/json; charset=utf-16"),
        (json.dumps({"prompt": "hi"}).encode("utf-16"), JSON),
        (b'{"prompt":"hi","prompt":"ho"}', JSON),
        (b"prompt=hi&tools=x", FORM),
        (b"prompt=hi&tools[0][type]=x", FORM),
        (b"prompt=hi&request[tools]=x", FORM),
        (b"prompt=hi&tools=x", "text/plain"),
        (b'prompt=%7B"tools":[1]}', FORM),
        (b"prompt=hi&tools=%5B1%5D.", FORM + "; charset=utf-16-le"),
        multipart([("tools", "t.json", "", b'[{"name": "bash"}]')]),
        multipart([("tools", None, "", b"x")]),
        multipart([("payload", "p.json", JSON, b'{"prompt": "hi"}')]),
        multipart([("file", "p.jsonl", "", b'{"body": {"tools": [1]}}\n')]),
        multipart([("file", "p.jsonl", "", b'{"body": {"\\u0074ools"/**/: [1]}}\n')]),
        multipart([("payload", None, "", b'{"tools":[1]}')]),
    ],
)
def test_notations_that_others_read_may_use_them(body: bytes, content_type: str) -> None:
    assert may_use_tools(body, content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"Which tool: hammer or saw?", "text/plain"),
        (b"function foo(a){ return a }\nconst mytool = 3;", "text/plain; charset=utf-8"),
        (b"prompt=hi&temperature=1", FORM),
        (b"q=tool%3A+x", FORM),
        multipart([("file", "tsconfig.json", JSON, b'{"compilerOptions":{"strictFunctionTypes":true}}')]),
        multipart([("f", "package.json", "", b'{"devDependencies":{"build-tools":"1"}}')]),
        multipart([("file", "a.csv", "text/csv", b"tool,price\nsaw,3\n"), ("purpose", None, "", b"user_data")]),
        multipart([("image", "a.png", "image/png", b"\x89PNG\r\n\x1a\n\0\0"), ("prompt", None, "", b"blue")]),
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"", ""),
    ],
)
def test_words_forms_and_files_use_none(body: bytes, content_type: str) -> None:
    assert not may_use_tools(body, content_type)


def test_addresses_that_run_something() -> None:
    for path in ("/v1/tools/run", "/v1/threads/t/runs", "/mcp", "/V1/Assistants/x", "/v1/agents:run"):
        assert uses({"prompt": "hi"}, path=path)
    for path in ("/v1/chat/completions", "/model/x/invoke", "/ask"):
        assert not uses({"prompt": "hi"}, path=path)
    for path in ("/v1/tools.json", "/v1/tools;x=1", "/openai/deployments/sonar-pro/chat", "/v1/models/deep-research:x"):
        assert uses({"prompt": "hi"}, path=path)
    assert uses(b"", query=b"use_tools=1")
    assert uses(b"", query=b"body=%7B%22tools%22%3A%5B1%5D%7D")
    assert uses(b"", query=b"tools=x")
    assert uses(b"", query=b"request[tools]=x")
    assert not uses(b"", query=b"toolbar=1&alt=sse")
    assert uses(b"", query=b"x=%ff")


@pytest.mark.parametrize(
    "piece", ["tools", "{'tools", '"\\\\":', "\n ", "function[", "a.tools ", "\\u0074ools:", '"\\']
)
def test_a_look_for_tools_takes_little(piece: str) -> None:
    text = "x" + piece * (1_000_000 // len(piece))
    began = process_time()
    may_use_tools(text.encode(), "text/plain")
    may_use_tools(json.dumps({"prompt": f"{{{text}"}).encode(), JSON)
    assert process_time() - began < 5
