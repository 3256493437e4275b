"""Which account asks over a connection, and what it may read."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lockgate.runtime import accounts
from lockgate.runtime.accounts import UNKNOWN_ACCOUNT, Account, account_of_peer, may_read, open_as, own_account

STRANGER = Account(54_321)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says who holds a socket")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that every account can enter: the folders of pytest are for one user."""
    made = Path("/tmp") / f"lockgate-accounts-{os.getpid()}"
    made.mkdir(mode=0o755)
    made.chmod(0o755)
    yield made
    for path in sorted(made.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    made.rmdir()


def connect(address: str) -> tuple[socket.socket, socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family)
    listening.bind((address, 0))
    listening.listen()
    client = socket.socket(family)
    client.connect(listening.getsockname()[:2])
    return listening, client, listening.accept()[0]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_account_at_the_other_end_is_found(address: str) -> None:
    try:
        listening, client, served = connect(address)
    except OSError:
        pytest.skip("this machine has no such address")
    with listening, client, served:
        assert account_of_peer(served.getpeername(), served.getsockname()) == own_account()


def test_an_ipv4_client_of_a_socket_for_both_is_found() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), listening.accept()[0] as served:
            assert served.getpeername()[0] == "::ffff:127.0.0.1"
            assert account_of_peer(served.getpeername(), served.getsockname()) == own_account()


def test_a_socket_that_is_closed_is_held_by_no_account() -> None:
    # The system gives such a socket to root in its list.
    listening, client, served = connect("127.0.0.1")
    with listening, served:
        ends = served.getpeername(), served.getsockname()
        client.close()
        assert account_of_peer(*ends) == UNKNOWN_ACCOUNT


@pytest.mark.parametrize(
    "ends",
    [
        (None, None),
        (("127.0.0.1", 1), None),
        (("not an address", 1), ("127.0.0.1", 2)),
        (("/run/a.sock", None), ("127.0.0.1", 2)),
        (("127.0.0.1", 1), ("127.0.0.1", 2)),
    ],
)
def test_what_is_no_connection_of_this_machine_is_an_unknown_account(ends: tuple[object, object]) -> None:
    assert account_of_peer(*ends) == UNKNOWN_ACCOUNT


def test_where_the_system_has_no_list_the_token_counts_as_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_HAS_TABLES", False)
    assert account_of_peer(None, None).is_own


def test_where_the_list_cannot_be_read_the_account_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_TABLES", ("/proc/net/no such table",))
    listening, client, served = connect("127.0.0.1")
    with listening, client, served:
        assert account_of_peer(served.getpeername(), served.getsockname()) == UNKNOWN_ACCOUNT


def hide_in_folder(place: Path) -> Path:
    (place / "inner").mkdir(mode=0o700)
    (place / "inner" / "x").write_text("secret")
    return place / "inner" / "x"


def hide_by_mode(place: Path) -> Path:
    (place / "x").write_text("secret")
    (place / "x").chmod(0o600)
    return place / "x"


def hide_behind_link(place: Path) -> Path:
    (place / "link").symlink_to(hide_by_mode(place))
    return place / "link"


def hide_behind_folder_link(place: Path) -> Path:
    hide_in_folder(place)
    (place / "link").symlink_to(place / "inner")
    return place / "link" / "x"


@pytest.mark.parametrize("hide", [hide_in_folder, hide_by_mode, hide_behind_link, hide_behind_folder_link])
@pytest.mark.parametrize("account", [STRANGER, UNKNOWN_ACCOUNT], ids=["another", "unknown"])
def test_another_account_reads_only_what_it_may(folder: Path, hide: Callable[[Path], Path], account: Account) -> None:
    path = hide(folder)
    assert may_read(own_account(), str(path))
    assert not may_read(account, str(path))
    with pytest.raises(PermissionError):
        open_as(account, str(path))
    # A file that is not there is refused in the same way, so that its absence says nothing.
    if path.parent != folder:
        with pytest.raises(PermissionError):
            open_as(account, str(path.parent / "not there"))


def test_what_every_account_may_read_is_read(folder: Path) -> None:
    (folder / "open").write_text("hello")
    (folder / "open").chmod(0o644)
    (folder / "link").symlink_to("open")
    for account in (STRANGER, UNKNOWN_ACCOUNT, own_account()):
        for name in ("open", "link"):
            handle = open_as(account, str(folder / name))
            assert os.read(handle, 10) == b"hello"
            os.close(handle)
        assert may_read(account, str(folder))
        assert may_read(account, "/")
        for name in ("open", "not/absolute", "", "\0"):
            assert not may_read(account, name)


def test_what_the_system_says_about_this_process_is_for_its_own_account(folder: Path) -> None:
    (folder / "link").symlink_to("/proc/self/maps")
    for path in ("/proc/self/maps", "/proc/thread-self/status", f"/proc/{os.getpid()}/limits", f"{folder}/link"):
        assert may_read(own_account(), path)
        for account in (STRANGER, UNKNOWN_ACCOUNT):
            assert not may_read(account, path), path
    assert not may_read(STRANGER, "/sys/kernel")
    # A way through there that leads out again is as good as any other.
    (folder / "open").write_text("hello")
    (folder / "open").chmod(0o644)
    assert may_read(STRANGER, f"/proc/self/root{folder}/open")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another account")
def test_the_owner_and_the_group_of_a_file_read_it(folder: Path) -> None:
    import pwd

    user = next((each for each in pwd.getpwall() if each.pw_uid and each.pw_gid), None)
    assert user is not None
    account = Account(user.pw_uid)
    file = folder / "x"
    file.write_text("mine")
    for owner, group, mode, readable in (
        (user.pw_uid, 0, 0o400, True),
        (user.pw_uid, 0, 0o044, False),
        (0, user.pw_gid, 0o040, True),
        (0, user.pw_gid, 0o404, False),
        (0, 0, 0o440, False),
        (0, 0, 0o004, True),
    ):
        os.chown(file, owner, group)
        file.chmod(mode)
        assert may_read(account, str(file)) is readable, (owner, group, oct(mode))
    with suppress(OSError):
        file.chmod(0o600)


def test_a_link_that_is_put_in_place_of_a_folder_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_in_folder(folder)
    (folder / "inner").chmod(0o755)
    (folder / "inner" / "x").chmod(0o644)
    (folder / "swapped").symlink_to("inner")
    # As if the link had come after its path was looked up.
    monkeypatch.setattr(os.path, "realpath", lambda path: str(path))
    assert may_read(STRANGER, str(folder / "inner" / "x"))
    assert not may_read(STRANGER, str(folder / "swapped" / "x"))
    (folder / "file").symlink_to("inner/x")
    assert not may_read(STRANGER, str(folder / "file"))
