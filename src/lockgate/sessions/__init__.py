"""Sessions that outlive a process: any host that shares the store can answer for any session."""

from __future__ import annotations

from lockgate.core.sessions.session_entries import Bucket, Kept, RuleCount, SessionInfo, Stats
from lockgate.sessions.host import Piece
from lockgate.sessions.host_steps import Host, StepInfo
from lockgate.sessions.store import SessionStore
from lockgate.sessions.upkeep import Ready

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
