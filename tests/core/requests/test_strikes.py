from __future__ import annotations

from math import ceil, inf, nan

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig
from lockgate.core.requests.strikes import (
    DELAYS_S,
    NETWORK,
    PRINCIPAL,
    LadderSettings,
    SharedRecord,
    Standing,
    StrikeRecord,
    add_strike,
    merge_shared,
    recent_strikes,
    remaining_s,
    retry_after_s,
    standing_from_record,
)

SETTINGS = LadderSettings()


def strikes(*times: float, kind: str = PRINCIPAL, settings: LadderSettings = SETTINGS) -> StrikeRecord:
    record = StrikeRecord()
    for at in times:
        record = add_strike(record, kind, at, settings)
    return record


def standing(record: StrikeRecord, now: float, kind: str = PRINCIPAL, settings: LadderSettings = SETTINGS) -> Standing:
    return standing_from_record(record, kind, now, settings)[0]


def test_the_third_strike_locks_and_the_fifth_quarantines() -> None:
    seen = [standing(strikes(*range(n)), n) for n in range(1, 6)]
    locked, quarantined = Standing.EXECUTE_LOCKED, Standing.FULL_QUARANTINE
    assert seen == [Standing.NORMAL, Standing.NORMAL, locked, locked, quarantined]


def test_a_ban_lasts_its_cooldown_to_the_end_and_no_longer() -> None:
    record = strikes(0, 0, 0, 0, 0)
    assert standing_from_record(record, PRINCIPAL, 3599.5, SETTINGS) == (Standing.FULL_QUARANTINE, 0.5)
    assert standing(record, 3600) is Standing.NORMAL
    assert standing(strikes(0, 0, 0), 899.9) is Standing.EXECUTE_LOCKED
    assert standing(strikes(0, 0, 0), 900) is Standing.NORMAL


def test_a_quarantine_that_ends_leaves_the_lock_that_does_not() -> None:
    settings = LadderSettings(tier1_cooldown_s=7200)
    record = strikes(0, 0, 0, 0, 0, settings=settings)
    assert standing(record, 3600, settings=settings) is Standing.EXECUTE_LOCKED


def test_strikes_leave_the_window_one_by_one() -> None:
    record = strikes(0, 300)
    assert recent_strikes(record, 599.9, SETTINGS) == (0, 300)
    assert recent_strikes(record, 600, SETTINGS) == (300,)
    assert standing(add_strike(record, PRINCIPAL, 600, SETTINGS), 600) is Standing.NORMAL
    assert standing(add_strike(record, PRINCIPAL, 599, SETTINGS), 599) is Standing.EXECUTE_LOCKED


def test_a_strike_during_a_ban_begins_it_again_and_none_ever_shortens_it() -> None:
    record = add_strike(strikes(0, 0, 0, 0, 0), PRINCIPAL, 500, SETTINGS)
    assert remaining_s(record, 500) == (900, 3600)
    # Later strikes that are too few for a ban leave the ban as it is.
    assert add_strike(record, PRINCIPAL, 2000, SETTINGS).quarantined_until == record.quarantined_until


def test_no_number_of_strikes_locks_a_network_out() -> None:
    for many in range(1, 200):
        record = strikes(*[1.0] * many, kind=NETWORK)
        assert record.ends() == -inf
        now, delay_s = standing_from_record(record, NETWORK, 1, SETTINGS)
        assert now in (Standing.NORMAL, Standing.SLOWED)
        assert delay_s <= 2


def test_a_network_is_slowed_more_with_each_strike_and_free_when_they_are_old() -> None:
    delays = [
        standing_from_record(strikes(*[0.0] * many, kind=NETWORK), NETWORK, 1, SETTINGS)[1] for many in range(4, 10)
    ]
    assert delays == [0, *DELAYS_S, DELAYS_S[-1]]
    assert standing_from_record(strikes(*[0.0] * 50, kind=NETWORK), NETWORK, 600, SETTINGS) == (Standing.NORMAL, 0)


def test_a_subject_keeps_only_strikes_that_can_make_a_difference() -> None:
    assert len(strikes(*range(500)).strikes) == SETTINGS.kept_strikes == 8


def test_the_modes_are_whatever_was_configured() -> None:
    settings = LadderSettings(tier1_threshold=1, tier1_mode=Standing.FULL_QUARANTINE, tier1_cooldown_s=5)
    assert standing_from_record(strikes(0, settings=settings), PRINCIPAL, 1, settings) == (Standing.FULL_QUARANTINE, 4)
    assert settings.cooldown_s(Standing.FULL_QUARANTINE) == 3600
    assert settings.cooldown_s(Standing.EXECUTE_LOCKED) == 0


def test_a_mode_may_be_given_as_its_word() -> None:
    assert LadderSettings(tier1_mode="full_quarantine").tier1_mode is Standing.FULL_QUARANTINE  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "odd",
    [
        {"window_s": 0},
        {"window_s": nan},
        {"window_s": inf},
        {"window_s": True},
        {"window_s": "600"},
        {"tier1_threshold": 0},
        {"tier1_threshold": 2.5},
        {"tier1_threshold": True},
        {"tier2_threshold": 101},
        {"tier1_threshold": 6},
        {"tier1_cooldown_s": -1},
        {"tier2_cooldown_s": 1e300},
        {"tier1_mode": "normal"},
        {"tier1_mode": "slowed"},
        {"tier1_mode": "banished"},
        {"tier2_mode": None},
        {"tier1_mode": Standing.FULL_QUARANTINE, "tier2_mode": Standing.EXECUTE_LOCKED},
        {"network_threshold": 0},
        {"max_subjects": 0},
    ],
)
def test_settings_that_make_no_sense_do_not_start(odd: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        LadderSettings(**odd)  # type: ignore[arg-type]


# --- hearing from others


def test_what_others_know_is_added_and_never_taken_away() -> None:
    record = merge_shared(StrikeRecord(), SharedRecord((10, 5), 100, 0), 1000, SETTINGS)
    assert record == StrikeRecord((990, 995), 1100, -inf)
    assert merge_shared(record, SharedRecord(), 1000, SETTINGS) == record
    assert merge_shared(record, SharedRecord((7,), 1, 1), 1000, SETTINGS) == StrikeRecord((990, 995), 1100, 1001)


def test_a_ban_that_claims_to_last_longer_than_its_cooldown_is_a_clock_that_was_put_back() -> None:
    record = merge_shared(StrikeRecord(), SharedRecord((), 1e12, inf), 0, SETTINGS)
    assert remaining_s(record, 0) == (900, 3600)


@pytest.mark.parametrize("odd", [nan, -1, -inf])
def test_what_makes_no_sense_is_not_believed(odd: float) -> None:
    record = merge_shared(strikes(0, 0, 0), SharedRecord((nan, 1e9), odd, odd), 1, SETTINGS)
    assert record == strikes(0, 0, 0)


def test_a_strike_from_the_future_fell_now() -> None:
    assert merge_shared(StrikeRecord(), SharedRecord((-1e9,)), 50, SETTINGS).strikes == (50,)


KNOWN = st.builds(
    SharedRecord,
    st.lists(st.floats(0, 700), max_size=10).map(tuple),
    st.floats(0, 2000),
    st.floats(0, 5000),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(KNOWN, max_size=5), st.randoms())
def test_the_order_in_which_bans_are_heard_of_makes_no_difference(heard: list[SharedRecord], chance: object) -> None:
    def ends(known: list[SharedRecord]) -> tuple[float, float]:
        record = StrikeRecord()
        for each in known:
            record = merge_shared(record, each, 100, SETTINGS)
        return record.locked_until, record.quarantined_until

    shuffled = [*heard, *heard]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ends(heard) == ends(shuffled)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.floats(0, 400), st.booleans(), KNOWN), max_size=12))
def test_nothing_that_happens_lifts_a_ban_before_its_end(events: list[tuple[float, bool, SharedRecord]]) -> None:
    record, now = StrikeRecord(), 0.0
    for wait_s, unsafe, known in events:
        now += wait_s
        before = record
        record = add_strike(record, PRINCIPAL, now, SETTINGS) if unsafe else merge_shared(record, known, now, SETTINGS)
        assert record.locked_until >= before.locked_until
        assert record.quarantined_until >= before.quarantined_until
        assert max(remaining_s(record, now)) <= 3600 + 1e-6
        assert len(record.strikes) <= SETTINGS.kept_strikes


# --- coming back


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(1e-9, 86_400), st.floats(0, 1, exclude_max=True))
def test_no_client_is_told_to_come_back_too_early_or_in_no_time(left: float, chance: float) -> None:
    seconds = retry_after_s(left, chance)
    assert max(1, left - 1e-6) <= seconds <= ceil(left) * 1.1 + 1


def test_those_who_are_told_at_the_same_time_come_back_at_different_ones() -> None:
    assert {retry_after_s(3600, at / 100) for at in range(100)} >= {3600, 3780, 3956}
    assert retry_after_s(0.01, 0.999) == 1
