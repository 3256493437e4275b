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

from lockgate.core.errors import LockgateError
from lockgate.journal import keys
from lockgate.journal.signed_notes import COSIGNATURE

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


def test_of_many_who_start_at_once_one_makes_the_key_that_all_load(path: Path) -> None:
    def make(_: int) -> tuple[bool, bytes]:
        made = True
        try:
            keys.create(path, NAME)
        except LockgateError:
            made = False
        return made, keys.load(path).key

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(make, range(16)))
    assert sum(made for made, _ in found) == 1
    assert len({key for _, key in found}) == 1


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
    for use in (lambda: keys.create(dangling, NAME), lambda: keys.load(dangling)):
        with pytest.raises(LockgateError):
            use()
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
    signer = keys.signer_from_seed(NAME, bytes(32))
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
    with pytest.raises(LockgateError, match="is no folder"):
        keys.create(tmp_path / "file" / "key", NAME)


# RFC 8032, section 7.1: seed, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
            "655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
            "b00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28d"
            "c027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize("vector", RFC_8032)
def test_the_published_signatures_are_made_and_hold(vector: tuple[str, str, str, str]) -> None:
    seed, public, message, signature = map(bytes.fromhex, vector)
    signer = keys.signer_from_seed(NAME, seed)
    assert signer.key.public == public
    assert signer.sign(message) == signature
    assert keys.verify(public, message, signature)
    assert not keys.verify(public, message + b"\0", signature)


def test_a_signature_has_one_spelling() -> None:
    """Its second half counts modulo the group's order: a lax library takes the same number written larger."""
    order = 2**252 + 27742317777372353535851937790883648493
    signer = keys.signer_from_seed(NAME, bytes(32))
    good = signer.sign(b"x")
    larger = int.from_bytes(good[32:], "little") + order
    assert not keys.verify(signer.key.public, b"x", good[:32] + larger.to_bytes(32, "little"))


def test_a_key_that_fits_every_message_fits_none() -> None:
    """Points of small order: with such a key, a made-up signature verifies for one message in eight or more."""
    small = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]
    points = [bytes.fromhex(each[:-2]) + bytes([int(each[-2:], 16) | sign]) for each in small for sign in (0, 0x80)]
    for public in points:
        for point in points:
            assert not any(keys.verify(public, bytes([number]), point + bytes(32)) for number in range(16))


def test_the_library_is_loaded_only_to_sign_or_verify() -> None:
    code = "import sys, lockgate.journal.keys; sys.exit('nacl' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
