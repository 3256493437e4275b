"""Sessions to which a block could not be added, remembered until the store knows that their context is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

# A client can name any session: beyond this number, every session counts as one that lost a block.
_MAX_SESSIONS = 10_000


class LostBlocks:
    """The sessions that lost a block, each with the number of its latest loss. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest: dict[str, int] = {}
        self._count = 0
        self._in_all = False

    def note(self, session: str) -> None:
        """Remember that a block of this session was lost."""
        with self._lock:
            self._count += 1
            if session in self._latest or len(self._latest) < _MAX_SESSIONS:
                self._latest[session] = self._count
            else:
                self._in_all = True

    def latest(self, session: str) -> int:
        """Return the number of the session's latest loss; 0 where there is none."""
        return self._latest.get(session, 0)

    def has_any(self, sessions: Iterable[str]) -> bool:
        """Return whether one of these sessions lost a block, or all sessions count as such."""
        return self._in_all or any(session in self._latest for session in sessions)

    def sessions(self) -> list[str]:
        """Return the sessions that lost a block."""
        with self._lock:
            return list(self._latest)

    def forget(self, session: str, number: int) -> None:
        """Forget the losses of a session up to this number: the store knows of them."""
        with self._lock:
            if self._latest.get(session) == number:
                del self._latest[session]
