"""Private files: used only if no other user can have written them, and created whole."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from lockgate.core.errors import JournalUnavailable, LockgateError
from lockgate.runtime import private_files
from lockgate.runtime.private_files import (
    PrivateFileKind,
    locked_file,
    open_replacement,
    replace_file,
    writable_by_others,
)

OPEN = PrivateFileKind("the log", "write anything into it", "log", JournalUnavailable)
SECRET = PrivateFileKind("a key", "sign anything with it", "journal", secret=True)
posix = pytest.mark.skipif(os.name != "posix", reason="needs users and modes")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "file"


def make(path: Path, content: bytes = b"whole") -> None:
    with OPEN.create_whole(path) as new:
        new.write_bytes(content)


@pytest.fixture
def _no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuses)


@pytest.fixture(params=["links", "no links"])
def _disk(request: pytest.FixtureRequest) -> None:
    if request.param == "no links":
        request.getfixturevalue("_no_links")


@pytest.mark.usefixtures("_disk")
def test_a_file_is_made_whole_and_never_in_anothers_place(path: Path) -> None:
    make(path)
    with pytest.raises(FileExistsError):
        make(path, b"another")
    assert path.read_bytes() == b"whole"
    assert [each.name for each in path.parent.iterdir()] == ["file"]
    assert OPEN.check(path).st_size == SECRET.check(path).st_size == 5


@pytest.mark.usefixtures("_disk")
def test_of_many_who_begin_at_once_one_makes_it(path: Path) -> None:
    start = Barrier(8)

    def makes(number: int) -> int:
        start.wait()
        try:
            make(path, b"%d" % number)
        except FileExistsError:
            return -1
        return number

    with ThreadPoolExecutor(8) as pool:
        (made,) = (number for number in pool.map(makes, range(8)) if number >= 0)
    assert path.read_bytes() == b"%d" % made


@pytest.mark.usefixtures("_disk")
@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()], ids=["fails", "interrupted"])
def test_what_cannot_be_finished_is_not_there(path: Path, error: BaseException) -> None:
    with suppress(OSError, KeyboardInterrupt), OPEN.create_whole(path) as new:
        new.write_bytes(b"hal")
        raise error
    assert list(path.parent.iterdir()) == []


@posix
def test_no_other_user_can_read_a_new_file_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        make(path)
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_what_others_can_read_is_no_secret(path: Path, mode: int) -> None:
    make(path)
    path.chmod(mode)
    OPEN.check(path)
    with pytest.raises(LockgateError, match="can be read by others, who could sign anything"):
        SECRET.check(path)


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602])
@pytest.mark.parametrize("kind", [OPEN, SECRET])
def test_what_others_can_write_is_refused(path: Path, kind: PrivateFileKind, mode: int) -> None:
    make(path)
    path.chmod(mode)
    with pytest.raises(kind.error, match="can be written by others") as refused:
        kind.check(path)
    assert refused.value.hint.endswith(f"chmod go-w {path}")
    path.chmod(0o600)
    path.parent.chmod(mode | 0o100)
    with pytest.raises(kind.error, match="can be written by others"), kind.create_whole(path.with_name("other")):
        pytest.fail("it was not refused")
    assert [each.name for each in path.parent.iterdir()] == ["file"]


@posix
def test_what_belongs_to_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(JournalUnavailable, match="belongs to another user, who could write anything"):
        OPEN.check(path)


@posix
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_a_link_is_refused_wherever_a_database_has_a_file(path: Path, ending: str) -> None:
    make(path)
    OPEN.check_database(path)
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere) if not ending else make(elsewhere)
    path.with_name(path.name + ending).symlink_to(elsewhere)
    with pytest.raises(JournalUnavailable, match="is no file, or a link, where the log should be"):
        OPEN.check_database(path)


def test_a_file_where_its_folder_should_be_is_said(path: Path) -> None:
    path.parent.write_text("")
    with pytest.raises(JournalUnavailable, match="is no folder"):
        make(path)


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        (0o100600, 1000, ""),
        (0o100644, 0, ""),
        (0o100600, 1001, "belongs to another user"),
        (0o100666, 1001, "belongs to another user"),
        (0o100660, 0, "can be written by its group"),
        (0o100622, 1000, "can be written by any user"),
    ],
)
def test_who_else_could_write_a_file(mode: int, owner: int, said: str) -> None:
    assert writable_by_others(mode, owner, 1000) == said


@pytest.mark.parametrize("durable", [True, False])
def test_a_replaced_file_has_the_new_content_and_nothing_lies_beside_it(tmp_path: Path, *, durable: bool) -> None:
    path = tmp_path / "file"
    for content in (b"old", b"new"):
        replace_file(path, content, durable=durable)
        assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_replacement_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")
    with pytest.raises(TypeError), open_replacement(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@posix
def test_the_umask_narrows_the_mode_and_not_the_exact_one(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "narrowed", b"", mode=0o644)
        replace_file(tmp_path / "exact", b"", exact_mode=0o644)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("narrowed", "exact")] == [0o600, 0o644]


def test_a_folder_is_made_for_a_private_file(path: Path) -> None:
    OPEN.replace(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert OPEN.check(path.parent, folder=True)


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "file"
    replace_file(place, b"old")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space"):
        replace_file(place, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]


@posix
def test_a_wait_for_a_lock_says_for_what_and_for_which_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "_SILENT_S", 0.0)
    path = tmp_path / "pins.lock"
    held, waiting = Event(), Event()

    def hold() -> None:
        with locked_file(path):
            held.set()
            waiting.wait(30)

    def told(_: str, *said: object) -> None:
        lines.append(" ".join(map(str, said)))
        waiting.set()

    lines: list[str] = []
    monkeypatch.setattr(logging.getLogger("lockgate"), "warning", told)
    thread = Thread(target=hold)
    thread.start()
    assert held.wait(30)
    with locked_file(path):
        thread.join()
    assert str(path) in lines[0]
    if Path("/proc/locks").exists():
        assert f"which process {os.getpid()} holds" in lines[0]
    lines.clear()
    monkeypatch.setattr(private_files, "_SILENT_S", 2.0)
    with locked_file(path):
        assert not lines
