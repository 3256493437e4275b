"""An event loop on a daemon thread of its own, for work that must not depend on a caller's loop or thread.

The loop can be lost: the process may fork, exit, or close every file it did not open, and the thread may die. Then
`alive` says so, no caller waits for ever, and a forked child closes its copies of the parent's connections without
ending them.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakSet

from lockgate.runtime.worker_pool import JobResult, run_job

# How long cancelled tasks may take to end when the thread stops.
UNWIND_S = 0.5

# The connections opened in the current context. The HTTP library forgets a connection when its caller is cancelled in
# the middle of the TLS handshake; the client finds it here and aborts it.
opened_connections: ContextVar[list[asyncio.BaseTransport] | None] = ContextVar("opened", default=None)


class BackgroundLoop:
    """A running loop. `ending` is awaited on it before it closes; `ended` is always called when it is gone."""

    def __init__(self, ending: Callable[[], Awaitable[None]], ended: Callable[[], None]) -> None:
        self._ending = ending
        self._ended = ended
        self._pid = os.getpid()
        self._stopping = False
        self._loop = _SelectorLoop()
        self._thread = threading.Thread(target=self._run, name="lockgate-verifier", daemon=True)
        with ExitStack() as on_failure:
            on_failure.callback(self._loop.close)
            self._thread.start()
            on_failure.pop_all()

    @property
    def alive(self) -> bool:
        """Whether the loop takes more work; may be asked on the loop itself."""
        return not self._stopping and self._thread.is_alive() and self._pid == os.getpid()

    def call(self, function: Callable[..., object], *args: object) -> bool:
        """Call `function` on the loop, from any thread; return False if the loop is gone.

        Takes no lock: the garbage collector may bring a caller here in the middle of anything.
        """
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return True

    def stop(self, wait_s: float = 0.0) -> None:
        """Cancel all tasks and end the thread; wait for it at most `wait_s`."""
        if self._pid != os.getpid():
            return
        self.call(self._loop.stop)
        if wait_s > 0 and self._thread is not threading.current_thread():
            self._thread.join(wait_s)

    def close_inherited_files(self) -> None:
        """Close the child's copies of the parent's files, and nothing else.

        The loop itself must not be closed: parent and child share the kernel's poll set, and closing the loop would
        remove the parent's connections from it.
        """
        self._loop.close_sockets()

    def _run(self) -> None:
        try:
            with suppress(BaseException):  # a callback raised SystemExit, or another thread closed our files
                self._loop.run_forever()
            self._stopping = True
            self._loop.set_exception_handler(lambda _loop, _context: None)
            with suppress(BaseException):
                self._loop.run_until_complete(self._cancel_all())
            with suppress(BaseException):
                self._loop.close()
        finally:
            self._stopping = True
            self._ended()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_S)
        async with asyncio.timeout(UNWIND_S):
            await self._ending()
        await self._loop.shutdown_asyncgens()


class _SelectorLoop(asyncio.SelectorEventLoop):
    """A loop that remembers its sockets and resolves names without an executor.

    The interpreter waits for executor threads at exit, and a lookup cannot be interrupted: a hanging resolver would
    delay the exit. Here each name is looked up in a daemon thread of its own.
    """

    def __init__(self) -> None:
        self._poll = selectors.DefaultSelector()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lookups: dict[object, asyncio.Future[JobResult]] = {}
        super().__init__(self._poll)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        key = (host, port, *sorted(options.items()))
        lookup = self._lookups.get(key)
        # The thread first: if it cannot be started, no later caller may find a lookup that never ends. Its result
        # arrives through the loop, so not before the next line.
        if lookup is None:
            threading.Thread(
                target=self._resolve_in_thread, args=(key, host, port, options), name="lockgate-lookup", daemon=True
            ).start()
            lookup = self._lookups[key] = self.create_future()
        # Shielded: when one caller is cancelled, the others still wait for this name.
        return (await asyncio.shield(lookup))()

    def _resolve_in_thread(self, key: object, host: Any, port: Any, options: dict[str, Any]) -> None:
        result = run_job(partial(socket.getaddrinfo, host, port, **options))
        with suppress(RuntimeError):  # the loop and its callers are gone
            self.call_soon_threadsafe(self._finish_lookup, key, result)

    def _finish_lookup(self, key: object, result: JobResult) -> None:
        lookup = self._lookups.pop(key)
        if not lookup.done():
            lookup.set_result(result)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_options: Any
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a numeric address; the HTTP library asks for no other kind."""
        # With the protocol given, asyncio turns off the wait for fuller packets, which costs each request 40 ms.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._sockets.add(sock)
        with ExitStack() as on_failure:
            on_failure.callback(sock.close)
            sock.setblocking(False)
            await self.sock_connect(sock, (host, port))
            transport, protocol = await super().create_connection(protocol_factory, sock=sock)
            on_failure.pop_all()
        mine = opened_connections.get()
        if mine is not None:
            mine.append(transport)
        return transport, protocol

    def close_sockets(self) -> None:
        self.set_exception_handler(lambda _loop, _context: None)
        self._poll.close()
        for sock in (*self._sockets, getattr(self, "_ssock", None), getattr(self, "_csock", None)):
            if sock is not None:
                sock.close()


def is_on_event_loop() -> bool:
    """Return whether a loop runs in this thread: a caller that blocks would stop it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
