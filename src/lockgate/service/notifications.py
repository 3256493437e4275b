"""Tells people that a call waits: webhooks, Slack, Teams, mail and the desktop, as `[[notify]]` of the operator says.

One thread looks for questions that were not told yet, so that no ruling ever waits for a receiver. What is sent is one
sentence without arguments, and a link that shows the call before it can be answered. A receiver may hear of a question
twice, under the same id; after some tries it is given up. Failures are counted and logged.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.message import EmailMessage
from hashlib import sha256
from html import escape
from logging import getLogger
from pathlib import Path
from shutil import which
from threading import Event, Thread
from time import time
from typing import NamedTuple, Protocol

from lockgate.core.errors import InvalidConfig, LockgateError, printable, quoted, suggest_closest
from lockgate.core.redaction.redact import redact
from lockgate.core.ruling.approvals import PendingApproval, describe_call
from lockgate.gate.notices_sqlite import MAX_TRIES, DueNotice
from lockgate.journal.anchors import Address, parse_address, post
from lockgate.runtime.failures import report_failure
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.service.approval_links import ApprovalLinks, LinkClaim

LOOK_S = 1.0
_RUN_S = 20.0
_MOST_TARGETS = 32
_KINDS = ("webhook", "slack", "teams", "mail", "desktop")
_TEXT_KEYS = ("kind", "name", "url", "secret_file", "to", "from", "person")
_FLAGS = ("arguments", "unsafe_plain_http")
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAILBOX = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}")
_BUS = "DBUS_SESSION_BUS_ADDRESS"
_SENDMAIL = ("/usr/sbin/sendmail", "/usr/lib/sendmail")
_SECRET_KIND = PrivateFileKind(
    "a webhook's secret", "sign notifications in your name", "service", error=InvalidConfig, secret=True
)


class Notice(NamedTuple):
    """What a receiver is told. `id` is the same in every try. With `more` it is about so many questions."""

    id: str
    pending: PendingApproval
    text: str
    link: str
    more: int = 0


class NotifyTarget(NamedTuple):
    """One row of `[[notify]]`, checked. `person` is who reads it, if that is one person."""

    kind: str
    name: str
    address: Address | None = None
    secret: bytes = b""
    to: str = ""
    sender: str = ""
    person: str = ""
    tells_arguments: bool = False

    def send(self, notice: Notice) -> None:
        """Deliver it; raise unless it has certainly arrived."""
        if self.address is not None:
            self._post(self.address, notice)
        elif self.kind == "mail":
            self._mail(notice)
        else:
            _run(_desktop_command(notice), environ=_desktop_environ(os.environ))

    def _post(self, address: Address, notice: Notice) -> None:
        body = json.dumps(_payload(self.kind, notice), ensure_ascii=True).encode("ascii")
        headers = {"content-type": "application/json", "x-lockgate-id": notice.id}
        if self.secret:
            stamp = f"{time():.0f}"
            signed = hmac.new(self.secret, f"{stamp}.".encode("ascii") + body, "sha256").hexdigest()
            headers |= {"x-lockgate-timestamp": stamp, "x-lockgate-signature": f"v1={signed}"}
        status, _ = post(address, body, headers=headers)
        if not 200 <= status < 300:
            raise LockgateError(f"it answered {status}")

    def _mail(self, notice: Notice) -> None:
        program = next((each for each in _SENDMAIL if os.access(each, os.X_OK)), None)
        if program is None:
            raise LockgateError("there is no sendmail on this machine")
        letter = EmailMessage()
        letter["To"], letter["From"], letter["Subject"] = self.to, self.sender, "Lockgate: a call waits for you"
        letter["Message-ID"] = f"<{notice.id}@lockgate.invalid>"
        letter.set_content(f"{notice.text}\n\n{notice.link}\n")
        _run([program, "-i", "--", self.to], letter.as_bytes())


def _payload(kind: str, notice: Notice) -> dict[str, object]:
    pending, text = notice.pending, notice.text
    if kind == "slack":
        plain = escape(text, quote=False)
        return {"text": f"{plain}\n<{notice.link}|Look and answer>", "unfurl_links": False, "unfurl_media": False}
    if kind == "teams":
        card = {
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "TextBlock", "text": re.sub(r"([\\`*_\[\]()#<>])", r"\\\1", text), "wrap": True}],
            "actions": [{"type": "Action.OpenUrl", "title": "Look and answer", "url": notice.link}],
        }
        form = "application/vnd.microsoft.card.adaptive"
        return {"type": "message", "attachments": [{"contentType": form, "content": card}]}
    if notice.more:
        return {
            "id": notice.id,
            "event": "approvals.waiting",
            "more": notice.more,
            "text": text,
            "link": notice.link,
        }
    return {
        "id": notice.id,
        "event": "approval.waiting",
        "approval": pending.id,
        "text": text,
        "asked_s": pending.created_s,
        "expires_s": pending.expires_s,
        "link": notice.link,
    }


def _desktop_command(notice: Notice) -> list[str]:
    shows = "lockgate approvals" if notice.more else f"lockgate approvals show {notice.pending.id}"
    title, text = "Lockgate: a call waits", f"{notice.text} {shows}"
    if (program := which("notify-send")) is not None:
        return [program, "--app-name=Lockgate", "--", title, escape(text, quote=False)]
    if (program := which("osascript")) is not None:
        script = ("on run argv", "display notification (item 1 of argv) with title (item 2 of argv)", "end run")
        return [program, *(part for line in script for part in ("-e", line)), text, title]
    raise LockgateError("this machine has neither notify-send nor osascript")


def _desktop_environ(environ: Mapping[str, str], runtime: Path | None = None) -> dict[str, str]:
    """Return the environment with the address of the desktop's message bus: a service that a hook started has none."""
    if sys.platform != "linux" or environ.get(_BUS):
        return dict(environ)
    bus = (runtime or Path(f"/run/user/{os.getuid()}")) / "bus"
    try:
        status = bus.lstat()
    except OSError:
        status = None
    if status is None or not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        why = f"no desktop of this account is logged in: {_BUS} is not set, and {bus} is not there"
        getLogger("lockgate.notify").warning("a desktop notification cannot be shown: %s", why)
        raise LockgateError(why)
    return {**environ, _BUS: f"unix:path={bus}"}


def _run(command: list[str], data: bytes = b"", *, environ: Mapping[str, str] | None = None) -> None:
    ran = subprocess.run(  # noqa: S603
        command, input=data, capture_output=True, timeout=_RUN_S, check=False, env=environ
    )
    if ran.returncode:
        raise LockgateError(f"{os.path.basename(command[0])} ended with {ran.returncode}")


def describe_notice(pending: PendingApproval, *, arguments: bool = False) -> str:
    """Return the sentence that is sent: our own words, the tool's name, and only if asked for the call's values."""
    shown = pending.shown
    text = f"Lockgate holds a call of the tool {quoted(pending.tool, 60)}: {shown.reason or 'suspicious'}."
    if arguments:
        text += f" It would do: {printable(describe_call(pending.bound), 400)}."
    return redact(f"{text} It waits for {'two people' if shown.people > 1 else 'a person'}.").text


def parse_targets(rows: Sequence[Mapping[str, object]]) -> tuple[NotifyTarget, ...]:
    """Return the rows of `[[notify]]` as targets; raise InvalidConfig for one that could not be used."""
    targets = tuple(_parse_target(row, at) for at, row in enumerate(rows, 1))
    if len({each.name for each in targets}) != len(targets) or len(targets) > _MOST_TARGETS:
        raise InvalidConfig(f"[[notify]] needs a `name` of its own in each row, and at most {_MOST_TARGETS} rows")
    return targets


def _parse_target(row: Mapping[str, object], at: int) -> NotifyTarget:
    where = f"[[notify]] number {at}"
    for key, value in row.items():
        wanted = str if key in _TEXT_KEYS else bool
        if key not in (*_TEXT_KEYS, *_FLAGS) or not isinstance(value, wanted):
            hint = suggest_closest(key, (*_TEXT_KEYS, *_FLAGS))
            raise InvalidConfig(f"{where}: {quoted(key)} is unknown, or not {wanted.__name__}", hint=hint)
    said = {key: str(row.get(key, "")) for key in _TEXT_KEYS}
    kind, name, person = said["kind"], said["name"] or said["kind"], said["person"]
    if kind not in _KINDS:
        raise InvalidConfig(f"{where} has no known `kind`", hint=f"use one of: {', '.join(_KINDS)}")
    for text in filter(None, (name, person)):
        if not _NAME.fullmatch(text):
            raise InvalidConfig(f"{where}: {quoted(text)} is no name", hint="use letters, digits, `.`, `_` and `-`")
    target = NotifyTarget(kind, name, person=person, tells_arguments=row.get("arguments") is True)
    if kind == "mail":
        if not _MAILBOX.fullmatch(said["to"]) or not _MAILBOX.fullmatch(said["from"]):
            raise InvalidConfig(f"{where} needs `to` and `from`, each one mail address")
        return target._replace(to=said["to"], sender=said["from"])
    if kind == "desktop":
        return target
    address = _parse_url(said["url"], where, plain_http=row.get("unsafe_plain_http") is True)
    return target._replace(address=address, secret=_read_secret(said["secret_file"], where))


def _parse_url(url: str, where: str, *, plain_http: bool) -> Address:
    if not url:
        raise InvalidConfig(f"{where} needs a `url`", hint="where notifications are sent to: https://host/path")
    address = parse_address(url, f"{where}, `url`,", unsafe_plain_http=plain_http)
    if address.scheme == "syslog":
        raise InvalidConfig(f"{where}: a notification goes to https://…")
    return address


def _read_secret(path: str, where: str) -> bytes:
    if not path:
        return b""
    try:
        secret = _SECRET_KIND.read(Path(path), 1_024).strip()
    except OSError as error:
        raise InvalidConfig(f"{where}: `secret_file` cannot be read: {type(error).__name__}") from None
    if len(secret) < 16:
        raise InvalidConfig(f"{where}: `secret_file` holds fewer than 16 characters")
    return secret


class NoticeStore(Protocol):
    """The store of approvals, as far as it knows who was told of what."""

    def claim_notices(self, targets: Sequence[str], now_s: float) -> list[DueNotice]: ...

    def mark_sent(self, notice: DueNotice, now_s: float) -> None: ...


class Notifier:
    """Sends what is due, from a thread of its own, until it is closed."""

    def __init__(
        self,
        store: NoticeStore,
        targets: Sequence[NotifyTarget],
        links: ApprovalLinks,
        page_url: str,
        *,
        clock: Callable[[], float] = time,
    ) -> None:
        self._store, self._links, self._page_url, self._clock = store, links, page_url.rstrip("/"), clock
        self._targets = {each.name: each for each in targets}
        self._ended = Event()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="notify")
        self._thread = Thread(target=self._look_regularly, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End without waiting for receivers: what was not marked as sent is sent again later."""
        self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look_regularly(self) -> None:
        while not self._ended.wait(LOOK_S):
            with suppress(RuntimeError):
                for due in self.claim():
                    self._pool.submit(self.send, due)

    def claim(self) -> list[DueNotice]:
        """Return what is due; none where the store fails, which may be over at the next look."""
        try:
            return self._store.claim_notices(tuple(self._targets), self._clock())
        except LockgateError as error:
            report_failure("notify-store", error)
            return []

    def send(self, due: DueNotice) -> None:
        """Send one notice and mark it as sent. A failure is counted, and leads to another try."""
        target = self._targets[due.target]
        try:
            target.send(self._summary(due, target) if due.more else self._notice(due.approval.pending, target))
            if not due.more:
                self._store.mark_sent(due, self._clock())
        except (LockgateError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            report_failure(f"notify-{target.kind}{'-given-up' if due.tries >= MAX_TRIES else ''}", error)

    def _notice(self, pending: PendingApproval, target: NotifyTarget) -> Notice:
        claim = LinkClaim(pending.id, target.name, target.person, pending.expires_s)
        link = f"{self._page_url}/#/answer/{self._links.make(claim)}"
        text = describe_notice(pending, arguments=target.tells_arguments)
        return Notice(_notice_id(pending.id, target.name), pending, text, link)

    def _summary(self, due: DueNotice, target: NotifyTarget) -> Notice:
        """Return the one line about what is not told of in this minute: its link leads to the list."""
        calls = "1 more call waits" if due.more == 1 else f"{due.more} more calls wait"
        text = f"Lockgate holds many calls: {calls}. You hear of each in the next minutes, if it still waits."
        id = _notice_id(due.approval.pending.id, target.name, "more")
        return Notice(id, due.approval.pending, text, f"{self._page_url}/#/approvals", due.more)


def _notice_id(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
