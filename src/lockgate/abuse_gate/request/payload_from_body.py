"""Turns a request's body (JSON, form, multipart, text or file) into turns and files, and these into a payload.

1. The content type says how the body is divided, never whether it is read: JSON is JSON under any name.
2. A body that could be read in two ways is refused: two equal keys, an unknown charset, odd lines in a multipart body.
3. Every string counts as words. A known shape says whose; in unknown shapes the source is `request`.

All functions are pure and bounded by the size of the body. A body of many kilobytes can take milliseconds: on an event
loop, call them in a thread.
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
from lockgate.abuse_gate.request.name_words import phrase, phrase_in_path
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
TOKENS: Final = "token_list_noninterpretable"
UNREAD: Final = "artifact:unread"

_USERS_FIELDS: Final = frozenset("prompt prompt_text input message text query question q content user_input".split())


class NormalizedRequest(NamedTuple):
    """The content of a request. `flags` names the kinds of content that the gate cannot read.

    `conversation` is the id that the body gives its conversation, of the client's choice.
    """

    turns: tuple[Turn, ...]
    uploads: tuple[Upload, ...] = ()
    flags: tuple[str, ...] = ()
    conversation: str = ""


class InspectedUpload(NamedTuple):
    """The content of one upload: visible texts, hidden texts, and the rules that hit them.

    `rule_hits` and the names in `stats` are from fixed lists. `complete` is False if not all of it could be read.
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
    """Return the content of a request, or why it is refused."""
    reading = ConversationReader()
    try:
        _read_address(reading, path, query)
        if body:
            _read_body(reading, body, content_type)
        reading.end_asides()
        reading.mark_earlier_messages()
    except UnreadableRequest as refusal:
        return refusal.refused
    return NormalizedRequest(
        tuple(reading.turns), tuple(reading.uploads), tuple(sorted(reading.flags)), reading.conversation
    )


def payload_from_request(
    found: NormalizedRequest, inspected: Sequence[InspectedUpload] = (), *, context: PolicyContext | None = None
) -> Mapping[str, object]:
    """Return the payload for an adapter.

    All turns are in it. If the documents do not fit as well, a model sees their beginning, and a flag says so; the
    rules have seen all of them.
    """
    context = context or PolicyContext()
    texts = [turn.text for turn in found.turns]
    room = MAX_PROMPT_CHARACTERS - sum(len(text) + len(SEPARATOR) for text in texts)
    flags = list(dict.fromkeys(TOKENS if flag == "tokens" else OPAQUE for flag in found.flags))
    # Hidden text first: its author did not want people to see it.
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
    # An upload without a report was not inspected.
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
    phrase = phrase_in_path(unquote(path) if "%" in path else path)
    if phrase:
        reading.add_text(phrase, "request")
        reading.end_turn()
    if query:
        _read_fields(reading, _parse_form(query, "utf-8", "bad-query"))


def _read_body(reading: ConversationReader, body: bytes, content_type: str) -> None:
    media, given = _parse_content_type(content_type, "bad-content-type")
    charset = _require_charset(given.get("charset", ""))
    if media.startswith("multipart/"):
        _read_multipart(reading, body, given.get("boundary", ""), charset)
        return
    form = media == "application/x-www-form-urlencoded"
    json_type = media in ("application/json", "text/json") or media.endswith("+json")
    textual = form or json_type or media.startswith("text/")
    texts, whole = possible_texts(body, charset) if textual or _may_be_text(body) else ([], True)
    if textual and not whole:
        raise UnreadableRequest("bad-text")
    rest = _read_json_texts(reading, texts, json_type=json_type)
    if form:
        _read_fields(reading, _parse_form_readings(body, charset))
    elif rest or not texts:
        _read_rest(reading, body, media, rest, textual=textual, json_type=json_type)


def _read_json_texts(reading: ConversationReader, texts: Sequence[str], *, json_type: bool) -> dict[str, bool]:
    """Read the JSON in each reading of a body; return the readings that have other text, and whether they have JSON.

    Many applications read JSON from a body under any content type.
    """
    rest: dict[str, bool] = {}
    for number, text in enumerate(texts):
        values, only_json = _find_json(text, must=json_type and number == 0)
        for value in values:
            reading.add_json(value)
        if not only_json:
            rest[text] = bool(values)
    return rest


def _read_rest(
    reading: ConversationReader, body: bytes, media: str, rest: Mapping[str, bool], *, textual: bool, json_type: bool
) -> None:
    """Read a body that is not only JSON: as a text, as a file, or as both if an application could read either."""
    kind = detect_kind(body, media)
    for text, has_json in rest.items():
        if (textual and media != "text/html") or kind == "text" or (has_json and is_text(body)):
            xml = media.endswith(("/xml", "+xml"))
            reading.add_body_text(text, "user" if media.startswith("text/") else "request", xml=xml)
    if not json_type and kind != "text":
        reading.add_upload("", media, body)


def _may_be_text(data: bytes) -> bool:
    """Return whether an application may read bytes as text or JSON; the inspector finds the words in all others."""
    return is_text(data) or detect_kind(data) == "text" or _JSON_BYTES.match(data) is not None


_JSON_BYTES = re.compile(rb"[\x00\xff\xfe\xef\xbb\xbf\s]*+[{\[]")


def _parse_content_type(content_type: str, reason: str) -> tuple[str, dict[str, str]]:
    parsed = parse_parameters(content_type) if content_type.strip() else ("", dict[str, str]())
    if parsed is None:
        raise UnreadableRequest(reason)
    return parsed


def _find_json(text: str, *, must: bool) -> tuple[list[object], bool]:
    """Return the values that a parser may find in a text, and whether it is JSON and nothing else.

    Raise UnreadableRequest if it must be JSON and is not, or could be read in two ways.
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


def _parse_form(data: bytes, charset: str, reason: str = "bad-form") -> list[tuple[str, str]]:
    try:
        # Characters beyond ASCII may come unescaped, too.
        text = data.decode(charset)
        return parse_qsl(text, keep_blank_values=True, encoding=charset, errors="strict", max_num_fields=MAX_FIELDS)
    except (UnicodeError, ValueError):
        raise UnreadableRequest(reason) from None


def _parse_form_readings(data: bytes, charset: str) -> list[tuple[str, str]]:
    """Return the fields of a form in every way an application may read them: most ignore its charset."""
    fields = _parse_form(data, charset or "utf-8")
    if charset in ("", "utf-8"):
        return fields
    try:
        # Some decode first, others divide the bytes first.
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
    reading.end_asides()


def _read_field(reading: ConversationReader, name: str, value: str) -> None:
    values, strict = _find_json(value, must=False)
    begin = len(reading.turns)
    for inside in values:
        reading.add_json({name: inside})
    # Only a JSON body has a system turn: any client can claim one in a query or a form.
    for place, turn in enumerate(reading.turns[begin:], begin):
        if turn.source == "system":
            reading.turns[place] = turn._replace(source="request")
    if not strict:
        reading.add_form_field(name, value, "user" if name.lower() in _USERS_FIELDS else "request")


def _read_multipart(reading: ConversationReader, body: bytes, boundary: str, charset: str) -> None:
    listed, around = split_parts(body, boundary)
    for part in listed:
        _read_part(reading, part, charset)
    reading.end_asides()
    if around:
        # Most parsers skip text around the parts; reading it costs nothing.
        reading.add_text(around.decode("utf-8", "replace"), "request")
        reading.end_turn()


def _read_part(reading: ConversationReader, part: MultipartPart, overall: str) -> None:
    media, given = _parse_content_type(part.content_type, "bad-multipart")
    charset = _require_charset(given.get("charset", ""))
    for words in part.words:
        reading.add_text(words, "request")
    reading.end_turn()
    if part.filename is None and _read_form_part(reading, part, media, (charset, overall)):
        return
    for name in (phrase(part.name), part.filename):
        if name:
            reading.add_text(name, source_name("document", part.filename or part.name))
    reading.end_turn()
    reading.add_upload(part.filename or part.name, part.content_type, part.data)


def _read_form_part(reading: ConversationReader, part: MultipartPart, media: str, charsets: tuple[str, str]) -> bool:
    """Read a part without a file name as a form field; return whether that is all it can be.

    An application may take it for a user's words, whatever is in it. Some decode it with their form's overall charset.
    """
    charset, overall = charsets
    textual = not media or media == "application/json" or media.startswith("text/")
    if not textual:
        words = printable_words(part.data, MAX_PROMPT_CHARACTERS + 1)[0]
        if words or not part.data:
            _read_field(reading, part.name, words)
        return False
    texts, whole = possible_texts(part.data, charset)
    if media and not whole:
        raise UnreadableRequest("bad-text")
    if overall not in ("", "utf-8", charset):
        texts = list(dict.fromkeys((*texts, *possible_texts(part.data, overall)[0])))
    for text in texts:
        if text or not part.data:
            _read_field(reading, part.name, text)
    return whole and (is_text(part.data) or not part.data)
