"""Which paths are Lockgate's own, however they are spelled."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effect import effect
from lockgate.core.ruling.effects.own_paths import Access, find_own, may_find_own, may_lead_to_own, own_access
from lockgate.core.ruling.effects.project import NO_PROJECT, Project

ANA = Project(folder="/home/ana/work", home="/home/ana")


def kind(path: str, access: Access, *, below: bool = False, folder: str = "") -> str:
    found = own_access(path, access, ANA, folder=folder, below=below)
    return found.kind if found else ""


@pytest.mark.parametrize(
    "path",
    [
        "~/.local/state/lockgate",
        "~/.local/state/lockgate/token",
        "~ana/.local/state/lockgate",
        "~/../ana/.local/state/lockgate",
        "/home/ana/.local/state/lockgate/x/y",
        "/root/.local/state/lockgate",
        "/Users/ana/.local/state/lockgate",
        "$HOME/.local/state/lockgate",
        "${HOME}/.local/state/lockgate",
        "${XDG_STATE_HOME:-$HOME/.local/state}/lockgate",
        "%USERPROFILE%\\.local\\state\\lockgate",
        "../.local/./state//lockgate",
        "~/.l*/st?te/lock[g]ate",
        "~/.local/state/$X",
        "~/**/token",
        "/mnt/x/.local/state/lockgate",
        "/srv/state/lockgate/token",
    ],
)
def test_a_secret_is_not_even_read(path: str) -> None:
    assert kind(path, Access.READ) == "reads-own-token"
    assert kind(path, Access.WRITE) == kind(path, Access.DELETE) == "changes-own-state"
    assert kind(path, Access.RUN) == ""


@pytest.mark.parametrize(
    "path", ["/", "/home", "/home/*", "~", "~/.local", "~/.local/state", "..", "/home/ana", "~/.*"]
)
def test_a_folder_above_counts_for_what_reaches_below_it(path: str) -> None:
    assert kind(path, Access.READ) == kind(path, Access.DELETE) == kind(path, Access.WRITE) == ""
    assert kind(path, Access.READ, below=True) == "reads-own-token"
    assert kind(path, Access.DELETE, below=True) == "changes-own-state"


def test_settings_may_be_read_and_compiled_rules_deleted() -> None:
    for path in ("~/.claude/settings.json", ".claude/settings.local.json", "~/.claude/projects/-w/4f.jsonl"):
        assert kind(path, Access.READ) == ""
        assert kind(path, Access.WRITE) == kind(path, Access.DELETE) == "changes-own-guard"
    assert kind("/w/.claude", Access.DELETE, below=True) == "changes-own-guard"
    assert kind("~/.cache/lockgate/rules-a.bin", Access.WRITE) == "changes-own-guard"
    assert kind("~/.cache/lockgate", Access.DELETE, below=True) == kind("~/.cache", Access.DELETE, below=True) == ""


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "src",
        "~/projects",
        "~/.local/share",
        "/tmp",
        "lockgate",
        "claude-code",
        "~/*",
        "x" * 5000,
        "~/$X/y",
    ],
)
def test_other_paths_are_let_be(path: str) -> None:
    for access in Access:
        assert kind(path, access, below=True) == ""


def test_a_relative_path_may_start_from_a_home_where_the_folder_is_not_known() -> None:
    assert own_access(".local/state", Access.DELETE, NO_PROJECT, below=True) is not None
    assert own_access(".local/state", Access.DELETE, ANA, below=True) is None
    assert own_access("lockgate", Access.DELETE, NO_PROJECT, below=True) is None


def test_the_host_says_where_a_link_leads() -> None:
    asked: list[str] = []

    def follow(path: str) -> str:
        asked.append(path)
        return "~/.local/state/lockgate/token" if path.endswith("/link") else ""

    project = Project(folder="/w", follow=follow)
    assert own_access("link", Access.READ, project) is not None
    assert own_access("other", Access.READ, project) is None
    assert asked == ["/w/link", "/w/other"]
    assert find_own("~/.local/state/lockgate", project)
    assert len(asked) == 2


def test_a_search_by_name_finds_ours_or_not() -> None:
    assert all(map(may_find_own, ("token", "*", "*tok*", "*.key", "*lockgate*", "TOKEN")))
    assert not any(map(may_find_own, ("*.py", "settings.json", "README*")))
    assert may_find_own("settings*", settings=True)


def test_most_calls_need_no_closer_look() -> None:
    for text in (
        "git status",
        "pytest -q tests/test_a.py",
        "ls -la src",
        "sed -n 1,20p a.py",
        "echo 'a b'",
        "a/b/*.py",
    ):
        assert not may_lead_to_own(text, ANA), text
        assert not may_lead_to_own(text, NO_PROJECT), text
    for text in ("grep -r x /", "cd", "cd; ls", "cat /h*/a/x", "rm -rf ../x", "cat lo''ckgate", "echo $X", "ls ~"):
        assert may_lead_to_own(text, NO_PROJECT), text
    assert may_lead_to_own("ls", Project(folder="/home/ana", home="/home/ana"))
    for text in ("cd /home/ana/work && pytest -q", "git diff HEAD~1", "cat /home/ana/work/a.py", "go test ./..."):
        assert not may_lead_to_own(text, ANA), text
    for text in (
        "rm -rf /home/ana",
        "rm -rf /ho''me/ana",
        "rm -rf /home/./ana",
        "rm -rf /home//ana/",
        "rm -rf /h{ome,x}/ana",
        "cat /home/ana/.l[o]cal/x",
        "cd /home/ana/work/.. && rm -rf x",
        r"rmdir /s C:\Users\ana",
        "rm -rf /root",
    ):
        assert may_lead_to_own(text, ANA), text


def test_the_environment_that_the_hooks_run_in_may_be_read_and_not_changed() -> None:
    for path in (
        "~/.local/share/pipx/venvs/lockgate/bin/python",
        "/home/ana/.local/share/uv/tools/lockgate/pyvenv.cfg",
    ):
        assert kind(path, Access.READ) == kind(path, Access.RUN) == ""
        assert kind(path, Access.WRITE) == kind(path, Access.DELETE) == "changes-own-guard"
    assert kind("~/.local/share/pipx/venvs", Access.DELETE, below=True) == "changes-own-guard"
    assert kind("~/.local/share/pipx/venvs/black", Access.DELETE, below=True) == ""


def test_folders_of_the_settings_count_like_the_usual_ones() -> None:
    own = Project(folder="/srv/work", home="/home/ana", own_folders=("/srv/State/gate", "/data/log/j.db"))
    for path in (
        "/srv/state/gate",
        "/srv/./STATE/gate/sessions.db",
        "../state/g*te/x",
        "/data/log/j.db",
        "/srv/$X/gate",
    ):
        assert own_access(path, Access.READ, own) == effect("reads-own-token", path)
    for path in ("/srv", "/data/log", "..", "/srv/state", "/"):
        assert own_access(path, Access.READ, own) is None
        assert own_access(path, Access.READ, own, below=True) is not None
    for path in (".", "/srv/work", "/srv/state/gates", "/data/log/other.db", "state/gate", ""):
        assert own_access(path, Access.DELETE, own, below=True) is None, path
    assert may_lead_to_own("cat /SRV/state/gate/x", own)
    assert may_lead_to_own("cat /s''rv/state/gate/x", own)
    assert not may_lead_to_own("cat notes.txt", own)
