"""Which account of this machine asks over a TCP connection, and what that account may read.

Linux lists every TCP socket of the machine with the account that holds it. Where the system has no such list, the
account with the token counts as our own.
"""

from __future__ import annotations

import os
import stat
import sys
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_HAS_TABLES = sys.platform.startswith("linux")
# The list is read piece by piece while sockets come and go: an entry can be missed, and rarely twice.
_TRIES = 3
_ESTABLISHED = "01"
_READ, _ENTER = 4, 1
_MADE_UP = ("proc", "sys")
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# Byte for byte, and without waiting for a pipe's other end.
_FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Account(NamedTuple):
    """A user of this machine by its number; UNKNOWN_ACCOUNT may read what every account may."""

    uid: int

    @property
    def is_own(self) -> bool:
        """Whether this process runs as the same user."""
        return self == own_account()


UNKNOWN_ACCOUNT = Account(-1)


def own_account() -> Account:
    """Return the account that this process runs as."""
    return Account(os.geteuid() if hasattr(os, "geteuid") else 0)


def account_of_peer(client: object, server: object) -> Account:
    """Return the account at the other end of a connection, given by the addresses of both ends."""
    if not _HAS_TABLES:
        return own_account()
    try:
        near, far = _spell_address(client), _spell_address(server)
    except (TypeError, ValueError):
        return UNKNOWN_ACCOUNT
    for _ in range(_TRIES):
        for table in _TABLES:
            if (uid := _find_holder(table, near, far)) is not None:
                return Account(uid)
    return UNKNOWN_ACCOUNT


def _spell_address(address: object) -> frozenset[str]:
    """Return how the tables may write an address and port: each four bytes as a number of this machine."""
    if not isinstance(address, tuple | list) or len(address) < 2:
        raise TypeError("not an address")
    ip = ip_address(address[0])
    plain = ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip
    spelled = {plain.packed} if plain.version == 6 else {plain.packed, b"\0" * 10 + b"\xff\xff" + plain.packed}
    return frozenset(
        "".join(f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}" for at in range(0, len(packed), 4))
        + f":{int(address[1]):04X}"
        for packed in spelled
    )


def _find_holder(table: str, near: frozenset[str], far: frozenset[str]) -> int | None:
    try:
        with open(table, encoding="ascii") as lines:
            for line in lines:
                words = line.split()
                # A socket that its program has closed belongs to root in the table: only an open one counts.
                if len(words) > 7 and words[1] in near and words[2] in far and words[3] == _ESTABLISHED:
                    return int(words[7])
    except (OSError, ValueError):
        pass
    return None


def open_as(account: Account, path: str) -> int:
    """Open a file for reading; raise PermissionError where this account could not open it itself.

    For another account every folder of the real path is opened in turn, so that no link can be put in its place after
    it was looked at. Access lists beyond owner, group and others are not read. What the system makes up for the
    process that asks, as below /proc, would be ours and not that account's: it is refused.
    """
    if not os.path.isabs(path):
        raise FileNotFoundError(path)
    if account.is_own:
        return os.open(path, _FILE_FLAGS)
    *folders, name = os.path.realpath(path).split(os.sep)[1:]
    if folders and folders[0] in _MADE_UP:
        raise PermissionError("this account may not read it")
    groups = _groups_of(account)
    handle = os.open("/", _FOLDER_FLAGS)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER_FLAGS, dir_fd=_require(account, groups, handle, _ENTER))
            os.close(handle)
            handle = inner
        place = _require(account, groups, handle, _ENTER)
        file = os.open(name or ".", _FILE_FLAGS | getattr(os, "O_NOFOLLOW", 0), dir_fd=place)
    finally:
        os.close(handle)
    try:
        return _require(account, groups, file, _READ)
    except PermissionError:
        os.close(file)
        raise


def may_read(account: Account, path: str) -> bool:
    """Return whether this account can read a file or list a folder."""
    try:
        os.close(open_as(account, path))
    except (OSError, ValueError):
        return False
    return True


def _require(account: Account, groups: frozenset[int], handle: int, right: int) -> int:
    status = os.fstat(handle)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == account.uid:
        mode >>= 6
    elif status.st_gid in groups:
        mode >>= 3
    if not mode & right:
        raise PermissionError("this account may not read it")
    return handle


def _groups_of(account: Account) -> frozenset[int]:
    import pwd

    try:
        entry = pwd.getpwuid(account.uid)
        return frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid))
    except (KeyError, OSError, OverflowError):
        return frozenset()
