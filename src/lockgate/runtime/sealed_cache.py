"""A cache that this user's other programs cannot swap unseen: each file is sealed with a key kept elsewhere.

A cache folder is writable by every program of the user, an agent's too. What is loaded from it decides what the rules
match. So a file counts only if this user owns it and its folder, no other user can write them, and its seal is right:
an HMAC over its name and content. Anything else is no error: the file is made anew.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple

from lockgate.core.errors import LockgateError
from lockgate.runtime.private_files import PrivateFileKind, replace_file

KEY_NAME = "cache.key"
_KEY_SIZE = _SEAL_SIZE = 32
_MAX_READ = 64 * 1024 * 1024
_CACHE_FILE_KIND = PrivateFileKind("a file of the rule cache", "swap the rules", "cache")
_KEY_FILE_KIND = PrivateFileKind("the key of the rule cache", "swap the rules", "cache", secret=True)


class SealedCache(NamedTuple):
    """The files of one folder, sealed with the key in `key_folder`; the key is made when it is first needed.

    With `keys` the first of them seals instead, and a seal of any of them counts.
    """

    folder: Path
    key_folder: Path
    keys: tuple[bytes, ...] = ()

    def read(self, name: str) -> bytes | None:
        """Return what was written under this name, or None if it is missing, damaged or not sealed by this key."""
        try:
            _CACHE_FILE_KIND.check(self.folder, folder=True)
            data = _CACHE_FILE_KIND.read(self.folder / name, _MAX_READ)
            seal, content = data[:_SEAL_SIZE], data[_SEAL_SIZE:]
            seals = [_seal(key, name, content) for key in self.keys or (self._read_key(),)]
            return content if any(hmac.compare_digest(seal, right) for right in seals) else None
        except (OSError, ValueError, LockgateError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep this content under this name; where that is not possible, keep nothing."""
        with suppress(OSError, ValueError, LockgateError):
            seal = _seal(self.keys[0] if self.keys else self._read_or_make_key(), name, content)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.folder / name, seal + content, durable=False)

    def _read_or_make_key(self) -> bytes:
        path = self.key_folder / KEY_NAME
        # Another process that starts at the same time may be first: its key counts.
        with suppress(FileExistsError), _KEY_FILE_KIND.create_whole(path) as new:
            new.write_bytes(token_bytes(_KEY_SIZE))
        try:
            return self._read_key()
        except (OSError, ValueError, LockgateError):
            # A link, a key that other users could read, or half a key: it seals nothing any more.
            _KEY_FILE_KIND.replace(path, token_bytes(_KEY_SIZE))
            return self._read_key()

    def _read_key(self) -> bytes:
        path = self.key_folder / KEY_NAME
        _KEY_FILE_KIND.check(self.key_folder, folder=True)
        key = _KEY_FILE_KIND.read(path, _KEY_SIZE + 1)
        if len(key) != _KEY_SIZE:
            raise ValueError("a key of another size")
        return key


def _seal(key: bytes, name: str, content: bytes) -> bytes:
    # The name counts: the compiled form of other rules, sealed by us, must not stand in for these.
    return hmac.digest(key, len(name).to_bytes(4, "big") + name.encode("utf-8", "backslashreplace") + content, "sha256")
