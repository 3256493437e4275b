"""Sessions that outlive a process: any host that shares the store can answer for any session."""

from __future__ import annotations

from lockgate.core.sessions.session_entries import Bucket, Kept, RuleCount, SessionInfo, Stats
from lockgate.hosting.host import Piece
from lockgate.hosting.steps import Host, StepInfo
from lockgate.hosting.store import SessionStore
from lockgate.hosting.upkeep import Ready

__all__ = [
    "Bucket",
    "Host",
    "Kept",
    "Piece",
    "Ready",
    "RuleCount",
    "SessionInfo",
    "SessionStore",
    "Stats",
    "StepInfo",
]
