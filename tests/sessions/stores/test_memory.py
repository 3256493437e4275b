"""Sessions in memory; what every store promises is in `tests/sessions/test_store_contract.py`."""

from __future__ import annotations

import os
import sys

import pytest

from lockgate.core.errors import SessionsUnavailable
from lockgate.sessions.session_entries import SessionInfo
from lockgate.sessions.stores import memory
from lockgate.sessions.stores.memory import MAX_IDLE_S, MemorySessions


def test_a_failed_write_leaves_nothing() -> None:
    store = MemorySessions()
    with pytest.raises(SessionsUnavailable), store._write_transaction() as db:
        db.execute("UPDATE sessions SET nothing = 1")
    store.create(SessionInfo("s"))
    assert store.session("s") is not None
    store.close()


def test_a_closed_store_says_so() -> None:
    store = MemorySessions()
    store.close()
    store.close()
    with pytest.raises(SessionsUnavailable):
        store.session("s")


@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
def test_a_forked_process_gets_an_error_and_no_stale_session() -> None:
    store = MemorySessions()
    store.create(SessionInfo("s"))
    child = os.fork()
    if not child:
        code = 1
        try:
            store.session("s")
        except SessionsUnavailable:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.session("s") is not None
    store.close()


def test_sessions_in_memory_are_bounded_by_count_and_by_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_SESSIONS", 30)
    store = MemorySessions()
    for number in range(100):
        store.create(SessionInfo(f"s{number}", created_at=number, seen_at=number))
    assert len(store.sessions(limit=200, before=None, q="")) <= 30
    # What goes on with a deleted session does not pass for its beginning.
    assert not store.create(SessionInfo("s0", created_at=200, seen_at=200)).context_known
    late = 200 + 2 * MAX_IDLE_S
    for number in range(5):
        assert store.create(SessionInfo(f"late{number}", created_at=late, seen_at=late)).context_known
    assert {each.id[:4] for each in store.sessions(limit=200, before=None, q="")} == {"late"}
    store.close()
