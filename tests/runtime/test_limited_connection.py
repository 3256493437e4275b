"""A server that does not answer ends a statement; `tests/hosts` has a real one that stands still."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from threading import Thread

import pytest

psycopg = pytest.importorskip("psycopg")
from lockgate.runtime.limited_connection import LimitedConnection  # noqa: E402  # needs the driver


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that lets a client in, and answers nothing from then on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with listener.accept()[0] as link:
                link.recv(1024)
                # Authentication is done, and the server is ready.
                link.sendall(b"R" + struct.pack("!ii", 8, 0) + b"Z" + struct.pack("!i", 5) + b"I")
                while link.recv(1024):
                    pass

        server = Thread(target=greet)
        server.start()
        yield listener.getsockname()[1]
        server.join(10)


def test_a_statement_that_is_not_answered_ends_and_closes_the_connection(silent: int) -> None:
    place = f"postgresql://x@127.0.0.1:{silent}/x?sslmode=disable&gssencmode=disable"
    with LimitedConnection.connect(place, autocommit=True, connect_timeout=10) as db:
        db.limit_s = 0.2
        with pytest.raises(psycopg.OperationalError, match="does not answer"):
            db.execute("SELECT 1")
        assert db.closed
        # Closed by us, so it is not taken for one that the server ended, and nothing is tried again.
        assert not db.broken
