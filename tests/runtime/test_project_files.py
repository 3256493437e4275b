"""A folder to what is known of its project; a hostile folder costs little and gives nothing away."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import perf_counter

import pytest

from lockgate.core.ruling.effects.project import Place, Project
from lockgate.runtime import project_files
from lockgate.runtime.project_files import read_project


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_files, "MAX_SECONDS", 60)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write(tmp_path / "home" / "ada" / ".bashrc", "").parent


@pytest.fixture
def shop(home: Path) -> Path:
    """A repository below the user's home."""
    folder = home / "work" / "shop"
    write(folder / ".git" / "config", '[remote "origin"]\n\turl = https://ada:token@github.com/ada/shop.git\n')
    return folder


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder: Path, home: Path) -> Project:
    return read_project(str(folder), home=str(home))


def test_a_project_is_what_its_manifests_tasks_programs_and_remotes_name(shop: Path, home: Path) -> None:
    write(
        shop / "pyproject.toml", '[project]\ndependencies = ["flask"]\n[project.urls]\nHome = "https://shop.example"\n'
    )
    write(shop / "Makefile", "check:\n\ttrue\n")
    write(shop / "web" / "package.json", '{"dependencies": {"left-pad": "1"}}')
    write(shop / "packages" / "cart" / "package.json", '{"dependencies": {"express": "4"}}')
    write(shop / "requirements" / "dev.txt", "pytest\n")
    write(shop / ".venv" / "bin" / "shop-admin", "")
    write(shop / "node_modules" / ".bin" / "vite.cmd", "")
    write(shop / "node_modules" / "evil" / "package.json", '{"dependencies": {"evil-inside": "1"}}')
    write(shop / "vendor" / "package.json", '{"dependencies": {"evil-vendor": "1"}}')
    found = read(shop / "web", home)
    assert found.root == shop.as_posix()
    assert found.folder == (shop / "web").as_posix()
    assert found.packages == {"pypi:flask", "pypi:pytest", "npm:left-pad", "npm:express"}
    assert found.hosts == {"shop.example", "github.com/ada"}
    assert found.remotes == {"origin": "https://github.com/ada/shop.git"}
    assert found.tasks == {"check"}
    assert found.programs == {"shop-admin", "vite"}
    assert found.locate("../Makefile") is Place.INSIDE
    assert found.locate("../../other") is not Place.INSIDE


def test_a_work_tree_has_the_remotes_of_its_repository(shop: Path, home: Path) -> None:
    inner = shop / ".git" / "worktrees" / "tree"
    write(inner / "commondir", "../..\n")
    tree = write(home / "work" / "tree" / ".git", f"gitdir: {inner}\n").parent
    found = read(tree, home)
    assert found.root == tree.as_posix()
    assert found.has_host("github.com", "/ada/shop")


def test_the_repository_is_the_root_even_where_an_inner_folder_has_a_manifest(shop: Path, home: Path) -> None:
    write(shop / "deep" / "inner" / "package.json", '{"dependencies": {"left-pad": "1"}}')
    found = read(shop / "deep" / "inner", home)
    assert found.root == shop.as_posix()
    assert found.has_package("left-pad", "npm")


def test_without_a_repository_the_nearest_manifest_makes_the_root(home: Path) -> None:
    folder = write(home / "work" / "app" / "package.json", "{}").parent
    assert read(write(folder / "src" / "a.js", "").parent, home).root == folder.as_posix()
    alone = write(home / "work" / "notes" / "a.md", "").parent
    assert read(alone, home).root == alone.as_posix()


@pytest.mark.parametrize("name", ["docker-compose.yml", "Dockerfile", "action.yml"])
def test_a_file_that_names_images_makes_no_root(home: Path, name: str) -> None:
    stack = write(home / "stack" / name, "services: {}").parent
    web = write(stack / "web" / "a.js", "").parent
    found = read(web, home)
    assert found.root == web.as_posix()
    assert found.locate("../db-data") is not Place.INSIDE
    write(web / "package.json", "{}")
    inner = write(web / "image" / name, "FROM evilco/base").parent
    assert read(inner, home).root == web.as_posix()
    assert "image:evilco/base" in read(inner, home).packages


def test_a_home_is_no_project_though_it_is_a_repository(home: Path) -> None:
    write(home / ".git" / "config", "")
    write(home / "package.json", '{"dependencies": {"left-pad": "1"}}')
    write(home / ".ssh" / "config", "")
    for folder in (home, home.parent, home / ".ssh"):
        found = read(folder, home)
        assert found.root == ""
        assert not found.packages
    assert read(write(home / "work" / "a.txt", "").parent, home).root == (home / "work").as_posix()


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/usr/bin", "/tmp", "/home", "/home/grace", "/var", "/proc/1"])
def test_a_systems_folder_is_no_project(folder: str) -> None:
    assert read_project(folder, home="/home/ada").root == ""


@pytest.mark.parametrize("folder", ["", "shop", "/no/such/folder", "/a\0b", "/" + "a" * 9_000])
def test_a_folder_that_is_none_is_unknown(folder: str) -> None:
    found = read_project(folder, home="/home/ada")
    assert found.root == ""
    assert not found.packages


def test_a_session_that_was_not_seen_from_its_start_gets_the_places_only(shop: Path, home: Path) -> None:
    write(shop / "requirements.txt", "flask\n")
    found = read_project(str(shop), home=str(home), names=False)
    assert found == Project(root=shop.as_posix(), folder=shop.as_posix(), home=home.as_posix())


# Hostile folders


def test_no_link_is_followed(shop: Path, home: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret" / "package.json", '{"dependencies": {"outside": "1"}}')
    write(tmp_path / "secret" / "bin" / "outside", "")
    (shop / "package.json").symlink_to(tmp_path / "secret" / "package.json")
    (shop / "web").symlink_to(tmp_path / "secret")
    (shop / ".venv").symlink_to(tmp_path / "secret")
    (shop / "requirements.txt").symlink_to("/dev/zero")
    found = read(shop, home)
    assert not found.packages
    assert not found.programs


def test_a_pipe_as_a_manifest_delays_nothing(shop: Path, home: Path) -> None:
    os.mkfifo(shop / "package.json")
    os.mkfifo(shop / ".venv")
    write(shop / "requirements.txt", "flask\n")
    began = perf_counter()
    assert read(shop, home).packages == {"pypi:flask"}
    assert perf_counter() - began < 5


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe\x00\x01" * 100, b"[" * 400_000, b'{"a":' * 90_000, b"\x00", b"", b"not json", b'"' * 500_000],
)
def test_a_broken_manifest_is_unknown_and_the_others_count(shop: Path, home: Path, data: bytes) -> None:
    write(shop / "package.json", data)
    write(shop / "pyproject.toml", data)
    write(shop / "requirements.txt", "flask\n")
    assert read(shop, home).packages == {"pypi:flask"}


def test_an_unreadable_folder_is_unknown(shop: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError

    write(shop / "requirements.txt", "flask\n")
    monkeypatch.setattr(os, "open", refuse)
    assert not read(shop, home).packages
    monkeypatch.setattr(os, "scandir", refuse)
    assert read(shop, home).root == shop.as_posix()


def test_a_file_that_is_too_large_is_unknown(shop: Path, home: Path) -> None:
    write(shop / "package.json", json.dumps({"dependencies": {"left-pad": "1"}, "x": "y" * 600_000}))
    write(shop / "yarn.lock", "left-pad@^1:\n" * 400_000)
    write(shop / "uv.lock", '[[package]]\nname = "idna"\n' * 40_000)
    assert read(shop, home).packages == {"pypi:idna"}


def test_the_total_is_bounded(shop: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        write(shop / f"requirements-{number:02}.txt", f"package{number}\n")
    monkeypatch.setattr(project_files, "MAX_FILES", 9)
    assert 0 < len(read(shop, home).packages) < 10
    monkeypatch.setattr(project_files, "MAX_TOTAL_BYTES", 90)
    assert len(read(shop, home).packages) == 2
    monkeypatch.setattr(project_files, "MAX_TOTAL_BYTES", 1_000_000)
    monkeypatch.setattr(project_files, "MAX_SECONDS", -1)
    assert not read(shop, home).packages


def test_ten_thousand_packages_are_read_and_more_are_not_kept(shop: Path, home: Path) -> None:
    lines = "\n".join(
        f'    "node_modules/package-{number}": {{\n      "version": "1"\n    }},' for number in range(12_000)
    )
    write(shop / "package-lock.json", lines)
    write(shop / "package.json", '{"dependencies": {"left-pad": "1"}}')
    found = read(shop, home)
    assert len(found.packages) == project_files.MAX_PACKAGES
    assert found.has_package("left-pad", "npm")


def test_a_folder_of_very_many_files_costs_little(shop: Path, home: Path) -> None:
    for number in range(300):
        write(shop / f"folder{number:03}" / "requirements.txt", "flask\n")
    began = perf_counter()
    assert read(shop, home).packages == {"pypi:flask"}
    assert perf_counter() - began < 5
