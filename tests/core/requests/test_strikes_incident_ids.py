from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.requests.strikes import incident_id, incident_time_ms, is_incident_id


def test_the_form_is_the_published_one() -> None:
    # From the specification of ULID: the time's largest value, and its own example of a time.
    assert incident_id((1 << 48) - 1, b"\xff" * 10) == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
    assert incident_id(0, bytes(10)) == "0" * 26
    assert incident_id(1469918176385, bytes(10))[:10] == "01ARYZ6S41"


@settings(deadline=None)
@given(st.integers(0, (1 << 48) - 1), st.binary(min_size=10, max_size=10))
def test_all_128_bits_are_in_it(now_ms: int, randomness: bytes) -> None:
    id = incident_id(now_ms, randomness)
    number = 0
    for character in id:
        number = number * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    assert number == now_ms << 80 | int.from_bytes(randomness, "big")
    assert is_incident_id(id)
    assert incident_time_ms(id) == now_ms


def test_later_ones_sort_later() -> None:
    ids = [incident_id(at, bytes([255 - at % 256]) * 10) for at in range(0, 10_000_000, 99_991)]
    assert ids == sorted(ids)


def test_20_000_in_one_millisecond_are_all_different() -> None:
    chance = Random(7)
    assert len({incident_id(5, chance.randbytes(10)) for _ in range(20_000)}) == 20_000


@pytest.mark.parametrize("now_ms", [-1, 1 << 48, 10**30])
def test_a_clock_that_is_far_off_still_gives_an_id(now_ms: int) -> None:
    assert is_incident_id(incident_id(now_ms, bytes(10)))


@pytest.mark.parametrize("size", [0, 3, 9, 11, 16])
def test_too_little_chance_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        incident_id(0, bytes(size))


@pytest.mark.parametrize(
    "text",
    ["", "0" * 25, "0" * 27, "8" + "0" * 25, "I" * 26, "0" * 25 + "u", "0" * 25 + "\n", "0" * 26 + "\n", "٠" * 26],
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_incident_id(text)
