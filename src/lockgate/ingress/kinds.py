"""What bytes are: by what they begin with first, and by what their sender calls them only then."""

from __future__ import annotations

import codecs
from typing import Final

# Opaque: nobody here looks into them.
MEDIA: Final = ("image", "audio", "video")
# What the inspector reads.
READABLE: Final = ("pdf", "docx", "html", "text")

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
    (b"\xff\xfb", "audio"),
    (b"\xff\xf3", "audio"),
    (b"\x1aE\xdf\xa3", "video"),
)
_TYPES: Final = {
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/html": "html",
    "application/xhtml+xml": "html",
}
# Those that people send; a codec by a stranger's choice may take the square of the size, or be none for text.
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


def kind_of(data: bytes, content_type: str = "", name: str = "") -> str:
    """`pdf`, `docx`, `html`, `text`, `image`, `audio`, `video`, `archive` or `binary`."""
    # A file can be two things at once, so what can hold words is asked about first: a picture with a PDF behind its
    # first bytes opens as a PDF, and an archive is read from its end.
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if b"PK\x05\x06" in data[-65_600:]:
        return "docx" if b"word/document" in data else "archive"
    if data[:4] == b"PK\x03\x04":
        return "archive"
    declared = content_type.partition(";")[0].strip().lower()
    # Two letters begin many a text too: a picture has bytes that no text has.
    for magic, kind in _MAGIC:
        if data.startswith(magic) and not _is_text(data):
            return kind
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return {b"WEBP": "image", b"WAVE": "audio"}.get(data[8:12], "video")
    if data[4:8] == b"ftyp":
        return {b"M4A ": "audio", b"avif": "image", b"heic": "image"}.get(data[8:12], "video")
    if _is_text(data):
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
        named = name.lower().endswith((".html", ".htm", ".xhtml"))
        markup = _TYPES.get(declared) == "html" or named or start.startswith(_MARKUP)
        return "html" if markup or b"<html" in data[:4096].lower() else "text"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or declared.startswith("text/"):
        return "html" if _TYPES.get(declared) == "html" else "text"
    # What its sender calls a picture is one only if it begins like one: nobody looks into pictures.
    return "binary"


def _is_text(data: bytes) -> bool:
    """Whether people could have written it: UTF-8, or letters of an older charset and nothing that steers a machine."""
    if b"\x00" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return not data.translate(None, _NO_CONTROLS)
    return True


# All bytes but the controls that no text has.
_NO_CONTROLS: Final = bytes(byte for byte in range(256) if byte >= 0x20 or byte in b"\t\n\r\f\x1b")


def known_charset(name: str) -> str:
    """The name of the codec for a charset that people use, else nothing."""
    try:
        known = codecs.lookup(name).name if name.isascii() and 0 < len(name) < 40 else ""
    except LookupError:
        return ""
    return known if known in _CHARSETS else ""
