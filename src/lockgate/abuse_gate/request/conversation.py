"""The JSON that a client sends to an LLM API, as turns: who said what in which order.

Known shapes say who speaks: chat messages, content parts, tool calls and their results, documents. Text in unknown
shapes is read as well: no string is skipped because of an unknown key. Text from a tool or a document never counts as
another speaker's words, whatever roles are written inside it. Names are text too: see `name_words.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
from lockgate.abuse_gate.request.fetched_content import REFERENCE_NAMES, points_elsewhere
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.abuse_gate.request.name_words import (
    KNOWN_NAMES,
    is_plain_name,
    name_words,
    opens_order,
    phrase,
    readable_names,
)
from lockgate.abuse_gate.request.xml_text import (
    attribute_texts,
    has_own_entities,
    is_xml,
    joined_text,
    needs_other_files,
)
from lockgate.core.requests.payload import MAX_PROMPT_CHARACTERS

MAX_TURNS: Final = 8192
MAX_UPLOADS: Final = 32
# Base64 of an unknown kind up to this size is also read as the text that it may be.
MAX_DOUBTFUL: Final = 65_536
# Addresses and tokens are no longer than this.
MAX_NO_FILE: Final = 16_384

# Between two turns in one text. Without labels: the rule against forged turns would find them.
SEPARATOR: Final = "\n\n"
_BETWEEN: Final = len(SEPARATOR)

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Turn(NamedTuple):
    """One text (kind `text`) or one tool call (kind `call`); a call's `text` is all texts of its arguments.

    `outside`: another party probably wrote it. That is a tool's answer to a call in the same request or in a stored
    conversation; a document where an API has a place for documents; and what a model said after it had read such.
    All else counts as the client's own words, whatever name it gives them.

    `earlier`: words of a user before the last message of a user in a chat.
    """

    kind: str
    source: str
    text: str
    tool: str = ""
    arguments: Mapping[str, object] = NOTHING
    outside: bool = False
    earlier: bool = False


def message_breaks(turns: Iterable[Turn]) -> tuple[int, ...]:
    """Return where in the joined text of turns another message of a chat begins."""
    breaks: list[int] = []
    at = 0
    before: Turn | None = None
    for turn in turns:
        if before is not None and (before.earlier or _is_model(before) is not _is_model(turn)):
            breaks.append(at)
        at, before = at + len(turn.text) + _BETWEEN, turn
    return tuple(breaks)


def _is_model(turn: Turn) -> bool:
    return turn.kind == "call" or turn.source == "agent"


def own_words(turns: Iterable[Turn]) -> tuple[tuple[int, int], ...]:
    """Return where in the joined text of turns the client's own words stand."""
    spans: list[tuple[int, int]] = []
    at = 0
    for turn in turns:
        if turn.kind == "text" and not turn.outside and turn.source not in CONTEXT:
            spans.append((at, at + len(turn.text)))
        at += len(turn.text) + _BETWEEN
    return tuple(spans)


class Upload(NamedTuple):
    """A file; `kind` is the kind of its bytes, see `detect_kind`; `outside` as for a Turn."""

    name: str
    content_type: str
    data: bytes
    kind: str = ""
    outside: bool = False


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
# Outside of a chat's shape, a key says whose words its value is.
_KEYS: Final = {
    **dict.fromkeys(
        "prompt prompt_text input inputs message messages text query question q content contents suffix".split(), "user"
    ),
    **dict.fromkeys("system system_prompt instructions system_instruction systeminstruction".split(), "system"),
}
# The source of tool descriptions. They count as the sender's, but often another server wrote them.
TOOL_DESCRIPTION: Final = "offered"
# The source of the names of fields.
FIELD_NAMES: Final = "names"
# Sources of text that is suspected at most: the client did not say it just now, though it can make it up.
CONTEXT: Final = frozenset({"agent", "system", TOOL_DESCRIPTION, FIELD_NAMES})
_TOOLS: Final = frozenset(
    "tools functions function_declarations functiondeclarations mcp_servers plugins tool_config toolconfig"
    " web_search_options".split()
)
_DOCUMENTS: Final = frozenset({"document", "file", "input_file", "search_result", "container_upload"})
# Anthropic's encrypted thinking: the client can read none of it. Also the key under which its data is read.
_SEALED: Final = "redacted_thinking"
# The flag that a part of this type raises.
_FLAGS: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
    **dict.fromkeys(("url", _SEALED), "opaque"),
}
_MEDIA_TYPE: Final = ("media_type", "mime_type", "mimeType", "mediaType", "format")
_BASE64_KEYS: Final = frozenset("data bytes file_data b64_json base64 image images audio video".split())
# Keys under which a data URL is a file, and not words that begin like one.
_FILE_KEYS: Final = _BASE64_KEYS | frozenset(
    "url uri src href source file files file_url file_uri fileuri image_url audio_url video_url input_image input_audio"
    " input_video input_file".split()
)
# Values that are short names in nearly all requests: then they are text only if they could be a sentence.
SETTING_KEYS: Final = frozenset(
    "role type id object model tool_call_id tool_use_id call_id status detail media_type".split()
)
# Keys of the parts of one text: an application joins them all.
_PARTS: Final = frozenset("text content parts prompt input output".split())
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
# The key of a piece that is a name. Names are never cut in two, so they are not joined.
_A_NAME: Final = "\0"
# Tokens and embeddings in the place of words: only the model can read them.
_TOKEN_IDS: Final = frozenset(
    "prompt_token_ids prompttokenids prompt_ids promptids token_ids tokenids input_ids inputids input_token_ids"
    " inputtokenids decoder_input_ids prompt_embeds promptembeds input_embeds inputembeds inputs_embeds".split()
)
_UNREADABLE_NAMES: Final = _TOKEN_IDS | REFERENCE_NAMES
# Under these, a list of numbers is tokens, too.
_MAY_BE_TOKENS: Final = frozenset("prompt input inputs tokens prompt_tokens input_tokens context content".split())
_MIME = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}(?>(?:;\s?[a-z0-9-]{1,20}=[a-z0-9.-]{1,20})*);base64")
_DATA_URL = re.compile(r"data:([^,]{0,200}),", re.IGNORECASE)


# All values under these keys are a tool's.
_RESULTS: Final = ("functionresponse", "function_response", "toolresult", "tool_results", "tool_outputs")
_CALLS: Final = ("functioncall", "function_call", "tooluse")
# Sources inside this file: a tool's answer to a known call, a document in its place, what a model said after it.
_ANSWER, _PAPER, _ECHO = "answer", "paper", "echo"
_OUTSIDE_NAMES: Final = {_ANSWER: "tool", _PAPER: "document", _ECHO: "agent"}
# Where the messages of a conversation stand; an object with a role elsewhere, as in `metadata`, is none of them.
_MESSAGE_LISTS = frozenset({"", "messages", "input", "contents"})
# Keys that name a stored conversation, which holds the calls that results answer.
_STORED_CONVERSATION: Final = ("previous_response_id", "conversation", "conversation_id", "thread_id", "tool_outputs")
# Of these, the keys whose value stays the same for the whole conversation.
_CONVERSATION_IDS: Final = ("conversation", "conversation_id", "thread_id")
# Sources of the client's words outside of messages.
_SHAPELESS: Final = ("request", "user")
_OUTSIDE: Final = ("tool:", "document:", f"{_ANSWER}:", f"{_PAPER}:")
_FROM_OUTSIDE: Final = (f"{_ANSWER}:", f"{_PAPER}:", f"{_ECHO}:")
_NONE: Final[frozenset[str]] = frozenset()
_CONTENT_KEYS: Final = ("content", "parts", "text", "tool_calls", "refusal")
_TOOL_ROLES: Final = ("tool", "function", "ipython", "observation")


_JSON = re.compile(r"\s*+[{\[]")


def begins_like_json(text: str) -> bool:
    return _JSON.match(text) is not None


def _conversation_id(request: dict[str, object]) -> str:
    """Return the id of the conversation that a request's JSON names; empty if it names none."""
    for name in _CONVERSATION_IDS:
        given = request.get(name)
        given = given.get("id") if isinstance(given, dict) else given
        if isinstance(given, str) and given:
            return given
    return ""


def source_name(prefix: str, name: object) -> str:
    """Return `PREFIX:NAME` with plain letters only: the client chooses the name, and it goes into logs."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name[:48]) if isinstance(name, str) else ""
    return f"{prefix}:{plain.strip('_') or 'unnamed'}"


# A JSON value that is still to be read, with its source and the key that it stands under.
_Inside = tuple[object, str, str]


class ConversationReader:
    """Collects the turns and files of one request."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.uploads: list[Upload] = []
        self.flags: dict[str, None] = {}
        # The id of the stored conversation that the request names; the client chooses it.
        self.conversation = ""
        self._characters = 0
        self._calls: dict[str, str] = {}
        self._called_names: set[str] = set()
        # Whether the calls are in a stored conversation, and whether the model has read text from outside.
        self._kept = self._heard = False
        # Pieces of the current turn, with the key of each.
        self._source = ""
        self._pieces: list[str] = []
        self._keys: list[str] = []
        # Pieces of earlier turns in the same object of an unknown shape, where the keys change the source.
        self._before: list[tuple[str, str]] = []
        self._api = False
        # Where the first message of a user begins among the turns, the latest one, and the latest one with words.
        self._first_message = self._message = self._last_message = -1
        # Names whose value is no text, and other readings of a text, by source. They come last: between two texts they
        # would part these.
        self._asides: dict[str, dict[str, None]] = {}

    # --- turns

    def add_text(self, text: str, source: str, key: str = "") -> None:
        if source != self._source:
            self.end_turn(goes_on=source in _SHAPELESS and self._source in _SHAPELESS)
            self._source = source
        if text and not text.isspace():
            self._pieces.append(text)
            self._keys.append(key)
            if "<" in text:
                self._read_xml(text, source)

    def add_form_field(self, name: str, value: str, source: str) -> None:
        """Add one field of a form."""
        self.end_turn()
        words = self._note_name(name, value, "request")
        if words:
            self.add_text(words, "request", _A_NAME)
        self._note_unreadable(name.lower(), value)
        self._add_string(value, source, name.lower())
        self.end_turn()

    def add_body_text(self, text: str, source: str, *, xml: bool = False) -> None:
        """Add a text that is a whole body."""
        self.end_turn()
        self.add_text(text, source)
        if xml:
            self._read_xml(text, source, document=True)
        self.end_turn()

    def _read_xml(self, text: str, source: str, *, document: bool = False) -> None:
        """Read a text as an XML parser would join it, where that makes other words of it."""
        # A file that the client only shows may name a DTD as well, and no parser reads it.
        if document and needs_other_files(text):
            self.flags["opaque"] = None
        document = document or is_xml(text)
        self._note_aside(joined_text(text, document=document), source)
        if not document:
            return
        for words in attribute_texts(text):
            self._note_aside(words, source)
        if has_own_entities(text):
            self.flags["opaque"] = None

    def add_call(self, tool: str, arguments: Mapping[str, object]) -> None:
        self.end_turn()
        self._called_names.add(tool)
        text = "\n".join(_collect_strings(tool, arguments))
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
        """Add words that are cut in two over two parts: the model sees them whole, whatever stands in between."""
        alike: dict[str, list[str]] = {}
        for key, piece in self._before:
            if key == _A_NAME:
                continue
            alike.setdefault("text" if key in _PARTS else key, []).append(piece)
        self._before = []
        joined = ["".join(parts) for parts in alike.values() if any(_may_join(a[-1], b[0]) for a, b in pairwise(parts))]
        if joined:
            self._add_turn(Turn("text", source, "\n".join(joined), outside=outside))

    def _add_turn(self, turn: Turn) -> None:
        if len(self.turns) >= MAX_TURNS:
            raise UnreadableRequest("too-many-parts")
        # A verdict is always on all of a request, so a request too large to judge in one piece is refused.
        self._characters += len(turn.text) + _BETWEEN
        if self._characters > MAX_PROMPT_CHARACTERS:
            raise UnreadableRequest("too-much-text")
        if turn.source == "user":
            self._last_message = self._message
        self.turns.append(turn)

    def mark_earlier_messages(self) -> None:
        """Mark the words of users before the last message of a user; call it when all is read."""
        for place in range(max(0, self._first_message), self._last_message):
            if self.turns[place].source == "user":
                self.turns[place] = self.turns[place]._replace(earlier=True)

    # --- a JSON value

    def add_json(self, value: object, source: str = "request") -> None:
        """Add all texts of a JSON value. The stack is explicit, because the application's may be nearly full."""
        if isinstance(value, dict):
            self._api = "model" in value or "messages" in value
            self._kept = any(value.get(name) for name in _STORED_CONVERSATION)
            self.conversation = self.conversation or _conversation_id(value)
        if isinstance(value, str):
            source = "user" if source == "request" else source
        stack: list[_Inside] = [(value, source, "")]
        while stack:
            item, source, key = stack.pop()
            if isinstance(item, str):
                self._add_string(item, source, key)
            elif isinstance(item, dict):
                stack.extend(reversed(self._read_object(item, source, key)))
            elif isinstance(item, list):
                if _may_be_tokens(item, source, key):
                    self.flags["tokens"] = None
                stack.extend([(one, source, key) for one in reversed(item)])
        self.end_asides()
        self._api = False

    def end_asides(self) -> None:
        """End the turn, and add the names and other readings so far as turns of their own."""
        self.end_turn()
        if not self._asides:
            return
        noted, self._asides = self._asides, {}
        for source, asides in noted.items():
            words = readable_names(asides)
            if self._characters + len(words) + _BETWEEN > MAX_PROMPT_CHARACTERS:
                # The request itself is not too large, so it is not refused; but not all of it is read.
                self.flags["opaque"] = None
            elif words:
                self.add_text(words, source, _A_NAME)
                self.end_turn()
        self._asides = {}

    def _note_name(self, name: str, value: object, source: str) -> str:
        """Return the words of a name that its text may go on with; remember those of any other name for the end."""
        words = name_words(name)
        if _goes_on(name, words, value):
            return words
        self._note_aside(words, FIELD_NAMES if source in _SHAPELESS else source)
        return ""

    def _note_aside(self, text: str, source: str) -> None:
        if text:
            self._asides.setdefault(source, {})[text] = None

    def _add_string(self, text: str, source: str, key: str) -> None:
        if self._api and key in SETTING_KEYS and _NAME.fullmatch(text):
            if words := phrase(text):
                self._note_aside(words, source)
            return
        if text[:5].lower() == "data:" and self._add_data_url(text, source, key):
            return
        if key in _BASE64_KEYS and len(text) >= 64 and self._add_base64(text, "", "", source):
            return
        if key == _SEALED and self._add_sealed(text, source):
            return
        self.add_text(text, source, key)

    def _add_base64(self, text: str, content_type: str, name: str, source: str) -> bool:
        """Add a file if the text is base64, and also its words if it could be both; return whether it is a file."""
        data = decode_base64(text)
        if not data or self._is_no_file(text, content_type, data, source):
            return False
        self.add_upload(name, content_type, data, source)
        # A long word without spaces decodes to something, too.
        doubtful = len(text) <= MAX_DOUBTFUL and self.uploads[-1].kind in ("binary", "text", "html")
        if not is_base64(text) or (doubtful and could_be_letters(data)):
            self.add_text(text, source)
        return True

    def _add_sealed(self, text: str, source: str) -> bool:
        """Add encrypted data: a file if it is of a known kind, else the words in it; return whether that is all."""
        data = decode_base64(text)
        if not data:
            return False
        if detect_kind(data) != "binary":
            return self._add_base64(text, "", "", source)
        self.add_text(printable_words(data, MAX_PROMPT_CHARACTERS)[0], source)
        return is_base64(text) and len(text) > MAX_DOUBTFUL

    def _is_no_file(self, text: str, content_type: str, data: bytes, source: str) -> bool:
        """Return whether base64 is only an address, a token or an id; a file of a known kind is always a file."""
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
        # An application may decode it all the same.
        for words in possible_texts(data)[0]:
            self.add_text(words, source)
        return True

    def _read_object(self, body: dict[str, Any], source: str, key: str) -> list[_Inside]:
        """Return what is inside an object, with its speaker; take out a call or a file that the object is."""
        kind = body.get("type")
        kind = kind.lower() if isinstance(kind, str) else ""
        outside = source.startswith(_OUTSIDE)
        if not outside and source != TOOL_DESCRIPTION:
            source, outside = self._speaker_of(body, kind, source, key)
        if kind in _FLAGS:
            self.flags[_FLAGS[kind]] = None
        taken = _NONE if outside else self._take_call(body, kind, key)
        taken = taken or self._take_file(body, source)
        inside: list[_Inside] = []
        for name, value in body.items():
            if name in taken:
                continue
            lower = name.lower()
            if lower not in KNOWN_NAMES:
                inside += self._words_before(name, value, source)
            if lower in _UNREADABLE_NAMES:
                self._note_unreadable(lower, value)
            # Only the model's provider can read sealed data: it is no file, and only letters to all other readers.
            sealed = kind == _SEALED and lower == "data"
            speaker = TOOL_DESCRIPTION if lower in _TOOLS and not outside else _speaker_under(lower, source, key)
            inside.append((value, speaker, _SEALED if sealed else lower))
        return inside

    def _note_unreadable(self, name: str, value: object) -> None:
        """Note content that only the model or its provider will see."""
        if value and name in _TOKEN_IDS:
            self.flags["tokens"] = None
        elif name in REFERENCE_NAMES and points_elsewhere(name, value):
            self.flags["opaque"] = None

    def _words_before(self, name: str, value: object, source: str) -> list[_Inside]:
        words = self._note_name(name, value, source)
        return [(words, source, _A_NAME if is_plain_name(name) else "")] if words else []

    def _speaker_of(self, body: dict[str, Any], kind: str, source: str, key: str) -> tuple[str, bool]:
        """Return whose words an object holds, and whether they come from outside the conversation."""
        role = body.get("role")
        if isinstance(role, str) and not body.keys().isdisjoint(_CONTENT_KEYS):
            self.end_turn()
            self._api = True
            source = self._speaker_from_role(role.lower(), body)
            if source == "user" and key in _MESSAGE_LISTS:
                self._note_message()
            if source.startswith(_OUTSIDE):
                return source, True
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

    def _note_message(self) -> None:
        self._message = len(self.turns)
        self._first_message = self._message if self._first_message < 0 else self._first_message

    def _speaker_from_role(self, role: str, body: dict[str, Any]) -> str:
        if role in _TOOL_ROLES:
            return self._tool_source(body)
        if role not in _ROLES:
            # An unknown role may be a retriever's.
            return source_name("document", body["role"])
        # An agent that has read text from outside may repeat it.
        return f"{_ECHO}:" if self._heard and _ROLES[role] == "agent" else _ROLES[role]

    def _tool_source(self, body: Mapping[str, object]) -> str:
        """Return the source of a tool's result. It answers a call by its id, or without an id by its name."""
        ids = [body[key] for key in ("tool_call_id", "tool_use_id", "call_id", "toolUseId") if key in body]
        called = next((self._calls[one] for one in ids if isinstance(one, str) and one in self._calls), "")
        name = body.get("name")
        answers = called or self._kept or (not ids and isinstance(name, str) and name in self._called_names)
        call = body.get("call")
        if not answers and not ids and isinstance(call, dict):
            # Cohere's results have the call inside.
            answers, name = True, call.get("name")
        return source_name(_ANSWER if answers else "tool", name or called)

    def _take_call(self, body: dict[str, Any], kind: str, under: str) -> frozenset[str]:
        """Add the call that an object is, if it is one; return the keys that the call has used."""
        if "name" not in body and "function" not in body and not kind.endswith("_call"):
            return _NONE
        self._remember_call(body, kind, under)
        if kind.endswith("_call") and isinstance(body.get("action"), dict):
            # The type is the tool's name: a computer, a shell.
            self.add_call(kind, body["action"])
            return frozenset(("action",))
        tool = body.get("name")
        key = _arguments_key(body, kind, under)
        if not isinstance(tool, str) or not key:
            return _NONE
        self.add_call(tool, _parse_arguments(body[key]))
        return frozenset(("name", key))

    def _remember_call(self, body: dict[str, Any], kind: str, under: str) -> None:
        """Remember a call's name and ids, so that its result can be told from a made-up one."""
        function = body.get("function")
        name = function.get("name") if isinstance(function, dict) else body.get("name") or kind
        if not isinstance(name, str):
            return
        if under in _CALLS:
            # Also a call without arguments.
            self._called_names.add(name)
        for key in ("id", "call_id", "toolUseId"):
            if isinstance(body.get(key), str):
                self._calls[body[key]] = name

    def _take_file(self, body: dict[str, Any], source: str) -> frozenset[str]:
        """Add a file that is base64 beside its type; return the key that it has used."""
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
        """Add the file of a data URL; return False if its letters may be words as well."""
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
            self._note_aside(phrase(declared_type.partition("/")[2]), source)
            self.add_upload(_document_name(source), declared_type, data, source)
        return bool(data) and plain and key in _FILE_KEYS and _MIME.fullmatch(declared) is not None


def _may_be_tokens(items: list[object], source: str, key: str) -> bool:
    """Return whether numbers stand in the place of words; those that a tool answers with are its results."""
    is_place = key in _MAY_BE_TOKENS and not source.startswith(f"{_ANSWER}:")
    return is_place and any(type(one) in (int, float) for one in items)


def _document_name(source: str) -> str:
    return source.partition(":")[2] if source.startswith(("document:", f"{_PAPER}:")) else ""


def _speaker_under(lower: str, source: str, key: str) -> str:
    """Return whose words stand under a key: outside of a chat's shape the key itself says so."""
    if source != "request":
        return source
    speaker = _KEYS.get(lower, source)
    # Below another key, `system` may be anything.
    return source if speaker == "system" and key else speaker


def _arguments_key(body: dict[str, Any], kind: str, under: str) -> str:
    """Return the key of a call's arguments, or an empty text: other objects with a name use these keys otherwise."""
    for key in ("arguments", "args", "input", "parameters"):
        if key not in body:
            continue
        if key == "input" and not (kind.endswith(("tool_use", "call")) or under == "tooluse"):
            continue
        if key == "parameters" and under not in ("tool_calls", "toolcalls", "call"):
            continue
        return key
    return ""


def _may_join(end: str, begin: str) -> bool:
    """Return whether two characters may stand side by side in one word; beyond ASCII some are invisible."""
    return (end.isalnum() or end > "\x7f") and (begin.isalnum() or begin > "\x7f")


def _parse_arguments(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        # A model's error in its own JSON must not end the conversation: then the arguments are one text.
        try:
            value = read_json(value) if value.lstrip()[:1] == "{" else value
        except UnreadableRequest as refusal:
            if refusal.refused.reason != "not-json":
                raise
    return value if isinstance(value, dict) else {"input": value}


def _goes_on(name: str, words: str, value: object) -> bool:
    """Return whether a sentence may begin in a name and go on in its value; an odd name is read at its place, too."""
    return not is_plain_name(name) or (isinstance(value, str) and " " in value and opens_order(words))


def _collect_strings(tool: str, arguments: object) -> list[str]:
    """Return the texts of a call: those of its arguments, then the names that no text stands under."""
    found: list[str] = []
    names = {name_words(tool): None} if name_words(tool) else {}
    stack: list[object] = [arguments]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, Mapping):
            inside: list[object] = []
            for key, value in item.items():
                words = name_words(key)
                if _goes_on(key, words, value):
                    inside.append(words)
                elif words:
                    names[words] = None
                inside.append(value)
            stack.extend(reversed(inside))
    listed = readable_names(names)
    return [*found, listed] if listed else found
