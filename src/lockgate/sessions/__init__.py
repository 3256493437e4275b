"""Sessions that outlive a process: any host that shares the store can answer for any session."""

from __future__ import annotations

from lockgate.core.sessions.session_entries import RuleCount, SessionInfo, Stats, StatsBucket, StoredRuling
from lockgate.sessions.host import Piece
from lockgate.sessions.host_steps import Host, StepInfo
from lockgate.sessions.store import SessionStore
from lockgate.sessions.upkeep import Readiness

__all__ = [
    "Host",
    "Piece",
    "Readiness",
    "RuleCount",
    "SessionInfo",
    "SessionStore",
    "Stats",
    "StatsBucket",
    "StepInfo",
    "StoredRuling",
]
