"""Marks on what is passed on before it is kept: every process sees them, and one left behind is a doubt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from lockgate.core.errors import SessionsUnavailable
from lockgate.sessions.stores import passing
from lockgate.sessions.stores.doubts import Doubts, mark_of
from lockgate.sessions.stores.passing import Mark, Passing

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no marks without POSIX's locks")

# Marks a session, says so, and does with each line that it is sent what the line says.
OTHER = """
import os, sys
from pathlib import Path
from lockgate.sessions.stores.doubts import Doubts
from lockgate.sessions.stores.passing import Passing
path = Path(sys.argv[1])
mark = Passing(path, Doubts(path.with_name("doubted"))).mark(sys.argv[2])
for line in sys.stdin:
    if line == "begin\\n":
        assert mark.begin()
    elif line == "keep\\n":
        mark.kept(mark.begun)
    elif line == "close\\n":
        mark.close()
    else:
        os.kill(os.getpid(), 9)
    print("done", flush=True)
"""


class Other:
    """Another process with a mark on a session."""

    def __init__(self, path: Path, session: str = "s") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path), session],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def does(self, what: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def is_killed(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "passing"


@pytest.fixture
def doubts(path: Path) -> Doubts:
    return Doubts(path.with_name("doubted"))


@pytest.fixture
def marks(path: Path, doubts: Doubts) -> Passing:
    return Passing(path, doubts)


def wait(marks: Passing, session: str, most_s: float) -> None:
    file = marks.file()
    if file is not None:
        marks.wait(file, session, most_s)


def marked(marks: Passing, session: str = "s") -> Mark:
    mark = marks.mark(session)
    assert mark is not None
    return mark


def test_without_a_mark_nobody_waits_and_nothing_is_made(marks: Passing, path: Path) -> None:
    wait(marks, "s", 0.0)
    assert not path.exists()


def test_what_is_begun_is_waited_for_until_it_is_kept(marks: Passing, path: Path, doubts: Doubts) -> None:
    mark = marked(marks)
    wait(marks, "s", 0.0)
    assert mark.begin()
    for each in (marks, Passing(path, doubts)):
        with pytest.raises(SessionsUnavailable, match="does not keep it"):
            wait(each, "s", 0.0)
    mark.kept(mark.begun)
    wait(marks, "s", 0.0)
    assert doubts.of("s") == []


def test_another_process_is_waited_for(marks: Passing, path: Path, doubts: Doubts) -> None:
    other = Other(path)
    other.does("begin")
    with pytest.raises(SessionsUnavailable):
        wait(marks, "s", 0.0)
    wait(marks, "another session", 0.0)
    waited = Thread(target=wait, args=(marks, "s", 30.0))
    waited.start()
    other.does("keep")
    waited.join(30)
    assert not waited.is_alive()
    other.end()
    assert doubts.of("s") == []


def test_a_process_that_was_killed_leaves_a_doubt_and_its_slot(marks: Passing, path: Path, doubts: Doubts) -> None:
    other = Other(path)
    other.does("begin")
    other.is_killed()
    wait(marks, "s", 0.0)
    assert len(doubts.of("s")) == 1
    # Once: whoever has dealt with the doubt is not told again.
    doubts.lift("s", doubts.of("s"))
    wait(marks, "s", 0.0)
    assert doubts.of("s") == []
    assert marked(marks, "t").begin()
    assert path.read_bytes()[64:80].hex() == mark_of("t")


def test_whoever_takes_the_slot_of_one_that_was_killed_leaves_the_doubt(
    marks: Passing, path: Path, doubts: Doubts
) -> None:
    other = Other(path)
    other.does("begin")
    other.is_killed()
    marked(marks, "t")
    assert len(doubts.of("s")) == 1
    assert doubts.of("t") == []


@pytest.mark.parametrize("ends", ["is_killed", "end"])
def test_a_process_that_had_kept_everything_leaves_none(marks: Passing, path: Path, doubts: Doubts, ends: str) -> None:
    other = Other(path)
    for what in ("begin", "keep"):
        other.does(what)
    getattr(other, ends)()
    wait(marks, "s", 0.0)
    marked(marks, "t")
    assert doubts.of("s") == []


def test_one_that_is_closed_too_early_is_a_doubt(marks: Passing, path: Path, doubts: Doubts) -> None:
    other = Other(path)
    other.does("begin")
    other.does("close")
    wait(marks, "s", 0.0)
    assert len(doubts.of("s")) == 1
    other.end()


def test_where_it_never_gets_quiet_only_what_was_begun_before_is_waited_for(marks: Passing) -> None:
    mark = marked(marks)
    assert mark.begin()
    began = mark.begun
    waited = Thread(target=wait, args=(marks, "s", 30.0))
    waited.start()
    sleep(0.05)
    assert mark.begin()
    mark.kept(began)
    waited.join(30)
    assert not waited.is_alive()
    with pytest.raises(SessionsUnavailable):
        wait(marks, "s", 0.0)


def test_counts_do_not_go_back(marks: Passing) -> None:
    mark = marked(marks)
    assert mark.begin()
    assert mark.begin()
    mark.kept(2)
    mark.kept(1)
    wait(marks, "s", 0.0)


def test_two_marks_of_one_process_on_one_session_are_two(marks: Passing) -> None:
    one, two = marked(marks), marked(marks)
    assert one.begin()
    assert two.begin()
    one.kept(one.begun)
    with pytest.raises(SessionsUnavailable):
        wait(marks, "s", 0.0)
    two.kept(two.begun)
    wait(marks, "s", 0.0)
    one.close()
    assert not one.begin()
    assert two.begin()


def test_in_a_file_that_is_gone_nothing_is_marked(marks: Passing, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "_SEE_EVERY_S", 0.0)
    mark = marked(marks)
    assert mark.begin()
    path.rename(path.with_name("moved"))
    assert not mark.begin()
    again = marked(marks)
    assert again.begin()
    assert not mark.begin()
    with pytest.raises(SessionsUnavailable):
        wait(marks, "s", 0.0)


def test_a_child_of_a_fork_cannot_use_its_parents_mark_and_does_not_open_its_lock(
    marks: Passing, path: Path, doubts: Doubts
) -> None:
    mark = marked(marks)
    assert mark.begin()
    child = os.fork()
    if not child:
        code = 1
        try:
            own = Passing(path, doubts).mark("t")
            code = 0 if not mark.begin() and own is not None and own.begin() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # To another process the parent is still there.
    asks = "from pathlib import Path; import sys; from lockgate.sessions.stores.doubts import Doubts; "
    asks += "from lockgate.sessions.stores.passing import Passing; p = Path(sys.argv[1]); "
    asks += "marks = Passing(p, Doubts(p.with_name('doubted'))); marks.wait(marks.file(), 's', 0.0)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", asks, str(path)], env=environ, capture_output=True, check=False)
    assert b"does not keep it" in done.stderr
    assert doubts.of("s") == []
    mark.kept(mark.begun)
    wait(marks, "s", 0.0)


def test_when_all_slots_are_taken_there_is_no_mark(marks: Passing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "_SLOTS", 2)
    kept = [marked(marks), marked(marks)]
    assert marks.mark("s") is None
    kept[0].close()
    assert marks.mark("s") is not None


@pytest.mark.parametrize("odd", ["short", "other", "link", "readable", "folder"])
def test_what_is_no_file_of_marks_is_neither_used_nor_passed_over(marks: Passing, path: Path, odd: str) -> None:
    path.parent.mkdir(mode=0o700)
    if odd == "folder":
        path.mkdir()
    elif odd == "link":
        made = path.with_name("made")
        made.write_bytes(passing._MAGIC + bytes(passing._SIZE - 8))
        made.chmod(0o600)
        path.symlink_to(made)
    else:
        path.write_bytes({"short": b"lkgpas/1", "other": bytes(passing._SIZE)}.get(odd, passing._MAGIC + bytes(65_592)))
        path.chmod(0o644 if odd == "readable" else 0o600)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        assert marks.mark("s") is None
        with pytest.raises(SessionsUnavailable, match="cannot be told"):
            wait(marks, "s", 0.0)
    # One per try would be six more; a thread of another test may have one or two open.
    assert not before or len(os.listdir("/proc/self/fd")) < before + 4


def test_a_file_that_was_tampered_with_breaks_nothing(marks: Passing, path: Path) -> None:
    mark = marked(marks)
    assert mark.begin()
    with path.open("r+b") as file:
        file.seek(8)
        file.write(b"\xff" * 8)
    # More slots than there are: those that there are.
    with pytest.raises(SessionsUnavailable):
        wait(marks, "s", 0.0)
    with path.open("r+b") as file:
        file.seek(64 + 1)
        file.write(bytes.fromhex(mark_of("t")))
    # A name that does not begin where a slot does is nobody's.
    wait(marks, "t", 0.0)
