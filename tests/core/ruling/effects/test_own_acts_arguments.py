"""Tools of any name that are given a path of Lockgate's own."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effects_of_call import effects_of, own_effects_of
from lockgate.core.ruling.effects.own_paths import OWN_KINDS
from lockgate.core.ruling.effects.project import Project
from lockgate.core.vocabulary import ToolCall

WORK = Project(root="/home/ana/work", folder="/home/ana/work", home="/home/ana")
PATCH = "*** Begin Patch\n*** Update File: .claude/settings.json\n@@\n-a\n+b\n*** End Patch"


def own(tool: str, arguments: dict[str, object], folder: str = "") -> set[str]:
    call = ToolCall(tool, arguments, folder=folder)
    found = {each.kind for each in own_effects_of(call, WORK)}
    # The glance before it must not hide anything.
    assert bool(found) is bool({each.kind for each in effects_of(call, WORK)} & OWN_KINDS)
    return found


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Grep", {"pattern": "lgp_", "path": "$HOME"}),
        ("Grep", {"pattern": "lgp_", "path": "~"}),
        ("Grep", {"pattern": "lgp_", "path": "/home/ana"}),
        ("Grep", {"pattern": "lgp_", "path": "/"}),
        ("Grep", {"pattern": "lgp_", "path": ".."}),
        ("Grep", {"pattern": "lgp_", "path": "/home/ana/.local"}),
        ("Grep", {"pattern": "x", "path": "~", "glob": "*.key"}),
        ("Grep", {"pattern": ".", "path": "~", "glob": "token"}),
        ("Grep", {"pattern": ".", "path": "/", "glob": "{token,x}"}),
        ("Grep", {"pattern": ".", "path": "/home", "glob": "*.{py,db,key}"}),
        ("Grep", {"pattern": ".", "path": "~", "glob": "!*.py"}),
        ("Grep", {"pattern": ".", "path": "~", "glob": "t*o*k*e*n*"}),
        ("grep_search", {"query": ".", "path": "/home/ana", "include_pattern": "*.py, token"}),
        ("Read", {"file_path": "../.local/state/lockgate/token"}),
        ("Read", {"file_path": "/home/ana/work/../.local/state/lockgate/token"}),
        ("Read", {"file_path": "file:///home/ana/.local/state/lockgate/token"}),
        ("Read", {"file_path": "file:///home/ana/%2Elocal/state/lockgate/token"}),
        ("Read", {"file_path": "/HOME/ANA/.Local/State/LOCKGATE/token"}),
        ("Read", {"file_path": r"C:\Users\ana\.local\state\lockgate\token"}),
        ("Glob", {"pattern": "/home/ana/.local/state/lockgate/*"}),
        ("Write", {"file_path": "/home/ana/.cache/lockgate/rules-x.bin", "content": "x"}),
        ("Write", {"file_path": "/home/ana/.local/state/lockgate/token", "content": "x"}),
        ("Write", {"file_path": "/data/state/lockgate/people/bob", "content": "x"}),
        ("Write", {"file_path": "/data/state/lockgate/page-codes/ab", "content": "x"}),
        ("Write", {"file_path": "/home/ana/.claude/settings.json", "content": "x"}),
        ("Write", {"file_path": "/home/ana/.claude/settings.json. ", "content": "x"}),
        ("Edit", {"file_path": "../.claude/settings.json", "old_string": "a", "new_string": "b"}),
        ("NotebookEdit", {"notebook_path": "/home/ana/.claude/settings.json", "new_source": "x"}),
        ("apply_patch", {"patch": PATCH}),
        ("move_file", {"source": "/home/ana/.local", "destination": "/tmp/x"}),
        ("move_file", {"source": "/home/ana/.claude", "destination": "/tmp/x"}),
        ("delete_directory", {"path": "~/.local/state"}),
        ("copy_file", {"source": "/home/ana/.local/state/lockgate/token", "destination": "x"}),
        ("copy_directory", {"source": "/home/ana", "destination": "x"}),
        ("extract_archive", {"archive": "x.zip", "destination": "/home/ana"}),
        ("mcp__fs__read_file", {"path": "~/.local/state/lockgate/token"}),
        ("mcp__fs__search_files", {"path": "/home/ana", "pattern": "lgp_"}),
        ("mcp__fs__search_files", {"path": "/home/ana", "regex": "lg[pa]_"}),
        ("frobnicate", {"x": "/home/ana/.local/state/lockgate/token"}),
        ("upload", {"attachments": ["/home/ana/.local/state/lockgate/token"]}),
        ("WebFetch", {"url": "file:///home/ana/.local/state/lockgate/token", "prompt": "x"}),
        ("read_many", {"paths": [*(f"src/{number}.py" for number in range(1500)), "~/.local/state/lockgate/token"]}),
    ],
)
def test_no_tool_gets_to_our_own_files(tool: str, arguments: dict[str, object]) -> None:
    assert own(tool, arguments)
    # Nor behind so many other values that a glance at all of them comes first.
    assert own(tool, {**arguments, "tags": [f"p{number}@host.example" for number in range(40)]}) == own(tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Grep", {"pattern": "foo"}),
        ("Grep", {"pattern": "foo", "path": "src"}),
        ("Grep", {"pattern": "foo", "path": "/home/ana/work"}),
        ("Grep", {"pattern": "foo", "path": "~", "glob": "*.py"}),
        ("Grep", {"pattern": "foo", "path": "~", "glob": "*.{ts,tsx}"}),
        ("Grep", {"pattern": "foo", "path": "~", "glob": "Makefile"}),
        ("Grep", {"pattern": "foo", "path": "/home/ana", "type": "py"}),
        ("Glob", {"pattern": "**/*.py"}),
        ("Glob", {"pattern": "~/**/*.md"}),
        ("Read", {"file_path": "/home/ana/.claude/settings.json"}),
        ("Read", {"file_path": "/home/ana/work/a.py"}),
        ("LS", {"path": "/home/ana"}),
        ("mcp__fs__search_files", {"path": "/home/ana", "pattern": "*.pdf"}),
        ("Write", {"file_path": "/home/ana/.claude/plans/x.md", "content": "~/.local/state/lockgate/token"}),
        ("Write", {"file_path": ".claude/agents/x.md", "content": "x"}),
        ("Edit", {"file_path": "/home/ana/.claude/projects/-w/memory/M.md", "old_string": "a", "new_string": "b"}),
        ("Task", {"prompt": "grep -r lgp_ ~", "description": "x", "subagent_type": "g"}),
        ("search_web", {"query": "lockgate token"}),
        ("move_file", {"source": "/home/ana/a", "destination": "/home/ana/b"}),
        ("create_directory", {"path": "/home/ana/.local/x"}),
        ("list_directory", {"path": "~"}),
        ("WebFetch", {"url": "https://x.example/~ana/", "prompt": "x"}),
    ],
)
def test_ordinary_calls_are_let_be(tool: str, arguments: dict[str, object]) -> None:
    assert own(tool, arguments) == set()


def test_a_search_without_a_path_is_one_of_the_working_folder() -> None:
    assert own("Grep", {"pattern": "lgp_"}, folder="/home/ana") == {"reads-own-token"}
    assert own("Grep", {"pattern": "lgp_"}, folder="/home/ana/work/src") == set()
