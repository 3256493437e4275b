"""A stored session once more, from its first entry: every call is ruled on again by the gate that is given.

Nothing is stored. A call is ruled on in the context that it had then, whatever became of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockgate.core.errors import LockgateError
from lockgate.core.vocabulary import Decision, ToolCall
from lockgate.gate.gate import Gate
from lockgate.sessions.live_session import NO_CALL, LiveSession
from lockgate.sessions.session_cache import begin_ruler, read_chain
from lockgate.sessions.session_entries import (
    EntrySort,
    SessionInfo,
    StoredRuling,
    ruling_from_row,
)
from lockgate.sessions.store import SessionStore


def replay_session(store: SessionStore, info: SessionInfo, gate: Gate) -> Iterator[tuple[StoredRuling, Decision]]:
    """Yield each call of a session as it is stored, with the ruling on it now.

    A call that is stored in part, or cannot be read, is left out: it cannot be compared with anything.
    """
    chain, unknown = read_chain(store, info)
    rows = store.read_entries(tuple(each.number for each in chain), 0)
    live = LiveSession(info, begin_ruler(gate, chain, rows), tuple(each.number for each in chain))
    live.unknown_context = unknown
    for row in rows:
        if row.sort in (EntrySort.MODE, EntrySort.STEP) or (row.sort == EntrySort.RULING and row.content == NO_CALL):
            continue
        if row.sort != EntrySort.RULING:
            live.apply([row])
            continue
        try:
            kept = ruling_from_row(row, info.id, info.host)
            if kept.whole:
                live.ruler.context_known = not live.unknown_context
                call = ToolCall(kept.tool, kept.arguments, kept.annotations, folder=info.meta.get("cwd", ""))
                yield kept, live.ruler.check(call)
        except (ValueError, LockgateError):
            live.unknown_context.add(0)
