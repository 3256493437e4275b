"""MCP over streamable HTTP, as the far side of a checkpoint whose near side are pipes.

Every message of the client is one POST; what answers it, and what else the server has to say meanwhile, comes as JSON
or as a stream of events. In the handshake protocol there is a session, a stream of the server's own (GET), and an end
(DELETE); in the modern protocol each request stands for itself, and giving one up is closing its stream.

Nothing is followed elsewhere: a redirect could take the user's keys to another server.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from socket import SHUT_RDWR
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.errors import InvalidCall, InvalidConfig, printable
from lockgate.mcp import messages as wire
from lockgate.mcp.stdio import MAX_LINE

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger("lockgate.mcp")

_SESSION, _PROTOCOL = "mcp-session-id", "mcp-protocol-version"
# Which part of a request's parameters the modern protocol repeats in a header.
_NAMED = {wire.CALL: "name", "prompts/get": "name", "resources/read": "uri"}
_CONNECT_S, _QUICK_S = 15.0, 30.0
_RETRY_S, _MAX_TRIES = 1.0, 3
# Threads of requests under way: a client that asks more at once waits.
_MAX_OPEN = 64
_TOKEN = re.compile("[A-Za-z0-9_-]{1,80}")


_Key = tuple[str, object] | None


class OpenRequest(NamedTuple):
    """A request under way, and its answer as far as there is one."""

    modern: bool
    answer: list[httpx2.Response]
    given_up: Event


class HttpServer:
    """A server behind a URL. `deliver` gets each of its messages as a line; call `close` at the end."""

    def __init__(
        self, url: str, headers: Sequence[tuple[str, str]], deliver: Callable[[bytes], None], *, ca_file: str = ""
    ) -> None:
        import ssl

        import httpx2

        try:
            trusted = ssl.create_default_context(cafile=ca_file or None)
        except OSError as error:
            raise InvalidConfig(f"the authorities cannot be read: {(error.strerror or 'unknown').lower()}") from error
        self._url = url
        self._deliver = deliver
        self._http = httpx2.Client(
            headers=[("user-agent", "lockgate"), *headers],
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8),
            verify=trusted,
            follow_redirects=False,
            # Nothing of the environment decides where the user's keys go.
            trust_env=False,
        )
        self._session = self._version = ""
        self._params: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self._open: dict[tuple[str, object], OpenRequest] = {}
        self._lock = Lock()
        self._over = Event()
        self._listening = False

    def send(self, line: bytes, message: object) -> None:
        """Send one message, or one batch. Requests do not wait for each other; everything else keeps its order."""
        items = [item for item in (message if isinstance(message, list) else [message]) if isinstance(item, dict)]
        requests = [item for item in items if "method" in item and wire.id_key(item.get("id")) is not None]
        methods = {item.get("method") for item in items}
        if not requests:
            if wire.CANCELLED in methods and self._cancel_request(items[0]):
                return
            self._exchange(line, items, [], None)
            if "notifications/initialized" in methods:
                self._start_listening()
            return
        while len(self._open) >= _MAX_OPEN and not self._over.wait(0.01):
            pass
        key = wire.id_key(requests[0]["id"])
        assert key is not None  # noqa: S101
        if wire.INITIALIZE in methods:
            # A new beginning: nothing of an earlier one belongs to it.
            self._session = self._version = ""
        under_way = OpenRequest(_version(requests[0]) != "", [], Event())
        with self._lock:
            self._open[key] = under_way

        def run() -> None:
            try:
                self._exchange(line, items, requests, under_way)
            finally:
                with self._lock:
                    if self._open.get(key) is under_way:
                        del self._open[key]

        Thread(target=run, daemon=True).start()

    def _exchange(
        self, line: bytes, items: list[wire.Message], requests: list[wire.Message], under_way: OpenRequest | None
    ) -> None:
        """One POST and all that comes of it; a request that gets no answer gets an error of ours."""
        ids = {wire.id_key(each["id"]): each["id"] for each in requests}

        def take(data: bytes) -> None:
            for answered in self._take_event(
                data, first=bool(requests) and requests[0].get("method") == wire.INITIALIZE
            ):
                ids.pop(answered, None)

        error: wire.Message = {"code": wire.FAILED}
        try:
            why = self._post(line, items, take, ids, under_way)
        except ServerRefusal as refused:
            why, error = refused.said, refused.error
        except Exception as broken:  # noqa: BLE001  # whatever it is, the client must not wait for ever
            why = f"the server cannot be reached: {type(broken).__name__}"
        if why and not requests:
            _log.warning("a message to the server was not taken: %s", why)
        if under_way is None or not under_way.given_up.is_set():
            for id in ids.values():
                said = {"message": f"{why or 'the server gave no answer'} (lockgate mcp)", **error}
                self._deliver(wire.line_of({"jsonrpc": "2.0", "id": id, "error": said}))

    def _post(
        self,
        line: bytes,
        items: list[wire.Message],
        take: Callable[[bytes], None],
        ids: Mapping[_Key, object],
        under_way: OpenRequest | None,
    ) -> str:
        """Why there may be no answer; nothing where all went well."""
        import httpx2

        wait = httpx2.Timeout(None, connect=_CONNECT_S) if ids else httpx2.Timeout(_QUICK_S)
        last = ""
        with self._http.stream(
            "POST", self._url, content=line.strip(), headers=self._headers(items), timeout=wait
        ) as response:
            if under_way is not None:
                under_way.answer.append(response)
                # The client may have cancelled before there was a response to close.
                if under_way.given_up.is_set():
                    return "given up"
            status, kind = response.status_code, response.headers.get("content-type", "").partition(";")[0].strip()
            if items and items[0].get("method") == wire.INITIALIZE and response.headers.get(_SESSION):
                self._session = response.headers[_SESSION]
            if status >= 300:
                raise _refusal_from(response, known=bool(self._session))
            if status == 202 or not ids:
                return "the server took it and answers nothing" if ids else ""
            if kind.lower() == "application/json":
                take(_read_body(response))
                return ""
            if kind.lower() != "text/event-stream":
                return f"the server answered with {printable(kind) or 'nothing that says what it is'}"
            try:
                for event in _events(response):
                    last = event.id or last
                    if event.data:
                        take(event.data)
                    if not ids:
                        return ""
            except httpx2.HTTPError:
                if not last:
                    raise
        # The stream ended early; one that numbers its events can be gone on with.
        return self._resume_stream(take, ids, last) if last else "the stream ended without an answer"

    def _resume_stream(self, take: Callable[[bytes], None], ids: Mapping[_Key, object], last: str) -> str:
        import httpx2

        for _ in range(_MAX_TRIES):
            if self._over.wait(_RETRY_S):
                break
            with (
                suppress(httpx2.HTTPError),
                self._http.stream("GET", self._url, headers=self._session_headers(last)) as response,
            ):
                if response.status_code != 200:
                    break
                for event in _events(response):
                    last = event.id or last
                    if event.data:
                        take(event.data)
                    if not ids:
                        return ""
        return "the stream ended without an answer, and could not be gone on with"

    def _take_event(self, data: bytes, *, first: bool) -> list[_Key]:
        """Deliver what the server said as one line; the ids of what it answered."""
        try:
            message = wire.read_loosely(data.replace(b"\r", b" ").replace(b"\n", b" "))
        except InvalidCall:
            message = None
        if message is None:
            # Not repaired here: the checkpoint says what is wrong with it.
            self._deliver(data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
            return [wire.id_key(id) for id in wire.ids_answered_by(data)]
        items = [item for item in (message if isinstance(message, list) else [message]) if isinstance(item, dict)]
        for item in items:
            result = item.get("result")
            if isinstance(result, dict):
                if first and isinstance(result.get("protocolVersion"), str):
                    self._version = str(result["protocolVersion"])[:40]
                if b"x-mcp-header" in data and isinstance(result.get("tools"), list):
                    self._params |= _param_headers(result["tools"])
        # JSON has line ends between its parts only, never inside a text.
        self._deliver(data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        return [wire.id_key(item.get("id")) for item in items if "method" not in item]

    def _session_headers(self, last: str = "") -> dict[str, str]:
        headers = {"accept": "text/event-stream"}
        if self._session:
            headers[_SESSION] = self._session
        if self._version:
            headers[_PROTOCOL] = self._version
        if last:
            headers["last-event-id"] = last
        return headers

    def _headers(self, items: list[wire.Message]) -> dict[str, str]:
        headers = self._session_headers() | {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        message = items[0] if len(items) == 1 else {}
        method, params = message.get("method"), message.get("params")
        version = _version(message)
        if not version or not isinstance(method, str) or not isinstance(params, dict):
            return headers
        headers |= {_PROTOCOL: _header_value(version), "mcp-method": _header_value(method)}
        name = params.get(_NAMED.get(method, ""))
        if isinstance(name, str):
            headers["mcp-name"] = _header_value(name)
        if method == wire.CALL and isinstance(name, str):
            for path, token in self._params.get(name, ()):
                value: object = params.get("arguments")
                for part in path:
                    value = value.get(part) if isinstance(value, dict) else None
                if isinstance(value, bool):
                    headers[f"mcp-param-{token}"] = str(value).lower()
                elif isinstance(value, str | int | float):
                    headers[f"mcp-param-{token}"] = _header_value(str(value))
        return headers

    def _cancel_request(self, message: wire.Message) -> bool:
        """In the modern protocol a request is given up by closing its stream: then there is nothing to send."""
        params = message.get("params")
        key = wire.id_key(params.get("requestId")) if isinstance(params, dict) else None
        with self._lock:
            under_way = self._open.get(key) if key is not None else None
        if under_way is None or not under_way.modern:
            return not self._session and not self._version
        under_way.given_up.set()
        for response in under_way.answer:
            _hang_up(response)
        return True

    def _start_listening(self) -> None:
        """Handshake protocol: what the server has to say by itself comes on a stream of its own, if it has one."""
        if self._listening:
            return
        self._listening = True
        Thread(target=self._read_server_stream, daemon=True).start()

    def _read_server_stream(self) -> None:
        import httpx2

        last, tries = "", 0
        while tries < _MAX_TRIES and not self._over.is_set():
            try:
                with self._http.stream("GET", self._url, headers=self._session_headers(last)) as response:
                    if response.status_code != 200:
                        return
                    for event in _events(response):
                        last, tries = event.id or last, 0
                        if event.data:
                            self._take_event(event.data, first=False)
            except (httpx2.HTTPError, RuntimeError, OSError):
                pass
            tries += 1
            self._over.wait(_RETRY_S)

    def wait(self, seconds: float) -> None:
        """Until nothing is under way any more, but no longer than this."""
        for _ in range(int(seconds * 100)):
            if not self._open or self._over.wait(0.01):
                return

    def close(self) -> None:
        self._over.set()
        with suppress(Exception):
            if self._session:
                self._http.delete(self._url, headers=self._session_headers(), timeout=2.0)
        with suppress(Exception):
            self._http.close()


class ServerRefusal(Exception):
    def __init__(self, said: str, **error: object) -> None:
        super().__init__(said)
        self.said = said
        self.error: wire.Message = {"code": wire.FAILED, **error}


def _hang_up(response: httpx2.Response) -> None:
    """End a stream that another thread may wait on: a socket that is only closed stays open until that one wakes."""
    with suppress(Exception):
        response.extensions["network_stream"].get_extra_info("socket").shutdown(SHUT_RDWR)
    with suppress(Exception):
        response.close()


def _refusal_from(response: httpx2.Response, *, known: bool) -> ServerRefusal:
    """What an answer that is no success means; what the server itself says of it goes to the client as it is."""
    status = response.status_code
    if status < 400:
        where = printable(response.headers.get("location", ""), 200)
        return ServerRefusal(f"the server wants to be called at {where or 'another address'}, which is not followed")
    with suppress(Exception):
        told: object = json.loads(_read_body(response, 1 << 20))
        error = told.get("error") if isinstance(told, dict) else None
        if isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
            # The server's own words, as they are: clients know what to do about some of them.
            return ServerRefusal(error["message"][:200], **error)
    if status == 404 and known:
        return ServerRefusal("the server has ended the session", code=wire.INVALID_REQUEST)
    if status == 404:
        return ServerRefusal("the server has nothing at this address", code=wire.METHOD_NOT_FOUND)
    if status in (401, 403):
        return ServerRefusal(f"the server refuses who asks (HTTP {status}); check --header")
    return ServerRefusal(f"the server answered HTTP {status}")


def _read_body(response: httpx2.Response, limit: int = MAX_LINE) -> bytes:
    parts, size = [], 0
    for part in response.iter_bytes():
        size += len(part)
        if size > limit:
            raise ServerRefusal(f"the server's answer is longer than {limit:,} bytes")
        parts.append(part)
    return b"".join(parts)


class ServerEvent(NamedTuple):
    data: bytes
    id: str


def _events(response: httpx2.Response) -> Iterator[ServerEvent]:
    """The events of a stream: their data, its lines joined, and their id."""
    data: list[bytes] = []
    size, last = 0, ""
    for line in _lines(response):
        if not line:
            yield ServerEvent(b"\n".join(data), last)
            data, size, last = [], 0, ""
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            size += len(value)
            if size > MAX_LINE:
                raise ServerRefusal(f"an event is longer than {MAX_LINE:,} bytes")
            data.append(value)
        elif name == b"id" and b"\0" not in value and len(value) < 1_000:
            last = value.decode("latin-1")
    if data:
        yield ServerEvent(b"\n".join(data), last)


def _lines(response: httpx2.Response) -> Iterator[bytes]:
    """The lines of a stream of events, which may end in any of the three ways."""
    parts: list[bytes] = []
    size, after_return = 0, False
    for chunk in response.iter_bytes():
        if after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        after_return = chunk.endswith(b"\r")
        pieces = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for piece in pieces[:-1]:
            parts.append(piece)
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(pieces[-1])
        size += len(pieces[-1])
        if size > MAX_LINE:
            raise ServerRefusal(f"an event is longer than {MAX_LINE:,} bytes")
    if any(parts):
        yield b"".join(parts)


def _version(message: Mapping[str, object]) -> str:
    """The version that a request of the modern protocol says it speaks."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(wire.VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else ""


def _header_value(value: str) -> str:
    """A text as a header can hold it, in the protocol's own way."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


def _param_headers(tools: list[object]) -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Which arguments of which tools are repeated in headers: a schema may say so of a property."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue
        pending: list[tuple[tuple[str, ...], object]] = [((), tool.get("inputSchema"))]
        while pending:
            path, schema = pending.pop()
            if not isinstance(schema, dict) or len(path) > 16:
                continue
            token = schema.get("x-mcp-header")
            if (
                path
                and isinstance(token, str)
                and token.isascii()
                and token.replace("-", "").replace("_", "").isalnum()
            ):
                found.setdefault(tool["name"], []).append((path, token))
            inner = schema.get("properties")
            if isinstance(inner, dict):
                pending += [((*path, name), each) for name, each in inner.items()]
    return found
