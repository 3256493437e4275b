"""MCP messages as they go over the wire: read strictly, answered in both eras, and the text in them.

The handshake era (up to 2025-11-25) begins with `initialize`, and a server may send requests to its client. In the
modern era (2026-07-28) every request says for itself which version it speaks and what its client can do, and a server
that needs an answer from a person gives an `input_required` result.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Mapping
from typing import NamedTuple, Never

from lockgate.core.errors import InvalidCall

CALL = "tools/call"
INITIALIZE = "initialize"
CANCELLED = "notifications/cancelled"
ELICIT = "elicitation/create"

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"

# JSON-RPC's own codes.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, FAILED = -32700, -32600, -32601, -32602, -32000

# What we call our own question among those of a result that needs input, and our answer in its form.
OURS, APPROVE = "lockgate", "approve"

# Names that decide what a message does. A server that reads names in any case (Go's do) would take `Method` for one.
_NAMES = frozenset({"jsonrpc", "id", "method", "params", "result", "error", "name", "arguments"})
# Notices that hosts show or count and give to no model, and of which there may be thousands for one call.
_NOTICES = frozenset(
    {
        "notifications/progress",
        "notifications/message",
        "notifications/initialized",
        CANCELLED,
        "notifications/resources/updated",
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/roots/list_changed",
    }
)
_LABELS = frozenset({"type", "mimeType", "resultType", "jsonrpc", "protocolVersion", "progressToken", "role"})
_MOST_LABEL = 64
_MOST_DEPTH = 200

Message = dict[str, object]


def read_strictly(line: bytes) -> object:
    """What the client sent, if everybody who could read it reads the same; InvalidCall if not.

    What runs is what was checked: a second key of the same name, a number that is none, a carriage return that some
    servers take for the end of a message are each a way to say one thing to us and another to the server.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidCall("the message is not UTF-8") from None
    if "\r" in text.rstrip("\r\n"):
        raise InvalidCall("the message has a carriage return in it")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise InvalidCall("the message is nested too deeply") from None
    except ValueError as error:
        raise InvalidCall(
            "the message is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        ) from None


def read_loosely(line: bytes) -> object:
    """What the server sent, read as the most forgiving client would; InvalidCall for what no client can read.

    Nobody's call runs by it, and a text that we could not read and the client could would go unseen.
    """
    text = line.decode("utf-8", "replace")
    if "\r" in text.rstrip("\r\n"):
        raise InvalidCall("the message has a carriage return in it")
    try:
        return json.loads(text, strict=False, object_pairs_hook=_once)
    except RecursionError:
        raise InvalidCall("the message is nested too deeply") from None
    except ValueError as error:
        raise InvalidCall(
            "the message is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        ) from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    held = dict(pairs)
    if len(held) != len(pairs):
        raise ValueError("a name stands twice in one object of the message")
    return held


def _no_number(_: str) -> Never:
    raise ValueError("the message has a number that JSON does not have")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("the message has a number that is too large")
    return value


def misleading(message: Mapping[str, object]) -> str:
    """A name in the message or its parameters that some servers would take for one of those that decide; or nothing."""
    inner = message.get("params")
    for names in (message, inner if isinstance(inner, dict) else {}):
        for name in names:
            if name not in _NAMES and name.casefold() in _NAMES:
                return name
    return ""


def id_key(id: object) -> tuple[str, object] | None:
    """A request's id as it is told apart from others: `1` is `1.0`, and is not `"1"`. None for what is no id."""
    if isinstance(id, str):
        return "text", id
    return ("number", id) if isinstance(id, int | float) and not isinstance(id, bool) else None


class Era(NamedTuple):
    """How a request's client talks: whether in the modern way, whether it can ask its user, and its name."""

    modern: bool = False
    asks: bool = False
    client: str = ""


def era_of(message: Mapping[str, object]) -> Era | None:
    """What a request says about its client: an `initialize`, or any of the modern era; None for the others."""
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    if message.get("method") == INITIALIZE:
        return Era(False, _can_ask(params.get("capabilities")), _name(params.get("clientInfo")))
    meta = params.get("_meta")
    if not isinstance(meta, dict) or VERSION not in meta:
        return None
    return Era(True, _can_ask(meta.get(CAPABILITIES)), _name(meta.get(CLIENT)))


def _can_ask(capabilities: object) -> bool:
    asks = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    # Since 2025-11-25 a client says in which ways it can; one that says nothing means forms, as before.
    return isinstance(asks, dict) and (not asks or isinstance(asks.get("form"), dict))


def _name(info: object) -> str:
    name = info.get("name") if isinstance(info, dict) else None
    return name[:80] if isinstance(name, str) else ""


def line_of(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def denied(id: object, text: str, *, modern: bool) -> Message:
    """A result that says why the call was not made: as a result, for the model reads those and no errors."""
    result: Message = {"content": [{"type": "text", "text": text}], "isError": True}
    return {"jsonrpc": "2.0", "id": id, "result": {**result, "resultType": "complete"} if modern else result}


def failed(id: object, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


_FORM = {
    "type": "object",
    "properties": {APPROVE: {"type": "boolean", "title": "Allow this call once", "default": False}},
    "required": [APPROVE],
}


def question(id: str, text: str) -> Message:
    """Handshake era: a request of our own to the client, to put this to its user."""
    return {"jsonrpc": "2.0", "id": id, "method": ELICIT, "params": {"message": text, "requestedSchema": _FORM}}


def input_required(id: object, text: str, state: str) -> Message:
    """Modern era: a result that asks the client to put this to its user, and to call again with the answer."""
    asked = {"method": ELICIT, "params": {"mode": "form", "message": text, "requestedSchema": _FORM}}
    result = {"resultType": "input_required", "requestState": state, "inputRequests": {OURS: asked}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


def said(answer: object) -> bool | None:
    """A person's yes or no in the answer to our question; None when they gave neither."""
    if not isinstance(answer, dict):
        return None
    if answer.get("action") == "decline":
        return False
    content = answer.get("content")
    if answer.get("action") != "accept" or not isinstance(content, dict):
        return None
    approve = content.get(APPROVE)
    return approve if isinstance(approve, bool) else None


def is_notice(message: Mapping[str, object]) -> bool:
    return "id" not in message and message.get("method") in _NOTICES


def text_of(value: object) -> str:
    """All text somewhere in a value, a line for each: what a model may come to read of it.

    Numbers count, for an account may be one, and so do names that are no plain words. Pictures and sounds do not; a
    resource's bytes do when they are text.
    """
    found: list[str] = []
    pending: list[tuple[str, object, int]] = [("", value, 0)]
    while pending:
        name, item, depth = pending.pop()
        if isinstance(item, str):
            if item and not (name in _LABELS and len(item) <= _MOST_LABEL):
                found.append(_decoded(item) if name == "blob" else item)
        elif isinstance(item, dict):
            picture = item.get("type") in ("image", "audio")
            inner: list[tuple[str, object, int]] = []
            for key, each in item.items():
                if not key.isidentifier() and not key.startswith("io.modelcontextprotocol/"):
                    inner.append(("", key, depth))
                if not (picture and key == "data" and isinstance(each, str) and _is_base64(each)):
                    inner.append((key, each, depth + 1))
            # Deeper than any result is, and than anything that is looked at elsewhere: as one text.
            pending += reversed(inner) if depth < _MOST_DEPTH else [("", json.dumps(item)[:_MOST_FLAT], depth)]
        elif isinstance(item, list):
            if depth < _MOST_DEPTH:
                pending += [(name, each, depth + 1) for each in reversed(item)]
            else:
                pending.append(("", json.dumps(item)[:_MOST_FLAT], depth))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            found.append(_digits(item))
    return "\n".join(found).encode("utf-8", "replace").decode("utf-8")


_MOST_FLAT = 1 << 20


def _digits(value: int | float) -> str:
    try:
        return repr(value)
    except ValueError:
        # Python refuses to print integers of thousands of digits.
        return ""


def _decoded(blob: str) -> str:
    try:
        return b64decode(blob, validate=True).decode("utf-8")
    except ValueError:
        # Bytes are no text, and what is no base64 may be.
        return "" if _is_base64(blob) else blob


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True
