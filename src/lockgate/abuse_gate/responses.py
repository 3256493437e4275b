"""The abuse gate's answers and headers, and how the application's messages pass with them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lockgate.abuse_gate.shared_strikes import ClientStanding
from lockgate.runtime.asgi import Header, Message, Receive, Scope, Send, json_bytes, json_headers, response_messages

Headers = Sequence[Header]

# All values that the headers can have, besides an incident's id.
DECISIONS: Final = ("allow", "unclear", "clarify", "deny")
MODES: Final = ("execute_locked", "full_quarantine", "slowed", "degraded")
_HEADER_PREFIX = b"x-guardrail-"
# Marks the start of an answer that the gate itself sends from behind the gate. Only code in this process can set it.
OWN_ANSWER: Final = "lockgate.own"
_REASON = re.compile("[a-z0-9][a-z0-9:-]{0,39}")
_WITH_HEADERS = ("http.response.start", "http.response.trailers", "websocket.accept", "websocket.http.response.start")


class StopAnswer(NamedTuple):
    """The answer to a request that is not passed on."""

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
    "unknown-tenant": StopAnswer(403, "refused", "this tenant is not served here"),
    "headers-too-large": StopAnswer(431, "refused", "the headers are too large"),
    "two-content-types": StopAnswer(400, "refused", "the content type is given twice"),
    "encoded-body": StopAnswer(415, "refused", "the body must not have a content encoding"),
    "body-too-large": StopAnswer(413, "refused", "the body is too large"),
    "body-too-slow": StopAnswer(408, "refused", "the body did not arrive in time"),
    "not-http": StopAnswer(400, "refused", "the body did not arrive as an HTTP body"),
    "bad-query": StopAnswer(400, "refused", "the query cannot be read"),
    "unreadable": StopAnswer(400, "refused", "the body cannot be read"),
    "websocket": StopAnswer(403, "refused", "websockets are not allowed here"),
    "busy": StopAnswer(503, "failed", "too many requests are being handled"),
    "unavailable": StopAnswer(503, "failed", "the request could not be checked"),
}


class Stop(Exception):
    """The request is not passed on. `reason` is a key of ANSWERS, or one of the parser's with its own status."""

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
        """Return the whole answer; `unread` says that the client may still be sending its body."""
        status, _, message = self.told
        content = error_body(self.reason, message, self.incident)
        decision = "clarify" if self.reason == "clarify" else "deny"
        headers = [
            *json_headers(content),
            (b"cache-control", b"no-store"),
            *guardrail_headers(decision, mode_from_standing(self.judged), self.incident),
        ]
        if status in (429, 503):
            left_s = self.judged.retry_after_s if self.judged is not None and status == 429 else 1
            headers.append((b"retry-after", b"%d" % max(1, left_s)))
        if unread and str(scope.get("http_version", "")).startswith("1"):
            # The rest of the body must not be read as the next request.
            headers.append((b"connection", b"close"))
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        return response_messages(status, b"" if scope.get("method") == "HEAD" else content, headers, kind=kind)


def error_body(code: str, message: str, incident: str = "") -> bytes:
    """Return the JSON of an error answer."""
    error = {"type": "guardrail", "code": code, "message": message}
    error |= {"incident_id": incident} if incident else {}
    return json_bytes({"type": "error", "error": error})


def mode_from_standing(judged: ClientStanding | None) -> str:
    """Return the value of X-Guardrail-Mode, or an empty text for the ordinary mode."""
    if judged is None:
        return ""
    standing = judged.standing
    return standing.value if standing in MODES else "degraded" if judged.degraded else ""


def guardrail_headers(decision: str, mode: str, incident: str = "") -> Headers:
    """Return the gate's headers; an empty mode or incident has none."""
    found = [(b"x-guardrail-decision", decision.encode("ascii"))]
    if mode:
        found.append((b"x-guardrail-mode", mode.encode("ascii")))
    if incident:
        found.append((b"x-guardrail-incident-id", incident.encode("ascii")))
    return found


def strip_guardrail_headers(scope: Scope) -> Scope:
    """Return the scope without headers that only the gate may set; the same object if there are none."""
    kept = _without_guardrail_headers(scope["headers"])
    return scope if len(kept) == len(scope["headers"]) else {**scope, "headers": kept}


def send_with_headers(send: Send, added: Headers) -> Send:
    """Return a `send` that replaces the gate's headers in the application's answer with these."""

    # Not a coroutine function: the application awaits the server's `send` directly.
    def passed_on(message: Message) -> Awaitable[None]:
        kind = message["type"]
        if kind in _WITH_HEADERS:
            if OWN_ANSWER in message:
                # The gate's own answer in place of the application's; it has its headers already.
                message = {key: value for key, value in message.items() if key != OWN_ANSWER}
            else:
                kept = _without_guardrail_headers(message.get("headers", ()))
                message = {**message, "headers": kept if kind == "http.response.trailers" else [*kept, *added]}
        return send(message)

    return passed_on


def replay_body(body: bytes, receive: Receive, taken: Callable[[], None]) -> Receive:
    """Return a `receive` that gives the body first; it calls `taken` when only the application holds the body."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    del body

    async def again() -> Message:
        if not pending:
            return await receive()
        taken()
        return pending.pop()

    return again


def _without_guardrail_headers(headers: Iterable[Header]) -> list[Header]:
    # Also with underscores: behind WSGI and some proxies both spellings are one name.
    return [(name, value) for name, value in headers if not name.lower().replace(b"_", b"-").startswith(_HEADER_PREFIX)]
