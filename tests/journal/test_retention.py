"""Which records are old enough to delete. How the journal deletes them is in test_journal.py."""

from __future__ import annotations

import pytest
from log_checks import record, signer

from lockgate.core.errors import JournalDamaged
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.retention import (
    DAY_MS,
    find_old_records,
    has_overdue_records,
    is_clock_plausible,
    record_time_ms,
)
from lockgate.journal.stores.memory import MemoryLog

NOW_S = 1_000_000_000.0
NOW_MS = int(NOW_S * 1000)
DAY_S = 86_400.0


def log_of(*ages_days: float) -> MemoryLog:
    """A log with an opening record and one record of each of these ages."""
    store = MemoryLog()
    with Journal(store, signer(), verify=keys.verify, clock=lambda: NOW_S) as journal:
        for age in ages_days:
            journal.append([record(at_s=NOW_S - age * DAY_S)], durable=True)
        journal.checkpoint()
    return store


def test_a_record_has_the_time_that_it_states_and_none_if_it_cannot_be_read() -> None:
    with log_of(3).reading() as log:
        assert record_time_ms(log, 1, 1) == NOW_MS - 3 * DAY_MS
        assert record_time_ms(log, 1, 99) == 0


@pytest.mark.parametrize(
    ("ages", "found"),
    [((40, 35, 10), {1: 3}), ((40, 10, 35), {1: 2}), ((10, 40, 35), {}), ((40,), {1: 2}), ((), {})],
)
def test_a_record_goes_only_if_all_before_it_are_as_old(ages: tuple[float, ...], found: dict[int, int]) -> None:
    with log_of(*ages).reading() as log:
        assert find_old_records(log, NOW_MS - 30 * DAY_MS, keys.verify) == found


def test_a_record_that_was_changed_to_look_old_is_damage() -> None:
    store = log_of(40, 10)
    store._log.kept[0].bodies[2] = record(at_s=NOW_S - 40 * DAY_S)
    with store.reading() as log, pytest.raises(JournalDamaged, match="record 2 is missing, or not what was appended"):
        find_old_records(log, NOW_MS - 30 * DAY_MS, keys.verify)


def test_records_are_overdue_by_the_first_that_can_be_deleted() -> None:
    with log_of(10, 40).reading() as log:
        assert not has_overdue_records(log, NOW_MS - 30 * DAY_MS)
        assert has_overdue_records(log, NOW_MS - 5 * DAY_MS)


@pytest.mark.parametrize(
    ("ages", "plausible"),
    [
        ((40, 5), True),
        ((40, 1.5, 0), True),
        # Nothing that is to be kept is a day old.
        ((40, 0.5), False),
        ((40, 35), False),
        # The newest record is from the future.
        ((40, 5, -2), False),
    ],
)
def test_the_clock_is_plausible_if_a_record_to_keep_is_a_day_to_a_month_old(
    ages: tuple[float, ...], *, plausible: bool
) -> None:
    with log_of(*ages).reading() as log:
        assert is_clock_plausible(log, NOW_MS, 30) is plausible


def test_an_empty_store_says_nothing_about_the_clock() -> None:
    with MemoryLog().reading() as log:
        assert not is_clock_plausible(log, NOW_MS, 30)
