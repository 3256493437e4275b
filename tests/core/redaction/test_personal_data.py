"""Personal data: numbers that pass their check go, and lookalikes stay."""

from __future__ import annotations

from random import Random

import pytest
from canaries import with_luhn

from lockgate.core.redaction.personal_data import is_luhn_valid
from lockgate.core.redaction.redact import redact


def test_luhn_tells_cards_from_lookalikes() -> None:
    random = Random(4)
    kept = 0
    for _ in range(300):
        number = with_luhn("4" + "".join(random.choices("0123456789", k=14)))
        assert is_luhn_valid(number)
        assert redact(f"card {number}.").text == "card [redacted:card]."
        wrong = number[:-1] + str((int(number[-1]) + random.randint(1, 9)) % 10)
        kept += redact(f"ref {wrong}.").text == f"ref {wrong}."
    assert kept == 300


@pytest.mark.parametrize(
    "written",
    [
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1",
        "4111 1111\n1111 1111",
        "4111-1111-1111-\n1111",
    ],
)
def test_a_card_goes_also_digit_by_digit_and_on_two_lines(written: str) -> None:
    assert redact(f"card {written}.").text == "card [redacted:card]."
    # The check digit is wrong.
    assert redact(f"row {written[:-1]}2.").text == f"row {written[:-1]}2."
