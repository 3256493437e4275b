"""Divides a multipart body into its parts, strictly: it refuses a body in which two parsers see different parts.

`payload_from_body.py` reads the parts and makes the payload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from lockgate.abuse_gate.request.json_body import UnreadableRequest
from lockgate.abuse_gate.request.name_words import phrase

MAX_PARTS: Final = 128
MAX_PART_HEADER_BYTES: Final = 8192

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf';\s*+({_WORD})\s*+=\s*+(?:"((?>(?:[^"\\]|\\.)*))"|([^\s;"]*+))\s*+')
_VALUE = re.compile(rf"\s*+({_WORD}(?:/{_WORD})?)\s*+")
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


_PARSED_HEADERS: Final = ("content-disposition", "content-type")
_KNOWN_PARAMETERS: Final = frozenset("name filename filename* charset boundary size".split())


class MultipartPart(NamedTuple):
    """One part; `words` is what else its headers say: a second file name, parameters and headers of its client."""

    name: str
    filename: str | None
    content_type: str
    data: bytes
    words: tuple[str, ...] = ()


def parse_parameters(header: str) -> tuple[str, dict[str, str]] | None:
    """Return a header's value and parameters, with names in lower case; None if it is malformed."""
    value = _VALUE.match(header)
    if value is None:
        return None
    found: dict[str, str] = {}
    at = value.end()
    while at < len(header):
        parameter = _PARAMETER.match(header, at)
        if parameter is None:
            # A trailing semicolon is common and harmless.
            return (value[1].lower(), found) if not header[at:].strip("; \t") else None
        name = parameter[1].lower()
        if name in found:
            return None
        quoted = parameter[2]
        # Browsers write a quotation mark as %22 and a backslash as itself; others escape both.
        found[name] = re.sub(r'\\(["\\])', r"\1", quoted) if quoted is not None else parameter[3]
        at = parameter.end()
    return value[1].lower(), found


def split_parts(body: bytes, boundary: str) -> tuple[list[MultipartPart], bytes]:
    """Return the parts, and the text around them, which some parsers do not skip."""
    if _BOUNDARY.fullmatch(boundary) is None:
        raise UnreadableRequest("bad-multipart")
    mark = b"--" + boundary.encode("ascii")
    # The first delimiter may open the body; each other one follows a line end.
    pieces = (b"\r\n" + body).split(b"\r\n" + mark)
    if len(pieces) - 2 > MAX_PARTS:
        raise UnreadableRequest("too-many-parts")
    # A parser that takes a bare line feed for a line end would see other parts.
    if len(pieces) < 2 or len((b"\n" + body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n" + mark)) != len(
        pieces
    ):
        raise UnreadableRequest("bad-multipart")
    first, *middle, last = pieces
    if last[:2] != b"--" or any(piece[:2] == b"--" for piece in middle):
        raise UnreadableRequest("bad-multipart")
    return [_parse_part(piece) for piece in middle], (first + b"\n" + last[2:]).strip()


def _parse_part(piece: bytes) -> MultipartPart:
    # White space may follow the delimiter on its line.
    line, found, rest = piece.partition(b"\r\n")
    if not found or line.strip(b" \t"):
        raise UnreadableRequest("bad-multipart")
    if rest[:2] == b"\r\n":
        head, data = b"", rest[2:]
    else:
        head, found, data = rest.partition(b"\r\n\r\n")
        if not found:
            raise UnreadableRequest("bad-multipart")
    if len(head) > MAX_PART_HEADER_BYTES:
        raise UnreadableRequest("bad-multipart")
    headers = _parse_headers(head)
    # Deprecated; most parsers ignore it and some obey it, so one part would be two texts.
    if headers.get("content-transfer-encoding", "binary").strip().lower() not in ("7bit", "8bit", "binary"):
        raise UnreadableRequest("bad-multipart")
    disposition = parse_parameters(headers.get("content-disposition", "attachment"))
    content_type = headers.get("content-type", "")
    if disposition is None or content_type.strip().lower().startswith("multipart/"):
        raise UnreadableRequest("bad-multipart")
    _, given = disposition
    filename = given.get("filename")
    extended = given.get("filename*")
    if extended is not None:
        filename = unquote(extended.rpartition("'")[2])
    return MultipartPart(given.get("name", ""), filename, content_type, data, _other_words(headers, disposition))


def _other_words(headers: Mapping[str, str], disposition: tuple[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return what the headers of a part say beside its name, file name and type: an application may use any of it."""
    typed = parse_parameters(headers.get("content-type", "")) or ("", {})
    found = [phrase(disposition[0]), phrase(typed[0].partition("/")[2])]
    # `X-Note: all of this` as one text, because a sentence may begin in the name.
    found += [phrase(key, value) for key, value in headers.items() if key not in _PARSED_HEADERS]
    for _, given in (disposition, typed):
        found += [phrase(name, value) for name, value in given.items() if name not in _KNOWN_PARAMETERS]
    if "filename*" in disposition[1]:
        # Some parsers take the one name, and some the other.
        _, given = disposition
        found += (given.get("filename", ""), given["filename*"].partition("'")[0])
    return tuple(dict.fromkeys(word for word in found if word))


def _parse_headers(head: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in head.split(b"\r\n") if head else ():
        name, colon, value = line.partition(b":")
        key = name.decode("latin-1").lower()
        # Parsers disagree about folded lines, bare line ends and repeated headers.
        if not colon or re.fullmatch(_WORD, key) is None or key in found or b"\n" in value or b"\r" in value:
            raise UnreadableRequest("bad-multipart")
        try:
            found[key] = value.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise UnreadableRequest("bad-multipart") from None
    return found
