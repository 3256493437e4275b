"""The socket that a server command listens on, and the orderly end of that command on SIGTERM."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockgate.core.errors import LockgateError, quoted

if TYPE_CHECKING:
    from types import FrameType


class Terminated(Exception):
    """SIGTERM arrived."""


def open_listening_socket(address: str, port: int) -> socket.socket:
    """Return a TCP socket that listens; raise OSError or UnicodeError where that is not possible."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    created = socket.create_server((address, port), family=family, backlog=2048)
    # asyncio sets TCP_NODELAY only if the socket names its protocol. Without it, the second part of an answer waits
    # for the client's acknowledgement of the first: 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=created.detach())


def listening_error(error: OSError | UnicodeError, address: str, port: int) -> LockgateError:
    """Return the error that tells a user why nothing listens there."""
    # Python appends the address in brackets, which our text has already.
    why = error.strerror.partition(" (")[0] if isinstance(error, OSError) and error.strerror else "no such address"
    return LockgateError(
        f"cannot listen on {quoted(address)} port {port}: {why.lower()}",
        hint="--host and --port choose another; `lockgate service status` says whether your service has it",
    )


def socket_place(listening: socket.socket) -> tuple[str, int]:
    """Return the address, in brackets if it is IPv6, and the port of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]" if ":" in host else host, port


def raise_terminated(_signal: int, _frame: FrameType | None) -> None:
    """Raise `Terminated`; a handler for SIGTERM."""
    raise Terminated


@contextmanager
def until_terminated(close: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Run the block until it ends or SIGTERM arrives, then call `close`, which no second SIGTERM interrupts.

    uvicorn shuts down on SIGTERM and then raises the signal again: by default that would end the process before
    `close` has run.
    """
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    except Terminated:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        close()
        signal.signal(signal.SIGTERM, before)
