"""Keys from variables and files, and the other files that a verifier's security rests on."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, printable
from lockgate.runtime.private_files import writable_by_others
from lockgate.settings.files import irregular, read_checked, replaceable_in_folder
from lockgate.settings.keys import is_quoted

MAX_KEY_CHARACTERS = 4096


class VerifierKeys:
    """The keys of one adapter, from variables and files: the default one, and those of single tenants.

    A file is read at each question: a rotated key counts at once, and a removed one is gone.
    """

    __slots__ = ("_default", "_tenants", "instant")

    def __init__(self, default: str | Path = "", tenants: Mapping[str, str | Path] | None = None) -> None:
        self._default = default
        self._tenants = dict(tenants or {})
        # Whether `key` answers from memory: then it needs no thread of its own on an event loop.
        self.instant = not self.files()

    def key(self, tenant: str = "") -> str:
        """Return the tenant's own key, else the default one, else nothing; InvalidConfig for an unusable file."""
        found = self._tenants.get(tenant, self._default)
        return read_key_file(found) if isinstance(found, Path) else found

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(sorted(self._tenants))

    def files(self) -> tuple[Path, ...]:
        """Return the files that hold keys."""
        return tuple(each for each in (self._default, *self._tenants.values()) if isinstance(each, Path))

    def __bool__(self) -> bool:
        return bool(self._default) or bool(self._tenants)

    def __repr__(self) -> str:
        default = "a file" if isinstance(self._default, Path) else "a variable" if self._default else "none"
        return f"VerifierKeys(default from {default}, {len(self._tenants)} for tenants)"

    def __reduce__(self) -> str:
        # A pickled adapter would carry the keys to wherever it is stored.
        raise TypeError("keys cannot be pickled")


def is_key(key: object) -> bool:
    """Return whether this can stand in a header: visible ASCII only, so that no key can begin another header line."""
    return isinstance(key, str) and len(key) <= MAX_KEY_CHARACTERS and re.fullmatch(r"[!-~]+", key) is not None


class GuardedFile(NamedTuple):
    """A kind of file that security rests on: what it is, what a user who writes it could do, and its largest size."""

    name: str
    danger: str
    max_bytes: int

    def read(self, path: Path) -> bytes:
        """Return the content, up to one byte more than allowed; raise InvalidConfig if other users can write it."""
        where = f"{self.name} {printable(path, 200)}"
        try:
            return read_checked(path, self.max_bytes, lambda status: self._check(path, where, status))
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or type(error).__name__
            hint = "is it there, is it mounted, and is this its right name?"
            if isinstance(error, PermissionError):
                hint = "let the user read it that lockgate runs as"
            raise InvalidConfig(f"{where}: cannot be read: {said.lower()}", hint=hint) from None

    def _check(self, path: Path, where: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise InvalidConfig(f"{where}: is {irregular(status)}", hint="name the file itself")
        # The mode and owner of a file on a read-only mount are decided by another system.
        if os.name == "nt" or _read_only(path):
            return
        # Any owner will do: Docker mounts files of the host's users, and the container runs as another user.
        why = writable_by_others(status.st_mode, 0, 0)
        hint = f"let only its owner write it: chmod go-w {printable(path, 200)}"
        if not why and (why := replaceable_in_folder(path)):
            hint = "put it into a folder that only its owner can write"
        if why:
            raise InvalidConfig(f"{where}: {why}: {self.danger}", hint=hint)


_KEY = GuardedFile("key file", "a user who chooses the key can read every question asked with it", 8192)


def read_key_file(path: Path) -> str:
    """Return the key in a file, as Docker and Kubernetes mount them; raise InvalidConfig, which never shows it."""
    where = printable(path, 200)
    data = _KEY.read(path)
    try:
        key = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        key = "\0"
    if not key:
        raise InvalidConfig(f"key file {where}: is empty", hint="put the key into it, and nothing else")
    if is_quoted(key):
        raise InvalidConfig(f"key file {where}: has quotes around the key", hint="remove them")
    if len(data) > _KEY.max_bytes or not is_key(key):
        raise InvalidConfig(
            f"key file {where}: does not hold a key", hint="put the key into it, and nothing else: one line of ASCII"
        )
    return key


def key_file_warning(path: Path) -> tuple[str, str]:
    """Return what is allowed but unwise about a key file, and what to do; two empty texts if nothing is.

    Docker mounts such files. On a read-only mount nothing is said, because no user here could change it.
    """
    try:
        status = os.stat(path)
        if os.name == "nt" or _read_only(path):
            return "", ""
    except (OSError, ValueError):
        return "", ""
    where = printable(path, 200)
    if status.st_uid not in (0, os.geteuid()):
        return (
            "belongs to another user, who can replace the key",
            f"chown it to user {os.geteuid()}, or mount it as :ro",
        )
    if status.st_mode & stat.S_IROTH:
        return "can be read by any user of this machine", f"chmod o-r {where}"
    return "", ""


def _read_only(path: Path) -> bool:
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)
