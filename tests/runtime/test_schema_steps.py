"""The steps of a store's tables, against a scripted connection; `tests/hosts/test_fleet.py` has a server."""

from __future__ import annotations

from typing import Any

import pytest

from lockgate.core.errors import LockgateError
from lockgate.runtime.schema_steps import MAX_STEP_S, SchemaSteps

STEPS = ((2, "CREATE TABLE things"), (3, "ALTER TABLE things"), (4, "CREATE INDEX ON things"))


def refuse(why: str, *, hint: str = "") -> LockgateError:
    return LockgateError(f"the database {why}", hint=hint)


class Database:
    """A connection to tables of one version; None for none."""

    def __init__(self, version: int | None, *, has_row: bool = True) -> None:
        self.version, self.has_row = version, has_row
        self.limit_s = 35.0
        self.limits: dict[str, float] = {}
        self.said: list[str] = []

    def execute(self, statement: str | bytes, values: Any = None) -> Database:
        text = statement.decode() if isinstance(statement, bytes) else statement
        self.said.append(f"{text} {values}" if values else text)
        self.limits[text] = self.limit_s
        return self

    def fetchone(self) -> tuple[int, ...] | None:
        if self.version is None:
            return None
        return () if "pg_tables" in self.said[-1] else (self.version,) if self.has_row else None  # type: ignore[return-value]


def steps(of: Any = STEPS) -> SchemaSteps:
    return SchemaSteps("mark", 7, of, refuse)


@pytest.mark.parametrize(("version", "applied"), [(None, [2, 3, 4]), (2, [3, 4]), (3, [4]), (4, [])])
def test_only_the_steps_that_are_missing_are_applied_in_their_order(version: int | None, applied: list[int]) -> None:
    db = Database(version)
    steps().bring_forward(db)  # type: ignore[arg-type]
    statements = dict(STEPS)
    assert [each for each in db.said if each in statements.values()] == [statements[number] for number in applied]
    assert db.said[0].startswith("BEGIN")
    # The lock comes before the look at the version: another instance may just be at it.
    assert db.said[1] == "SELECT pg_advisory_xact_lock(%s) (7,)"
    assert db.said[-2:] == ["UPDATE mark SET version = %s (4,)", "COMMIT"]
    # A step may take longer than other statements, and not for ever.
    assert f"SET LOCAL statement_timeout = {MAX_STEP_S * 1000:.0f}" in db.said
    assert {db.limits[statements[number]] for number in applied} <= {MAX_STEP_S + 35}
    assert db.limits["COMMIT"] == db.limit_s == 35


@pytest.mark.parametrize(("version", "why"), [(5, "newer lockgate: version 5"), (1, "older lockgate: version 1")])
def test_tables_that_no_step_leads_from_stay_as_they_are(version: int, why: str) -> None:
    db = Database(version)
    with pytest.raises(LockgateError, match=why) as raised:
        steps().bring_forward(db)  # type: ignore[arg-type]
    assert raised.value.hint
    assert not any(each.startswith(("CREATE", "ALTER", "UPDATE", "COMMIT")) for each in db.said)


def test_a_mark_without_a_version_is_an_error_and_no_empty_database() -> None:
    with pytest.raises(LockgateError, match="lost the version"):
        steps().bring_forward(Database(2, has_row=False))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "running", "why"),
    [
        ((4,), False, ""),
        ((4,), True, ""),
        ((5,), True, ""),
        ((5,), False, "newer"),
        ((6,), True, "newer"),
        ((3,), True, "older copy"),
        (None, True, "older copy"),
    ],
)
def test_a_running_program_goes_on_for_one_version_and_no_more(
    found: tuple[int] | None,
    running: bool,  # noqa: FBT001
    why: str,
) -> None:
    if not why:
        steps().check_again(found, running=running)
        return
    with pytest.raises(LockgateError, match=why):
        steps().check_again(found, running=running)


def test_where_there_are_no_tables_the_version_is_none() -> None:
    assert steps().read_version(Database(None)) == 0  # type: ignore[arg-type]
    assert steps().read_version(Database(3)) == 3  # type: ignore[arg-type]
    assert steps().known == 4
