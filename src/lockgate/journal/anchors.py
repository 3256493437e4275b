"""Anchors: places outside the log that keep its heads. A file, a git working tree, a webhook, or syslog.

An anchor takes every head and checks nothing. Its worth is that an attacker who can rewrite the log cannot rewrite the
heads there.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Event, Timer
from time import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.errors import InvalidConfig, LockgateError, printable, quoted
from lockgate.journal.signed_notes import Checkpoint, file_name
from lockgate.runtime.loopback import is_loopback
from lockgate.runtime.private_files import replace_file

if TYPE_CHECKING:
    from ssl import SSLContext

# For one head, from looking up the name to the last byte of the reply.
DEADLINE_S = 10.0
MAX_REPLY = 1 << 16
# The least time between two heads: an anchor is read later, and a commit or mail each second would be a nuisance.
ANCHOR_EVERY_S = 60.0

# One narrow grammar instead of a URL parser: two parsers that disagree could send heads, and a token, elsewhere.
_URL = re.compile(
    r"(?P<scheme>https?|syslog)://"
    r"(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?P<port>:[0-9]{1,5})?"
    r"(?P<path>(?:/[a-z0-9._~%!$&'()*+,;=:@/-]*)?(?:\?[a-z0-9._~%!$&'()*+,;=:@/?-]*)?)",
    re.IGNORECASE | re.ASCII,
)
_PORTS = {"http": 80, "https": 443, "syslog": 514}
# Facility 13 is "log audit", severity 6 "informational".
_PRIORITY = 13 * 8 + 6
_LOCAL_SYSLOG = ("/dev/log", "/var/run/syslog", "/var/run/log")
_GIT_S = 30.0
_PLAIN_TEXT = {"content-type": "text/plain; charset=utf-8"}
_CUT_SHORT = b"\n(cut short)\n\n"


class Anchor(Protocol):
    """One place for heads. `send` raises LockgateError or OSError unless the head has certainly arrived."""

    @property
    def name(self) -> str:
        """The name for messages; it contains no secret."""

    def send(self, head: Checkpoint, note: bytes) -> None: ...


class Address(NamedTuple):
    """An http, https or syslog address. The path may be a secret, so `name` leaves it out."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def name(self) -> str:
        """The address without its path."""
        return f"{self.scheme}://{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({self.name})"


def parse_address(text: str, what: str, *, unsafe_plain_http: bool = False) -> Address:
    """Return the address; raise InvalidConfig if nothing may go there. Errors hide the text: it may hold a token."""
    found = _URL.fullmatch(text)
    if found is None or (found["port"] is not None and not 0 < int(found["port"][1:]) < 1 << 16):
        raise InvalidConfig(
            f"{what} is no address that anything can be sent to",
            hint="write it as https://host/path, without a user name, spaces or a fragment",
        )
    scheme, host = found["scheme"].lower(), found["host"].lower()
    if scheme == "http" and not unsafe_plain_http and not is_loopback(host):
        raise InvalidConfig(
            f"{what} would send to {quoted(host)} over plain http, for others to read and change",
            hint="use https; plain http is for this machine only: localhost, 127.0.0.1 or [::1]",
        )
    port = int(found["port"][1:]) if found["port"] else _PORTS[scheme]
    return Address(scheme, host, port, found["path"])


def parse_anchor(text: str) -> Anchor:
    """Parse an anchor of the configuration: `file:PATH`, `git:FOLDER`, `https://…`, `syslog:` or `syslog://HOST`."""
    kind, _, rest = text.strip().partition(":")
    if kind == "file":
        place = _parse_place(rest, "a file for heads")
        if not place.parent.is_dir():
            raise InvalidConfig(
                f"the folder of the anchor {quoted(place, 200)} is not there", hint="make it, or name another"
            )
        return FileAnchor(place)
    if kind == "git":
        return _parse_git_anchor(_parse_place(rest, "a git working tree for heads"))
    if kind in ("http", "https"):
        return Webhook(parse_address(text.strip(), "a webhook for heads"))
    if kind == "syslog":
        if not rest:
            return Syslog(None)
        address = parse_address(text.strip(), "a syslog server for heads")
        if address.path not in ("", "/"):
            raise InvalidConfig("a syslog server for heads has a path", hint="write it as syslog://host:514")
        return Syslog(address)
    raise InvalidConfig(
        f"{quoted(kind, 20)} is no kind of anchor",
        hint="file:PATH, git:FOLDER, https://…, syslog: or syslog://HOST:514",
    )


def _parse_place(text: str, what: str) -> Path:
    path = Path(text)
    if not text or not path.is_absolute() or "\0" in text:
        raise InvalidConfig(f"{what} needs a whole path, not {quoted(text, 200)}", hint="begin it with the root")
    return path


def _parse_git_anchor(folder: Path) -> Anchor:
    from shutil import which

    program = which("git")
    if program is None:
        raise InvalidConfig("an anchor in git needs the program `git`", hint="install git, or use file:PATH")
    if not os.path.lexists(folder / ".git"):
        raise InvalidConfig(
            f"the anchor {quoted(folder, 200)} is no git working tree", hint=f"git init {printable(folder, 200)}"
        )
    return GitAnchor(folder, program)


@dataclass(frozen=True, slots=True)
class FileAnchor:
    """Appends every head to one file, with an empty line after each (`signed_notes.parse_checkpoints` reads it)."""

    path: Path

    @property
    def name(self) -> str:
        return f"file:{printable(self.path, 200)}"

    def send(self, head: Checkpoint, note: bytes) -> None:  # noqa: ARG002
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        handle = os.open(self.path, flags, 0o600)
        try:
            size = os.lseek(handle, 0, os.SEEK_END)
            os.lseek(handle, max(0, size - 2), os.SEEK_SET)
            data = note + b"\n"
            if size and os.read(handle, 2) != b"\n\n":
                # A power cut left half a head: it must not run into this one.
                data = _CUT_SHORT + data
            if os.write(handle, data) != len(data):
                os.ftruncate(handle, size)
                raise LockgateError(f"the anchor {quoted(self.path, 200)} has no room for a head")
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class GitAnchor:
    """Commits the newest head as a file in a git working tree. Pushing the commits is up to the tree's owner."""

    folder: Path
    program: str

    @property
    def name(self) -> str:
        return f"git:{printable(self.folder, 200)}"

    def send(self, head: Checkpoint, note: bytes) -> None:
        # Not `git add` and `git commit`: a repository can configure filters and hooks for them. The commands below
        # store the bytes unchanged and run no other program.
        name = file_name(head.origin)
        replace_file(self.folder / name, note, mode=0o644)
        blob = self._run_git("hash-object", "-w", "--no-filters", "--stdin", data=note).strip().decode("ascii")
        entry = f"100644 blob {blob}\t{name}".encode()
        parent = (
            self._run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", may_fail=True).strip().decode("ascii")
        )
        listed = self._run_git("ls-tree", "-z", parent).split(b"\0")[:-1] if parent else []
        if entry not in listed:
            kept = [each for each in listed if each.partition(b"\t")[2] != name.encode()]
            self._commit(head, parent, b"".join(each + b"\0" for each in (*kept, entry)))
        # Otherwise the next ordinary commit in this working tree would remove the head.
        self._run_git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
        if self._run_git("cat-file", "blob", f"HEAD:{name}") != note:
            raise LockgateError("git keeps something else than the head")

    def _commit(self, head: Checkpoint, parent: str, listed: bytes) -> None:
        tree = self._run_git("mktree", "-z", "--missing", data=listed).strip().decode("ascii")
        behind = ("-p", parent) if parent else ()
        said = f"{printable(head.origin)} has {head.size} records"
        commit = self._run_git("commit-tree", tree, *behind, "-m", said).strip().decode("ascii")
        # This fails if another process has committed meanwhile.
        self._run_git("update-ref", "-m", "lockgate", "HEAD", commit, parent)

    def _run_git(self, *arguments: str, data: bytes = b"", may_fail: bool = False) -> bytes:
        # Ignore the settings of the machine and the user, and every program that the repository's settings name.
        settings = ("core.hooksPath=" + os.devnull, "core.fsmonitor=false", "gc.auto=0")
        command = [self.program, "-C", str(self.folder)]
        for each in settings:
            command += ["-c", each]
        who = {f"GIT_{role}_{what}": "lockgate" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ} | who
        environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
        # Fetch no missing objects, and ignore replacement objects.
        environment |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
        # Use this folder only: git would otherwise look for a repository in every folder above.
        environment["GIT_CEILING_DIRECTORIES"] = str(self.folder.parent)
        try:
            ran = subprocess.run(  # noqa: S603
                [*command, *arguments],
                input=data,
                capture_output=True,
                timeout=_GIT_S,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LockgateError(f"git took longer than {_GIT_S:.0f} seconds") from None
        if ran.returncode and not may_fail:
            said = ran.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise LockgateError(f"git {arguments[0]} failed: {quoted(said, 200)}")
        return ran.stdout


@dataclass(frozen=True, slots=True)
class Webhook:
    """Sends each head as the text of a POST; any status from 200 to 299 means that it was accepted."""

    address: Address

    @property
    def name(self) -> str:
        return self.address.name

    def send(self, head: Checkpoint, note: bytes) -> None:  # noqa: ARG002
        status, _ = post(self.address, note)
        if not 200 <= status < 300:
            raise LockgateError(f"it answered {status}")


@dataclass(frozen=True, slots=True)
class Syslog:
    """Sends each head as one line with the note in base64: to this machine's syslog, or by UDP as in RFC 5424."""

    address: Address | None
    clock: Callable[[], float] = field(default=time)
    places: tuple[str, ...] = field(default=_LOCAL_SYSLOG)

    @property
    def name(self) -> str:
        return "syslog" if self.address is None else self.address.name

    def send(self, head: Checkpoint, note: bytes) -> None:
        root = b64encode(head.root).decode("ascii")
        said = f"head of {head.origin}: {head.size} records, root {root}, note {b64encode(note).decode('ascii')}"
        if self.address is None:
            self._send_here(f"<{_PRIORITY}>lockgate[{os.getpid()}]: {said}".encode())
            return
        at = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        host = re.sub("[^!-~]", "", socket.gethostname())[:255] or "-"
        # RFC 5424 marks UTF-8 with a byte order mark; ASCII needs none.
        mark = "" if said.isascii() else "\ufeff"
        line = f"<{_PRIORITY}>1 {at} {host} lockgate {os.getpid()} head - {mark}{said}".encode()
        bare = self.address.host.strip("[]")
        family, kind, _, _, place = socket.getaddrinfo(bare, self.address.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as sender:
            sender.settimeout(DEADLINE_S)
            sender.sendto(line, place)

    def _send_here(self, line: bytes) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise LockgateError("this machine has no syslog")
        for place in self.places:
            with (
                suppress(FileNotFoundError, ConnectionRefusedError),
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
            ):
                sender.settimeout(DEADLINE_S)
                sender.connect(place)
                sender.send(line)
                return
        raise LockgateError("no syslog listens on this machine")


def post(
    address: Address,
    body: bytes,
    path: str = "",
    *,
    headers: Mapping[str, str] = _PLAIN_TEXT,
    deadline_s: float = DEADLINE_S,
    tls: SSLContext | None = None,
) -> tuple[int, bytes]:
    """POST the text; return the status and body of the reply. Follow no redirect, and use no proxy."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    host = address.host.strip("[]")
    connection: HTTPConnection
    if address.scheme == "https":
        connection = HTTPSConnection(host, address.port, timeout=deadline_s, context=tls or _default_tls())
    else:
        connection = HTTPConnection(host, address.port, timeout=deadline_s)
    over = Event()
    opened: list[socket.socket] = []

    def abort() -> None:
        """End the connection at the deadline: with a timeout per read a server could send single bytes for ever."""
        over.set()
        for each in opened:
            with suppress(OSError):
                # The plain socket below TLS.
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    late = Timer(deadline_s, abort)
    late.daemon = True
    late.start()
    data, length, status = b"", 0, 0
    try:
        connection.connect()
        opened.append(connection.sock)
        if not over.is_set():
            connection.request("POST", f"{address.path}{path}" or "/", body, {**headers, "user-agent": "lockgate"})
            reply = connection.getresponse()
            data = reply.read(MAX_REPLY + 1)
            status, length = reply.status, reply.length or 0
    except HTTPException as error:
        # Without the error's text, which may quote the reply.
        if not over.is_set():
            raise LockgateError(f"the answer is no HTTP: {type(error).__name__}") from None
    except TimeoutError:
        over.set()
    except OSError:
        if not over.is_set():
            raise
    finally:
        late.cancel()
        connection.close()
    if over.is_set():
        raise LockgateError(f"no answer within {deadline_s:g} seconds")
    if len(data) > MAX_REPLY:
        raise LockgateError(f"the answer is longer than {MAX_REPLY:,} bytes")
    if length:
        raise LockgateError("the answer was cut short")
    return status, data


@cache
def _default_tls() -> SSLContext:
    """Return the default TLS context; cached, because reading all certificates takes long."""
    from ssl import create_default_context

    return create_default_context()
