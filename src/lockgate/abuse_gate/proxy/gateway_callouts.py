"""Callouts: other gateways ask the abuse gate about a request, and do as it says.

1. Envoy's ext_authz over HTTP sends the request itself, under a prefix. It goes through the gate as any other.
   To Envoy, 200 means allow, and it passes every other answer on to the client.
2. LiteLLM's generic guardrail API sends a description of the request. It becomes a chat again and goes through the same
   gate; every answer but 200 is `BLOCKED`.

Both say who the client is, so both have to prove that they are the gateway: Envoy by its address, LiteLLM by a token.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from lockgate.abuse_gate.identity import AmbiguousCredential, Identity, Name, principal_from_scope
from lockgate.abuse_gate.proxy.server import send_error
from lockgate.abuse_gate.request.conversation import SETTING_KEYS
from lockgate.abuse_gate.request.joined_ids import CONVERSATION_HEADERS, JOINED_HEADERS, MAX_CONVERSATION
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.abuse_gate.responses import Stop
from lockgate.core.errors import InvalidConfig
from lockgate.runtime.asgi import (
    App,
    BodyLimits,
    BodyReader,
    BodyTooLarge,
    BodyTooSlow,
    Header,
    Message,
    Receive,
    Scope,
    Send,
    UnexpectedMessage,
    json_bytes,
    json_headers,
    run_lifespan,
    send_response,
)

EXT_AUTHZ: Final = "/ext_authz"
LITELLM: Final = "/beta/litellm_basic_guardrail_api"
MIN_TOKEN: Final = 16
# Envoy's own headers: the client did not send them, and they hold no words.
_ENVOY_HEADERS: Final = (b"x-envoy-", b"x-request-id")
_PARTIAL_BODY: Final = b"x-envoy-auth-partial-body"
_JOINED: Final = frozenset(name.decode() for name in JOINED_HEADERS)
_LITELLM_SESSION: Final = b"x-litellm-session-id"
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_MESSAGES: Final = {
    "only-requests": "the gate does not check answers: set the guardrail's mode to pre_call",
    "nothing-to-judge": "the request has no content to check",
}
_NOTHING: Final[frozenset[str]] = frozenset()
_TOOLS: Final = ("tools", "functions", "tool_choice", "function_call")
# Small enough to be parsed on the event loop.
_SMALL: Final = 65_536
# One spelling of a key is accepted. Upstreams read other spellings (no scheme, another separator, quotation marks) in
# different ways, so a client could appear as a new one each time with the same key.
_AUTHORIZATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*) ([A-Za-z0-9._~+/-]+=*)")
_KEY: Final = re.compile(r"""[^,;"'\\\x00-\x20\x7f-\U0010ffff]+""")


class HeaderIdentity(Identity):
    """Identifies clients by a header, if that header can be believed.

    `user_header` holds the user that a trusted proxy has authenticated. It counts from these proxies only, which have
    to remove it from client requests. `key_header` holds each client's own key, which the upstream checks: a client
    that sends another client's key has it already, and a made-up key gets nothing. A key that an upstream could also
    read in another spelling is refused.
    """

    def __init__(
        self,
        secret: bytes,
        trusted_proxies: Sequence[str] = (),
        *,
        user_header: str = "",
        key_header: str = "",
        locks_anonymous: bool = False,
    ) -> None:
        super().__init__(secret, self._principal_from_header, trusted_proxies, locks_anonymous=locks_anonymous)
        if user_header and key_header:
            raise InvalidConfig("both a user header and a key header are given", hint="name one of them")
        if user_header and not trusted_proxies:
            raise InvalidConfig(
                "a user header needs ABUSE_TRUSTED_PROXIES: any client can send one",
                hint="name the addresses of the proxy that authenticates",
            )
        self._user, self._key = user_header.lower().encode("ascii"), key_header.lower().encode("ascii")
        # The upstream checks the key, after the gate.
        self.is_verified = not key_header

    def _principal_from_header(self, scope: Scope) -> Name | None:
        name = self._key or (self._user if self._user and self.trusts(scope) else b"")
        if not name:
            return principal_from_scope(scope)
        values = {value for given, value in scope["headers"] if given.lower() == name}
        if len(values) > 1:
            # The upstream reads one of them, and the gate cannot know which.
            raise AmbiguousCredential("the header that identifies the client is given twice")
        value = next(iter(values), b"").decode("latin-1").strip(" \t")
        if not value:
            return None
        if not self._key:
            return " ".join(value.split())
        return _key_from_authorization(value) if name == b"authorization" else _key_from_header(value)


def _key_from_authorization(value: str) -> str:
    """Return the key in `Authorization: KIND KEY`, for any kind."""
    found = _AUTHORIZATION.fullmatch(value)
    if found is None:
        raise AmbiguousCredential("an Authorization header must be a kind, one space, and a key")
    key = found[2]
    # An upstream may decode what ends like base64, and many texts decode to the same bytes.
    padded = found[1].lower() == "basic" or key.endswith("=")
    if padded and not (_is_canonical_base64(key, "+/", padded=True) or _is_canonical_base64(key, "-_", padded=True)):
        raise AmbiguousCredential("the key is not canonical base64")
    return _check_token_encoding(key)


def _key_from_header(value: str) -> str:
    """Return the key that is the whole header."""
    if _KEY.fullmatch(value) is None:
        raise AmbiguousCredential("a key must be one word")
    return _check_token_encoding(value)


def _check_token_encoding(key: str) -> str:
    signed = key.split(".")
    # The same holds for the signature of a token.
    if len(signed) == 3 and key.startswith("ey") and not _is_canonical_base64(signed[2], "-_", padded=False):
        raise AmbiguousCredential("the token is not canonical base64")
    return key


def _is_canonical_base64(text: str, letters: str, *, padded: bool) -> bool:
    """Return whether a text is the one that base64 writes for its bytes; other texts decode to the same bytes."""
    try:
        data = base64.b64decode(text if padded else text + "=" * (-len(text) % 4), letters.encode(), validate=True)
    except ValueError:
        return False
    again = base64.b64encode(data, letters.encode()).decode("ascii")
    return text == (again if padded else again.rstrip("="))


class LiteLLMIdentity(Identity):
    """Identifies LiteLLM's clients by their keys.

    LiteLLM does not say where a client connects from, and its own address is the same for all. So a key is a network
    too, and a client without a key is never locked.
    """

    def network_from_scope(self, scope: Scope) -> str:
        holder = principal_from_scope(scope)
        return super().network_from_scope(scope) if holder is None else f"litellm:{holder}"


async def allow_all(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200: the application behind the gate of a callout, which decides nothing itself."""
    if scope["type"] == "lifespan":
        await run_lifespan(receive, send)
        return
    if scope["type"] == "http":
        await send_response(send, 200, headers=[(b"content-length", b"0")])
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": ""})


class ExtAuthz:
    """Envoy's ext_authz: `gate` is the abuse gate around `allow_all`, with this `identity`."""

    def __init__(self, gate: App, identity: HeaderIdentity, prefix: str = EXT_AUTHZ) -> None:
        self._gate, self._identity, self._prefix = gate, identity, prefix.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._gate(scope, receive, send)
        elif not self._identity.trusts(scope):
            await send_error(send, 403, "not-a-gateway", "only a trusted proxy may ask here", close=True)
        elif not scope["path"].startswith(f"{self._prefix}/"):
            # Without the prefix, a client could choose the path that the gate checks.
            await send_error(send, 404, "not-found", f"the path must begin with {self._prefix}/", close=True)
        elif scope["method"] not in _WITHOUT_BODY and not any(name == _PARTIAL_BODY for name, _ in scope["headers"]):
            # Every body would seem empty then, and harmless.
            await send_error(send, 400, "body-not-sent", "Envoy sent no body: it needs with_request_body", close=True)
        else:
            try:
                asked = self._client_request(scope)
            except Stop as stop:
                for message in stop.messages(scope, unread=True):
                    await send(message)
            else:
                await self._gate(asked, receive, send)

    def _client_request(self, scope: Scope) -> Scope:
        """Return the request as the client sent it; raise Stop if Envoy did not send all of it."""
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        partial = [value for name, value in headers if name == _PARTIAL_BODY]
        if partial not in ([], [b"false"]):
            raise Stop("body-too-large")
        if partial and not any(name == b"content-type" for name, _ in headers):
            # Then content-encoding is missing as well, which the same setting of Envoy lists.
            raise Stop("bad-content-type", status=415)
        cut = len(self._prefix)
        raw = scope.get("raw_path") or scope["path"].encode("utf-8")
        kept = [(name, value) for name, value in headers if not name.startswith(_ENVOY_HEADERS)]
        return {**scope, "path": scope["path"][cut:], "raw_path": raw[cut:], "headers": kept}


class _GuardrailQuestion(NamedTuple):
    chat: Mapping[str, object]
    holder: str
    team: str
    # Those of the client's headers that name its conversation or its trace.
    joined: Sequence[Header]


class LiteLLMGuardrail:
    """LiteLLM's generic guardrail API: `gate` is the abuse gate around `allow_all`, with a `LiteLLMIdentity`.

    LiteLLM sends `token` as its `api_key`. `max_bytes` limits its description, which says most things twice.
    With `teams_are_tenants`, the team of a key is the request's tenant.
    """

    def __init__(
        self, gate: App, token: str, *, max_bytes: int = 4 << 20, read_s: float = 15.0, teams_are_tenants: bool = True
    ) -> None:
        if len(token) < MIN_TOKEN:
            raise InvalidConfig(
                f"the token for LiteLLM must have at least {MIN_TOKEN} characters",
                hint="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        self._gate, self._limits = gate, BodyLimits(max_bytes, read_s, read_s)
        # No key is in two teams: without tenants, clients stay apart by their keys alone.
        self._teams_are_tenants = teams_are_tenants
        self._token = sha256(token.encode("utf-8")).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._gate(scope, receive, send)
        elif not self._is_gateway(scope):
            await send_error(send, 401, "not-a-gateway", "only LiteLLM with its token may ask here", close=True)
        elif scope["path"] != LITELLM or scope["method"] != "POST":
            await send_error(send, 404, "not-found", f"the only route here is POST {LITELLM}", close=True)
        else:
            answer = await self._answer_question(scope, receive)
            if answer is not None:
                content = json_bytes(answer)
                await send_response(send, 200, content, json_headers(content))

    def _is_gateway(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == b"x-api-key"]
        # Hashed, so that the time taken reveals nothing about either.
        return len(given) == 1 and hmac.compare_digest(sha256(given[0]).digest(), self._token)

    async def _answer_question(self, scope: Scope, receive: Receive) -> dict[str, str] | None:
        """Return the answer for LiteLLM; None if it has left."""
        try:
            body = await self._read_description(receive)
            described = None if body is None else await _parse_question(body)
        except Stop as stop:
            return _blocked_answer(stop.reason, _MESSAGES.get(stop.reason, stop.told.message))
        return None if described is None else await self._ask_gate(scope, described, receive)

    async def _read_description(self, receive: Receive) -> bytes | None:
        try:
            return await BodyReader(receive, self._limits).read()
        except BodyTooLarge:
            raise Stop("body-too-large") from None
        except BodyTooSlow:
            raise Stop("body-too-slow") from None
        except UnexpectedMessage:
            return None

    async def _ask_gate(self, scope: Scope, described: _GuardrailQuestion, receive: Receive) -> dict[str, str] | None:
        body = json_bytes(described.chat)
        asked: Scope = {
            **scope,
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [*json_headers(body), *described.joined],
            # A new one: all requests of the server share the `state` that is there.
            "state": {
                "principal": described.holder,
                "tenant": described.team if self._teams_are_tenants else None,
            },
        }
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Message] = []

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        async def keep(message: Message) -> None:
            sent.append(message)

        await self._gate(asked, again, keep)
        if not sent:
            return None
        if sent[0].get("status") == 200:
            return {"action": "NONE"}
        try:
            error = json.loads(b"".join(message.get("body", b"") for message in sent))["error"]
            return _blocked_answer(error["code"], error["message"], error.get("incident_id", ""))
        except (ValueError, KeyError, TypeError):
            return _blocked_answer("unreadable", "the request could not be checked")


def _blocked_answer(code: str, message: str, incident: str = "") -> dict[str, str]:
    said = f"{message} ({code}, incident {incident})" if incident else f"{message} ({code})"
    return {"action": "BLOCKED", "blocked_reason": said}


async def _parse_question(body: bytes) -> _GuardrailQuestion:
    try:
        if len(body) <= _SMALL:
            return _question_from_body(body)
        return await asyncio.to_thread(_question_from_body, body)
    except (UnicodeDecodeError, UnreadableRequest) as error:
        raise Stop(error.refused.reason if isinstance(error, UnreadableRequest) else "bad-text") from None


def _question_from_body(body: bytes) -> _GuardrailQuestion:
    """Return the described request as a chat, with the client's key; raise Stop if it is not a request."""
    value = read_json(body.decode("utf-8"))
    if not isinstance(value, dict) or value.get("input_type") != "request":
        # Passing a model's answer would claim that the gate has checked it.
        raise Stop("only-requests", status=400)
    messages = value.get("structured_messages") or []
    chat: dict[str, object] = {"messages": messages} if messages else {}
    for key, new in _new_content(value, messages):
        chat |= {"prompt" if key == "texts" else key: new} if new else {}
    chat |= {name: value[name] for name in _TOOLS if value.get(name)}
    if not chat:
        raise Stop("nothing-to-judge", status=400)
    about = value.get("request_data")
    # Not the end user's id, which the client chooses.
    found = about if isinstance(about, dict) else {}
    holder, team = found.get("user_api_key_hash"), found.get("user_api_key_team_id")
    return _GuardrailQuestion(
        chat,
        holder if isinstance(holder, str) else "",
        team if isinstance(team, str) else "",
        _joined_headers(value.get("request_headers"), value.get("litellm_trace_id")),
    )


def _joined_headers(given: object, session: object) -> list[Header]:
    """Return the headers by which records are joined; LiteLLM's own session id counts if the client names none."""
    named = given.items() if isinstance(given, dict) else ()
    # LiteLLM tells the values of few headers, and of the others that they are there.
    told = [(name.lower(), text) for name, text in named if isinstance(text, str) and text != "[present]"]
    found = [(name.encode(), text.encode("utf-8", "replace")) for name, text in told if name in _JOINED]
    if isinstance(session, str) and not any(name in CONVERSATION_HEADERS for name, _ in found):
        found.append((_LITELLM_SESSION, session.encode("utf-8", "replace")))
    # A longer one is no id, and must not make the head too large.
    return [(name, text) for name, text in found if len(text) <= MAX_CONVERSATION]


def _new_content(value: Mapping[str, Any], messages: object) -> Iterator[tuple[str, list[Any]]]:
    """Yield the texts, images and calls that the messages do not have.

    LiteLLM repeats the messages there without saying whose words they are: a tool's words would be the client's.
    """
    known = set(_iter_strings(messages, SETTING_KEYS))
    for key in ("texts", "images", "tool_calls"):
        # A message has a call only if it says so: the same words in it are no call.
        said = known if key != "tool_calls" or any(map(_has_calls, _as_list(messages))) else _NOTHING
        listed = _as_list(value.get(key) or [])
        yield key, [each for each in listed if not all(text in said for text in _iter_strings(each, SETTING_KEYS))]


def _has_calls(message: object) -> bool:
    return isinstance(message, dict) and bool(message.get("tool_calls") or message.get("function_call"))


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _iter_strings(value: object, but: frozenset[str] = _NOTHING) -> Iterator[str]:
    """Yield every text and key in a JSON value, but not the texts under the keys in `but`. Its depth is bounded."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            # The gate does not read these as words, so they do not count as known.
            if key not in but:
                yield from _iter_strings(item, but)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_strings(item, but)
