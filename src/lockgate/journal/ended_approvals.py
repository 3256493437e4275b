"""What the journal says has ended: spent and refused questions, revoked grants, texts that are trusted no more.

The stores are files that can be put back as they were, sealed and whole. The journal only grows, and each change is in
it before it takes effect. So where a store says yes, and the journal says that this yes has ended, the journal counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING

from lockgate.core.errors import LockgateError
from lockgate.core.ruling.approvals import ApprovalState, GrantState, name_of_grant

if TYPE_CHECKING:
    from lockgate.journal.journal import Journal

_ENDED = frozenset(
    (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.USED, ApprovalState.VOIDED, GrantState.REVOKED)
)

_OF_GRANTS = frozenset(GrantState)


class EndedApprovals:
    """Reads the journal from where it was left the last time. Threads may share it."""

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal
        self._lock = Lock()
        self._read: dict[int, int] = {}
        self._ended: set[str] = set()

    def __call__(self, id: str) -> bool:
        """Return whether this has ended, a grant by its `name_of_grant`; also where the journal cannot be read."""
        with self._lock:
            try:
                self._read_on()
            except (LockgateError, OSError, ValueError):
                return True
            # A record has the hash of an id that is not of our stores' form.
            return not self._ended.isdisjoint((id, sha256(id.encode("utf-8", "surrogatepass")).hexdigest()))

    def _read_on(self) -> None:
        with self._journal().store.reading() as log:
            for shard in log.shards():
                for at, body in log.bodies(shard.number, self._read.get(shard.number, 0), shard.size):
                    self._read[shard.number] = at + 1
                    if b'"kind":"approval"' in body:
                        record = json.loads(body)
                        # Made again after its end, it holds again.
                        id, state = record["approval"], record["state"]
                        change = self._ended.add if state in _ENDED else self._ended.discard
                        change(name_of_grant(id) if state in _OF_GRANTS else id)
