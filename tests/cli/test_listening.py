"""Sockets of server commands, and their orderly end."""

from __future__ import annotations

import os
import signal

import pytest

from lockgate.cli.listening import listening_error, open_listening_socket, socket_place, until_terminated


def test_a_socket_listens_where_it_says() -> None:
    with open_listening_socket("127.0.0.1", 0) as listening:
        host, port = socket_place(listening)
        assert host == "127.0.0.1"
        with pytest.raises(OSError) as caught:  # noqa: PT011
            open_listening_socket("127.0.0.1", port)
    told = listening_error(caught.value, "127.0.0.1", port)
    assert told.message.startswith(f"cannot listen on `127.0.0.1` port {port}: ")
    assert "(" not in told.message


def test_sigterm_ends_the_block_and_a_second_one_does_not_stop_the_closing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    closed: list[str] = []

    def close() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        closed.append("closed")

    with until_terminated(close):
        os.kill(os.getpid(), signal.SIGTERM)
        closed.append("went on")
    assert closed == ["closed"]
    assert signal.getsignal(signal.SIGTERM) is before
