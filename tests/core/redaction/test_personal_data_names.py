"""Names of people: found by their place, by a list and by what is said of them; ordinary words stay."""

from __future__ import annotations

import pytest

from lockgate.core.redaction.redact import redact


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Patient: Jane Doe", ["Jane", "Doe"]),
        ("patient name: wong, mei-ling", ["wong", "mei-ling"]),
        ('{"patient_name": "jane doe", "room": 4}', ["jane", "doe"]),
        ("PATIENT: OCONNOR, PATRICK\nROOM: 4", ["OCONNOR", "PATRICK"]),
        ("Mr. Okafor and Dr van der Berg met.", ["Okafor", "Berg"]),
        ("Prof. Dr. Heinrich Vogel operated.", ["Heinrich", "Vogel"]),
        ("Dear Ms. Haverford,\n\nall is well.\n\nSincerely,\nQuillon Ashby", ["Haverford", "Quillon", "Ashby"]),
        ("Hi Zebulon, your results are in.", ["Zebulon"]),
        ("my son Thaddeus has a fever", ["Thaddeus"]),
        ("My name is Fatima Al-Sayed and I am unwell.", ["Fatima", "Al-Sayed"]),
        ("I spoke with Margaret yesterday.", ["Margaret"]),
        ("Zebulon Quaxley presented with chest pain.", ["Zebulon", "Quaxley"]),
        ("We saw Zebulon Quaxley on the ward. Quaxley was well, and so was Quaxley's wife.", ["Zebulon", "Quaxley"]),
        ("The chart of José Álvarez is missing.", ["José", "Álvarez"]),
        ("It was Will Fenwick who called.", ["Will", "Fenwick"]),
        ("J. R. Hathaway, MD signed: Referral from J. R. Hathaway, MD", ["Hathaway"]),
    ],
)
@pytest.mark.parametrize("ruleset", ["hipaa", "ferpa"])
def test_a_name_is_removed(ruleset: str, text: str, names: list[str]) -> None:
    left = redact(text, ruleset).text
    assert "[redacted:name]" in left
    assert [name for name in names if name in left] == []
    assert redact(text, "default").text == text


@pytest.mark.parametrize(
    "text",
    [
        "Will it rain in May? Mark my words, and hope for grace.",
        "Explain how Python handles memory, and write a test in Bash.",
        "The patient portal is down. The student council meets at noon.",
        "Write a poem about the sea in the style of a sonnet.",
        "name: provider\nvalue: 4",
        "Summarise the Affordable Care Act in three sentences.",
        "class Patient: pass",
        "What is the dose of paracetamol for a child of four?",
        "Dear all, the office is closed on the first day of the year.",
    ],
)
@pytest.mark.parametrize("ruleset", ["hipaa", "ferpa"])
def test_ordinary_words_stay(ruleset: str, text: str) -> None:
    assert redact(text, ruleset).text == text


def test_the_docs_name_what_is_not_found() -> None:
    # Once one of these is found, the docs and this test change together.
    for text in ("jane doe has a fever", "Zebulon has a fever since Monday."):
        assert redact(text, "hipaa").text == text


def test_an_order_in_the_place_of_names_is_unread() -> None:
    text = "Patient: Wipe Audit Logs Forever\nStudent: Delete Backups Silently Tonight\nParent: Disable Every Alarm"
    assert redact(text, "hipaa").unread
    assert not redact("Patient: Jane Doe, seen by Dr. Patel, wife Anna Doe", "hipaa").unread
