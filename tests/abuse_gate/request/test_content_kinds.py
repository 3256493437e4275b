"""The kind of a file by its bytes, and bytes in every way they may be read as text."""

from __future__ import annotations

import base64

import pytest

from lockgate.abuse_gate.request.content_kinds import (
    decode_base64,
    decode_utf8_leniently,
    detect_kind,
    is_base64,
    is_plain_token,
    is_text,
    known_charset,
    possible_texts,
    printable_words,
)


@pytest.mark.parametrize(
    ("data", "declared", "kind"),
    [
        (b"%PDF-1.7", "image/png", "pdf"),
        (b"\x89PNG\r\n\x1a\n\x00%PDF-1.7", "", "pdf"),
        (b"PK\x03\x04word/document.xml PK\x05\x06", "", "docx"),
        (b"PK\x03\x04\x00", "", "archive"),
        (b"\x89PNG\r\n\x1a\n\x00", "", "image"),
        (b"RIFF\x00\x00\x00\x00WAVE\x00", "", "audio"),
        (b"hello", "image/png", "text"),
        (b"hello", "text/html", "html"),
        (b"<!DOCTYPE html>", "", "html"),
        (b"\x00\x01\x02", "image/png", "binary"),
    ],
)
def test_a_kind_is_in_the_bytes_and_not_in_the_client_s_word(data: bytes, declared: str, kind: str) -> None:
    assert detect_kind(data, declared) == kind


def test_a_text_is_read_in_every_charset_that_an_application_may_use() -> None:
    assert possible_texts(b"plain") == (["plain"], True)
    texts, whole = possible_texts("attack".encode("utf-16"))
    assert "attack" in texts
    assert whole
    texts, whole = possible_texts(b"caf\xe9")
    assert "café" in texts
    assert not whole
    assert "".join(letter for letter in decode_utf8_leniently(b"att\xffack") if letter.isascii()) == "attack"


def test_only_charsets_in_use_are_known() -> None:
    assert known_charset("UTF8") == "utf-8"
    assert known_charset("zlib") == known_charset("idna") == known_charset("") == ""


def test_words_are_found_among_bytes() -> None:
    assert printable_words(b"\x00\x01ignore this\x02" + "wide words".encode("utf-16-le"), 100) == (
        "ignore this wide words",
        True,
    )
    assert printable_words(b"abcdefgh", 4) == ("abcd", False)


def test_base64_is_told_from_words() -> None:
    text = base64.b64encode(bytes(range(256))).decode()
    assert decode_base64(text) == bytes(range(256))
    assert is_base64(text)
    assert decode_base64("these are words, and no base64 at all!") is None
    assert not is_base64("these are words")
    assert is_plain_token("ab" * 32)
    assert not is_text(b"a\x00b")
