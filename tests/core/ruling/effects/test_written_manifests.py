"""Packages and sources of packages that written text brings in."""

from __future__ import annotations

import pytest
from cpu_time import takes_at_most_times

from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.written import MAX_PACKAGES, read_written_manifest

PACKAGE, SOURCE = "adds-dependency", "uses-package-source"


def added(path: str, text: str, replaced: str = "", project: Project | None = None) -> list[tuple[str, str]]:
    found = read_written_manifest(path, text, replaced, "content", project or Project())
    return [(each.kind, each.target) for each in found]


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("/srv/app/requirements-dev.txt", "reqeusts==1.0", "reqeusts"),
        ("pyproject.toml", '[project]\ndependencies = ["reqeusts>=1"]', "reqeusts"),
        ("pyproject.toml", 'dependencies = [\n  "reqeusts>=1",', "reqeusts"),
        ("pyproject.toml", '  "reqeusts",\n', "reqeusts"),
        ("setup.py", '        "reqeusts~=1.0",', "reqeusts"),
        ("package.json", '{"dependencies": {"@acme/left-padx": "^1"}}', "@acme/left-padx"),
        ("package.json", '    "left-padx": "^1.2.0",', "left-padx"),
        ("Cargo.toml", 'fastx = { version = "1" }', "fastx"),
        ("Cargo.toml", 'fastx = "1.2"', "fastx"),
        ("go.mod", "\tgithub.com/acme/fast_x v1.2.0", "github.com/acme/fast_x"),
        ("mix.exs", '      {:jasson, "~> 1.0"},', "jasson"),
        ("Gemfile", "gem 'fastx'", "fastx"),
    ],
)
def test_a_manifest_or_a_piece_of_one_names_what_it_adds(path: str, text: str, name: str) -> None:
    assert added(path, text) == [(PACKAGE, name)]


@pytest.mark.parametrize(
    ("path", "text", "replaced"),
    [
        ("requirements.txt", "numpy==2.0", "numpy==1.0"),
        ("package.json", '"version": "1.2.0",', '"version": "1.1.0",'),
        ("pyproject.toml", 'license = {text = "MIT"}', 'license = "MIT"'),
        ("pyproject.toml", 'requires-python = ">=3.11"', ""),
        ("requirements-dev.txt", "pytest\nruff", ""),
        ("notes.txt", "reqeusts==1.0", ""),
        ("poetry.lock", 'name = "reqeusts"', ""),
        ("pyproject.toml", '[project.urls]\nRepository = "https://code.example/shop.git"', ""),
        ("Cargo.toml", 'repository = "https://code.example/shop"', ""),
        ("package.json", '"homepage": "https://shop.example",', ""),
        ("requirements.txt", "# see https://b.example/a.whl", ""),
    ],
)
def test_a_new_version_a_common_tool_and_other_files_add_nothing(path: str, text: str, replaced: str) -> None:
    assert added(path, text, replaced) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", "numpy @ https://b.example/numpy-2.0-py3-none-any.whl"),
        ("requirements.txt", "numpy @ git+https://b.example/numpy.git"),
        ("pyproject.toml", '  "numpy @ https://b.example/numpy.zip",'),
        ("package.json", '"numpy": "https://b.example/numpy.tgz",'),
    ],
)
def test_a_known_package_from_an_address_has_another_source(path: str, text: str) -> None:
    assert (SOURCE, "b.example") in added(path, text, '"numpy==1.0" numpy==1.0 "numpy": "1"')


def test_what_the_project_names_already_is_not_added() -> None:
    project = Project(packages=frozenset({"pypi:numpy"}))
    assert added("requirements.txt", "numpy\nreqeusts", "", project) == [(PACKAGE, "reqeusts")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", "--extra-index-url https://wheels.example/simple"),
        ("requirements.txt", "--trusted-host wheels.example"),
        ("pyproject.toml", '[[tool.uv.index]]\nurl = "https://wheels.example/simple"'),
        (".npmrc", "@acme:registry=https://wheels.example/"),
        (".yarnrc.yml", 'npmRegistryServer: "https://wheels.example/"'),
        ("Gemfile", 'source "https://wheels.example"'),
        ("build.gradle", 'maven { url "https://wheels.example/m2" }'),
    ],
)
def test_a_source_of_packages_is_named_by_its_host(path: str, text: str) -> None:
    assert added(path, text) == [(SOURCE, "wheels.example")]
    assert added(path, text, "see https://wheels.example/simple") == []


def test_a_public_index_is_no_news() -> None:
    assert added("requirements.txt", "--index-url https://pypi.org/simple") == []


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("Dockerfile", "FROM evilco/base:1 AS build\nRUN make\n", "evilco/base"),
        ("docker/Dockerfile.web", "FROM --platform=linux/amd64 quay.io/evilco/base@sha256:00", "quay.io/evilco/base"),
        ("Containerfile", "ARG BASE=evilco/base:1\nFROM ${BASE}", "evilco/base"),
        ("Dockerfile", "COPY --from=evilco/tools /bin/t /bin/t", "evilco/tools"),
        ("compose.yaml", "services:\n  web:\n    image: evilco/base:1\n", "evilco/base"),
        ("k8s/web.yml", '      - image: "reg.example:5000/evilco/web:2"', "reg.example:5000/evilco/web"),
        ("chart/values.yaml", "image:\n  repository: evilco/web\n  tag: 2", "evilco/web"),
        ("_data/team.yml", "image: evilco/ann.png", "evilco/ann.png"),
        ("_data/team.yml", "image: reg.example/img/ann.png", "reg.example/img/ann.png"),
        ("_data/team.yml", "image: reg:5000/img/ann.png", "reg:5000/img/ann.png"),
        (".github/workflows/ci.yml", "      - uses: evilco/setup@v1", "evilco/setup"),
        (".github/workflows/ci.yml", "      uses: evilco/ci/.github/workflows/x.yml@main", "evilco/ci"),
        (".github/workflows/ci.yml", "      - uses: docker://evilco/setup:1", "evilco/setup"),
    ],
)
def test_an_image_and_an_action_with_an_owner_are_dependencies(path: str, text: str, name: str) -> None:
    assert added(path, text) == [(PACKAGE, name)]
    assert added(path, text, text.replace(":1", ":0").replace("@v1", "@v0")) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", "FROM python:3.12-slim AS build\nFROM build\nCOPY --from=build /app /app"),
        ("Dockerfile", "# FROM evilco/base:1"),
        ("Dockerfile", "FROM mcr.microsoft.com/dotnet/sdk:8.0"),
        ("compose.yaml", "    image: postgres:16\n    build: ./web"),
        (".github/workflows/ci.yml", "      - uses: actions/checkout@v4\n      - uses: ./.github/actions/own"),
        ("Chart.yaml", "repository: https://charts.example/stable"),
        ("README.md", "FROM evilco/base:1"),
        # A name of more parts that begins with no host is pulled from nowhere: it is a path.
        ("_data/team.yml", "image: assets/img/ann.png"),
        ("src/query.py", "FROM sales/items"),
    ],
)
def test_official_images_own_stages_and_other_files_add_nothing(path: str, text: str) -> None:
    assert added(path, text) == []


def test_an_image_that_the_project_uses_already_is_no_news() -> None:
    project = Project(packages=frozenset({"image:evilco/base", "npm:evilco/web"}))
    assert added("Dockerfile", "FROM evilco/base:2", "", project) == []
    assert added("Dockerfile", "FROM evilco/web:2", "", project) == [(PACKAGE, "evilco/web")]


def test_an_image_behind_very_many_mentions_of_another_is_found() -> None:
    assert (PACKAGE, "evilco/web") in added("web.yml", "image: ours/web\n" * 10_001 + "image: evilco/web\n")


@pytest.mark.parametrize(("path", "line"), [("web.yml", "image: evilco/web{}\n"), ("requirements.txt", "evil_{}==1\n")])
def test_packages_beyond_the_limit_are_unreadable_and_cost_little(path: str, line: str) -> None:
    def text(names: int) -> str:
        return "".join(line.format(number) for number in range(names))

    assert {kind for kind, _ in added(path, text(MAX_PACKAGES))} == {PACKAGE}
    found = added(path, text(MAX_PACKAGES + 1))
    assert len(found) == MAX_PACKAGES + 1
    assert found[-1] == ("unreadable", "")
    assert added(path, text(MAX_PACKAGES + 1), text(MAX_PACKAGES + 1)) == []
    assert takes_at_most_times(40, lambda: added(path, text(4_500)), lambda: added(path, text(300)), floor_s=0.01)


def test_a_package_is_told_as_the_text_spells_it() -> None:
    assert added("requirements.txt", "Evil_Co.Pkg==1\n") == [(PACKAGE, "Evil_Co.Pkg")]
    assert added("requirements.txt", "evil__pkg==1\n") == [(PACKAGE, "evil-pkg")]
