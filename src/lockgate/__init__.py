"""Lockgate: the checkpoint between an LLM agent and its tools.

The names below are loaded when first used, so that `import lockgate` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lockgate.abuse_gate.middleware import AbuseGateMiddleware
    from lockgate.core.errors import (
        InvalidBlock,
        InvalidCall,
        InvalidConfig,
        InvalidPattern,
        InvalidPayload,
        InvalidTrace,
        JournalUnavailable,
        LockgateError,
    )
    from lockgate.core.questions import Verdict
    from lockgate.core.requests.combined_verdict import Assessment
    from lockgate.core.ruling.opinions import Ruling, Silent, Triage, Unreadable
    from lockgate.core.ruling.policy import Policy
    from lockgate.core.ruling.supervised_steps import Commitment, SelfAssessment, Supervision
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
        Ran,
        Reason,
        Receipt,
        Risk,
        Trust,
    )
    from lockgate.gate.approvals_memory import MemoryApprovals
    from lockgate.gate.gate import Gate
    from lockgate.gate.judge import Inquiry, Judge, Opined
    from lockgate.gate.session import Session
    from lockgate.gate.supervised_step import Step
    from lockgate.integrations.plug import HeldByLockgate
    from lockgate.integrations.tools import guard
    from lockgate.verifiers.adapters import (
        KeySource,
        LocalRuleAdapter,
        RemoteAdapter,
        VerifierAdapter,
        resolve_adapter_from_env,
    )

__all__ = [
    "ENCODED_CONTENT_WARNING",
    "AbuseGateMiddleware",
    "Action",
    "Assessment",
    "Block",
    "Commitment",
    "Decision",
    "Finding",
    "Gate",
    "HeldByLockgate",
    "Inquiry",
    "InvalidBlock",
    "InvalidCall",
    "InvalidConfig",
    "InvalidPattern",
    "InvalidPayload",
    "InvalidTrace",
    "JournalUnavailable",
    "Judge",
    "KeySource",
    "Kind",
    "Lineage",
    "LocalRuleAdapter",
    "LockgateError",
    "MemoryApprovals",
    "Mode",
    "Opined",
    "Origin",
    "Policy",
    "Ran",
    "Reason",
    "Receipt",
    "RemoteAdapter",
    "Risk",
    "Ruling",
    "SelfAssessment",
    "Session",
    "Silent",
    "Step",
    "Supervision",
    "Triage",
    "Trust",
    "Unreadable",
    "Verdict",
    "VerifierAdapter",
    "__version__",
    "guard",
    "resolve_adapter_from_env",
]

_HOMES = {
    "lockgate.verifiers.adapters": (
        "KeySource LocalRuleAdapter RemoteAdapter VerifierAdapter resolve_adapter_from_env".split()
    ),
    "lockgate.core.requests.combined_verdict": ["Assessment"],
    "lockgate.core.errors": (
        "InvalidBlock InvalidCall InvalidConfig InvalidPattern InvalidPayload InvalidTrace JournalUnavailable "
        "LockgateError"
    ).split(),
    "lockgate.core.ruling.opinions": ["Ruling", "Silent", "Triage", "Unreadable"],
    "lockgate.core.ruling.policy": ["Policy"],
    "lockgate.core.questions": ["Verdict"],
    "lockgate.core.ruling.supervised_steps": ["Commitment", "SelfAssessment", "Supervision"],
    "lockgate.core.vocabulary": (
        "ENCODED_CONTENT_WARNING Action Block Decision Finding Kind Lineage Mode Origin Ran Reason Receipt Risk Trust"
    ).split(),
    "lockgate.gate.gate": ["Gate"],
    "lockgate.gate.judge": ["Inquiry", "Judge", "Opined"],
    "lockgate.gate.session": ["Session"],
    "lockgate.abuse_gate.middleware": ["AbuseGateMiddleware"],
    "lockgate.gate.supervised_step": ["Step"],
    "lockgate.integrations.plug": ["HeldByLockgate"],
    "lockgate.integrations.tools": ["guard"],
    "lockgate.gate.approvals_memory": ["MemoryApprovals"],
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module 'lockgate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
