"""Lockgate: the checkpoint between an LLM agent and its tools.

The names below are loaded when first used, so that `import lockgate` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lockgate.adapters import (
        KeySource,
        LocalRuleAdapter,
        RemoteAdapter,
        VerifierAdapter,
        resolve_adapter_from_env,
    )
    from lockgate.core.assessment import Assessment
    from lockgate.core.errors import (
        InvalidBlock,
        InvalidCall,
        InvalidConfig,
        InvalidPattern,
        InvalidPayload,
        InvalidTrace,
        LockgateError,
    )
    from lockgate.core.policy import Policy
    from lockgate.core.questions import Verdict
    from lockgate.core.vocabulary import (
        ENCODED_CONTENT_WARNING,
        Action,
        Block,
        Decision,
        Finding,
        Kind,
        Lineage,
        Mode,
        Origin,
        Reason,
        Risk,
        Trust,
    )
    from lockgate.gate import Gate, Session

__all__ = [
    "ENCODED_CONTENT_WARNING",
    "Action",
    "Assessment",
    "Block",
    "Decision",
    "Finding",
    "Gate",
    "InvalidBlock",
    "InvalidCall",
    "InvalidConfig",
    "InvalidPattern",
    "InvalidPayload",
    "InvalidTrace",
    "KeySource",
    "Kind",
    "Lineage",
    "LocalRuleAdapter",
    "LockgateError",
    "Mode",
    "Origin",
    "Policy",
    "Reason",
    "RemoteAdapter",
    "Risk",
    "Session",
    "Trust",
    "Verdict",
    "VerifierAdapter",
    "__version__",
    "resolve_adapter_from_env",
]

_HOMES = {
    "lockgate.adapters": "KeySource LocalRuleAdapter RemoteAdapter VerifierAdapter resolve_adapter_from_env".split(),
    "lockgate.core.assessment": ["Assessment"],
    "lockgate.core.errors": (
        "InvalidBlock InvalidCall InvalidConfig InvalidPattern InvalidPayload InvalidTrace LockgateError".split()
    ),
    "lockgate.core.policy": ["Policy"],
    "lockgate.core.questions": ["Verdict"],
    "lockgate.core.vocabulary": (
        "ENCODED_CONTENT_WARNING Action Block Decision Finding Kind Lineage Mode Origin Reason Risk Trust".split()
    ),
    "lockgate.gate": ["Gate", "Session"],
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module 'lockgate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
