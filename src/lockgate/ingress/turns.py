"""The JSON that a client sends to an LLM API, as who said what in which order.

Known shapes say who speaks: chat messages, content parts, tool calls and their results, documents. Whatever is not of
a known shape is read as text all the same: no string is skipped because its key is not one we know. Nothing that comes
from a tool or a document is ever counted as anybody else's words, whatever roles are written inside it.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Never
from urllib.parse import unquote_to_bytes

from lockgate.core.payload import MAX_PROMPT_CHARACTERS
from lockgate.ingress.kinds import MEDIA, kind_of

MAX_DEPTH: Final = 64
# A million small values take seconds to read, whatever their size in bytes.
MAX_VALUES: Final = 500_000
MAX_TURNS: Final = 8192
MAX_UPLOADS: Final = 32
# Base64 up to this size that turns out to be nothing we know is also read as the text it may be.
MAX_DOUBTFUL: Final = 65_536

# Between two turns in one text. No labels: a rule that looks for forged turns would find ours.
SEPARATOR: Final = "\n\n"

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Turn(NamedTuple):
    """One thing said (`text`) or one tool called (`call`); a call's `text` is all that its arguments say."""

    what: str
    source: str
    text: str
    tool: str = ""
    arguments: Mapping[str, object] = NOTHING


class Upload(NamedTuple):
    """A file; `kind` is what it turned out to be, see `kind_of`."""

    name: str
    content_type: str
    data: bytes
    kind: str = ""


class Refused(NamedTuple):
    """A request that is not read: the status it is answered with, and why, from a fixed list."""

    status: int
    reason: str


REFUSALS: Final[Mapping[str, int]] = {
    "not-json": 400,
    "duplicate-key": 400,
    "too-deep": 400,
    "bad-form": 400,
    "bad-multipart": 400,
    "bad-text": 400,
    "too-many-values": 413,
    "too-many-parts": 413,
    "too-much-text": 413,
    "bad-content-type": 415,
    "unknown-charset": 415,
}


class Refusal(Exception):
    """Ends the reading of a request; never leaves this package's `normalize`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.refused = Refused(REFUSALS[reason], reason)


# --- reading JSON

# A string to its end, or to the end of all, is one step: otherwise an open quotation mark costs the square of the size.
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def read_json(text: str) -> object:
    """The value, or Refusal: for what is not JSON, and for what two parsers might read differently."""
    brackets = text.count("[") + text.count("{")
    # Counted before anything is built: the parser calls itself for each level.
    if brackets > MAX_DEPTH:
        _refuse_depth(text)
    if brackets > MAX_VALUES or text.count(",") > MAX_VALUES:
        raise Refusal("too-many-values")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Refusal("not-json") from None


def _refuse_depth(text: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Refusal("too-deep")
        elif first in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # One parser keeps the first of two equal keys, another the last: the gate and the app would read two requests.
    body = dict(pairs)
    if len(body) != len(pairs):
        raise Refusal("duplicate-key")
    return body


def _no_constant(_name: str) -> Never:
    raise Refusal("not-json")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


# --- who speaks

_ROLES: Final = {
    "user": "user",
    "human": "user",
    "system": "system",
    "developer": "system",
    "assistant": "agent",
    "model": "agent",
    "ai": "agent",
}
# Where a request is not of a chat's shape, a key says whose words its value is.
_KEYS: Final = {
    **dict.fromkeys(
        "prompt prompt_text input inputs message messages text query question q content contents suffix".split(), "user"
    ),
    **dict.fromkeys("system system_prompt instructions system_instruction systeminstruction".split(), "system"),
}
# What offers tools, at any depth: a locked client must not find a way to offer them that is not seen.
_TOOLS: Final = frozenset(
    "tools functions function_declarations functiondeclarations mcp_servers plugins tool_config toolconfig"
    " web_search_options".split()
)
_DOCUMENTS: Final = frozenset({"document", "file", "input_file", "search_result", "container_upload"})
_MEDIA_PARTS: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
}
# Names somewhere else for something the model will be shown: nobody here can look at it.
_ELSEWHERE: Final = frozenset("file_id file_url file_uri fileuri vector_store_ids".split())
_MEDIA_TYPE: Final = ("media_type", "mime_type", "mimeType", "mediaType", "format")
_BASE64_KEYS: Final = frozenset("data bytes file_data b64_json base64 image images audio video".split())
# Values that no model is shown: left out of the text where they are what they should be, a short name.
_SETTINGS: Final = frozenset(
    "role type id object model tool_call_id tool_use_id call_id status detail media_type".split()
)
# Parts of one text, where there are several.
_PARTS: Final = frozenset("text content parts prompt input output".split())
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.$:@/-]{1,32}")
_DATA_URL = re.compile(r"data:([^,]{0,200}),", re.IGNORECASE)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")


_NONE: Final[frozenset[str]] = frozenset()


def named(prefix: str, name: object) -> str:
    """`tool:NAME` in the letters that names have: it comes from the client, and goes into logs."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name[:48]) if isinstance(name, str) else ""
    return f"{prefix}:{plain.strip('_') or 'unnamed'}"


class Reading:
    """Collects what a request says; one for one request."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.uploads: list[Upload] = []
        self.flags: dict[str, None] = {}
        self.tools = False
        self._characters = 0
        self._calls: dict[str, str] = {}
        # Pieces of the turn that is being said.
        self._source = ""
        self._pieces: list[str] = []
        self._parts: list[bool] = []
        self._api = False

    # --- what is said

    def say(self, text: str, source: str, *, part: bool = False) -> None:
        if source != self._source:
            self.end_turn()
            self._source = source
        if text and not text.isspace():
            self._pieces.append(text)
            self._parts.append(part)

    def field(self, name: str, value: str, source: str) -> None:
        """One field of a form."""
        self.end_turn()
        if not _PLAIN_KEY.fullmatch(name):
            self.say(name, "request")
        if name.lower() in _TOOLS and value.strip():
            self.tools = True
        self._string(value, source, name.lower())
        self.end_turn()

    def call(self, tool: str, arguments: Mapping[str, object]) -> None:
        self.end_turn()
        self.tools = True
        text = "\n".join(([] if _PLAIN_KEY.fullmatch(tool) else [tool]) + _strings(arguments))
        self._turn(Turn("call", "agent", text, tool[:256], arguments))

    def upload(self, name: str, content_type: str, data: bytes) -> None:
        if not data:
            return
        if len(self.uploads) >= MAX_UPLOADS:
            raise Refusal("too-many-parts")
        kind = kind_of(data, content_type, name)
        if kind in MEDIA:
            self.flags[kind] = None
        self.uploads.append(Upload(name[:128], content_type[:128], data, kind))

    def end_turn(self) -> None:
        pieces, parts, source = self._pieces, self._parts, self._source
        self._source = ""
        if not pieces:
            return
        self._pieces, self._parts = [], []
        self._turn(Turn("text", source, "\n".join(pieces)))
        # A word that is cut in two over two parts is whole again for the model.
        joints = zip(pairwise(pieces), pairwise(parts), strict=True)
        if any(all(both) and a[-1].isalnum() and b[0].isalnum() for (a, b), both in joints):
            self._turn(Turn("text", source, "".join(pieces)))

    def _turn(self, turn: Turn) -> None:
        if len(self.turns) >= MAX_TURNS:
            raise Refusal("too-many-parts")
        # No verdict is given on less than all of it, so what nobody could judge in one piece is not let in.
        self._characters += len(turn.text) + len(SEPARATOR)
        if self._characters > MAX_PROMPT_CHARACTERS:
            raise Refusal("too-much-text")
        self.turns.append(turn)

    # --- a JSON value

    def json(self, value: object, source: str = "request") -> None:
        """All that a value says. With a stack of our own: the app's may be nearly full."""
        self._api = isinstance(value, dict) and ("model" in value or "messages" in value)
        if isinstance(value, str):
            source = "user" if source == "request" else source
        stack: list[tuple[object, str, str]] = [(value, source, "")]
        while stack:
            item, source, key = stack.pop()
            if isinstance(item, str):
                self._string(item, source, key)
            elif isinstance(item, list):
                if key in ("prompt", "input") and item and all(type(one) is int for one in item):
                    # Tokens instead of words: only the model's tokenizer knows what they say.
                    self.flags["opaque"] = None
                stack.extend((one, source, key) for one in reversed(item))
            elif isinstance(item, dict):
                stack.extend(reversed(self._dict(item, source, key)))
        self.end_turn()
        self._api = False

    def _string(self, text: str, source: str, key: str) -> None:
        if self._api and key in _SETTINGS and _NAME.fullmatch(text):
            return
        if text[:5].lower() == "data:" and self._data_url(text, source):
            return
        if key in _BASE64_KEYS and len(text) >= 64:
            if self._base64(text, "", "", source):
                return
        self.say(text, source, part=key in _PARTS)

    def _base64(self, text: str, content_type: str, name: str, source: str) -> bool:
        data = from_base64(text)
        if not data:
            return False
        self.upload(name, content_type, data)
        # Letters without spaces decode to something, too.
        if len(text) <= MAX_DOUBTFUL and self.uploads[-1].kind in ("binary", "text", "html") and not _is_utf8(data):
            self.say(text, source)
        return True

    def _dict(self, body: dict[str, Any], source: str, key: str) -> list[tuple[object, str, str]]:
        """What is inside it, with whose words it is; a call or a file is taken out here."""
        kind = body.get("type")
        kind = kind.lower() if isinstance(kind, str) else ""
        outside = source.startswith(("tool:", "document:"))
        if not outside:
            source, outside = self._speaker(body, kind, source, key)
        if kind in _MEDIA_PARTS:
            self.flags[_MEDIA_PARTS[kind]] = None
        elif kind == "url":
            self.flags["opaque"] = None
        left: list[tuple[object, str, str]] = []
        taken = self._file(body, source) if outside else self._call(body, kind) or self._file(body, source)
        for name, value in body.items():
            if name in taken:
                continue
            lower = name.lower()
            if lower not in _KEYS and not _PLAIN_KEY.fullmatch(name):
                left.append((name, source, ""))
            if lower in _ELSEWHERE and value:
                self.flags["opaque"] = None
            inner = source
            if lower in _TOOLS and value:
                self.tools = True
                inner = source if outside else "system"
            elif source == "request":
                inner = _KEYS.get(lower, source)
            left.append((value, inner, lower))
        return left

    def _speaker(self, body: dict[str, Any], kind: str, source: str, key: str) -> tuple[str, bool]:
        """Whose words a dictionary holds, and whether they are from outside the conversation."""
        role = body.get("role")
        if isinstance(role, str) and not body.keys().isdisjoint(("content", "parts", "text", "tool_calls", "refusal")):
            self.end_turn()
            self._api = True
            lower = role.lower()
            if lower in ("tool", "function", "ipython", "observation"):
                self.tools = True
                return named("tool", body.get("name") or self._called(body)), True
            if lower not in _ROLES:
                # A role nobody knows may be a retriever's, or anything.
                return named("document", role), True
            source = _ROLES[lower]
        elif kind in ("reasoning", "thinking"):
            source = "agent"
        if kind.endswith(("tool_result", "call_output")) or key in ("functionresponse", "function_response"):
            self.end_turn()
            self.tools = True
            return named("tool", body.get("name") or self._called(body)), True
        if kind in _DOCUMENTS:
            self.end_turn()
            file = body.get("file")
            inner = file if isinstance(file, dict) else body
            return named("document", inner.get("filename") or inner.get("title") or inner.get("name")), True
        return source, False

    def _called(self, body: Mapping[str, object]) -> str:
        for key in ("tool_call_id", "tool_use_id", "call_id"):
            one = body.get(key)
            if isinstance(one, str) and one in self._calls:
                return self._calls[one]
        return ""

    def _call(self, body: dict[str, Any], kind: str) -> frozenset[str]:
        """A call, if it is one, and the keys whose values are in it."""
        if "name" not in body and "function" not in body:
            return _NONE
        function = body.get("function")
        one = body.get("id") or body.get("call_id")
        if isinstance(one, str):
            name = function.get("name") if isinstance(function, dict) else body.get("name")
            if isinstance(name, str):
                self._calls[one] = name
                if isinstance(body.get("call_id"), str):
                    self._calls[body["call_id"]] = name
        tool = body.get("name")
        if isinstance(tool, str):
            for key in ("arguments", "args", "input"):
                if key in body and (key != "input" or kind.endswith(("tool_use", "call"))):
                    self.call(tool, _arguments(body[key]))
                    return frozenset(("name", key))
        return _NONE

    def _file(self, body: dict[str, Any], source: str) -> frozenset[str]:
        """A file written as base64 beside its type."""
        if body.keys().isdisjoint(("data", "bytes", "file_data")):
            return _NONE
        declared = next((body[key] for key in _MEDIA_TYPE if isinstance(body.get(key), str)), None)
        for key in ("data", "bytes", "file_data"):
            text = body.get(key)
            if not isinstance(text, str) or text[:5].lower() == "data:" or not text:
                continue
            if (declared is None and key != "file_data") or body.get("type") == "text":
                continue
            name = body.get("filename") or body.get("name")
            if self._base64(text, declared or "", name if isinstance(name, str) else _document(source), source):
                return frozenset((key,))
        return _NONE

    def _data_url(self, text: str, source: str) -> bool:
        match = _DATA_URL.match(text)
        if match is None:
            return False
        declared = match[1].lower()
        rest = text[match.end() :]
        if not _NAME.fullmatch(declared.partition(";")[0]):
            self.say(match[1], source)
        declared_type = declared.removesuffix("base64").rstrip("; ")
        if declared.endswith("base64"):
            return self._base64(rest, declared_type, _document(source), source)
        self.upload(_document(source), declared_type, unquote_to_bytes(rest))
        return True


def _document(source: str) -> str:
    return source.removeprefix("document:") if source.startswith("document:") else ""


def _is_utf8(data: bytes) -> bool:
    try:
        return b"\x00" not in data and bool(data.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def from_base64(text: str) -> bytes | None:
    """The bytes, as a lenient decoder reads them too; None for what is no base64 but words."""
    plain = text.translate({ord("-"): "+", ord("_"): "/"}).rstrip("=\r\n\t ")
    kept = _NOT_BASE64.sub("", plain)
    if len(plain) - len(kept) > len(plain) // 16:
        return None
    try:
        return binascii.a2b_base64(kept + "=" * (-len(kept) % 4))
    except ValueError:
        return None


def _arguments(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        # A model's slip in its own JSON is no reason to turn the whole conversation away: then it is one text.
        try:
            value = read_json(value) if value.lstrip()[:1] == "{" else value
        except Refusal as refusal:
            if refusal.refused.reason != "not-json":
                raise
    return value if isinstance(value, dict) else {"input": value}


def _strings(value: object) -> list[str]:
    found: list[str] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, Mapping):
            for key, inside in reversed(list(item.items())):
                stack.append(inside)
                if not _PLAIN_KEY.fullmatch(key):
                    stack.append(key)
    return found
