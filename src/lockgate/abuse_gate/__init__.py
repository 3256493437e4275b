"""The abuse gate: an ASGI middleware in front of an LLM application.

These are its public names. They are loaded when first used, so that importing one part does not load all the others.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lockgate.abuse_gate.documents.inspector import Inspector
    from lockgate.abuse_gate.identity import Identity
    from lockgate.abuse_gate.middleware import AbuseGateMiddleware
    from lockgate.abuse_gate.shared_strikes import Ladder
    from lockgate.abuse_gate.verdicts import FetchVerdict, Request
    from lockgate.settings.abuse_gate import AbuseSettings
    from lockgate.settings.tenants import TenantPolicy

__all__ = [
    "AbuseGateMiddleware",
    "AbuseSettings",
    "FetchVerdict",
    "Identity",
    "Inspector",
    "Ladder",
    "Request",
    "TenantPolicy",
]

_HOMES = {
    "AbuseGateMiddleware": "lockgate.abuse_gate.middleware",
    "AbuseSettings": "lockgate.settings.abuse_gate",
    "FetchVerdict": "lockgate.abuse_gate.verdicts",
    "Identity": "lockgate.abuse_gate.identity",
    "Inspector": "lockgate.abuse_gate.documents.inspector",
    "Ladder": "lockgate.abuse_gate.shared_strikes",
    "Request": "lockgate.abuse_gate.verdicts",
    "TenantPolicy": "lockgate.settings.tenants",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lockgate.abuse_gate' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
