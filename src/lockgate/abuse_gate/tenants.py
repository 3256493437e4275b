"""The tenant of a request, and what the settings say for it.

A client must not choose its tenant: it would choose whose key is spent, where its text goes and whose strikes it gets.
So a tenant's name comes from two places only:

1. The application: its `tenant` function of the scope, or `scope["state"]["tenant"]`, which only its own code writes.
2. The header that the operator names, if the connection comes from one of the operator's own proxies.

A name that is not listed is refused, unless the settings say otherwise, also if none is listed at all: one customer's
strikes would lock out another's user of the same name, under settings made for neither. Names are short and plain.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction

from lockgate.abuse_gate.identity import AmbiguousCredential, Name, Unidentified, name_text
from lockgate.abuse_gate.responses import Stop
from lockgate.core.errors import InvalidConfig, quoted
from lockgate.runtime.asgi import Scope
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.settings.tenants import TENANT_FIELDS, TenantPolicy, is_tenant_name

LOG = logging.getLogger("lockgate.abuse_gate")

TenantOf = Callable[[Scope], Name | None]


class Tenants:
    """Finds the tenant of a request. `trusts` says whether a connection comes from a trusted proxy."""

    def __init__(self, settings: AbuseSettings, tenant: TenantOf | None, trusts: Callable[[Scope], bool]) -> None:
        if tenant is not None and not settings.has_tenants:
            raise InvalidConfig(
                "a tenant function is given, and no tenants are listed",
                hint="set ABUSE_TENANTS, or ABUSE_UNLISTED_TENANTS=default",
            )
        if iscoroutinefunction(tenant):
            raise InvalidConfig("the tenant function must not be async: the gate does not await it")
        self.enabled, self._explained = settings.has_tenants, False
        self._tenant, self._trusts = tenant or tenant_from_scope, trusts
        self._header = settings.tenant_header.encode("ascii")
        self._refuses_unlisted = settings.unlisted_tenants == "refuse"
        self._default = TenantPolicy("", *(getattr(settings, field) for field in TENANT_FIELDS))
        self._policies = {each.name: _with_defaults(each, self._default) for each in settings.tenants}

    def refuse_unreachable(self, tenants: Iterable[str]) -> None:
        """Raise InvalidConfig if a verifier has settings for a tenant whose requests never reach it."""
        unlisted = sorted({*tenants} - {*self._policies}) if self._refuses_unlisted else []
        if unlisted:
            raise InvalidConfig(
                f"the verifier has a key or an endpoint for the tenant {quoted(unlisted[0])}, and it is not listed",
                hint="name it in ABUSE_TENANTS, or set ABUSE_UNLISTED_TENANTS=default",
            )

    def refuse_missing_patterns(self) -> None:
        """Raise InvalidConfig if a rule set is `custom`, for a verifier without patterns: nothing would be redacted."""
        if any(policy.pii_ruleset == "custom" for policy in self.policies().values()):
            raise InvalidConfig(
                "ABUSE_PII_RULESET is custom, and the verifier has no patterns of your own",
                hint="set VERIFIER_CUSTOM_REDACTIONS_FILE, or another rule set: default, hipaa, ferpa",
            )

    def policies(self) -> Mapping[str, TenantPolicy]:
        """Return the policies of the listed tenants by name, and under the empty name the one of all others."""
        return {"": self._default, **self._policies}

    def policy(self, tenant: str) -> TenantPolicy:
        return self._policies.get(tenant, self._default)

    def find(self, scope: Scope) -> str:
        """Return the tenant's name, empty if there is none; raise Stop for a tenant that is not served.

        Raise Unidentified if the application's function fails, and AmbiguousCredential for a bad header.
        """
        try:
            found: object = self._tenant(scope)
        except Exception as error:
            raise Unidentified(
                f"the tenant of a request could not be found: {type(error).__name__}",
                hint="return None for a request without a tenant",
            ) from error
        name = "" if found is None else name_text(found)
        if not name and self._header and self._trusts(scope):
            name = self._name_from_header(scope)
        if not name:
            return ""
        if not is_tenant_name(name):
            raise AmbiguousCredential("the tenant's name is not one: letters, digits, dot, dash, underscore")
        if self._refuses_unlisted and name not in self._policies:
            self._explain_refusal()
            raise Stop("unknown-tenant")
        return name

    def _explain_refusal(self) -> None:
        """Say once how to serve tenants, if none is listed: the operator may not know that requests name them."""
        if not self.enabled and not self._explained:
            self._explained = True
            LOG.error(
                "requests name a tenant, and none is listed, so they are refused; "
                "set ABUSE_TENANTS, or ABUSE_UNLISTED_TENANTS=default"
            )

    def _name_from_header(self, scope: Scope) -> str:
        values = [value for given, value in scope["headers"] if given.lower() == self._header]
        if len(values) > 1:
            # The proxy wrote one of them, and the client perhaps the other.
            raise AmbiguousCredential("the header that names the tenant is given twice")
        return values[0].decode("latin-1").strip(" \t") if values else ""


def _with_defaults(policy: TenantPolicy, default: TenantPolicy) -> TenantPolicy:
    own = (getattr(policy, field) or getattr(default, field) for field in TENANT_FIELDS)
    return TenantPolicy(policy.name, *own)


def tenant_from_scope(scope: Scope) -> Name | None:
    """Return the tenant that the application has put into the scope, as `scope["state"]["tenant"]`."""
    state = scope.get("state")
    return state.get("tenant") if isinstance(state, Mapping) else None
