"""Who may ask the service, and from where: two tokens, and the exact names it answers to.

1. Host.    The request must name one of our own addresses exactly. A page whose name points at this machine (DNS
            rebinding) names its own address and is refused.
2. Origin.  Every origin header of a browser must name our own page. A foreign page cannot call the service, and there
            is no CORS that would let one.
3. Token.   A header, never a cookie or a query: a browser never adds it by itself, and no access log holds it.
            The hook's command does not send it: it signs its question with the agent's token, and believes only an
            answer that the same token signed (`claude_code/hook_command.py`). Any program can take a free port.

The person's token can do everything. The agent's token asks, and speaks for the sessions that it opened
(`agent_access.py`); it cannot answer approvals, list or browse. A program of the same account that has it can say over
/hooks what the plug says, so keep it from agents as well. How a browser gets the person's token: `page_login.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from time import monotonic
from typing import NamedTuple

from lockgate.claude_code.hook_command import FORWARDED_VARIABLES, PROOF_HEADER, SCHEME, sign, sign_answer
from lockgate.core.errors import InvalidConfig, quoted
from lockgate.runtime.asgi import Header, Scope
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.service.http import Caller, Problem

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
FILES = {Caller.PERSON: "token", Caller.AGENT: "agent-token"}
VARIABLES = {Caller.PERSON: "LOCKGATE_TOKEN", Caller.AGENT: "LOCKGATE_AGENT_TOKEN"}
# What is in front tells people, and scanners for secrets, which of the two it is.
_PREFIX = {Caller.PERSON: "lgp_", Caller.AGENT: "lga_"}
_TOKEN = re.compile(r"[\x21-\x7e]{20,200}")
_SIGNED = re.compile(rf"{SCHEME} ([0-9a-f]{{32}}) ([0-9a-f]{{64}}) ([0-9a-f]{{64}})".encode())
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]{1,400})")
# How long a token that was changed or taken away may still count.
LOOK_S = 1.0
# Tokens of single persons, each in a file of its name.
PEOPLE = "people"
_MOST_PEOPLE = 256
_PERSON = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

TOKEN_FILE_KIND = PrivateFileKind(
    "a token of the service", "use the service in your name", "service", error=InvalidConfig, secret=True
)


def check_token(token: str, named: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise InvalidConfig(
            f"{named} is no token: 20 to 200 letters, digits and signs, without blanks",
            hint="leave it out, and one is made; or: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def read_token(path: Path) -> str:
    """Return the token in a file that no other user can read or write; raise FileNotFoundError where there is none."""
    TOKEN_FILE_KIND.check(path.parent, folder=True)
    return check_token(TOKEN_FILE_KIND.read(path, 1024).decode("latin-1").strip(), f"what is in {quoted(path, 200)}")


def make_token(path: Path, who: Caller, *, instead: bool = False) -> str:
    """A new token in a file; what is there already stays, unless a new one is to take its place."""
    token = _PREFIX[who] + token_urlsafe(32)
    if not instead:
        try:
            with TOKEN_FILE_KIND.create_whole(path) as new:
                new.write_text(f"{token}\n", encoding="ascii")
        except FileExistsError:
            return read_token(path)
        return token
    TOKEN_FILE_KIND.replace(path, f"{token}\n".encode("ascii"))
    return token


class SignedQuestion(NamedTuple):
    """What a request's signature says of its body, and what the answer is signed with.

    One that is sent again later gets an answer, and adds only what the hook had said: it is not kept out.
    """

    key: bytes
    digest: str
    signature: str

    def proof_of(self, status: int, body: bytes) -> Header:
        return PROOF_HEADER, sign_answer(self.key, self.signature, status, body).encode("ascii")


def person_path(folder: Path, name: str) -> Path:
    """Return the file of one person's own token; raise InvalidConfig for what is no name."""
    if not _PERSON.fullmatch(name):
        raise InvalidConfig(f"{quoted(name)} is no name for a person", hint="use letters, digits, `.`, `_` and `-`")
    return folder / PEOPLE / name


class Tokens:
    """The two tokens in force, and those of single persons, which can do what the person's token can.

    Those in files are looked at again: a rotated one counts within a second.
    """

    def __init__(
        self, folder: Path | None, environ: Mapping[str, str], *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._clock = clock
        self._fixed = {
            who: check_token(given, name) for who, name in VARIABLES.items() if (given := environ.get(name, "").strip())
        }
        self._paths: dict[Caller, Path] = {}
        for who, name in FILES.items():
            if who not in self._fixed:
                if folder is None:
                    raise InvalidConfig(
                        "there is no folder to keep the service's tokens in",
                        hint=f"set HOME or XDG_STATE_HOME, or {' and '.join(VARIABLES.values())}",
                    )
                self._paths[who] = folder / name
        self._folder = folder
        self._people: dict[str, bytes] = {}
        self._known: dict[Caller, bytes] = {who: token.encode("ascii") for who, token in self._fixed.items()}
        self._stamps: dict[Caller, object] = {}
        self._looked_s = clock()
        for who, path in self._paths.items():
            make_token(path, who)
            self._reload_if_changed(who)
        self._reload_people()
        self._refuse_equal()

    def token(self, who: Caller) -> str:
        self._reload_in_time()
        return self._known[who].decode("ascii")

    def path(self, who: Caller) -> Path | None:
        return self._paths.get(who)

    def person_of(self, given: bytes) -> str:
        """Return the name of the person whose own token this is; empty for any other token."""
        return next((name for name, token in self._people.items() if compare_digest(token, given)), "")

    def own_token(self, name: str) -> str:
        """Return the token of this one person; empty where there is none."""
        self._reload_in_time()
        return self._people.get(name, b"").decode("ascii")

    def caller_of(self, given: bytes) -> Caller | None:
        """Whose token this is; always compared with all, so that how long it takes says nothing."""
        self._reload_in_time()
        found = [who for who, token in self._known.items() if compare_digest(token, given)]
        found += [Caller.PERSON for token in self._people.values() if compare_digest(token, given)]
        # One that is both is neither: the agent's must never do what a person's may.
        return found[0] if len(found) == 1 else None

    def signed_question(self, scope: Scope) -> SignedQuestion | None:
        """Return what the agent's token signed in this request's head; None where it signed nothing."""
        headers = dict(scope["headers"])
        found = _SIGNED.fullmatch(headers.get(b"authorization", b""))
        self._reload_in_time()
        key = self._known.get(Caller.AGENT)
        if found is None or key is None or scope.get("query_string"):
            return None
        nonce, digest, signature = (each.decode("ascii") for each in found.groups())
        forwarded = [headers.get(name.lower().encode(), b"").decode("latin-1") for name in FORWARDED_VARIABLES]
        expected = sign(key, "question", nonce, f"{scope['method']} {scope['path']}", *forwarded, digest)
        return SignedQuestion(key, digest, signature) if compare_digest(expected, signature) else None

    def _reload_in_time(self) -> None:
        now_s = self._clock()
        if now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s
            for who in self._paths:
                self._reload_if_changed(who)
            self._reload_people()

    def _reload_if_changed(self, who: Caller) -> None:
        path = self._paths[who]
        try:
            status = os.stat(path, follow_symlinks=False)
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode, status.st_uid)
            if self._stamps.get(who) != stamp:
                self._known[who] = read_token(path).encode("ascii")
                self._stamps[who] = stamp
        except (OSError, InvalidConfig):
            # A token that is gone, or that other users can read, lets no caller in.
            self._known.pop(who, None)
            self._stamps.pop(who, None)

    def _reload_people(self) -> None:
        people: dict[str, bytes] = {}
        with suppress(OSError):
            names = os.listdir(self._folder / PEOPLE) if self._folder is not None else []
            for name in sorted(filter(_PERSON.fullmatch, names))[:_MOST_PEOPLE]:
                with suppress(OSError, InvalidConfig):
                    people[name] = read_token(person_path(self._folder, name)).encode("ascii")  # type: ignore[arg-type]
        self._people = people

    def _refuse_equal(self) -> None:
        if len(set(self._known.values())) != len(FILES):
            raise InvalidConfig(
                "the two tokens must be there, and differ: an agent's must not be able to answer approvals",
                hint="lockgate token --rotate, and lockgate token --agent --rotate",
            )


def has_person_token(folder: Path | None, environ: Mapping[str, str]) -> bool:
    """Return whether a person's token exists already, so that a person may have chosen or seen it."""
    return bool(environ.get(VARIABLES[Caller.PERSON], "").strip()) or (
        folder is not None and os.path.lexists(folder / FILES[Caller.PERSON])
    )


class HostCheck(NamedTuple):
    """1 and 2: the names that we answer to, in lower case and with their port."""

    hosts: frozenset[str]

    def check(self, scope: Scope) -> None:
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            if name in (b"host", b"origin", b"sec-fetch-site"):
                given.setdefault(name, []).append(value)
        # 1. Host.
        hosts = given.get(b"host", [])
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        if host not in self.hosts:
            raise Problem(
                403,
                "unknown-host",
                "this service does not answer to that host",
                hint="use 127.0.0.1, or name it in `server.allowed_hosts`",
            )
        # 2. Origin.
        for value in given.get(b"origin", []):
            if value.decode("latin-1").lower() not in (f"http://{host}", f"https://{host}"):
                raise Problem(403, "foreign-origin", "this service takes nothing from another page")
        for value in given.get(b"sec-fetch-site", []):
            # `none` is what a person typed or opened: nothing that changes anything comes like that.
            if value != b"same-origin" and (value != b"none" or scope["method"] not in ("GET", "HEAD")):
                raise Problem(403, "foreign-origin", "this service takes nothing from another page")


def host_check_for_port(port: int, allowed: Iterable[str] = ()) -> HostCheck:
    """The loopback names with this port, and those that the operator has named, each with a port of its own or ours."""
    hosts = {f"{name}:{port}" for name in LOOPBACK} | ({*LOOPBACK} if port == 80 else set())
    for name in allowed:
        plain = name.strip().lower()
        if not re.fullmatch(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", plain):
            raise InvalidConfig(
                f"{quoted(name)} in `server.allowed_hosts` is no name of a host",
                hint='write it as a browser sends it, for example "lockgate.example.com" or "10.0.0.5:7717"',
            )
        # A proxy in front passes the name on without a port where it is the usual one.
        hosts |= {plain} if re.search(r":[0-9]+$", plain) else {plain, f"{plain}:{port}"}
    return HostCheck(frozenset(hosts))


def bearer_token(scope: Scope) -> bytes | None:
    """3. The token that came; None for none, and for what is not exactly one."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    found = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    return found[1] if found else None
