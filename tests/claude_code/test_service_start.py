"""Starting the service for a hook: one winner, nothing of the project's, and what passes while it is down."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lockgate.claude_code import service_start
from lockgate.claude_code.service_start import BroughtUp, bring_up, is_listening, take_unwatched
from lockgate.core.errors import LockgateError

# A hook leaves the service to itself on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

EVENT = b'{"session_id":"s1","hook_event_name":"PreToolUse","tool_name":"Bash"}'
# Stands in for `lockgate serve`: says where and as what it was started, then listens or fails as it is told.
STAND_IN = """
import json, os, socket, sys, time
said = {"env": dict(os.environ), "cwd": os.getcwd(), "sid": os.getsid(0), "pid": os.getpid(), "umask": os.umask(0)}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(said) + "\\n")
words = sys.argv[3:]
if sys.argv[2] == "fail":
    time.sleep(0.3)
    print("lockgate: error: no such thing\\nhint: buy one", file=sys.stderr)
    sys.exit(2)
time.sleep(0.3)
server = socket.create_server((words[words.index("--host") + 1], int(words[words.index("--port") + 1])))
time.sleep(60)
"""


class Place:
    """A home of its own, a free port, and a stand-in for the service."""

    def __init__(self, home: Path) -> None:
        self.home, self.notes = home, home / "starts.jsonl"
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.address: tuple[str, int] = ("127.0.0.1", held.getsockname()[1])

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "lockgate"

    @property
    def starts(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def bring_up(self, body: bytes = EVENT, **own: str) -> BroughtUp:
        return bring_up(self.address, {"HOME": str(self.home), **own}, body, time.monotonic() + 30)

    def configure(self, text: str) -> None:
        folder = self.home / ".config" / "lockgate"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(text)


@pytest.fixture
def does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    tmp_path.chmod(0o700)
    place = Place(tmp_path)

    def make(what: str) -> Place:
        monkeypatch.setattr(
            service_start,
            "service_command",
            lambda *words: [sys.executable, "-I", "-c", STAND_IN, str(place.notes), what, *words],
        )
        return place

    yield make
    for start in place.starts:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(int(str(start["pid"])), signal.SIGKILL)
            os.waitpid(int(str(start["pid"])), 0)


def test_it_is_started_detached_and_private(does: Callable[[str], Place]) -> None:
    place = does("listen")
    assert place.bring_up() == BroughtUp()
    assert is_listening(place.address)
    (start,) = place.starts
    assert start["sid"] == start["pid"] != os.getsid(0)
    assert start["umask"] == 0o077
    assert stat.S_IMODE(place.state.stat().st_mode) == 0o700
    for name in (service_start.LOG_NAME, service_start.LOCK_NAME, service_start.PID_NAME):
        assert stat.S_IMODE((place.state / name).stat().st_mode) == 0o600
    assert (place.state / service_start.PID_NAME).read_text() == f"{start['pid']}\n"
    # What listens is not started once more.
    assert place.bring_up() == BroughtUp()
    assert len(place.starts) == 1


def test_nothing_that_a_project_can_set_reaches_it(
    does: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = does("listen")
    project = tmp_path / "project"
    project.mkdir()
    # A service that read this file would not start.
    (project / "lockgate.toml").write_text("no such key = true")
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "LD_PRELOAD"):
        monkeypatch.setenv(name, str(project))
    for name in ("LOCKGATE_CONFIG", "LOCKGATE_TOKEN", "LOCKGATE_ADAPTER", "HTTPS_PROXY", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "evil")
    monkeypatch.chdir(project)
    assert place.bring_up(XDG_CACHE_HOME=str(tmp_path / "c"), PYTHONPATH=str(project)) == BroughtUp()
    (start,) = place.starts
    own = {"HOME": str(place.home), "XDG_CACHE_HOME": str(tmp_path / "c")}
    told = start["env"]
    assert isinstance(told, dict)
    # Python itself adds this one in the C locale.
    assert {name: value for name, value in told.items() if name != "LC_CTYPE"} == {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        **own,
    }
    assert start["cwd"] == os.path.abspath(os.sep)
    assert list(project.iterdir()) == [project / "lockgate.toml"]


@pytest.mark.parametrize("what", ["listen", "fail"])
def test_of_twenty_at_once_one_starts_it(does: Callable[[str], Place], what: str) -> None:
    place = does(what)
    together, said = threading.Barrier(20), []

    def ask() -> None:
        together.wait()
        said.append(place.bring_up())

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(place.starts) == 1
    assert len(said) == 20
    if what == "listen":
        assert set(said) == {BroughtUp()}
    else:
        # Why it failed is said to each of them, and none is let through.
        why = "the service cannot be started: no such thing hint: buy one"
        assert set(said) == {BroughtUp(why)}


def test_a_hook_that_waits_for_another_gives_up_in_time(does: Callable[[str], Place]) -> None:
    import fcntl

    place = does("listen")
    place.state.mkdir(mode=0o700, parents=True)
    with (place.state / service_start.LOCK_NAME).open("w") as held:
        os.chmod(held.name, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        said = bring_up(place.address, {"HOME": str(place.home)}, EVENT, time.monotonic() + 0.3)
    assert "another hook is still starting it" in said.why
    assert place.starts == []


@pytest.mark.parametrize("odd", ["broken configuration", "folder of others", "link as lock", "link as log", "no home"])
def test_what_cannot_be_trusted_is_not_started(does: Callable[[str], Place], odd: str) -> None:
    place = does("listen")
    place.state.mkdir(mode=0o700, parents=True)
    if odd == "broken configuration":
        place.configure('[server]\nwhen_down = "observe"\nport = "x"\n')
    elif odd == "folder of others":
        place.state.chmod(0o777)
    elif odd == "no home":
        assert bring_up(place.address, {}, EVENT, time.monotonic() + 5).why
        return
    else:
        name = service_start.LOCK_NAME if odd == "link as lock" else service_start.LOG_NAME
        (place.state / name).symlink_to(place.home / "elsewhere")
    said = place.bring_up()
    assert said.why.startswith("the service cannot be started: ")
    assert said.mark == ""
    assert place.starts == []
    assert not (place.home / "elsewhere").exists()


# While it is down


def test_by_default_nothing_passes(does: Callable[[str], Place]) -> None:
    place = does("fail")
    assert place.bring_up().mark == ""
    assert not (place.state / service_start.UNWATCHED_NAME).exists()


def test_observe_lets_an_event_pass_with_a_mark_and_a_note(does: Callable[[str], Place]) -> None:
    place = does("fail")
    place.configure('[server]\nwhen_down = "observe"\n')
    said = place.bring_up()
    assert said.mark.startswith("LOCKGATE IS DOWN, AND THIS WAS NOT LOOKED AT: no such thing")
    place.bring_up(b'{"session_id":"s1","agent_id":"a","hook_event_name":"PostToolUse"}')
    notes = place.state / service_start.UNWATCHED_NAME
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600
    assert [json.loads(line)["session"] for line in notes.read_text().splitlines()] == ["s1", "s1/a"]

    marked: dict[str, float] = {}
    assert take_unwatched(place.state, marked.__setitem__) == 2
    assert list(marked) == ["s1", "s1/a"]
    assert marked["s1"] < marked["s1/a"] <= time.time()
    assert take_unwatched(place.state, marked.__setitem__) == 0


@pytest.mark.parametrize("odd", ["not json", "no session", "odd session", "full", "link"])
def test_what_cannot_be_noted_does_not_pass(does: Callable[[str], Place], odd: str, tmp_path: Path) -> None:
    place = does("fail")
    place.configure('[server]\nwhen_down = "observe"\n')
    place.state.mkdir(mode=0o700, parents=True)
    body = {"not json": b"{", "no session": b"{}", "odd session": b'{"session_id": 1}'}.get(odd, EVENT)
    notes = place.state / service_start.UNWATCHED_NAME
    if odd == "full":
        notes.touch(mode=0o600)
        os.truncate(notes, 5 << 20)
    elif odd == "link":
        notes.symlink_to(tmp_path / "elsewhere")
    said = place.bring_up(body)
    assert said.why
    assert said.mark == ""


def test_a_project_cannot_choose_to_observe(
    does: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = does("fail")
    project = tmp_path / "project"
    (project / ".config" / "lockgate").mkdir(parents=True)
    for path in (project / "lockgate.toml", project / ".config" / "lockgate" / "config.toml"):
        path.write_text('[server]\nwhen_down = "observe"\n')
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(project))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / ".config"))
    monkeypatch.setenv("LOCKGATE_CONFIG", str(project / "lockgate.toml"))
    said = place.bring_up()
    assert said.why
    assert said.mark == ""


def test_a_service_that_came_up_meanwhile_is_asked_after_all(
    does: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = does("fail")
    place.configure('[server]\nwhen_down = "observe"\n')
    note = service_start._note_unwatched
    late: list[socket.socket] = []

    def noted(folder: Path, body: bytes) -> None:
        note(folder, body)
        late.append(socket.create_server(place.address))

    monkeypatch.setattr(service_start, "_note_unwatched", noted)
    assert place.bring_up() == BroughtUp()
    late[0].close()


def test_a_note_that_cannot_be_acted_on_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    notes = tmp_path / service_start.UNWATCHED_NAME
    notes.touch(mode=0o600)
    notes.write_text(
        '{"at": 1, "session": "s1"}\nnot json\n[]\n{"session": "s2", "at": 2}\n{"session": "s1", "at": 3}\n'
    )

    def refuse(_: str, __: float) -> None:
        raise LockgateError("no")

    with pytest.raises(LockgateError):
        take_unwatched(tmp_path, refuse)
    marked: dict[str, float] = {}
    assert take_unwatched(tmp_path, marked.__setitem__) == 2
    # Since its first one.
    assert marked == {"s1": 1.0, "s2": 2.0}


def test_the_command_line_is_absolute_and_isolated() -> None:
    python, flag, file, *words = service_start.service_command("--port", "1")
    assert os.path.isabs(python)
    assert flag == "-I"
    assert Path(file).samefile(Path(service_start.__file__).parents[1] / "__main__.py")
    assert words == ["serve", "--port", "1"]
