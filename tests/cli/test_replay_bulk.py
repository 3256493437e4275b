"""`lockgate replay` on many files: the same report on one process, on several and on Ray; results that go on."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from recorded_traces import session_lines, write_trace

from lockgate.bulk.pieces import cut_trace
from lockgate.bulk.results import LOCK
from lockgate.cli.replay import choose_gate
from lockgate.cli.replay_bulk import _make_work
from lockgate.core.vocabulary import Mode
from lockgate.runtime.private_files import open_locked


def replay(*argv: str | Path, code: int = 1) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the command, and return its summary and the held calls."""
    command = [sys.executable, "-P", "-m", "lockgate", "replay", "--json", *map(str, argv)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == code, run.stderr
    *held, summary = [json.loads(line) for line in run.stdout.splitlines()]
    return summary["summary"], held


def rows_in(folder: Path) -> list[tuple[object, ...]]:
    """Return all rows of a results folder, sorted."""
    from pyarrow import parquet

    rows = (row for part in folder.glob("*.parquet") for row in parquet.read_table(part).to_pylist())
    return sorted(tuple(str(value) for value in row.values()) for row in rows)


def said(call: dict[str, Any]) -> tuple[str, ...]:
    """Return what was ruled on a held call, without times and ids."""
    ruling = call["rulings"]["policy"]
    return call["file"], call["session"], str(call["call"]), ruling["action"], ruling["reason"], ruling["explanation"]


def test_two_processes_report_what_one_reports(tmp_path: Path) -> None:
    for at in range(3):
        write_trace(tmp_path / f"{at}.jsonl", range(at * 100, at * 100 + 110 * (at == 0) + 8))
    here, held_here = replay(tmp_path)
    there, held_there = replay(f"{tmp_path}/*.jsonl", "--jobs", "2")
    assert here == there
    assert here["calls"] == 3 * (118 + 8 + 8)
    assert sorted(map(said, held_here)) == sorted(map(said, held_there))


def test_results_are_kept_and_the_same_command_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    trace, out = write_trace(tmp_path / "t.jsonl", range(250)), tmp_path / "out"
    first, _ = replay(trace, "--jobs", "1", "--out", out)
    whole = rows_in(out)
    assert first["calls"] == len(whole) == 750
    # As after an interruption: the last piece was not written down.
    manifest = out / "manifest.jsonl"
    *kept, last = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(kept))
    (out / json.loads(last)["file"]).unlink()
    parts = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    again, _ = replay(trace, "--jobs", "1", "--out", out)
    assert again == first
    assert rows_in(out) == whole
    assert all((out / name).stat().st_mtime_ns == at for name, at in parts.items())


def test_a_second_audit_into_the_same_folder_ends_with_code_2(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    trace, out = write_trace(tmp_path / "t.jsonl", range(3)), tmp_path / "out"
    replay(trace, "--jobs", "1", "--out", out)
    before = rows_in(out)
    command = [sys.executable, "-P", "-m", "lockgate", "replay", str(trace), "--out", str(out)]
    lock = open_locked(out / LOCK)
    assert lock is not None
    with lock:
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 2
    assert "another audit writes into" in second.stderr
    assert "hint: " in second.stderr
    assert rows_in(out) == before
    replay(trace, "--jobs", "1", "--out", out)


def test_an_input_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.jsonl", range(8))
    (tmp_path / "same.jsonl").symlink_to(trace)
    twice = [trace, tmp_path / "same.jsonl", f"{tmp_path}/../{tmp_path.name}/t.jsonl", tmp_path]
    found, _ = replay(*twice, "--jobs", "1")
    assert found["calls"] == 24


def test_a_file_whose_sessions_have_no_names_is_named_with_the_column(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    lines = "\n".join(session_lines(1))
    parquet.write_table(arrow.table({"session": [1, 2], "trace": [lines, lines]}), tmp_path / "numbers.parquet")
    parquet.write_table(arrow.table({"session": ["a"], "trace": [lines]}), tmp_path / "names.parquet")
    found, _ = replay(tmp_path, "--jobs", "1")
    assert found["calls"] == 3
    (skipped,) = found["skipped"]
    assert "numbers.parquet: the column `session` holds a name that is no text (int64)" in skipped


def test_results_below_the_inputs_are_no_inputs(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_trace(tmp_path / "t.jsonl", range(8))
    for given in (tmp_path, tmp_path, f"{tmp_path}/**"):
        found, _ = replay(given, "--jobs", "1", "--out", tmp_path / "audit")
        assert (found["calls"], found["skipped"]) == (24, [])


def test_an_input_that_changes_is_audited_again(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    trace, out = write_trace(tmp_path / "t.jsonl", range(250)), tmp_path / "out"
    replay(trace, "--jobs", "1", "--out", out)
    write_trace(trace, range(260))
    (next(out.glob("*.parquet"))).write_bytes(b"")
    found, _ = replay(trace, "--jobs", "1", "--out", out)
    assert found["calls"] == len(rows_in(out)) == 780


def test_what_changes_while_it_is_read_is_no_result(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    trace = write_trace(tmp_path / "t.jsonl", range(3))
    (piece,) = cut_trace(str(trace))
    write_trace(trace, range(1, 4))
    work = _make_work([choose_gate(None, ask=False)], ("policy",), keep_rows=True)
    result = work(piece)
    assert (result.table, result.report.calls) == (b"", 0)
    assert result.report.skipped == [f"{trace}: changed while it was read"]


def test_parquet_and_a_faulty_session_in_it(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    traces = ["\n".join(session_lines(7)), "\n".join(session_lines(8))]
    parquet.write_table(pyarrow.table({"session": ["a", "b"], "trace": traces}), tmp_path / "t.parquet")
    found, held = replay(tmp_path, "--jobs", "1")
    assert (found["sessions"], found["calls"], len(held)) == (2, 6, 1)
    bad = ["nonsense", *traces]
    parquet.write_table(pyarrow.table({"session": ["x", "a", "b"], "trace": bad}), tmp_path / "t.parquet")
    found, held = replay(tmp_path, "--jobs", "1")
    assert (found["sessions"], found["calls"], len(found["skipped"])) == (2, 6, 1)


def rows_of(folder: Path) -> list[tuple[str, str, str]]:
    """Return the session, the action and the error of each row of a folder with one part."""
    from pyarrow import parquet

    (part,) = folder.glob("*.parquet")
    return [(row["session"], row["action"], row["error"][:7]) for row in parquet.read_table(part).to_pylist()]


@pytest.mark.parametrize("jobs", [(), ("--jobs", "1")], ids=["plain", "in bulk"])
def test_a_damaged_line_hides_no_other_session_and_is_no_pass(jobs: tuple[str, ...], tmp_path: Path) -> None:
    clean, bad = session_lines(1), session_lines(7)
    (tmp_path / "first.jsonl").write_text("\n".join(["{damaged", *bad]))
    (tmp_path / "t.jsonl").write_text("\n".join([*clean, *clean[:3], '{"call": damaged', *clean[3:], *bad]))
    found, held = replay(tmp_path, *jobs)
    assert (found["sessions"], found["calls"], len(held), found["skipped_count"]) == (4, 10, 2, 2)
    assert [each.partition("; ")[2] for each in found["skipped"]] == ["the rest of the session was not ruled on"] * 2
    assert [f"{tmp_path}/t.jsonl: `t.jsonl#2`: line 9: not JSON" in each for each in found["skipped"]] == [False, True]
    (tmp_path / "first.jsonl").unlink()
    (tmp_path / "t.jsonl").write_text("\n".join([*clean, "damaged"]))
    found, held = replay(tmp_path, *jobs, code=1)
    assert (found["calls"], held, found["skipped_count"]) == (3, [], 1)


def test_what_was_not_ruled_on_is_a_row_with_an_error(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    clean, bad = "\n".join(session_lines(1, 1)), "\n".join(session_lines(7, 1))
    traces = [f"{bad}\n{{damaged\n{clean}", "", None, clean]
    table = pyarrow.table({"session": ["a", "b", "c", "d"], "trace": traces})
    parquet.write_table(table, tmp_path / "t.parquet")
    found, _ = replay(tmp_path / "t.parquet", "--jobs", "1", "--out", tmp_path / "out")
    assert (found["calls"], found["skipped_count"]) == (3, 3)
    assert rows_of(tmp_path / "out") == [
        ("a#1", "PAUSE", ""),
        ("a#1", "", "line 4:"),
        ("a#2", "CONTINUE", ""),
        ("b", "", "no call"),
        ("c", "", "the tra"),
        ("d#1", "CONTINUE", ""),
    ]


def test_a_strangers_parquet_file_ends_no_audit(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    good = "\n".join(session_lines(1, 1)).encode()
    no_text = pyarrow.array([good, b"\xff"], pyarrow.binary()).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"session": ["a", "b"], "trace": no_text}), tmp_path / "a.parquet")
    twice = pyarrow.Table.from_arrays([no_text] * 3, names=["session", "session", "trace"])
    parquet.write_table(twice, tmp_path / "b.parquet")
    found, _ = replay(tmp_path, "--jobs", "1")
    assert (found["calls"], found["skipped_count"]) == (1, 2)
    assert "`b#0`: line 1: byte 1 (0xff) is not UTF-8 text" in found["skipped"][0]
    assert found["skipped"][1].endswith("b.parquet: several columns `session`")


def test_a_worker_rules_by_the_configuration_that_the_first_process_read(tmp_path: Path) -> None:
    config = tmp_path / "strict.toml"
    config.write_text('[security]\nmode = "paranoid"\n')
    chosen = choose_gate(str(config), ask=False)
    work = pickle.dumps(partial(_make_work, (chosen,), ("policy",), keep_rows=False))
    config.unlink()
    (gate,) = pickle.loads(work)().args[0]
    assert gate.policy.mode is Mode.PARANOID
    assert gate.policy.hash == chosen.settings.policy.hash


def test_ray_gives_the_same_rows_as_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for at in range(4):
        write_trace(tmp_path / f"{at}.jsonl", range(at * 300, at * 300 + 300))
    on_ray, _ = replay(tmp_path, "--engine", "ray", "--jobs", "2", "--out", tmp_path / "ray")
    here, _ = replay(*sorted(tmp_path.glob("*.jsonl")), "--jobs", "1", "--out", tmp_path / "here")
    assert on_ray == here
    assert rows_in(tmp_path / "ray") == rows_in(tmp_path / "here")
