"""A model provider on 127.0.0.1 that speaks the wire formats and misbehaves on demand."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self

from lockgate.core.errors import quoted
from lockgate.testing.faults import FAULT_TABLE, Exchange, ProviderFault
from lockgate.testing.formats import Json, dialect_from_path, error_reply, good_reply, verdict_object

MAX_REQUEST_BYTES: Final = 8 << 20
MAX_RECORDED: Final = 20_000

Say = Callable[[Json], str]


# A self-signed certificate for `localhost` and 127.0.0.1, valid until 2126, and its key. The key is public on purpose:
# a client that accepts this certificate has switched verification off.
_CERTIFICATE: Final = (
    "MIIBmDCCAT6gAwIBAgIUOxj7uLHwLZ/Ev8pJjAw/7D57ZmMwCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTA1NDg0"
    "MVoYDzIxMjYxMDIyMDU0ODQxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASkgR/EembxqIz6Gmlvtm7X"
    "z7tgxOPOO9k9TIIFBwf66FtOR1s3IJnEVHNnF3nEYS/EUKA7kuu1EklsYBpA6PoOo2wwajAdBgNVHQ4EFgQU7NbkURj1HHg3k7zIxcdFrX8QTkYw"
    "HwYDVR0jBBgwFoAU7NbkURj1HHg3k7zIxcdFrX8QTkYwGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0E"
    "AwIDSAAwRQIgSPytIXC5Ou9yQXEJIFGqGd/4fn8MH/KZ9PPqn22rDr4CIQCqltej/xg+EO7UU+j4EKzBUyGQWALf5306nsFOIYpoHQ=="
)
_CERTIFICATE_KEY: Final = (
    "MHcCAQEEIJyhjKH7Rv2/S9vRDDNpsK7fS/Xqkk9JNO5Ddi0RwsfAoAoGCCqGSM49AwEHoUQDQgAEpIEfxHpm8aiM+hppb7Zu18+7YMTjzjvZPUyC"
    "BQcH+uhbTkdbNyCZxFRzZxd5xGEvxFCgO5LrtRJJbGAaQOj6Dg=="
)


class Recorded(NamedTuple):
    """One request as it arrived: `path` with its query, header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    # The headers hold a key and the body a user's text; a failing assertion prints this.
    def __repr__(self) -> str:
        return f"Recorded({self.method} {self.path}, {len(self.body)} bytes)"


class LoopbackProvider:
    """A model provider on 127.0.0.1 that speaks the wire formats and misbehaves on demand.

    It answers OpenAI moderations and chat completions, Azure chat completions and Anthropic messages, chosen by the end
    of the path: `url`, `url + "/v1"` and any other prefix are good base URLs. Every key is accepted.

    `say`: what the model says, or a function of the request's JSON that returns it. One of `safe`, `unsafe` and
    `unclear` becomes the asked-for object with the question's own nonce; any other text is said as it is. None: `safe`.
    `flagged`, `scores`: what the moderation endpoint says. `delay_s`: how long each answer takes.
    `fault`: one of FAULTS, None, or a list of these to be met in turn, one per request, the last one for ever. Some
    faults are in the place itself (a closed port, a TLS port): read `url` again after setting one.

    All of these may be changed while it runs. `requests` holds what arrived, complete; `trapped` counts the requests
    that came because a client followed a redirect.

    It lives in one daemon thread and ends with its `with` block, or with `close()`, at the latest after `lifetime_s`. A
    connection ends when the client goes away, at the latest after `patience_s`.
    """

    def __init__(
        self,
        *,
        say: Say | str | None = None,
        fault: str | Sequence[str | None] | None = None,
        flagged: bool = False,
        scores: Mapping[str, float] | None = None,
        delay_s: float = 0.0,
        patience_s: float = 30.0,
        lifetime_s: float = 600.0,
    ) -> None:
        self.say = say
        self.flagged = flagged
        self.scores: Mapping[str, float] = scores or {}
        self.delay_s = delay_s
        self.requests: list[Recorded] = []
        self.trapped = 0
        self.connections = 0
        self.fault = fault
        self._patience_s = patience_s
        self._lifetime_s = lifetime_s
        self._ports: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def fault(self) -> str | None:
        """The fault of the next request."""
        return self._plan[0]

    @fault.setter
    def fault(self, fault: str | Sequence[str | None] | None) -> None:
        plan = [fault] if fault is None or isinstance(fault, str) else list(fault)
        for name in plan or [""]:
            if name is not None and name not in FAULT_TABLE:
                raise ValueError(
                    f"there is no fault called {quoted(name)}\nhint: lockgate.testing.FAULTS lists them all"
                )
        self._plan = plan

    @property
    def open_connections(self) -> int:
        """How many connections are open now; `connections` counts all there were."""
        return len(self._open)

    @property
    def url(self) -> str:
        """Where to point a client, without a slash at the end."""
        if not self._ports:
            raise RuntimeError("the provider is not running\nhint: use it in a `with` block, or call start()")
        fault = self.fault
        place = FAULT_TABLE[fault].url if fault else ""
        return (place or "http://127.0.0.1:{plain}").format_map(self._ports)

    def start(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the provider has been started before")
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="lockgate-loopback", daemon=True)
        self._thread.start()
        ready.wait()
        if not self._ports:
            self.close()
        return self

    def close(self) -> None:
        """End every connection, wait until all is gone, and raise what `say` raised, if it did. May be called twice."""
        if self._thread is None:
            return
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # its lifetime has just ended
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ports = {}
        broken, self._broken = self._broken, None
        if broken is not None:
            raise broken

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:  # noqa: BLE001 the caller of start() gets it
            self._broken = error
        finally:
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        # Errors in a connection are the fault under test, and not logged.
        self._loop.set_exception_handler(lambda *_: None)
        self._stop = asyncio.Event()
        plain = await asyncio.start_server(self._serve_connection, "127.0.0.1", 0, backlog=1024)
        tls = await asyncio.start_server(self._serve_connection, "127.0.0.1", 0, backlog=64, ssl=_tls_context())
        closed, full, *fillers = _dead_ends()
        try:
            sockets = {"plain": plain.sockets[0], "tls": tls.sockets[0], "closed": closed, "full": full}
            self._ports = {name: sock.getsockname()[1] for name, sock in sockets.items()}
            ready.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._lifetime_s)
        finally:
            for server in (plain, tls):
                await self._close_server(server)
            for sock in (closed, full, *fillers):
                sock.close()
            await self._end_all()

    async def _close_server(self, server: asyncio.Server) -> None:
        # asyncio forgets the socket of a connection that it accepted just before its server was closed. So we accept no
        # more, let asyncio finish with those that it has, and close the server then.
        with contextlib.suppress(NotImplementedError):  # Windows, where only the server can stop accepting
            for sock in server.sockets:
                asyncio.get_running_loop().remove_reader(sock.fileno())
        # The task of a new connection must run once: cancelled before that, it would leave its socket to the garbage
        # collector.
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()

    async def _end_all(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for writer in self._open:
                writer.transport.abort()
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed on the loop's next round

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            more = True
            while more:
                async with asyncio.timeout(self._patience_s):
                    more = await self._exchange(Exchange(reader, writer))
        except (OSError, EOFError, TimeoutError, ValueError):
            pass  # the client went away, or sent what is not HTTP
        finally:
            writer.close()
            try:
                async with asyncio.timeout(self._patience_s):
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                writer.transport.abort()
            finally:
                self._open.discard(writer)

    def _take_fault(self) -> ProviderFault | None:
        name = self._plan.pop(0) if len(self._plan) > 1 else self._plan[0]
        return FAULT_TABLE[name] if name else None

    async def _exchange(self, exchange: Exchange) -> bool:
        """One request; True when another may follow on the same connection."""
        planned = FAULT_TABLE[self.fault] if self.fault else None
        if planned is not None and planned.at_once:
            self._take_fault()
            await planned.act(exchange)
            return False
        head = await exchange.reader.readuntil(b"\r\n\r\n")
        request, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = request.split(" ")
        headers: dict[str, str] = {}
        for line in filter(None, lines):
            name, _, text = line.partition(":")
            name, text = name.strip().lower(), text.strip()
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        length = int(headers.get("content-length", "0"))
        if length > MAX_REQUEST_BYTES or "transfer-encoding" in headers:
            await exchange.reply(error_reply(None, 413), 413)
            return False
        if headers.get("expect", "").lower() == "100-continue":
            await exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await exchange.reader.readexactly(length)
        self.requests.append(Recorded(method, path, MappingProxyType(headers), body))
        del self.requests[:-MAX_RECORDED]
        if path.startswith("/trap/"):
            self.trapped += 1

        fault = self._take_fault()
        dialect = dialect_from_path(path)
        if dialect is None or method != "POST":
            await exchange.reply(error_reply(None, 404), 404)
            return True
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            await exchange.reply(error_reply(dialect, 400), 400)
            return True
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        exchange.dialect, exchange.asked, exchange.path, exchange.headers = dialect, asked, path, headers
        exchange.root = f"http://localhost:{self._ports['plain']}"
        try:
            said = self.say(asked) if callable(self.say) else self.say or "safe"
            if said in {"safe", "unsafe", "unclear"}:
                said = verdict_object(said, exchange.nonce)
        except Exception as error:  # noqa: BLE001 close() raises it in the caller's thread
            self._broken = self._broken or error
            await exchange.reply(error_reply(dialect, 500), 500)
            return False
        exchange.good = good_reply(dialect, asked, said, flagged=self.flagged, scores=self.scores)
        if fault is not None and not path.startswith("/trap/"):
            await fault.act(exchange)
            return False
        await exchange.reply(exchange.good)
        return headers.get("connection", "").lower() != "close"


@functools.cache
def _tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = ssl.DER_cert_to_PEM_cert(base64.b64decode(_CERTIFICATE))
    key = ssl.DER_cert_to_PEM_cert(base64.b64decode(_CERTIFICATE_KEY)).replace("CERTIFICATE", "EC PRIVATE KEY")
    # The ssl module reads a chain from a path only.
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder, "chain.pem")
        chain.write_text(pem + key, encoding="ascii")
        context.load_cert_chain(chain)
    return context


def _dead_ends() -> list[socket.socket]:
    """A port that is taken but closed, a listener whose queue is full, and what fills it."""
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(full.getsockname())
        fillers.append(filler)
    return [closed, full, *fillers]
