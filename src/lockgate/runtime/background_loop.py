"""An event loop on a daemon thread of its own, for work that must not depend on anybody else's loop or thread.

It is made to be lost: the process may fork, exit, or close every file it did not open, and the thread may die. What
remains true is that `alive` says so, that nobody waits for it for ever, and that a forked child lets go of the
parent's connections without touching them.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

# How long the thread gives work that was cancelled to end, when it stops.
UNWIND_S = 0.5

# The connections opened on behalf of whoever set this: asked for by name, because the HTTP library forgets the
# connection when a caller is cancelled in the middle of its TLS handshake.
opened_connections: ContextVar[list[asyncio.BaseTransport] | None] = ContextVar("opened", default=None)


class BackgroundLoop:
    """A running loop. `ending` is awaited on it before it closes, `ended` called when it is gone, whatever happened."""

    def __init__(self, ending: Callable[[], Awaitable[None]], ended: Callable[[], None]) -> None:
        self._ending = ending
        self._ended = ended
        self._pid = os.getpid()
        self._stopping = False
        self._loop = _SelectorLoop()
        self._thread = threading.Thread(target=self._run, name="lockgate-verifier", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._loop.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it takes more work; also asked on the loop itself."""
        return not self._stopping and self._thread.is_alive() and self._pid == os.getpid()

    def call(self, function: Callable[..., object], *args: object) -> bool:
        """Have `function` called on the loop, from any thread; False when the loop is gone.

        Takes no lock: the garbage collector may bring a caller here in the middle of anything.
        """
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return True

    def stop(self, wait_s: float = 0.0) -> None:
        """Cancel what is under way and end the thread, waiting for it at most so long."""
        if self._pid != os.getpid():
            return
        self.call(self._loop.stop)
        if wait_s > 0 and self._thread is not threading.current_thread():
            self._thread.join(wait_s)

    def close_inherited_files(self) -> None:
        """In a forked child: close our copies of the parent's files, and nothing else.

        The thread is not here, and the loop must not be closed: that would take the parent's connections out of the
        kernel's poll set, which parent and child share.
        """
        self._loop.close_sockets()

    def _run(self) -> None:
        try:
            with suppress(BaseException):  # a callback that raised SystemExit, a file closed under us: it ends here
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
    """A loop that keeps hold of its sockets and resolves names without an executor.

    The interpreter waits for executor threads when it exits, and a lookup cannot be interrupted: a resolver that
    hangs would hold up the exit. Lookups have daemon threads, one for each name at a time.
    """

    def __init__(self) -> None:
        self._poll = selectors.DefaultSelector()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lookups: dict[object, asyncio.Future[Callable[[], Any]]] = {}
        super().__init__(self._poll)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        key = (host, port, *sorted(options.items()))
        lookup = self._lookups.get(key)
        # The thread first: when none can be started nobody must find a lookup that never ends. Its result comes
        # through the loop, so not before the next line.
        if lookup is None:
            threading.Thread(
                target=self._resolve_in_thread, args=(key, host, port, options), name="lockgate-lookup", daemon=True
            ).start()
            lookup = self._lookups[key] = self.create_future()
        # Shielded: the others who want this name still do when one of them is cancelled.
        return (await asyncio.shield(lookup))()

    def _resolve_in_thread(self, key: object, host: Any, port: Any, options: dict[str, Any]) -> None:
        try:
            found = socket.getaddrinfo(host, port, **options)
        except Exception as error:  # noqa: BLE001 - raised again on the loop, for every caller who asked
            failure = error
            result = lambda: _raise(failure)  # noqa: E731
        else:
            result = lambda: found  # noqa: E731
        with suppress(RuntimeError):  # the loop is gone, and so is whoever asked
            self.call_soon_threadsafe(self._finish_lookup, key, result)

    def _finish_lookup(self, key: object, result: Callable[[], Any]) -> None:
        lookup = self._lookups.pop(key)
        if not lookup.done():
            lookup.set_result(result)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_options: Any
    ) -> tuple[asyncio.Transport, Any]:
        """To a numeric address, which is all the HTTP library asks for."""
        # The protocol has to be said: asyncio turns off the wait for fuller packets, 40 ms of every request, only then.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._sockets.add(sock)
        try:
            sock.setblocking(False)
            await self.sock_connect(sock, (host, port))
            transport, protocol = await super().create_connection(protocol_factory, sock=sock)
        except BaseException:
            sock.close()
            raise
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


def _raise(error: Exception) -> Any:
    # A fresh traceback every time: several callers may raise the one error.
    raise error.with_traceback(None)
