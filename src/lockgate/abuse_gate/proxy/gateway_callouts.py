"""Callouts: gateways that people run already ask the abuse gate about a request, and do as it says.

1. Envoy's ext_authz over HTTP sends the request itself, under a prefix. It goes through the gate as any other, and what
   it would get is what Envoy does: 200 is leave, anything else is for the client.
2. LiteLLM's generic guardrail API sends a description of the request. It is made a chat again and goes through the same
   gate; every answer that is not leave is `BLOCKED`.

Both say who the client is, so both have to be the gateway they say they are: Envoy by its address, LiteLLM by a token.
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

from lockgate.abuse_gate.identity import AmbiguousCredential, Identity, Name, parse_address, principal_from_scope
from lockgate.abuse_gate.proxy.server import send_error
from lockgate.abuse_gate.request.conversation import SETTING_KEYS
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.abuse_gate.responses import App, Message, Receive, Scope, Send, Stop
from lockgate.core.errors import InvalidConfig

EXT_AUTHZ: Final = "/ext_authz"
LITELLM: Final = "/beta/litellm_basic_guardrail_api"
MIN_TOKEN: Final = 16
# Of what a gateway says about itself nothing is the client's, nor anybody's words.
_ENVOY_HEADERS: Final = (b"x-envoy-", b"x-request-id")
_PARTIAL_BODY: Final = b"x-envoy-auth-partial-body"
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_MESSAGES: Final = {
    "only-requests": "answers are not looked at here: set the guardrail's mode to pre_call",
    "nothing-to-judge": "the request says nothing that could be looked at",
}
_NOTHING: Final[frozenset[str]] = frozenset()
_TOOLS: Final = ("tools", "functions", "tool_choice", "function_call")
# Small enough to be read on the loop.
_SMALL: Final = 65_536
# A key is written in one way. Of any other (no word before it, a sign between the two, a third word, quotation marks)
# one upstream makes something of its own and another nothing: the same key would be a new client each time.
_AUTHORIZATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*) ([A-Za-z0-9._~+/-]+=*)")
_KEY: Final = re.compile(r"""[^,;"'\\\x00-\x20\x7f-\U0010ffff]+""")


class HeaderIdentity(Identity):
    """Knows who asks by a header, where that header can be believed.

    `user_header` holds the name of whoever a trusted proxy has authenticated. It counts from these proxies only, which
    have to take out what a client sends under that name. `key_header` holds each client's own key, which the upstream
    checks: whoever writes down another's key has it, and with one that is made up gets nothing. A key that could be
    written in another way and still be the same to an upstream is refused.
    """

    def __init__(
        self, secret: bytes, trusted_proxies: Sequence[str] = (), *, user_header: str = "", key_header: str = ""
    ) -> None:
        super().__init__(secret, self._principal_from_header, trusted_proxies)
        if user_header and key_header:
            raise InvalidConfig("who asks is either in a user header or in a key header", hint="name one of them")
        if user_header and not trusted_proxies:
            raise InvalidConfig(
                "a user header needs ABUSE_TRUSTED_PROXIES: anybody can write one",
                hint="name the addresses of the proxy that authenticates",
            )
        self._user, self._key = user_header.lower().encode("ascii"), key_header.lower().encode("ascii")
        # A key is checked by the upstream, and only after the gate.
        self.is_checked = not key_header

    def trusts(self, scope: Scope) -> bool:
        """Whether the connection comes from a trusted proxy."""
        client = scope.get("client")
        return self.trusts_address(parse_address(client[0]) if client else None)

    def _principal_from_header(self, scope: Scope) -> Name | None:
        name = self._key or (self._user if self._user and self.trusts(scope) else b"")
        if not name:
            return principal_from_scope(scope)
        values = {value for given, value in scope["headers"] if given.lower() == name}
        if len(values) > 1:
            # The upstream reads one of them, and nobody knows which.
            raise AmbiguousCredential("a header that says who asks stands there twice")
        value = next(iter(values), b"").decode("latin-1").strip(" \t")
        if not value:
            return None
        if not self._key:
            return " ".join(value.split())
        return _key_from_authorization(value) if name == b"authorization" else _key_from_header(value)


def _key_from_authorization(value: str) -> str:
    """The key in `Authorization: KIND KEY`, whatever its kind is called."""
    found = _AUTHORIZATION.fullmatch(value)
    if found is None:
        raise AmbiguousCredential("an authorization has to be one word that says what kind it is, a space, and a key")
    key = found[2]
    # What ends like base64 may be read by decoding it, and many texts decode to the same.
    padded = found[1].lower() == "basic" or key.endswith("=")
    if padded and not (_is_canonical_base64(key, "+/", padded=True) or _is_canonical_base64(key, "-_", padded=True)):
        raise AmbiguousCredential("a key that is not encoded as it should be")
    return _check_token_encoding(key)


def _key_from_header(value: str) -> str:
    """The key that is all of a header."""
    if _KEY.fullmatch(value) is None:
        raise AmbiguousCredential("a key has to be one word")
    return _check_token_encoding(value)


def _check_token_encoding(key: str) -> str:
    signed = key.split(".")
    # So may the signature of a token.
    if len(signed) == 3 and key.startswith("ey") and not _is_canonical_base64(signed[2], "-_", padded=False):
        raise AmbiguousCredential("a token that is not encoded as it should be")
    return key


def _is_canonical_base64(text: str, letters: str, *, padded: bool) -> bool:
    """Whether this is how its bytes are written in base64, and not one of the other texts that decode to them."""
    try:
        data = base64.b64decode(text if padded else text + "=" * (-len(text) % 4), letters.encode(), validate=True)
    except ValueError:
        return False
    again = base64.b64encode(data, letters.encode()).decode("ascii")
    return text == (again if padded else again.rstrip("="))


class LiteLLMIdentity(Identity):
    """Knows LiteLLM's clients by their keys. Where they connect from LiteLLM does not say, so a key is a network too:
    its own address would be everybody's."""

    def network_of(self, scope: Scope) -> str:
        holder = principal_from_scope(scope)
        return super().network_from_scope(scope) if holder is None else f"litellm:{holder}"


async def allow_all(scope: Scope, receive: Receive, send: Send) -> None:
    """What stands behind the gate of a callout: it only ever says yes."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": ""})


class ExtAuthz:
    """Envoy's ext_authz: `gate` is the abuse gate around `allowed`, with this `identity`."""

    def __init__(self, gate: App, identity: HeaderIdentity, prefix: str = EXT_AUTHZ) -> None:
        self._gate, self._identity, self._prefix = gate, identity, prefix.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._gate(scope, receive, send)
        elif not self._identity.trusts(scope):
            await send_error(send, 403, "not-a-gateway", "only a trusted proxy may ask here", close=True)
        elif not scope["path"].startswith(f"{self._prefix}/"):
            # A gateway without the prefix would let its clients choose what they are asked about.
            await send_error(send, 404, "not-found", f"the path must begin with {self._prefix}/", close=True)
        elif scope["method"] not in _WITHOUT_BODY and not any(name == _PARTIAL_BODY for name, _ in scope["headers"]):
            # Every body would be an empty one then, and harmless.
            await send_error(
                send, 400, "body-not-sent", "no body came along: Envoy needs with_request_body", close=True
            )
        else:
            try:
                asked = self._client_request(scope)
            except Stop as stop:
                for message in stop.messages(scope, unread=True):
                    await send(message)
            else:
                await self._gate(asked, receive, send)

    def _client_request(self, scope: Scope) -> Scope:
        """The request as the client sent it; Stop for one of which not all has come."""
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        partial = [value for name, value in headers if name == _PARTIAL_BODY]
        if partial not in ([], [b"false"]):
            raise Stop("body-too-large")
        if partial and not any(name == b"content-type" for name, _ in headers):
            # Nor is it known then whether the body is compressed: both come with the same list of headers.
            raise Stop("bad-content-type", status=415)
        cut = len(self._prefix)
        raw = scope.get("raw_path") or scope["path"].encode("utf-8")
        kept = [(name, value) for name, value in headers if not name.startswith(_ENVOY_HEADERS)]
        return {**scope, "path": scope["path"][cut:], "raw_path": raw[cut:], "headers": kept}


class _GuardrailQuestion(NamedTuple):
    chat: Mapping[str, object]
    holder: str


class LiteLLMGuardrail:
    """LiteLLM's generic guardrail API: `gate` is the abuse gate around `allowed`, with a `Keyholders`.

    `token` is what LiteLLM sends as its `api_key`. `max_bytes` is for its description, which says most things twice.
    """

    def __init__(self, gate: App, token: str, *, max_bytes: int = 4 << 20, read_s: float = 15.0) -> None:
        if len(token) < MIN_TOKEN:
            raise InvalidConfig(
                f"the token for LiteLLM must have at least {MIN_TOKEN} characters",
                hint="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        self._gate, self._max_bytes, self._read_s = gate, max_bytes, read_s
        self._token = sha256(token.encode("utf-8")).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._gate(scope, receive, send)
        elif not self._is_gateway(scope):
            await send_error(send, 401, "not-a-gateway", "only LiteLLM with its token may ask here", close=True)
        elif scope["path"] != LITELLM or scope["method"] != "POST":
            await send_error(send, 404, "not-found", f"POST {LITELLM} is all there is here", close=True)
        else:
            answer = await self._answer_question(scope, receive)
            if answer is not None:
                content = json.dumps(answer).encode("ascii")
                headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": content, "more_body": False})

    def _is_gateway(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == b"x-api-key"]
        # Hashed, so that the time it takes says nothing about either.
        return len(given) == 1 and hmac.compare_digest(sha256(given[0]).digest(), self._token)

    async def _answer_question(self, scope: Scope, receive: Receive) -> dict[str, str] | None:
        """What LiteLLM is told; None when it does not wait for it any more."""
        try:
            body = await self._read(receive)
            described = None if body is None else await _parse_question(body)
        except Stop as stop:
            return _blocked_answer(stop.reason, _MESSAGES.get(stop.reason, stop.told.message))
        return None if described is None else await self._ask_gate(scope, described, receive)

    async def _read(self, receive: Receive) -> bytes | None:
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._read_s):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    more = bool(message.get("more_body", False))
                    if len(body) > self._max_bytes:
                        raise Stop("body-too-large")
        except TimeoutError:
            raise Stop("body-too-slow") from None
        return bytes(body)

    async def _ask_gate(self, scope: Scope, described: _GuardrailQuestion, receive: Receive) -> dict[str, str] | None:
        body = json.dumps(described.chat).encode("ascii")
        asked: Scope = {
            **scope,
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
            # A new one: what stands in it already belongs to the whole server.
            "state": {"principal": described.holder} if described.holder else {},
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
    """The request that LiteLLM describes as a chat, and whose key it came with; Stop for what is none."""
    value = read_json(body.decode("utf-8"))
    if not isinstance(value, dict) or value.get("input_type") != "request":
        # To let a model's answer pass unseen would be to say that it was looked at.
        raise Stop("only-requests", status=400)
    messages = value.get("structured_messages") or []
    known = set(_iter_strings(messages, SETTING_KEYS))
    chat: dict[str, object] = {"messages": messages} if messages else {}
    for key in ("texts", "images", "tool_calls"):
        # They repeat what is in the messages, but do not say whose it is: a tool's words would be the client's.
        listed = _as_list(value.get(key) or [])
        # A call is in a message only where that says so: the same words in it are none.
        said = known if key != "tool_calls" or any(map(_has_calls, _as_list(messages))) else _NOTHING
        rest = [each for each in listed if not all(text in said for text in _iter_strings(each, SETTING_KEYS))]
        chat |= {"prompt" if key == "texts" else key: rest} if rest else {}
    chat |= {name: value[name] for name in _TOOLS if value.get(name)}
    if not chat:
        raise Stop("nothing-to-judge", status=400)
    about = value.get("request_data")
    # Not the end user's id, which the client chooses.
    holder = about.get("user_api_key_hash") if isinstance(about, dict) else None
    return _GuardrailQuestion(chat, holder if isinstance(holder, str) else "")


def _has_calls(message: object) -> bool:
    return isinstance(message, dict) and bool(message.get("tool_calls") or message.get("function_call"))


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _iter_strings(value: object, but: frozenset[str] = _NOTHING) -> Iterator[str]:
    """Every text in a JSON value, keys too, but for those under some keys; how deep it is has been checked."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            # What is not read as words there is not known.
            if key not in but:
                yield from _iter_strings(item, but)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_strings(item, but)
