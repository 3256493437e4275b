"""The metrics on an address of their own: what a proxy's clients can reach belongs to its upstream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from threading import Thread

from lockgate.runtime.metrics import METRICS

# A scraper that sends nothing must not hold its thread for ever.
_READ_S = 10.0


class _Handler(BaseHTTPRequestHandler):
    timeout = _READ_S
    server_version, sys_version = "lockgate", ""

    def do_GET(self) -> None:
        found = self.path.partition("?")[0] == "/metrics"
        body = METRICS.render().encode() if found else b"see /metrics\n"
        self.send_response(200 if found else 404)
        self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a scraper comes every few seconds."""


@contextmanager
def serve_metrics(address: str, port: int) -> Iterator[int]:
    """Answer GET /metrics there while the block runs; yield the port. Raise OSError where nothing can listen."""

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in address else AF_INET
        daemon_threads = True

    with Server((address, port), _Handler) as server:
        thread = Thread(target=server.serve_forever, name="lockgate-metrics", daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
