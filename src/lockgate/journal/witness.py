"""A witness: remembers the newest head of each log it knows, and cosigns a head that continues it.

It speaks c2sp.org/tlog-witness over HTTP, `POST /add-checkpoint`. It runs apart from the log, as another user or on
another machine: an attacker who rewrites the log, even with its key, then contradicts the witness. Each step can
refuse:

1. The request is of the form that C2SP gives it (400).
2. The log is one this witness was started for (404), and its key has signed the head (403).
3. The log names the newest head that this witness has cosigned (400, 409).
4. A tree of the same size has the same root (409); a larger tree continues it, as the proof shows (422).
5. The new head is on the disk before the cosignature leaves (500). If the witness is killed in between, the log asks
   again. In the other order the witness could cosign two histories.
"""

from __future__ import annotations

import io
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, BinaryIO

from lockgate.core.errors import InvalidNote, LockgateError, printable, quoted
from lockgate.journal import keys
from lockgate.journal.merkle import EMPTY_ROOT, verify_consistency
from lockgate.journal.signed_notes import (
    COSIGNATURE,
    ED25519,
    MAX_NOTE,
    MAX_SUBMISSION,
    Checkpoint,
    Note,
    PublicKey,
    cosign_note,
    file_name,
    parse_checkpoint,
    parse_note,
    parse_submission,
    parse_vkey,
    verify_signatures,
)
from lockgate.runtime.failures import report_failure
from lockgate.runtime.private_files import open_locked, replace_file

PORT = 8766
# A request has some kilobytes. A slower client occupies one of the connections no longer than this.
REQUEST_S = 10.0
MAX_CONNECTIONS = 64

_LENGTH = re.compile("[0-9]{1,9}", re.ASCII)
_SIZE_TYPE = "text/x.tlog.size"
_TEXT_TYPE = "text/plain; charset=utf-8"

_log = logging.getLogger("lockgate.witness")


class CosignatureRefused(LockgateError):
    """No cosignature is given; `status` is the code that C2SP assigns to the reason."""

    def __init__(self, status: int, message: str, *, size: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.size = size


class Witness:
    """A witness with one key and one folder. Only one process may use the folder; its threads may share the witness."""

    def __init__(
        self,
        folder: Path,
        logs: Iterable[str],
        *,
        name: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the folder. `logs` are the public keys of the logs to watch; the witness's key is created if missing."""
        self._logs: dict[str, list[PublicKey]] = {}
        for text in logs:
            key = parse_vkey(text)
            if key.kind != ED25519:
                raise LockgateError(
                    f"{quoted(key.name)} is the key of a witness, not of a log", hint="give the key that signs the log"
                )
            self._logs.setdefault(key.name, []).append(key)
        if not self._logs:
            raise LockgateError("a witness needs at least one log to watch", hint="name the log's public key")
        self._folder = folder
        self._clock = clock
        self._warned: dict[str, str] = {}
        # Held by the thread that reads the stored head and replaces it.
        self._storing = Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _folder_unusable(folder, (error.strerror or "").lower()) from error
        # Two processes could each cosign another history. The system releases the lock when this process ends.
        self._lock = _lock_file(folder / "witness.lock")
        with ExitStack() as failed:
            failed.callback(self.close)
            self._signer = _load_or_create_key(folder / "witness.key", name)
            for origin in self._logs:
                self._load_newest(origin)
            failed.pop_all()

    @property
    def key(self) -> PublicKey:
        """The witness's public key."""
        return self._signer.key

    def close(self) -> None:
        """Release the folder for other processes."""
        self._lock.close()

    def add_checkpoint(self, body: bytes) -> bytes:
        """Return the cosignature's line for the head in this request; raise CosignatureRefused if a step refuses."""
        try:  # 1.
            asked = parse_submission(body)
            note = parse_note(asked.checkpoint)
            head = parse_checkpoint(note.text)
        except InvalidNote as error:
            raise CosignatureRefused(400, error.message) from None
        trusted = self._logs.get(head.origin)  # 2.
        if trusted is None:
            raise CosignatureRefused(404, f"this witness does not know the log {quoted(head.origin)}")
        try:
            signers = verify_signatures(note, trusted, keys.verify)
        except InvalidNote as error:
            raise CosignatureRefused(403, error.message) from None
        if not signers:
            raise CosignatureRefused(403, f"the head is not signed by the key of {quoted(head.origin)}")
        if asked.old > head.size:  # 3.
            raise CosignatureRefused(400, "the old size is larger than the new one")
        with self._storing:
            before = self._load_newest(head.origin)
            if asked.old != before.size:
                raise CosignatureRefused(409, "another head is the newest here", size=before.size)
            if head.size == before.size and head.root != before.root:  # 4.
                self._keep_evidence(_keep_lines_of(note, signers), head)
                raise CosignatureRefused(409, "another tree of this size was cosigned", size=before.size)
            if not verify_consistency(before.size, head.size, before.root, head.root, asked.hashes):
                self._warn_once(head, f"a head of {head.size} is not proved to continue the one of {before.size}")
                raise CosignatureRefused(422, "the proof does not lead from the old head to the new one")
            made = cosign_note(_keep_lines_of(note, signers), self.key, self._signer.sign, time_s=int(self._clock()))
            # A head that cannot be read back would stop this witness at its next start.
            self._open_own_note(made.to_bytes(), head.origin)
            replace_file(self._folder / file_name(head.origin), made.to_bytes())  # 5.
        _log.info("cosigned %s at %d", printable(head.origin), head.size)
        return made.signatures[-1].line.encode()

    def _load_newest(self, origin: str) -> Checkpoint:
        """Return the newest head of this log that this witness cosigned. Raise if the file cannot be read."""
        path = self._folder / file_name(origin)
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_NOTE + 1)
        except FileNotFoundError:
            return Checkpoint(origin, 0, EMPTY_ROOT)
        except OSError as error:
            raise _folder_unusable(path, (error.strerror or "").lower()) from error
        try:
            return self._open_own_note(data, origin)
        except InvalidNote as error:
            raise _folder_unusable(path, error.message) from None

    def _open_own_note(self, data: bytes, origin: str) -> Checkpoint:
        note = parse_note(data)
        head = parse_checkpoint(note.text)
        if head.origin != origin or self.key not in verify_signatures(note, (self.key,), keys.verify):
            raise InvalidNote("this witness has not signed it")
        return head

    def _warn_once(self, head: Checkpoint, what: str) -> None:
        """Log a warning, but not twice in a row: a client could repeat such a head until the disk is full."""
        if self._warned.get(head.origin) != what:
            self._warned[head.origin] = what
            _log.warning("the log %s: %s", printable(head.origin), what)

    def _keep_evidence(self, note: Note, head: Checkpoint) -> None:
        """Keep the proof of a fork: two heads of one size, which only the holder of the log's key can have signed."""
        self._warn_once(head, f"its key has signed two different trees of {head.size} records")
        path = (self._folder / file_name(head.origin)).with_suffix(".fork")
        if not os.path.lexists(path):
            with suppress(OSError):
                replace_file(path, note.to_bytes())


def run_witness(
    folder: Path,
    logs: Iterable[str],
    *,
    name: str = "",
    host: str = "127.0.0.1",
    port: int = PORT,
    ready: Callable[[str, str], None] = lambda _url, _vkey: None,
) -> None:
    """Serve until interrupted. Call `ready` once with the address and the witness's public key."""
    witness = Witness(folder, logs, name=name)
    try:
        with WitnessServer(witness, host, port) as server:
            ready(server.url, witness.key.vkey)
            with suppress(KeyboardInterrupt):
                server.serve_forever()
    finally:
        witness.close()


class WitnessServer(HTTPServer):
    """The witness's HTTP server: one thread per connection, up to a limit."""

    # The port is free again right after a stop; on Windows this option would let two processes share the port.
    allow_reuse_address = os.name == "posix"
    request_queue_size = 64

    def __init__(
        self,
        witness: Witness,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        request_s: float = REQUEST_S,
        connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.witness = witness
        self.request_s = request_s
        self._places = BoundedSemaphore(connections)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _WitnessHandler)
        except (OSError, OverflowError) as error:
            said = str(getattr(error, "strerror", None) or error).lower()
            raise LockgateError(
                f"the witness cannot listen at {quoted(f'{host}:{port}')}: {said}", hint="name another port"
            ) from error

    @property
    def url(self) -> str:
        """The address under which the server listens."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if self.address_family == socket.AF_INET6 else f"http://{host!s}:{port}"

    def server_bind(self) -> None:
        # HTTPServer would look up this machine's name at the name server.
        super(HTTPServer, self).server_bind()
        self.server_name, self.server_port = "witness", int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            Thread(target=self._serve, args=(request, client_address), daemon=True).start()
        except RuntimeError:
            self._places.release()
            raise

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception as error:  # noqa: BLE001  # one failed connection must not stop the witness
            report_failure("witness-connection", error)
            _log.debug("a connection ended: %s", type(error).__name__)
        finally:
            self.shutdown_request(request)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        _log.warning("a connection could not be served")


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a deadline. A timeout per read would let a client send one byte at a time for ever."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(into)


class _WitnessHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WitnessServer
    # Send header and line in one packet, at once: a second packet would wait for the first one's acknowledgement.
    wbufsize = 4096
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._received = _DeadlineReader(self.connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._received)

    def handle_one_request(self) -> None:
        self._received.until = time.monotonic() + self.server.request_s
        super().handle_one_request()

    def do_POST(self) -> None:
        length = self.headers.get_all("content-length", [])
        if self.path != "/add-checkpoint":
            self._answer(404, "there is only /add-checkpoint here")
        elif len(length) != 1 or not _LENGTH.fullmatch(length[0]) or "transfer-encoding" in self.headers:
            self._answer(411, "say the length of the request, once")
        elif int(length[0]) > MAX_SUBMISSION:
            self._answer(413, f"at most {MAX_SUBMISSION} bytes")
        else:
            body = self.rfile.read(int(length[0]))
            if len(body) < int(length[0]):
                self.close_connection = True
                return
            self._cosign(body)

    def _cosign(self, body: bytes) -> None:
        try:
            line = self.server.witness.add_checkpoint(body)
        except CosignatureRefused as refused:
            if refused.size is None:
                self._answer(refused.status, refused.message, close=False)
            else:
                self._answer(refused.status, str(refused.size), type=_SIZE_TYPE, close=False)
        except Exception as error:  # noqa: BLE001
            # Nothing was cosigned. The error's text may contain a path.
            _log.error("a head could not be cosigned: %s", type(error).__name__)
            self._answer(500, "the witness failed")
        else:
            self._answer(200, line.decode().removesuffix("\n"), close=False)

    def _answer(self, status: int, text: str, *, type: str = _TEXT_TYPE, close: bool = True) -> None:
        """Send one line of text. Close the connection if the request was not read to its end."""
        data = f"{text}\n".encode()
        # The library treats an unreadable request as HTTP/0.9, in which answers have no status.
        self.request_version = self.protocol_version
        self.send_response(status)
        self.send_header("content-type", type)
        self.send_header("content-length", str(len(data)))
        self.send_header("x-content-type-options", "nosniff")
        if status == 405:
            self.send_header("allow", "POST")
        if close:
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def do_GET(self) -> None:
        self._answer(405, "a witness is asked by POST /add-checkpoint")

    do_HEAD = do_PUT = do_DELETE = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send the library's errors as one line: its HTML page would repeat the request."""
        self._answer(int(code), "the request cannot be read")

    def version_string(self) -> str:
        return "lockgate"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a request may contain any text."""


def _load_or_create_key(place: Path, name: str) -> keys.Ed25519Signer:
    if not os.path.lexists(place):
        return keys.create(place, name or f"lockgate-witness/{os.urandom(4).hex()}", kind=COSIGNATURE)
    signer = keys.load(place)
    if signer.key.kind != COSIGNATURE:
        raise LockgateError(
            f"{quoted(place, 200)} is the key of a log, not of a witness", hint="give the witness a folder of its own"
        )
    if name and name != signer.key.name:
        raise LockgateError(
            f"this witness is called {quoted(signer.key.name)}, not {quoted(name)}",
            hint="leave the name out, or name another folder",
        )
    return signer


def _keep_lines_of(note: Note, signers: Iterable[PublicKey]) -> Note:
    """Return the note with one line for each signer only: a client could add foreign lines until the note is full."""
    wanted = {(key.name, key.id) for key in signers}
    lines = {(each.name, each.id): each for each in note.signatures if (each.name, each.id) in wanted}
    return Note(note.text, tuple(lines.values()))


def _lock_file(path: Path) -> BinaryIO:
    """Open and lock a file for this process; raise LockgateError if another process has it. Closing it unlocks."""
    try:
        file = open_locked(path)
    except OSError as error:
        raise _folder_unusable(path, (error.strerror or "").lower()) from error
    if file is None:
        raise LockgateError(
            f"another witness uses the folder {quoted(path.parent, 200)}", hint="stop it, or name another folder"
        )
    return file


def _folder_unusable(path: Path, why: str) -> LockgateError:
    return LockgateError(
        f"{quoted(path, 200)} cannot be used: {why}",
        hint="a witness must not forget what it cosigned: bring the file back, or begin with a new folder and key",
    )
