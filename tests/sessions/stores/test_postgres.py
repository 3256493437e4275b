"""Sessions in PostgreSQL, as far as they go without a server; `tests/hosts` has one."""

from __future__ import annotations

import pytest

from lockgate.core.errors import SessionsUnavailable
from lockgate.runtime.postgres import postgres_sql
from lockgate.sessions.session_entries import EntrySort, SessionEntry
from lockgate.sessions.stores.postgres import PostgresSessions
from lockgate.sessions.stores.sql import TABLES

pytest.importorskip("psycopg")


def entry(key: str) -> SessionEntry:
    return SessionEntry(EntrySort.BLOCK, 1.0, key, b"text")


def test_a_server_that_does_not_answer_is_an_error_and_says_no_password() -> None:
    store = PostgresSessions("postgresql://ana:canary@127.0.0.1:1/none")
    for use in (lambda: store.append([1], [entry("k")]), lambda: store.session("s"), store.test_write):
        with pytest.raises(SessionsUnavailable, match="the database of the sessions cannot be used") as raised:
            use()
        assert "canary" not in str(raised.value)
    store.close()


def test_the_tables_have_names_of_their_own() -> None:
    for name in ("entries", "sessions", "forgotten"):
        assert f"CREATE TABLE lockgate_{name}" in postgres_sql(TABLES)
