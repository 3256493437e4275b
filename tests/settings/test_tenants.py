"""Tenants in the settings: who is listed, and what each has of its own."""

from __future__ import annotations

from typing import Any

import pytest

from lockgate import InvalidConfig
from lockgate.settings.abuse_gate import AbuseSettings, abuse_settings_from_env
from lockgate.settings.tenants import MAX_TENANTS, TenantPolicy, is_tenant_name, split_tenant


def test_a_tenant_has_its_own_words_from_the_environment() -> None:
    settings = abuse_settings_from_env(
        {"ABUSE_TENANTS": "acme, globex", "ABUSE_PII_RULESET__acme": "hipaa", "ABUSE_ON_UNCLEAR__globex": "block"}
    )
    assert settings.tenants == (TenantPolicy("acme", pii_ruleset="hipaa"), TenantPolicy("globex", on_unclear="block"))
    assert settings.has_tenants


def test_a_tenant_has_its_own_words_from_a_table_and_the_environment_wins() -> None:
    table: dict[str, object] = {"tenants": ["acme"], "pii_ruleset__acme": "ferpa", "override_mode__acme": "clarify"}
    own = abuse_settings_from_env({"ABUSE_PII_RULESET__acme": "hipaa"}, table=table).tenants
    assert own == (TenantPolicy("acme", pii_ruleset="hipaa", override_mode="clarify"),)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ABUSE_TENANTS": "acme", "ABUSE_PII_RULESET__acme": "hippa"}, "ABUSE_PII_RULESET__acme must be one of"),
        ({"ABUSE_TENANTS": "acme", "ABUSE_PII_RULESET__amce": "hipaa"}, "no such tenant is listed"),
        ({"ABUSE_PII_RULESET__acme": "hipaa"}, "no such tenant is listed"),
        ({"ABUSE_TENANTS": "acme", "ABUSE_STORE__acme": "memory"}, "unknown variable"),
        ({"ABUSE_TENANTS": "acme\nx"}, "is no name of a tenant"),
        ({"ABUSE_TENANTS": "other"}, "is no name of a tenant"),
        ({"ABUSE_TENANTS": "acme", "ABUSE_TENANT_HEADER": "x-tenant"}, "needs ABUSE_TRUSTED_PROXIES"),
        ({"ABUSE_TENANT_HEADER": "x-tenant", "ABUSE_TRUSTED_PROXIES": "10.0.0.1"}, "needs ABUSE_TENANTS"),
        (
            {"ABUSE_TENANTS": "a", "ABUSE_TENANT_HEADER": "Authorization", "ABUSE_TRUSTED_PROXIES": "10.0.0.1"},
            "no name of a header",
        ),
        ({"ABUSE_UNLISTED_TENANTS": "allow"}, "must be one of refuse, default"),
    ],
)
def test_tenants_that_make_no_sense_are_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        abuse_settings_from_env(environ)


@pytest.mark.parametrize(
    "tenants",
    [
        ["acme"],
        (TenantPolicy("acme"), TenantPolicy("acme")),
        (TenantPolicy("acme", pii_ruleset="none"),),
        (TenantPolicy(""),),
        tuple(TenantPolicy(f"t{number}") for number in range(MAX_TENANTS + 1)),
    ],
)
def test_tenants_made_in_code_are_checked_too(tenants: Any) -> None:
    with pytest.raises(InvalidConfig):
        AbuseSettings(tenants=tenants)


def test_an_unknown_key_of_a_tenant_in_a_table_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="unknown key"):
        abuse_settings_from_env({}, table={"tenants": ["acme"], "max_body_bytes__acme": 4096})


def test_names_are_short_and_plain() -> None:
    assert all(map(is_tenant_name, ("acme", "a.b-c_d", "9", "x" * 128)))
    assert not any(map(is_tenant_name, ("", "-a", "a b", "a\n", "x" * 129, "é", 'a"b', None, 7)))
    assert split_tenant("ABUSE_PII_RULESET__a__b") == ("ABUSE_PII_RULESET", "a__b")
    assert split_tenant("ABUSE_PII_RULESET") == ("ABUSE_PII_RULESET", "")
