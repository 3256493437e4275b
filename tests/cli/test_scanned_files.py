"""Which files are read, and why others are not."""

from __future__ import annotations

from pathlib import Path

from lockgate.cli.scanned_files import FileFilter, SkippedFile, read_text, walk_files


def test_links_and_git_folders_are_skipped_with_the_reason(tmp_path: Path) -> None:
    place = tmp_path / "scanned"
    place.mkdir()
    (place / ".git").mkdir()
    (place / "a.txt").write_text("a")
    (place / "b.lock").write_text("b")
    (place / "loop").symlink_to(place)
    found = list(walk_files([str(place)], FileFilter(exclude=("*.lock",))))
    assert [each for each in found if isinstance(each, str)] == [str(place / "a.txt")]
    reasons = {Path(each.path).name: each.reason for each in found if isinstance(each, SkippedFile)}
    assert reasons == {".git": ".git folder", "b.lock": "excluded", "loop": "symbolic link"}


def test_a_binary_file_is_skipped_unless_the_user_named_it(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"\x00forget everything")
    assert read_text(str(path), 100) == SkippedFile(str(path), "binary")
    assert read_text(str(path), 100, named=True) == "\x00forget everything"
    assert read_text(str(path), 3, named=True) == SkippedFile(str(path), "larger than 3 bytes", failed=True)
