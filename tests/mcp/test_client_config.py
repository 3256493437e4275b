"""Clients' lists of servers with us put in and taken out again, to the letter."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from lockgate.core.errors import LockgateError
from lockgate.mcp import client_config as mcp_config

OURS = ["/opt/bin/lockgate"]

CLAUDE_DESKTOP = """\
{
  "globalShortcut": "",
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ana"]},
    "bare": {"command": "/usr/local/bin/weather"},
    "keyed": {
      "command": "uvx",
      "args": ["tracker"],
      "env": {"TRACKER_KEY": "sk-very-secret-1"}
    }
  }
}
"""
VS_CODE = """\
{
\t// Servers of this workspace.
\t"inputs": [{"type": "promptString", "id": "token", "password": true}],
\t"servers": {
\t\t"web": {
\t\t\t"type": "http",
\t\t\t"url": "https://mcp.example.com/mcp", /* the usual one */
\t\t\t"headers": {"Authorization": "Bearer ${input:token}", "X-Team": "blue-team"},
\t\t},
\t\t"local": {"type": "stdio", "command": "node", "args": ["server.js", "--", "x"], "cwd": "${workspaceFolder}"},
\t},
}
"""
CLAUDE_CODE = json.dumps(
    {"mcpServers": {"a": {"command": "x"}}, "projects": {"/home/ana/p": {"mcpServers": {"b": {"command": "y"}}}}}
)
CURSOR = CLAUDE_DESKTOP.replace("\n", "\r\n")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mcp.json"
    path.write_bytes(text.encode("utf-8"))
    return path


def applied(path: Path, state: Path, **options: Any) -> mcp_config.ClientConfigPlan:
    plan = mcp_config.plan_change(path, state=state, command=OURS, **options)
    mcp_config.apply_plan(plan)
    return plan


def value(path: Path) -> Any:
    return json.loads(mcp_config.blank_comments(path.read_text(encoding="utf-8-sig")))


@pytest.mark.parametrize(
    "text",
    [CLAUDE_DESKTOP, VS_CODE, CLAUDE_CODE, CURSOR, "\ufeff" + CLAUDE_DESKTOP],
    ids=["claude-desktop", "vs-code", "claude-code", "crlf", "mark"],
)
def test_out_again_leaves_no_trace(tmp_path: Path, state: Path, text: str) -> None:
    path = written(tmp_path, text)
    assert not applied(path, state).empty
    assert path.read_bytes() != text.encode()
    again = mcp_config.plan_change(path, state=state, command=OURS)
    assert again.empty
    assert again.diff == ""
    applied(path, state, remove=True)
    assert path.read_bytes() == text.encode()
    assert mcp_config.plan_change(path, state=state, remove=True).empty


@pytest.mark.parametrize(
    "text", [CLAUDE_DESKTOP, VS_CODE, CLAUDE_CODE], ids=["claude-desktop", "vs-code", "claude-code"]
)
def test_without_what_was_kept_the_entries_mean_the_same_as_before(tmp_path: Path, state: Path, text: str) -> None:
    path = written(tmp_path, text)
    before = value(path)
    applied(path, state)
    applied(path, tmp_path / "elsewhere", remove=True)
    assert value(path) == before


def test_what_is_written(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, CLAUDE_DESKTOP)
    plan = applied(path, state)
    servers = value(path)["mcpServers"]
    files = ["-y", "@modelcontextprotocol/server-filesystem", "/home/ana"]
    assert servers["files"] == {"command": OURS[0], "args": ["mcp", "--name", "files", "--", "npx", *files]}
    assert servers["bare"]["args"] == ["mcp", "--name", "bare", "--", "/usr/local/bin/weather"]
    assert servers["keyed"]["env"] == {"TRACKER_KEY": "sk-very-secret-1"}
    assert len(plan.changes) == 3
    assert "sk-very-secret-1" not in plan.diff


def test_headers_go_into_the_environment(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, VS_CODE)
    applied(path, state)
    web = value(path)["servers"]["web"]
    assert web["type"] == "stdio"
    sent = ["--header", "Authorization: $LOCKGATE_HEADER_1", "--header", "X-Team: $LOCKGATE_HEADER_2"]
    assert web["args"] == ["mcp", "--name", "web", "--url", "https://mcp.example.com/mcp", *sent]
    assert web["env"] == {"LOCKGATE_HEADER_1": "Bearer ${input:token}", "LOCKGATE_HEADER_2": "blue-team"}
    assert not {"url", "headers"} & set(web)
    assert "// Servers of this workspace." in path.read_text(encoding="utf-8")


def test_an_entry_changed_since_is_taken_apart(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, CLAUDE_DESKTOP)
    applied(path, state)
    path.write_text(path.read_text(encoding="utf-8").replace('"/home/ana"', '"/home/ben"'), encoding="utf-8")
    applied(path, state, remove=True)
    servers = value(path)["mcpServers"]
    assert servers["files"]["args"][-1] == "/home/ben"
    assert servers["files"]["command"] == "npx"
    assert '"env": {"TRACKER_KEY": "sk-very-secret-1"}' in path.read_text(encoding="utf-8")


def test_one_server_of_several(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, CLAUDE_DESKTOP)
    applied(path, state, servers=["bare"])
    assert [name for name, entry in value(path)["mcpServers"].items() if mcp_config.is_wrapped(entry)] == ["bare"]
    with pytest.raises(LockgateError, match="no server `missing`"):
        mcp_config.plan_change(path, state=state, servers=["missing"])


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"type": "sse", "url": "https://x.example/mcp"}, "older transport"),
        ({"url": "https://x.example/sse"}, "older transport"),
        ({"url": "https://x.example/mcp", "oauth": {}}, "signs in"),
        ({"command": "x", "args": "y"}, "no list"),
        ({"url": "https://x.example/mcp", "headers": {"a": 1}}, "not texts"),
        ({"note": "?"}, "neither"),
    ],
    ids=["sse", "sse-address", "oauth", "args", "headers", "nothing"],
)  # fmt: skip
def test_what_cannot_be_wrapped_is_left_and_named(tmp_path: Path, state: Path, entry: object, why: str) -> None:
    path = written(tmp_path, json.dumps({"mcpServers": {"odd": entry}}))
    plan = mcp_config.plan_change(path, state=state, command=OURS)
    assert plan.empty
    assert why in plan.skipped[0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a": 1}', '{"mcpServers": {}}', '{"mcpServers": []}', '{"servers": {"a": {}, "a": {}}}', "\xff"],
    ids=range(8),
)  # fmt: skip
def test_a_file_that_is_no_list_of_servers_is_refused(tmp_path: Path, state: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(LockgateError):
        mcp_config.plan_change(path, state=state)
    assert path.read_bytes() == text.encode("latin-1")


def test_a_file_that_changes_meanwhile_is_left_alone(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, CLAUDE_DESKTOP)
    plan = mcp_config.plan_change(path, state=state, command=OURS)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(LockgateError, match="changed meanwhile"):
        mcp_config.apply_plan(plan)
    assert path.read_text(encoding="utf-8") == "{}"


@pytest.mark.skipif(sys.platform == "win32", reason="modes as POSIX has them")
def test_the_files_mode_and_a_link_to_it_stay(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, CLAUDE_DESKTOP)
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    applied(link, state)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    (kept,) = (state / "mcp-clients").iterdir()
    # There may be keys in what the entries were.
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_what_another_user_could_have_written_is_not_restored(tmp_path: Path, state: Path) -> None:
    path = written(tmp_path, CLAUDE_DESKTOP)
    applied(path, state)
    (kept,) = (state / "mcp-clients").iterdir()
    evil = dict.fromkeys(json.loads(kept.read_text(encoding="utf-8")), '{"command": "evil"}')
    kept.write_text(json.dumps(evil), encoding="utf-8")
    kept.chmod(0o666)
    with pytest.raises(LockgateError):
        mcp_config.plan_change(path, state=state, remove=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_named_pipe_in_the_place_of_the_list_holds_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".mcp.json")
    with pytest.raises(LockgateError, match="is not a file"):
        mcp_config.plan_change(tmp_path / ".mcp.json", command=OURS)
