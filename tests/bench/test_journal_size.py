"""The large log of the bench is a real one: its records are rulings, and the kept head is of it."""

from __future__ import annotations

from pathlib import Path

import pytest

# The bench is a folder of scripts, not a package.
import journal_size
from lockgate.journal.record import parse_record


def test_every_record_is_a_ruling_and_every_session_counts_from_one() -> None:
    made = [parse_record(each) for each in journal_size.rulings(120, 1_000)]
    assert {each["kind"] for each in made} == {"ruling"}
    assert [each["seq"] for each in made] == [*range(1, 51), *range(1, 51), *range(1, 21)]
    assert len({each["run"] for each in made}) == 3
    assert [at for at, each in enumerate(made) if each["action"] == "PAUSE"] == [99]


def test_a_log_is_made_and_verified_whole_and_after_the_kept_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(journal_size, "HELD_BEFORE_END", 20)
    place = tmp_path / "large"
    journal_size.make(place, 100)
    assert "100 records in" in capsys.readouterr().out
    whole = journal_size.run("audit", "verify", str(place / "log.db"), "--held", str(place / "head.txt"))
    assert (whole["exit"], "101 records" in str(whole["said"])) == (0, True)
    rest = journal_size.run("audit", "verify", str(place / "log.db"), "--after", str(place / "head.txt"))
    assert (rest["exit"], "20 records after the first 81" in str(rest["said"])) == (0, True)
