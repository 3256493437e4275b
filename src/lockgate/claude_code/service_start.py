"""Bring the service up for a hook that finds nothing listening, and say what happens where that fails.

1. Own.      All that decides which code and which configuration run stands in the hook's command line, which is the
             person's: this interpreter, this package, and the variables after `--start`. The hook's own environment and
             folder are the project's to change, so none of it is passed on.
2. One.      A lock file in the state folder lets one hook start it; the others wait for that one.
3. Detached. The service has a session of its own and outlives the hook, the agent and the terminal.
4. Down.     Where it cannot be started, `server.when_down` of the person's configuration says what follows: `block`,
             or `observe`, which lets the event pass with a mark. What passed is noted in a private file; the service
             reads it when it starts, and takes the context of those sessions for unknown.

The hook loads this module only when it needs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_connection
from time import monotonic, sleep, time
from typing import NamedTuple

from lockgate.core.errors import LockgateError, printable
from lockgate.runtime.private_files import PrivateFileKind, replace_file
from lockgate.settings.config import Settings, WhenDown, load_settings

# What a person may fix for the service in the hook's command line; all of them are absolute paths.
START_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "LOCKGATE_CONFIG")
LOG_NAME, LOCK_NAME, PID_NAME, UNWATCHED_NAME = "service.log", "service.lock", "service.pid", "unwatched.jsonl"
# Until it listens; what it then needs to get ready is a part of the time for its answer.
START_S = 25.0
_POLL_S = 0.05
_MAX_LOG_BYTES = 1 << 20
_MAX_UNWATCHED_BYTES = 4 << 20
_KIND = PrivateFileKind("a file of the service", "choose what the hooks start", "service")
_ROOT = os.path.abspath(os.sep)


class BroughtUp(NamedTuple):
    """`why` is empty where the service listens. `mark` says that the event may pass without it."""

    why: str = ""
    mark: str = ""


def service_command(*words: str) -> list[str]:
    """Return the command line of `lockgate serve`: absolute, isolated, and of this very package."""
    return [sys.executable, "-I", str(Path(__file__).absolute().parents[1] / "__main__.py"), "serve", *words]


def service_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a service that a hook starts."""
    fixed = {"PATH": os.defpath, "LANG": "C.UTF-8"}
    return {**fixed, **{name: own[name] for name in START_VARIABLES if name in own}}


def bring_up(
    address: tuple[str, int], own: Mapping[str, str], body: bytes, deadline: float, *, foreign: str = ""
) -> BroughtUp:
    """Start the service unless it listens, and wait until it does; never raise. `body` is the event in question.

    `foreign` says that another program has its port: then nothing can be started.
    """
    try:
        environment = service_variables(own)
        # Not from the project's folder: its configuration is none of the service's.
        settings = load_settings(cwd=Path(_ROOT), environ=environment, home=Path(environment["HOME"]))
        folder = _state_folder(settings)
    except (LockgateError, OSError, KeyError) as error:
        return BroughtUp(f"the service cannot be started: {_say_why(error)}")
    try:
        why = foreign or _start_once(address, folder, environment, min(deadline, monotonic() + START_S))
        if why and settings.server.when_down is WhenDown.OBSERVE:
            _note_unwatched(folder, body)
            # Looked at after the note was written: a service that listens by now may have read the notes before.
            if foreign or not is_listening(address):
                return BroughtUp(why, _mark(why))
            why = ""
    except (LockgateError, OSError) as error:
        why = _say_why(error)
    return BroughtUp(why and f"the service cannot be started: {why}")


def _state_folder(settings: Settings) -> Path:
    if settings.state_dir is None:
        raise LockgateError("there is no folder for its state")
    if os.name != "posix":
        raise LockgateError("on this system only `lockgate service install` starts it")
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _KIND.check(settings.state_dir, folder=True)
    return settings.state_dir


def _say_why(error: Exception) -> str:
    if isinstance(error, LockgateError):
        return error.message
    said = error.strerror if isinstance(error, OSError) else None
    return (said or type(error).__name__).lower()


def is_listening(address: tuple[str, int]) -> bool:
    """Return whether a program listens there; only its signed answer shows whether it is the service."""
    with suppress(OSError), create_connection(address, timeout=2):
        return True
    return False


# One winner


def _start_once(address: tuple[str, int], folder: Path, environment: Mapping[str, str], deadline: float) -> str:
    """Start the service, or wait for the hook that does; return why it does not listen, or an empty text."""
    with _lock(folder / LOCK_NAME, deadline) as waited:
        if is_listening(address):
            return ""
        if waited is None:
            return "another hook is still starting it"
        if waited:
            # One failure is enough: the log says why.
            return _last_log_line(folder / LOG_NAME)
        started = _spawn(address, folder, environment)
        while monotonic() < deadline:
            if is_listening(address):
                return ""
            if started.poll() is not None:
                return _last_log_line(folder / LOG_NAME)
            sleep(_POLL_S)
        return "it was started, and does not listen yet"


@contextmanager
def _lock(path: Path, deadline: float) -> Iterator[bool | None]:
    """Hold the lock file; yield whether another hook held it first, or None where that one still does."""
    import fcntl

    handle = _open_private(path, os.O_RDWR)
    try:
        waited: bool | None = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = True
            if monotonic() >= deadline:
                waited = None
                break
            sleep(_POLL_S)
        yield waited
    finally:
        os.close(handle)


def _open_private(path: Path, flags: int) -> int:
    handle = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        _KIND.check_status(path, os.fstat(handle))
    except LockgateError:
        os.close(handle)
        raise
    return handle


def _spawn(address: tuple[str, int], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    log = _open_private(folder / LOG_NAME, os.O_WRONLY | os.O_APPEND)
    try:
        if os.fstat(log).st_size > _MAX_LOG_BYTES:
            os.ftruncate(log, 0)
        started = subprocess.Popen(  # noqa: S603  # this interpreter and this package, by their absolute paths
            service_command("--host", address[0], "--port", str(address[1])),
            env=dict(environment),
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            umask=0o077,
        )
    finally:
        os.close(log)
    replace_file(folder / PID_NAME, f"{started.pid}\n".encode(), durable=False)
    return started


def _last_log_line(path: Path) -> str:
    with suppress(OSError):
        lines = path.read_text("utf-8", "replace").splitlines()[-2:]
        said = " ".join(line.removeprefix("lockgate: error: ").strip() for line in lines if line.strip())
        return printable(said, 400) or "it ended at once"
    return "it ended at once"


# While it is down


def _mark(why: str) -> str:
    return (
        f'LOCKGATE IS DOWN, AND THIS WAS NOT LOOKED AT: {why}. Your configuration says `when_down = "observe"`, so it '
        "passes. `lockgate reconcile` lists what ran so."
    )


def _note_unwatched(folder: Path, body: bytes) -> None:
    """Note an event that passes; raise where it cannot be noted: then it does not pass."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    session, agent = (said.get("session_id"), said.get("agent_id") or "") if isinstance(said, dict) else (None, "")
    if not isinstance(session, str) or not isinstance(agent, str):
        raise LockgateError("this event does not say whose it is")
    line = json.dumps({"session": f"{session}/{agent}" if agent else session, "at": time()}) + "\n"
    handle = _open_private(folder / UNWATCHED_NAME, os.O_WRONLY | os.O_APPEND)
    try:
        if os.fstat(handle).st_size > _MAX_UNWATCHED_BYTES or os.write(handle, line.encode()) != len(line):
            raise LockgateError("no more events can pass without it")
    finally:
        os.close(handle)


def take_unwatched(folder: Path, mark_unknown: Callable[[str, float], None]) -> int:
    """Tell `mark_unknown` each session of which events passed unwatched, and since when; return how many.

    The notes are removed when all of them were told.
    """
    path = folder / UNWATCHED_NAME
    try:
        data = _KIND.read(path, _MAX_UNWATCHED_BYTES + 4096)
    except FileNotFoundError:
        return 0
    since: dict[str, float] = {}
    for line in data.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            note = json.loads(line)
            since.setdefault(str(note["session"]), float(note["at"]))
    for session, at in since.items():
        mark_unknown(session, at)
    path.unlink()
    return len(since)
