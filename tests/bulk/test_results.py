"""The results folder: a piece is done when its line is there; another policy, input or a strange folder is refused."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from pyarrow import parquet

from lockgate.bulk.call_rows import make_error_row, parquet_from_rows
from lockgate.bulk.pieces import InputPiece
from lockgate.bulk.results import LOCK, MANIFEST, ResultsFolder
from lockgate.core.errors import LockgateError

ABOUT: dict[str, Any] = {"policy": ["sha256:1"], "version": "1"}
PIECES = [InputPiece("a.jsonl", f"{at:032}", 10, at * 10, at * 10 + 10) for at in range(3)]


def opened(folder: Path, **about: object) -> closing[ResultsFolder]:
    return closing(ResultsFolder(str(folder), {**ABOUT, **about}))


def left_in(folder: Path) -> list[InputPiece]:
    with opened(folder) as results:
        return results.unfinished(PIECES)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    with opened(tmp_path / "out") as first:
        first.add(PIECES[1], parquet_from_rows([make_error_row("a.jsonl", "x")]), {"calls": 1})
    with opened(tmp_path / "out") as again:
        assert again.unfinished(PIECES) == [PIECES[0], PIECES[2]]
        assert again.counts() == [{"calls": 1}]
        with pytest.raises(LockgateError, match="was done twice"):
            again.add(PIECES[1], b"", {})
    (part,) = (tmp_path / "out").glob("*.parquet")
    assert parquet.read_table(part).column("error").to_pylist() == ["x"]
    assert part.stat().st_mode & 0o077 == 0


def test_a_second_audit_in_the_same_folder_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        # Its line in the manifest is still to come: the second one would take it for a leftover.
        (tmp_path / "part-0123.parquet").write_bytes(b"rows")
        with pytest.raises(LockgateError, match="another audit writes into") as refused:
            ResultsFolder(str(tmp_path), ABOUT)
        assert refused.value.hint
        assert (tmp_path / "part-0123.parquet").exists()
        first.add(PIECES[0], b"rows", {})
    # The lock is the process's, not the file's: one that was killed leaves only the file.
    assert (tmp_path / LOCK).exists()
    assert left_in(tmp_path) == PIECES[1:]


def test_a_refused_folder_is_left_unlocked(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(LockgateError, match="another policy"):
        opened(tmp_path, policy=["sha256:2"])
    assert left_in(tmp_path) == PIECES


def test_an_audit_that_ended_before_its_manifest_leaves_a_folder_to_go_on_in(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    assert left_in(tmp_path) == PIECES


def test_a_manifest_that_was_cut_in_a_line_loses_only_that_piece(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        for piece in PIECES[:2]:
            folder.add(piece, b"", {"calls": 1})
    manifest = tmp_path / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-5])
    with opened(tmp_path) as again:
        assert again.unfinished(PIECES) == PIECES[1:]
        again.add(PIECES[1], b"", {"calls": 1})
    assert left_in(tmp_path) == PIECES[2:]


def test_another_policy_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(LockgateError, match="was made with another policy"):
        opened(tmp_path, policy=["sha256:2"])


def test_an_input_that_changed_is_done_again_and_its_old_results_are_removed(tmp_path: Path) -> None:
    changed = [*PIECES[:2], PIECES[2]._replace(digest="f" * 32)]
    with opened(tmp_path) as folder:
        for number, piece in enumerate(PIECES):
            folder.add(piece, b"rows", {"calls": number})
        assert folder.unfinished(changed) == [changed[2]]
    with opened(tmp_path) as again:
        assert again.counts() == [{"calls": 0}, {"calls": 1}]
    assert len([*tmp_path.glob("*.parquet")]) == 2


def test_results_of_an_input_that_is_not_named_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.add(PIECES[0], b"", {})
        with pytest.raises(LockgateError, match=r"results of an input that is not there: `a.jsonl`"):
            folder.unfinished([InputPiece("b.jsonl", "0" * 32, 10)])


@pytest.mark.parametrize("damage", ["gone", "changed", "counts", "line", "nothing"])
def test_a_piece_is_done_only_with_its_line_and_its_file(damage: str, tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        for piece in PIECES[:2]:
            folder.add(piece, b"rows", {"calls": 1})
    manifest = tmp_path / MANIFEST
    head, first, second = manifest.read_text().splitlines()
    part = tmp_path / json.loads(second)["file"]
    match damage:
        case "gone":
            part.unlink()
        case "changed":
            part.write_bytes(b"sown")
        case "counts":
            manifest.write_text(f"{head}\n{first}\n" + second.replace('{"calls": 1}', "{}") + "\n")
        case "line":
            manifest.write_text(f"{head}\n{first}\n[1, {{\n")
    assert left_in(tmp_path) == (PIECES[2:] if damage == "nothing" else PIECES[1:])
    assert part.exists() == (damage == "nothing")


def test_a_head_without_its_end_is_not_made_empty(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    manifest = tmp_path / MANIFEST
    manifest.write_bytes(manifest.read_bytes().strip())
    with opened(tmp_path) as folder:
        assert folder.unfinished(PIECES) == PIECES
        folder.add(PIECES[0], b"", {})
    assert left_in(tmp_path) == PIECES[1:]


def test_a_file_that_no_line_names_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        (tmp_path / "part-0123.parquet").write_bytes(b"rows")
        (tmp_path / "notes.txt").write_text("mine")
        assert folder.unfinished(PIECES) == PIECES
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, MANIFEST, "notes.txt"]


@pytest.mark.parametrize("content", [b"no manifest\n", b'{"schema": "x"}\n{"piece": 1}\n', b"\n", b"[" * 9_999])
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(LockgateError):
        opened(tmp_path)
    assert (tmp_path / MANIFEST).read_bytes() == content


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(LockgateError, match="holds other files"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
