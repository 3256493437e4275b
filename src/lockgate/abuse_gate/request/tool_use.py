"""Whether a request might use tools: asked about execute-locked clients only.

There are too many ways to offer a model tools to list them, and new ones appear every month. So the question is the
other way round: a request may use tools unless all of it has a known shape without tools.

1. A body is a JSON object, a form, a text or a file. The gate cannot read other notations as the application would.
2. Every name in it is one that the common APIs have for other things than tools (`api_names.txt`), at its place there.
   Words may say anything.
3. A conversation may contain earlier calls and results, which its client cannot remove. It must go on with a user's
   words, and not with a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qsl

from lockgate.abuse_gate.request.content_kinds import MEDIA, detect_kind
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.abuse_gate.request.multipart import parse_parameters, split_parts
from lockgate.core.tables import read_sections

_NAMES: Final = {section: frozenset(names) for section, names in read_sections(__package__, "api_names.txt").items()}
_WORDS: Final = _NAMES["words"]
_VALUES: Final = _NAMES["values"]
_SETTING: Final = _NAMES["setting"] | (_VALUES - {"model", "models"})
_SCHEMAS: Final = _NAMES["schemas"]
_MESSAGE: Final = _NAMES["message"]
_PARTS: Final = _NAMES["parts"]
_ACTS: Final = _NAMES["acts"]
_OF_A_PART: Final = _PARTS | _NAMES["beside a part"]
_OF_AN_ACT: Final = _OF_A_PART | _ACTS | _NAMES["beside an act"]
_TOOL_ROLES: Final = _NAMES["tool roles"]
_SPEAKERS: Final = _NAMES["speaker roles"]
_NO_CHOICE: Final = ("none", "auto", {"type": "none"}, {"type": "auto"})
# Models that search or act without being given a tool.
_ACTING: Final = re.compile(
    "compound|:online|search|research|sonar|computer|browse|agent|operator|codex", re.IGNORECASE
)
# Parts of a path before the name of a model.
_MODELS: Final = ("models", "model", "deployments", "engines")

# Names for tools in a text, as a key in any notation: an application may read the text as more than words.
_TOOL_NAME: Final = (
    r"(?:tools?|tool_?choice|tool_?config|tool_calls|tool_outputs|functions?|function_?call|function_?declarations"
    r"|mcp(?:_servers)?|plugins|connectors|actions|web_search(?:_options)?|code_(?:interpreter|execution)|google_?search)"
)
_KEYED: Final = re.compile(rf"{_TOOL_NAME}(?![a-z0-9])[\]\"'\[.\w%]{{0,80}}+\s{{0,80}}+(?:[:=]|/[*/])", re.IGNORECASE)
# Beginnings of such names.
_STEMS: Final = ("tool", "function", "mcp", "plugins", "connectors", "actions", "web_search", "code_", "google")
# So many of these in one text are more than words.
_MAX_NAMES: Final = 1000
# A key with an escape in it can be any name; people write none in words.
_ESCAPED_KEY: Final = re.compile(r"[\"'][^\"'\n\\]{0,80}+\\[^\"'\n]{0,80}+[\"']\s{0,80}+[:=]")
_ESCAPES: Final = re.compile(r"\\(?:u00|x)([0-9a-fA-F]{2})")
_LOOKS_LIKE_TOOLS: Final = re.compile(
    r"(?<![a-z])(?:tools?|functions?|mcp|plugins?|interpreter)(?![a-z])|web_?search|browse|execut", re.IGNORECASE
)
_GRAPHQL: Final = re.compile(r"\s*(?:\{|(?:query|mutation|subscription|fragment)\b[^{]{0,500}\{)")
_JSON: Final = re.compile(r"[\s\ufeff\x00]*+[{\[\"]")


def may_use_tools(body: bytes, content_type: str, path: str = "", query: bytes = b"") -> bool:
    """Return False only for a request that is known to use no tools. Pure, and linear in the size of the body."""
    if any(segment.lower() in _NAMES["running paths"] for segment in re.split("[/:.;]", path)):
        return True
    segments = path.lower().split("/")
    if any(before in _MODELS and _ACTING.search(after) for before, after in pairwise(segments)):
        return True
    try:
        text = query.decode("utf-8")
        for name, value in parse_qsl(text, keep_blank_values=True, errors="strict"):
            if _names_tools(name) or _LOOKS_LIKE_TOOLS.search(name) or not _is_speech(value):
                return True
        return bool(body) and not _is_plain_body(body, content_type)
    except (UnicodeError, ValueError, UnreadableRequest):
        return True


def _is_plain_body(body: bytes, content_type: str) -> bool:
    parsed = parse_parameters(content_type) if content_type.strip() else ("", dict[str, str]())
    if parsed is None or parsed[1].get("charset", "utf-8").lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        return False
    media, given = parsed
    if media == "multipart/form-data":
        return _are_plain_parts(body, given.get("boundary", ""))
    kind = detect_kind(body, media)
    if kind in (*MEDIA, "pdf", "docx"):
        # A picture under its own content type. Under another one, its reader may not look at its first bytes.
        return media.startswith(("image/", "audio/", "video/")) or media in (
            "application/pdf",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        )
    text = body.decode("utf-8").removeprefix("\ufeff")
    if media == "application/x-www-form-urlencoded":
        return _are_plain_fields(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1000))
    if media in ("application/json", "text/json") or (media in ("", "text/plain") and _JSON.match(text)):
        return _is_plain_value(read_json(text))
    return media == "text/plain" and _has_no_tool_keys(text)


def _are_plain_parts(body: bytes, boundary: str) -> bool:
    listed, around = split_parts(body, boundary)
    if around:
        return False
    fields: list[tuple[str, str]] = []
    for part in listed:
        if part.filename is None:
            fields.append((part.name, part.data.decode("utf-8")))
        elif not _is_plain_file(part.name, part.data, part.content_type, part.filename):
            return False
    return _are_plain_fields(fields)


def _is_plain_file(name: str, data: bytes, content_type: str, filename: str) -> bool:
    kind = detect_kind(data, content_type, filename)
    if kind in (*MEDIA, "pdf", "docx"):
        return not _names_tools(name)
    if kind not in ("text", "html"):
        return False
    text = _unescape(data.decode("utf-8", "replace"))
    # JSON under another field name may be the request itself; a JSON file is a file unless it lists requests.
    if _JSON.match(text):
        return name in _NAMES["file fields"] and not _has_tool_keys(text)
    return not _names_tools(name)


def _are_plain_fields(fields: Iterable[tuple[str, str]]) -> bool:
    return all(
        not value
        or (name in _WORDS and _is_speech(value))
        or (
            name in _VALUES
            and not _JSON.match(value)
            and (name not in ("model", "models") or not _ACTING.search(value))
        )
        for name, value in fields
    )


def _is_plain_value(value: object) -> bool:
    if isinstance(value, str):
        return _is_speech(value)
    return isinstance(value, dict) and all(_is_plain_entry(name, inside) for name, inside in value.items())


def _is_plain_entry(name: str, value: object) -> bool:
    """Return whether a name of a request is known, and its value has no tools."""
    if value is None or value is False or value in ("", []):
        # An empty value offers nothing. An empty object would switch on a feature of its name.
        return True
    if name in ("tool_choice", "function_call"):
        return value in _NO_CHOICE
    if name in ("model", "models"):
        return all(isinstance(one, str) and not _ACTING.search(one) for one in _as_list(value))
    if name in _NAMES["systems"]:
        return isinstance(value, str) or (isinstance(value, dict) and _classify_message(value) == _SAYS)
    spoken = _is_plain_talk(name, value)
    if spoken is not None:
        return spoken
    if isinstance(value, dict | list):
        return _is_plain_object(name, value)
    return name in _VALUES and name not in _NAMES["labels"] and _is_value(value)


def _is_plain_talk(name: str, value: object) -> bool | None:
    """Return whether messages or words have no tools; None if the name stands for neither here."""
    if name in _NAMES["chats"] or (name in ("input", "message") and isinstance(value, list | dict)):
        return _is_plain_chat(_as_list(value))
    if name in _WORDS and (isinstance(value, str) or (name != "text" and isinstance(value, list))):
        return _are_plain_words(value, name)
    return None


def _is_plain_object(name: str, value: dict[str, object] | list[object]) -> bool:
    if name in _NAMES["labels"]:
        return isinstance(value, dict) and all(map(_is_value, value.values()))
    if name in _NAMES["free"]:
        return True
    if name in _NAMES["settings"]:
        return _are_plain_settings(value)
    return name in _VALUES and _is_value(value)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_value(value: object) -> bool:
    return all(isinstance(one, int | float) or (isinstance(one, str) and _is_speech(one)) for one in _as_list(value))


def _are_plain_settings(value: object) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if any(name not in _SETTING and name not in _SCHEMAS for name in item):
                return False
            stack.extend(inside for name, inside in item.items() if name not in _SCHEMAS)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and not _is_speech(item):
            return False
    return True


def _are_plain_words(value: object, name: str) -> bool:
    if isinstance(value, str):
        return not (name == "query" and _GRAPHQL.match(value)) and _is_speech(value)
    if not isinstance(value, list):
        return False
    # Tokens, texts, lists of tokens, or the parts of a prompt.
    return all(
        isinstance(one, int)
        or (isinstance(one, str) and _is_speech(one))
        or (isinstance(one, list) and all(type(token) is int for token in one))
        or (isinstance(one, dict) and _classify_part(one) == _SAYS)
        for one in value
    )


# What a message is; the highest of its parts counts.
_SAYS, _ACTS_IN_IT, _UNKNOWN = 0, 1, 2


def _is_plain_chat(messages: list[object]) -> bool:
    """Return whether all messages are known, and a user's words follow the last call or result."""
    goes_on = True
    for message in messages:
        if isinstance(message, str):
            if not _is_speech(message):
                return False
            continue
        if isinstance(message, int) or (isinstance(message, list) and all(type(one) is int for one in message)):
            continue
        found = _classify_message(message) if isinstance(message, dict) else _UNKNOWN
        if found == _UNKNOWN or not isinstance(message, dict):
            return False
        if found == _ACTS_IN_IT:
            goes_on = False
        elif _user_speaks(message):
            goes_on = True
    return goes_on


def _user_speaks(message: dict[str, object]) -> bool:
    """Return whether a user says something in a message: an empty text or a dot is no word."""
    if str(message.get("role", "user")).lower() not in ("user", "human"):
        return False
    words = next((message[name] for name in ("content", "parts", "message", "text") if message.get(name)), "")
    parts = words if isinstance(words, list) else [words]
    texts = [part.get("text", "") if isinstance(part, dict) else part for part in parts]
    return any(isinstance(text, str) and any(map(str.isalnum, text)) for text in texts)


def _classify_message(message: dict[str, object]) -> int:
    """Return whether a message only speaks, contains a call or a result, or has an unknown shape."""
    kind, role = message.get("type", "message"), message.get("role", "user")
    if not isinstance(kind, str):
        return _UNKNOWN
    if kind in ("function_call", "function_call_output") or ("content" not in message and kind in _PARTS):
        return _classify_part(message)
    if kind not in ("message", "reasoning") and kind not in _PARTS:
        return _UNKNOWN
    if not isinstance(role, str) or (role.lower() not in _SPEAKERS and role not in _SPEAKERS | _TOOL_ROLES):
        return _UNKNOWN
    found = _ACTS_IN_IT if role in _TOOL_ROLES else _SAYS
    for name, value in message.items():
        if value:
            found = max(found, _classify_field(name, value, kind))
    return found


def _classify_field(name: str, value: object, kind: str) -> int:
    if name in ("tool_calls", "function_call", "tool_call_id"):
        return _ACTS_IN_IT
    if name in ("content", "parts") and not isinstance(value, str):
        return max(map(_classify_content, _as_list(value)))
    known = name in _MESSAGE or (kind == "reasoning" and name in ("summary", "encrypted_content"))
    if not known or (name not in _WORDS and _names_tools_within(value)):
        return _UNKNOWN
    return _SAYS


def _classify_content(part: object) -> int:
    if isinstance(part, dict):
        return _classify_part(part)
    return _SAYS if isinstance(part, str) else _UNKNOWN


def _classify_part(part: dict[str, object]) -> int:
    kind = part.get("type")
    if kind is None:
        # In Gemini's and Bedrock's parts, the name says what they are.
        acts = not all(name in _PARTS for name in part)
        names = _PARTS | _ACTS
    else:
        if not isinstance(kind, str) or (kind not in _PARTS and kind not in _ACTS):
            return _UNKNOWN
        acts = kind in _ACTS
        names = _OF_AN_ACT if acts else _OF_A_PART
    if any(name not in names for name in part):
        return _UNKNOWN
    # Calls and results may have any names inside.
    if not acts and any(name not in _WORDS and _names_tools_within(value) for name, value in part.items()):
        return _UNKNOWN
    return _ACTS_IN_IT if acts else _SAYS


def _has_no_tool_keys(text: str) -> bool:
    """Return whether a text has no tool keys, also if an application reads it as JSON, a form or settings."""
    return not _has_tool_keys(_unescape(text)) and not _ESCAPED_KEY.search(text)


def _is_speech(text: str) -> bool:
    """Return whether a text is words: only a text that begins like JSON could be more to an application."""
    return not _JSON.match(text) or _has_no_tool_keys(text)


def _has_tool_keys(text: str) -> bool:
    text, seen = text.lower(), 0
    # One by one: one search for all of them takes a hundred times as long.
    for stem in _STEMS:
        start = text.find(stem)
        while start >= 0:
            seen += 1
            before = text[max(0, start - 80) : start].rstrip(" \t\r\"'")
            begins = not before or (before[-1] in "\n&;?{,[.-" and text[start - 1] != "-")
            if seen > _MAX_NAMES or (begins and _KEYED.match(text, start)):
                return True
            start = text.find(stem, start + 1)
    return False


def _unescape(text: str) -> str:
    return _ESCAPES.sub(lambda match: chr(int(match[1], 16)), text) if "\\" in text else text


def _names_tools(name: str) -> bool:
    return bool(re.fullmatch(rf"(?:.*[.\[])?{_TOOL_NAME}[\]\[.].*|{_TOOL_NAME}", name, re.IGNORECASE | re.DOTALL))


def _names_tools_within(value: object) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if any(_LOOKS_LIKE_TOOLS.search(name) or _names_tools(name) for name in item):
                return True
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and not _is_speech(item):
            return True
    return False
