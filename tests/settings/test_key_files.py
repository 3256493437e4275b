"""Keys in files: what may be one, who could have written it, and when it counts."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.settings.key_files import (
    _read_only,
    key_file_warning,
    read_key_file,
)
from lockgate.settings.verifiers import (
    VerifierSettings,
    verifier_settings_from_env,
)

SECRET = "sk-canary-5d41402abc4b2a76b9719d911017c592"


posix_only = pytest.mark.skipif(os.name != "posix", reason="permissions are the file system's on this platform")


def key_file(folder: Path, text: str | bytes = SECRET, name: str = "key") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(0o600)
    return file


def from_file(file: Path | str) -> VerifierSettings:
    return verifier_settings_from_env({"VERIFIER_ADAPTER": "openai", "OPENAI_API_KEY_FILE": str(file)})


def file_refusal(file: Path | str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        from_file(file)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__context__)
    return str(caught.value)


@pytest.mark.parametrize(
    "text", [SECRET, f"{SECRET}\n", f"{SECRET}\r\n", f"\n {SECRET} \n\n", f"\ufeff{SECRET}\n"], ids=repr
)
def test_a_key_file_may_end_its_line(tmp_path: Path, text: str) -> None:
    assert from_file(key_file(tmp_path, text)).keys.key("") == SECRET


def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    keys = from_file(file).keys
    assert not keys.instant
    assert keys.key("") == SECRET
    before = file.stat()
    file.write_text(SECRET[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert keys.key("") == SECRET[::-1], "the same size and time"
    file.unlink()
    with pytest.raises(InvalidConfig, match="cannot be read"):
        keys.key("")
    key_file(tmp_path, "third\n")
    assert keys.key("") == "third"


def test_a_mounted_secret_is_replaced_as_kubernetes_does_it(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        key_file(tmp_path / f"..{number}", f"key-{number}", "token").chmod(0o644)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "token").symlink_to("..data/token")
    keys = from_file(tmp_path / "token").keys
    assert keys.key("") == "key-1"
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert keys.key("") == "key-2"


def make_missing(file: Path) -> None:
    file.unlink()


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def make_empty(file: Path) -> None:
    file.write_bytes(b" \n")


def make_two_lines(file: Path) -> None:
    file.write_text(f"{SECRET}\n{SECRET}\n")


def make_header(file: Path) -> None:
    file.write_bytes(f"{SECRET}\r\nX-Evil: 1".encode())


def make_binary(file: Path) -> None:
    file.write_bytes(SECRET.encode() + b"\xff\xfe")


def make_huge(file: Path) -> None:
    file.write_bytes(SECRET.encode() * 100_000)


def make_blank_and_huge(file: Path) -> None:
    file.write_bytes(SECRET.encode() + b" " * 100_000)


def make_dangling(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def make_endless(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def make_group_writable(file: Path) -> None:
    file.chmod(0o620)


def make_writable(file: Path) -> None:
    file.chmod(0o602)


def make_replaceable(file: Path) -> None:
    file.parent.chmod(0o777)


MISCHIEF: list[Callable[[Path], None]] = [
    make_missing,
    make_directory,
    make_empty,
    make_two_lines,
    make_header,
    make_binary,
    make_huge,
    make_blank_and_huge,
]


POSIX_MISCHIEF = [make_pipe, make_dangling, make_endless, make_group_writable, make_writable, make_replaceable]


@pytest.mark.parametrize("mischief", [*MISCHIEF, *(pytest.param(each, marks=posix_only) for each in POSIX_MISCHIEF)])
def test_a_file_that_is_no_key_of_ours_is_refused_at_the_start_and_later(
    tmp_path: Path, mischief: Callable[[Path], None]
) -> None:
    file = key_file(tmp_path)
    keys = from_file(file).keys
    mischief(file)
    assert file_refusal(file).startswith(f"key file {file}: ")
    with pytest.raises(InvalidConfig) as caught:
        keys.key("")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("path", ["key", "./key", "~/key"])
def test_a_relative_file_is_refused(path: str) -> None:
    assert "must be an absolute path" in file_refusal(path)


@pytest.mark.parametrize("path", ["/nul\x00byte", "/" + "a" * 5000, "/dev/null", "/dev/zero", "/\x1b[31m"])
def test_an_odd_path_is_refused_in_words(path: str) -> None:
    said = file_refusal(path)
    assert said.startswith("key file /")
    assert said.isprintable() or "\nhint" in said
    assert "\x1b" not in said
    assert len(said) < 400


@posix_only
def test_a_file_that_any_user_can_read_is_worth_a_warning(tmp_path: Path) -> None:
    # Docker mounts its secrets so: refusing would refuse Docker.
    file = key_file(tmp_path)
    assert key_file_warning(file) == ("", "")
    file.chmod(0o444)
    assert from_file(file).keys.key("") == SECRET
    assert key_file_warning(file) == ("can be read by any user of this machine", f"chmod o-r {file}")
    assert key_file_warning(tmp_path / "missing") == ("", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o444, "nothing was changed"


@posix_only
def test_a_file_of_another_user_is_used_and_worth_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker Compose mounts a secret with the owner it has on the host, whichever user the container has."""
    file = key_file(tmp_path)
    if os.geteuid() == 0:
        os.chown(file, 1000, 1000)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    file.chmod(0o644)
    assert from_file(file).keys.key("") == SECRET
    said, hint = key_file_warning(file)
    assert said == "belongs to another user, who can replace the key"
    assert "chown" in hint
    file.chmod(0o664)
    assert "can be written by its group" in file_refusal(file)
    assert f"chmod go-w {file}" in file_refusal(file)


@posix_only
def test_of_a_file_on_a_read_only_mount_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /run/secrets is: no user here can change the file, its mode or its owner."""
    file = key_file(tmp_path)
    file.chmod(0o666)
    assert "can be written by any user" in file_refusal(file)
    monkeypatch.setattr("lockgate.settings.key_files._read_only", lambda path: path == file)
    assert from_file(file).keys.key("") == SECRET
    assert key_file_warning(file) == ("", "")


def test_a_read_only_mount_is_known() -> None:
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        pytest.skip("needs /proc")
    found = {fields[1]: fields[3].split(",") for fields in map(str.split, mounts.read_text().splitlines())}
    for place in ("/sys", "/proc", "/sys/fs/cgroup", "/"):
        if place in found and os.access(place, os.R_OK):
            assert _read_only(Path(place)) == ("ro" in found[place]), place


def test_a_file_that_is_not_there_comes_with_a_hint(tmp_path: Path) -> None:
    said = file_refusal(tmp_path / "gone")
    assert said.endswith("\nhint: is it there, is it mounted, and is this its right name?")


@pytest.mark.parametrize("text", [f'"{SECRET}"', f"'{SECRET}'\n", f'{SECRET}"'])
def test_quotes_in_a_key_file_are_named(tmp_path: Path, text: str) -> None:
    assert "has quotes around the key" in file_refusal(key_file(tmp_path, text))


def test_reading_a_file_leaves_no_handle_open(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc")
    before = len(list(folder.iterdir()))
    for _ in range(50):
        read_key_file(file)
        with pytest.raises(InvalidConfig):
            read_key_file(tmp_path)
    assert len(list(folder.iterdir())) <= before + 2
