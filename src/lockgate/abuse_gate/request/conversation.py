"""The JSON that a client sends to an LLM API, as who said what in which order.

Known shapes say who speaks: chat messages, content parts, tool calls and their results, documents. Whatever is not of
a known shape is read as text all the same: no string is skipped because its key is not one we know. Nothing that comes
from a tool or a document is ever counted as anybody else's words, whatever roles are written inside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from lockgate.abuse_gate.request.content_kinds import (
    MEDIA,
    could_be_letters,
    decode_base64,
    detect_kind,
    is_base64,
    is_plain_token,
    is_short_and_opaque,
    is_web_address,
    possible_texts,
    printable_words,
)
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.core.requests.payload import MAX_PROMPT_CHARACTERS

MAX_TURNS: Final = 8192
MAX_UPLOADS: Final = 32
# Base64 up to this size that turns out to be nothing we know is also read as the text it may be.
MAX_DOUBTFUL: Final = 65_536
# Addresses and tokens are no longer than this.
MAX_NO_FILE: Final = 16_384

# Between two turns in one text. No labels: a rule that looks for forged turns would find ours.
SEPARATOR: Final = "\n\n"
_BETWEEN: Final = len(SEPARATOR)

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Turn(NamedTuple):
    """One thing said (`text`) or one tool called (`call`); a call's `text` is all that its arguments say.

    `outside`: what somebody else is likely to have written. A tool's answer to a call that is in the same request, or
    that a conversation kept elsewhere has in it; a document where an API has a place for documents; and what a model
    said after it had read such. Whatever else has somebody else's name on it is the client's, who answers for it.
    """

    kind: str
    source: str
    text: str
    tool: str = ""
    arguments: Mapping[str, object] = NOTHING
    outside: bool = False


class Upload(NamedTuple):
    """A file; `kind` is what it turned out to be, see `kind_of`; `outside` as for a Turn."""

    name: str
    content_type: str
    data: bytes
    kind: str = ""
    outside: bool = False


# A Turn from all of its values, without asking for those that are left out.
_new: Final = tuple.__new__

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
# What describes tools. It counts as the sender's, and is often written by somebody else: a server that offers them.
TOOL_DESCRIPTION: Final = "offered"
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
_REFERENCES: Final = frozenset("file_id file_url file_uri fileuri vector_store_ids".split())
_MEDIA_TYPE: Final = ("media_type", "mime_type", "mimeType", "mediaType", "format")
_BASE64_KEYS: Final = frozenset("data bytes file_data b64_json base64 image images audio video".split())
# Anthropic's, of which the client gets nothing but letters. As a key: what stands there.
_SEALED: Final = "redacted_thinking"
# Where a data URL is a file, and not somebody's words that begin like one.
_FILE_KEYS: Final = _BASE64_KEYS | frozenset(
    "url uri src href source file files file_url file_uri fileuri image_url audio_url video_url input_image input_audio"
    " input_video input_file".split()
)
# Values that no model is shown: left out of the text where they are what they should be, a short name.
SETTING_KEYS: Final = frozenset(
    "role type id object model tool_call_id tool_use_id call_id status detail media_type".split()
)
# Parts of one text, where there are several: one and the same for whoever puts them together.
_PARTS: Final = frozenset("text content parts prompt input output".split())
# Keys of nearly every request about which there is nothing to ask: no tools, no files.
_COMMON: Final = frozenset("model messages role content type text temperature max_tokens top_p stream".split())
_NO_SCALARS: Final = (str, list, dict)
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.$:@/-]{1,32}")
_MIME = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}(?:;\s?[a-z0-9-]{1,20}=[a-z0-9.-]{1,20})*+;base64")
_DATA_URL = re.compile(r"data:([^,]{0,200}),", re.IGNORECASE)


# Whatever stands under these keys is a tool's.
_RESULTS: Final = ("functionresponse", "function_response", "toolresult", "tool_results", "tool_outputs")
_CALLS: Final = ("functioncall", "function_call", "tooluse")
# A tool's answer to a call that was seen, a document in its place, what a model said after it. Never leave this file.
_ANSWER, _PAPER, _ECHO = "answer", "paper", "echo"
_OUTSIDE_NAMES: Final = {_ANSWER: "tool", _PAPER: "document", _ECHO: "agent"}
# Names of what is kept elsewhere: the calls that results answer are there.
_STORED_CONVERSATION: Final = ("previous_response_id", "conversation", "conversation_id", "thread_id", "tool_outputs")
# The client's words, where no message says whose.
_SHAPELESS: Final = ("request", "user")
_OUTSIDE: Final = ("tool:", "document:", f"{_ANSWER}:", f"{_PAPER}:")
# Whatever roles are written inside these.
_FOREIGN_SOURCES: Final = (*_OUTSIDE, TOOL_DESCRIPTION)
_FROM_OUTSIDE: Final = (f"{_ANSWER}:", f"{_PAPER}:", f"{_ECHO}:")
_NONE: Final[frozenset[str]] = frozenset()


_JSON = re.compile(r"\s*+[{\[]")


def begins_like_json(text: str) -> bool:
    return _JSON.match(text) is not None


def source_name(prefix: str, name: object) -> str:
    """`tool:NAME` in the letters that names have: it comes from the client, and goes into logs."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name[:48]) if isinstance(name, str) else ""
    return f"{prefix}:{plain.strip('_') or 'unnamed'}"


class ConversationReader:
    """Collects what a request says; one for one request."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.uploads: list[Upload] = []
        self.flags: dict[str, None] = {}
        self._characters = 0
        self._calls: dict[str, str] = {}
        self._called_names: set[str] = set()
        # Whether calls are elsewhere, and whether somebody else has been heard.
        self._kept = self._heard = False
        # Pieces of the turn that is being said, with the key that each stands under.
        self._source = ""
        self._pieces: list[str] = []
        self._keys: list[str] = []
        # And those before it in the same object of no known shape, whose keys say now one source and now another.
        self._before: list[tuple[str, str]] = []
        self._api = False

    # --- what is said

    def add_text(self, text: str, source: str, key: str = "") -> None:
        if source != self._source:
            self.end_turn(goes_on=source in _SHAPELESS and self._source in _SHAPELESS)
            self._source = source
        if text and not text.isspace():
            self._pieces.append(text)
            self._keys.append(key)

    def add_form_field(self, name: str, value: str, source: str) -> None:
        """One field of a form."""
        self.end_turn()
        if not _PLAIN_KEY.fullmatch(name):
            self.add_text(name, "request")
        self._add_string(value, source, name.lower())
        self.end_turn()

    def add_body_text(self, text: str, source: str) -> None:
        """A text that is a whole body."""
        self.end_turn()
        self.add_text(text, source)
        self.end_turn()

    def add_call(self, tool: str, arguments: Mapping[str, object]) -> None:
        self.end_turn()
        self._called_names.add(tool)
        text = "\n".join(([] if _PLAIN_KEY.fullmatch(tool) else [tool]) + _collect_strings(arguments))
        self._add_turn(Turn("call", "agent", text, tool[:256], arguments, self._heard))

    def add_upload(self, name: str, content_type: str, data: bytes, source: str = "") -> None:
        if not data:
            return
        if len(self.uploads) >= MAX_UPLOADS:
            raise UnreadableRequest("too-many-parts")
        kind = detect_kind(data, content_type, name)
        if kind in MEDIA:
            self.flags[kind] = None
        self.uploads.append(Upload(name[:128], content_type[:128], data, kind, source.startswith(_FROM_OUTSIDE)))

    def end_turn(self, *, goes_on: bool = False) -> None:
        pieces, keys, source = self._pieces, self._keys, self._source
        self._source = ""
        if pieces:
            self._pieces, self._keys = [], []
            outside = source.startswith(_FROM_OUTSIDE)
            if outside:
                self._heard = True
                kind, _, name = source.partition(":")
                source = f"{_OUTSIDE_NAMES[kind]}:{name}" if name else _OUTSIDE_NAMES[kind]
            self._add_turn(
                Turn("text", source, pieces[0] if len(pieces) == 1 else "\n".join(pieces), "", NOTHING, outside)
            )
            if len(pieces) == 1 and not goes_on and not self._before:
                return
            self._before += zip(keys, pieces, strict=True)
            if not goes_on:
                self._add_joined_words(source, outside=outside)
        elif self._before and not goes_on:
            self._add_joined_words("request", outside=False)

    def _add_joined_words(self, source: str, *, outside: bool) -> None:
        """A word that is cut in two over two parts is whole again for the model, whatever else stands between them."""
        alike: dict[str, list[str]] = {}
        for key, piece in self._before:
            alike.setdefault("text" if key in _PARTS else key, []).append(piece)
        self._before = []
        joined = ["".join(parts) for parts in alike.values() if any(_may_join(a[-1], b[0]) for a, b in pairwise(parts))]
        if joined:
            self._add_turn(Turn("text", source, "\n".join(joined), outside=outside))

    def _add_turn(self, turn: Turn) -> None:
        if len(self.turns) >= MAX_TURNS:
            raise UnreadableRequest("too-many-parts")
        # No verdict is given on less than all of it, so what nobody could judge in one piece is not let in.
        self._characters += len(turn.text) + _BETWEEN
        if self._characters > MAX_PROMPT_CHARACTERS:
            raise UnreadableRequest("too-much-text")
        self.turns.append(turn)

    # --- a JSON value

    def add_json(self, value: object, source: str = "request") -> None:
        """All that a value says. With a stack of our own: the app's may be nearly full."""
        if type(value) is dict and source == "request" and self._plain_chat(value):
            return
        if isinstance(value, dict):
            self._api = "model" in value or "messages" in value
            self._kept = any(value.get(name) for name in _STORED_CONVERSATION)
        if isinstance(value, str):
            source = "user" if source == "request" else source
        stack: list[tuple[object, str, str]] = [(value, source, "")]
        while stack:
            item, source, key = stack.pop()
            if isinstance(item, str):
                self._add_string(item, source, key)
            elif isinstance(item, dict):
                if not self._message(item, source, key):
                    stack.extend(reversed(self._read_object(item, source, key)))
            elif isinstance(item, list):
                if key in ("prompt", "input") and item and all(type(one) is int for one in item):
                    # Tokens instead of words: only the model's tokenizer knows what they say.
                    self.flags["opaque"] = None
                stack.extend([(one, source, key) for one in reversed(item)])
        self.end_turn()
        self._api = False

    def _plain_chat(self, body: dict[str, Any]) -> bool:
        """A model, numbers and messages that are a role and a text each, as nearly all requests are, in one step."""
        messages = body.get("messages")
        if type(messages) is not list or self._pieces or self._before or self._heard:
            return False
        if not body.keys() <= _COMMON:
            return False
        for name, value in body.items():
            if isinstance(value, _NO_SCALARS) and value is not messages:
                if name != "model" or type(value) is not str or _NAME.fullmatch(value) is None:
                    return False
        said: list[Turn] = []
        characters = self._characters
        try:
            for message in messages:
                if type(message) is not dict or len(message) != 2:
                    return False
                text, role = message["content"], message["role"]
                speaker = _ROLES.get(role) or _ROLES[role.lower()]
                first = text[:1]
                if first in "dD" or not first.isalpha():
                    if text[:5].lower() == "data:" or begins_like_json(text):
                        return False
                    if not text or text.isspace():
                        continue
                characters += len(text) + _BETWEEN
                said.append(_new(Turn, ("text", speaker, text, "", NOTHING, False)))
        except (AttributeError, KeyError, TypeError):
            # Another key, another role, or something that is no text.
            return False
        self._kept = False
        if len(self.turns) + len(said) <= MAX_TURNS and characters <= MAX_PROMPT_CHARACTERS:
            self.turns += said
            self._characters = characters
        else:
            for turn in said:
                self._add_turn(turn)
        return True

    def _message(self, body: dict[str, Any], source: str, key: str) -> bool:
        """A message that is a role and a text and nothing else, as nearly all are, in one step; else False."""
        if len(body) != 2 or key in _RESULTS:
            return False
        text, role = body.get("content"), body.get("role")
        if not isinstance(text, str) or not isinstance(role, str) or text[:5].lower() == "data:":
            return False
        speaker = _ROLES.get(role.lower())
        if (
            speaker is None
            or source.startswith(_FOREIGN_SOURCES)
            or (not text[:1].isalpha() and begins_like_json(text))
        ):
            return False
        self.end_turn()
        self._api = True
        self.add_text(text, f"{_ECHO}:" if self._heard and speaker == "agent" else speaker, "content")
        return True

    def _add_string(self, text: str, source: str, key: str) -> None:
        if self._api and key in SETTING_KEYS and _NAME.fullmatch(text):
            return
        if text[:5].lower() == "data:" and self._add_data_url(text, source, key):
            return
        if key in _BASE64_KEYS and len(text) >= 64 and self._add_base64(text, "", "", source):
            return
        if key == _SEALED and self._add_sealed(text, source):
            return
        self.add_text(text, source, key)

    def _add_base64(self, text: str, content_type: str, name: str, source: str) -> bool:
        """A file, if it is base64 at all; and words, where it could be both."""
        data = decode_base64(text)
        if not data or self._is_no_file(text, content_type, data, source):
            return False
        self.add_upload(name, content_type, data, source)
        # Letters without spaces decode to something, too.
        doubtful = len(text) <= MAX_DOUBTFUL and self.uploads[-1].kind in ("binary", "text", "html")
        if not is_base64(text) or (doubtful and could_be_letters(data)):
            self.add_text(text, source)
        return True

    def _add_sealed(self, text: str, source: str) -> bool:
        """Not a file unless it is one of a kind we know; what words there are in it are said."""
        data = decode_base64(text)
        if not data:
            return False
        if detect_kind(data) != "binary":
            return self._add_base64(text, "", "", source)
        self.add_text(printable_words(data, MAX_PROMPT_CHARACTERS)[0], source)
        return is_base64(text) and len(text) > MAX_DOUBTFUL

    def _is_no_file(self, text: str, content_type: str, data: bytes, source: str) -> bool:
        """Whether it is only letters. What begins like a file of a kind we know is one, whatever it looks like."""
        if len(text) > MAX_NO_FILE:
            return False
        kind = detect_kind(data, content_type)
        if not content_type and kind in ("binary", "text") and could_be_letters(data) and is_plain_token(text):
            opaque = False
        elif kind != "binary":
            return False
        else:
            loose = not content_type and not source.startswith(("document:", f"{_PAPER}:"))
            if not is_web_address(text) and not (loose and is_short_and_opaque(text, data)):
                return False
            opaque = True
        if opaque:
            self.flags["opaque"] = None
        # To those who decode it all the same.
        for words in possible_texts(data)[0]:
            self.add_text(words, source)
        return True

    def _read_object(self, body: dict[str, Any], source: str, key: str) -> list[tuple[object, str, str]]:
        """What is inside it, with whose words it is; a call or a file is taken out here."""
        kind = body.get("type")
        kind = kind.lower() if isinstance(kind, str) else ""
        outside = source.startswith(_OUTSIDE)
        if not outside and source != TOOL_DESCRIPTION:
            source, outside = self._speaker_of(body, kind, source, key)
        if kind in _MEDIA_PARTS:
            self.flags[_MEDIA_PARTS[kind]] = None
        elif kind in ("url", _SEALED):
            self.flags["opaque"] = None
        left: list[tuple[object, str, str]] = []
        taken = (
            self._take_file(body, source)
            if outside
            else self._take_call(body, kind, key) or self._take_file(body, source)
        )
        for name, value in body.items():
            if name in taken:
                continue
            if name in _COMMON:
                # Numbers and the like say nothing.
                if isinstance(value, str | list | dict):
                    left.append((value, _KEYS.get(name, source) if source == "request" else source, name))
                continue
            lower = name.lower()
            if lower not in _KEYS and not _PLAIN_KEY.fullmatch(name):
                left.append((name, source, ""))
            if lower in _REFERENCES and value:
                self.flags["opaque"] = None
            inner = source
            if lower in _TOOLS and not outside:
                inner = TOOL_DESCRIPTION
            elif source == "request":
                inner = _KEYS.get(lower, source)
                if inner == "system" and key:
                    # Under a key that nobody knows it may be anything's.
                    inner = source
            # What only the model's maker can read, and has to get back: no file, and letters to everybody else.
            left.append((value, inner, _SEALED if kind == _SEALED and lower == "data" else lower))
        return left

    def _speaker_of(self, body: dict[str, Any], kind: str, source: str, key: str) -> tuple[str, bool]:
        """Whose words a dictionary holds, and whether they are from outside the conversation."""
        role = body.get("role")
        if isinstance(role, str) and not body.keys().isdisjoint(("content", "parts", "text", "tool_calls", "refusal")):
            self.end_turn()
            self._api = True
            lower = role.lower()
            if lower in ("tool", "function", "ipython", "observation"):
                return self._tool_source(body), True
            if lower not in _ROLES:
                # A role nobody knows may be a retriever's, or anything.
                return source_name("document", role), True
            source = _ROLES[lower]
            if self._heard and source == "agent":
                # Whatever it says by now may be what it was told.
                source = f"{_ECHO}:"
        elif kind in ("reasoning", "thinking"):
            source = f"{_ECHO}:" if self._heard else "agent"
        if kind.endswith(("tool_result", "call_output")) or key in _RESULTS:
            self.end_turn()
            return self._tool_source(body), True
        if kind in _DOCUMENTS or key == "documents":
            self.end_turn()
            file = body.get("file")
            inner = file if isinstance(file, dict) else body
            return source_name(_PAPER, inner.get("filename") or inner.get("title") or inner.get("name")), True
        return source, False

    def _tool_source(self, body: Mapping[str, object]) -> str:
        """Whose result it is, and whether it answers a call: by its id, or where it has none by its name."""
        ids = [body[key] for key in ("tool_call_id", "tool_use_id", "call_id", "toolUseId") if key in body]
        called = next((self._calls[one] for one in ids if isinstance(one, str) and one in self._calls), "")
        name = body.get("name")
        answers = called or self._kept or (not ids and isinstance(name, str) and name in self._called_names)
        call = body.get("call")
        if not answers and not ids and isinstance(call, dict):
            # Cohere's have the call inside.
            answers, name = True, call.get("name")
        return source_name(_ANSWER if answers else "tool", name or called)

    def _take_call(self, body: dict[str, Any], kind: str, under: str) -> frozenset[str]:
        """A call, if it is one, and the keys whose values are in it."""
        if "name" not in body and "function" not in body and not kind.endswith("_call"):
            return _NONE
        function = body.get("function")
        name = function.get("name") if isinstance(function, dict) else body.get("name") or kind
        if isinstance(name, str):
            if under in _CALLS:
                # Also one without arguments.
                self._called_names.add(name)
            self._calls.update(
                (body[key], name) for key in ("id", "call_id", "toolUseId") if isinstance(body.get(key), str)
            )
        if kind.endswith("_call") and isinstance(body.get("action"), dict):
            # Its type is its name: a computer's, a shell's.
            self.add_call(kind, body["action"])
            return frozenset(("action",))
        tool = body.get("name")
        if isinstance(tool, str):
            for key in ("arguments", "args", "input", "parameters"):
                if key not in body:
                    continue
                # Of other things with a name, these keys are no arguments.
                if key == "input" and not (kind.endswith(("tool_use", "call")) or under == "tooluse"):
                    continue
                if key == "parameters" and under not in ("tool_calls", "toolcalls", "call"):
                    continue
                self.add_call(tool, _parse_arguments(body[key]))
                return frozenset(("name", key))
        return _NONE

    def _take_file(self, body: dict[str, Any], source: str) -> frozenset[str]:
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
            if self._add_base64(
                text, declared or "", name if isinstance(name, str) else _document_name(source), source
            ):
                return frozenset((key,))
        return _NONE

    def _add_data_url(self, text: str, source: str, key: str) -> bool:
        """A file, whose letters are nobody's words; False where they may be, whether or not it is a file as well."""
        match = _DATA_URL.match(text)
        if match is None:
            return False
        declared = match[1].lower()
        rest = text[match.end() :]
        declared_type = declared.removesuffix("base64").rstrip("; ")
        if declared.endswith("base64"):
            data, plain = decode_base64(rest), is_base64(rest)
        else:
            data, plain = unquote_to_bytes(rest), False
        if data:
            self.add_upload(_document_name(source), declared_type, data, source)
        return bool(data) and plain and key in _FILE_KEYS and _MIME.fullmatch(declared) is not None


def _document_name(source: str) -> str:
    return source.partition(":")[2] if source.startswith(("document:", f"{_PAPER}:")) else ""


def _may_join(end: str, begin: str) -> bool:
    """Whether two letters may stand beside each other in one word; beyond ASCII some cannot even be seen."""
    return (end.isalnum() or end > "\x7f") and (begin.isalnum() or begin > "\x7f")


def _parse_arguments(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        # A model's slip in its own JSON is no reason to turn the whole conversation away: then it is one text.
        try:
            value = read_json(value) if value.lstrip()[:1] == "{" else value
        except UnreadableRequest as refusal:
            if refusal.refused.reason != "not-json":
                raise
    return value if isinstance(value, dict) else {"input": value}


def _collect_strings(value: object) -> list[str]:
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
