"""The rule sets of health and school records: what each removes, and how much of records that we wrote."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from lockgate.core.redaction.redact import redact

RECORDS = Path(__file__).parent / "records"
CORPUS = Path(__file__).parents[3] / "bench" / "requests" / "ordinary.jsonl"
_MARK = re.compile(r"<(\w+)\|([^>]*)>")
# Titles may stay: without the name they say little.
_TITLES = frozenset("Dr Mr Mrs Ms MD Prof Nurse Baby Girl Tuesday".split())


def parse_record(marked: str) -> tuple[str, list[tuple[str, int, int]]]:
    """Return a record without its marks, and the kind and the span of each."""
    text, spans, at = "", [], 0
    for mark in _MARK.finditer(marked):
        text += marked[at : mark.start()]
        spans.append((mark[1], len(text), len(text) + len(mark[2])))
        text += mark[2]
        at = mark.end()
    return text + marked[at:], spans


def count_found(name: str, ruleset: str) -> tuple[Counter[str], Counter[str], float]:
    """Return how many marked places were removed whole, how many there are, and the share of other text removed."""
    lines = (line for line in (RECORDS / name).read_text("utf-8").splitlines() if not line.startswith("#"))
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    other = other_removed = 0
    for marked in re.split(r"(?m)^----$", "\n".join(lines)):
        text, spans = parse_record(marked.strip("\n"))
        gone = {at for cut in redact(text, ruleset).cuts for at in range(cut.start, cut.end)}
        inside = {at for _, start, end in spans for at in range(start, end)}
        other += len(text) - len(inside)
        other_removed += len(gone - inside)
        for kind, start, end in spans:
            total[kind] += 1
            words = [word for word in re.finditer(r"\w{2,}", text[start:end]) if word[0] not in _TITLES]
            found[kind] += all(start + at in gone for word in words for at in range(*word.span()))
    return found, total, other_removed / other


@pytest.mark.parametrize(
    ("name", "ruleset"),
    [
        ("health_tuned.txt", "hipaa"),
        ("health_kept_apart.txt", "hipaa"),
        ("school_tuned.txt", "ferpa"),
        ("school_kept_apart.txt", "ferpa"),
    ],
)
def test_nearly_all_marked_places_of_our_records_are_removed(name: str, ruleset: str) -> None:
    found, total, other_removed = count_found(name, ruleset)
    assert found["name"] >= 0.95 * total["name"]
    assert {kind: found[kind] for kind in total if kind != "name"} == {
        kind: total[kind] for kind in total if kind != "name"
    }
    assert other_removed < 0.04


@pytest.mark.parametrize("ruleset", ["hipaa", "ferpa"])
def test_ordinary_requests_stay_readable(ruleset: str) -> None:
    texts = [json.loads(line)["text"] for line in CORPUS.read_text("utf-8").splitlines()]
    results = [redact(text, ruleset) for text in texts]
    assert sum(cut.end - cut.start for each in results for cut in each.cuts) < 0.005 * sum(map(len, texts))
    assert not any(each.unread for each in results)


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        ("hipaa", "MRN: 00123456"),
        ("hipaa", "DOB 03/14/1962"),
        ("hipaa", "date of birth: March 14, 1962"),
        ("hipaa", "member ID: W123456789"),
        ("hipaa", "admitted on 2024-03-02"),
        ("hipaa", "connected from 203.0.113.9"),
        ("hipaa", "connected from 2001:db8::17"),
        ("hipaa", "see https://portal.example.org/labs/4471."),
        ("hipaa", "my account number is 88 102 4471"),
        ("ferpa", "student id 20231234"),
        ("ferpa", "born 14 March 2008"),
        ("ferpa", "mother's maiden name: Smithson"),
        ("ferpa", "GPA: 3.42"),
        ("ferpa", "he got a C- in algebra"),
        ("ferpa", "scored 41% in the quiz"),
    ],
)
def test_a_rule_set_adds_its_own(ruleset: str, text: str) -> None:
    assert redact(text, ruleset).removed
    assert redact(text, "default").removed == ()


@pytest.mark.parametrize("ruleset", ["hipaa", "ferpa"])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("He moved to 118 Larkspur Lane, Apt 4C.", "He moved to [redacted:address]."),
        ("in Boise, Idaho 83702-1189 now", "in [redacted:address] now"),
        ("zip code: 98402", "zip code: [redacted:address]"),
        ("to SW1A 1AA or K1A 0B1", "to [redacted:address] or [redacted:address]"),
        ("wohnt in der Lindenstraße 14a", "wohnt in der [redacted:address]"),
        ("at 9 Rue Cardinal", "at [redacted:address]"),
        ("P.O. Box 1187", "[redacted:address]"),
        ("on March 3, 2024 at noon", "on [redacted:date] at noon"),
        ("on 2 May 2024", "on [redacted:date]"),
        ("from 2024-07-09T10:22:00", "from [redacted:date]T10:22:00"),
        ("until 12/01 only", "until [redacted:date] only"),
        ("10.03.2024", "[redacted:date]"),
        ("license plate was LKD-4471", "license plate was [redacted:record-number]"),
    ],
)
def test_addresses_dates_and_plates_are_removed(ruleset: str, text: str, left: str) -> None:
    assert redact(text, ruleset).text == left


@pytest.mark.parametrize(
    "text",
    [
        "In 2024 we saw 300 patients in 12 weeks.",
        "you may 5 times a day",
        "version 1.2.2024-beta and 10.2.3",
        "the ratio is 3/4, at 12:30:45",
        "take 2 tablets 3 times a day",
        "step 2 Do this",
        "A student asked a question.",
    ],
)
@pytest.mark.parametrize("ruleset", ["hipaa", "ferpa"])
def test_lookalikes_stay(ruleset: str, text: str) -> None:
    assert redact(text, ruleset).text == text
