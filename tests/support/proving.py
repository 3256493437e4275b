"""The service's proof to the hook, from the standard library alone: what the hook's own code is held against."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TOKEN = "lga_a-token-for-proofs-in-tests"


def hmac_of(token: str, *parts: str) -> str:
    return hmac.digest(sha256(token.encode()).digest(), "\n".join(parts).encode(), "sha256").hex()


def proof_for(authorization: str, token: str, status: int, body: bytes) -> str:
    """The header value that an answer needs to be believed by who sent this `Authorization`."""
    scheme, _nonce, _digest, signature = authorization.split(" ")
    assert scheme == "Lockgate"
    return hmac_of(token, "answer", signature, str(status), sha256(body).hexdigest())


def signed_by(token: str, head: bytes, body: bytes) -> bool:
    """Whether this token signed a request, with all of it that a program in between could change."""
    first, *lines = head.decode().split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    _, nonce, digest, signature = fields["authorization"].split(" ")
    forwarded = [fields.get(name, "") for name in ("x-lockgate-entrypoint", "x-lockgate-attended")]
    target = first.removesuffix(" HTTP/1.1")
    parts = ("question", nonce, target, *forwarded, sha256(body).hexdigest())
    return digest == sha256(body).hexdigest() and signature == hmac_of(token, *parts)


class Listening:
    """A program on a port: what it says at which path, which token it can prove, and what it was sent."""

    def __init__(self, said: dict[str, bytes], token: str = TOKEN) -> None:
        self.said, self.token, self.port = said, token, 0
        self.heard: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def listening(said: dict[str, bytes], token: str = TOKEN) -> Iterator[Listening]:
    there = Listening(said, token)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            there.heard.append(str(self.headers))
            body, given = there.said.get(self.path, b""), self.headers.get("authorization", "")
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if there.token and given:
                self.send_header("Lockgate-Proof", proof_for(given, there.token, 200, body))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        there.port = server.server_port
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield there
        finally:
            server.shutdown()
            thread.join()
