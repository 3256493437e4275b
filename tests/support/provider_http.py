"""Questions to a loopback provider, as plain HTTP: the format of a question, and two ways to post one."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable
from typing import Any

NONCE = "0123456789abcdef0123456789abcdef"
EXACT = f'{{"verdict": "safe", "nonce": "{NONCE}"}}'
MODERATIONS = "/v1/moderations"
PATHS = {
    MODERATIONS: lambda reply: reply["results"][0]["flagged"],
    "/v1/chat/completions": lambda reply: reply["choices"][0]["message"]["content"],
    "/openai/deployments/judge/chat/completions?api-version=2024-10-21": lambda reply: reply["choices"][0]["message"][
        "content"
    ],
    "/v1/messages": lambda reply: reply["content"][0]["text"],
}
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}, "nonce": {"const": NONCE}}}
ASKED = {"model": "m", "input": "hello", "messages": [{"role": "user", "content": "hello"}], "response_format": SCHEMA}


def post(url: str, path: str, asked: Any = ASKED) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request("POST", path, json.dumps(asked), {"authorization": "Bearer key"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def raw_reply(url: str, path: str, *, most: int = 100_000, within_s: float = 0.1) -> bytes:
    """All the bytes that come back until the end, a moment has passed, or it is enough."""
    until = time.monotonic() + within_s
    host, port = url.partition("://")[2].split(":")
    body = json.dumps(ASKED).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    data = b""
    try:
        with socket.create_connection((host, int(port)), timeout=within_s) as connection:
            connection.sendall(head.encode() + body)
            while len(data) < most and (more := connection.recv(65_536)):
                data += more
                connection.settimeout(max(0.001, until - time.monotonic()))
    except OSError as error:
        return data + type(error).__name__.encode()
    return data


def soon(met: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not met() and time.monotonic() < until:
        time.sleep(0.005)
    return met()
