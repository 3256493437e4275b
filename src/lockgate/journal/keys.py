"""The journal's keys: Ed25519, one per file, readable only by its owner.

A file holds one line, `PRIVATE+KEY+name+id+base64`, as Go's `golang.org/x/mod/sumdb/note` writes it. The cryptographic
library is imported where it is used: a command that signs nothing need not load it.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import NoReturn

from lockgate.core.errors import InvalidNote, LockgateError, quoted
from lockgate.journal.signed_notes import COSIGNATURE, ED25519, PublicKey, check_public_key
from lockgate.runtime.private_files import PrivateFileKind

_PREFIX = "PRIVATE+KEY+"
# A name has at most 255 characters; a longer file is no key.
_MOST = 2_048
_SEED = _PUBLIC = 32
_FILE = PrivateFileKind("a key", "sign anything with it", "journal", secret=True)
_SIGNATURE = 64


class Ed25519Signer:
    """Signs with one key. The private half never leaves the object: not by `repr`, and not by pickling."""

    __slots__ = ("_private", "key")

    def __init__(self, key: PublicKey, private: bytes) -> None:
        self.key = key
        self._private = private

    def sign(self, message: bytes) -> bytes:
        """Return the signature of 64 bytes; the same message always gives the same signature."""
        from nacl.bindings import crypto_sign

        return crypto_sign(message, self._private)[:_SIGNATURE]

    def __repr__(self) -> str:
        return f"Signer({self.key.vkey!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer cannot be pickled: its key would go along")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the signature is this key's over this message. Never raise for a bad one.

    The library refuses keys of small order, which would verify every message, and malleable signatures.
    """
    # The library does not check lengths, and would read beyond the end of short input.
    if len(public) != _PUBLIC or len(signature) != _SIGNATURE:
        return False
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    try:
        crypto_sign_open(signature + message, public)
    except BadSignatureError:
        return False
    return True


def signer_from_seed(name: str, seed: bytes, *, kind: int = ED25519) -> Ed25519Signer:
    """Return the signer with these 32 bytes as its private half."""
    from nacl.bindings import crypto_sign_seed_keypair

    public, private = crypto_sign_seed_keypair(seed)
    return Ed25519Signer(check_public_key(name, public, kind), private)


def create(path: Path, name: str, *, kind: int = ED25519) -> Ed25519Signer:
    """Create a key in a new file. When this returns, the file is on the disk. Never touch an existing file."""
    seed = os.urandom(_SEED)
    signer = signer_from_seed(name, seed, kind=kind)
    line = f"{_PREFIX}{name}+{signer.key.id.hex()}+{b64encode(bytes((kind,)) + seed).decode('ascii')}\n"
    try:
        # Never replace a key that another process has just made: its signatures could not be verified any more.
        with _FILE.create_whole(path) as new, open(new, "wb") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise LockgateError(
            f"there is a key in {quoted(path, 200)} already",
            hint="what it signed can be checked only with it: rotate the key instead of replacing the file",
        ) from None
    except (OSError, ValueError) as error:
        raise _key_failed(path, "made", error) from error
    return signer


def load(path: Path) -> Ed25519Signer:
    """Load the key in this file; raise LockgateError if other users could have read or written it."""
    try:
        _FILE.check(path.parent, folder=True)
        flags = os.O_RDONLY
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        _FILE.check(path)
        with os.fdopen(os.open(path, flags), "rb") as file:
            # Check the opened file again: the name may lead elsewhere by now.
            _FILE.check_status(path, os.fstat(file.fileno()))
            data = file.read(_MOST + 1)
    except FileNotFoundError:
        raise LockgateError(f"there is no key in {quoted(path, 200)}") from None
    except (OSError, ValueError) as error:
        raise _key_failed(path, "read", error) from error
    return _parse_key(path, data)


def _parse_key(path: Path, data: bytes) -> Ed25519Signer:
    try:
        line = data.decode("utf-8").removesuffix("\n")
        if not line.startswith(_PREFIX) or len(data) > _MOST:
            raise ValueError("no key")
        # The base64 may hold a `+`, the name does not.
        name, id, encoded = line.removeprefix(_PREFIX).split("+", 2)
        secret = b64decode(encoded, validate=True)
        if len(secret) != 1 + _SEED or secret[0] not in (ED25519, COSIGNATURE):
            raise ValueError("no key")
        signer = signer_from_seed(name, secret[1:], kind=secret[0])
        if signer.key.id.hex() != id:
            raise ValueError("another key's id")
    except (ValueError, InvalidNote):
        # The error must not quote the file, not even through its cause.
        raise LockgateError(
            f"the file {quoted(path, 200)} holds no key, or a damaged one",
            hint="bring it back from a copy, or rotate the key",
        ) from None
    return signer


def _key_failed(path: Path, what: str, error: Exception) -> LockgateError:
    said = str(getattr(error, "strerror", None) or error).lower()
    return LockgateError(f"the key {quoted(path, 200)} cannot be {what}: {said}")
