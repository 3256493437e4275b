"""What is installed from this machine in Lockgate's place, whatever the folder or the file is called."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from lockgate.claude_code import local_packages
from lockgate.claude_code.local_packages import brings_lockgate


def _file(name: str, text: str = "") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return folder

    return make


def _wheel(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with ZipFile(folder / "tidy-1-py3-none-any.whl", "w") as packed:
            packed.writestr(name, "")
        return folder / "tidy-1-py3-none-any.whl"

    return make


@pytest.mark.parametrize(
    "make",
    [
        _file("lockgate/__init__.py"),
        _file("src/lockgate/__init__.py"),
        _file("pyproject.toml", '[project]\nname = "lockgate"\nversion = "9"\n'),
        _file("pyproject.toml", "[project]\nname='Lockgate' # ours\n"),
        _file("pyproject.toml", '[project]\nname = "tidy"\n[project.scripts]\nlockgate = "tidy:main"\n'),
        _file("pyproject.toml", '[tool.setuptools]\npackages = ["tidy", "lockgate"]\n'),
        _file("setup.cfg", "[metadata]\nname = lockgate\n"),
        _file("setup.py", "setup(name='lockgate', version='9')"),
        _file("setup.py", "setup(name='tidy', package_dir={'lockgate': 'evil'})"),
        _wheel("lockgate/__init__.py"),
        _wheel("lockgate.py/../lockgate/x"),
        _wheel("tidy-1.data/purelib/lockgate/__init__.py"),
    ],
)
def test_a_package_of_our_name_is_found_under_any_other(make: Callable[[Path], Path], tmp_path: Path) -> None:
    assert brings_lockgate(str(make(tmp_path)))


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: folder,
        lambda folder: folder / "not-there",
        _file("pyproject.toml", '[project]\nname = "tidy"\ndependencies = ["lockgate>=0.1", "lockgate[agent]"]\n'),
        _file("pyproject.toml", '[tool.poetry.dependencies]\nlockgate = "^0.1"\n'),
        _file("pyproject.toml", '[project]\nname = "lockgate-extras"\n'),
        _file("setup.py", "setup(name='tidy', install_requires=['lockgate'])"),
        _file("docs/lockgate.md"),
        _wheel("tidy/__init__.py"),
        _wheel("tidy/plugins/hooks/lockgate/__init__.py"),
    ],
)
def test_a_package_that_only_uses_us_is_let_be(make: Callable[[Path], Path], tmp_path: Path) -> None:
    assert not brings_lockgate(str(make(tmp_path)))


def test_what_cannot_be_looked_into_counts_or_cannot_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "setup.py")
    assert not brings_lockgate(str(tmp_path))
    (tmp_path / "broken.whl").write_text("no archive")
    assert not brings_lockgate(str(tmp_path / "broken.whl"))
    monkeypatch.setattr(local_packages, "_MAX_NAMES", 0)
    assert brings_lockgate(str(_wheel("tidy/__init__.py")(tmp_path)))

    def fail(_: str) -> str:
        raise PermissionError

    monkeypatch.setattr(local_packages, "_read_start", fail)
    assert brings_lockgate(str(tmp_path))
