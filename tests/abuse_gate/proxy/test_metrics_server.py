from __future__ import annotations

import socket
from contextlib import closing
from http.client import HTTPConnection

import pytest

from lockgate.abuse_gate.proxy.metrics_server import serve_metrics


def get(port: int, path: str) -> tuple[int, str, bytes]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read()


def test_metrics_are_answered_while_the_block_runs_and_nothing_else_is() -> None:
    with serve_metrics("127.0.0.1", 0) as port:
        status, kind, body = get(port, "/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert b"# TYPE lockgate_verifier_requests_total counter" in body
        assert get(port, "/v1/chat")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_place_that_is_taken_is_an_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
        serve_metrics("127.0.0.1", taken.getsockname()[1]),
    ):
        pass
