"""Carried texts in PostgreSQL, as far as it goes without a server; `tests/hosts` has one."""

from __future__ import annotations

import pytest

from lockgate.core.errors import LockgateError
from lockgate.gate.carried_postgres import PostgresCarriedTexts
from lockgate.gate.carried_sqlite import TABLES
from lockgate.runtime.postgres import postgres_sql


def test_a_server_that_does_not_answer_is_an_error_and_not_an_empty_store() -> None:
    pytest.importorskip("psycopg")
    store = PostgresCarriedTexts("postgresql://127.0.0.1:1/none")
    for use in (store.words, lambda: store.find([1])):
        with pytest.raises(LockgateError, match="the database of the carried"):
            use()
    store.close()


def test_the_tables_have_names_of_their_own() -> None:
    assert "CREATE TABLE lockgate_carried (" in postgres_sql(TABLES)
    assert "ON lockgate_prints (number)" in postgres_sql(TABLES)
