"""The journal's keys: Ed25519, one per file, which only its owner can read.

A file holds one line, `PRIVATE+KEY+name+id+base64`, as Go's `golang.org/x/mod/sumdb/note` writes it. The library that
computes is loaded where it is used: a check that signs nothing does not wait for it.
"""

from __future__ import annotations

import os
import stat
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

from lockgate.core.errors import LockgateError, quoted
from lockgate.core.notes import COSIGNATURE, ED25519, InvalidNote, PublicKey, public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX = "PRIVATE+KEY+"
# A name has at most 255 characters; what is longer is another file.
_MOST = 2_048
_SEED = 32


class Signer:
    """Signs as one key. The private half stays inside: it is in no text, and in nothing that can be written down."""

    __slots__ = ("_private", "key")

    def __init__(self, key: PublicKey, private: Ed25519PrivateKey) -> None:
        self.key = key
        self._private = private

    def sign(self, message: bytes) -> bytes:
        """64 bytes; signing the same twice gives the same."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"Signer({self.key.vkey!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer cannot be pickled: its key would go along")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature is this key's over this message. Never raises for a bad one."""
    _check_there()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def from_seed(name: str, seed: bytes, *, kind: int = ED25519) -> Signer:
    """The signer whose private half is these 32 bytes."""
    _check_there()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(seed)
    return Signer(public_key(name, private.public_key().public_bytes_raw(), kind), private)


def create(path: Path, name: str, *, kind: int = ED25519) -> Signer:
    """A new key in a new file. When this returns, the file is on the disk; an older file is never touched."""
    seed = os.urandom(_SEED)
    signer = from_seed(name, seed, kind=kind)
    line = f"{_PREFIX}{name}+{signer.key.id.hex()}+{b64encode(bytes((kind,)) + seed).decode('ascii')}\n"
    # Beside its place first: whoever looks sees no key or all of it, and a second process cannot replace the first's.
    made = path.with_name(f"{path.name}.{uuid4().hex}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _private(path.parent, folder=True)
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
            _put(made, path)
        finally:
            made.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except (OSError, ValueError) as error:
        raise _failed(path, "made", error) from error
    return signer


def load(path: Path) -> Signer:
    """The key in this file, unless somebody else could have read or written it."""
    try:
        _private(path.parent, folder=True)
        flags = os.O_RDONLY
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        _private(path, folder=False)
        with os.fdopen(os.open(path, flags), "rb") as file:
            # Again for what was opened: the name may lead elsewhere by now.
            _refuse_unfit(path, os.fstat(file.fileno()), folder=False)
            data = file.read(_MOST + 1)
    except FileNotFoundError:
        raise LockgateError(f"there is no key in {quoted(path, 200)}") from None
    except (OSError, ValueError) as error:
        raise _failed(path, "read", error) from error
    return _parsed(path, data)


def load_or_create(path: Path, name: str) -> Signer:
    """The key in this file, or a new one; several processes that start at once end up with the same."""
    if not os.path.lexists(path):
        try:
            return create(path, name)
        except LockgateError:
            # Somebody was quicker, or it cannot be made: loading tells which.
            if not os.path.lexists(path):
                raise
    return load(path)


def _parsed(path: Path, data: bytes) -> Signer:
    try:
        line = data.decode("utf-8").removesuffix("\n")
        if not line.startswith(_PREFIX) or len(data) > _MOST:
            raise ValueError("no key")
        # The base64 may hold a `+`, the name does not.
        name, id, encoded = line.removeprefix(_PREFIX).split("+", 2)
        secret = b64decode(encoded, validate=True)
        if len(secret) != 1 + _SEED or secret[0] not in (ED25519, COSIGNATURE):
            raise ValueError("no key")
        signer = from_seed(name, secret[1:], kind=secret[0])
        if signer.key.id.hex() != id:
            raise ValueError("another key's id")
    except (ValueError, InvalidNote):
        # Not the cause, and not a word of what stands there.
        raise LockgateError(
            f"the file {quoted(path, 200)} holds no key, or a damaged one",
            hint="bring it back from a copy, or rotate the key",
        ) from None
    return signer


def _private(path: Path, *, folder: bool) -> None:
    _refuse_unfit(path, os.lstat(path), folder=folder)


def _refuse_unfit(path: Path, status: os.stat_result, *, folder: bool) -> None:
    named = quoted(path, 200)
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        raise LockgateError(
            f"{named} is no {'folder' if folder else 'file'}, or a link, where a key should be",
            hint="move it away, or name another place",
        )
    if os.name != "posix":
        return
    if status.st_uid != os.geteuid():
        raise LockgateError(
            f"{named} belongs to another user, who could sign anything with it",
            hint="run this as the user whose journal it is",
        )
    if status.st_mode & (0o022 if folder else 0o077):
        mend = f"chmod go-w {path}" if folder else f"chmod 600 {path}"
        raise LockgateError(
            f"{named} can be {'written' if folder else 'read'} by others, who could sign anything with it",
            hint=f"{mend}, and rotate the key if somebody may have used that",
        )


def _put(made: Path, place: Path) -> None:
    """Give the file its name, unless there is one by that name."""
    try:
        os.link(made, place)
    except OSError as error:
        # On a file system without links there is only renaming, which would replace a key: look first.
        if isinstance(error, FileExistsError) or os.path.lexists(place):
            raise LockgateError(
                f"there is a key in {quoted(place, 200)} already",
                hint="what it signed can be checked only with it: rotate the key instead of replacing the file",
            ) from None
        os.rename(made, place)


def _sync_folder(folder: Path) -> None:
    # Windows cannot open folders, and some file systems cannot sync them; the file itself is synced.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _failed(path: Path, what: str, error: Exception) -> LockgateError:
    said = str(getattr(error, "strerror", None) or error).lower()
    return LockgateError(f"the key {quoted(path, 200)} cannot be {what}: {said}")


def _check_there() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise LockgateError(
            "signing and verifying need the package `cryptography`", hint="pip install 'lockgate[journal]'"
        ) from None
