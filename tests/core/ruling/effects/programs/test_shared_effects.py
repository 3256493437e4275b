"""Statements for databases, in operands, options, here-documents and pipes, and what leads out of a database."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    "before", ["\\timing", ".mode csv", "\\x;", ".headers on", "\\dt", "  .x;", "\\set a 1\n\\set b 2"]
)
@pytest.mark.parametrize("program", ["psql shop", "duckdb s.db", "sqlite3 s.db", "mysql shop"])
def test_a_line_for_the_client_hides_no_statement(before: str, program: str) -> None:
    kinds = {kind for kind, _ in read_line(f"{program} <<'E'\n{before}\ndrop table users;\nE")}
    assert kinds & {"deletes-data", "discards-work"}


@pytest.mark.parametrize(
    "text",
    [
        "copy t to program 'sh'",
        "COPY t\n FROM PROGRAM 'id'",
        "\\copy t from program 'id'",
        "\\o |sh",
        "\\g /etc/x",
        "\\lo_export 1 /etc/x",
    ],
)
def test_what_leads_from_a_database_to_the_machine_cannot_be_read(text: str) -> None:
    assert "unreadable" in {kind for kind, _ in read_line(f"psql shop <<'E'\n\\timing\n{text};\nE")}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("psql -h db.example -c $'select u\\n.password_hash from users u'", "reads-secret"),
        ("sqlite3 s.db $'with d as (values(1\\n.0)) delete from users'", "deletes-data"),
        ("psql shop <<'E'\n\\x \\\\ delete from users\nE", "deletes-data"),
    ],
)
def test_a_dot_inside_a_statement_begins_no_line_for_the_client(line: str, kind: str) -> None:
    assert kind in {found for found, _ in read_line(line)}
