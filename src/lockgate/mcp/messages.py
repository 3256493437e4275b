"""MCP messages as they go over the wire: read strictly, answered in both protocols, and the text in them.

The handshake protocol (up to 2025-11-25) begins with `initialize`, and a server may send requests to its client. In the
modern protocol (2026-07-28) every request says for itself which version it speaks and what its client can do, and a
server that needs an answer from a person gives an `input_required` result.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import NamedTuple

from lockgate.core.errors import InvalidCall
from lockgate.mcp.tool_pins import appearance_of
from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonReader

CALL, LIST = "tools/call", "tools/list"
INITIALIZE = "initialize"
CANCELLED = "notifications/cancelled"
ELICIT = "elicitation/create"

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"

# Messages of a client that pass without a ruling, each with its parameters: the client program writes these, never its
# model. Any other method, and any other parameter, is ruled on like a call of a tool.
UNRULED: Mapping[str, frozenset[str]] = {
    INITIALIZE: frozenset({"protocolVersion", "capabilities", "clientInfo"}),
    "server/discover": frozenset(),
    "ping": frozenset(),
    LIST: frozenset(),
    "prompts/list": frozenset(),
    "resources/list": frozenset(),
    "resources/templates/list": frozenset(),
    "tasks/list": frozenset(),
    "logging/setLevel": frozenset({"level"}),
    CANCELLED: frozenset({"requestId", "reason"}),
    "notifications/initialized": frozenset(),
    "notifications/progress": frozenset({"progressToken", "progress", "total", "message"}),
    "notifications/roots/list_changed": frozenset(),
}
# The methods with parameters that a model chooses. What the protocol does not have is ruled on as well.
RULED = (
    CALL,
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
    "tasks/get",
    "tasks/result",
    "tasks/cancel",
)
# Parameters of a tool call that are not ruled on as arguments: the tool's name, and what the client program writes.
CALL_PARAMS = frozenset({"name", "arguments", "_meta", "requestState", "inputResponses"})
MAX_METHOD = 200

# JSON-RPC's own codes.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, FAILED = -32700, -32600, -32601, -32602, -32000

# What we call our own question among those of a result that needs input, and our answer in its form.
OUR_INPUT, APPROVE = "lockgate", "approve"

# The names that a message can have; an answer has no method.
_REQUEST_NAMES = frozenset({"jsonrpc", "id", "method", "params"})
_ANSWER_NAMES = frozenset({"jsonrpc", "id", "result", "error"})
# Names that decide what a message does. A server that reads names in any case (Go's do) would take `Method` for one.
_NAMES = _REQUEST_NAMES | _ANSWER_NAMES | {"name", "arguments"}
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
# What stands under a label is left out only if it is one of the words that the protocol has for it: in a label of a
# server's own making a sentence fits as well as anywhere.
_LABELS: Mapping[str, frozenset[str]] = {
    "jsonrpc": frozenset({"2.0"}),
    "protocolVersion": frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}),
    "resultType": frozenset({"complete", "input_required"}),
    "role": frozenset({"user", "assistant"}),
    "type": frozenset(
        "text image audio resource resource_link tool_use tool_result object string number integer boolean array"
        " null".split()
    ),
    "mimeType": frozenset(
        "text/plain text/html text/markdown text/csv text/css text/xml text/javascript application/json"
        " application/xml application/pdf application/zip application/octet-stream image/png image/jpeg image/gif"
        " image/webp image/svg+xml audio/mpeg audio/wav audio/ogg video/mp4".split()
    ),
}
# The protocol's own names. Any other name in a message is a server's, and is read like what stands under it.
_OWN_NAMES = frozenset(
    "result error params code message data content structuredContent isError text blob uri uriTemplate name title"
    " description annotations audience priority lastModified destructiveHint idempotentHint openWorldHint"
    " readOnlyHint resource resources resourceTemplates contents prompts messages arguments required tools icons"
    " sizes src theme inputSchema outputSchema properties items enum default capabilities serverInfo version"
    " instructions listChanged subscribe completions completion values total hasMore nextCursor logging prompt"
    " experimental tasks execution taskSupport size _meta mode requestedSchema elicitationId url roots"
    " systemPrompt modelPreferences maxTokens".split()
) | frozenset(_LABELS)
_OWN_META = re.compile(r"io\.modelcontextprotocol/[A-Za-z]{1,32}")
# Characters that no text has, and what is looked at in bytes that are mostly those.
_ODD = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]")
_RUN = re.compile(r"[^\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]{24,}")
_TEXT_SHARE = 0.6

Message = dict[str, object]


def read_strictly(line: bytes) -> object:
    """Return what the client sent if every parser reads the same in it; raise InvalidCall if not.

    An attacker could say one thing to us and another to the server: by a second key of the same name, by a number that
    JSON does not have, or by a carriage return that some servers take for the end of a message.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidCall("the message is not UTF-8") from None
    if "\r" in text.rstrip("\r\n"):
        raise InvalidCall("the message has a carriage return in it")
    return _read_with(_STRICT, text)


def read_loosely(line: bytes) -> object:
    """Return what the server sent, read as the most forgiving client would; raise InvalidCall if no client can read it.

    No call runs by it. A text that the client can read and we cannot would go unseen.
    """
    text = line.decode("utf-8", "replace")
    if "\r" in text.rstrip("\r\n"):
        raise InvalidCall("the message has a carriage return in it")
    return _read_with(_LOOSE, text)


def ids_answered_by(line: bytes) -> list[object]:
    """Return the ids that a withheld message may have answered: the client must not wait for ever."""
    try:
        said = json.loads(_outer_levels(line.decode("utf-8", "replace")), strict=False)
    except (ValueError, RecursionError):
        return []
    items = said if isinstance(said, list) else [said]
    return [item["id"] for item in items if isinstance(item, dict) and "id" in item and "method" not in item]


def _outer_levels(text: str) -> str:
    """A JSON text with `null` for all that is deep inside, however deep that is."""
    kept: list[str] = []
    depth = start = 0
    for part in _TEXT_OR_BRACKET.finditer(text):
        if part[0] in "[{":
            depth += 1
            if depth == _DEEP:
                kept.append(text[start : part.start()])
        elif part[0] in "]}":
            if depth == _DEEP:
                kept.append("null")
                start = part.end()
            depth -= 1
    return "".join((*kept, text[start:] if depth < _DEEP else ""))


# Deeper than the names of a message, and of the messages of a batch.
_DEEP = 3
# A text without an end goes to the end, so that none is begun twice.
_TEXT_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[][{}]', re.DOTALL)


def _read_with(reader: JsonReader, text: str) -> object:
    try:
        return reader.read(text)
    except InvalidJson as error:
        raise InvalidCall(_FAULTS.get(error.fault, "the message is not JSON")) from None


_FAULTS = {
    JsonFault.DUPLICATE_KEY: "a name stands twice in one object of the message",
    JsonFault.BAD_CONSTANT: "the message has a number that JSON does not have",
    JsonFault.BAD_NUMBER: "the message has a number that is too large",
    JsonFault.TOO_DEEP: "the message is nested too deeply",
}
_STRICT = JsonReader()
_LOOSE = JsonReader(floats="all", allow_constants=True, allow_control_characters=True)


def misleading_name(message: Mapping[str, object]) -> str:
    """A name that JSON-RPC does not have, or a parameter that looks like a name that decides; empty if there is none.

    Some servers would take a look-alike for the real name. What else stands in a message would pass without a ruling.
    """
    known, params = _REQUEST_NAMES if "method" in message else _ANSWER_NAMES, message.get("params")
    for name in message:
        if name not in known:
            return name
    inner: Mapping[str, object] = params if isinstance(params, dict) else {}
    return next((name for name in inner if name not in _NAMES and appearance_of(name) in _NAMES), "")


def ruled_arguments(params: Mapping[str, object]) -> dict[str, object] | None:
    """What a tool call is ruled on by: its arguments and its unknown parameters; None if a name stands in both."""
    arguments = params.get("arguments")
    others = {name: value for name, value in params.items() if name not in CALL_PARAMS}
    if _is_plain_task(others.get("task")):
        others.pop("task", None)
    if arguments is None:
        return others
    if not isinstance(arguments, dict) or others.keys() & arguments.keys():
        return None
    return {**arguments, **others}


def _is_plain_task(task: object) -> bool:
    """Return whether this says only how long a task's result is kept."""
    return isinstance(task, dict) and task.keys() <= {"ttl"} and isinstance(task.get("ttl"), int | float | None)


def is_unruled(message: Mapping[str, object]) -> bool:
    """Return whether a message with a method passes without a ruling."""
    known, params = UNRULED.get(str(message.get("method"))), message.get("params")
    if known is None:
        return False
    return params is None or (isinstance(params, dict) and params.keys() <= known | {"_meta"})


def imitated_method(method: str) -> str:
    """Return the method of the protocol that this one may be taken for; empty if there is none, or it is that one."""
    return "" if method in UNRULED or method in RULED else _METHODS.get(appearance_of(method), "")


_METHODS = {appearance_of(method): method for method in (*UNRULED, *RULED)}


def id_key(id: object) -> tuple[str, object] | None:
    """A request's id as it is told apart from others: `1` is `1.0`, and is not `"1"`. None for what is no id."""
    if isinstance(id, str):
        return "text", id
    return ("number", id) if isinstance(id, int | float) and not isinstance(id, bool) else None


class ClientProtocol(NamedTuple):
    """How a request's client talks: whether in the modern way, whether it can ask its user, and its name."""

    modern: bool = False
    asks: bool = False
    client: str = ""


def client_protocol_of(message: Mapping[str, object]) -> ClientProtocol | None:
    """What a request says about its client: an `initialize`, or any of the modern protocol; None for the others."""
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    if message.get("method") == INITIALIZE:
        return ClientProtocol(False, _can_elicit(params.get("capabilities")), _client_name(params.get("clientInfo")))
    meta = params.get("_meta")
    if not isinstance(meta, dict) or VERSION not in meta:
        return None
    return ClientProtocol(True, _can_elicit(meta.get(CAPABILITIES)), _client_name(meta.get(CLIENT)))


def _can_elicit(capabilities: object) -> bool:
    asks = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    # Since 2025-11-25 a client says in which ways it can; one that says nothing means forms, as before.
    return isinstance(asks, dict) and (not asks or isinstance(asks.get("form"), dict))


def _client_name(info: object) -> str:
    name = info.get("name") if isinstance(info, dict) else None
    return name[:80] if isinstance(name, str) else ""


def line_of(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def denial(id: object, text: str, *, modern: bool) -> Message:
    """A result that says why the call was not made: as a result, for the model reads those and no errors."""
    result: Message = {"content": [{"type": "text", "text": text}], "isError": True}
    return {"jsonrpc": "2.0", "id": id, "result": {**result, "resultType": "complete"} if modern else result}


def error_message(id: object, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


_FORM = {
    "type": "object",
    "properties": {APPROVE: {"type": "boolean", "title": "Allow this call once", "default": False}},
    "required": [APPROVE],
}


def question(id: str, text: str) -> Message:
    """Handshake protocol: a request of our own to the client, to put this to its user."""
    return {"jsonrpc": "2.0", "id": id, "method": ELICIT, "params": {"message": text, "requestedSchema": _FORM}}


def input_required(id: object, text: str, state: str) -> Message:
    """Modern protocol: a result that asks the client to put this to its user, and to call again with the answer."""
    asked = {"method": ELICIT, "params": {"mode": "form", "message": text, "requestedSchema": _FORM}}
    result = {"resultType": "input_required", "requestState": state, "inputRequests": {OUR_INPUT: asked}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


def approval_from(answer: object) -> bool | None:
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

    Numbers count, for an account may be one, and so does every name that is not the protocol's own. Bytes count as
    far as they are text: pictures and sounds are not.
    """
    found: list[str] = []
    names: set[str] = set()
    # A list of what is left, and no recursion: `read_loosely` bounds the depth, so every level is looked at.
    pending: list[tuple[str, object]] = [("", value)]
    while pending:
        name, item = pending.pop()
        if isinstance(item, str):
            if item and item not in _LABELS.get(name, ()):
                found.append(_text_from_blob(item) if name == "blob" else item)
        elif isinstance(item, dict):
            picture = item.get("type") in ("image", "audio")
            inner: list[tuple[str, object]] = []
            for key, each in item.items():
                # Once: a table has the same names in every row.
                if key not in _OWN_NAMES and key not in names and not _OWN_META.fullmatch(key):
                    names.add(key)
                    inner.append(("", key))
                inner.append(("blob" if picture and key == "data" else key, each))
            pending += reversed(inner)
        elif isinstance(item, list):
            pending += [(name, each) for each in reversed(item)]
        elif isinstance(item, int | float) and not isinstance(item, bool):
            found.append(_digits(item))
    return "\n".join(text for text in found if text).encode("utf-8", "replace").decode("utf-8")


def _digits(value: int | float) -> str:
    try:
        return repr(value)
    except ValueError:
        # Python refuses to print integers of thousands of digits.
        return ""


def _text_from_blob(blob: str) -> str:
    """What bytes say: all of it where they are text, also with a bad byte here and there; else what is text in them."""
    plain = "".join(blob.split()).translate(_URL_SAFE).rstrip("=")
    try:
        data = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        # What is no base64 may be text as it stands.
        return blob
    # Without the empty halves of letters in UTF-16.
    text = data.replace(b"\0", b"").decode("utf-8", "replace")
    odd = len(_ODD.findall(text))
    return text if len(text) - odd > len(text) * _TEXT_SHARE else "\n".join(_RUN.findall(text))


_URL_SAFE = str.maketrans("-_", "+/")
