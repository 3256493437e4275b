"""Sessions that outlive a process: any host that shares the store can answer for any session."""

from __future__ import annotations

from lockgate.core.kept import Bucket, Kept, RuleCount, SessionInfo, Stats
from lockgate.hosting.host import Host, Piece, StepInfo
from lockgate.hosting.store import SessionStore

__all__ = ["Bucket", "Host", "Kept", "Piece", "RuleCount", "SessionInfo", "SessionStore", "Stats", "StepInfo"]
