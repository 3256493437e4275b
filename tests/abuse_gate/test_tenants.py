"""Tenants at the gate: a client cannot choose one, and each has its own key, endpoint, rule set, strikes and series."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from asgi import ATTACK, HARMLESS, SECRET, Handler, Reply, chat, gated, post, scope

from lockgate import InvalidConfig
from lockgate.abuse_gate.identity import AmbiguousCredential, Identity, Unidentified
from lockgate.abuse_gate.proxy.gateway_callouts import (
    EXT_AUTHZ,
    LITELLM,
    ExtAuthz,
    HeaderIdentity,
    LiteLLMGuardrail,
    LiteLLMIdentity,
    allow_all,
)
from lockgate.abuse_gate.responses import Stop
from lockgate.abuse_gate.tenants import Tenants
from lockgate.abuse_gate.verdicts import Request
from lockgate.runtime.metrics import Metrics
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.settings.tenants import TenantPolicy
from lockgate.testing import LoopbackProvider
from lockgate.verifiers.adapters import LocalRuleAdapter, resolve_adapter_from_env

JSON = (b"content-type", b"application/json")
PROXY, CLIENT = ("10.0.0.1", 9), ("198.51.100.7", 4711)
TOKEN = "a token that only LiteLLM knows"
ACME, GLOBEX = TenantPolicy("acme", pii_ruleset="hipaa", on_unclear="block"), TenantPolicy("globex")
SETTINGS = AbuseSettings(tenants=(ACME, GLOBEX), tenant_header="x-tenant", trusted_proxies=("10.0.0.1",))
NOTE = "Patient: Jane Doe, 118 Larkspur Lane, seen on March 3, 2024. Summarise the visit."


def middleware(**parts: Any) -> Any:
    parts.setdefault("identity", Identity(SECRET, trusted_proxies=SETTINGS.trusted_proxies))
    return gated(Handler(), settings=SETTINGS, **parts)


def asked(*tenants: bytes, client: tuple[str, int] = PROXY, **more: Any) -> dict[str, Any]:
    return scope(headers=[JSON, *((b"x-tenant", name) for name in tenants)], client=client, **more)


def finder(settings: AbuseSettings = SETTINGS, tenant: Any = None) -> Tenants:
    return Tenants(settings, tenant, Identity(SECRET, trusted_proxies=settings.trusted_proxies).trusts)


# --- who says it


def test_the_header_counts_from_the_operators_proxy_only() -> None:
    assert finder().find(asked(b"acme")) == "acme"
    assert finder().find(asked(b"acme", client=CLIENT)) == ""
    assert finder().find(asked(b"", client=PROXY)) == ""
    assert finder().find(asked()) == ""


def test_a_header_that_the_client_added_beside_the_proxys_is_refused() -> None:
    for values in ((b"acme", b"globex"), (b"acme", b"acme"), (b"acme, globex",), (b"acme\x00",), (b"a" * 129,)):
        with pytest.raises(AmbiguousCredential):
            finder().find(asked(*values))


def test_an_unlisted_tenant_is_refused_unless_the_operator_says_otherwise() -> None:
    for name in (b"initech", b"ACME"):
        with pytest.raises(Stop, match="unknown-tenant"):
            finder().find(asked(name))
    lenient = AbuseSettings(
        tenants=(ACME,), tenant_header="x-tenant", trusted_proxies=("10.0.0.1",), unlisted_tenants="default"
    )
    assert finder(lenient).find(asked(b"initech")) == "initech"
    assert finder(lenient).policy("initech").pii_ruleset == "default"


def test_the_application_s_word_comes_before_the_header() -> None:
    spoken = asked(b"acme", state={"tenant": "globex"})
    assert finder().find(spoken) == "globex"
    assert finder(tenant=lambda scope: scope["path"][1:3] and "acme").find(asked()) == "acme"
    with pytest.raises(Stop):
        finder(tenant=lambda _: UUID(int=7)).find(asked())


@pytest.mark.parametrize("answer", [b"acme", object(), True])
def test_a_tenant_function_that_fails_lets_no_request_pass(answer: object) -> None:
    with pytest.raises(Unidentified):
        finder(tenant=lambda _: answer).find(asked())
    with pytest.raises(Unidentified):
        finder(tenant=lambda _: 1 // 0).find(asked())


def test_without_tenants_no_header_names_one() -> None:
    assert Tenants(AbuseSettings(), None, lambda _: True).find(asked(b"acme")) == ""
    with pytest.raises(InvalidConfig, match="no tenants are listed"):
        Tenants(AbuseSettings(), lambda _: "acme", lambda _: True)


def test_an_async_tenant_function_is_refused() -> None:
    async def tenant(_: object) -> str:
        return "acme"

    with pytest.raises(InvalidConfig, match="async"):
        finder(tenant=tenant)


# --- strikes


def test_a_principal_of_one_tenant_is_another_than_its_namesake_of_another_tenant() -> None:
    identity = Identity(SECRET)
    keys = {identity.subjects(scope(user="alice"), tenant)[0].key for tenant in ("", "acme", "globex")}
    assert len(keys) == 3
    # The name of a user cannot reach into a tenant.
    assert identity.subjects(scope(user="acme\0alice"))[0].key not in keys


def test_strikes_of_one_tenant_do_not_touch_the_namesake_of_another() -> None:
    app = middleware()

    def status(text: str, tenant: str) -> int:
        state = {"principal": "alice", "tenant": tenant}
        return asyncio.run(post(app, chat(text), client=CLIENT, state=state)).status

    assert [status(ATTACK, "acme") for _ in range(6)] == [403] * 5 + [429]
    assert (status(HARMLESS, "acme"), status(HARMLESS, "globex"), status(HARMLESS, "")) == (429, 200, 200)


# --- what is set for each, on every road


@pytest.fixture
def common() -> Iterator[LoopbackProvider]:
    with LoopbackProvider(say="safe") as provider:
        yield provider


@pytest.fixture
def own() -> Iterator[LoopbackProvider]:
    with LoopbackProvider(say="safe") as provider:
        yield provider


@pytest.fixture
def adapter(common: LoopbackProvider, own: LoopbackProvider) -> Iterator[Any]:
    made: Any = resolve_adapter_from_env(
        {
            "VERIFIER_ADAPTER": "compatible",
            "VERIFIER_TIMEOUT_MS": "20000",
            "VERIFIER_MODEL": "common-model",
            "VERIFIER_BASE_URL": common.url,
            "VERIFIER_API_KEY": "common-key",
            "VERIFIER_API_KEY__acme": "acme-key",
            "VERIFIER_API_KEY__globex": "globex-key",
            "VERIFIER_BASE_URL__acme": own.url,
            "VERIFIER_MODEL__acme": "acme-model",
        }
    )
    yield made
    made.close()


def through_middleware(adapter: Any, tenant: str) -> Reply:
    app = middleware(adapter=adapter)
    return asyncio.run(post(app, chat(NOTE), client=CLIENT, state={"tenant": tenant}))


def through_proxy(adapter: Any, tenant: str) -> Reply:
    identity = HeaderIdentity(SECRET, SETTINGS.trusted_proxies, key_header="authorization")
    app = middleware(adapter=adapter, identity=identity)
    return asyncio.run(post(app, chat(NOTE), client=PROXY, headers=[JSON, (b"x-tenant", tenant.encode())]))


def through_envoy(adapter: Any, tenant: str) -> Reply:
    identity = HeaderIdentity(SECRET, SETTINGS.trusted_proxies, user_header="x-user")
    app = ExtAuthz(gated(allow_all, settings=SETTINGS, adapter=adapter, identity=identity), identity)
    headers = [JSON, (b"x-tenant", tenant.encode()), (b"x-envoy-auth-partial-body", b"false")]
    return asyncio.run(post(app, chat(NOTE), path=f"{EXT_AUTHZ}/v1/chat", client=PROXY, headers=headers))


def through_litellm(adapter: Any, tenant: str) -> Reply:
    identity = LiteLLMIdentity(SECRET, trusted_proxies=SETTINGS.trusted_proxies)
    app = LiteLLMGuardrail(gated(allow_all, settings=SETTINGS, adapter=adapter, identity=identity), TOKEN)
    body = {
        "input_type": "request",
        "structured_messages": [{"role": "user", "content": NOTE}],
        "request_data": {"user_api_key_hash": "k1", "user_api_key_team_id": tenant or None},
    }
    headers = [JSON, (b"x-api-key", TOKEN.encode())]
    return asyncio.run(post(app, json.dumps(body).encode(), path=LITELLM, client=CLIENT, headers=headers))


ROADS = (through_middleware, through_proxy, through_envoy, through_litellm)


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_key_endpoint_model_and_rule_set_are_the_tenant_s(
    road: Any, adapter: Any, common: LoopbackProvider, own: LoopbackProvider
) -> None:
    assert road(adapter, "acme").status == 200
    (request,) = own.requests
    assert common.requests == []
    assert request.headers["authorization"] == "Bearer acme-key"
    assert request.json["model"] == "acme-model"
    assert b"[redacted:name]" in request.body
    assert b"Jane" not in request.body
    assert b"Larkspur" not in request.body

    for tenant, key in (("globex", "globex-key"), ("", "common-key")):
        assert road(adapter, tenant).status == 200
        assert common.requests[-1].headers["authorization"] == f"Bearer {key}"
        assert common.requests[-1].json["model"] == "common-model"
        assert b"Jane" in common.requests[-1].body
    assert len(own.requests) == 1


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_an_unlisted_tenant_reaches_no_provider(
    road: Any, adapter: Any, common: LoopbackProvider, own: LoopbackProvider
) -> None:
    reply = road(adapter, "initech")
    assert b"unknown-tenant" in reply.body
    assert common.requests == own.requests == []


def test_unclear_requests_of_one_tenant_are_blocked_and_of_others_not() -> None:
    async def unclear(_: Request) -> str:
        return "unclear"

    app = middleware(fetch=unclear)
    for tenant, status in (("acme", 403), ("globex", 200), ("", 200)):
        assert asyncio.run(post(app, chat(HARMLESS), state={"tenant": tenant})).status == status


def test_the_application_s_own_verifier_is_told_the_tenant() -> None:
    seen: list[tuple[str, str]] = []

    async def fetch(request: Request) -> str:
        seen.append((request.tenant, request.payload["policy_context"]["pii_ruleset"]))
        return "safe"

    app = middleware(fetch=fetch)
    for tenant in ("acme", "globex", ""):
        asyncio.run(post(app, chat(HARMLESS), state={"tenant": tenant}))
    assert seen == [("acme", "hipaa"), ("globex", "default"), ("", "default")]


# --- metrics


def test_only_listed_tenants_have_a_series() -> None:
    metrics = Metrics()
    settings = AbuseSettings(tenants=(ACME,), unlisted_tenants="default")
    app = gated(Handler(), settings=settings, metrics=metrics)
    for tenant in ("acme", "", *(f"made-up-{number}" for number in range(50))):
        asyncio.run(post(app, chat(HARMLESS), state={"tenant": tenant}))
    counted = [
        line for line in metrics.render().splitlines() if line.startswith("lockgate_gate_tenant_requests_total{")
    ]
    assert counted == [
        'lockgate_gate_tenant_requests_total{tenant="acme",outcome="allowed"} 1',
        'lockgate_gate_tenant_requests_total{tenant="other",outcome="allowed"} 51',
    ]


def test_without_tenants_nothing_is_counted_by_tenant() -> None:
    metrics = Metrics()
    asyncio.run(post(gated(Handler(), metrics=metrics), chat(HARMLESS), state={"tenant": "acme"}))
    assert "lockgate_gate_tenant_requests_total{" not in metrics.render()


# --- settings that would never count


def test_a_verifier_with_settings_for_an_unlisted_tenant_does_not_start(adapter: Any) -> None:
    assert adapter.tenants == {"acme", "globex"}
    for settings in (AbuseSettings(), AbuseSettings(tenants=(ACME,))):
        with pytest.raises(InvalidConfig, match="is not listed"):
            gated(Handler(), settings=settings, adapter=adapter)
    gated(Handler(), settings=AbuseSettings(unlisted_tenants="default"), adapter=adapter)


@pytest.mark.parametrize(
    "settings",
    [
        AbuseSettings(pii_ruleset="custom"),
        AbuseSettings(tenants=(TenantPolicy("acme", pii_ruleset="custom"),)),
    ],
)
def test_custom_redaction_without_patterns_does_not_start(settings: AbuseSettings, tmp_path: Path) -> None:
    said = {"VERIFIER_ADAPTER": "compatible", "VERIFIER_MODEL": "m", "VERIFIER_BASE_URL": "http://127.0.0.1:9"}
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("ticket-[0-9]{6}\n")
    without, with_patterns = (
        resolve_adapter_from_env({**said, **more}) for more in ({}, {"VERIFIER_CUSTOM_REDACTIONS_FILE": str(patterns)})
    )
    with pytest.raises(InvalidConfig, match="no patterns of your own"):
        gated(Handler(), settings=settings, adapter=without)
    gated(Handler(), settings=settings, adapter=with_patterns)
    # The rules alone send nothing anywhere.
    gated(Handler(), settings=settings, adapter=LocalRuleAdapter(metrics=Metrics()))


def test_a_tenant_in_the_scope_is_refused_where_none_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    tenants = finder(AbuseSettings())
    with caplog.at_level("ERROR", logger="lockgate.abuse_gate"):
        assert [tenants.find(scope(state=state)) for state in ({"tenant": ""}, {"tenant": None}, {})] == [""] * 3
        assert caplog.messages == []
        for _ in range(3):
            with pytest.raises(Stop, match="unknown-tenant"):
                tenants.find(scope(state={"tenant": "acme"}))
    assert len(caplog.messages) == 1
    assert "ABUSE_TENANTS" in caplog.messages[0]
    assert "acme" not in caplog.messages[0]


def test_one_customers_strikes_never_lock_out_anothers_user_of_the_same_name() -> None:
    """Without a list the two would share their strikes: so neither is served."""
    gate = gated(Handler(), adapter=LocalRuleAdapter(metrics=Metrics()))

    def ask(**state: str) -> Reply:
        return asyncio.run(post(gate, chat(HARMLESS), state={"principal": "alice", **state}))

    for tenant in ("acme", "globex"):
        assert (ask(tenant=tenant).status, ask(tenant=tenant).code) == (403, "unknown-tenant")
    assert ask().status == 200


def test_teams_of_a_gateway_are_no_tenants_where_none_is_listed() -> None:
    gate = gated(allow_all, adapter=LocalRuleAdapter(metrics=Metrics()), identity=LiteLLMIdentity(SECRET))
    about = {"user_api_key_hash": "k1", "user_api_key_team_id": "acme"}
    body = json.dumps({"input_type": "request", "texts": [HARMLESS], "request_data": about}).encode()
    headers = [JSON, (b"x-api-key", TOKEN.encode())]
    said = [
        asyncio.run(post(LiteLLMGuardrail(gate, TOKEN, teams_are_tenants=named), body, path=LITELLM, headers=headers))
        for named in (True, False)
    ]
    assert [json.loads(each.body)["action"] for each in said] == ["BLOCKED", "NONE"]
