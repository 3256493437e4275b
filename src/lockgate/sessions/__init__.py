"""Sessions that outlive a process: any host that shares the store can answer for any session."""

from __future__ import annotations

from lockgate.sessions.host import Host, Piece
from lockgate.sessions.host_steps import StepInfo
from lockgate.sessions.readiness import Readiness
from lockgate.sessions.session_entries import SessionInfo, Stats, StoredRuling
from lockgate.sessions.store import SessionStore

__all__ = [
    "Host",
    "Piece",
    "Readiness",
    "SessionInfo",
    "SessionStore",
    "Stats",
    "StepInfo",
    "StoredRuling",
]
