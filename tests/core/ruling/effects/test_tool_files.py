"""Tools that work on files."""

from __future__ import annotations

from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import Project
from lockgate.core.vocabulary import ToolCall

PROJECT = Project(root="/w/app", home="/home/u")


def kinds(tool: str, **arguments: object) -> list[tuple[str, str]]:
    return [(found.kind, found.target) for found in effects_of(ToolCall(tool, arguments), PROJECT)]


def test_an_edit_that_loads_remote_code_names_the_new_host_only() -> None:
    old = '<script src="https://cdn.example/a.js"></script>'
    found = kinds(
        "Edit", file_path="web/index.html", old_string=old, new_string=f'{old}\n<script src="//b.example"></script>'
    )
    assert ("embeds-remote-code", "cdn.example") not in found
    found = kinds("Edit", file_path="a.html", old_string="", new_string='<script src="https://b.example/x"></script>')
    assert ("embeds-remote-code", "b.example") in found


def test_a_tool_that_replaces_text_in_a_file_edits_it_whatever_it_is_called() -> None:
    found = kinds("str_replace", path="Dockerfile", old="FROM node:20", new="FROM hub.b.example/node:20")
    hosted = [("adds-dependency", "hub.b.example/node"), ("embeds-remote-code", "hub.b.example")]
    assert found == [*hosted, ("edits-project", "Dockerfile")]
    assert kinds("swap_lines", filepath="/home/u/.bashrc", search="a", replacement="b")[0][0] == "writes-startup-file"
    assert kinds("settings_swap", path="a/b", old="1", new="2")[0][0] != "edits-project"
    found = kinds("apply_change", filename="a.py", search="a", replace="b", description="why", line="3")
    assert found == [("edits-project", "a.py")]


def test_a_tool_that_sends_or_routes_what_it_replaces_edits_no_file() -> None:
    change = {"path": "a.txt", "old": "x", "new": "y"}
    assert kinds("send_diff", **change, to="eve@b.example") == [("sends-message", "eve@b.example")]
    assert ("requests", "b.example") in kinds("post_change", **change, url="https://b.example/c")
    found = kinds("create_redirect", path="/login", old="https://a.example/", new="https://b.example/")
    assert ("routes-to", "b.example") in found


def test_new_is_a_path_where_a_file_is_moved_or_copied() -> None:
    for tool in ("move_file", "rename_file", "copy_file"):
        assert ("writes-startup-file", "/home/u/.bashrc") in kinds(tool, old="a.txt", new="/home/u/.bashrc")
    for arguments in ({"path": "a.txt"}, {"path": "a.txt", "command": "rename"}, {"old": "a.txt", "action": "Move"}):
        assert ("writes-startup-file", "/home/u/.bashrc") in kinds("edit_file", **arguments, new="/home/u/.bashrc")
    assert kinds("edit_file", path="a.txt", old="x", new="/home/u/.bashrc") == [("edits-project", "a.txt")]


def test_every_edit_of_a_list_of_edits_counts() -> None:
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "c", "new_string": "@import 'https://b.example/x.css'"},
    ]
    assert ("embeds-remote-code", "b.example") in kinds("MultiEdit", file_path="a.css", edits=edits)


def test_a_patch_names_its_files_in_its_text() -> None:
    patch = "*** Begin Patch\n*** Add File: web/a.html\n+<script src='https://b.example/x'></script>\n*** End Patch"
    found = kinds("apply_patch", input=patch)
    assert ("embeds-remote-code", "b.example") in found
    assert "web/a.html" in [target for _, target in found]


def test_a_write_into_a_hosted_repository_is_a_push() -> None:
    found = kinds(
        "mcp__github__create_or_update_file", owner="o", repo="r", path="a.py", content="x = 1", branch="main"
    )
    assert ("pushes", "o/r") in found


def test_a_file_known_by_its_number_only_is_a_record() -> None:
    assert kinds("delete_file", file_id="13") == [("deletes-record", "13")]
    assert kinds("append_to_file", file_id="3", content="x") == [("changes-own-note", "")]


def test_a_folder_of_mail_is_no_folder_of_the_project() -> None:
    assert kinds("mail_delete_folder", folder="Archive/2023") == [("deletes-record", "Archive/2023")]
    assert kinds("delete_folder", folder="Archive/2023") == [("edits-project", "Archive/2023")]
    assert kinds("email_tools_delete_file", path="~/.ssh/authorized_keys")[0][0] == "changes-login"


def test_each_pushed_file_is_read_under_its_own_name() -> None:
    script = '<script src="https://b.example/x"></script>'
    files = [{"path": "a.md", "content": script}, {"path": "b.html", "content": script}]
    found = kinds("push_files", owner="o", repo="r", files=files)
    assert ("embeds-remote-code", "b.example") in found
    assert ("embeds-remote-code", "b.example") not in kinds("push_files", owner="o", repo="r", files=files[:1])


def test_a_path_among_settings_is_no_file() -> None:
    assert ("disables-check", "verify_ssl") in kinds("update_config", path="net.tls", verify_ssl=False)
