"""Points in time and ages, as options take them and screens show them."""

from __future__ import annotations

from datetime import datetime

import pytest

from lockgate.cli.times import format_time, parse_age, parse_since
from lockgate.core.errors import LockgateError

AT = datetime(2026, 11, 1, 9, 30).timestamp()  # noqa: DTZ001  # the reader's local clock


@pytest.mark.parametrize(("text", "ago"), [("30m", 1800), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)])
def test_since_can_be_a_while_ago(text: str, ago: int) -> None:
    assert parse_since(text, 2e6) == 2e6 - ago


def test_since_can_be_a_moment() -> None:
    assert parse_since("2026-11-01T09:30", 0) == AT
    assert parse_since("1970-01-02T00:00:00+00:00", 0) == 86_400
    assert parse_since("999999w", 5.0) == 0.0


@pytest.mark.parametrize("text", ["", "yesterday", "7", "d", "-7d", "2026-13-01", "7 d", "9999999d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(LockgateError, match="is no time"):
        parse_since(text, 0)


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("90m", 5400), ("4w", 2_419_200)])
def test_an_age_is_a_number_with_a_unit(text: str | None, seconds: float | None) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "7", "-7d", "7y", "1234567d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(LockgateError, match="takes an age"):
        parse_age(text)


def test_a_forged_time_is_shown_as_odd() -> None:
    assert format_time(int(AT * 1000)) == "2026-11-01 09:30:00"
    assert format_time(10**30).strip() == format_time("never").strip() == "an odd time"
