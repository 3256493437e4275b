"""`lockgate hook claude-code`: the hook as a command, for hosts that start one instead of asking over HTTP.

`lockgate hook codex`, `gemini`, `copilot` and `opencode` are the same program with an easier answer: a no, and our own
failure too, is exit 2 with the reason on stderr, which is the one form that all of those hosts obey.

It is started before every tool call, so it imports next to nothing, and only from the standard library: this file can
be run by itself, as `python -I -S hook_command.py claude-code`. Only where nothing listens, and `--start` says so, it
loads `service_start.py`, which brings the service up. Output in the wrong shape on its standard output would let the
call run, so that is shut at once, and opened for one whole answer at the end, if at all:

    nothing to say   exit 0, no output; the host's own rules go on as if we were not there
    a plain no       exit 2, the reason on stderr
    ask, or stop     exit 0, one JSON object
    how a run ended  exit 1, the sentence on stderr: Claude Code prints it there only for a hook that failed
    our own failure  exit 2 where the host waits for a decision, else 1

Any program can listen on the service's port while the service is down. So the token is never sent: it signs the
question, and has to have signed the answer to this very question. An answer without that is none.
"""

from __future__ import annotations

import os
import stat
import sys
from time import monotonic

TYPE_CHECKING = False  # what `typing` has, without the time it takes to load at every start
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_URL = "http://127.0.0.1:7717"
PATH = "/hooks/claude-code"
# Hosts whose answer is yes or no, with the reason.
PLAIN_HOSTS = ("codex", "gemini", "copilot", "opencode")
# Longer than the judges may take together, shorter than the time after which the host gives up on us.
DEADLINE_S = 40.0
# Of this, what is left for the answer of a service that was just started.
_ANSWER_S = 12.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_ANSWER_BYTES = 1024 * 1024
# `Authorization: Lockgate NONCE SHA256-OF-BODY SIGNATURE`, and the header with which an answer proves its sender.
SCHEME, PROOF_HEADER = "Lockgate", b"lockgate-proof"
# Whether a person sits there, as the host's own environment says it.
FORWARDED_VARIABLES = {
    "X-Lockgate-Entrypoint": "CLAUDE_CODE_ENTRYPOINT",
    "X-Lockgate-Attended": "CLAUDE_CODE_SESSION_ATTENDED",
}
# Events that decide nothing, where a failure must not hold the host up: an agent that may not stop goes on for ever.
_INFORMATIVE_EVENTS = (b"SessionStart", b"SessionEnd", b"InstructionsLoaded", b"SubagentStart", b"SubagentStop")
_EVENT = b'"hook_event_name":"'


class HookFailure(Exception):
    pass


class _NoToken(HookFailure):
    pass


class NotProved(HookFailure):
    """A program answers, and does not prove that it has this token: it is not the service."""


class _Unwatched(Exception):
    """The service is down, and the person's configuration lets this event pass with a mark."""


def main(argv: list[str] | None = None) -> int:
    """Answer one event; never raises, and leaves standard output shut."""
    try:
        return _answer(sys.argv[1:] if argv is None else argv)
    finally:
        # While Python ends, an alarm would kill it: no code 2, and a host would run the call.
        _set_alarm(0)


def _answer(words: list[str]) -> int:
    is_plain = words[:1] != ["claude-code"]
    began = monotonic()
    body, out = b"", 2
    try:
        # Only the one answer at the end goes where the host reads; all that anything else prints goes to stderr.
        for number in (0, 1, 2):
            # One that is closed would be the number of what is opened next.
            if not _is_open(number):
                raise HookFailure("standard input, output or error is closed")
        out = os.dup(1)
        os.dup2(2, 1)
        url, own = _parse_options(words)
        _set_alarm(DEADLINE_S)
        body = _read(0, MAX_BODY_BYTES)
        answer = _ask_or_start(url, body, own, began + DEADLINE_S, f"/hooks/{words[0]}")
        if answer == b"{}":
            return 0
        return _say_denial(answer) if is_plain else _print_answer(answer, body, out)
    except _Unwatched as passed:
        return _print_mark(str(passed), body, out)
    except HookFailure as error:
        said = str(error)
    except TimeoutError:
        said = "no answer in time"
    except OSError as error:
        said = f"lockgate does not answer: {(error.strerror or type(error).__name__).lower()}"
    except BaseException as error:  # noqa: BLE001  # interrupted, out of memory, a bug: the call must not run
        said = f"internal error: {type(error).__name__}"
    doctor = "lockgate doctor" if is_plain else "lockgate doctor --claude-code"
    _say(f"lockgate: {said}\nhint: lockgate serve starts the service, {doctor} says what is wrong")
    return 1 if _is_informative(body) and not is_plain else 2


def _parse_options(words: list[str]) -> tuple[str, dict[str, str] | None]:
    """The address of the service, and the variables of one that is started here; None if none is to be started.

    On the command line the address is the user's; from the environment it must be this machine, since a project's
    settings can set variables for us. `--http` says that the host asks about all else by itself: what it has read of
    the environment has to lead it there.
    """
    if words[:1] != ["claude-code"] and (words[:1] not in [[name] for name in PLAIN_HOSTS] or "--http" in words):
        raise HookFailure(f"unknown host: use lockgate hook claude-code, {', '.join(PLAIN_HOSTS)}")
    own: dict[str, str] | None = None
    if "--start" in words:
        at = words.index("--start")
        own = dict(word.partition("=")[::2] for word in words[at + 1 :])
        words = words[:at]
        if words[1:2] != ["--url"] or not all(map(os.path.isabs, [own.get("HOME", ""), *own.values()])):
            raise HookFailure("--start needs --url before it, and HOME=FOLDER after it")
    return _parse_address(words), own


def _parse_address(words: list[str]) -> str:
    if words[1:2] == ["--url"] and words[3:] in ([], ["--http"]):
        if words[3:] and is_proxied(os.environ, words[2]):
            raise HookFailure(
                "HTTP_PROXY or HTTPS_PROXY is set, and Claude Code would ask us through it: if it is yours, set "
                "NO_PROXY=127.0.0.1 too; if this folder's settings set it, do not work here"
            )
        return words[2]
    if words[1:]:
        raise HookFailure("unexpected option: use lockgate hook claude-code [--url URL [--http] [--start HOME=FOLDER]]")
    url = os.environ.get("LOCKGATE_URL", "") or DEFAULT_URL
    if parse_url(url)[0] not in LOOPBACK:
        raise HookFailure("LOCKGATE_URL is not on this machine: give the address as --url in the settings of the user")
    return url


def is_proxied(environment: Mapping[str, str], url: str) -> bool:
    """Whether a host would send what is meant for this address to a proxy: of all spellings, each has to spare it."""
    names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
    if not any(environment.get(name) for name in names):
        return False
    spared = [environment[name] for name in ("no_proxy", "NO_PROXY") if environment.get(name)]
    return not spared or not all({parse_url(url)[0], "*"} & set(each.replace(",", " ").split()) for each in spared)


def parse_url(url: str) -> tuple[str, int]:
    scheme, found, rest = url.partition("://")
    authority = rest.partition("/")[0]
    host, _, port = authority.rpartition(":")
    if scheme != "http" or not found or "@" in authority or not port.isdecimal() or not port.isascii():
        raise HookFailure("the service's address must be http://HOST:PORT")
    return host.strip("[]"), int(port)


def _set_alarm(seconds: float) -> None:
    """The end of everything, however the time is spent: a host that gives up on us may run the call. 0 ends it."""
    try:
        import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations, which take milliseconds
    except ImportError:  # pragma: no cover
        return
    if not hasattr(_signal, "setitimer"):  # pragma: no cover  # Windows: each wait has its own limit there
        return

    def late(*_: object) -> None:
        _say("lockgate: no answer in time, so this is not let through")
        os._exit(2)

    _signal.signal(_signal.SIGALRM, late)
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def _read(handle: int, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while chunk := os.read(handle, 1 << 16):
        size += len(chunk)
        if size > limit:
            raise HookFailure("this event is too large to be looked at")
        parts.append(chunk)
    return b"".join(parts)


def _ask_or_start(url: str, body: bytes, own: dict[str, str] | None, deadline: float, path: str) -> bytes:
    """The service's answer; one that is not running is started first, if `own` says with which variables."""
    if own is None:
        return ask_service(url, body, os.environ, deadline, path)
    # Nothing of ours in the environment counts: a project's settings can set it.
    told = {**own, **{name: os.environ.get(name, "") for name in FORWARDED_VARIABLES.values()}}
    try:
        return ask_service(url, body, told, deadline, path)
    except (ConnectionRefusedError, _NoToken):
        foreign = ""
    except NotProved as error:
        foreign = str(error)
    address = parse_url(url)
    if address[0] not in LOOPBACK:
        raise HookFailure(
            foreign or "nothing listens there, and a service on another machine cannot be started from here"
        )
    # The package that this file is a part of, whichever others are installed; it needs no other of its folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    import lockgate  # noqa: F401

    del sys.path[0]
    from lockgate.claude_code.service_start import bring_up

    # Only sessions of Claude Code can be noted as unwatched: without a body none is, and the event does not pass.
    noted = body if path == PATH else b""
    said = bring_up(address, own, noted, deadline - _ANSWER_S, foreign=foreign)
    if said.mark:
        raise _Unwatched(said.mark)
    if said.why:
        raise HookFailure(said.why)
    return ask_service(url, body, told, deadline, path)


def ask_service(url: str, body: bytes, environment: Mapping[str, str], deadline: float, path: str = PATH) -> bytes:
    """The service's answer: the body of a complete, proved response with status 200, and nothing less.

    An event is posted; a page of the service (another path, no body) is only got.
    """
    host, port = parse_url(url)
    target = f"{'POST' if body else 'GET'} {path}"
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    forwarded = [environment.get(variable, "").strip() for variable in FORWARDED_VARIABLES.values()]
    forwarded = [value if len(value) < 100 and value.isascii() and value.isprintable() else "" for value in forwarded]
    key = _read_token(environment).encode("ascii")
    nonce = os.urandom(16).hex()
    digest = sha256(body).hexdigest()
    signed = sign(key, "question", nonce, target, *forwarded, digest)
    lines = [
        f"{target} HTTP/1.1",
        f"Host: {name}",
        f"Authorization: {SCHEME} {nonce} {digest} {signed}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    lines += [f"{header}: {value}" for header, value in zip(FORWARDED_VARIABLES, forwarded, strict=True) if value]
    # A judge's own process says so by its token, with which nothing passes: unsigned, as it can only deny.
    judge = os.environ.get("LOCKGATE_JUDGE", "")[:64]
    lines += [f"X-Lockgate-Judge: {judge}"] if judge.encode("utf-8", "replace").isalnum() else []
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    status, fields, answer = _exchange((host, port), head + body, deadline)
    if fields.get(PROOF_HEADER) != sign_answer(key, signed, status, answer).encode("ascii"):
        raise NotProved(
            f"another program listens on {name}, or a service with another agent token: what answers there does not "
            "prove that it is this service"
        )
    if status != 200:
        raise HookFailure(f"the service answered with status {status}")
    if not fields.get(b"content-type", b"").startswith(b"application/json"):
        raise HookFailure("what answers there is not lockgate")
    return answer


def _exchange(place: tuple[str, int], request: bytes, deadline: float) -> tuple[int, dict[bytes, bytes], bytes]:
    """Send a request, and return the status, the fields and the whole body of the answer."""
    import _socket

    data = memoryview(request)
    # As bytes: a name as text is encoded for the name service first, by a module that takes longer than all this.
    host, port = place
    family, kind, proto, _, address = _socket.getaddrinfo(host.encode("ascii"), port, 0, _socket.SOCK_STREAM)[0]
    link = _socket.socket(family, kind, proto)
    try:
        _limit_time(link, deadline)
        link.connect(address)
        while data:
            _limit_time(link, deadline)
            data = data[link.send(data) :]
        received = b""
        while True:
            _limit_time(link, deadline)
            chunk = link.recv(1 << 16)
            if not chunk:
                break
            received += chunk
            if len(received) > MAX_ANSWER_BYTES:
                raise HookFailure("the answer is too large to be ours")
            if (answer := _parse_response(received)) is not None:
                return answer
    finally:
        link.close()
    raise HookFailure("the service broke off in the middle of its answer")


# Proofs


def sign(key: bytes, *parts: str) -> str:
    """HMAC-SHA256 over the parts, of which none holds a line end, by the agent's token."""
    padded = sha256(key).digest().ljust(64, b"\0")
    inner = sha256(bytes(each ^ 0x36 for each in padded) + "\n".join(parts).encode("ascii", "replace")).digest()
    return str(sha256(bytes(each ^ 0x5C for each in padded) + inner).hexdigest())


def sign_answer(key: bytes, question: str, status: int, body: bytes) -> str:
    """The proof in an answer: bound to the signature of its question, so no other answer fits."""
    return sign(key, "answer", question, str(status), sha256(body).hexdigest())


def sha256(data: bytes) -> Any:
    """`hashlib.sha256`, from the module behind it where there is one: `hashlib` doubles the time of a start."""
    for name in ("_sha2", "_sha256"):
        try:
            return __import__(name).sha256(data)
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256(data)


def _limit_time(link: object, deadline: float) -> None:
    left = deadline - monotonic()
    if left <= 0:
        raise HookFailure("no answer in time")
    link.settimeout(left)  # type: ignore[attr-defined]


def _parse_response(received: bytes) -> tuple[int, dict[bytes, bytes], bytes] | None:
    """Status, fields and body once all of it is there."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return None
    first, *lines = head.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise HookFailure("what answers there does not speak HTTP")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    length = fields.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 9:
        raise HookFailure("what answers there is not lockgate")
    if len(body) < int(length):
        return None
    return int(status), fields, body[: int(length)]


def _read_token(environment: Mapping[str, str]) -> str:
    token = environment.get("LOCKGATE_AGENT_TOKEN", "")
    if not token:
        state = environment.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):
            state = os.path.join(environment.get("HOME", "") or os.path.expanduser("~"), ".local", "state")
        path = os.path.join(state, "lockgate", "agent-token")
        try:
            # Not waiting for a pipe's other end.
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            raise _NoToken("there is no agent token yet: the service makes it when it first starts") from None
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                token = os.read(handle, 4096).decode("ascii", "replace").strip()
        finally:
            os.close(handle)
    if not token.isascii() or not token.isprintable() or " " in token or not 8 <= len(token) <= 1024:
        raise HookFailure("the agent token cannot be read")
    return token


def _print_answer(answer: bytes, body: bytes, out: int) -> int:
    """Pass the service's answer on, once it is certain that the host will read it as what it is."""
    import json

    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        raise HookFailure("the answer is not JSON") from None
    if not isinstance(said, dict):
        raise HookFailure("the answer is not an object")
    inner = said.get("hookSpecificOutput")
    ruling = inner.get("permissionDecision") if isinstance(inner, dict) else None
    if ruling not in (None, "deny", "ask"):
        raise HookFailure("the answer is none that lockgate gives")
    if ruling == "deny" and said.get("continue") is not False:
        _say(str(inner.get("permissionDecisionReason", "denied")))  # type: ignore[union-attr]  # a ruling came from it
        return 2
    if set(said) == {"systemMessage"} and _is_informative(body):
        # The last words of a run: the host shows them where its hook fails, and stops nothing for it.
        _say(str(said["systemMessage"]))
        return 1
    whole = json.dumps(said).encode()
    # One write: half an answer is plain text to the host, and lets the call run.
    if os.write(out, whole) != len(whole):
        raise HookFailure("the answer could not be given whole")
    return 0


def _say_denial(answer: bytes) -> int:
    """Say why a call may not run; anything but the one answer of this form is a failure."""
    import json

    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        raise HookFailure("the answer is not JSON") from None
    if not isinstance(said, dict) or not isinstance(said.get("deny"), str) or not said["deny"].strip():
        raise HookFailure("the answer is none that lockgate gives")
    _say(said["deny"])
    return 2


def _print_mark(mark: str, body: bytes, out: int) -> int:
    """Let an event pass that the service did not see, as loudly as the host allows."""
    import json

    _say(mark)
    if not _is_informative(body):
        os.write(out, json.dumps({"systemMessage": mark}).encode())
    return 0


def _is_informative(body: bytes) -> bool:
    """Whether this event certainly decides nothing.

    A quote inside a JSON string is escaped, so these bytes are a key; but arguments may have such a key too, so all of
    them have to agree.
    """
    events = [rest.partition(b'"')[0] for rest in body.split(_EVENT)[1:]]
    return bool(events) and all(event in _INFORMATIVE_EVENTS for event in events)


def _say(text: str) -> None:
    try:  # noqa: SIM105  # contextlib takes longer to load than all this
        os.write(2, text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass  # stderr is closed; the exit code says no as well


if __name__ == "__main__":
    sys.exit(main())
