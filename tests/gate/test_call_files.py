"""Which files a call runs or loads. What follows from them is in tests/behaviour/test_hole_02_files_of_a_yes.py."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from lockgate.gate import call_files
from lockgate.gate.call_files import digest_files
from lockgate.runtime.accounts import Account, own_account


def names(found: tuple[tuple[str, str], ...]) -> list[str]:
    return [os.path.basename(path) for path, _ in found]


def test_a_digest_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("true")
    found = digest_files(["a.sh"], [], str(tmp_path), own_account())
    assert found == ((f"{tmp_path}/a.sh", f"sha256:{sha256(b'true').hexdigest()}"),)


def test_data_is_no_program(tmp_path: Path) -> None:
    for name in ("a.log", "a.csv", "README.md", "run.sh", "Makefile"):
        (tmp_path / name).write_text("true")
    assert names(digest_files([], ["cat a.log a.csv README.md > out.txt"], str(tmp_path), own_account())) == []
    assert names(digest_files([], ["cat run.sh 2>&1 | grep a"], str(tmp_path), own_account())) == []
    assert names(digest_files([], ["sh -c 'cat run.sh a.log'"], str(tmp_path), own_account())) == ["a.log", "run.sh"]


def test_a_home_is_that_of_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.sh").write_text("true")
    assert digest_files(["~/a.sh"], [], "/", own_account())[0][1].startswith("sha256:")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that another account may not read")
def test_only_what_the_account_may_read_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("true")
    (tmp_path / "a.sh").chmod(0o600)
    assert digest_files(["a.sh"], [], str(tmp_path), Account(12_345))[0][1] == "cannot be read"


def test_a_text_that_names_too_much_is_not_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_files, "MAX_LOOKUPS", 10)
    for n in range(20):
        (tmp_path / f"word{n}").mkdir()
    found = digest_files([], [" ".join(f"word{n}" for n in range(20))], str(tmp_path), own_account())
    assert found == (("further files", "too many to compare"),)
