"""A request's body to what it says: who said what in which order, which files came along, and what an adapter is asked.

1. The content type says how the body is divided, never whether it is read: JSON is JSON under any name.
2. Whatever could be read in two ways is refused: two equal keys, an unknown charset, a multipart body with odd lines.
3. Every string is somebody's words. Where a shape we know says whose, it is believed; where none does, it is `request`.

All of it is pure and bounded by the size of the body. It can take milliseconds for a body of many kilobytes: a caller
on an event loop gives those to a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from lockgate.abuse_gate.request.content_kinds import (
    decode_utf8_leniently,
    detect_kind,
    is_text,
    known_charset,
    possible_texts,
    printable_words,
)
from lockgate.abuse_gate.request.conversation import (
    SEPARATOR,
    ConversationReader,
    Turn,
    Upload,
    begins_like_json,
    source_name,
)
from lockgate.abuse_gate.request.json_body import (
    REFUSALS,
    RefusedRequest,
    UnreadableRequest,
    read_json,
    read_leniently,
)
from lockgate.abuse_gate.request.multipart import MultipartPart, parse_parameters, split_parts
from lockgate.core.requests.payload import MAX_META, MAX_PROMPT_CHARACTERS, MAX_RULE_HITS, MODALITIES, PolicyContext

__all__ = [
    "REFUSALS",
    "InspectedUpload",
    "NormalizedRequest",
    "RefusedRequest",
    "Turn",
    "Upload",
    "normalize",
    "payload_from_request",
]

MAX_FIELDS: Final = 1000
OPAQUE: Final = "opaque_media_noninterpretable"
UNREAD: Final = "artifact:unread"

_USERS_FIELDS: Final = frozenset("prompt prompt_text input message text query question q content user_input".split())


class NormalizedRequest(NamedTuple):
    """What a request says. `flags`: what nobody here can look into."""

    turns: tuple[Turn, ...]
    uploads: tuple[Upload, ...] = ()
    stream: bool = False
    flags: tuple[str, ...] = ()


class InspectedUpload(NamedTuple):
    """What is in one upload: what a reader sees, what is hidden from one, and what the rules say about both.

    `rule_hits` and the names in `stats` are from fixed lists. `complete` is False when not all of it could be read.
    """

    name: str
    kind: str
    texts: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    rule_hits: tuple[str, ...] = ()
    stats: Mapping[str, int] = {}
    complete: bool = True


def normalize(
    body: bytes, content_type: str, *, path: str = "", query: bytes = b""
) -> NormalizedRequest | RefusedRequest:
    """What a request says, or why it is not read."""
    reading = ConversationReader()
    stream = False
    try:
        _read_address(reading, path, query)
        if body:
            stream = _read_body(reading, body, content_type)
        reading.end_turn()
    except UnreadableRequest as refusal:
        return refusal.refused
    return NormalizedRequest(
        tuple(reading.turns), tuple(reading.uploads), stream, tuple(sorted(reading.flags)) if reading.flags else ()
    )


def payload_from_request(
    found: NormalizedRequest, inspected: Sequence[InspectedUpload] = (), *, context: PolicyContext | None = None
) -> Mapping[str, object]:
    """The payload that an adapter is asked about.

    All turns are in it. Of documents that do not fit as well, the rules have seen everything and a model sees the
    beginning, which a flag says.
    """
    context = context or PolicyContext()
    texts = [turn.text for turn in found.turns]
    room = MAX_PROMPT_CHARACTERS - sum(len(text) + len(SEPARATOR) for text in texts)
    flags = [OPAQUE] if found.flags else []
    # Hidden text first: it is what somebody did not want to be seen.
    for text in _document_texts(inspected):
        if len(text) + len(SEPARATOR) > room:
            text = text[: max(0, room - len(SEPARATOR))]
            flags.append("truncated")
            texts.append(text)
            break
        texts.append(text)
        room -= len(text) + len(SEPARATOR)
    sources = [
        {
            "type": one.kind,
            "rule_hits": list(one.rule_hits[:MAX_RULE_HITS]),
            "meta": dict([*one.stats.items()][:MAX_META]),
        }
        for one in inspected
    ]
    kinds = {"text", *found.flags, *(one.kind for one in inspected)}
    # An upload that nobody reported on has not been looked into.
    if len(inspected) < len(found.uploads):
        sources.append({"type": "binary", "rule_hits": [UNREAD]})
    return {
        "prompt_text": SEPARATOR.join(texts),
        "modalities": [modality for modality in MODALITIES if modality in kinds],
        "policy_context": {
            "pii_ruleset": context.pii_ruleset,
            "block_mode": context.block_mode,
            "override_mode": context.override_mode,
        },
        "ingress_flags": flags,
        "debug": {"sources": sources},
    }


def _document_texts(inspected: Iterable[InspectedUpload]) -> list[str]:
    listed = list(inspected)
    return [text for one in listed for text in one.hidden] + [text for one in listed for text in one.texts]


# --- the parts of a request


def _read_address(reading: ConversationReader, path: str, query: bytes) -> None:
    # A plain path is the app's own; one with anything else in it may be a question.
    if not _PLAIN_PATH.fullmatch(path):
        plain = unquote(path)
        if not _PLAIN_PATH.fullmatch(plain):
            reading.add_text(plain, "request")
            reading.end_turn()
    if query:
        _read_fields(reading, _parse_form(query, "utf-8"))


_PLAIN_PATH = re.compile("[A-Za-z0-9/_.:~-]*+")


def _read_body(reading: ConversationReader, body: bytes, content_type: str) -> bool:
    """Reads it; whether a stream was asked for."""
    media, given = _parse_content_type(content_type, "bad-content-type")
    if media.startswith("multipart/"):
        _read_multipart(reading, body, given.get("boundary", ""), _require_charset(given.get("charset", "")))
        return False
    charset = _require_charset(given["charset"]) if "charset" in given else ""
    form = media == "application/x-www-form-urlencoded"
    declared = media in ("application/json", "text/json") or media.endswith("+json")
    textual = form or declared or media.startswith("text/")
    texts, whole = possible_texts(body, charset) if textual or _may_be_text(body) else ([], True)
    if textual and not whole:
        raise UnreadableRequest("bad-text")
    if declared and len(texts) == 1:
        # Nearly all, and what follows comes to no more than this.
        value = read_json(texts[0])
        reading.add_json(value)
        return isinstance(value, dict) and value.get("stream") is True
    stream, strict = False, bool(texts)
    spoken = textual and media != "text/html"
    kind = ""
    for number, text in enumerate(texts):
        # An app may read JSON from a body whatever it is called, and many do.
        values, one = _find_json(text, must=declared and number == 0)
        strict = strict and one
        for value in values:
            reading.add_json(value)
            stream = stream or (isinstance(value, dict) and value.get("stream") is True)
        if one or form:
            continue
        kind = kind or detect_kind(body, media)
        if spoken or kind == "text" or (values and is_text(body)):
            reading.add_body_text(text, "user" if media.startswith("text/") else "request")
    if form:
        _read_fields(reading, _parse_form_readings(body, charset))
    elif not strict and not declared and kind != "text":
        # It can be a document to those who look at its bytes, and a text to those who do not.
        reading.add_upload("", media, body)
    return stream


def _may_be_text(data: bytes) -> bool:
    """Whether somebody may read it as a text, or as JSON; from other bytes the inspector takes what words there are."""
    return is_text(data) or detect_kind(data) == "text" or _JSON_BYTES.match(data) is not None


_JSON_BYTES = re.compile(rb"[\x00\xff\xfe\xef\xbb\xbf\s]*+[{\[]")


def _parse_content_type(content_type: str, reason: str) -> tuple[str, dict[str, str]]:
    if content_type == "application/json":
        # Nearly all.
        return content_type, {}
    parsed = parse_parameters(content_type) if content_type.strip() else ("", dict[str, str]())
    if parsed is None:
        raise UnreadableRequest(reason)
    return parsed


def _find_json(text: str, *, must: bool) -> tuple[list[object], bool]:
    """The values that a parser may find in a text, and whether it is JSON and nothing else.

    Raise UnreadableRequest where it must be that, and where two parsers could read it differently.
    """
    if not must and not begins_like_json(text):
        return [], False
    try:
        return [read_json(text)], True
    except UnreadableRequest as refusal:
        if must or refusal.refused.reason != "not-json":
            raise
        return read_leniently(text), False


def _require_charset(name: str) -> str:
    known = known_charset(name)
    if name and not known:
        raise UnreadableRequest("unknown-charset")
    return known


def _parse_form(data: bytes, charset: str) -> list[tuple[str, str]]:
    try:
        # Letters beyond ASCII may come as they are, too.
        text = data.decode(charset)
        return parse_qsl(text, keep_blank_values=True, encoding=charset, errors="strict", max_num_fields=MAX_FIELDS)
    except (UnicodeError, ValueError):
        raise UnreadableRequest("bad-form") from None


def _parse_form_readings(data: bytes, charset: str) -> list[tuple[str, str]]:
    """The fields of a form in every way in which somebody may read them: most apps do not look at its charset."""
    fields = _parse_form(data, charset or "utf-8")
    if charset in ("", "utf-8"):
        return fields
    try:
        # Those who decode first, and those who divide the bytes first.
        decoded = parse_qsl(
            data.decode(charset),
            keep_blank_values=True,
            encoding="utf-8",
            errors="surrogateescape",
            max_num_fields=MAX_FIELDS,
        )
        divided = parse_qsl(
            data.decode("latin-1"), keep_blank_values=True, encoding="latin-1", max_num_fields=MAX_FIELDS
        )
    except (UnicodeError, ValueError):
        raise UnreadableRequest("bad-form") from None
    found = dict.fromkeys((*fields, *decoded))
    for name, value in divided:
        names, values = _decodings(name.encode("latin-1"), charset), _decodings(value.encode("latin-1"), charset)
        found.update(dict.fromkeys((one, other) for one in names for other in values))
    return list(found)


def _decodings(data: bytes, charset: str) -> list[str]:
    return list(dict.fromkeys((decode_utf8_leniently(data), data.decode(charset, "replace"))))


def _read_fields(reading: ConversationReader, fields: Iterable[tuple[str, str]]) -> None:
    for name, value in fields:
        _read_field(reading, name, value)


def _read_field(reading: ConversationReader, name: str, value: str) -> None:
    values, strict = _find_json(value, must=False)
    begin = len(reading.turns)
    for inside in values:
        reading.add_json({name: inside})
    # Only a body has a system turn: what calls itself one in a query or a form is anybody's.
    for place, turn in enumerate(reading.turns[begin:], begin):
        if turn.source == "system":
            reading.turns[place] = turn._replace(source="request")
    if not strict:
        reading.add_form_field(name, value, "user" if name.lower() in _USERS_FIELDS else "request")


def _read_multipart(reading: ConversationReader, body: bytes, boundary: str, charset: str) -> None:
    listed, around = split_parts(body, boundary)
    for part in listed:
        _read_part(reading, part, charset)
    if around:
        # Most parsers skip it; to look at it costs nothing.
        reading.add_text(around.decode("utf-8", "replace"), "request")
        reading.end_turn()


def _read_part(reading: ConversationReader, part: MultipartPart, overall: str) -> None:
    media, given = _parse_content_type(part.content_type, "bad-multipart")
    charset = _require_charset(given.get("charset", ""))
    field = part.filename is None
    textual = not media or media == "application/json" or media.startswith("text/")
    texts, whole = possible_texts(part.data, charset) if (field and textual) or _may_be_text(part.data) else ([], True)
    if field and textual and overall not in ("", "utf-8", charset):
        # Some apps believe what is said about all parts.
        texts = list(dict.fromkeys((*texts, *possible_texts(part.data, overall)[0])))
    if field:
        # Whatever is in it, an app may take it for what somebody wrote.
        if media and textual and not whole:
            raise UnreadableRequest("bad-text")
        for text in texts if textual else [printable_words(part.data, MAX_PROMPT_CHARACTERS + 1)[0]]:
            if text or not part.data:
                _read_field(reading, part.name, text)
        if textual and whole and (is_text(part.data) or not part.data):
            return
    for name in (part.name, part.filename):
        if name and (name == part.filename or not name.isidentifier()):
            reading.add_text(name, source_name("document", part.filename or part.name))
    reading.end_turn()
    reading.add_upload(part.filename or part.name, part.content_type, part.data)
