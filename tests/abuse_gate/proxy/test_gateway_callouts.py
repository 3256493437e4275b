"""Callouts without a gateway: what Envoy and LiteLLM send, and what an attacker sends in their place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from asgi import ATTACK, HANG, HARMLESS, SECRET, Handler, Reply, call, chat, gated, ladder, post, scope

from lockgate.abuse_gate.identity import AmbiguousCredential, Identity
from lockgate.abuse_gate.middleware import Request
from lockgate.abuse_gate.proxy.gateway_callouts import (
    LITELLM,
    ExtAuthz,
    HeaderIdentity,
    LiteLLMGuardrail,
    LiteLLMIdentity,
    allow_all,
)
from lockgate.abuse_gate.request.joined_ids import JOINED_HEADERS, ids_from_request
from lockgate.core.errors import InvalidConfig
from lockgate.journal.record import sha256_hex
from lockgate.settings.abuse_gate import AbuseSettings

ENVOY = ("10.0.0.1", 40000)
TOKEN = "a token of LiteLLM's"
JSON = (b"content-type", b"application/json")
SENT = (b"x-envoy-auth-partial-body", b"false")


def ask(app: Any, body: bytes, **about: Any) -> Reply:
    return asyncio.run(post(app, body, **about))


# --- Envoy


def envoy(**more: Any) -> ExtAuthz:
    identity = HeaderIdentity(SECRET, ["10.0.0.0/24"], user_header="X-User")
    return ExtAuthz(gated(allow_all, identity=identity, **more), identity)


def checked(
    app: Any, body: bytes, *headers: tuple[bytes, bytes], path: str = "/ext_authz/v1/chat", **about: Any
) -> Reply:
    about.setdefault("client", ENVOY)
    return ask(app, body, path=path, headers=[JSON, SENT, *headers], **about)


def test_envoy_gets_leave_with_headers() -> None:
    reply = checked(envoy(), chat(HARMLESS))
    assert (reply.status, reply.decision, reply.body) == (200, "allow", b"")


def test_envoy_gets_what_the_client_would() -> None:
    reply = checked(envoy(), chat(ATTACK))
    assert (reply.status, reply.decision, reply.code) == (403, "deny", "unsafe")
    assert reply.incident


def test_the_gate_sees_the_client_s_own_path_and_headers() -> None:
    seen: list[Request] = []

    async def fetch(request: Request) -> str:
        seen.append(request)
        return "safe"

    path = "/ext_authz/v1/ext_authz/x y"
    assert checked(envoy(fetch=fetch), b"{}", (b"x-envoy-internal", b"true"), path=path).status == 200
    assert seen[0].scope["path"] == "/v1/ext_authz/x y"
    assert [name for name, _ in seen[0].scope["headers"]] == [b"content-type"]


def test_an_attack_in_the_path_counts() -> None:
    reply = checked(envoy(), b"", path=f"/ext_authz/{ATTACK}", method="GET")
    assert reply.status == 403


@pytest.mark.parametrize("client", [("10.0.1.1", 1), ("198.51.100.7", 1), None])
def test_only_a_trusted_proxy_is_answered(client: tuple[str, int] | None) -> None:
    reply = checked(envoy(), chat(HARMLESS), client=client)
    assert (reply.status, reply.code) == (403, "not-a-gateway")


@pytest.mark.parametrize("path", ["/", "/v1/chat", "/ext_authz", "/ext_authzz/v1", "//ext_authz/", "/healthz", LITELLM])
def test_nothing_but_the_prefix_gives_leave(path: str) -> None:
    reply = checked(envoy(), chat(HARMLESS), path=path)
    assert (reply.status, reply.code) == (404, "not-found")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ([JSON, (b"x-envoy-auth-partial-body", b"true")], 413, "body-too-large"),
        ([JSON, (b"x-envoy-auth-partial-body", b"")], 413, "body-too-large"),
        ([JSON, SENT, (b"x-envoy-auth-partial-body", b"true")], 413, "body-too-large"),
        ([JSON], 400, "body-not-sent"),
        ([SENT], 415, "bad-content-type"),
        ([JSON, SENT, (b"content-encoding", b"gzip")], 415, "encoded-body"),
    ],
)
def test_a_body_that_was_not_all_seen_gets_no_leave(
    headers: Iterable[tuple[bytes, bytes]], status: int, code: str
) -> None:
    reply = ask(envoy(), chat(HARMLESS), path="/ext_authz/v1", headers=headers, client=ENVOY)
    assert (reply.status, reply.code) == (status, code)


def test_a_request_without_a_body_needs_none() -> None:
    assert ask(envoy(), b"", path="/ext_authz/v1/models", headers=[], client=ENVOY, method="GET").status == 200


def test_the_user_that_envoy_authenticated_is_quarantined_and_no_other() -> None:
    app = envoy(settings=ladder(tier1_threshold=1, tier2_threshold=2, network_threshold=100))
    mallory, alice = (b"x-user", b"mallory"), (b"x-user", b"alice")
    near = (b"x-forwarded-for", b"203.0.113.9")
    assert [checked(app, chat(ATTACK), mallory, near).mode for _ in range(2)] == ["execute_locked", "full_quarantine"]
    banned = checked(app, chat(HARMLESS), mallory, (b"x-forwarded-for", b"203.0.113.77"))
    assert (banned.status, banned.code) == (429, "quarantined")
    assert int(banned.headers["retry-after"]) > 0
    assert checked(app, chat(HARMLESS), alice, near).status == 200
    assert checked(app, chat(HARMLESS), near).status == 200


def test_a_name_that_is_given_twice_is_refused() -> None:
    app = envoy()
    assert checked(app, chat(HARMLESS), (b"x-user", b"alice"), (b"X-User", b"bob")).code == "bad-credential"
    assert checked(app, chat(HARMLESS), (b"x-user", b"alice"), (b"X-User", b"alice")).status == 200


def test_strikes_go_to_the_address_that_envoy_saw() -> None:
    identity = HeaderIdentity(SECRET, ["10.0.0.0/24"])

    def subjects(*hops: bytes) -> Any:
        return identity.subjects(scope(client=ENVOY, headers=[(b"x-forwarded-for", hop) for hop in hops]))

    assert subjects(b"1.2.3.4, 203.0.113.9") == subjects(b"203.0.113.9")
    # Envoy writes its own address behind the client's.
    assert subjects(b"203.0.113.9,10.0.0.1") == subjects(b"203.0.113.9")
    assert subjects(b"203.0.113.9") != subjects(b"203.0.113.10")


# --- who asks, by a header


def test_a_user_header_counts_from_a_trusted_proxy_only() -> None:
    identity = HeaderIdentity(SECRET, ["10.0.0.0/24", "unix"], user_header="x-user")
    named = [(b"x-user", b" alice  b ")]
    assert [each.kind for each in identity.subjects(scope(client=ENVOY, headers=named))] == ["principal", "network"]
    assert [each.kind for each in identity.subjects(scope(client=None, headers=named))] == ["principal", "network"]
    assert [each.kind for each in identity.subjects(scope(headers=named))] == ["network"]
    assert [each.kind for each in identity.subjects(scope(client=("::ffff:10.0.0.9", 1), headers=named))] == [
        "principal",
        "network",
    ]


@pytest.mark.parametrize("value", [b"Bearer sk-1", b"bearer sk-1", b"Bearer sk-1 ", b"\tToken sk-1"])
def test_a_key_is_the_same_however_it_is_written(value: bytes) -> None:
    identity = HeaderIdentity(SECRET, key_header="Authorization")
    key, _ = identity.subjects(scope(headers=[(b"authorization", b"Bearer sk-1")]))
    again, _ = identity.subjects(scope(headers=[(b"Authorization", value)]))
    assert key == again
    other, _ = identity.subjects(scope(headers=[(b"authorization", b"Bearer sk-2")]))
    assert other != key


# A token's signature is read by decoding it: the last letter of this one has bits that no decoder looks at.
TOKEN_OF_ANN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.AQI"


@pytest.mark.parametrize(
    "value",
    [
        "Bearer sk-1 x1",
        "Bearer sk-1,",
        "Bearer sk-1, Bearer sk-2",
        "Bearer sk-1;x",
        'Bearer "sk-1"',
        "Bearer sk-1\u00a0",
        "Bearer sk-\u00e9",
        "Bearer\u000bsk-1",
        "Bearer, sk-1",
        "sk-1",
        "Bearersk-1",
        "Bearer:sk-1",
        "Bearer: sk-1",
        "Bearer=sk-1",
        "XXXXXXXsk-1",
        "Bearer  sk-1",
        "Bearer\tsk-1",
        "Bearer sk-1=",
        "Bearer sk1==",
        "Bearer <sk-1>",
        "Bearer (sk-1)",
        "Bearer token=sk-1",
        "token=sk-1",
        "Basic YW5uOng=x",
        "Basic YR==",
        "basic YQ",
        f"Bearer {TOKEN_OF_ANN[:-1]}J",
        f"Bearer {TOKEN_OF_ANN}=",
        f"Bearer {TOKEN_OF_ANN[:-2]}~{TOKEN_OF_ANN[-2:]}",
    ],
)
def test_a_key_that_is_written_oddly_is_refused_and_not_a_new_client(value: str) -> None:
    """An upstream that takes the second word, or what decodes to the same, would let a quarantined key in again."""
    handler = Handler()
    app = gated(handler, identity=HeaderIdentity(SECRET, key_header="authorization"))
    reply = ask(app, chat(HARMLESS), headers=[JSON, (b"authorization", value.encode("latin-1"))])
    assert (reply.status, reply.code, reply.decision) == (400, "bad-credential", "deny")
    assert handler.bodies == []


@pytest.mark.parametrize(
    "value", ["Basic YW5uOng=", "Basic YQ==", f"Bearer {TOKEN_OF_ANN}", "Bearer a.b.c", "Bearer sk-or_v1~x", "Key YQ=="]
)
def test_keys_as_providers_issue_them_are_principals(value: str) -> None:
    identity = HeaderIdentity(SECRET, key_header="authorization")
    assert len(identity.subjects(scope(headers=[(b"authorization", value.encode())]))) == 2


def test_a_key_in_a_header_of_its_own_is_all_of_it() -> None:
    identity = HeaderIdentity(SECRET, key_header="x-api-key")
    for value in (b"1|abc", b"k:v/+==", b"sk-1"):
        assert len(identity.subjects(scope(headers=[(b"x-api-key", value)]))) == 2
    for value in (b"Bearer sk-1", b"sk-1,x", b'"sk-1"', b"sk-1\t1"):
        with pytest.raises(AmbiguousCredential):
            identity.subjects(scope(headers=[(b"x-api-key", value)]))


def test_a_quarantined_key_stays_so_however_it_is_written() -> None:
    app = gated(
        Handler(), identity=HeaderIdentity(SECRET, key_header="authorization"), settings=ladder(network_threshold=100)
    )

    def asked(text: str, value: bytes) -> int:
        return ask(app, chat(text), headers=[JSON, (b"authorization", value)]).status

    assert [asked(ATTACK, b"Bearer realkey") for _ in range(6)] == [403] * 5 + [429]
    for value in (b"Bearer realkey", b"bearer realkey", b"Token realkey "):
        assert asked(HARMLESS, value) == 429
    for value in (b"Bearer realkey x1", b"bearer  realkey", b"realkey", b"Bearer:realkey", b"Bearer realkey="):
        assert asked(HARMLESS, value) == 400
    assert asked(HARMLESS, b"Bearer other") == 200


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"")], [(b"authorization", b"  ")]])
def test_without_a_key_there_is_only_a_network(headers: list[tuple[bytes, bytes]]) -> None:
    assert len(HeaderIdentity(SECRET, key_header="authorization").subjects(scope(headers=headers))) == 1


def test_header_names_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="both"):
        HeaderIdentity(SECRET, ["10.0.0.1"], user_header="x-user", key_header="authorization")
    with pytest.raises(InvalidConfig, match="ABUSE_TRUSTED_PROXIES"):
        HeaderIdentity(SECRET, user_header="x-user")


# --- LiteLLM


def litellm(**more: Any) -> LiteLLMGuardrail:
    return LiteLLMGuardrail(gated(allow_all, identity=LiteLLMIdentity(SECRET), **more), TOKEN, max_bytes=1 << 16)


def described(text: str = HARMLESS, *, key: object = "k1", **changed: object) -> dict[str, Any]:
    """As LiteLLM 1.106 describes a chat."""
    return {
        "input_type": "request",
        "litellm_call_id": "c5a8bee8",
        "litellm_trace_id": "11a90c58",
        "structured_messages": [{"role": "user", "content": text}],
        "images": None,
        "tools": None,
        "texts": [text],
        "request_data": {"user_api_key_hash": key, "user_api_key_user_id": "default_user_id"},
        "request_headers": {"host": "x", "user-agent": "curl", "x-secret": "[present]"},
        "litellm_version": "1.106.2",
        "additional_provider_specific_params": {},
        "tool_calls": None,
        "model": "m",
        **changed,
    }


def guarded(app: Any, description: object, *, token: str = TOKEN, **about: Any) -> Reply:
    body = description if isinstance(description, bytes) else json.dumps(description).encode()
    about.setdefault("path", LITELLM)
    return ask(app, body, headers=[JSON, (b"x-api-key", token.encode())], client=ENVOY, **about)


def ruling(reply: Reply) -> Mapping[str, str]:
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    return dict(json.loads(reply.body))


def test_a_key_of_litellm_is_its_own_network() -> None:
    # LiteLLM's address is the same for all: by it one client's attacks would slow all the others.
    identity = LiteLLMIdentity(SECRET)
    first, second = (identity.subjects(scope(client=ENVOY, user=key)) for key in ("k1", "k2"))
    assert first[-1] != second[-1]
    assert identity.subjects(scope(client=ENVOY)) == Identity(SECRET).subjects(scope(client=ENVOY))


def test_litellm_gets_leave() -> None:
    assert ruling(guarded(litellm(), described())) == {"action": "NONE"}


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("changed", "conversation", "trace"),
    [
        ({}, "11a90c58", ""),
        ({"request_headers": {"X-LiteLLM-Session-Id": "s-1", "traceparent": PARENT}}, "s-1", PARENT[3:35]),
        ({"request_headers": {"x-session-id": "[present]", "Traceparent": "[present]"}}, "11a90c58", ""),
        ({"request_headers": {"x-session-id": "s-2"}, "litellm_trace_id": None}, "s-2", ""),
        ({"request_headers": {"x-session-id": "s" * 70_000}, "litellm_trace_id": "t" * 201}, "", ""),
        ({"request_headers": {"x-session-id": ["s"], "\ud800": "x"}, "litellm_trace_id": 7}, "", ""),
        ({"request_headers": "x-session-id", "litellm_trace_id": "\ud800"}, "?", ""),
        ({"request_headers": {"x-forwarded-for": "8.8.8.8", "x-tenant": "acme"}}, "11a90c58", ""),
    ],
)
def test_records_of_litellms_requests_are_joined(changed: dict[str, object], conversation: str, trace: str) -> None:
    asked: list[Any] = []

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["headers"])
        await allow_all(scope, receive, send)

    assert ruling(guarded(LiteLLMGuardrail(gate, TOKEN), described(**changed))) == {"action": "NONE"}
    ids = ids_from_request(asked[0], "")
    assert ids == {"trace": trace, "conversation_sha256": sha256_hex(conversation) if conversation else ""}
    known = {b"content-type", b"content-length", *JOINED_HEADERS}
    assert known.issuperset(name for name, _ in asked[0])


def test_litellm_is_told_to_block_and_why() -> None:
    said = ruling(guarded(litellm(), described(ATTACK)))
    assert said["action"] == "BLOCKED"
    assert said["blocked_reason"].startswith("the request was found unsafe and was not passed on (unsafe, incident ")
    assert ATTACK not in said["blocked_reason"]


@pytest.mark.parametrize("token", ["", "another token than LiteLLM's", TOKEN + " ", TOKEN[:-1]])
def test_only_the_token_is_answered(token: str) -> None:
    reply = guarded(litellm(), described(), token=token)
    assert (reply.status, reply.code) == (401, "not-a-gateway")


def test_no_token_and_two_tokens_are_none() -> None:
    for headers in ([JSON], [JSON, (b"x-api-key", TOKEN.encode()), (b"x-api-key", TOKEN.encode())]):
        assert ask(litellm(), json.dumps(described()).encode(), path=LITELLM, headers=headers).status == 401


@pytest.mark.parametrize("about", [{"path": "/"}, {"path": f"{LITELLM}/"}, {"method": "GET"}])
def test_there_is_nothing_else_there(about: dict[str, str]) -> None:
    assert guarded(litellm(), described(), **about).status == 404


@pytest.mark.parametrize(
    ("description", "code"),
    [
        (described(input_type="response"), "only-requests"),
        ({}, "only-requests"),
        ([], "only-requests"),
        ("text", "only-requests"),
        (b"{", "not-json"),
        (b"", "not-json"),
        (b"\xff", "bad-text"),
        (b'{"input_type": "request", "texts": ["a"], "texts": ["b"]}', "duplicate-key"),
        (b"[" * 70 + b"]" * 70, "too-deep"),
        (described(texts=None, structured_messages=None), "nothing-to-judge"),
        (described(texts=[], structured_messages=[]), "nothing-to-judge"),
        (b'"' + b"x" * (1 << 16) + b'"', "body-too-large"),
    ],
)
def test_what_is_no_description_of_a_request_is_blocked(description: object, code: str) -> None:
    said = ruling(guarded(litellm(), description))
    assert said["action"] == "BLOCKED"
    assert said["blocked_reason"].endswith(f"({code})")


@pytest.mark.parametrize(
    "changed",
    [
        {"texts": [ATTACK]},
        {"texts": [ATTACK], "structured_messages": None},
        {"structured_messages": [{"role": "user", "content": [{"type": "text", "text": ATTACK}]}], "texts": []},
        {"structured_messages": {"0": {ATTACK: 1}}, "texts": None},
        {"texts": ATTACK, "structured_messages": None},
        {"texts": [{"odd": [ATTACK]}]},
        {"images": [ATTACK]},
    ],
)
def test_an_attack_is_found_wherever_it_stands(changed: dict[str, object]) -> None:
    assert ruling(guarded(litellm(), described(**changed)))["action"] == "BLOCKED"


@pytest.mark.parametrize(
    "changed",
    [
        {"structured_messages": None, "texts": None, "tool_calls": [{"function": {"name": "f", "arguments": ATTACK}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "description": ATTACK}}]},
        {"structured_messages": [{"role": role, "content": ATTACK} for role in ("system", "assistant")]},
        {"structured_messages": [{"role": "user", "content": text} for text in (ATTACK, HARMLESS)]},
    ],
)
def test_the_context_of_a_chat_is_suspected_and_does_not_count(changed: dict[str, object]) -> None:
    app = litellm(settings=ladder(tier1_threshold=1, tier2_threshold=1))
    for _ in range(2):
        assert ruling(guarded(app, described(**changed))) == {"action": "NONE"}
    strict = litellm(settings=AbuseSettings(on_unclear="block"))
    assert "(unclear, " in ruling(guarded(strict, described(**changed)))["blocked_reason"]


def test_a_key_s_holder_is_quarantined_and_no_other_client_is_slowed() -> None:
    app = litellm(settings=ladder(tier1_threshold=1, tier2_threshold=2, network_threshold=1))
    for _ in range(2):
        assert "unsafe" in ruling(guarded(app, described(ATTACK, key="k1")))["blocked_reason"]
    assert "(quarantined)" in ruling(guarded(app, described(key="k1")))["blocked_reason"]
    for other in ("k2", "", None, 7):
        assert ruling(guarded(app, described(key=other))) == {"action": "NONE"}


def test_an_end_user_s_name_which_a_client_chooses_changes_nothing() -> None:
    app = litellm(settings=ladder(tier1_threshold=1, tier2_threshold=1))
    about = {"user_api_key_hash": "k1", "user_api_key_end_user_id": "alice"}
    guarded(app, described(ATTACK, request_data=about))
    other = {"user_api_key_hash": "k1", "user_api_key_end_user_id": "bob"}
    assert "(quarantined)" in ruling(guarded(app, described(request_data=other)))["blocked_reason"]
    assert ruling(guarded(app, described(request_data={**about, "user_api_key_hash": "k2"}))) == {"action": "NONE"}


def test_a_tool_s_words_are_not_the_client_s() -> None:
    """LiteLLM repeats them among the texts, where they would count against the holder of the key."""
    app = litellm(settings=ladder(tier1_threshold=1, tier2_threshold=1))
    asked = [{"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"page": "1"}'}}]
    messages = [
        {"role": "user", "content": HARMLESS},
        {"role": "assistant", "content": None, "tool_calls": asked},
        {"role": "tool", "tool_call_id": "c", "content": ATTACK},
    ]
    said = ruling(guarded(app, described(structured_messages=messages, texts=[HARMLESS, ATTACK], tool_calls=asked)))
    assert "unsafe" in said["blocked_reason"]
    assert ruling(guarded(app, described())) == {"action": "NONE"}


def test_text_under_a_setting_key_of_a_message_is_still_read_elsewhere() -> None:
    text = ATTACK.replace(" ", "-").rstrip(".")
    said = described(structured_messages=[{"role": "user", "content": HARMLESS, "id": text}], texts=[text])
    assert ruling(guarded(litellm(), said))["action"] == "BLOCKED"


def test_locked_tools_stay_locked_through_litellm() -> None:
    app = litellm(settings=ladder(tier1_threshold=1, tier2_threshold=9))
    guarded(app, described(ATTACK))
    offered = [{"type": "function", "function": {"name": "f"}}]
    called = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    named = [{"role": "user", "content": text} for text in ("f", "{}", "function", "id", "type", "name", "arguments")]
    for changed in (
        {"tools": offered},
        {"functions": [{"name": "f"}]},
        {"tool_choice": "required"},
        {"tool_calls": called},
        {"tool_calls": called, "structured_messages": named},
    ):
        assert "(tools-locked)" in ruling(guarded(app, described(**changed)))["blocked_reason"]
    assert ruling(guarded(app, described())) == {"action": "NONE"}


def test_a_gate_that_fails_is_no_leave() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    app = LiteLLMGuardrail(broken, TOKEN)
    assert ruling(guarded(app, described()))["action"] == "BLOCKED"


def test_a_large_description_is_read_off_the_loop_and_judged() -> None:
    app = LiteLLMGuardrail(gated(allow_all, identity=LiteLLMIdentity(SECRET)), TOKEN)
    filler = [{"role": "user", "content": f"We open at {number}."} for number in range(4000)]
    assert ruling(guarded(app, described(structured_messages=filler, texts=[]))) == {"action": "NONE"}
    filler.append({"role": "user", "content": ATTACK})
    assert ruling(guarded(app, described(structured_messages=filler, texts=[])))["action"] == "BLOCKED"


def test_one_that_drips_its_description_is_told_to_block() -> None:
    app = LiteLLMGuardrail(gated(allow_all, identity=LiteLLMIdentity(SECRET)), TOKEN, read_s=1.0)
    about = scope(LITELLM, headers=[JSON, (b"x-api-key", TOKEN.encode())])
    first = {"type": "http.request", "body": b"{", "more_body": True}
    said = ruling(asyncio.run(call(app, about, [first, HANG])))
    assert said["blocked_reason"].endswith("(body-too-slow)")


def test_one_that_leaves_is_not_answered() -> None:
    about = scope(LITELLM, headers=[JSON, (b"x-api-key", TOKEN.encode())])
    assert asyncio.run(call(litellm(), about, [{"type": "http.disconnect"}])).messages == []


def test_a_short_token_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="at least 16"):
        LiteLLMGuardrail(allow_all, "short")


def test_neither_lets_a_websocket_through() -> None:
    for app in (envoy(), litellm()):
        reply = asyncio.run(call(app, scope("/ext_authz/x", kind="websocket", client=ENVOY), []))
        assert [message["type"] for message in reply.messages] == ["websocket.close"]


def test_both_start_and_end_with_the_server() -> None:
    for app in (envoy(), litellm()):
        events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
        reply = asyncio.run(call(app, {"type": "lifespan"}, events))
        assert [message["type"] for message in reply.messages] == [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ]
