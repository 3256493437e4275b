from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import count

from lockgate.abuse_gate.stores.strikes_memory import MemoryStrikes
from lockgate.core.requests.strikes import (
    NETWORK,
    PRINCIPAL,
    LadderSettings,
    Standing,
    StrikeRecord,
    Subject,
    add_strike,
    standing_from_record,
)

SETTINGS = LadderSettings(max_subjects=1000)


def subject(number: int, kind: str = PRINCIPAL) -> Subject:
    return Subject(kind, f"{number:032x}")


class Table:
    def __init__(self, settings: LadderSettings = SETTINGS) -> None:
        self.evicted: Counter[str] = Counter()
        self.settings = settings
        self.kept = MemoryStrikes(settings, lambda what: self.evicted.update([what]))

    def strike(self, who: Subject, now: float = 0.0, times: int = 1) -> None:
        for _ in range(times):
            self.kept.put(who, add_strike(self.kept.get(who), who.kind, now, self.settings), now)

    def standing(self, who: Subject, now: float = 0.0) -> Standing:
        return standing_from_record(self.kept.get(who), who.kind, now, self.settings)[0]


def test_a_client_without_strikes_takes_no_room() -> None:
    table = Table()
    for number in range(5000):
        assert table.kept.get(subject(number)) == StrikeRecord()
    assert len(table.kept) == 0


def test_distinct_clients_take_the_room_of_the_most_that_are_kept() -> None:
    """B9: nothing was ever forgotten."""
    forgotten = count()
    kept = MemoryStrikes(LadderSettings(max_subjects=10_000), lambda what: next(forgotten))
    once = add_strike(StrikeRecord(), NETWORK, 0.0, SETTINGS)
    for number in range(100_000):
        kept.put(subject(number, NETWORK), once, 0.0)
    assert len(kept) == 10_000
    assert next(forgotten) == 90_000


def test_a_subject_takes_less_than_a_kilobyte() -> None:
    tracemalloc.start()
    try:
        table = Table()
        for number in range(1000):
            for _ in range(20):
                table.strike(subject(number, NETWORK), now=number / 7)
        full, _ = tracemalloc.get_traced_memory()
        for number in range(1000, 3000):
            table.strike(subject(number, NETWORK), now=number / 7)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert full < 1000 * 1000
    assert peak < 1.5 * full


def test_a_flood_of_networks_pushes_no_principal_out() -> None:
    """An IPv6 customer has 2^16 or 2^32 networks, and could have its own strikes forgotten with them."""
    table = Table()
    table.strike(subject(1), times=2)
    for number in range(5000):
        table.strike(subject(number, NETWORK))
    table.strike(subject(1))
    assert table.standing(subject(1)) is Standing.EXECUTE_LOCKED


def test_strikes_are_forgotten_before_any_ban_is() -> None:
    table = Table()
    table.strike(subject(1), times=5)
    table.strike(subject(2), times=2)
    for number in range(10, 5000):
        table.strike(subject(number))
    assert table.standing(subject(1)) is Standing.FULL_QUARANTINE
    assert table.kept.get(subject(2)) == StrikeRecord()
    assert len(table.kept) == 1000
    assert table.evicted["evicted-ban"] == 0


def test_when_there_are_too_many_bans_those_that_end_soonest_go_and_are_counted() -> None:
    table = Table()
    for number in range(700):
        table.strike(subject(number), now=number / 1000, times=3)  # a lock, which ends before any quarantine
    for number in range(1000, 1400):
        table.strike(subject(number), now=1.0, times=5)
    assert all(table.standing(subject(number), 1.0) is Standing.FULL_QUARANTINE for number in range(1000, 1400))
    assert table.standing(subject(0), 1.0) is Standing.NORMAL
    assert table.evicted["evicted-ban"] >= 350
    assert len(table.kept) <= 1000


def test_however_many_are_banned_a_first_strike_is_still_counted() -> None:
    table = Table()
    for number in range(3000):
        table.strike(subject(number), times=5)
    for number in range(5000, 5100):
        table.strike(subject(number), times=2)
    assert all(len(table.kept.get(subject(number)).strikes) == 2 for number in range(5000, 5100))
    assert len(table.kept) <= 1000


def test_what_no_longer_counts_leaves_by_itself_and_is_no_eviction() -> None:
    table = Table()
    for number in range(1000):
        table.strike(subject(number), times=1 + 2 * (number % 2))
    assert len(table.kept) == 1000
    for number, now in zip(range(2000, 2600), count(10_000, 0.01)):
        table.strike(subject(number), now=now)
    assert len(table.kept) == 600
    assert not table.evicted


def test_an_ended_ban_leaves_the_strikes_that_still_count() -> None:
    settings = LadderSettings(max_subjects=10, tier1_cooldown_s=5, tier2_cooldown_s=5)
    table = Table(settings)
    table.strike(subject(1), times=3)
    assert table.standing(subject(1), 5.0) is Standing.NORMAL
    table.strike(subject(1), now=6.0)
    assert table.standing(subject(1), 6.0) is Standing.EXECUTE_LOCKED


def test_a_ban_that_makes_room_because_it_has_ended_leaves_its_strikes_too() -> None:
    table = Table(LadderSettings(max_subjects=4, tier1_cooldown_s=5))
    table.strike(subject(1), times=5)
    table.strike(subject(2), times=3)
    for number in (3, 4):
        table.strike(subject(number), now=10.0, times=5)
    assert len(table.kept.get(subject(2)).strikes) == 3
    assert not table.evicted


def test_all_bans_can_be_listed_and_only_those() -> None:
    table = Table()
    table.strike(subject(1), times=3)
    table.strike(subject(2), times=2)
    table.strike(subject(3, NETWORK), times=9)
    assert [who for who, _ in table.kept.bans(1.0)] == [subject(1)]
    assert [who for who, _ in table.kept.bans(900.0)] == []
