"""The kind of a file, by its first bytes, and only then by its name and declared type; and bytes as text."""

from __future__ import annotations

import binascii
import codecs
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

# Opaque: the gate does not read them.
MEDIA: Final = ("image", "audio", "video")

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"BM", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"ID3", "audio"),
    (b"fLaC", "audio"),
    (b"OggS", "audio"),
    # Frames of MPEG audio and AAC, which have no header.
    *((bytes((0xFF, second)), "audio") for second in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2, 0xF1, 0xF9)),
    (b"#!AMR", "audio"),
    (b"\x1aE\xdf\xa3", "video"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image"),
    (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "image"),
    (b"\xff\x0a", "image"),
    (b"\x00\x00\x01\x00", "image"),
)
_TYPES: Final = {
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/html": "html",
    "application/xhtml+xml": "html",
}
# Charsets of texts that name none and are not UTF-8. All of them contain ASCII.
OLDER_CHARSETS: Final = ("cp1252", "shift_jis", "gb18030", "euc_kr", "big5", "cp1251", "koi8-r")
# The charsets in use. Another codec of a client's choice may take quadratic time, or be none for text.
_CHARSETS: Final = frozenset(
    "utf-8 utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be utf-7 ascii iso8859-1 iso8859-2 iso8859-5 iso8859-7"
    " iso8859-9 iso8859-15 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 koi8-r koi8-u shift_jis cp932"
    " euc_jp iso2022_jp gb2312 gbk gb18030 big5 euc_kr cp949 tis-620 cp874".split()
)
_MARKUP: Final = (
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<body",
    b"<div",
    b"<p>",
    b"<p ",
    b"<table",
    b"<style",
    b"<!--",
)


def detect_kind(data: bytes, content_type: str = "", name: str = "") -> str:
    """`pdf`, `docx`, `html`, `text`, `image`, `audio`, `video`, `archive` or `binary`."""
    # A file can be of two kinds at once, so kinds that hold words come first: a picture with a PDF behind its first
    # bytes opens as a PDF, and an archive is read from its end.
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if b"PK\x05\x06" in data[-65_600:]:
        return "docx" if b"word/document" in data or b"[Content_Types].xml" in data else "archive"
    if data[:4] == b"PK\x03\x04":
        return "archive"
    declared = content_type.partition(";")[0].strip().lower()
    # Before the first bytes: a picture has bytes that no text has.
    if is_text(data):
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
        named = name.lower().endswith((".html", ".htm", ".xhtml"))
        markup = _TYPES.get(declared) == "html" or named or start.startswith(_MARKUP)
        return "html" if markup or b"<html" in data[:4096].lower() else "text"
    media = _media_kind(data)
    if media:
        return media
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or declared.startswith("text/"):
        return "html" if _TYPES.get(declared) == "html" else "text"
    # The client's word does not make a file a picture: the gate does not read pictures.
    return "binary"


def _media_kind(data: bytes) -> str:
    """Return the kind of a media file by its first bytes; an empty text if it is none."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF":
        return {b"WEBP": "image", b"WAVE": "audio", b"AVI ": "video"}.get(data[8:12], "")
    if data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC"):
        return "audio"
    if data[4:8] == b"ftyp":
        return {b"M4A ": "audio", b"avif": "image", b"heic": "image"}.get(data[8:12], "video")
    return ""


def is_text(data: bytes) -> bool:
    """Return whether people could have written it: UTF-8, or an older charset without control characters."""
    if b"\x00" in data:
        return False
    return _is_utf8(data) or not data.translate(None, _NO_CONTROLS)


# All bytes but the controls that no text has.
_NO_CONTROLS: Final = bytes(byte for byte in range(256) if byte >= 0x20 or byte in b"\t\n\r\f\x1b")


def known_charset(name: str) -> str:
    """Return the codec of a charset in use, else an empty text."""
    try:
        known = codecs.lookup(name).name if name.isascii() and 0 < len(name) < 40 else ""
    except LookupError:
        return ""
    return known if known in _CHARSETS else ""


# --- bytes as text


def possible_texts(data: bytes, charset: str = "") -> tuple[list[str], bool]:
    """Return a text in every way an application may read it, and whether it is valid in its declared charset.

    A byte order mark or a declared charset can make another text of the same bytes, for readers that believe them.
    """
    odd = b"\x00" in data or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not odd and charset in ("", "utf-8"):
        # Nearly all texts.
        try:
            return [data.decode("utf-8").removeprefix("\ufeff")], True
        except UnicodeError:
            pass
    found: dict[str, None] = {}
    detected = json.detect_encoding(data)
    for name in (detected, charset):
        if name:
            with suppress(UnicodeError):
                found[data.decode(name).removeprefix("\ufeff")] = None
    whole = bool(found)
    if odd:
        # Without its zeros UTF-16 is ASCII again, in either byte order.
        found[data.replace(b"\x00", b"").decode("utf-8", "replace").removeprefix("\ufeff").lstrip("\ufffd")] = None
        if detected.startswith("utf-8"):
            found[data.decode("utf-16-le", "replace")] = None
    elif not _is_utf8(data):
        # As a decoder without a charset reads it.
        found[data.decode("latin-1")] = None
        # And as a decoder that skips invalid bytes.
        found[decode_utf8_leniently(data)] = None
    return list(found), whole


def decode_utf8_leniently(data: bytes) -> str:
    """Return bytes as UTF-8, with half a surrogate pair for each invalid byte.

    The scanner reads across those, as some decoders leave invalid bytes out and others put a sign there.
    """
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


# Runs of printable characters among other bytes, also with two bytes for each character.
_WORDS = re.compile(rb"[\x20-\x7e\t\r\n]{6,}+|(?>(?:[\x20-\x7e\t\r\n]\x00){6,})")
_STEP: Final = 65_536


def printable_words(data: bytes, most: int) -> tuple[str, bool]:
    """Return the printable words in a file of any format, and whether that is all of them."""
    pieces: list[str] = []
    size = 0
    for piece in _printable_runs(data):
        pieces.append(piece)
        size += len(piece) + 1
        if size > most:
            return " ".join(pieces)[:most], False
    return " ".join(pieces), True


def _printable_runs(data: bytes) -> Iterator[str]:
    # In steps: one long search would block all other threads. A word that a step cuts is whole in the next one.
    for start in range(0, len(data), _STEP):
        for match in _WORDS.finditer(data[start : start + _STEP + 1024]):
            yield match[0].replace(b"\x00", b"").decode("ascii")


_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_ONLY_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*+={0,2}+")


def decode_base64(text: str) -> bytes | None:
    """Return the bytes as a lenient decoder reads them; None if the text is words and no base64."""
    plain = text.translate({ord("-"): "+", ord("_"): "/"}).rstrip("=\r\n\t ")
    kept = _NOT_BASE64.sub("", plain)
    if len(plain) - len(kept) > len(plain) // 16:
        return None
    try:
        return binascii.a2b_base64(kept + "=" * (-len(kept) % 4))
    except ValueError:
        return None


def is_base64(text: str) -> bool:
    """Return whether a text is base64 as programs write it, without room for words: one line, or equal lines."""
    if _ONLY_BASE64.fullmatch(text):
        return True
    lines = text.split()
    if any(_ONLY_BASE64.fullmatch(line) is None for line in lines):
        return False
    return (
        len(lines[0]) >= 60
        and {len(line) for line in lines[:-1]} == {len(lines[0])}
        and len(lines[-1]) <= len(lines[0])
    )


# Texts that are no file, although a lenient decoder makes bytes of them.
_ADDRESS = re.compile(r"https?://[^\s\"<>]{1,8000}+", re.IGNORECASE)
_HASH = re.compile(r"(?:[0-9a-z-]{1,16}[:-])?[0-9a-fA-F]{64,256}+")
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{0,2000}+")
_SHORT: Final = 1024
# First bytes of packed files: they are files even if they are short.
_PACKED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd", b"\xd0\xcf\x11\xe0")


def is_web_address(text: str) -> bool:
    """Return whether a text is one http or https address."""
    return _ADDRESS.fullmatch(text) is not None


def is_plain_token(text: str) -> bool:
    """Return whether a text is a hash or a signed token."""
    return _HASH.fullmatch(text) is not None or _TOKEN.fullmatch(text) is not None


def is_short_and_opaque(text: str, data: bytes) -> bool:
    """Return whether a text that is not declared a file is too short for one: an id, a path, a cursor, a key."""
    return len(text) <= _SHORT and not data.startswith(_PACKED)


def could_be_letters(data: bytes) -> bool:
    """Return whether decoded bytes are no text: perhaps the base64 was a word."""
    return b"\x00" in data or not _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
