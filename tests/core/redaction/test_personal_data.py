"""Personal data: numbers that pass their check go, lookalikes stay, and rule sets add their own."""

from __future__ import annotations

from random import Random

import pytest
from canaries import with_luhn

from lockgate.core.redaction.personal_data import is_luhn_valid
from lockgate.core.redaction.redact import redact


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        ("hipaa", "MRN: 00123456"),
        ("hipaa", "DOB 03/14/1962"),
        ("hipaa", "date of birth: March 14, 1962"),
        ("hipaa", "member ID: W123456789"),
        ("hipaa", "admitted on 2024-03-02"),
        ("hipaa", "connected from 203.0.113.9"),
        ("ferpa", "student id 20231234"),
        ("ferpa", "born 14 March 2008"),
        ("ferpa", "mother's maiden name: Smithson"),
        ("ferpa", "GPA: 3.42"),
    ],
)
def test_a_rule_set_adds_its_own(ruleset: str, text: str) -> None:
    assert redact(text, ruleset).removed
    assert redact(text, "default").removed == ()


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
