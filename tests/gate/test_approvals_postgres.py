"""Approvals in PostgreSQL, as far as it goes without a server; `tests/hosts` has one."""

from __future__ import annotations

import sqlite3

import pytest

from lockgate.core.errors import LockgateError
from lockgate.core.ruling.approvals import PendingApproval, bind_call
from lockgate.gate.approvals_postgres import PostgresApprovals
from lockgate.gate.approvals_sqlite import TABLES
from lockgate.runtime.postgres import postgres_sql

pytest.importorskip("psycopg")
CALL = bind_call("s1", "send_email", {"to": "ana@example.com"}, "sha256:p", "sha256:c")


def test_a_server_that_does_not_answer_is_an_error_and_never_a_yes() -> None:
    store = PostgresApprovals("postgresql://ana:canary@127.0.0.1:1/none")
    for use in (
        lambda: store.ask(PendingApproval("1" * 16, CALL, 100.0, 400.0)),
        lambda: store.take(CALL, 150.0),
        lambda: store.denies("s1"),
        lambda: store.waiting(150.0),
    ):
        with pytest.raises(LockgateError, match="the database of the approvals cannot be used") as raised:
            use()
        assert "canary" not in str(raised.value)
    store.close()


def test_a_damaged_row_is_our_error_with_what_to_do() -> None:
    store = PostgresApprovals("")
    with pytest.raises(LockgateError, match="is damaged") as raised, store._report_damage():
        raise sqlite3.DataError
    assert raised.value.hint


def test_the_tables_have_names_of_their_own() -> None:
    tables = postgres_sql(TABLES)
    for name in ("approvals", "marks"):
        assert f"lockgate_{name}" in tables
