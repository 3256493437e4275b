"""Finding and opening a journal for reading: names that are no log, passwords, a missing driver."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
DATABASE = "postgresql://127.0.0.1:1/nowhere"


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", DATABASE],
        ["show", "--log", DATABASE],
        ["head", "--log", DATABASE],
        ["keys", "--log", DATABASE],
        ["prune", "--days", "9", "--yes", "--log", DATABASE],
    ],
    ids=lambda argv: argv[0],
)
def test_a_database_without_its_driver_names_the_extra(
    run: Run, argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    ended = run("audit", *argv)
    assert ended.code == 2
    assert ended.err == (
        "lockgate: error: a log in PostgreSQL needs the package `psycopg`\nhint: pip install 'lockgate[postgres]'\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("hello\n", "is neither a log nor an export or archive of one")],
    ids=["empty", "text"],
)
def test_a_file_that_is_no_log_is_refused(run: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "journal.db"
    path.write_text(text, encoding="utf-8")
    ended = run("audit", "show", "--log", str(path))
    assert ended.code == 2
    assert message in ended.err


def test_a_password_on_the_command_line_is_refused(run: Run) -> None:
    ended = run("audit", "show", "--log", "postgresql://ana:secret@db.example/journal")
    assert ended.code == 2
    assert "a password does not belong on a command line" in ended.err
    assert "secret" not in ended.err
