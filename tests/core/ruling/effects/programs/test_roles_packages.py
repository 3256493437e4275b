"""Package managers."""

from __future__ import annotations

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell_walk import read_command


@pytest.mark.parametrize(
    "line", ["npm i -D eslint@9 @eslint/js @types/node", "npx -y @eslint/migrate-config .eslintrc.json"]
)
def test_what_only_the_makers_of_a_common_tool_can_publish_is_known(line: str) -> None:
    assert "installs-package" not in {kind for kind, _ in read_line(line)}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("npm i foo @foo/bar", "@foo/bar"),
        ("npm i -D eslint-plugin-unheard-of", "eslint-plugin-unheard-of"),
        ("npx -y @eslintt/migrate-config", "@eslintt/migrate-config"),
    ],
)
def test_a_scope_that_is_not_known_is_not(line: str, name: str) -> None:
    assert ("installs-package", name) in read_line(line)


def test_a_scope_is_known_where_the_project_uses_it() -> None:
    project = Project(root="/w/shop", packages=frozenset({"npm:@kran/ui"}))
    found = read_command("npm i @kran/forms", "command", project, NO_ACTIVITY)
    assert [each.kind for each in found] == ["installs-known-package"]


def test_settings_of_apt_that_are_commands_cannot_be_read() -> None:
    assert ("unreadable", "") in read_line("apt-get update -o APT::Update::Pre-Invoke::=/bin/sh")
