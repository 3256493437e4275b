"""One POST over a transport of the test's own; `tests/verifiers/test_client.py` has real servers."""

from __future__ import annotations

import asyncio
import logging
import ssl

import httpx2
import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.questions import NoAnswer, NoAnswerReason
from lockgate.runtime import http_post
from lockgate.runtime.http_post import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_PIECES,
    MAX_RECEIVED,
    MAX_REPLY,
    HttpReply,
    HttpRequest,
)

URL = "https://model.example/v1"


class Transport(httpx2.AsyncBaseTransport):
    """Answers each request with one reply, and keeps the request."""

    def __init__(self, *pieces: bytes, status: int = 200, **headers: str) -> None:
        self.sent: list[httpx2.Request] = []
        self.made = httpx2.Response(
            status, headers={name.replace("_", "-"): value for name, value in headers.items()}, stream=Pieces(pieces)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        await request.extensions["trace"]("http11.send_request_headers.started", {})
        return self.made


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        self.pieces, self.read, self.closed = pieces, 0, False

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        for piece in self.pieces:
            self.read += 1
            yield piece

    async def aclose(self) -> None:
        self.closed = True


def post(transport: Transport, *headers: tuple[str, str], left_s: float = 1.0) -> HttpReply | NoAnswer:
    request = HttpRequest(URL, headers, b"{}")
    return asyncio.run(http_post.post(transport, request, left_s, lambda: None))


def test_a_reply_comes_back_with_its_first_headers_in_lower_case() -> None:
    transport = Transport(b"sa", b"fe", X_Id="7")
    assert post(transport) == HttpReply(200, {"x-id": "7"}, b"safe")
    assert transport.made.stream.closed  # type: ignore[union-attr]


def test_what_frames_a_request_is_ours_and_no_providers() -> None:
    transport = Transport()
    post(transport, ("Accept-Encoding", "gzip"), ("Content-Length", "1"), ("x-key", "k"), left_s=0.25)
    headers = transport.sent[0].headers
    assert headers["accept-encoding"] == "identity"
    assert headers["content-length"] == "2"
    assert (headers["x-key"], headers["user-agent"], headers["x-lockgate-deadline-ms"]) == ("k", "lockgate", "250")


def test_the_caller_learns_when_the_question_is_about_to_be_sent() -> None:
    heard: list[int] = []
    asyncio.run(http_post.post(Transport(), HttpRequest(URL, (), b""), 1.0, lambda: heard.append(1)))
    assert heard == [1]


@pytest.mark.parametrize("value", ["canary\r\nx: 1", "", " canary", "canary\x00", "canary-schlüssel"])
def test_a_header_that_no_header_can_be_is_not_sent_and_not_logged(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = Transport()
    assert post(transport, ("x-key", value)) == NoAnswer(NoAnswerReason.INTERNAL)
    assert transport.sent == []
    assert "could not be sent" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("transport", "why"),
    [
        (Transport(status=302, location=URL), NoAnswerReason.REDIRECT),
        (Transport(b"x", content_encoding="gzip"), NoAnswerReason.MALFORMED_REPLY),
        (Transport(b"x" * MAX_REPLY, b"x"), NoAnswerReason.REPLY_TOO_LARGE),
        (Transport(*[b"x"] * (MAX_PIECES + 1)), NoAnswerReason.REPLY_TOO_LARGE),
        (Transport(**{f"h{n}": "x" for n in range(MAX_HEADERS + 1)}), NoAnswerReason.REPLY_TOO_LARGE),
        (Transport(h="x" * MAX_HEADER_BYTES), NoAnswerReason.REPLY_TOO_LARGE),
    ],
    ids=["redirect", "compressed", "long", "in pieces", "many headers", "long headers"],
)
def test_a_reply_past_a_cap_is_no_answer(transport: Transport, why: NoAnswerReason) -> None:
    assert post(transport) == NoAnswer(why)
    assert transport.made.stream.closed  # type: ignore[union-attr]


def test_a_reply_at_its_caps_is_one() -> None:
    said = post(Transport(*[b"x"] * MAX_PIECES))
    assert isinstance(said, HttpReply)
    assert len(said.body) == MAX_PIECES
    assert isinstance(post(Transport(b"x" * MAX_REPLY)), HttpReply)


def test_the_status_of_an_error_counts_without_its_body() -> None:
    for transport in (
        Transport(b"x", status=503, content_encoding="br"),
        Transport(b"x" * MAX_REPLY, b"x", status=503),
    ):
        said = post(transport)
        assert isinstance(said, HttpReply)
        assert (said.status, said.body) == (503, b"")


def test_an_undefined_version_is_malformed() -> None:
    transport = Transport(b"safe")
    transport.made.extensions["http_version"] = b"HTTP/7"
    assert post(transport) == NoAnswer(NoAnswerReason.MALFORMED_REPLY)


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (httpx2.ConnectError("x"), NoAnswerReason.NETWORK),
        (caused(httpx2.ConnectError("x"), ssl.SSLCertVerificationError()), NoAnswerReason.TLS),
        (caused(httpx2.ConnectError("x"), ssl.SSLEOFError()), NoAnswerReason.NETWORK),
        (httpx2.RemoteProtocolError("Server disconnected without a word"), NoAnswerReason.NETWORK),
        (httpx2.RemoteProtocolError("illegal status line"), NoAnswerReason.MALFORMED_REPLY),
        (ConnectionResetError(), NoAnswerReason.NETWORK),
        (httpx2.LocalProtocolError("x"), NoAnswerReason.INTERNAL),
        (httpx2.UnsupportedProtocol("x"), NoAnswerReason.INTERNAL),
        (ZeroDivisionError("the question itself"), NoAnswerReason.INTERNAL),
    ],
)
def test_an_error_has_one_reason_and_is_not_quoted(
    error: Exception, why: NoAnswerReason, caplog: pytest.LogCaptureFixture
) -> None:
    assert http_post.why_from_error(error) is why
    assert "the question itself" not in caplog.text


def test_a_connection_takes_so_many_bytes_after_each_request_and_no_more() -> None:
    class Endless:
        async def read(self, most: int) -> bytes:
            assert most <= http_post.SLICE
            return b"x" * most

        async def write(self, _: bytes) -> None:
            pass

    async def check() -> None:
        stream = http_post._MeteredStream(Endless())
        for _ in range(2):
            await stream.write(b"question")
            for _ in range(MAX_RECEIVED // http_post.SLICE):
                await stream.read(1 << 20)
        with pytest.raises(http_post._ReplyTooLarge) as raised:
            await stream.read(1 << 20)
        assert http_post.why_from_error(raised.value) is NoAnswerReason.REPLY_TOO_LARGE

    asyncio.run(check())


def test_the_library_is_muted_only_where_we_ask() -> None:
    http_post._mute_library_logs()
    record = logging.LogRecord("httpcore2.http11", logging.DEBUG, "", 1, "a header", (), None)
    assert http_post._LIBRARY_LOG_MUTE.filter(record)

    async def ask() -> bool:
        await http_post.post(Transport(), HttpRequest(URL, (), b""), 1.0, lambda: None)
        return http_post._LIBRARY_LOG_MUTE.filter(record)

    assert asyncio.run(ask()) is False


def test_a_context_is_made_once_and_verifies() -> None:
    context = http_post.tls_context()
    assert context is http_post.tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    with pytest.raises(InvalidConfig, match="holds no certificates"):
        http_post.tls_context("/nowhere/ca.pem")


def test_a_request_shows_neither_its_headers_nor_its_body() -> None:
    shown = repr(HttpRequest("https://api.example/v1", (("authorization", "Bearer key"),), b"question"))
    assert shown == "HttpRequest(url='https://api.example/v1', body=8 bytes)"
