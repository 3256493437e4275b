"""Multipart bodies: parts as all parsers see them, and a refusal where parsers differ."""

from __future__ import annotations

import pytest

from lockgate.abuse_gate.request.json_body import UnreadableRequest
from lockgate.abuse_gate.request.multipart import MAX_PARTS, MultipartPart, parse_parameters, split_parts

HEAD = b'content-disposition: form-data; name="a"'


def body(*parts: bytes, end: bytes = b"--x--\r\n") -> bytes:
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + end


def test_parts_have_names_types_and_data() -> None:
    file = b'content-disposition: form-data; name="f"; filename="n.txt"\r\ncontent-type: text/plain\r\n\r\ndata'
    parts, around = split_parts(body(HEAD + b"\r\n\r\nvalue", file), "x")
    assert parts == [MultipartPart("a", None, "", b"value"), MultipartPart("f", "n.txt", "text/plain", b"data")]
    assert around == b""


def test_text_around_the_parts_is_returned() -> None:
    _, around = split_parts(b"before\r\n" + body(HEAD + b"\r\n\r\nv", end=b"--x--after"), "x")
    assert around.split() == [b"before", b"after"]


@pytest.mark.parametrize(
    "odd",
    [
        body(HEAD + b"\r\n\r\nv").replace(b"\r\n--x--", b"\n--x--"),
        body(HEAD + b"\r\n folded: yes\r\n\r\nv"),
        body(HEAD + b"\r\n" + HEAD + b"\r\n\r\nv"),
        body(HEAD + b"\r\ncontent-transfer-encoding: base64\r\n\r\nv"),
        body(HEAD + b"\r\ncontent-type: multipart/mixed\r\n\r\nv"),
        body(HEAD),
        body(HEAD + b"\r\n\r\nv", end=b""),
        b"",
    ],
    ids=["bare line end", "folded", "header twice", "encoded", "nested", "no end of head", "no end", "empty"],
)
def test_a_body_that_parsers_read_differently_is_refused(odd: bytes) -> None:
    with pytest.raises(UnreadableRequest, match="bad-multipart"):
        split_parts(odd, "x")


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(UnreadableRequest, match="too-many-parts"):
        split_parts(body(*[HEAD + b"\r\n\r\nv"] * (MAX_PARTS + 2)), "x")


def test_parameters_are_read_strictly() -> None:
    assert parse_parameters('Text/Plain; Charset="a\\"b"; x=1;') == ("text/plain", {"charset": 'a"b', "x": "1"})
    assert parse_parameters("text/plain; a=1; A=2") is None
    assert parse_parameters("text/plain; a") is None


def test_what_else_the_headers_of_a_part_say_is_kept() -> None:
    head = (
        b"Content-Disposition: form-data; name=f; filename=one.txt; filename*=UTF-8''two.txt; note=\"a few more words\""
        b"\r\nContent-Type: text/plain; charset=utf-8; said=all_of_this\r\nX-Note: do_as_told\r\nContent-Length: 4"
    )
    ((part,), _) = split_parts(body(head + b"\r\n\r\ndata"), "x")
    assert (part.name, part.filename) == ("f", "two.txt")
    assert set(part.words) == {
        "one.txt",
        "UTF-8",
        "note a few more words",
        "said all of this",
        "x note do as told",
    }
