"""The files that settings are read from: who may have written them, and what they are called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from settings_place import Place

from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Mode
from lockgate.settings.files import MAX_FILE_BYTES
from lockgate.settings.keys import as_toml


def toml(values: dict[str, object], prefix: str = "") -> str:
    return "".join(f"{prefix}{path} = {as_toml(value)}\n" for path, value in values.items())


def test_a_byte_order_mark_and_windows_line_ends_are_read(place: Place) -> None:
    place.write(place.user, "")
    place.user.write_bytes(b'\xef\xbb\xbf[security]\r\nmode = "paranoid"\r\n')
    assert place.load().policy.mode is Mode.PARANOID


def test_a_pyproject_named_by_the_operator_must_have_our_table(place: Place) -> None:
    other = place.write(place.root / "pyproject.toml", "[tool.other]")
    assert place.refusal(explicit=other) == ("pyproject.toml: has no [tool.lockgate] table\nhint: name another file")


def test_a_pyproject_without_our_table_is_not_read(place: Place) -> None:
    for text in ("[tool.other]\nx = 1", "[broken", "[tool.other]\nname = 'for lockgate users'"):
        place.write(place.pyproject, text)
        assert place.load().policy == Policy()


def test_a_broken_pyproject_that_may_hold_our_table_is_an_error(place: Place) -> None:
    place.write(place.pyproject, '[tool.lockgate.security]\nmode = "paranoid"\n[broken')
    assert place.refusal().startswith(f"{Path('repository/pyproject.toml')}:3: not valid TOML: ")


def test_what_cannot_be_read(place: Place) -> None:
    place.named.mkdir()
    hint = "\nhint: give a TOML file; an empty one changes nothing"
    assert place.refusal(explicit=place.named) == f"named.toml: is a directory{hint}"
    place.named.rmdir()
    place.named.write_bytes(b"[security]\nmode = '\xff'")
    place.named.chmod(0o600)
    assert place.refusal(explicit=place.named) == "named.toml:2: not UTF-8\nhint: save the file as UTF-8"
    place.write(place.named, "#" * (MAX_FILE_BYTES + 1))
    assert place.refusal(explicit=place.named) == (
        "named.toml: larger than 1,048,576 bytes\nhint: is it the right file?"
    )
    place.write(place.named, "#" * MAX_FILE_BYTES)
    assert place.load(explicit=place.named).policy == Policy()


posix = pytest.mark.skipif(os.name == "nt", reason="files have no owner and mode there")


@posix
def test_a_file_that_may_be_stricter_is_not_passed_over_because_it_cannot_be_opened(place: Place) -> None:
    place.project.symlink_to(place.project)
    assert place.refusal() == f"{Path('repository/lockgate.toml')}: cannot be read: too many levels of symbolic links"


@posix
def test_a_pipe_does_not_hang_the_gate(place: Place) -> None:
    os.mkfifo(place.project)
    assert place.refusal().startswith(f"{Path('repository/lockgate.toml')}: is not a regular file\n")


@posix
@pytest.mark.parametrize(("mode", "who"), [(0o620, "its group"), (0o602, "any user"), (0o666, "any user")])
@pytest.mark.parametrize("role", ["system", "user", "named"])
def test_an_operators_file_that_others_can_write_is_refused(place: Place, mode: int, who: str, role: str) -> None:
    file = place.write(getattr(place, role), '[security]\nmode = "paranoid"')
    file.chmod(mode)
    explicit = file if role == "named" else None
    name = str(file.relative_to(place.root))
    assert place.refusal(explicit=explicit) == (
        f"{name}: can be written by {who}: a user who can write the policy can switch it off\nhint: chmod go-w {name}"
    )
    file.chmod(0o644)
    assert place.load(explicit=explicit).policy.mode is Mode.PARANOID


@posix
def test_a_project_file_may_be_written_by_any_user_as_it_can_only_tighten(place: Place) -> None:
    place.write(place.project, '[security]\nmode = "paranoid"').chmod(0o666)
    assert place.load().policy.mode is Mode.PARANOID


@posix
def test_an_operators_file_in_a_folder_where_any_user_may_replace_it_is_refused(place: Place) -> None:
    folder = place.root / "open"
    file = place.write(folder / "named.toml", "")
    folder.chmod(0o777)
    assert place.refusal(explicit=file) == (
        f"{Path('open/named.toml')}: lies in a folder where any user may replace it: a user who can write the "
        "policy can switch it off\nhint: chmod o-w open"
    )
    folder.chmod(0o1777)
    assert place.load(explicit=file).policy == Policy()


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(place: Place) -> None:
    os.chown(place.write(place.named, ""), 12345, -1)
    assert place.refusal(explicit=place.named) == (
        "named.toml: belongs to another user: a user who can write the policy can switch it off\n"
        "hint: use a copy of your own, or one of root's"
    )


@posix
def test_the_name_of_a_folder_cannot_move_the_readers_cursor(place: Place) -> None:
    file = place.write(place.root / "a\x1b[2J\nb.toml", "x = 1")
    assert place.refusal(explicit=file).startswith("a�[2J�b.toml:1: `x` is an unknown key\n")


def test_in_a_very_long_file_the_key_is_named_without_its_line(place: Place) -> None:
    place.write(place.named, f"{'#' * 100_000}\nsecurity.mood = 1")
    assert place.refusal(explicit=place.named) == (
        "named.toml: `security.mood` is an unknown key\nhint: did you mean `mode`?"
    )
