"""Sessions that something could not be added to, noted in a folder while their own store fails.

One folder per session and one file per note, so that whoever has dealt with the notes it saw takes away those and no
other. Every process that shares the folder sees a note at once; looking costs one question to the system.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

# Whoever may add blocks may name sessions: above this a note is refused, and whoever could not leave one remembers it.
_MAX_NOTES = 10_000


@lru_cache(1024)
def mark_of(session: str) -> str:
    """What stands for a session's id where the id itself has no room."""
    return sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Doubts:
    """Notes in this folder, which is made with the first; without a folder there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = "" if folder is None else str(folder)

    def _of(self, session: str) -> str:
        return f"{self._folder}/{mark_of(session)}"

    def note(self, session: str) -> None:
        """OSError where it cannot be left."""
        self.note_mark(mark_of(session))

    def note_mark(self, mark: str) -> None:
        """The same where only this is known of the session."""
        if not self._folder:
            raise OSError("no folder for notes")
        place = f"{self._folder}/{mark}"
        for left in reversed(range(8)):
            try:
                os.makedirs(place, mode=0o700, exist_ok=True)
                if max(len(os.listdir(self._folder)), len(os.listdir(place))) > _MAX_NOTES:
                    raise OSError("too many notes")
                os.close(os.open(f"{place}/{os.urandom(8).hex()}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileNotFoundError:
                # The folder was taken away with the notes before.
                if not left:
                    raise
            else:
                return

    def any(self) -> bool:
        """Whether there may be notes on any session. Asked in the cheapest way, for it is asked before many rulings."""
        return bool(self._folder) and os.access(self._folder, os.F_OK)

    def of(self, session: str) -> list[str]:
        if not self.any():
            return []
        try:
            return os.listdir(self._of(session))
        except FileNotFoundError:
            return []

    def lift(self, session: str, notes: Sequence[str]) -> None:
        place = self._of(session)
        for each in notes:
            with suppress(FileNotFoundError):
                os.unlink(f"{place}/{each}")
        # Not empty: somebody has left another one meanwhile.
        with suppress(OSError):
            os.rmdir(place)
            os.rmdir(self._folder)
