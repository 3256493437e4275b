"""Where a call really leads, whatever it says: links, other names, the folder the agent stands in, our own address."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

import lockgate
from lockgate.claude_code import call_targets
from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import Gate
from lockgate.runtime.accounts import Account, own_account
from lockgate.sessions import Host
from lockgate.sessions.stores.sqlite import SqliteSessions


class Place:
    """A home, a project in it, and what is found in calls made there."""

    def __init__(self, home: Path, host: Host) -> None:
        self.home, self.work, self.host, self.account = home, home / "work", host, own_account()
        for folder in ("work/.claude/agents", "claude", "state/lockgate", ".config/lockgate"):
            (home / folder).mkdir(parents=True)
        (self.work / ".claude" / "settings.json").write_text("{}")
        (home / "claude" / "settings.json").write_text("{}")

    def found(self, tool: str, cwd: Path | None = None, host: str = "127.0.0.1:9000", **arguments: object) -> set[str]:
        found = call_targets.find_protected_targets(
            self.host, tool, arguments, str(cwd or self.work), {"host": host}, self.account
        )
        return {each.rule for each in found}

    def write(self, path: str | Path, cwd: Path | None = None) -> set[str]:
        return self.found("Write", cwd, file_path=str(path), content="{}")


@pytest.fixture
def place(tmp_path: Path, scanner: Scanner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    host = Host(Gate(scanner=scanner), SqliteSessions(tmp_path / "db" / "sessions.db"))
    yield Place(tmp_path, host)
    host.close()


def test_every_way_to_the_settings_is_one(place: Place) -> None:
    os.symlink(place.work / ".claude", place.work / "c")
    os.symlink(place.work / ".claude" / "settings.json", place.work / "s")
    os.symlink(place.work / ".claude" / "settings.local.json", place.work / "not-there-yet")
    os.link(place.home / "claude" / "settings.json", place.work / "twin")
    for path in ("c/settings.json", "s", "not-there-yet", "twin", "./twin", "c/../c/settings.local.json"):
        assert place.write(path) == {"execution:own-guard"}, path
        assert place.found("Bash", command=f"echo x > {path}") == {"execution:own-guard"}, path
    assert place.write("settings.json", cwd=place.work / ".claude") == {"execution:own-guard"}
    assert place.write("../settings.json", cwd=place.work / ".claude" / "agents") == {"execution:own-guard"}


def test_folders_that_are_called_otherwise_are_known(place: Place) -> None:
    for path in (
        place.home / "claude" / "settings.json",
        "~/claude/settings.json",
        "$HOME/claude/settings.json",
        f"file://{place.home}/claude/settings.json",
        place.home / "claude" / "projects" / "-w" / "x.jsonl",
        place.home / ".config" / "lockgate" / "config.toml",
    ):
        assert place.write(path) == {"execution:own-guard"}, path
    assert place.found("Bash", command="rm $HOME/claude/settings.json") == {"execution:own-guard"}
    assert place.found("Bash", command="cat $HOME/claude/settings.json") == set()
    assert place.found("Read", file_path=str(place.home / "claude" / "settings.json")) == set()
    os.symlink(place.home / "state" / "lockgate", place.work / "here")
    for tool, name in (("Read", "file_path"), ("Grep", "path")):
        assert place.found(tool, **{name: str(place.home / "state" / "lockgate" / "token")}) == {"execution:own-token"}
        assert place.found(tool, **{name: "here/token"}) == {"execution:own-token"}


def test_every_way_to_the_hooks_of_the_other_coding_agents_is_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {".codex/hooks.json", ".gemini/settings.json", ".copilot/hooks/lockgate.json", "oc/opencode/plugin/l.js"}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.home / "oc"))
    for number, name in enumerate(sorted(files)):
        path = place.home / name
        path.parent.mkdir(parents=True)
        path.write_text("{}")
        os.symlink(path.parent, place.work / f"d{number}")
        os.symlink(path, place.work / f"f{number}")
        os.link(path, place.work / f"h{number}")
        for spelled in (path, f"d{number}/{path.name}", f"f{number}", f"h{number}"):
            assert place.write(spelled) == {"execution:own-guard"}, (name, spelled)
        assert "execution:own-guard" in place.found("Bash", command=f"rm -rf d{number}"), name
        assert place.found("Bash", command=f"cat f{number}") == set()
    os.symlink(place.work / "lib" / "site-packages" / "lockgate", place.work / "package")
    assert place.write("package/gate/gate.py") == {"execution:own-guard"}


def test_the_package_is_held_wherever_it_was_installed(place: Place) -> None:
    package = Path(lockgate.__file__).parent
    os.symlink(package, place.work / "p")
    for path in (package / "gate" / "gate.py", package / "new.py", "p/core/vocabulary.py"):
        assert place.write(path) == {"execution:own-guard"}, path
        assert place.found("Bash", command=f"cp evil.py {path}") == {"execution:own-guard"}, path
        assert place.found("Read", file_path=str(path)) == set()
    assert place.write(".venv/lib/python3.11/site-packages/a.pth") == {"execution:own-guard"}
    assert place.write(".venv/lib/python3.11/site-packages/other/a.py") == set()
    assert place.write(package.parent / "other.py") == set()
    assert place.found("Bash", command=f"grep -rn x {package.parent}") == set()


@pytest.mark.parametrize(
    ("variable", "file"),
    [
        ("CODEX_HOME", "hooks.json"),
        ("GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("COPILOT_HOME", "hooks/lockgate.json"),
        ("XDG_CONFIG_HOME", "opencode/plugin/lockgate.js"),
    ],
)
def test_a_coding_agents_folder_that_a_variable_moved_is_known(
    place: Place, monkeypatch: pytest.MonkeyPatch, variable: str, file: str
) -> None:
    monkeypatch.setenv(variable, str(place.home / "moved"))
    assert place.write(place.home / "moved" / file) == {"execution:own-guard"}
    assert place.found("Bash", command=f"echo x > ${variable}/{file}") == {"execution:own-guard"}


def test_links_to_folders_above_and_after_many_words_are_followed(place: Place) -> None:
    state = place.home / "state" / "lockgate"
    (state / "token").write_text("secret")
    os.symlink(place.home, place.work / "up")
    os.symlink(place.home / "state", place.work / "st")
    os.symlink(state / "token", place.work / "t")
    os.link(state / "token", place.work / "same")
    many = " ".join(f"a{number}" for number in range(200))
    for command in (
        "grep -rh lgp_ up/",
        "cat st/lockgate/token",
        "cat t",
        "cat same",
        f"cat {many} t",
        f"cat {many} same",
        "cd st; cd lockgate; cat token",
        "tar cf - up",
        f"cp -r {place.home}/state /tmp/x",
    ):
        assert place.found("Bash", command=command) == {"execution:own-token"}, command
    for command in ("rm -rf st/", "mv st/lockgate x", f"rm -rf {place.home}/state"):
        assert "execution:own-state" in place.found("Bash", command=command), command
    assert place.found("Grep", pattern="lgp_", path="up") == {"execution:own-token"}
    assert place.found("Grep", pattern="lgp_", cwd=place.home) == {"execution:own-token"}
    assert place.found("Bash", command="cat token", cwd=state) == {"execution:own-token"}
    assert place.found("Bash", command="ls up st", cwd=place.work) == set()
    assert place.found("Bash", command="grep -rn foo .", cwd=place.work) == set()


def test_a_pattern_of_the_shell_is_compared_with_the_folder_that_the_state_is_in(place: Place) -> None:
    os.symlink(place.home / "state", place.work / "st")
    up = f"cd {place.home}"
    for command in (
        f"{up}/state; cat */token",
        f"{up}/state && head -c 99 ?ockgate/token",
        f"{up}; cat */lockgate/t*",
        f"cat {place.home}/*/*/token",
        f"cat {place.home}/state/l[o]ckgate/*",
        "cat st/*/token",
        f"{up}/state; for f in */token; do cat $f; done",
        f"{up}/state; cp */token /tmp/t",
        f"git -C {place.home}/state grep -h lgp_ --no-index",
        f"{up}/state; git grep --no-index lgp_",
    ):
        assert "execution:own-token" in place.found("Bash", command=command), command
    assert place.found("Glob", pattern="*/token", path=str(place.home / "state")) == set()
    assert "execution:own-state" in place.found("Bash", command=f"{up}/state; rm -r *")
    assert "execution:own-guard" in place.found("Bash", command=f"{up}/.config; sed -i s/true/false/ */config.toml")
    for command in ("cat */token", "cat *", "cat src/*.py", f"cat {place.work}/*/token", f"{up}; cat *.txt"):
        assert place.found("Bash", command=command) == set(), command


def test_our_own_address_is_known(place: Place) -> None:
    call = "curl http://localhost:9000/v1/sessions/x/blocks -d '{}'"
    assert place.found("Bash", command=call) == {"execution:own-approval"}
    assert place.found("Bash", command=call, host="127.0.0.1:9001") == set()
    assert place.found("WebFetch", url="http://127.0.0.1:9000/hooks/claude-code") == {"execution:own-approval"}
    assert place.found("Bash", command=call, host="") == set()
    for url in ("http://localhost:9000/", "http://127.1:9000/#/approvals", "http://a.localhost:9000"):
        assert place.found("mcp__playwright__browser_navigate", url=url) == {"execution:own-approval"}
        assert place.found("mcp__playwright__browser_navigate", url=url, host="127.0.0.1:9001") == set()


def test_our_own_port_is_known_wherever_we_listen(place: Place) -> None:
    for command in ("kill $(lsof -ti :{})", "python3 -m http.server {}", "fuser -k {}/tcp", "nc -lkp {}"):
        assert place.found("Bash", command=command.format(9000)) == {"execution:own-guard"}, command
        assert place.found("Bash", command=command.format(8000)) == set(), command
    # The port of a proxy in front is none of ours on this machine.
    assert place.found("Bash", host="lockgate.example.com:443", command="python3 -m http.server 443") == set()


def test_our_checkpoint_stays_in_a_list_of_servers(place: Place) -> None:
    wrapped = json.dumps({"mcpServers": {"notes": {"command": "lockgate", "args": ["mcp", "--", "notes"]}}})
    file = place.work / ".mcp.json"
    file.write_text(wrapped)
    bare = json.dumps({"mcpServers": {"notes": {"command": "notes"}}})
    more = wrapped.replace('{"notes"', '{"other": {"command": "x"}, "notes"')
    assert place.found("Write", file_path=str(file), content=bare) == {"execution:own-guard"}
    assert place.found("Write", file_path=".mcp.json", content="{}") == {"execution:own-guard"}
    assert place.found("Write", file_path=str(file), content=more) == set()
    edit = {"file_path": str(file), "old_string": '"command": "lockgate", "args": ["mcp", "--", "notes"]'}
    assert place.found("Edit", **edit, new_string='"command": "notes"') == {"execution:own-guard"}
    assert place.found("Edit", **{**edit, "old_string": '"notes"'}, new_string='"remarks"') == set()
    file.write_text(bare)
    assert place.found("Write", file_path=str(file), content="{}") == set()


def test_a_pipe_that_is_called_like_a_list_of_servers_delays_nothing(place: Place) -> None:
    os.mkfifo(place.work / ".mcp.json")
    asked = Thread(target=place.write, args=(".mcp.json",), daemon=True)
    asked.start()
    asked.join(10)
    assert not asked.is_alive()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says which account asks")
def test_another_account_learns_nothing_about_a_list_of_servers_that_it_may_not_read(place: Place) -> None:
    place.account = Account(54_321)
    file = place.work / ".mcp.json"
    file.write_text('{"command": "lockgate"}')
    file.chmod(0o600)
    assert place.write(file) == set()


def test_ordinary_calls_lead_where_they_say(place: Place) -> None:
    os.symlink(place.work / ".claude" / "agents", place.work / "agents")
    for path in ("src/a.py", "agents/a.md", ".claude/agents/b.md", "CLAUDE.md", "x y/z", "\0", "settings.json", ""):
        assert place.write(path) == set(), path
    for command in ("ls -la", "git add .claude && git commit -m x", "make test", "cat c/settings.json", "x" * 9000):
        assert place.found("Bash", command=command) == set(), command
    words = " ".join(f"a{number}/b" for number in range(500))
    assert place.found("Bash", command=words) == set()


def test_a_call_with_more_names_than_are_looked_up_needs_a_person(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = os.path.realpath
    monkeypatch.setattr(call_targets.os.path, "realpath", lambda path: asked.append(path) or real(path))
    values = [f"a{number}/b" for number in range(10_000)]
    assert place.found("Bash", values=values) == {"cap:arguments"}
    assert len(asked) < call_targets.MAX_STEPS
    asked.clear()
    # One deep path asks for each folder on its way.
    assert place.found("Bash", values=[f"{number}" + "/a" * 2000 for number in range(100)]) == {"cap:arguments"}
    assert len([path for path in asked if "/a/a/" in path]) < 10


def test_a_name_that_comes_again_is_looked_up_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = os.path.realpath
    monkeypatch.setattr(call_targets.os.path, "realpath", lambda path: asked.append(path) or real(path))
    assert place.found("Bash", values=["a/b c/d " * 20] * 1000) == set()
    assert len([path for path in asked if "/a/a/" in path]) < 10


@pytest.mark.parametrize(
    "command",
    [
        "pip install ./tidy",
        "pip3 install -e tidy/",
        "python3 -m pip install --force-reinstall --no-deps {work}/tidy",
        "cd tidy && pip install .",
        "cd tidy && uv sync",
        "cd tidy && python setup.py install",
        "pip install --editable=./tidy",
        "pip install 'tidy @ file://{work}/tidy'",
        "uv pip install ~/work/tidy",
        "uv tool install --force ./tidy",
        "pipx install --force $HOME/work/tidy",
        "ls && (cd /tmp; pip install {work}/tidy)",
    ],
)
def test_no_folder_of_another_name_is_installed_in_our_place(place: Place, command: str) -> None:
    (place.work / "tidy" / "lockgate").mkdir(parents=True)
    said = command.format(work=place.work)
    assert place.found("Bash", command=said) == {"execution:own-guard"}
    os.rename(place.work / "tidy" / "lockgate", place.work / "tidy" / "tidy")
    assert place.found("Bash", command=said) == set()


def test_other_packages_are_installed_beside_a_lockgate_that_is_worked_on(place: Place) -> None:
    (place.work / "lockgate").mkdir()
    for command in ("pip install requests", "pip install -r requirements.txt", "uv add httpx", "npm install ./x"):
        assert place.found("Bash", command=command) == set(), command
