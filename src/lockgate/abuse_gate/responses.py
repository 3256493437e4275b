"""What the abuse gate says: its answers, its headers, and the messages it passes on with them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple

from lockgate.abuse_gate.ladder import ClientStanding

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

# All that the headers can say, besides an incident's id.
DECISIONS: Final = ("allow", "unclear", "clarify", "deny")
MODES: Final = ("execute_locked", "full_quarantine", "slowed", "degraded")
_HEADER_PREFIX = b"x-guardrail-"
# Nearly all names begin otherwise.
_FIRST = (b"x", b"X")
# In a message that starts an answer: it is ours, from behind the gate. Only code in this process can write it.
OWN_ANSWER: Final = "lockgate.own"
_REASON = re.compile("[a-z0-9][a-z0-9:-]{0,39}")
_WITH_HEADERS = ("http.response.start", "http.response.trailers", "websocket.accept", "websocket.http.response.start")


class StopAnswer(NamedTuple):
    """What becomes of a request that is not passed on."""

    status: int
    outcome: str
    message: str


ANSWERS: Final[Mapping[str, StopAnswer]] = {
    "unsafe": StopAnswer(403, "denied", "the request was found unsafe and was not passed on"),
    "clarify": StopAnswer(422, "clarified", "the request reads like an attack: say in other words what you want"),
    "unclear": StopAnswer(403, "denied", "no verifier could tell whether the request is safe, so it was not passed on"),
    "artifact-unread": StopAnswer(422, "refused", "an attachment could not be read, so the request was not passed on"),
    "tools-locked": StopAnswer(
        403, "locked", "after several unsafe requests, only requests without tools are passed on for now"
    ),
    "quarantined": StopAnswer(429, "quarantined", "after several unsafe requests, this client has to wait"),
    "slowed": StopAnswer(429, "slowed", "several unsafe requests came from this network: wait a moment"),
    "bad-credential": StopAnswer(400, "refused", "the credential is ambiguous"),
    "headers-too-large": StopAnswer(431, "refused", "the headers are too large"),
    "two-content-types": StopAnswer(400, "refused", "the content type is given twice"),
    "encoded-body": StopAnswer(415, "refused", "the body must not have a content encoding"),
    "body-too-large": StopAnswer(413, "refused", "the body is too large"),
    "body-too-slow": StopAnswer(408, "refused", "the body did not arrive in time"),
    "not-http": StopAnswer(400, "refused", "the body did not arrive as an HTTP body"),
    "unreadable": StopAnswer(400, "refused", "the body cannot be read"),
    "websocket": StopAnswer(403, "refused", "websockets are not allowed here"),
    "busy": StopAnswer(503, "failed", "too many requests are being handled"),
    "unavailable": StopAnswer(503, "failed", "the request could not be checked"),
}


class Stop(Exception):
    """The request goes no further: `reason` is one of ANSWERS, or one of the parser's with its own status."""

    def __init__(
        self, reason: str, *, status: int = 0, judged: ClientStanding | None = None, incident: str = ""
    ) -> None:
        super().__init__(reason)
        self.judged, self.incident = judged, incident
        told = ANSWERS.get(reason)
        if told is None:
            reason = reason if _REASON.fullmatch(reason) else "unreadable"
            told = ANSWERS["unreadable"]._replace(status=status if 400 <= status < 500 else 400)
        self.reason, self.told = reason, told

    def messages(self, scope: Scope, *, unread: bool) -> tuple[Message, Message]:
        """The whole answer; `unread`, and the rest of the body is still to come."""
        status, _, message = self.told
        error = {"type": "guardrail", "code": self.reason, "message": message}
        error |= {"incident_id": self.incident} if self.incident else {}
        content = json.dumps({"type": "error", "error": error}, separators=(",", ":")).encode("ascii")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (b"cache-control", b"no-store"),
            *guardrail_headers(
                "clarify" if self.reason == "clarify" else "deny", mode_from_standing(self.judged), self.incident
            ),
        ]
        if status in (429, 503):
            left_s = self.judged.retry_after_s if self.judged is not None and status == 429 else 1
            headers.append((b"retry-after", b"%d" % max(1, left_s)))
        if unread and str(scope.get("http_version", "")).startswith("1"):
            # What is still to come of the body is nobody's, least of all the next request.
            headers.append((b"connection", b"close"))
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        shown = b"" if scope.get("method") == "HEAD" else content
        return (
            {"type": f"{kind}.start", "status": status, "headers": headers},
            {"type": f"{kind}.body", "body": shown, "more_body": False},
        )


def mode_from_standing(judged: ClientStanding | None) -> str:
    if judged is None:
        return ""
    standing = judged.standing
    return standing.value if standing in MODES else "degraded" if judged.degraded else ""


def guardrail_headers(decision: str, mode: str, incident: str = "") -> Headers:
    found = [(b"x-guardrail-decision", decision.encode("ascii"))]
    if mode:
        found.append((b"x-guardrail-mode", mode.encode("ascii")))
    if incident:
        found.append((b"x-guardrail-incident-id", incident.encode("ascii")))
    return found


def strip_guardrail_headers(scope: Scope) -> Scope:
    """The scope without headers that only the gate may set; the very same one where there are none."""
    for name, _ in scope["headers"]:
        if (type(name) is not bytes or name[:1] in _FIRST) and _is_guardrail_header(name):
            return {
                **scope,
                "headers": [(name, value) for name, value in scope["headers"] if not _is_guardrail_header(name)],
            }
    return scope


def send_with_headers(send: Send, added: Headers) -> Send:
    """The application's answer with our headers, and with none that only looks like one of them."""

    # Not a coroutine of its own: the server's is the one to wait for.
    def passed_on(message: Message) -> Awaitable[None]:
        kind = message["type"]
        if kind in _WITH_HEADERS:
            if OWN_ANSWER in message:
                # Not the application's answer but one of ours in its place, which says itself what it is.
                message = {key: value for key, value in message.items() if key != OWN_ANSWER}
            else:
                kept = [
                    (name, value)
                    for name, value in message.get("headers", ())
                    if (type(name) is bytes and name[:1] not in _FIRST) or not _is_guardrail_header(bytes(name))
                ]
                message = {**message, "headers": kept if kind == "http.response.trailers" else [*kept, *added]}
        return send(message)

    return passed_on


def replay_body(body: bytes, receive: Receive, taken: Callable[[], None]) -> Receive:
    """The body again, and then whatever comes after it; `taken` is called when nobody but the application holds it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    del body

    async def again() -> Message:
        if not pending:
            return await receive()
        taken()
        return pending.pop()

    return again


def _is_guardrail_header(name: bytes) -> bool:
    # Also with underscores: behind WSGI and some proxies the two are one name.
    return name.lower().replace(b"_", b"-").startswith(_HEADER_PREFIX)
