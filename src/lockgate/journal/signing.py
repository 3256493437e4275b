"""What only the holder of a log's key can make: signed heads, and the seal over the log's unsigned end."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import Protocol

from lockgate.core.errors import InvalidNote, JournalUnavailable, quoted
from lockgate.journal.log import Head, Shard, log_damaged
from lockgate.journal.merkle import Frontier
from lockgate.journal.signed_notes import Checkpoint, PublicKey, Verify, open_checkpoint, sign_note
from lockgate.runtime.failures import report_failure

# Signed once to derive the key of the seals. A head has three lines, so no head can have this text.
_SEALING = b"lockgate journal seal/1"


class Signer(Protocol):
    """The holder of a log's private key. `sign` may raise anything; the caller checks what it returns.

    Signing the same message twice must give the same signature, as with Ed25519: the key of the seals is derived
    from one.
    """

    @property
    def key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes: ...


def _sign(signer: Signer, message: bytes) -> bytes:
    """Return the signature; raise JournalUnavailable for whatever the signer raises."""
    try:
        signature = signer.sign(message)
    except Exception as error:
        # A signer may be a program or a service. The text of its error may contain a secret.
        report_failure("journal-signer", error)
        raise JournalUnavailable(f"the signer failed: {type(error).__name__}") from error
    if not isinstance(signature, bytes):
        raise JournalUnavailable(f"the signer failed: it returned {type(signature).__name__}")
    return signature


def make_head(shard: Shard, frontier: Frontier, signer: Signer, verify: Verify, now_ms: int) -> Head:
    """Return a signed head of this tree; raise JournalUnavailable if the signer fails or has another key."""
    key = signer.key
    if key.vkey != shard.vkey:
        raise JournalUnavailable(
            f"the log continues under the key {quoted(shard.vkey, 120)}, which is not here",
            hint="its key was rotated: restart this process",
        )
    checkpoint = Checkpoint(key.name, frontier.size, frontier.root())
    note = sign_note(checkpoint.text, key, lambda message: _sign(signer, message)).to_bytes()
    # 5. The new head's signature holds.
    try:
        good = open_checkpoint(note, key, verify) == checkpoint
    except InvalidNote as error:
        raise JournalUnavailable(f"the signer failed: {type(error).__name__}") from error
    if not good:
        raise JournalUnavailable("the signer failed: it signed something else")
    return Head(checkpoint.size, note, now_ms)


class Seal:
    """A keyed hash over a shard's end and over how much of it may be deleted. Only a holder of the key can make it.

    A signed head would show the same, but signing one in every append would cost more than the append. The key is that
    of the newest shard; rotation seals the closed shards anew, so that old keys need not be kept.
    """

    def __init__(self, signer: Signer, verify: Verify) -> None:
        self.signer = signer
        signature = _sign(signer, _SEALING)
        if not verify(signer.key.public, _SEALING, signature):
            raise JournalUnavailable("the signer failed: it signed something else")
        self._key = sha256(signature).digest()

    def seal_shard(self, shard: Shard) -> bytes:
        """Return the seal of this shard."""
        said = b"%d %d %d\n%b%b" % (shard.number, shard.pruned, len(shard.edge), shard.edge, shard.vkey.encode())
        return hmac.digest(self._key, said, "sha256")

    def check_shards(self, shards: Iterable[Shard]) -> None:
        """Raise JournalDamaged if one of the shards has a wrong seal."""
        for shard in shards:
            if not hmac.compare_digest(self.seal_shard(shard), shard.seal):
                raise log_damaged(
                    f"the end of the log {quoted(shard.origin)}, or what may be deleted of it, "
                    "was written without its key"
                )
