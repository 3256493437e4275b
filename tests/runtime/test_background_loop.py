from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from lockgate.runtime import background_loop
from lockgate.runtime.background_loop import BackgroundLoop


class Ends:
    """Notes that the loop has told its owner of its end, and in which order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.over = threading.Event()

    async def ending(self) -> None:
        self.said.append("ending")

    def ended(self) -> None:
        self.said.append("ended")
        self.over.set()


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def loop(ends: Ends) -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop(ends.ending, ends.ended)
    yield loop
    loop.stop(10)
    assert ends.over.wait(10)


def run(loop: BackgroundLoop, work: object) -> object:
    """The result of a coroutine on the loop."""
    return asyncio.run_coroutine_threadsafe(work, loop._loop).result(10)  # type: ignore[arg-type]


def test_work_is_done_on_a_thread_of_its_own(loop: BackgroundLoop) -> None:
    seen: list[str] = []
    done = threading.Event()
    assert loop.call(lambda: (seen.append(threading.current_thread().name), done.set()))
    assert done.wait(10)
    assert seen == ["lockgate-verifier"]
    assert loop.alive


def test_a_stopped_loop_cancels_its_tasks_and_says_that_it_is_gone(loop: BackgroundLoop, ends: Ends) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    started = asyncio.run_coroutine_threadsafe(wait(), loop._loop)
    run(loop, asyncio.sleep(0))
    loop.stop(10)
    assert cancelled.is_set()
    assert started.cancelled()
    assert ends.said == ["ending", "ended"]
    assert not loop.alive
    assert not loop.call(print)
    loop.stop(10)


def test_a_callback_that_ends_the_thread_ends_the_loop_and_not_its_owner(loop: BackgroundLoop, ends: Ends) -> None:
    def leave() -> None:
        raise SystemExit

    loop.call(leave)
    assert ends.over.wait(10)
    loop._thread.join(10)
    assert not loop.alive


def test_an_ending_that_hangs_or_fails_does_not_keep_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_loop, "UNWIND_S", 0.05)

    async def hang() -> None:
        await asyncio.sleep(60)

    async def fail() -> None:
        raise ZeroDivisionError

    for ending in (hang, fail):
        over = threading.Event()
        loop = BackgroundLoop(ending, over.set)
        loop.stop(10)
        assert over.is_set()
        assert not loop._thread.is_alive()


def test_callers_of_one_name_share_a_lookup_and_a_cancelled_one_leaves_it_to_the_others(
    loop: BackgroundLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    answer = threading.Event()

    def resolve(host: str, port: int, **_: object) -> list[str]:
        asked.append(host)
        assert answer.wait(10)
        return ["an address"]

    monkeypatch.setattr(background_loop.socket, "getaddrinfo", resolve)

    async def ask_thrice() -> list[object]:
        tasks = [asyncio.ensure_future(loop._loop.getaddrinfo("a.example", 443)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        answer.set()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    first, *others = run(loop, ask_thrice())  # type: ignore[misc]
    assert isinstance(first, asyncio.CancelledError)
    assert others == [["an address"]] * 2
    assert asked == ["a.example"]


def test_a_lookup_that_fails_fails_for_its_caller_and_is_tried_anew(
    loop: BackgroundLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(host: str, port: int, **_: object) -> None:
        raise socket.gaierror(-2, "not known")

    monkeypatch.setattr(background_loop.socket, "getaddrinfo", refuse)
    for _ in range(2):
        with pytest.raises(socket.gaierror):
            run(loop, loop._loop.getaddrinfo("a.example", 443))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_in_a_forked_child_the_loop_is_not_alive_and_stop_does_nothing(loop: BackgroundLoop) -> None:
    child = os.fork()
    if child == 0:
        alive = True
        try:
            alive = loop.alive
            loop.stop(10)
            loop.close_inherited_files()
        finally:
            os._exit(1 if alive else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The parent's loop goes on.
    assert run(loop, asyncio.sleep(0, "fine")) == "fine"


def test_connections_of_a_context_are_noted(loop: BackgroundLoop) -> None:
    async def connect(port: int) -> int:
        mine: list[asyncio.BaseTransport] = []
        background_loop.opened_connections.set(mine)
        transport, _ = await loop._loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        transport.abort()
        return len(mine)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert run(loop, connect(listener.getsockname()[1])) == 1
