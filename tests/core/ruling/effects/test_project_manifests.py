"""What each kind of manifest, lock file and task file names; broken and hostile ones name nothing."""

from __future__ import annotations

from functools import partial

import pytest
from cpu_time import takes_at_most_times

from lockgate.core.ruling.effects.project import (
    NO_NAMES,
    is_lock_file,
    is_manifest,
    read_git_remotes,
    read_manifest,
)

PYPROJECT = """
[project]
name = "shop"
dependencies = ["Flask>=3", "uvicorn[standard] ; python_version > '3.10'", "tool @ https://files.shop.example/tool.whl"]
optional-dependencies = { dev = ["ruff==0.5"] }
scripts = { shop = "shop:main" }
urls = { Home = "https://www.shop.example/" , Source = "https://github.com/ada/shop" }
[dependency-groups]
test = ["pytest", { include-group = "dev" }]
[build-system]
requires = ["hatchling"]
[tool.poetry.group.docs.dependencies]
sphinx = "^7"
torch = [{ version = "2", source = "wheels" }]
[[tool.uv.index]]
url = "https://reader:secret@pypi.shop.example/simple"
[tool.hatch.envs.lint]
extra-dependencies = ["black"]
[tool.poe.tasks]
release = "twine upload"
"""


def packages(name: str, text: str, folder: str = "") -> set[str]:
    return set(read_manifest(name, text, folder).packages)


def test_a_pyproject_names_packages_of_all_its_tables_scripts_and_hosts() -> None:
    found = read_manifest("pyproject.toml", PYPROJECT)
    names = "flask uvicorn tool ruff pytest hatchling sphinx torch black"
    assert set(found.packages) == {f"pypi:{name}" for name in names.split()}
    assert set(found.tasks) == {"shop", "release"}
    assert found.programs == ("shop",)
    assert set(found.hosts) == {"files.shop.example", "www.shop.example", "github.com/ada", "pypi.shop.example"}


def test_a_projects_own_name_is_no_package_that_it_uses() -> None:
    assert read_manifest("package.json", '{"name": "shop", "version": "1"}') == NO_NAMES


def test_a_package_json_names_packages_and_scripts() -> None:
    text = """{"scripts": {"build": "vite build", "test:unit": "jest"}, "bin": {"shop": "cli.js"},
      "dependencies": {"@scope/pkg": "1", "left-pad": "^1"}, "devDependencies": {"jest": "*"},
      "author": {"name": "Ada", "url": "https://ada.example"}}"""
    found = read_manifest("package.json", text)
    assert set(found.packages) == {"npm:@scope/pkg", "npm:left-pad", "npm:jest"}
    assert set(found.tasks) == {"build", "test:unit", "shop"}
    assert found.programs == ("shop",)
    assert found.hosts == ("ada.example",)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "# c\n-r a.txt\nflask==3\n  b\nx[y]>=1\nz @ https://h.example/z\n", "pypi: flask b x z"),
        ("requirements-dev.in", "pytest # tests\n--hash=sha256:00\n", "pypi: pytest"),
        ("constraints.txt", "idna==3\n", "pypi: idna"),
        ("setup.cfg", "[options]\ninstall_requires =\n    flask>=3\n    rich\n[flake8]\nmax = 1\n", "pypi: flask rich"),
        ("setup.py", "setup(\n  install_requires=['flask>=3', \"rich\"],\n)\nother = 1\n", "pypi: flask rich"),
        ("Pipfile", '[packages]\nflask = "*"\n[dev-packages]\nruff = {version = "1"}\n', "pypi: flask ruff"),
        ("poetry.lock", '[[package]]\nname = "idna"\nversion = "3"\n', "pypi: idna"),
        ("uv.lock", '[[package]]\nname = "idna"\nsource = { registry = "https://pypi.org/simple" }\n', "pypi: idna"),
        ("Pipfile.lock", '{\n    "default": {\n        "idna": {\n', "pypi: idna"),
        ("Cargo.toml", '[dependencies]\ns = { version = "1" }\n[target.x.dev-dependencies]\nr = "1"\n', "cargo: s r"),
        ("Cargo.lock", '[[package]]\nname = "libc"\n', "cargo: libc"),
        ("go.mod", "module a.example/b\n\nrequire (\n\tgo.example/x v0.1.0\n)\n", "go: a.example/b go.example/x"),
        ("mix.exs", '  [\n    {:jason, "~> 1.4"},\n    {:ours, path: "../ours"}\n  ]\n', "hex: jason ours"),
        ("go.sum", "golang.org/x/net v0.1.0 h1:abc=\n", "go: golang.org/x/net"),
        ("Gemfile", "source 'https://gems.shop.example'\ngem 'rails', '~> 7'\n", "gem: rails"),
        ("Gemfile.lock", "GEM\n  remote: https://rubygems.org/\n  specs:\n    rake (13.0)\n", "gem: rake"),
        ("composer.json", '{"require": {"php": ">=8", "monolog/monolog": "3"}}', "composer: php monolog/monolog"),
        ("pom.xml", "<groupId>org.a</groupId>\n <artifactId>b</artifactId>", "maven: org.a:b b"),
        ("build.gradle.kts", 'implementation("org.a:b:1.0")\n', "maven: org.a:b b"),
        ("environment.yml", "dependencies:\n  - numpy=1.26\n  - pip\n", "conda: numpy pip"),
        ("package-lock.json", '{\n    "node_modules/a/node_modules/@s/b": {\n      "version": "1"\n', "npm: @s/b"),
        ("package-lock.json", '{\n  "dependencies": {\n    "left-pad": {\n      "version": "1"\n', "npm: left-pad"),
        ("yarn.lock", '"@s/b@^1", "@s/b@^2":\n  version "2"\n\nleft-pad@^1:\n', "npm: @s/b left-pad"),
        ("pnpm-lock.yaml", "packages:\n\n  '@s/b@1.0.0':\n  /c@1.3.0:\n  /old/1.0.0:\n", "npm: @s/b c old"),
        ("bun.lock", '  "packages": {\n    "left-pad": ["left-pad@1.3.0"],\n', "npm: left-pad"),
    ],
)  # fmt: skip
def test_a_manifest_names_its_packages(name: str, text: str, expected: str) -> None:
    registry, *names = expected.split()
    names = [each.replace(".", "-") for each in names]
    assert packages(name, text) == {f"{registry}{each}" for each in names}


def test_a_text_file_in_the_requirements_folder_is_one_of_requirements() -> None:
    assert packages("base.txt", "flask\n", "requirements") == {"pypi:flask"}
    assert not is_manifest("base.txt")
    assert read_manifest("notes.txt", "flask\n") == NO_NAMES


def test_only_the_registries_of_a_lock_file_count_as_hosts() -> None:
    text = """{
  "packages": {
    "node_modules/left-pad": {
      "version": "1",
      "resolved": "https://npm.shop.example/left-pad-1.tgz",
      "resolved": "https://registry.npmjs.org/left-pad/-/left-pad-1.tgz",
      "funding": {
        "url": "https://mallory.example/sponsor"
"""
    assert read_manifest("package-lock.json", text).hosts == ("npm.shop.example",)
    assert is_lock_file("package-lock.json")
    assert not is_lock_file("package.json")


@pytest.mark.parametrize(
    ("name", "text", "tasks"),
    [
        ("Makefile", ".PHONY: test\nX := 1\nY ::= 2\ntest unit: src/a.py ; run\n\techo a: b\n", {"test", "unit"}),
        ("justfile", "set shell := ['bash']\nbuild target='x':\n  cargo build\n@lint:\n", {"build", "lint"}),
        ("tox.ini", "[tox]\nenvlist = py\n[testenv:docs]\ncommands = a\n", {"docs"}),
        ("noxfile.py", "@nox.session(python='3.12')\ndef lint(session):\n    def inner(): ...\n", {"lint"}),
        ("Taskfile.yml", "version: '3'\ntasks:\n  build:\n    cmds: []\n", {"build"}),
    ],
)
def test_a_task_file_names_its_tasks(name: str, text: str, tasks: set[str]) -> None:
    assert set(read_manifest(name, text).tasks) == tasks


def test_remotes_are_read_without_what_logs_in() -> None:
    text = """[core]
\turl = no-remote
[remote "origin"]
\turl = https://ada:token@github.com/ada/shop.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
[remote "backup"]
\turl = git@git.shop.example:shop.git
"""
    assert read_git_remotes(text) == {
        "origin": "https://github.com/ada/shop.git",
        "backup": "git@git.shop.example:shop.git",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project\n"),
        ("pyproject.toml", "a = " + "[" * 60_000),
        ("pyproject.toml", "a" + ".a" * 20_000 + " = 1"),
        ("pyproject.toml", '[project]\ndependencies = ["flask"]\n#' + "x" * 70_000),
        ("package.json", "["),
        ("package.json", "[" * 400_000),
        ("package.json", '{"a":' * 80_000),
        ("package.json", '{"a": ' + "1" * 10_000 + "}"),
        ("package.json", "[1, 2]"),
        ("package.json", '{"dependencies": 7, "scripts": ["x"]}'),
        ("Makefile", "test:\0\n"),
        ("Makefile", ""),
        ("README.md", "pip install flask"),
    ],
)
def test_a_broken_or_foreign_file_names_nothing(name: str, text: str) -> None:
    assert read_manifest(name, text) == NO_NAMES


def test_names_are_plain_and_bounded() -> None:
    text = '{"dependencies": {"a b": "1", "%s": "1", "ok": "1", "": "1", "$(x)": "1"}}' % ("x" * 500)
    assert read_manifest("package.json", text).packages == ("npm:ok",)
    many = "\n".join(f"package{number}==1" for number in range(30_000))
    assert len(read_manifest("requirements.txt", many).packages) == 10_000


UNITS = (
    " ",
    "\n",
    "a",
    '"',
    "requires=",
    '"a": {\n',
    '\n  "node_modules/',
    "https://",
    "a@",
    "a:",
    "'a:a",
    "@nox.session\n",
)
NAMES = "setup.py requirements.txt package-lock.json yarn.lock pnpm-lock.yaml uv.lock Makefile justfile pom.xml go.mod"


@pytest.mark.parametrize("name", [*NAMES.split(), "build.gradle", "noxfile.py"])
def test_the_work_is_linear_in_the_text(name: str) -> None:
    def read(unit: str, size: int) -> None:
        read_manifest(name, unit * (size // len(unit)))

    for unit in UNITS:
        # Sixteen times the text: a quadratic reader would need 256 times as long.
        assert takes_at_most_times(80, partial(read, unit, 320_000), partial(read, unit, 20_000), floor_s=0.04), unit


@pytest.mark.parametrize(
    ("name", "folder", "is_one"),
    [
        ("Dockerfile", "", True),
        ("web.Dockerfile", "", True),
        ("docker-compose.override.yml", "", True),
        ("ci.yml", "workflows", True),
        ("ci.yml", "", False),
        ("mkdocs.yml", "docs", False),
    ],
)
def test_only_files_for_images_mark_a_project(name: str, folder: str, *, is_one: bool) -> None:
    assert is_manifest(name, folder) is is_one
