"""A library session that is dropped leaves no database open: Python 3.13 warns of each."""

from __future__ import annotations

import gc
import sqlite3

import pytest

from lockgate.sessions.stores.memory import MemorySessions


def test_sessions_in_memory_close_their_database_when_they_are_dropped() -> None:
    store = MemorySessions()
    database = store._db
    assert database is not None
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
