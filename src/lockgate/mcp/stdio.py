"""MCP over pipes: our own standard streams on the client's side, a child's on the server's.

Two threads, each with one direction: the main thread brings what the server says, since the server's end is the end.
Whole lines only, however long: half a line would let our own messages end up inside another.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from threading import Lock, Thread

from lockgate.core.errors import LockgateError, quoted

# What a pipe holds. Much more at a time would cost a mapping of memory for every message.
_READ = 1 << 16
# Longer than any honest message; a line without an end must not fill the memory.
MAX_LINE = 256 * 1024 * 1024
# How long a server may take to end by itself when its client has gone, and then to obey.
GRACE_S = 5.0
# What is passed on to the server. Ctrl-C reaches it by itself, where there is a terminal.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


class MessageTooLong(LockgateError):
    pass


def read_lines(fd: int, *, limit: int = MAX_LINE) -> Iterator[bytes]:
    """The lines that come out of a descriptor, with their ends; the last one may have none."""
    parts: list[bytes] = []
    size = 0
    while True:
        data = os.read(fd, _READ)
        if not data:
            break
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            parts.append(data[start : end + 1])
            yield b"".join(parts) if len(parts) > 1 else parts[0]
            parts.clear()
            size, start = 0, end + 1
        if start < len(data):
            parts.append(data[start:] if start else data)
            size += len(data) - start
            if size > limit:
                raise MessageTooLong(f"a message is longer than {limit:,} bytes")
    if parts:
        yield b"".join(parts)


class MessagePipe:
    """A descriptor that whole messages are written to, by any thread; what cannot be written any more is dropped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = Lock()
        self.broken = self._closed = False

    def __call__(self, data: bytes, _: object = None) -> None:
        with self._lock:
            if self.broken:
                return
            left = memoryview(data)
            try:
                while left:
                    left = left[os.write(self._fd, left) :]
            except OSError:
                # The reader has gone.
                self.broken = True

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self.broken = self._closed = True
                with suppress(OSError):
                    os.close(self._fd)


def start_server(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the server with pipes to us; its standard error goes where ours goes.

    Our own environment variables are left out: they may hold tokens that would let the server act for its user.
    """
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("LOCKGATE_")}
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(list(command), stdin=pipe, stdout=pipe, bufsize=0, env=environment)  # noqa: S603
    except OSError as error:
        raise LockgateError(
            f"the server {quoted(command[0])} cannot be started: {(error.strerror or type(error).__name__).lower()}",
            hint="the command after -- is run as it is, without a shell",
        ) from error


def forward_signals(child: subprocess.Popen[bytes]) -> None:
    """From here on, what we are told to do the server is told as well; we end when it does."""

    def tell(number: int, _: object) -> None:
        with suppress(OSError):
            child.send_signal(number)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, tell)


def pump_messages(
    child: subprocess.Popen[bytes],
    from_fd: int,
    *,
    to_server: MessagePipe,
    to_client: MessagePipe,
    from_client: Callable[[bytes], None],
    from_server: Callable[[bytes], None],
) -> int:
    """Carry messages both ways until the server ends; returns how it did, as `Popen.returncode` says it."""
    assert child.stdout is not None  # noqa: S101
    reader = Thread(target=_pump_client, args=(child, from_fd, to_server, from_client), daemon=True)
    reader.start()
    if hasattr(select, "poll"):
        Thread(target=_watch_client, args=(child, from_fd, reader), daemon=True).start()
    try:
        for line in read_lines(child.stdout.fileno()):
            from_server(line)
            if to_client.broken:
                _end_server(child, to_server)
                break
    except MessageTooLong:
        _end_server(child, to_server)
        raise
    return child.wait()


def _pump_client(
    child: subprocess.Popen[bytes], fd: int, to_server: MessagePipe, take: Callable[[bytes], None]
) -> None:
    try:
        # A client that cannot be read any more, or sends a line without an end, has gone.
        with suppress(OSError, MessageTooLong):
            for line in read_lines(fd):
                take(line)
    finally:
        _end_server(child, to_server)


def _watch_client(child: subprocess.Popen[bytes], fd: int, reader: Thread) -> None:
    """See that the client has gone even while the server does not take what it sent last."""
    watched = select.poll()
    watched.register(fd, 0)
    with suppress(OSError):
        watched.poll()
    reader.join(GRACE_S)
    for tell in (child.terminate, child.kill):
        if reader.is_alive() and child.poll() is None:
            with suppress(OSError):
                tell()
            reader.join(GRACE_S)


def _end_server(child: subprocess.Popen[bytes], to_server: MessagePipe) -> None:
    """End the server as the protocol wants it: close its input, wait, send SIGTERM, wait, send SIGKILL."""
    to_server.close()
    for tell in (child.terminate, child.kill):
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
            return
        with suppress(OSError):
            tell()


def exit_like(code: int) -> int:
    """End as the server has: with its code, or by the same signal, which ends us here and now."""
    if code >= 0:
        return code
    number = -code
    with suppress(OSError, ValueError):
        # Not for those that cannot be caught.
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.kill(os.getpid(), number)
    return 128 + number


def client_session() -> str:
    """The session of the client that started us: the servers of one client are one agent's.

    The client is our parent process, told apart by when it began. Where that cannot be known, a session of our own.
    """
    parent = os.getppid()
    began = ""
    try:
        with open(f"/proc/{parent}/stat", "rb") as file:
            # The second field is a name in brackets that may hold anything; the 22nd is when the process began.
            began = file.read().rpartition(b")")[2].split()[19].decode("ascii")
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            began += file.read(64).decode("ascii")
    except (OSError, IndexError, UnicodeDecodeError):
        began = _process_start(parent)
    if not began or parent <= 1:
        return f"mcp-{os.urandom(8).hex()}"
    return f"mcp-{sha256(f'{parent} {began}'.encode()).hexdigest()[:16]}"


def _process_start(process: int) -> str:
    """The same where there is no /proc."""
    if os.name != "posix":
        return ""
    asked = ["/bin/ps", "-o", "lstart=", "-p", str(process)]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(asked, capture_output=True, timeout=5, check=True, text=True).stdout.strip()  # noqa: S603
    return ""
