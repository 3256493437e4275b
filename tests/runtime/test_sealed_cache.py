"""A cache that other programs cannot swap unseen, whatever they put there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from lockgate.runtime.sealed_cache import KEY_NAME, SealedCache

posix_only = pytest.mark.skipif(os.name != "posix", reason="permissions are the file system's on this platform")


@pytest.fixture
def cache(tmp_path: Path) -> SealedCache:
    return SealedCache(tmp_path / "cache", tmp_path / "state")


def test_what_was_written_is_read(cache: SealedCache) -> None:
    assert cache.read("a") is None
    cache.write("a", b"content")
    assert cache.read("a") == b"content"
    cache.write("a", b"")
    assert cache.read("a") == b""


@posix_only
def test_the_key_is_private_and_stays(cache: SealedCache) -> None:
    cache.write("a", b"1")
    key = cache.key_folder / KEY_NAME
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    cache.write("b", b"2")
    assert (len(before), key.read_bytes()) == (32, before)
    assert b"".join(path.read_bytes() for path in cache.folder.iterdir()).count(before) == 0


def test_a_name_is_part_of_the_seal(cache: SealedCache) -> None:
    cache.write("a", b"1")
    (cache.folder / "a").rename(cache.folder / "b")
    assert cache.read("b") is None


def test_another_key_seals_nothing_here(cache: SealedCache, tmp_path: Path) -> None:
    cache.write("a", b"1")
    SealedCache(cache.folder, tmp_path / "other").write("a", b"2")
    assert cache.read("a") is None
    cache.write("a", b"3")
    assert cache.read("a") == b"3"


@posix_only
def test_a_key_that_others_can_read_or_that_is_a_link_seals_nothing(cache: SealedCache, tmp_path: Path) -> None:
    key = cache.key_folder / KEY_NAME
    cache.write("a", b"1")
    first = key.read_bytes()
    key.chmod(0o644)
    assert cache.read("a") is None
    cache.write("a", b"2")
    assert cache.read("a") == b"2"
    assert (stat.S_IMODE(key.stat().st_mode), key.read_bytes() != first) == (0o600, True)
    key.rename(tmp_path / "moved")
    key.symlink_to(tmp_path / "moved")
    assert cache.read("a") is None
    cache.write("a", b"3")
    assert cache.read("a") == b"3"
    assert not key.is_symlink()


@posix_only
@pytest.mark.parametrize("place", ["file", "key"])
def test_a_pipe_in_a_files_place_delays_nothing(cache: SealedCache, place: str) -> None:
    cache.write("a", b"1")
    path = cache.folder / "a" if place == "file" else cache.key_folder / KEY_NAME
    path.unlink()
    os.mkfifo(path, 0o600)
    read: list[bytes | None] = []

    def read_and_mend() -> None:
        read.append(cache.read("a"))
        cache.write("a", b"2")
        read.append(cache.read("a"))

    asked = Thread(target=read_and_mend, daemon=True)
    asked.start()
    asked.join(10)
    assert read == [None, b"2"]


@pytest.mark.parametrize("broken", [b"", b"short", b"x" * 33])
def test_a_broken_key_is_made_anew(cache: SealedCache, broken: bytes) -> None:
    cache.write("a", b"1")
    (cache.key_folder / KEY_NAME).write_bytes(broken)
    assert cache.read("a") is None
    cache.write("a", b"2")
    assert cache.read("a") == b"2"


def test_folders_that_cannot_be_made_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for cache in (
        SealedCache(tmp_path / "cache", tmp_path / "file" / "state"),
        SealedCache(tmp_path / "file", tmp_path / "state"),
    ):
        cache.write("a", b"1")
        assert cache.read("a") is None
