"""A key is readable by its owner only, is never replaced, and never shown."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lockgate import keys
from lockgate.core.errors import LockgateError
from lockgate.core.notes import COSIGNATURE

NAME = "example.com/lockgate/2026a"
posix_only = pytest.mark.skipif(os.name != "posix", reason="modes and owners are POSIX's")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.key"


def test_a_key_comes_back_from_its_file(path: Path) -> None:
    made = keys.create(path, NAME)
    found = keys.load(path)
    assert found.key == made.key
    assert found.sign(b"x") == made.sign(b"x")
    assert keys.verify(made.key.public, b"x", made.sign(b"x"))


def test_a_witness_has_another_kind_of_key(path: Path) -> None:
    made = keys.create(path, NAME, kind=COSIGNATURE)
    assert keys.load(path).key == made.key
    assert made.key.kind == COSIGNATURE


def test_the_published_key_is_read(path: Path) -> None:
    """From the documentation of golang.org/x/mod/sumdb/note, with the note that it signs."""
    path.parent.mkdir(mode=0o700)
    path.touch(mode=0o600)
    path.write_text("PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz\n")
    assert keys.load(path).key.vkey == "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"


def test_two_keys_differ(tmp_path: Path) -> None:
    assert keys.create(tmp_path / "a", NAME).key != keys.create(tmp_path / "b", NAME).key


@posix_only
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_can_read_it(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        keys.create(path, NAME)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_key_is_never_replaced(path: Path) -> None:
    keys.create(path, NAME)
    before = path.read_bytes()
    with pytest.raises(LockgateError, match="already"):
        keys.create(path, NAME)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_many_who_start_at_once_have_one_key(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: keys.load_or_create(path, NAME).key, range(16)))
    assert len(set(found)) == 1
    assert keys.load_or_create(path, "another").key == found[0]


def test_no_key_is_said_plainly(path: Path) -> None:
    with pytest.raises(LockgateError, match="there is no key in"):
        keys.load(path)


@posix_only
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o666])
def test_a_key_that_others_can_touch_is_refused(path: Path, mode: int) -> None:
    keys.create(path, NAME)
    path.chmod(mode)
    with pytest.raises(LockgateError, match="by others"):
        keys.load(path)


@posix_only
def test_a_folder_that_others_can_write_is_refused(path: Path) -> None:
    keys.create(path, NAME)
    path.parent.chmod(0o777)
    with pytest.raises(LockgateError, match="can be written by others"):
        keys.load(path)
    with pytest.raises(LockgateError, match="can be written by others"):
        keys.create(path.with_name("other"), NAME)


@posix_only
def test_a_link_a_folder_and_a_pipe_are_no_keys(path: Path) -> None:
    keys.create(path, NAME)
    link = path.with_name("link")
    link.symlink_to(path)
    folder = path.with_name("folder")
    folder.mkdir(mode=0o700)
    pipe = path.with_name("pipe")
    os.mkfifo(pipe, 0o600)
    for other in (link, folder, pipe):
        with pytest.raises(LockgateError, match="is no file, or a link"):
            keys.load(other)
    dangling = path.with_name("dangling")
    dangling.symlink_to(path.with_name("nowhere"))
    with pytest.raises(LockgateError):
        keys.load_or_create(dangling, NAME)
    assert not path.with_name("nowhere").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda line: "",
        lambda line: line[:-2],
        lambda line: line + line,
        lambda line: line.replace("2026a", "2026b"),
        lambda line: line.replace("PRIVATE+KEY+", ""),
        lambda line: line.replace("+AQ", "+BQ") if "+AQ" in line else line[:40],
        lambda line: "x" * 5_000,
        lambda line: "PRIVATE+KEY+a+b",
        lambda line: "PRIVATE+KEY+a b+00000000+" + line.rpartition("+")[2],
    ],
)
def test_a_damaged_key_is_refused_without_a_word_of_it(path: Path, change: object) -> None:
    keys.create(path, NAME)
    line = path.read_text()
    path.write_text(change(line))  # type: ignore[operator]
    with pytest.raises(LockgateError) as caught:
        keys.load(path)
    assert "holds no key, or a damaged one" in str(caught.value)
    assert line.strip().split("+", 4)[-1][:10] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_secret_is_in_no_text(path: Path) -> None:
    made = keys.create(path, NAME)
    secret = path.read_text().strip().split("+", 4)[-1]
    assert repr(made) == f"Signer({made.key.vkey!r})"
    assert secret not in f"{made!r} {made.key} {made.key.vkey}"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(made)


def test_what_is_no_signature_is_just_not_one() -> None:
    signer = keys.from_seed(NAME, bytes(32))
    good = signer.sign(b"x")
    assert keys.verify(signer.key.public, b"x", good)
    assert not keys.verify(signer.key.public, b"y", good)
    for public, signature in (
        (signer.key.public, b""),
        (signer.key.public, good[:-1]),
        (signer.key.public, good + b"\0"),
        (signer.key.public, bytes(64)),
        (bytes(32), good),
        (b"", good),
        (b"\xff" * 32, good),
    ):
        assert not keys.verify(public, b"x", signature)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LockgateError, match="cannot be made"):
        keys.create(tmp_path / "file" / "key", NAME)


def test_the_library_is_loaded_only_to_sign_or_verify() -> None:
    code = "import sys, lockgate.keys; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(LockgateError, match=r"lockgate\[journal\]"):
        keys.verify(bytes(32), b"", b"")
