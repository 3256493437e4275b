"""The bans of the gates that share a file or a store: list them, and lift one before it ends.

Bans are stored under keyed hashes of the clients; the gates themselves may run in other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, TypeVar

from lockgate.abuse_gate.defaults import ban_file_from_settings, shared_store_from_settings
from lockgate.core.errors import LockgateError
from lockgate.core.requests.strikes import LIFTED, SharedRecord, Standing
from lockgate.journal.record import SUBJECT
from lockgate.journal.recorder import JournalWriter, record_assessment

if TYPE_CHECKING:
    from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes
    from lockgate.settings.abuse_gate import AbuseSettings

T = TypeVar("T")


class BanStores:
    """The stores of bans that the settings name: a file, a shared store, or both. Not for an event loop's thread."""

    def __init__(self, settings: AbuseSettings) -> None:
        self._settings = settings
        # The file must exist: a misspelt name would look like an empty list of bans.
        self._file = ban_file_from_settings(settings, make=False)

    def list_bans(self) -> dict[str, SharedRecord]:
        """Return the bans in force by the keyed hash of the client; raise if a store does not answer."""
        found = self._ask_store(lambda store: store.bans()) or {}
        number, more = 0, self._file is not None
        while more and self._file is not None:
            page, number, more = self._file.since(number, time())
            for subject, known in page:
                if known != LIFTED:
                    before = found.get(subject.key, SharedRecord())
                    locked_s = max(known.locked_s, before.locked_s)
                    found[subject.key] = SharedRecord((), locked_s, max(known.quarantined_s, before.quarantined_s))
        return found

    def lift(self, key: str, journal: JournalWriter | None, *, by: str) -> None:
        """Record that this ban is lifted, and by whom; then lift it."""
        if journal is not None:
            # Recorded before it is done: a ban must never vanish without a record of who lifted it.
            digest, subject = sha256(key.encode("ascii")).hexdigest(), key[:SUBJECT]
            more = {"subject": subject}
            record_assessment(journal, digest, "unclear", f"ban-lifted:{subject}", reason="person", by=by, more=more)
        self._ask_store(lambda store: store.lift(key))
        if self._file is not None:
            self._file.lift(key, time())

    def _ask_store(self, ask: Callable[[ValkeyStrikes], Awaitable[T]]) -> T | None:
        # A client of its own for each question: several threads may ask.
        store = shared_store_from_settings(self._settings)
        return None if store is None else asyncio.run(_await_store(store, ask))


async def _await_store(store: ValkeyStrikes, ask: Callable[[ValkeyStrikes], Awaitable[T]]) -> T:
    try:
        return await ask(store)
    except Exception as error:  # noqa: BLE001 - the store's client may raise anything; its text may hold the password
        why = f"the shared store does not answer: {type(error).__name__}"
        raise LockgateError(why, hint="ABUSE_STORE says where it is") from None
    finally:
        await store.close()


def ban_stores_from_settings(settings: AbuseSettings) -> BanStores | None:
    """Return the stores of bans, or None if each gate keeps its bans in its own memory only."""
    return None if settings.store == "memory" and not settings.bans_file else BanStores(settings)


def ban_state(known: SharedRecord) -> tuple[Standing, float]:
    """Return how a banned client stands, and for how many seconds still."""
    if known.quarantined_s > 0:
        return Standing.FULL_QUARANTINE, known.quarantined_s
    return Standing.EXECUTE_LOCKED, known.locked_s
