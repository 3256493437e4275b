"""Tenants: the customers of an operator that share one installation, and what is set for each of them.

A tenant's own value of a setting stands under the setting's name, two underscores and the tenant's name: the variable
`ABUSE_PII_RULESET__acme`, or the key `pii_ruleset__acme`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.settings.keys import Environment, Row

# Each tenant is a label value of a metric, so their number has a limit.
MAX_TENANTS = 1000
# The label value of all requests without a listed tenant.
OTHER_TENANT = "other"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SEPARATOR = "__"


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """What the abuse gate does differently for one tenant; an empty word is the gate's own setting."""

    name: str
    pii_ruleset: str = ""
    on_unclear: str = ""
    override_mode: str = ""


# The settings that a tenant can have of its own.
TENANT_FIELDS = ("pii_ruleset", "on_unclear", "override_mode")


def is_tenant_name(name: object) -> bool:
    """Return whether this can be a tenant's name: it stands in variables, in headers and in metrics."""
    return type(name) is str and _NAME.fullmatch(name) is not None


def split_tenant(name: str) -> tuple[str, str]:
    """Return the setting and the tenant that a variable or a key names; the tenant is empty if it names none."""
    setting, _, tenant = name.partition(_SEPARATOR)
    return setting, tenant


def policies_from_env(environment: Environment, names: list[str], rows: Mapping[str, Row]) -> tuple[TenantPolicy, ...]:
    """Return the policies of the listed tenants; `rows` has the row of each of TENANT_FIELDS."""
    policies = []
    for name in names:
        own: dict[str, str] = {}
        for field in TENANT_FIELDS:
            row = replace(
                rows[field],
                key=f"{rows[field].key}{_SEPARATOR}{name}",
                variable=f"{rows[field].variable}{_SEPARATOR}{name}",
                default="",
            )
            if environment.text(row)[0]:
                own[field] = str(environment.value(row))
        policies.append(TenantPolicy(name, **own))
    return tuple(policies)


def check_policies(policies: object, words: Mapping[str, Mapping[str, object]]) -> None:
    """Raise InvalidConfig for a list of tenants that makes no sense; `words` has those that each field allows."""
    if not isinstance(policies, tuple) or not all(isinstance(each, TenantPolicy) for each in policies):
        raise InvalidConfig("tenants must be a tuple of TenantPolicy", hint="such as (TenantPolicy('acme'),)")
    names = [each.name for each in policies]
    for each in policies:
        if not is_tenant_name(each.name) or each.name == OTHER_TENANT:
            raise InvalidConfig(
                f"{quoted(each.name)} is no name of a tenant",
                hint=f"use letters, digits, dot, dash, underscore; `{OTHER_TENANT}` is taken",
            )
        for field in TENANT_FIELDS:
            value = getattr(each, field)
            if type(value) is not str or (value and value not in words[field]):
                raise InvalidConfig(f"{field} of {quoted(each.name)} must be one of {', '.join(words[field])}")
    if len(set(names)) < len(names) or len(names) > MAX_TENANTS:
        raise InvalidConfig(f"a tenant is listed twice, or there are more than {MAX_TENANTS:,}")
